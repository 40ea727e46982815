/*
 * What a step of LoRA training takes on a cluster, before anybody rents it: memory, arithmetic, bytes on the
 * wire, and time by the alpha-beta model (a message of b bytes takes latency + b / bandwidth). Formulas with
 * their reasons: docs/lab/scaling.md.
 */
#ifndef MT_TRAIN_SCALING_H
#define MT_TRAIN_SCALING_H

#include "arch/model_count.h"
#include "arch/quantise.h"

/* What messages travel on: one of b bytes takes latency + b / bandwidth. */
struct mt_wire {
    double bandwidth; // bytes a second a rank sends
    double latency;   // seconds
};

struct mt_cluster {
    double flops;        // a rank sustains, per second
    struct mt_wire wire; // between machines, or between any two ranks
    int64_t node_ranks;  // neighbours on one machine, with a wire of their own; 0: all use the other
    struct mt_wire node; // within a machine
};

struct mt_layout {
    int64_t ranks;        // P
    int64_t expert_ranks; // E: share the routed experts; divides P
    int64_t tokens;       // of one rank in one step
    int64_t length;       // of a sequence
    int64_t lora_rank;    // r, on every linear layer of the model
    int64_t weight_bytes; // of one frozen number
    int64_t row_bytes;    // of one activation
    double room;          // rows a rank has room for, over those it sends; 0: for all E ranks' rows
    double max_violation; // MaxVio of the experts' loads; 0: balanced
    struct mt_quantise_options quantise; // of the frozen weights
};

struct mt_scaling {
    // bytes of one rank
    double weights;  // frozen: everything but routed experts, and its share of these; as stored
    double unpacked; // copies of quantised ones, of one layer at a time
    double adapters; // masters (and roundings), gradients, moments of its share, what sums of gradients need
    double activations; // with room for every row of all ranks that share the experts
    double memory;
    // of one rank in one step
    double flops;
    double routed_flops;   // of these by routed experts
    double gradient_bytes; // sent: gradients, and as many of values
    double expert_bytes; // sent, balanced: the mean of ranks whose tokens choose alike, whatever they choose
    double hot_expert_bytes; // sent by the fullest rank, as hot_expert
    double hot_rank_bytes;   // sent by the fullest rank, as hot_rank
    double statistics_bytes; // sent
    // seconds of a step
    double compute;    // balanced
    double gradients;  // values, and what backward does not hide of gradients
    double experts;    // rows there and back, balanced
    double hidden;     // of these behind other work
    double statistics; // of the objective
    double balanced;   // all of them
    double hot_expert; // one expert has MaxVio, the others of its rank the mean
    double hot_rank;   // all experts of a rank have MaxVio
    double efficiency; // time of one rank's arithmetic over `balanced`
};

/* A layout whose ranks are not a multiple of expert_ranks is the caller's to refuse. */
void mt_scaling_predict(const struct mt_hf_config *config, const struct mt_cluster *cluster,
                        const struct mt_layout *layout, struct mt_scaling *scaling);

#endif
