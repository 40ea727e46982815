/*
 * Tensor names as tables: one list of rows per architecture family. A row says the name inside its layer,
 * the part, the two sizes, and when the row applies. Adding an architecture is adding a table.
 */
#include "formats/hf/model_tensors.h"

#include <stdio.h>

enum size {
    SIZE_NONE, // second dimension of a vector
    SIZE_VOCAB,
    SIZE_HIDDEN,
    SIZE_QUERY,     // heads · head_dim
    SIZE_KEY_VALUE, // kv_heads · head_dim
    SIZE_HEAD,      // head_dim
    SIZE_VALUES,    // heads · v_head_dim: what o_proj reads
    SIZE_Q_RANK,
    SIZE_KV_RANK,
    SIZE_KV_A, // latent and the rope key shared by all heads
    SIZE_KV_B, // heads · (nope key + value)
    SIZE_EXPERTS,
    SIZE_EXPERT_WIDTH,
    SIZE_SHARED_WIDTH, // the shared experts are one MLP
    SIZE_DENSE_WIDTH,
};

enum when {
    ALWAYS,
    ATTENTION_BIAS,
    Q_COMPRESSED,
    Q_COMPRESSED_BIAS,
    Q_PLAIN,
    MOE_LAYER,
    MOE_LAYER_SHARED,
    MOE_LAYER_CORRECTED, // the router has a correction bias
    EACH_EXPERT,         // once per routed expert of a layer with experts
    DENSE_LAYER,
    LM_HEAD,
    LM_HEAD_BIAS,
};

struct row {
    const char *name; // after "model.layers.L." in a layer; with EACH_EXPERT, after the expert's number
    enum mt_model_part part;
    enum when when;
    enum size rows;
    enum size columns;
};

struct family {
    const char *experts; // where the routed experts are: "mlp.experts"
    const struct row *layer;
    size_t layer_count;
    const struct row *after; // after the layers
    size_t after_count;
};

// ------------------------------------------------------------------ the tables

#define ROW(name, part, when, rows, columns)                                                                 \
    {                                                                                                        \
        name, MT_PART_##part, when, SIZE_##rows, SIZE_##columns                                              \
    }

#define GROUPED_QUERY_ROWS                                                                                   \
    ROW("self_attn.q_proj.weight", ATTENTION, ALWAYS, QUERY, HIDDEN),                                        \
        ROW("self_attn.q_proj.bias", ATTENTION, ATTENTION_BIAS, QUERY, NONE),                                \
        ROW("self_attn.k_proj.weight", ATTENTION, ALWAYS, KEY_VALUE, HIDDEN),                                \
        ROW("self_attn.k_proj.bias", ATTENTION, ATTENTION_BIAS, KEY_VALUE, NONE),                            \
        ROW("self_attn.v_proj.weight", ATTENTION, ALWAYS, KEY_VALUE, HIDDEN),                                \
        ROW("self_attn.v_proj.bias", ATTENTION, ATTENTION_BIAS, KEY_VALUE, NONE),                            \
        ROW("self_attn.o_proj.weight", ATTENTION, ALWAYS, HIDDEN, QUERY),                                    \
        ROW("self_attn.o_proj.bias", ATTENTION, ATTENTION_BIAS, HIDDEN, NONE)

#define RMSNORM_ROWS                                                                                         \
    ROW("input_layernorm.weight", NORMS, ALWAYS, HIDDEN, NONE),                                              \
        ROW("post_attention_layernorm.weight", NORMS, ALWAYS, HIDDEN, NONE)

#define DENSE_ROWS                                                                                           \
    ROW("mlp.gate_proj.weight", DENSE, DENSE_LAYER, DENSE_WIDTH, HIDDEN),                                    \
        ROW("mlp.up_proj.weight", DENSE, DENSE_LAYER, DENSE_WIDTH, HIDDEN),                                  \
        ROW("mlp.down_proj.weight", DENSE, DENSE_LAYER, HIDDEN, DENSE_WIDTH)

#define EXPERT_ROWS                                                                                          \
    ROW("mlp.gate.weight", ROUTER, MOE_LAYER, EXPERTS, HIDDEN),                                              \
        ROW("gate_proj.weight", EXPERTS, EACH_EXPERT, EXPERT_WIDTH, HIDDEN),                                 \
        ROW("up_proj.weight", EXPERTS, EACH_EXPERT, EXPERT_WIDTH, HIDDEN),                                   \
        ROW("down_proj.weight", EXPERTS, EACH_EXPERT, HIDDEN, EXPERT_WIDTH)

#define SHARED_ROWS                                                                                          \
    ROW("mlp.shared_experts.gate_proj.weight", SHARED, MOE_LAYER_SHARED, SHARED_WIDTH, HIDDEN),              \
        ROW("mlp.shared_experts.up_proj.weight", SHARED, MOE_LAYER_SHARED, SHARED_WIDTH, HIDDEN),            \
        ROW("mlp.shared_experts.down_proj.weight", SHARED, MOE_LAYER_SHARED, HIDDEN, SHARED_WIDTH)

/* Mixtral's own names: w1 is gate, w3 is up, w2 is down. */
#define SPARSE_BLOCK_ROWS                                                                                    \
    ROW("block_sparse_moe.gate.weight", ROUTER, MOE_LAYER, EXPERTS, HIDDEN),                                 \
        ROW("w1.weight", EXPERTS, EACH_EXPERT, EXPERT_WIDTH, HIDDEN),                                        \
        ROW("w2.weight", EXPERTS, EACH_EXPERT, HIDDEN, EXPERT_WIDTH),                                        \
        ROW("w3.weight", EXPERTS, EACH_EXPERT, EXPERT_WIDTH, HIDDEN)

static const struct row deepseek_rows[] = {GROUPED_QUERY_ROWS, RMSNORM_ROWS, DENSE_ROWS, EXPERT_ROWS,
                                           SHARED_ROWS};

static const struct row latent_rows[] = {
    ROW("self_attn.q_proj.weight", ATTENTION, Q_PLAIN, QUERY, HIDDEN),
    ROW("self_attn.q_a_proj.weight", ATTENTION, Q_COMPRESSED, Q_RANK, HIDDEN),
    ROW("self_attn.q_a_proj.bias", ATTENTION, Q_COMPRESSED_BIAS, Q_RANK, NONE),
    ROW("self_attn.q_a_layernorm.weight", NORMS, Q_COMPRESSED, Q_RANK, NONE),
    ROW("self_attn.q_b_proj.weight", ATTENTION, Q_COMPRESSED, QUERY, Q_RANK),
    ROW("self_attn.kv_a_proj_with_mqa.weight", ATTENTION, ALWAYS, KV_A, HIDDEN),
    ROW("self_attn.kv_a_proj_with_mqa.bias", ATTENTION, ATTENTION_BIAS, KV_A, NONE),
    ROW("self_attn.kv_a_layernorm.weight", NORMS, ALWAYS, KV_RANK, NONE),
    ROW("self_attn.kv_b_proj.weight", ATTENTION, ALWAYS, KV_B, KV_RANK),
    ROW("self_attn.o_proj.weight", ATTENTION, ALWAYS, HIDDEN, VALUES),
    ROW("self_attn.o_proj.bias", ATTENTION, ATTENTION_BIAS, HIDDEN, NONE),
    RMSNORM_ROWS,
    DENSE_ROWS,
    ROW("mlp.gate.e_score_correction_bias", ROUTER, MOE_LAYER_CORRECTED, EXPERTS, NONE),
    EXPERT_ROWS,
    SHARED_ROWS,
};

static const struct row mixtral_rows[] = {GROUPED_QUERY_ROWS, RMSNORM_ROWS, SPARSE_BLOCK_ROWS};

/* LayerNorm, not RMSNorm: every norm has a bias. */
static const struct row phimoe_rows[] = {
    GROUPED_QUERY_ROWS,
    RMSNORM_ROWS,
    ROW("input_layernorm.bias", NORMS, ALWAYS, HIDDEN, NONE),
    ROW("post_attention_layernorm.bias", NORMS, ALWAYS, HIDDEN, NONE),
    SPARSE_BLOCK_ROWS,
};

/* The query and key norms span all heads at once. */
static const struct row olmoe_rows[] = {
    GROUPED_QUERY_ROWS,
    ROW("self_attn.q_norm.weight", NORMS, ALWAYS, QUERY, NONE),
    ROW("self_attn.k_norm.weight", NORMS, ALWAYS, KEY_VALUE, NONE),
    RMSNORM_ROWS,
    EXPERT_ROWS,
};

/* The query and key norms are per head. */
static const struct row qwen3_rows[] = {
    GROUPED_QUERY_ROWS,
    ROW("self_attn.q_norm.weight", NORMS, ALWAYS, HEAD, NONE),
    ROW("self_attn.k_norm.weight", NORMS, ALWAYS, HEAD, NONE),
    RMSNORM_ROWS,
    DENSE_ROWS,
    EXPERT_ROWS,
};

static const struct row before_rows[] = {
    ROW("model.embed_tokens.weight", EMBEDDING, ALWAYS, VOCAB, HIDDEN),
};

static const struct row after_rows[] = {
    ROW("model.norm.weight", NORMS, ALWAYS, HIDDEN, NONE),
    ROW("lm_head.weight", LM_HEAD, LM_HEAD, VOCAB, HIDDEN),
};

static const struct row phimoe_after_rows[] = {
    ROW("model.norm.weight", NORMS, ALWAYS, HIDDEN, NONE),
    ROW("model.norm.bias", NORMS, ALWAYS, HIDDEN, NONE),
    ROW("lm_head.weight", LM_HEAD, LM_HEAD, VOCAB, HIDDEN),
    ROW("lm_head.bias", LM_HEAD, LM_HEAD_BIAS, VOCAB, NONE),
};

#define ROWS(table) (table), sizeof(table) / sizeof((table)[0])

static const struct family families[] = {
    [MT_HF_DEEPSEEK] = {"mlp.experts", ROWS(deepseek_rows), ROWS(after_rows)},
    [MT_HF_DEEPSEEK_V2] = {"mlp.experts", ROWS(latent_rows), ROWS(after_rows)},
    [MT_HF_DEEPSEEK_V3] = {"mlp.experts", ROWS(latent_rows), ROWS(after_rows)},
    [MT_HF_MIXTRAL] = {"block_sparse_moe.experts", ROWS(mixtral_rows), ROWS(after_rows)},
    [MT_HF_PHIMOE] = {"block_sparse_moe.experts", ROWS(phimoe_rows), ROWS(phimoe_after_rows)},
    [MT_HF_OLMOE] = {"mlp.experts", ROWS(olmoe_rows), ROWS(after_rows)},
    [MT_HF_QWEN3_MOE] = {"mlp.experts", ROWS(qwen3_rows), ROWS(after_rows)},
};

// ------------------------------------------------------------------ the walk

static int64_t size_of(const struct mt_hf_config *config, enum size size)
{
    switch (size) {
    case SIZE_NONE: break;
    case SIZE_VOCAB: return config->vocab_size;
    case SIZE_HIDDEN: return config->hidden_size;
    case SIZE_QUERY: return config->heads * config->head_dim;
    case SIZE_KEY_VALUE: return config->kv_heads * config->head_dim;
    case SIZE_HEAD: return config->head_dim;
    case SIZE_VALUES: return config->heads * config->v_head_dim;
    case SIZE_Q_RANK: return config->q_lora_rank;
    case SIZE_KV_RANK: return config->kv_lora_rank;
    case SIZE_KV_A: return config->kv_lora_rank + config->qk_rope_head_dim;
    case SIZE_KV_B: return config->heads * (config->qk_nope_head_dim + config->v_head_dim);
    case SIZE_EXPERTS: return config->experts;
    case SIZE_EXPERT_WIDTH: return config->moe_intermediate_size;
    case SIZE_SHARED_WIDTH: return config->shared_experts * config->moe_intermediate_size;
    case SIZE_DENSE_WIDTH: return config->intermediate_size;
    }
    return 0;
}

static bool applies(const struct mt_hf_config *config, enum when when, bool moe)
{
    switch (when) {
    case ALWAYS: break;
    case ATTENTION_BIAS: return config->attention_bias;
    case Q_COMPRESSED: return config->q_lora_rank > 0;
    case Q_COMPRESSED_BIAS: return config->q_lora_rank > 0 && config->attention_bias;
    case Q_PLAIN: return config->q_lora_rank == 0;
    case MOE_LAYER:
    case EACH_EXPERT: return moe;
    case MOE_LAYER_SHARED: return moe && config->shared_experts > 0;
    case MOE_LAYER_CORRECTED: return moe && config->topk == MT_HF_TOPK_NOAUX;
    case DENSE_LAYER: return !moe;
    case LM_HEAD: return !config->tie_word_embeddings;
    case LM_HEAD_BIAS: return config->lm_head_bias;
    }
    return true;
}

enum section { SECTION_BEFORE, SECTION_LAYERS, SECTION_AFTER };

static void fill(const struct mt_model_tensors *walk, const struct row *row, struct mt_model_tensor *tensor)
{
    bool in_layer = walk->section == SECTION_LAYERS;
    bool in_expert = row->when == EACH_EXPERT;
    *tensor = (struct mt_model_tensor){
        .part = row->part,
        .layer = in_layer ? walk->layer : -1,
        .expert = in_expert ? walk->expert : -1,
        .rank = row->columns == SIZE_NONE ? 1 : 2,
        .dim = {size_of(walk->config, row->rows), size_of(walk->config, row->columns)},
    };
    if (in_expert) {
        (void)snprintf(tensor->name, sizeof tensor->name, "model.layers.%lld.%s.%lld.%s",
                       (long long)walk->layer, families[walk->config->model].experts, (long long)walk->expert,
                       row->name);
    } else if (in_layer) {
        (void)snprintf(tensor->name, sizeof tensor->name, "model.layers.%lld.%s", (long long)walk->layer,
                       row->name);
    } else {
        (void)snprintf(tensor->name, sizeof tensor->name, "%s", row->name);
    }
}

/* Moves past the tensor just given: to the next expert of the same row, or to the next row. */
static void step(struct mt_model_tensors *walk, const struct row *row)
{
    walk->expert++;
    if (row->when == EACH_EXPERT && walk->expert < walk->config->experts) return;
    walk->expert = 0;
    walk->row++;
}

struct mt_model_tensors mt_model_tensors_begin(const struct mt_hf_config *config)
{
    return (struct mt_model_tensors){.config = config, .section = SECTION_BEFORE};
}

bool mt_model_tensors_next(struct mt_model_tensors *walk, struct mt_model_tensor *tensor)
{
    const struct family *family = &families[walk->config->model];
    for (;;) {
        const struct row *rows = before_rows;
        size_t count = sizeof before_rows / sizeof before_rows[0];
        if (walk->section == SECTION_LAYERS) {
            rows = family->layer;
            count = family->layer_count;
        } else if (walk->section == SECTION_AFTER) {
            rows = family->after;
            count = family->after_count;
        }
        if (walk->row < count) {
            const struct row *row = &rows[walk->row];
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

bool mt_model_tensor_is_linear(const struct mt_model_tensor *tensor)
{
    return tensor->rank == 2 && tensor->layer >= 0;
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
