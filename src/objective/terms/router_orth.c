/* Router orthogonality (ERNIE 4.5): the mean over all pairs of rows of (cosine - δ)², in K groups of experts.
 */
#include "objective/objective.h"

static enum mt_status forward(const struct mt_term_call *call)
{
    return mt_router_rows_forward(call, MT_ROUTER_ORTH_COSINE, call->objective->config.router_orth_groups);
}

static enum mt_status backward(const struct mt_term_call *call, struct mt_routing_gradient *gradient)
{
    return mt_router_rows_backward(call, MT_ROUTER_ORTH_COSINE, call->objective->config.router_orth_groups,
                                   gradient);
}

static enum mt_status norm(const struct mt_term_call *call, double *result)
{
    return mt_router_rows_norm(call, MT_ROUTER_ORTH_COSINE, call->objective->config.router_orth_groups,
                               result);
}

const struct mt_term_kind mt_term_router_orth = {
    .info = {.name = "router_orth",
             .formula = "$\\frac{\\lVert G - I \\rVert^2}{n^2}$, $G$ the cosines between the router's rows.",
             .off = "router orthogonality is off: lambda_orth is 0",
             .path = MT_PATH_ROUTER_WEIGHT,
             .shown = {{"orth_groups", "1"}},
             .keys = (const char *const[]){"orth_groups", NULL}},
    .needs = MT_NEEDS_ROUTER_WEIGHT,
    .numbers = 1, // the loss itself
    .replicated = true,
    .forward = forward,
    .value = mt_term_loss_itself,
    .backward = backward,
    .norm = norm,
};
