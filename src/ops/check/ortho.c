/* Argument checks of ortho. */
#include <math.h>

#include "ops/check/check.h"

/* What forward and backward share. */
static void check_tokens(struct mt_check *c, const struct mt_tensor *gram, const struct mt_tensor *weight,
                         const struct mt_tensor *mask)
{
    mt_check_3d(c, "gram", gram, MT_CHECK_STAT, MT_ANY, MT_ANY, MT_ANY);
    int64_t tokens = gram->dim[0];
    int64_t slots = gram->dim[1];
    bool usable = slots >= 1 && slots <= MT_MAX_SLOTS;
    mt_check_value(c, usable, "the number of gram's slots", (double)slots, "1 to 64");
    mt_check_3d(c, "gram", gram, MT_CHECK_STAT, tokens, slots, slots);
    mt_check_optional_2d(c, "weight", weight, MT_CHECK_STAT, tokens, slots);
    mt_check_optional_1d(c, "mask", mask, MT_CHECK_INDEX, tokens);
}

static void check_numbers(struct mt_check *c, enum mt_ortho_form form, float epsilon, float gate)
{
    bool known = (unsigned)form <= MT_ORTHO_SIGNED;
    mt_check_value(c, known, "form", (double)form, "pairwise, span, cosine or signed");
    bool usable = isfinite(epsilon) && epsilon >= 0.0f;
    mt_check_value(c, usable, "epsilon", (double)epsilon, "finite and not negative");
    mt_check_value(c, !isnan(gate), "gate", (double)gate, "a number");
}

void mt_check_ortho_forward(struct mt_check *c, const struct mt_ortho_forward_args *args)
{
    check_tokens(c, &args->gram, &args->weight, &args->mask);
    mt_check_1d(c, "loss", &args->loss, MT_CHECK_STAT, args->gram.dim[0]);
    mt_check_optional_1d(c, "sum", &args->sum, MT_CHECK_F64, 1);
    mt_check_optional_1d(c, "rows", &args->rows, MT_CHECK_F64, 1);
    check_numbers(c, args->form, args->epsilon, args->gate);
}

void mt_check_ortho_backward(struct mt_check *c, const struct mt_ortho_backward_args *args)
{
    check_tokens(c, &args->gram, &args->weight, &args->mask);
    mt_check_like(c, "coupling", &args->coupling, MT_CHECK_STAT, &args->gram);
    mt_check_optional_1d(c, "factor", &args->factor, MT_CHECK_F64, 1);
    check_numbers(c, args->form, args->epsilon, args->gate);
    mt_check_value(c, isfinite(args->scale), "scale", (double)args->scale, "a finite number");
    bool fits = !args->printed_gradient || args->form == MT_ORTHO_PAIRWISE;
    mt_check_value(c, fits, "form", (double)args->form, "pairwise with printed_gradient");
}
