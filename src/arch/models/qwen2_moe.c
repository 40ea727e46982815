/*
 * Qwen1.5-MoE and Qwen2-MoE: biases on queries, keys and values but not on the output; softmax over all
 * experts, the k best as they are (or normalised); one shared expert, whose output a gate of one row scales.
 */
#include "arch/blocks.h"

static const struct mt_hf_key keys[] = {
    MT_KEY_BOOL("qkv_bias", attention_bias),
    MT_KEY_EXPERT_WIDTH,
    MT_KEY_REQUIRED("shared_expert_intermediate_size", shared_width, MT_HF_WIDTH_MAX),
    MT_KEY_SPARSE_STEP,
    MT_KEY_NORM_TOPK,
    MT_KEY_AUX_LOSS,
};

/* With use_sliding_window only some layers have a window. */
static enum mt_status refuse_windows(const struct mt_json_node *root)
{
    struct mt_json_node node;
    bool used = false;
    bool listed = false;
    enum mt_status status = mt_json_optional_bool(root, "use_sliding_window", &used);
    if (status == MT_OK && used) {
        (void)mt_json_member(root, "use_sliding_window", &node);
        (void)mt_json_fail(&node, "is true: only some layers would have a window, which is not supported");
        return MT_ERR_UNSUPPORTED;
    }
    return status == MT_OK ? mt_arch_refuse_layer_types(root, &listed) : status;
}

static enum mt_status read_layers(const struct mt_json_node *root, struct mt_hf_config *config)
{
    enum mt_status status = refuse_windows(root);
    return status == MT_OK ? mt_arch_read_dense_layers(root, config) : status;
}

static const struct mt_tensor_row layer[] = {
    MT_ROWS_QUERY_KEY_VALUE,
    MT_ROW("self_attn.o_proj.weight", ATTENTION, ALWAYS, HIDDEN, QUERY),
    MT_ROWS_NORM_WEIGHTS,
    MT_ROWS_DENSE,
    MT_ROWS_EXPERTS,
    MT_ROWS_SHARED("mlp.shared_expert"),
    MT_ROW("mlp.shared_expert_gate.weight", SHARED, SHARED, ONE, HIDDEN),
};

const struct mt_arch mt_arch_qwen2_moe = {
    .name = "qwen2_moe",
    .defaults =
        {
            .norm_epsilon = 1e-6,
            .rope = {.theta = 1e4},
            .kv_heads = 16,
            .attention_bias = true,
            .shared_experts = 1, // of a width of its own
            .aux_loss_coefficient = 0.001,
            .bos = -1,
            .pad = -1,
        },
    MT_ARCH_KEYS(keys),
    .read = read_layers,
    MT_ARCH_LAYER(layer),
    MT_ARCH_AFTER(mt_arch_after),
    .names = {MT_NAMES_EXPERTS, .shared_gate = "mlp.shared_expert_gate"},
    .loaders = {.router = "mlp.gate", .linear_router = true, .llama = "qwen2moe"},
};
