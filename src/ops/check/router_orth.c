/* Argument checks of router_orth. */
#include <math.h>

#include "ops/check/check.h"

/* What forward and backward share: rows, and runs of experts that divide them evenly. */
static void check_router(struct mt_check *c, const struct mt_tensor *weight, enum mt_router_orth_kind kind,
                         int groups)
{
    mt_check_2d(c, "weight", weight, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    int64_t experts = weight->dim[0];
    mt_check_value(c, experts >= 1, "the number of weight's rows", (double)experts, "1 or more");
    bool known = (unsigned)kind <= MT_ROUTER_ORTH_L1;
    mt_check_value(c, known, "kind", (double)kind, "cosine or l1");
    bool fits = groups >= 0 && (groups <= 1 || kind == MT_ROUTER_ORTH_COSINE);
    mt_check_value(c, fits, "groups", (double)groups, "0 or 1, or more of them with the cosine kind");
    bool even = groups <= 1 || experts % groups == 0;
    mt_check_value(c, even, "groups", (double)groups, "a divisor of the number of experts");
}

void mt_check_router_orth_forward(struct mt_check *c, const struct mt_router_orth_forward_args *args)
{
    check_router(c, &args->weight, args->kind, args->groups);
    mt_check_1d(c, "loss", &args->loss, MT_CHECK_F64, 1);
}

void mt_check_router_orth_backward(struct mt_check *c, const struct mt_router_orth_backward_args *args)
{
    check_router(c, &args->weight, args->kind, args->groups);
    bool squares = mt_tensor_present(&args->squares);
    if (squares) mt_check_1d(c, "squares", &args->squares, MT_CHECK_F64, 1);
    if (mt_tensor_present(&args->dweight) || !squares) {
        mt_check_like(c, "dweight", &args->dweight, MT_CHECK_FLOAT, &args->weight);
    }
    mt_check_value(c, isfinite(args->scale), "scale", (double)args->scale, "a finite number");
}
