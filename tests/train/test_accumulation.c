/*
 * A step in one batch and in four: the gradients of L_h are the same to rounding, and those of the terms are
 * the mean of the micro-batches' own, weighted by tokens. Tests src/train/step.c.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "support/model_runs.h"
#include "support/small_models.h"

enum { PARTS = 4, TOKENS = 21, LABELS = TOKENS - PARTS };

static const int lengths[PARTS + 1] = {5, 7, 3, 6, 0};
static const char *const everything[] = {"*", NULL};

static void open_with(struct model_run *run, const struct workplace *place,
                      struct mt_objective_config *method, const char *name, const char *scale)
{
    const struct mt_arch *model = &mt_arch_deepseek_v2;
    struct mt_model_options options = {.backward = true, .selection = {.full = everything}};
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    if (name != NULL) {
        assert_int_equal(mt_objective_config_method(&ctx, name, method), MT_OK);
        assert_int_equal(mt_objective_config_set(&ctx, method, "scale", scale), MT_OK);
        options.objective = method;
        if (method->pool) model = &mt_arch_qwen3_moe; // without groups of experts
    }
    assert_int_equal(small_model_make(place, small_model_config(model), MT_HF_FLOAT32, 11), 0);
    assert_int_equal(model_run_open(run, place, "cpu", 1, &options), 0);
}

/* Sequence `part` of the batch, as a batch of its own. */
static struct mt_batch part_of(const struct mt_batch *batch, int part, int32_t offsets[2])
{
    struct mt_batch alone = *batch;
    int32_t first = batch->offsets[part];
    offsets[0] = 0;
    offsets[1] = batch->offsets[part + 1] - first;
    alone.ids += first;
    if (alone.labels != NULL) alone.labels += first;
    alone.offsets = offsets;
    alone.sequences = 1;
    alone.tokens = offsets[1];
    return alone;
}

static float *copy_gradients(const struct model_run *run)
{
    const struct mt_buffer *gradients = &mt_model_params(run->model)->gradients;
    float *copy = malloc(gradients->bytes);
    assert_non_null(copy);
    memcpy(copy, gradients->data, gradients->bytes);
    return copy;
}

/* The largest difference over the largest gradient. */
static double difference(const struct model_run *run, const float *expected)
{
    const struct mt_buffer *gradients = &mt_model_params(run->model)->gradients;
    return gradients_apart(expected, gradients->data, gradients->bytes / sizeof(float));
}

static void add_part(struct model_run *run, const struct mt_batch *whole, int part,
                     struct mt_model_loss *loss)
{
    int32_t offsets[2];
    struct mt_batch batch = part_of(whole, part, offsets);
    assert_int_equal(mt_model_forward(run->model, &batch, loss), MT_OK);
    assert_int_equal(mt_model_backward(run->model), MT_OK);
}

static void task_is_the_mean_over_the_steps_labels(void **state)
{
    struct model_run run;
    struct model_batch batch;
    double whole = 0.0;
    double sum = 0.0;
    open_with(&run, *state, NULL, NULL, NULL);
    model_batch_fill(&batch, lengths, 53, 3);
    batch.labels[1] = -1; // answers are not spread evenly
    batch.labels[6] = -1;
    assert_int_equal(model_run_step(&run, &batch.batch, &whole), 0);
    float *once = copy_gradients(&run);
    assert_int_equal(mt_params_zero_gradients(mt_model_params(run.model)), MT_OK);
    batch.batch.step_labels = LABELS - 2;
    batch.batch.step_tokens = TOKENS;
    for (int part = 0; part < PARTS; part++) {
        struct mt_model_loss loss;
        add_part(&run, &batch.batch, part, &loss);
        sum += loss.task * (double)loss.labels / (LABELS - 2);
    }
    assert_true(fabs(sum - whole) < 1e-6 * whole);
    assert_true(difference(&run, once) < 2e-6);
    free(once);
    model_run_close(&run);
}

/* scale=none: the weights are the coefficients whatever came before, so that parts can be compared. */
static void terms_are_means_weighted_by_tokens(void **state)
{
    struct model_run run;
    struct model_batch batch;
    struct mt_objective_config method;
    struct mt_model_loss loss;
    open_with(&run, *state, &method, "metier", "none");
    struct mt_params *params = mt_model_params(run.model);
    size_t count = params->gradients.bytes / sizeof(float);
    model_batch_fill(&batch, lengths, 53, 3);
    batch.batch.labels = NULL; // the terms alone
    float *mean = calloc(count, sizeof(float));
    assert_non_null(mean);
    for (int part = 0; part < PARTS; part++) {
        assert_int_equal(mt_params_zero_gradients(params), MT_OK);
        add_part(&run, &batch.batch, part, &loss);
        const float *own = params->gradients.data;
        for (size_t i = 0; i < count; i++) mean[i] += own[i] * (float)lengths[part] / (float)TOKENS;
    }
    assert_int_equal(mt_params_zero_gradients(params), MT_OK);
    batch.batch.step_tokens = TOKENS;
    for (int part = 0; part < PARTS; part++) add_part(&run, &batch.batch, part, &loss);
    assert_true(difference(&run, mean) < 2e-6);
    free(mean);
    model_run_close(&run);
}

/* aux=global: micro-batches of a step have the gradients of aux=batch on the whole. */
static void loads_of_the_whole_step(void **state)
{
    struct model_run run;
    struct model_batch batch;
    struct mt_objective_config method;
    struct mt_model_loss loss;
    model_batch_fill(&batch, lengths, 53, 3);
    batch.batch.labels = NULL; // the terms alone
    open_with(&run, *state, &method, "aux", "none");
    assert_int_equal(mt_model_forward(run.model, &batch.batch, &loss), MT_OK);
    double value = loss.terms;
    assert_int_equal(mt_model_backward(run.model), MT_OK);
    float *once = copy_gradients(&run);
    assert_int_equal(mt_params_zero_gradients(mt_model_params(run.model)), MT_OK);
    batch.batch.step_tokens = TOKENS;
    for (int part = 0; part < PARTS; part++) add_part(&run, &batch.batch, part, &loss);
    assert_true(difference(&run, once) > 1e-2); // each micro-batch balanced by itself is something else
    assert_int_equal(mt_model_set_objective(run.model, NULL), MT_OK);
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_objective_config_method(&ctx, "global-batch", &method), MT_OK);
    assert_int_equal(mt_model_set_objective(run.model, &method), MT_OK);
    struct mt_objective *objective = mt_model_objective(run.model);
    mt_objective_count_begin(objective);
    for (int part = 0; part < PARTS; part++) {
        int32_t offsets[2];
        struct mt_batch alone = part_of(&batch.batch, part, offsets);
        assert_int_equal(mt_model_forward(run.model, &alone, &loss), MT_OK);
        assert_true(loss.terms == 0.0);
    }
    mt_objective_count_end(objective);
    assert_int_equal(mt_params_zero_gradients(mt_model_params(run.model)), MT_OK);
    double sum = 0.0;
    for (int part = 0; part < PARTS; part++) {
        add_part(&run, &batch.batch, part, &loss);
        sum += loss.terms * lengths[part] / TOKENS;
    }
    assert_true(fabs(sum - value) < 1e-6 * value);
    assert_true(difference(&run, once) < 2e-6);
    // Nothing counted: a micro-batch is the step.
    mt_objective_count_begin(objective);
    mt_objective_count_end(objective);
    batch.batch.step_tokens = 0;
    assert_int_equal(mt_params_zero_gradients(mt_model_params(run.model)), MT_OK);
    assert_int_equal(mt_model_forward(run.model, &batch.batch, &loss), MT_OK);
    assert_true(loss.terms == value);
    assert_int_equal(mt_model_backward(run.model), MT_OK);
    assert_true(difference(&run, once) == 0.0);
    free(once);
    model_run_close(&run);
}

/* Every sequence of a step in its own micro-batch. Counting first, as the trainer does. */
static void add_parts(struct model_run *run, const struct mt_batch *whole, uint64_t apart)
{
    struct mt_objective *objective = mt_model_objective(run->model);
    struct mt_model_loss loss;
    assert_int_equal(mt_params_zero_gradients(mt_model_params(run->model)), MT_OK);
    mt_objective_count_begin(objective);
    for (int pass = 0; pass < 2; pass++) {
        for (int part = 0; part < PARTS; part++) {
            int32_t offsets[2];
            struct mt_batch batch = part_of(whole, part, offsets);
            batch.step = whole->step + (uint64_t)part;
            batch.first_sequence = (uint64_t)part + apart;
            batch.step_labels = LABELS;
            batch.step_tokens = TOKENS;
            assert_int_equal(mt_model_forward(run->model, &batch, &loss), MT_OK);
            if (pass == 1) assert_int_equal(mt_model_backward(run->model), MT_OK);
        }
        if (pass == 0) mt_objective_count_end(objective);
        if (pass == 0) assert_int_equal(mt_params_zero_gradients(mt_model_params(run->model)), MT_OK);
    }
}

/* Pools are drawn by a sequence's number in the step: its micro-batches have the gradients of the whole. */
static void pools_of_the_whole_step(void **state)
{
    struct model_run run;
    struct model_batch batch;
    struct mt_objective_config method;
    double loss = 0.0;
    model_batch_fill(&batch, lengths, 53, 3);
    open_with(&run, *state, &method, "pool", "none");
    batch.batch.step = 700;
    assert_int_equal(model_run_step(&run, &batch.batch, &loss), 0);
    float *plain = copy_gradients(&run);
    batch.batch.training = true;
    batch.batch.whole_step = 7;
    assert_int_equal(model_run_step(&run, &batch.batch, &loss), 0);
    assert_true(difference(&run, plain) > 1e-2);
    float *once = copy_gradients(&run);
    add_parts(&run, &batch.batch, 0);
    assert_true(difference(&run, once) < 2e-6);
    add_parts(&run, &batch.batch, 1); // other numbers, other pools
    assert_true(difference(&run, once) > 1e-2);
    free(plain);
    free(once);
    model_run_close(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(task_is_the_mean_over_the_steps_labels, workplace_open,
                                        workplace_close),
        cmocka_unit_test_setup_teardown(terms_are_means_weighted_by_tokens, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(loads_of_the_whole_step, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(pools_of_the_whole_step, workplace_open, workplace_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
