/*
 * Codes kept beside the model: the same bits whether they are made in memory, made into the file or read from
 * it; a file that is broken, or was made of something else, is made again; where it cannot be made, the model
 * is loaded all the same.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/file.h"
#include "base/files/folder_lock.h"
#include "model/model.h"
#include "support/cmocka_all.h"
#include "support/failing_allocator.h"
#include "support/opened_model.h"

#define FOLDER "quantised"
#define NF4    FOLDER "/nf4-routed_experts.safetensors"

/* A model, a way to store it, and what is said of that. */
struct bench {
    const struct workplace *place;
    struct opened_model opened;
    struct mt_train_selection selection;
    struct mt_log log;
    char *said;
    size_t said_bytes;
};

static void choose(struct bench *bench, const char *how)
{
    assert_int_equal(mt_quantise_parse(&bench->opened.ctx, how, &bench->selection.quantise), MT_OK);
}

static void begin_log(struct bench *bench)
{
    mt_log_init(&bench->log, open_memstream(&bench->said, &bench->said_bytes), MT_LOG_INFO);
}

static void open_bench(struct bench *bench, const struct workplace *place, const struct mt_arch *arch)
{
    *bench = (struct bench){.place = place};
    assert_int_equal(opened_model_make(place, arch, MT_HF_BFLOAT16, &bench->opened), 0);
    begin_log(bench);
    bench->selection.folder = place->directory;
    bench->selection.log = &bench->log;
}

static void close_bench(struct bench *bench)
{
    workplace_remove_folder(bench->place, FOLDER);
    assert_int_equal(opened_model_close(bench->place, &bench->opened), 0);
    (void)fclose(bench->log.stream);
    free(bench->said);
}

/* Loads; true: from the file. */
static bool load(struct bench *bench)
{
    assert_int_equal(opened_model_load(&bench->opened, &bench->selection), MT_OK);
    return bench->opened.params.kept.tensor_count > 0;
}

/* What was said since the last time holds this text; "": nothing was. */
static void expect_said(struct bench *bench, const char *text)
{
    (void)fclose(bench->log.stream);
    if (text[0] == '\0')
        assert_string_equal(bench->said, "");
    else
        assert_non_null(strstr(bench->said, text));
    free(bench->said);
    begin_log(bench);
}

// ------------------------------------------------------------------ bits

static void append_matrix(const struct mt_quantised *matrix, FILE *out)
{
    struct mt_quantised copy = *matrix;
    struct mt_tensor *parts[MT_QUANTISED_TENSORS];
    mt_quantised_each(&copy, parts);
    for (int i = 0; i < MT_QUANTISED_TENSORS; i++) {
        size_t bytes = (size_t)mt_tensor_count(parts[i]) * mt_dtype_bytes(parts[i]->dtype);
        if (mt_tensor_present(parts[i])) assert_int_equal(fwrite(parts[i]->data, 1, bytes, out), bytes);
    }
}

/* Codes, scales and maps of every matrix of a loaded model, one after the other; the caller frees. */
static char *bits_of(struct bench *bench, size_t *bytes)
{
    char *bits = NULL;
    FILE *out = open_memstream(&bits, bytes);
    struct mt_params *params = &bench->opened.params;
    for (int64_t i = 0; i < params->layers; i++) {
        struct mt_layer_params *layer = &params->layer[i];
        struct mt_linear *linears[MT_LAYER_LINEARS];
        mt_layer_linears(layer, linears);
        for (int l = 0; l < MT_LAYER_LINEARS; l++) {
            const struct mt_weight *weight = &linears[l]->weight;
            for (int e = 0; weight->quantised != NULL && e < weight->count; e++)
                append_matrix(&weight->quantised[e], out);
        }
    }
    assert_int_equal(fclose(out), 0);
    assert_true(*bytes > 0);
    return bits;
}

static void expect_bits(struct bench *bench, const char *expected, size_t expected_bytes)
{
    size_t bytes = 0;
    char *bits = bits_of(bench, &bytes);
    assert_int_equal(bytes, expected_bytes);
    assert_memory_equal(bits, expected, bytes);
    free(bits);
}

static void same_bits(void **state)
{
    static const char *const ways[] = {"fp8", "int8", "nf4,routed_experts,attention,shared_experts,dense_mlp",
                                       "mxfp4", "nf4,single"};
    static const struct mt_arch *const archs[] = {&mt_arch_deepseek_v2, &mt_arch_qwen2_moe};
    const struct workplace *place = *state;
    for (size_t i = 0; i < 2 * sizeof ways / sizeof ways[0]; i++) {
        struct bench bench;
        size_t bytes = 0;
        bool shared_and_dense = archs[i % 2] == &mt_arch_deepseek_v2;
        open_bench(&bench, place, archs[i % 2]);
        choose(&bench, i / 2 == 2 && !shared_and_dense ? "nf4,routed_experts,attention" : ways[i / 2]);
        assert_false(load(&bench));
        char *bits = bits_of(&bench, &bytes);
        size_t codes = bench.opened.params.codes.bytes;
        size_t mapped = bench.opened.params.mapped;
        bench.selection.quantise.cache = true;
        for (int round = 0; round < 2; round++) { // made, then read
            assert_true(load(&bench));
            expect_bits(&bench, bits, bytes);
            assert_true(bench.opened.params.codes.bytes <= MT_NF4_NESTED_CODES * sizeof(float));
            assert_true(bench.opened.params.mapped > mapped && bench.opened.params.mapped <= mapped + codes);
        }
        expect_said(&bench, "");
        free(bits);
        close_bench(&bench);
    }
}

// ------------------------------------------------------------------ the file

static struct stat status_of(const struct workplace *place, const char *name)
{
    char path[128];
    struct stat found = {0};
    assert_int_equal(stat(workplace_path(place, name, path, sizeof path), &found), 0);
    return found;
}

/* It is written once, and again only when asked for weights that are others. */
static void stale(void **state)
{
    const struct workplace *place = *state;
    struct bench bench;
    char path[128];
    open_bench(&bench, place, &mt_arch_mixtral);
    choose(&bench, "nf4,cache");
    assert_true(load(&bench));
    ino_t first = status_of(place, NF4).st_ino;
    assert_true(load(&bench));
    assert_int_equal(status_of(place, NF4).st_ino, first);
    expect_said(&bench, "");

    // The times of the weights alone: samples may have missed a change.
    struct stat weights = status_of(place, MT_CHECKPOINT_SINGLE);
    const struct timespec before[2] = {weights.st_atim, weights.st_mtim};
    const struct timespec after[2] = {weights.st_atim, {weights.st_mtim.tv_sec, 1}};
    (void)workplace_path(place, MT_CHECKPOINT_SINGLE, path, sizeof path);
    assert_int_equal(utimensat(AT_FDCWD, path, after, 0), 0);
    assert_true(load(&bench));
    expect_said(&bench, "the weights have changed since it was made; it is made again");

    // One number, the times as they were.
    assert_int_equal(utimensat(AT_FDCWD, path, before, 0), 0);
    assert_true(load(&bench));
    expect_said(&bench, "made again");
    FILE *out = fopen(path, "r+b");
    assert_non_null(out);
    assert_int_equal(fseek(out, -2, SEEK_END), 0);
    assert_int_equal(fputc(1, out), 1);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(utimensat(AT_FDCWD, path, before, 0), 0);
    assert_true(load(&bench));
    expect_said(&bench, "the weights have changed since it was made; it is made again");
    assert_true(load(&bench));
    expect_said(&bench, "");
    close_bench(&bench);
}

/* Cut short, changed, another's, none at all: it is told, and the file is what it was. */
static void broken(void **state)
{
    const struct workplace *place = *state;
    struct bench bench;
    char path[128];
    void *file = NULL;
    void *other = NULL;
    size_t bytes = 0;
    size_t other_bytes = 0;
    size_t bits_bytes = 0;
    open_bench(&bench, place, &mt_arch_mixtral);
    choose(&bench, "fp8,cache");
    assert_true(load(&bench));
    (void)workplace_path(place, FOLDER "/fp8-routed_experts.safetensors", path, sizeof path);
    assert_int_equal(mt_file_read_all(&bench.opened.ctx, path, SIZE_MAX, &other, &other_bytes), MT_OK);
    choose(&bench, "nf4,cache");
    assert_true(load(&bench));
    char *bits = bits_of(&bench, &bits_bytes);
    (void)workplace_path(place, NF4, path, sizeof path);
    assert_int_equal(mt_file_read_all(&bench.opened.ctx, path, SIZE_MAX, &file, &bytes), MT_OK);
    expect_said(&bench, "");
    mt_params_free(&bench.opened.params);
    uint64_t header = 0;
    memcpy(&header, file, sizeof header);
    const size_t cuts[] = {bytes - 1, bytes / 2, header, 9, 0};
    const size_t flips[] = {0, 12, header / 2, (size_t)header + 8, bytes / 2, bytes - 1};
    const size_t cut_count = sizeof cuts / sizeof cuts[0];
    const size_t cases = cut_count + sizeof flips / sizeof flips[0] + 1;
    for (size_t i = 0; i < cases; i++) {
        char *changed = malloc(bytes);
        assert_non_null(changed);
        memcpy(changed, file, bytes);
        if (i >= cut_count && i + 1 < cases) changed[flips[i - cut_count]] ^= 0x40;
        if (i < cut_count)
            assert_int_equal(workplace_write(place, NF4, changed, cuts[i]), 0);
        else if (i + 1 < cases)
            assert_int_equal(workplace_write(place, NF4, changed, bytes), 0);
        else
            assert_int_equal(workplace_write(place, NF4, other, other_bytes), 0);
        free(changed);
        assert_true(load(&bench));
        expect_said(&bench, "it is made again");
        expect_bits(&bench, bits, bits_bytes);
        mt_params_free(&bench.opened.params); // nothing may be mapped while the file is written over
        void *again = NULL;
        size_t again_bytes = 0;
        assert_int_equal(mt_file_read_all(&bench.opened.ctx, path, SIZE_MAX, &again, &again_bytes), MT_OK);
        assert_int_equal(again_bytes, bytes);
        assert_memory_equal(again, file, bytes);
        mt_release(&bench.opened.ctx, again, again_bytes);
    }
    mt_release(&bench.opened.ctx, file, bytes);
    mt_release(&bench.opened.ctx, other, other_bytes);
    free(bits);
    close_bench(&bench);
}

// ------------------------------------------------------------------ where it cannot be made

static void not_kept(void **state)
{
    const struct workplace *place = *state;
    struct bench bench;
    char path[128];
    int lock = MT_FOLDER_UNLOCKED;
    size_t bytes = 0;
    open_bench(&bench, place, &mt_arch_mixtral);
    choose(&bench, "nf4");
    assert_false(load(&bench));
    char *bits = bits_of(&bench, &bytes);

    // A name that is taken.
    choose(&bench, "nf4,cache");
    assert_int_equal(workplace_write(place, FOLDER, "x", 1), 0);
    assert_false(load(&bench));
    expect_said(&bench, "codes are not kept: ");
    expect_bits(&bench, bits, bytes);
    assert_int_equal(unlink(workplace_path(place, FOLDER, path, sizeof path)), 0);

    // Another process at it.
    assert_int_equal(mkdir(path, 0777), 0);
    assert_int_equal(mt_folder_lock(&bench.opened.ctx, path, "testing", &lock), MT_OK);
    assert_false(load(&bench));
    expect_said(&bench, "another process is making it");
    expect_bits(&bench, bits, bytes);
    mt_folder_unlock(lock);

    // What a killed process left behind goes.
    assert_int_equal(workplace_write(place, NF4 ".tmp.1.2", "x", 1), 0);
    assert_true(load(&bench));
    expect_said(&bench, "");
    expect_bits(&bench, bits, bytes);
    assert_int_not_equal(access(workplace_path(place, NF4 ".tmp.1.2", path, sizeof path), F_OK), 0);

    // A plan writes nothing.
    workplace_remove_folder(place, FOLDER);
    mt_params_free(&bench.opened.params);
    mt_device_set_dry(bench.opened.device);
    assert_false(load(&bench));
    assert_int_not_equal(access(workplace_path(place, FOLDER, path, sizeof path), F_OK), 0);
    expect_said(&bench, "");
    free(bits);
    close_bench(&bench);
}

static enum mt_status open_kept(struct mt_context *ctx, const struct workplace *place)
{
    struct mt_device *device = NULL;
    struct mt_model *model = NULL;
    struct mt_model_options options = {.tokens = 4, .sequences = 1, .positions = 4};
    enum mt_status status = mt_quantise_parse(ctx, "nf4,cache", &options.selection.quantise);
    if (status == MT_OK) status = mt_device_create(ctx, "cpu", 1, &device);
    if (status == MT_OK) status = mt_model_open(device, place->directory, &options, &model);
    mt_model_close(model);
    mt_device_destroy(device);
    return status;
}

/* Whichever allocation fails: the model is loaded or it is not, and nothing is left behind. */
static void out_of_memory(void **state)
{
    const struct workplace *place = *state;
    assert_int_equal(small_model_make(place, small_model_config(&mt_arch_mixtral), MT_HF_BFLOAT16, 11), 0);
    for (int made = 0; made < 2; made++) {
        bool reached = true;
        long loaded = 0;
        for (long n = 0; reached; n++) {
            struct failing_allocator allocations = {.fail_at = n};
            struct mt_allocator allocator = failing_allocator(&allocations);
            struct mt_context ctx;
            mt_context_init(&ctx, &allocator);
            if (made == 0) workplace_remove_folder(place, FOLDER);
            enum mt_status status = open_kept(&ctx, place);
            reached = allocations.calls > n;
            assert_true(status == MT_OK || (reached && status == MT_ERR_MEMORY));
            assert_int_equal(allocations.live, 0);
            if (reached && status == MT_OK) loaded++;
        }
        assert_true(loaded > 0);
    }
    workplace_remove_folder(place, FOLDER);
    workplace_clear(place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(same_bits, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(stale, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(broken, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(not_kept, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(out_of_memory, workplace_open, workplace_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
