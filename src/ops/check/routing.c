/* Rows of the router, of dispatch and combine, and of the rules that change a choice. */
#include "ops/check/rows.h"

// ------------------------------------------------------------------ scores and choices

static void check_score_kind(struct mt_check *c, enum mt_score_kind kind)
{
    bool known = kind == MT_SCORE_SOFTMAX || kind == MT_SCORE_SIGMOID;
    mt_check_value(c, known, "kind", (double)kind, "softmax (0) or sigmoid (1)");
}

static void router_score_forward_more(struct mt_check *c, const void *p)
{
    check_score_kind(c, ((const struct mt_router_score_forward_args *)p)->kind);
}

static void router_score_backward_more(struct mt_check *c, const void *p)
{
    check_score_kind(c, ((const struct mt_router_score_backward_args *)p)->kind);
}

static void topk_more(struct mt_check *c, const void *p)
{
    const struct mt_topk_args *args = p;
    int64_t experts = mt_check_dim(c, 'n');
    int64_t slots = mt_check_dim(c, 'k');
    int groups = args->groups;
    mt_check_value(c, slots >= 1 && slots <= experts, "the number of expert's columns", (double)slots,
                   "1 to the number of experts");
    bool known = args->group_rule == MT_GROUP_NONE || args->group_rule == MT_GROUP_MAX ||
                 args->group_rule == MT_GROUP_TOP2_SUM;
    mt_check_value(c, known, "group_rule", (double)args->group_rule, "none (0), max (1) or top2_sum (2)");
    if (args->group_rule == MT_GROUP_NONE) {
        mt_check_value(c, groups == 0, "groups", (double)groups, "0 without a group_rule");
        return;
    }
    bool divides = groups >= 1 && experts % groups == 0;
    mt_check_value(c, divides, "groups", (double)groups, "a divisor of the number of experts");
    if (divides && args->group_rule == MT_GROUP_TOP2_SUM)
        mt_check_value(c, experts / groups >= 2, "groups", (double)groups, "groups of two experts or more");
    bool kept = args->groups_kept >= 1 && args->groups_kept <= groups;
    mt_check_value(c, kept, "groups_kept", (double)args->groups_kept, "1 to groups");
}

static void check_weights(struct mt_check *c, float epsilon, float scale)
{
    mt_check_value(c, epsilon >= 0, "epsilon", (double)epsilon, "0 or more");
    mt_check_value(c, scale != 0, "scale", (double)scale, "anything but 0");
}

static void topk_weights_forward_more(struct mt_check *c, const void *p)
{
    const struct mt_topk_weights_forward_args *args = p;
    check_weights(c, args->epsilon, args->scale);
}

static void topk_weights_backward_more(struct mt_check *c, const void *p)
{
    const struct mt_topk_weights_backward_args *args = p;
    check_weights(c, args->epsilon, args->scale);
}

/* Two slots, so two experts at the least. */
static void check_sparsemixer(struct mt_check *c, float jitter)
{
    int64_t experts = mt_check_dim(c, 'n');
    mt_check_value(c, experts >= 2, "the number of logits' columns", (double)experts, "2 or more");
    mt_check_value(c, jitter >= 0, "jitter", (double)jitter, "0 or more");
}

static void sparsemixer_forward_more(struct mt_check *c, const void *p)
{
    check_sparsemixer(c, ((const struct mt_sparsemixer_forward_args *)p)->jitter);
}

static void sparsemixer_backward_more(struct mt_check *c, const void *p)
{
    check_sparsemixer(c, ((const struct mt_sparsemixer_backward_args *)p)->jitter);
}

static void unchosen_backward_more(struct mt_check *c, const void *p)
{
    const struct mt_unchosen_backward_args *args = p;
    bool known = args->number >= 0 && args->number < mt_check_dim(c, 'n');
    mt_check_value(c, known, "number", (double)args->number, "0 to less than the number of experts");
    mt_check_value(c, args->scale != 0.0f, "scale", (double)args->scale, "a number other than 0");
}

// ------------------------------------------------------------------ rules

/* Shares are formed, and weights needed, only with a threshold. */
static void slot_drop_more(struct mt_check *c, const void *p)
{
    const struct mt_slot_drop_args *args = p;
    mt_check_value(c, args->experts >= 1, "experts", (double)args->experts, "1 or more");
    mt_check_range(c, "expert", &args->expert, -1, args->experts);
    mt_check_value(c, args->threshold >= 0, "threshold", (double)args->threshold, "0 or more");
    mt_check_value(c, args->capacity >= 0, "capacity", (double)args->capacity, "0 or more");
    if (args->threshold > 0) mt_check_there(c, "weight", &args->weight);
}

static void given_experts_more(struct mt_check *c, const void *p)
{
    const struct mt_given_experts_args *args = p;
    mt_check_value(c, args->experts >= 1, "experts", (double)args->experts, "1 or more");
    mt_check_range(c, "given", &args->given, -1, args->experts);
}

static void balance_quantile_more(struct mt_check *c, const void *p)
{
    const struct mt_balance_quantile_args *args = p;
    mt_check_value(c, args->margin.dtype == args->probs.dtype, "the type of margin",
                   (double)args->margin.dtype, "that of probs");
    bool some = args->slots >= 1 && args->slots < mt_check_dim(c, 'n');
    mt_check_value(c, some, "slots", (double)args->slots, "1 to less than the number of experts");
}

static void expert_pool_more(struct mt_check *c, const void *p)
{
    const struct mt_expert_pool_args *args = p;
    bool some = args->least >= 1 && args->least <= mt_check_dim(c, 'n');
    mt_check_value(c, some, "least", (double)args->least, "1 to the number of experts");
}

static void pool_mask_more(struct mt_check *c, const void *p)
{
    (void)p;
    bool enough = mt_check_dim(c, 'B') >= 1 || mt_check_dim(c, 'T') == 0;
    mt_check_value(c, enough, "the number of pool's rows", (double)mt_check_dim(c, 'B'), "1 or more");
}

// ------------------------------------------------------------------ dispatch and combine

static void dispatch_plan_more(struct mt_check *c, const void *p)
{
    const struct mt_dispatch_plan_args *args = p;
    int64_t tokens = mt_check_dim(c, 'T');
    int64_t slots = mt_check_dim(c, 'k');
    bool fits = slots == 0 || tokens <= INT32_MAX / slots;
    mt_check_value(c, fits, "the number of expert's elements", (double)tokens * (double)slots,
                   "less than 2^31");
    int64_t experts = args->offsets.dim[0] - 1;
    mt_check_value(c, experts >= 1, "the length of offsets", (double)args->offsets.dim[0],
                   "the number of experts plus 1");
    mt_check_range(c, "expert", &args->expert, -1, experts);
    mt_check_1d(c, "slot_of_row", &args->slot_of_row, MT_CHECK_INDEX, tokens * slots);
}

static void dispatch_forward_more(struct mt_check *c, const void *p)
{
    const struct mt_dispatch_forward_args *args = p;
    int64_t tokens = mt_check_dim(c, 'T');
    mt_check_value(c, args->slots >= 1, "slots", (double)args->slots, "1 or more");
    mt_check_range(c, "slot_of_row", &args->slot_of_row, -1, tokens * args->slots);
    if (mt_tensor_present(&args->row_of_slot))
        mt_check_2d(c, "row_of_slot", &args->row_of_slot, MT_CHECK_INDEX, tokens, args->slots);
}

static void check_slots(struct mt_check *c)
{
    int64_t slots = mt_check_dim(c, 'k');
    mt_check_value(c, slots <= MT_MAX_SLOTS, "the number of row_of_slot's columns", (double)slots,
                   "64 or less");
}

/* Gram matrices alone need no y. */
static void combine_forward_more(struct mt_check *c, const void *p)
{
    const struct mt_combine_forward_args *args = p;
    check_slots(c);
    if (!mt_tensor_present(&args->gram)) mt_check_there(c, "y", &args->y);
    bool added = args->accumulate || mt_tensor_present(&args->base);
    mt_check_value(c, mt_tensor_present(&args->y) || !added, "y", 0.0, "a tensor, to be added to");
}

static void combine_backward_more(struct mt_check *c, const void *p)
{
    const struct mt_combine_backward_args *args = p;
    check_slots(c);
    if (mt_tensor_present(&args->dweight)) mt_check_there(c, "dy", &args->dy);
    if (mt_tensor_present(&args->dy)) mt_check_there(c, "dweight", &args->dweight);
}

// ------------------------------------------------------------------ rows: T tokens, n experts, k of a token

static const struct mt_check_row rows[] = {
    MT_ROW(router_score_forward, probs, router_score_forward_more, {"logits", MT_CHECK_STAT, "Tn"},
           {"probs", MT_CHECK_STAT, "Tn"}),
    MT_ROW(router_score_backward, dlogits, router_score_backward_more, {"probs", MT_CHECK_STAT, "Tn"},
           {"dprobs", MT_CHECK_STAT, "Tn"}, {"dlogits", MT_CHECK_STAT, "Tn"}),
    MT_ROW(topk, expert, topk_more, {"probs", MT_CHECK_STAT, "Tn"}, {"bias", MT_CHECK_STAT, "n?"},
           {"expert", MT_CHECK_INDEX, "Tk"}),
    MT_ROW(topk_weights_forward, weight, topk_weights_forward_more, {"probs", MT_CHECK_STAT, "Tn"},
           {"expert", MT_CHECK_INDEX, "Tk -1..n"}, {"weight", MT_CHECK_STAT, "Tk"}),
    MT_ROW(topk_weights_backward, dprobs, topk_weights_backward_more, {"probs", MT_CHECK_STAT, "Tn"},
           {"expert", MT_CHECK_INDEX, "Tk -1..n"}, {"dweight", MT_CHECK_STAT, "Tk"},
           {"dprobs", MT_CHECK_STAT, "Tn"}),
    MT_ROW(sparsemixer_forward, weight, sparsemixer_forward_more, {"logits", MT_CHECK_STAT, "Tn"},
           {"expert", MT_CHECK_INDEX, "T2"}, {"weight", MT_CHECK_STAT, "T2"}),
    MT_ROW(sparsemixer_backward, dlogits, sparsemixer_backward_more, {"logits", MT_CHECK_STAT, "Tn"},
           {"expert", MT_CHECK_INDEX, "T2 0..n"}, {"dweight", MT_CHECK_STAT, "T2"},
           {"dlogits", MT_CHECK_STAT, "Tn"}),
    MT_ROW(unchosen_backward, dprobs, unchosen_backward_more, {"dy", MT_CHECK_FLOAT, "TD"},
           {"outputs", MT_CHECK_FLOAT, "TD"}, {"probs", MT_CHECK_STAT, "Tn"},
           {"expert", MT_CHECK_INDEX, "Tk -1..n"}, {"dprobs", MT_CHECK_STAT, "Tn"}),
    MT_ROW(slot_drop, kept, slot_drop_more, {"expert", MT_CHECK_INDEX, "Tk"},
           {"weight", MT_CHECK_STAT, "Tk?"}, {"mask", MT_CHECK_INDEX, "T?"}, {"kept", MT_CHECK_INDEX, "Tk"}),
    MT_ROW(given_experts, agreed, given_experts_more, {"given", MT_CHECK_INDEX, "Tk"},
           {"expert", MT_CHECK_INDEX, "Tk"}, {"agreed", MT_CHECK_STAT, "T2?"}),
    MT_ROW(balance_quantile, rows, balance_quantile_more, {"probs", MT_CHECK_STAT, "Tn"},
           {"bias", MT_CHECK_STAT, "n?"}, {"mask", MT_CHECK_INDEX, "T?"}, {"margin", MT_CHECK_STAT, "nT"},
           {"sum", MT_CHECK_F64, "n"}, {"rows", MT_CHECK_F64, "1"}),
    MT_ROW(expert_pool, pool, expert_pool_more, {"sum", MT_CHECK_F64, "Bn"}, {"rows", MT_CHECK_F64, "B"},
           {"bias", MT_CHECK_STAT, "n?"}, {"pool", MT_CHECK_INDEX, "Bn"}),
    MT_ROW(pool_mask, pool, pool_mask_more, {"x", MT_CHECK_STAT, "Tn"},
           {"segment", MT_CHECK_INDEX, "T? 0..B"}, {"pool", MT_CHECK_INDEX, "Bn"}),
    MT_ROW(dispatch_plan, slot_of_row, dispatch_plan_more, {"expert", MT_CHECK_INDEX, "Tk"},
           {"offsets", MT_CHECK_INDEX, "*"}, {"row_of_slot", MT_CHECK_INDEX, "Tk"},
           {"slot_of_row", MT_CHECK_INDEX, "*"}),
    MT_ROW(dispatch_forward, rows, dispatch_forward_more, {"x", MT_CHECK_FLOAT, "TD"},
           {"slot_of_row", MT_CHECK_INDEX, "R"}, {"row_of_slot", MT_CHECK_INDEX, "T*? -1..R"},
           {"rows", MT_CHECK_FLOAT, "RD"}),
    MT_ROW(dispatch_backward, dx, NULL, {"drows", MT_CHECK_FLOAT, "RD"},
           {"row_of_slot", MT_CHECK_INDEX, "Tk -1..R"}, {"dx", MT_CHECK_FLOAT, "TD"}),
    MT_ROW(combine_forward, gram, combine_forward_more, {"rows", MT_CHECK_FLOAT, "RD"},
           {"row_of_slot", MT_CHECK_INDEX, "Tk -1..R"}, {"weight", MT_CHECK_STAT, "Tk"},
           {"base", MT_CHECK_FLOAT, "TD?"}, {"y", MT_CHECK_FLOAT, "TD?"}, {"gram", MT_CHECK_STAT, "Tkk?"}),
    MT_ROW(combine_backward, factor, combine_backward_more, {"dy", MT_CHECK_FLOAT, "TD?"},
           {"rows", MT_CHECK_FLOAT, "RD"}, {"row_of_slot", MT_CHECK_INDEX, "Tk -1..R"},
           {"weight", MT_CHECK_STAT, "Tk"}, {"coupling", MT_CHECK_STAT, "Tkk?"},
           {"drows", MT_CHECK_FLOAT, "RD"}, {"dweight", MT_CHECK_STAT, "Tk?"},
           {"factor", MT_CHECK_STAT, "1?"}),
};

const struct mt_check_family mt_check_routing = {rows, sizeof rows / sizeof rows[0]};
