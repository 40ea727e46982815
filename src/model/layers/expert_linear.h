/*
 * Linear layers over rows sorted by expert, with LoRA pairs: the routed experts'. Without offsets there is
 * one linear layer for all rows, which is how linear.h makes its linear layers that have a pair.
 */
#ifndef MT_MODEL_EXPERT_LINEAR_H
#define MT_MODEL_EXPERT_LINEAR_H

#include "model/params/params.h"
#include "model/pass.h"
#include "model/planner.h"

/*
 * What a LoRA pair keeps from forward to backward; all absent without one. The bits belong to x: linear
 * layers of one x have the same tensor there, which the first of them that has a pair draws, from its stream.
 */
struct mt_lora_trace {
    struct mt_tensor xa;   // [R,r]: drop(x)·Aᵀ, times s where products read roundings of the pair
    struct mt_tensor bits; // i32 [R,ceil(in/32)]: what drop keeps of x; absent where nothing is ever dropped
    bool drawn;            // another linear layer of x has drawn them before
};

/* The first rows of a trace. */
struct mt_lora_trace mt_lora_trace_rows(const struct mt_lora_trace *trace, int64_t rows);

bool mt_expert_linear_has_lora(const struct mt_expert_linear *linear);
bool mt_expert_linear_is_trained(const struct mt_expert_linear *linear); // then backward reads x

/*
 * The trace of so many rows. Linear layers of one x are planned in their order with the same shared_bits,
 * absent at first; NULL: a linear layer by itself.
 */
struct mt_lora_trace mt_expert_linear_plan_lora(struct mt_planner *planner, const struct mt_pass *pass,
                                                const struct mt_expert_linear *linear, int64_t rows,
                                                struct mt_tensor *shared_bits);

/* trace.xa = scale · drop(x)·A_eᵀ; trace.bits is drawn. offsets: i32 [n+1]; NULL: one linear layer, all rows.
 */
enum mt_status mt_expert_linear_make_xa(const struct mt_pass *pass, const struct mt_expert_linear *linear,
                                        const struct mt_tensor *offsets, const struct mt_tensor *x,
                                        float scale, const struct mt_lora_trace *trace);

/* A linear layer and where its result goes. */
struct mt_projection_output {
    const struct mt_expert_linear *linear;
    const struct mt_lora_trace *trace; // written
    const struct mt_tensor *y;
};

/*
 * y[r] = (y[r] +, with add) the linear layer of x[r] by the row's expert, for up to MT_LORA_LINEARS linear
 * layers of the same x; rows of no expert are untouched.
 */
enum mt_status mt_expert_linear_forward(const struct mt_pass *pass,
                                        const struct mt_projection_output *linears, int count,
                                        const struct mt_tensor *offsets, const struct mt_tensor *x, bool add);

/*
 * The first half of a SwiGLU block: gate and up likewise, both overwritten, and inner = silu(gate) · up
 * [R,I], of no meaning in rows of no expert.
 */
enum mt_status mt_expert_linear_swiglu(const struct mt_pass *pass, const struct mt_projection_output *gate,
                                       const struct mt_projection_output *up, const struct mt_tensor *offsets,
                                       const struct mt_tensor *x, const struct mt_tensor *inner);

/* A linear layer and the gradient of what it made. */
struct mt_projection_gradient {
    const struct mt_expert_linear *linear;
    const struct mt_tensor *dy;
    const struct mt_lora_trace *trace;
};

/*
 * Adds the gradients of the parameters of up to MT_LORA_LINEARS linear layers of the same x. dx (NULL: not
 * wanted) is overwritten, with add added to; when not adding it may be x itself. x may be absent when none of
 * them is trained.
 */
enum mt_status mt_expert_linear_backward(const struct mt_pass *pass,
                                         const struct mt_projection_gradient *linears, int count,
                                         const struct mt_tensor *offsets, const struct mt_tensor *x, bool add,
                                         const struct mt_tensor *dx);

/* A SwiGLU block's inner tensors, [R,I] all. */
struct mt_swiglu_inner {
    const struct mt_tensor *gate, *up; // gradients take their place in backward
    const struct mt_tensor *inner;     // silu(gate) · up, made again in backward
};

/*
 * The same for a SwiGLU block's down, in two parts: from dy to gate's and up's gradients, with which what
 * down read, x, is made again in `inner`; then the parameters' gradients, with no other linear layer's
 * backward in between, which would use the same pass->xa_work.
 */
enum mt_status mt_expert_linear_swiglu_backward(const struct mt_pass *pass,
                                                const struct mt_projection_gradient *down,
                                                const struct mt_tensor *offsets,
                                                const struct mt_swiglu_inner *block);
enum mt_status mt_expert_linear_backward_own(const struct mt_pass *pass,
                                             const struct mt_projection_gradient *projection,
                                             const struct mt_tensor *offsets, const struct mt_tensor *x);

/* dA_e += dxaᵀ drop(x), dxa [R,r] being the gradient of drop(x)·A_eᵀ. */
enum mt_status mt_expert_linear_xa_to_a(const struct mt_pass *pass, const struct mt_expert_linear *linear,
                                        const struct mt_tensor *offsets, const struct mt_tensor *dxa,
                                        const struct mt_tensor *x, const struct mt_lora_trace *trace);

/* The term of dx that comes through the pair: drop's mask on dxa·A_e. */
struct mt_product_term mt_expert_linear_xa_term(const struct mt_pass *pass,
                                                const struct mt_expert_linear *linear,
                                                const struct mt_tensor *dxa,
                                                const struct mt_lora_trace *trace);

#endif
