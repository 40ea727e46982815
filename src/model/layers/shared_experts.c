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
        shared->gate_lora = mt_linear_plan_lora(saved, pass, &params->shared_gate, pass->tokens, &bits);
        shared->ungated = mt_plan_2d(saved, pass->type, pass->tokens, pass->desc->width);
    }
    mt_mlp_plan(&shared->mlp, pass, &params->shared, pass->tokens, &bits, saved, work);
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
    const struct mt_linear_output gate = {
        .linear = &params->shared_gate, .trace = &shared->gate_lora, .y = &shared->gate};
    enum mt_status status = has_gate(pass) ? mt_linear_forward(pass, &gate, 1, NULL, x, false) : MT_OK;
    return status == MT_OK ? mt_mlp_forward_inner(pass, &params->shared, &shared->mlp, NULL, x) : status;
}

enum mt_status mt_shared_experts_forward_down(const struct mt_pass *pass,
                                              const struct mt_layer_params *params,
                                              const struct mt_shared_experts *shared,
                                              const struct mt_tensor *y)
{
    enum mt_status status = mt_mlp_forward_down(pass, &params->shared, &shared->mlp, NULL, false,
                                                has_gate(pass) ? &shared->ungated : y);
    if (status != MT_OK || !has_gate(pass)) return status;
    return mt_sigmoid_gate_forward(pass->device, &(struct mt_sigmoid_gate_forward_args){
                                                     .x = shared->ungated, .gate = shared->gate, .y = *y});
}

enum mt_status mt_shared_experts_backward_down(const struct mt_pass *pass,
                                               const struct mt_layer_params *params,
                                               const struct mt_shared_experts *shared,
                                               const struct mt_tensor *dy, const struct mt_tensor *dx)
{
    if (!has_gate(pass))
        return mt_mlp_backward_down(pass, &params->shared, &shared->mlp, NULL, dy, dx != NULL);
    enum mt_status status = mt_sigmoid_gate_backward(pass->device, &(struct mt_sigmoid_gate_backward_args){
                                                                       .dy = *dy,
                                                                       .x = shared->ungated,
                                                                       .gate = shared->gate,
                                                                       .dx = shared->dungated,
                                                                       .dgate = shared->dgate,
                                                                   });
    if (status != MT_OK) return status;
    return mt_mlp_backward_down(pass, &params->shared, &shared->mlp, NULL, &shared->dungated, dx != NULL);
}

enum mt_status mt_shared_experts_backward_inner(const struct mt_pass *pass,
                                                const struct mt_layer_params *params,
                                                const struct mt_shared_experts *shared,
                                                const struct mt_linear_gradient *together_with,
                                                const struct mt_tensor *x, const struct mt_tensor *dx)
{
    enum mt_status status =
        mt_mlp_backward_inner(pass, &params->shared, &shared->mlp, NULL, together_with, x, true, dx);
    if (status != MT_OK || !has_gate(pass)) return status;
    const struct mt_linear_gradient gate = {
        .linear = &params->shared_gate, .dy = &shared->dgate, .trace = &shared->gate_lora};
    return mt_linear_backward(pass, &gate, 1, NULL, x, true, dx);
}
