/* PEFT adapters: names with and without "default", values, scale, and what is refused. */
#include "model/adapters/adapter.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "formats/safetensors/safetensors_writer.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"
#include "support/opened_model.h"

static const char plain_config[] =
    "{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 3, \"lora_dropout\": 0.1,"
    " \"bias\": \"none\", \"rank_pattern\": {}, \"modules_to_save\": null}";

/* One pair to write: of a map [out, in]. */
struct pair {
    const char *module;
    int64_t out, in;
};

#define MOST_PAIRS 8

/* Element `index` of tensor number `tensor`, exact in bf16. */
static float value_at(size_t tensor, int64_t index)
{
    return (float)((int64_t)(tensor * 7) + index % 50) * 0.5f;
}

/* Writes an adapter of the given pairs; every second one in bf16 when `mixed`. */
static void write_adapter(const struct workplace *place, const char *config, const struct pair *pairs,
                          size_t count, const char *infix, int64_t rank, bool mixed)
{
    struct mt_safetensors_spec specs[2 * MOST_PAIRS];
    char names[2 * MOST_PAIRS][160];
    assert_true(count <= MOST_PAIRS);
    for (size_t i = 0; i < 2 * count; i++) {
        const struct pair *pair = &pairs[i / 2];
        bool is_a = i % 2 == 0;
        (void)snprintf(names[i], sizeof names[i], "base_model.model.%s.lora_%c%s.weight", pair->module,
                       is_a ? 'A' : 'B', infix);
        specs[i] = (struct mt_safetensors_spec){
            .name = names[i],
            .dtype = mixed && !is_a ? MT_SAFETENSORS_BF16 : MT_SAFETENSORS_F32,
            .rank = 2,
            .dim = {is_a ? rank : pair->out, is_a ? pair->in : rank},
        };
    }
    struct mt_context ctx;
    struct mt_safetensors_writer writer;
    char path[128];
    mt_context_init(&ctx, NULL);
    assert_int_equal(workplace_write(place, MT_ADAPTER_CONFIG, config, strlen(config)), 0);
    (void)workplace_path(place, MT_ADAPTER_WEIGHTS, path, sizeof path);
    assert_int_equal(mt_safetensors_writer_open(&ctx, path, specs, 2 * count, NULL, 0, &writer), MT_OK);
    for (size_t i = 0; i < 2 * count; i++) {
        for (int64_t e = 0; e < specs[i].dim[0] * specs[i].dim[1]; e++) {
            float value = value_at(i, e);
            uint32_t bits;
            memcpy(&bits, &value, sizeof bits);
            uint16_t half = (uint16_t)(bits >> 16);
            bool narrow = specs[i].dtype == MT_SAFETENSORS_BF16;
            const void *data = narrow ? (const void *)&half : (const void *)&value;
            size_t bytes = narrow ? sizeof half : sizeof value;
            assert_int_equal(mt_safetensors_writer_write(&writer, data, bytes), MT_OK);
        }
    }
    assert_int_equal(mt_safetensors_writer_finish(&writer), MT_OK);
}

static const struct pair olmoe_pairs[] = {
    {"model.layers.0.self_attn.q_proj", 24, 24},
    {"model.layers.1.mlp.gate", 7, 24},
    {"model.layers.1.mlp.experts.5.down_proj", 24, 10},
    {"lm_head", 53, 24},
};
#define PAIRS (sizeof olmoe_pairs / sizeof olmoe_pairs[0])

static void round_trip(void **state)
{
    static const char *const infixes[] = {"", ".default"};
    for (size_t form = 0; form < 2; form++) {
        const struct workplace *place = *state;
        struct opened_model opened;
        struct mt_adapter adapter;
        struct mt_train_selection selection = {0};
        assert_int_equal(opened_model_make(place, &mt_arch_olmoe, MT_HF_BFLOAT16, &opened), 0);
        write_adapter(place, plain_config, olmoe_pairs, PAIRS, infixes[form], 2, form == 1);
        assert_int_equal(mt_adapter_open(&opened.ctx, place->directory, &opened.desc, &adapter), MT_OK);
        assert_int_equal(adapter.module_count, PAIRS);
        mt_adapter_select(&adapter, &selection);
        assert_int_equal(selection.lora_rank, 2);
        assert_int_equal(opened_model_load(&opened, &selection), MT_OK);
        assert_int_equal(opened.params.trained_count, 2 * PAIRS);
        assert_true(opened.params.layer[0].q.lora_scale == 1.5f);
        assert_true(opened.params.layer[0].q.dropout == 0.1f);
        assert_true(mt_tensor_present(&opened.params.layer[1].experts.down.a[5]));
        assert_false(mt_tensor_present(&opened.params.layer[1].experts.down.a[4]));
        assert_int_equal(mt_adapter_apply(&adapter, &opened.params), MT_OK);
        for (size_t i = 0; i < 2 * PAIRS; i++) {
            char name[160];
            (void)snprintf(name, sizeof name, "base_model.model.%s.lora_%c.weight", olmoe_pairs[i / 2].module,
                           i % 2 == 0 ? 'A' : 'B');
            const struct mt_param *param = opened_model_trained(&opened, name);
            assert_non_null(param);
            for (int64_t e = 0; e < mt_tensor_count(&param->value); e++) {
                assert_true(((const float *)param->value.data)[e] == value_at(i, e));
            }
        }
        mt_adapter_close(&adapter);
        assert_int_equal(mt_params_load_adapter(&opened.params, &opened.desc, place->directory), MT_OK);
        assert_int_equal(opened_model_close(place, &opened), 0);
    }
}

/* alpha / sqrt(r) */
static void root_scale(void **state)
{
    struct mt_context ctx;
    struct mt_adapter adapter;
    const struct workplace *place = *state;
    mt_context_init(&ctx, NULL);
    write_adapter(place, "{\"r\": 4, \"lora_alpha\": 3, \"use_rslora\": true}", olmoe_pairs, 1, "", 4, false);
    assert_int_equal(mt_adapter_open(&ctx, place->directory, NULL, &adapter), MT_OK);
    assert_true(fabs(adapter.alpha / adapter.rank - 3.0 / 2.0) < 1e-12);
    mt_adapter_close(&adapter);
    assert_int_equal(ctx.live_bytes, 0);
}

static void config_refused(const struct workplace *place, const char *config, const char *words)
{
    struct mt_context ctx;
    struct mt_adapter adapter;
    mt_context_init(&ctx, NULL);
    write_adapter(place, config, olmoe_pairs, 1, "", 2, false);
    assert_int_equal(mt_adapter_open(&ctx, place->directory, NULL, &adapter), MT_ERR_UNSUPPORTED);
    if (strstr(ctx.message, words) == NULL) fail_msg("'%s' does not say '%s'", ctx.message, words);
    assert_int_equal(ctx.live_bytes, 0);
}

static void configs_refused(void **state)
{
    config_refused(*state, "{\"r\": 2, \"lora_alpha\": 2, \"use_dora\": true}", "use_dora is used");
    config_refused(*state, "{\"r\": 2, \"lora_alpha\": 2, \"alpha_pattern\": {\"(q|k)_proj\": 4}}",
                   "is a pattern that is not the plain end of a name");
    config_refused(*state, "{\"r\": 2, \"lora_alpha\": 2, \"modules_to_save\": [\"lm_head\"]}",
                   "modules_to_save is used");
    config_refused(*state, "{\"r\": 2, \"lora_alpha\": 2, \"bias\": \"all\"}", "only none is supported");
    config_refused(*state, "{\"r\": 2, \"lora_alpha\": 2, \"peft_type\": \"IA3\"}", "only LORA is supported");
    config_refused(*state, "{\"r\": 2, \"lora_alpha\": 2, \"init_lora_weights\": \"pissa_niter_4\"}",
                   "init_lora_weights changes the weights below");
}

/* Ranks and scales of their own: padded to the largest rank, the scale put into B. */
static void patterns(void **state)
{
    static const char config[] = "{\"r\": 4, \"lora_alpha\": 4, \"rank_pattern\": {\"self_attn.q_proj\": 2},"
                                 " \"alpha_pattern\": {\".*\\\\.q_proj\": 4}}";
    struct mt_context ctx;
    struct mt_adapter adapter;
    const struct workplace *place = *state;
    float a[4 * 24];
    float b[24 * 4];
    mt_context_init(&ctx, NULL);
    write_adapter(place, config, olmoe_pairs, 1, "", 2, false);
    if (mt_adapter_open(&ctx, place->directory, NULL, &adapter) != MT_OK) fail_msg("%s", ctx.message);
    assert_int_equal(adapter.rank, 2);
    assert_true(adapter.alpha == 2.0); // 4 / 4 = 2 / 2
    mt_adapter_read_pair(&adapter, &adapter.pairs[0], 4, a, b);
    assert_true(a[24 + 3] == value_at(0, 24 + 3) && a[2 * 24] == 0.0f);
    assert_true(b[5 * 4 + 1] == 2.0f * value_at(1, 5 * 2 + 1) && b[5 * 4 + 2] == 0.0f); // 4 / 2, over 1
    mt_adapter_close(&adapter);
    write_adapter(place, "{\"r\": 2, \"lora_alpha\": 4, \"rank_pattern\": {\"q_proj\": 0}}", olmoe_pairs, 1,
                  "", 2, false);
    assert_int_equal(mt_adapter_open(&ctx, place->directory, NULL, &adapter), MT_ERR_FORMAT);
    write_adapter(place, "{\"r\": 3, \"lora_alpha\": 4}", olmoe_pairs, 1, "", 2, false);
    assert_int_equal(mt_adapter_open(&ctx, place->directory, NULL, &adapter), MT_ERR_SHAPE);
    assert_non_null(strstr(ctx.message, "the config says rank 3"));
    assert_int_equal(ctx.live_bytes, 0);
}

static void files_refused(void **state)
{
    static const struct pair fused[] = {{"model.layers.1.mlp.experts.base_layer", 24, 10}};
    const struct workplace *place = *state;
    struct opened_model opened;
    struct mt_train_selection selection = {.lora =
                                               (const char *const[]){"model.layers.0.self_attn.q_proj", NULL},
                                           .lora_rank = 2,
                                           .lora_alpha = 3.0};
    assert_int_equal(opened_model_make(place, &mt_arch_olmoe, MT_HF_BFLOAT16, &opened), 0);
    assert_int_equal(opened_model_load(&opened, &selection), MT_OK);
    struct mt_params *params = &opened.params;
    const char *message = opened.ctx.message;

    write_adapter(place, plain_config, olmoe_pairs, 2, "", 2, false);
    assert_int_equal(mt_params_load_adapter(params, &opened.desc, place->directory), MT_ERR_USAGE);
    assert_non_null(strstr(message, "adapts model.layers.1.mlp.gate, which has no LoRA pair here"));
    write_adapter(place, plain_config, olmoe_pairs + 1, 1, "", 2, false);
    assert_int_equal(mt_params_load_adapter(params, &opened.desc, place->directory), MT_ERR_FORMAT);
    assert_non_null(strstr(message, "q_proj.lora_A.weight is missing"));
    write_adapter(place, "{\"r\": 3, \"lora_alpha\": 4.5}", olmoe_pairs, 1, "", 3, false);
    assert_int_equal(mt_params_load_adapter(params, &opened.desc, place->directory), MT_ERR_SHAPE);
    assert_non_null(strstr(message, "is [3, 24], expected [2, 24]"));
    write_adapter(place, "{\"r\": 2, \"lora_alpha\": 4}", olmoe_pairs, 1, "", 2, false);
    assert_int_equal(mt_params_load_adapter(params, &opened.desc, place->directory), MT_ERR_USAGE);
    assert_non_null(strstr(message, "has the scale alpha / r = 2, here it is 1.5"));
    write_adapter(place, plain_config, olmoe_pairs, 1, ".other", 2, false);
    assert_int_equal(mt_params_load_adapter(params, &opened.desc, place->directory), MT_ERR_UNSUPPORTED);
    assert_non_null(strstr(message, "is neither the A nor the B"));
    write_adapter(place, plain_config, fused, 1, "", 2, false);
    assert_int_equal(mt_params_load_adapter(params, NULL, place->directory), MT_ERR_UNSUPPORTED);
    assert_non_null(strstr(message, "adapts stacked experts"));
    assert_int_equal(mt_params_load_adapter(params, &opened.desc, place->directory), MT_ERR_SHAPE);
    assert_non_null(strstr(message, "fits neither gate_up_proj nor down_proj of 7 experts"));
    assert_int_equal(opened_model_close(place, &opened), 0);
}

/* A pair on lm_head, and lm_head itself as PEFT adds it; `change` is added to its last element. */
static void write_with_head(const struct workplace *place, const struct opened_model *opened, float change)
{
    static const struct mt_safetensors_spec specs[] = {
        {"base_model.model.lm_head.base_layer.weight", MT_SAFETENSORS_F32, 2, {53, 24}},
        {"base_model.model.lm_head.lora_A.weight", MT_SAFETENSORS_F32, 2, {2, 24}},
        {"base_model.model.lm_head.lora_B.weight", MT_SAFETENSORS_F32, 2, {53, 2}},
    };
    static float zeros[53 * 2];
    float head[53 * 24];
    struct mt_context ctx;
    struct mt_safetensors_writer writer;
    char path[128];
    mt_context_init(&ctx, NULL);
    memcpy(head, mt_checkpoint_find(&opened->checkpoint, "lm_head.weight")->data, sizeof head);
    head[53 * 24 - 1] += change;
    assert_int_equal(workplace_write(place, MT_ADAPTER_CONFIG, plain_config, sizeof plain_config - 1), 0);
    (void)workplace_path(place, MT_ADAPTER_WEIGHTS, path, sizeof path);
    assert_int_equal(mt_safetensors_writer_open(&ctx, path, specs, 3, NULL, 0, &writer), MT_OK);
    assert_int_equal(mt_safetensors_writer_write(&writer, head, sizeof head), MT_OK);
    assert_int_equal(mt_safetensors_writer_write(&writer, zeros, 2 * 24 * sizeof(float)), MT_OK);
    assert_int_equal(mt_safetensors_writer_write(&writer, zeros, 53 * 2 * sizeof(float)), MT_OK);
    assert_int_equal(mt_safetensors_writer_finish(&writer), MT_OK);
}

static void carried_head(void **state)
{
    const struct workplace *place = *state;
    struct opened_model opened;
    struct mt_train_selection selection = {
        .lora = (const char *const[]){"lm_head", NULL}, .lora_rank = 2, .lora_alpha = 3.0};
    assert_int_equal(opened_model_make(place, &mt_arch_olmoe, MT_HF_FLOAT32, &opened), 0);
    assert_int_equal(opened_model_load(&opened, &selection), MT_OK);
    write_with_head(place, &opened, 0.0f);
    assert_int_equal(mt_params_load_adapter(&opened.params, &opened.desc, place->directory), MT_OK);
    write_with_head(place, &opened, 0.5f);
    assert_int_equal(mt_params_load_adapter(&opened.params, &opened.desc, place->directory),
                     MT_ERR_UNSUPPORTED);
    assert_non_null(strstr(opened.ctx.message, "carries an lm_head that is not the model's"));
    assert_int_equal(opened_model_close(place, &opened), 0);
}

static enum mt_status open_once(struct mt_context *ctx, const void *self)
{
    const struct workplace *place = self;
    struct mt_adapter adapter;
    enum mt_status status = mt_adapter_open(ctx, place->directory, NULL, &adapter);
    if (status == MT_OK) mt_adapter_close(&adapter);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    write_adapter(*state, plain_config, olmoe_pairs, PAIRS, "", 2, false);
    assert_every_allocation_may_fail(open_once, *state, 4);
}

int main(void)
{
#define AT_A_PLACE(test) cmocka_unit_test_setup_teardown(test, workplace_open, workplace_close)
    const struct CMUnitTest tests[] = {
        AT_A_PLACE(round_trip),    AT_A_PLACE(root_scale),   AT_A_PLACE(configs_refused),
        AT_A_PLACE(files_refused), AT_A_PLACE(carried_head), AT_A_PLACE(every_allocation_may_fail),
        AT_A_PLACE(patterns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
