/*
 * L_erc, expert-router coupling: each router row, with noise, stands for the tokens it attracts. M[i,j] is
 * how strongly expert j's gate projection answers row i; the loss is how far M's diagonal is from ruling its
 * rows and columns (mt_dominance_forward). The model makes M (model/experts/proxies.h): no token is looked
 * at.
 */
#include <math.h>

#include "objective/objective.h"

static enum mt_status forward(const struct mt_term_call *call)
{
    return mt_dominance_forward(call->objective->device,
                                &(struct mt_dominance_forward_args){
                                    .squares = call->record->proxy_squares,
                                    .loss = mt_tensor_1d(call->statistics, MT_F64, 1),
                                    .alpha = (float)call->objective->config.erc_alpha,
                                });
}

static struct mt_dominance_backward_args gradient_of(const struct mt_term_call *call)
{
    return (struct mt_dominance_backward_args){
        .squares = call->record->proxy_squares,
        .dloss = mt_tensor_1d((void *)call->gradient, MT_F64, 1),
        .alpha = (float)call->objective->config.erc_alpha,
    };
}

static enum mt_status backward(const struct mt_term_call *call, struct mt_routing_gradient *gradient)
{
    if (!mt_tensor_present(&gradient->proxy_coupling)) return MT_OK; // frozen
    struct mt_dominance_backward_args args = gradient_of(call);
    args.coupling = gradient->proxy_coupling;
    return mt_dominance_backward(call->objective->device, &args);
}

/* In what the gate projections make of the rows, which is where M is a length. */
static enum mt_status norm(const struct mt_term_call *call, double *result)
{
    struct mt_device *device = call->objective->device;
    const struct mt_tensor *on_device = &call->objective->measure.squares;
    struct mt_dominance_backward_args args = gradient_of(call);
    args.sum = *on_device;
    enum mt_status status = mt_dominance_backward(device, &args);
    if (status != MT_OK) return status;
    double squares = 0.0;
    status = mt_device_download(device, &squares, on_device->data, sizeof squares);
    *result = sqrt(squares);
    return status;
}

const struct mt_term_kind mt_term_erc = {
    .info = {.name = "erc",
             .formula =
                 "$L_{\\text{erc}} = \\frac{1}{n^2} \\sum_i \\sum_{j \\ne i} [M_{ij} - \\alpha M_{ii}]_+ "
                 "+ [M_{ji} - \\alpha M_{ii}]_+$, $M_{ij} = \\lVert W_g^j (r_i \\odot \\delta_i) "
                 "\\rVert$: what expert $j$'s gate projection makes of the router's row $i$.",
             .off = "expert-router coupling is off: lambda_erc is 0",
             .path = MT_PATH_GATES,
             .shown = {{"erc_alpha", NULL}, {"erc_noise", "1"}},
             .keys = (const char *const[]){"erc_alpha", "erc_noise", NULL}},
    .needs = MT_NEEDS_PROXIES | MT_NEEDS_ROUTER_WEIGHT,
    .numbers = 1,       // the loss itself
    .replicated = true, // every process has all experts
    .forward = forward,
    .value = mt_term_loss_itself,
    .backward = backward,
    .norm = norm,
};
