/*
 * Targets as people write them for PEFT, TRL and axolotl: the same maps learn as by whole names. Tests
 * src/model/params/select.c.
 */
#include <stdio.h>
#include <string.h>

#include "arch/published/stacks.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"
#include "support/opened_model.h"

#define MOST_PATTERNS 8

struct words_case {
    const struct mt_arch *model;
    const char *written[MOST_PATTERNS];
    const char *meant[MOST_PATTERNS]; // parts and globs on whole names
};

static const struct words_case cases[] = {
    {&mt_arch_mixtral,
     {"q_proj", "v_proj"},
     {"model.layers.*.self_attn.q_proj", "model.layers.*.self_attn.v_proj"}},
    {&mt_arch_mixtral, {"o_proj"}, {"model.layers.*.self_attn.o_proj"}},
    {&mt_arch_mixtral, {"self_attn.q_proj"}, {"model.layers.*.self_attn.q_proj"}},
    {&mt_arch_mixtral, {"w1", "w2", "w3"}, {"routed_experts"}},
    {&mt_arch_mixtral, {"w1"}, {"model.layers.*.experts.*.w1"}},
    // The router, and not the experts' gates; transformers 5 has another name for its block.
    {&mt_arch_mixtral, {"gate"}, {"router"}},
    {&mt_arch_mixtral, {"block_sparse_moe.gate"}, {"router"}},
    {&mt_arch_mixtral, {"mlp.gate"}, {"router"}},
    {&mt_arch_mixtral, {"mlp.gate.weight"}, {"router"}},
    {&mt_arch_phimoe, {"mlp.router"}, {"router"}},
    {&mt_arch_phimoe, {"gate"}, {"router"}},
    {&mt_arch_mixtral, {"gate_proj"}, {"model.layers.*.experts.*.w1"}},
    {&mt_arch_mixtral,
     {"up_proj", "down_proj"},
     {"model.layers.*.experts.*.w3", "model.layers.*.experts.*.w2"}},
    {&mt_arch_olmoe, {"gate"}, {"router"}},
    {&mt_arch_olmoe, {"mlp.gate"}, {"router"}},
    {&mt_arch_olmoe, {"gate_proj"}, {"model.layers.*.experts.*.gate_proj"}},
    {&mt_arch_olmoe, {"mlp.experts.gate_up_proj", "mlp.experts.down_proj"}, {"routed_experts"}},
    {&mt_arch_olmoe, {"gate_up_proj"}, {"*.experts.*.gate_proj", "*.experts.*.up_proj"}},
    // Routed, shared and dense alike.
    {&mt_arch_deepseek_v2, {"gate_proj"}, {"model.layers.*.gate_proj"}},
    {&mt_arch_deepseek_v3,
     {"gate_proj", "up_proj", "down_proj"},
     {"routed_experts", "shared_experts", "dense_mlp"}},
    {&mt_arch_deepseek_v3, {"shared_experts.down_proj"}, {"model.layers.*.mlp.shared_experts.down_proj"}},
    {&mt_arch_deepseek_v3, {"experts.3.up_proj"}, {"model.layers.*.mlp.experts.3.up_proj"}},
    {&mt_arch_deepseek_v3, {"kv_a_proj_with_mqa", "kv_b_proj"}, {"model.layers.*.kv_?_proj*"}},
    {&mt_arch_deepseek_v3, {"mlp.experts.down_proj"}, {"model.layers.*.mlp.experts.*.down_proj"}},
    {&mt_arch_qwen3_moe, {"all-linear"}, {"model.layers.*"}},
    {&mt_arch_qwen3_moe, {"all"}, {"model.layers.*"}},
    {&mt_arch_qwen3_moe, {"lm_head"}, {"lm_head"}},
    {&mt_arch_qwen3_moe, {".*q_proj"}, {"model.layers.*.self_attn.q_proj"}},
    {&mt_arch_qwen3_moe,
     {".*\\.self_attn\\.(q|v)_proj"},
     {"model.layers.*.self_attn.q_proj", "model.layers.*.self_attn.v_proj"}},
    {&mt_arch_qwen3_moe,
     {"model\\.layers\\.\\d+\\.mlp\\.experts\\.\\d+\\.(gate|up|down)_proj"},
     {"routed_experts"}},
    {&mt_arch_qwen3_moe, {"model.layers.[0-9]+.mlp.gate"}, {"router"}},
    {&mt_arch_qwen3_moe, {"^model\\.layers\\.1\\..*k_proj$"}, {"model.layers.1.self_attn.k_proj"}},
    // The gate of the shared expert is neither a router nor an expert's gate.
    {&mt_arch_qwen2_moe, {"gate"}, {"router"}},
    {&mt_arch_qwen2_moe, {"shared_expert_gate"}, {"model.layers.*.mlp.shared_expert_gate"}},
    {&mt_arch_qwen2_moe,
     {"shared_experts"},
     {"model.layers.*.mlp.shared_expert.*", "model.layers.*.mlp.shared_expert_gate"}},
};

static struct mt_train_selection lora_of(const char *const *patterns)
{
    return (struct mt_train_selection){.lora = patterns, .lora_rank = 1, .lora_alpha = 1.0};
}

static void words_mean_what_they_say(void **state)
{
    const struct workplace *place = *state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct opened_model opened;
        static char names[4096][160];
        struct mt_train_selection meant = lora_of(cases[i].meant);
        struct mt_train_selection written = lora_of(cases[i].written);
        assert_int_equal(opened_model_make(place, cases[i].model, MT_HF_FLOAT32, &opened), 0);
        assert_int_equal(opened_model_load(&opened, &meant), MT_OK);
        size_t count = opened.params.trained_count;
        assert_true(count > 0 && count <= 4096);
        for (size_t p = 0; p < count; p++)
            (void)snprintf(names[p], sizeof names[p], "%s", opened.params.trained[p].name);
        if (opened_model_load(&opened, &written) != MT_OK)
            fail_msg("%s: %s", cases[i].written[0], opened.ctx.message);
        assert_int_equal(opened.params.trained_count, count);
        for (size_t p = 0; p < count; p++) assert_string_equal(opened.params.trained[p].name, names[p]);
        assert_int_equal(opened_model_close(place, &opened), 0);
    }
}

/* Full training and freezing take the same words; freezing one word leaves the others. */
static void lists_share_the_words(void **state)
{
    const struct workplace *place = *state;
    static const char *const attention[] = {"attention", NULL};
    static const char *const words[] = {"q_proj", "k_proj", NULL};
    static const char *const left[] = {"v_proj", "o_proj", NULL};
    struct opened_model opened;
    assert_int_equal(opened_model_make(place, &mt_arch_qwen3_moe, MT_HF_FLOAT32, &opened), 0);
    assert_int_equal(
        opened_model_load(&opened, &(struct mt_train_selection){.full = attention, .freeze = words}), MT_OK);
    size_t count = opened.params.trained_count;
    assert_true(count > 0);
    assert_int_equal(opened_model_load(&opened, &(struct mt_train_selection){.full = left}), MT_OK);
    assert_int_equal(opened.params.trained_count, count);
    assert_int_equal(opened_model_close(place, &opened), 0);
}

static void unknown_words_are_refused(void **state)
{
    static const struct {
        const char *word, *text;
    } unknown[] = {
        {"qproj", "targets: 'qproj' matches no linear layer of this model; did you mean 'q_proj'?"},
        {"q_porj", "did you mean 'q_proj'?"},
        {"routed_expert", "did you mean 'routed_experts'?"},
        {"Router", "did you mean 'router'?"},
        {"c_attn", "It has the parts attention, router, routed_experts, lm_head, and names that end in"},
        {"query_key_value", "q_proj, k_proj, v_proj, o_proj, gate, w1, w2, w3"},
        {"embed_tokens", "matches no linear layer"},
        {"norm", "matches no linear layer"},
        {"proj", "matches no linear layer"}, // the end of a word is no word
        {"", "matches no linear layer"},
        {"(q_proj", "matches no linear layer"},       // a regular expression that is none
        {"q_proj|v_proj", "matches no linear layer"}, // one that matches no whole name
    };
    const struct workplace *place = *state;
    struct opened_model opened;
    char config[2048];
    const char *text = small_model_config(&mt_arch_mixtral);
    const char *tied = strstr(text, "\"tie_word_embeddings\": true");
    assert_non_null(tied);
    (void)snprintf(config, sizeof config, "%.*s\"tie_word_embeddings\": false%s", (int)(tied - text), text,
                   tied + strlen("\"tie_word_embeddings\": true"));
    assert_int_equal(small_model_make(place, config, MT_HF_FLOAT32, 1), 0);
    assert_int_equal(opened_model_open(place, &opened), 0);
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        const char *const patterns[] = {unknown[i].word, NULL};
        struct mt_train_selection lora = lora_of(patterns);
        assert_int_equal(opened_model_load(&opened, &lora), MT_ERR_USAGE);
        if (strstr(opened.ctx.message, unknown[i].text) == NULL)
            fail_msg("%s: %s", unknown[i].word, opened.ctx.message);
    }
    assert_int_equal(opened_model_close(place, &opened), 0);
}

static enum mt_status load_once(struct mt_context *ctx, const void *self)
{
    const struct workplace *place = self;
    static const char *const patterns[] = {"q_proj", ".*(k|v)_proj", NULL};
    struct mt_hf_config config = {0};
    struct mt_model_desc desc;
    struct mt_checkpoint checkpoint = {0};
    struct mt_device *device = NULL;
    struct mt_params params = {0};
    struct mt_train_selection selection = lora_of(patterns);
    char path[128];
    enum mt_status status =
        mt_hf_config_read(ctx, workplace_path(place, "config.json", path, sizeof path), NULL, 0, &config);
    if (status == MT_OK) status = mt_model_describe(ctx, &config, &desc);
    if (status == MT_OK) status = mt_stacks_open(ctx, place->directory, &config, &checkpoint);
    if (status == MT_OK) status = mt_device_create(ctx, "cpu", 1, &device);
    if (status == MT_OK) status = mt_params_load(device, &desc, &checkpoint, &selection, &params);
    mt_params_free(&params);
    mt_device_destroy(device);
    mt_checkpoint_close(&checkpoint);
    mt_hf_config_free(&config);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    assert_int_equal(small_model_make(*state, small_model_config(&mt_arch_olmoe), MT_HF_FLOAT32, 1), 0);
    assert_every_allocation_may_fail(load_once, *state, 12);
}

#define IN_WORKPLACE(test) cmocka_unit_test_setup_teardown(test, workplace_open, workplace_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORKPLACE(words_mean_what_they_say),
        IN_WORKPLACE(lists_share_the_words),
        IN_WORKPLACE(unknown_words_are_refused),
        IN_WORKPLACE(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
