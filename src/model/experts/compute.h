/* What every placement does with rows once they are where their experts are. Parts of experts.h. */
#ifndef MT_MODEL_EXPERTS_COMPUTE_H
#define MT_MODEL_EXPERTS_COMPUTE_H

#include "model/experts/experts.h"

/* The projections of some experts that follow each other. */
struct mt_expert_projections {
    struct mt_expert_linear gate, up, down;
};

struct mt_expert_projections mt_experts_projections(const struct mt_layer_params *params, int first,
                                                    int count);

/* Takes memory for what `rows` rows leave to backward, and for work. */
void mt_experts_plan_compute(struct mt_experts *experts, const struct mt_pass *pass,
                             const struct mt_layer_params *params, int64_t rows,
                             const struct mt_experts_planners *planners);

/* The same experts for the first rows of those that memory is there for. */
struct mt_experts mt_experts_first_rows(const struct mt_experts *experts, int64_t rows);

/* rows [R,d] = x's rows, sorted by expert as the record says. */
enum mt_status mt_experts_gather(const struct mt_pass *pass, const struct mt_routing *record,
                                 const struct mt_tensor *x, const struct mt_tensor *rows);

/* y = the experts of rows, [Q,d] both; y may be rows. offsets: i32, where each expert's begin. */
enum mt_status mt_experts_compute(const struct mt_pass *pass, const struct mt_expert_projections *projections,
                                  const struct mt_experts *experts, const struct mt_tensor *offsets,
                                  const struct mt_tensor *rows, const struct mt_tensor *y);

/*
 * Back through down: its own gradients, and with `below` those of gate and up, in their place. What down read
 * is made again in the pass over gate and up. dy: [Q,d].
 */
enum mt_status mt_experts_down_backward(const struct mt_pass *pass,
                                        const struct mt_expert_projections *projections,
                                        const struct mt_experts *experts, const struct mt_tensor *offsets,
                                        const struct mt_tensor *dy, bool below);

/* Then through gate and up: their own gradients, which need rows, and drows (NULL: not wanted), which may be
 * rows.
 */
enum mt_status mt_experts_inner_backward(const struct mt_pass *pass,
                                         const struct mt_expert_projections *projections,
                                         const struct mt_experts *experts, const struct mt_tensor *offsets,
                                         const struct mt_tensor *rows, const struct mt_tensor *drows);

#endif
