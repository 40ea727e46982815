/*
 * Quantised folders as they are published: what is written is read, to the bit; and every way in which the
 * parts of a weight may not fit each other is a sentence.
 */
#include "arch/published/published.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/published/stacks.h"
#include "formats/safetensors/checkpoint_writer.h"
#include "model/files/merge.h"
#include "model/params/params.h"
#include "support/cmocka_all.h"
#include "support/published_folder.h"
#include "support/small_models.h"

static const struct published_folder formats[] = {
    {.format = MT_QUANTISED_FP8},
    {.format = MT_QUANTISED_NF4},
    {.format = MT_QUANTISED_NF4, .nested = true},
    {.format = MT_QUANTISED_NF4, .nested = true, .experts = true},
    {.format = MT_QUANTISED_MXFP4},
};
#define FORMATS (sizeof formats / sizeof formats[0])

/* A folder, opened. */
struct opened {
    struct mt_context ctx;
    struct mt_hf_config config;
    struct mt_model_desc desc;
    struct mt_checkpoint checkpoint;
};

static void open_folder(const char *directory, struct opened *opened)
{
    mt_context_init(&opened->ctx, NULL);
    enum mt_status status = mt_hf_config_read_folder(&opened->ctx, directory, &opened->config);
    if (status == MT_OK) status = mt_model_describe(&opened->ctx, &opened->config, &opened->desc);
    if (status == MT_OK)
        status = mt_stacks_open(&opened->ctx, directory, &opened->config, &opened->checkpoint);
    if (status != MT_OK) fail_msg("%s", opened->ctx.message);
}

static void close_folder(struct opened *opened)
{
    mt_checkpoint_close(&opened->checkpoint);
    mt_hf_config_free(&opened->config);
    assert_int_equal(opened->ctx.live_bytes, 0);
}

// ------------------------------------------------------------------ what is written is read

/* A matrix of the quantised folder stands for what quantising the other folder's gives. */
static void compare_matrix(struct opened *plain, const struct mt_model_tensor *tensor,
                           const struct mt_quantised *matrix)
{
    const struct mt_safetensors_tensor *stored = mt_checkpoint_find(&plain->checkpoint, tensor->name);
    int64_t count = mt_model_tensor_count(tensor);
    struct mt_tensor *tensors[MT_QUANTISED_TENSORS];
    struct mt_quantised made = mt_quantised_shape(matrix->format, mt_tensor_present(&matrix->nested_scales),
                                                  tensor->dim[0], tensor->dim[1]);
    float *got = malloc((size_t)count * sizeof *got);
    float *want = malloc((size_t)count * sizeof *want);
    void *values = malloc((size_t)stored->bytes);
    assert_true(got != NULL && want != NULL && values != NULL);
    mt_safetensors_read(stored, 0, count, values);
    mt_quantised_each(&made, tensors);
    for (int i = 0; i < MT_QUANTISED_TENSORS; i++) {
        if (!mt_tensor_present(tensors[i])) continue;
        tensors[i]->data = malloc((size_t)mt_tensor_count(tensors[i]) * mt_dtype_bytes(tensors[i]->dtype));
        assert_non_null(tensors[i]->data);
    }
    if (mt_tensor_present(&made.nested_map)) mt_nf4_nested_map(made.nested_map.data);
    assert_true(mt_quantise(mt_params_stored_type(stored), values, &made));
    mt_dequantise(matrix, MT_F32, got);
    mt_dequantise(&made, MT_F32, want);
    assert_memory_equal(got, want, (size_t)count * sizeof *got);
    for (int i = 0; i < MT_QUANTISED_TENSORS; i++) {
        if (mt_tensor_present(tensors[i])) free(tensors[i]->data);
    }
    free(values);
    free(want);
    free(got);
}

static void written_is_read(void **state)
{
    const struct workplace *place = *state;
    char out[128];
    (void)workplace_path(place, "out", out, sizeof out);
    for (size_t at = 0; at < MT_ARCH_COUNT; at++) {
        for (size_t f = 0; f < FORMATS; f++) {
            struct opened plain;
            struct opened coded;
            struct mt_model_tensor tensor;
            size_t found = 0;
            enum mt_hf_float dtype = f % 2 == 0 ? MT_HF_BFLOAT16 : MT_HF_FLOAT32;
            assert_int_equal(small_model_make(place, small_model_config(mt_archs[at]), dtype, 5), 0);
            open_folder(place->directory, &plain);
            assert_int_equal(published_folder_make(&plain.ctx, place->directory, out, &formats[f]), 0);
            open_folder(out, &coded);
            if (mt_params_check(&coded.ctx, &coded.desc, &coded.checkpoint) != MT_OK)
                fail_msg("%s", coded.ctx.message);
            struct mt_model_tensors walk = mt_model_tensors_begin(&coded.config);
            while (mt_model_tensors_next(&walk, &tensor)) {
                struct mt_published published;
                struct mt_published_matrix matrix;
                assert_int_equal(mt_published_find(&coded.config, &coded.checkpoint, &tensor, &published),
                                 MT_OK);
                if (!published.quantised) continue;
                found++;
                if (mt_published_matrix_open(&coded.ctx, &published, &matrix) != MT_OK)
                    fail_msg("%s: %s", tensor.name, coded.ctx.message);
                compare_matrix(&plain, &tensor, &matrix.matrix);
                mt_published_matrix_close(&coded.ctx, &matrix);
            }
            assert_true(found >= (size_t)(3 * coded.config.experts));
            close_folder(&coded);
            close_folder(&plain);
            workplace_remove_folder(place, "out");
            workplace_clear(place);
        }
    }
}

// ------------------------------------------------------------------ parts that do not fit

enum action {
    DROP,   // the tensor is not there
    SHAPE,  // its first dimension is another, with as many bytes as that makes
    RANK,   // the same bytes, in one dimension more
    DTYPE,  // another type of the same size, or its bytes halved
    NUMBER, // its first f32 is another
    TEXT,   // a piece of its text is another, of the same length
};

struct mutation {
    size_t format;
    const char *ending; // of the name of the tensor that is changed: the first of that ending
    enum action action;
    const char *said;
    int64_t size; // SHAPE
    enum mt_safetensors_dtype dtype;
    float number;
    const char *what, *with; // TEXT
};

static bool ends_with(const char *text, const char *ending)
{
    size_t length = strlen(text);
    size_t wanted = strlen(ending);
    return length >= wanted && strcmp(text + length - wanted, ending) == 0;
}

static void replace_text(uint8_t *data, size_t bytes, const char *what, const char *with)
{
    size_t length = strlen(what);
    assert_int_equal(length, strlen(with));
    for (size_t i = 0; i + length <= bytes; i++) {
        if (memcmp(data + i, what, length) != 0) continue;
        memcpy(data + i, with, length);
        return;
    }
    fail_msg("there is no %s", what);
}

/* The specs of a folder with one of them changed; the place of the changed one. */
static size_t change_specs(const struct mt_checkpoint *source, const struct mutation *mutation,
                           struct mt_safetensors_spec *specs)
{
    size_t changed = SIZE_MAX;
    for (size_t i = 0; i < source->tensor_count; i++) {
        const struct mt_safetensors_tensor *info = source->tensors[i].info;
        specs[i] = (struct mt_safetensors_spec){.name = info->name, .dtype = info->dtype, .rank = info->rank};
        memcpy(specs[i].dim, info->dim, sizeof info->dim);
        if (changed == SIZE_MAX && ends_with(info->name, mutation->ending)) changed = i;
    }
    assert_true(changed != SIZE_MAX);
    struct mt_safetensors_spec *spec = &specs[changed];
    if (mutation->action == SHAPE) spec->dim[0] = mutation->size;
    if (mutation->action == RANK) spec->dim[spec->rank++] = 1;
    if (mutation->action == DTYPE) spec->dtype = mutation->dtype;
    return changed;
}

static uint64_t bytes_of(const struct mt_safetensors_spec *spec)
{
    uint64_t bytes = mt_safetensors_dtype_bytes(spec->dtype);
    for (int i = 0; i < spec->rank; i++) bytes *= (uint64_t)spec->dim[i];
    return bytes;
}

/* Writes the folder's checkpoint again at `to`, changed. */
static void write_changed(const struct opened *source, const struct mutation *mutation, const char *to)
{
    static struct mt_safetensors_spec specs[8192];
    struct mt_checkpoint_writer writer;
    struct mt_context ctx;
    size_t count = source->checkpoint.tensor_count;
    assert_true(count < sizeof specs / sizeof specs[0]);
    size_t changed = change_specs(&source->checkpoint, mutation, specs);
    mt_context_init(&ctx, NULL);
    if (mutation->action == DROP)
        memmove(&specs[changed], &specs[changed + 1], (count - changed - 1) * sizeof *specs);
    assert_int_equal(mt_checkpoint_writer_open(&ctx, to, specs, mutation->action == DROP ? count - 1 : count,
                                               MT_CHECKPOINT_SHARD_BYTES, &writer),
                     MT_OK);
    for (size_t i = 0; i < count; i++) {
        const struct mt_safetensors_tensor *info = source->checkpoint.tensors[i].info;
        if (i == changed && mutation->action == DROP) continue;
        size_t bytes = i == changed ? (size_t)bytes_of(&specs[i]) : (size_t)info->bytes;
        uint8_t *data = calloc(1, bytes + info->bytes);
        assert_non_null(data);
        memcpy(data, info->data, (size_t)info->bytes);
        if (i == changed && mutation->action == NUMBER) memcpy(data, &mutation->number, sizeof(float));
        if (i == changed && mutation->action == TEXT)
            replace_text(data, bytes, mutation->what, mutation->with);
        assert_int_equal(mt_checkpoint_writer_write(&writer, data, bytes), MT_OK);
        free(data);
    }
    assert_int_equal(mt_checkpoint_writer_finish(&writer), MT_OK);
}

#define FP8    0
#define NF4    1
#define NESTED 2
#define MXFP4  4
#define STATE  ".quant_state.bitsandbytes__nf4"

static const struct mutation mutations[] = {
    {FP8, "_proj.weight_scale_inv", DROP, "is F8_E4M3, but there is no", .size = 0},
    {FP8, "_proj.weight_scale_inv", SHAPE, "its weight_scale_inv is F32 [2, 1], expected F32, BF16",
     .size = 2},
    {FP8, "_proj.weight_scale_inv", RANK, "its weight_scale_inv is F32 [1, 1, 1], expected", .size = 0},
    {FP8, "_proj.weight_scale_inv", DTYPE, "its weight_scale_inv is I32", .dtype = MT_SAFETENSORS_I32},
    {FP8, "k_proj.weight", SHAPE, "is F8_E4M3 [3, ", .size = 3},
    {FP8, "k_proj.weight", RANK, "is F8_E4M3 [", .size = 0},
    {FP8, "k_proj.weight", DTYPE, "is U8, expected F8_E4M3 for weights with a weight_scale_inv",
     .dtype = MT_SAFETENSORS_U8},
    {FP8, "k_proj.weight", DROP, "k_proj.weight", .size = 0},
    {NF4, "k_proj.weight", SHAPE, "is U8 [7, 1], expected U8 [", .size = 7},
    {NF4, "k_proj.weight", DTYPE, "is I8, expected U8 for weights with an absmax",
     .dtype = MT_SAFETENSORS_I8},
    {NF4, "k_proj.weight" STATE, DROP, "is U8, but there is no", .size = 0},
    {NF4, "k_proj.weight" STATE, RANK, "its quant_state is U8 [", .size = 0},
    {NF4, "k_proj.weight" STATE, SHAPE, "its quant_state: not valid JSON", .size = 40},
    {NF4, "k_proj.weight" STATE, SHAPE, "its quant_state", .size = 0},
    {NF4, "k_proj.weight" STATE, SHAPE, "its quant_state", .size = 100000},
    {NF4, "k_proj.weight.absmax", DROP, "has no model.layers.0.self_attn.k_proj.weight.absmax", .size = 0},
    {NF4, "k_proj.weight.absmax", SHAPE, "its absmax is F32 [2], expected F32 [", .size = 2},
    {NF4, "k_proj.weight.absmax", DTYPE, "its absmax is I32", .dtype = MT_SAFETENSORS_I32},
    {NF4, "k_proj.weight.quant_map", DROP, "has no model.layers.0.self_attn.k_proj.weight.quant_map",
     .size = 0},
    {NF4, "k_proj.weight.quant_map", SHAPE, "its quant_map is F32 [15], expected F32 [16]", .size = 15},
    {NF4, "k_proj.weight.quant_map", NUMBER, "its quant_map has -0.9 for code 0, nf4 has -1",
     .number = -0.9f},
    {NF4, "k_proj.weight.quant_map", NUMBER, "its quant_map has nan for code 0", .number = NAN},
    {NF4, STATE, TEXT, "blocksize is 32, expected 64", .what = "\"blocksize\": 64",
     .with = "\"blocksize\": 32"},
    {NF4, STATE, TEXT, "blocksize is missing", .what = "\"blocksize\"", .with = "\"blockside\""},
    {NF4, STATE, TEXT, "quant_type is \"fp4\", expected nf4", .what = "\"nf4\"", .with = "\"fp4\""},
    {NF4, STATE, TEXT, "dtype is \"float33\", expected", .what = "\"float32\"", .with = "\"float33\""},
    {NF4, STATE, TEXT, "shape does not say [", .what = "\"shape\": [", .with = "\"shape\":[1"},
    {NF4, STATE, TEXT, "shape is missing", .what = "\"shape\"", .with = "\"shapa\""},
    {NF4, STATE, TEXT, "its quant_state", .what = "{\"quant_type", .with = "[\"quant_type"},
    {NESTED, "k_proj.weight.nested_absmax", DROP, "has no", .size = 0},
    {NESTED, "k_proj.weight.nested_quant_map", DROP, "but its quant_state says that its scales are nested",
     .size = 0},
    {NESTED, "k_proj.weight.nested_absmax", SHAPE, "its nested_absmax is F32 [3], expected F32 [1]",
     .size = 3},
    {NESTED, "k_proj.weight.nested_quant_map", SHAPE, "its nested_quant_map is F32 [255]", .size = 255},
    {NESTED, "k_proj.weight.absmax", DTYPE, "its absmax is I8", .dtype = MT_SAFETENSORS_I8},
    {NESTED, STATE, TEXT, "nested_blocksize is 255, expected 256", .what = "blocksize\": 256",
     .with = "blocksize\": 255"},
    {NESTED, STATE, TEXT, "says that its scales are not nested", .what = "nested_blocksize",
     .with = "nasted_blocksize"},
    {NESTED, STATE, TEXT, "nested_offset is missing", .what = "nested_offset", .with = "nested_offsat"},
    {MXFP4, "k_proj.weight_scales", DROP, "has blocks, but there is no", .size = 0},
    {MXFP4, "k_proj.weight_blocks", DROP, "missing: model.layers.0.self_attn.k_proj.weight", .size = 0},
    {MXFP4, "k_proj.weight_blocks", SHAPE, "its blocks is U8 [3, ", .size = 3},
    {MXFP4, "k_proj.weight_blocks", RANK, "its blocks is U8 [", .size = 0},
    {MXFP4, "k_proj.weight_scales", SHAPE, "its scales is U8 [3, ", .size = 3},
    {MXFP4, "k_proj.weight_scales", DTYPE, "its scales is I8", .dtype = MT_SAFETENSORS_I8},
};

/* A quantised model of one architecture in "coded"; its config in "out", too, for other weights. */
static void make_coded(const struct workplace *place, size_t format, const char *coded, const char *out)
{
    struct mt_context ctx;
    char command[512];
    mt_context_init(&ctx, NULL);
    assert_int_equal(small_model_make(place, small_model_config(&mt_arch_qwen3_moe), MT_HF_FLOAT32, 5), 0);
    assert_int_equal(published_folder_make(&ctx, place->directory, coded, &formats[format]), 0);
    (void)snprintf(command, sizeof command, "mkdir %s && cp %s/config.json %s", out, coded, out);
    assert_int_equal(system(command), 0); // NOLINT(cert-env33-c): the command is ours
    assert_int_equal(ctx.live_bytes, 0);
}

static void unmake_coded(const struct workplace *place)
{
    workplace_remove_folder(place, "coded");
    workplace_remove_folder(place, "out");
    workplace_clear(place);
}

static void parts_that_do_not_fit(void **state)
{
    const struct workplace *place = *state;
    char coded[128];
    char out[128];
    (void)workplace_path(place, "coded", coded, sizeof coded);
    (void)workplace_path(place, "out", out, sizeof out);
    for (size_t i = 0; i < sizeof mutations / sizeof mutations[0]; i++) {
        const struct mutation *mutation = &mutations[i];
        struct opened source;
        struct opened changed;
        make_coded(place, mutation->format, coded, out);
        open_folder(coded, &source);
        write_changed(&source, mutation, out);
        open_folder(out, &changed);
        enum mt_status status = mt_params_check(&changed.ctx, &changed.desc, &changed.checkpoint);
        if (status == MT_OK || strstr(changed.ctx.message, mutation->said) == NULL) {
            fail_msg("%s of %zu: '%s', expected '%s'", mutation->ending, i,
                     status == MT_OK ? "accepted" : changed.ctx.message, mutation->said);
        }
        close_folder(&changed);
        close_folder(&source);
        unmake_coded(place);
    }
}

// ------------------------------------------------------------------ scales that are none

static const struct mutation numbers[] = {
    {FP8, "k_proj.weight_scale_inv", NUMBER, "scale 0 is nan, expected a finite number >= 0", .number = NAN},
    {FP8, "k_proj.weight_scale_inv", NUMBER, "scale 0 is inf", .number = INFINITY},
    {FP8, "k_proj.weight_scale_inv", NUMBER, "scale 0 is -0.5", .number = -0.5f},
    {NF4, "k_proj.weight.absmax", NUMBER, "scale 0 is nan", .number = NAN},
    {NF4, "k_proj.weight.absmax", NUMBER, "scale 0 is -inf", .number = -INFINITY},
    {NF4, "k_proj.weight.absmax", NUMBER, "scale 0 is -1", .number = -1.0f},
    {NESTED, "k_proj.weight.nested_absmax", NUMBER, "nested_absmax 0 is nan", .number = NAN},
    {NESTED, "k_proj.weight.nested_absmax", NUMBER, "nested_absmax 0 is -2", .number = -2.0f},
    {NESTED, "k_proj.weight.nested_quant_map", NUMBER, "nested_quant_map has nan", .number = NAN},
    {NESTED, "k_proj.weight.nested_quant_map", NUMBER, "nested_quant_map has 7", .number = 7.0f},
    {MXFP4, "k_proj.weight_scales", NUMBER, "scale 0 is nan", .number = NAN}, // its first byte is set below
};

static void scales_that_are_none(void **state)
{
    const struct workplace *place = *state;
    char coded[128];
    char out[128];
    (void)workplace_path(place, "coded", coded, sizeof coded);
    (void)workplace_path(place, "out", out, sizeof out);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct mutation mutation = numbers[i];
        struct opened source;
        struct opened changed;
        const uint32_t all_ones = UINT32_MAX; // E8M0's 255 is not a number
        if (mutation.format == MXFP4) memcpy(&mutation.number, &all_ones, sizeof all_ones);
        make_coded(place, mutation.format, coded, out);
        open_folder(coded, &source);
        write_changed(&source, &mutation, out);
        open_folder(out, &changed);
        struct mt_device *device = NULL;
        struct mt_params params;
        assert_int_equal(mt_device_create(&changed.ctx, "cpu", 1, &device), MT_OK);
        enum mt_status status = mt_params_load(device, &changed.desc, &changed.checkpoint, NULL, &params);
        if (status == MT_OK || strstr(changed.ctx.message, mutation.said) == NULL ||
            strstr(changed.ctx.message, "model.layers.0.self_attn.k_proj.weight") == NULL) {
            fail_msg("%s of %zu: '%s', expected '%s'", mutation.ending, i,
                     status == MT_OK ? "accepted" : changed.ctx.message, mutation.said);
        }
        mt_device_destroy(device);
        close_folder(&changed);
        close_folder(&source);
        unmake_coded(place);
    }
}

// ------------------------------------------------------------------ a layer's experts

/* Loads a folder; the message of a refusal, or "". */
static void load(const char *directory, char *said, size_t bytes)
{
    struct opened opened;
    struct mt_device *device = NULL;
    struct mt_params params;
    open_folder(directory, &opened);
    assert_int_equal(mt_device_create(&opened.ctx, "cpu", 1, &device), MT_OK);
    enum mt_status status = mt_params_load(device, &opened.desc, &opened.checkpoint, NULL, &params);
    (void)snprintf(said, bytes, "%s", status == MT_OK ? "" : opened.ctx.message);
    if (status == MT_OK) mt_params_free(&params);
    mt_device_destroy(device);
    close_folder(&opened);
}

/* One tensor of a file that is put together here. */
struct piece {
    struct mt_safetensors_spec spec;
    uint8_t *data;
};

static void add_piece(struct piece *pieces, size_t *count, const struct mt_safetensors_spec *spec,
                      const void *data)
{
    size_t bytes = (size_t)bytes_of(spec);
    pieces[*count] = (struct piece){.spec = *spec, .data = malloc(bytes)};
    assert_non_null(pieces[*count].data);
    memcpy(pieces[*count].data, data, bytes);
    *count += 1;
}

static void write_pieces(struct piece *pieces, size_t count, const char *to)
{
    static struct mt_safetensors_spec specs[1024];
    struct mt_checkpoint_writer writer;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    assert_true(count <= sizeof specs / sizeof specs[0]);
    for (size_t i = 0; i < count; i++) specs[i] = pieces[i].spec;
    assert_int_equal(mt_checkpoint_writer_open(&ctx, to, specs, count, MT_CHECKPOINT_SHARD_BYTES, &writer),
                     MT_OK);
    for (size_t i = 0; i < count; i++) {
        size_t bytes = (size_t)bytes_of(&specs[i]);
        assert_int_equal(mt_checkpoint_writer_write(&writer, pieces[i].data, bytes), MT_OK);
        free(pieces[i].data);
    }
    assert_int_equal(mt_checkpoint_writer_finish(&writer), MT_OK);
}

static struct mt_safetensors_spec spec_of(const struct mt_safetensors_tensor *info)
{
    struct mt_safetensors_spec spec = {.name = info->name, .dtype = info->dtype, .rank = info->rank};
    memcpy(spec.dim, info->dim, sizeof info->dim);
    return spec;
}

/* Some experts in floats, the others in codes. */
static void experts_unlike_each_other(void **state)
{
    static struct piece pieces[1024];
    static const char odd[] = "model.layers.0.mlp.experts.1.up_proj.weight";
    const struct workplace *place = *state;
    struct opened source;
    struct opened plain;
    char coded[128];
    char out[128];
    char said[MT_MESSAGE_BYTES];
    size_t count = 0;
    (void)workplace_path(place, "coded", coded, sizeof coded);
    (void)workplace_path(place, "out", out, sizeof out);
    make_coded(place, NF4, coded, out);
    open_folder(coded, &source);
    open_folder(place->directory, &plain);
    for (size_t i = 0; i < source.checkpoint.tensor_count; i++) {
        const struct mt_safetensors_tensor *info = source.checkpoint.tensors[i].info;
        if (strncmp(info->name, odd, sizeof odd - 1) == 0 && info->name[sizeof odd - 1] != '\0') continue;
        if (strcmp(info->name, odd) == 0) info = mt_checkpoint_find(&plain.checkpoint, odd);
        struct mt_safetensors_spec spec = spec_of(info);
        add_piece(pieces, &count, &spec, info->data);
    }
    write_pieces(pieces, count, out);
    load(out, said, sizeof said);
    if (strstr(said, "experts.1.up_proj.weight is in floats and the expert before it in codes") == NULL)
        fail_msg("'%s'", said);
    close_folder(&plain);
    close_folder(&source);
    unmake_coded(place);
}

/* Blocks or scales of a layer's experts, of one matrix after the other: [n, 2 I, ...] or [n, d, ...]. */
static void put_together(const struct mt_checkpoint *source, int64_t experts, bool down, const char *ending,
                         char name[128], struct piece *pieces, size_t *count)
{
    static const char *const projections[] = {"gate_proj", "up_proj"};
    uint8_t *data = NULL;
    size_t used = 0;
    struct mt_safetensors_spec spec = {0};
    for (int64_t e = 0; e < experts; e++) {
        for (int p = 0; p < (down ? 1 : 2); p++) {
            char each[192];
            (void)snprintf(each, sizeof each, "model.layers.0.mlp.experts.%lld.%s.weight_%s", (long long)e,
                           down ? "down_proj" : projections[p], ending);
            const struct mt_safetensors_tensor *info = mt_checkpoint_find(source, each);
            assert_non_null(info);
            spec = spec_of(info);
            uint8_t *longer = realloc(data, used + info->bytes);
            assert_non_null(longer);
            data = longer;
            memcpy(data + used, info->data, (size_t)info->bytes);
            used += (size_t)info->bytes;
        }
    }
    memmove(spec.dim + 1, spec.dim, (size_t)spec.rank * sizeof *spec.dim);
    spec.dim[0] = experts;
    spec.dim[1] *= down ? 1 : 2;
    spec.rank++;
    (void)snprintf(name, 128, "model.layers.0.mlp.experts.%s_%s", down ? "down_proj" : "gate_up_proj",
                   ending);
    spec.name = name;
    add_piece(pieces, count, &spec, data);
    free(data);
}

/* With fewer experts both are the same folder, matrix by matrix. */
static void expect_pruned_alike(const struct workplace *place, const char *one, const char *other,
                                const struct mt_hf_config *config)
{
    static const int32_t stay[] = {1, 2, 4, 6};
    const int32_t *layers[16] = {NULL};
    const struct mt_kept kept = {.keep = 4, .experts = (int)config->experts, .expert = layers, .share = NAN};
    struct opened pruned[2];
    char path[2][128];
    assert_true(config->layers <= 16);
    for (int64_t i = 0; i < config->layers; i++)
        layers[i] = mt_hf_config_layer_is_moe(config, i) ? stay : NULL;
    for (int i = 0; i < 2; i++) {
        struct mt_context ctx;
        const struct mt_merge_options options = {
            .directory = i == 0 ? one : other,
            .kept = &kept,
            .out = workplace_path(place, i == 0 ? "pruned-one" : "pruned-other", path[i], sizeof path[i]),
        };
        mt_context_init(&ctx, NULL);
        if (mt_merge(&ctx, &options, NULL) != MT_OK) fail_msg("%s", ctx.message);
        open_folder(path[i], &pruned[i]);
    }
    assert_int_equal(pruned[0].checkpoint.tensor_count, pruned[1].checkpoint.tensor_count);
    for (size_t i = 0; i < pruned[0].checkpoint.tensor_count; i++) {
        const struct mt_safetensors_tensor *a = pruned[0].checkpoint.tensors[i].info;
        const struct mt_safetensors_tensor *b = pruned[1].checkpoint.tensors[i].info;
        assert_string_equal(a->name, b->name);
        assert_int_equal(a->bytes, b->bytes);
        assert_memory_equal(a->data, b->data, (size_t)a->bytes);
    }
    close_folder(&pruned[0]);
    close_folder(&pruned[1]);
    workplace_remove_folder(place, "pruned-one");
    workplace_remove_folder(place, "pruned-other");
}

/* As gpt-oss has them: the same numbers as matrix by matrix. */
static void experts_together(void **state)
{
    static struct piece pieces[1024];
    static const char inside[] = "model.layers.0.mlp.experts.";
    const struct workplace *place = *state;
    struct opened source;
    struct opened changed;
    struct mt_model_tensor tensor;
    char names[4][128];
    char coded[128];
    char out[128];
    char said[MT_MESSAGE_BYTES];
    size_t count = 0;
    size_t compared = 0;
    (void)workplace_path(place, "coded", coded, sizeof coded);
    (void)workplace_path(place, "out", out, sizeof out);
    make_coded(place, MXFP4, coded, out);
    open_folder(coded, &source);
    for (size_t i = 0; i < source.checkpoint.tensor_count; i++) {
        const struct mt_safetensors_tensor *info = source.checkpoint.tensors[i].info;
        struct mt_safetensors_spec spec = spec_of(info);
        if (strncmp(info->name, inside, sizeof inside - 1) != 0) add_piece(pieces, &count, &spec, info->data);
    }
    for (int i = 0; i < 4; i++)
        put_together(&source.checkpoint, source.config.experts, i % 2 == 1, i < 2 ? "blocks" : "scales",
                     names[i], pieces, &count);
    write_pieces(pieces, count, out);
    open_folder(out, &changed);
    struct mt_model_tensors walk = mt_model_tensors_begin(&changed.config);
    while (mt_model_tensors_next(&walk, &tensor)) {
        struct mt_published one;
        struct mt_published other;
        assert_int_equal(mt_published_find(&source.config, &source.checkpoint, &tensor, &one), MT_OK);
        if (mt_published_find(&changed.config, &changed.checkpoint, &tensor, &other) != MT_OK)
            fail_msg("%s %s", tensor.name, changed.ctx.message);
        if (!one.quantised || tensor.expert < 0 || tensor.layer > 0) continue;
        assert_memory_equal(one.matrix.codes.data, other.matrix.codes.data,
                            (size_t)mt_tensor_count(&one.matrix.codes));
        assert_memory_equal(one.matrix.scales.data, other.matrix.scales.data,
                            (size_t)mt_tensor_count(&one.matrix.scales));
        compared++;
    }
    assert_int_equal(compared, 3 * source.config.experts);
    load(out, said, sizeof said);
    assert_string_equal(said, "");
    expect_pruned_alike(place, coded, out, &source.config);
    close_folder(&changed);
    close_folder(&source);
    unmake_coded(place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(written_is_read, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(parts_that_do_not_fit, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(scales_that_are_none, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(experts_unlike_each_other, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(experts_together, workplace_open, workplace_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
