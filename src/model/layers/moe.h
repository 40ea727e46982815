/*
 * A mixture of experts: router, routed experts, shared experts, and the routing record with which the
 * objective looks on and pulls.
 */
#ifndef MT_MODEL_MOE_H
#define MT_MODEL_MOE_H

#include "model/experts/dense_router.h"
#include "model/experts/proxies.h"
#include "model/layers/shared_experts.h"
#include "model/planner.h"

/* Letters: n experts, k slots (a slot is a token's choice: a (token, choice) pair), R = T·k rows. */
struct mt_moe {
    int64_t layer; // in the model
    int number;    // among the MoE layers: the objective's count

    struct mt_routing record; // logits, probs, choice, weights: kept whatever is recomputed
    struct mt_lora_trace router_lora;
    struct mt_experts experts;       // the routed ones
    struct mt_shared_experts shared; // where the model has any
    // work
    struct mt_tensor router_input;       // [T,d], where a method has jitter on it
    struct mt_proxies proxies;           // where a term asks for them
    struct mt_dense_router dense_router; // where a method asks for it
    struct mt_tensor router_sum; // f32 [n,d]: weight and LoRA together, where a term reads the router's rows
    // work of backward
    struct mt_tensor drows;    // [R,d]: gradient of record.rows, which is the same memory if nothing reads
                               // that; then of the experts' input
    struct mt_tensor coupling; // [T,k,k]
    struct mt_tensor dweight;  // [T,k]
    struct mt_tensor dprobs;   // [T,n]
    struct mt_tensor dlogits;  // [T,n]
    struct mt_tensor drouter_input; // [T,d]
    struct mt_tensor drouter_sum;   // [n,d]
};

/* Where its tensors go. */
struct mt_moe_planners {
    struct mt_planner *index;   // i32
    struct mt_planner *routing; // the record's small tensors
    struct mt_planner *saved;   // what the experts leave to backward
    struct mt_planner *shared;  // what the shared experts leave to backward
    struct mt_planner *work;
};

void mt_moe_plan(struct mt_moe *moe, const struct mt_pass *pass, const struct mt_layer_params *params,
                 bool backward, const struct mt_moe_planners *planners);

/* True when anything in it is trained. */
bool mt_moe_is_trained(const struct mt_layer_params *params);

/* y = residual + shared experts + routed experts, of x, [T,d] all. Input jitter is applied to x in place. */
enum mt_status mt_moe_forward(const struct mt_pass *pass, const struct mt_layer_params *params,
                              struct mt_moe *moe, const struct mt_tensor *x, const struct mt_tensor *residual,
                              const struct mt_tensor *y);

/* What the routed experts leave to backward, again, from x as forward got it. */
enum mt_status mt_moe_repeat_experts(const struct mt_pass *pass, const struct mt_layer_params *params,
                                     const struct mt_moe *moe, const struct mt_tensor *x);

/* dx (NULL: not wanted) is overwritten. x as forward left it. */
enum mt_status mt_moe_backward(const struct mt_pass *pass, const struct mt_layer_params *params,
                               struct mt_moe *moe, const struct mt_tensor *dy, const struct mt_tensor *x,
                               const struct mt_tensor *dx);

/* Input jitter, in place: of x before it is used, of dx at the end. Nothing where there is none. */
enum mt_status mt_moe_jitter(const struct mt_pass *pass, const struct mt_moe *moe, const struct mt_tensor *x);

#endif
