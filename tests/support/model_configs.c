/* config.json of the models. */
#include "support/model_configs.h"

#define ONES_8            "1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0"
#define LONG_8            "1.02, 1.03, 1.04, 1.05, 4.5, 9.0, 30.25, 64.0"

#define EIGHT_TIMES(list) list ", " list ", " list ", " list ", " list ", " list ", " list ", " list

static const char deepseek[] =
    "{\"model_type\": \"deepseek\", \"attention_bias\": false, \"aux_loss_alpha\": 0.001,"
    " \"bos_token_id\": 100000, \"eos_token_id\": 100001, \"first_k_dense_replace\": 1,"
    " \"hidden_act\": \"silu\", \"hidden_size\": 2048, \"intermediate_size\": 10944,"
    " \"max_position_embeddings\": 4096, \"moe_intermediate_size\": 1408, \"moe_layer_freq\": 1,"
    " \"n_routed_experts\": 64, \"n_shared_experts\": 2, \"norm_topk_prob\": false,"
    " \"num_attention_heads\": 16, \"num_experts_per_tok\": 6, \"num_hidden_layers\": 28,"
    " \"num_key_value_heads\": 16, \"rms_norm_eps\": 1e-06, \"rope_scaling\": null, \"rope_theta\": 10000,"
    " \"scoring_func\": \"softmax\", \"seq_aux\": true, \"tie_word_embeddings\": false,"
    " \"torch_dtype\": \"bfloat16\", \"vocab_size\": 102400}";

static const char deepseek_v2[] =
    "{\"model_type\": \"deepseek_v2\", \"attention_bias\": false, \"aux_loss_alpha\": 0.001,"
    " \"bos_token_id\": 100000, \"eos_token_id\": 100001, \"first_k_dense_replace\": 1,"
    " \"hidden_act\": \"silu\", \"hidden_size\": 2048, \"intermediate_size\": 10944, \"kv_lora_rank\": 512,"
    " \"max_position_embeddings\": 163840, \"moe_intermediate_size\": 1408, \"moe_layer_freq\": 1,"
    " \"n_group\": 1, \"n_routed_experts\": 64, \"n_shared_experts\": 2, \"norm_topk_prob\": false,"
    " \"num_attention_heads\": 16, \"num_experts_per_tok\": 6, \"num_hidden_layers\": 27,"
    " \"num_key_value_heads\": 16, \"q_lora_rank\": null, \"qk_nope_head_dim\": 128,"
    " \"qk_rope_head_dim\": 64, \"rms_norm_eps\": 1e-06, \"rope_scaling\": {\"beta_fast\": 32,"
    " \"beta_slow\": 1, \"factor\": 40, \"mscale\": 0.707, \"mscale_all_dim\": 0.707,"
    " \"original_max_position_embeddings\": 4096, \"type\": \"yarn\"}, \"rope_theta\": 10000,"
    " \"routed_scaling_factor\": 1.0, \"scoring_func\": \"softmax\", \"seq_aux\": true,"
    " \"tie_word_embeddings\": false, \"topk_group\": 1, \"topk_method\": \"greedy\","
    " \"torch_dtype\": \"bfloat16\", \"v_head_dim\": 128, \"vocab_size\": 102400}";

static const char deepseek_v3[] =
    "{\"model_type\": \"deepseek_v3\", \"attention_bias\": false, \"aux_loss_alpha\": 0.001,"
    " \"bos_token_id\": 163584, \"eos_token_id\": 163586, \"first_k_dense_replace\": 1,"
    " \"hidden_act\": \"silu\", \"hidden_size\": 2048, \"intermediate_size\": 11264, \"kv_lora_rank\": 512,"
    " \"max_position_embeddings\": 8192, \"moe_intermediate_size\": 1408, \"moe_layer_freq\": 1,"
    " \"n_group\": 1, \"n_routed_experts\": 64, \"n_shared_experts\": 2, \"norm_topk_prob\": true,"
    " \"num_attention_heads\": 16, \"num_experts_per_tok\": 6, \"num_hidden_layers\": 27,"
    " \"num_key_value_heads\": 16, \"num_nextn_predict_layers\": 0, \"q_lora_rank\": null,"
    " \"qk_nope_head_dim\": 128, \"qk_rope_head_dim\": 64, \"rms_norm_eps\": 1e-05,"
    " \"rope_theta\": 50000.0, \"routed_scaling_factor\": 2.446, \"scoring_func\": \"sigmoid\","
    " \"seq_aux\": true, \"tie_word_embeddings\": false, \"topk_group\": 1, \"topk_method\": \"noaux_tc\","
    " \"torch_dtype\": \"bfloat16\", \"v_head_dim\": 128, \"vocab_size\": 163840}";

static const char mixtral[] =
    "{\"model_type\": \"mixtral\", \"bos_token_id\": 1, \"eos_token_id\": 2, \"hidden_act\": \"silu\","
    " \"hidden_size\": 4096, \"intermediate_size\": 14336, \"max_position_embeddings\": 32768,"
    " \"num_attention_heads\": 32, \"num_experts_per_tok\": 2, \"num_hidden_layers\": 32,"
    " \"num_key_value_heads\": 8, \"num_local_experts\": 8, \"rms_norm_eps\": 1e-05,"
    " \"rope_theta\": 1000000.0, \"router_aux_loss_coef\": 0.02, \"sliding_window\": null,"
    " \"tie_word_embeddings\": false, \"torch_dtype\": \"bfloat16\", \"vocab_size\": 32000}";

static const char phimoe[] =
    "{\"model_type\": \"phimoe\", \"attention_bias\": true, \"bos_token_id\": 1, \"eos_token_id\": 32000,"
    " \"hidden_act\": \"silu\", \"hidden_size\": 4096, \"input_jitter_noise\": 0.01,"
    " \"intermediate_size\": 6400, \"lm_head_bias\": true, \"max_position_embeddings\": 131072,"
    " \"num_attention_heads\": 32, \"num_experts_per_tok\": 2, \"num_hidden_layers\": 32,"
    " \"num_key_value_heads\": 8, \"num_local_experts\": 16, \"original_max_position_embeddings\": 4096,"
    " \"rms_norm_eps\": 1e-05, \"rope_scaling\": {\"type\": \"longrope\","
    " \"short_factor\": [" EIGHT_TIMES(ONES_8) "], \"long_factor\": [" EIGHT_TIMES(
        LONG_8) "],"
                " \"short_mscale\": 1.243163121016122, \"long_mscale\": 1.243163121016122,"
                " \"original_max_position_embeddings\": 4096}, \"rope_theta\": 10000.0, "
                "\"router_aux_loss_coef\": 0.0,"
                " \"router_jitter_noise\": 0.01, \"sliding_window\": 131072, \"tie_word_embeddings\": false,"
                " \"torch_dtype\": \"bfloat16\", \"vocab_size\": 32064}";

static const char olmoe[] =
    "{\"model_type\": \"olmoe\", \"attention_bias\": false, \"clip_qkv\": null, \"eos_token_id\": 50279,"
    " \"hidden_act\": \"silu\", \"hidden_size\": 2048, \"intermediate_size\": 1024,"
    " \"max_position_embeddings\": 4096, \"norm_topk_prob\": false, \"num_attention_heads\": 16,"
    " \"num_experts\": 64, \"num_experts_per_tok\": 8, \"num_hidden_layers\": 16,"
    " \"num_key_value_heads\": 16, \"pad_token_id\": 1, \"rms_norm_eps\": 1e-05, \"rope_scaling\": null,"
    " \"rope_theta\": 10000.0, \"router_aux_loss_coef\": 0.01, \"tie_word_embeddings\": false,"
    " \"torch_dtype\": \"bfloat16\", \"vocab_size\": 50304}";

static const char qwen3_moe[] =
    "{\"model_type\": \"qwen3_moe\", \"attention_bias\": false, \"bos_token_id\": 151643,"
    " \"decoder_sparse_step\": 1, \"eos_token_id\": 151645, \"head_dim\": 128, \"hidden_act\": \"silu\","
    " \"hidden_size\": 2048, \"intermediate_size\": 6144, \"max_position_embeddings\": 40960,"
    " \"mlp_only_layers\": [], \"moe_intermediate_size\": 768, \"norm_topk_prob\": true,"
    " \"num_attention_heads\": 32, \"num_experts\": 128, \"num_experts_per_tok\": 8,"
    " \"num_hidden_layers\": 48, \"num_key_value_heads\": 4, \"rms_norm_eps\": 1e-06,"
    " \"rope_scaling\": null, \"rope_theta\": 1000000.0, \"router_aux_loss_coef\": 0.001,"
    " \"sliding_window\": null, \"tie_word_embeddings\": false, \"torch_dtype\": \"bfloat16\","
    " \"use_sliding_window\": false, \"vocab_size\": 151936}";

static const char glm4_moe_lite[] =
    "{\"model_type\": \"glm4_moe_lite\", \"attention_bias\": false, \"dtype\": \"bfloat16\","
    " \"eos_token_id\": [154820, 154827, 154829], \"first_k_dense_replace\": 1, \"hidden_act\": \"silu\","
    " \"hidden_size\": 2048, \"intermediate_size\": 10240, \"kv_lora_rank\": 512,"
    " \"max_position_embeddings\": 202752, \"moe_intermediate_size\": 1536, \"n_group\": 1,"
    " \"n_routed_experts\": 64, \"n_shared_experts\": 1, \"norm_topk_prob\": true,"
    " \"num_attention_heads\": 20, \"num_experts_per_tok\": 4, \"num_hidden_layers\": 47,"
    " \"num_key_value_heads\": 20, \"num_nextn_predict_layers\": 1, \"pad_token_id\": 154820,"
    " \"partial_rotary_factor\": 1.0, \"q_lora_rank\": 768, \"qk_nope_head_dim\": 192,"
    " \"qk_rope_head_dim\": 64, \"rms_norm_eps\": 1e-05, \"rope_scaling\": null, \"rope_theta\": 1000000,"
    " \"routed_scaling_factor\": 1.8, \"tie_word_embeddings\": false, \"topk_group\": 1,"
    " \"topk_method\": \"noaux_tc\", \"v_head_dim\": 256, \"vocab_size\": 154880}";

static const char qwen2_moe[] =
    "{\"model_type\": \"qwen2_moe\", \"bos_token_id\": 151643, \"decoder_sparse_step\": 1,"
    " \"eos_token_id\": 151643, \"hidden_act\": \"silu\", \"hidden_size\": 2048,"
    " \"intermediate_size\": 5632, \"max_position_embeddings\": 8192, \"max_window_layers\": 21,"
    " \"moe_intermediate_size\": 1408, \"norm_topk_prob\": false, \"num_attention_heads\": 16,"
    " \"num_experts\": 60, \"num_experts_per_tok\": 4, \"num_hidden_layers\": 24,"
    " \"num_key_value_heads\": 16, \"rms_norm_eps\": 1e-06, \"rope_theta\": 1000000.0,"
    " \"router_aux_loss_coef\": 0.001, \"shared_expert_intermediate_size\": 5632,"
    " \"sliding_window\": 32768, \"tie_word_embeddings\": false, \"torch_dtype\": \"bfloat16\","
    " \"use_sliding_window\": false, \"vocab_size\": 151936}";

static const char glm4_moe[] =
    "{\"model_type\": \"glm4_moe\", \"attention_bias\": true, \"eos_token_id\": [151329, 151336, 151338],"
    " \"first_k_dense_replace\": 1, \"head_dim\": 128, \"hidden_act\": \"silu\", \"hidden_size\": 4096,"
    " \"intermediate_size\": 10944, \"max_position_embeddings\": 131072, \"moe_intermediate_size\": 1408,"
    " \"n_group\": 1, \"n_routed_experts\": 128, \"n_shared_experts\": 1, \"norm_topk_prob\": true,"
    " \"num_attention_heads\": 96, \"num_experts_per_tok\": 8, \"num_hidden_layers\": 46,"
    " \"num_key_value_heads\": 8, \"num_nextn_predict_layers\": 1, \"pad_token_id\": 151329,"
    " \"partial_rotary_factor\": 0.5, \"rms_norm_eps\": 1e-05, \"rope_scaling\": null, \"rope_theta\": "
    "1000000,"
    " \"routed_scaling_factor\": 1.0, \"tie_word_embeddings\": false, \"topk_group\": 1,"
    " \"torch_dtype\": \"bfloat16\", \"use_qk_norm\": false, \"vocab_size\": 151552}";

static const char dots1[] =
    "{\"model_type\": \"dots1\", \"attention_bias\": false, \"bos_token_id\": 151643, \"eos_token_id\": "
    "151643,"
    " \"first_k_dense_replace\": 1, \"hidden_act\": \"silu\", \"hidden_size\": 4096,"
    " \"intermediate_size\": 10944, \"max_position_embeddings\": 32768, \"moe_intermediate_size\": 1408,"
    " \"n_group\": 1, \"n_routed_experts\": 128, \"n_shared_experts\": 2, \"norm_topk_prob\": true,"
    " \"num_attention_heads\": 32, \"num_experts_per_tok\": 6, \"num_hidden_layers\": 62,"
    " \"num_key_value_heads\": 32, \"rms_norm_eps\": 1e-05, \"rope_scaling\": null, \"rope_theta\": 10000000,"
    " \"routed_scaling_factor\": 2.5, \"scoring_func\": \"noaux_tc\", \"sliding_window\": null,"
    " \"tie_word_embeddings\": false, \"topk_group\": 1, \"torch_dtype\": \"bfloat16\", \"vocab_size\": "
    "152064}";

static const char ernie4_5_moe[] =
    "{\"model_type\": \"ernie4_5_moe\", \"bos_token_id\": 1, \"eos_token_id\": 2, \"hidden_act\": \"silu\","
    " \"hidden_size\": 2560, \"intermediate_size\": 12288, \"max_position_embeddings\": 131072,"
    " \"moe_capacity\": [64, 64, 64], \"moe_gate\": \"topk\", \"moe_intermediate_size\": 1536, \"moe_k\": 6,"
    " \"moe_layer_end_index\": 27, \"moe_layer_interval\": 1, \"moe_layer_start_index\": 1,"
    " \"moe_num_experts\": 64, \"moe_num_shared_experts\": 2, \"moe_use_aux_free\": true,"
    " \"num_attention_heads\": 20, \"num_hidden_layers\": 28, \"num_key_value_heads\": 4, \"pad_token_id\": "
    "0,"
    " \"rms_norm_eps\": 1e-05, \"rope_scaling\": null, \"rope_theta\": 500000.0,"
    " \"tie_word_embeddings\": true, \"torch_dtype\": \"bfloat16\", \"use_bias\": false, \"vocab_size\": "
    "103424}";

static const char gpt_oss[] =
    "{\"model_type\": \"gpt_oss\", \"attention_bias\": true, \"eos_token_id\": 200002,"
    " \"experts_per_token\": 4, \"head_dim\": 64, \"hidden_act\": \"silu\", \"hidden_size\": 2880,"
    " \"initial_context_length\": 4096, \"intermediate_size\": 2880,"
    " \"max_position_embeddings\": 131072, \"num_attention_heads\": 64, \"num_experts_per_tok\": 4,"
    " \"num_hidden_layers\": 24, \"num_key_value_heads\": 8, \"num_local_experts\": 32,"
    " \"pad_token_id\": 199999, \"quantization_config\": {\"modules_to_not_convert\":"
    " [\"model.layers.*.self_attn\", \"model.layers.*.mlp.router\", \"model.embed_tokens\", \"lm_head\"],"
    " \"quant_method\": \"mxfp4\"}, \"rms_norm_eps\": 1e-05, \"rope_scaling\": {\"beta_fast\": 32.0,"
    " \"beta_slow\": 1.0, \"factor\": 32.0, \"original_max_position_embeddings\": 4096,"
    " \"rope_type\": \"yarn\", \"truncate\": false}, \"rope_theta\": 150000,"
    " \"router_aux_loss_coef\": 0.9, \"sliding_window\": 128, \"swiglu_limit\": 7.0,"
    " \"tie_word_embeddings\": false, \"vocab_size\": 201088, \"layer_types\": ["
    " \"sliding_attention\", \"full_attention\","
    " \"sliding_attention\", \"full_attention\","
    " \"sliding_attention\", \"full_attention\","
    " \"sliding_attention\", \"full_attention\","
    " \"sliding_attention\", \"full_attention\","
    " \"sliding_attention\", \"full_attention\","
    " \"sliding_attention\", \"full_attention\","
    " \"sliding_attention\", \"full_attention\","
    " \"sliding_attention\", \"full_attention\","
    " \"sliding_attention\", \"full_attention\","
    " \"sliding_attention\", \"full_attention\","
    " \"sliding_attention\", \"full_attention\"]}";

const char *model_config_text(const struct mt_arch *model)
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
