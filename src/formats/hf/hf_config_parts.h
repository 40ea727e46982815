/* Between the files that read config.json: limits, defaults, experts, rope, words and lists. */
#ifndef MT_FORMATS_HF_CONFIG_PARTS_H
#define MT_FORMATS_HF_CONFIG_PARTS_H

#include "formats/hf/hf_config.h"
#include "formats/text/json.h"

// Far above every published model, and low enough that no product of them overflows 63 bits.
#define MT_HF_WIDTH_MAX    ((int64_t)1 << 18)
#define MT_HF_LAYERS_MAX   1024
#define MT_HF_HEADS_MAX    1024
#define MT_HF_HEAD_DIM_MAX 4096
#define MT_HF_EXPERTS_MAX  4096
#define MT_HF_SHARED_MAX   64
#define MT_HF_VOCAB_MAX    ((int64_t)1 << 24)
#define MT_HF_POSITION_MAX ((int64_t)1 << 40)

#define MT_HF_TOKEN_ID_MAX 0x7FFFFFFF

/* What a key means when the file leaves it out; one row per model type, see hf_config_defaults.c. */
struct mt_hf_defaults {
    double norm_epsilon;
    double rope_theta;
    double aux_loss_coefficient;
    double routed_scaling_factor;
    double router_jitter_noise;
    int64_t kv_heads; // 0: as many as heads
    int64_t q_lora_rank;
    int64_t groups;
    int64_t topk_groups;
    int64_t first_k_dense;
    int64_t shared_experts;
    int64_t sliding_window;
    int64_t bos; // -1: none
    int64_t eos; // -1: none
    int64_t pad; // -1: none
    bool norm_topk_prob;
    enum mt_hf_scoring scoring;
    enum mt_hf_topk topk;
    bool mla;              // deepseek_v2, deepseek_v3
    bool own_expert_width; // moe_intermediate_size is a key of its own; elsewhere intermediate_size is it
};

const struct mt_hf_defaults *mt_hf_defaults(enum mt_hf_model model);

/* Feed-forward layers, experts and router; needs the shape to be read already. */
enum mt_status mt_hf_read_experts(const struct mt_json_node *root, struct mt_hf_config *config);

/* rope_parameters, or rope_theta with rope_scaling; needs the attention shape to be read already. */
enum mt_status mt_hf_read_rope(const struct mt_json_node *root, struct mt_hf_config *config);

struct mt_hf_word {
    const char *text;
    int value;
};

/* One of a few words; absent or null leaves *value. */
enum mt_status mt_hf_read_word(const struct mt_json_node *root, const char *key,
                               const struct mt_hf_word *words, size_t count, int *value);

/* A list of whole numbers, or a single one, as a list in the arena; absent or null leaves it empty. */
enum mt_status mt_hf_read_integers(const struct mt_json_node *object, const char *key, int64_t max,
                                   struct mt_arena *arena, const int64_t **list, size_t *count);

#endif
