/*
 * What is left out changes nothing: training any part of a model gives, bit for bit, the gradients that part
 * has when everything is trained. And experts chosen one by one, biases a method brings, gradient scaling.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "support/model_runs.h"
#include "support/small_models.h"

static const char *const everything[] = {"*", NULL};

static void open_with(struct model_run *run, const struct workplace *place,
                      const struct mt_train_selection *selection, const char *method_name)
{
    struct mt_context ctx;
    struct mt_objective_config method;
    struct mt_model_options options = {.backward = true, .selection = *selection};
    mt_context_init(&ctx, NULL);
    if (method_name != NULL) {
        assert_int_equal(mt_objective_config_method(&ctx, method_name, &method), MT_OK);
        assert_int_equal(mt_objective_config_set(&ctx, &method, "allow_indirect", "true"), MT_OK);
        options.objective = &method;
    }
    assert_int_equal(model_run_open(run, place, "cpu", 2, &options), 0);
    model_run_draw_lora(run, 9);
}

static const struct mt_param *find(const struct mt_params *params, const char *name)
{
    for (size_t i = 0; i < params->trained_count; i++) {
        if (strcmp(params->trained[i].name, name) == 0) return &params->trained[i];
    }
    return NULL;
}

/* Every gradient of `part` is, bit for bit, that of the same tensor in `whole`. */
static void expect_part_of(struct model_run *whole, struct model_run *part, const char *what)
{
    const struct mt_params *all = mt_model_params(whole->model);
    const struct mt_params *some = mt_model_params(part->model);
    assert_true(some->trained_count > 0);
    for (size_t i = 0; i < some->trained_count; i++) {
        const struct mt_param *got = &some->trained[i];
        const struct mt_param *expected = find(all, got->name);
        assert_non_null(expected);
        size_t bytes = (size_t)mt_tensor_count(&got->grad) * sizeof(float);
        if (memcmp(expected->grad.data, got->grad.data, bytes) != 0)
            fail_msg("%s: %s differs", what, got->name);
    }
}

static void check_parts(const struct workplace *place, const struct mt_arch *model, const char *method,
                        const char *const *patterns)
{
    struct model_run whole;
    struct model_batch batch;
    double loss = 0.0;
    assert_int_equal(small_model_make(place, small_model_config(model), MT_HF_FLOAT32, 11), 0);
    open_with(&whole, place, &(struct mt_train_selection){.full = everything}, method);
    model_batch_fill(&batch, (const int[]){9, 6, 0}, mt_model_description(whole.model)->vocabulary, 4);
    assert_int_equal(model_run_step(&whole, &batch.batch, &loss), 0);
    for (; *patterns != NULL; patterns++) {
        struct model_run part;
        double part_loss = 0.0;
        const char *const only[] = {*patterns, NULL};
        open_with(&part, place, &(struct mt_train_selection){.full = only}, method);
        assert_int_equal(model_run_step(&part, &batch.batch, &part_loss), 0);
        assert_true(loss == part_loss);
        expect_part_of(&whole, &part, *patterns);
        model_run_close(&part);
    }
    model_run_close(&whole);
    workplace_clear(place);
}

static void test_parts(void **state)
{
    const struct workplace *place = *state;
    static const char *const deepseek[] = {"embedding",
                                           "attention",
                                           "router",
                                           "routed_experts",
                                           "shared_experts",
                                           "dense_mlp",
                                           "norms",
                                           "lm_head",
                                           "model.norm",
                                           "model.layers.2.mlp.gate",
                                           "model.layers.0.self_attn.o_proj",
                                           "model.layers.1.self_attn.v_proj",
                                           "model.layers.1.input_layernorm",
                                           "model.layers.2.post_attention_layernorm",
                                           "model.layers.2.mlp.experts.1.down_proj",
                                           "model.layers.1.mlp.experts.*.gate_proj",
                                           "model.layers.2.mlp.shared_experts.up_proj",
                                           NULL};
    static const char *const latent[] = {"model.layers.1.self_attn.kv_a_layernorm",
                                         "model.layers.2.self_attn.kv_b_proj",
                                         "model.layers.2.self_attn.q_a_proj",
                                         "model.layers.0.self_attn.q_b_proj",
                                         "norms",
                                         "attention",
                                         NULL};
    static const char *const phi[] = {"*.bias",
                                      "norms",
                                      "lm_head",
                                      "model.layers.1.self_attn.k_proj",
                                      "model.layers.0.block_sparse_moe.gate",
                                      NULL};
    static const char *const qwen[] = {"model.layers.1.self_attn.q_norm", "model.layers.2.self_attn.k_norm",
                                       "model.layers.2.mlp.experts.*", "dense_mlp", NULL};
    static const char *const gated[] = {"model.layers.2.mlp.shared_expert_gate", "shared_experts",
                                        "model.layers.0.mlp.shared_expert.down_proj",
                                        "model.layers.2.self_attn.k_proj.bias", NULL};
    // With a method's terms: what can feel all of them.
    static const char *const feeling[] = {"attention", "embedding", "model.layers.0.mlp.down_proj", NULL};
    check_parts(place, &mt_arch_deepseek, NULL, deepseek);
    check_parts(place, &mt_arch_deepseek, "metier", feeling);
    check_parts(place, &mt_arch_deepseek_v2, NULL, latent);
    check_parts(place, &mt_arch_phimoe, NULL, phi);
    check_parts(place, &mt_arch_qwen3_moe, NULL, qwen);
    check_parts(place, &mt_arch_qwen2_moe, NULL, gated);
}

/* ESFT: the experts on the list, in full or by LoRA, whatever type the others are stored in. */
static void test_chosen_experts(void **state)
{
    const struct workplace *place = *state;
    static const bool layer1[] = {true, false, false, true, false, false};
    static const bool layer2[] = {false, false, false, false, false, true};
    static const bool *const chosen[] = {NULL, layer1, layer2};
    static const char *const experts[] = {"routed_experts", NULL};
    struct model_batch batch;
    double loss = 0.0;
    assert_int_equal(small_model_make(place, small_model_config(&mt_arch_deepseek), MT_HF_FLOAT32, 11), 0);
    struct model_run all;
    struct model_run some;
    open_with(&all, place, &(struct mt_train_selection){.full = experts}, NULL);
    open_with(&some, place, &(struct mt_train_selection){.full = experts, .experts = chosen}, NULL);
    model_batch_fill(&batch, (const int[]){9, 6, 0}, mt_model_description(all.model)->vocabulary, 4);
    assert_int_equal(model_run_step(&all, &batch.batch, &loss), 0);
    assert_int_equal(model_run_step(&some, &batch.batch, &loss), 0);
    assert_int_equal(mt_model_params(some.model)->trained_count, 9);
    expect_part_of(&all, &some, "chosen experts");
    model_run_close(&all);
    model_run_close(&some);
    workplace_clear(place);
    // Stored as bf16, so that chosen experts and the others differ in type; in full and by LoRA.
    assert_int_equal(small_model_make(place, small_model_config(&mt_arch_deepseek), MT_HF_BFLOAT16, 11), 0);
    batch.batch.training = true;
    for (int lora = 0; lora < 2; lora++) {
        struct model_run run;
        struct mt_model_options options = {.backward = true,
                                           .activations = MT_F64,
                                           .selection = {.full = lora == 0 ? experts : NULL,
                                                         .lora = lora == 1 ? experts : NULL,
                                                         .experts = chosen,
                                                         .lora_rank = 2,
                                                         .lora_alpha = 3.0,
                                                         .lora_dropout = 0.2}};
        assert_int_equal(model_run_open(&run, place, "ref", 1, &options), 0);
        model_run_draw_lora(&run, 9);
        assert_int_equal(mt_model_params(run.model)->trained_count, lora == 1 ? 18 : 9);
        assert_int_equal(model_run_step(&run, &batch.batch, &loss), 0);
        assert_true(model_run_check_gradients(&run, &batch.batch, 1, 2e-6, 2e-5) <= 2e-5);
        model_run_close(&run);
    }
}

/* A batch that is a quarter of its step counts a quarter, the objective too, and gradients add up. */
static void test_scaling(void **state)
{
    const struct workplace *place = *state;
    struct model_run run;
    struct model_batch batch;
    struct mt_model_loss loss;
    double total = 0.0;
    assert_int_equal(small_model_make(place, small_model_config(&mt_arch_deepseek_v3), MT_HF_FLOAT32, 11), 0);
    open_with(&run, place, &(struct mt_train_selection){.full = everything}, "paper");
    const struct mt_params *params = mt_model_params(run.model);
    size_t count = params->gradients.bytes / sizeof(float);
    float *once = malloc(params->gradients.bytes);
    assert_non_null(once);
    model_batch_fill(&batch, (const int[]){9, 6, 0}, mt_model_description(run.model)->vocabulary, 4);
    assert_int_equal(model_run_step(&run, &batch.batch, &total), 0);
    memcpy(once, params->gradients.data, params->gradients.bytes);
    batch.batch.step_labels = 4 * 13;
    batch.batch.step_tokens = 4 * 15;
    assert_int_equal(model_run_step(&run, &batch.batch, &total), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(mt_model_forward(run.model, &batch.batch, &loss), MT_OK);
        assert_int_equal(mt_model_backward(run.model), MT_OK);
    }
    assert_true(gradients_apart(once, params->gradients.data, count) <= 2e-6);
    free(once);
    model_run_close(&run);
}

/* A method that balances by bias brings one where the router has none; it selects, and never weighs. */
static void test_brought_bias(void **state)
{
    const struct workplace *place = *state;
    struct model_run run;
    struct model_batch batch;
    struct mt_model_loss loss;
    assert_int_equal(small_model_make(place, small_model_config(&mt_arch_qwen3_moe), MT_HF_FLOAT32, 11), 0);
    open_with(&run, place, &(struct mt_train_selection){.full = everything}, "loss-free");
    struct mt_layer_params *layer = &mt_model_params(run.model)->layer[0];
    assert_true(mt_tensor_present(&layer->correction));
    model_batch_fill(&batch, (const int[]){9, 6, 0}, mt_model_description(run.model)->vocabulary, 4);
    float *bias = layer->correction.data;
    bias[3] = 100.0f;
    bias[5] = -100.0f;
    assert_int_equal(mt_model_forward(run.model, &batch.batch, &loss), MT_OK);
    const struct mt_routing *routing = mt_model_routing(run.model, 0);
    const int32_t *expert = routing->expert.data;
    const float *weight = routing->weight.data;
    for (int64_t i = 0; i < routing->tokens; i++) {
        float sum = 0.0f;
        assert_int_equal(expert[i * routing->slots], 3);
        for (int s = 0; s < routing->slots; s++) {
            assert_int_not_equal(expert[i * routing->slots + s], 5);
            sum += weight[i * routing->slots + s];
        }
        assert_true(fabsf(sum - 1.0f) < 1e-5f);
    }
    model_run_close(&run);
}

/* A model given one objective after the other computes what a model opened with the last one does. */
static void test_changed_objective(void **state)
{
    const struct workplace *place = *state;
    static const char *const methods[] = {"aux",        "metier", "loss-free", "st-moe",
                                          "paper-code", "paper",  "erc",       "intra-cross"};
    enum { METHODS = sizeof methods / sizeof methods[0] };
    struct mt_train_selection selection = {.full = everything};
    struct model_run changed;
    struct model_batch batch;
    assert_int_equal(small_model_make(place, small_model_config(&mt_arch_deepseek_v2), MT_HF_FLOAT32, 11), 0);
    open_with(&changed, place, &selection, methods[0]);
    model_batch_fill(&batch, (const int[]){9, 6, 0}, mt_model_description(changed.model)->vocabulary, 4);
    for (int i = 0; i < METHODS; i++) {
        struct model_run opened;
        struct mt_objective_config method;
        double changed_loss = 0.0;
        double loss = 0.0;
        assert_int_equal(mt_objective_config_method(&changed.ctx, methods[i], &method), MT_OK);
        assert_int_equal(mt_model_set_objective(changed.model, &method), MT_OK);
        assert_int_equal(model_run_step(&changed, &batch.batch, &changed_loss), 0);
        open_with(&opened, place, &selection, methods[i]);
        assert_int_equal(model_run_step(&opened, &batch.batch, &loss), 0);
        assert_true(loss == changed_loss);
        expect_part_of(&opened, &changed, methods[i]);
        model_run_close(&opened);
    }
    assert_int_equal(mt_model_set_objective(changed.model, NULL), MT_OK);
    assert_null(mt_model_objective(changed.model));
    model_run_close(&changed);
    workplace_clear(place);
}

/* What a term needs but cannot have is refused when the model is opened. */
static void test_refusals(void **state)
{
    const struct workplace *place = *state;
    static const char *const head[] = {"lm_head", NULL};
    struct mt_context ctx;
    struct mt_device *device = NULL;
    struct mt_model *model = NULL;
    struct mt_objective_config method;
    struct mt_model_options options = {
        .tokens = 8, .sequences = 1, .positions = 8, .backward = true, .objective = &method};
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_device_create(&ctx, "cpu", 1, &device), MT_OK);
    assert_int_equal(small_model_make(place, small_model_config(&mt_arch_phimoe), MT_HF_FLOAT32, 11), 0);
    assert_int_equal(mt_objective_config_method(&ctx, "loss-free", &method), MT_OK);
    options.selection.full = everything;
    assert_int_equal(mt_model_open(device, place->directory, &options, &model), MT_ERR_UNSUPPORTED);
    assert_non_null(strstr(ctx.message, "SparseMixer"));
    assert_int_equal(mt_objective_config_method(&ctx, "paper", &method), MT_OK);
    options.selection.full = head;
    assert_int_not_equal(mt_model_open(device, place->directory, &options, &model), MT_OK);
    assert_null(model);
    options.objective = NULL;
    options.tokens = 0;
    assert_int_equal(mt_model_open(device, place->directory, &options, &model), MT_ERR_USAGE);
    mt_device_destroy(device);
    assert_int_equal(ctx.live_bytes, 0);
}

#define IN_WORKPLACE(test) cmocka_unit_test_setup_teardown(test, workplace_open, workplace_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORKPLACE(test_parts),    IN_WORKPLACE(test_chosen_experts),
        IN_WORKPLACE(test_scaling),  IN_WORKPLACE(test_brought_bias),
        IN_WORKPLACE(test_refusals), IN_WORKPLACE(test_changed_objective),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
