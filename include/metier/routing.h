/*
 * The routing record: what one MoE layer's router and experts did with one micro-batch. The layer writes it;
 * objective, analysis and evaluation read it. It is the one thing that flows between them.
 *
 * All tensors are views of memory somebody else owns, on the device that computes. Letters as in
 * metier/ops.h: N tokens, n experts, k slots (experts per token), B segments (sequences), d width.
 */
#ifndef METIER_ROUTING_H
#define METIER_ROUTING_H

#include "metier/export.h"
#include "metier/ops.h"

MT_PUBLIC_BEGIN

enum mt_router_kind {
    MT_ROUTER_SOFTMAX,
    MT_ROUTER_SIGMOID,
    MT_ROUTER_SPARSEMIXER, // k = 2
};

/* How logits become experts and weights. */
struct mt_router_config {
    enum mt_router_kind kind;
    int slots;      // k
    bool normalise; // weights divided by (their sum + epsilon): norm_topk_prob
    float epsilon;  // 1e-20 in DeepSeek models, 0 in Mixtral and Qwen3
    float scale;    // routed_scaling_factor; 0 counts as 1
    enum mt_group_rule group_rule;
    int groups;      // 0 without a rule
    int groups_kept; // 1 .. groups
    float jitter;    // SparseMixer's threshold (router_jitter_noise)
};

struct mt_objective_config; // metier/objective.h

/* How a choice is made in one layer and step. All zero: as the router does in evaluation. */
struct mt_router_policy {
    bool training;                            // SparseMixer samples; selection rules act
    const struct mt_objective_config *method; // whose rules act (metier/selection.h); borrowed; NULL: none
    uint64_t seed;
    uint64_t stream; // a different one for every layer and step
    bool given;      // records come with choices (mt_routing.given)
    // For what is drawn for whole sequences: the same however a step is cut into micro-batches.
    uint64_t sequence_stream; // a different one for every layer and optimizer step
    uint64_t first_sequence;  // the number in the step of the record's segment 0
};

struct mt_routing {
    int64_t tokens;   // N
    int experts;      // n
    int slots;        // k
    int segments;     // B; 1 when `segment` is absent
    int64_t unmasked; // tokens that are no padding, for the capacity of an expert; 0 counts as all of them

    struct mt_tensor mask;       // i32 [N], optional: 0 marks padding
    struct mt_tensor ortho_mask; // i32 [N], optional: mask, less the first token of every sequence
    struct mt_tensor segment;    // i32 [N], optional: the token's sequence, in [0, B)

    struct mt_tensor logits; // f32 [N,n], given; with a pool those outside become -1e30
    struct mt_tensor bias;   // f32 [n], optional, given: selects, never weighs
    struct mt_tensor probs;  // f32 [N,n]: softmax or sigmoid of the logits (SparseMixer: softmax)
    struct mt_tensor greedy; // i32 [N,k]: the k largest probs, what L_aux counts; may be `chosen` itself
    struct mt_tensor chosen; // i32 [N,k]: the router's choice, in falling order; or as given
    struct mt_tensor expert; // i32 [N,k]: the choice less what was dropped (-1); may be `chosen` itself
    struct mt_tensor weight; // f32 [N,k]: of the choice, before dropping

    struct mt_tensor offsets;     // i32 [n+1], from dispatch_plan
    struct mt_tensor row_of_slot; // i32 [N,k]
    struct mt_tensor slot_of_row; // i32 [N·k]

    struct mt_tensor rows;          // [N·k,d]: expert outputs, sorted by expert
    struct mt_tensor gram;          // f32 [N,k,k], from combine_forward; only L_o needs it
    struct mt_tensor router_weight; // [n,d], optional: only terms on the router's rows need it
    struct mt_tensor inner_gram;    // f32 [N,k,k], optional: Gram matrices of a token's SwiGLU activations
    // f32 [n,n], optional: row j has |W_j r_i|², W_j expert j's gate projection, r_i row i of the router with
    // noise
    struct mt_tensor proxy_squares;

    // i32 [N,k], optional, given: experts of a token, each once, that take the place of the router's choice;
    // -1 in all slots of a token: the router chooses. Weights are of the scores as they are (R3)
    struct mt_tensor given;
    struct mt_tensor agreed; // f32 [N,2], optional: given slots that the router chose itself, given slots

    // [N,d], optional: the residual stream that the experts' outputs are added to, as it was before
    struct mt_tensor residual;

    // Needed where the method has a pool (mt_selection_pools):
    struct mt_tensor pool;      // i32 [B,n]: 1 for experts the sequence may choose, else 0
    struct mt_tensor pool_sums; // f64 [B·(n+1)], to be overwritten
};

/* The gradient of a record. All of it is added to. */
struct mt_routing_gradient {
    struct mt_tensor dlogits;        // f32 [N,n]
    struct mt_tensor dprobs;         // f32 [N,n]
    struct mt_tensor dweight;        // f32 [N,k]
    struct mt_tensor drouter_weight; // f32 [n,d], absent when the router is frozen
    // What combine_backward multiplies the activations and W_j r_i with. Not added to: zero, or written by
    // the one term that reads the Gram matrices or squares
    struct mt_tensor inner_coupling; // f32 [N,k,k]
    struct mt_tensor proxy_coupling; // f32 [n,n]
    // Nothing is in them yet: who comes first overwrites them, and unsets this. Else they are added to.
    bool dlogits_empty, dprobs_empty, dweight_empty;
};

/* True when greedy, chosen and expert can be one tensor: no bias, groups, SparseMixer, dropping or
 * given choices. */
bool mt_routing_is_plain(const struct mt_router_config *router, const struct mt_router_policy *policy,
                         bool has_bias);

/* Refuses what cannot be: k > n, groups that do not divide n, SparseMixer with k other than 2, ... */
enum mt_status mt_router_config_check(struct mt_context *ctx, const struct mt_router_config *router,
                                      int experts);

/* From logits (and bias, mask) to probs, chosen, greedy, weight and expert. */
enum mt_status mt_routing_forward(struct mt_device *device, const struct mt_router_config *router,
                                  const struct mt_router_policy *policy, struct mt_routing *record);

/*
 * dlogits += what dweight and dprobs say through weights and scores. dprobs is used up: it ends holding the
 * sum of both.
 */
enum mt_status mt_routing_backward(struct mt_device *device, const struct mt_router_config *router,
                                   const struct mt_routing *record, struct mt_routing_gradient *gradient);

/*
 * ortho_mask on the host: mask (NULL: all ones) less the first unmasked token of every segment. Segment
 * numbers are in [0, tokens).
 */
void mt_routing_ortho_mask(const int32_t *mask, const int32_t *segment, int64_t tokens, int32_t *ortho_mask);

MT_PUBLIC_END

#endif
