/*
 * Models with quantised weights: they compute, bit for bit, what the same models do whose weights are the
 * numbers that the codes stand for, forward and backward, whatever is recomputed and with any number of
 * threads; memory is what was said; what cannot be is a sentence. Tests src/model/params/quantised.c.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "support/every_allocation.h"
#include "support/model_runs.h"
#include "support/opened_model.h"
#include "support/small_models.h"

static const char *const everything[] = {"model.layers.*", NULL};
static const char *const norms[] = {"norms", NULL};
static const char all_parts[] = "routed_experts,shared_experts,dense_mlp,attention";

static struct mt_quantise_options quantise_as(const char *text)
{
    struct mt_context ctx;
    struct mt_quantise_options options;
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_quantise_parse(&ctx, text, &options), MT_OK);
    return options;
}

// ------------------------------------------------------------------ the numbers of the codes

/* What becomes of a bf16 matrix: freed by the caller. */
static uint16_t *numbers_of(const struct mt_quantise_options *quantise, const struct mt_model_tensor *tensor,
                            const void *values)
{
    struct mt_quantised matrix =
        mt_quantised_shape(quantise->format, quantise->nested, tensor->dim[0], tensor->dim[1]);
    struct mt_tensor *parts[MT_QUANTISED_TENSORS];
    uint16_t *numbers = malloc((size_t)mt_model_tensor_count(tensor) * sizeof *numbers);
    assert_non_null(numbers);
    mt_quantised_each(&matrix, parts);
    for (int i = 0; i < MT_QUANTISED_TENSORS; i++)
        parts[i]->data = calloc((size_t)mt_tensor_count(parts[i]) + 1, sizeof(float));
    if (quantise->nested) mt_nf4_nested_map(matrix.nested_map.data);
    assert_true(mt_quantise(MT_BF16, values, &matrix));
    mt_dequantise(&matrix, MT_BF16, numbers);
    for (int i = 0; i < MT_QUANTISED_TENSORS; i++) free(parts[i]->data);
    return numbers;
}

/* Writes them over the weights of the workplace's model. */
static void replace_weights(const struct workplace *place, const struct mt_quantise_options *quantise)
{
    struct opened_model opened;
    struct mt_model_tensor tensor;
    int replaced = 0;
    assert_int_equal(opened_model_open(place, &opened), 0);
    assert_int_equal(opened.checkpoint.shard_count, 1);
    const struct mt_safetensors *file = &opened.checkpoint.shards[0];
    FILE *out = fopen(file->path, "r+b");
    assert_non_null(out);
    struct mt_model_tensors walk = mt_model_tensors_begin(opened.desc.config);
    while (mt_model_tensors_next(&walk, &tensor)) {
        if (!mt_quantise_takes(quantise, &tensor)) continue;
        const struct mt_safetensors_tensor *stored = mt_checkpoint_find(&opened.checkpoint, tensor.name);
        uint16_t *numbers = numbers_of(quantise, &tensor, stored->data);
        long offset = (long)((const char *)stored->data - (const char *)file->mapping.data);
        assert_int_equal(fseek(out, offset, SEEK_SET), 0);
        assert_int_equal(fwrite(numbers, 1, (size_t)stored->bytes, out), stored->bytes);
        free(numbers);
        replaced++;
    }
    assert_int_equal(fclose(out), 0);
    assert_true(replaced > 0);
    mt_checkpoint_close(&opened.checkpoint);
    mt_hf_config_free(&opened.config);
    mt_device_destroy(opened.device);
}

// ------------------------------------------------------------------ the same bits

struct setting {
    const char *device;
    enum mt_recompute recompute;
    int threads;
    enum mt_dtype activations;
};

static struct model_outcome run_step(const struct workplace *place, const struct setting *setting,
                                     const struct mt_quantise_options *quantise)
{
    struct model_run run;
    struct model_batch batch;
    struct model_outcome outcome;
    struct mt_context ctx;
    struct mt_objective_config method;
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_objective_config_method(&ctx, "metier", &method), MT_OK);
    struct mt_model_options options = {.backward = true,
                                       .recompute = setting->recompute,
                                       .objective = &method,
                                       .activations = setting->activations};
    options.selection = (struct mt_train_selection){.full = norms,
                                                    .lora = everything,
                                                    .lora_rank = 4,
                                                    .lora_alpha = 8.0,
                                                    .lora_dropout = 0.2,
                                                    .seed = 5,
                                                    .quantise = *quantise};
    assert_int_equal(model_run_open(&run, place, setting->device, setting->threads, &options), 0);
    model_run_draw_lora(&run, 9);
    model_batch_fill(&batch, (const int[]){9, 1, 7, 0}, mt_model_description(run.model)->vocabulary, 21);
    batch.batch.training = true;
    batch.batch.step = 3;
    assert_int_equal(model_run_step(&run, &batch.batch, &outcome.loss), 0);
    model_outcome_take(&run, &outcome);
    model_run_close(&run);
    assert_int_equal(run.ctx.live_bytes, 0);
    return outcome;
}

static void expect_same(const struct model_outcome *expected, struct model_outcome *got)
{
    assert_true(expected->loss == got->loss);
    assert_int_equal(expected->count, got->count);
    assert_memory_equal(expected->gradients, got->gradients, got->count * sizeof *got->gradients);
    free(got->gradients);
}

/* One model, one way to quantise it. */
static void check(const struct workplace *place, const struct mt_arch *arch, const char *how)
{
    static const struct setting settings[] = {
        {"cpu", MT_RECOMPUTE_MOE, 1, MT_F32},  {"cpu", MT_RECOMPUTE_FULL, 2, MT_F32},
        {"cpu", MT_RECOMPUTE_NONE, 4, MT_F32}, {"cpu", MT_RECOMPUTE_NONE, 1, MT_BF16},
        {"ref", MT_RECOMPUTE_NONE, 1, MT_F32},
    };
    const struct mt_quantise_options as_stored = {0};
    const struct mt_quantise_options quantise = quantise_as(how);
    enum { SETTINGS = sizeof settings / sizeof settings[0] };
    struct model_outcome got[SETTINGS];
    assert_int_equal(small_model_make(place, small_model_config(arch), MT_HF_BFLOAT16, 11), 0);
    struct model_outcome before = run_step(place, &settings[0], &as_stored);
    for (int i = 0; i < SETTINGS; i++) got[i] = run_step(place, &settings[i], &quantise);
    assert_true(before.loss != got[0].loss);
    replace_weights(place, &quantise);
    for (int i = 0; i < SETTINGS; i++) {
        struct model_outcome expected = run_step(place, &settings[i], &as_stored);
        expect_same(&expected, &got[i]);
        free(expected.gradients);
    }
    free(before.gradients);
    workplace_clear(place);
}

/* Every format on one model, with everything quantised; routed experts alone on the others. */
static void formats(void **state)
{
    static const char *const names[] = {"fp8", "int8", "nf4", "nf4,single", "mxfp4"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char how[MT_QUANTISE_TEXT_BYTES];
        (void)snprintf(how, sizeof how, "%s,%s", names[i], all_parts);
        check(*state, &mt_arch_deepseek_v2, how);
    }
}

static void architectures(void **state)
{
    static const struct mt_arch *const archs[] = {
        &mt_arch_mixtral,  &mt_arch_qwen2_moe,   &mt_arch_phimoe, &mt_arch_qwen3_moe,
        &mt_arch_deepseek, &mt_arch_deepseek_v3, &mt_arch_olmoe,  &mt_arch_glm4_moe_lite};
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
        check(*state, archs[i], "nf4");
        check(*state, archs[i], "mxfp4,attention,routed_experts");
    }
}

/* Gradients of the pairs against finite differences, in double where activations are. */
static void finite_differences(void **state)
{
    const struct workplace *place = *state;
    struct model_run run;
    struct model_batch batch;
    double loss = 0.0;
    struct mt_model_options options = {.backward = true, .activations = MT_F64};
    options.selection = (struct mt_train_selection){.lora = everything,
                                                    .lora_rank = 4,
                                                    .lora_alpha = 8.0,
                                                    .seed = 5,
                                                    .quantise = quantise_as("nf4,routed_experts,attention")};
    assert_int_equal(small_model_make(place, small_model_config(&mt_arch_mixtral), MT_HF_BFLOAT16, 11), 0);
    assert_int_equal(model_run_open(&run, place, "ref", 1, &options), 0);
    model_run_draw_lora(&run, 9);
    model_batch_fill(&batch, (const int[]){5, 3, 0}, mt_model_description(run.model)->vocabulary, 21);
    assert_int_equal(model_run_step(&run, &batch.batch, &loss), 0);
    assert_true(model_run_check_gradients(&run, &batch.batch, 7, 1e-3, 1e-2) < 1e-2);
    model_run_close(&run);
    workplace_clear(place);
}

// ------------------------------------------------------------------ memory

/* Codes take what their format says, up to the gaps between tensors; the mapping no longer has them. */
static void memory(void **state)
{
    const struct workplace *place = *state;
    struct opened_model opened;
    struct mt_train_selection selection = {0};
    assert_int_equal(opened_model_make(place, &mt_arch_mixtral, MT_HF_BFLOAT16, &opened), 0);
    assert_int_equal(opened_model_load(&opened, &selection), MT_OK);
    size_t all = opened.params.mapped + opened.params.copies.bytes;
    assert_int_equal(opened.params.codes.bytes, 0);
    assert_int_equal(opened.params.unpacked.bytes, 0);
    selection.quantise = quantise_as("nf4");
    assert_int_equal(opened_model_load(&opened, &selection), MT_OK);
    size_t codes = 0;
    size_t stored = 0;
    size_t gate = 0;
    struct mt_model_tensor tensor;
    struct mt_model_tensors walk = mt_model_tensors_begin(opened.desc.config);
    while (mt_model_tensors_next(&walk, &tensor)) {
        if (!mt_quantise_takes(&selection.quantise, &tensor)) continue;
        codes += (size_t)mt_quantise_bytes(&selection.quantise, &tensor);
        stored += 2 * (size_t)mt_model_tensor_count(&tensor);
        gate = 2 * (size_t)mt_model_tensor_count(&tensor);
    }
    size_t matrices = stored / gate;
    assert_true(opened.params.codes.bytes >= codes);
    assert_true(opened.params.codes.bytes <= codes + matrices * 4 * 64 + 1024);
    assert_int_equal(opened.params.mapped + opened.params.copies.bytes, all - stored);
    size_t copies = 2 * (size_t)opened.desc.experts * ((gate + 63) / 64 * 64); // gate and up of a layer
    assert_int_equal(opened.params.unpacked.bytes, copies);
    assert_int_equal(opened_model_close(place, &opened), 0);
}

static enum mt_status load_quantised(struct mt_context *ctx, const void *self)
{
    const struct workplace *place = self;
    struct mt_device *device = NULL;
    struct mt_model *model = NULL;
    struct mt_model_options options = {.tokens = 4, .sequences = 1, .positions = 4};
    options.selection.quantise = quantise_as("nf4,routed_experts,attention");
    enum mt_status status = mt_device_create(ctx, "cpu", 1, &device);
    if (status == MT_OK) status = mt_model_open(device, place->directory, &options, &model);
    mt_model_close(model);
    mt_device_destroy(device);
    return status;
}

static void out_of_memory(void **state)
{
    const struct workplace *place = *state;
    assert_int_equal(small_model_make(place, small_model_config(&mt_arch_mixtral), MT_HF_BFLOAT16, 11), 0);
    assert_every_allocation_may_fail(load_quantised, place, 20);
    workplace_clear(place);
}

// ------------------------------------------------------------------ what cannot be

static void refusals(void **state)
{
    const struct workplace *place = *state;
    struct opened_model opened;
    struct mt_train_selection selection = {.full = everything, .quantise = quantise_as("nf4")};
    assert_int_equal(opened_model_make(place, &mt_arch_mixtral, MT_HF_BFLOAT16, &opened), 0);
    assert_int_equal(opened_model_load(&opened, &selection), MT_ERR_USAGE);
    assert_non_null(
        strstr(opened.ctx.message, "w1.weight is trained in full, but quantize would quantise it"));
    assert_non_null(strstr(opened.ctx.message, "train: lora"));
    selection.full = norms; // which are not quantised
    assert_int_equal(opened_model_load(&opened, &selection), MT_OK);
    selection.quantise = quantise_as("fp8,dense_mlp"); // of which this model has none
    assert_int_equal(opened_model_load(&opened, &selection), MT_ERR_USAGE);
    assert_non_null(strstr(opened.ctx.message, "dense_mlp"));
    assert_int_equal(opened_model_close(place, &opened), 0);
}

/* A weight that is not a number is named. */
static void not_a_number(void **state)
{
    static const char name[] = "model.layers.1.block_sparse_moe.experts.2.w3.weight";
    const struct workplace *place = *state;
    struct opened_model opened;
    struct mt_train_selection selection = {.quantise = quantise_as("mxfp4")};
    const uint16_t nan = 0x7FC0;
    assert_int_equal(opened_model_make(place, &mt_arch_mixtral, MT_HF_BFLOAT16, &opened), 0);
    const struct mt_safetensors *file = &opened.checkpoint.shards[0];
    const struct mt_safetensors_tensor *stored = mt_checkpoint_find(&opened.checkpoint, name);
    FILE *out = fopen(file->path, "r+b");
    assert_non_null(stored);
    assert_non_null(out);
    long offset = (long)((const char *)stored->data - (const char *)file->mapping.data);
    assert_int_equal(fseek(out, offset + 10, SEEK_SET), 0);
    assert_int_equal(fwrite(&nan, sizeof nan, 1, out), 1);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(opened_model_load(&opened, &selection), MT_ERR_NUMERIC);
    assert_non_null(strstr(opened.ctx.message, name));
    assert_non_null(strstr(opened.ctx.message, "not finite"));
    assert_int_equal(opened_model_close(place, &opened), 0);
}

static void words(void **state)
{
    (void)state;
    static const char *const good[] = {"nf4,routed_experts", "nf4,single,attention,routed_experts", "none",
                                       "mxfp4,shared_experts,dense_mlp"};
    static const char *const bad[] = {"",          "nf5",         "fp8,single",    "nf4,router",
                                      "nf4,norms", "nf4,experts", "fp8,embedding", "int8,lm_head"};
    struct mt_context ctx;
    struct mt_quantise_options options;
    char text[MT_QUANTISE_TEXT_BYTES];
    mt_context_init(&ctx, NULL);
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(mt_quantise_parse(&ctx, good[i], &options), MT_OK);
        assert_string_equal(mt_quantise_text(&options, text), good[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(mt_quantise_parse(&ctx, bad[i], &options), MT_ERR_USAGE);
    assert_int_equal(mt_quantise_parse(&ctx, "nf4", &options), MT_OK);
    assert_string_equal(mt_quantise_text(&options, text), "nf4,routed_experts");
    assert_true(options.nested && !options.cache);
    assert_int_equal(mt_quantise_parse(&ctx, "fp8,cache,attention", &options), MT_OK);
    assert_true(options.cache);
    assert_string_equal(mt_quantise_text(&options, text), "fp8,attention"); // which says of what numbers
    assert_string_equal(mt_quantise_strip_cache("fp8,cache,attention,cache", text), "fp8,attention");
    assert_int_equal(mt_quantise_refuse_cache(&ctx, &options), MT_ERR_USAGE);
    assert_int_equal(mt_quantise_parse(&ctx, "none,cache", &options), MT_OK);
    assert_int_equal(mt_quantise_refuse_cache(&ctx, &options), MT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(formats, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(architectures, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(finite_differences, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(memory, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(out_of_memory, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(refusals, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(not_a_number, workplace_open, workplace_close),
        cmocka_unit_test(words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
