/*
 * A small random layer in double, for tests of the objective: logits with clear gaps, expert outputs, router
 * weight, mask, sequences. Evaluated on ref through mt_evaluation, again and again with changed inputs.
 */
#ifndef MT_TESTS_OBJECTIVE_PROBLEM_H
#define MT_TESTS_OBJECTIVE_PROBLEM_H

#include "objective/evaluation.h"

#define PROBLEM_MOST_TOKENS  16
#define PROBLEM_MOST_EXPERTS 16
#define PROBLEM_MOST_WIDTH   16
#define PROBLEM_MOST_SLOTS   8
#define PROBLEM_MOST_OUTPUTS (PROBLEM_MOST_TOKENS * PROBLEM_MOST_SLOTS * PROBLEM_MOST_WIDTH)

struct problem_arrays {
    double logits[PROBLEM_MOST_TOKENS * PROBLEM_MOST_EXPERTS];
    double outputs[PROBLEM_MOST_OUTPUTS]; // [N·k,d]
    double router_weight[PROBLEM_MOST_EXPERTS * PROBLEM_MOST_WIDTH];
};

struct problem {
    struct mt_context ctx;
    struct mt_device *device;
    struct mt_objective_config config;
    struct mt_router_config router;
    int64_t tokens;
    int experts;
    int64_t width;
    int segments;
    bool masked, sequenced, biased;
    int32_t mask[PROBLEM_MOST_TOKENS];
    int32_t segment[PROBLEM_MOST_TOKENS];
    double bias[PROBLEM_MOST_EXPERTS];
    struct problem_arrays x;  // the point
    struct problem_arrays dx; // gradients of the last problem_backward
    void *memory;
    size_t memory_bytes;
    struct mt_evaluation evaluation;
};

/*
 * Draws the arrays. The caller sets sizes and flags first (zeroed struct otherwise), config and router too.
 * Fails the test on any error, as all functions here do.
 */
void problem_open(struct problem *problem, uint64_t seed);
void problem_close(struct problem *problem);

/* method by name, then "key=value key=value ..." */
void problem_configure(struct problem *problem, const char *method, const char *settings);

/* The inputs as tensors. */
struct mt_evaluation_inputs problem_inputs(struct problem *problem);

/* Starts over: a new evaluation that has decided nothing yet. */
void problem_begin(struct problem *problem);

/* The total at the point. */
double problem_forward(struct problem *problem);

/* Fills dx; after problem_forward. */
void problem_backward(struct problem *problem);

#endif
