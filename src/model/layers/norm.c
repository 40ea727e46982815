/* Norms: the two kinds behind one call. */
#include "model/layers/norm.h"

struct mt_norm_saved mt_norm_plan(struct mt_planner *planner, const struct mt_pass *pass,
                                  enum mt_norm_kind kind, int64_t rows)
{
    struct mt_norm_saved saved = {.rstd = mt_plan_1d(planner, pass->exact, rows)};
    if (kind == MT_NORM_LAYER) saved.mean = mt_plan_1d(planner, pass->exact, rows);
    return saved;
}

enum mt_status mt_norm_forward_residual(const struct mt_pass *pass, const struct mt_norm *norm,
                                        const struct mt_tensor *x, const struct mt_tensor *residual,
                                        const struct mt_tensor *sum, const struct mt_norm_saved *saved,
                                        const struct mt_tensor *y)
{
    if (norm->kind == MT_NORM_LAYER) {
        return mt_layernorm_forward(pass->device, &(struct mt_layernorm_forward_args){
                                                      .x = *x,
                                                      .residual = *residual,
                                                      .sum = *sum,
                                                      .weight = norm->weight->weight,
                                                      .bias = norm->weight->bias,
                                                      .y = *y,
                                                      .mean = saved->mean,
                                                      .rstd = saved->rstd,
                                                      .epsilon = norm->epsilon,
                                                  });
    }
    return mt_rmsnorm_forward(pass->device, &(struct mt_rmsnorm_forward_args){
                                                .x = *x,
                                                .residual = *residual,
                                                .sum = *sum,
                                                .weight = norm->weight->weight,
                                                .y = *y,
                                                .rstd = saved->rstd,
                                                .epsilon = norm->epsilon,
                                            });
}

enum mt_status mt_norm_forward(const struct mt_pass *pass, const struct mt_norm *norm,
                               const struct mt_tensor *x, const struct mt_norm_saved *saved,
                               const struct mt_tensor *y)
{
    const struct mt_tensor none = {0};
    return mt_norm_forward_residual(pass, norm, x, &none, &none, saved, y);
}

enum mt_status mt_norm_backward(const struct mt_pass *pass, const struct mt_norm *norm,
                                const struct mt_tensor *dy, const struct mt_tensor *x,
                                const struct mt_norm_saved *saved, bool add, const struct mt_tensor *dx)
{
    const struct mt_norm_weight *weight = norm->weight;
    if (norm->kind == MT_NORM_LAYER) {
        return mt_layernorm_backward(pass->device, &(struct mt_layernorm_backward_args){
                                                       .dy = *dy,
                                                       .x = *x,
                                                       .weight = weight->weight,
                                                       .mean = saved->mean,
                                                       .rstd = saved->rstd,
                                                       .dx = *dx,
                                                       .dweight = weight->dweight,
                                                       .dbias = weight->dbias,
                                                       .accumulate = add,
                                                   });
    }
    return mt_rmsnorm_backward(pass->device, &(struct mt_rmsnorm_backward_args){
                                                 .dy = *dy,
                                                 .x = *x,
                                                 .weight = weight->weight,
                                                 .rstd = saved->rstd,
                                                 .dx = *dx,
                                                 .dweight = weight->dweight,
                                                 .accumulate = add,
                                             });
}
