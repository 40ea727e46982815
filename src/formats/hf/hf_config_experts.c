/* config.json: the feed-forward side: dense layers, experts, shared experts, router. */
#include "formats/hf/hf_config_parts.h"

/* The three DeepSeek classes share their keys for experts and router; the others do not know them. */
static bool is_deepseek(const struct mt_hf_config *config)
{
    return config->model == MT_HF_DEEPSEEK || config->model == MT_HF_DEEPSEEK_V2 ||
           config->model == MT_HF_DEEPSEEK_V3;
}

/* The number of routed experts has three spellings; those given must agree. */
static enum mt_status read_expert_count(const struct mt_json_node *root, struct mt_hf_config *config)
{
    static const char *const keys[] = {"n_routed_experts", "num_local_experts", "num_experts"};
    config->experts = 0;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        int64_t found = 0;
        enum mt_status status = mt_json_optional_integer(root, keys[i], 1, MT_HF_EXPERTS_MAX, &found);
        if (status != MT_OK) return status;
        if (found == 0) continue;
        if (config->experts != 0 && config->experts != found) {
            struct mt_json_node node;
            (void)mt_json_member(root, keys[i], &node);
            return mt_json_fail(&node, "is %lld, but another key says %lld experts", (long long)found,
                                (long long)config->experts);
        }
        config->experts = found;
    }
    if (config->experts == 0) {
        return mt_json_fail(root, "has none of n_routed_experts, num_local_experts and num_experts");
    }
    return MT_OK;
}

/* Which layers are dense, and what stands beside the routed experts. */
static enum mt_status read_layer_pattern(const struct mt_json_node *root, struct mt_hf_config *config)
{
    const struct mt_hf_defaults *defaults = mt_hf_defaults(config->model);
    config->shared_experts = defaults->shared_experts;
    config->first_k_dense = defaults->first_k_dense;
    config->moe_layer_freq = 1;
    config->decoder_sparse_step = 1;
    if (config->model == MT_HF_QWEN3_MOE) {
        enum mt_status status = mt_json_optional_integer(root, "decoder_sparse_step", 1, MT_HF_LAYERS_MAX,
                                                         &config->decoder_sparse_step);
        if (status == MT_OK) {
            status = mt_hf_read_integers(root, "mlp_only_layers", config->layers - 1, &config->arena,
                                         &config->mlp_only_layers, &config->mlp_only_layer_count);
        }
        if (status == MT_OK && config->mlp_only_layer_count > (size_t)config->layers) {
            status = mt_json_fail(root, "has %zu mlp_only_layers, but only %lld layers",
                                  config->mlp_only_layer_count, (long long)config->layers);
        }
        return status;
    }
    if (!is_deepseek(config)) return MT_OK;
    struct mt_json_node node;
    if (mt_json_member(root, "n_shared_experts", &node) && mt_json_kind(&node) == MT_JSON_NULL) {
        config->shared_experts = 0;
    }
    enum mt_status status =
        mt_json_optional_integer(root, "n_shared_experts", 0, MT_HF_SHARED_MAX, &config->shared_experts);
    if (status == MT_OK) {
        status = mt_json_optional_integer(root, "first_k_dense_replace", 0, MT_HF_LAYERS_MAX,
                                          &config->first_k_dense);
    }
    if (status == MT_OK) {
        status =
            mt_json_optional_integer(root, "moe_layer_freq", 1, MT_HF_LAYERS_MAX, &config->moe_layer_freq);
    }
    if (status == MT_OK) {
        status = mt_json_optional_integer(root, "num_nextn_predict_layers", 0, MT_HF_LAYERS_MAX,
                                          &config->nextn_predict_layers);
    }
    return status;
}

static enum mt_status read_feed_forward(const struct mt_json_node *root, struct mt_hf_config *config)
{
    enum mt_status status =
        mt_json_get_integer(root, "intermediate_size", 1, MT_HF_WIDTH_MAX, &config->intermediate_size);
    config->moe_intermediate_size = config->intermediate_size;
    if (status == MT_OK && mt_hf_defaults(config->model)->own_expert_width) {
        status = mt_json_get_integer(root, "moe_intermediate_size", 1, MT_HF_WIDTH_MAX,
                                     &config->moe_intermediate_size);
    }
    if (status == MT_OK) status = read_expert_count(root, config);
    if (status == MT_OK) {
        status = mt_json_get_integer(root, "num_experts_per_tok", 1, MT_HF_EXPERTS_MAX,
                                     &config->experts_per_token);
    }
    if (status == MT_OK) status = read_layer_pattern(root, config);
    return status;
}

static enum mt_status read_router_words(const struct mt_json_node *root, struct mt_hf_config *config)
{
    static const struct mt_hf_word scorings[] = {
        {"softmax", MT_HF_SCORING_SOFTMAX},
        {"sigmoid", MT_HF_SCORING_SIGMOID},
    };
    static const struct mt_hf_word methods[] = {
        {"greedy", MT_HF_TOPK_GREEDY},
        {"group_limited_greedy", MT_HF_TOPK_GROUP_LIMITED},
        {"noaux_tc", MT_HF_TOPK_NOAUX},
    };
    int scoring = (int)config->scoring;
    int topk = (int)config->topk;
    enum mt_status status =
        mt_hf_read_word(root, "scoring_func", scorings, sizeof scorings / sizeof scorings[0], &scoring);
    if (status == MT_OK) {
        status = mt_hf_read_word(root, "topk_method", methods, sizeof methods / sizeof methods[0], &topk);
    }
    config->scoring = (enum mt_hf_scoring)scoring;
    config->topk = (enum mt_hf_topk)topk;
    return status;
}

static enum mt_status read_deepseek_router(const struct mt_json_node *root, struct mt_hf_config *config)
{
    enum mt_status status = read_router_words(root, config);
    if (status == MT_OK)
        status = mt_json_optional_integer(root, "n_group", 1, MT_HF_EXPERTS_MAX, &config->groups);
    if (status == MT_OK) {
        status = mt_json_optional_integer(root, "topk_group", 1, MT_HF_EXPERTS_MAX, &config->topk_groups);
    }
    if (status == MT_OK) {
        status =
            mt_json_optional_real(root, "routed_scaling_factor", 1e-6, 1e6, &config->routed_scaling_factor);
    }
    if (status == MT_OK) {
        status = mt_json_optional_real(root, "aux_loss_alpha", 0.0, 1e6, &config->aux_loss_coefficient);
    }
    if (status == MT_OK) status = mt_json_optional_bool(root, "seq_aux", &config->seq_aux);
    return status;
}

static enum mt_status read_router(const struct mt_json_node *root, struct mt_hf_config *config)
{
    const struct mt_hf_defaults *defaults = mt_hf_defaults(config->model);
    config->norm_topk_prob = defaults->norm_topk_prob;
    config->scoring = defaults->scoring;
    config->topk = defaults->topk;
    config->groups = defaults->groups;
    config->topk_groups = defaults->topk_groups;
    config->routed_scaling_factor = defaults->routed_scaling_factor;
    config->aux_loss_coefficient = defaults->aux_loss_coefficient;
    config->router_jitter_noise = defaults->router_jitter_noise;
    config->seq_aux = is_deepseek(config);
    bool jitters = config->model == MT_HF_MIXTRAL || config->model == MT_HF_PHIMOE;
    enum mt_status status = MT_OK;
    if (is_deepseek(config)) {
        status = read_deepseek_router(root, config);
    } else {
        status = mt_json_optional_real(root, "router_aux_loss_coef", 0.0, 1e6, &config->aux_loss_coefficient);
    }
    if (status == MT_OK && !jitters) {
        status = mt_json_optional_bool(root, "norm_topk_prob", &config->norm_topk_prob);
    }
    if (status == MT_OK && jitters) {
        status = mt_json_optional_real(root, "router_jitter_noise", 0.0, 1.0, &config->router_jitter_noise);
    }
    if (status == MT_OK && config->model == MT_HF_PHIMOE) {
        status = mt_json_optional_real(root, "input_jitter_noise", 0.0, 1.0, &config->input_jitter_noise);
    }
    return status;
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
    if (config->scoring == MT_HF_SCORING_SPARSEMIXER && config->experts_per_token != 2) {
        (void)mt_json_member(root, "num_experts_per_tok", &node);
        return mt_json_fail(&node, "is %lld, but phimoe's router picks exactly 2",
                            (long long)config->experts_per_token);
    }
    return MT_OK;
}

enum mt_status mt_hf_read_experts(const struct mt_json_node *root, struct mt_hf_config *config)
{
    enum mt_status status = read_feed_forward(root, config);
    if (status == MT_OK) status = read_router(root, config);
    if (status == MT_OK) status = check_router(root, config);
    return status;
}
