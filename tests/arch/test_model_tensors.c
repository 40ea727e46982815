/* The tensor lists of the seven models: counts, totals against the published ones, shapes, uniqueness. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/model_check.h"
#include "arch/model_count.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"
#include "support/model_configs.h"

static void open_config(struct mt_context *ctx, const struct mt_arch *model, struct mt_hf_config *config)
{
    const char *text = model_config_text(model);
    mt_context_init(ctx, NULL);
    assert_int_equal(mt_hf_config_read(ctx, "config.json", text, strlen(text), config), MT_OK);
}

/* Exact totals, and the rounded ones their authors publish (billions). */
static void published_totals(void **state)
{
    (void)state;
    static const struct {
        const struct mt_arch *model;
        int64_t total;
        int64_t active;
        int64_t tensors;
        double published_total;
        double published_active;
        bool without_embedding; // DeepSeek counts V2-Lite's active parameters so
    } expected[] = {
        {&mt_arch_deepseek, 16375728128, 2828650496, 5466, 16.4, 2.8, false},
        {&mt_arch_deepseek_v2, 15706484224, 2661150208, 5291, 15.7, 2.4, true},
        {&mt_arch_deepseek_v3, 15960110208, 2914776192, 5317, 16.0, 3.0, false},
        {&mt_arch_mixtral, 46702792704, 12879925248, 995, 46.7, 12.9, false},
        {&mt_arch_phimoe, 41873153344, 6640999744, 1957, 41.9, 6.6, false},
        {&mt_arch_olmoe, 6919161856, 1282017280, 3219, 6.9, 1.3, false},
        {&mt_arch_qwen3_moe, 30532122624, 3353032704, 18867, 30.5, 3.3, false},
        {&mt_arch_glm4_moe_lite, 29943393920, 3896766080, 9491, 30.0, 3.6, true}, // "30B-A3B"
        {&mt_arch_qwen2_moe, 14315784192, 2689173504, 4659, 14.3, 2.7, false},
        {&mt_arch_glm4_moe, 106852251264, 13424129664, 17925, 106.0, 12.0, true}, // "106B-A12B"
        {&mt_arch_dots1, 142774381696, 14016588928, 24231, 142.0, 14.0, false},
        {&mt_arch_ernie4_5_moe, 21825437888, 3352150208, 5492, 21.8, 3.0, true}, // "21B-A3B"
        {&mt_arch_gpt_oss, 20914757184, 4187440704, 4923, 20.9, 3.6, true},
    };
    assert_int_equal(sizeof expected / sizeof expected[0], MT_ARCH_COUNT);
    for (size_t m = 0; m < MT_ARCH_COUNT; m++) {
        struct mt_context ctx;
        struct mt_hf_config config;
        struct mt_model_count count;
        open_config(&ctx, expected[m].model, &config);
        mt_model_count(&config, &count);
        int64_t active =
            count.all_active - (expected[m].without_embedding ? count.active[MT_PART_EMBEDDING] : 0);
        print_message("%-12s %6lld tensors, %lld parameters, %lld active\n", config.arch->name,
                      (long long)count.tensors, (long long)count.all, (long long)count.all_active);
        assert_int_equal(count.all, expected[m].total);
        assert_int_equal(count.all_active, expected[m].active);
        assert_int_equal(count.tensors, expected[m].tensors);
        // The makers of large models round to whole billions, some of them down.
        double total_slack = expected[m].published_total < 100.0 ? 0.06 : 1.0;
        double active_slack = expected[m].published_total < 100.0 ? 0.1 : 1.0;
        assert_true(fabs((double)count.all / 1e9 - expected[m].published_total) < total_slack);
        assert_true(fabs((double)active / 1e9 - expected[m].published_active) < active_slack);
        mt_hf_config_free(&config);
    }
}

static bool has(const struct mt_hf_config *config, const char *name, int64_t rows, int64_t columns,
                enum mt_model_part part)
{
    struct mt_model_tensors walk = mt_model_tensors_begin(config);
    struct mt_model_tensor tensor;
    while (mt_model_tensors_next(&walk, &tensor)) {
        if (strcmp(tensor.name, name) != 0) continue;
        return tensor.dim[0] == rows && tensor.dim[1] == columns && tensor.part == part &&
               tensor.rank == (columns == 0 ? 1 : 2);
    }
    return false;
}

static void shapes_that_are_easy_to_get_wrong(void **state)
{
    (void)state;
    static const struct {
        const struct mt_arch *model;
        const char *name;
        int64_t rows;
        int64_t columns;
        enum mt_model_part part;
    } cases[] = {
        {&mt_arch_deepseek, "model.layers.0.mlp.gate_proj.weight", 10944, 2048, MT_PART_DENSE},
        {&mt_arch_deepseek, "model.layers.27.mlp.shared_experts.down_proj.weight", 2048, 2816,
         MT_PART_SHARED},
        {&mt_arch_deepseek_v2, "model.layers.3.self_attn.q_proj.weight", 3072, 2048, MT_PART_ATTENTION},
        {&mt_arch_deepseek_v2, "model.layers.3.self_attn.kv_a_proj_with_mqa.weight", 576, 2048,
         MT_PART_ATTENTION},
        {&mt_arch_deepseek_v2, "model.layers.3.self_attn.kv_a_layernorm.weight", 512, 0, MT_PART_NORMS},
        {&mt_arch_deepseek_v2, "model.layers.3.self_attn.kv_b_proj.weight", 4096, 512, MT_PART_ATTENTION},
        {&mt_arch_deepseek_v2, "model.layers.3.self_attn.o_proj.weight", 2048, 2048, MT_PART_ATTENTION},
        {&mt_arch_deepseek_v3, "model.layers.1.mlp.gate.e_score_correction_bias", 64, 0, MT_PART_ROUTER},
        {&mt_arch_mixtral, "model.layers.31.block_sparse_moe.experts.7.w2.weight", 4096, 14336,
         MT_PART_EXPERTS},
        {&mt_arch_mixtral, "model.layers.0.self_attn.k_proj.weight", 1024, 4096, MT_PART_ATTENTION},
        {&mt_arch_phimoe, "model.layers.0.self_attn.k_proj.bias", 1024, 0, MT_PART_ATTENTION},
        {&mt_arch_phimoe, "model.layers.0.input_layernorm.bias", 4096, 0, MT_PART_NORMS},
        {&mt_arch_phimoe, "model.norm.bias", 4096, 0, MT_PART_NORMS},
        {&mt_arch_phimoe, "lm_head.bias", 32064, 0, MT_PART_LM_HEAD},
        {&mt_arch_olmoe, "model.layers.0.self_attn.q_norm.weight", 2048, 0, MT_PART_NORMS},
        {&mt_arch_olmoe, "model.layers.15.mlp.experts.63.down_proj.weight", 2048, 1024, MT_PART_EXPERTS},
        {&mt_arch_qwen3_moe, "model.layers.0.self_attn.q_norm.weight", 128, 0, MT_PART_NORMS},
        {&mt_arch_qwen3_moe, "model.layers.0.self_attn.o_proj.weight", 2048, 4096, MT_PART_ATTENTION},
        {&mt_arch_qwen3_moe, "model.layers.47.mlp.gate.weight", 128, 2048, MT_PART_ROUTER},
        {&mt_arch_glm4_moe_lite, "model.layers.46.self_attn.q_b_proj.weight", 5120, 768, MT_PART_ATTENTION},
        {&mt_arch_glm4_moe_lite, "model.layers.46.mlp.gate.e_score_correction_bias", 64, 0, MT_PART_ROUTER},
        {&mt_arch_qwen2_moe, "model.layers.0.self_attn.k_proj.bias", 2048, 0, MT_PART_ATTENTION},
        {&mt_arch_qwen2_moe, "model.layers.23.mlp.shared_expert.up_proj.weight", 5632, 2048, MT_PART_SHARED},
        {&mt_arch_qwen2_moe, "model.layers.23.mlp.shared_expert_gate.weight", 1, 2048, MT_PART_SHARED},
        {&mt_arch_glm4_moe, "model.layers.45.self_attn.k_proj.bias", 1024, 0, MT_PART_ATTENTION},
        {&mt_arch_glm4_moe, "model.layers.45.self_attn.o_proj.weight", 4096, 12288, MT_PART_ATTENTION},
        {&mt_arch_glm4_moe, "model.layers.1.mlp.gate.e_score_correction_bias", 128, 0, MT_PART_ROUTER},
        {&mt_arch_ernie4_5_moe, "model.layers.27.mlp.moe_statics.e_score_correction_bias", 64, 0,
         MT_PART_ROUTER},
        {&mt_arch_gpt_oss, "model.layers.23.self_attn.sinks", 64, 0, MT_PART_ATTENTION},
        {&mt_arch_gpt_oss, "model.layers.23.mlp.router.bias", 32, 0, MT_PART_ROUTER},
        {&mt_arch_gpt_oss, "model.layers.0.mlp.experts.31.gate_proj.bias", 2880, 0, MT_PART_EXPERTS},
        {&mt_arch_gpt_oss, "model.layers.0.self_attn.o_proj.weight", 2880, 4096, MT_PART_ATTENTION},
        {&mt_arch_ernie4_5_moe, "model.layers.27.mlp.shared_experts.up_proj.weight", 3072, 2560,
         MT_PART_SHARED},
        {&mt_arch_dots1, "model.layers.61.self_attn.k_norm.weight", 128, 0, MT_PART_NORMS},
        {&mt_arch_dots1, "model.layers.61.mlp.shared_experts.down_proj.weight", 4096, 2816, MT_PART_SHARED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mt_context ctx;
        struct mt_hf_config config;
        open_config(&ctx, cases[i].model, &config);
        if (!has(&config, cases[i].name, cases[i].rows, cases[i].columns, cases[i].part)) {
            fail_msg("%s", cases[i].name);
        }
        mt_hf_config_free(&config);
    }
}

static void options_change_the_list(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_hf_config config;
    open_config(&ctx, &mt_arch_deepseek_v3, &config);
    config.q_lora_rank = 1536;
    config.attention_bias = true;
    assert_true(has(&config, "model.layers.0.self_attn.q_a_proj.weight", 1536, 2048, MT_PART_ATTENTION));
    assert_true(has(&config, "model.layers.0.self_attn.q_a_proj.bias", 1536, 0, MT_PART_ATTENTION));
    assert_true(has(&config, "model.layers.0.self_attn.q_b_proj.weight", 3072, 1536, MT_PART_ATTENTION));
    assert_false(has(&config, "model.layers.0.self_attn.q_proj.weight", 3072, 2048, MT_PART_ATTENTION));
    config.topk = MT_HF_TOPK_GREEDY;
    assert_false(has(&config, "model.layers.1.mlp.gate.e_score_correction_bias", 64, 0, MT_PART_ROUTER));
    config.tie_word_embeddings = true;
    assert_false(has(&config, "lm_head.weight", 163840, 2048, MT_PART_LM_HEAD));
    mt_hf_config_free(&config);
}

static int compare_texts(const void *left, const void *right)
{
    return strcmp(left, right);
}

static void names_are_unique(void **state)
{
    (void)state;
    for (size_t at = 0; at < MT_ARCH_COUNT; at++) {
        const struct mt_arch *model = mt_archs[at];
        struct mt_context ctx;
        struct mt_hf_config config;
        struct mt_model_count count;
        open_config(&ctx, model, &config);
        mt_model_count(&config, &count);
        char(*names)[MT_MODEL_NAME_BYTES] = calloc((size_t)count.tensors, sizeof *names);
        assert_non_null(names);
        struct mt_model_tensors walk = mt_model_tensors_begin(&config);
        struct mt_model_tensor tensor;
        size_t used = 0;
        while (mt_model_tensors_next(&walk, &tensor)) memcpy(names[used++], tensor.name, sizeof tensor.name);
        qsort(names, used, sizeof *names, compare_texts);
        for (size_t i = 1; i < used; i++) assert_string_not_equal(names[i - 1], names[i]);
        free(names);
        mt_hf_config_free(&config);
    }
}

static void lora_memory(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_hf_config config;
    struct mt_model_memory memory;
    open_config(&ctx, &mt_arch_mixtral, &config);
    mt_model_memory(&config, 93405585408, 32, 4096, &memory);
    // By hand, per layer: q and o 8192 each, k and v 5120 each, router 4104, 8 x 3 matrices of 18432.
    int64_t per_layer = 2 * 8192 + 2 * 5120 + 4104 + INT64_C(24) * 18432;
    assert_int_equal(memory.all_adapters, 32 * 32 * per_layer);
    assert_int_equal(memory.adapters[MT_PART_EXPERTS], 32 * 32 * INT64_C(24) * 18432);
    assert_int_equal(memory.optimizer_bytes, 8 * memory.all_adapters);
    // Per token: 2·4096 + 32·(4·4096 + 4096 + 1024 + 1024 + 4096 + 2·(3·14336 + 4096) + 16), 2 bytes each.
    int64_t per_token =
        2 * 4096 + INT64_C(32) * (4 * 4096 + 4096 + 1024 + 1024 + 4096 + 2 * (3 * 14336 + 4096) + 16);
    assert_int_equal(memory.activation_bytes, 2 * 4096 * per_token + INT64_C(4) * 1024 * 32000);
    assert_int_equal(memory.all_bytes, 93405585408 + 16 * memory.all_adapters + memory.activation_bytes);
    mt_hf_config_free(&config);
}

// ------------------------------------------------------------------ the check against an index

static const char tiny_index[] = "{\"weight_map\": {\"model.embed_tokens.weight\": \"m.safetensors\", "
                                 "\"model.stray\": \"m.safetensors\"}}";

static enum mt_status check_once(struct mt_context *ctx, const void *self)
{
    struct mt_hf_config config;
    struct mt_checkpoint_index index;
    struct mt_model_check check;
    const char *text = self;
    enum mt_status status = mt_hf_config_read(ctx, "config.json", text, strlen(text), &config);
    if (status != MT_OK) return status;
    status = mt_checkpoint_index_read(ctx, "index", tiny_index, sizeof tiny_index - 1, &index);
    if (status == MT_OK) {
        status = mt_model_check_index(ctx, &config, &index, &check);
        if (status == MT_OK) {
            assert_int_equal(check.expected, 995);
            assert_int_equal(check.missing.count, 994);
            assert_string_equal(check.missing.listed[0].name, "model.layers.0.self_attn.q_proj.weight");
            assert_int_equal(check.unexpected.count, 1);
            assert_string_equal(check.unexpected.listed[0].name, "model.stray");
            assert_int_equal(check.wrong.count, 0);
            mt_model_check_free(&check);
        }
        mt_checkpoint_index_free(&index);
    }
    mt_hf_config_free(&config);
    return status;
}

static void missing_and_unexpected(void **state)
{
    (void)state;
    assert_every_allocation_may_fail(check_once, model_config_text(&mt_arch_mixtral), 3);
}

/* What files hold beside the model itself is neither missing nor unexpected. */
static void known_but_unread(void **state)
{
    (void)state;
    static const char config_text[] =
        "{\"model_type\": \"deepseek_v3\", \"vocab_size\": 8, \"hidden_size\": 8, \"num_hidden_layers\": 2,"
        " \"max_position_embeddings\": 8, \"num_attention_heads\": 1, \"intermediate_size\": 8,"
        " \"moe_intermediate_size\": 8, \"n_routed_experts\": 16, \"num_experts_per_tok\": 2,"
        " \"num_nextn_predict_layers\": 1, \"tie_word_embeddings\": true}";
    static const char index_text[] =
        "{\"weight_map\": {\"model.layers.0.self_attn.rotary_emb.inv_freq\": \"m.safetensors\","
        " \"lm_head.weight\": \"m.safetensors\", \"model.layers.2.eh_proj.weight\": \"m.safetensors\","
        " \"model.layers.3.eh_proj.weight\": \"m.safetensors\"}}";
    struct mt_context ctx;
    struct mt_hf_config config;
    struct mt_checkpoint_index index;
    struct mt_model_check check;
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_hf_config_read(&ctx, "config.json", config_text, sizeof config_text - 1, &config),
                     MT_OK);
    assert_int_equal(mt_checkpoint_index_read(&ctx, "index", index_text, sizeof index_text - 1, &index),
                     MT_OK);
    assert_int_equal(mt_model_check_index(&ctx, &config, &index, &check), MT_OK);
    assert_int_equal(check.unread, 3);
    assert_int_equal(check.unexpected.count, 1);
    assert_string_equal(check.unexpected.listed[0].name, "model.layers.3.eh_proj.weight");
    mt_model_check_free(&check);
    mt_checkpoint_index_free(&index);
    mt_hf_config_free(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_totals),
        cmocka_unit_test(shapes_that_are_easy_to_get_wrong),
        cmocka_unit_test(options_change_the_list),
        cmocka_unit_test(names_are_unique),
        cmocka_unit_test(lora_memory),
        cmocka_unit_test(missing_and_unexpected),
        cmocka_unit_test(known_but_unread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
