/* Parquet and Arrow: golden files of pyarrow's, hostile ones, shards. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/columnar/columnar.h"
#include "formats/columnar/unpack.h"
#include "formats/data/dataset.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"
#include "support/workplace.h"

static const char *const golden[] = {
    "nested_v1.parquet", "nested_v2.parquet", "values.parquet",      "values_gzip.parquet",
    "int96.parquet",     "deltas.parquet",    "lengths.parquet",     "nested.arrow",
    "values.arrow",      "dictionary.arrow",  "nested_stream.arrow",
};
#define GOLDEN_COUNT (sizeof golden / sizeof golden[0])

struct bytes {
    uint8_t *data;
    size_t count;
};

static const char *golden_path(const char *name, char *path, size_t bytes)
{
    const char *folder = getenv("METIER_GOLDEN");
    (void)snprintf(path, bytes, "%s/columnar/%s", folder != NULL ? folder : "tests/formats/golden", name);
    return path;
}

static struct bytes read_golden(const char *name)
{
    char path[4096];
    struct mt_context ctx;
    struct mt_file_mapping mapping = {0};
    mt_context_init(&ctx, NULL);
    if (mt_file_map(&ctx, golden_path(name, path, sizeof path), &mapping) != MT_OK)
        fail_msg("%s", ctx.message);
    struct bytes read = {.data = malloc(mapping.bytes + 1), .count = mapping.bytes};
    assert_non_null(read.data);
    memcpy(read.data, mapping.data, mapping.bytes);
    mt_file_unmap(&mapping);
    return read;
}

static enum mt_dataset_format format_of(const char *name)
{
    enum mt_dataset_format format = mt_dataset_format_of(name);
    assert_true(format == MT_DATASET_PARQUET || format == MT_DATASET_ARROW);
    return format;
}

/* Two texts of JSON that say the same, whatever their spaces. */
static void expect_same(const char *name, const struct mt_row *ours, const struct mt_row *theirs)
{
    struct mt_json first = {0};
    struct mt_json second = {0};
    struct mt_context *ctx = ours->ctx;
    assert_int_equal(mt_json_parse(ctx, "a", ours->source, ours->source_bytes, &mt_json_file_limits, &first),
                     MT_OK);
    assert_int_equal(
        mt_json_parse(ctx, "b", theirs->source, theirs->source_bytes, &mt_json_file_limits, &second), MT_OK);
    if (!json_equal(first.root, second.root))
        fail_msg("%s:%d: %.*s is not %.*s", name, (int)ours->line, (int)ours->source_bytes, ours->source,
                 (int)theirs->source_bytes, theirs->source);
    mt_json_free(&first);
    mt_json_free(&second);
}

// ------------------------------------------------------------------ golden files

static void test_golden(void **state)
{
    (void)state;
    static const struct mt_dataset_options options = {0};
    for (size_t i = 0; i < GOLDEN_COUNT; i++) {
        char path[4096];
        char rows[4200];
        struct mt_context ctx;
        struct mt_dataset *ours = NULL;
        struct mt_dataset *theirs = NULL;
        struct mt_row row;
        struct mt_row right;
        mt_context_init(&ctx, NULL);
        mt_row_init(&ctx, &row);
        mt_row_init(&ctx, &right);
        (void)snprintf(rows, sizeof rows, "%s.jsonl", golden_path(golden[i], path, sizeof path));
        if (mt_dataset_open(&ctx, path, &options, &ours) != MT_OK) fail_msg("%s", ctx.message);
        if (mt_dataset_open(&ctx, rows, &options, &theirs) != MT_OK) fail_msg("%s", ctx.message);
        assert_true(mt_dataset_rows(ours) > 0);
        assert_int_equal(mt_dataset_rows(ours), mt_dataset_rows(theirs));
        for (uint64_t k = mt_dataset_rows(ours); k > 0; k--) { // in any order
            if (mt_dataset_read(ours, k - 1, &row) != MT_OK) fail_msg("%s", ctx.message);
            assert_int_equal(mt_dataset_read(theirs, k - 1, &right), MT_OK);
            assert_int_equal(row.line, k);
            expect_same(golden[i], &row, &right);
        }
        mt_row_free(&row);
        mt_row_free(&right);
        mt_dataset_close(ours);
        mt_dataset_close(theirs);
        assert_int_equal(ctx.live_bytes, 0);
    }
}

// ------------------------------------------------------------------ hostile files

/* Opens bytes and reads what there is; nothing may be left behind. */
static enum mt_status read_bytes(struct mt_context *ctx, enum mt_dataset_format format, const uint8_t *data,
                                 size_t count)
{
    const struct mt_dataset_options options = {.format = format, .max_unpacked = 1 << 20};
    struct mt_dataset *dataset = NULL;
    struct mt_row row;
    enum mt_status status = mt_dataset_open_memory(ctx, "hostile", data, count, &options, &dataset);
    if (status != MT_OK) return status;
    mt_row_init(ctx, &row);
    for (uint64_t i = 0; i < mt_dataset_rows(dataset) && i < 100; i++)
        (void)mt_dataset_read(dataset, i, &row);
    mt_row_free(&row);
    mt_dataset_close(dataset);
    return MT_OK;
}

/* Cut off anywhere, a file is refused in words; it lies at the end of its memory, where the sanitizers look.
 */
static void test_truncated(void **state)
{
    (void)state;
    for (size_t i = 0; i < GOLDEN_COUNT; i++) {
        struct bytes whole = read_golden(golden[i]);
        for (size_t count = 0; count < whole.count; count++) {
            struct mt_context ctx;
            uint8_t *part = malloc(count > 0 ? count : 1);
            assert_non_null(part);
            memcpy(part, whole.data, count);
            mt_context_init(&ctx, NULL);
            enum mt_status status = read_bytes(&ctx, format_of(golden[i]), part, count);
            if (status != MT_ERR_FORMAT)
                fail_msg("%s cut to %zu bytes gave status %d", golden[i], count, status);
            assert_memory_equal(ctx.message, "hostile: ", 9);
            assert_int_equal(ctx.live_bytes, 0);
            free(part);
        }
        free(whole.data);
    }
}

/* Every byte as 0, 0x7F, 0x80 and 0xFF: read or refused in words, and nothing worse. */
static void test_changed(void **state)
{
    (void)state;
    static const uint8_t worse[] = {0x00, 0x7F, 0x80, 0xFF};
    size_t refused = 0;
    for (size_t i = 0; i < GOLDEN_COUNT; i++) {
        struct bytes file = read_golden(golden[i]);
        for (size_t at = 0; at < file.count * sizeof worse; at++) {
            struct mt_context ctx;
            uint8_t kept = file.data[at / sizeof worse];
            file.data[at / sizeof worse] = worse[at % sizeof worse];
            mt_context_init(&ctx, NULL);
            enum mt_status status = read_bytes(&ctx, format_of(golden[i]), file.data, file.count);
            assert_true(status == MT_OK || ctx.message[0] != '\0');
            assert_true(status == MT_OK || status == MT_ERR_FORMAT);
            assert_int_equal(ctx.live_bytes, 0);
            refused += status != MT_OK;
            file.data[at / sizeof worse] = kept;
        }
        free(file.data);
    }
    assert_true(refused > 1000);
}

static enum mt_status read_again(struct mt_context *ctx, const void *self)
{
    static const struct mt_dataset_options options = {0};
    struct mt_dataset *dataset = NULL;
    char path[4096];
    enum mt_status status = mt_dataset_open(ctx, golden_path(self, path, sizeof path), &options, &dataset);
    mt_dataset_close(dataset);
    return status;
}

static void test_memory(void **state)
{
    (void)state;
    for (size_t i = 0; i < GOLDEN_COUNT; i++) assert_every_allocation_may_fail(read_again, golden[i], 5);
}

/* Sizes that are stated and not there are refused before memory is taken for them. */
static void test_bombs(void **state)
{
    (void)state;
    static const uint8_t few[16] = {0};
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct mt_byte_list to = {.ctx = &ctx};
    for (int packing = MT_PACKING_NONE; packing <= MT_PACKING_LZ4_FRAME; packing++) {
        static const uint64_t sizes[] = {UINT64_MAX, (uint64_t)1 << 40, MT_UNPACKED_MOST + 1,
                                         MT_UNPACKED_MOST};
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            enum mt_status status =
                mt_unpack((enum mt_packing)packing, few, sizeof few, sizes[i], &to, "page");
            assert_int_equal(status, MT_ERR_FORMAT);
            assert_memory_equal(ctx.message, "page: ", 6);
            assert_int_equal(ctx.peak_bytes, 0);
        }
        // A size that could be is held to.
        assert_int_equal(mt_unpack((enum mt_packing)packing, few, sizeof few, 17, &to, "page"),
                         MT_ERR_FORMAT);
        mt_byte_list_free(&to);
        mt_context_init(&ctx, NULL);
    }
}

/* Snappy's pieces, by hand: a literal, copies of each kind, one that runs into itself; and broken ones. */
static void test_snappy(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t count;
        const char *text; // NULL: refused
    } cases[] = {
        {"\x03\x08"
         "abc",
         5, "abc"},
        {"\x07\x08"
         "abc\x01\x03",
         7, "abcabca"},
        {"\x06\x00"
         "a\x12\x01\x00",
         6, "aaaaaa"},
        {"\x06\x00"
         "a\x13\x01\x00\x00\x00",
         8, "aaaaaa"},
        {"\x04\xF0\x03"
         "abcd",
         7, "abcd"},
        {"\x03\x08"
         "ab",
         4, NULL},
        {"\x06\x00"
         "a\x12\x02\x00",
         6, NULL},
        {"\x06\x00"
         "a\x12\x00\x00",
         6, NULL},
        {"\x06\x00"
         "a\x16\x01\x00",
         6, NULL},
        {"\x06\xFC\xFF\xFF\xFF\xFF"
         "a",
         7, NULL},
        {"\x86", 1, NULL},
    };
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mt_byte_list to = {.ctx = &ctx};
        size_t length = cases[i].text != NULL ? strlen(cases[i].text) : (uint8_t)cases[i].bytes[0];
        enum mt_status status = mt_unpack(MT_PACKING_SNAPPY, (const uint8_t *)cases[i].bytes, cases[i].count,
                                          length, &to, "page");
        if ((status == MT_OK) != (cases[i].text != NULL)) fail_msg("case %zu: status %d", i, status);
        if (status == MT_OK) assert_memory_equal(to.data, cases[i].text, length);
        mt_byte_list_free(&to);
    }
}

// ------------------------------------------------------------------ what is not read

static void expect_refused(enum mt_dataset_format format, const char *data, size_t count, const char *words)
{
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    assert_int_equal(read_bytes(&ctx, format, (const uint8_t *)data, count), MT_ERR_FORMAT);
    if (strstr(ctx.message, words) == NULL) fail_msg("%s: no '%s'", ctx.message, words);
}

static void test_refused(void **state)
{
    (void)state;
    expect_refused(MT_DATASET_PARQUET, "", 0, "is no Parquet file");
    expect_refused(MT_DATASET_PARQUET, "{\"a\": 1}\n{\"a\": 2}\n", 18, "is no Parquet file");
    expect_refused(MT_DATASET_PARQUET, "PAR1\x00\x00\x00\x00PARE", 12, "is encrypted");
    expect_refused(MT_DATASET_PARQUET, "PAR1\xFF\xFF\xFF\x7FPAR1", 12, "footer is longer than the file");
    expect_refused(MT_DATASET_ARROW, "", 0, "is empty");
    expect_refused(MT_DATASET_ARROW, "FEA1....FEA1", 12, "Feather file of the first version");
    expect_refused(MT_DATASET_ARROW, "ARROW1\0\0\0\0\0\0", 12, "does not end as an Arrow file");
    expect_refused(MT_DATASET_ARROW, "\xFF\xFF\xFF\xFF\0\0\0\0", 8, "has no schema");
}

// ------------------------------------------------------------------ limits and shards

/* A row longer than the limit is the row's own failure, as in every format. */
static void test_long_row(void **state)
{
    (void)state;
    const struct mt_dataset_options options = {.format = MT_DATASET_PARQUET, .max_row_bytes = 60};
    struct bytes file = read_golden("nested_v1.parquet");
    struct mt_context ctx;
    struct mt_dataset *dataset = NULL;
    struct mt_row row;
    mt_context_init(&ctx, NULL);
    mt_row_init(&ctx, &row);
    assert_int_equal(mt_dataset_open_memory(&ctx, "f", file.data, file.count, &options, &dataset), MT_OK);
    assert_int_equal(mt_dataset_rows(dataset), 4);
    assert_int_equal(mt_dataset_read(dataset, 0, &row), MT_ERR_FORMAT);
    assert_non_null(strstr(ctx.message, "f:1: a row of 61 bytes, the limit is 60"));
    assert_int_equal(mt_dataset_read(dataset, 1, &row), MT_OK);
    mt_row_free(&row);
    mt_dataset_close(dataset);
    free(file.data);
}

static void lay_shard(const struct workplace *place, const char *name, const struct bytes *file)
{
    assert_int_equal(workplace_write(place, name, (const char *)file->data, file->count), 0);
}

static enum mt_status open_shards(struct mt_context *ctx, const struct workplace *place, const char *pattern,
                                  uint64_t *rows)
{
    static const struct mt_dataset_options options = {0};
    char path[4096];
    struct mt_dataset *dataset = NULL;
    mt_context_init(ctx, NULL);
    enum mt_status status =
        mt_dataset_open(ctx, workplace_path(place, pattern, path, sizeof path), &options, &dataset);
    *rows = status == MT_OK ? mt_dataset_rows(dataset) : 0;
    mt_dataset_close(dataset);
    return status;
}

static void test_shards(void **state)
{
    const struct workplace *place = *state;
    struct bytes file = read_golden("deltas.parquet"); // of 24 rows
    struct mt_context ctx;
    uint64_t rows = 0;
    char path[4096];
    lay_shard(place, "train-00000-of-00003.parquet", &file);
    lay_shard(place, "train-00002-of-00003.parquet", &file);
    lay_shard(place, "test-00000-of-00001.parquet", &file);
    assert_int_equal(open_shards(&ctx, place, "test-*.parquet", &rows), MT_OK);
    assert_int_equal(rows, 24);
    assert_int_equal(open_shards(&ctx, place, "train-*.parquet", &rows), MT_ERR_USAGE);
    assert_non_null(strstr(ctx.message, "train-00001-of-00003 is missing"));
    lay_shard(place, "train-00001-of-00003.parquet", &file);
    assert_int_equal(open_shards(&ctx, place, "train-*.parquet", &rows), MT_OK);
    assert_int_equal(rows, 72);
    assert_int_equal(open_shards(&ctx, place, "train-00000-of-00003.parquet", &rows), MT_OK); // one by name
    assert_int_equal(rows, 24);
    lay_shard(place, "train-00003-of-00004.parquet", &file);
    assert_int_equal(open_shards(&ctx, place, "train-*.parquet", &rows), MT_ERR_USAGE);
    assert_non_null(strstr(ctx.message, "shards of two sets, one of 3 files and one of 4"));
    // Lines are joined, too; what a * cannot stand for is refused.
    assert_int_equal(workplace_write(place, "a1.jsonl", "{\"a\": 1}", 8), 0);
    assert_int_equal(workplace_write(place, "a2.jsonl", "{\"a\": 2}\n", 9), 0);
    assert_int_equal(open_shards(&ctx, place, "a*.jsonl", &rows), MT_OK);
    assert_int_equal(rows, 2);
    assert_int_equal(open_shards(&ctx, place, "a*.csv", &rows), MT_ERR_USAGE);
    assert_int_equal(open_shards(&ctx, place, "b*.jsonl", &rows), MT_ERR_IO);
    assert_true(mt_dataset_exists(workplace_path(place, "a*.jsonl", path, sizeof path)));
    assert_false(mt_dataset_exists(workplace_path(place, "b*.jsonl", path, sizeof path)));
    free(file.data);
    workplace_clear(place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_changed),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_bombs),
        cmocka_unit_test(test_snappy),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_long_row),
        cmocka_unit_test_setup_teardown(test_shards, workplace_open, workplace_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
