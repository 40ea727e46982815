/*
 * What the files a run reads hold, by content: so that a run that goes on notices that one of them has become
 * another, whatever its length and time say. A list of paths and checksums is made of the files, noted as
 * JSON
 *
 *     {"format": "metier inputs", "version": 1, "files": {"PATH": "32 hexadecimal digits", "PATH": null,
 * ...}}
 *
 * when the run begins, and compared when it goes on; null: there is no such file. Paths stand there as they
 * were given.
 *
 * Files are summed whole, but for weights: of a safetensors file the length, the header, every tensor of up
 * to 1 MiB, and of each larger one 4 KiB out of every MiB, at places that depend on nothing but their
 * numbers. That is less than half a percent of a large model, finds weights that were trained or converted,
 * and misses a change that touches none of these places.
 */
#ifndef MT_FORMATS_FINGERPRINT_H
#define MT_FORMATS_FINGERPRINT_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/files/digest.h"
#include "base/log.h"
#include "formats/safetensors/checkpoint.h"

#define MT_FINGERPRINT_FILE "inputs.json"

struct mt_fingerprint_entry {
    const char *path;          // in the arena
    struct mt_digest_text sum; // "": there is no such file
    bool free;                 // may change: that is told, not refused
};

struct mt_fingerprint {
    struct mt_arena arena;
    struct mt_fingerprint_entry *entries; // in the order they were added, each path once
    size_t count, capacity;
};

void mt_fingerprint_init(struct mt_context *ctx, struct mt_fingerprint *print);
void mt_fingerprint_release(struct mt_fingerprint *print); // a zeroed struct is allowed

/* Adds a file, whole. One that is not there, or cannot be read, is noted as that; one that was added stays as
 * it is. */
enum mt_status mt_fingerprint_add(struct mt_fingerprint *print, const char *path);

/* The same of a file that may change. */
enum mt_status mt_fingerprint_add_free(struct mt_fingerprint *print, const char *path);

/* The same of a file in a folder. */
enum mt_status mt_fingerprint_add_named(struct mt_fingerprint *print, const char *folder, const char *name);

/* A safetensors file in a folder, by header and samples. */
enum mt_status mt_fingerprint_add_weights(struct mt_fingerprint *print, const char *folder, const char *name);

/* The weights of a model's folder: model.safetensors, or the shards its index names. */
enum mt_status mt_fingerprint_add_checkpoint(struct mt_fingerprint *print, const char *folder);

/* Adds the weights of an open checkpoint to a digest, by headers and samples. */
void mt_fingerprint_sum_checkpoint(const struct mt_checkpoint *checkpoint, struct mt_digest *digest);

/* How a file that has changed is told of: "PATH: is not what it was when SINCE: CURE". */
struct mt_fingerprint_words {
    const char *since; // "this run began"
    const char *cure;  // "put it back to go on, or ..."
};

/*
 * Compares with what the file at `path` notes; *known is false where there is no such file. Refused
 * (MT_ERR_USAGE) are files whose content has changed, that are gone, or that were not there; with `ended`
 * those that are gone are passed over, because nobody is going to read them. Paths that only one side has are
 * no difference; those that are only in the file are added to the list, so that what is then written has all.
 */
enum mt_status mt_fingerprint_compare(struct mt_fingerprint *print, const char *path,
                                      const struct mt_fingerprint_words *words, bool ended,
                                      const struct mt_log *log, bool *known);

/* Writes the list, atomically. */
enum mt_status mt_fingerprint_write(const struct mt_fingerprint *print, const char *path);

#endif
