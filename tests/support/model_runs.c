/* Small models at work. */
#include "support/model_runs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "model/params/stream.h"
#include "support/cmocka_all.h"

#define NO_GRADIENT 1e-5 // a norm below which rounding of the loss hides the gradient

int model_run_open(struct model_run *run, const struct workplace *place, const char *device, int threads,
                   const struct mt_model_options *options)
{
    struct mt_model_options sized = *options;
    if (sized.tokens == 0) sized.tokens = MODEL_RUN_TOKENS;
    if (sized.sequences == 0) sized.sequences = MODEL_RUN_SEQUENCES;
    if (sized.positions == 0) sized.positions = MODEL_RUN_TOKENS;
    *run = (struct model_run){0};
    mt_context_init(&run->ctx, NULL);
    enum mt_status status = mt_device_create(&run->ctx, device, threads, &run->device);
    if (status == MT_OK) status = mt_model_open(run->device, place->directory, &sized, &run->model);
    if (status == MT_OK) return 0;
    (void)fprintf(stderr, "cannot open: %s\n", run->ctx.message);
    mt_device_destroy(run->device);
    run->device = NULL;
    return -1;
}

void model_run_close(struct model_run *run)
{
    mt_model_close(run->model);
    mt_device_destroy(run->device);
}

void model_batch_fill(struct model_batch *batch, const int *lengths, int64_t vocabulary, uint64_t seed)
{
    int64_t tokens = 0;
    int64_t sequences = 0;
    memset(batch, 0, sizeof *batch);
    for (; *lengths != 0; lengths++) {
        for (int i = 0; i < *lengths; i++, tokens++) {
            batch->ids[tokens] =
                (int32_t)mt_rng_below(seed, (uint64_t)sequences, (uint64_t)i, (uint64_t)vocabulary);
            batch->labels[tokens] = -1;
            batch->mask[tokens] = 1;
            if (i > 0) batch->labels[tokens - 1] = batch->ids[tokens];
        }
        batch->offsets[++sequences] = (int32_t)tokens;
    }
    batch->batch = (struct mt_batch){.tokens = tokens,
                                     .sequences = sequences,
                                     .ids = batch->ids,
                                     .offsets = batch->offsets,
                                     .labels = batch->labels,
                                     .progress = 1.0};
}

double model_run_loss(struct model_run *run, const struct mt_batch *batch)
{
    struct mt_model_loss loss;
    if (mt_model_forward(run->model, batch, &loss) == MT_OK) return loss.task + loss.terms;
    (void)fprintf(stderr, "forward: %s\n", run->ctx.message);
    return (double)NAN;
}

int model_run_step(struct model_run *run, const struct mt_batch *batch, double *loss)
{
    enum mt_status status = mt_params_zero_gradients(mt_model_params(run->model));
    if (status != MT_OK) return -1;
    *loss = model_run_loss(run, batch);
    if (isnan(*loss)) return -1;
    status = mt_model_backward(run->model);
    if (status != MT_OK) (void)fprintf(stderr, "backward: %s\n", run->ctx.message);
    return status == MT_OK ? 0 : -1;
}

void model_run_draw_lora(struct model_run *run, uint64_t seed)
{
    const struct mt_params *params = mt_model_params(run->model);
    for (size_t i = 0; i < params->trained_count; i++) {
        const struct mt_param *param = &params->trained[i];
        if (strstr(param->name, ".lora_B.") == NULL) continue;
        float *values = param->value.data;
        uint64_t stream = mt_stream_of_name(param->name);
        for (int64_t j = 0; j < mt_tensor_count(&param->value); j++)
            values[j] = 0.2f * mt_rng_normal(seed, stream, (uint64_t)j);
    }
    assert_int_equal(mt_params_round(params), MT_OK);
}

/* Moves a parameter by `step` along its direction; the loss there, and the change really made, times `pull`.
 */
static double loss_moved(struct model_run *run, const struct mt_batch *batch, const struct mt_param *param,
                         const float *start, const float *pull, double step, double *change)
{
    float *values = param->value.data;
    uint64_t stream = mt_stream_of_name(param->name);
    *change = 0.0;
    for (int64_t j = 0; j < mt_tensor_count(&param->value); j++) {
        double direction = (double)mt_rng_normal(77, stream, (uint64_t)j);
        values[j] = (float)((double)start[j] + step * direction);
        *change += ((double)values[j] - (double)start[j]) * (double)pull[j];
    }
    double loss = model_run_loss(run, batch);
    memcpy(values, start, (size_t)mt_tensor_count(&param->value) * sizeof(float));
    return loss;
}

/* |measured - predicted| over the length of what could have been: its gradient's norm times the move's. */
static double check_param(struct model_run *run, const struct mt_batch *batch, const struct mt_param *param,
                          const float *pull, double step, double tolerance)
{
    int64_t count = mt_tensor_count(&param->value);
    float *start = malloc((size_t)count * sizeof(float));
    if (start == NULL) return (double)NAN;
    memcpy(start, param->value.data, (size_t)count * sizeof(float));
    double forth = 0.0;
    double back = 0.0;
    double norm = 0.0;
    double above = loss_moved(run, batch, param, start, pull, step, &forth);
    double below = loss_moved(run, batch, param, start, pull, -step, &back);
    for (int64_t j = 0; j < count; j++) norm += (double)pull[j] * (double)pull[j];
    free(start);
    double predicted = forth - back;
    double measured = above - below;
    double difference = fabs(measured - predicted) / (2.0 * step * (sqrt(norm) + NO_GRADIENT));
    if (!(difference <= tolerance)) {
        (void)fprintf(stderr, "%s: measured %.9g, predicted %.9g, norm %.3g, difference %.2g\n", param->name,
                      measured / (2.0 * step), predicted / (2.0 * step), sqrt(norm), difference);
    }
    return difference;
}

double model_run_check_gradients(struct model_run *run, const struct mt_batch *batch, size_t every,
                                 double step, double tolerance)
{
    const struct mt_params *params = mt_model_params(run->model);
    // Every forward adds to the head's gradient: what is compared is a copy.
    size_t bytes = params->gradients.bytes;
    char *copy = malloc(bytes > 0 ? bytes : 1);
    if (copy == NULL) return (double)NAN;
    if (bytes > 0) memcpy(copy, params->gradients.data, bytes);
    double worst = 0.0;
    for (size_t i = 0; i < params->trained_count; i += every) {
        const struct mt_param *param = &params->trained[i];
        size_t offset = (size_t)((char *)param->grad.data - (char *)params->gradients.data);
        double difference =
            check_param(run, batch, param, (const float *)(void *)(copy + offset), step, tolerance);
        if (!(difference <= worst)) worst = difference;
    }
    free(copy);
    return worst;
}

/* fmax in a loop fails in gcc 12 for aarch64. */
static double larger(double a, double b)
{
    return b > a ? b : a;
}

double gradients_apart(const float *expected, const float *got, size_t count)
{
    double largest = 0.0;
    double difference = 0.0;
    for (size_t i = 0; i < count; i++) {
        assert_true(isfinite(got[i]));
        largest = larger(largest, fabs((double)expected[i]));
        difference = larger(difference, fabs((double)expected[i] - (double)got[i]));
    }
    assert_true(largest > 0.0);
    return difference / largest;
}

double gradients_distance(const float *expected, const float *got, size_t count)
{
    double squares = 0.0;
    double between = 0.0;
    for (size_t i = 0; i < count; i++) {
        double difference = (double)got[i] - (double)expected[i];
        squares += (double)expected[i] * (double)expected[i];
        between += difference * difference;
    }
    return sqrt(between / squares);
}

void model_outcome_take(const struct model_run *run, struct model_outcome *outcome)
{
    const struct mt_buffer *gradients = &mt_model_params(run->model)->gradients;
    outcome->count = gradients->bytes / sizeof(float);
    outcome->gradients = malloc(gradients->bytes);
    assert_non_null(outcome->gradients);
    memcpy(outcome->gradients, gradients->data, gradients->bytes);
}

double model_outcomes_apart(const struct model_outcome *expected, const struct model_outcome *got)
{
    assert_int_equal(expected->count, got->count);
    return gradients_distance(expected->gradients, got->gradients, expected->count);
}
