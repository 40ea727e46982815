/*
 * What a model is: everything the transformer reads, and nothing of any one model's name. Made from a config
 * and from what its architecture's file says.
 */
#ifndef MT_ARCH_DESC_H
#define MT_ARCH_DESC_H

#include "arch/arch.h"
#include "metier/routing.h"

enum mt_attention_kind {
    MT_ATTENTION_GROUPED, // q, k, v projections; heads share key heads
    MT_ATTENTION_LATENT,  // MLA: keys and values from a normalised latent, a rotated key shared by all heads
};

struct mt_model_desc {
    const struct mt_hf_config *config; // borrowed, outlives the description

    int64_t vocabulary, width, layers; // V, d
    bool tied_head, head_bias;

    enum mt_norm_kind norm;
    float norm_epsilon;
    float latent_epsilon; // of q_a_layernorm and kv_a_layernorm: 1e-6 whatever the config says

    enum mt_attention_kind attention;
    int64_t heads, key_heads;
    int64_t head_width;  // D of queries and keys
    int64_t value_width; // Dv
    int64_t query_rank;  // MLA: 0 when queries are not compressed
    int64_t latent_rank;
    int64_t nope_width, rope_width; // rope_width = D where all of a head is rotated
    bool attention_bias;
    enum mt_qk_norm qk_norm;
    float clip;        // of q, k and v; 0: none
    int window;        // of layers that have one: mt_model_window; 0: unlimited
    float score_scale; // of q·k, YaRN's factor included
    enum mt_rope_layout rope_layout;

    int64_t dense_width, expert_width, shared_width; // shared_width 0: no shared experts
    float swiglu_limit, swiglu_alpha;                // of every SwiGLU block; limit 0: plain
    int experts;                                     // n
    struct mt_router_config router;
    bool correction_bias; // the router has e_score_correction_bias
    float input_jitter;   // of the block's input in training (Phi)

    struct mt_model_names names;
    struct mt_model_loaders loaders;
    struct mt_stored_experts stored;
};

/* Fills a caller-owned description; refuses what a config of this architecture cannot say. */
enum mt_status mt_model_describe(struct mt_context *ctx, const struct mt_hf_config *config,
                                 struct mt_model_desc *desc);

/* True when the layer has a router and experts. */
bool mt_model_layer_is_moe(const struct mt_model_desc *desc, int64_t layer);

/* How far back a layer's queries see; 0: unlimited. */
int mt_model_window(const struct mt_model_desc *desc, int64_t layer);

/* How many such layers there are; their numbers go to `number` unless that is NULL. */
int mt_model_moe_layers(const struct mt_model_desc *desc, int64_t *number);

#endif
