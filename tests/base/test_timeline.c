/* Timelines: what is noted, what does not fit, and how much of sums was hidden. */
#include "base/timeline.h"

#include "base/clock.h"
#include "support/cmocka_all.h"
#include "support/failing_allocator.h"

static void notes_until_full(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_timeline *timeline = NULL;
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_timeline_create(&ctx, 2, &timeline), MT_OK);
    double began = mt_timeline_now(timeline);
    for (int i = 0; i < 5; i++) mt_timeline_add(timeline, MT_SPAN_BACKWARD, i, began);
    assert_int_equal(timeline->count, 2);
    assert_int_equal(timeline->lost, 3);
    assert_int_equal(timeline->spans[1].number, 1);
    assert_int_equal(timeline->spans[1].kind, MT_SPAN_BACKWARD);
    assert_true(timeline->spans[1].begin == began && timeline->spans[1].end >= began);
    mt_timeline_begin(timeline);
    assert_true(timeline->count == 0 && timeline->lost == 0);
    mt_timeline_free(timeline);
    assert_int_equal(ctx.live_bytes, 0);
    // Nobody asked for one.
    mt_timeline_begin(NULL);
    mt_timeline_add(NULL, MT_SPAN_SUM, 0, mt_timeline_now(NULL));
    mt_timeline_free(NULL);
}

/* Both ends are known later, of which the clock's time is told. */
static void reserves(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_timeline *timeline = NULL;
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_timeline_create(&ctx, 1, &timeline), MT_OK);
    struct mt_span *span = mt_timeline_reserve(timeline, MT_SPAN_SUM, 7);
    assert_non_null(span);
    double before = mt_timeline_now(timeline);
    span->begin += mt_clock_seconds();
    span->end += mt_clock_seconds();
    assert_true(before <= span->begin && span->begin <= span->end && span->end <= mt_timeline_now(timeline));
    assert_true(span->kind == MT_SPAN_SUM && span->number == 7);
    assert_null(mt_timeline_reserve(timeline, MT_SPAN_SUM, 8));
    assert_true(timeline->count == 1 && timeline->lost == 1);
    mt_timeline_free(timeline);
    assert_null(mt_timeline_reserve(NULL, MT_SPAN_SUM, 0));
}

static void out_of_memory(void **state)
{
    (void)state;
    for (long n = 0; n < 2; n++) {
        struct failing_allocator failing = {.fail_at = n};
        struct mt_allocator allocator = failing_allocator(&failing);
        struct mt_context ctx;
        struct mt_timeline *timeline = NULL;
        mt_context_init(&ctx, &allocator);
        assert_int_equal(mt_timeline_create(&ctx, 8, &timeline), MT_ERR_MEMORY);
        assert_null(timeline);
        assert_int_equal(ctx.live_bytes, 0);
    }
}

static void names(void **state)
{
    (void)state;
    assert_string_equal(mt_span_name(MT_SPAN_FORWARD), "forward");
    assert_string_equal(mt_span_name(MT_SPAN_SUM), "sum");
    assert_string_equal(mt_span_name(-1), "unknown");
    assert_string_equal(mt_span_name(MT_SPAN_KINDS), "unknown");
}

/* Two steps: sums from 2 to 5 and from 4 to 7, of which 6 to 7 is waited for; then one that is not waited
 * for. */
static void overlap(void **state)
{
    (void)state;
    struct mt_span spans[] = {
        {.begin = 16.0, .end = 17.0, .kind = MT_SPAN_WAIT},
        {.begin = 4.0, .end = 7.0, .kind = MT_SPAN_SUM, .number = 2},
        {.begin = 0.0, .end = 6.0, .kind = MT_SPAN_BACKWARD},
        {.begin = 6.0, .end = 7.5, .kind = MT_SPAN_WAIT},
        {.begin = 2.0, .end = 5.0, .kind = MT_SPAN_SUM, .number = 1},
        {.begin = 12.0, .end = 15.0, .kind = MT_SPAN_SUM, .number = 1},
        // Rows from 20 to 24 and, in the other parcel, to 25; one second of each is waited for. Counts are
        // not rows.
        {.begin = 21.0, .end = 25.0, .kind = MT_SPAN_ROWS, .number = 1},
        {.begin = 20.0, .end = 24.0, .kind = MT_SPAN_ROWS, .number = 0},
        {.begin = 23.0, .end = 24.0, .kind = MT_SPAN_EXCHANGE, .number = 0},
        {.begin = 24.0, .end = 25.0, .kind = MT_SPAN_EXCHANGE, .number = 1},
        {.begin = 26.0, .end = 27.0, .kind = MT_SPAN_EXCHANGE, .number = -1},
    };
    size_t count = sizeof spans / sizeof spans[0];
    struct mt_overlap found = mt_timeline_overlap(spans, count);
    assert_true(found.under_way == 8.0);
    assert_true(found.waited == 1.0);
    assert_true(found.rows_under_way == 5.0 && found.rows_waited == 2.0);
    for (size_t i = 1; i < count; i++) assert_true(spans[i - 1].begin <= spans[i].begin);
    found = mt_timeline_overlap(NULL, 0);
    assert_true(found.under_way == 0.0 && found.waited == 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(notes_until_full), cmocka_unit_test(reserves),
        cmocka_unit_test(out_of_memory),    cmocka_unit_test(names),
        cmocka_unit_test(overlap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
