/* Cases of router_zloss: one expert and many, masks, padded rows, logits far apart, without lse. */
#include <math.h>

#include "ops/case_files.h"
#include "ops/token_fill.h"
#include "tensor/dtype.h"

enum { LOGITS, MASK, LSE, SUM, DSUM, DLOGITS };
enum { MASKED, NO_LSE, ACCUMULATE, SPECIALS };
enum { SCALE };

/* Row 0: -inf only. Row 1: a NaN. Row 2: an infinity. The others: -inf in every third column. */
static void fill_specials(const struct mt_tensor *logits)
{
    for (int64_t i = 0; i < logits->dim[0]; i++) {
        for (int64_t j = 0; j < logits->dim[1]; j++) {
            double value = i == 1 ? (double)NAN : (double)INFINITY;
            bool chosen = j == 3;
            if (i == 0 || i > 2) {
                value = -(double)INFINITY;
                chosen = i == 0 || j % 3 == 1;
            }
            if (chosen) mt_store(logits->dtype, logits->data, i * logits->stride[0] + j, value);
        }
    }
}

/* The gradient of sum reaches backward as `scale`, or, where it accumulates, as `factor`. */
static void fill(const struct op_case *c, struct mt_tensor *t)
{
    fill_mask((enum mask_kind)c->param[MASKED], &t[MASK]);
    mt_store(t[DSUM].dtype, t[DSUM].data, 0, (double)c->real[SCALE]);
    if (c->param[SPECIALS]) fill_specials(&t[LOGITS]);
}

static enum mt_status forward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_router_zloss_forward_args args = {.logits = t[LOGITS], .sum = t[SUM]};
    if (c->param[MASKED] != MASK_NONE) args.mask = t[MASK];
    if (!c->param[NO_LSE]) args.lse = t[LSE];
    return mt_router_zloss_forward(device, &args);
}

static enum mt_status backward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_router_zloss_backward_args args = {.logits = t[LOGITS],
                                                 .dlogits = t[DLOGITS],
                                                 .scale = c->real[SCALE],
                                                 .accumulate = c->param[ACCUMULATE] != 0};
    if (c->param[MASKED] != MASK_NONE) args.mask = t[MASK];
    if (c->param[ACCUMULATE]) {
        args.factor = t[DSUM];
        args.scale = 1.0f;
    }
    return mt_router_zloss_backward(device, &args);
}

static struct op_case *add(struct case_list *list, int64_t tokens, int64_t experts, enum mask_kind masked,
                           bool accumulate, double spread)
{
    struct op_case *c = case_new(list, MT_OP_router_zloss_forward, "N=%d n=%d%s%s spread %g", (int)tokens,
                                 (int)experts, mask_name(masked), accumulate ? " accumulate" : "", spread);
    int64_t wide[] = {tokens, experts};
    c->tolerance = 1e-6;
    c->backward_op = MT_OP_router_zloss_backward;
    c->param[MASKED] = masked;
    c->param[ACCUMULATE] = accumulate;
    c->real[SCALE] = 0.37f;
    c->fill = fill;
    c->forward = forward;
    c->backward = backward;
    case_input(c, "logits", 2, wide);
    c->slot[LOGITS].scale = spread;
    case_index(c, "mask", 1, wide);
    case_output(c, "lse", 1, wide);
    case_slot(c, "sum", SLOT_OUTPUT, MT_F64, 1, (int64_t[]){1});
    c->slot[case_grad_in(c, "dsum", SUM)].dtype = MT_F64;
    c->slot[DSUM].fill = FILL_CUSTOM;
    case_grad_out(c, "dlogits", LOGITS);
    if (accumulate) c->slot[DLOGITS].role = SLOT_GRAD_SUM;
    return c;
}

void cases_router_zloss(struct case_list *list)
{
    add(list, 1, 1, MASK_NONE, false, 1.0);
    add(list, 0, 8, MASK_NONE, false, 1.0)->no_gradient = true; // no element to check
    add(list, 5, 7, MASK_NONE, false, 1.0);
    add(list, 40, 16, MASK_SOME, true, 2.0);
    add(list, 17, 33, MASK_ENDS, false, 3.0);
    add(list, 9, 8, MASK_EMPTY, false, 1.0)->no_gradient = true; // constant 0
    add(list, 9, 8, MASK_EMPTY, true, 1.0)->no_gradient = true;
    add(list, 6, 64, MASK_NONE, false, 60.0); // logits far apart: no overflow
    struct op_case *c = add(list, 300, 128, MASK_SOME, true, 1.0);
    c->slot[LOGITS].row_padding = 3;
    c->slot[DLOGITS].row_padding = 5;
    c = add(list, 300, 256, MASK_NONE, false, 1.0);
    c->param[NO_LSE] = 1;

    c = add(list, 12, 20, MASK_NONE, false, 1.0);
    c->param[SPECIALS] = 1;
    c->no_gradient = true; // NaN and infinities have no differences
    c = add(list, 5, 6, MASK_SOME, false, 1.0);
    c->slot[LOGITS].dtype = MT_F64; // handed to ref
    c->slot[LSE].dtype = MT_F64;
    c->slot[DLOGITS].dtype = MT_F64;

    static const int64_t real[][2] = {{4096, 64}, {16384, 64}, {4096, 8},
                                      {4096, 16}, {4096, 128}, {4096, 256}};
    for (int i = 0; i < (int)(sizeof real / sizeof real[0]); i++) {
        c = add(list, real[i][0], real[i][1], MASK_NONE, true, 1.0);
        double elements = (double)(real[i][0] * real[i][1]);
        c->only_speed = true;
        c->bytes = elements * 4;              // logits in
        c->backward_bytes = elements * 4 * 3; // logits, dlogits in; dlogits out
    }
}
