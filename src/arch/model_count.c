/* Parameter counts and the memory of LoRA training. */
#include "arch/model_count.h"

#define ACTIVATION_BYTES 2 // bf16
#define F32_BYTES        4
#define ADAMW_MOMENTS    2
#define LOGIT_ROWS       1024 // logits exist for this many tokens at a time

void mt_model_count(const struct mt_hf_config *config, struct mt_model_count *count)
{
    *count = (struct mt_model_count){0};
    struct mt_model_tensors walk = mt_model_tensors_begin(config);
    struct mt_model_tensor tensor;
    while (mt_model_tensors_next(&walk, &tensor)) {
        int64_t elements = mt_model_tensor_count(&tensor);
        count->total[tensor.part] += elements;
        // Experts are alike, so the first k of a layer stand for the k that a token visits.
        if (tensor.expert < config->experts_per_token) count->active[tensor.part] += elements;
        count->tensors++;
    }
    for (int64_t layer = 0; layer < config->layers; layer++) {
        count->moe_layers += mt_hf_config_layer_is_moe(config, layer);
    }
    for (int part = 0; part < MT_MODEL_PART_COUNT; part++) {
        count->all += count->total[part];
        count->all_active += count->active[part];
    }
}

/* Numbers kept for the backward pass, per token, in all layers. */
static int64_t activations_per_token(const struct mt_hf_config *config)
{
    int64_t hidden = config->hidden_size;
    int64_t attention = config->heads * config->head_dim + config->kv_heads * config->head_dim +
                        config->kv_heads * config->v_head_dim + config->heads * config->v_head_dim;
    int64_t visited = config->experts_per_token * (3 * config->moe_intermediate_size + hidden);
    int64_t shared = 3 * config->shared_width;
    int64_t sum = 2 * hidden;
    for (int64_t layer = 0; layer < config->layers; layer++) {
        bool moe = mt_hf_config_layer_is_moe(config, layer);
        sum += 4 * hidden + attention;
        // The router's logits are f32: two numbers' worth each.
        sum += moe ? visited + shared + 2 * config->experts : 3 * config->intermediate_size;
    }
    return sum;
}

const char *mt_model_activation_formula(void)
{
    return "2 bytes x tokens x [2d + sum over layers of (4d + q + k + v + o + feed-forward)] + 1024 x vocab "
           "x 4; "
           "feed-forward = top_k x (3 x expert width + d) + 3 x shared width + 2 x experts, or 3 x dense "
           "width";
}

void mt_model_memory(const struct mt_hf_config *config, int64_t weight_bytes, int64_t rank, int64_t tokens,
                     struct mt_model_memory *memory)
{
    *memory = (struct mt_model_memory){.rank = rank, .tokens = tokens, .weights = weight_bytes};
    struct mt_model_tensors walk = mt_model_tensors_begin(config);
    struct mt_model_tensor tensor;
    while (mt_model_tensors_next(&walk, &tensor)) {
        if (!mt_model_tensor_is_linear(&tensor)) continue;
        memory->adapters[tensor.part] += rank * (tensor.dim[0] + tensor.dim[1]);
    }
    for (int part = 0; part < MT_MODEL_PART_COUNT; part++) memory->all_adapters += memory->adapters[part];
    memory->adapter_bytes = F32_BYTES * memory->all_adapters;
    memory->gradient_bytes = F32_BYTES * memory->all_adapters;
    memory->optimizer_bytes = ADAMW_MOMENTS * F32_BYTES * memory->all_adapters;
    memory->activation_bytes = ACTIVATION_BYTES * tokens * activations_per_token(config) +
                               (int64_t)F32_BYTES * LOGIT_ROWS * config->vocab_size;
    memory->all_bytes = memory->weights + memory->adapter_bytes + memory->gradient_bytes +
                        memory->optimizer_bytes + memory->activation_bytes;
}
