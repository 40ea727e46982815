/*
 * Checkpoints of a run: every bit comes back; a damaged newest one gives way to the one before; what is
 * pruned, what is set aside; memory and disks that run out.
 */
#include "train/state/state.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/folder.h"
#include "ops/device.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"
#include "support/model_runs.h"
#include "support/small_models.h"
#include "train/state/state_manifest.h"

#define RUNNING 5

static const struct mt_gradient_groups alone = {0};
static const char *const everything[] = {"*", NULL};
static const char settings[] = "model: a \"small\" one\nseed: 7\n# \xc3\xa4\xe2\x82\xac\n";

/* A run of a small model, and the folder of its checkpoints. */
struct bench {
    struct workplace *place;
    struct model_run run;
    struct mt_objective_config method;
    struct mt_comm *comm;
    struct mt_buckets buckets;
    float *first, *second;
    double running[RUNNING];
    struct mt_run_tensors tensors;
    struct mt_run_numbers numbers;
    char folder[128];
};

static struct mt_params *params_of(struct bench *b)
{
    return mt_model_params(b->run.model);
}

static void open_bench(struct bench *b, void **state, const struct mt_arch *model, bool lora)
{
    struct mt_model_options options = {.backward = true};
    *b = (struct bench){.place = *state};
    (void)workplace_path(b->place, "checkpoints", b->folder, sizeof b->folder);
    assert_int_equal(small_model_make(b->place, small_model_config(model), MT_HF_BFLOAT16, 3), 0);
    mt_context_init(&b->run.ctx, NULL);
    assert_int_equal(mt_folder_make(&b->run.ctx, b->folder), MT_OK);
    assert_int_equal(mt_objective_config_method(&b->run.ctx, "paper", &b->method), MT_OK);
    assert_int_equal(mt_objective_config_set(&b->run.ctx, &b->method, "bias_rule", "sign"), MT_OK);
    options.objective = &b->method;
    if (lora) {
        options.selection =
            (struct mt_train_selection){.lora = everything, .lora_rank = 2, .lora_alpha = 4.0};
    } else {
        options.selection.full = everything;
    }
    assert_int_equal(model_run_open(&b->run, b->place, "cpu", 1, &options), 0);
    size_t bytes = params_of(b)->masters.bytes;
    assert_int_equal(mt_comm_open_alone(&b->run.ctx, &b->comm), MT_OK);
    assert_int_equal(mt_buckets_create(&alone, params_of(b), &b->buckets), MT_OK);
    b->first = calloc(1, bytes);
    b->second = calloc(1, bytes);
    assert_true(b->first != NULL && b->second != NULL);
    b->tensors = (struct mt_run_tensors){
        .params = params_of(b),
        .buckets = &b->buckets,
        .comm = b->comm,
        .first = mt_tensor_1d(b->first, MT_F32, (int64_t)(bytes / sizeof(float))),
        .second = mt_tensor_1d(b->second, MT_F32, (int64_t)(bytes / sizeof(float))),
        .objective = mt_model_objective(b->run.model),
        .running = b->running,
        .running_count = RUNNING,
    };
}

static void remove_checkpoint(const struct bench *b, const char *name)
{
    char path[128];
    (void)snprintf(path, sizeof path, "checkpoints/%s", name);
    workplace_remove_folder(b->place, path);
}

static void close_bench(struct bench *b)
{
    static const char *const names[] = {"step-00000100", "step-00000200", "step-00000300", "step-00000400",
                                        "step-00000300.superseded"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) remove_checkpoint(b, names[i]);
    workplace_remove_folder(b->place, "checkpoints");
    workplace_clear(b->place);
    mt_buckets_free(&b->buckets);
    mt_comm_close(b->comm);
    model_run_close(&b->run);
    assert_int_equal(b->run.ctx.live_bytes, 0);
    free(b->first);
    free(b->second);
}

// ------------------------------------------------------------------ everything a run has

typedef void (*visit_fn)(void *bytes, size_t count, void *self);

/* Every stretch of memory a checkpoint holds, in a fixed order. */
static void visit(struct bench *b, visit_fn see, void *self)
{
    const struct mt_params *params = params_of(b);
    size_t numbers = 0;
    double *objective = mt_objective_state(b->tensors.objective, &numbers);
    for (size_t i = 0; i < params->trained_count; i++) {
        const struct mt_tensor *value = &params->trained[i].value;
        size_t bytes = (size_t)mt_tensor_count(value) * sizeof(float);
        ptrdiff_t offset = (char *)value->data - (char *)params->masters.data;
        see(value->data, bytes, self);
        see((char *)b->first + offset, bytes, self);
        see((char *)b->second + offset, bytes, self);
    }
    for (int64_t layer = 0; layer < params->layers; layer++) {
        const struct mt_tensor *bias = &params->layer[layer].correction;
        if (mt_tensor_present(bias)) see(bias->data, (size_t)mt_tensor_count(bias) * sizeof(float), self);
    }
    assert_true(numbers > 0);
    see(objective, numbers * sizeof(double), self);
    see(b->running, sizeof b->running, self);
}

struct drawing {
    uint64_t seed, count;
};

static unsigned char next_byte(struct drawing *drawing)
{
    uint64_t mixed = (drawing->seed + 0x9e3779b97f4a7c15u * ++drawing->count) * 0xd1342543de82ef95u;
    return (unsigned char)(mixed >> 56);
}

/* Any bits at all: a checkpoint carries NaN and infinity as well. */
static void draw_bytes(void *bytes, size_t count, void *self)
{
    struct drawing *drawing = self;
    unsigned char *byte = bytes;
    for (size_t i = 0; i < count; i++) byte[i] = next_byte(drawing);
}

static void draw(struct bench *b, uint64_t seed)
{
    struct drawing drawing = {.seed = seed};
    visit(b, draw_bytes, &drawing);
}

struct expectation {
    struct drawing drawing;
    uint64_t wrong;
};

static void compare_bytes(void *bytes, size_t count, void *self)
{
    struct expectation *expected = self;
    const unsigned char *byte = bytes;
    for (size_t i = 0; i < count; i++) expected->wrong += byte[i] != next_byte(&expected->drawing) ? 1 : 0;
}

/* How many bytes are not those drawn from the seed. */
static uint64_t wrong_bytes(struct bench *b, uint64_t seed)
{
    struct expectation expected = {.drawing.seed = seed};
    visit(b, compare_bytes, &expected);
    assert_true(expected.drawing.count > 1000);
    return expected.wrong;
}

static struct mt_run_numbers numbers_at(uint64_t step)
{
    struct mt_run_numbers numbers;
    memset(&numbers, 0, sizeof numbers); // its padding too: it is compared
    numbers.step = step;
    numbers.position = (struct mt_batch_position){3, UINT64_MAX, (1ull << 53) + 1};
    numbers.counts = (struct mt_batch_counts){1, 2, 3, 4, 5, 6, 7, 8, UINT64_MAX - 1, 10};
    numbers.tokens = 1ull << 63;
    numbers.seconds = 0.1 + 0.2;
    numbers.best_loss = (double)NAN;
    numbers.best_step = 100;
    numbers.evaluations = 11;
    numbers.fruitless = 12;
    numbers.metrics_bytes = 13;
    numbers.steps = 14;
    numbers.epoch_draws = 15;
    numbers.data_bytes = 16;
    numbers.concentration = (struct mt_concentration){0.1 + 0.7, 1.0 / 3.0, 17, 18};
    numbers.finished = step == 300;
    return numbers;
}

/* Saves a step whose bytes are drawn from the step's number. */
static void save(struct bench *b, uint64_t step)
{
    struct mt_run_numbers numbers = numbers_at(step);
    draw(b, step);
    if (mt_state_save(b->run.device, b->folder, &numbers, &b->tensors, settings) != MT_OK)
        fail_msg("%s", b->run.ctx.message);
}

/* Finds and loads; returns the step, 0 for none. */
static uint64_t resume(struct bench *b, const struct mt_log *log)
{
    struct mt_state_reader *reader = NULL;
    if (mt_state_find(&b->run.ctx, b->folder, log, &reader) != MT_OK) fail_msg("%s", b->run.ctx.message);
    if (reader == NULL) return 0;
    struct mt_run_numbers got = *mt_state_numbers(reader);
    struct mt_run_numbers want = numbers_at(got.step);
    assert_true(isnan(got.best_loss));
    got.best_loss = 0.0;
    want.best_loss = 0.0;
    assert_memory_equal(&got.position, &want.position, sizeof got.position);
    assert_memory_equal(&got.counts, &want.counts, sizeof got.counts);
    assert_true(got.tokens == want.tokens && got.seconds == want.seconds && got.best_step == want.best_step);
    assert_true(got.evaluations == 11 && got.fruitless == 12 && got.metrics_bytes == 13);
    assert_true(got.steps == 14 && got.epoch_draws == 15 && got.data_bytes == 16);
    assert_memory_equal(&got.concentration, &want.concentration, sizeof got.concentration);
    assert_true(got.finished == want.finished);
    assert_string_equal(mt_state_settings(reader), settings);
    draw(b, 999);
    if (mt_state_load(b->run.device, reader, &b->tensors) != MT_OK) fail_msg("%s", b->run.ctx.message);
    mt_state_close(reader);
    assert_int_equal(wrong_bytes(b, got.step), 0);
    return got.step;
}

static int checkpoint_entries(const struct bench *b)
{
    struct workplace folder;
    (void)snprintf(folder.directory, sizeof folder.directory, "%.50s/checkpoints", b->place->directory);
    return workplace_entries(&folder);
}

static bool exists(const struct bench *b, const char *name)
{
    char path[256];
    struct stat info;
    (void)snprintf(path, sizeof path, "%s/%s", b->folder, name);
    return lstat(path, &info) == 0;
}

// ------------------------------------------------------------------ coming back

static void every_bit_comes_back(void **state)
{
    static const struct mt_arch *const models[] = {&mt_arch_deepseek_v3, &mt_arch_olmoe};
    for (size_t i = 0; i < 4; i++) {
        struct bench b;
        open_bench(&b, state, models[i / 2], i % 2 == 1);
        assert_int_equal(resume(&b, NULL), 0); // no folder yet
        save(&b, 100);
        save(&b, 300);
        assert_int_equal(resume(&b, NULL), 300);
        save(&b, 300); // again: replaced
        assert_int_equal(resume(&b, NULL), 300);
        assert_int_equal(checkpoint_entries(&b), 2);
        // One step by its number; without moments they stay as they are.
        struct mt_state_reader *reader = NULL;
        struct mt_run_tensors values = b.tensors;
        values.first = (struct mt_tensor){0};
        values.second = (struct mt_tensor){0};
        float before = b.first[0];
        assert_int_equal(mt_state_open(&b.run.ctx, b.folder, 100, &reader), MT_OK);
        assert_int_equal(mt_state_load(b.run.device, reader, &values), MT_OK);
        assert_memory_equal(&b.first[0], &before, sizeof before);
        uint64_t some = wrong_bytes(&b, 100);
        assert_int_equal(mt_state_load(b.run.device, reader, &b.tensors), MT_OK);
        assert_true(some > 0 && wrong_bytes(&b, 100) == 0);
        mt_state_close(reader);
        assert_int_equal(mt_state_open(&b.run.ctx, b.folder, 200, &reader), MT_ERR_IO);
        close_bench(&b);
    }
}

/* A checkpoint of another run is named and changes nothing. */
static void other_runs_are_refused(void **state)
{
    struct bench b;
    struct mt_state_reader *reader = NULL;
    open_bench(&b, state, &mt_arch_olmoe, true);
    save(&b, 100);
    assert_int_equal(mt_state_find(&b.run.ctx, b.folder, NULL, &reader), MT_OK);
    draw(&b, 5);
    struct mt_run_tensors other = b.tensors;
    other.running_count = RUNNING - 1;
    assert_int_equal(mt_state_load(b.run.device, reader, &other), MT_ERR_SHAPE);
    assert_non_null(strstr(b.run.ctx.message, "running"));
    other = b.tensors;
    other.objective = NULL;
    assert_int_equal(mt_state_load(b.run.device, reader, &other), MT_ERR_SHAPE);
    assert_non_null(strstr(b.run.ctx.message, "has objective, which this run does not"));
    other = b.tensors;
    other.second.dim[0]--;
    assert_int_equal(mt_state_load(b.run.device, reader, &other), MT_ERR_SHAPE);
    assert_non_null(strstr(b.run.ctx.message, "moment"));
    struct mt_param *param = &params_of(&b)->trained[1];
    struct mt_param kept = *param;
    param->name = "elsewhere";
    assert_int_equal(mt_state_load(b.run.device, reader, &b.tensors), MT_ERR_SHAPE);
    assert_non_null(strstr(b.run.ctx.message, "value.elsewhere"));
    *param = kept;
    assert_int_equal(wrong_bytes(&b, 5), 0);
    mt_state_close(reader);
    close_bench(&b);
}

// ------------------------------------------------------------------ memory of a device's own

/* Of what was downloaded. */
static size_t largest_piece;

/* A device that holds every byte upside down: whoever reads its memory directly is found out. */

static void copy_inverted(unsigned char *target, const unsigned char *source, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) target[i] = (unsigned char)~source[i];
}

static enum mt_status upload_inverted(struct mt_device *device, void *target, const void *host, size_t bytes)
{
    (void)device;
    copy_inverted(target, host, bytes);
    return MT_OK;
}

static enum mt_status download_inverted(struct mt_device *device, void *host, const void *source,
                                        size_t bytes)
{
    (void)device;
    if (bytes > largest_piece) largest_piece = bytes;
    copy_inverted(host, source, bytes);
    return MT_OK;
}

/* Tensors larger than a piece travel whole; what is saved on one device is loaded on another. */
static void other_devices(void **state)
{
    enum { ROWS = 3, COLUMNS = 500001, COUNT = ROWS * COLUMNS };
    struct bench b;
    struct mt_state_reader *reader = NULL;
    struct mt_run_numbers numbers = numbers_at(100);
    open_bench(&b, state, &mt_arch_olmoe, true);
    struct mt_device inverted = *b.run.device;
    inverted.memory = MT_MEMORY_DEVICE;
    inverted.upload = upload_inverted;
    inverted.download = download_inverted;
    float *values = malloc(COUNT * sizeof(float));
    float *first = malloc(COUNT * sizeof(float));
    float *second = malloc(COUNT * sizeof(float));
    assert_true(values != NULL && first != NULL && second != NULL);
    struct mt_param param = {.name = "large", .value = mt_tensor_2d(values, MT_F32, ROWS, COLUMNS)};
    struct mt_params params = {.device = &inverted,
                               .masters = mt_buffer_borrow(values, COUNT * sizeof(float), MT_MEMORY_HOST),
                               .trained = &param,
                               .trained_count = 1};
    struct mt_buckets buckets;
    assert_int_equal(mt_buckets_create(&alone, &params, &buckets), MT_OK);
    struct mt_run_tensors tensors = {.params = &params,
                                     .buckets = &buckets,
                                     .comm = b.comm,
                                     .first = mt_tensor_1d(first, MT_F32, COUNT),
                                     .second = mt_tensor_1d(second, MT_F32, COUNT)};
    for (int i = 0; i < COUNT; i++) {
        values[i] = (float)i;
        first[i] = -(float)i;
        second[i] = 0.5f * (float)i;
    }
    assert_int_equal(mt_state_save(&inverted, b.folder, &numbers, &tensors, settings), MT_OK);
    assert_true(largest_piece > 0 && largest_piece <= (size_t)4 << 20);
    assert_int_equal(mt_state_find(&b.run.ctx, b.folder, NULL, &reader), MT_OK);
    for (int round = 0; round < 2; round++) { // upside down on the host, then upright on the device
        uint32_t turn = round == 0 ? UINT32_MAX : 0;
        memset(values, 0, COUNT * sizeof(float));
        memset(second, 0, COUNT * sizeof(float));
        assert_int_equal(mt_state_load(round == 0 ? b.run.device : &inverted, reader, &tensors), MT_OK);
        for (int i = 0; i < COUNT; i++) {
            float want[2] = {(float)i, 0.5f * (float)i};
            uint32_t bits[4];
            memcpy(&bits[0], &want[0], 2 * sizeof(float));
            memcpy(&bits[2], &values[i], sizeof(float));
            memcpy(&bits[3], &second[i], sizeof(float));
            if (bits[2] != (bits[0] ^ turn) || bits[3] != (bits[1] ^ turn)) fail_msg("element %d", i);
        }
    }
    mt_state_close(reader);
    mt_buckets_free(&buckets);
    free(values);
    free(first);
    free(second);
    close_bench(&b);
}

// ------------------------------------------------------------------ damage

/* The bytes of a file of a checkpoint; the caller frees. */
static unsigned char *read_file(const struct bench *b, const char *name, size_t *bytes)
{
    char path[256];
    struct stat info;
    (void)snprintf(path, sizeof path, "%s/%s", b->folder, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fstat(fileno(file), &info), 0);
    unsigned char *data = malloc((size_t)info.st_size + 1);
    assert_non_null(data);
    *bytes = fread(data, 1, (size_t)info.st_size, file);
    data[*bytes] = '\0';
    (void)fclose(file);
    return data;
}

static void write_file(const struct bench *b, const char *name, const void *data, size_t bytes)
{
    char path[256];
    (void)snprintf(path, sizeof path, "checkpoints/%s", name);
    assert_int_equal(workplace_write(b->place, path, data, bytes), 0);
}

/* Resuming must take step 100 and say why, in words that hold `reason`. */
static void expect_fallback(struct bench *b, const char *reason)
{
    char *text = NULL;
    size_t bytes = 0;
    struct mt_log log;
    FILE *stream = open_memstream(&text, &bytes);
    assert_non_null(stream);
    mt_log_init(&log, stream, MT_LOG_WARNING);
    assert_int_equal(resume(b, &log), 100);
    (void)fclose(stream);
    if (strstr(text, "step 200 cannot be used") == NULL || strstr(text, reason) == NULL)
        fail_msg("no '%s' in: %s", reason, text);
    free(text);
}

/* Overwrites one byte in place. */
static void put_byte(FILE *file, size_t at, int byte)
{
    assert_int_equal(fseek(file, (long)at, SEEK_SET), 0);
    assert_int_equal(fputc(byte, file), byte);
    assert_int_equal(fflush(file), 0);
}

/* One bit of every stride-th byte, one after the other. */
static void flip_bits(struct bench *b, const char *name, size_t stride)
{
    size_t bytes = 0;
    char path[256];
    unsigned char *data = read_file(b, name, &bytes);
    (void)snprintf(path, sizeof path, "%s/%s", b->folder, name);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    for (size_t i = 0; i < bytes; i += stride) {
        struct mt_state_reader *reader = NULL;
        put_byte(file, i, data[i] ^ 1);
        assert_int_equal(mt_state_find(&b->run.ctx, b->folder, NULL, &reader), MT_OK);
        if (mt_state_numbers(reader)->step != 100) fail_msg("%s: byte %zu may be anything", name, i);
        mt_state_close(reader);
        put_byte(file, i, data[i]);
    }
    assert_int_equal(fclose(file), 0);
    assert_int_equal(resume(b, NULL), 200);
    free(data);
}

/* Every bit of the manifest matters. */
static void flip_manifest(struct bench *b, const char *name)
{
    size_t bytes = 0;
    struct mt_arena arena;
    struct mt_state_manifest manifest;
    unsigned char *data = read_file(b, name, &bytes);
    mt_arena_init(&arena, &b->run.ctx, 4096);
    assert_int_equal(mt_state_manifest_parse(&arena, name, data, bytes, &manifest), MT_OK);
    for (size_t bit = 0; bit < 8 * bytes; bit++) {
        data[bit / 8] = (unsigned char)(data[bit / 8] ^ 1u << bit % 8);
        if (mt_state_manifest_parse(&arena, name, data, bytes, &manifest) == MT_OK)
            fail_msg("%s: bit %zu may be anything", name, bit);
        data[bit / 8] = (unsigned char)(data[bit / 8] ^ 1u << bit % 8);
    }
    mt_arena_free(&arena);
    free(data);
}

/* Cuts out the lines that have a text; the rest is moved up. */
static size_t cut_lines(char *text, const char *part)
{
    for (char *found = strstr(text, part); found != NULL; found = strstr(text, part)) {
        char *line = found;
        const char *end = strchr(found, '\n');
        assert_non_null(end);
        while (line > text && line[-1] != '\n') line--;
        memmove(line, end + 1, strlen(end + 1) + 1);
    }
    return strlen(text);
}

/* A manifest of version 1, which knew nothing of concentration: the run begins to look now. */
static void older_manifests(void **state)
{
    struct bench b;
    size_t bytes = 0;
    struct mt_arena arena;
    struct mt_state_manifest manifest;
    open_bench(&b, state, &mt_arch_olmoe, true);
    save(&b, 100);
    unsigned char *data = read_file(&b, "step-00000100/" MT_STATE_MANIFEST, &bytes);
    char *text = calloc(bytes + 1, 1);
    assert_non_null(text);
    memcpy(text, data, bytes);
    size_t left = cut_lines(text, "\"concentration_");
    assert_true(left < bytes);
    char *version = strstr(text, "\"version\": 2");
    assert_non_null(version);
    version[11] = '1';
    size_t tail = MT_DIGEST_DIGITS + strlen("\"\n}\n");
    struct mt_digest_text sum = mt_digest_of(text, left - tail);
    memcpy(text + left - tail, sum.digits, MT_DIGEST_DIGITS);
    mt_arena_init(&arena, &b.run.ctx, 4096);
    if (mt_state_manifest_parse(&arena, "old", text, left, &manifest) != MT_OK)
        fail_msg("%s", b.run.ctx.message);
    assert_int_equal(manifest.numbers.data_bytes, 16);
    assert_true(isnan(manifest.numbers.concentration.start) && isnan(manifest.numbers.concentration.last));
    assert_true(manifest.numbers.concentration.low == 0 && manifest.numbers.concentration.reported == 0);
    mt_arena_free(&arena);
    free(text);
    free(data);
    close_bench(&b);
}

static void damage(void **state)
{
    struct bench b;
    size_t bytes = 0;
    open_bench(&b, state, &mt_arch_olmoe, true);
    save(&b, 100);
    save(&b, 200);
    flip_manifest(&b, "step-00000200/" MT_STATE_MANIFEST);
    flip_bits(&b, "step-00000200/" MT_STATE_MANIFEST, 83);
    flip_bits(&b, "step-00000200/" MT_STATE_TENSORS, 9973);
    static const char *const files[] = {"step-00000200/" MT_STATE_MANIFEST,
                                        "step-00000200/" MT_STATE_TENSORS};
    for (size_t i = 0; i < 2; i++) {
        char path[256];
        unsigned char *data = read_file(&b, files[i], &bytes);
        write_file(&b, files[i], data, bytes - 1);
        expect_fallback(&b, i == 0 ? MT_STATE_MANIFEST : "bytes, but");
        write_file(&b, files[i], data, 0);
        expect_fallback(&b, files[i]);
        (void)snprintf(path, sizeof path, "%s/%s", b.folder, files[i]);
        assert_int_equal(unlink(path), 0);
        expect_fallback(&b, "No such file");
        write_file(&b, files[i], data, bytes);
        assert_int_equal(resume(&b, NULL), 200);
        free(data);
    }
    // Another version, and a whole checkpoint under the name of another step.
    unsigned char *manifest = read_file(&b, files[0], &bytes);
    char *version = strstr((char *)manifest, "\"version\": 2");
    assert_non_null(version);
    version[11] = '3';
    write_file(&b, files[0], manifest, bytes);
    expect_fallback(&b, "newer metier");
    free(manifest);
    for (size_t i = 0; i < 2; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "step-00000100%s", strchr(files[i], '/'));
        unsigned char *data = read_file(&b, name, &bytes);
        write_file(&b, files[i], data, bytes);
        free(data);
    }
    expect_fallback(&b, "is of step 100");
    // None is left.
    struct mt_state_reader *reader = NULL;
    write_file(&b, "step-00000100/" MT_STATE_MANIFEST, "", 0);
    assert_int_not_equal(mt_state_find(&b.run.ctx, b.folder, NULL, &reader), MT_OK);
    assert_null(reader);
    assert_non_null(strstr(b.run.ctx.message, "no checkpoint in it can be used"));
    close_bench(&b);
}

// ------------------------------------------------------------------ folders

static void make_folder(const struct bench *b, const char *name)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", b->folder, name);
    assert_int_equal(mkdir(path, 0777), 0);
}

static void pruning(void **state)
{
    struct bench b;
    char path[256];
    open_bench(&b, state, &mt_arch_olmoe, true);
    for (uint64_t step = 100; step <= 400; step += 100) save(&b, step);
    // Names that are nobody's checkpoint: neither found nor pruned.
    static const char *const strangers[] = {"step-500", "step-000000600", "step-00000700x", "step-"};
    for (size_t i = 0; i < sizeof strangers / sizeof strangers[0]; i++) make_folder(&b, strangers[i]);
    (void)snprintf(path, sizeof path, "%s/step-00000900", b.folder);
    assert_int_equal(symlink("step-00000100", path), 0);
    write_file(&b, "step-00000950", "x", 1);
    make_folder(&b, "step-00000800.tmp.77.0");
    write_file(&b, "step-00000800.tmp.77.0/state.safetensors.tmp.77.0", "torn", 4);
    assert_int_equal(resume(&b, NULL), 400);
    assert_int_equal(mt_state_prune(&b.run.ctx, b.folder, 0, 0), MT_ERR_USAGE);
    assert_int_equal(mt_state_prune(&b.run.ctx, b.folder, 2, 100), MT_OK);
    assert_true(exists(&b, "step-00000100") && !exists(&b, "step-00000200"));
    assert_true(exists(&b, "step-00000300") && exists(&b, "step-00000400"));
    assert_false(exists(&b, "step-00000800.tmp.77.0"));
    assert_int_equal(checkpoint_entries(&b), 3 + 4 + 2);
    assert_int_equal(mt_state_prune(&b.run.ctx, b.folder, 1, 400), MT_OK);
    assert_int_equal(checkpoint_entries(&b), 1 + 4 + 2);
    assert_int_equal(resume(&b, NULL), 400);
    for (size_t i = 0; i < sizeof strangers / sizeof strangers[0]; i++) remove_checkpoint(&b, strangers[i]);
    assert_int_equal(unlink(path), 0);
    (void)snprintf(path, sizeof path, "%s/step-00000950", b.folder);
    assert_int_equal(unlink(path), 0);
    (void)snprintf(path, sizeof path, "%s/nowhere", b.folder);
    assert_int_equal(mt_state_prune(&b.run.ctx, path, 1, 0), MT_OK);
    close_bench(&b);
}

/* A later checkpoint that could not be read neither comes back nor pushes the good ones out. */
static void later_ones_are_set_aside(void **state)
{
    struct bench b;
    open_bench(&b, state, &mt_arch_olmoe, true);
    save(&b, 100);
    save(&b, 300);
    write_file(&b, "step-00000300/" MT_STATE_TENSORS, "x", 1);
    assert_int_equal(resume(&b, NULL), 100);
    save(&b, 200);
    assert_true(exists(&b, "step-00000300.superseded") && !exists(&b, "step-00000300"));
    assert_int_equal(mt_state_prune(&b.run.ctx, b.folder, 1, 0), MT_OK);
    assert_int_equal(resume(&b, NULL), 200);
    assert_true(exists(&b, "step-00000300.superseded") && !exists(&b, "step-00000100"));
    close_bench(&b);
}

// ------------------------------------------------------------------ running out

/* Saves step 200 over an earlier one, finds, loads, prunes; whatever fails, step 100 is there. */
static enum mt_status save_and_load(struct mt_context *ctx, const void *self)
{
    struct bench *b = *(struct bench *const *)self;
    struct mt_device *device = NULL;
    struct mt_state_reader *reader = NULL;
    struct mt_run_numbers numbers = numbers_at(200);
    enum mt_status status = mt_device_create(ctx, "cpu", 1, &device);
    if (status == MT_OK) status = mt_state_save(device, b->folder, &numbers, &b->tensors, settings);
    if (status == MT_OK) status = mt_state_find(ctx, b->folder, NULL, &reader);
    if (status == MT_OK && mt_state_numbers(reader)->step != 200) status = MT_ERR_INTERNAL;
    if (status == MT_OK) status = mt_state_load(device, reader, &b->tensors);
    mt_state_close(reader);
    if (status == MT_OK) status = mt_state_prune(ctx, b->folder, 2, 0);
    mt_device_destroy(device);
    if (!exists(b, "step-00000100") || checkpoint_entries(b) != (exists(b, "step-00000200") ? 2 : 1))
        status = MT_ERR_INTERNAL;
    if (status != MT_OK && status != MT_ERR_MEMORY) return status;
    remove_checkpoint(b, "step-00000200");
    return status;
}

static void every_allocation_may_fail(void **state)
{
    struct bench b;
    struct bench *self = &b;
    open_bench(&b, state, &mt_arch_olmoe, true);
    save(&b, 100);
    assert_every_allocation_may_fail(save_and_load, &self, 21);
    assert_int_equal(resume(&b, NULL), 100);
    close_bench(&b);
}

/* A disk that is full at any point: a sentence, the older checkpoint, and no leftovers. */
static void full_disk(void **state)
{
    static const rlim_t sizes[] = {0, 100, 4000, 40000};
    struct bench b;
    struct rlimit before;
    open_bench(&b, state, &mt_arch_olmoe, true);
    save(&b, 100);
    draw(&b, 200);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    (void)signal(SIGXFSZ, SIG_IGN);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct rlimit limit = {.rlim_cur = sizes[i], .rlim_max = before.rlim_max};
        struct mt_run_numbers numbers = numbers_at(i % 2 == 0 ? 200 : 100);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        enum mt_status status = mt_state_save(b.run.device, b.folder, &numbers, &b.tensors, settings);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_int_equal(status, MT_ERR_IO);
        assert_non_null(strstr(b.run.ctx.message, "is not saved: "));
        assert_non_null(strstr(b.run.ctx.message, "cannot write"));
        assert_int_equal(checkpoint_entries(&b), 1);
    }
    assert_int_equal(wrong_bytes(&b, 200), 0);
    assert_int_equal(resume(&b, NULL), 100);
    close_bench(&b);
}

int main(void)
{
#define AT_A_PLACE(test) cmocka_unit_test_setup_teardown(test, workplace_open, workplace_close)
    const struct CMUnitTest tests[] = {
        AT_A_PLACE(every_bit_comes_back),
        AT_A_PLACE(other_runs_are_refused),
        AT_A_PLACE(other_devices),
        AT_A_PLACE(older_manifests),
        AT_A_PLACE(damage),
        AT_A_PLACE(pruning),
        AT_A_PLACE(later_ones_are_set_aside),
        AT_A_PLACE(every_allocation_may_fail),
        AT_A_PLACE(full_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
