/* Shared experts, and the gate some architectures have on them. */
#include "model/layers/shared_experts.h"

static bool has_gate(const struct mt_pass *pass)
{
    return pass->desc->names.shared_gate != NULL;
}

void mt_shared_experts_plan(struct mt_shared_experts *shared, const struct mt_pass *pass,
                            const struct mt_layer_params *params, bool backward,
                            const struct mt_tensor *drawn, struct mt_planner *saved, struct mt_planner *work)
{
    struct mt_tensor bits = *drawn;
    if (has_gate(pass)) {
        shared->gate = mt_plan_2d(saved, pass->type, pass->tokens, 1);
        shared->gate_lora = mt_linear_plan_lora(saved, pass, &params->shared_gate, &bits);
        shared->ungated = mt_plan_2d(saved, pass->type, pass->tokens, pass->desc->width);
    }
    mt_mlp_plan(&shared->mlp, pass, &params->shared, &bits, saved, work);
    if (!has_gate(pass) || !backward) return;
    shared->dgate = mt_plan_2d(work, pass->type, pass->tokens, 1);
    shared->dungated = mt_plan_2d(work, pass->type, pass->tokens, pass->desc->width);
}

bool mt_shared_experts_are_trained(const struct mt_layer_params *params)
{
    return mt_mlp_is_trained(&params->shared) || mt_linear_is_trained(&params->shared_gate);
}

enum mt_status mt_shared_experts_forward_inner(const struct mt_pass *pass,
                                               const struct mt_layer_params *params,
                                               const struct mt_shared_experts *shared,
                                               const struct mt_tensor *x)
{
    enum mt_status status = MT_OK;
    if (has_gate(pass))
        status = mt_linear_forward(pass, &params->shared_gate, x, &shared->gate_lora, false, &shared->gate);
    return status == MT_OK ? mt_mlp_forward_inner(pass, &params->shared, &shared->mlp, x) : status;
}

enum mt_status mt_shared_experts_forward_down(const struct mt_pass *pass,
                                              const struct mt_layer_params *params,
                                              const struct mt_shared_experts *shared,
                                              const struct mt_tensor *y)
{
    if (!has_gate(pass)) return mt_mlp_forward_down(pass, &params->shared, &shared->mlp, false, y);
    enum mt_status status = mt_mlp_forward_down(pass, &params->shared, &shared->mlp, false, &shared->ungated);
    if (status != MT_OK) return status;
    return mt_sigmoid_gate_forward(pass->device, &(struct mt_sigmoid_gate_forward_args){
                                                     .x = shared->ungated, .gate = shared->gate, .y = *y});
}

enum mt_status mt_shared_experts_backward_down(const struct mt_pass *pass,
                                               const struct mt_layer_params *params,
                                               const struct mt_shared_experts *shared,
                                               const struct mt_tensor *dy, const struct mt_tensor *dx)
{
    if (!has_gate(pass)) return mt_mlp_backward_down(pass, &params->shared, &shared->mlp, dy, dx);
    enum mt_status status = mt_sigmoid_gate_backward(pass->device, &(struct mt_sigmoid_gate_backward_args){
                                                                       .dy = *dy,
                                                                       .x = shared->ungated,
                                                                       .gate = shared->gate,
                                                                       .dx = shared->dungated,
                                                                       .dgate = shared->dgate,
                                                                   });
    if (status != MT_OK) return status;
    return mt_mlp_backward_down(pass, &params->shared, &shared->mlp, &shared->dungated, dx);
}

enum mt_status mt_shared_experts_backward_inner(const struct mt_pass *pass,
                                                const struct mt_layer_params *params,
                                                const struct mt_shared_experts *shared,
                                                const struct mt_linear_gradient *together_with,
                                                const struct mt_tensor *x, const struct mt_tensor *dx)
{
    enum mt_status status =
        mt_mlp_backward_inner(pass, &params->shared, &shared->mlp, together_with, x, true, dx);
    if (status != MT_OK || !has_gate(pass)) return status;
    return mt_linear_backward(pass, &params->shared_gate, &shared->dgate, x, &shared->gate_lora, true, dx);
}
