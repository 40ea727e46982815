/* The file of a timeline: every span, both ends of a sum, a place that is not there, memory. */
#include "train/log/timeline_file.h"

#include <stdio.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "support/failing_allocator.h"
#include "support/workplace.h"

/* A sum from 1 to 3 s, the last second of which is waited for, behind a backward from 0 to 2 s. */
static void note(struct mt_timeline *timeline)
{
    static const struct mt_span spans[] = {
        {.begin = 2.0, .end = 3.5, .kind = MT_SPAN_WAIT, .number = -1},
        {.begin = 0.0, .end = 2.0, .kind = MT_SPAN_BACKWARD, .number = 7},
        {.begin = 1.0, .end = 3.0, .kind = MT_SPAN_SUM, .number = 4},
    };
    timeline->count = sizeof spans / sizeof spans[0];
    timeline->lost = 5;
    memcpy(timeline->spans, spans, sizeof spans);
}

static enum mt_status write_one(struct mt_context *ctx, const char *path, struct mt_timeline_summary *summary)
{
    struct mt_comm *comm = NULL;
    struct mt_timeline *timeline = NULL;
    enum mt_status status = mt_comm_open_alone(ctx, &comm);
    if (status == MT_OK) status = mt_timeline_create(ctx, 8, &timeline);
    if (status == MT_OK) {
        note(timeline);
        status = mt_timeline_write(comm, timeline, path, summary);
    }
    mt_timeline_free(timeline);
    mt_comm_close(comm);
    return status;
}

static void whole_file(void **state)
{
    static const char expected[] =
        "[\n"
        "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":0,\"args\":{\"name\":\"rank 0\"}},\n"
        "{\"name\":\"backward 7\",\"cat\":\"backward\",\"ph\":\"X\",\"pid\":0,\"tid\":0,\"ts\":0.000,"
        "\"dur\":2000000.000},\n"
        "{\"name\":\"sum 4\",\"cat\":\"sum\",\"ph\":\"b\",\"id\":4,\"pid\":0,\"tid\":0,\"ts\":1000000.000},\n"
        "{\"name\":\"sum 4\",\"cat\":\"sum\",\"ph\":\"e\",\"id\":4,\"pid\":0,\"tid\":0,\"ts\":3000000.000},\n"
        "{\"name\":\"wait for sums\",\"cat\":\"wait for sums\",\"ph\":\"X\",\"pid\":0,\"tid\":0,"
        "\"ts\":2000000.000,\"dur\":1500000.000}\n"
        "]\n";
    struct mt_context ctx;
    struct mt_timeline_summary summary;
    char path[256];
    char text[2048];
    mt_context_init(&ctx, NULL);
    assert_int_equal(write_one(&ctx, workplace_path(*state, "line.json", path, sizeof path), &summary),
                     MT_OK);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t bytes = fread(text, 1, sizeof text - 1, file);
    (void)fclose(file);
    text[bytes] = '\0';
    assert_string_equal(text, expected);
    assert_int_equal(summary.spans, 3);
    assert_int_equal(summary.lost, 5);
    assert_true(summary.overlap.under_way == 2.0 && summary.overlap.waited == 1.0);
    assert_int_equal(ctx.live_bytes, 0);
}

static void nowhere(void **state)
{
    struct mt_context ctx;
    struct mt_timeline_summary summary;
    char path[256];
    mt_context_init(&ctx, NULL);
    (void)workplace_path(*state, "nowhere/line.json", path, sizeof path);
    assert_int_equal(write_one(&ctx, path, &summary), MT_ERR_IO);
    assert_non_null(strstr(ctx.message, "nowhere/line.json"));
    assert_int_equal(ctx.live_bytes, 0);
}

static void out_of_memory(void **state)
{
    char path[256];
    enum mt_status status = MT_ERR_MEMORY;
    (void)workplace_path(*state, "short.json", path, sizeof path);
    for (long n = 0; status != MT_OK; n++) {
        struct failing_allocator failing = {.fail_at = n};
        struct mt_allocator allocator = failing_allocator(&failing);
        struct mt_context ctx;
        struct mt_timeline_summary summary;
        mt_context_init(&ctx, &allocator);
        status = write_one(&ctx, path, &summary);
        assert_true(status == MT_OK || status == MT_ERR_MEMORY);
        assert_int_equal(ctx.live_bytes, 0);
        assert_true(n < 100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(whole_file, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(nowhere, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(out_of_memory, workplace_open, workplace_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
