/*
 * What a step of training takes on a cluster, before anybody rents it: arithmetic, bytes on the wire, and
 * time by the alpha-beta model (a message of b bytes takes latency + b / bandwidth). Formulas with
 * their reasons: docs/lab/scaling.md.
 */
#ifndef MT_TRAIN_SCALING_H
#define MT_TRAIN_SCALING_H

#include "arch/model_count.h"
#include "model/planner.h"

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
    int64_t ranks;               // P
    int64_t expert_ranks;        // E: share the routed experts; divides P
    int64_t tokens;              // of one rank in one step
    int64_t length;              // of a sequence
    int64_t row_bytes;           // of one activation
    enum mt_recompute recompute; // what backward does again
    double max_violation;        // MaxVio of the experts' loads; 0: balanced
    // As train/opening.h counts them: numbers that are trained, of all routed experts and of the rest without
    // the embedding; bytes of gradients that every rank has, and of the experts of one rank where these are
    // spread.
    bool full; // what is trained are the weights themselves
    double trained_experts, trained_rest;
    double common_bytes, own_bytes;
};

struct mt_scaling {
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
