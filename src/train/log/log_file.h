/*
 * A file that grows record by record: each record is one write(), and one that cannot be written whole is
 * taken back, so that the file always ends where a record does.
 */
#ifndef MT_TRAIN_LOG_FILE_H
#define MT_TRAIN_LOG_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "metier/context.h"

struct mt_log_file {
    struct mt_context *ctx; // borrowed; NULL: not open
    char *path;             // owned, for messages
    int descriptor;
    uint64_t bytes; // how long the file is
    bool new;       // its name may not have reached the disk yet
};

/*
 * Opens a caller-owned file "DIRECTORY/NAME"; what is there stays. `fresh`: it must not exist yet (*exists
 * says that it does, which is no failure: the file is then not open). Links and what is not a regular file
 * are refused.
 */
enum mt_status mt_log_file_open(struct mt_context *ctx, const char *directory, const char *name, bool fresh,
                                bool *exists, struct mt_log_file *file);

/* Cuts the file to so many bytes; a shorter one stays as it is. */
enum mt_status mt_log_file_cut(struct mt_log_file *file, uint64_t bytes);

/* Cuts after the last newline, if the file does not end with one. */
enum mt_status mt_log_file_cut_line(struct mt_log_file *file);

/* Reads what stands at `at`, at most so many bytes; *count says how many. */
enum mt_status mt_log_file_read(const struct mt_log_file *file, uint64_t at, void *buffer, size_t bytes,
                                size_t *count);

enum mt_status mt_log_file_append(struct mt_log_file *file, const void *record, size_t bytes);

/* Brings the file to disk, with its name. */
enum mt_status mt_log_file_sync(struct mt_log_file *file);

/* A closed or zeroed file is allowed. */
void mt_log_file_close(struct mt_log_file *file);

#endif
