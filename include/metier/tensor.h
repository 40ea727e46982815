/*
 * Tensors: typed, strided views of memory somebody else owns.
 *
 * A zeroed struct (rank 0) means "absent": optional operands are left out by not naming them.
 * Strides are in elements; the last dimension is always contiguous (stride 1), so a row can be handed
 * to any kernel as a plain pointer. Functions here look at their arguments alone: any thread may call them.
 */
#ifndef METIER_TENSOR_H
#define METIER_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "metier/export.h"

MT_PUBLIC_BEGIN

#define MT_MAX_RANK 4

// One line per type: enumerator, name (as messages print it), bytes.
#define MT_DTYPE_LIST(X)                                                                                     \
    X(MT_F32, "f32", 4)                                                                                      \
    X(MT_BF16, "bf16", 2)                                                                                    \
    X(MT_F16, "f16", 2)                                                                                      \
    X(MT_I32, "i32", 4)                                                                                      \
    X(MT_F64, "f64", 8)                                                                                      \
    X(MT_U8, "u8", 1)

enum mt_dtype {
#define MT_DTYPE_ENUM(name, text, bytes) name,
    MT_DTYPE_LIST(MT_DTYPE_ENUM)
#undef MT_DTYPE_ENUM
        MT_DTYPE_COUNT
};

struct mt_tensor {
    void *data; // borrowed; may be NULL when there are no elements
    enum mt_dtype dtype;
    int rank;                    // 0: absent
    int64_t dim[MT_MAX_RANK];    // outermost first
    int64_t stride[MT_MAX_RANK]; // elements between neighbours along a dimension; the last is 1
};

/* "f32", "bf16", ...; never NULL. */
const char *mt_dtype_name(enum mt_dtype dtype);

/* Bytes of one element; 0 for a type that does not exist. */
size_t mt_dtype_bytes(enum mt_dtype dtype);

/* True for f32, bf16, f16 and f64. */
bool mt_dtype_is_float(enum mt_dtype dtype);

/* Contiguous views. */
struct mt_tensor mt_tensor_1d(void *data, enum mt_dtype dtype, int64_t d0);
struct mt_tensor mt_tensor_2d(void *data, enum mt_dtype dtype, int64_t d0, int64_t d1);
struct mt_tensor mt_tensor_3d(void *data, enum mt_dtype dtype, int64_t d0, int64_t d1, int64_t d2);

/* Rows [start, start+count) along the outermost dimension. */
struct mt_tensor mt_tensor_rows(const struct mt_tensor *tensor, int64_t start, int64_t count);

/* Columns [start, start+count) along the innermost dimension: a strided view. */
struct mt_tensor mt_tensor_columns(const struct mt_tensor *tensor, int64_t start, int64_t count);

/* Head `head` of [T,H,W], as rows [T,W]: a strided view. */
struct mt_tensor mt_tensor_head(const struct mt_tensor *tensor, int64_t head);

/* The sub-tensor at `index` of the outermost dimension (rank one less). */
struct mt_tensor mt_tensor_at(const struct mt_tensor *tensor, int64_t index);

/* False for a zeroed struct. */
static inline bool mt_tensor_present(const struct mt_tensor *tensor)
{
    return tensor->rank != 0;
}

/* Number of elements. */
int64_t mt_tensor_count(const struct mt_tensor *tensor);

/* True when the elements lie in memory without gaps, in order. */
bool mt_tensor_is_contiguous(const struct mt_tensor *tensor);

/* True when both have the same rank and dimensions (types and strides may differ). */
bool mt_tensor_same_shape(const struct mt_tensor *a, const struct mt_tensor *b);

/* Writes "f32 [4, 128]" (or "absent") into `text`, and returns it. */
const char *mt_tensor_describe(const struct mt_tensor *tensor, char *text, size_t text_bytes);

MT_PUBLIC_END

#endif
