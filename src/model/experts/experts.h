/*
 * The routed experts of a layer: rows sorted by expert go in, as many come out. Where an expert's weights
 * are, and how rows get there, only its placement knows: all of them here (local.c), or divided
 * among ranks (expert_parallel.c). Another way to place them is another file and another mt_placement;
 * another way to store their weights is weight.h's affair.
 *
 * Letters: R = T·k rows, room for every slot of our tokens; the first offsets[n] are used, since dropped
 * slots have none. Q rows that are computed here, which are R where all experts are; I inner width of an
 * expert.
 */
#ifndef MT_MODEL_EXPERTS_EXPERTS_H
#define MT_MODEL_EXPERTS_EXPERTS_H

#include "model/layers/mlp.h"

struct mt_experts {
    int number;        // of the layer among the MoE layers
    struct mt_mlp mlp; // of Q rows
    // where a term looks at mlp.inner, in backward: its gradient, made of what the term says first
    struct mt_tensor dinner;         // [Q,I]
    struct mt_tensor inner_coupling; // [T,k,k]: of a token's activations
    struct mt_tensor row_of_slot;    // i32 [T,k]: the record's
    // work of expert_parallel.c; C: the most rows that can be received
    struct mt_tensor own;                            // [R,d]: our rows
    struct mt_tensor own_offsets;                    // i32 [owned+1]: where each of our experts' rows begin
    struct mt_tensor order;                          // i32 [C]
    struct mt_tensor send_buffer, received, outputs; // [C,d]
};

/* Where its tensors go. */
struct mt_experts_planners {
    struct mt_planner *index; // i32
    struct mt_planner *saved; // from forward to backward
    struct mt_planner *work;
};

/* What may be done while rows are on their way: a placement that waits calls `run`, once for each wait. */
struct mt_meanwhile {
    enum mt_status (*run)(void *self);
    void *self; // borrowed
};

struct mt_placement {
    bool waits; // for other processes: such a pass cannot be recorded and run again

    /* The largest Q of a pass. */
    int64_t (*most_rows)(const struct mt_pass *pass);

    void (*plan)(struct mt_experts *experts, const struct mt_pass *pass, const struct mt_mlp_params *params,
                 const struct mt_experts_planners *planners);

    /* The choice is made: the record's offsets and places of rows are there. NULL: nothing to do. */
    enum mt_status (*routed)(const struct mt_pass *pass, const struct mt_experts *experts,
                             const struct mt_routing *record);

    /* record.rows [R,d] = what the experts make of x's rows. */
    enum mt_status (*forward)(const struct mt_pass *pass, const struct mt_mlp_params *params,
                              const struct mt_experts *experts, const struct mt_routing *record,
                              const struct mt_tensor *x, const struct mt_meanwhile *meanwhile);

    /* Begins what backward needs of x, before there is a gradient. NULL: nothing to do. */
    enum mt_status (*prepare_backward)(const struct mt_pass *pass, const struct mt_mlp_params *params,
                                       const struct mt_experts *experts, const struct mt_routing *record,
                                       const struct mt_tensor *x);

    /* drows [R,d]: the gradient of the outputs; afterwards, if it is wanted, that of the rows. */
    enum mt_status (*backward)(const struct mt_pass *pass, const struct mt_mlp_params *params,
                               const struct mt_experts *experts, const struct mt_routing *record,
                               const struct mt_tensor *x, const struct mt_tensor *drows, bool want_rows,
                               const struct mt_meanwhile *meanwhile);
};

extern const struct mt_placement mt_experts_local, mt_experts_parallel;

#endif
