/*
 * GGUF version 3, llama.cpp's files, written as a stream: keys, names and shapes first, then the data in the
 * same order, in pieces of any size. Every tensor is F32. The file appears under its name only when it is
 * complete.
 */
#ifndef MT_FORMATS_GGUF_WRITER_H
#define MT_FORMATS_GGUF_WRITER_H

#include <stdint.h>

#include "base/files/file.h"

#define MT_GGUF_MAX_RANK 4
#define MT_GGUF_MAX_NAME 63 // bytes of a tensor's name that llama.cpp reads

struct mt_gguf_spec {
    const char *name;
    int rank;
    int64_t dim[MT_GGUF_MAX_RANK]; // the innermost first, as ggml counts
};

struct mt_gguf_key {
    const char *name;
    const char *text; // NULL: the value is `number`
    float number;
};

struct mt_gguf_writer {
    struct mt_context *ctx;           // borrowed
    const char *path;                 // borrowed
    const struct mt_gguf_spec *specs; // borrowed
    size_t spec_count;
    size_t current; // the tensor being written
    size_t done;    // numbers of it already written
    struct mt_file_writer out;
};

/*
 * Opens a caller-owned writer. `path`, `specs` and their names are borrowed until finish or abandon, the keys
 * are only read here.
 */
enum mt_status mt_gguf_writer_open(struct mt_context *ctx, const char *path, const struct mt_gguf_key *keys,
                                   size_t key_count, const struct mt_gguf_spec *specs, size_t spec_count,
                                   struct mt_gguf_writer *writer);

/* Appends numbers of the current tensor; a piece never reaches into the next one. */
enum mt_status mt_gguf_writer_write(struct mt_gguf_writer *writer, const float *values, size_t count);

/* Puts the file in place; refuses (and removes it) when data is missing. Closes the writer. */
enum mt_status mt_gguf_writer_finish(struct mt_gguf_writer *writer);

/* Removes what was written; a closed or zeroed writer is allowed. */
void mt_gguf_writer_abandon(struct mt_gguf_writer *writer);

/* Numbers a tensor has. */
size_t mt_gguf_count(const struct mt_gguf_spec *spec);

#endif
