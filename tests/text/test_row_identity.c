/* Rows by what they ask: the same in every form; files of hashes, and those that are not to be trusted. */
#include "text/row_identity.h"

#include <stdio.h>
#include <string.h>

#include "base/files/file.h"
#include "support/blocks.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"
#include "support/workplace.h"

static struct mt_row_identity identify(const char *line)
{
    struct mt_context ctx;
    struct mt_dataset *rows = NULL;
    struct mt_row row;
    struct mt_row_identifier identifier;
    struct mt_row_identity identity = {0};
    const struct mt_dataset_options options = {.format = MT_DATASET_JSONL};
    const struct mt_example_source source = {0};
    mt_context_init(&ctx, NULL);
    mt_row_init(&ctx, &row);
    mt_row_identifier_init(&ctx, &identifier);
    assert_int_equal(mt_dataset_open_memory(&ctx, "t", line, strlen(line), &options, &rows), MT_OK);
    assert_int_equal(mt_dataset_read(rows, 0, &row), MT_OK);
    if (mt_row_identify(&identifier, &source, &row, &identity) != MT_OK) fail_msg("%s", ctx.message);
    mt_row_identifier_free(&identifier);
    mt_row_free(&row);
    mt_dataset_close(rows);
    assert_int_equal(ctx.live_bytes, 0);
    return identity;
}

static void forms_do_not_matter(void **state)
{
    (void)state;
    static const char *const same[] = {
        "{\"prompt\": \"2 + 3 is\", \"completion\": \"5\"}",
        "{\"prompt\": \" 2  +\\n3 is \", \"completion\": \" 5\\n\"}",
        "{\"question\": \"2 + 3 is\", \"answer\": \"5\"}",
        "{\"instruction\": \"2 + 3\", \"input\": \"is\", \"output\": \"5\"}",
        "{\"messages\": [{\"role\": \"user\", \"content\": \"2 + 3 is\"}, {\"role\": \"assistant\", "
        "\"content\": "
        "\"5\"}]}",
        "{\"conversations\": [{\"from\": \"human\", \"value\": \"2 + 3 is\"}, {\"from\": \"gpt\", \"value\": "
        "\"5\"}]}",
        "{\"messages\": [{\"role\": \"system\", \"content\": \"2 +\"}, {\"role\": \"user\", \"content\": \"3 "
        "is\"}, "
        "{\"role\": \"assistant\", \"content\": \"5\"}]}",
    };
    struct mt_row_identity first = identify(same[0]);
    for (size_t i = 1; i < sizeof same / sizeof same[0]; i++) {
        struct mt_row_identity one = identify(same[i]);
        assert_true(one.asked == first.asked && one.all == first.all);
    }
    assert_true(first.asked == mt_row_hash("2 + 3 is", 8) && first.all == mt_row_hash("2 + 3 is 5", 10));
    // Another answer is the same question; another sign, digit or case is not.
    assert_true(identify("{\"prompt\": \"2 + 3 is\", \"completion\": \"6\"}").asked == first.asked);
    assert_true(identify("{\"prompt\": \"2 - 3 is\", \"completion\": \"5\"}").asked != first.asked);
    assert_true(identify("{\"prompt\": \"2 + 3 Is\", \"completion\": \"5\"}").asked != first.asked);
    // A text is all it says, and so is an answer to nothing.
    struct mt_row_identity text = identify("{\"text\": \"2 + 3 is\\n5\"}");
    assert_true(text.asked == first.all && text.all == first.all);
    struct mt_row_identity silent = identify("{\"prompt\": \" \", \"completion\": \"2 + 3 is 5\"}");
    assert_true(silent.asked == first.all);
    // What was read as a text is found where it is asked and answered.
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct mt_row_hashes set = {.ctx = &ctx};
    assert_false(mt_row_hashes_know(&set, &first));
    assert_int_equal(mt_row_hashes_add(&set, text.asked, NULL), MT_OK);
    assert_true(mt_row_hashes_know(&set, &first));
    mt_row_hashes_free(&set);
    // Turns before the last answer are asked.
    static const char turns[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": "
        "\"b\"}, "
        "{\"role\": \"user\", \"content\": \"c\"}, {\"role\": \"assistant\", \"content\": \"d\"}]}";
    assert_true(identify(turns).asked == mt_row_hash("a b c", 5));
}

static const char *path_of(const struct workplace *place, const char *name)
{
    static char path[256];
    return workplace_path(place, name, path, sizeof path);
}

static void write_file(struct mt_context *ctx, const struct workplace *place, const void *data, size_t bytes)
{
    assert_int_equal(mt_file_write_all(ctx, path_of(place, "rows"), data, bytes), MT_OK);
}

static enum mt_status read_file(struct mt_context *ctx, const struct workplace *place, const char *name)
{
    struct mt_row_hashes set = {.ctx = ctx};
    enum mt_status status = mt_row_hashes_add_file(&set, path_of(place, name));
    mt_row_hashes_free(&set);
    return status;
}

/* Every bit of the file counts, and every length but its own is refused. */
static void damage_is_noticed(void **state)
{
    const struct workplace *place = *state;
    struct mt_context ctx;
    void *memory = NULL;
    size_t bytes = 0;
    mt_context_init(&ctx, NULL);
    struct mt_row_hashes set = {.ctx = &ctx};
    for (uint64_t i = 0; i < 3000; i++)
        assert_int_equal(mt_row_hashes_add(&set, i * i * 0x9E3779B97F4A7C15u, NULL), MT_OK);
    assert_int_equal(set.count, 3000);
    assert_int_equal(mt_row_hashes_write(&set, path_of(place, "whole")), MT_OK);
    struct mt_row_hashes back = {.ctx = &ctx};
    assert_int_equal(mt_row_hashes_read(&back, path_of(place, "whole")), MT_OK);
    assert_int_equal(back.count, 3000);
    for (uint64_t i = 0; i < 3000; i++) assert_true(mt_row_hashes_has(&back, i * i * 0x9E3779B97F4A7C15u));
    assert_false(mt_row_hashes_has(&back, 42));
    mt_row_hashes_free(&back);
    mt_row_hashes_free(&set);
    for (uint64_t i = 1; i <= 5; i++) assert_int_equal(mt_row_hashes_add(&set, i << 40, NULL), MT_OK);
    assert_int_equal(mt_row_hashes_write(&set, path_of(place, "few")), MT_OK);
    assert_int_equal(mt_file_read_all(&ctx, path_of(place, "few"), 4096, &memory, &bytes), MT_OK);
    unsigned char *data = memory;
    for (size_t bit = 0; bit < 8 * bytes; bit++) {
        data[bit / 8] ^= (unsigned char)(1u << bit % 8);
        write_file(&ctx, place, data, bytes);
        assert_int_not_equal(mt_row_hashes_read(&set, path_of(place, "rows")), MT_OK);
        data[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    for (size_t length = 0; length < bytes; length++) {
        write_file(&ctx, place, data, length);
        assert_int_not_equal(mt_row_hashes_read(&set, path_of(place, "rows")), MT_OK);
    }
    // A checksum that is right does not make hashes rise.
    memcpy(data + 64, data + 72, 8);
    uint64_t sum = mt_row_hash(data + 64, bytes - 64);
    memcpy(data + 56, &sum, sizeof sum); // little-endian, as are the machines this runs on
    write_file(&ctx, place, data, bytes);
    assert_int_not_equal(mt_row_hashes_read(&set, path_of(place, "rows")), MT_OK);
    assert_non_null(strstr(ctx.message, "its hashes are not in rising order"));
    data[17] = '2';
    write_file(&ctx, place, data, bytes);
    assert_int_not_equal(read_file(&ctx, place, "rows"), MT_OK);
    assert_non_null(strstr(ctx.message, "of another version"));
    mt_release(&ctx, memory, bytes);
    mt_row_hashes_free(&set);
    assert_int_equal(ctx.live_bytes, 0);
}

static void files_of_rows(void **state)
{
    const struct workplace *place = *state;
    struct mt_context ctx;
    struct mt_rows_known known;
    static const char rows[] = "{\"prompt\": \"a\", \"completion\": \"1\"}\n{\"text\": \"b\"}\n"
                               "{\"prompt\": \"a\", \"completion\": \"2\"}\n";
    static const char others[] = "{\"prompt\": \"c\", \"completion\": \"1\"}\n{\"nothing\": 1}\n"
                                 "{\"question\": \" a\", \"answer\": \"3\"}\n{\"prompt\": \"a\", "
                                 "\"completion\": \"4\"}\n";
    mt_context_init(&ctx, NULL);
    struct mt_row_hashes set = {.ctx = &ctx};
    assert_int_equal(mt_file_write_all(&ctx, path_of(place, "rows.jsonl"), rows, strlen(rows)), MT_OK);
    assert_int_equal(mt_row_hashes_add_file(&set, path_of(place, "rows.jsonl")), MT_OK);
    assert_int_equal(set.count, 2);
    assert_int_equal(mt_file_write_all(&ctx, path_of(place, "rows.jsonl"), others, strlen(others)), MT_OK);
    assert_int_equal(mt_row_hashes_count(&set, path_of(place, "rows.jsonl"), &known), MT_OK);
    assert_int_equal(known.rows, 4);
    assert_int_equal(known.known, 2);
    assert_int_equal(known.line, 3);
    assert_string_equal(known.example.text, "a 3");
    // What is to be excluded has to be known to the last row.
    assert_int_equal(read_file(&ctx, place, "rows.jsonl"), MT_ERR_FORMAT);
    assert_non_null(strstr(ctx.message, "rows.jsonl:2: "));
    assert_int_equal(mt_file_write_all(&ctx, path_of(place, "rows.jsonl"), "\n", 1), MT_OK);
    assert_int_equal(read_file(&ctx, place, "rows.jsonl"), MT_ERR_USAGE);
    assert_non_null(strstr(ctx.message, "has no rows"));
    assert_int_not_equal(read_file(&ctx, place, "nowhere"), MT_OK);
    mt_row_hashes_free(&set);
    assert_int_equal(ctx.live_bytes, 0);
}

static enum mt_status add_and_write(struct mt_context *ctx, const void *self)
{
    const struct workplace *place = self;
    struct mt_row_hashes set = {.ctx = ctx};
    enum mt_status status = mt_row_hashes_add_file(&set, path_of(place, "whole"));
    if (status == MT_OK) status = mt_row_hashes_write(&set, path_of(place, "again"));
    mt_row_hashes_free(&set);
    return status;
}

static void memory_may_run_out(void **state)
{
    assert_every_allocation_may_fail(add_and_write, *state, 5);
}

/* Hashes of a file are its maker's to choose: none makes the table slow. */
static void no_hashes_collide_for_long(void **state)
{
    (void)state;
    enum { HASHES = 1 << 14, MOST_BLOCKS = 200 };
    for (int shift = 24; shift <= 48; shift += 8) {
        struct mt_context ctx;
        mt_context_init(&ctx, NULL);
        struct mt_row_hashes set = {.ctx = &ctx};
        uint64_t start = blocks_run();
        for (uint64_t i = 1; i <= HASHES; i++)
            assert_int_equal(mt_row_hashes_add(&set, i << shift, NULL), MT_OK);
        assert_in_range((blocks_run() - start) / HASHES, 1, MOST_BLOCKS);
        mt_row_hashes_free(&set);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms_do_not_matter), cmocka_unit_test(damage_is_noticed),
        cmocka_unit_test(files_of_rows),       cmocka_unit_test(no_hashes_collide_for_long),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, workplace_open, workplace_close);
}
