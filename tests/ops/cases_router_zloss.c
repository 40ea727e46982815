/* Cases of router_zloss: one expert and many, masks, padded rows, logits far apart, without lse. */
#include "ops/case_files.h"
#include "ops/token_fill.h"
#include "tensor/dtype.h"

enum { LOGITS, MASK, LSE, SUM, DSUM, DLOGITS };
enum { MASKED, NO_LSE, ACCUMULATE };
enum { SCALE };

/* The gradient of sum reaches backward as `scale`. */
static void fill(const struct op_case *c, struct mt_tensor *t)
{
    fill_mask((enum mask_kind)c->param[MASKED], &t[MASK]);
    mt_store(t[DSUM].dtype, t[DSUM].data, 0, (double)c->real[SCALE]);
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
    return mt_router_zloss_backward(device, &args);
}

static struct op_case *add(struct case_list *list, int64_t tokens, int64_t experts, enum mask_kind masked,
                           bool accumulate, double spread)
{
    struct op_case *c = case_new(list, MT_OP_router_zloss_forward, "N=%d n=%d%s%s spread %g", (int)tokens,
                                 (int)experts, mask_name(masked), accumulate ? " accumulate" : "", spread);
    int64_t wide[] = {tokens, experts};
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
    add(list, 5, 7, MASK_NONE, false, 1.0);
    add(list, 40, 16, MASK_SOME, true, 2.0);
}
