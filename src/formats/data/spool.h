/*
 * A temporary file in $TMPDIR (or /tmp) that loses its name before anybody else could use it: where the text
 * of a file goes that is packed, columnar or in several pieces, to be mapped from there.
 */
#ifndef MT_FORMATS_SPOOL_H
#define MT_FORMATS_SPOOL_H

#include "base/files/file.h"

struct mt_spool {
    struct mt_context *ctx; // borrowed
    const char *path;       // borrowed; the file whose text it is, for messages
    char *name;             // owned
    int descriptor;
    uint64_t written;
    uint64_t most;
};

/* Creates the file in `folder`, NULL for the usual one; most: the bytes it may get. Whatever the outcome, the
 * caller closes. */
enum mt_status mt_spool_open(struct mt_context *ctx, const char *path, const char *folder, uint64_t most,
                             struct mt_spool *spool);

enum mt_status mt_spool_write(struct mt_spool *spool, const void *data, uint64_t bytes);

/* Maps what was written; the caller unmaps, at any time. */
enum mt_status mt_spool_map(struct mt_spool *spool, struct mt_file_mapping *mapping);

void mt_spool_close(struct mt_spool *spool);

#endif
