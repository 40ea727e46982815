/* Descriptions of the seven architectures: what each reads from its config, and what it refuses. */
#include "arch/desc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "support/cmocka_all.h"
#include "support/model_configs.h"
#include "support/small_models.h"

struct described {
    struct mt_context ctx;
    struct mt_hf_config config;
    struct mt_model_desc desc;
};

static enum mt_status describe(const char *text, struct described *described)
{
    mt_context_init(&described->ctx, NULL);
    assert_int_equal(
        mt_hf_config_read(&described->ctx, "config.json", text, strlen(text), &described->config), MT_OK);
    return mt_model_describe(&described->ctx, &described->config, &described->desc);
}

static void open_model(const struct mt_arch *model, struct described *described)
{
    assert_int_equal(describe(model_config_text(model), described), MT_OK);
}

static void close_model(struct described *described)
{
    mt_hf_config_free(&described->config);
    assert_int_equal(described->ctx.live_bytes, 0);
}

static void deepseek(void **state)
{
    (void)state;
    struct described model;
    open_model(&mt_arch_deepseek, &model);
    const struct mt_model_desc *desc = &model.desc;
    assert_int_equal(desc->attention, MT_ATTENTION_GROUPED);
    assert_int_equal(desc->rope_layout, MT_ROPE_HALF);
    assert_int_equal(desc->rope_width, 128);
    assert_int_equal(desc->shared_width, 2816);
    assert_int_equal(desc->dense_width, 10944);
    assert_int_equal(desc->expert_width, 1408);
    assert_int_equal(desc->router.kind, MT_ROUTER_SOFTMAX);
    assert_int_equal(desc->router.slots, 6);
    assert_false(desc->router.normalise || desc->correction_bias || desc->tied_head || desc->head_bias);
    assert_true(desc->router.scale == 1.0f && desc->norm_epsilon == 1e-6f);
    assert_false(mt_model_layer_is_moe(desc, 0));
    assert_true(mt_model_layer_is_moe(desc, 1));
    assert_string_equal(desc->names.router, "mlp.gate");
    assert_string_equal(desc->names.down, "down_proj");
    close_model(&model);
}

static void deepseek_v2(void **state)
{
    (void)state;
    struct described model;
    open_model(&mt_arch_deepseek_v2, &model);
    assert_int_equal(model.desc.attention, MT_ATTENTION_LATENT);
    assert_int_equal(model.desc.rope_layout, MT_ROPE_INTERLEAVED);
    assert_int_equal(model.desc.query_rank, 0);
    assert_int_equal(model.desc.latent_rank, 512);
    assert_int_equal(model.desc.head_width, 192);
    assert_int_equal(model.desc.nope_width, 128);
    assert_int_equal(model.desc.rope_width, 64);
    assert_int_equal(model.desc.value_width, 128);
    assert_int_equal(model.desc.key_heads, 16);
    assert_int_equal(model.desc.router.group_rule, MT_GROUP_NONE);
    assert_false(model.desc.router.normalise);
    close_model(&model);

    assert_int_equal(describe(small_model_config(&mt_arch_deepseek_v2), &model), MT_OK);
    assert_int_equal(model.desc.query_rank, 18);
    assert_int_equal(model.desc.router.group_rule, MT_GROUP_MAX);
    assert_int_equal(model.desc.router.groups, 4);
    assert_int_equal(model.desc.router.groups_kept, 2);
    assert_true(model.desc.router.scale == 2.5f);
    // The latent norms do not read rms_norm_eps, here 1e-5.
    assert_true(model.desc.norm_epsilon == 1e-5f && model.desc.latent_epsilon == 1e-6f);
    close_model(&model);
}

static void deepseek_v3(void **state)
{
    (void)state;
    struct described model;
    open_model(&mt_arch_deepseek_v3, &model);
    assert_int_equal(model.desc.router.kind, MT_ROUTER_SIGMOID);
    assert_true(model.desc.correction_bias && model.desc.router.normalise);
    assert_true(model.desc.router.scale == 2.446f && model.desc.router.epsilon == 1e-20f);
    assert_int_equal(model.desc.router.group_rule, MT_GROUP_NONE); // one group: nothing to choose
    assert_true(model.desc.norm_epsilon == 1e-5f && model.desc.latent_epsilon == 1e-6f);
    close_model(&model);

    assert_int_equal(describe(small_model_config(&mt_arch_deepseek_v3), &model), MT_OK);
    assert_int_equal(model.desc.router.group_rule, MT_GROUP_TOP2_SUM);
    assert_int_equal(model.desc.router.groups_kept, 2);
    close_model(&model);
}

static void glm4_moe_lite(void **state)
{
    (void)state;
    struct described model;
    open_model(&mt_arch_glm4_moe_lite, &model);
    assert_int_equal(model.desc.attention, MT_ATTENTION_LATENT);
    assert_int_equal(model.desc.rope_layout, MT_ROPE_INTERLEAVED);
    assert_int_equal(model.desc.router.kind, MT_ROUTER_SIGMOID);
    assert_true(model.desc.correction_bias && model.desc.router.normalise);
    assert_true(model.desc.router.scale == 1.8f && model.desc.router.epsilon == 1e-20f);
    assert_int_equal(model.desc.shared_width, 1536);
    close_model(&model);

    assert_int_equal(describe(small_model_config(&mt_arch_glm4_moe_lite), &model), MT_OK);
    assert_int_equal(model.desc.router.group_rule, MT_GROUP_TOP2_SUM);
    assert_true(mt_model_layer_is_moe(&model.desc, 0) && !mt_model_layer_is_moe(&model.desc, 1));
    close_model(&model);
}

static void mixtral(void **state)
{
    (void)state;
    struct described model;
    open_model(&mt_arch_mixtral, &model);
    assert_int_equal(model.desc.window, 0);
    assert_int_equal(model.desc.key_heads, 8);
    assert_int_equal(model.desc.shared_width, 0);
    assert_true(model.desc.router.normalise && model.desc.router.epsilon == 0.0f);
    assert_string_equal(model.desc.names.experts, "block_sparse_moe.experts");
    assert_string_equal(model.desc.names.gate, "w1");
    assert_string_equal(model.desc.names.up, "w3");
    assert_string_equal(model.desc.names.down, "w2");
    close_model(&model);
    assert_int_equal(describe(small_model_config(&mt_arch_mixtral), &model), MT_OK);
    assert_int_equal(model.desc.window, 5);
    assert_true(model.desc.tied_head);
    close_model(&model);
}

static void phimoe(void **state)
{
    (void)state;
    struct described model;
    open_model(&mt_arch_phimoe, &model);
    assert_int_equal(model.desc.norm, MT_NORM_LAYER);
    assert_true(model.desc.attention_bias && model.desc.head_bias);
    assert_int_equal(model.desc.window, 131072);
    assert_int_equal(model.desc.router.kind, MT_ROUTER_SPARSEMIXER);
    assert_int_equal(model.desc.router.slots, 2);
    assert_true(model.desc.router.jitter == 0.01f && model.desc.input_jitter == 0.01f);
    assert_true(model.desc.norm_epsilon == 1e-5f);
    close_model(&model);
}

static void olmoe(void **state)
{
    (void)state;
    struct described model;
    open_model(&mt_arch_olmoe, &model);
    assert_int_equal(model.desc.qk_norm, MT_QK_NORM_WHOLE);
    assert_int_equal(model.desc.expert_width, 1024);
    assert_false(model.desc.router.normalise);
    assert_true(model.desc.clip == 0.0f && model.desc.norm_epsilon == 1e-5f);
    close_model(&model);
    assert_int_equal(describe(small_model_config(&mt_arch_olmoe), &model), MT_OK);
    assert_true(model.desc.clip == 0.8f);
    close_model(&model);
}

static void qwen3_moe(void **state)
{
    (void)state;
    struct described model;
    open_model(&mt_arch_qwen3_moe, &model);
    assert_int_equal(model.desc.qk_norm, MT_QK_NORM_HEAD);
    assert_int_equal(model.desc.heads * model.desc.head_width, 4096);
    assert_int_equal(model.desc.width, 2048);
    assert_int_equal(model.desc.window, 0);
    assert_true(model.desc.router.normalise && model.desc.router.epsilon == 0.0f);
    close_model(&model);
    assert_int_equal(describe(small_model_config(&mt_arch_qwen3_moe), &model), MT_OK);
    assert_int_equal(model.desc.window, 6);
    assert_false(mt_model_layer_is_moe(&model.desc, 1));
    assert_true(mt_model_layer_is_moe(&model.desc, 2));
    close_model(&model);
}

static void qwen2_moe(void **state)
{
    (void)state;
    struct described model;
    open_model(&mt_arch_qwen2_moe, &model);
    assert_int_equal(model.desc.attention, MT_ATTENTION_GROUPED);
    assert_int_equal(model.desc.window, 0);
    assert_int_equal(model.desc.expert_width, 1408);
    assert_int_equal(model.desc.shared_width, 5632);
    assert_string_equal(model.desc.names.shared_gate, "mlp.shared_expert_gate");
    assert_int_equal(model.desc.router.kind, MT_ROUTER_SOFTMAX);
    assert_true(!model.desc.router.normalise && model.desc.router.slots == 4);
    close_model(&model);
    assert_int_equal(describe(small_model_config(&mt_arch_qwen2_moe), &model), MT_OK);
    assert_true(mt_model_layer_is_moe(&model.desc, 0) && !mt_model_layer_is_moe(&model.desc, 1));
    close_model(&model);
}

static void glm4_moe(void **state)
{
    (void)state;
    struct described model;
    open_model(&mt_arch_glm4_moe, &model);
    assert_int_equal(model.desc.attention, MT_ATTENTION_GROUPED);
    assert_int_equal(model.desc.rope_layout, MT_ROPE_HALF);
    assert_true(model.desc.head_width == 128 && model.desc.rope_width == 64);
    assert_int_equal(model.desc.qk_norm, MT_QK_NORM_NONE);
    assert_int_equal(model.desc.router.kind, MT_ROUTER_SIGMOID);
    assert_true(model.desc.correction_bias && model.desc.router.normalise && model.desc.router.scale == 1.0f);
    close_model(&model);

    assert_int_equal(describe(small_model_config(&mt_arch_glm4_moe), &model), MT_OK);
    assert_int_equal(model.desc.qk_norm, MT_QK_NORM_HEAD);
    assert_int_equal(model.desc.rope_width, 6);
    assert_int_equal(model.desc.router.group_rule, MT_GROUP_TOP2_SUM);
    close_model(&model);
}

static void dots1(void **state)
{
    (void)state;
    struct described model;
    open_model(&mt_arch_dots1, &model);
    assert_int_equal(model.desc.attention, MT_ATTENTION_GROUPED);
    assert_int_equal(model.desc.qk_norm, MT_QK_NORM_HEAD);
    assert_true(model.desc.window == 0 && model.desc.rope_width == model.desc.head_width);
    assert_int_equal(model.desc.router.kind, MT_ROUTER_SIGMOID);
    assert_true(model.desc.correction_bias && model.desc.router.scale == 2.5f);
    assert_true(!mt_model_layer_is_moe(&model.desc, 0) && mt_model_layer_is_moe(&model.desc, 1));
    close_model(&model);
}

static void ernie4_5_moe(void **state)
{
    (void)state;
    struct described model;
    open_model(&mt_arch_ernie4_5_moe, &model);
    assert_int_equal(model.desc.attention, MT_ATTENTION_GROUPED);
    assert_int_equal(model.desc.rope_layout, MT_ROPE_INTERLEAVED);
    assert_int_equal(model.desc.rope_width, 128);
    assert_int_equal(model.desc.router.kind, MT_ROUTER_SOFTMAX);
    assert_true(model.desc.correction_bias && model.desc.router.normalise && model.desc.tied_head);
    assert_int_equal(model.desc.shared_width, 3072);
    close_model(&model);

    assert_int_equal(describe(small_model_config(&mt_arch_ernie4_5_moe), &model), MT_OK);
    assert_true(!mt_model_layer_is_moe(&model.desc, 0) && mt_model_layer_is_moe(&model.desc, 2));
    assert_false(mt_model_layer_is_moe(&model.desc, 3)); // beyond moe_layer_end_index
    close_model(&model);
}

static void gpt_oss(void **state)
{
    (void)state;
    struct described model;
    open_model(&mt_arch_gpt_oss, &model);
    assert_int_equal(model.desc.attention, MT_ATTENTION_GROUPED);
    assert_int_equal(model.desc.window, 128);
    assert_int_equal(mt_model_window(&model.desc, 0), 128);
    assert_int_equal(mt_model_window(&model.desc, 1), 0);
    assert_int_equal(model.desc.router.kind, MT_ROUTER_SOFTMAX);
    assert_true(model.desc.router.normalise && !model.desc.correction_bias);
    assert_true(model.desc.swiglu_limit == 7.0f && model.desc.swiglu_alpha == 1.702f);
    assert_true(model.desc.stored.stacked && model.desc.stored.transposed && model.desc.stored.interleaved);
    close_model(&model);

    assert_int_equal(describe(small_model_config(&mt_arch_gpt_oss), &model), MT_OK);
    for (int layer = 0; layer < 3; layer++) // without a list they take turns
        assert_int_equal(mt_model_window(&model.desc, layer), layer % 2 == 0 ? 4 : 0);
    close_model(&model);
}

/* A small config with one more key, which wins over an earlier one of that name. */
static void refused(const struct mt_arch *model, const char *extra, const char *words)
{
    char text[2048];
    const char *config = small_model_config(model);
    (void)snprintf(text, sizeof text, "%.*s, %s}", (int)strlen(config) - 1, config, extra);
    struct described described;
    enum mt_status status = describe(text, &described);
    assert_int_equal(status, MT_ERR_UNSUPPORTED);
    if (strstr(described.ctx.message, words) == NULL) {
        fail_msg("'%s' does not say '%s'", described.ctx.message, words);
    }
    close_model(&described);
}

static void refusals(void **state)
{
    (void)state;
    refused(&mt_arch_deepseek, "\"scoring_func\": \"sigmoid\"", "deepseek: scoring_func is sigmoid");
    refused(&mt_arch_deepseek, "\"topk_method\": \"noaux_tc\"", "topk_method is not greedy");
    refused(&mt_arch_deepseek, "\"routed_scaling_factor\": 2.5", "routed_scaling_factor is 2.5");
    refused(&mt_arch_deepseek_v2, "\"scoring_func\": \"sigmoid\"", "scoring_func is sigmoid");
    refused(&mt_arch_deepseek_v2, "\"rope_interleave\": false", "rope_interleave is false");
    refused(&mt_arch_qwen3_moe, "\"rope_scaling\": {\"type\": \"yarn\", \"rope_theta\": 1, \"factor\": 2}",
            "rope_theta is 1");
}

/* Keys a small config has already, with another value. */
static void refused_instead(const struct mt_arch *model, const char *key, const char *value,
                            const char *words)
{
    char text[2048];
    const char *config = small_model_config(model);
    const char *found = strstr(config, key);
    assert_non_null(found);
    const char *rest = found + strcspn(found, ",}");
    (void)snprintf(text, sizeof text, "%.*s%s: %s%s", (int)(found - config), config, key, value, rest);
    struct described described;
    assert_int_equal(describe(text, &described), MT_ERR_UNSUPPORTED);
    if (strstr(described.ctx.message, words) == NULL) {
        fail_msg("'%s' does not say '%s'", described.ctx.message, words);
    }
    close_model(&described);
}

static void refusals_instead(void **state)
{
    (void)state;
    refused_instead(&mt_arch_deepseek_v2, "\"topk_method\"", "\"noaux_tc\"", "topk_method is noaux_tc");
    refused_instead(&mt_arch_deepseek_v2, "\"norm_topk_prob\"", "true", "norm_topk_prob is true");
    refused_instead(&mt_arch_deepseek_v3, "\"topk_method\"", "\"greedy\"", "topk_method is not noaux_tc");
}

/* The paper's own copies, where they are: theirs of Moonlight says softmax, and means it. */
static void papers_moonlight(void **state)
{
    (void)state;
    char path[512];
    struct stat information;
    const char *shared = getenv("METIER_SHARED_DATA");
    (void)snprintf(path, sizeof path, "%s/configs/paper_repo_kimi.config.json", shared != NULL ? shared : "");
    if (stat(path, &information) != 0) {
        printf("SKIPPED: no shared data (METIER_SHARED_DATA names its folder)\n");
        skip();
    }
    struct mt_context ctx;
    struct mt_hf_config config;
    struct mt_model_desc desc;
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_hf_config_read(&ctx, path, NULL, 0, &config), MT_OK);
    assert_int_equal(mt_model_describe(&ctx, &config, &desc), MT_OK);
    assert_int_equal(desc.router.kind, MT_ROUTER_SOFTMAX);
    assert_true(desc.correction_bias && desc.router.normalise && desc.router.scale == 2.446f);
    mt_hf_config_free(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deepseek),
        cmocka_unit_test(deepseek_v2),
        cmocka_unit_test(deepseek_v3),
        cmocka_unit_test(glm4_moe_lite),
        cmocka_unit_test(mixtral),
        cmocka_unit_test(phimoe),
        cmocka_unit_test(olmoe),
        cmocka_unit_test(qwen3_moe),
        cmocka_unit_test(qwen2_moe),
        cmocka_unit_test(glm4_moe),
        cmocka_unit_test(dots1),
        cmocka_unit_test(ernie4_5_moe),
        cmocka_unit_test(gpt_oss),
        cmocka_unit_test(refusals),
        cmocka_unit_test(refusals_instead),
        cmocka_unit_test(papers_moonlight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
