/* Argument checks of ortho. */
#include <math.h>

#include "ops/check/check.h"

/* What forward and backward share. */
static enum mt_status check_tokens(const struct mt_device *device, const struct mt_tensor *gram,
                                   const struct mt_tensor *weight, const struct mt_tensor *mask)
{
    enum mt_status status = mt_check_3d(device, "gram", gram, MT_CHECK_STAT, MT_ANY, MT_ANY, MT_ANY);
    if (status != MT_OK) return status;
    int64_t tokens = gram->dim[0];
    int64_t slots = gram->dim[1];
    bool usable = slots >= 1 && slots <= MT_MAX_SLOTS;
    status = mt_check_value(device, usable, "the number of gram's slots", (double)slots, "1 to 64");
    if (status != MT_OK) return status;
    status = mt_check_3d(device, "gram", gram, MT_CHECK_STAT, tokens, slots, slots);
    if (status != MT_OK) return status;
    if (mt_tensor_present(weight)) {
        status = mt_check_2d(device, "weight", weight, MT_CHECK_STAT, tokens, slots);
        if (status != MT_OK) return status;
    }
    if (!mt_tensor_present(mask)) return MT_OK;
    return mt_check_1d(device, "mask", mask, MT_CHECK_INDEX, tokens);
}

static enum mt_status check_numbers(const struct mt_device *device, enum mt_ortho_form form, float epsilon,
                                    float gate)
{
    bool known = (unsigned)form <= MT_ORTHO_COSINE;
    enum mt_status status = mt_check_value(device, known, "form", (double)form, "pairwise, span or cosine");
    if (status != MT_OK) return status;
    bool usable = isfinite(epsilon) && epsilon >= 0.0f;
    status = mt_check_value(device, usable, "epsilon", (double)epsilon, "finite and not negative");
    if (status != MT_OK) return status;
    return mt_check_value(device, !isnan(gate), "gate", (double)gate, "a number");
}

enum mt_status mt_check_ortho_forward(const struct mt_device *device,
                                      const struct mt_ortho_forward_args *args)
{
    enum mt_status status = check_tokens(device, &args->gram, &args->weight, &args->mask);
    if (status != MT_OK) return status;
    status = mt_check_1d(device, "loss", &args->loss, MT_CHECK_STAT, args->gram.dim[0]);
    if (status != MT_OK) return status;
    return check_numbers(device, args->form, args->epsilon, args->gate);
}

enum mt_status mt_check_ortho_backward(const struct mt_device *device,
                                       const struct mt_ortho_backward_args *args)
{
    enum mt_status status = check_tokens(device, &args->gram, &args->weight, &args->mask);
    if (status != MT_OK) return status;
    status = mt_check_like(device, "coupling", &args->coupling, MT_CHECK_STAT, &args->gram);
    if (status != MT_OK) return status;
    status = check_numbers(device, args->form, args->epsilon, args->gate);
    if (status != MT_OK) return status;
    status = mt_check_value(device, isfinite(args->scale), "scale", (double)args->scale, "a finite number");
    if (status != MT_OK) return status;
    bool fits = !args->printed_gradient || args->form == MT_ORTHO_PAIRWISE;
    return mt_check_value(device, fits, "form", (double)args->form, "pairwise with printed_gradient");
}
