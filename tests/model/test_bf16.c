/*
 * Activations in bf16: gradients stay near those of f32, recomputation changes no bit, and what is kept takes
 * little more than half the memory. Tests src/model/layers.
 */
#include <stdio.h>
#include <stdlib.h>

#include "support/cmocka_all.h"
#include "support/model_runs.h"
#include "support/small_models.h"

static const char *const everything[] = {"*", NULL};

// Every expert is chosen, so that no token can go elsewhere; embeddings are small, as trained ones are.
#define GROUPED                                                                                              \
    "{\"model_type\": \"mixtral\", \"hidden_size\": 64, \"intermediate_size\": 96,"                          \
    " \"max_position_embeddings\": 64, \"num_attention_heads\": 4, \"num_key_value_heads\": 2,"              \
    " \"num_hidden_layers\": %d, \"num_local_experts\": 4, \"num_experts_per_tok\": 4,"                      \
    " \"rms_norm_eps\": 1e-05, \"rope_theta\": 10000.0, \"vocab_size\": 128, \"initializer_range\": 0.1}"
#define LATENT                                                                                               \
    "{\"model_type\": \"deepseek_v2\", \"hidden_size\": 64, \"intermediate_size\": 160,"                     \
    " \"moe_intermediate_size\": 48, \"num_hidden_layers\": %d, \"first_k_dense_replace\": 1,"               \
    " \"num_attention_heads\": 4, \"num_key_value_heads\": 4, \"n_routed_experts\": 4,"                      \
    " \"n_shared_experts\": 2, \"num_experts_per_tok\": 4, \"kv_lora_rank\": 32, \"q_lora_rank\": null,"     \
    " \"qk_nope_head_dim\": 16, \"qk_rope_head_dim\": 8, \"v_head_dim\": 16,"                                \
    " \"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-06, \"rope_theta\": 10000.0,"                    \
    " \"topk_method\": \"greedy\", \"norm_topk_prob\": false, \"routed_scaling_factor\": 1.0,"               \
    " \"vocab_size\": 128, \"initializer_range\": 0.1}"

struct setting {
    enum mt_dtype activations;
    enum mt_recompute recompute;
    int64_t tokens; // opened for; 0: the usual
    bool lora;      // on every map, with dropout; else everything learns
};

static struct model_outcome run_step(const struct workplace *place, const struct setting *setting)
{
    struct model_run run;
    struct model_batch batch;
    struct model_outcome outcome = {0};
    struct mt_context ctx;
    struct mt_objective_config method;
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_objective_config_method(&ctx, "paper", &method), MT_OK);
    struct mt_model_options options = {.backward = true,
                                       .recompute = setting->recompute,
                                       .objective = setting->lora ? &method : NULL,
                                       .activations = setting->activations,
                                       .tokens = setting->tokens};
    options.selection.seed = 5;
    if (setting->lora) {
        options.selection.lora = everything;
        options.selection.lora_rank = 4;
        options.selection.lora_alpha = 8.0;
        options.selection.lora_dropout = 0.2;
    } else {
        options.selection.full = everything;
    }
    assert_int_equal(model_run_open(&run, place, "cpu", 1, &options), 0);
    if (setting->lora) model_run_draw_lora(&run, 9);
    model_batch_fill(&batch, (const int[]){9, 1, 7, 0}, mt_model_description(run.model)->vocabulary, 21);
    batch.batch.training = true;
    batch.batch.step = 3;
    // A second step, from the first one's memory, must give the same.
    for (int i = 0; i < 2; i++) assert_int_equal(model_run_step(&run, &batch.batch, &outcome.loss), 0);
    model_outcome_take(&run, &outcome);
    model_run_close(&run);
    assert_int_equal(run.ctx.live_bytes, 0);
    return outcome;
}

static void make_model(const struct workplace *place, const char *format, int layers)
{
    char config[1024];
    (void)snprintf(config, sizeof config, format, layers); // NOLINT(clang-diagnostic-format-nonliteral)
    assert_int_equal(small_model_make(place, config, MT_HF_BFLOAT16, 3), 0);
}

static double error_of(const char *format, int layers)
{
    void *state = NULL;
    assert_int_equal(workplace_open(&state), 0);
    const struct workplace *place = state;
    make_model(place, format, layers);
    struct model_outcome exact = run_step(place, &(struct setting){.activations = MT_F32});
    struct model_outcome narrow = run_step(place, &(struct setting){.activations = MT_BF16});
    double error = model_outcomes_apart(&exact, &narrow);
    free(exact.gradients);
    free(narrow.gradients);
    assert_int_equal(workplace_close(&state), 0);
    return error;
}

/* A tenth above what rounding to 8 bits does to these models; an error would do far more. */
static void test_near_f32(void **state)
{
    (void)state;
    assert_true(error_of(GROUPED, 1) < 0.0070);
    assert_true(error_of(GROUPED, 2) < 0.0101);
    assert_true(error_of(GROUPED, 4) < 0.0115);
    assert_true(error_of(LATENT, 1) < 0.0092);
    assert_true(error_of(LATENT, 2) < 0.0116);
    assert_true(error_of(LATENT, 4) < 0.0140);
}

static void expect_same_bits(const struct workplace *place, bool lora)
{
    struct setting setting = {.activations = MT_BF16, .lora = lora};
    struct model_outcome expected = run_step(place, &setting);
    for (int i = 0; i < 2; i++) {
        setting.recompute = i == 0 ? MT_RECOMPUTE_MOE : MT_RECOMPUTE_FULL;
        setting.tokens = 17;
        struct model_outcome got = run_step(place, &setting);
        assert_true(expected.loss == got.loss);
        assert_int_equal(expected.count, got.count);
        assert_memory_equal(expected.gradients, got.gradients, got.count * sizeof(float));
        free(got.gradients);
    }
    free(expected.gradients);
}

/* Every kind of layer: dense ones before and between others, jitter, LayerNorm, clipping, compressed queries.
 */
static void test_recompute(void **unused)
{
    (void)unused;
    const struct mt_arch *const models[] = {&mt_arch_deepseek,      &mt_arch_deepseek_v2, &mt_arch_mixtral,
                                            &mt_arch_phimoe,        &mt_arch_olmoe,       &mt_arch_qwen3_moe,
                                            &mt_arch_glm4_moe_lite, &mt_arch_qwen2_moe};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        void *state = NULL;
        assert_int_equal(workplace_open(&state), 0);
        assert_int_equal(small_model_make(state, small_model_config(models[i]), MT_HF_BFLOAT16, 11), 0);
        expect_same_bits(state, true);
        assert_int_equal(workplace_close(&state), 0);
    }
}

static void test_recompute_deep(void **state)
{
    const struct workplace *place = *state;
    make_model(place, GROUPED, 6);
    expect_same_bits(place, false);
}

static size_t kept_bytes(const struct workplace *place, enum mt_dtype activations,
                         enum mt_recompute recompute)
{
    struct model_run run;
    struct mt_model_options options = {.backward = true,
                                       .recompute = recompute,
                                       .activations = activations,
                                       .selection = {.full = everything}};
    assert_int_equal(model_run_open(&run, place, "cpu", 1, &options), 0);
    size_t bytes = mt_model_bytes(run.model).activations;
    model_run_close(&run);
    return bytes;
}

static void test_memory(void **state)
{
    const struct workplace *place = *state;
    make_model(place, LATENT, 12);
    size_t wide = kept_bytes(place, MT_F32, MT_RECOMPUTE_NONE);
    size_t narrow = kept_bytes(place, MT_BF16, MT_RECOMPUTE_NONE);
    size_t full = kept_bytes(place, MT_BF16, MT_RECOMPUTE_FULL);
    assert_true((double)narrow < 0.6 * (double)wide); // routing records stay f32
    assert_true((double)full < 0.5 * (double)narrow);
    // What is opened for forward alone has no gradients.
    struct model_run run;
    struct mt_model_options forward = {.selection = {.full = everything}};
    assert_int_equal(model_run_open(&run, place, "cpu", 1, &forward), 0);
    assert_true(mt_model_bytes(run.model).masters > 0);
    assert_int_equal(mt_model_bytes(run.model).gradients, 0);
    model_run_close(&run);
}

#define IN_WORKPLACE(test) cmocka_unit_test_setup_teardown(test, workplace_open, workplace_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_near_f32),
        cmocka_unit_test(test_recompute),
        IN_WORKPLACE(test_recompute_deep),
        IN_WORKPLACE(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
