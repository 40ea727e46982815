/* Tensors of checkpoints that lie in several files: what is put together again, and what is refused by name.
 */
#include "train/state/state_pieces.h"

#include <string.h>

#include "ops/device.h"
#include "support/cmocka_all.h"
#include "support/workplace.h"
#include "train/state/state_tensors.h"

enum { FILES = 2, COUNT = 6 };

struct stored {
    const char *name;
    int64_t count;
    enum mt_safetensors_dtype dtype;
};

struct bench {
    struct mt_context ctx;
    struct mt_arena arena;
    struct mt_device *device;
    struct mt_safetensors files[FILES];
    struct mt_state_pieces pieces;
    float values[COUNT];
};

/* Each file holds 0, 1, 2, ... over all its tensors. */
static void write_file(struct bench *b, const char *path, const struct stored *tensors, size_t count)
{
    struct mt_safetensors_spec specs[4];
    struct mt_safetensors_writer writer;
    float number = 0.0f;
    for (size_t i = 0; i < count; i++)
        specs[i] = (struct mt_safetensors_spec){
            .name = tensors[i].name, .dtype = tensors[i].dtype, .rank = 1, .dim = {tensors[i].count}};
    assert_int_equal(mt_safetensors_writer_open(&b->ctx, path, specs, count, NULL, 0, &writer), MT_OK);
    for (size_t i = 0; i < count; i++) {
        for (int64_t k = 0; k < tensors[i].count; k++) {
            assert_int_equal(mt_safetensors_writer_write(&writer, &number, sizeof number), MT_OK);
            number += 1.0f;
        }
    }
    assert_int_equal(mt_safetensors_writer_finish(&writer), MT_OK);
}

static void open_bench(struct bench *b, const struct workplace *place, const struct stored *one, size_t ones,
                       const struct stored *other, size_t others)
{
    char path[256];
    *b = (struct bench){0};
    mt_context_init(&b->ctx, NULL);
    mt_arena_init(&b->arena, &b->ctx, 4096);
    assert_int_equal(mt_device_create(&b->ctx, "cpu", 1, &b->device), MT_OK);
    for (size_t i = 0; i < FILES; i++) {
        (void)workplace_path(place, i == 0 ? "one" : "other", path, sizeof path);
        write_file(b, path, i == 0 ? one : other, i == 0 ? ones : others);
        assert_int_equal(mt_safetensors_open(&b->ctx, path, &b->files[i]), MT_OK);
    }
    assert_int_equal(mt_state_pieces_list(&b->arena, "checkpoint", b->files, FILES, &b->pieces), MT_OK);
}

static void close_bench(struct bench *b, const struct workplace *place)
{
    for (size_t i = 0; i < FILES; i++) mt_safetensors_close(&b->files[i]);
    mt_device_destroy(b->device);
    mt_arena_free(&b->arena);
    workplace_clear(place);
    assert_int_equal(b->ctx.live_bytes, 0);
}

/* Numbers first … of the tensor "a", which has COUNT of them. */
static enum mt_status read_a(struct bench *b, int64_t first, int64_t count)
{
    struct mt_safetensors_spec spec = {.name = "a", .dtype = MT_SAFETENSORS_F32, .rank = 1, .dim = {COUNT}};
    struct mt_state_place at = {.data = b->values, .first = first, .count = count};
    const struct mt_state_tensors list = {.specs = &spec, .places = &at, .count = 1};
    memset(b->values, 0, sizeof b->values);
    return mt_state_tensors_read(b->device, &list, &b->pieces, true);
}

static void stretches_are_put_together(void **state)
{
    struct bench b;
    const struct stored one[] = {{"a[4:6]", 2, MT_SAFETENSORS_F32}, {"a[0:1]", 1, MT_SAFETENSORS_F32}};
    const struct stored other[] = {{"a[1:4]", 3, MT_SAFETENSORS_F32}};
    static const float whole[COUNT] = {2.0f, 0.0f, 1.0f, 2.0f, 0.0f, 1.0f};
    open_bench(&b, *state, one, 2, other, 1);
    for (int64_t first = 0; first < COUNT; first++) {
        for (int64_t count = 0; first + count <= COUNT; count++) {
            assert_int_equal(read_a(&b, first, count), MT_OK);
            assert_memory_equal(b.values, whole + first, (size_t)count * sizeof(float));
            for (int64_t i = count; i < COUNT; i++) assert_true(b.values[i] == 0.0f);
        }
    }
    close_bench(&b, *state);
}

/* What is in two files, and what is said of it. */
struct faulty {
    struct stored one, other;
    const char *message;
};

static void what_does_not_fit_is_named(void **state)
{
    static const struct faulty cases[] = {
        {{"a[0:3]", 3, MT_SAFETENSORS_F32}, {"a[4:6]", 2, MT_SAFETENSORS_F32}, "a has a different shape"},
        {{"a[0:3]", 3, MT_SAFETENSORS_F32}, {"a[2:6]", 4, MT_SAFETENSORS_F32}, "a has a different shape"},
        {{"a[0:3]", 3, MT_SAFETENSORS_F32}, {"a[3:5]", 2, MT_SAFETENSORS_F32}, "or is incomplete"},
        {{"a[0:3]", 3, MT_SAFETENSORS_F32}, {"a[3:7]", 4, MT_SAFETENSORS_F32}, "a has a different shape"},
        {{"a[0:3]", 3, MT_SAFETENSORS_F32}, {"a[3:6]", 3, MT_SAFETENSORS_I32}, "or type"},
        {{"a", 6, MT_SAFETENSORS_F32}, {"a[0:6]", 6, MT_SAFETENSORS_F32}, "a has a different shape"},
        {{"a[0:6]", 6, MT_SAFETENSORS_F32}, {"a", 6, MT_SAFETENSORS_F32}, "a has a different shape"},
        {{"a", 5, MT_SAFETENSORS_F32}, {"a[5:6]", 1, MT_SAFETENSORS_F32}, "a has a different shape"},
        {{"a", 6, MT_SAFETENSORS_F32}, {"b[0:1]", 1, MT_SAFETENSORS_F32}, "has b[0:1], which this run"},
        // Ranges that are none are parts of names.
        {{"a[0:3]", 4, MT_SAFETENSORS_F32}, {"b", 2, MT_SAFETENSORS_F32}, "does not have a"},
        {{"a[00:6]", 6, MT_SAFETENSORS_F32}, {"b", 2, MT_SAFETENSORS_F32}, "does not have a"},
        {{"a[0:6]x", 6, MT_SAFETENSORS_F32}, {"a[-1:5]", 6, MT_SAFETENSORS_F32}, "does not have a"},
        {{"a[:6]", 6, MT_SAFETENSORS_F32}, {"a[0:]", 6, MT_SAFETENSORS_F32}, "does not have a"},
        {{"[0:6]", 6, MT_SAFETENSORS_F32}, {"a[6]", 6, MT_SAFETENSORS_F32}, "does not have a"},
        {{"a[99999999999999999999:99999999999999999999]", 0, MT_SAFETENSORS_F32},
         {"a[0:6", 6, MT_SAFETENSORS_F32},
         "does not have a"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct bench b;
        open_bench(&b, *state, &cases[i].one, 1, &cases[i].other, 1);
        if (read_a(&b, 0, COUNT) != MT_ERR_SHAPE) fail_msg("case %zu is taken", i);
        if (strstr(b.ctx.message, cases[i].message) == NULL || strstr(b.ctx.message, "checkpoint: ") == NULL)
            fail_msg("case %zu: %s", i, b.ctx.message);
        for (int k = 0; k < COUNT; k++) assert_true(b.values[k] == 0.0f);
        close_bench(&b, *state);
    }
}

int main(void)
{
#define AT_A_PLACE(test) cmocka_unit_test_setup_teardown(test, workplace_open, workplace_close)
    const struct CMUnitTest tests[] = {
        AT_A_PLACE(stretches_are_put_together),
        AT_A_PLACE(what_does_not_fit_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
