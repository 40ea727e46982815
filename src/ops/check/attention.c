/* Argument checks of attention. */
#include <inttypes.h>
#include <math.h>

#include "ops/check/check.h"

/* Offsets of B sequences. */
static enum mt_status check_rising(const struct mt_device *device, const char *name,
                                   const struct mt_tensor *offsets, int64_t entries, int64_t most)
{
    enum mt_status status = mt_check_1d(device, name, offsets, MT_CHECK_INDEX, entries);
    if (status != MT_OK) return status;
    if (offsets->dim[0] == 0) {
        return mt_fail(device->ctx, MT_ERR_SHAPE, "%s is empty, expected one entry more than sequences",
                       name);
    }
    return mt_check_offsets(device, name, offsets, most);
}

/* The same over exactly `rows` rows. */
static enum mt_status check_sequences(const struct mt_device *device, const char *name,
                                      const struct mt_tensor *offsets, int64_t entries, int64_t rows)
{
    enum mt_status status = check_rising(device, name, offsets, entries, rows);
    if (status != MT_OK || device->memory == MT_MEMORY_DEVICE) return status;
    int32_t last = ((const int32_t *)offsets->data)[offsets->dim[0] - 1];
    if (last == rows) return MT_OK;
    return mt_fail(device->ctx, MT_ERR_USAGE, "%s ends with %" PRId32 ", expected %" PRId64, name, last,
                   rows);
}

/* Keys of each sequence in a stretch of its own, somewhere in `rows` rows. */
static enum mt_status check_stretches(const struct mt_device *device, const struct mt_tensor *k_offsets,
                                      const struct mt_tensor *k_starts, int64_t sequences, int64_t rows)
{
    enum mt_status status = check_rising(device, "k_offsets", k_offsets, sequences + 1, INT32_MAX);
    if (status != MT_OK) return status;
    status = mt_check_1d(device, "k_starts", k_starts, MT_CHECK_INDEX, sequences);
    if (status != MT_OK || device->memory == MT_MEMORY_DEVICE) return status;
    const int32_t *offsets = k_offsets->data;
    const int32_t *starts = k_starts->data;
    for (int64_t b = 0; b < sequences; b++) {
        int64_t keys = (int64_t)offsets[b + 1] - offsets[b];
        if (starts[b] >= 0 && starts[b] + keys <= rows) continue;
        return mt_fail(device->ctx, MT_ERR_USAGE,
                       "k_starts[%" PRId64 "] is %" PRId32 ", with %" PRId64 " keys, but k has %" PRId64
                       " rows",
                       b, starts[b], keys, rows);
    }
    return MT_OK;
}

/* What forward and backward both take; k_starts is NULL for backward. */
static enum mt_status check_inputs(const struct mt_device *device, const struct mt_tensor *q,
                                   const struct mt_tensor *k, const struct mt_tensor *v,
                                   const struct mt_tensor *q_offsets, const struct mt_tensor *k_offsets,
                                   const struct mt_tensor *k_starts)
{
    enum mt_status status = mt_check_3d(device, "q", q, MT_CHECK_FLOAT, MT_ANY, MT_ANY, MT_ANY);
    if (status != MT_OK) return status;
    status = mt_check_3d(device, "k", k, MT_CHECK_FLOAT, MT_ANY, MT_ANY, q->dim[2]);
    if (status != MT_OK) return status;
    status = mt_check_3d(device, "v", v, MT_CHECK_FLOAT, k->dim[0], k->dim[1], MT_ANY);
    if (status != MT_OK) return status;
    if (k->dim[1] < 1 || q->dim[1] < 1 || q->dim[1] % k->dim[1] != 0) {
        return mt_fail(device->ctx, MT_ERR_SHAPE,
                       "q has %" PRId64 " heads, k has %" PRId64 ": expected a multiple", q->dim[1],
                       k->dim[1]);
    }
    status = check_sequences(device, "q_offsets", q_offsets, MT_ANY, q->dim[0]);
    if (status != MT_OK) return status;
    if (k_starts != NULL && mt_tensor_present(k_starts))
        return check_stretches(device, k_offsets, k_starts, q_offsets->dim[0] - 1, k->dim[0]);
    return check_sequences(device, "k_offsets", k_offsets, q_offsets->dim[0], k->dim[0]);
}

static enum mt_status check_scalars(const struct mt_device *device, float scale, int window)
{
    bool usable = scale != 0.0f && isfinite(scale);
    enum mt_status status = mt_check_value(device, usable, "scale", (double)scale, "finite and not 0");
    if (status != MT_OK) return status;
    return mt_check_value(device, window >= 0, "window", (double)window, "0 (unlimited) or more");
}

enum mt_status mt_check_attention_forward(const struct mt_device *device,
                                          const struct mt_attention_forward_args *args)
{
    enum mt_status status = check_inputs(device, &args->q, &args->k, &args->v, &args->q_offsets,
                                         &args->k_offsets, &args->k_starts);
    if (status != MT_OK) return status;
    int64_t queries = args->q.dim[0];
    int64_t heads = args->q.dim[1];
    status = mt_check_3d(device, "out", &args->out, MT_CHECK_FLOAT, queries, heads, args->v.dim[2]);
    if (status != MT_OK) return status;
    if (mt_tensor_present(&args->lse)) {
        status = mt_check_2d(device, "lse", &args->lse, MT_CHECK_STAT, queries, heads);
        if (status != MT_OK) return status;
    }
    return check_scalars(device, args->scale, args->window);
}

enum mt_status mt_check_attention_backward(const struct mt_device *device,
                                           const struct mt_attention_backward_args *args)
{
    enum mt_status status =
        check_inputs(device, &args->q, &args->k, &args->v, &args->q_offsets, &args->k_offsets, NULL);
    if (status != MT_OK) return status;
    const int64_t *q = args->q.dim;
    const int64_t *k = args->k.dim;
    int64_t value_width = args->v.dim[2];
    status = mt_check_3d(device, "out", &args->out, MT_CHECK_FLOAT, q[0], q[1], value_width);
    if (status != MT_OK) return status;
    status = mt_check_2d(device, "lse", &args->lse, MT_CHECK_STAT, q[0], q[1]);
    if (status != MT_OK) return status;
    status = mt_check_3d(device, "dout", &args->dout, MT_CHECK_FLOAT, q[0], q[1], value_width);
    if (status != MT_OK) return status;
    status = mt_check_3d(device, "dq", &args->dq, MT_CHECK_FLOAT, q[0], q[1], q[2]);
    if (status != MT_OK) return status;
    status = mt_check_3d(device, "dk", &args->dk, MT_CHECK_FLOAT, k[0], k[1], k[2]);
    if (status != MT_OK) return status;
    status = mt_check_3d(device, "dv", &args->dv, MT_CHECK_FLOAT, k[0], k[1], value_width);
    if (status != MT_OK) return status;
    return check_scalars(device, args->scale, args->window);
}
