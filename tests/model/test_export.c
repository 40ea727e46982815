/* Exporting trained models: untouched they are the source, trained they compute what the run computed. */
#include "model/files/export.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "arch/published/stacks.h"
#include "model/adapters/adapter.h"
#include "support/cmocka_all.h"
#include "support/drawn_adapter.h"
#include "support/every_allocation.h"
#include "support/model_runs.h"
#include "support/opened_model.h"

static const char *const everything[] = {"*", NULL};
static const struct mt_train_selection all_full = {.full = everything};

static struct mt_export_options options_for(const struct workplace *place, char out[128])
{
    return (struct mt_export_options){
        .directory = place->directory,
        .out = workplace_path(place, "out", out, 128),
    };
}

/* Every tensor is there, with the source's type, shape and bytes. */
static void expect_same(const struct opened_model *opened, const char *out)
{
    struct mt_context ctx;
    struct mt_checkpoint written;
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_stacks_open(&ctx, out, &opened->config, &written), MT_OK);
    assert_int_equal(written.tensor_count, opened->checkpoint.tensor_count);
    for (size_t i = 0; i < written.tensor_count; i++) {
        const struct mt_safetensors_tensor *got = written.tensors[i].info;
        const struct mt_safetensors_tensor *want = mt_checkpoint_find(&opened->checkpoint, got->name);
        assert_non_null(want);
        assert_int_equal(got->dtype, want->dtype);
        assert_int_equal(got->rank, want->rank);
        assert_memory_equal(got->dim, want->dim, (size_t)got->rank * sizeof got->dim[0]);
        assert_true(opened_model_same_rows(got, 0, want, 0, got->dim[0]));
    }
    mt_checkpoint_close(&written);
    assert_int_equal(ctx.live_bytes, 0);
}

/* Frozen or trained, in any type: without a step the folder is what it came from. */
static void untouched(void **state)
{
    static const enum mt_hf_float types[] = {MT_HF_FLOAT32, MT_HF_BFLOAT16, MT_HF_FLOAT16};
    const struct workplace *place = *state;
    for (int i = 0; i < 2 * MT_ARCH_COUNT; i++) {
        struct opened_model opened;
        struct mt_export_result result;
        char out[128];
        struct mt_export_options options = options_for(place, out);
        options.shard_bytes = i % 3 == 0 ? 20000 : 0;
        assert_int_equal(opened_model_make(place, mt_archs[i / 2], types[i % 3], &opened), 0);
        assert_int_equal(workplace_write(place, "tokenizer.json", "{}", 2), 0);
        assert_int_equal(opened_model_load(&opened, i % 2 == 0 ? &all_full : NULL), MT_OK);
        if (mt_model_export(&opened.params, &opened.desc, &options, &result) != MT_OK)
            fail_msg("%s", opened.ctx.message);
        assert_int_equal(result.trained, opened.params.trained_count);
        assert_int_equal(result.tensors, opened.checkpoint.tensor_count);
        assert_int_equal(result.biases, 0);
        assert_int_equal(result.carried, 2);
        assert_true((result.files > 1) == (i % 3 == 0));
        expect_same(&opened, out);
        workplace_remove_folder(place, "out");
        assert_int_equal(opened_model_close(place, &opened), 0);
    }
}

/* Changes everything that learns, and the correction biases. */
static void train(struct mt_params *params)
{
    drawn_adapter_fill(params, 0.05f);
    for (int64_t i = 0; i < params->layers; i++) {
        if (!mt_tensor_present(&params->layer[i].correction)) continue;
        float *bias = params->layer[i].correction.data;
        for (int64_t e = 0; e < params->layer[i].correction.dim[0]; e++)
            bias[e] = 0.001f * (float)(10 * i + 3 * e % 7);
    }
}

/* The trained model and the folder it was written to: the same loss, to the last bit when it is f32. */
static void same_forward(void **state)
{
    const struct workplace *place = *state;
    for (size_t at = 0; at < MT_ARCH_COUNT; at++) {
        const struct mt_arch *model = mt_archs[at];
        struct model_run run;
        struct model_run again;
        struct model_batch batch;
        struct mt_export_result result;
        struct workplace written;
        char out[128];
        struct mt_export_options options = options_for(place, out);
        const struct mt_model_options opening = {.backward = true, .selection.full = everything};
        assert_int_equal(small_model_make(place, small_model_config(model), MT_HF_FLOAT32, 7), 0);
        assert_int_equal(model_run_open(&run, place, "cpu", 1, &opening), 0);
        train(mt_model_params(run.model));
        const struct mt_model_desc *desc = mt_model_description(run.model);
        if (mt_model_export(mt_model_params(run.model), desc, &options, &result) != MT_OK)
            fail_msg("%s", run.ctx.message);
        assert_true((result.biases > 0) == desc->correction_bias);
        assert_int_equal(result.biases_beside, 0);
        (void)snprintf(written.directory, sizeof written.directory, "%.50s/out", place->directory);
        const struct mt_model_options frozen = {0};
        assert_int_equal(model_run_open(&again, &written, "cpu", 1, &frozen), 0);
        model_batch_fill(&batch, (const int[]){9, 3, 6, 0}, desc->vocabulary, 21);
        batch.batch.loss_only = true;
        double want = model_run_loss(&run, &batch.batch);
        double got = model_run_loss(&again, &batch.batch);
        if (isnan(want) || want != got) fail_msg("%s: %.17g, expected %.17g", model->name, got, want);
        model_run_close(&again);
        model_run_close(&run);
        workplace_remove_folder(place, "out");
        workplace_clear(place);
    }
}

/* Rounded once, to the stored type or to the one asked for; the config says which. */
static void rounding(void **state)
{
    const struct workplace *place = *state;
    for (int i = 0; i < 2; i++) {
        struct opened_model opened;
        struct mt_export_result result;
        struct mt_checkpoint written;
        char out[128];
        struct mt_export_options options = options_for(place, out);
        options.dtype = i == 0 ? MT_HF_FLOAT_UNKNOWN : MT_HF_BFLOAT16;
        assert_int_equal(
            opened_model_make(place, &mt_arch_deepseek_v3, i == 0 ? MT_HF_BFLOAT16 : MT_HF_FLOAT32, &opened),
            0);
        assert_int_equal(opened_model_load(&opened, &all_full), MT_OK);
        train(&opened.params);
        assert_int_equal(mt_model_export(&opened.params, &opened.desc, &options, &result), MT_OK);
        assert_true(result.narrow && result.biases > 0);
        assert_int_equal(mt_stacks_open(&opened.ctx, out, &opened.config, &written), MT_OK);
        for (size_t p = 0; p < opened.params.trained_count; p++) {
            const struct mt_param *param = &opened.params.trained[p];
            const struct mt_safetensors_tensor *got = mt_checkpoint_find(&written, param->name);
            assert_int_equal(got->dtype, MT_SAFETENSORS_BF16);
            for (int64_t e = 0; e < mt_tensor_count(&param->value); e++) {
                float want = ((const float *)param->value.data)[e];
                assert_true(fabsf(mt_adapter_value(got, e) - want) <= 0x1p-8f * fabsf(want));
            }
        }
        const struct mt_safetensors_tensor *bias =
            mt_checkpoint_find(&written, "model.layers.1.mlp.gate.e_score_correction_bias");
        assert_int_equal(bias->dtype, MT_SAFETENSORS_F32);
        assert_true(mt_adapter_value(bias, 1) == ((const float *)opened.params.layer[1].correction.data)[1]);
        mt_checkpoint_close(&written);
        workplace_remove_folder(place, "out");
        assert_int_equal(opened_model_close(place, &opened), 0);
    }
}

/* What cannot be written leaves nothing behind; what has no place on disk is counted. */
static void refusals(void **state)
{
    const struct workplace *place = *state;
    struct opened_model opened;
    struct mt_export_result result;
    char out[128];
    float bias[64] = {0};
    struct mt_export_options options = options_for(place, out);
    const struct mt_train_selection lora = {.lora = everything, .lora_rank = 2, .lora_alpha = 4.0};
    assert_int_equal(opened_model_make(place, &mt_arch_olmoe, MT_HF_FLOAT32, &opened), 0);
    assert_int_equal(opened_model_load(&opened, &lora), MT_OK);
    assert_int_equal(mt_model_export(&opened.params, &opened.desc, &options, NULL), MT_ERR_USAGE);
    assert_non_null(strstr(opened.ctx.message, "lora_A.weight is trained, but is not a tensor of the model"));
    assert_int_equal(opened_model_load(&opened, &all_full), MT_OK);
    opened.params.layer[1].correction = mt_tensor_1d(bias, MT_F32, opened.desc.experts);
    assert_int_equal(mt_model_export(&opened.params, &opened.desc, &options, &result), MT_OK);
    assert_int_equal(result.biases_beside, 1);
    assert_int_equal(mt_model_export(&opened.params, &opened.desc, &options, &result), MT_ERR_USAGE);
    assert_non_null(strstr(opened.ctx.message, "exists and is not empty"));
    workplace_remove_folder(place, "out");
    ((float *)opened.params.trained[4].value.data)[2] = NAN;
    assert_int_equal(mt_model_export(&opened.params, &opened.desc, &options, NULL), MT_ERR_NUMERIC);
    assert_non_null(strstr(opened.ctx.message, opened.params.trained[4].name));
    assert_int_equal(access(out, F_OK), -1);
    options.directory = "/nowhere";
    assert_int_equal(mt_model_export(&opened.params, &opened.desc, &options, NULL), MT_ERR_IO);
    assert_int_equal(opened_model_close(place, &opened), 0);
}

static enum mt_status export_once(struct mt_context *ctx, const void *self)
{
    const struct workplace *place = self;
    struct opened_model opened = {0};
    char out[128];
    char path[128];
    struct mt_export_options options = options_for(place, out);
    options.shard_bytes = 60000;
    int entries = workplace_entries(place);
    (void)workplace_path(place, "config.json", path, sizeof path);
    enum mt_status status = mt_hf_config_read(ctx, path, NULL, 0, &opened.config);
    if (status == MT_OK) status = mt_model_describe(ctx, &opened.config, &opened.desc);
    if (status == MT_OK) status = mt_stacks_open(ctx, place->directory, &opened.config, &opened.checkpoint);
    if (status == MT_OK) status = mt_device_create(ctx, "cpu", 1, &opened.device);
    if (status == MT_OK) {
        status = mt_params_load(opened.device, &opened.desc, &opened.checkpoint, &all_full, &opened.params);
    }
    if (status == MT_OK) {
        train(&opened.params);
        status = mt_model_export(&opened.params, &opened.desc, &options, NULL);
    }
    mt_params_free(&opened.params);
    mt_device_destroy(opened.device);
    mt_checkpoint_close(&opened.checkpoint);
    mt_hf_config_free(&opened.config);
    if (status == MT_OK) workplace_remove_folder(place, "out");
    return workplace_entries(place) == entries ? status : MT_ERR_INTERNAL;
}

static void every_allocation_may_fail(void **state)
{
    const struct workplace *place = *state;
    assert_int_equal(small_model_make(place, small_model_config(&mt_arch_deepseek_v3), MT_HF_FLOAT32, 7), 0);
    assert_every_allocation_may_fail(export_once, place, 21);
}

int main(void)
{
#define AT_A_PLACE(test) cmocka_unit_test_setup_teardown(test, workplace_open, workplace_close)
    const struct CMUnitTest tests[] = {
        AT_A_PLACE(untouched),
        AT_A_PLACE(same_forward),
        AT_A_PLACE(rounding),
        AT_A_PLACE(refusals),
        AT_A_PLACE(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
