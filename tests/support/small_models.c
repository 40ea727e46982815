/* Small models: every shape different from every other, wherever the architecture lets it. */
#include "support/small_models.h"

#include <string.h>

#include "model/files/init.h"

static const char deepseek[] =
    "{\"model_type\": \"deepseek\", \"attention_bias\": true, \"first_k_dense_replace\": 1,"
    " \"hidden_size\": 24, \"intermediate_size\": 44, \"max_position_embeddings\": 64,"
    " \"moe_intermediate_size\": 10, \"n_routed_experts\": 6, \"n_shared_experts\": 2,"
    " \"norm_topk_prob\": true, \"num_attention_heads\": 6, \"num_experts_per_tok\": 3,"
    " \"num_hidden_layers\": 3, \"num_key_value_heads\": 2, \"rms_norm_eps\": 1e-06,"
    " \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2.0}, \"rope_theta\": 10000,"
    " \"vocab_size\": 53, \"initializer_range\": 0.3}";

static const char deepseek_v2[] =
    "{\"model_type\": \"deepseek_v2\", \"first_k_dense_replace\": 1, \"hidden_size\": 24,"
    " \"intermediate_size\": 44, \"kv_lora_rank\": 14, \"max_position_embeddings\": 256,"
    " \"moe_intermediate_size\": 10, \"n_group\": 4, \"n_routed_experts\": 8, \"n_shared_experts\": 1,"
    " \"norm_topk_prob\": false, \"num_attention_heads\": 3, \"num_experts_per_tok\": 3,"
    " \"num_hidden_layers\": 3, \"num_key_value_heads\": 3, \"q_lora_rank\": 18,"
    " \"qk_nope_head_dim\": 10, \"qk_rope_head_dim\": 6, \"rms_norm_eps\": 1e-05,"
    " \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 8, \"beta_fast\": 32, \"beta_slow\": 1,"
    " \"mscale\": 0.9, \"mscale_all_dim\": 0.7, \"original_max_position_embeddings\": 32},"
    " \"rope_theta\": 10000, \"routed_scaling_factor\": 2.5, \"topk_group\": 2,"
    " \"topk_method\": \"group_limited_greedy\", \"v_head_dim\": 12, \"vocab_size\": 53,"
    " \"initializer_range\": 0.3}";

static const char deepseek_v3[] =
    "{\"model_type\": \"deepseek_v3\", \"attention_bias\": true, \"first_k_dense_replace\": 1,"
    " \"hidden_size\": 24, \"intermediate_size\": 44, \"kv_lora_rank\": 14,"
    " \"max_position_embeddings\": 64, \"moe_intermediate_size\": 10, \"n_group\": 4,"
    " \"n_routed_experts\": 8, \"n_shared_experts\": 2, \"norm_topk_prob\": true,"
    " \"num_attention_heads\": 3, \"num_experts_per_tok\": 3, \"num_hidden_layers\": 3,"
    " \"num_key_value_heads\": 3, \"q_lora_rank\": null, \"qk_nope_head_dim\": 10,"
    " \"qk_rope_head_dim\": 6, \"rms_norm_eps\": 1e-05, \"rope_theta\": 50000.0,"
    " \"routed_scaling_factor\": 2.446, \"scoring_func\": \"sigmoid\", \"topk_group\": 2,"
    " \"topk_method\": \"noaux_tc\", \"v_head_dim\": 12, \"vocab_size\": 53, \"initializer_range\": 0.3}";

static const char mixtral[] =
    "{\"model_type\": \"mixtral\", \"hidden_size\": 24, \"intermediate_size\": 20,"
    " \"max_position_embeddings\": 64, \"num_attention_heads\": 6, \"num_experts_per_tok\": 2,"
    " \"num_hidden_layers\": 2, \"num_key_value_heads\": 2, \"num_local_experts\": 5,"
    " \"rms_norm_eps\": 1e-05, \"rope_theta\": 1000000.0, \"sliding_window\": 5,"
    " \"tie_word_embeddings\": true, \"vocab_size\": 53, \"initializer_range\": 0.3}";

static const char phimoe[] =
    "{\"model_type\": \"phimoe\", \"attention_bias\": true, \"hidden_size\": 24,"
    " \"input_jitter_noise\": 0.01, \"intermediate_size\": 20, \"lm_head_bias\": true,"
    " \"max_position_embeddings\": 128, \"num_attention_heads\": 6, \"num_experts_per_tok\": 2,"
    " \"num_hidden_layers\": 2, \"num_key_value_heads\": 2, \"num_local_experts\": 5,"
    " \"original_max_position_embeddings\": 32, \"rms_norm_eps\": 1e-05,"
    " \"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [1.0, 1.05],"
    " \"long_factor\": [1.02, 9.5], \"short_mscale\": 1.243163121016122, \"long_mscale\": 1.3,"
    " \"original_max_position_embeddings\": 32}, \"rope_theta\": 10000.0,"
    " \"router_jitter_noise\": 0.01, \"sliding_window\": 128, \"vocab_size\": 53,"
    " \"initializer_range\": 0.3}";

static const char olmoe[] =
    "{\"model_type\": \"olmoe\", \"attention_bias\": true, \"clip_qkv\": 0.8, \"hidden_size\": 24,"
    " \"intermediate_size\": 10, \"max_position_embeddings\": 64, \"norm_topk_prob\": false,"
    " \"num_attention_heads\": 6, \"num_experts\": 7, \"num_experts_per_tok\": 3,"
    " \"num_hidden_layers\": 2, \"num_key_value_heads\": 2, \"rms_norm_eps\": 1e-05,"
    " \"rope_theta\": 10000.0, \"vocab_size\": 53, \"initializer_range\": 0.3}";

static const char qwen3_moe[] =
    "{\"model_type\": \"qwen3_moe\", \"attention_bias\": true, \"decoder_sparse_step\": 1,"
    " \"head_dim\": 6, \"hidden_size\": 24, \"intermediate_size\": 44, \"max_position_embeddings\": 64,"
    " \"mlp_only_layers\": [1], \"moe_intermediate_size\": 10, \"norm_topk_prob\": true,"
    " \"num_attention_heads\": 6, \"num_experts\": 7, \"num_experts_per_tok\": 3,"
    " \"num_hidden_layers\": 3, \"num_key_value_heads\": 2, \"rms_norm_eps\": 1e-06,"
    " \"rope_theta\": 1000000.0, \"sliding_window\": 6, \"use_sliding_window\": true,"
    " \"vocab_size\": 53, \"initializer_range\": 0.3}";

static const char glm4_moe_lite[] =
    "{\"model_type\": \"glm4_moe_lite\", \"attention_bias\": true, \"hidden_size\": 24,"
    " \"intermediate_size\": 44, \"kv_lora_rank\": 14, \"max_position_embeddings\": 64,"
    " \"mlp_layer_types\": [\"sparse\", \"dense\", \"sparse\"], \"moe_intermediate_size\": 10,"
    " \"n_group\": 2, \"n_routed_experts\": 8, \"n_shared_experts\": 1, \"norm_topk_prob\": true,"
    " \"num_attention_heads\": 3, \"num_experts_per_tok\": 3, \"num_hidden_layers\": 3,"
    " \"num_key_value_heads\": 3, \"q_lora_rank\": 16, \"qk_nope_head_dim\": 10,"
    " \"qk_rope_head_dim\": 6, \"rms_norm_eps\": 1e-05,"
    " \"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 1000000.0},"
    " \"routed_scaling_factor\": 1.8, \"topk_group\": 1, \"v_head_dim\": 12, \"vocab_size\": 53,"
    " \"initializer_range\": 0.3}";

static const char qwen2_moe[] =
    "{\"model_type\": \"qwen2_moe\", \"decoder_sparse_step\": 1, \"hidden_size\": 24,"
    " \"intermediate_size\": 44, \"max_position_embeddings\": 64, \"mlp_only_layers\": [1],"
    " \"moe_intermediate_size\": 10, \"norm_topk_prob\": false, \"num_attention_heads\": 6,"
    " \"num_experts\": 7, \"num_experts_per_tok\": 3, \"num_hidden_layers\": 3,"
    " \"num_key_value_heads\": 2, \"qkv_bias\": true, \"rms_norm_eps\": 1e-06,"
    " \"rope_theta\": 1000000.0, \"shared_expert_intermediate_size\": 18, \"vocab_size\": 53,"
    " \"initializer_range\": 0.3}";

static const char glm4_moe[] =
    "{\"model_type\": \"glm4_moe\", \"attention_bias\": true, \"first_k_dense_replace\": 1,"
    " \"head_dim\": 12, \"hidden_size\": 24, \"intermediate_size\": 44, \"max_position_embeddings\": 64,"
    " \"moe_intermediate_size\": 10, \"n_group\": 4, \"n_routed_experts\": 8, \"n_shared_experts\": 1,"
    " \"norm_topk_prob\": true, \"num_attention_heads\": 4, \"num_experts_per_tok\": 3,"
    " \"num_hidden_layers\": 3, \"num_key_value_heads\": 2, \"partial_rotary_factor\": 0.5,"
    " \"rms_norm_eps\": 1e-05, \"rope_theta\": 1000000.0, \"routed_scaling_factor\": 2.5,"
    " \"topk_group\": 2, \"use_qk_norm\": true, \"vocab_size\": 53, \"initializer_range\": 0.3}";

static const char dots1[] =
    "{\"model_type\": \"dots1\", \"attention_bias\": true, \"first_k_dense_replace\": 1,"
    " \"head_dim\": 6, \"hidden_size\": 24, \"intermediate_size\": 44, \"max_position_embeddings\": 64,"
    " \"moe_intermediate_size\": 10, \"n_group\": 2, \"n_routed_experts\": 8, \"n_shared_experts\": 2,"
    " \"norm_topk_prob\": true, \"num_attention_heads\": 6, \"num_experts_per_tok\": 3,"
    " \"num_hidden_layers\": 3, \"num_key_value_heads\": 2, \"rms_norm_eps\": 1e-05,"
    " \"rope_theta\": 10000.0, \"routed_scaling_factor\": 2.5, \"sliding_window\": null,"
    " \"topk_group\": 1, \"vocab_size\": 53, \"initializer_range\": 0.3}";

static const char ernie4_5_moe[] =
    "{\"model_type\": \"ernie4_5_moe\", \"hidden_size\": 24, \"intermediate_size\": 44,"
    " \"max_position_embeddings\": 64, \"moe_intermediate_size\": 10, \"moe_k\": 3,"
    " \"moe_layer_end_index\": 2, \"moe_layer_interval\": 1, \"moe_layer_start_index\": 1,"
    " \"moe_num_experts\": 7, \"moe_num_shared_experts\": 2, \"num_attention_heads\": 6,"
    " \"num_hidden_layers\": 4, \"num_key_value_heads\": 2, \"rms_norm_eps\": 1e-05,"
    " \"rope_theta\": 500000.0, \"vocab_size\": 53, \"initializer_range\": 0.3}";

static const char gpt_oss[] =
    "{\"model_type\": \"gpt_oss\", \"head_dim\": 12, \"hidden_size\": 24, \"intermediate_size\": 10,"
    " \"max_position_embeddings\": 64, \"num_attention_heads\": 4, \"num_experts_per_tok\": 3,"
    " \"num_hidden_layers\": 3, \"num_key_value_heads\": 2, \"num_local_experts\": 7,"
    " \"rms_norm_eps\": 1e-05, \"rope_theta\": 150000.0, \"sliding_window\": 4, \"swiglu_limit\": 1.0,"
    " \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4.0,"
    " \"original_max_position_embeddings\": 16, \"truncate\": false}, \"vocab_size\": 53,"
    " \"initializer_range\": 0.3}";

const char *small_model_config(const struct mt_arch *model)
{
    const struct {
        const struct mt_arch *model;
        const char *text;
    } texts[] = {
        {&mt_arch_deepseek, deepseek},
        {&mt_arch_deepseek_v2, deepseek_v2},
        {&mt_arch_deepseek_v3, deepseek_v3},
        {&mt_arch_mixtral, mixtral},
        {&mt_arch_phimoe, phimoe},
        {&mt_arch_olmoe, olmoe},
        {&mt_arch_qwen3_moe, qwen3_moe},
        {&mt_arch_glm4_moe_lite, glm4_moe_lite},
        {&mt_arch_qwen2_moe, qwen2_moe},
        {&mt_arch_glm4_moe, glm4_moe},
        {&mt_arch_dots1, dots1},
        {&mt_arch_ernie4_5_moe, ernie4_5_moe},
        {&mt_arch_gpt_oss, gpt_oss},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (texts[i].model == model) return texts[i].text;
    }
    return "{}"; // no model: what reads it fails
}

int small_model_make(const struct workplace *place, const char *config, enum mt_hf_float dtype, uint64_t seed)
{
    char path[128];
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    if (workplace_write(place, "config.json", config, strlen(config)) != 0) return 1;
    const struct mt_model_init_options options = {
        .config = workplace_path(place, "config.json", path, sizeof path),
        .directory = place->directory,
        .seed = seed,
        .dtype = dtype,
        .deviation = -1.0,
        .threads = 1,
    };
    return mt_model_init(&ctx, &options, NULL) == MT_OK ? 0 : 1;
}
