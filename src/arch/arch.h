/*
 * Architectures, and config.json as they say it is to be read. All that is particular to one architecture
 * stands in its own file (models/mixtral.c, ...) as a struct mt_arch, and in one line of the list below. Code
 * elsewhere asks for what a config or a description (desc.h) says, never for an architecture.
 * docs/howto/architecture.md shows how one is added.
 */
#ifndef MT_ARCH_ARCH_H
#define MT_ARCH_ARCH_H

#include "base/arena.h"
#include "formats/hf/hf_keys.h"

// ------------------------------------------------------------------ config.json

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
    bool unrounded;          // "truncate": false: the ramp's ends stay between pairs
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

/*
 * config.json of a Hugging Face model folder: what the architectures need, with the names, spellings and
 * class defaults of transformers resolved, and impossible values refused.
 */
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
    const bool *windowed;   // [layers]: which layers have the window; NULL: all of them
    double clip_qkv;        // 0: none
    struct mt_hf_rope rope;

    // feed-forward
    double swiglu_limit;           // of gates and ups (ops.h); 0: none
    double swiglu_alpha;           // with a limit, the factor inside the sigmoid
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

// ------------------------------------------------------------------ architectures

// One line per architecture: its model_type.
#define MT_ARCH_LIST(X)                                                                                      \
    X(deepseek)                                                                                              \
    X(deepseek_v2)                                                                                           \
    X(deepseek_v3)                                                                                           \
    X(mixtral)                                                                                               \
    X(phimoe)                                                                                                \
    X(olmoe)                                                                                                 \
    X(qwen3_moe)                                                                                             \
    X(glm4_moe_lite)                                                                                         \
    X(qwen2_moe)                                                                                             \
    X(glm4_moe)                                                                                              \
    X(dots1)                                                                                                 \
    X(ernie4_5_moe)                                                                                          \
    X(gpt_oss)

// One line per part: enumerator, text for people, key for scripts.
#define MT_MODEL_PART_LIST(X)                                                                                \
    X(MT_PART_EMBEDDING, "embedding", "embedding")                                                           \
    X(MT_PART_ATTENTION, "attention", "attention")                                                           \
    X(MT_PART_ROUTER, "router", "router")                                                                    \
    X(MT_PART_EXPERTS, "routed experts", "routed_experts")                                                   \
    X(MT_PART_SHARED, "shared experts", "shared_experts")                                                    \
    X(MT_PART_DENSE, "dense mlp", "dense_mlp")                                                               \
    X(MT_PART_NORMS, "norms", "norms")                                                                       \
    X(MT_PART_LM_HEAD, "lm head", "lm_head")

enum mt_model_part {
#define MT_MODEL_PART_ENUM(name, text, key) name,
    MT_MODEL_PART_LIST(MT_MODEL_PART_ENUM)
#undef MT_MODEL_PART_ENUM
        MT_MODEL_PART_COUNT
};

enum mt_row_size {
    MT_SIZE_NONE, // second dimension of a vector
    MT_SIZE_ONE,
    MT_SIZE_VOCAB,
    MT_SIZE_HIDDEN,
    MT_SIZE_QUERY,     // heads · head_dim
    MT_SIZE_KEY_VALUE, // kv_heads · head_dim
    MT_SIZE_HEAD,      // head_dim
    MT_SIZE_HEADS,     // their number
    MT_SIZE_VALUES,    // heads · v_head_dim: what o_proj reads
    MT_SIZE_Q_RANK,
    MT_SIZE_KV_RANK,
    MT_SIZE_KV_A, // latent and the rope key shared by all heads
    MT_SIZE_KV_B, // heads · (nope key + value)
    MT_SIZE_EXPERTS,
    MT_SIZE_EXPERT_WIDTH,
    MT_SIZE_SHARED_WIDTH,
    MT_SIZE_DENSE_WIDTH,
};

enum mt_row_when {
    MT_WHEN_ALWAYS,
    MT_WHEN_ATTENTION_BIAS,
    MT_WHEN_QK_NORM, // queries and keys are normalised
    MT_WHEN_Q_COMPRESSED,
    MT_WHEN_Q_COMPRESSED_BIAS,
    MT_WHEN_Q_PLAIN,
    MT_WHEN_MOE_LAYER,
    MT_WHEN_SHARED,        // in a layer with experts, where the model has shared ones
    MT_WHEN_CORRECTED,     // in a layer with experts, where the router has a correction bias
    MT_WHEN_CORRECTED_ROW, // the same, stored as [1,n]
    MT_WHEN_EACH_EXPERT,   // once per routed expert of a layer with experts
    MT_WHEN_DENSE_LAYER,
    MT_WHEN_LM_HEAD,
    MT_WHEN_LM_HEAD_BIAS,
};

/* A tensor, or one of every routed expert. */
struct mt_tensor_row {
    const char *name; // in a layer after "model.layers.L."; of an expert after its number
    enum mt_model_part part;
    enum mt_row_when when;
    enum mt_row_size rows;
    enum mt_row_size columns;
};

enum mt_norm_kind {
    MT_NORM_RMS,
    MT_NORM_LAYER, // with mean and bias
};

enum mt_qk_norm {
    MT_QK_NORM_NONE,
    MT_QK_NORM_WHOLE, // over the whole projection, before the heads are cut (OLMoE)
    MT_QK_NORM_HEAD,  // over each head (Qwen3)
};

/* Names on disk, without ".weight" and ".bias"; inside a layer after "model.layers.L.". */
struct mt_model_names {
    const char *router;      // "mlp.gate"
    const char *experts;     // "mlp.experts"; then ".E." and one of:
    const char *gate;        // "gate_proj" or "w1"
    const char *up;          // "up_proj" or "w3"
    const char *down;        // "down_proj" or "w2"
    const char *correction;  // owner of e_score_correction_bias; NULL: the router
    const char *shared_gate; // [1,d], scales the shared experts' output: "mlp.shared_expert_gate"; NULL: none
};

/* How the programs that load adapters have the model. */
struct mt_model_loaders {
    const char *router; // in transformers 5, inside a layer: "mlp.gate"; NULL: it has no class for the model
    bool linear_router; // in transformers 4, whose experts are modules, the router is a linear layer
    bool vllm_head;     // vLLM has a place for a pair on lm_head
    const char *own_code; // without a class: modeling_NAME.py is published with the model
    // llama.cpp
    const char *llama;     // what it calls the architecture; NULL: no adapter is written for it
    bool llama_neighbours; // it has what turns together side by side: rows of queries and keys are permuted
    const char *const
        *llama_lacks; // modules inside a layer, and lm_head, whose pairs it leaves out or stops at
};

/* How files hold the routed experts of a layer (published/stacks.h). */
struct mt_stored_experts {
    bool stacked;     // all experts in one tensor; otherwise a tensor each, though stacks are read, too
    bool transposed;  // in a stack of floats, matrices are [in, out]
    bool interleaved; // in gate_up_proj, gate's and up's rows take turns; otherwise gate's come first
};

struct mt_arch {
    const char *name; // model_type

    /*
     * What transformers' class (or the model's own code) assumes for keys a file leaves out. A count or
     * factor that is 0 here and that nobody sets is 1 in a config: groups, the steps between layers, the
     * scale.
     */
    struct mt_hf_config defaults;

    // Keys of config.json beyond those every architecture has (config.c).
    const struct mt_hf_key *keys;
    size_t key_count;

    /* Reads and checks what rows cannot say, after all else; NULL: nothing. */
    enum mt_status (*read)(const struct mt_json_node *root, struct mt_hf_config *config);

    // Tensors on disk: of a layer, and after the layers.
    const struct mt_tensor_row *layer;
    size_t layer_count;
    const struct mt_tensor_row *after;
    size_t after_count;

    // Description: what no key of the file says.
    struct mt_model_names names;
    struct mt_model_loaders loaders;
    struct mt_stored_experts stored;
    enum mt_norm_kind norm;
    enum mt_qk_norm qk_norm;
    float router_epsilon; // added to the sum that weights are divided by

    /* Refuses what a file can say and the model's own code has no answer for; NULL: nothing. */
    enum mt_status (*refuse)(struct mt_context *ctx, const struct mt_hf_config *config);
};

#define MT_ARCH_DECLARE(name) extern const struct mt_arch mt_arch_##name;
MT_ARCH_LIST(MT_ARCH_DECLARE)
#undef MT_ARCH_DECLARE

/* How many there are; nobody needs their numbers. */
enum mt_arch_number {
#define MT_ARCH_NUMBER(name) MT_ARCH_NUMBER_##name,
    MT_ARCH_LIST(MT_ARCH_NUMBER)
#undef MT_ARCH_NUMBER
        MT_ARCH_COUNT
};

/* All of them, in the order of the list. */
extern const struct mt_arch *const mt_archs[MT_ARCH_COUNT];

/* The architecture of a model_type; NULL: unknown. */
const struct mt_arch *mt_arch_find(const char *model_type);

/* " deepseek deepseek_v2 ...", for messages; lives forever. */
const char *mt_arch_names(void);

// ------------------------------------------------------------------ reading

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
