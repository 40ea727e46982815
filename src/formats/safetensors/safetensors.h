/*
 * safetensors, one file, read-only. The file is mapped, its header is checked completely before anything
 * is handed out, and tensors are pointers into the mapping: opening costs the header, not the data.
 *
 * Layout: 8 bytes little-endian header length, a JSON header {name: {dtype, shape, data_offsets}}, data.
 */
#ifndef MT_FORMATS_SAFETENSORS_H
#define MT_FORMATS_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/files/file.h"
#include "formats/safetensors/strided.h"
#include "metier/buffer.h"
#include "metier/context.h"
#include "metier/tensor.h"

#define MT_SAFETENSORS_MAX_RANK     8
#define MT_SAFETENSORS_HEADER_BYTES 100000000 // the reference library's limit too

// One line per type: enumerator, name in the file, bytes of an element.
#define MT_SAFETENSORS_DTYPE_LIST(X)                                                                         \
    X(MT_SAFETENSORS_F64, "F64", 8)                                                                          \
    X(MT_SAFETENSORS_F32, "F32", 4)                                                                          \
    X(MT_SAFETENSORS_F16, "F16", 2)                                                                          \
    X(MT_SAFETENSORS_BF16, "BF16", 2)                                                                        \
    X(MT_SAFETENSORS_I64, "I64", 8)                                                                          \
    X(MT_SAFETENSORS_I32, "I32", 4)                                                                          \
    X(MT_SAFETENSORS_I16, "I16", 2)                                                                          \
    X(MT_SAFETENSORS_I8, "I8", 1)                                                                            \
    X(MT_SAFETENSORS_U8, "U8", 1)                                                                            \
    X(MT_SAFETENSORS_F8_E4M3, "F8_E4M3", 1)                                                                  \
    X(MT_SAFETENSORS_F8_E8M0, "F8_E8M0", 1)                                                                  \
    X(MT_SAFETENSORS_BOOL, "BOOL", 1)

enum mt_safetensors_dtype {
#define MT_SAFETENSORS_DTYPE_ENUM(name, text, bytes) name,
    MT_SAFETENSORS_DTYPE_LIST(MT_SAFETENSORS_DTYPE_ENUM)
#undef MT_SAFETENSORS_DTYPE_ENUM
        MT_SAFETENSORS_DTYPE_COUNT
};

struct mt_safetensors_tensor {
    const char *name; // owned by the file
    enum mt_safetensors_dtype dtype;
    int rank; // 0: a single number
    int64_t dim[MT_SAFETENSORS_MAX_RANK];
    uint64_t offset;         // from the start of the data
    uint64_t bytes;          // product of the dimensions times the bytes of the type
    const void *data;        // into the mapping; any alignment
    struct mt_strided apart; // of a matrix inside a tensor of the file (arch/published/stacks.h)
};

struct mt_safetensors_metadata {
    const char *key;
    const char *value;
};

struct mt_safetensors {
    struct mt_context *ctx;         // borrowed; outlives the file
    struct mt_arena arena;          // names, the two arrays, the path
    struct mt_file_mapping mapping; // zeroed when the bytes are borrowed
    const char *path;
    struct mt_safetensors_tensor *tensors; // sorted by name
    size_t tensor_count;
    struct mt_safetensors_metadata *metadata; // in the order of the file
    size_t metadata_count;
    uint64_t data_bytes;
};

/* "F32", ...; never NULL. */
const char *mt_safetensors_dtype_name(enum mt_safetensors_dtype dtype);

/* Bytes of one element. */
size_t mt_safetensors_dtype_bytes(enum mt_safetensors_dtype dtype);

/* "[8, 64]", for messages. */
struct mt_safetensors_shape {
    char text[192];
};
struct mt_safetensors_shape mt_safetensors_shape(int rank, const int64_t *dim);

/* The file's type for one of ours. */
enum mt_safetensors_dtype mt_safetensors_dtype_of(enum mt_dtype dtype);

/*
 * The bytes of a tensor of this shape, refusing a negative dimension, a rank above the limit and any
 * overflow. `file` and `name` are for the message.
 */
enum mt_status mt_safetensors_size(struct mt_context *ctx, const char *file, const char *name,
                                   enum mt_safetensors_dtype dtype, int rank, const int64_t *dim,
                                   uint64_t *bytes);

/* Maps and checks a file. The caller closes it; after a failure there is nothing to close. */
enum mt_status mt_safetensors_open(struct mt_context *ctx, const char *path, struct mt_safetensors *file);

/* The same over bytes somebody else owns, which must outlive the file; `path` only names them. */
enum mt_status mt_safetensors_open_memory(struct mt_context *ctx, const char *path, const void *data,
                                          size_t bytes, struct mt_safetensors *file);

/* Unmaps and frees; a zeroed struct is allowed. Tensors of the file are gone afterwards. */
void mt_safetensors_close(struct mt_safetensors *file);

/* The tensor of that name, or NULL. */
const struct mt_safetensors_tensor *mt_safetensors_find(const struct mt_safetensors *file, const char *name);

/* Elements first … first+count-1 of the tensor, into memory of that size. */
void mt_safetensors_read(const struct mt_safetensors_tensor *tensor, int64_t first, int64_t count,
                         void *target);

/* Bytes from the tensor's first element to behind its last. */
size_t mt_safetensors_extent(const struct mt_safetensors_tensor *tensor);

/* True when the elements follow each other in the file. */
static inline bool mt_safetensors_whole(const struct mt_safetensors_tensor *tensor)
{
    return tensor->apart.columns == 0;
}

/*
 * A tensor as metier/tensor.h sees it: into the mapping where the address fits the type, otherwise a copy
 * in *copy. The view is read-only whatever its pointer says. A rank of 0 becomes [1]. Refuses types and
 * ranks struct mt_tensor does not have. The caller releases *copy (always allowed) after the last use.
 */
enum mt_status mt_safetensors_view(struct mt_context *ctx, const struct mt_safetensors_tensor *info,
                                   struct mt_tensor *view, struct mt_buffer *copy);

#endif
