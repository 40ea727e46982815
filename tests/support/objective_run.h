/*
 * A few MoE layers' routing and expert outputs in f32, and whole steps of the objective over them, in the
 * order a trainer would call: the same stages, with expert outputs sorted by expert and Gram matrices from
 * combine.
 */
#ifndef MT_TESTS_OBJECTIVE_RUN_H
#define MT_TESTS_OBJECTIVE_RUN_H

#include "metier/objective.h"

#define RUN_LAYERS   3
#define RUN_TOKENS   37
#define RUN_EXPERTS  8
#define RUN_SEGMENTS 4
#define RUN_SLOTS    3
#define RUN_WIDTH    12
#define RUN_ROWS     (RUN_TOKENS * RUN_SLOTS)

struct run_layer {
    float logits[RUN_TOKENS * RUN_EXPERTS];
    float probs[RUN_TOKENS * RUN_EXPERTS];
    float weight[RUN_ROWS];
    int32_t greedy[RUN_ROWS], chosen[RUN_ROWS], expert[RUN_ROWS];
    int32_t offsets[RUN_EXPERTS + 1], row_of_slot[RUN_ROWS], slot_of_row[RUN_ROWS];
    float rows[RUN_ROWS * RUN_WIDTH];
    float y[RUN_TOKENS * RUN_WIDTH];
    float gram[RUN_ROWS * RUN_SLOTS];
    float router_weight[RUN_EXPERTS * RUN_WIDTH];
    float inner[RUN_ROWS * RUN_WIDTH]; // activations, as wide as the outputs
    float inner_gram[RUN_ROWS * RUN_SLOTS];
    float proxy_squares[RUN_EXPERTS * RUN_EXPERTS];
    int32_t pool[RUN_SEGMENTS * RUN_EXPERTS];
    double pool_sums[RUN_SEGMENTS * (RUN_EXPERTS + 1)];
    // Results of backward.
    float coupling[RUN_ROWS * RUN_SLOTS];
    float drows[RUN_ROWS * RUN_WIDTH];
    float dlogits[RUN_TOKENS * RUN_EXPERTS];
    float dprobs[RUN_TOKENS * RUN_EXPERTS];
    float dweight[RUN_ROWS];
    float drouter_weight[RUN_EXPERTS * RUN_WIDTH];
    float inner_coupling[RUN_ROWS * RUN_SLOTS];
    float dinner[RUN_ROWS * RUN_WIDTH];
    float proxy_coupling[RUN_EXPERTS * RUN_EXPERTS];
};

struct objective_run {
    struct mt_device *device; // borrowed
    struct mt_objective_config config;
    struct mt_router_config router;
    struct mt_objective *objective; // the caller's, for the steps
    struct mt_objective_step step;
    bool measure;
    int32_t mask[RUN_TOKENS];
    int32_t ortho_mask[RUN_TOKENS];
    int32_t segment[RUN_TOKENS];
    struct run_layer layer[RUN_LAYERS];
};

/* Fills the inputs of a batch; progress and loss scale are 1. */
void objective_run_draw(struct objective_run *run, uint64_t seed);

/* The shape for mt_objective_create. */
struct mt_objective_shape objective_run_shape(const struct objective_run *run);

/* A view of a layer. */
struct mt_routing objective_run_record(struct objective_run *run, int layer);

/* Forward of all layers and finish. */
enum mt_status objective_run_forward(struct objective_run *run, double *total);

/* Coupling and backward of all layers, last first. */
enum mt_status objective_run_backward(struct objective_run *run);

#endif
