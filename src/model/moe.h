/*
 * A mixture of experts: router, routed experts, shared experts, and the routing record with which the
 * objective looks on and pulls.
 */
#ifndef MT_MODEL_MOE_H
#define MT_MODEL_MOE_H

#include "model/expert_linear.h"
#include "model/expert_ranks.h"
#include "model/mlp.h"
#include "model/regions.h"

/* Letters: n experts, k slots, R = T·k rows, I inner width of an expert. */
struct mt_moe {
    int64_t layer; // in the model
    int number;    // among the MoE layers: the objective's count

    struct mt_routing record; // logits, probs, choice, weights: kept whatever is recomputed
    struct mt_lora_trace router_lora;
    // from forward to backward, which destroys them
    struct mt_tensor gate, up; // [R,I]
    struct mt_lora_trace gate_lora, up_lora, down_lora;
    struct mt_mlp shared; // where the model has shared experts
    // work
    struct mt_tensor rows;         // [R,d]: the experts' input; alone in record.rows, in backward in drows
    struct mt_tensor inner;        // [R,I]: silu(gate) · up; in backward also its gradient
    struct mt_tensor router_input; // [T,d], where a method shakes it
    struct mt_tensor router_sum; // f32 [n,d]: weight and LoRA together, where a term reads the router's rows
    // work of backward
    struct mt_tensor
        drows; // [R,d]: gradient of record.rows, then of `rows`; record.rows itself if nothing reads that
    struct mt_tensor coupling;      // [T,k,k]
    struct mt_tensor dweight;       // [T,k]
    struct mt_tensor dprobs;        // [T,n]
    struct mt_tensor dlogits;       // [T,n]
    struct mt_tensor drouter_input; // [T,d]
    struct mt_tensor drouter_sum;   // [n,d]
    // Where experts are spread over ranks, Q rows of all ranks arrive for ours, at most the room for them:
    // gate, up, inner and the LoRA traces are theirs, then.
    struct mt_tensor own_offsets;             // i32 [owned+1]
    struct mt_tensor order;                   // i32 [room]
    struct mt_tensor travel, arrived, second; // work, [room,d]
};

/* The routed experts at hand: all, or a rank's own. */
struct mt_expert_maps {
    struct mt_expert_linear gate, up, down;
};

/* Those of this rank. */
struct mt_expert_maps mt_moe_maps(const struct mt_pass *pass, const struct mt_layer_params *params);

/* The layer as its rank's experts see it: Q rows, their offsets; `rows`, record.rows and drows as given. */
struct mt_moe mt_moe_arrived(const struct mt_pass *pass, const struct mt_moe *moe);

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

/* True when anything in it learns. */
bool mt_moe_learns(const struct mt_layer_params *params);

/* y = residual + shared experts + routed experts, of x, [T,d] all. x is shaken in place by input jitter. */
enum mt_status mt_moe_forward(const struct mt_pass *pass, const struct mt_layer_params *params,
                              struct mt_moe *moe, const struct mt_tensor *x, const struct mt_tensor *residual,
                              const struct mt_tensor *y);

/* Makes gate, up and record.rows of the routed experts again, from x as forward got it. */
enum mt_status mt_moe_repeat_experts(const struct mt_pass *pass, const struct mt_layer_params *params,
                                     const struct mt_moe *moe, const struct mt_tensor *x);

/* dx (NULL: not wanted) is overwritten. x as forward left it. */
enum mt_status mt_moe_backward(const struct mt_pass *pass, const struct mt_layer_params *params,
                               struct mt_moe *moe, const struct mt_tensor *dy, const struct mt_tensor *x,
                               const struct mt_tensor *dx);

/* Input jitter, in place: of x before it is used, of dx at the end. Nothing where there is none. */
enum mt_status mt_moe_jitter(const struct mt_pass *pass, const struct mt_moe *moe, const struct mt_tensor *x);

#endif
