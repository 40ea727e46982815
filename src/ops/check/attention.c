/* Rows of attention, of what turns positions into angles, and of the norms. */
#include <inttypes.h>
#include <math.h>

#include "ops/check/rows.h"

static void check_epsilon(struct mt_check *c, float epsilon)
{
    mt_check_value(c, epsilon >= 0, "epsilon", (double)epsilon, "0 or more");
}

static void rmsnorm_forward_more(struct mt_check *c, const void *p)
{
    const struct mt_rmsnorm_forward_args *args = p;
    if (mt_tensor_present(&args->residual)) mt_check_there(c, "sum", &args->sum);
    check_epsilon(c, args->epsilon);
}

static void layernorm_forward_more(struct mt_check *c, const void *p)
{
    const struct mt_layernorm_forward_args *args = p;
    if (mt_tensor_present(&args->residual)) mt_check_there(c, "sum", &args->sum);
    if (mt_tensor_present(&args->mean)) mt_check_there(c, "rstd", &args->rstd);
    if (mt_tensor_present(&args->rstd)) mt_check_there(c, "mean", &args->mean);
    check_epsilon(c, args->epsilon);
}

// ------------------------------------------------------------------ rotation

/* Of rows whose rotated part is `width` wide; the tables have a column for each pair. */
static void check_rotation(struct mt_check *c, const struct mt_tensor *cosine, int64_t width,
                           enum mt_rope_layout layout)
{
    mt_check_value(c, width % 2 == 0, "the rotated width", (double)width, "even");
    mt_check_2d(c, "cosine", cosine, MT_CHECK_STAT, MT_ANY, width / 2);
    bool known = layout == MT_ROPE_HALF || layout == MT_ROPE_INTERLEAVED;
    mt_check_value(c, known, "layout", (double)layout, "half (0) or interleaved (1)");
}

static void rope_more(struct mt_check *c, const void *p)
{
    const struct mt_rope_args *args = p;
    check_rotation(c, &args->cosine, mt_check_dim(c, 'D'), args->layout);
}

/* A key: N numbers of its own, and R rotated ones that all heads share. */
static void check_key(struct mt_check *c, const char *name, const struct mt_tensor *key,
                      const struct mt_tensor *cosine, enum mt_rope_layout layout)
{
    int64_t rotated = mt_check_dim(c, 'R');
    mt_check_3d(c, name, key, MT_CHECK_FLOAT, MT_ANY, MT_ANY, mt_check_dim(c, 'N') + rotated);
    check_rotation(c, cosine, rotated, layout);
}

static void mla_key_forward_more(struct mt_check *c, const void *p)
{
    const struct mt_mla_key_forward_args *args = p;
    check_key(c, "key", &args->key, &args->cosine, args->layout);
}

static void mla_key_backward_more(struct mt_check *c, const void *p)
{
    const struct mt_mla_key_backward_args *args = p;
    check_key(c, "dkey", &args->dkey, &args->cosine, args->layout);
}

// ------------------------------------------------------------------ attention

/* Offsets of B sequences. */
static void check_rising(struct mt_check *c, const char *name, const struct mt_tensor *offsets, int64_t most)
{
    if (c->status == MT_OK && offsets->dim[0] == 0)
        c->status = mt_fail(c->device->ctx, MT_ERR_SHAPE,
                            "%s is empty, expected one entry more than sequences", name);
    mt_check_offsets(c, name, offsets, most);
}

/* The same over exactly `rows` rows. */
static void check_sequences(struct mt_check *c, const char *name, const struct mt_tensor *offsets,
                            int64_t rows)
{
    check_rising(c, name, offsets, rows);
    if (c->status != MT_OK || c->device->memory == MT_MEMORY_DEVICE) return;
    int32_t last = ((const int32_t *)offsets->data)[offsets->dim[0] - 1];
    if (last == rows) return;
    c->status = mt_fail(c->device->ctx, MT_ERR_USAGE, "%s ends with %" PRId32 ", expected %" PRId64, name,
                        last, rows);
}

/* Keys of each sequence in a stretch of its own, somewhere in `rows` rows. */
static void check_stretches(struct mt_check *c, const struct mt_tensor *k_offsets,
                            const struct mt_tensor *k_starts, int64_t rows)
{
    check_rising(c, "k_offsets", k_offsets, INT32_MAX);
    mt_check_1d(c, "k_starts", k_starts, MT_CHECK_INDEX, k_offsets->dim[0] - 1);
    if (c->status != MT_OK || c->device->memory == MT_MEMORY_DEVICE) return;
    const int32_t *offsets = k_offsets->data;
    const int32_t *starts = k_starts->data;
    for (int64_t b = 0; b < k_starts->dim[0]; b++) {
        int64_t keys = (int64_t)offsets[b + 1] - offsets[b];
        if (starts[b] >= 0 && starts[b] + keys <= rows) continue;
        c->status =
            mt_fail(c->device->ctx, MT_ERR_USAGE,
                    "k_starts[%" PRId64 "] is %" PRId32 ", with %" PRId64 " keys, but k has %" PRId64 " rows",
                    b, starts[b], keys, rows);
        return;
    }
}

/* Beside the row of forward or backward; k_starts is NULL for backward. */
static void check_inputs(struct mt_check *c, const struct mt_tensor *q_offsets,
                         const struct mt_tensor *k_offsets, const struct mt_tensor *k_starts, float scale,
                         int window)
{
    int64_t heads = mt_check_dim(c, 'H');
    int64_t groups = mt_check_dim(c, 'G');
    if (groups < 1 || heads < 1 || heads % groups != 0)
        c->status = mt_fail(c->device->ctx, MT_ERR_SHAPE,
                            "q has %" PRId64 " heads, k has %" PRId64 ": expected a multiple", heads, groups);
    check_sequences(c, "q_offsets", q_offsets, mt_check_dim(c, 'Q'));
    if (k_starts != NULL && mt_tensor_present(k_starts)) {
        check_stretches(c, k_offsets, k_starts, mt_check_dim(c, 'K'));
    } else {
        check_sequences(c, "k_offsets", k_offsets, mt_check_dim(c, 'K'));
    }
    bool usable = scale != 0.0f && isfinite(scale);
    mt_check_value(c, usable, "scale", (double)scale, "finite and not 0");
    mt_check_value(c, window >= 0, "window", (double)window, "0 (unlimited) or more");
}

static void attention_forward_more(struct mt_check *c, const void *p)
{
    const struct mt_attention_forward_args *args = p;
    check_inputs(c, &args->q_offsets, &args->k_offsets, &args->k_starts, args->scale, args->window);
}

static void attention_backward_more(struct mt_check *c, const void *p)
{
    const struct mt_attention_backward_args *args = p;
    check_inputs(c, &args->q_offsets, &args->k_offsets, NULL, args->scale, args->window);
}

// ------------------------------------------------------------------ rows: T tokens of width D; Q queries, K
// keys

static const struct mt_check_row rows[] = {
    MT_ROW(rmsnorm_forward, rstd, rmsnorm_forward_more, {"x", MT_CHECK_FLOAT, "TD"},
           {"residual", MT_CHECK_FLOAT, "TD?"}, {"sum", MT_CHECK_FLOAT, "TD?"},
           {"weight", MT_CHECK_FLOAT, "D"}, {"y", MT_CHECK_FLOAT, "TD"}, {"rstd", MT_CHECK_STAT, "T?"}),
    MT_ROW(rmsnorm_backward, dweight, NULL, {"dy", MT_CHECK_FLOAT, "TD"}, {"x", MT_CHECK_FLOAT, "TD"},
           {"weight", MT_CHECK_FLOAT, "D"}, {"rstd", MT_CHECK_STAT, "T"}, {"dx", MT_CHECK_FLOAT, "TD"},
           {"dweight", MT_CHECK_STAT, "D?"}),
    MT_ROW(layernorm_forward, rstd, layernorm_forward_more, {"x", MT_CHECK_FLOAT, "TD"},
           {"residual", MT_CHECK_FLOAT, "TD?"}, {"sum", MT_CHECK_FLOAT, "TD?"},
           {"weight", MT_CHECK_FLOAT, "D"}, {"bias", MT_CHECK_FLOAT, "D"}, {"y", MT_CHECK_FLOAT, "TD"},
           {"mean", MT_CHECK_STAT, "T?"}, {"rstd", MT_CHECK_STAT, "T?"}),
    MT_ROW(layernorm_backward, dbias, NULL, {"dy", MT_CHECK_FLOAT, "TD"}, {"x", MT_CHECK_FLOAT, "TD"},
           {"weight", MT_CHECK_FLOAT, "D"}, {"mean", MT_CHECK_STAT, "T"}, {"rstd", MT_CHECK_STAT, "T"},
           {"dx", MT_CHECK_FLOAT, "TD"}, {"dweight", MT_CHECK_STAT, "D?"}, {"dbias", MT_CHECK_STAT, "D?"}),
    MT_ROW(rope, sine, rope_more, {"x", MT_CHECK_FLOAT, "THD"}, {"y", MT_CHECK_FLOAT, "THD"},
           {"positions", MT_CHECK_INDEX, "T 0..P"}, {"cosine", MT_CHECK_STAT, "Ph"},
           {"sine", MT_CHECK_STAT, "Ph"}),
    MT_ROW(mla_key_forward, key, mla_key_forward_more, {"nope", MT_CHECK_FLOAT, "THN"},
           {"shared", MT_CHECK_FLOAT, "TR"}, {"positions", MT_CHECK_INDEX, "T 0..P"},
           {"cosine", MT_CHECK_STAT, "Ph"}, {"sine", MT_CHECK_STAT, "Ph"}, {"key", MT_CHECK_FLOAT, "THK"}),
    MT_ROW(mla_key_backward, dshared, mla_key_backward_more, {"dkey", MT_CHECK_FLOAT, "THK"},
           {"positions", MT_CHECK_INDEX, "T 0..P"}, {"cosine", MT_CHECK_STAT, "Ph"},
           {"sine", MT_CHECK_STAT, "Ph"}, {"dnope", MT_CHECK_FLOAT, "THN"},
           {"dshared", MT_CHECK_FLOAT, "TR"}),
    MT_ROW(attention_forward, lse, attention_forward_more, {"q", MT_CHECK_FLOAT, "QHD"},
           {"k", MT_CHECK_FLOAT, "KGD"}, {"v", MT_CHECK_FLOAT, "KGV"}, {"q_offsets", MT_CHECK_INDEX, "O"},
           {"k_offsets", MT_CHECK_INDEX, "O"}, {"k_starts", MT_CHECK_INDEX, "*?"},
           {"out", MT_CHECK_FLOAT, "QHV"}, {"lse", MT_CHECK_STAT, "QH?"}),
    MT_ROW(attention_backward, dv, attention_backward_more, {"q", MT_CHECK_FLOAT, "QHD"},
           {"k", MT_CHECK_FLOAT, "KGD"}, {"v", MT_CHECK_FLOAT, "KGV"}, {"q_offsets", MT_CHECK_INDEX, "O"},
           {"k_offsets", MT_CHECK_INDEX, "O"}, {"out", MT_CHECK_FLOAT, "QHV"}, {"lse", MT_CHECK_STAT, "QH"},
           {"dout", MT_CHECK_FLOAT, "QHV"}, {"dq", MT_CHECK_FLOAT, "QHD"}, {"dk", MT_CHECK_FLOAT, "KGD"},
           {"dv", MT_CHECK_FLOAT, "KGV"}),
    MT_ROW(attention_sink_forward, sink, NULL, {"out", MT_CHECK_FLOAT, "QHV"}, {"lse", MT_CHECK_STAT, "QH"},
           {"sink", MT_CHECK_FLOAT, "H"}),
    MT_ROW(attention_sink_backward, dsink, NULL, {"dout", MT_CHECK_FLOAT, "QHV"},
           {"out", MT_CHECK_FLOAT, "QHV"}, {"lse", MT_CHECK_STAT, "QH"}, {"sink", MT_CHECK_FLOAT, "H"},
           {"dsink", MT_CHECK_STAT, "H"}),
};

const struct mt_check_family mt_check_attention = {rows, sizeof rows / sizeof rows[0]};
