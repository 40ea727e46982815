/*
 * GLM-4.7-Flash: DeepSeek-V3's latent attention and router (sigmoid scores, a correction bias that selects,
 * groups by their two best experts, normalised weights times a factor) with defaults and a list of layers of
 * its own. No key names the router: the class has one.
 */
#include <string.h>

#include "arch/blocks.h"

static const struct mt_hf_key keys[] = {
    MT_KEY_ATTENTION_BIAS,
    MT_KEYS_LATENT,
    MT_KEYS_DEEPSEEK_EXPERTS,
};

/* mlp_layer_types: "dense" or "sparse" for every layer; it counts instead of first_k_dense_replace. */
static enum mt_status read_layer_types(const struct mt_json_node *root, struct mt_hf_config *config)
{
    struct mt_json_node list;
    bool present = false;
    enum mt_status status = mt_json_optional_array(root, "mlp_layer_types", &list, &present);
    if (status != MT_OK || !present) return status;
    if (mt_json_count(&list) != (size_t)config->layers) {
        return mt_json_fail(&list, "has %zu layers, num_hidden_layers is %lld", mt_json_count(&list),
                            (long long)config->layers);
    }
    int64_t *dense = mt_arena_array(&config->arena, (size_t)config->layers, sizeof *dense, &status);
    if (status != MT_OK) return status;
    for (int64_t layer = 0; layer < config->layers; layer++) {
        const char *type = NULL;
        struct mt_json_node item = mt_json_element(&list, (size_t)layer);
        status = mt_json_as_string(&item, &type);
        if (status != MT_OK) return status;
        bool is_dense = strcmp(type, "dense") == 0;
        if (!is_dense && strcmp(type, "sparse") != 0)
            return mt_json_fail(&item, "is neither dense nor sparse");
        if (is_dense) dense[config->mlp_only_layer_count++] = layer;
    }
    config->mlp_only_layers = dense;
    config->first_k_dense = 0;
    return MT_OK;
}

static const struct mt_tensor_row layer[] = {
    MT_ROWS_LATENT_ATTENTION, MT_ROWS_NORM_WEIGHTS, MT_ROWS_DENSE,
    MT_ROW_CORRECTION,        MT_ROWS_EXPERTS,      MT_ROWS_SHARED("mlp.shared_experts"),
};

const struct mt_arch mt_arch_glm4_moe_lite = {
    .name = "glm4_moe_lite",
    .defaults =
        {
            .norm_epsilon = 1e-5,
            .rope = {.theta = 1e4},
            .q_lora_rank = 768,
            .kv_lora_rank = 512,
            .qk_nope_head_dim = 192,
            .qk_rope_head_dim = 64,
            .v_head_dim = 256,
            .rope_interleave = true,
            .first_k_dense = 1,
            .shared_experts = 1,
            .scoring = MT_HF_SCORING_SIGMOID,
            .topk = MT_HF_TOPK_NOAUX,
            .norm_topk_prob = true,
            .routed_scaling_factor = 1.8,
            .bos = 0,
            MT_DEFAULT_EOS(1),
            .pad = -1,
        },
    MT_ARCH_KEYS(keys),
    .read = read_layer_types,
    MT_ARCH_LAYER(layer),
    MT_ARCH_AFTER(mt_arch_after),
    .names = {MT_NAMES_EXPERTS},
    .loaders = {.router = "mlp.gate", .llama = "deepseek2", .llama_lacks = mt_arch_llama_latent_lacks},
    .router_epsilon = 1e-20f,
};
