/*
 * A linear layer with its LoRA pair: y = x Wᵀ + b + s · drop(x) Aᵀ Bᵀ, and its backward. Every linear layer
 * of a model goes through here: attention, router, dense and shared MLPs; the head's LoRA too.
 */
#ifndef MT_MODEL_LINEAR_H
#define MT_MODEL_LINEAR_H

#include "model/layers/expert_linear.h"

/* True when it has a LoRA pair. */
bool mt_linear_has_lora(const struct mt_linear *linear);

/* True when a gradient of its own is wanted. */
bool mt_linear_is_trained(const struct mt_linear *linear);

/* True when backward reads x: to make the gradient of the weight, or of A. */
bool mt_linear_reads_input(const struct mt_linear *linear);

/* The weight as a product reads it, [out,in]: params/weight.h. */
enum mt_status mt_linear_operand(const struct mt_pass *pass, const struct mt_linear *linear,
                                 struct mt_tensor *operand);

/* The linear layer without its bias as that of a single expert; it points into `linear`. */
struct mt_expert_linear mt_linear_as_expert(const struct mt_linear *linear);

/* What its pair keeps of T tokens from forward to backward; shared_bits as in mt_expert_linear_plan_lora. */
struct mt_lora_trace mt_linear_plan_lora(struct mt_planner *planner, const struct mt_pass *pass,
                                         const struct mt_linear *linear, struct mt_tensor *shared_bits);

/* y = (y +, with add) the linear layer of x. The trace is written. */
enum mt_status mt_linear_forward(const struct mt_pass *pass, const struct mt_linear *linear,
                                 const struct mt_tensor *x, const struct mt_lora_trace *trace, bool add,
                                 const struct mt_tensor *y);

/* A linear layer and where its result goes. */
struct mt_linear_output {
    const struct mt_linear *linear; // not exact
    const struct mt_lora_trace *trace;
    const struct mt_tensor *y;
};

/* The same for up to MT_LORA_LINEARS linear layers of one x, whose pairs read it once. */
enum mt_status mt_linear_forward_together(const struct mt_pass *pass, const struct mt_linear_output *linears,
                                          int count, const struct mt_tensor *x);

/* gate and up of a SwiGLU block, both overwritten, and inner = silu(gate) · up. */
enum mt_status mt_linear_swiglu(const struct mt_pass *pass, const struct mt_linear_output *gate,
                                const struct mt_linear_output *up, const struct mt_tensor *x,
                                const struct mt_tensor *inner);

/*
 * Adds the gradients of the parameters that are trained. dx (NULL: not wanted) is overwritten, with add added
 * to; when not adding it may be x itself. x may be absent when mt_linear_reads_input is false.
 */
enum mt_status mt_linear_backward(const struct mt_pass *pass, const struct mt_linear *linear,
                                  const struct mt_tensor *dy, const struct mt_tensor *x,
                                  const struct mt_lora_trace *trace, bool add, const struct mt_tensor *dx);

/*
 * The same in two parts for a SwiGLU block's down, as in expert_linear.h: from dy to gate's and up's
 * gradients, then the parameters' gradients, with no other linear layer's backward in between.
 */
enum mt_status mt_linear_swiglu_backward(const struct mt_pass *pass, const struct mt_linear *down,
                                         const struct mt_tensor *dy, const struct mt_lora_trace *trace,
                                         const struct mt_swiglu_inner *block);
enum mt_status mt_linear_backward_own(const struct mt_pass *pass, const struct mt_linear *linear,
                                      const struct mt_tensor *dy, const struct mt_tensor *x,
                                      const struct mt_lora_trace *trace);

/* A linear layer and the gradient of what it made. */
struct mt_linear_gradient {
    const struct mt_linear *linear; // at most one of those taken together is exact
    const struct mt_tensor *dy;
    const struct mt_lora_trace *trace;
};

/* Both parts for up to MT_LORA_LINEARS linear layers of one x, whose dx is one sum. */
enum mt_status mt_linear_backward_together(const struct mt_pass *pass,
                                           const struct mt_linear_gradient *linears, int count,
                                           const struct mt_tensor *x, bool add, const struct mt_tensor *dx);

#endif
