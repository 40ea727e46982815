/* Selection biases of routers that have none in the checkpoint: written, read, acting, merged, refused. */
#include "model/adapters/router_bias.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "formats/safetensors/safetensors_writer.h"
#include "model/adapters/adapter.h"
#include "model/files/merge.h"
#include "support/cmocka_all.h"
#include "support/drawn_adapter.h"
#include "support/every_allocation.h"
#include "support/model_runs.h"
#include "support/opened_model.h"

static const char *const some_maps[] = {"attention", "router", NULL};
static const struct mt_train_selection pairs = {
    .lora = some_maps, .lora_rank = 2, .lora_alpha = 4.0, .biases = true};
static const int lengths[] = {9, 1, 7, 0};

/* Any numbers, of a size that changes choices. */
static float bias_of(int64_t layer, int64_t expert)
{
    return 0.25f * (float)((layer * 3 + expert * 5) % 7) - 0.5f;
}

static void fill_biases(const struct mt_params *params, int experts)
{
    for (int64_t i = 0; i < params->layers; i++) {
        float *bias = params->layer[i].correction.data;
        for (int j = 0; params->layer[i].moe && j < experts; j++) bias[j] = bias_of(i, j);
    }
}

/* Model, pairs and biases in the workplace, the latter as its folder "adapter". */
static void make(const struct workplace *place, const struct mt_arch *model, struct opened_model *opened)
{
    assert_int_equal(opened_model_make(place, model, MT_HF_FLOAT32, opened), 0);
    assert_int_equal(opened_model_load(opened, &pairs), MT_OK);
    assert_true(mt_router_bias_present(&opened->params));
    drawn_adapter_fill(&opened->params, 0.2f);
    fill_biases(&opened->params, opened->desc.experts);
    assert_int_equal(
        drawn_adapter_write(place, "adapter", &opened->params, &opened->desc, &pairs, MT_ADAPTER_PER_EXPERT),
        MT_OK);
}

static bool has_place(const struct mt_arch *model)
{
    return model->defaults.topk == MT_HF_TOPK_NOAUX;
}

/* Every architecture whose router takes a bias: what an adapter brings is what was written. */
static void adapters_bring_them(void **state)
{
    const struct workplace *place = *state;
    char path[128];
    for (size_t at = 0; at < MT_ARCH_COUNT; at++) {
        const struct mt_arch *model = mt_archs[at];
        struct opened_model opened;
        struct mt_adapter adapter;
        struct mt_train_selection read = {0};
        if (model == &mt_arch_phimoe) continue;
        make(place, model, &opened);
        (void)workplace_path(place, "adapter", path, sizeof path);
        assert_int_equal(mt_adapter_open(&opened.ctx, path, &opened.desc, &adapter), MT_OK);
        mt_adapter_select(&adapter, &read);
        assert_true(read.biases);
        assert_int_equal(opened_model_load(&opened, &read), MT_OK);
        assert_int_equal(mt_adapter_apply(&adapter, &opened.params), MT_OK);
        for (int64_t i = 0; i < opened.params.layers; i++) {
            const float *bias = opened.params.layer[i].correction.data;
            assert_true((bias != NULL) == opened.params.layer[i].moe);
            for (int j = 0; bias != NULL && j < opened.desc.experts; j++)
                assert_true(bias[j] == bias_of(i, j));
        }
        if (!has_place(model)) { // a model without room for them
            read.biases = false;
            assert_int_equal(opened_model_load(&opened, &read), MT_OK);
            assert_false(mt_router_bias_present(&opened.params));
            assert_int_equal(mt_adapter_apply(&adapter, &opened.params), MT_ERR_USAGE);
            assert_non_null(strstr(opened.ctx.message, "without room for these biases"));
        }
        mt_adapter_close(&adapter);
        workplace_remove_folder(place, "adapter");
        assert_int_equal(opened_model_close(place, &opened), 0);
    }
}

/* What the layers of a model chose, and with which weights, in one pass. */
struct routes {
    int32_t chosen[4 * MODEL_RUN_TOKENS * 8];
    float weight[4 * MODEL_RUN_TOKENS * 8];
    float probs[4 * MODEL_RUN_TOKENS * 16];
    int slots, experts;
    size_t count; // of slots
};

static void look(const struct workplace *place, const struct mt_model_options *options, struct routes *routes)
{
    struct model_run run;
    struct model_batch batch;
    assert_int_equal(model_run_open(&run, place, "cpu", 1, options), 0);
    const struct mt_model_desc *desc = mt_model_description(run.model);
    model_batch_fill(&batch, lengths, desc->vocabulary, 5);
    assert_true(model_run_loss(&run, &batch.batch) > 0.0);
    *routes = (struct routes){.slots = desc->router.slots, .experts = desc->experts};
    for (int64_t layer = 0; layer < desc->layers; layer++) {
        const struct mt_routing *record = mt_model_routing(run.model, layer);
        if (record == NULL) continue;
        size_t count = (size_t)mt_tensor_count(&record->chosen);
        size_t tokens = count / (size_t)routes->slots;
        size_t row = routes->count / (size_t)routes->slots;
        memcpy(routes->chosen + routes->count, record->chosen.data, count * sizeof(int32_t));
        memcpy(routes->weight + routes->count, record->weight.data, count * sizeof(float));
        memcpy(routes->probs + row * (size_t)routes->experts, record->probs.data,
               tokens * (size_t)routes->experts * sizeof(float));
        routes->count += count;
    }
    model_run_close(&run);
}

static bool chose(const int32_t *chosen, int slots, int32_t expert)
{
    for (int i = 0; i < slots; i++) {
        if (chosen[i] == expert) return true;
    }
    return false;
}

static void save(const struct workplace *place, const struct opened_model *opened)
{
    assert_int_equal(
        mt_router_bias_save(&opened->params, &opened->desc, place->directory, MT_ROUTER_BIAS_OF_MODEL),
        MT_OK);
}

/*
 * Beside a model's weights: zeros change nothing; an expert whose bias is large is chosen by every token, and
 * the choice alone changes: weights are still the scores'.
 */
static void they_decide_the_choice_alone(void **state)
{
    static const struct mt_arch *const models[] = {&mt_arch_mixtral,     &mt_arch_olmoe,
                                                   &mt_arch_qwen3_moe,   &mt_arch_deepseek,
                                                   &mt_arch_deepseek_v2, &mt_arch_qwen2_moe};
    static struct routes plain, zeros, pushed, ignored;
    const struct workplace *place = *state;
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        struct opened_model opened;
        struct mt_model_options options = {.keep_hidden = true};
        assert_int_equal(opened_model_make(place, models[m], MT_HF_FLOAT32, &opened), 0);
        assert_int_equal(opened_model_load(&opened, &(struct mt_train_selection){.biases = true}), MT_OK);
        look(place, &options, &plain);
        save(place, &opened);
        look(place, &options, &zeros);
        assert_memory_equal(plain.chosen, zeros.chosen, sizeof plain.chosen);
        assert_memory_equal(plain.weight, zeros.weight, sizeof plain.weight);
        for (int64_t i = 0; i < opened.params.layers; i++) {
            if (opened.params.layer[i].moe) ((float *)opened.params.layer[i].correction.data)[1] = 10.0f;
        }
        save(place, &opened);
        look(place, &options, &pushed);
        options.without_biases = true;
        look(place, &options, &ignored);
        assert_memory_equal(plain.chosen, ignored.chosen, sizeof plain.chosen);
        size_t slots = (size_t)plain.slots;
        size_t always = 0;
        assert_true(plain.count > 0);
        for (size_t t = 0; t < plain.count / slots; t++) {
            const float *probs = pushed.probs + t * (size_t)pushed.experts;
            const float *weight = pushed.weight + t * slots;
            const int32_t *chosen = pushed.chosen + t * slots;
            always += chose(plain.chosen + t * slots, plain.slots, 1) ? 1 : 0;
            assert_true(chose(chosen, pushed.slots, 1));
            for (size_t i = 1; i < slots; i++) {
                double expected = (double)probs[chosen[i]] / (double)probs[chosen[0]];
                assert_true(fabs((double)weight[i] / (double)weight[0] - expected) < 1e-4 * expected);
            }
        }
        assert_true(always < plain.count / slots); // it was not everybody's choice before
        assert_int_equal(opened_model_close(place, &opened), 0);
    }
}

/* A merged model has the adapter's biases beside its weights, and says what it is without them. */
static void merging_keeps_them(void **state)
{
    const struct workplace *place = *state;
    char adapter[128];
    char out[128];
    char again[128];
    char path[192];
    for (size_t at = 0; at < MT_ARCH_COUNT; at++) {
        const struct mt_arch *model = mt_archs[at];
        struct opened_model opened;
        struct mt_merge_result result;
        struct mt_merge_difference difference;
        struct mt_merge_options options = {.directory = place->directory,
                                           .adapter = workplace_path(place, "adapter", adapter, 128),
                                           .out = workplace_path(place, "out", out, 128)};
        if (model == &mt_arch_phimoe) continue;
        make(place, model, &opened);
        bool beside = !has_place(model);
        assert_int_equal(mt_merge(&opened.ctx, &options, &result), MT_OK);
        assert_true(result.biases_beside == beside && (result.biases > 0) == !beside);
        if (mt_merge_verify(opened.device, &options, &result, &difference) != MT_OK)
            fail_msg("%s", opened.ctx.message);
        assert_true(difference.rms < 2e-5);
        assert_true(beside ? difference.without_biases > 1e-3 : difference.without_biases == 0.0);
        (void)snprintf(path, sizeof path, "%s/%s", out, MT_ROUTER_BIAS_OF_MODEL);
        assert_int_equal(access(path, F_OK), beside ? 0 : -1);
        // The merged model's own stay when an adapter without any is merged into it.
        options.directory = out;
        options.out = workplace_path(place, "again", again, 128);
        (void)snprintf(path, sizeof path, "%s/%s", adapter, MT_ROUTER_BIAS_OF_ADAPTER);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(mt_merge(&opened.ctx, &options, &result), MT_OK);
        assert_true(result.biases_beside == beside);
        assert_int_equal(mt_merge_verify(opened.device, &options, &result, &difference), MT_OK);
        workplace_remove_folder(place, "adapter");
        workplace_remove_folder(place, "out");
        workplace_remove_folder(place, "again");
        assert_int_equal(opened_model_close(place, &opened), 0);
    }
}

/* A file with one tensor. */
static void write_one(const struct workplace *place, struct mt_context *ctx,
                      const struct mt_safetensors_spec *spec, const float *values)
{
    char path[128];
    struct mt_safetensors_writer writer;
    (void)workplace_path(place, MT_ROUTER_BIAS_OF_MODEL, path, sizeof path);
    assert_int_equal(mt_safetensors_writer_open(ctx, path, spec, 1, NULL, 0, &writer), MT_OK);
    assert_int_equal(mt_safetensors_writer_write(&writer, values, (size_t)spec->dim[0] * sizeof *values),
                     MT_OK);
    assert_int_equal(mt_safetensors_writer_finish(&writer), MT_OK);
}

static void expect_refused(const struct workplace *place, struct opened_model *opened,
                           const struct mt_model_desc *desc, enum mt_status expected, const char *text)
{
    struct mt_safetensors file;
    assert_int_equal(
        mt_router_bias_open(&opened->ctx, place->directory, MT_ROUTER_BIAS_OF_MODEL, desc, &file), expected);
    assert_non_null(strstr(opened->ctx.message, text));
}

static void refusals(void **state)
{
    const struct workplace *place = *state;
    struct opened_model opened;
    float values[64] = {0};
    struct mt_safetensors_spec spec = {
        .name = "model.layers.1.mlp.gate.e_score_correction_bias", .dtype = MT_SAFETENSORS_F32, .rank = 1};
    static const char *const names[] = {"model.layers.9.mlp.gate.e_score_correction_bias",
                                        "model.layers.-1.mlp.gate.e_score_correction_bias",
                                        "model.layers.01.mlp.gate.e_score_correction_bias",
                                        "model.layers.1.mlp.gate.weight",
                                        "model.layers.99999999999999999999.mlp.gate.e_score_correction_bias",
                                        "model.layers.",
                                        "layers.1"};
    assert_int_equal(opened_model_make(place, &mt_arch_olmoe, MT_HF_FLOAT32, &opened), 0);
    spec.dim[0] = opened.desc.experts;
    write_one(place, &opened.ctx, &spec, values);
    struct mt_safetensors file;
    assert_int_equal(
        mt_router_bias_open(&opened.ctx, place->directory, MT_ROUTER_BIAS_OF_MODEL, &opened.desc, &file),
        MT_OK);
    mt_safetensors_close(&file);
    expect_refused(place, &opened, NULL, MT_ERR_UNSUPPORTED, "together with their model");
    values[2] = NAN;
    write_one(place, &opened.ctx, &spec, values);
    expect_refused(place, &opened, &opened.desc, MT_ERR_FORMAT, "is not a number for expert 2");
    values[2] = 0.0f;
    spec.dim[0]++;
    write_one(place, &opened.ctx, &spec, values);
    expect_refused(place, &opened, &opened.desc, MT_ERR_FORMAT, "is not the selection bias");
    spec.dim[0]--;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        spec.name = names[i];
        write_one(place, &opened.ctx, &spec, values);
        expect_refused(place, &opened, &opened.desc, MT_ERR_FORMAT, "is not the selection bias");
    }
    assert_int_equal(workplace_write(place, MT_ROUTER_BIAS_OF_MODEL, "short", 5), 0);
    expect_refused(place, &opened, &opened.desc, MT_ERR_FORMAT, MT_ROUTER_BIAS_OF_MODEL);
    assert_int_equal(opened_model_close(place, &opened), 0);
    // SparseMixer chooses without one.
    assert_int_equal(opened_model_make(place, &mt_arch_phimoe, MT_HF_FLOAT32, &opened), 0);
    spec.name = "model.layers.1.block_sparse_moe.gate.e_score_correction_bias";
    spec.dim[0] = opened.desc.experts;
    write_one(place, &opened.ctx, &spec, values);
    expect_refused(place, &opened, &opened.desc, MT_ERR_UNSUPPORTED, "SparseMixer");
    assert_int_equal(opened_model_close(place, &opened), 0);
}

static enum mt_status merge_once(struct mt_context *ctx, const void *self)
{
    const struct workplace *place = self;
    char adapter[128];
    char out[128];
    struct mt_merge_options options = {.directory = place->directory,
                                       .adapter = workplace_path(place, "adapter", adapter, 128),
                                       .out = workplace_path(place, "out", out, 128),
                                       .threads = 1};
    int entries = workplace_entries(place);
    enum mt_status status = mt_merge(ctx, &options, NULL);
    if (status == MT_OK) workplace_remove_folder(place, "out");
    return workplace_entries(place) == entries ? status : MT_ERR_INTERNAL;
}

static enum mt_status open_once(struct mt_context *ctx, const void *self)
{
    const struct workplace *place = self;
    struct mt_device *device = NULL;
    struct mt_model *model = NULL;
    const struct mt_model_options options = {.tokens = 8, .sequences = 1, .positions = 8};
    enum mt_status status = mt_device_create(ctx, "cpu", 1, &device);
    if (status == MT_OK) status = mt_model_open(device, place->directory, &options, &model);
    mt_model_close(model);
    mt_device_destroy(device);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    const struct workplace *place = *state;
    struct opened_model opened;
    make(place, &mt_arch_mixtral, &opened);
    save(place, &opened);
    assert_every_allocation_may_fail(merge_once, place, 10);
    assert_every_allocation_may_fail(open_once, place, 10);
    workplace_remove_folder(place, "adapter");
    assert_int_equal(opened_model_close(place, &opened), 0);
}

#define IN_WORKPLACE(test) cmocka_unit_test_setup_teardown(test, workplace_open, workplace_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORKPLACE(adapters_bring_them),       IN_WORKPLACE(they_decide_the_choice_alone),
        IN_WORKPLACE(merging_keeps_them),        IN_WORKPLACE(refusals),
        IN_WORKPLACE(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
