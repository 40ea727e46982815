/* config.json: reading in groups, then the checks that need several values at once. */
#include "formats/hf/hf_config.h"

#include <string.h>

#include "base/files/file.h"
#include "formats/hf/hf_config_parts.h"
#include "formats/hf/model_folder.h"
#include "formats/text/printable.h"

#define ARENA_BLOCK_BYTES 2048

static const char *const model_names[] = {
#define MODEL_NAME(name, text) [name] = (text),
    MT_HF_MODEL_LIST(MODEL_NAME)
#undef MODEL_NAME
};

#define MODEL_WORD(name, text) " " text
static const char known_models[] = MT_HF_MODEL_LIST(MODEL_WORD);
#undef MODEL_WORD

const char *mt_hf_model_name(enum mt_hf_model model)
{
    return (unsigned)model < MT_HF_MODEL_COUNT ? model_names[model] : "unknown";
}

bool mt_hf_config_layer_is_moe(const struct mt_hf_config *config, int64_t layer)
{
    for (size_t i = 0; i < config->mlp_only_layer_count; i++) {
        if (config->mlp_only_layers[i] == layer) return false;
    }
    return layer >= config->first_k_dense && layer % config->moe_layer_freq == 0 &&
           (layer + 1) % config->decoder_sparse_step == 0;
}

// ------------------------------------------------------------------ small readers

enum mt_status mt_hf_read_integers(const struct mt_json_node *object, const char *key, int64_t max,
                                   struct mt_arena *arena, const int64_t **list, size_t *count)
{
    struct mt_json_node node;
    *list = NULL;
    *count = 0;
    if (!mt_json_has(object, key)) return MT_OK;
    (void)mt_json_member(object, key, &node);
    bool single = mt_json_kind(&node) != MT_JSON_ARRAY;
    size_t items = single ? 1 : mt_json_count(&node);
    void *memory = NULL;
    enum mt_status status = mt_arena_allocate(arena, items * sizeof(int64_t), &memory);
    if (status != MT_OK) return status;
    int64_t *values = memory;
    for (size_t i = 0; i < items; i++) {
        struct mt_json_node item = single ? node : mt_json_element(&node, i);
        status = mt_json_as_integer(&item, 0, max, &values[i]);
        if (status != MT_OK) return status;
    }
    *list = values;
    *count = items;
    return MT_OK;
}

enum mt_status mt_hf_read_word(const struct mt_json_node *root, const char *key,
                               const struct mt_hf_word *words, size_t count, int *value)
{
    const char *text = NULL;
    enum mt_status status = mt_json_optional_string(root, key, &text);
    if (status != MT_OK || text == NULL) return status;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(words[i].text, text) == 0) {
            *value = words[i].value;
            return MT_OK;
        }
    }
    struct mt_json_node node;
    (void)mt_json_member(root, key, &node);
    (void)mt_json_fail(&node, "is \"%s\", which is not known here", mt_printable(text).text);
    return MT_ERR_UNSUPPORTED;
}

static enum mt_status read_model(const struct mt_json_node *root, struct mt_hf_config *config)
{
    const char *text = NULL;
    enum mt_status status = mt_json_get_string(root, "model_type", &text);
    if (status != MT_OK) return status;
    for (int i = 0; i < MT_HF_MODEL_COUNT; i++) {
        if (strcmp(text, model_names[i]) == 0) {
            config->model = (enum mt_hf_model)i;
            return MT_OK;
        }
    }
    struct mt_json_node node;
    (void)mt_json_member(root, "model_type", &node);
    (void)mt_json_fail(&node, "is \"%s\"; known are%s", mt_printable(text).text, known_models);
    return MT_ERR_UNSUPPORTED;
}

/* What would change the model without changing a shape, and is not supported, must not pass unseen. */
static enum mt_status refuse_unsupported(const struct mt_json_node *root)
{
    struct mt_json_node node;
    const char *activation = "silu";
    bool mlp_bias = false;
    enum mt_status status = mt_json_optional_string(root, "hidden_act", &activation);
    if (status == MT_OK) status = mt_json_optional_bool(root, "mlp_bias", &mlp_bias);
    if (status != MT_OK) return status;
    if (strcmp(activation, "silu") != 0) {
        (void)mt_json_member(root, "hidden_act", &node);
        (void)mt_json_fail(&node, "is \"%s\", only silu is supported", mt_printable(activation).text);
        return MT_ERR_UNSUPPORTED;
    }
    if (mlp_bias) {
        (void)mt_json_member(root, "mlp_bias", &node);
        (void)mt_json_fail(&node, "is true, which is not supported");
        return MT_ERR_UNSUPPORTED;
    }
    if (mt_json_has(root, "quantization_config")) {
        (void)mt_json_member(root, "quantization_config", &node);
        (void)mt_json_fail(&node, "is given: quantised checkpoints are not supported");
        return MT_ERR_UNSUPPORTED;
    }
    return MT_OK;
}

static enum mt_status read_dtype(const struct mt_json_node *root, struct mt_hf_config *config)
{
    static const struct mt_hf_word words[] = {
        {"float32", MT_HF_FLOAT32},
        {"float16", MT_HF_FLOAT16},
        {"bfloat16", MT_HF_BFLOAT16},
    };
    int dtype = MT_HF_FLOAT_UNKNOWN;
    enum mt_status status =
        mt_hf_read_word(root, "torch_dtype", words, sizeof words / sizeof words[0], &dtype);
    // transformers 5 writes "dtype"; where a file has both, that one is newer.
    if (status == MT_OK)
        status = mt_hf_read_word(root, "dtype", words, sizeof words / sizeof words[0], &dtype);
    config->dtype = (enum mt_hf_float)dtype;
    return status;
}

// ------------------------------------------------------------------ groups of keys

static enum mt_status read_shape(const struct mt_json_node *root, struct mt_hf_config *config)
{
    enum mt_status status = mt_json_get_integer(root, "vocab_size", 1, MT_HF_VOCAB_MAX, &config->vocab_size);
    if (status == MT_OK)
        status = mt_json_get_integer(root, "hidden_size", 1, MT_HF_WIDTH_MAX, &config->hidden_size);
    if (status == MT_OK) {
        status = mt_json_get_integer(root, "num_hidden_layers", 1, MT_HF_LAYERS_MAX, &config->layers);
    }
    if (status == MT_OK) {
        status = mt_json_get_integer(root, "max_position_embeddings", 1, MT_HF_POSITION_MAX,
                                     &config->max_position_embeddings);
    }
    if (status == MT_OK) {
        status = mt_json_optional_bool(root, "tie_word_embeddings", &config->tie_word_embeddings);
    }
    if (status == MT_OK && config->model == MT_HF_PHIMOE) {
        status = mt_json_optional_bool(root, "lm_head_bias", &config->lm_head_bias);
    }
    config->norm_epsilon = mt_hf_defaults(config->model)->norm_epsilon;
    if (status == MT_OK) {
        status = mt_json_optional_real(root, "rms_norm_eps", 1e-12, 1.0, &config->norm_epsilon);
    }
    if (status == MT_OK) status = read_dtype(root, config);
    return status;
}

static enum mt_status read_heads(const struct mt_json_node *root, struct mt_hf_config *config)
{
    enum mt_status status =
        mt_json_get_integer(root, "num_attention_heads", 1, MT_HF_HEADS_MAX, &config->heads);
    if (status != MT_OK) return status;
    struct mt_json_node node;
    int64_t kv_default = mt_hf_defaults(config->model)->kv_heads;
    // An explicit null means as many as heads, in every class; only an absent key means the class default.
    bool is_null = mt_json_member(root, "num_key_value_heads", &node) && mt_json_kind(&node) == MT_JSON_NULL;
    config->kv_heads = kv_default == 0 || is_null ? config->heads : kv_default;
    status = mt_json_optional_integer(root, "num_key_value_heads", 1, MT_HF_HEADS_MAX, &config->kv_heads);
    if (status != MT_OK) return status;
    (void)mt_json_member(root, "num_key_value_heads", &node);
    if (config->heads % config->kv_heads != 0) {
        return mt_json_fail(&node, "is %lld, which does not divide the %lld attention heads",
                            (long long)config->kv_heads, (long long)config->heads);
    }
    return MT_OK;
}

static enum mt_status read_grouped_query(const struct mt_json_node *root, struct mt_hf_config *config)
{
    struct mt_json_node node;
    (void)mt_json_member(root, "head_dim", &node);
    if (mt_json_has(root, "head_dim")) {
        enum mt_status status = mt_json_as_integer(&node, 1, MT_HF_HEAD_DIM_MAX, &config->head_dim);
        if (status != MT_OK) return status;
    } else if (config->hidden_size % config->heads != 0) {
        return mt_json_fail(&node, "is missing, and hidden_size %lld is not a multiple of the %lld heads",
                            (long long)config->hidden_size, (long long)config->heads);
    } else {
        config->head_dim = config->hidden_size / config->heads;
    }
    if (config->head_dim % 2 != 0 || config->head_dim > MT_HF_HEAD_DIM_MAX) {
        return mt_json_fail(&node, "is %lld, expected an even number up to %d", (long long)config->head_dim,
                            MT_HF_HEAD_DIM_MAX);
    }
    config->v_head_dim = config->head_dim;
    return MT_OK;
}

static enum mt_status read_latent(const struct mt_json_node *root, struct mt_hf_config *config)
{
    struct mt_json_node node;
    bool is_null = mt_json_member(root, "q_lora_rank", &node) && mt_json_kind(&node) == MT_JSON_NULL;
    config->q_lora_rank = is_null ? 0 : mt_hf_defaults(config->model)->q_lora_rank;
    config->kv_lora_rank = 512;
    config->qk_nope_head_dim = 128;
    config->qk_rope_head_dim = 64;
    config->v_head_dim = 128;
    config->rope_interleave = true;
    enum mt_status status =
        mt_json_optional_integer(root, "q_lora_rank", 1, MT_HF_WIDTH_MAX, &config->q_lora_rank);
    if (status == MT_OK) {
        status = mt_json_optional_integer(root, "kv_lora_rank", 1, MT_HF_WIDTH_MAX, &config->kv_lora_rank);
    }
    if (status == MT_OK) {
        status = mt_json_optional_integer(root, "qk_nope_head_dim", 1, MT_HF_HEAD_DIM_MAX,
                                          &config->qk_nope_head_dim);
    }
    if (status == MT_OK) {
        status = mt_json_optional_integer(root, "qk_rope_head_dim", 2, MT_HF_HEAD_DIM_MAX,
                                          &config->qk_rope_head_dim);
    }
    if (status == MT_OK) {
        status = mt_json_optional_integer(root, "v_head_dim", 1, MT_HF_HEAD_DIM_MAX, &config->v_head_dim);
    }
    if (status == MT_OK) status = mt_json_optional_bool(root, "rope_interleave", &config->rope_interleave);
    if (status != MT_OK) return status;
    if (config->qk_rope_head_dim % 2 != 0) {
        (void)mt_json_member(root, "qk_rope_head_dim", &node);
        return mt_json_fail(&node, "is %lld, expected an even number", (long long)config->qk_rope_head_dim);
    }
    config->head_dim = config->qk_nope_head_dim + config->qk_rope_head_dim;
    config->kv_heads = config->heads; // every head has its own key and value, made from the shared latent
    return MT_OK;
}

static enum mt_status read_sliding_window(const struct mt_json_node *root, struct mt_hf_config *config)
{
    bool qwen3 = config->model == MT_HF_QWEN3_MOE;
    if (!qwen3 && config->model != MT_HF_MIXTRAL && config->model != MT_HF_PHIMOE) return MT_OK;
    struct mt_json_node node;
    bool is_null = mt_json_member(root, "sliding_window", &node) && mt_json_kind(&node) == MT_JSON_NULL;
    bool used = !qwen3; // qwen3_moe gives a window and switches it off beside it
    config->sliding_window = is_null ? 0 : mt_hf_defaults(config->model)->sliding_window;
    enum mt_status status =
        mt_json_optional_integer(root, "sliding_window", 1, MT_HF_POSITION_MAX, &config->sliding_window);
    if (status == MT_OK && qwen3) status = mt_json_optional_bool(root, "use_sliding_window", &used);
    if (!used) config->sliding_window = 0;
    return status;
}

static enum mt_status read_attention(const struct mt_json_node *root, struct mt_hf_config *config)
{
    enum mt_status status = read_heads(root, config);
    if (status == MT_OK) {
        bool mla = mt_hf_defaults(config->model)->mla;
        status = mla ? read_latent(root, config) : read_grouped_query(root, config);
    }
    if (status == MT_OK && config->model != MT_HF_MIXTRAL) {
        status = mt_json_optional_bool(root, "attention_bias", &config->attention_bias);
    }
    if (status == MT_OK && config->model == MT_HF_OLMOE) {
        status = mt_json_optional_real(root, "clip_qkv", 1e-6, 1e6, &config->clip_qkv);
    }
    if (status == MT_OK) status = read_sliding_window(root, config);
    if (status == MT_OK) status = mt_hf_read_rope(root, config);
    return status;
}

static enum mt_status read_tokens(const struct mt_json_node *root, struct mt_hf_config *config)
{
    const struct mt_hf_defaults *defaults = mt_hf_defaults(config->model);
    config->bos = defaults->bos;
    config->pad = defaults->pad;
    enum mt_status status =
        mt_json_optional_integer(root, "bos_token_id", 0, MT_HF_TOKEN_ID_MAX, &config->bos);
    if (status == MT_OK) {
        status = mt_json_optional_integer(root, "pad_token_id", 0, MT_HF_TOKEN_ID_MAX, &config->pad);
    }
    struct mt_json_node node;
    if (mt_json_member(root, "bos_token_id", &node) && mt_json_kind(&node) == MT_JSON_NULL) config->bos = -1;
    if (mt_json_member(root, "pad_token_id", &node) && mt_json_kind(&node) == MT_JSON_NULL) config->pad = -1;
    if (status != MT_OK) return status;
    if (!mt_json_member(root, "eos_token_id", &node) && defaults->eos >= 0) {
        config->eos = &defaults->eos;
        config->eos_count = 1;
        return MT_OK;
    }
    return mt_hf_read_integers(root, "eos_token_id", MT_HF_TOKEN_ID_MAX, &config->arena, &config->eos,
                               &config->eos_count);
}

// ------------------------------------------------------------------ the file

static enum mt_status read_all(const struct mt_json_node *root, struct mt_hf_config *config)
{
    enum mt_status status = mt_json_expect_object(root);
    if (status == MT_OK) status = read_model(root, config);
    if (status == MT_OK) status = refuse_unsupported(root);
    if (status == MT_OK) status = read_shape(root, config);
    if (status == MT_OK) status = read_attention(root, config);
    if (status == MT_OK) status = mt_hf_read_experts(root, config);
    if (status == MT_OK) status = read_tokens(root, config);
    return status;
}

static enum mt_status build(struct mt_context *ctx, const struct mt_json *json, struct mt_hf_config *config)
{
    mt_arena_init(&config->arena, ctx, ARENA_BLOCK_BYTES);
    struct mt_json_node root = mt_json_root(json);
    enum mt_status status = read_all(&root, config);
    if (status != MT_OK) mt_hf_config_free(config);
    return status;
}

enum mt_status mt_hf_config_parse(struct mt_context *ctx, const char *path, const void *text, size_t bytes,
                                  struct mt_hf_config *config)
{
    *config = (struct mt_hf_config){0};
    struct mt_json json;
    enum mt_status status = mt_json_parse(ctx, path, text, bytes, &mt_json_file_limits, &json);
    if (status != MT_OK) return status;
    status = build(ctx, &json, config);
    mt_json_free(&json);
    return status;
}

enum mt_status mt_hf_config_read(struct mt_context *ctx, const char *path, struct mt_hf_config *config)
{
    *config = (struct mt_hf_config){0};
    struct mt_json json;
    enum mt_status status = mt_json_read(ctx, path, &mt_json_file_limits, &json);
    if (status != MT_OK) return status;
    status = build(ctx, &json, config);
    mt_json_free(&json);
    return status;
}

enum mt_status mt_hf_config_read_folder(struct mt_context *ctx, const char *folder,
                                        struct mt_hf_config *config)
{
    char *path = NULL;
    *config = (struct mt_hf_config){0};
    enum mt_status status = mt_model_folder_file(ctx, folder, "config.json", &path);
    if (status == MT_OK) status = mt_hf_config_read(ctx, path, config);
    mt_path_release(ctx, path);
    return status;
}

void mt_hf_config_free(struct mt_hf_config *config)
{
    if (config->arena.ctx != NULL) mt_arena_free(&config->arena);
    *config = (struct mt_hf_config){0};
}
