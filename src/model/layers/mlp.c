/* SwiGLU blocks. Of the inner width only gate and up are kept; their gradients take their place. */
#include "model/layers/mlp.h"

void mt_mlp_plan(struct mt_mlp *mlp, const struct mt_pass *pass, const struct mt_mlp_params *params,
                 const struct mt_tensor *drawn, struct mt_planner *saved, struct mt_planner *work)
{
    int64_t width = params->gate.weight.dim[0];
    mlp->gate = mt_plan_2d(saved, pass->type, pass->tokens, width);
    mlp->up = mt_plan_2d(saved, pass->type, pass->tokens, width);
    struct mt_tensor bits = *drawn; // of x
    mlp->gate_lora = mt_linear_plan_lora(saved, pass, &params->gate, &bits);
    mlp->up_lora = mt_linear_plan_lora(saved, pass, &params->up, &bits);
    mlp->down_lora = mt_linear_plan_lora(saved, pass, &params->down, NULL);
    mlp->inner = mt_plan_2d(work, pass->type, pass->tokens, width);
}

bool mt_mlp_is_trained(const struct mt_mlp_params *params)
{
    return mt_linear_is_trained(&params->gate) || mt_linear_is_trained(&params->up) ||
           mt_linear_is_trained(&params->down);
}

enum mt_status mt_mlp_forward_inner(const struct mt_pass *pass, const struct mt_mlp_params *params,
                                    const struct mt_mlp *mlp, const struct mt_tensor *x)
{
    const struct mt_linear_output gate = {.linear = &params->gate, .trace = &mlp->gate_lora, .y = &mlp->gate};
    const struct mt_linear_output up = {.linear = &params->up, .trace = &mlp->up_lora, .y = &mlp->up};
    return mt_linear_swiglu(pass, &gate, &up, x, &mlp->inner);
}

enum mt_status mt_mlp_forward_down(const struct mt_pass *pass, const struct mt_mlp_params *params,
                                   const struct mt_mlp *mlp, bool add, const struct mt_tensor *y)
{
    return mt_linear_forward(pass, &params->down, &mlp->inner, &mlp->down_lora, add, y);
}

enum mt_status mt_mlp_forward(const struct mt_pass *pass, const struct mt_mlp_params *params,
                              const struct mt_mlp *mlp, const struct mt_tensor *x, bool add,
                              const struct mt_tensor *y)
{
    enum mt_status status = mt_mlp_forward_inner(pass, params, mlp, x);
    return status == MT_OK ? mt_mlp_forward_down(pass, params, mlp, add, y) : status;
}

/* True when gate's and up's gradients are needed. */
static bool goes_below(const struct mt_mlp_params *params, const struct mt_tensor *dx)
{
    return dx != NULL || mt_linear_is_trained(&params->gate) || mt_linear_is_trained(&params->up);
}

/* What down read, again. */
static enum mt_status make_inner(const struct mt_pass *pass, const struct mt_mlp *mlp)
{
    return mt_swiglu_forward(
        pass->device, &(struct mt_swiglu_forward_args){.gate = mlp->gate, .up = mlp->up, .y = mlp->inner});
}

enum mt_status mt_mlp_backward_down(const struct mt_pass *pass, const struct mt_mlp_params *params,
                                    const struct mt_mlp *mlp, const struct mt_tensor *dy,
                                    const struct mt_tensor *dx)
{
    if (!goes_below(params, dx)) {
        enum mt_status status = mt_linear_reads_input(&params->down) ? make_inner(pass, mlp) : MT_OK;
        if (status != MT_OK) return status;
        return mt_linear_backward(pass, &params->down, dy, &mlp->inner, &mlp->down_lora, false, NULL);
    }
    const struct mt_swiglu_inner block = {.gate = &mlp->gate, .up = &mlp->up, .inner = &mlp->inner};
    enum mt_status status = mt_linear_swiglu_backward(pass, &params->down, dy, &mlp->down_lora, &block);
    if (status != MT_OK) return status;
    return mt_linear_backward_own(pass, &params->down, dy, &mlp->inner, &mlp->down_lora);
}

enum mt_status mt_mlp_backward_inner(const struct mt_pass *pass, const struct mt_mlp_params *params,
                                     const struct mt_mlp *mlp, const struct mt_linear_gradient *together_with,
                                     const struct mt_tensor *x, bool add, const struct mt_tensor *dx)
{
    struct mt_linear_gradient linears[3];
    int count = 0;
    if (goes_below(params, dx)) {
        linears[count++] =
            (struct mt_linear_gradient){.linear = &params->gate, .dy = &mlp->gate, .trace = &mlp->gate_lora};
        linears[count++] =
            (struct mt_linear_gradient){.linear = &params->up, .dy = &mlp->up, .trace = &mlp->up_lora};
    }
    if (together_with != NULL) linears[count++] = *together_with;
    return count > 0 ? mt_linear_backward_together(pass, linears, count, x, add, dx) : MT_OK;
}

enum mt_status mt_mlp_backward(const struct mt_pass *pass, const struct mt_mlp_params *params,
                               const struct mt_mlp *mlp, const struct mt_tensor *dy,
                               const struct mt_tensor *x, bool add, const struct mt_tensor *dx)
{
    enum mt_status status = mt_mlp_backward_down(pass, params, mlp, dy, dx);
    return status == MT_OK ? mt_mlp_backward_inner(pass, params, mlp, NULL, x, add, dx) : status;
}
