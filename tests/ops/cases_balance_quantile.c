/* Cases of balance_quantile: with and without bias, masks, few tokens, one slot and all but one, padded rows.
 */
#include "ops/case_files.h"
#include "ops/token_fill.h"

enum { PROBS, BIAS, MASK, MARGIN, SUM, ROWS };
enum { SLOTS, BIASED, MASKED };

static void fill(const struct op_case *c, struct mt_tensor *t)
{
    fill_mask((enum mask_kind)c->param[MASKED], &t[MASK]);
}

static enum mt_status forward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_balance_quantile_args args = {.probs = t[PROBS],
                                            .margin = t[MARGIN],
                                            .sum = t[SUM],
                                            .rows = t[ROWS],
                                            .slots = (int)c->param[SLOTS]};
    if (c->param[BIASED]) args.bias = t[BIAS];
    if (c->param[MASKED] != MASK_NONE) args.mask = t[MASK];
    return mt_balance_quantile(device, &args);
}

static struct op_case *add(struct case_list *list, int64_t tokens, int64_t experts, int64_t slots,
                           bool biased, enum mask_kind masked)
{
    struct op_case *c = case_new(list, MT_OP_balance_quantile, "N=%d n=%d k=%d%s%s", (int)tokens,
                                 (int)experts, (int)slots, biased ? " bias" : "", mask_name(masked));
    int64_t probs[] = {tokens, experts};
    int64_t margin[] = {experts, tokens};
    int64_t one[] = {1};
    c->param[SLOTS] = slots;
    c->param[BIASED] = biased;
    c->param[MASKED] = masked;
    c->fill = fill;
    c->forward = forward;
    case_input(c, "probs", 2, probs);
    c->slot[PROBS].fill = FILL_UNIFORM;
    case_input(c, "bias", 1, margin);
    case_index(c, "mask", 1, probs);
    case_slot(c, "margin", SLOT_OUTPUT, MT_F32, 2, margin);
    case_slot(c, "sum", SLOT_OUTPUT, MT_F64, 1, margin);
    case_slot(c, "rows", SLOT_OUTPUT, MT_F64, 1, one);
    return c;
}

void cases_balance_quantile(struct case_list *list)
{
    add(list, 0, 8, 2, true, MASK_NONE);
    add(list, 1, 2, 1, false, MASK_NONE);
    add(list, 7, 5, 4, true, MASK_NONE); // the quantile is the last token's
    add(list, 64, 8, 2, true, MASK_NONE);
    add(list, 61, 7, 3, false, MASK_SOME);
    add(list, 300, 16, 1, true, MASK_ENDS);
    add(list, 50, 8, 2, true, MASK_EMPTY);
    struct op_case *c = add(list, 3001, 64, 6, true, MASK_SOME); // on threads
    c->slot[PROBS].row_padding = 3;
    c->slot[MARGIN].row_padding = 1;

    static const int64_t real[][3] = {{4096, 64, 6}, {16384, 64, 6}, {4096, 8, 2}, {16384, 256, 8}};
    for (int i = 0; i < 4; i++) {
        c = add(list, real[i][0], real[i][1], real[i][2], true, MASK_NONE);
        c->only_speed = true;
        c->bytes = (double)(real[i][0] * real[i][1]) * 4 * 6; // scores in, margins out, four passes over them
    }
}
