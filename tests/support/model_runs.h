/*
 * Running small models in tests: open one from a workplace, give it a batch of packed sequences, collect
 * losses and gradients. Failures are returned, with the message printed.
 */
#ifndef MT_TESTS_MODEL_RUNS_H
#define MT_TESTS_MODEL_RUNS_H

#include "model/model.h"
#include "support/workplace.h"

struct model_run {
    struct mt_context ctx;
    struct mt_device *device;
    struct mt_model *model;
};

/* Sizes every test's batches fit in. */
#define MODEL_RUN_TOKENS    24
#define MODEL_RUN_SEQUENCES 4

/* Opens the workplace's model; zero sizes in options become those above. Returns 0 on success. */
int model_run_open(struct model_run *run, const struct workplace *place, const char *device, int threads,
                   const struct mt_model_options *options);
void model_run_close(struct model_run *run);

/* A batch that owns its arrays. */
struct model_batch {
    struct mt_batch batch;
    int32_t ids[MODEL_RUN_TOKENS];
    int32_t labels[MODEL_RUN_TOKENS];
    int32_t mask[MODEL_RUN_TOKENS];
    int32_t offsets[MODEL_RUN_SEQUENCES + 1];
};

/* Sequences of the given lengths (ends with 0), ids drawn from the seed; labels are the next ids. */
void model_batch_fill(struct model_batch *batch, const int *lengths, int64_t vocabulary, uint64_t seed);

/* All gradients 0, forward, backward. Returns 0 on success; the total loss goes to *loss. */
int model_run_step(struct model_run *run, const struct mt_batch *batch, double *loss);

/* Draws LoRA's B, so that nothing is zero. */
void model_run_draw_lora(struct model_run *run, uint64_t seed);

/* Total loss of a forward alone, NaN when it fails. */
double model_run_loss(struct model_run *run, const struct mt_batch *batch);

/*
 * Compares gradients of the last step with finite differences of the total loss: every so-manyth trained
 * tensor is moved along a random direction, forth and back. Returns the worst relative difference, and prints
 * those above `tolerance`.
 */
double model_run_check_gradients(struct model_run *run, const struct mt_batch *batch, size_t every,
                                 double step, double tolerance);

/* The largest difference of two lists of gradients over the largest one expected, which must not be 0. */
double gradients_apart(const float *expected, const float *got, size_t count);

/* |got - expected| / |expected|, norms over all of them. */
double gradients_distance(const float *expected, const float *got, size_t count);

/* A step's loss and gradients. */
struct model_outcome {
    double loss;
    size_t count;
    float *gradients; // freed by the test
};

/* Copies the gradients of the last step; the loss is the caller's to set. */
void model_outcome_take(const struct model_run *run, struct model_outcome *outcome);

/* gradients_distance of the two. */
double model_outcomes_apart(const struct model_outcome *expected, const struct model_outcome *got);

#endif
