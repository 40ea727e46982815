/* Merging: values, types, files carried over, biases, verification, and what is refused. */
#include "model/files/merge.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arch/published/stacks.h"
#include "base/files/file.h"
#include "model/adapters/adapter.h"
#include "support/cmocka_all.h"
#include "support/drawn_adapter.h"
#include "support/every_allocation.h"
#include "support/opened_model.h"

static const char *const everything[] = {"*", NULL};

static const struct mt_train_selection all_pairs = {.lora = everything, .lora_rank = 3, .lora_alpha = 7.0};

struct paths {
    char adapter[128], out[128];
};

static struct mt_merge_options options_for(const struct workplace *place, struct paths *paths)
{
    return (struct mt_merge_options){
        .directory = place->directory,
        .adapter = workplace_path(place, "adapter", paths->adapter, sizeof paths->adapter),
        .out = workplace_path(place, "out", paths->out, sizeof paths->out),
        .threads = 1,
    };
}

/* A model and an adapter of everything; the parameters keep the pairs. */
static void make(const struct workplace *place, const struct mt_arch *model, enum mt_hf_float dtype,
                 enum mt_adapter_layout layout, struct opened_model *opened)
{
    assert_int_equal(opened_model_make(place, model, dtype, opened), 0);
    assert_int_equal(opened_model_load(opened, &all_pairs), MT_OK);
    drawn_adapter_fill(&opened->params, 0.05f);
    for (int64_t i = 0; i < opened->desc.layers; i++) {
        if (!opened->params.layer[i].moe || !opened->desc.correction_bias) continue;
        float *bias = opened->params.layer[i].correction.data;
        for (int e = 0; e < opened->desc.experts; e++) bias[e] = (float)(10 * i + e);
    }
    assert_int_equal(
        drawn_adapter_write(place, "adapter", &opened->params, &opened->desc, &all_pairs, layout), MT_OK);
}

static void clean(const struct workplace *place)
{
    workplace_remove_folder(place, "additional_chat_templates");
    workplace_remove_folder(place, "out/additional_chat_templates");
    workplace_remove_folder(place, "adapter");
    workplace_remove_folder(place, "out");
}

static double product(const struct opened_model *opened, const char *module, int64_t row, int64_t column)
{
    char name[192];
    (void)snprintf(name, sizeof name, "base_model.model.%s.lora_A.weight", module);
    const struct mt_param *a = opened_model_trained(opened, name);
    (void)snprintf(name, sizeof name, "base_model.model.%s.lora_B.weight", module);
    const struct mt_param *b = opened_model_trained(opened, name);
    double sum = 0.0;
    for (int64_t k = 0; a != NULL && b != NULL && k < 3; k++) {
        sum += (double)((const float *)b->value.data)[row * 3 + k] *
               (double)((const float *)a->value.data)[k * a->value.dim[1] + column];
    }
    return 7.0 / 3.0 * sum;
}

/* Every tensor of the result against W + 7/3 B A. */
static void expect_weights(const struct opened_model *opened, const struct mt_merge_options *options,
                           double tolerance)
{
    struct mt_context ctx;
    struct mt_checkpoint merged;
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_stacks_open(&ctx, options->out, &opened->config, &merged), MT_OK);
    assert_int_equal(merged.tensor_count, opened->checkpoint.tensor_count);
    for (size_t i = 0; i < merged.tensor_count; i++) {
        const struct mt_safetensors_tensor *got = merged.tensors[i].info;
        const struct mt_safetensors_tensor *base = mt_checkpoint_find(&opened->checkpoint, got->name);
        char module[MT_MODEL_NAME_BYTES];
        assert_non_null(base);
        mt_params_module_name(got->name, module, sizeof module);
        if (strstr(got->name, "correction_bias") != NULL) continue;
        int64_t columns = got->rank == 2 ? got->dim[1] : 1;
        for (int64_t e = 0; e < got->dim[0] * columns; e++) {
            double want = (double)mt_adapter_value(base, e);
            if (got->rank == 2) want += product(opened, module, e / columns, e % columns);
            if (fabs((double)mt_adapter_value(got, e) - want) > tolerance * (fabs(want) + 0.01))
                fail_msg("%s[%lld] is %g, expected %g", got->name, (long long)e,
                         (double)mt_adapter_value(got, e), want);
        }
    }
    mt_checkpoint_close(&merged);
    assert_int_equal(ctx.live_bytes, 0);
}

static void values(void **state)
{
    const struct workplace *place = *state;
    for (size_t at = 0; at < MT_ARCH_COUNT; at++) {
        const struct mt_arch *model = mt_archs[at];
        struct opened_model opened;
        struct paths paths;
        struct mt_merge_result result;
        struct mt_merge_difference difference;
        struct mt_merge_options options = options_for(place, &paths);
        bool fused = model != &mt_arch_deepseek && at % 2 == 0;
        make(place, model, MT_HF_FLOAT32, fused ? MT_ADAPTER_FUSED : MT_ADAPTER_PER_EXPERT, &opened);
        options.shard_bytes = 20000;
        if (mt_merge(&opened.ctx, &options, &result) != MT_OK) fail_msg("%s", opened.ctx.message);
        assert_int_equal(result.merged, opened.params.trained_count / 2);
        assert_true(result.files > 1);
        assert_false(result.narrow);
        expect_weights(&opened, &options, 1e-6);
        if (mt_merge_verify(opened.device, &options, &result, &difference) != MT_OK)
            fail_msg("%s", opened.ctx.message);
        assert_true(difference.rms < 2e-5);
        // The unmerged model is another.
        options.out = place->directory;
        assert_int_equal(mt_merge_verify(opened.device, &options, &result, &difference), MT_ERR_NUMERIC);
        clean(place);
        assert_int_equal(opened_model_close(place, &opened), 0);
    }
}

static void narrow_values(void **state)
{
    static const enum mt_hf_float stored[] = {MT_HF_BFLOAT16, MT_HF_FLOAT16, MT_HF_FLOAT32, MT_HF_BFLOAT16};
    static const enum mt_hf_float asked[] = {MT_HF_FLOAT_UNKNOWN, MT_HF_FLOAT_UNKNOWN, MT_HF_BFLOAT16,
                                             MT_HF_FLOAT32};
    static const double tolerance[] = {0x1p-8, 0x1p-10, 0x1p-8, 1e-6};
    const struct workplace *place = *state;
    for (size_t i = 0; i < sizeof stored / sizeof stored[0]; i++) {
        struct opened_model opened;
        struct paths paths;
        struct mt_merge_result result;
        struct mt_merge_difference difference;
        struct mt_merge_options options = options_for(place, &paths);
        options.dtype = asked[i];
        make(place, &mt_arch_qwen3_moe, stored[i], MT_ADAPTER_FUSED, &opened);
        assert_int_equal(mt_merge(&opened.ctx, &options, &result), MT_OK);
        assert_true(result.narrow == (i != 3));
        expect_weights(&opened, &options, tolerance[i]);
        if (mt_merge_verify(opened.device, &options, &result, &difference) != MT_OK)
            fail_msg("%s", opened.ctx.message);
        clean(place);
        assert_int_equal(opened_model_close(place, &opened), 0);
    }
}

static void biases_come_back(void **state)
{
    const struct workplace *place = *state;
    struct opened_model opened;
    struct paths paths;
    struct mt_merge_result result;
    struct mt_checkpoint merged;
    struct mt_merge_options options = options_for(place, &paths);
    options.dtype = MT_HF_BFLOAT16;
    make(place, &mt_arch_deepseek_v3, MT_HF_FLOAT32, MT_ADAPTER_FUSED, &opened);
    assert_int_equal(mt_merge(&opened.ctx, &options, &result), MT_OK);
    assert_true(result.biases > 0);
    assert_int_equal(mt_checkpoint_open(&opened.ctx, options.out, &merged), MT_OK);
    const struct mt_safetensors_tensor *bias =
        mt_checkpoint_find(&merged, "model.layers.1.mlp.gate.e_score_correction_bias");
    assert_non_null(bias);
    assert_int_equal(bias->dtype, MT_SAFETENSORS_F32);
    assert_true(mt_adapter_value(bias, 2) == 12.0f);
    mt_checkpoint_close(&merged);
    clean(place);
    assert_int_equal(opened_model_close(place, &opened), 0);
}

static void expect_text(struct mt_context *ctx, const char *directory, const char *name, const char *part)
{
    char *path = NULL;
    void *text = NULL;
    size_t bytes = 0;
    char copy[4096];
    assert_int_equal(mt_path_join(ctx, directory, name, &path), MT_OK);
    assert_int_equal(mt_file_read_all(ctx, path, sizeof copy - 1, &text, &bytes), MT_OK);
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    if (strstr(copy, part) == NULL) fail_msg("%s has no '%s': %s", name, part, copy);
    mt_release(ctx, text, bytes);
    mt_path_release(ctx, path);
}

/* Small files that hold no weights are carried over; the config learns its new type wherever it said one. */
static void files(void **state)
{
    static const char *const dtypes[] = {"", "\"torch_dtype\" : \"float32\", ", "\"dtype\":null, "};
    static const char *const results[] = {"\"dtype\": \"bfloat16\"", "\"torch_dtype\" : \"bfloat16\"",
                                          "\"dtype\":\"bfloat16\""};
    const struct workplace *place = *state;
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        struct opened_model opened;
        struct paths paths;
        struct mt_merge_result result;
        struct mt_merge_options options = options_for(place, &paths);
        char config[4096];
        options.dtype = MT_HF_BFLOAT16;
        make(place, &mt_arch_olmoe, MT_HF_FLOAT32, MT_ADAPTER_PER_EXPERT, &opened);
        (void)snprintf(config, sizeof config, "{\"quote\\\"\": {\"dtype\": \"inner\"}, %s%s", dtypes[i],
                       strchr(small_model_config(&mt_arch_olmoe), '{') + 1);
        assert_int_equal(workplace_write(place, "config.json", config, strlen(config)), 0);
        assert_int_equal(workplace_write(place, "tokenizer.json", "{}", 2), 0);
        assert_int_equal(workplace_write(place, "pytorch_model.bin", "x", 1), 0);
        assert_int_equal(workplace_write(place, ".hidden", "x", 1), 0);
        assert_int_equal(workplace_write(place, "empty.txt", "", 0), 0);
        char folder[128];
        assert_int_equal(
            mkdir(workplace_path(place, "additional_chat_templates", folder, sizeof folder), 0777), 0);
        assert_int_equal(workplace_write(place, "additional_chat_templates/tool_use.jinja", "tools", 5), 0);
        assert_int_equal(mt_merge(&opened.ctx, &options, &result), MT_OK);
        assert_int_equal(result.carried, 4); // config, tokenizer, empty, a template
        expect_text(&opened.ctx, options.out, "config.json", results[i]);
        expect_text(&opened.ctx, options.out, "config.json", "{\"dtype\": \"inner\"}");
        expect_text(&opened.ctx, options.out, "tokenizer.json", "{}");
        expect_text(&opened.ctx, options.out, "additional_chat_templates/tool_use.jinja", "tools");
        struct workplace out;
        int length = snprintf(out.directory, sizeof out.directory, "%.50s/out", place->directory);
        assert_true(length < (int)sizeof out.directory);
        expect_text(&opened.ctx, options.out, "README.md", "base_model");
        assert_int_equal(workplace_entries(&out), 6);
        // A second time it is in the way.
        assert_int_equal(mt_merge(&opened.ctx, &options, &result), MT_ERR_USAGE);
        assert_non_null(strstr(opened.ctx.message, "exists and is not empty"));
        clean(place);
        assert_int_equal(opened_model_close(place, &opened), 0);
    }
}

/* What cannot be merged leaves nothing behind. */
static void refusals(void **state)
{
    const struct workplace *place = *state;
    struct opened_model opened;
    struct paths paths;
    struct mt_merge_options options = options_for(place, &paths);
    make(place, &mt_arch_olmoe, MT_HF_FLOAT32, MT_ADAPTER_FUSED, &opened);
    workplace_remove_folder(place, "adapter");
    float *b = opened.params.layer[1].experts.up.b[3].data;
    b[4] = INFINITY;
    assert_int_equal(
        drawn_adapter_write(place, "adapter", &opened.params, &opened.desc, &all_pairs, MT_ADAPTER_FUSED),
        MT_OK);
    assert_int_equal(mt_merge(&opened.ctx, &options, NULL), MT_ERR_NUMERIC);
    assert_non_null(strstr(opened.ctx.message, "model.layers.1.mlp.experts.3.up_proj.weight"));
    assert_int_equal(access(options.out, F_OK), -1);
    char config[128];
    (void)workplace_path(place, "adapter/" MT_ADAPTER_CONFIG, config, sizeof config);
    assert_int_equal(
        workplace_write(place, "adapter/" MT_ADAPTER_CONFIG, "{\"r\": 4, \"lora_alpha\": 7}", 25), 0);
    assert_int_equal(mt_merge(&opened.ctx, &options, NULL), MT_ERR_SHAPE);
    assert_int_equal(unlink(config), 0);
    assert_int_equal(mt_merge(&opened.ctx, &options, NULL), MT_ERR_IO);
    assert_int_equal(access(options.out, F_OK), -1);
    clean(place);
    assert_int_equal(opened_model_close(place, &opened), 0);
}

static enum mt_status merge_once(struct mt_context *ctx, const void *self)
{
    const struct workplace *place = self;
    struct paths paths;
    struct mt_merge_options options = options_for(place, &paths);
    options.dtype = MT_HF_BFLOAT16;
    options.shard_bytes = 60000;
    int entries = workplace_entries(place);
    enum mt_status status = mt_merge(ctx, &options, NULL);
    if (status == MT_OK) workplace_remove_folder(place, "out");
    return workplace_entries(place) == entries ? status : MT_ERR_INTERNAL;
}

static void every_allocation_may_fail(void **state)
{
    const struct workplace *place = *state;
    struct opened_model opened;
    make(place, &mt_arch_deepseek_v3, MT_HF_FLOAT32, MT_ADAPTER_FUSED, &opened);
    assert_int_equal(workplace_write(place, "adapter/chat_template.jinja", "{{ x }}", 7), 0);
    assert_every_allocation_may_fail(merge_once, place, 21);
    clean(place);
    assert_int_equal(opened_model_close(place, &opened), 0);
}

int main(void)
{
#define AT_A_PLACE(test) cmocka_unit_test_setup_teardown(test, workplace_open, workplace_close)
    const struct CMUnitTest tests[] = {
        AT_A_PLACE(values), AT_A_PLACE(narrow_values), AT_A_PLACE(biases_come_back),
        AT_A_PLACE(files),  AT_A_PLACE(refusals),      AT_A_PLACE(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
