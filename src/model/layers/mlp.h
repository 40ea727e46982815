/*
 * A SwiGLU block, y = down(silu(gate(x)) · up(x)): dense layers, shared experts, and the routed experts of a
 * layer over rows sorted by expert. offsets: as in linear.h.
 */
#ifndef MT_MODEL_MLP_H
#define MT_MODEL_MLP_H

#include "model/layers/linear.h"

/* Letters: R rows; I inner width. */
struct mt_mlp {
    // from forward to backward, which destroys gate and up
    struct mt_tensor gate, up; // [R,I]
    struct mt_lora_trace gate_lora, up_lora, down_lora;
    // work
    struct mt_tensor inner; // [R,I]: silu(gate) · up, made again in backward; there also its gradient
};

/* drawn: what another linear layer of the same x, which comes before, drops of it; absent: there is none. */
void mt_mlp_plan(struct mt_mlp *mlp, const struct mt_pass *pass, const struct mt_mlp_params *params,
                 int64_t rows, const struct mt_tensor *drawn, struct mt_planner *saved,
                 struct mt_planner *work);

/* The same block for the first rows of those that memory is there for. */
struct mt_mlp mt_mlp_first_rows(const struct mt_mlp *mlp, int64_t rows);

/* True when anything in it is trained. */
bool mt_mlp_is_trained(const struct mt_mlp_params *params);

/* True when backward reads x. */
bool mt_mlp_reads_input(const struct mt_mlp_params *params);

/* inner = silu(gate(x)) · up(x); then y = (y +, with add) down(inner), which may be where x was. */
enum mt_status mt_mlp_forward_inner(const struct mt_pass *pass, const struct mt_mlp_params *params,
                                    const struct mt_mlp *mlp, const struct mt_tensor *offsets,
                                    const struct mt_tensor *x);
enum mt_status mt_mlp_forward_down(const struct mt_pass *pass, const struct mt_mlp_params *params,
                                   const struct mt_mlp *mlp, const struct mt_tensor *offsets, bool add,
                                   const struct mt_tensor *y);

/* inner, again, from gate and up. */
enum mt_status mt_mlp_make_inner(const struct mt_pass *pass, const struct mt_mlp *mlp);

/* From dy to gate's and up's gradients, in their place, where these or those of x (want_x) are needed. */
enum mt_status mt_mlp_backward_down(const struct mt_pass *pass, const struct mt_mlp_params *params,
                                    const struct mt_mlp *mlp, const struct mt_tensor *offsets,
                                    const struct mt_tensor *dy, bool want_x);

/*
 * Then on to dx (NULL: not wanted), which is overwritten, with add added to; it may be x. together_with:
 * another linear layer of x, taken together with gate and up; NULL: there is none.
 */
enum mt_status mt_mlp_backward_inner(const struct mt_pass *pass, const struct mt_mlp_params *params,
                                     const struct mt_mlp *mlp, const struct mt_tensor *offsets,
                                     const struct mt_linear_gradient *together_with,
                                     const struct mt_tensor *x, bool add, const struct mt_tensor *dx);

#endif
