/* The pieces checks are made of, and the table from op to check. */
#include "ops/check/check.h"

#include <inttypes.h>

static bool type_matches(enum mt_dtype dtype, enum mt_check_type type)
{
    switch (type) {
    case MT_CHECK_FLOAT: return mt_dtype_is_float(dtype);
    case MT_CHECK_STAT: return dtype == MT_F32 || dtype == MT_F64;
    case MT_CHECK_INDEX: return dtype == MT_I32;
    case MT_CHECK_F64: return dtype == MT_F64;
    }
    return false;
}

static const char *type_text(enum mt_check_type type)
{
    switch (type) {
    case MT_CHECK_FLOAT: return "a float type";
    case MT_CHECK_STAT: return "f32";
    case MT_CHECK_INDEX: return "i32";
    case MT_CHECK_F64: return "f64";
    }
    return "?";
}

/* True when every element lies in the device's memory, or nobody can tell. */
static bool is_held(const struct mt_device *device, const struct mt_tensor *tensor)
{
    if (device->holds == NULL || device->planning || mt_tensor_count(tensor) == 0) return true;
    int64_t last = 0;
    for (int axis = 0; axis < tensor->rank; axis++) last += (tensor->dim[axis] - 1) * tensor->stride[axis];
    return device->holds(device, tensor->data, (size_t)(last + 1) * mt_dtype_bytes(tensor->dtype));
}

/* Three dimensions of which the first lies inside the second: heads of tokens, seen as tokens of heads. */
static bool is_swapped(const struct mt_tensor *tensor)
{
    return tensor->rank == 3 && tensor->stride[0] >= tensor->dim[2] &&
           tensor->stride[1] >= tensor->dim[0] * tensor->stride[0];
}

static enum mt_status check_memory(const struct mt_device *device, const char *name,
                                   const struct mt_tensor *tensor)
{
    struct mt_context *ctx = device->ctx;
    char text[96];
    if (tensor->data == NULL && mt_tensor_count(tensor) > 0) {
        return mt_fail(ctx, MT_ERR_USAGE, "%s, %s, has no memory", name,
                       mt_tensor_describe(tensor, text, sizeof text));
    }
    int last = tensor->rank - 1;
    if (tensor->dim[last] > 1 && tensor->stride[last] != 1) {
        return mt_fail(ctx, MT_ERR_SHAPE, "%s: the last dimension has stride %" PRId64 ", expected 1", name,
                       tensor->stride[last]);
    }
    for (int axis = 0; axis < last && !is_swapped(tensor); axis++) {
        int64_t inner = tensor->dim[axis + 1] * tensor->stride[axis + 1];
        if (tensor->dim[axis] > 1 && tensor->stride[axis] < inner) {
            return mt_fail(ctx, MT_ERR_SHAPE,
                           "%s: dimension %d has stride %" PRId64 ", less than the %" PRId64
                           " elements inside it",
                           name, axis, tensor->stride[axis], inner);
        }
    }
    if (!is_held(device, tensor)) {
        return mt_fail(ctx, MT_ERR_USAGE, "%s, %s, is not in the memory of device %s", name,
                       mt_tensor_describe(tensor, text, sizeof text), device->name);
    }
    return MT_OK;
}

static enum mt_status check_tensor(const struct mt_device *device, const char *name,
                                   const struct mt_tensor *tensor, enum mt_check_type type, int rank,
                                   const int64_t *dims)
{
    struct mt_context *ctx = device->ctx;
    char found[96];
    char wanted[96];
    if (!mt_tensor_present(tensor)) return mt_fail(ctx, MT_ERR_USAGE, "%s is missing", name);
    if (!type_matches(tensor->dtype, type)) {
        return mt_fail(ctx, MT_ERR_DTYPE, "%s is %s, expected %s", name,
                       mt_tensor_describe(tensor, found, sizeof found), type_text(type));
    }
    bool fits = tensor->rank == rank;
    struct mt_tensor expected = {.dtype = tensor->dtype, .rank = rank};
    for (int axis = 0; axis < rank; axis++) {
        expected.dim[axis] = dims[axis];
        if (fits && (tensor->dim[axis] < 0 || (dims[axis] != MT_ANY && tensor->dim[axis] != dims[axis]))) {
            fits = false;
        }
    }
    if (!fits) {
        return mt_fail(ctx, MT_ERR_SHAPE, "%s is %s, expected %s (-1: any)", name,
                       mt_tensor_describe(tensor, found, sizeof found),
                       mt_tensor_describe(&expected, wanted, sizeof wanted));
    }
    return check_memory(device, name, tensor);
}

enum mt_status mt_check_1d(const struct mt_device *device, const char *name, const struct mt_tensor *tensor,
                           enum mt_check_type type, int64_t d0)
{
    return check_tensor(device, name, tensor, type, 1, (const int64_t[]){d0});
}

enum mt_status mt_check_2d(const struct mt_device *device, const char *name, const struct mt_tensor *tensor,
                           enum mt_check_type type, int64_t d0, int64_t d1)
{
    return check_tensor(device, name, tensor, type, 2, (const int64_t[]){d0, d1});
}

enum mt_status mt_check_3d(const struct mt_device *device, const char *name, const struct mt_tensor *tensor,
                           enum mt_check_type type, int64_t d0, int64_t d1, int64_t d2)
{
    return check_tensor(device, name, tensor, type, 3, (const int64_t[]){d0, d1, d2});
}

enum mt_status mt_check_like(const struct mt_device *device, const char *name, const struct mt_tensor *tensor,
                             enum mt_check_type type, const struct mt_tensor *like)
{
    static const int64_t any[] = {MT_ANY, MT_ANY, MT_ANY};
    if (like != NULL) return check_tensor(device, name, tensor, type, like->rank, like->dim);
    if (mt_tensor_present(tensor) && tensor->rank > 3) {
        return mt_fail(device->ctx, MT_ERR_SHAPE, "%s has %d dimensions, expected 1 to 3", name,
                       tensor->rank);
    }
    return check_tensor(device, name, tensor, type, mt_tensor_present(tensor) ? tensor->rank : 1, any);
}

enum mt_status mt_check_range(const struct mt_device *device, const char *name, const struct mt_tensor *index,
                              int64_t low, int64_t high)
{
    if (device->memory == MT_MEMORY_DEVICE) return MT_OK;
    int64_t rows = index->rank > 1 ? index->dim[0] : 1;
    int64_t columns = index->dim[index->rank - 1];
    for (int64_t row = 0; row < rows; row++) {
        const int32_t *values = (const int32_t *)index->data + (index->rank > 1 ? row * index->stride[0] : 0);
        for (int64_t column = 0; column < columns; column++) {
            if (values[column] >= low && values[column] < high) continue;
            return mt_fail(device->ctx, MT_ERR_USAGE,
                           "%s holds %" PRId32 " at element %" PRId64 ", expected %" PRId64 " to %" PRId64,
                           name, values[column], row * columns + column, low, high - 1);
        }
    }
    return MT_OK;
}

enum mt_status mt_check_offsets(const struct mt_device *device, const char *name,
                                const struct mt_tensor *offsets, int64_t limit)
{
    if (device->memory == MT_MEMORY_DEVICE) return MT_OK;
    const int32_t *values = offsets->data;
    int64_t previous = 0;
    for (int64_t i = 0; i < offsets->dim[0]; i++) {
        bool ok = i == 0 ? values[i] == 0 : values[i] >= previous && values[i] <= limit;
        if (!ok) {
            return mt_fail(device->ctx, MT_ERR_USAGE,
                           "%s holds %" PRId32 " at element %" PRId64
                           ", expected 0 first, then rising to at most %" PRId64,
                           name, values[i], i, limit);
        }
        previous = values[i];
    }
    return MT_OK;
}

enum mt_status mt_check_value(const struct mt_device *device, bool ok, const char *name, double value,
                              const char *expected)
{
    if (ok) return MT_OK;
    return mt_fail(device->ctx, MT_ERR_USAGE, "%s is %g, expected %s", name, value, expected);
}
