/*
 * safetensors, one file, written as a stream: names, types and shapes first, then the data in the same
 * order, in pieces of any size. The file appears under its name only when it is complete.
 *
 * Tensors lie in the order declared, without padding between them, as the format demands; declare wide
 * types before narrow ones and every tensor is aligned.
 */
#ifndef MT_FORMATS_SAFETENSORS_WRITER_H
#define MT_FORMATS_SAFETENSORS_WRITER_H

#include <stdbool.h>

#include "formats/safetensors/safetensors.h"

struct mt_safetensors_spec {
    const char *name;
    enum mt_safetensors_dtype dtype;
    int rank;
    int64_t dim[MT_SAFETENSORS_MAX_RANK];
};

struct mt_safetensors_writer {
    struct mt_context *ctx;                  // borrowed
    const char *path;                        // borrowed
    const struct mt_safetensors_spec *specs; // borrowed
    size_t spec_count;
    size_t current;         // the tensor being written; spec_count when all are complete
    uint64_t current_bytes; // its size
    uint64_t current_done;  // bytes of it already written
    struct mt_file_writer out;
    bool open;
};

/*
 * Opens a caller-owned writer. `path`, `specs` and their names are borrowed until finish or abandon; the
 * metadata is only read here. Refuses duplicate names, names that are not UTF-8, "__metadata__", and
 * shapes that overflow.
 */
enum mt_status mt_safetensors_writer_open(struct mt_context *ctx, const char *path,
                                          const struct mt_safetensors_spec *specs, size_t spec_count,
                                          const struct mt_safetensors_metadata *metadata,
                                          size_t metadata_count, struct mt_safetensors_writer *writer);

/* The same; every byte of the file is also added to `digest`, which is borrowed until finish or abandon. */
enum mt_status mt_safetensors_writer_open_digest(struct mt_context *ctx, const char *path,
                                                 const struct mt_safetensors_spec *specs, size_t spec_count,
                                                 const struct mt_safetensors_metadata *metadata,
                                                 size_t metadata_count, struct mt_digest *digest,
                                                 struct mt_safetensors_writer *writer);

/*
 * Appends a piece of the current tensor; a piece never reaches into the next one. After a failure the file
 * is gone and the writer closed.
 */
enum mt_status mt_safetensors_writer_write(struct mt_safetensors_writer *writer, const void *data,
                                           size_t bytes);

/* Puts the file in place; refuses (and removes it) when data is missing. Closes the writer. */
enum mt_status mt_safetensors_writer_finish(struct mt_safetensors_writer *writer);

/* Removes what was written; a closed or zeroed writer is allowed. */
void mt_safetensors_writer_abandon(struct mt_safetensors_writer *writer);

/* Refuses a list in which a name occurs twice. `path` is for the message. */
enum mt_status mt_safetensors_check_names(struct mt_context *ctx, const char *path,
                                          const struct mt_safetensors_spec *specs, size_t spec_count);

#endif
