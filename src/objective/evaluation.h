/*
 * One layer of the objective on tensors in host memory: routes, evaluates, brings gradients back. Under
 * mt_objective_evaluate, which speaks raw f32 arrays, and under the tests, which take differences in f64.
 */
#ifndef MT_OBJECTIVE_EVALUATION_H
#define MT_OBJECTIVE_EVALUATION_H

#include "objective/objective.h"

struct mt_evaluation_sizes {
    int64_t tokens;      // N
    int experts;         // n
    int64_t width;       // d; 0 without expert outputs and router weight
    int segments;        // B at the most
    enum mt_dtype dtype; // of all floats: f32 or f64
};

/* Borrowed for the length of a call. */
struct mt_evaluation_inputs {
    struct mt_tensor logits;         // [N,n]
    struct mt_tensor expert_outputs; // [N·k,d], optional: row i·k + s is what slot s of token i says
    struct mt_tensor mask;           // i32 [N], optional
    struct mt_tensor segment;        // i32 [N], optional, each in [0, segments)
    int segments;                    // B; 1 without segment
    struct mt_tensor router_weight;  // [n,d], optional
    struct mt_tensor bias;           // [n], optional
};

/* All overwritten. */
struct mt_evaluation_gradients {
    struct mt_tensor dlogits;         // [N,n]
    struct mt_tensor dexpert_outputs; // [N·k,d], optional
    struct mt_tensor drouter_weight;  // [n,d], optional
};

struct mt_evaluation {
    struct mt_device *device; // borrowed
    struct mt_router_config router;
    struct mt_router_policy policy;
    struct mt_objective *objective;
    struct mt_routing record;       // of the last forward
    struct mt_tensor greedy;        // i32 [N,k], where the record cannot share memory
    struct mt_tensor expert;        // i32 [N,k]
    struct mt_tensor ortho_mask;    // i32 [N]
    struct mt_tensor logits;        // [N,n], with a pool: the caller's stay as they are
    struct mt_tensor sorted_row;    // i32 [N,k]: dispatch_plan's rows, which nobody reads
    struct mt_tensor coupling;      // [N,k,k]
    struct mt_tensor dprobs;        // [N,n]
    struct mt_tensor dweight;       // [N,k]
    struct mt_tensor piece;         // [P,d]: y and dy of P tokens
    struct mt_tensor piece_weight;  // [P,k], zeros
    struct mt_tensor piece_dweight; // [P,k]
};

/* Bytes of memory for a checked configuration, or 0 for one that cannot be. */
size_t mt_evaluation_bytes(const struct mt_objective_config *config, const struct mt_router_config *router,
                           const struct mt_evaluation_sizes *sizes);

/* Prepares an evaluation in memory of that size, aligned to 64 bytes, which stays the caller's. */
enum mt_status mt_evaluation_place(struct mt_device *device, const struct mt_objective_config *config,
                                   const struct mt_router_config *router,
                                   const struct mt_evaluation_sizes *sizes, void *memory,
                                   struct mt_evaluation *evaluation);

/* Values. The first call fixes the scales of scale=once; later ones keep them. */
enum mt_status mt_evaluation_forward(struct mt_evaluation *evaluation,
                                     const struct mt_evaluation_inputs *inputs, double *total);

/* Gradients of the last forward, with the same inputs. */
enum mt_status mt_evaluation_backward(struct mt_evaluation *evaluation,
                                      const struct mt_evaluation_inputs *inputs,
                                      const struct mt_evaluation_gradients *gradients);

#endif
