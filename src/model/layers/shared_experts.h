/*
 * The shared experts of an MoE layer: a SwiGLU block that every token passes, y = shared(x). Where the
 * description names a gate, each token has its own factor: y = sigmoid(x · w) · shared(x), w [1,d]. Forward
 * and backward are in two parts each, so that a placement that waits can do them meanwhile.
 */
#ifndef MT_MODEL_SHARED_EXPERTS_H
#define MT_MODEL_SHARED_EXPERTS_H

#include "model/layers/mlp.h"

struct mt_shared_experts {
    struct mt_mlp mlp;
    // With a gate, from forward to backward
    struct mt_tensor gate; // [T,1]: x · w
    struct mt_lora_trace gate_lora;
    struct mt_tensor ungated; // [T,d]: shared(x)
    // work of backward
    struct mt_tensor dgate;    // [T,1]
    struct mt_tensor dungated; // [T,d]
};

/* drawn: as in mt_mlp_plan. */
void mt_shared_experts_plan(struct mt_shared_experts *shared, const struct mt_pass *pass,
                            const struct mt_layer_params *params, bool backward,
                            const struct mt_tensor *drawn, struct mt_planner *saved, struct mt_planner *work);

/* True when anything in them is trained. */
bool mt_shared_experts_are_trained(const struct mt_layer_params *params);

/* Everything up to the inner tensor, then y. */
enum mt_status mt_shared_experts_forward_inner(const struct mt_pass *pass,
                                               const struct mt_layer_params *params,
                                               const struct mt_shared_experts *shared,
                                               const struct mt_tensor *x);
enum mt_status mt_shared_experts_forward_down(const struct mt_pass *pass,
                                              const struct mt_layer_params *params,
                                              const struct mt_shared_experts *shared,
                                              const struct mt_tensor *y);

/*
 * From dy to the gradients of the gate's, gate_proj's and up_proj's results; then on to dx (NULL: not
 * wanted), which is added to. together_with: as in mt_mlp_backward_inner.
 */
enum mt_status mt_shared_experts_backward_down(const struct mt_pass *pass,
                                               const struct mt_layer_params *params,
                                               const struct mt_shared_experts *shared,
                                               const struct mt_tensor *dy, const struct mt_tensor *dx);
enum mt_status mt_shared_experts_backward_inner(const struct mt_pass *pass,
                                                const struct mt_layer_params *params,
                                                const struct mt_shared_experts *shared,
                                                const struct mt_linear_gradient *together_with,
                                                const struct mt_tensor *x, const struct mt_tensor *dx);

#endif
