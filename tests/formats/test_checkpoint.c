/* Checkpoints: one file or shards, agreement of index and shards, sharded writing, failures half-way. */
#define _XOPEN_SOURCE 700

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "formats/safetensors/checkpoint.h"
#include "formats/safetensors/checkpoint_writer.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"
#include "support/workplace.h"

#define TENSORS 7

static const struct mt_safetensors_spec specs[TENSORS] = {
    {.name = "model.a", .dtype = MT_SAFETENSORS_F32, .rank = 2, .dim = {4, 8}},      // 128 bytes
    {.name = "model.z", .dtype = MT_SAFETENSORS_F32, .rank = 1, .dim = {8}},         // 32
    {.name = "model.empty", .dtype = MT_SAFETENSORS_F32, .rank = 1, .dim = {0}},     // 0
    {.name = "model.huge", .dtype = MT_SAFETENSORS_BF16, .rank = 2, .dim = {32, 8}}, // 512
    {.name = "model.b", .dtype = MT_SAFETENSORS_BF16, .rank = 1, .dim = {16}},       // 32
    {.name = "model.c", .dtype = MT_SAFETENSORS_F16, .rank = 1, .dim = {40}},        // 80
    {.name = "last", .dtype = MT_SAFETENSORS_F32, .rank = 1, .dim = {0}},            // 0
};

/* Writes all tensors, every byte the low byte of its place in the whole; stops after `most` bytes. */
static enum mt_status write_all(struct mt_context *ctx, const char *directory, uint64_t shard_bytes,
                                size_t most)
{
    struct mt_checkpoint_writer writer;
    enum mt_status status = mt_checkpoint_writer_open(ctx, directory, specs, TENSORS, shard_bytes, &writer);
    size_t place = 0;
    for (size_t t = 0; t < TENSORS && status == MT_OK; t++) {
        uint64_t bytes = 0;
        (void)mt_safetensors_size(ctx, "", specs[t].name, specs[t].dtype, specs[t].rank, specs[t].dim,
                                  &bytes);
        for (uint64_t i = 0; i < bytes && status == MT_OK; i++) {
            unsigned char byte = (unsigned char)place++;
            if (place > most) {
                mt_checkpoint_writer_abandon(&writer);
                return MT_ERR_IO;
            }
            status = mt_checkpoint_writer_write(&writer, &byte, 1);
        }
    }
    return status == MT_OK ? mt_checkpoint_writer_finish(&writer) : status;
}

static void check_read(const char *directory, size_t shards)
{
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct mt_checkpoint checkpoint;
    assert_int_equal(mt_checkpoint_open(&ctx, directory, &checkpoint), MT_OK);
    assert_int_equal(checkpoint.shard_count, shards);
    assert_int_equal(checkpoint.tensor_count, TENSORS);
    assert_int_equal(checkpoint.data_bytes, 128 + 32 + 512 + 32 + 80);
    size_t place = 0;
    for (size_t t = 0; t < TENSORS; t++) {
        const struct mt_safetensors_tensor *tensor = mt_checkpoint_find(&checkpoint, specs[t].name);
        assert_non_null(tensor);
        const unsigned char *data = tensor->data;
        for (uint64_t i = 0; i < tensor->bytes; i++) assert_int_equal(data[i], place++ & 0xff);
    }
    assert_null(mt_checkpoint_find(&checkpoint, "model.y"));
    assert_string_equal(checkpoint.shards[0].metadata[0].value, "pt");
    mt_checkpoint_close(&checkpoint);
    assert_int_equal(ctx.live_bytes, 0);
}

static void shards_of_every_size(void **state)
{
    const struct workplace *place = *state;
    // Limit, files: 1 has a shard per tensor with data or between such; the index is one file more.
    static const struct {
        uint64_t limit;
        size_t shards;
    } cases[] = {{MT_CHECKPOINT_SHARD_BYTES, 1}, {784, 1}, {783, 2}, {200, 3}, {160, 3}, {100, 5}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mt_context ctx;
        mt_context_init(&ctx, NULL);
        assert_int_equal(write_all(&ctx, place->directory, cases[i].limit, SIZE_MAX), MT_OK);
        assert_int_equal(ctx.live_bytes, 0);
        check_read(place->directory, cases[i].shards);
        size_t files = cases[i].shards == 1 ? 1 : cases[i].shards + 1;
        assert_int_equal(workplace_entries(place), files);
        // A second writing is refused, and harms nothing.
        assert_int_equal(write_all(&ctx, place->directory, cases[i].limit, SIZE_MAX), MT_ERR_USAGE);
        assert_non_null(strstr(ctx.message, "already has"));
        check_read(place->directory, cases[i].shards);
        workplace_clear(place);
    }
}

static void the_index_is_as_transformers_writes_it(void **state)
{
    const struct workplace *place = *state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    assert_int_equal(write_all(&ctx, place->directory, 783, SIZE_MAX), MT_OK);
    char path[128];
    void *text = NULL;
    size_t bytes = 0;
    workplace_path(place, MT_CHECKPOINT_INDEX, path, sizeof path);
    assert_int_equal(mt_file_read_all(&ctx, path, 10000, &text, &bytes), MT_OK);
    static const char expected[] =
        "{\n  \"metadata\": {\n    \"total_size\": 784\n  },\n  \"weight_map\": {\n"
        "    \"last\": \"model-00002-of-00002.safetensors\",\n"
        "    \"model.a\": \"model-00001-of-00002.safetensors\",\n"
        "    \"model.b\": \"model-00001-of-00002.safetensors\",\n"
        "    \"model.c\": \"model-00002-of-00002.safetensors\",\n"
        "    \"model.empty\": \"model-00001-of-00002.safetensors\",\n"
        "    \"model.huge\": \"model-00001-of-00002.safetensors\",\n"
        "    \"model.z\": \"model-00001-of-00002.safetensors\"\n  }\n}\n";
    assert_int_equal(bytes, sizeof expected - 1);
    assert_memory_equal(text, expected, bytes);
    mt_release(&ctx, text, bytes);
}

static void stopping_anywhere_leaves_nothing(void **state)
{
    const struct workplace *place = *state;
    for (size_t most = 0; most < 784; most += 13) {
        struct mt_context ctx;
        mt_context_init(&ctx, NULL);
        assert_int_equal(write_all(&ctx, place->directory, 160, most), MT_ERR_IO);
        assert_int_equal(workplace_entries(place), 0);
        assert_int_equal(ctx.live_bytes, 0);
    }
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct mt_checkpoint_writer writer;
    unsigned char data[128] = {0};
    assert_int_equal(mt_checkpoint_writer_open(&ctx, place->directory, specs, TENSORS, 160, &writer), MT_OK);
    assert_int_equal(mt_checkpoint_writer_write(&writer, data, 128), MT_OK);
    assert_int_equal(mt_checkpoint_writer_finish(&writer), MT_ERR_USAGE);
    assert_non_null(strstr(ctx.message, "tensor model.z has 0 of its 32 bytes"));
    assert_int_equal(workplace_entries(place), 0);
}

/* A full disk, played by a limit on the size of files. */
static void a_full_disk_leaves_nothing(void **state)
{
    const struct workplace *place = *state;
    struct rlimit old;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    void (*old_handler)(int) = signal(SIGXFSZ, SIG_IGN);
    struct rlimit small = {.rlim_cur = 600, .rlim_max = old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    enum mt_status status = write_all(&ctx, place->directory, 160, SIZE_MAX); // the second shard is larger
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    (void)signal(SIGXFSZ, old_handler);
    assert_int_equal(status, MT_ERR_IO);
    assert_int_equal(workplace_entries(place), 0);
    assert_int_equal(ctx.live_bytes, 0);
}

static enum mt_status write_and_read(struct mt_context *ctx, const void *self)
{
    const struct workplace *place = self;
    enum mt_status status = write_all(ctx, place->directory, 160, SIZE_MAX);
    if (status != MT_OK) {
        assert_int_equal(workplace_entries(place), 0);
        return status;
    }
    struct mt_checkpoint checkpoint;
    status = mt_checkpoint_open(ctx, place->directory, &checkpoint);
    if (status == MT_OK) mt_checkpoint_close(&checkpoint);
    workplace_clear(place);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    assert_every_allocation_may_fail(write_and_read, *state, 21);
}

// ------------------------------------------------------------------ index and shards that disagree

static void put_shard(const struct workplace *place, const char *name, const struct mt_safetensors_spec *list,
                      size_t count)
{
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    char path[128];
    unsigned char data[1024] = {0};
    struct mt_safetensors_writer writer;
    workplace_path(place, name, path, sizeof path);
    assert_int_equal(mt_safetensors_writer_open(&ctx, path, list, count, NULL, 0, &writer), MT_OK);
    while (writer.current < writer.spec_count) {
        assert_int_equal(mt_safetensors_writer_write(&writer, data, (size_t)writer.current_bytes), MT_OK);
    }
    assert_int_equal(mt_safetensors_writer_finish(&writer), MT_OK);
}

static void expect_refusal(const struct workplace *place, const char *index, enum mt_status expected,
                           const char *said)
{
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct mt_checkpoint checkpoint;
    assert_int_equal(workplace_write(place, MT_CHECKPOINT_INDEX, index, strlen(index)), 0);
    enum mt_status status = mt_checkpoint_open(&ctx, place->directory, &checkpoint);
    if (status != expected || strstr(ctx.message, said) == NULL) {
        fail_msg("%s: '%s', expected '%s'", index, ctx.message, said);
    }
    assert_int_equal(ctx.live_bytes, 0);
}

static void disagreements_are_refused(void **state)
{
    const struct workplace *place = *state;
    put_shard(place, "one.safetensors", specs, 2);
    put_shard(place, "two.safetensors", specs + 3, 1);
    expect_refusal(place, "{}", MT_ERR_FORMAT, "weight_map is missing");
    expect_refusal(place, "{\"weight_map\": {}}", MT_ERR_FORMAT, "is empty");
    expect_refusal(place, "{\"weight_map\": {\"a\": 1}}", MT_ERR_FORMAT, "weight_map.a is a whole number");
    expect_refusal(place, "{\"weight_map\": {\"a\": \"../x.safetensors\"}}", MT_ERR_FORMAT,
                   "outside the directory");
    expect_refusal(place, "{\"weight_map\": {\"a\": \"/etc/x.safetensors\"}}", MT_ERR_FORMAT,
                   "outside the directory");
    expect_refusal(place, "{\"weight_map\": {\"a\": \"config.json\"}}", MT_ERR_FORMAT,
                   "ending in .safetensors");
    expect_refusal(place, "{\"weight_map\": {\"a\": \".safetensors\"}}", MT_ERR_FORMAT,
                   "ending in .safetensors");
    expect_refusal(place, "{\"weight_map\": {\"a\": \"no.safetensors\"}}", MT_ERR_IO, "no.safetensors");
    expect_refusal(place, "{\"weight_map\": {\"model.a\": \"one.safetensors\"}}", MT_ERR_FORMAT,
                   "holds tensor model.z, which the index does not put there");
    expect_refusal(place,
                   "{\"weight_map\": {\"model.a\": \"one.safetensors\", \"model.z\": \"two.safetensors\","
                   " \"model.huge\": \"two.safetensors\"}}",
                   MT_ERR_FORMAT, "two.safetensors: has no tensor model.z");
    expect_refusal(place, "{\"weight_map\": {\"a\": \"one.safetensors\", \"a\": \"one.safetensors\"}}",
                   MT_ERR_FORMAT, "duplicate");
    expect_refusal(place, "{\"metadata\": {\"total_size\": 9223372036854775807}, \"weight_map\": {}}",
                   MT_ERR_FORMAT, "metadata.total_size is 9223372036854775807");
    expect_refusal(place, "{\"metadata\": 3, \"weight_map\": {\"a\": \"one.safetensors\"}}", MT_ERR_FORMAT,
                   "metadata is a whole number");
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct mt_checkpoint checkpoint;
    static const char good[] =
        "{\"metadata\": {\"total_size\": 672.0}, \"weight_map\": {\"model.a\": \"one.safetensors\","
        " \"model.z\": \"one.safetensors\", \"model.huge\": \"two.safetensors\"}}";
    assert_int_equal(workplace_write(place, MT_CHECKPOINT_INDEX, good, sizeof good - 1), 0);
    assert_int_equal(mt_checkpoint_open(&ctx, place->directory, &checkpoint), MT_OK);
    mt_checkpoint_close(&checkpoint);
    workplace_clear(place);
    assert_int_equal(mt_checkpoint_open(&ctx, place->directory, &checkpoint), MT_ERR_IO);
    assert_non_null(strstr(ctx.message, "has neither model.safetensors nor"));
}

/* An index cut or changed at any byte: read with plain names, or refused with a sentence. */
static void hostile_indexes(void **state)
{
    (void)state;
    char text[] = "{\"metadata\": {\"total_size\": 784}, \"weight_map\": {\"a\": \"m-1.safetensors\","
                  " \"b.c\": \"m-2.safetensors\", \"b.d\": \"m-1.safetensors\"}}";
    size_t count = sizeof text - 1;
    static const unsigned char flips[] = {0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xff};
    int accepted = 0;
    for (size_t i = 0; i < count; i++) {
        for (size_t f = 0; f <= sizeof flips; f++) {
            struct mt_context ctx;
            mt_context_init(&ctx, NULL);
            struct mt_checkpoint_index index;
            char original = text[i];
            size_t length = f == sizeof flips ? i : count; // the last of each turn is a cut
            if (f < sizeof flips) text[i] = (char)(original ^ (char)flips[f]);
            enum mt_status status = mt_checkpoint_index_read(&ctx, "index", text, length, &index);
            text[i] = original;
            if (status == MT_OK) {
                accepted++;
                for (size_t n = 0; n < index.name_count; n++)
                    assert_true(index.names[n].shard < index.shard_count);
                for (size_t s = 0; s < index.shard_count; s++) {
                    assert_null(strchr(index.shards[s], '/'));
                    assert_true(s == 0 || strcmp(index.shards[s - 1], index.shards[s]) < 0);
                }
                mt_checkpoint_index_free(&index);
            } else {
                assert_int_not_equal(strlen(ctx.message), 0);
            }
            assert_int_equal(ctx.live_bytes, 0);
        }
    }
    assert_true(accepted > 0);
}

/* As many tensors as the largest of the seven models has; lookup must not be a walk. */
static void many_tensors(void **state)
{
    const struct workplace *place = *state;
    size_t count = 20000;
    struct mt_safetensors_spec *list = calloc(count, sizeof *list);
    char(*names)[64] = calloc(count, sizeof *names);
    assert_non_null(list);
    assert_non_null(names);
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(names[i], sizeof names[i], "model.layers.%zu.mlp.experts.%zu.gate_proj.weight",
                       i / 384, i % 384);
        list[i] =
            (struct mt_safetensors_spec){.name = names[i], .dtype = MT_SAFETENSORS_U8, .rank = 1, .dim = {1}};
    }
    put_shard(place, "model.safetensors", list, count);
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct mt_checkpoint checkpoint;
    assert_int_equal(mt_checkpoint_open(&ctx, place->directory, &checkpoint), MT_OK);
    for (size_t i = 0; i < count; i++) assert_non_null(mt_checkpoint_find(&checkpoint, names[i]));
    print_message("%zu tensors: %zu kB\n", count, ctx.live_bytes / 1024);
    mt_checkpoint_close(&checkpoint);
    free(list);
    free(names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(shards_of_every_size, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(the_index_is_as_transformers_writes_it, workplace_open,
                                        workplace_close),
        cmocka_unit_test_setup_teardown(stopping_anywhere_leaves_nothing, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(a_full_disk_leaves_nothing, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(every_allocation_may_fail, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(disagreements_are_refused, workplace_open, workplace_close),
        cmocka_unit_test(hostile_indexes),
        cmocka_unit_test_setup_teardown(many_tensors, workplace_open, workplace_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
