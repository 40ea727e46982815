/* What several architectures share. */
#include "arch/blocks.h"

#include <string.h>

const struct mt_hf_word mt_scoring_words[] = {
    {"softmax", MT_HF_SCORING_SOFTMAX},
    {"sigmoid", MT_HF_SCORING_SIGMOID},
    {NULL, 0},
};

const struct mt_hf_word mt_topk_words[] = {
    {"greedy", MT_HF_TOPK_GREEDY},
    {"group_limited_greedy", MT_HF_TOPK_GROUP_LIMITED},
    {"noaux_tc", MT_HF_TOPK_NOAUX},
    {NULL, 0},
};

const struct mt_tensor_row mt_arch_after[2] = {MT_ROWS_AFTER};

const char *const mt_arch_llama_latent_lacks[] = {
    "self_attn.q_proj",
    "self_attn.q_a_proj",
    "self_attn.q_b_proj",
    "self_attn.kv_a_proj_with_mqa",
    "self_attn.kv_b_proj",
    "lm_head",
    NULL,
};

enum mt_status mt_arch_read_dense_layers(const struct mt_json_node *root, struct mt_hf_config *config)
{
    enum mt_status status = mt_hf_read_integers(root, "mlp_only_layers", config->layers - 1, &config->arena,
                                                &config->mlp_only_layers, &config->mlp_only_layer_count);
    if (status == MT_OK && config->mlp_only_layer_count > (size_t)config->layers) {
        status = mt_json_fail(root, "has %zu mlp_only_layers, but only %lld layers",
                              config->mlp_only_layer_count, (long long)config->layers);
    }
    return status;
}

enum mt_status mt_arch_read_window_switch(const struct mt_json_node *root, struct mt_hf_config *config)
{
    bool used = false;
    enum mt_status status = mt_json_optional_bool(root, "use_sliding_window", &used);
    if (!used) config->sliding_window = 0;
    return status;
}

enum mt_status mt_arch_refuse_layer_types(const struct mt_json_node *root, bool *present)
{
    struct mt_json_node list;
    enum mt_status status = mt_json_optional_array(root, "layer_types", &list, present);
    for (size_t i = 0; status == MT_OK && *present && i < mt_json_count(&list); i++) {
        const char *type = NULL;
        struct mt_json_node item = mt_json_element(&list, i);
        status = mt_json_as_string(&item, &type);
        if (status == MT_OK && strcmp(type, "full_attention") != 0) {
            (void)mt_json_fail(&item, "is not full_attention, which alone is supported");
            status = MT_ERR_UNSUPPORTED;
        }
    }
    return status;
}

enum mt_status mt_arch_read_layer_types(const struct mt_json_node *root, struct mt_hf_config *config)
{
    struct mt_json_node list;
    bool present = false;
    enum mt_status status = mt_json_optional_array(root, "layer_types", &list, &present);
    if (status != MT_OK || !present) return status;
    size_t count = mt_json_count(&list);
    if (count != (size_t)config->layers)
        return mt_json_fail(&list, "has %zu entries for %lld layers", count, (long long)config->layers);
    bool *windowed = mt_arena_array(&config->arena, count, sizeof *windowed, &status);
    for (size_t i = 0; status == MT_OK && i < count; i++) {
        const char *type = NULL;
        struct mt_json_node item = mt_json_element(&list, i);
        status = mt_json_as_string(&item, &type);
        if (status != MT_OK) return status;
        windowed[i] = strcmp(type, "sliding_attention") == 0;
        if (windowed[i] || strcmp(type, "full_attention") == 0) continue;
        (void)mt_json_fail(&item, "is neither full_attention nor sliding_attention, which are supported");
        return MT_ERR_UNSUPPORTED;
    }
    config->windowed = windowed;
    return status;
}
