/*
 * Building blocks of the architectures' files: rows of keys, rows of tensors, names, and what several
 * architectures read alike.
 */
#ifndef MT_ARCH_BLOCKS_H
#define MT_ARCH_BLOCKS_H

#include "arch/arch.h"

// Far above every published model, and low enough that no product of them overflows 63 bits.
#define MT_HF_WIDTH_MAX    ((int64_t)1 << 18)
#define MT_HF_LAYERS_MAX   1024
#define MT_HF_HEADS_MAX    1024
#define MT_HF_HEAD_DIM_MAX 4096
#define MT_HF_EXPERTS_MAX  4096
#define MT_HF_SHARED_MAX   64
#define MT_HF_VOCAB_MAX    ((int64_t)1 << 24)
#define MT_HF_POSITION_MAX ((int64_t)1 << 40)

#define MT_COUNT(array)    (sizeof(array) / sizeof((array)[0]))

// ------------------------------------------------------------------ keys of config.json

#define MT_KEY(type, key, field, ...)                                                                        \
    {                                                                                                        \
        .name = (key), .kind = MT_HF_KEY_##type, .offset = offsetof(struct mt_hf_config, field), __VA_ARGS__ \
    }
#define MT_KEY_INTEGER(key, field, least, most) MT_KEY(INTEGER, key, field, .min = (least), .max = (most))
#define MT_KEY_REQUIRED(key, field, most)                                                                    \
    MT_KEY(INTEGER, key, field, .min = 1, .max = (most), .required = true)
#define MT_KEY_OR_NULL(key, field, least, most)                                                              \
    MT_KEY(INTEGER, key, field, .min = (least), .max = (most), .null = MT_HF_NULL_ZERO)
#define MT_KEY_TOKEN(key, field)                                                                             \
    MT_KEY(INTEGER, key, field, .max = MT_HF_TOKEN_ID_MAX, .null = MT_HF_NULL_NONE)
#define MT_KEY_REAL(key, field, least, most) MT_KEY(REAL, key, field, .min = (least), .max = (most))
#define MT_KEY_BOOL(key, field)              MT_KEY(BOOL, key, field, .required = false)
#define MT_KEY_WORD(key, field, list)        MT_KEY(WORD, key, field, .words = (list))

// Keys of several architectures.
#define MT_KEY_ATTENTION_BIAS MT_KEY_BOOL("attention_bias", attention_bias)
#define MT_KEY_WINDOW         MT_KEY_OR_NULL("sliding_window", sliding_window, 1, MT_HF_POSITION_MAX)
#define MT_KEY_EXPERT_WIDTH   MT_KEY_REQUIRED("moe_intermediate_size", moe_intermediate_size, MT_HF_WIDTH_MAX)
#define MT_KEY_NORM_TOPK      MT_KEY_BOOL("norm_topk_prob", norm_topk_prob)
#define MT_KEY_AUX_LOSS       MT_KEY_REAL("router_aux_loss_coef", aux_loss_coefficient, 0.0, 1e6)
#define MT_KEY_SPARSE_STEP    MT_KEY_INTEGER("decoder_sparse_step", decoder_sparse_step, 1, MT_HF_LAYERS_MAX)

/* Multi-head latent attention. An absent q_lora_rank is the class's default; only a null means none. */
#define MT_KEYS_LATENT                                                                                       \
    MT_KEY_OR_NULL("q_lora_rank", q_lora_rank, 1, MT_HF_WIDTH_MAX),                                          \
        MT_KEY_INTEGER("kv_lora_rank", kv_lora_rank, 1, MT_HF_WIDTH_MAX),                                    \
        MT_KEY_INTEGER("qk_nope_head_dim", qk_nope_head_dim, 1, MT_HF_HEAD_DIM_MAX),                         \
        MT_KEY_INTEGER("qk_rope_head_dim", qk_rope_head_dim, 2, MT_HF_HEAD_DIM_MAX),                         \
        MT_KEY_INTEGER("v_head_dim", v_head_dim, 1, MT_HF_HEAD_DIM_MAX),                                     \
        MT_KEY_BOOL("rope_interleave", rope_interleave)

/* Experts and router as the DeepSeek classes spell them. */
#define MT_KEYS_DEEPSEEK_EXPERTS                                                                             \
    MT_KEY_EXPERT_WIDTH, MT_KEY_OR_NULL("n_shared_experts", shared_experts, 0, MT_HF_SHARED_MAX),            \
        MT_KEY_INTEGER("first_k_dense_replace", first_k_dense, 0, MT_HF_LAYERS_MAX),                         \
        MT_KEY_INTEGER("num_nextn_predict_layers", nextn_predict_layers, 0, MT_HF_LAYERS_MAX),               \
        MT_KEY_INTEGER("n_group", groups, 1, MT_HF_EXPERTS_MAX),                                             \
        MT_KEY_INTEGER("topk_group", topk_groups, 1, MT_HF_EXPERTS_MAX),                                     \
        MT_KEY_REAL("routed_scaling_factor", routed_scaling_factor, 1e-6, 1e6), MT_KEY_NORM_TOPK

/* What only the DeepSeek classes themselves have beside these. */
#define MT_KEYS_DEEPSEEK_CHOICE                                                                              \
    MT_KEY_INTEGER("moe_layer_freq", moe_layer_freq, 1, MT_HF_LAYERS_MAX),                                   \
        MT_KEY_WORD("scoring_func", scoring, mt_scoring_words),                                              \
        MT_KEY_WORD("topk_method", topk, mt_topk_words),                                                     \
        MT_KEY_REAL("aux_loss_alpha", aux_loss_coefficient, 0.0, 1e6)

extern const struct mt_hf_word mt_scoring_words[]; // softmax, sigmoid
extern const struct mt_hf_word mt_topk_words[];    // greedy, group_limited_greedy, noaux_tc

/* mlp_only_layers: layers without experts, by their numbers. */
enum mt_status mt_arch_read_dense_layers(const struct mt_json_node *root, struct mt_hf_config *config);

/* use_sliding_window: a window may be given and switched off; off where the key is absent. */
enum mt_status mt_arch_read_window_switch(const struct mt_json_node *root, struct mt_hf_config *config);

/* Refuses layer_types with anything but full_attention; `present` says whether there is a list at all. */
enum mt_status mt_arch_refuse_layer_types(const struct mt_json_node *root, bool *present);

/* layer_types: each layer is full_attention or sliding_attention; fills config->windowed where there is a
 * list. */
enum mt_status mt_arch_read_layer_types(const struct mt_json_node *root, struct mt_hf_config *config);

/* rope_parameters, or rope_theta with rope_scaling (config_rope.c); needs the shape of attention. */
enum mt_status mt_hf_read_rope(const struct mt_json_node *root, struct mt_hf_config *config);

/* quantization_config (config_quant.c). */
enum mt_status mt_hf_read_quant(const struct mt_json_node *root, struct mt_hf_config *config);

/* In class defaults: one token ends a text. */
#define MT_DEFAULT_EOS(id) .eos = (const int64_t[]){id}, .eos_count = 1

// ------------------------------------------------------------------ tensors

#define MT_ROW(name, part, when, rows, columns)                                                              \
    {                                                                                                        \
        name, MT_PART_##part, MT_WHEN_##when, MT_SIZE_##rows, MT_SIZE_##columns                              \
    }

#define MT_ROWS_QUERY_KEY_VALUE                                                                              \
    MT_ROW("self_attn.q_proj.weight", ATTENTION, ALWAYS, QUERY, HIDDEN),                                     \
        MT_ROW("self_attn.q_proj.bias", ATTENTION, ATTENTION_BIAS, QUERY, NONE),                             \
        MT_ROW("self_attn.k_proj.weight", ATTENTION, ALWAYS, KEY_VALUE, HIDDEN),                             \
        MT_ROW("self_attn.k_proj.bias", ATTENTION, ATTENTION_BIAS, KEY_VALUE, NONE),                         \
        MT_ROW("self_attn.v_proj.weight", ATTENTION, ALWAYS, KEY_VALUE, HIDDEN),                             \
        MT_ROW("self_attn.v_proj.bias", ATTENTION, ATTENTION_BIAS, KEY_VALUE, NONE)

#define MT_ROWS_GROUPED_ATTENTION                                                                            \
    MT_ROWS_QUERY_KEY_VALUE, MT_ROW("self_attn.o_proj.weight", ATTENTION, ALWAYS, HIDDEN, QUERY),            \
        MT_ROW("self_attn.o_proj.bias", ATTENTION, ATTENTION_BIAS, HIDDEN, NONE)

#define MT_ROWS_LATENT_ATTENTION                                                                             \
    MT_ROW("self_attn.q_proj.weight", ATTENTION, Q_PLAIN, QUERY, HIDDEN),                                    \
        MT_ROW("self_attn.q_a_proj.weight", ATTENTION, Q_COMPRESSED, Q_RANK, HIDDEN),                        \
        MT_ROW("self_attn.q_a_proj.bias", ATTENTION, Q_COMPRESSED_BIAS, Q_RANK, NONE),                       \
        MT_ROW("self_attn.q_a_layernorm.weight", NORMS, Q_COMPRESSED, Q_RANK, NONE),                         \
        MT_ROW("self_attn.q_b_proj.weight", ATTENTION, Q_COMPRESSED, QUERY, Q_RANK),                         \
        MT_ROW("self_attn.kv_a_proj_with_mqa.weight", ATTENTION, ALWAYS, KV_A, HIDDEN),                      \
        MT_ROW("self_attn.kv_a_proj_with_mqa.bias", ATTENTION, ATTENTION_BIAS, KV_A, NONE),                  \
        MT_ROW("self_attn.kv_a_layernorm.weight", NORMS, ALWAYS, KV_RANK, NONE),                             \
        MT_ROW("self_attn.kv_b_proj.weight", ATTENTION, ALWAYS, KV_B, KV_RANK),                              \
        MT_ROW("self_attn.o_proj.weight", ATTENTION, ALWAYS, HIDDEN, VALUES),                                \
        MT_ROW("self_attn.o_proj.bias", ATTENTION, ATTENTION_BIAS, HIDDEN, NONE)

#define MT_ROWS_NORM_WEIGHTS                                                                                 \
    MT_ROW("input_layernorm.weight", NORMS, ALWAYS, HIDDEN, NONE),                                           \
        MT_ROW("post_attention_layernorm.weight", NORMS, ALWAYS, HIDDEN, NONE)

#define MT_ROWS_DENSE                                                                                        \
    MT_ROW("mlp.gate_proj.weight", DENSE, DENSE_LAYER, DENSE_WIDTH, HIDDEN),                                 \
        MT_ROW("mlp.up_proj.weight", DENSE, DENSE_LAYER, DENSE_WIDTH, HIDDEN),                               \
        MT_ROW("mlp.down_proj.weight", DENSE, DENSE_LAYER, HIDDEN, DENSE_WIDTH)

#define MT_ROW_CORRECTION MT_ROW("mlp.gate.e_score_correction_bias", ROUTER, CORRECTED, EXPERTS, NONE)

#define MT_ROWS_EXPERTS                                                                                      \
    MT_ROW("mlp.gate.weight", ROUTER, MOE_LAYER, EXPERTS, HIDDEN),                                           \
        MT_ROW("gate_proj.weight", EXPERTS, EACH_EXPERT, EXPERT_WIDTH, HIDDEN),                              \
        MT_ROW("up_proj.weight", EXPERTS, EACH_EXPERT, EXPERT_WIDTH, HIDDEN),                                \
        MT_ROW("down_proj.weight", EXPERTS, EACH_EXPERT, HIDDEN, EXPERT_WIDTH)
#define MT_NAMES_EXPERTS                                                                                     \
    .router = "mlp.gate", .experts = "mlp.experts", .gate = "gate_proj", .up = "up_proj", .down = "down_proj"

/* Mixtral's own names, which Phi took over: w1 is gate, w3 is up, w2 is down. */
#define MT_ROWS_SPARSE_BLOCK                                                                                 \
    MT_ROW("block_sparse_moe.gate.weight", ROUTER, MOE_LAYER, EXPERTS, HIDDEN),                              \
        MT_ROW("w1.weight", EXPERTS, EACH_EXPERT, EXPERT_WIDTH, HIDDEN),                                     \
        MT_ROW("w2.weight", EXPERTS, EACH_EXPERT, HIDDEN, EXPERT_WIDTH),                                     \
        MT_ROW("w3.weight", EXPERTS, EACH_EXPERT, EXPERT_WIDTH, HIDDEN)
#define MT_NAMES_SPARSE_BLOCK                                                                                \
    .router = "block_sparse_moe.gate", .experts = "block_sparse_moe.experts", .gate = "w1", .up = "w3",      \
    .down = "w2"

/* The shared experts, one MLP. */
#define MT_ROWS_SHARED(module)                                                                               \
    MT_ROW(module ".gate_proj.weight", SHARED, SHARED, SHARED_WIDTH, HIDDEN),                                \
        MT_ROW(module ".up_proj.weight", SHARED, SHARED, SHARED_WIDTH, HIDDEN),                              \
        MT_ROW(module ".down_proj.weight", SHARED, SHARED, HIDDEN, SHARED_WIDTH)

#define MT_ROWS_AFTER                                                                                        \
    MT_ROW("model.norm.weight", NORMS, ALWAYS, HIDDEN, NONE),                                                \
        MT_ROW("lm_head.weight", LM_HEAD, LM_HEAD, VOCAB, HIDDEN)

extern const struct mt_tensor_row mt_arch_after[2]; // MT_ROWS_AFTER

/* Of llama.cpp's deepseek2, which multiplies by these without looking for a pair (August 2026). */
extern const char *const mt_arch_llama_latent_lacks[];

/* The rows of a table and their number, as initialisers of struct mt_arch. */
#define MT_ARCH_KEYS(table)  .keys = (table), .key_count = MT_COUNT(table)
#define MT_ARCH_LAYER(table) .layer = (table), .layer_count = MT_COUNT(table)
#define MT_ARCH_AFTER(table) .after = (table), .after_count = MT_COUNT(table)

#endif
