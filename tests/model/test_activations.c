/*
 * Activations in bf16: losses and gradients stay near those of f32, recomputation changes no bit, and what is
 * neither is refused. What they do to memory: test_bf16.c. Tests src/model/layers.
 */
#include <math.h>
#include <stdlib.h>

#include "support/cmocka_all.h"
#include "support/model_runs.h"
#include "support/small_models.h"

static const char *const everything[] = {"*", NULL};

/* LoRA on every linear layer, the paper's terms. */
static struct model_outcome run_step(const struct workplace *place, enum mt_dtype activations,
                                     enum mt_recompute recompute, uint64_t step)
{
    struct model_run run;
    struct model_batch batch;
    struct model_outcome outcome = {0};
    struct mt_context ctx;
    struct mt_objective_config method;
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_objective_config_method(&ctx, "paper", &method), MT_OK);
    struct mt_model_options options = {
        .backward = true,
        .recompute = recompute,
        .objective = &method,
        .activations = activations,
        .selection = {.lora = everything, .lora_rank = 4, .lora_alpha = 8.0, .lora_dropout = 0.2, .seed = 5}};
    assert_int_equal(model_run_open(&run, place, "cpu", 1, &options), 0);
    model_run_draw_lora(&run, 9);
    model_batch_fill(&batch, (const int[]){9, 1, 7, 0}, mt_model_description(run.model)->vocabulary, 21);
    batch.batch.training = true; // dropout: drawn again in backward
    batch.batch.step = step;
    assert_int_equal(model_run_step(&run, &batch.batch, &outcome.loss), 0);
    model_outcome_take(&run, &outcome);
    model_run_close(&run);
    return outcome;
}

#define STEPS 8

/*
 * Rounding to 8 bits moves a gradient by some 0.2 % a time, and there are tens of roundings on its way; in
 * models as narrow as these, with large LoRA pairs, that makes some percent. Where a token's experts are
 * nearly as good as others, rounding exchanges them, which moves gradients much further: of a few steps,
 * which draw differently, the calmest counts.
 */
static void check_model(void **state, const struct mt_arch *model)
{
    const struct workplace *place = *state;
    assert_int_equal(small_model_make(place, small_model_config(model), MT_HF_BFLOAT16, 1), 0);
    struct model_outcome exact = {0};
    struct model_outcome narrow = {0};
    double difference = HUGE_VAL;
    uint64_t calmest = 0;
    for (uint64_t step = 1; step <= STEPS; step++) {
        struct model_outcome f32 = run_step(place, MT_F32, MT_RECOMPUTE_NONE, step);
        struct model_outcome bf16 = run_step(place, MT_BF16, MT_RECOMPUTE_NONE, step);
        bool calmer = model_outcomes_apart(&f32, &bf16) < difference;
        free(calmer ? exact.gradients : f32.gradients);
        free(calmer ? narrow.gradients : bf16.gradients);
        if (!calmer) continue;
        exact = f32;
        narrow = bf16;
        difference = model_outcomes_apart(&exact, &narrow);
        calmest = step;
    }
    struct model_outcome again = run_step(place, MT_BF16, MT_RECOMPUTE_FULL, calmest);
    assert_true(difference > 0.0 && difference < 0.1);
    assert_true(fabs(exact.loss - narrow.loss) < 5e-3 * fabs(exact.loss));
    assert_true(narrow.loss == again.loss);
    assert_memory_equal(narrow.gradients, again.gradients, narrow.count * sizeof(float));
    free(exact.gradients);
    free(narrow.gradients);
    free(again.gradients);
}

static void test_latent(void **state)
{
    check_model(state, &mt_arch_deepseek_v2);
}

static void test_grouped(void **state)
{
    check_model(state, &mt_arch_qwen3_moe);
}

static void test_layernorm(void **state)
{
    check_model(state, &mt_arch_phimoe);
}

static void test_refused(void **state)
{
    const struct workplace *place = *state;
    struct mt_context ctx;
    struct mt_device *device = NULL;
    struct mt_model *model = NULL;
    struct mt_model_options options = {.tokens = 4, .sequences = 1, .positions = 4, .activations = MT_F16};
    assert_int_equal(small_model_make(place, small_model_config(&mt_arch_mixtral), MT_HF_BFLOAT16, 11), 0);
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_device_create(&ctx, "cpu", 1, &device), MT_OK);
    assert_int_equal(mt_device_activations(device), MT_F32);
    assert_int_equal(mt_model_open(device, place->directory, &options, &model), MT_ERR_USAGE);
    assert_string_equal(ctx.message, "activations in f16: expected f32, bf16 or f64");
    mt_device_destroy(device);
}

#define IN_WORKPLACE(test) cmocka_unit_test_setup_teardown(test, workplace_open, workplace_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORKPLACE(test_latent),
        IN_WORKPLACE(test_grouped),
        IN_WORKPLACE(test_layernorm),
        IN_WORKPLACE(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
