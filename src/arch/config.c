/*
 * config.json: the class's defaults, over them the keys every architecture has and the architecture's own,
 * then what follows from several values at once, and the checks.
 *
 * Defaults matter: a key is often left out exactly when it has its class's default. Sizes (hidden_size,
 * layers, heads, experts, ...) have class defaults too, but a file without them is broken far more often than
 * it is brief: they are required.
 */
#include <string.h>

#include "arch/blocks.h"
#include "base/files/file.h"
#include "formats/hf/model_folder.h"
#include "formats/text/printable.h"

#define ARENA_BLOCK_BYTES 2048

bool mt_hf_config_layer_is_moe(const struct mt_hf_config *config, int64_t layer)
{
    for (size_t i = 0; i < config->mlp_only_layer_count; i++) {
        if (config->mlp_only_layers[i] == layer) return false;
    }
    return layer >= config->first_k_dense && layer % config->moe_layer_freq == 0 &&
           (layer + 1) % config->decoder_sparse_step == 0;
}

// ------------------------------------------------------------------ keys every architecture has

static const struct mt_hf_word dtypes[] = {
    {"float32", MT_HF_FLOAT32},
    {"float16", MT_HF_FLOAT16},
    {"bfloat16", MT_HF_BFLOAT16},
    {NULL, 0},
};

static const struct mt_hf_key common_keys[] = {
    MT_KEY_REQUIRED("vocab_size", vocab_size, MT_HF_VOCAB_MAX),
    MT_KEY_REQUIRED("hidden_size", hidden_size, MT_HF_WIDTH_MAX),
    MT_KEY_REQUIRED("num_hidden_layers", layers, MT_HF_LAYERS_MAX),
    MT_KEY_REQUIRED("max_position_embeddings", max_position_embeddings, MT_HF_POSITION_MAX),
    MT_KEY_BOOL("tie_word_embeddings", tie_word_embeddings),
    MT_KEY_REAL("rms_norm_eps", norm_epsilon, 1e-12, 1.0),
    MT_KEY_WORD("torch_dtype", dtype, dtypes),
    MT_KEY_WORD("dtype", dtype, dtypes), // transformers 5 writes this one; where a file has both, it is newer
    MT_KEY_REQUIRED("num_attention_heads", heads, MT_HF_HEADS_MAX),
    MT_KEY_OR_NULL("num_key_value_heads", kv_heads, 1, MT_HF_HEADS_MAX), // null: as many as heads, always
    MT_KEY_REQUIRED("intermediate_size", intermediate_size, MT_HF_WIDTH_MAX),
    MT_KEY_TOKEN("bos_token_id", bos),
    MT_KEY_TOKEN("pad_token_id", pad),
};

static enum mt_status read_model_type(const struct mt_json_node *root, const struct mt_arch **arch)
{
    const char *text = NULL;
    enum mt_status status = mt_json_get_string(root, "model_type", &text);
    if (status != MT_OK) return status;
    *arch = mt_arch_find(text);
    if (*arch != NULL) return MT_OK;
    struct mt_json_node node;
    (void)mt_json_member(root, "model_type", &node);
    (void)mt_json_fail(&node, "is \"%s\"; known are%s", mt_printable(text).text, mt_arch_names());
    return MT_ERR_UNSUPPORTED;
}

/* The class's defaults; what it does not know has no effect. */
static void set_defaults(const struct mt_arch *arch, struct mt_hf_config *config)
{
    struct mt_arena arena = config->arena;
    *config = arch->defaults;
    config->arena = arena;
    config->arch = arch;
    if (config->groups == 0) config->groups = 1;
    if (config->topk_groups == 0) config->topk_groups = 1;
    if (config->routed_scaling_factor == 0.0) config->routed_scaling_factor = 1.0;
    if (config->moe_layer_freq == 0) config->moe_layer_freq = 1;
    if (config->decoder_sparse_step == 0) config->decoder_sparse_step = 1;
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
    } else if (mlp_bias) {
        (void)mt_json_member(root, "mlp_bias", &node);
        (void)mt_json_fail(&node, "is true, which is not supported");
    } else {
        return MT_OK;
    }
    return MT_ERR_UNSUPPORTED;
}

// ------------------------------------------------------------------ attention

static enum mt_status check_heads(const struct mt_json_node *root, struct mt_hf_config *config)
{
    struct mt_json_node node;
    if (config->kv_heads == 0) config->kv_heads = config->heads;
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

static enum mt_status check_latent(const struct mt_json_node *root, struct mt_hf_config *config)
{
    struct mt_json_node node;
    if (config->qk_rope_head_dim % 2 != 0) {
        (void)mt_json_member(root, "qk_rope_head_dim", &node);
        return mt_json_fail(&node, "is %lld, expected an even number", (long long)config->qk_rope_head_dim);
    }
    config->head_dim = config->qk_nope_head_dim + config->qk_rope_head_dim;
    config->kv_heads = config->heads; // every head has its own key and value, made from the shared latent
    return MT_OK;
}

static enum mt_status read_attention(const struct mt_json_node *root, struct mt_hf_config *config)
{
    enum mt_status status = check_heads(root, config);
    if (status == MT_OK) {
        status = mt_hf_config_is_mla(config) ? check_latent(root, config) : read_grouped_query(root, config);
    }
    if (status == MT_OK) status = mt_hf_read_rope(root, config);
    return status;
}

// ------------------------------------------------------------------ experts

/* A number of experts has several spellings; those given must agree. Stays 0 where none is. */
static enum mt_status read_count(const struct mt_json_node *root, const char *const *keys, int64_t *count)
{
    *count = 0;
    for (size_t i = 0; keys[i] != NULL; i++) {
        int64_t found = 0;
        enum mt_status status = mt_json_optional_integer(root, keys[i], 1, MT_HF_EXPERTS_MAX, &found);
        if (status != MT_OK) return status;
        if (found == 0) continue;
        if (*count != 0 && *count != found) {
            struct mt_json_node node;
            (void)mt_json_member(root, keys[i], &node);
            return mt_json_fail(&node, "is %lld, but another key says %lld experts", (long long)found,
                                (long long)*count);
        }
        *count = found;
    }
    return MT_OK;
}

static enum mt_status read_expert_counts(const struct mt_json_node *root, struct mt_hf_config *config)
{
    static const char *const all[] = {"n_routed_experts", "num_local_experts", "num_experts",
                                      "moe_num_experts", NULL};
    static const char *const chosen[] = {"num_experts_per_tok", "moe_k", NULL};
    enum mt_status status = read_count(root, all, &config->experts);
    if (status == MT_OK) status = read_count(root, chosen, &config->experts_per_token);
    if (status != MT_OK) return status;
    if (config->experts == 0) {
        return mt_json_fail(
            root, "has none of n_routed_experts, num_local_experts, num_experts and moe_num_experts");
    }
    if (config->experts_per_token == 0)
        return mt_json_fail(root, "has neither num_experts_per_tok nor moe_k");
    return MT_OK;
}

static enum mt_status check_router(const struct mt_json_node *root, const struct mt_hf_config *config)
{
    struct mt_json_node node;
    if (config->experts_per_token > config->experts) {
        (void)mt_json_member(root, "num_experts_per_tok", &node);
        return mt_json_fail(&node, "is %lld, but there are only %lld experts",
                            (long long)config->experts_per_token, (long long)config->experts);
    }
    (void)mt_json_member(root, "n_group", &node);
    if (config->experts % config->groups != 0) {
        return mt_json_fail(&node, "is %lld, which does not divide the %lld experts",
                            (long long)config->groups, (long long)config->experts);
    }
    (void)mt_json_member(root, "topk_group", &node);
    if (config->topk_groups > config->groups) {
        return mt_json_fail(&node, "is %lld, but there are only %lld groups", (long long)config->topk_groups,
                            (long long)config->groups);
    }
    int64_t reachable = config->experts / config->groups * config->topk_groups;
    if (config->experts_per_token > reachable) {
        return mt_json_fail(&node, "is %lld: only %lld experts can be reached, %lld are wanted per token",
                            (long long)config->topk_groups, (long long)reachable,
                            (long long)config->experts_per_token);
    }
    return MT_OK;
}

static enum mt_status read_experts(const struct mt_json_node *root, struct mt_hf_config *config)
{
    enum mt_status status = read_expert_counts(root, config);
    if (config->moe_intermediate_size == 0) config->moe_intermediate_size = config->intermediate_size;
    if (config->shared_width == 0) {
        config->shared_width = config->shared_experts * config->moe_intermediate_size;
    }
    return status == MT_OK ? check_router(root, config) : status;
}

// ------------------------------------------------------------------ the file

static enum mt_status read_all(const struct mt_json_node *root, struct mt_hf_config *config)
{
    const struct mt_arch *arch = NULL;
    enum mt_status status = mt_json_expect_object(root);
    if (status == MT_OK) status = read_model_type(root, &arch);
    if (status == MT_OK) status = refuse_unsupported(root);
    if (status != MT_OK) return status;
    set_defaults(arch, config);
    status = mt_hf_read_keys(root, common_keys, MT_COUNT(common_keys), config);
    if (status == MT_OK) status = mt_hf_read_keys(root, arch->keys, arch->key_count, config);
    if (status == MT_OK) status = mt_hf_read_quant(root, config);
    if (status == MT_OK) status = read_attention(root, config);
    if (status == MT_OK) status = read_experts(root, config);
    if (status == MT_OK && arch->read != NULL) status = arch->read(root, config);
    struct mt_json_node node;
    if (status != MT_OK || !mt_json_member(root, "eos_token_id", &node)) return status;
    return mt_hf_read_integers(root, "eos_token_id", MT_HF_TOKEN_ID_MAX, &config->arena, &config->eos,
                               &config->eos_count);
}

/* From a document, if there is one; frees it. */
static enum mt_status build(struct mt_context *ctx, enum mt_status parsed, struct mt_json *json,
                            struct mt_hf_config *config)
{
    *config = (struct mt_hf_config){0};
    if (parsed != MT_OK) return parsed;
    mt_arena_init(&config->arena, ctx, ARENA_BLOCK_BYTES);
    struct mt_json_node root = mt_json_root(json);
    enum mt_status status = read_all(&root, config);
    mt_json_free(json);
    if (status != MT_OK) mt_hf_config_free(config);
    return status;
}

enum mt_status mt_hf_config_read(struct mt_context *ctx, const char *path, const void *text, size_t bytes,
                                 struct mt_hf_config *config)
{
    struct mt_json json;
    enum mt_status status = text != NULL ? mt_json_parse(ctx, path, text, bytes, &mt_json_file_limits, &json)
                                         : mt_json_read(ctx, path, &mt_json_file_limits, &json);
    return build(ctx, status, &json, config);
}

enum mt_status mt_hf_config_read_folder(struct mt_context *ctx, const char *folder,
                                        struct mt_hf_config *config)
{
    char *path = NULL;
    *config = (struct mt_hf_config){0};
    enum mt_status status = mt_model_folder_file(ctx, folder, "config.json", &path);
    if (status == MT_OK) status = mt_hf_config_read(ctx, path, NULL, 0, config);
    mt_path_release(ctx, path);
    return status;
}

void mt_hf_config_free(struct mt_hf_config *config)
{
    if (config->arena.ctx != NULL) mt_arena_free(&config->arena);
    *config = (struct mt_hf_config){0};
}
