/* Argument checks of grouped_swiglu and its backward: those of the sums, and that all fit together. */
#include "ops/check/check.h"

/* One of the sums, which overwrites. */
static void check_sum(struct mt_check *c, const char *name, const struct mt_grouped_sum_args *sum)
{
    if (c->status != MT_OK) return;
    mt_check_grouped_sum(c, sum);
    mt_check_value(c, sum->beta == 0.0f, "beta", (double)sum->beta, "0: y is overwritten");
    if (c->status != MT_OK) c->status = mt_fail_within(c->device->ctx, c->status, "%s", name);
}

static bool same_offsets(const struct mt_tensor *one, const struct mt_tensor *other)
{
    if (!mt_tensor_present(one)) return !mt_tensor_present(other);
    return mt_tensor_present(other) && one->data == other->data;
}

void mt_check_grouped_swiglu(struct mt_check *c, const struct mt_grouped_swiglu_args *args)
{
    const struct mt_grouped_sum_args *gate = &args->gate;
    const struct mt_grouped_sum_args *up = &args->up;
    check_sum(c, "gate", gate);
    check_sum(c, "up", up);
    bool same = up->experts == gate->experts && same_offsets(&gate->offsets, &up->offsets);
    if (c->status == MT_OK && !same)
        c->status = mt_fail(c->device->ctx, MT_ERR_USAGE, "gate and up have other experts or offsets");
    int64_t rows = gate->y.dim[0];
    int64_t width = gate->y.dim[1];
    mt_check_2d(c, "up", &up->y, MT_CHECK_FLOAT, rows, width);
    mt_check_2d(c, "y", &args->y, MT_CHECK_FLOAT, rows, width);
}

void mt_check_grouped_swiglu_backward(struct mt_check *c, const struct mt_grouped_swiglu_backward_args *args)
{
    check_sum(c, "sum", &args->sum);
    mt_check_swiglu_backward(
        c,
        &(struct mt_swiglu_backward_args){
            .dy = args->sum.y, .gate = args->gate, .up = args->up, .dgate = args->dgate, .dup = args->dup});
}
