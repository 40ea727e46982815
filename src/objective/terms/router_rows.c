/* What the terms on the router's rows share: one op on the router's weight W [n,d], whose loss is the value.
 */
#include <math.h>

#include "objective/objective.h"

void mt_term_loss_itself(const struct mt_objective *objective, struct mt_term_view *views)
{
    for (int l = 0; l < objective->shape.layers; l++) {
        views[l].loss = views[l].statistics[0];
        views[l].gradient[0] = 1.0;
    }
}

enum mt_status mt_router_rows_forward(const struct mt_term_call *call, enum mt_router_orth_kind kind,
                                      int groups)
{
    return mt_router_orth_forward(call->objective->device,
                                  &(struct mt_router_orth_forward_args){
                                      .weight = call->record->router_weight,
                                      .loss = mt_tensor_1d(call->statistics, MT_F64, 1),
                                      .kind = kind,
                                      .groups = groups,
                                  });
}

enum mt_status mt_router_rows_backward(const struct mt_term_call *call, enum mt_router_orth_kind kind,
                                       int groups, struct mt_routing_gradient *gradient)
{
    if (!mt_tensor_present(&gradient->drouter_weight)) return MT_OK; // frozen
    return mt_router_orth_backward(call->objective->device, &(struct mt_router_orth_backward_args){
                                                                .weight = call->record->router_weight,
                                                                .dweight = gradient->drouter_weight,
                                                                .kind = kind,
                                                                .groups = groups,
                                                                .scale = (float)call->host_gradient[0],
                                                            });
}

enum mt_status mt_router_rows_norm(const struct mt_term_call *call, enum mt_router_orth_kind kind, int groups,
                                   double *norm)
{
    struct mt_device *device = call->objective->device;
    const struct mt_tensor *on_device = &call->objective->measure.squares;
    enum mt_status status = mt_router_orth_backward(device, &(struct mt_router_orth_backward_args){
                                                                .weight = call->record->router_weight,
                                                                .squares = *on_device,
                                                                .kind = kind,
                                                                .groups = groups,
                                                                .scale = (float)call->host_gradient[0],
                                                            });
    if (status != MT_OK) return status;
    double squares = 0.0;
    status = mt_device_download(device, &squares, on_device->data, sizeof squares);
    *norm = sqrt(squares);
    return status;
}
