/*
 * What must change nothing, bit for bit: recomputation, the number of threads, the size a model was opened
 * for. And what a step must not do: allocate. Tests src/model/transformer.c.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "support/every_allocation.h"
#include "support/model_runs.h"
#include "support/small_models.h"

static const char *const everything[] = {"*", NULL};
static const char *const norms[] = {"norms", NULL};

/* Gradients and losses of one step. */
struct outcome {
    double loss;
    size_t bytes;
    unsigned char *gradients; // freed by the test
};

struct setting {
    enum mt_recompute recompute;
    int threads;
    int64_t tokens; // opened for; 0: the usual
    const char *device;
    const char *method; // NULL: metier
};

/* LoRA with dropout on every linear layer, norms in full, the terms of a method, as in training. */
static struct outcome run_step(const struct workplace *place, const struct setting *setting, bool lora)
{
    struct model_run run;
    struct model_batch batch;
    struct outcome outcome;
    struct mt_context ctx;
    struct mt_objective_config method;
    mt_context_init(&ctx, NULL);
    const char *name = setting->method != NULL ? setting->method : "metier";
    assert_int_equal(mt_objective_config_method(&ctx, name, &method), MT_OK);
    assert_int_equal(mt_objective_config_set(&ctx, &method, "zeta", "1e-3"), MT_OK);
    struct mt_model_options options = {
        .backward = true, .recompute = setting->recompute, .objective = &method, .tokens = setting->tokens};
    options.selection = (struct mt_train_selection){
        .full = lora ? norms : everything,
        .lora = lora ? everything : NULL,
        .lora_rank = 4,
        .lora_alpha = 8.0,
        .lora_dropout = 0.2,
        .seed = 5,
    };
    const char *device = setting->device != NULL ? setting->device : "cpu";
    assert_int_equal(model_run_open(&run, place, device, setting->threads, &options), 0);
    model_run_draw_lora(&run, 9);
    model_batch_fill(&batch, (const int[]){9, 1, 7, 0}, mt_model_description(run.model)->vocabulary, 21);
    batch.batch.training = true;
    batch.batch.step = 3;
    assert_int_equal(model_run_step(&run, &batch.batch, &outcome.loss), 0);
    // A second step, from the first one's memory, must give the same.
    assert_int_equal(model_run_step(&run, &batch.batch, &outcome.loss), 0);
    const struct mt_params *params = mt_model_params(run.model);
    outcome.bytes = params->gradients.bytes;
    outcome.gradients = malloc(outcome.bytes);
    assert_non_null(outcome.gradients);
    memcpy(outcome.gradients, params->gradients.data, outcome.bytes);
    model_run_close(&run);
    assert_int_equal(run.ctx.live_bytes, 0);
    return outcome;
}

static void expect_same(struct outcome *expected, struct outcome *got)
{
    assert_true(expected->loss == got->loss);
    assert_int_equal(expected->bytes, got->bytes);
    assert_memory_equal(expected->gradients, got->gradients, got->bytes);
    free(got->gradients);
}

static void check_model(void **state, const struct mt_arch *model, enum mt_hf_float dtype)
{
    const struct workplace *place = *state;
    assert_int_equal(small_model_make(place, small_model_config(model), dtype, 11), 0);
    for (int lora = 0; lora < 2; lora++) {
        struct outcome expected = run_step(place, &(struct setting){.threads = 1}, lora == 1);
        const struct setting settings[] = {
            {.recompute = MT_RECOMPUTE_MOE, .threads = 1},
            {.recompute = MT_RECOMPUTE_FULL, .threads = 1},
            {.recompute = MT_RECOMPUTE_NONE, .threads = 2},
            {.recompute = MT_RECOMPUTE_FULL, .threads = 4},
            {.recompute = MT_RECOMPUTE_MOE, .threads = 3, .tokens = 17},
        };
        for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
            struct outcome got = run_step(place, &settings[i], lora == 1);
            expect_same(&expected, &got);
        }
        free(expected.gradients);
    }
}

static void test_deepseek(void **state)
{
    check_model(state, &mt_arch_deepseek, MT_HF_BFLOAT16);
}

static void test_deepseek_v2(void **state)
{
    check_model(state, &mt_arch_deepseek_v2, MT_HF_FLOAT32);
}

static void test_deepseek_v3(void **state)
{
    check_model(state, &mt_arch_deepseek_v3, MT_HF_BFLOAT16);
}

static void test_mixtral(void **state)
{
    check_model(state, &mt_arch_mixtral, MT_HF_FLOAT16);
}

static void test_phimoe(void **state)
{
    check_model(state, &mt_arch_phimoe, MT_HF_BFLOAT16);
}

static void test_olmoe(void **state)
{
    check_model(state, &mt_arch_olmoe, MT_HF_FLOAT32);
}

static void test_qwen3(void **state)
{
    check_model(state, &mt_arch_qwen3_moe, MT_HF_BFLOAT16);
}

static void test_glm4(void **state)
{
    check_model(state, &mt_arch_glm4_moe_lite, MT_HF_BFLOAT16);
}

static void test_qwen2(void **state)
{
    check_model(state, &mt_arch_qwen2_moe, MT_HF_BFLOAT16);
}

/* cpu and ref agree to what f32 arithmetic can do. */
static void test_devices_agree(void **state)
{
    const struct workplace *place = *state;
    assert_int_equal(small_model_make(place, small_model_config(&mt_arch_deepseek_v3), MT_HF_BFLOAT16, 11),
                     0);
    struct outcome cpu = run_step(place, &(struct setting){.threads = 2}, true);
    struct outcome ref = run_step(place, &(struct setting){.threads = 1, .device = "ref"}, true);
    assert_true(fabs(cpu.loss - ref.loss) < 1e-5);
    const float *a = (const float *)(const void *)cpu.gradients;
    const float *b = (const float *)(const void *)ref.gradients;
    assert_true(gradients_apart(b, a, cpu.bytes / sizeof(float)) < 1e-5);
    free(cpu.gradients);
    free(ref.gradients);
}

/* What is drawn for sequences is drawn again when a layer is. */
static void test_pool(void **state)
{
    const struct workplace *place = *state;
    assert_int_equal(small_model_make(place, small_model_config(&mt_arch_qwen3_moe), MT_HF_BFLOAT16, 11), 0);
    struct outcome expected = run_step(place, &(struct setting){.threads = 1, .method = "pool"}, true);
    for (int mode = MT_RECOMPUTE_MOE; mode <= MT_RECOMPUTE_FULL; mode++) {
        const struct setting setting = {
            .recompute = (enum mt_recompute)mode, .threads = mode, .tokens = 17, .method = "pool"};
        struct outcome got = run_step(place, &setting, true);
        expect_same(&expected, &got);
    }
    struct outcome plain = run_step(place, &(struct setting){.threads = 1, .method = "global-batch"}, true);
    assert_true(plain.loss != expected.loss); // the pools were small enough to matter
    free(plain.gradients);
    free(expected.gradients);
}

/* After opening, a smaller batch, another one, forward and backward: nothing is allocated. */
static void test_no_allocation(void **state)
{
    const struct workplace *place = *state;
    struct model_run run;
    struct model_batch batch;
    double loss = 0.0;
    struct mt_model_options options = {.backward = true, .selection = {.full = everything}};
    assert_int_equal(small_model_make(place, small_model_config(&mt_arch_deepseek), MT_HF_BFLOAT16, 11), 0);
    assert_int_equal(model_run_open(&run, place, "cpu", 2, &options), 0);
    mt_context_forbid_allocation(&run.ctx, "a step");
    const int lengths[][5] = {{24, 0}, {5, 3, 0}, {6, 6, 6, 6, 0}, {1, 2, 0}};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        model_batch_fill(&batch, lengths[i], mt_model_description(run.model)->vocabulary, i);
        assert_int_equal(model_run_step(&run, &batch.batch, &loss), 0);
        assert_true(isfinite(loss));
    }
    mt_context_forbid_allocation(&run.ctx, NULL);
    model_run_close(&run);
}

/* Recomputation is for memory: it must save some. */
static void test_memory(void **state)
{
    const struct workplace *place = *state;
    size_t bytes[3];
    assert_int_equal(small_model_make(place, small_model_config(&mt_arch_qwen3_moe), MT_HF_BFLOAT16, 11), 0);
    for (int mode = 0; mode < 3; mode++) {
        struct model_run run;
        struct mt_model_options options = {
            .backward = true, .recompute = (enum mt_recompute)mode, .selection = {.full = everything}};
        assert_int_equal(model_run_open(&run, place, "cpu", 1, &options), 0);
        struct mt_model_bytes used = mt_model_bytes(run.model);
        bytes[mode] = used.activations;
        assert_true(used.masters > 0 && used.gradients > 0 && used.work > 0);
        model_run_close(&run);
    }
    assert_true(bytes[MT_RECOMPUTE_MOE] < bytes[MT_RECOMPUTE_NONE]);
    assert_true(bytes[MT_RECOMPUTE_FULL] < bytes[MT_RECOMPUTE_MOE]);
}

static enum mt_status open_and_close(struct mt_context *ctx, const void *self)
{
    const struct workplace *place = self;
    struct mt_device *device = NULL;
    struct mt_model *model = NULL;
    struct mt_objective_config method;
    struct mt_model_options options = {.tokens = 8,
                                       .sequences = 2,
                                       .positions = 8,
                                       .backward = true,
                                       .objective = &method,
                                       .selection = {.full = everything}};
    enum mt_status status = mt_objective_config_method(ctx, "loss-free", &method);
    if (status == MT_OK) status = mt_device_create(ctx, "cpu", 1, &device);
    if (status == MT_OK) status = mt_model_open(device, place->directory, &options, &model);
    mt_model_close(model);
    mt_device_destroy(device);
    return status;
}

static void test_failing_allocations(void **state)
{
    const struct workplace *place = *state;
    assert_int_equal(small_model_make(place, small_model_config(&mt_arch_mixtral), MT_HF_BFLOAT16, 11), 0);
    assert_every_allocation_may_fail(open_and_close, place, 11);
}

#define IN_WORKPLACE(test) cmocka_unit_test_setup_teardown(test, workplace_open, workplace_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORKPLACE(test_deepseek),    IN_WORKPLACE(test_deepseek_v2),
        IN_WORKPLACE(test_deepseek_v3), IN_WORKPLACE(test_mixtral),
        IN_WORKPLACE(test_phimoe),      IN_WORKPLACE(test_olmoe),
        IN_WORKPLACE(test_qwen3),       IN_WORKPLACE(test_qwen2),
        IN_WORKPLACE(test_glm4),        IN_WORKPLACE(test_devices_agree),
        IN_WORKPLACE(test_pool),        IN_WORKPLACE(test_no_allocation),
        IN_WORKPLACE(test_memory),      IN_WORKPLACE(test_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
