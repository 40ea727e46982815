/* Argument checks of attention. */
#include <inttypes.h>
#include <math.h>

#include "ops/check/check.h"

/* Offsets of B sequences. */
static void check_rising(struct mt_check *c, const char *name, const struct mt_tensor *offsets,
                         int64_t entries, int64_t most)
{
    mt_check_1d(c, name, offsets, MT_CHECK_INDEX, entries);
    if (c->status == MT_OK && offsets->dim[0] == 0)
        c->status = mt_fail(c->device->ctx, MT_ERR_SHAPE,
                            "%s is empty, expected one entry more than sequences", name);
    mt_check_offsets(c, name, offsets, most);
}

/* The same over exactly `rows` rows. */
static void check_sequences(struct mt_check *c, const char *name, const struct mt_tensor *offsets,
                            int64_t entries, int64_t rows)
{
    check_rising(c, name, offsets, entries, rows);
    if (c->status != MT_OK || c->device->memory == MT_MEMORY_DEVICE) return;
    int32_t last = ((const int32_t *)offsets->data)[offsets->dim[0] - 1];
    if (last == rows) return;
    c->status = mt_fail(c->device->ctx, MT_ERR_USAGE, "%s ends with %" PRId32 ", expected %" PRId64, name,
                        last, rows);
}

/* Keys of each sequence in a stretch of its own, somewhere in `rows` rows. */
static void check_stretches(struct mt_check *c, const struct mt_tensor *k_offsets,
                            const struct mt_tensor *k_starts, int64_t sequences, int64_t rows)
{
    check_rising(c, "k_offsets", k_offsets, sequences + 1, INT32_MAX);
    mt_check_1d(c, "k_starts", k_starts, MT_CHECK_INDEX, sequences);
    if (c->status != MT_OK || c->device->memory == MT_MEMORY_DEVICE) return;
    const int32_t *offsets = k_offsets->data;
    const int32_t *starts = k_starts->data;
    for (int64_t b = 0; b < sequences; b++) {
        int64_t keys = (int64_t)offsets[b + 1] - offsets[b];
        if (starts[b] >= 0 && starts[b] + keys <= rows) continue;
        c->status =
            mt_fail(c->device->ctx, MT_ERR_USAGE,
                    "k_starts[%" PRId64 "] is %" PRId32 ", with %" PRId64 " keys, but k has %" PRId64 " rows",
                    b, starts[b], keys, rows);
        return;
    }
}

/* What forward and backward both take; k_starts is NULL for backward. */
static void check_inputs(struct mt_check *c, const struct mt_tensor *q, const struct mt_tensor *k,
                         const struct mt_tensor *v, const struct mt_tensor *q_offsets,
                         const struct mt_tensor *k_offsets, const struct mt_tensor *k_starts)
{
    mt_check_3d(c, "q", q, MT_CHECK_FLOAT, MT_ANY, MT_ANY, MT_ANY);
    mt_check_3d(c, "k", k, MT_CHECK_FLOAT, MT_ANY, MT_ANY, q->dim[2]);
    mt_check_3d(c, "v", v, MT_CHECK_FLOAT, k->dim[0], k->dim[1], MT_ANY);
    if (c->status == MT_OK && (k->dim[1] < 1 || q->dim[1] < 1 || q->dim[1] % k->dim[1] != 0))
        c->status =
            mt_fail(c->device->ctx, MT_ERR_SHAPE,
                    "q has %" PRId64 " heads, k has %" PRId64 ": expected a multiple", q->dim[1], k->dim[1]);
    check_sequences(c, "q_offsets", q_offsets, MT_ANY, q->dim[0]);
    if (k_starts != NULL && mt_tensor_present(k_starts)) {
        check_stretches(c, k_offsets, k_starts, q_offsets->dim[0] - 1, k->dim[0]);
    } else {
        check_sequences(c, "k_offsets", k_offsets, q_offsets->dim[0], k->dim[0]);
    }
}

static void check_scalars(struct mt_check *c, float scale, int window)
{
    bool usable = scale != 0.0f && isfinite(scale);
    mt_check_value(c, usable, "scale", (double)scale, "finite and not 0");
    mt_check_value(c, window >= 0, "window", (double)window, "0 (unlimited) or more");
}

void mt_check_attention_forward(struct mt_check *c, const struct mt_attention_forward_args *args)
{
    check_inputs(c, &args->q, &args->k, &args->v, &args->q_offsets, &args->k_offsets, &args->k_starts);
    int64_t queries = args->q.dim[0];
    int64_t heads = args->q.dim[1];
    mt_check_3d(c, "out", &args->out, MT_CHECK_FLOAT, queries, heads, args->v.dim[2]);
    mt_check_optional_2d(c, "lse", &args->lse, MT_CHECK_STAT, queries, heads);
    check_scalars(c, args->scale, args->window);
}

void mt_check_attention_backward(struct mt_check *c, const struct mt_attention_backward_args *args)
{
    check_inputs(c, &args->q, &args->k, &args->v, &args->q_offsets, &args->k_offsets, NULL);
    const int64_t *q = args->q.dim;
    const int64_t *k = args->k.dim;
    int64_t value_width = args->v.dim[2];
    mt_check_3d(c, "out", &args->out, MT_CHECK_FLOAT, q[0], q[1], value_width);
    mt_check_2d(c, "lse", &args->lse, MT_CHECK_STAT, q[0], q[1]);
    mt_check_3d(c, "dout", &args->dout, MT_CHECK_FLOAT, q[0], q[1], value_width);
    mt_check_3d(c, "dq", &args->dq, MT_CHECK_FLOAT, q[0], q[1], q[2]);
    mt_check_3d(c, "dk", &args->dk, MT_CHECK_FLOAT, k[0], k[1], k[2]);
    mt_check_3d(c, "dv", &args->dv, MT_CHECK_FLOAT, k[0], k[1], value_width);
    check_scalars(c, args->scale, args->window);
}
