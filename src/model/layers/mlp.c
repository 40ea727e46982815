/* SwiGLU blocks. Of the inner width only gate and up are kept; their gradients take their place. */
#include "model/layers/mlp.h"

void mt_mlp_plan(struct mt_mlp *mlp, const struct mt_pass *pass, const struct mt_mlp_params *params,
                 int64_t rows, const struct mt_tensor *drawn, struct mt_planner *saved,
                 struct mt_planner *work)
{
    int64_t width = params->gate.weight.out;
    mlp->gate = mt_plan_2d(saved, pass->type, rows, width);
    mlp->up = mt_plan_2d(saved, pass->type, rows, width);
    struct mt_tensor bits = *drawn; // of x
    mlp->gate_lora = mt_linear_plan_lora(saved, pass, &params->gate, rows, &bits);
    mlp->up_lora = mt_linear_plan_lora(saved, pass, &params->up, rows, &bits);
    mlp->down_lora = mt_linear_plan_lora(saved, pass, &params->down, rows, NULL);
    mlp->inner = mt_plan_2d(work, pass->type, rows, width);
}

struct mt_mlp mt_mlp_first_rows(const struct mt_mlp *mlp, int64_t rows)
{
    return (struct mt_mlp){.gate = mt_tensor_rows(&mlp->gate, 0, rows),
                           .up = mt_tensor_rows(&mlp->up, 0, rows),
                           .gate_lora = mt_lora_trace_rows(&mlp->gate_lora, rows),
                           .up_lora = mt_lora_trace_rows(&mlp->up_lora, rows),
                           .down_lora = mt_lora_trace_rows(&mlp->down_lora, rows),
                           .inner = mt_tensor_rows(&mlp->inner, 0, rows)};
}

bool mt_mlp_is_trained(const struct mt_mlp_params *params)
{
    return mt_linear_is_trained(&params->gate) || mt_linear_is_trained(&params->up) ||
           mt_linear_is_trained(&params->down);
}

bool mt_mlp_reads_input(const struct mt_mlp_params *params)
{
    return mt_linear_reads_input(&params->gate) || mt_linear_reads_input(&params->up);
}

enum mt_status mt_mlp_forward_inner(const struct mt_pass *pass, const struct mt_mlp_params *params,
                                    const struct mt_mlp *mlp, const struct mt_tensor *offsets,
                                    const struct mt_tensor *x)
{
    const struct mt_linear_output both[] = {
        {.linear = &params->gate, .trace = &mlp->gate_lora, .y = &mlp->gate},
        {.linear = &params->up, .trace = &mlp->up_lora, .y = &mlp->up}};
    return mt_linear_swiglu(pass, both, offsets, x, &mlp->inner);
}

enum mt_status mt_mlp_forward_down(const struct mt_pass *pass, const struct mt_mlp_params *params,
                                   const struct mt_mlp *mlp, const struct mt_tensor *offsets, bool add,
                                   const struct mt_tensor *y)
{
    const struct mt_linear_output down = {.linear = &params->down, .trace = &mlp->down_lora, .y = y};
    return mt_linear_forward(pass, &down, 1, offsets, &mlp->inner, add);
}

enum mt_status mt_mlp_make_inner(const struct mt_pass *pass, const struct mt_mlp *mlp)
{
    return mt_swiglu_forward(pass->device,
                             &(struct mt_swiglu_forward_args){.gate = mlp->gate,
                                                              .up = mlp->up,
                                                              .y = mlp->inner,
                                                              .limit = pass->desc->swiglu_limit,
                                                              .alpha = pass->desc->swiglu_alpha});
}

/* True when gate's and up's gradients are needed. */
static bool goes_below(const struct mt_mlp_params *params, bool want_x)
{
    return want_x || mt_linear_is_trained(&params->gate) || mt_linear_is_trained(&params->up);
}

enum mt_status mt_mlp_backward_down(const struct mt_pass *pass, const struct mt_mlp_params *params,
                                    const struct mt_mlp *mlp, const struct mt_tensor *offsets,
                                    const struct mt_tensor *dy, bool want_x)
{
    const struct mt_linear_gradient down = {.linear = &params->down, .dy = dy, .trace = &mlp->down_lora};
    const struct mt_swiglu_inner block = {.gate = &mlp->gate, .up = &mlp->up, .inner = &mlp->inner};
    if (goes_below(params, want_x)) return mt_linear_swiglu_backward(pass, &down, offsets, &block);
    enum mt_status status = mt_linear_reads_input(&params->down) ? mt_mlp_make_inner(pass, mlp) : MT_OK;
    if (status != MT_OK) return status;
    return mt_linear_backward(pass, &down, 1, offsets, &mlp->inner, false, NULL);
}

enum mt_status mt_mlp_backward_inner(const struct mt_pass *pass, const struct mt_mlp_params *params,
                                     const struct mt_mlp *mlp, const struct mt_tensor *offsets,
                                     const struct mt_linear_gradient *together_with,
                                     const struct mt_tensor *x, bool add, const struct mt_tensor *dx)
{
    struct mt_linear_gradient linears[3];
    int count = 0;
    if (goes_below(params, dx != NULL)) {
        linears[count++] =
            (struct mt_linear_gradient){.linear = &params->gate, .dy = &mlp->gate, .trace = &mlp->gate_lora};
        linears[count++] =
            (struct mt_linear_gradient){.linear = &params->up, .dy = &mlp->up, .trace = &mlp->up_lora};
    }
    if (together_with != NULL) linears[count++] = *together_with;
    return count > 0 ? mt_linear_backward(pass, linears, count, offsets, x, add, dx) : MT_OK;
}
