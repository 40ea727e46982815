/* SimBal: Σ_ef |<w_e, w_f> - δ_ef| over the router's rows as they are: it also draws their lengths to 1. */
#include "objective/objective.h"

static enum mt_status forward(const struct mt_term_call *call)
{
    return mt_router_rows_forward(call, MT_ROUTER_ORTH_L1, 0);
}

static enum mt_status backward(const struct mt_term_call *call, struct mt_routing_gradient *gradient)
{
    return mt_router_rows_backward(call, MT_ROUTER_ORTH_L1, 0, gradient);
}

static enum mt_status norm(const struct mt_term_call *call, double *result)
{
    return mt_router_rows_norm(call, MT_ROUTER_ORTH_L1, 0, result);
}

const struct mt_term_kind mt_term_simbal = {
    .info = {.name = "simbal",
             .formula = "$\\sum_{ij} |G_{ij} - I_{ij}|$, $G$ the products of the router's rows.",
             .off = "SimBal is off: lambda_simbal is 0",
             .path = MT_PATH_ROUTER_WEIGHT},
    .needs = MT_NEEDS_ROUTER_WEIGHT,
    .numbers = 1, // the loss itself
    .replicated = true,
    .forward = forward,
    .value = mt_term_loss_itself,
    .backward = backward,
    .norm = norm,
};
