/*
 * What several ranks make of one task: shares of samples, and parts of a file that become one. Tests
 * src/eval/run/sample_parts.c.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/files/file.h"
#include "eval/run/sample_parts.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"
#include "support/workplace.h"

#define PIECES 500

/* Every piece has one owner, and the totals differ by no more than a piece. */
static void shares_are_even(void **state)
{
    (void)state;
    struct mt_context ctx;
    uint64_t sizes[PIECES];
    int32_t owner[PIECES];
    mt_context_init(&ctx, NULL);
    for (size_t i = 0; i < PIECES; i++) sizes[i] = i % 10 == 0 ? 0 : (i * 7919) % 1000 + 1;
    for (int shares = 1; shares <= 7; shares++) {
        uint64_t totals[7] = {0};
        assert_int_equal(mt_shares_make(&ctx, sizes, PIECES, shares, owner), MT_OK);
        for (size_t i = 0; i < PIECES; i++) {
            assert_true(owner[i] < shares && (owner[i] < 0) == (sizes[i] == 0));
            if (owner[i] >= 0) totals[owner[i]] += sizes[i];
        }
        for (int a = 0; a < shares; a++)
            for (int b = 0; b < shares; b++) assert_true(totals[a] <= totals[b] + 1000);
    }
    assert_int_equal(ctx.live_bytes, 0);
}

/* More ranks than samples, and no samples at all. */
static void few_pieces(void **state)
{
    (void)state;
    struct mt_context ctx;
    const uint64_t sizes[2] = {5, 9};
    int32_t owner[2] = {7, 7};
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_shares_make(&ctx, sizes, 2, 4, owner), MT_OK);
    assert_true(owner[1] == 0 && owner[0] == 1); // the larger one first
    assert_int_equal(mt_shares_make(&ctx, sizes, 0, 4, owner), MT_OK);
    assert_int_equal(ctx.live_bytes, 0);
}

static void write_text(const struct workplace *place, const char *name, const char *text)
{
    assert_int_equal(workplace_write(place, name, text, strlen(text)), 0);
}

static void expect_file(struct mt_context *ctx, const struct workplace *place, const char *name,
                        const char *text)
{
    char path[256];
    void *data = NULL;
    size_t bytes = 0;
    (void)workplace_path(place, name, path, sizeof path);
    assert_int_equal(mt_file_read_all(ctx, path, 1 << 20, &data, &bytes), MT_OK);
    assert_int_equal(bytes, strlen(text));
    assert_memory_equal(data, text, bytes);
    mt_release(ctx, data, bytes);
}

#define LINE(number, rest) "{\"doc_id\": " #number ", \"id\": \"" rest "\"}\n"

static void write_parts(const struct workplace *place)
{
    workplace_clear(place);
    write_text(place, "samples_sums.jsonl", LINE(4, "a") LINE(1, "old prompt") LINE(10, "b") "{\"torn");
    static const char zeros[] = LINE(2, "c") LINE(0, "d") "{\"doc_id\": 3, \"to\0\0\n" LINE(5, "after");
    assert_int_equal(workplace_write(place, "part_1_sums.jsonl", zeros, sizeof zeros - 1), 0);
    write_text(place, "part_12_sums.jsonl", LINE(1, "new prompt") LINE(4, "a"));
    write_text(place, "part_2_sums_more.jsonl", LINE(0, "of another task"));
    write_text(place, "part_0_sums.jsonl", "no part of ours");
    write_text(place, "part_x_sums.jsonl", "neither");
}

static const char joined[] =
    LINE(0, "d") LINE(1, "old prompt") LINE(1, "new prompt") LINE(2, "c") LINE(4, "a") LINE(10, "b");

/* In the order of samples; torn lines and the same line twice are gone, and the parts with them. */
static void parts_become_one(void **state)
{
    const struct workplace *place = *state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    write_parts(place);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(mt_sample_parts_collect(&ctx, place->directory, "sums"), MT_OK);
        expect_file(&ctx, place, "samples_sums.jsonl", joined);
        assert_int_equal(workplace_entries(place), 4);
    }
    expect_file(&ctx, place, "part_2_sums_more.jsonl", LINE(0, "of another task"));
    // Without any file there is nothing to do.
    workplace_clear(place);
    assert_int_equal(mt_sample_parts_collect(&ctx, place->directory, "sums"), MT_OK);
    assert_int_equal(workplace_entries(place), 0);
    assert_int_equal(mt_sample_parts_collect(&ctx, "/nowhere", "sums"), MT_ERR_IO);
    assert_int_equal(ctx.live_bytes, 0);
}

/* A file that is in order already is not written again. */
static void sorted_files_stay(void **state)
{
    const struct workplace *place = *state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    workplace_clear(place);
    write_text(place, "samples_sums.jsonl", LINE(0, "a") LINE(7, "b") "{\"doc_id\": 8, \"torn");
    assert_int_equal(mt_sample_parts_collect(&ctx, place->directory, "sums"), MT_OK);
    expect_file(&ctx, place, "samples_sums.jsonl", LINE(0, "a") LINE(7, "b") "{\"doc_id\": 8, \"torn");
    assert_int_equal(ctx.live_bytes, 0);
}

/* What is damaged is named where it lies, and everything stays. */
static void damage_stays(void **state)
{
    static const char damaged[] = LINE(0, "a") "what\n" LINE(1, "b");
    const struct workplace *place = *state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    workplace_clear(place);
    write_text(place, "samples_sums.jsonl", damaged);
    assert_int_equal(mt_sample_parts_collect(&ctx, place->directory, "sums"), MT_ERR_FORMAT);
    assert_non_null(strstr(ctx.message, "samples_sums.jsonl:2"));
    expect_file(&ctx, place, "samples_sums.jsonl", damaged);
    write_text(place, "samples_sums.jsonl", LINE(3, "c"));
    write_text(place, "part_2_sums.jsonl", damaged);
    assert_int_equal(mt_sample_parts_collect(&ctx, place->directory, "sums"), MT_ERR_FORMAT);
    assert_non_null(strstr(ctx.message, "part_2_sums.jsonl:2"));
    expect_file(&ctx, place, "samples_sums.jsonl", LINE(3, "c"));
    expect_file(&ctx, place, "part_2_sums.jsonl", damaged);
    assert_int_equal(ctx.live_bytes, 0);
}

static enum mt_status collect(struct mt_context *ctx, const void *self)
{
    const struct workplace *place = self;
    write_parts(place);
    return mt_sample_parts_collect(ctx, place->directory, "sums");
}

static void test_memory(void **state)
{
    assert_every_allocation_may_fail(collect, *state, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_are_even),  cmocka_unit_test(few_pieces),
        cmocka_unit_test(parts_become_one), cmocka_unit_test(sorted_files_stay),
        cmocka_unit_test(damage_stays),     cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, workplace_open, workplace_close);
}
