/* The pieces checks are made of. */
#include "ops/check/check.h"

#include <inttypes.h>

static bool type_matches(enum mt_dtype dtype, enum mt_check_type type)
{
    switch (type) {
    case MT_CHECK_FLOAT: return mt_dtype_is_float(dtype);
    case MT_CHECK_STAT: return dtype == MT_F32 || dtype == MT_F64;
    case MT_CHECK_INDEX: return dtype == MT_I32;
    case MT_CHECK_F64: return dtype == MT_F64;
    case MT_CHECK_F32: return dtype == MT_F32;
    case MT_CHECK_BF16: return dtype == MT_BF16;
    case MT_CHECK_U8: return dtype == MT_U8;
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
    case MT_CHECK_F32: return "f32";
    case MT_CHECK_BF16: return "bf16";
    case MT_CHECK_U8: return "u8";
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

static enum mt_status tensor_status(const struct mt_device *device, const char *name,
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

void mt_check_tensor(struct mt_check *c, const char *name, const struct mt_tensor *tensor,
                     enum mt_check_type type, int rank, const int64_t *dims)
{
    if (c->status == MT_OK) c->status = tensor_status(c->device, name, tensor, type, rank, dims);
}

void mt_check_1d(struct mt_check *c, const char *name, const struct mt_tensor *tensor,
                 enum mt_check_type type, int64_t d0)
{
    mt_check_tensor(c, name, tensor, type, 1, (const int64_t[]){d0});
}

void mt_check_2d(struct mt_check *c, const char *name, const struct mt_tensor *tensor,
                 enum mt_check_type type, int64_t d0, int64_t d1)
{
    mt_check_tensor(c, name, tensor, type, 2, (const int64_t[]){d0, d1});
}

void mt_check_3d(struct mt_check *c, const char *name, const struct mt_tensor *tensor,
                 enum mt_check_type type, int64_t d0, int64_t d1, int64_t d2)
{
    mt_check_tensor(c, name, tensor, type, 3, (const int64_t[]){d0, d1, d2});
}

void mt_check_like(struct mt_check *c, const char *name, const struct mt_tensor *tensor,
                   enum mt_check_type type, const struct mt_tensor *like)
{
    static const int64_t any[] = {MT_ANY, MT_ANY, MT_ANY};
    if (like != NULL) {
        mt_check_tensor(c, name, tensor, type, like->rank, like->dim);
        return;
    }
    mt_check_rank(c, name, tensor, 3);
    mt_check_tensor(c, name, tensor, type, mt_tensor_present(tensor) ? tensor->rank : 1, any);
}

void mt_check_rank(struct mt_check *c, const char *name, const struct mt_tensor *tensor, int most)
{
    if (c->status != MT_OK || tensor->rank <= most) return;
    c->status = mt_fail(c->device->ctx, MT_ERR_SHAPE, "%s has %d dimensions, expected 1 %s %d", name,
                        tensor->rank, most == 2 ? "or" : "to", most);
}

void mt_check_range(struct mt_check *c, const char *name, const struct mt_tensor *index, int64_t low,
                    int64_t high)
{
    if (c->status != MT_OK || c->device->memory == MT_MEMORY_DEVICE) return;
    int64_t rows = index->rank > 1 ? index->dim[0] : 1;
    int64_t columns = index->dim[index->rank - 1];
    for (int64_t row = 0; row < rows; row++) {
        const int32_t *values = (const int32_t *)index->data + (index->rank > 1 ? row * index->stride[0] : 0);
        for (int64_t column = 0; column < columns; column++) {
            if (values[column] >= low && values[column] < high) continue;
            c->status =
                mt_fail(c->device->ctx, MT_ERR_USAGE,
                        "%s holds %" PRId32 " at element %" PRId64 ", expected %" PRId64 " to %" PRId64, name,
                        values[column], row * columns + column, low, high - 1);
            return;
        }
    }
}

void mt_check_offsets(struct mt_check *c, const char *name, const struct mt_tensor *offsets, int64_t limit)
{
    if (c->status != MT_OK || c->device->memory == MT_MEMORY_DEVICE) return;
    const int32_t *values = offsets->data;
    int64_t previous = 0;
    for (int64_t i = 0; i < offsets->dim[0]; i++) {
        bool ok = i == 0 ? values[i] == 0 : values[i] >= previous && values[i] <= limit;
        if (!ok) {
            c->status = mt_fail(c->device->ctx, MT_ERR_USAGE,
                                "%s holds %" PRId32 " at element %" PRId64
                                ", expected 0 first, then rising to at most %" PRId64,
                                name, values[i], i, limit);
            return;
        }
        previous = values[i];
    }
}

void mt_check_value(struct mt_check *c, bool ok, const char *name, double value, const char *expected)
{
    if (c->status != MT_OK || ok) return;
    c->status = mt_fail(c->device->ctx, MT_ERR_USAGE, "%s is %g, expected %s", name, value, expected);
}

void mt_check_there(struct mt_check *c, const char *name, const struct mt_tensor *tensor)
{
    if (c->status == MT_OK && !mt_tensor_present(tensor))
        c->status = mt_fail(c->device->ctx, MT_ERR_USAGE, "%s is missing", name);
}
