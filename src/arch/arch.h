/*
 * Architectures. All that is particular to one stands in its own file (mixtral.c, ...) as a struct mt_arch,
 * and in one line of the list below. Code elsewhere asks for what a config or a description says, never for
 * an architecture. docs/howto/architecture.md shows how one is added.
 */
#ifndef MT_ARCH_ARCH_H
#define MT_ARCH_ARCH_H

#include "arch/desc.h"
#include "arch/model_tensors.h"
#include "formats/hf/hf_keys.h"

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
    X(ernie4_5_moe)

enum mt_row_size {
    MT_SIZE_NONE, // second dimension of a vector
    MT_SIZE_ONE,
    MT_SIZE_VOCAB,
    MT_SIZE_HIDDEN,
    MT_SIZE_QUERY,     // heads · head_dim
    MT_SIZE_KEY_VALUE, // kv_heads · head_dim
    MT_SIZE_HEAD,      // head_dim
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

#endif
