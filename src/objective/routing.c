/*
 * From logits to a routing record and back:
 *
 *     logits -> probs -> chosen (and greedy), or as given -> weight -> expert (less what was dropped)
 *     with a pool: logits -> probs -> pool; logits outside it are -1e30 -> probs -> ...
 *     dweight, dprobs -> dlogits
 */
#include "metier/selection.h"

#include <inttypes.h>
#include <math.h>

#include "base/given.h"
#include "objective/objective.h"

// A logit that is no expert's: its score is 0, and whoever looks for damage finds a number.
#define OUTSIDE (-1e30f)

bool mt_routing_is_plain(const struct mt_router_config *router, const struct mt_router_policy *policy,
                         bool has_bias)
{
    bool drops = policy->training && policy->method != NULL && mt_selection_drops(policy->method);
    return router->kind != MT_ROUTER_SPARSEMIXER && router->group_rule == MT_GROUP_NONE && !has_bias &&
           !drops && !policy->given;
}

static float weight_scale(const struct mt_router_config *router)
{
    return router->scale == 0.0f ? 1.0f : router->scale;
}

static enum mt_status check_sparsemixer(struct mt_context *ctx, const struct mt_router_config *router)
{
    if (router->slots != 2) {
        return mt_fail(ctx, MT_ERR_USAGE, "router: SparseMixer chooses 2 experts per token, not %d",
                       router->slots);
    }
    if (router->normalise || weight_scale(router) != 1.0f || router->group_rule != MT_GROUP_NONE) {
        return mt_fail(ctx, MT_ERR_USAGE,
                       "router: SparseMixer has its own weights: no normalisation, scale or groups");
    }
    if (!(router->jitter >= 0.0f) || !isfinite(router->jitter)) {
        return mt_fail(ctx, MT_ERR_USAGE, "router: jitter is %g, expected 0 or more", (double)router->jitter);
    }
    return MT_OK;
}

static enum mt_status check_groups(struct mt_context *ctx, const struct mt_router_config *router, int experts)
{
    if (router->group_rule == MT_GROUP_NONE) {
        if (router->groups == 0) return MT_OK;
        return mt_fail(ctx, MT_ERR_USAGE, "router: there are %d groups, but no rule for the score of a group",
                       router->groups);
    }
    if (router->group_rule != MT_GROUP_MAX && router->group_rule != MT_GROUP_TOP2_SUM) {
        return mt_fail(ctx, MT_ERR_USAGE, "router: there is no group rule %d", (int)router->group_rule);
    }
    if (router->groups < 1 || experts % router->groups != 0) {
        return mt_fail(ctx, MT_ERR_USAGE, "router: %d groups do not divide %d experts", router->groups,
                       experts);
    }
    if (router->groups_kept < 1 || router->groups_kept > router->groups) {
        return mt_fail(ctx, MT_ERR_USAGE, "router: groups_kept is %d, expected 1 to %d", router->groups_kept,
                       router->groups);
    }
    int size = experts / router->groups;
    if (router->group_rule == MT_GROUP_TOP2_SUM && size < 2) {
        return mt_fail(ctx, MT_ERR_USAGE,
                       "router: a group has one expert, but the group rule needs its best two");
    }
    if (router->slots > size * router->groups_kept) {
        return mt_fail(ctx, MT_ERR_USAGE, "router: %d experts per token, but %d groups kept hold only %d",
                       router->slots, router->groups_kept, size * router->groups_kept);
    }
    return MT_OK;
}

enum mt_status mt_router_config_check(struct mt_context *ctx, const struct mt_router_config *router,
                                      int experts)
{
    enum mt_status status = mt_given(ctx, "mt_router_config_check", "router", router);
    if (status != MT_OK) return status;
    if (experts < 1 || router->slots < 1 || router->slots > experts) {
        return mt_fail(ctx, MT_ERR_USAGE, "router: a token has %d of %d experts, expected 1 to all of them",
                       router->slots, experts);
    }
    if (!(router->epsilon >= 0.0f) || !isfinite(router->epsilon)) {
        return mt_fail(ctx, MT_ERR_USAGE, "router: epsilon is %g, expected 0 or more",
                       (double)router->epsilon);
    }
    if (!(router->scale >= 0.0f) || !isfinite(router->scale)) {
        return mt_fail(ctx, MT_ERR_USAGE, "router: scale is %g, expected 0 or more", (double)router->scale);
    }
    switch (router->kind) {
    case MT_ROUTER_SOFTMAX:
    case MT_ROUTER_SIGMOID: return check_groups(ctx, router, experts);
    case MT_ROUTER_SPARSEMIXER: return check_sparsemixer(ctx, router);
    }
    return mt_fail(ctx, MT_ERR_USAGE, "router: there is no kind %d", (int)router->kind);
}

static enum mt_score_kind score_kind(const struct mt_router_config *router)
{
    return router->kind == MT_ROUTER_SIGMOID ? MT_SCORE_SIGMOID : MT_SCORE_SOFTMAX;
}

static enum mt_status make_scores(struct mt_device *device, const struct mt_router_config *router,
                                  const struct mt_routing *record)
{
    return mt_router_score_forward(device, &(struct mt_router_score_forward_args){
                                               .logits = record->logits,
                                               .probs = record->probs,
                                               .kind = score_kind(router),
                                           });
}

static bool has_pool(const struct mt_router_policy *policy)
{
    return policy->training && mt_selection_pools(policy->method);
}

/* x outside each sequence's pool. */
static enum mt_status set_outside(struct mt_device *device, const struct mt_routing *record,
                                  const struct mt_tensor *x, float value)
{
    return mt_pool_mask(device,
                        &(struct mt_pool_mask_args){
                            .x = *x, .segment = record->segment, .pool = record->pool, .value = value});
}

/*
 * From all scores to those within the pool: the softmax of the logits that are left. The pool is a constant
 * of the gradient, and a score of 0 has none, so that backward knows nothing of it. For the choice scores
 * outside are -inf: a bias could lift a 0 above a score inside.
 */
static enum mt_status confine(struct mt_device *device, const struct mt_router_config *router,
                              const struct mt_router_policy *policy, const struct mt_routing *record)
{
    enum mt_status status = mt_selection_confine(device, policy, record);
    if (status == MT_OK) status = set_outside(device, record, &record->logits, OUTSIDE);
    if (status == MT_OK) status = make_scores(device, router, record);
    if (status == MT_OK) status = set_outside(device, record, &record->probs, -INFINITY);
    return status;
}

static enum mt_status choose(struct mt_device *device, const struct mt_router_config *router,
                             const struct mt_router_policy *policy, const struct mt_routing *record)
{
    if (router->kind == MT_ROUTER_SPARSEMIXER) {
        return mt_sparsemixer_forward(device, &(struct mt_sparsemixer_forward_args){
                                                  .logits = record->logits,
                                                  .expert = record->chosen,
                                                  .weight = record->weight,
                                                  .jitter = router->jitter,
                                                  .training = policy->training,
                                                  .seed = policy->seed,
                                                  .stream = policy->stream,
                                              });
    }
    enum mt_status status = mt_topk(device, &(struct mt_topk_args){
                                                .probs = record->probs,
                                                .bias = record->bias,
                                                .expert = record->chosen,
                                                .group_rule = router->group_rule,
                                                .groups = router->groups,
                                                .groups_kept = router->groups_kept,
                                            });
    if (status == MT_OK && has_pool(policy)) status = set_outside(device, record, &record->probs, 0.0f);
    if (status == MT_OK && mt_tensor_present(&record->given)) {
        status = mt_given_experts(device, &(struct mt_given_experts_args){.given = record->given,
                                                                          .expert = record->chosen,
                                                                          .agreed = record->agreed,
                                                                          .experts = record->experts});
    }
    if (status != MT_OK) return status;
    return mt_topk_weights_forward(device, &(struct mt_topk_weights_forward_args){
                                               .probs = record->probs,
                                               .expert = record->chosen,
                                               .weight = record->weight,
                                               .normalise = router->normalise,
                                               .epsilon = router->epsilon,
                                               .scale = weight_scale(router),
                                           });
}

/* What a pool needs of a router and a record. */
static enum mt_status check_pool(struct mt_context *ctx, const struct mt_router_config *router,
                                 const struct mt_router_policy *policy, const struct mt_routing *record)
{
    enum mt_status status = mt_selection_check(ctx, policy->method, router);
    if (status != MT_OK) return status;
    if (mt_tensor_present(&record->given))
        return mt_fail(ctx, MT_ERR_USAGE, "routing: a method with a pool cannot use given choices");
    if (!mt_tensor_present(&record->pool) || !mt_tensor_present(&record->pool_sums))
        return mt_fail(ctx, MT_ERR_USAGE,
                       "routing: the method has a pool: give the record pool and pool_sums");
    return MT_OK;
}

enum mt_status mt_routing_forward(struct mt_device *device, const struct mt_router_config *router,
                                  const struct mt_router_policy *policy, struct mt_routing *record)
{
    struct mt_context *ctx = mt_device_context(device);
    enum mt_status status = mt_given(ctx, "mt_routing_forward", "router", router);
    if (status == MT_OK) status = mt_given(ctx, "mt_routing_forward", "policy", policy);
    if (status == MT_OK) status = mt_given(ctx, "mt_routing_forward", "record", record);
    if (status != MT_OK) return status;
    if ((unsigned)router->kind > MT_ROUTER_SPARSEMIXER)
        return mt_fail(ctx, MT_ERR_USAGE, "routing: there is no kind %d of router", (int)router->kind);
    bool has_bias = mt_tensor_present(&record->bias);
    if (has_bias && router->kind == MT_ROUTER_SPARSEMIXER) {
        return mt_fail(ctx, MT_ERR_USAGE, "routing: SparseMixer has no selection bias");
    }
    bool given = mt_tensor_present(&record->given);
    if (given && router->kind == MT_ROUTER_SPARSEMIXER)
        return mt_fail(ctx, MT_ERR_USAGE, "routing: SparseMixer cannot use given choices");
    bool greedy_apart = mt_tensor_present(&record->greedy) && record->greedy.data != record->chosen.data;
    bool expert_apart = record->expert.data != record->chosen.data;
    bool alias_is_wrong = (mt_tensor_present(&record->greedy) && !greedy_apart) || !expert_apart;
    if (alias_is_wrong && record->tokens > 0 && (given || !mt_routing_is_plain(router, policy, has_bias))) {
        return mt_fail(ctx, MT_ERR_USAGE,
                       "routing: greedy, chosen and expert share memory, but the router, the method or given "
                       "choices make them differ");
    }
    if (has_pool(policy)) status = check_pool(ctx, router, policy, record);
    if (status == MT_OK) status = make_scores(device, router, record);
    if (status == MT_OK && has_pool(policy)) status = confine(device, router, policy, record);
    if (status != MT_OK) return status;
    status = choose(device, router, policy, record);
    if (status != MT_OK) return status;
    if (greedy_apart) {
        status = mt_topk(device, &(struct mt_topk_args){.probs = record->probs, .expert = record->greedy});
        if (status != MT_OK) return status;
    }
    return mt_selection_serve(device, policy, record);
}

enum mt_status mt_scores_backward(struct mt_device *device, const struct mt_router_config *router,
                                  const struct mt_routing *record, struct mt_routing_gradient *gradient)
{
    bool adds = mt_gradient_adds(&gradient->dlogits_empty);
    if (gradient->dprobs_empty) {
        if (adds) return MT_OK;
        return mt_fill(device, &(struct mt_fill_args){.y = gradient->dlogits, .value = 0.0f});
    }
    return mt_router_score_backward(device, &(struct mt_router_score_backward_args){
                                                .probs = record->probs,
                                                .dprobs = gradient->dprobs,
                                                .dlogits = gradient->dlogits,
                                                .kind = score_kind(router),
                                                .accumulate = adds,
                                            });
}

/* From dweight to dprobs, or to dlogits. */
static enum mt_status weights_backward(struct mt_device *device, const struct mt_router_config *router,
                                       const struct mt_routing *record, struct mt_routing_gradient *gradient)
{
    if (router->kind == MT_ROUTER_SPARSEMIXER) {
        bool adds = mt_gradient_adds(&gradient->dlogits_empty);
        return mt_sparsemixer_backward(device, &(struct mt_sparsemixer_backward_args){
                                                   .logits = record->logits,
                                                   .expert = record->chosen,
                                                   .dweight = gradient->dweight,
                                                   .dlogits = gradient->dlogits,
                                                   .jitter = router->jitter,
                                                   .accumulate = adds,
                                               });
    }
    bool adds = mt_gradient_adds(&gradient->dprobs_empty);
    return mt_topk_weights_backward(device, &(struct mt_topk_weights_backward_args){
                                                .probs = record->probs,
                                                .expert = record->chosen,
                                                .dweight = gradient->dweight,
                                                .dprobs = gradient->dprobs,
                                                .normalise = router->normalise,
                                                .epsilon = router->epsilon,
                                                .scale = weight_scale(router),
                                                .accumulate = adds,
                                            });
}

enum mt_status mt_routing_backward(struct mt_device *device, const struct mt_router_config *router,
                                   const struct mt_routing *record, struct mt_routing_gradient *gradient)
{
    struct mt_context *ctx = mt_device_context(device);
    enum mt_status status = mt_given(ctx, "mt_routing_backward", "router", router);
    if (status == MT_OK) status = mt_given(ctx, "mt_routing_backward", "record", record);
    if (status == MT_OK) status = mt_given(ctx, "mt_routing_backward", "gradient", gradient);
    if (status != MT_OK) return status;
    if (!gradient->dweight_empty) status = weights_backward(device, router, record, gradient);
    return status == MT_OK ? mt_scores_backward(device, router, record, gradient) : status;
}

void mt_routing_ortho_mask(const int32_t *mask, const int32_t *segment, int64_t tokens, int32_t *ortho_mask)
{
    // While it is being made, ortho_mask holds two things: in its lower bits, at s, one more than the first
    // token of segment s; and as its sign, at i, that token i is such a first one.
    const int32_t first_token = INT32_MIN;
    for (int64_t i = 0; i < tokens; i++) ortho_mask[i] = 0;
    for (int64_t i = tokens - 1; i >= 0; i--) {
        if (mask != NULL && mask[i] == 0) continue;
        ortho_mask[segment != NULL ? segment[i] : 0] = (int32_t)(i + 1);
    }
    for (int64_t s = 0; s < tokens; s++) {
        int32_t first = ortho_mask[s] & INT32_MAX;
        if (first != 0) ortho_mask[first - 1] |= first_token;
    }
    for (int64_t i = 0; i < tokens; i++) {
        bool counts = mask == NULL || mask[i] != 0;
        ortho_mask[i] = counts && (ortho_mask[i] & first_token) == 0;
    }
}
