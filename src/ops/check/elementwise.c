/* Rows of what works number by number, of sums over everything, of the embedding and of the optimizer. */
#include <math.h>

#include "ops/check/rows.h"
#include "ops/dropout.h"

static void axpby_more(struct mt_check *c, const void *p)
{
    const struct mt_axpby_args *args = p;
    mt_check_like(c, "x", &args->x, MT_CHECK_FLOAT, NULL);
    mt_check_rank(c, "x", &args->x, 2);
    mt_check_like(c, "y", &args->y, MT_CHECK_FLOAT, &args->x);
    if (mt_tensor_present(&args->factor)) mt_check_1d(c, "factor", &args->factor, MT_CHECK_STAT, 1);
}

static void rank_sum_more(struct mt_check *c, const void *p)
{
    const struct mt_rank_sum_args *args = p;
    bool row = args->own >= 0 && args->own < mt_check_dim(c, 'R');
    mt_check_value(c, row, "own", (double)args->own, "a row of x");
}

static void fill_more(struct mt_check *c, const void *p)
{
    const struct mt_fill_args *args = p;
    bool integers = mt_tensor_present(&args->y) && args->y.dtype == MT_I32;
    mt_check_like(c, "y", &args->y, integers ? MT_CHECK_INDEX : MT_CHECK_FLOAT, NULL);
    if (!integers) return;
    bool whole =
        args->value >= -2147483648.0f && args->value < 2147483648.0f && truncf(args->value) == args->value;
    mt_check_value(c, whole, "value", (double)args->value, "a whole number that fits i32");
}

static void copy_more(struct mt_check *c, const void *p)
{
    const struct mt_copy_args *args = p;
    bool integers = mt_tensor_present(&args->x) && args->x.dtype == MT_I32;
    enum mt_check_type type = integers ? MT_CHECK_INDEX : MT_CHECK_FLOAT;
    if (!mt_tensor_present(&args->place)) {
        mt_check_like(c, "x", &args->x, type, NULL);
        mt_check_like(c, "y", &args->y, type, &args->x);
        return;
    }
    mt_check_2d(c, "x", &args->x, type, MT_ANY, MT_ANY);
    mt_check_2d(c, "y", &args->y, type, MT_ANY, args->x.dim[1]);
    mt_check_1d(c, "place", &args->place, MT_CHECK_INDEX, args->x.dim[0]);
    mt_check_range(c, "place", &args->place, 0, args->y.dim[0]);
}

static void reduce_more(struct mt_check *c, const void *p)
{
    const struct mt_reduce_args *args = p;
    mt_check_like(c, "x", &args->x, MT_CHECK_FLOAT, NULL);
    mt_check_rank(c, "x", &args->x, 2);
    mt_check_1d(c, "out", &args->out, MT_CHECK_F64, 1);
    bool known = (unsigned)args->kind <= MT_REDUCE_NONFINITE;
    mt_check_value(c, known, "kind", (double)args->kind, "sum, sum of squares, max abs or nonfinite");
}

static void check_limit(struct mt_check *c, float limit)
{
    mt_check_value(c, limit > 0, "limit", (double)limit, "more than 0");
}

static void clamp_forward_more(struct mt_check *c, const void *p)
{
    check_limit(c, ((const struct mt_clamp_forward_args *)p)->limit);
}

static void clamp_backward_more(struct mt_check *c, const void *p)
{
    check_limit(c, ((const struct mt_clamp_backward_args *)p)->limit);
}

/* No limit, or one with its factor. */
static void check_swiglu(struct mt_check *c, float limit, float alpha)
{
    mt_check_value(c, limit >= 0 && isfinite(limit), "limit", (double)limit, "0 (none) or more");
    bool usable = limit == 0 || (isfinite(alpha) && alpha != 0);
    mt_check_value(c, usable, "alpha", (double)alpha, "a factor other than 0 where there is a limit");
}

static void swiglu_forward_more(struct mt_check *c, const void *p)
{
    const struct mt_swiglu_forward_args *args = p;
    check_swiglu(c, args->limit, args->alpha);
}

static void swiglu_backward_more(struct mt_check *c, const void *p)
{
    const struct mt_swiglu_backward_args *args = p;
    check_swiglu(c, args->limit, args->alpha);
}

static void random_multiply_more(struct mt_check *c, const void *p)
{
    const struct mt_random_multiply_args *args = p;
    bool known = args->kind == MT_RANDOM_DROPOUT || args->kind == MT_RANDOM_JITTER;
    mt_check_value(c, known, "kind", (double)args->kind, "dropout or jitter");
    bool inside = args->amount >= 0 && args->amount < 1;
    mt_check_value(c, inside, "amount", (double)args->amount, "0 or more and less than 1");
}

static void row_noise_more(struct mt_check *c, const void *p)
{
    float amount = ((const struct mt_row_noise_args *)p)->amount;
    mt_check_value(c, amount >= 0.0f && amount <= 1.0f, "amount", (double)amount, "0 to 1");
}

static void dropout_bits_more(struct mt_check *c, const void *p)
{
    const struct mt_dropout_bits_args *args = p;
    mt_check_value(c, args->columns >= 0, "columns", (double)args->columns, "0 or more");
    mt_check_2d(c, "bits", &args->bits, MT_CHECK_INDEX, MT_ANY, mt_mask_words(args->columns));
    bool inside = args->amount >= 0 && args->amount < 1;
    mt_check_value(c, inside, "amount", (double)args->amount, "0 or more and less than 1");
}

// ------------------------------------------------------------------ adamw

/* Kernels walk the tensors as one array. */
static void check_array(struct mt_check *c, const char *name, const struct mt_tensor *tensor,
                        enum mt_check_type type, const struct mt_tensor *like)
{
    mt_check_like(c, name, tensor, type, like);
    mt_check_rank(c, name, tensor, 2);
    if (c->status != MT_OK || mt_tensor_count(tensor) == 0 || mt_tensor_is_contiguous(tensor)) return;
    c->status = mt_fail(c->device->ctx, MT_ERR_SHAPE, "%s has gaps between its rows, expected none", name);
}

static void adamw_more(struct mt_check *c, const void *p)
{
    const struct mt_adamw_args *args = p;
    const struct {
        const char *name;
        float value;
        bool ok;
        const char *expected;
    } numbers[] = {
        {"learning_rate", args->learning_rate, args->learning_rate >= 0, "0 or more"},
        {"beta1", args->beta1, args->beta1 >= 0 && args->beta1 < 1, "0 or more and less than 1"},
        {"beta2", args->beta2, args->beta2 >= 0 && args->beta2 < 1, "0 or more and less than 1"},
        {"epsilon", args->epsilon, args->epsilon > 0, "more than 0"},
        {"weight_decay", args->weight_decay, args->weight_decay >= 0, "0 or more"},
        {"grad_scale", args->grad_scale, args->grad_scale != 0 && isfinite(args->grad_scale),
         "a finite number other than 0"},
    };
    check_array(c, "param", &args->param, MT_CHECK_STAT, NULL);
    check_array(c, "grad", &args->grad, MT_CHECK_STAT, &args->param);
    check_array(c, "m", &args->m, MT_CHECK_STAT, &args->param);
    check_array(c, "v", &args->v, MT_CHECK_STAT, &args->param);
    if (mt_tensor_present(&args->param_copy))
        check_array(c, "param_copy", &args->param_copy, MT_CHECK_FLOAT, &args->param);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        mt_check_value(c, numbers[i].ok, numbers[i].name, (double)numbers[i].value, numbers[i].expected);
    mt_check_value(c, args->step >= 1, "step", (double)args->step, "1 or more");
}

// ------------------------------------------------------------------ rows: R rows of width W, V tokens

static const struct mt_check_row rows[] = {
    MT_ROW_BY_HAND(axpby, axpby_more),
    MT_ROW(rank_sum, y, rank_sum_more, {"x", MT_CHECK_STAT, "RW"}, {"y", MT_CHECK_STAT, "W"}),
    MT_ROW_BY_HAND(fill, fill_more),
    MT_ROW_BY_HAND(copy, copy_more),
    MT_ROW_BY_HAND(reduce, reduce_more),
    MT_ROW_BY_HAND(dropout_bits, dropout_bits_more),
    MT_ROW_BY_HAND(adamw, adamw_more),
    MT_ROW(swiglu_forward, y, swiglu_forward_more, {"gate", MT_CHECK_FLOAT, "RW"},
           {"up", MT_CHECK_FLOAT, "RW"}, {"y", MT_CHECK_FLOAT, "RW"}),
    MT_ROW(swiglu_backward, y, swiglu_backward_more, {"dy", MT_CHECK_FLOAT, "RW"},
           {"gate", MT_CHECK_FLOAT, "RW"}, {"up", MT_CHECK_FLOAT, "RW"}, {"dgate", MT_CHECK_FLOAT, "RW"},
           {"dup", MT_CHECK_FLOAT, "RW"}, {"y", MT_CHECK_FLOAT, "RW?"}),
    MT_ROW(bias_forward, y, NULL, {"x", MT_CHECK_FLOAT, "RW"}, {"bias", MT_CHECK_FLOAT, "W"},
           {"y", MT_CHECK_FLOAT, "RW"}),
    MT_ROW(bias_backward, dbias, NULL, {"dy", MT_CHECK_FLOAT, "RW"}, {"dbias", MT_CHECK_STAT, "W"}),
    MT_ROW(sigmoid_gate_forward, y, NULL, {"x", MT_CHECK_FLOAT, "RW"}, {"gate", MT_CHECK_FLOAT, "R1"},
           {"y", MT_CHECK_FLOAT, "RW"}),
    MT_ROW(sigmoid_gate_backward, dgate, NULL, {"dy", MT_CHECK_FLOAT, "RW"}, {"x", MT_CHECK_FLOAT, "RW"},
           {"gate", MT_CHECK_FLOAT, "R1"}, {"dx", MT_CHECK_FLOAT, "RW"}, {"dgate", MT_CHECK_FLOAT, "R1"}),
    MT_ROW(clamp_forward, y, clamp_forward_more, {"x", MT_CHECK_FLOAT, "RW"}, {"y", MT_CHECK_FLOAT, "RW"}),
    MT_ROW(clamp_backward, dx, clamp_backward_more, {"dy", MT_CHECK_FLOAT, "RW"}, {"x", MT_CHECK_FLOAT, "RW"},
           {"dx", MT_CHECK_FLOAT, "RW"}),
    MT_ROW(random_multiply, y, random_multiply_more, {"x", MT_CHECK_FLOAT, "RW"},
           {"y", MT_CHECK_FLOAT, "RW"}),
    MT_ROW(row_noise, y, row_noise_more, {"weight", MT_CHECK_FLOAT, "RW"}, {"x", MT_CHECK_FLOAT, "RW"},
           {"y", MT_CHECK_FLOAT, "RW"}),
    MT_ROW(embedding_forward, y, NULL, {"table", MT_CHECK_FLOAT, "VW"}, {"ids", MT_CHECK_INDEX, "R 0..V"},
           {"y", MT_CHECK_FLOAT, "RW"}),
    MT_ROW(embedding_backward, dtable, NULL, {"dy", MT_CHECK_FLOAT, "RW"}, {"ids", MT_CHECK_INDEX, "R 0..V"},
           {"dtable", MT_CHECK_STAT, "VW"}),
};

const struct mt_check_family mt_check_elementwise = {rows, sizeof rows / sizeof rows[0]};
