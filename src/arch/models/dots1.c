/*
 * dots.llm1: Qwen3's attention (queries and keys normalised per head) with DeepSeek-V3's router, experts and
 * shared experts.
 */
#include "arch/blocks.h"

static const struct mt_hf_key keys[] = {
    MT_KEY_ATTENTION_BIAS,
    MT_KEY_WINDOW,
    MT_KEYS_DEEPSEEK_EXPERTS,
};

/* Layers from max_window_layers on have the window; the published model has no such layer. */
static enum mt_status refuse_windows(const struct mt_json_node *root, struct mt_hf_config *config)
{
    struct mt_json_node node;
    bool listed = false;
    int64_t first_windowed = 62;
    enum mt_status status = mt_arch_refuse_layer_types(root, &listed);
    if (status == MT_OK) {
        status = mt_json_optional_integer(root, "max_window_layers", 0, MT_HF_LAYERS_MAX, &first_windowed);
    }
    bool some = !listed && config->sliding_window > 0 && first_windowed < config->layers;
    config->sliding_window = 0;
    if (status != MT_OK || !some) return status;
    (void)mt_json_member(root, "max_window_layers", &node);
    (void)mt_json_fail(&node, "is %lld: only some layers would have a window, which is not supported",
                       (long long)first_windowed);
    return MT_ERR_UNSUPPORTED;
}

static const struct mt_tensor_row layer[] = {
    MT_ROWS_GROUPED_ATTENTION,
    MT_ROW("self_attn.q_norm.weight", NORMS, ALWAYS, HEAD, NONE),
    MT_ROW("self_attn.k_norm.weight", NORMS, ALWAYS, HEAD, NONE),
    MT_ROWS_NORM_WEIGHTS,
    MT_ROWS_DENSE,
    MT_ROW_CORRECTION,
    MT_ROWS_EXPERTS,
    MT_ROWS_SHARED("mlp.shared_experts"),
};

const struct mt_arch mt_arch_dots1 = {
    .name = "dots1",
    .defaults =
        {
            .norm_epsilon = 1e-6,
            .rope = {.theta = 1e4},
            .kv_heads = 32,
            .use_qk_norm = true,
            .sliding_window = 4096, // without effect in a model of up to max_window_layers
            .scoring = MT_HF_SCORING_SIGMOID,
            .topk = MT_HF_TOPK_NOAUX,
            .bos = -1,
            .pad = -1,
        },
    MT_ARCH_KEYS(keys),
    .read = refuse_windows,
    MT_ARCH_LAYER(layer),
    MT_ARCH_AFTER(mt_arch_after),
    .names = {MT_NAMES_EXPERTS},
    .loaders = {.router = "mlp.gate", .llama = "dots1"},
    .qk_norm = MT_QK_NORM_HEAD,
    .router_epsilon = 1e-20f,
};
