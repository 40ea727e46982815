/*
 * Merging into models in codes: floats, codes again, what is left as it lies, and what is refused. Tests
 * src/model/files/merge.c.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/published/stacks.h"
#include "base/files/file.h"
#include "model/adapters/adapter.h"
#include "model/files/merge.h"
#include "support/cmocka_all.h"
#include "support/drawn_adapter.h"
#include "support/every_allocation.h"
#include "support/opened_model.h"
#include "support/published_folder.h"

static const char *const attention[] = {"attention", NULL};
static const struct mt_train_selection pairs = {.lora = attention, .lora_rank = 3, .lora_alpha = 7.0};

static const struct published_folder formats[] = {
    {.format = MT_QUANTISED_FP8},
    {.format = MT_QUANTISED_NF4},
    {.format = MT_QUANTISED_NF4, .nested = true},
    {.format = MT_QUANTISED_MXFP4},
};

struct paths {
    char coded[128], adapter[128], out[128];
};

/* A model in floats at the workplace, the same in codes, and an adapter of attention; `floats` keeps the
 * pairs. */
static struct mt_merge_options make(const struct workplace *place, const struct published_folder *format,
                                    struct paths *paths, struct opened_model *floats)
{
    assert_int_equal(opened_model_make(place, &mt_arch_qwen2_moe, MT_HF_BFLOAT16, floats), 0);
    assert_int_equal(opened_model_load(floats, &pairs), MT_OK);
    drawn_adapter_fill(&floats->params, 0.05f);
    assert_int_equal(
        drawn_adapter_write(place, "adapter", &floats->params, &floats->desc, &pairs, MT_ADAPTER_PER_EXPERT),
        MT_OK);
    (void)workplace_path(place, "coded", paths->coded, sizeof paths->coded);
    assert_int_equal(published_folder_make(&floats->ctx, place->directory, paths->coded, format), 0);
    return (struct mt_merge_options){
        .directory = paths->coded,
        .adapter = workplace_path(place, "adapter", paths->adapter, sizeof paths->adapter),
        .out = workplace_path(place, "out", paths->out, sizeof paths->out),
        .threads = 1,
    };
}

static void clean(const struct workplace *place, struct opened_model *floats)
{
    workplace_remove_folder(place, "adapter");
    workplace_remove_folder(place, "out");
    workplace_remove_folder(place, "coded");
    assert_int_equal(opened_model_close(place, floats), 0);
}

/* A folder's config and tensors. */
struct folder {
    struct mt_hf_config config;
    struct mt_checkpoint checkpoint;
};

static void open_folder(struct mt_context *ctx, const char *directory, struct folder *folder)
{
    if (mt_hf_config_read_folder(ctx, directory, &folder->config) != MT_OK) fail_msg("%s", ctx->message);
    if (mt_stacks_open(ctx, directory, &folder->config, &folder->checkpoint) != MT_OK)
        fail_msg("%s", ctx->message);
}

static void close_folder(struct folder *folder)
{
    mt_checkpoint_close(&folder->checkpoint);
    mt_hf_config_free(&folder->config);
}

static double product(const struct opened_model *floats, const char *module, int64_t row, int64_t column)
{
    char name[192];
    (void)snprintf(name, sizeof name, "base_model.model.%s.lora_A.weight", module);
    const struct mt_param *a = opened_model_trained(floats, name);
    (void)snprintf(name, sizeof name, "base_model.model.%s.lora_B.weight", module);
    const struct mt_param *b = opened_model_trained(floats, name);
    double sum = 0.0;
    for (int64_t k = 0; a != NULL && b != NULL && k < 3; k++) {
        sum += (double)((const float *)b->value.data)[row * 3 + k] *
               (double)((const float *)a->value.data)[k * a->value.dim[1] + column];
    }
    return 7.0 / 3.0 * sum;
}

/* Every matrix in floats is what the codes stand for, in bf16, plus the product. */
static void expect_sums(struct opened_model *floats, struct folder *coded, const struct folder *merged)
{
    struct mt_model_tensors walk = mt_model_tensors_begin(&coded->config);
    struct mt_model_tensor tensor;
    size_t compared = 0;
    while (mt_model_tensors_next(&walk, &tensor)) {
        struct mt_published found;
        struct mt_published_matrix matrix;
        const struct mt_safetensors_tensor *got = mt_checkpoint_find(&merged->checkpoint, tensor.name);
        assert_non_null(got);
        assert_int_equal(mt_published_find(&coded->config, &coded->checkpoint, &tensor, &found), MT_OK);
        if (!found.quantised) continue;
        char module[MT_MODEL_NAME_BYTES];
        mt_params_module_name(tensor.name, module, sizeof module);
        assert_int_equal(mt_published_matrix_open(&floats->ctx, &found, &matrix), MT_OK);
        uint16_t *numbers = malloc((size_t)mt_model_tensor_count(&tensor) * sizeof *numbers);
        assert_non_null(numbers);
        mt_dequantise(&matrix.matrix, MT_BF16, numbers);
        for (int64_t i = 0; i < mt_model_tensor_count(&tensor); i++) {
            float number = 0.0f;
            mt_convert_to_f32(MT_BF16, numbers + i, 1, &number);
            double want = (double)number + product(floats, module, i / tensor.dim[1], i % tensor.dim[1]);
            double value = (double)mt_adapter_value(got, i);
            if (fabs(value - want) > 1e-6 * (fabs(want) + 0.01))
                fail_msg("%s[%lld] is %g, expected %g", tensor.name, (long long)i, value, want);
        }
        compared++;
        free(numbers);
        mt_published_matrix_close(&floats->ctx, &matrix);
    }
    assert_true(compared > 0);
}

static void into_floats(void **state)
{
    const struct workplace *place = *state;
    for (size_t f = 0; f < sizeof formats / sizeof formats[0]; f++) {
        struct opened_model floats;
        struct paths paths;
        struct folder coded;
        struct folder merged;
        struct mt_merge_result result;
        struct mt_merge_difference difference;
        struct mt_merge_options options = make(place, &formats[f], &paths, &floats);
        options.dtype = MT_HF_FLOAT32;
        if (mt_merge(&floats.ctx, &options, &result) != MT_OK) fail_msg("%s", floats.ctx.message);
        assert_int_equal(result.merged, floats.params.trained_count / 2);
        assert_int_equal(result.codes, 0);
        open_folder(&floats.ctx, options.directory, &coded);
        open_folder(&floats.ctx, options.out, &merged);
        assert_int_equal(merged.config.quant.method, MT_HF_QUANT_NONE);
        expect_sums(&floats, &coded, &merged);
        if (mt_merge_verify(floats.device, &options, &result, &difference) != MT_OK)
            fail_msg("%s", floats.ctx.message);
        assert_true(difference.rms < 2e-5);
        close_folder(&merged);
        close_folder(&coded);
        clean(place, &floats);
    }
}

/* Experts, which have no pairs, keep their bytes; attention, which has, does not. */
static void compare_codes(const struct folder *before, const struct folder *after)
{
    size_t same = 0;
    size_t other = 0;
    for (size_t i = 0; i < before->checkpoint.tensor_count; i++) {
        const struct mt_safetensors_tensor *old = before->checkpoint.tensors[i].info;
        const struct mt_safetensors_tensor *now = mt_checkpoint_find(&after->checkpoint, old->name);
        assert_non_null(now);
        assert_int_equal(now->dtype, old->dtype);
        assert_int_equal(now->bytes, old->bytes);
        bool equal = memcmp(now->data, old->data, (size_t)old->bytes) == 0;
        if (strstr(old->name, "self_attn") == NULL && !equal) fail_msg("%s changed", old->name);
        same += equal ? 1 : 0;
        other += equal ? 0 : 1;
    }
    assert_int_equal(after->checkpoint.tensor_count, before->checkpoint.tensor_count);
    assert_true(same > 0 && other > 0);
}

static void into_codes(void **state)
{
    const struct workplace *place = *state;
    for (size_t f = 0; f < sizeof formats / sizeof formats[0]; f++) {
        struct opened_model floats;
        struct paths paths;
        struct folder coded;
        struct folder merged;
        struct mt_merge_result result;
        struct mt_merge_difference in_floats;
        struct mt_merge_difference in_codes;
        struct mt_merge_options options = make(place, &formats[f], &paths, &floats);
        options.requantise = true;
        if (mt_merge(&floats.ctx, &options, &result) != MT_OK) fail_msg("%s", floats.ctx.message);
        open_folder(&floats.ctx, options.directory, &coded);
        open_folder(&floats.ctx, options.out, &merged);
        assert_int_equal(merged.config.quant.method, coded.config.quant.method);
        compare_codes(&coded, &merged);
        // Measured for what has pairs, and not more than the format's steps: what was in codes lay on them.
        const struct mt_merge_loss *loss = &result.loss[MT_PART_ATTENTION];
        bool eight = formats[f].format == MT_QUANTISED_FP8;
        assert_int_equal(loss->matrices, floats.params.trained_count / 2);
        assert_int_equal(result.loss[MT_PART_EXPERTS].matrices, 0);
        if (loss->error < 1e-3 || loss->error > (eight ? 0.04 : 0.15))
            fail_msg("%s: %g is lost", result.format, loss->error);
        assert_true(loss->change > 0.0);
        enum mt_status status = mt_merge_verify_requantised(floats.device, &options, &in_floats, &in_codes);
        if (status != MT_OK) fail_msg("%s", floats.ctx.message);
        assert_true(in_floats.rms < in_codes.rms && in_codes.rms > 1e-3);
        assert_true(in_codes.divergence > in_floats.divergence && in_codes.same_top <= 1.0);
        close_folder(&merged);
        close_folder(&coded);
        clean(place, &floats);
    }
}

/* Where the key stands in the config changes nothing but the key. */
static void configs(void **state)
{
    static const char *const places[] = {
        "{\n  \"quantization_config\": {\"quant_method\": \"mxfp4\", \"a\": [{}, \"}\"]},",
        "{\n  \"x\": {\"quantization_config\": 1},\n  \"quantization_config\": {\"quant_method\": "
        "\"mxfp4\"},",
    };
    const struct workplace *place = *state;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        struct opened_model floats;
        struct paths paths;
        struct folder merged;
        struct mt_merge_result result;
        char text[4096];
        const char *config = small_model_config(&mt_arch_qwen2_moe);
        struct mt_merge_options options = make(place, &formats[3], &paths, &floats);
        (void)snprintf(text, sizeof text, "%s%s", places[i], strchr(config, '{') + 1);
        assert_int_equal(workplace_write(place, "coded/config.json", text, strlen(text)), 0);
        if (mt_merge(&floats.ctx, &options, &result) != MT_OK) fail_msg("%s", floats.ctx.message);
        open_folder(&floats.ctx, options.out, &merged);
        assert_int_equal(merged.config.quant.method, MT_HF_QUANT_NONE);
        assert_int_equal(merged.config.hidden_size, floats.config.hidden_size);
        close_folder(&merged);
        clean(place, &floats);
    }
}

static enum mt_status merge_once(struct mt_context *ctx, const void *self)
{
    const struct workplace *place = self;
    struct paths paths;
    const struct mt_merge_options options = {
        .directory = workplace_path(place, "coded", paths.coded, sizeof paths.coded),
        .adapter = workplace_path(place, "adapter", paths.adapter, sizeof paths.adapter),
        .out = workplace_path(place, "out", paths.out, sizeof paths.out),
        .requantise = true,
        .threads = 1,
    };
    enum mt_status status = mt_merge(ctx, &options, NULL);
    workplace_remove_folder(place, "out");
    return status;
}

static void every_allocation_may_fail(void **state)
{
    const struct workplace *place = *state;
    struct opened_model floats;
    struct paths paths;
    (void)make(place, &formats[2], &paths, &floats);
    assert_every_allocation_may_fail(merge_once, place, 50);
    clean(place, &floats);
}

int main(void)
{
#define AT_A_PLACE(test) cmocka_unit_test_setup_teardown(test, workplace_open, workplace_close)
    const struct CMUnitTest tests[] = {
        AT_A_PLACE(into_floats),
        AT_A_PLACE(into_codes),
        AT_A_PLACE(configs),
        AT_A_PLACE(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
