/* The walk over an architecture's rows. */
#include "arch/model_tensors.h"

#include <stdio.h>
#include <string.h>

#include "arch/blocks.h"

static const struct mt_tensor_row before_rows[] = {
    MT_ROW("model.embed_tokens.weight", EMBEDDING, ALWAYS, VOCAB, HIDDEN),
};

static int64_t size_of(const struct mt_hf_config *config, enum mt_row_size size)
{
    switch (size) {
    case MT_SIZE_NONE: break;
    case MT_SIZE_ONE: return 1;
    case MT_SIZE_VOCAB: return config->vocab_size;
    case MT_SIZE_HIDDEN: return config->hidden_size;
    case MT_SIZE_QUERY: return config->heads * config->head_dim;
    case MT_SIZE_KEY_VALUE: return config->kv_heads * config->head_dim;
    case MT_SIZE_HEAD: return config->head_dim;
    case MT_SIZE_HEADS: return config->heads;
    case MT_SIZE_VALUES: return config->heads * config->v_head_dim;
    case MT_SIZE_Q_RANK: return config->q_lora_rank;
    case MT_SIZE_KV_RANK: return config->kv_lora_rank;
    case MT_SIZE_KV_A: return config->kv_lora_rank + config->qk_rope_head_dim;
    case MT_SIZE_KV_B: return config->heads * (config->qk_nope_head_dim + config->v_head_dim);
    case MT_SIZE_EXPERTS: return config->experts;
    case MT_SIZE_EXPERT_WIDTH: return config->moe_intermediate_size;
    case MT_SIZE_SHARED_WIDTH: return config->shared_width;
    case MT_SIZE_DENSE_WIDTH: return config->intermediate_size;
    }
    return 0;
}

static bool applies(const struct mt_hf_config *config, enum mt_row_when when, bool moe)
{
    switch (when) {
    case MT_WHEN_ALWAYS: break;
    case MT_WHEN_ATTENTION_BIAS: return config->attention_bias;
    case MT_WHEN_QK_NORM: return config->use_qk_norm;
    case MT_WHEN_Q_COMPRESSED: return config->q_lora_rank > 0;
    case MT_WHEN_Q_COMPRESSED_BIAS: return config->q_lora_rank > 0 && config->attention_bias;
    case MT_WHEN_Q_PLAIN: return config->q_lora_rank == 0;
    case MT_WHEN_MOE_LAYER:
    case MT_WHEN_EACH_EXPERT: return moe;
    case MT_WHEN_SHARED: return moe && config->shared_width > 0;
    case MT_WHEN_CORRECTED:
    case MT_WHEN_CORRECTED_ROW: return moe && config->topk == MT_HF_TOPK_NOAUX;
    case MT_WHEN_DENSE_LAYER: return !moe;
    case MT_WHEN_LM_HEAD: return !config->tie_word_embeddings;
    case MT_WHEN_LM_HEAD_BIAS: return config->lm_head_bias;
    }
    return true;
}

enum section { SECTION_BEFORE, SECTION_LAYERS, SECTION_AFTER };

static void fill(const struct mt_model_tensors *walk, const struct mt_tensor_row *row,
                 struct mt_model_tensor *tensor)
{
    bool in_layer = walk->section == SECTION_LAYERS;
    bool in_expert = row->when == MT_WHEN_EACH_EXPERT;
    *tensor = (struct mt_model_tensor){
        .part = row->part,
        .layer = in_layer ? walk->layer : -1,
        .expert = in_expert ? walk->expert : -1,
        .rank = row->columns == MT_SIZE_NONE ? 1 : 2,
        .as_row = row->when == MT_WHEN_CORRECTED_ROW,
        .dim = {size_of(walk->config, row->rows), size_of(walk->config, row->columns)},
    };
    if (in_expert) {
        (void)snprintf(tensor->name, sizeof tensor->name, "model.layers.%lld.%s.%lld.%s",
                       (long long)walk->layer, walk->config->arch->names.experts, (long long)walk->expert,
                       row->name);
    } else if (in_layer) {
        (void)snprintf(tensor->name, sizeof tensor->name, "model.layers.%lld.%s", (long long)walk->layer,
                       row->name);
    } else {
        (void)snprintf(tensor->name, sizeof tensor->name, "%s", row->name);
    }
}

/* Moves past the tensor just given: to the next expert of the same row, or to the next row. */
static void step(struct mt_model_tensors *walk, const struct mt_tensor_row *row)
{
    walk->expert++;
    if (row->when == MT_WHEN_EACH_EXPERT && walk->expert < walk->config->experts) return;
    walk->expert = 0;
    walk->row++;
}

struct mt_model_tensors mt_model_tensors_begin(const struct mt_hf_config *config)
{
    return (struct mt_model_tensors){.config = config, .section = SECTION_BEFORE};
}

bool mt_model_tensors_next(struct mt_model_tensors *walk, struct mt_model_tensor *tensor)
{
    const struct mt_arch *arch = walk->config->arch;
    for (;;) {
        const struct mt_tensor_row *rows = before_rows;
        size_t count = MT_COUNT(before_rows);
        if (walk->section == SECTION_LAYERS) {
            rows = arch->layer;
            count = arch->layer_count;
        } else if (walk->section == SECTION_AFTER) {
            rows = arch->after;
            count = arch->after_count;
        }
        if (walk->row < count) {
            const struct mt_tensor_row *row = &rows[walk->row];
            if (applies(walk->config, row->when, walk->moe)) {
                fill(walk, row, tensor);
                step(walk, row);
                return true;
            }
            walk->row++;
            continue;
        }
        if (walk->section == SECTION_AFTER) return false;
        walk->row = 0;
        if (walk->section == SECTION_LAYERS) walk->layer++;
        walk->section = walk->layer < walk->config->layers ? SECTION_LAYERS : SECTION_AFTER;
        walk->moe = mt_hf_config_layer_is_moe(walk->config, walk->layer);
    }
}

bool mt_model_tensor_is_correction(const struct mt_model_tensor *tensor)
{
    const char *dot = strrchr(tensor->name, '.');
    return tensor->part == MT_PART_ROUTER && dot != NULL && strcmp(dot, ".e_score_correction_bias") == 0;
}

bool mt_model_tensor_is_linear(const struct mt_model_tensor *tensor)
{
    return tensor->rank == 2 && tensor->layer >= 0;
}

void mt_model_tensor_stored_shape(const struct mt_model_tensor *tensor, int *rank, int64_t dim[2])
{
    *rank = tensor->as_row ? 2 : tensor->rank;
    dim[0] = tensor->as_row ? 1 : tensor->dim[0];
    dim[1] = tensor->as_row ? tensor->dim[0] : tensor->dim[1];
}

int64_t mt_model_tensor_count(const struct mt_model_tensor *tensor)
{
    return tensor->rank == 1 ? tensor->dim[0] : tensor->dim[0] * tensor->dim[1];
}

const char *mt_model_part_name(enum mt_model_part part)
{
    static const char *const names[] = {
#define PART_NAME(name, text, key) [name] = (text),
        MT_MODEL_PART_LIST(PART_NAME)
#undef PART_NAME
    };
    return (unsigned)part < MT_MODEL_PART_COUNT ? names[part] : "unknown";
}

const char *mt_model_part_key(enum mt_model_part part)
{
    static const char *const keys[] = {
#define PART_KEY(name, text, key) [name] = (key),
        MT_MODEL_PART_LIST(PART_KEY)
#undef PART_KEY
    };
    return (unsigned)part < MT_MODEL_PART_COUNT ? keys[part] : "unknown";
}
