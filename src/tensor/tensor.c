/* Tensor views: construction, slicing, description. */
#include "metier/tensor.h"

#include <assert.h>
#include <stdio.h>

const char *mt_dtype_name(enum mt_dtype dtype)
{
    static const char *const names[] = {
#define MT_DTYPE_NAME(name, text, bytes) [name] = (text),
        MT_DTYPE_LIST(MT_DTYPE_NAME)
#undef MT_DTYPE_NAME
    };
    if ((unsigned)dtype >= MT_DTYPE_COUNT) return "unknown type";
    return names[dtype];
}

size_t mt_dtype_bytes(enum mt_dtype dtype)
{
    static const size_t sizes[] = {
#define MT_DTYPE_SIZE(name, text, bytes) [name] = (bytes),
        MT_DTYPE_LIST(MT_DTYPE_SIZE)
#undef MT_DTYPE_SIZE
    };
    return (unsigned)dtype < MT_DTYPE_COUNT ? sizes[dtype] : 0;
}

bool mt_dtype_is_float(enum mt_dtype dtype)
{
    return dtype == MT_F32 || dtype == MT_BF16 || dtype == MT_F16 || dtype == MT_F64;
}

struct mt_tensor mt_tensor_1d(void *data, enum mt_dtype dtype, int64_t d0)
{
    return (struct mt_tensor){.data = data, .dtype = dtype, .rank = 1, .dim = {d0}, .stride = {1}};
}

struct mt_tensor mt_tensor_2d(void *data, enum mt_dtype dtype, int64_t d0, int64_t d1)
{
    return (struct mt_tensor){.data = data, .dtype = dtype, .rank = 2, .dim = {d0, d1}, .stride = {d1, 1}};
}

struct mt_tensor mt_tensor_3d(void *data, enum mt_dtype dtype, int64_t d0, int64_t d1, int64_t d2)
{
    return (struct mt_tensor){
        .data = data, .dtype = dtype, .rank = 3, .dim = {d0, d1, d2}, .stride = {d1 * d2, d2, 1}};
}

static void *offset(const struct mt_tensor *tensor, int64_t elements)
{
    if (tensor->data == NULL) return NULL;
    return (unsigned char *)tensor->data + elements * (int64_t)mt_dtype_bytes(tensor->dtype);
}

struct mt_tensor mt_tensor_rows(const struct mt_tensor *tensor, int64_t start, int64_t count)
{
    assert(tensor->rank >= 1 && start >= 0 && count >= 0 && start + count <= tensor->dim[0]);
    struct mt_tensor view = *tensor;
    view.data = offset(tensor, start * tensor->stride[0]);
    view.dim[0] = count;
    return view;
}

struct mt_tensor mt_tensor_columns(const struct mt_tensor *tensor, int64_t start, int64_t count)
{
    int last = tensor->rank - 1;
    assert(last >= 0 && start >= 0 && count >= 0 && start + count <= tensor->dim[last]);
    struct mt_tensor view = *tensor;
    view.data = offset(tensor, start);
    view.dim[last] = count;
    return view;
}

struct mt_tensor mt_tensor_head(const struct mt_tensor *tensor, int64_t head)
{
    struct mt_tensor rows = *tensor;
    assert(tensor->rank == 3 && head >= 0 && head < tensor->dim[1]);
    rows.rank = 2;
    rows.dim[1] = tensor->dim[2];
    rows.stride[1] = tensor->stride[2];
    rows.dim[2] = 0;
    rows.stride[2] = 0;
    rows.data = offset(tensor, head * tensor->stride[1]);
    return rows;
}

struct mt_tensor mt_tensor_at(const struct mt_tensor *tensor, int64_t index)
{
    assert(tensor->rank >= 2 && index >= 0 && index < tensor->dim[0]);
    struct mt_tensor view = {.data = offset(tensor, index * tensor->stride[0]), .dtype = tensor->dtype};
    view.rank = tensor->rank - 1;
    for (int axis = 0; axis < view.rank; axis++) {
        view.dim[axis] = tensor->dim[axis + 1];
        view.stride[axis] = tensor->stride[axis + 1];
    }
    return view;
}

int64_t mt_tensor_count(const struct mt_tensor *tensor)
{
    if (tensor->rank == 0) return 0;
    int64_t count = 1;
    for (int axis = 0; axis < tensor->rank; axis++) count *= tensor->dim[axis];
    return count;
}

bool mt_tensor_is_contiguous(const struct mt_tensor *tensor)
{
    int64_t expected = 1;
    for (int axis = tensor->rank - 1; axis >= 0; axis--) {
        // A dimension of one element has no neighbours: its stride never matters.
        if (tensor->dim[axis] != 1 && tensor->stride[axis] != expected) return false;
        expected *= tensor->dim[axis];
    }
    return true;
}

bool mt_tensor_same_shape(const struct mt_tensor *a, const struct mt_tensor *b)
{
    if (a->rank != b->rank) return false;
    for (int axis = 0; axis < a->rank; axis++) {
        if (a->dim[axis] != b->dim[axis]) return false;
    }
    return true;
}

const char *mt_tensor_describe(const struct mt_tensor *tensor, char *text, size_t text_bytes)
{
    if (text_bytes == 0) return "";
    if (tensor->rank == 0) {
        (void)snprintf(text, text_bytes, "absent");
        return text;
    }
    int used = snprintf(text, text_bytes, "%s [", mt_dtype_name(tensor->dtype));
    for (int axis = 0; axis < tensor->rank && used >= 0 && (size_t)used < text_bytes; axis++) {
        int more = snprintf(text + used, text_bytes - (size_t)used, "%s%lld", axis > 0 ? ", " : "",
                            (long long)tensor->dim[axis]);
        if (more < 0) break;
        used += more;
    }
    if (used >= 0 && (size_t)used < text_bytes) {
        (void)snprintf(text + used, text_bytes - (size_t)used, "]");
    }
    return text;
}
