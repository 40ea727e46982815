/* Cases of router_score, topk and topk_weights: the routers of the seven models, small and at real size. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ops/case_files.h"
#include "ops/route_fill.h"
#include "tensor/dtype.h"

// ------------------------------------------------------------------ router_score

enum { S_LOGITS, S_PROBS, S_DPROBS, S_DLOGITS };
enum { S_KIND, S_ACCUMULATE, S_IN_PLACE };

static enum mt_status score_forward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    // In place, probs arrives holding the logits.
    return mt_router_score_forward(device, &(struct mt_router_score_forward_args){
                                               .logits = c->param[S_IN_PLACE] ? t[S_PROBS] : t[S_LOGITS],
                                               .probs = t[S_PROBS],
                                               .kind = (enum mt_score_kind)c->param[S_KIND],
                                           });
}

static enum mt_status score_backward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    // In place, dlogits arrives holding dprobs.
    return mt_router_score_backward(device, &(struct mt_router_score_backward_args){
                                                .probs = t[S_PROBS],
                                                .dprobs = c->param[S_IN_PLACE] ? t[S_DLOGITS] : t[S_DPROBS],
                                                .dlogits = t[S_DLOGITS],
                                                .kind = (enum mt_score_kind)c->param[S_KIND],
                                                .accumulate = c->param[S_ACCUMULATE] != 0,
                                            });
}

static struct op_case *add_score(struct case_list *list, int64_t tokens, int64_t experts,
                                 enum mt_score_kind kind, bool accumulate, double scale)
{
    struct op_case *c = case_new(list, MT_OP_router_score_forward, "%s N=%d n=%d%s scale %g",
                                 kind == MT_SCORE_SOFTMAX ? "softmax" : "sigmoid", (int)tokens, (int)experts,
                                 accumulate ? " accumulate" : "", scale);
    int64_t shape[] = {tokens, experts};
    c->backward_op = MT_OP_router_score_backward;
    c->param[S_KIND] = kind;
    c->param[S_ACCUMULATE] = accumulate;
    c->forward = score_forward;
    c->backward = score_backward;
    case_input(c, "logits", 2, shape);
    c->slot[S_LOGITS].scale = scale;
    case_output(c, "probs", 2, shape);
    case_grad_in(c, "dprobs", S_PROBS);
    case_grad_out(c, "dlogits", S_LOGITS);
    if (accumulate) c->slot[S_DLOGITS].role = SLOT_GRAD_SUM;
    return c;
}

static void add_score_in_place(struct case_list *list, enum mt_score_kind kind)
{
    struct op_case *c = add_score(list, 9, 20, kind, false, 1.0);
    c->param[S_IN_PLACE] = 1;
    c->slot[S_PROBS].role = SLOT_UPDATED;
    c->slot[S_DLOGITS].role = SLOT_GRAD_SUM;
    c->no_gradient = true; // inputs are overwritten, so there is nothing to step; compared with ref only
}

/*
 * Arithmetic of one probability, a multiply-add counted as two. exp: 6 multiply-adds of a polynomial, 3 to
 * split the argument, one addition and one product with a power of two. Softmax: a comparison, a
 * subtraction, an addition and a product besides. Sigmoid: an addition, a reciprocal made of 6 multiply-adds,
 * and a product.
 */
static double score_flops(enum mt_score_kind kind)
{
    const double exponential = 2 * 9 + 2;
    return exponential + (kind == MT_SCORE_SOFTMAX ? 4 : 1 + 2 * 6 + 1);
}

/* Held against memcpy, unless the caller states flops: what fits the caches is bound by arithmetic. */
static struct op_case *add_score_speed(struct case_list *list, int64_t tokens, int64_t experts,
                                       enum mt_score_kind kind)
{
    struct op_case *c = add_score(list, tokens, experts, kind, false, 1.0);
    c->only_speed = true;
    c->bytes = (double)(tokens * experts) * 4 * 2;
    c->backward_bytes = (double)(tokens * experts) * 4 * 3;
    return c;
}

static void score_cases(struct case_list *list)
{
    for (int kind = MT_SCORE_SOFTMAX; kind <= MT_SCORE_SIGMOID; kind++) {
        enum mt_score_kind score = (enum mt_score_kind)kind;
        add_score(list, 1, 1, score, false, 1.0)->no_gradient = score == MT_SCORE_SOFTMAX; // constant 1
        add_score(list, 0, 8, score, false, 1.0)->no_gradient = true; // no element to check
        add_score(list, 5, 8, score, true, 1.0);
        add_score(list, 17, 33, score, false, 3.0);
        struct op_case *c = add_score(list, 300, 128, score, true, 1.0);
        c->slot[S_LOGITS].row_padding = 3;
        c->slot[S_PROBS].row_padding = 5;
        c->slot[S_DLOGITS].row_padding = 1;
        // Logits far apart: probabilities of 0 and 1, no overflow. Differences in double still hold.
        add_score(list, 6, 64, score, false, 60.0)->no_gradient = true;
        add_score_in_place(list, score);
        add_score_speed(list, 4096, 64, score)->flops = 4096.0 * 64.0 * score_flops(score);
        add_score_speed(list, 16384, 128, score);
    }
}

// ------------------------------------------------------------------ topk

enum { K_PROBS, K_BIAS, K_EXPERT };
enum { K_HAS_BIAS, K_RULE, K_GROUPS, K_KEPT, K_DATA };
enum topk_data { DATA_UNIFORM, DATA_TIES, DATA_SPECIAL };

static void topk_fill(const struct op_case *c, struct mt_tensor *t)
{
    static const double special[] = {NAN, INFINITY, -INFINITY, -0.0, 0.0, 0.25, NAN};
    if (c->param[K_DATA] == DATA_UNIFORM) return;
    const struct mt_tensor *probs = &t[K_PROBS];
    for (int64_t i = 0; i < probs->dim[0]; i++) {
        for (int64_t j = 0; j < probs->dim[1]; j++) {
            uint64_t draw = mt_rng_u32(5, 0, (uint64_t)(i * probs->dim[1] + j));
            double value = (double)(draw % 4) * 0.25;
            if (c->param[K_DATA] == DATA_SPECIAL) value = i == 0 ? NAN : special[draw % 7];
            mt_store(probs->dtype, probs->data, i * probs->stride[0] + j, value);
        }
    }
}

static enum mt_status topk_forward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_topk_args args = {
        .probs = t[K_PROBS],
        .expert = t[K_EXPERT],
        .group_rule = (enum mt_group_rule)c->param[K_RULE],
        .groups = (int)c->param[K_GROUPS],
        .groups_kept = (int)c->param[K_KEPT],
    };
    if (c->param[K_HAS_BIAS]) args.bias = t[K_BIAS];
    return mt_topk(device, &args);
}

static struct op_case *add_topk(struct case_list *list, int64_t tokens, int64_t experts, int64_t slots,
                                bool bias, enum topk_data data)
{
    static const char *const data_name[] = {"", " ties", " NaN, inf"};
    struct op_case *c = case_new(list, MT_OP_topk, "N=%d n=%d k=%d%s%s", (int)tokens, (int)experts,
                                 (int)slots, bias ? " +bias" : "", data_name[data]);
    int64_t shape[] = {tokens, experts};
    int64_t vector[] = {experts};
    int64_t chosen[] = {tokens, slots};
    c->param[K_HAS_BIAS] = bias;
    c->param[K_DATA] = data;
    c->forward = topk_forward;
    c->fill = topk_fill;
    case_input(c, "probs", 2, shape);
    c->slot[K_PROBS].fill = FILL_UNIFORM;
    case_input(c, "bias", 1, vector);
    c->slot[K_BIAS].scale = 0.1;
    case_slot(c, "expert", SLOT_OUTPUT, MT_I32, 2, chosen);
    return c;
}

static void add_grouped(struct case_list *list, int64_t tokens, int64_t experts, int64_t slots,
                        enum mt_group_rule rule, int groups, int kept, bool bias, enum topk_data data)
{
    struct op_case *c = add_topk(list, tokens, experts, slots, bias, data);
    size_t used = strlen(c->label);
    (void)snprintf(c->label + used, sizeof c->label - used, " %s %d of %d groups",
                   rule == MT_GROUP_MAX ? "max" : "top2_sum", kept, groups);
    c->param[K_RULE] = rule;
    c->param[K_GROUPS] = groups;
    c->param[K_KEPT] = kept;
}

static void topk_cases(struct case_list *list)
{
    add_topk(list, 1, 1, 1, false, DATA_UNIFORM);
    add_topk(list, 0, 8, 2, false, DATA_UNIFORM);
    add_topk(list, 1, 64, 6, true, DATA_UNIFORM);
    add_topk(list, 15, 7, 7, false, DATA_UNIFORM); // k = n: a full sort
    add_topk(list, 17, 8, 2, false, DATA_TIES);
    add_topk(list, 40, 16, 16, true, DATA_SPECIAL);
    add_topk(list, 33, 24, 6, false, DATA_SPECIAL);
    add_topk(list, 5, 512, 8, true, DATA_UNIFORM);
    struct op_case *c = add_topk(list, 300, 128, 8, true, DATA_UNIFORM);
    c->slot[K_PROBS].row_padding = 5;
    c->slot[K_EXPERT].row_padding = 3;
    for (int data = DATA_UNIFORM; data <= DATA_SPECIAL; data++) {
        for (int bias = 0; bias <= 1; bias++) {
            add_grouped(list, 19, 32, 6, MT_GROUP_MAX, 8, 3, bias != 0, (enum topk_data)data);
            add_grouped(list, 19, 32, 6, MT_GROUP_TOP2_SUM, 8, 4, bias != 0, (enum topk_data)data);
        }
    }
    add_grouped(list, 9, 16, 10, MT_GROUP_MAX, 4, 1, false, DATA_UNIFORM);     // fewer eligible than k
    add_grouped(list, 9, 16, 10, MT_GROUP_TOP2_SUM, 4, 1, true, DATA_UNIFORM); // the same, -inf ties
    add_grouped(list, 9, 8, 4, MT_GROUP_MAX, 8, 5, false, DATA_UNIFORM);       // groups of one
    add_grouped(list, 9, 16, 4, MT_GROUP_TOP2_SUM, 1, 1, true, DATA_UNIFORM);  // one group: no mask

    static const int64_t real[][3] = {{4096, 64, 6}, {4096, 128, 8}, {4096, 8, 2}};
    for (int i = 0; i < 3; i++) {
        c = add_topk(list, real[i][0], real[i][1], real[i][2], i == 0, DATA_UNIFORM);
        c->only_speed = true;
        c->bytes = (double)real[i][0] * (double)(real[i][1] + real[i][2]) * 4;
    }
}

// ------------------------------------------------------------------ topk_weights

enum { W_PROBS, W_EXPERT, W_WEIGHT, W_DWEIGHT, W_DPROBS };
enum { W_NORMALISE, W_ACCUMULATE, W_ROUTE };
enum { W_EPSILON, W_SCALE };

static void weights_fill(const struct op_case *c, struct mt_tensor *t)
{
    const struct mt_tensor *expert = &t[W_EXPERT];
    for (int64_t i = 0; i < expert->dim[0]; i++) {
        for (int64_t s = 0; s < expert->dim[1]; s++) {
            ((int32_t *)expert->data)[i * expert->stride[0] + s] =
                route_expert((enum route_kind)c->param[W_ROUTE], i, s, expert->dim[1], t[W_PROBS].dim[1]);
        }
    }
}

static enum mt_status weights_forward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    return mt_topk_weights_forward(device, &(struct mt_topk_weights_forward_args){
                                               .probs = t[W_PROBS],
                                               .expert = t[W_EXPERT],
                                               .weight = t[W_WEIGHT],
                                               .normalise = c->param[W_NORMALISE] != 0,
                                               .epsilon = c->real[W_EPSILON],
                                               .scale = c->real[W_SCALE],
                                           });
}

static enum mt_status weights_backward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    return mt_topk_weights_backward(device, &(struct mt_topk_weights_backward_args){
                                                .probs = t[W_PROBS],
                                                .expert = t[W_EXPERT],
                                                .dweight = t[W_DWEIGHT],
                                                .dprobs = t[W_DPROBS],
                                                .normalise = c->param[W_NORMALISE] != 0,
                                                .epsilon = c->real[W_EPSILON],
                                                .scale = c->real[W_SCALE],
                                                .accumulate = c->param[W_ACCUMULATE] != 0,
                                            });
}

static struct op_case *add_weights(struct case_list *list, int64_t tokens, int64_t experts, int64_t slots,
                                   bool normalise, float epsilon, float scale, enum route_kind route,
                                   bool accumulate)
{
    struct op_case *c =
        case_new(list, MT_OP_topk_weights_forward, "N=%d n=%d k=%d%s epsilon %g scale %g%s%s", (int)tokens,
                 (int)experts, (int)slots, normalise ? " normalised" : "", (double)epsilon, (double)scale,
                 route == ROUTE_DROPPED ? " -1" : "", accumulate ? " accumulate" : "");
    int64_t shape[] = {tokens, experts};
    int64_t chosen[] = {tokens, slots};
    c->backward_op = MT_OP_topk_weights_backward;
    c->param[W_NORMALISE] = normalise;
    c->param[W_ACCUMULATE] = accumulate;
    c->param[W_ROUTE] = route;
    c->real[W_EPSILON] = epsilon;
    c->real[W_SCALE] = scale;
    c->fill = weights_fill;
    c->forward = weights_forward;
    c->backward = weights_backward;
    case_input(c, "probs", 2, shape);
    c->slot[W_PROBS].fill = FILL_UNIFORM;
    case_index(c, "expert", 2, chosen);
    case_output(c, "weight", 2, chosen);
    case_grad_in(c, "dweight", W_WEIGHT);
    case_grad_out(c, "dprobs", W_PROBS);
    if (accumulate) c->slot[W_DPROBS].role = SLOT_GRAD_SUM;
    return c;
}

static void weights_cases(struct case_list *list)
{
    add_weights(list, 1, 1, 1, false, 0.0f, 1.0f, ROUTE_SPREAD, false);
    add_weights(list, 1, 4, 1, true, 0.5f, 1.0f, ROUTE_SPREAD, false);
    add_weights(list, 0, 8, 2, true, 0.0f, 1.0f, ROUTE_SPREAD, false)->no_gradient = true; // no element
    add_weights(list, 7, 64, 6, false, 0.0f, 1.0f, ROUTE_SPREAD, false);                   // DeepSeek
    add_weights(list, 7, 64, 6, true, 1e-20f, 2.446f, ROUTE_SPREAD, true);                 // Moonlight
    add_weights(list, 9, 8, 2, true, 0.0f, 1.0f, ROUTE_SPREAD, false);                     // Mixtral
    add_weights(list, 40, 128, 8, true, 1e-3f, 1.0f, ROUTE_DROPPED, true);
    struct op_case *c = add_weights(list, 300, 64, 6, false, 0.0f, 16.0f, ROUTE_DROPPED, false);
    c->slot[W_PROBS].row_padding = 3;
    c->slot[W_EXPERT].row_padding = 2;
    c->slot[W_WEIGHT].row_padding = 1;
    c->slot[W_DPROBS].row_padding = 5;

    c = add_weights(list, 4096, 64, 6, true, 1e-20f, 2.446f, ROUTE_SPREAD, false);
    c->only_speed = true;
    c->bytes = 4096.0 * 6 * 4 * 3;                 // one probability per slot, expert; weight out
    c->backward_bytes = 4096.0 * (6 * 3 + 64) * 4; // the same in; dprobs out
}

void cases_router(struct case_list *list)
{
    score_cases(list);
    topk_cases(list);
    weights_cases(list);
}
