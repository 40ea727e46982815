/* config.json of every model, both rope spellings, class defaults, impossible values, hostile files. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/arch.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"
#include "support/model_configs.h"

static void read_text(const char *text, struct mt_context *ctx, struct mt_hf_config *config)
{
    mt_context_init(ctx, NULL);
    if (mt_hf_config_read(ctx, "config.json", text, strlen(text), config) != MT_OK)
        fail_msg("%s", ctx->message);
}

static void done(struct mt_context *ctx, struct mt_hf_config *config)
{
    mt_hf_config_free(config);
    assert_int_equal(ctx->live_bytes, 0);
}

/* The text with the first occurrence of `what` replaced; the caller frees it. */
static char *edit(const char *text, const char *what, const char *with)
{
    const char *place = strstr(text, what);
    if (place == NULL) fail_msg("no %s in the text", what);
    size_t bytes = strlen(text) + strlen(with) + 1;
    char *edited = malloc(bytes);
    assert_non_null(edited);
    (void)snprintf(edited, bytes, "%.*s%s%s", (int)(place - text), text, with, place + strlen(what));
    return edited;
}

static void every_model(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_hf_config config;
    for (size_t at = 0; at < MT_ARCH_COUNT; at++) {
        const struct mt_arch *model = mt_archs[at];
        read_text(model_config_text(model), &ctx, &config);
        assert_ptr_equal(config.arch, model);
        assert_int_equal(config.dtype, model == &mt_arch_gpt_oss ? MT_HF_FLOAT_UNKNOWN : MT_HF_BFLOAT16);
        assert_int_equal(config.tie_word_embeddings, model == &mt_arch_ernie4_5_moe);
        assert_true(config.eos_count >= 1);
        done(&ctx, &config);
    }
    read_text(model_config_text(&mt_arch_deepseek_v2), &ctx, &config);
    assert_true(mt_hf_config_is_mla(&config));
    assert_int_equal(config.q_lora_rank, 0); // null in the file
    assert_int_equal(config.head_dim, 192);
    assert_int_equal(config.v_head_dim, 128);
    assert_int_equal(config.rope.kind, MT_HF_ROPE_YARN);
    assert_true(config.rope.factor == 40.0 && config.rope.mscale_all_dim == 0.707);
    assert_int_equal(config.rope.original_max_position, 4096);
    assert_false(mt_hf_config_layer_is_moe(&config, 0));
    assert_true(mt_hf_config_layer_is_moe(&config, 1));
    assert_true(config.rope_interleave);
    done(&ctx, &config);
    read_text(model_config_text(&mt_arch_deepseek_v3), &ctx, &config);
    assert_int_equal(config.scoring, MT_HF_SCORING_SIGMOID);
    assert_int_equal(config.topk, MT_HF_TOPK_NOAUX);
    assert_true(config.norm_topk_prob);
    assert_true(config.routed_scaling_factor == 2.446);
    assert_true(config.norm_epsilon == 1e-5);
    assert_int_equal(config.rope.kind, MT_HF_ROPE_DEFAULT);
    assert_true(config.rope.theta == 50000.0);
    done(&ctx, &config);
    read_text(model_config_text(&mt_arch_phimoe), &ctx, &config);
    assert_int_equal(config.scoring, MT_HF_SCORING_SPARSEMIXER);
    assert_int_equal(config.rope.kind, MT_HF_ROPE_LONGROPE);
    assert_int_equal(config.rope.factor_count, 64);
    assert_true(config.rope.long_factor[63] == 64.0 && config.rope.short_factor[0] == 1.0);
    assert_true(config.rope.short_mscale == 1.243163121016122);
    assert_true(config.attention_bias && config.lm_head_bias);
    assert_int_equal(config.sliding_window, 131072);
    assert_int_equal(config.moe_intermediate_size, 6400);
    done(&ctx, &config);
    read_text(model_config_text(&mt_arch_qwen3_moe), &ctx, &config);
    assert_int_equal(config.heads * config.head_dim, 4096); // not hidden_size
    assert_int_equal(config.sliding_window, 0);
    assert_int_equal(config.moe_intermediate_size, 768);
    done(&ctx, &config);
}

/* The same for those with more to say. */
static void newer_models(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_hf_config config;
    read_text(model_config_text(&mt_arch_glm4_moe_lite), &ctx, &config);
    assert_int_equal(config.scoring, MT_HF_SCORING_SIGMOID);
    assert_int_equal(config.topk, MT_HF_TOPK_NOAUX);
    assert_int_equal(config.head_dim, 256);
    assert_int_equal(config.eos_count, 3);
    assert_false(mt_hf_config_layer_is_moe(&config, 0));
    assert_true(mt_hf_config_layer_is_moe(&config, 1));
    done(&ctx, &config);
    read_text(model_config_text(&mt_arch_qwen2_moe), &ctx, &config);
    assert_true(config.attention_bias); // the class's default
    assert_int_equal(config.sliding_window, 0);
    assert_int_equal(config.moe_intermediate_size, 1408);
    assert_int_equal(config.shared_width, 5632);
    assert_int_equal(config.shared_experts, 1);
    done(&ctx, &config);
    read_text(model_config_text(&mt_arch_glm4_moe), &ctx, &config);
    assert_int_equal(config.head_dim, 128);
    assert_int_equal(mt_hf_config_rotated(&config), 64);
    assert_true(config.attention_bias && !config.use_qk_norm);
    assert_int_equal(config.topk, MT_HF_TOPK_NOAUX);
    assert_int_equal(config.eos_count, 3);
    done(&ctx, &config);
    read_text(model_config_text(&mt_arch_dots1), &ctx, &config);
    assert_int_equal(config.sliding_window, 0);
    assert_int_equal(config.shared_width, 2816);
    assert_int_equal(config.scoring, MT_HF_SCORING_SIGMOID); // whatever scoring_func says
    assert_int_equal(mt_hf_config_rotated(&config), 128);
    done(&ctx, &config);
    read_text(model_config_text(&mt_arch_ernie4_5_moe), &ctx, &config);
    assert_true(config.rope_interleave && config.tie_word_embeddings);
    assert_int_equal(config.experts, 64);
    assert_int_equal(config.experts_per_token, 6);
    assert_int_equal(config.scoring, MT_HF_SCORING_SOFTMAX);
    assert_int_equal(config.topk, MT_HF_TOPK_NOAUX);
    assert_true(!mt_hf_config_layer_is_moe(&config, 0) && mt_hf_config_layer_is_moe(&config, 27));
    done(&ctx, &config);
    read_text(model_config_text(&mt_arch_olmoe), &ctx, &config);
    assert_int_equal(config.bos, -1);
    assert_int_equal(config.pad, 1);
    assert_false(config.norm_topk_prob);
    assert_true(config.aux_loss_coefficient == 0.01);
    done(&ctx, &config);
}

static void same_rope(const struct mt_hf_rope *a, const struct mt_hf_rope *b)
{
    assert_int_equal(a->kind, b->kind);
    assert_true(a->theta == b->theta && a->factor == b->factor);
    assert_int_equal(a->original_max_position, b->original_max_position);
    assert_true(a->beta_fast == b->beta_fast && a->beta_slow == b->beta_slow);
    assert_true(a->mscale == b->mscale && a->mscale_all_dim == b->mscale_all_dim);
    assert_true(a->short_mscale == b->short_mscale && a->long_mscale == b->long_mscale);
    assert_int_equal(a->factor_count, b->factor_count);
    for (size_t i = 0; i < a->factor_count; i++) {
        assert_true(a->short_factor[i] == b->short_factor[i] && a->long_factor[i] == b->long_factor[i]);
    }
}

static void both_rope_spellings_agree(void **state)
{
    (void)state;
    static const struct {
        const struct mt_arch *model;
        const char *scaling; // hub spelling, to be found
        const char *parameters;
        const char *theta;
    } cases[] = {
        {&mt_arch_deepseek_v2, "\"rope_scaling\": {", "\"rope_parameters\": {\"rope_theta\": 10000, ",
         ", \"rope_theta\": 10000,"},
        {&mt_arch_phimoe, "\"rope_scaling\": {", "\"rope_parameters\": {\"rope_theta\": 10000.0, ",
         ", \"rope_theta\": 10000.0,"},
        {&mt_arch_deepseek, "\"rope_scaling\": null",
         "\"rope_parameters\": {\"rope_theta\": 10000, \"rope_type\": \"default\"}",
         ", \"rope_theta\": 10000,"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mt_context ctx;
        struct mt_context new_ctx;
        struct mt_hf_config config;
        struct mt_hf_config new_config;
        const char *text = model_config_text(cases[i].model);
        char *without_theta = edit(text, cases[i].theta, ",");
        char *spelt = edit(without_theta, cases[i].scaling, cases[i].parameters);
        char *typed = strstr(spelt, "\"type\"") != NULL ? edit(spelt, "\"type\"", "\"rope_type\"")
                                                        : edit(spelt, "{", "{");
        read_text(text, &ctx, &config);
        read_text(typed, &new_ctx, &new_config);
        same_rope(&config.rope, &new_config.rope);
        done(&ctx, &config);
        done(&new_ctx, &new_config);
        free(without_theta);
        free(spelt);
        free(typed);
    }
}

/* The least a file may say: everything else comes from the class. */
static void class_defaults(void **state)
{
    (void)state;
    static const char format[] =
        "{\"model_type\": \"%s\", \"vocab_size\": 100, \"hidden_size\": 128, \"num_hidden_layers\": 4,"
        " \"num_attention_heads\": 32, \"intermediate_size\": 32, \"moe_intermediate_size\": 16,"
        " \"shared_expert_intermediate_size\": 24, \"num_experts\": 8, \"num_experts_per_tok\": 2, "
        "\"max_position_embeddings\": 128}";
    static const struct {
        const struct mt_arch *model;
        double epsilon, theta, aux;
        int kv_heads, q_rank, shared, first_dense, bos, eos;
        bool normalised;
    } expected[] = {
        {&mt_arch_deepseek, 1e-6, 1e4, 0.001, 32, 0, 0, 0, 100000, 100001, false},
        {&mt_arch_deepseek_v2, 1e-6, 1e4, 0.001, 32, 1536, 2, 0, 1, 2, false},
        {&mt_arch_deepseek_v3, 1e-6, 1e4, 0.001, 32, 1536, 1, 3, 0, 1, true},
        {&mt_arch_mixtral, 1e-5, 1e6, 0.001, 8, 0, 0, 0, 1, 2, true},
        {&mt_arch_phimoe, 1e-5, 1e6, 0.001, 8, 0, 0, 0, 1, 2, false},
        {&mt_arch_olmoe, 1e-5, 1e4, 0.01, 32, 0, 0, 0, -1, 50279, false},
        {&mt_arch_qwen3_moe, 1e-6, 1e4, 0.001, 4, 0, 0, 0, -1, -1, false},
        {&mt_arch_glm4_moe_lite, 1e-5, 1e4, 0.0, 32, 768, 1, 1, 0, 1, true},
        {&mt_arch_qwen2_moe, 1e-6, 1e4, 0.001, 16, 0, 1, 0, -1, -1, false},
        {&mt_arch_glm4_moe, 1e-5, 1e4, 0.0, 8, 0, 1, 1, -1, -1, true},
        {&mt_arch_dots1, 1e-6, 1e4, 0.0, 32, 0, 0, 0, -1, -1, false},
        {&mt_arch_ernie4_5_moe, 1e-5, 5e5, 0.001, 4, 0, 2, 1, 1, 2, true},
        {&mt_arch_gpt_oss, 1e-5, 150000.0, 0.001, 8, 0, 0, 0, -1, -1, true},
    };
    assert_int_equal(sizeof expected / sizeof expected[0], MT_ARCH_COUNT);
    for (size_t m = 0; m < MT_ARCH_COUNT; m++) {
        char text[512];
        struct mt_context ctx;
        struct mt_hf_config config;
        (void)snprintf(text, sizeof text, format, expected[m].model->name);
        read_text(text, &ctx, &config);
        assert_true(config.norm_epsilon == expected[m].epsilon && config.rope.theta == expected[m].theta);
        assert_true(config.aux_loss_coefficient == expected[m].aux);
        assert_int_equal(config.kv_heads, expected[m].kv_heads);
        assert_int_equal(config.q_lora_rank, expected[m].q_rank);
        assert_int_equal(config.shared_experts, expected[m].shared);
        assert_int_equal(config.first_k_dense, expected[m].first_dense);
        assert_int_equal(config.bos, expected[m].bos);
        assert_int_equal(config.eos_count, expected[m].eos >= 0);
        if (config.eos_count > 0) assert_int_equal(config.eos[0], expected[m].eos);
        assert_int_equal(config.norm_topk_prob, expected[m].normalised);
        assert_int_equal(config.sliding_window, expected[m].model == &mt_arch_gpt_oss ? 128 : 0);
        assert_int_equal(config.dtype, MT_HF_FLOAT_UNKNOWN);
        done(&ctx, &config);
    }
}

static void spellings_that_are_accepted(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_hf_config config;
    char *text =
        edit(model_config_text(&mt_arch_olmoe), "\"eos_token_id\": 50279", "\"eos_token_id\": [1, 2, 3]");
    read_text(text, &ctx, &config);
    assert_int_equal(config.eos_count, 3);
    assert_int_equal(config.eos[2], 3);
    done(&ctx, &config);
    free(text);
    text = edit(model_config_text(&mt_arch_olmoe), "\"num_experts\": 64",
                "\"num_local_experts\": 64, \"dtype\": \"float16\"");
    read_text(text, &ctx, &config);
    assert_int_equal(config.experts, 64);
    assert_int_equal(config.dtype, MT_HF_FLOAT16);
    done(&ctx, &config);
    free(text);
    text = edit(model_config_text(&mt_arch_qwen3_moe), "\"mlp_only_layers\": []",
                "\"mlp_only_layers\": [0, 5], \"x\": [[[1]]]");
    read_text(text, &ctx, &config);
    assert_false(mt_hf_config_layer_is_moe(&config, 5));
    assert_true(mt_hf_config_layer_is_moe(&config, 6));
    done(&ctx, &config);
    free(text);
    text =
        edit(model_config_text(&mt_arch_qwen3_moe), "\"sliding_window\": null", "\"sliding_window\": 4096");
    read_text(text, &ctx, &config);
    assert_int_equal(config.sliding_window, 0); // use_sliding_window is false
    done(&ctx, &config);
    free(text);
    text = edit(model_config_text(&mt_arch_qwen2_moe), "\"use_sliding_window\": false",
                "\"layer_types\": [\"full_attention\", \"full_attention\"], \"qkv_bias\": false");
    read_text(text, &ctx, &config);
    assert_false(config.attention_bias);
    done(&ctx, &config);
    free(text);
    text = edit(model_config_text(&mt_arch_mixtral), "\"sliding_window\": null", "\"sliding_window\": 4096");
    read_text(text, &ctx, &config);
    assert_int_equal(config.sliding_window, 4096);
    done(&ctx, &config);
    free(text);
    text = edit(model_config_text(&mt_arch_phimoe), "\"longrope\"", "\"su\"");
    read_text(text, &ctx, &config);
    assert_int_equal(config.rope.kind, MT_HF_ROPE_LONGROPE);
    done(&ctx, &config);
    free(text);
}

struct refusal {
    const struct mt_arch *model;
    const char *what;
    const char *with;
    const char *said;
};

#define QUANT(config, said)                                                                                  \
    {                                                                                                        \
        &mt_arch_mixtral, "\"sliding_window\": null", "\"quantization_config\": " config, said               \
    }

static const struct refusal refusals[] = {
    {&mt_arch_mixtral, "\"mixtral\"", "\"llama\"",
     "\"llama\"; known are deepseek deepseek_v2 deepseek_v3 mixtral phimoe olmoe qwen3_moe "
     "glm4_moe_lite qwen2_moe glm4_moe dots1 ernie4_5_moe gpt_oss"},
    {&mt_arch_mixtral, "\"model_type\": \"mixtral\", ", "", "model_type is missing"},
    {&mt_arch_mixtral, "\"hidden_size\": 4096, ", "", "hidden_size is missing"},
    {&mt_arch_mixtral, "\"hidden_size\": 4096", "\"hidden_size\": -1", "hidden_size is -1, expected 1 to"},
    {&mt_arch_mixtral, "\"hidden_size\": 4096", "\"hidden_size\": 4095", "is not a multiple of the 32 heads"},
    {&mt_arch_mixtral, "\"hidden_size\": 4096", "\"hidden_size\": \"4096\"", "is the string"},
    {&mt_arch_mixtral, "\"num_key_value_heads\": 8", "\"num_key_value_heads\": 7", "does not divide the 32"},
    {&mt_arch_mixtral, "\"num_key_value_heads\": 8", "\"num_key_value_heads\": 0", "is 0, expected 1 to"},
    {&mt_arch_mixtral, "\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 9",
     "there are only 8 experts"},
    {&mt_arch_mixtral, "\"num_local_experts\": 8", "\"num_local_experts\": 8, \"num_experts\": 9",
     "another key says 8 experts"},
    {&mt_arch_mixtral, "\"num_local_experts\": 8, ", "", "has none of n_routed_experts"},
    {&mt_arch_mixtral, "\"num_hidden_layers\": 32", "\"num_hidden_layers\": 1000000", "expected 1 to 1024"},
    {&mt_arch_mixtral, "\"silu\"", "\"gelu\"", "only silu is supported"},
    {&mt_arch_mixtral, "\"rms_norm_eps\": 1e-05", "\"rms_norm_eps\": 0", "rms_norm_eps is 0"},
    {&mt_arch_mixtral, "\"rope_theta\": 1000000.0", "\"rope_theta\": 0", "rope_theta is 0"},
    {&mt_arch_mixtral, "\"bfloat16\"", "\"float8_e4m3fn\"", "torch_dtype is \"float8_e4m3fn\""},
    QUANT("3", "quantization_config is a whole number, expected an object"),
    QUANT("{\"bits\": 4}", "quantization_config.quant_method is missing"),
    QUANT("{\"quant_method\": 4}", "quant_method is a whole number, expected a string"),
    QUANT("{\"quant_method\": \"gptq\", \"bits\": 4}", "quant_method is \"gptq\"; read are fp8"),
    QUANT("{\"quant_method\": \"awq\"}", "\"awq\"; read are fp8 in blocks of 128 x 128, bitsandbytes' nf4"),
    QUANT("{\"quant_method\": \"compressed-tensors\"}", "\"compressed-tensors\"; read are"),
    QUANT("{\"quant_method\": \"\\u001b[31m\"}", "\"?[31m\"; read are"),
    QUANT("{\"quant_method\": \"fp8\", \"weight_block_size\": [128, 64]}", "is not [128, 128]; read are"),
    QUANT("{\"quant_method\": \"fp8\", \"weight_block_size\": [128]}", "is not [128, 128]"),
    QUANT("{\"quant_method\": \"fp8\", \"weight_block_size\": [128, \"a\"]}", "weight_block_size[1] is"),
    QUANT("{\"quant_method\": \"fp8\", \"weight_block_size\": null}", "one scale for a whole weight"),
    QUANT("{\"quant_method\": \"fp8\", \"fmt\": \"e5m2\"}", "fmt is \"e5m2\", expected \"e4m3\""),
    QUANT("{\"quant_method\": \"fp8\", \"expert_dtype\": \"fp4\"}", "expert_dtype is \"fp4\""),
    QUANT("{\"quant_method\": \"fp8\", \"activation_scheme\": \"static\"}",
          "activation_scheme is not dynamic"),
    QUANT("{\"load_in_8bit\": true}", "load_in_8bit is true: bitsandbytes' 8-bit weights are not read"),
    QUANT("{\"quant_method\": \"bitsandbytes\"}", "is not true: 4-bit weights alone are read"),
    QUANT("{\"quant_method\": \"bitsandbytes\", \"load_in_4bit\": true}", "\"fp4\", bitsandbytes' own"),
    QUANT("{\"load_in_4bit\": true, \"bnb_4bit_quant_type\": \"fp4\"}", "bnb_4bit_quant_type is \"fp4\""),
    QUANT("{\"load_in_4bit\": true, \"bnb_4bit_quant_type\": \"nf4\", \"bnb_4bit_quant_storage\": "
          "\"bfloat16\"}",
          "bnb_4bit_quant_storage is \"bfloat16\", expected \"uint8\""),
    {&mt_arch_mixtral, "\"eos_token_id\": 2", "\"eos_token_id\": [2, -1]", "eos_token_id[1] is -1"},
    {&mt_arch_mixtral, "\"eos_token_id\": 2", "\"eos_token_id\": \"</s>\"", "expected a whole number"},
    {&mt_arch_deepseek_v2, "\"n_group\": 1", "\"n_group\": 7", "does not divide the 64 experts"},
    {&mt_arch_deepseek_v2, "\"topk_group\": 1", "\"topk_group\": 2", "there are only 1 groups"},
    {&mt_arch_deepseek_v2, "\"n_group\": 1", "\"n_group\": 32", "only 2 experts can be reached"},
    {&mt_arch_deepseek_v2, "\"greedy\"", "\"lottery\"", "topk_method is \"lottery\""},
    {&mt_arch_deepseek_v2, "\"scoring_func\": \"softmax\"", "\"scoring_func\": \"sparsemax\"",
     "scoring_func"},
    {&mt_arch_deepseek_v2, "\"type\": \"yarn\"", "\"type\": \"dynamic\"",
     "rope_scaling has the type \"dynamic\"; known are default, linear, yarn, longrope, su"},
    {&mt_arch_deepseek_v2, "\"factor\": 40", "\"factor\": 0.5", "rope_scaling.factor is 0.5"},
    {&mt_arch_deepseek_v2, "\"factor\": 40, ", "", "rope_scaling.factor is missing"},
    {&mt_arch_deepseek_v2, "\"beta_fast\": 32", "\"beta_fast\": 0.1", "beta_fast 0.1 below beta_slow 1"},
    {&mt_arch_deepseek_v2, "\"qk_rope_head_dim\": 64", "\"qk_rope_head_dim\": 63", "expected an even number"},
    {&mt_arch_deepseek_v2, "\"rope_theta\": 10000", "\"rope_parameters\": {}", "are both given"},
    {&mt_arch_deepseek_v2, "\"q_lora_rank\": null", "\"q_lora_rank\": 0", "q_lora_rank is 0"},
    {&mt_arch_phimoe, "\"short_factor\": [1.0, ", "\"short_factor\": [", "has 63 factors, expected 64"},
    {&mt_arch_phimoe, "\"short_factor\": [1.0", "\"short_factor\": [0", "rope_scaling.short_factor[0] is 0"},
    {&mt_arch_phimoe, "\"short_mscale\": 1.243163121016122, ", "", "rope_scaling.short_mscale is missing"},
    {&mt_arch_phimoe, "\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 3", "picks exactly 2"},
    {&mt_arch_qwen3_moe, "\"mlp_only_layers\": []", "\"mlp_only_layers\": [48]", "is 48, expected 0 to 47"},
    {&mt_arch_deepseek_v2, "\"factor\": 40", "\"factor\": 40, \"truncate\": 0", "rope_scaling.truncate"},
    {&mt_arch_qwen3_moe, "\"decoder_sparse_step\": 1", "\"decoder_sparse_step\": 0", "is 0"},
    {&mt_arch_qwen3_moe, "\"head_dim\": 128", "\"head_dim\": 3", "expected an even number"},
    {&mt_arch_qwen3_moe, "\"rope_scaling\": null", "\"rope_scaling\": []", "expected an object"},
    {&mt_arch_glm4_moe_lite, "\"n_group\": 1", "\"mlp_layer_types\": [\"dense\"]",
     "mlp_layer_types has 1 layers, num_hidden_layers is 47"},
    {&mt_arch_glm4_moe_lite, "\"num_hidden_layers\": 47",
     "\"num_hidden_layers\": 2, \"mlp_layer_types\": [\"dense\", \"moe\"]",
     "mlp_layer_types[1] is neither dense nor sparse"},
    {&mt_arch_glm4_moe_lite, "\"partial_rotary_factor\": 1.0", "\"partial_rotary_factor\": 0.5",
     "partial_rotary_factor is 0.5: this architecture rotates whole heads"},
    {&mt_arch_glm4_moe, "\"partial_rotary_factor\": 0.5", "\"partial_rotary_factor\": 1.5",
     "partial_rotary_factor is 1.5, expected 1e-06 to 1"},
    {&mt_arch_glm4_moe, "\"partial_rotary_factor\": 0.5", "\"partial_rotary_factor\": 0",
     "partial_rotary_factor is 0, expected 1e-06 to 1"},
    {&mt_arch_glm4_moe, "\"rope_scaling\": null, \"rope_theta\": 1000000",
     "\"rope_parameters\": {\"rope_theta\": 1000000, \"partial_rotary_factor\": 0.0118}",
     "partial_rotary_factor is 0.0118, which rotates 1 of"},
    {&mt_arch_glm4_moe, "\"partial_rotary_factor\": 0.5", "\"partial_rotary_factor\": 0.01",
     "which rotates 1 of a head's 128 elements"},
    {&mt_arch_glm4_moe, "\"use_qk_norm\": false", "\"use_qk_norm\": 0", "use_qk_norm is a whole number"},
    {&mt_arch_glm4_moe, "\"n_group\": 1", "\"n_group\": 3", "does not divide the 128 experts"},
    {&mt_arch_dots1, "\"sliding_window\": null", "\"max_window_layers\": 61",
     "max_window_layers is 61: only some layers would have a window"},
    {&mt_arch_dots1, "\"sliding_window\": null", "\"layer_types\": [\"sliding_attention\"]",
     "layer_types[0] is not full_attention"},
    {&mt_arch_gpt_oss, "\"layer_types\": [", "\"layer_types\": [\"full_attention\", ",
     "layer_types has 25 entries for 24 layers"},
    {&mt_arch_gpt_oss, "\"full_attention\"]", "\"linear_attention\"]",
     "layer_types[23] is neither full_attention nor sliding_attention"},
    {&mt_arch_gpt_oss, "\"swiglu_limit\": 7.0", "\"swiglu_limit\": -1.0",
     "swiglu_limit is -1, expected 1e-06 to"},
    {&mt_arch_gpt_oss, "\"sliding_window\": 128", "\"sliding_window\": null",
     "sliding_window is null, expected how many tokens the layers of sliding_attention see"},
    {&mt_arch_gpt_oss, "\"sliding_window\": 128", "\"sliding_window\": 0",
     "sliding_window is 0, expected 1 to"},
    {&mt_arch_gpt_oss, "\"layer_types\": [", "\"layer_types\": \"all\", \"x\": [",
     "layer_types is the string \"all\", expected an array"},
    {&mt_arch_gpt_oss, "\"rope_type\": \"yarn\"", "\"rope_type\": \"llama3\"",
     "rope_scaling has the type \"llama3\"; known are default, linear, yarn, longrope, su"},
    {&mt_arch_gpt_oss, "\"num_experts_per_tok\": 4", "\"num_experts_per_tok\": 33",
     "there are only 32 experts"},
    {&mt_arch_gpt_oss, "\"num_key_value_heads\": 8", "\"num_key_value_heads\": 7",
     "does not divide the 64 attention heads"},
    {&mt_arch_glm4_moe, "\"rope_scaling\": null", "\"rope_scaling\": {\"type\": \"odd\"}",
     "the type \"odd\""},
    {&mt_arch_glm4_moe, "\"n_group\": 1", "\"n_group\": 32", "only 4 experts can be reached, 8 are wanted"},
    {&mt_arch_dots1, "\"rope_scaling\": null", "\"rope_scaling\": {\"type\": \"odd\"}", "the type \"odd\""},
    {&mt_arch_dots1, "\"n_group\": 1", "\"n_group\": 5", "does not divide the 128 experts"},
    {&mt_arch_ernie4_5_moe, "\"rope_scaling\": null", "\"rope_scaling\": {\"type\": \"odd\"}",
     "the type \"odd\""},
    {&mt_arch_ernie4_5_moe, "\"moe_k\": 6", "\"moe_k\": 65", "there are only 64 experts"},
    {&mt_arch_ernie4_5_moe, "\"moe_num_experts\": 64", "\"moe_num_experts\": [64, 64]", "is an array"},
    {&mt_arch_ernie4_5_moe, "\"use_bias\": false", "\"use_bias\": true", "would give the experts biases"},
    {&mt_arch_ernie4_5_moe, "\"moe_k\": 6, ", "", "has neither num_experts_per_tok nor moe_k"},
    {&mt_arch_ernie4_5_moe, "\"moe_k\": 6", "\"moe_k\": 6, \"num_experts_per_tok\": 5",
     "another key says 5 experts"},
    {&mt_arch_ernie4_5_moe, "\"moe_layer_end_index\": 27", "\"moe_layer_end_index\": -2",
     "moe_layer_end_index is -2, expected -1 to"},
    {&mt_arch_qwen2_moe, "\"shared_expert_intermediate_size\": 5632", "\"x\": 0",
     "shared_expert_intermediate_size is missing"},
    {&mt_arch_qwen2_moe, "\"shared_expert_intermediate_size\": 5632",
     "\"shared_expert_intermediate_size\": 0", "shared_expert_intermediate_size is 0, expected 1 to"},
    {&mt_arch_qwen2_moe, "\"use_sliding_window\": false", "\"use_sliding_window\": true",
     "use_sliding_window is true: only some layers would have a window"},
    {&mt_arch_qwen2_moe, "\"use_sliding_window\": false", "\"use_sliding_window\": 1",
     "use_sliding_window is a whole number, expected true or false"},
    {&mt_arch_qwen2_moe, "\"use_sliding_window\": false",
     "\"layer_types\": [\"full_attention\", \"sliding_attention\"]", "layer_types[1] is not full_attention"},
    {&mt_arch_qwen2_moe, "\"use_sliding_window\": false", "\"layer_types\": [0]",
     "layer_types[0] is a whole number, expected a string"},
    {&mt_arch_qwen2_moe, "\"use_sliding_window\": false", "\"qkv_bias\": \"yes\"", "qkv_bias is"},
    {&mt_arch_qwen2_moe, "\"use_sliding_window\": false", "\"mlp_only_layers\": [24]",
     "mlp_only_layers[0] is 24"},
};

/* What is read, and as what. */
static void quantised_formats(void **state)
{
    static const struct {
        const char *config;
        enum mt_hf_quant_method method;
    } cases[] = {
        {"null", MT_HF_QUANT_NONE},
        {"{\"quant_method\": \"fp8\"}", MT_HF_QUANT_FP8},
        {"{\"quant_method\": \"fp8\", \"fmt\": \"e4m3\", \"weight_block_size\": [128, 128], "
         "\"activation_scheme\": \"dynamic\", \"scale_fmt\": \"ue8m0\"}",
         MT_HF_QUANT_FP8},
        {"{\"quant_method\": \"mxfp4\", \"modules_to_not_convert\": [\"lm_head\"]}", MT_HF_QUANT_MXFP4},
        {"{\"load_in_4bit\": true, \"bnb_4bit_quant_type\": \"nf4\"}", MT_HF_QUANT_NF4},
        {"{\"quant_method\": \"bitsandbytes\", \"load_in_4bit\": true, \"load_in_8bit\": false, "
         "\"bnb_4bit_quant_type\": \"nf4\", \"bnb_4bit_quant_storage\": \"uint8\"}",
         MT_HF_QUANT_NF4},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char with[400];
        (void)snprintf(with, sizeof with, "\"quantization_config\": %s", cases[i].config);
        char *text = edit(model_config_text(&mt_arch_mixtral), "\"sliding_window\": null", with);
        struct mt_context ctx;
        struct mt_hf_config config;
        mt_context_init(&ctx, NULL);
        if (mt_hf_config_read(&ctx, "config.json", text, strlen(text), &config) != MT_OK)
            fail_msg("%s: %s", cases[i].config, ctx.message);
        assert_int_equal(config.quant.method, cases[i].method);
        assert_true(config.quant.activations == (cases[i].method == MT_HF_QUANT_FP8));
        mt_hf_config_free(&config);
        free(text);
    }
}

static void impossible_values(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const struct refusal *refusal = &refusals[i];
        char *text = edit(model_config_text(refusal->model), refusal->what, refusal->with);
        struct mt_context ctx;
        struct mt_hf_config config;
        mt_context_init(&ctx, NULL);
        enum mt_status status = mt_hf_config_read(&ctx, "config.json", text, strlen(text), &config);
        if (status == MT_OK || strstr(ctx.message, refusal->said) == NULL) {
            fail_msg("%s: '%s', expected '%s'", refusal->with, ctx.message, refusal->said);
        }
        assert_non_null(strstr(ctx.message, "config.json: "));
        assert_int_equal(ctx.live_bytes, 0);
        free(text);
    }
}

/* Any config that is accepted keeps its promises. */
static void check_accepted(const struct mt_hf_config *config)
{
    assert_true(config->heads > 0 && config->heads % config->kv_heads == 0);
    assert_true(config->experts_per_token >= 1 && config->experts_per_token <= config->experts);
    assert_true(config->head_dim > 0);
    assert_int_equal((mt_hf_config_is_mla(config) ? config->qk_rope_head_dim : config->head_dim) % 2, 0);
    assert_true(isfinite(config->rope.theta) && config->rope.theta >= 1.0);
    assert_true(config->layers >= 1 && config->layers <= 1024);
}

static void cut_or_changed_anywhere(void **state)
{
    (void)state;
    static const struct mt_arch *const models[] = {&mt_arch_deepseek_v2, &mt_arch_olmoe};
    static const unsigned char flips[] = {0x01, 0x02, 0x04, 0x08, 0x10, 0x40, 0x80};
    for (size_t m = 0; m < 2; m++) {
        char *text = edit(model_config_text(models[m]), "{", "{");
        size_t count = strlen(text);
        for (size_t i = 0; i < count; i++) {
            for (size_t f = 0; f <= sizeof flips; f++) {
                struct mt_context ctx;
                struct mt_hf_config config;
                mt_context_init(&ctx, NULL);
                char original = text[i];
                size_t length = f == sizeof flips ? i : count; // the last of each turn is a cut
                if (f < sizeof flips) text[i] = (char)(original ^ (char)flips[f]);
                enum mt_status status = mt_hf_config_read(&ctx, "config.json", text, length, &config);
                text[i] = original;
                if (status == MT_OK) {
                    check_accepted(&config);
                    mt_hf_config_free(&config);
                } else {
                    assert_int_not_equal(strlen(ctx.message), 0);
                }
                assert_int_equal(ctx.live_bytes, 0);
            }
        }
        free(text);
    }
}

static enum mt_status parse_once(struct mt_context *ctx, const void *self)
{
    struct mt_hf_config config;
    const char *text = self;
    enum mt_status status = mt_hf_config_read(ctx, "config.json", text, strlen(text), &config);
    mt_hf_config_free(&config);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    assert_every_allocation_may_fail(parse_once, model_config_text(&mt_arch_phimoe), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_model),
        cmocka_unit_test(newer_models),
        cmocka_unit_test(both_rope_spellings_agree),
        cmocka_unit_test(class_defaults),
        cmocka_unit_test(spellings_that_are_accepted),
        cmocka_unit_test(quantised_formats),
        cmocka_unit_test(impossible_values),
        cmocka_unit_test(cut_or_changed_anywhere),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
