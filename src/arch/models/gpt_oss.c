/*
 * gpt-oss, 20b and 120b. Unlike the others:
 *   - layers take turns: a window of 128 tokens, then all of them; layer_types says which
 *   - a learnt score of each head, its sink, is in the sum that attention's probabilities are divided by
 *   - experts are SwiGLU with a limit: gates are clamped above, ups on both sides, a sigmoid of 1.702 · gate,
 *     and up + 1
 *   - biases on q, k, v, o, on the router, and on every expert's gate, up and down
 *   - the router's weights are the softmax of the chosen logits alone, which is that of all, divided by its
 * sum
 *   - all experts of a layer lie in one tensor, transposed, gate's and up's columns in turns; published they
 * are mxfp4, not transposed
 *   - YaRN whose ramp ends between pairs (truncate: false), where the file says nothing, too
 */
#include "arch/blocks.h"

static const struct mt_hf_key keys[] = {
    MT_KEY_ATTENTION_BIAS,
    MT_KEY_WINDOW,
    MT_KEY_REAL("swiglu_limit", swiglu_limit, 1e-6, 1e6),
    MT_KEY_REAL("swiglu_alpha", swiglu_alpha, 1e-6, 1e6),
    MT_KEY_AUX_LOSS,
};

/* Without a list every other layer has the window, from the first on. A null window is refused, as the class
 * does. */
static enum mt_status read_layers(const struct mt_json_node *root, struct mt_hf_config *config)
{
    struct mt_json_node window;
    if (config->sliding_window == 0 && mt_json_member(root, "sliding_window", &window)) {
        return mt_json_fail(&window, "is null, expected how many tokens the layers of sliding_attention see");
    }
    enum mt_status status = mt_arch_read_layer_types(root, config);
    if (status != MT_OK || config->windowed != NULL) return status;
    bool *windowed = mt_arena_array(&config->arena, (size_t)config->layers, sizeof *windowed, &status);
    for (int64_t i = 0; status == MT_OK && i < config->layers; i++) windowed[i] = i % 2 == 0;
    config->windowed = windowed;
    return status;
}

static const struct mt_tensor_row layer[] = {
    MT_ROW("self_attn.sinks", ATTENTION, ALWAYS, HEADS, NONE),
    MT_ROWS_GROUPED_ATTENTION,
    MT_ROWS_NORM_WEIGHTS,
    MT_ROW("mlp.router.weight", ROUTER, MOE_LAYER, EXPERTS, HIDDEN),
    MT_ROW("mlp.router.bias", ROUTER, MOE_LAYER, EXPERTS, NONE),
    MT_ROW("gate_proj.weight", EXPERTS, EACH_EXPERT, EXPERT_WIDTH, HIDDEN),
    MT_ROW("gate_proj.bias", EXPERTS, EACH_EXPERT, EXPERT_WIDTH, NONE),
    MT_ROW("up_proj.weight", EXPERTS, EACH_EXPERT, EXPERT_WIDTH, HIDDEN),
    MT_ROW("up_proj.bias", EXPERTS, EACH_EXPERT, EXPERT_WIDTH, NONE),
    MT_ROW("down_proj.weight", EXPERTS, EACH_EXPERT, HIDDEN, EXPERT_WIDTH),
    MT_ROW("down_proj.bias", EXPERTS, EACH_EXPERT, HIDDEN, NONE),
};

const struct mt_arch mt_arch_gpt_oss = {
    .name = "gpt_oss",
    .defaults =
        {
            .norm_epsilon = 1e-5,
            .rope = {.kind = MT_HF_ROPE_YARN,
                     .theta = 150000.0,
                     .factor = 32.0,
                     .original_max_position = 4096,
                     .beta_fast = 32.0,
                     .beta_slow = 1.0,
                     .unrounded = true},
            .kv_heads = 8,
            .attention_bias = true,
            .sliding_window = 128,
            .swiglu_limit = 7.0,
            .swiglu_alpha = 1.702,
            .norm_topk_prob = true,
            .aux_loss_coefficient = 0.001,
            .bos = -1,
            .pad = -1,
        },
    MT_ARCH_KEYS(keys),
    .read = read_layers,
    MT_ARCH_LAYER(layer),
    MT_ARCH_AFTER(mt_arch_after),
    .names = {.router = "mlp.router",
              .experts = "mlp.experts",
              .gate = "gate_proj",
              .up = "up_proj",
              .down = "down_proj"},
    .loaders = {.router = "mlp.router", .llama = "gpt-oss"},
    .stored = {.stacked = true, .transposed = true, .interleaved = true},
};
