/*
 * config.json of a Hugging Face model folder, as a plain struct: what the architectures need, with the
 * names, spellings and class defaults of transformers resolved, and impossible values refused.
 */
#ifndef MT_ARCH_CONFIG_H
#define MT_ARCH_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "metier/context.h"

struct mt_arch;

enum mt_hf_rope_kind {
    MT_HF_ROPE_DEFAULT,
    MT_HF_ROPE_LINEAR,
    MT_HF_ROPE_YARN,
    MT_HF_ROPE_LONGROPE, // also spelt "su"
};

struct mt_hf_rope {
    enum mt_hf_rope_kind kind;
    double theta;
    double factor;                 // linear, yarn; 1 otherwise
    int64_t original_max_position; // yarn, longrope; max_position_embeddings where not given
    // yarn
    double beta_fast;
    double beta_slow;
    double mscale;           // 0: not given
    double mscale_all_dim;   // 0: not given
    double attention_factor; // 0: not given
    // longrope: one factor per pair of rotated dimensions
    const double *short_factor;
    const double *long_factor;
    size_t factor_count;
    double short_mscale; // 0: not given
    double long_mscale;
    bool mscale_required; // of longrope: the class has no formula to fall back on
};

enum mt_hf_scoring {
    MT_HF_SCORING_SOFTMAX,
    MT_HF_SCORING_SIGMOID,
    MT_HF_SCORING_SPARSEMIXER, // no key of a file says so
};

enum mt_hf_topk {
    MT_HF_TOPK_GREEDY,
    MT_HF_TOPK_GROUP_LIMITED, // group_limited_greedy: the best groups by their best expert
    MT_HF_TOPK_NOAUX,         // noaux_tc: with a correction bias, groups by their best two
};

enum mt_hf_float {
    MT_HF_FLOAT_UNKNOWN, // the file does not say
    MT_HF_FLOAT32,
    MT_HF_FLOAT16,
    MT_HF_BFLOAT16,
};

/* How the weights of a folder are stored, as its quantization_config says (config_quant.c). */
enum mt_hf_quant_method {
    MT_HF_QUANT_NONE,  // as floats
    MT_HF_QUANT_FP8,   // E4M3, a scale for each block of 128 x 128
    MT_HF_QUANT_NF4,   // bitsandbytes, blocks of 64, scales in 32 or 8 bits
    MT_HF_QUANT_MXFP4, // E2M1, an E8M0 scale for each 32
};

struct mt_hf_quant {
    enum mt_hf_quant_method method;
    bool activations; // its own code rounds activations, too; here they stay as they are
};

struct mt_hf_config {
    struct mt_arena arena;      // owns the lists
    const struct mt_arch *arch; // lives forever

    // shape
    int64_t vocab_size;
    int64_t hidden_size;
    int64_t layers;
    int64_t heads;
    int64_t kv_heads; // in class defaults 0: as many as heads
    int64_t head_dim; // grouped-query attention; for MLA the sum of nope and rope
    int64_t max_position_embeddings;
    bool tie_word_embeddings;
    bool attention_bias;
    bool lm_head_bias;
    double norm_epsilon;
    enum mt_hf_float dtype;
    struct mt_hf_quant quant;

    // multi-head latent attention; kv_lora_rank 0: not MLA
    int64_t q_lora_rank; // 0: queries are not compressed
    int64_t kv_lora_rank;
    int64_t qk_nope_head_dim;
    int64_t qk_rope_head_dim;
    int64_t v_head_dim;   // head_dim where not MLA
    bool rope_interleave; // neighbours turn together; otherwise the halves of what is rotated

    // attention details
    double rotated_share;   // of a head, its first elements; 0: all of it, and the class has no such key
    bool use_qk_norm;       // queries and keys are normalised, as the architecture does it
    int64_t sliding_window; // 0: none
    double clip_qkv;        // 0: none
    struct mt_hf_rope rope;

    // feed-forward
    int64_t intermediate_size;     // of a dense layer
    int64_t moe_intermediate_size; // of one expert; intermediate_size where the class has no such key
    int64_t experts;
    int64_t shared_experts;
    int64_t shared_width; // of the shared experts together, which are one MLP; 0: none
    int64_t experts_per_token;
    int64_t first_k_dense; // layers before this one are dense
    int64_t moe_layer_freq;
    int64_t decoder_sparse_step;
    const int64_t *mlp_only_layers;
    size_t mlp_only_layer_count;
    int64_t nextn_predict_layers; // stored after the layers, and read by nobody here

    // router
    enum mt_hf_scoring scoring;
    enum mt_hf_topk topk;
    bool norm_topk_prob;
    int64_t groups;
    int64_t topk_groups;
    double routed_scaling_factor;
    double aux_loss_coefficient; // aux_loss_alpha, or router_aux_loss_coef
    double router_jitter_noise;  // SparseMixer's threshold
    double input_jitter_noise;   // of the block's input in training

    // tokens; -1: none
    int64_t bos;
    int64_t pad;
    const int64_t *eos;
    size_t eos_count;
};

/*
 * Reads a config.json, or `text` where it is not NULL; `path` then only names it. The caller frees it. After
 * a failure there is nothing to free.
 */
enum mt_status mt_hf_config_read(struct mt_context *ctx, const char *path, const void *text, size_t bytes,
                                 struct mt_hf_config *config);

/* The same for the config.json of a model folder. */
enum mt_status mt_hf_config_read_folder(struct mt_context *ctx, const char *folder,
                                        struct mt_hf_config *config);

/* Frees the lists; a zeroed config is allowed. */
void mt_hf_config_free(struct mt_hf_config *config);

/* True when a layer has a router and experts, false when it has one dense MLP. */
bool mt_hf_config_layer_is_moe(const struct mt_hf_config *config, int64_t layer);

/* "fp8", "nf4", "mxfp4"; "none". */
const char *mt_hf_quant_name(enum mt_hf_quant_method method);

/* True for multi-head latent attention. */
static inline bool mt_hf_config_is_mla(const struct mt_hf_config *config)
{
    return config->kv_lora_rank > 0;
}

/* How many elements of a head are rotated. */
static inline int64_t mt_hf_config_rotated(const struct mt_hf_config *config)
{
    if (mt_hf_config_is_mla(config)) return config->qk_rope_head_dim;
    return config->rotated_share > 0.0 ? (int64_t)((double)config->head_dim * config->rotated_share)
                                       : config->head_dim;
}

#endif
