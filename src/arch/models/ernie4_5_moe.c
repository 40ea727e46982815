/*
 * ERNIE-4.5: grouped attention whose neighbouring elements turn together (GPT-J's rotation); softmax scores,
 * selection by score plus a correction bias, which a module of its own keeps as [1,n], weights without the
 * bias, normalised. The class divides by no less than moe_norm_min, 1e-12: chosen scores never sum to so
 * little. Layers with experts are counted from moe_layer_start_index to moe_layer_end_index. Routers are
 * stored as F32, and stay so. "model.mtp_..." predicts further tokens and is not read.
 */
#include "arch/blocks.h"

static const struct mt_hf_key keys[] = {
    MT_KEY_EXPERT_WIDTH,
    MT_KEY_OR_NULL("moe_num_shared_experts", shared_experts, 0, MT_HF_SHARED_MAX),
    MT_KEY_INTEGER("moe_layer_start_index", first_k_dense, 0, MT_HF_LAYERS_MAX),
    MT_KEY_INTEGER("moe_layer_interval", decoder_sparse_step, 1, MT_HF_LAYERS_MAX),
    MT_KEY_AUX_LOSS,
};

/* use_bias puts biases on every projection, experts included. */
static enum mt_status refuse_biases(const struct mt_json_node *root)
{
    struct mt_json_node node;
    bool biased = false;
    enum mt_status status = mt_json_optional_bool(root, "use_bias", &biased);
    if (status != MT_OK || !biased) return status;
    (void)mt_json_member(root, "use_bias", &node);
    (void)mt_json_fail(&node, "is true, which would give the experts biases and is not supported");
    return MT_ERR_UNSUPPORTED;
}

/* moe_layer_end_index: the last layer that may have experts; -1: the last of all. */
static enum mt_status read_last_layer(const struct mt_json_node *root, struct mt_hf_config *config)
{
    int64_t last = -1;
    enum mt_status status = refuse_biases(root);
    if (status == MT_OK)
        status = mt_json_optional_integer(root, "moe_layer_end_index", -1, MT_HF_LAYERS_MAX, &last);
    if (status != MT_OK || last < 0 || last >= config->layers - 1) return status;
    int64_t *dense = mt_arena_array(&config->arena, (size_t)config->layers, sizeof *dense, &status);
    if (status != MT_OK) return status;
    for (int64_t layer = last + 1; layer < config->layers; layer++)
        dense[config->mlp_only_layer_count++] = layer;
    config->mlp_only_layers = dense;
    return MT_OK;
}

static const struct mt_tensor_row layer[] = {
    MT_ROWS_GROUPED_ATTENTION,
    MT_ROWS_NORM_WEIGHTS,
    MT_ROWS_DENSE,
    MT_ROW("mlp.moe_statics.e_score_correction_bias", ROUTER, CORRECTED_ROW, EXPERTS, NONE),
    MT_ROWS_EXPERTS,
    MT_ROWS_SHARED("mlp.shared_experts"),
};

const struct mt_arch mt_arch_ernie4_5_moe = {
    .name = "ernie4_5_moe",
    .defaults =
        {
            .norm_epsilon = 1e-5,
            .rope = {.theta = 5e5},
            .rope_interleave = true,
            .kv_heads = 4,
            .tie_word_embeddings = true,
            .first_k_dense = 1,
            .shared_experts = 2,
            .topk = MT_HF_TOPK_NOAUX,
            .norm_topk_prob = true,
            .aux_loss_coefficient = 0.001,
            .bos = 1,
            MT_DEFAULT_EOS(2),
            .pad = 0,
        },
    MT_ARCH_KEYS(keys),
    .read = read_last_layer,
    MT_ARCH_LAYER(layer),
    MT_ARCH_AFTER(mt_arch_after),
    .names = {MT_NAMES_EXPERTS, .correction = "mlp.moe_statics"},
    .loaders = {.router = "mlp.gate", .linear_router = true, .llama = "ernie4_5-moe"},
};
