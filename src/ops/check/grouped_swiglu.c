/* Argument checks of grouped_swiglu and its backward: those of the sums, and that all fit together. */
#include "ops/check/check.h"

/* One of the sums, which overwrites. */
static enum mt_status check_sum(const struct mt_device *device, const char *name,
                                const struct mt_grouped_sum_args *sum)
{
    enum mt_status status = mt_check_grouped_sum(device, sum);
    if (status == MT_OK)
        status = mt_check_value(device, sum->beta == 0.0f, "beta", (double)sum->beta, "0: y is overwritten");
    return status == MT_OK ? MT_OK : mt_fail_within(device->ctx, status, "%s", name);
}

static bool same_offsets(const struct mt_tensor *one, const struct mt_tensor *other)
{
    if (!mt_tensor_present(one)) return !mt_tensor_present(other);
    return mt_tensor_present(other) && one->data == other->data;
}

enum mt_status mt_check_grouped_swiglu(const struct mt_device *device,
                                       const struct mt_grouped_swiglu_args *args)
{
    const struct mt_grouped_sum_args *gate = &args->gate;
    const struct mt_grouped_sum_args *up = &args->up;
    enum mt_status status = check_sum(device, "gate", gate);
    if (status == MT_OK) status = check_sum(device, "up", up);
    if (status != MT_OK) return status;
    if (up->experts != gate->experts || !same_offsets(&gate->offsets, &up->offsets))
        return mt_fail(device->ctx, MT_ERR_USAGE, "gate and up have other experts or offsets");
    int64_t rows = gate->y.dim[0];
    int64_t width = gate->y.dim[1];
    status = mt_check_2d(device, "up", &up->y, MT_CHECK_FLOAT, rows, width);
    if (status != MT_OK) return status;
    return mt_check_2d(device, "y", &args->y, MT_CHECK_FLOAT, rows, width);
}

enum mt_status mt_check_grouped_swiglu_backward(const struct mt_device *device,
                                                const struct mt_grouped_swiglu_backward_args *args)
{
    enum mt_status status = check_sum(device, "sum", &args->sum);
    if (status != MT_OK) return status;
    return mt_check_swiglu_backward(
        device,
        &(struct mt_swiglu_backward_args){
            .dy = args->sum.y, .gate = args->gate, .up = args->up, .dgate = args->dgate, .dup = args->dup});
}
