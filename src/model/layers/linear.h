/*
 * Linear layers with their LoRA pairs, and their backward: y = x Wᵀ + b + s · drop(x) Aᵀ Bᵀ. Every linear
 * layer of a model goes through here, those of the routed experts over rows that are sorted by expert. Layers
 * that read the same x are taken together, up to MT_LORA_LINEARS of them, and their pairs read it once.
 *
 * offsets: i32 [n+1], where the rows of each expert begin; NULL: there is one matrix, for all rows.
 */
#ifndef MT_MODEL_LINEAR_H
#define MT_MODEL_LINEAR_H

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

bool mt_linear_has_lora(const struct mt_linear *linear);

/* True when a gradient of its own is wanted. */
bool mt_linear_is_trained(const struct mt_linear *linear);

/* True when backward reads x: to make the gradient of the weight, or of A. */
bool mt_linear_reads_input(const struct mt_linear *linear);

/*
 * The trace of so many rows. Linear layers of one x are planned in their order with the same shared_bits,
 * absent at first; NULL: a linear layer by itself.
 */
struct mt_lora_trace mt_linear_plan_lora(struct mt_planner *planner, const struct mt_pass *pass,
                                         const struct mt_linear *linear, int64_t rows,
                                         struct mt_tensor *shared_bits);

/* A linear layer and where its result goes. */
struct mt_linear_output {
    const struct mt_linear *linear;    // one that is exact is taken alone
    const struct mt_lora_trace *trace; // written
    const struct mt_tensor *y;
};

/* y = (y +, with add) the linear layer of x, for `count` of them; rows of no expert are untouched. */
enum mt_status mt_linear_forward(const struct mt_pass *pass, const struct mt_linear_output *linears,
                                 int count, const struct mt_tensor *offsets, const struct mt_tensor *x,
                                 bool add);

/*
 * The first half of a SwiGLU block: gate and up, both overwritten, and inner = silu(gate) · up [R,I], of no
 * meaning in rows of no expert.
 */
enum mt_status mt_linear_swiglu(const struct mt_pass *pass, const struct mt_linear_output gate_and_up[2],
                                const struct mt_tensor *offsets, const struct mt_tensor *x,
                                const struct mt_tensor *inner);

/* A linear layer and the gradient of what it made. */
struct mt_linear_gradient {
    const struct mt_linear *linear; // at most one of those taken together is exact
    const struct mt_tensor *dy;
    const struct mt_lora_trace *trace;
};

/*
 * Adds the gradients of the parameters that are trained. dx (NULL: not wanted) is overwritten, with add added
 * to; when not adding it may be x itself. x may be absent when mt_linear_reads_input is false for all.
 */
enum mt_status mt_linear_backward(const struct mt_pass *pass, const struct mt_linear_gradient *linears,
                                  int count, const struct mt_tensor *offsets, const struct mt_tensor *x,
                                  bool add, const struct mt_tensor *dx);

/* A SwiGLU block's inner tensors, [R,I] all. */
struct mt_swiglu_inner {
    const struct mt_tensor *gate, *up; // gradients take their place in backward
    const struct mt_tensor *inner;     // silu(gate) · up, made again in backward
};

/*
 * The whole backward of a SwiGLU block's down: from dy to gate's and up's gradients, with which what down
 * read is made again in `inner`, and the gradients of down's parameters. `inner` is of no use afterwards.
 */
enum mt_status mt_linear_swiglu_backward(const struct mt_pass *pass, const struct mt_linear_gradient *down,
                                         const struct mt_tensor *offsets,
                                         const struct mt_swiglu_inner *block);

// ------------------------------------------------------------------ parts, for the head

/* trace.xa = scale · drop(x)·Aᵀ; trace.bits is drawn. */
enum mt_status mt_linear_make_xa(const struct mt_pass *pass, const struct mt_linear *linear,
                                 const struct mt_tensor *x, float scale, const struct mt_lora_trace *trace);

/* dA += dxaᵀ drop(x), if A is trained, and dx (NULL: not wanted) += drop's mask on dxa·A. dxa [R,r] is the
 * gradient of drop(x)·Aᵀ. */
enum mt_status mt_linear_xa_backward(const struct mt_pass *pass, const struct mt_linear *linear,
                                     const struct mt_tensor *dxa, const struct mt_tensor *x,
                                     const struct mt_lora_trace *trace, const struct mt_tensor *dx);

#endif
