/* A SwiGLU block, y = down(silu(gate(x)) · up(x)): dense layers and shared experts. */
#ifndef MT_MODEL_MLP_H
#define MT_MODEL_MLP_H

#include "model/layers/linear.h"

/* Letter: I inner width. */
struct mt_mlp {
    // from forward to backward, which destroys gate and up
    struct mt_tensor gate, up; // [T,I]
    struct mt_lora_trace gate_lora, up_lora, down_lora;
    // work
    struct mt_tensor inner; // [T,I]: silu(gate) · up, made again in backward; there also its gradient
};

/* drawn: what another linear layer of the same x, which comes before, drops of it; absent: there is none. */
void mt_mlp_plan(struct mt_mlp *mlp, const struct mt_pass *pass, const struct mt_mlp_params *params,
                 const struct mt_tensor *drawn, struct mt_planner *saved, struct mt_planner *work);

/* True when anything in it is trained. */
bool mt_mlp_is_trained(const struct mt_mlp_params *params);

/* y = (y +, with add) the block's output; or in two parts, inner = silu(gate(x)) · up(x) first, then y. */
enum mt_status mt_mlp_forward(const struct mt_pass *pass, const struct mt_mlp_params *params,
                              const struct mt_mlp *mlp, const struct mt_tensor *x, bool add,
                              const struct mt_tensor *y);
enum mt_status mt_mlp_forward_inner(const struct mt_pass *pass, const struct mt_mlp_params *params,
                                    const struct mt_mlp *mlp, const struct mt_tensor *x);
enum mt_status mt_mlp_forward_down(const struct mt_pass *pass, const struct mt_mlp_params *params,
                                   const struct mt_mlp *mlp, bool add, const struct mt_tensor *y);

/*
 * dx (NULL: not wanted) is overwritten, with add added to. In two parts as well: from dy to gate's and up's
 * gradients, and on to dx; only whether dx is NULL counts in the first. together_with: another linear layer
 * of x, taken together with gate and up; NULL: there is none.
 */
enum mt_status mt_mlp_backward(const struct mt_pass *pass, const struct mt_mlp_params *params,
                               const struct mt_mlp *mlp, const struct mt_tensor *dy,
                               const struct mt_tensor *x, bool add, const struct mt_tensor *dx);
enum mt_status mt_mlp_backward_down(const struct mt_pass *pass, const struct mt_mlp_params *params,
                                    const struct mt_mlp *mlp, const struct mt_tensor *dy,
                                    const struct mt_tensor *dx);
enum mt_status mt_mlp_backward_inner(const struct mt_pass *pass, const struct mt_mlp_params *params,
                                     const struct mt_mlp *mlp, const struct mt_linear_gradient *together_with,
                                     const struct mt_tensor *x, bool add, const struct mt_tensor *dx);

#endif
