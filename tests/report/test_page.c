/* Building pages: columns, labels, ids, broken texts, thinning, memory. */
#include "report/page.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/axis.h"
#include "report/output.h"
#include "report/thin.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"

static struct mt_figure *lines(struct mt_page *page)
{
    return mt_page_figure(page, &(struct mt_figure_head){.kind = MT_FIGURE_LINES,
                                                         .title = "Loss",
                                                         .meaning = "m",
                                                         .formula = "f",
                                                         .series = "run",
                                                         .x = "step",
                                                         .y = "L",
                                                         .band = true});
}

static enum mt_status build(struct mt_context *ctx, const void *self)
{
    (void)self;
    struct mt_page page;
    mt_page_init(&page, ctx, "Title");
    mt_page_subtitle(&page, "Subtitle");
    mt_page_card(&page, "a", "1", "note");
    mt_page_section(&page, "One");
    mt_page_text(&page, "text %d", 7);
    struct mt_figure *figure = lines(&page);
    for (int i = 0; i < 40; i++) mt_figure_range(figure, i % 2 ? "a" : "b", i, i * i, i - 1, i + 1);
    struct mt_figure *table = mt_page_figure(&page, &(struct mt_figure_head){.title = "Table"});
    mt_figure_column(table, MT_COLUMN_LABEL, "key");
    mt_figure_column(table, MT_COLUMN_NUMBER, "value");
    mt_figure_text(table, "x");
    mt_figure_number(table, (double)NAN);
    enum mt_status status = mt_page_status(&page);
    mt_page_free(&page);
    return status;
}

static void test_columns(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_page page;
    mt_context_init(&ctx, NULL);
    mt_page_init(&page, &ctx, "Title");
    struct mt_figure *figure = lines(&page); // without a section: a nameless one is made
    mt_figure_point(figure, "b", 1, 2);
    mt_figure_range(figure, "a", 2, 3, 2.5, 3.5);
    mt_figure_point(figure, "b", 3, 4);
    assert_int_equal(mt_page_status(&page), MT_OK);
    assert_int_equal(mt_figure_rows(figure), 3);
    assert_int_equal(figure->column_count, 5);
    assert_int_equal(figure->column[0].level_count, 2);
    assert_string_equal(mt_column_text(&figure->column[0], 2), "b"); // in order of appearance
    assert_string_equal(figure->column[0].levels[1], "a");
    assert_true(isnan(figure->column[3].numbers[0]) && figure->column[4].numbers[1] == 3.5);
    mt_page_free(&page);
    assert_int_equal(ctx.live_bytes, 0);
}

static void test_ids_and_texts(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_page page;
    mt_context_init(&ctx, NULL);
    mt_page_init(&page, &ctx, "bad \xff byte");
    assert_string_equal(page.title, "bad \xef\xbf\xbd byte");
    const struct mt_figure *one = lines(&page);
    const struct mt_figure *two = lines(&page);
    const struct mt_figure *path =
        mt_page_figure(&page, &(struct mt_figure_head){.title = "../../etc/passwd \n"});
    const struct mt_figure *none = mt_page_figure(&page, &(struct mt_figure_head){.title = "Größe…"});
    const struct mt_figure *empty = mt_page_figure(&page, &(struct mt_figure_head){0});
    assert_string_equal(one->id, "loss");
    assert_string_equal(two->id, "loss-2");
    assert_string_equal(path->id, "etc-passwd");
    assert_string_equal(none->id, "gr-e");
    assert_string_equal(empty->id, "x"); // as the nameless section, which is no figure
    mt_page_free(&page);
    assert_int_equal(ctx.live_bytes, 0);
}

/* A series has one colour on a page, whatever figure it is in and whoever came before; an expert its
 * number's. */
static void test_colours(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_page page;
    mt_context_init(&ctx, NULL);
    mt_page_init(&page, &ctx, "Title");
    struct mt_figure *one = lines(&page);
    struct mt_figure *two = lines(&page);
    const struct mt_figure_head bars = {.kind = MT_FIGURE_BARS, .title = "b", .series = "domain"};
    const struct mt_figure_head scatter = {.kind = MT_FIGURE_SCATTER, .title = "s", .series = "expert"};
    struct mt_figure *other = mt_page_figure(&page, &bars);
    mt_figure_point(one, "a", 1, 1);
    mt_figure_point(one, "b", 1, 1);
    mt_figure_point(two, "b", 1, 1); // a run without the other
    mt_figure_point(two, "c", 1, 1);
    mt_figure_bar(other, "b", "x", 1, 1, 1); // another kind of series
    assert_int_equal(mt_figure_colour(one, 0), 0);
    assert_int_equal(mt_figure_colour(one, 1), 1);
    assert_int_equal(mt_figure_colour(two, 0), 1);
    assert_int_equal(mt_figure_colour(two, 1), 2);
    assert_int_equal(mt_figure_colour(other, 0), 0);
    assert_int_equal(mt_figure_kindred(two), 3);
    struct mt_figure *tokens = mt_page_figure(&page, &scatter);
    struct mt_figure *others = mt_page_figure(&page, &scatter);
    static const int first[] = {13, 2, 5};
    static const int second[] = {5, 18, 13, 2}; // the other way round; 18 is the colour of 2, which is taken
    for (size_t i = 0; i < 3; i++) mt_figure_expert(tokens, first[i], 0, 0);
    for (size_t i = 0; i < 4; i++) mt_figure_expert(others, second[i], 0, 0);
    for (size_t i = 0; i < 3; i++) assert_int_equal(mt_figure_colour(tokens, i), first[i]);
    assert_int_equal(mt_figure_colour(others, 0), 5);
    assert_int_equal(mt_figure_colour(others, 1), 3);
    assert_int_equal(mt_figure_colour(others, 2), 13);
    assert_string_equal(others->column[0].levels[1], "expert 18");
    // Never twice the same, however many there are.
    for (int expert = 0; expert < 100; expert++) mt_figure_expert(tokens, expert, 0, 0);
    bool seen[100] = {false};
    assert_int_equal(tokens->column[0].level_count, 100);
    for (size_t i = 0; i < 100; i++) {
        uint32_t colour = mt_figure_colour(tokens, i);
        assert_true(colour < 100 && !seen[colour]);
        seen[colour] = true;
    }
    assert_int_equal(mt_page_status(&page), MT_OK);
    mt_page_free(&page);
    assert_int_equal(ctx.live_bytes, 0);
}

/* Heat maps of one scale span the same numbers, others their own. */
/* Round ends around the numbers, never wider than a step more, and 0 where it is the base line. */
static void test_axes(void **state)
{
    (void)state;
    static const struct {
        double low, high, reach;
        bool zero;
        double from, to; // as expected
    } cases[] = {
        {-0.2, -0.2, 1.0, true, -1.0, 1.0}, // next to nothing looks like it
        {-0.2, 0.3, 1.0, true, -1.0, 1.0},
        {-0.2, 3.0, 1.0, true, -1.0, 3.0},
        {-12.0, -3.0, 1.0, true, -15.0, 0.0},
        {-0.2, -0.2, 0.0, true, -0.2, 0.0},
        {0.0, 0.0, 0.0, true, 0.0, 1.0},
        {0.0, 0.0, 0.0, false, -0.6, 0.6},
        {-5.0, -5.0, 0.0, false, -6.5, -3.5}, // equal numbers lie in the middle
        {0.3, 0.7, 0.0, false, 0.3, 0.7},
        {0.0, 41.0, 0.0, true, 0.0, 50.0},
        {-1e308, 1e308, 0.0, false, -1e308, 1e308},
        {1e-300, 3e-300, 0.0, false, 1e-300, 3e-300},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mt_axis_range range =
            mt_axis_around(cases[i].low, cases[i].high, cases[i].zero, cases[i].reach);
        double slack = fabs(cases[i].to) * 1e-6;
        bool alike = fabs(range.low - cases[i].from) <= slack && fabs(range.high - cases[i].to) <= slack;
        if (!alike) fail_msg("case %zu: %g to %g by %g", i, range.low, range.high, range.step);
        assert_true(range.low <= cases[i].low + slack && range.high >= cases[i].high - slack &&
                    range.step > 0);
    }
}

static void test_scales(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_page page;
    double low = 0.0;
    double high = 0.0;
    mt_context_init(&ctx, NULL);
    mt_page_init(&page, &ctx, "Title");
    const struct mt_figure_head shared = {.kind = MT_FIGURE_HEATMAP, .title = "m", .scale = "share"};
    const struct mt_figure_head alone = {.kind = MT_FIGURE_GRID, .title = "g"};
    struct mt_figure *one = mt_page_figure(&page, &shared);
    mt_page_section(&page, "another");
    struct mt_figure *two = mt_page_figure(&page, &shared);
    struct mt_figure *own = mt_page_figure(&page, &alone);
    struct mt_figure *empty = mt_page_figure(&page, &alone);
    mt_figure_cell(one, "a", "b", 0.25);
    mt_figure_cell(one, "a", "c", (double)NAN);
    mt_figure_cell(two, "a", "b", 0.75);
    mt_figure_cell(two, "a", "c", 0.5);
    mt_figure_cell(own, "a", "b", -3.0);
    for (int i = 0; i < 2; i++) {
        mt_figure_span(i == 0 ? one : two, &low, &high);
        assert_true(low == 0.25 && high == 0.75);
    }
    mt_figure_span(own, &low, &high);
    assert_true(low == -3.0 && high == -3.0);
    mt_figure_span(empty, &low, &high);
    assert_true(low == 0.0 && high == 1.0);
    one->head.from_zero = true;
    one->head.centred = true;
    one->head.centre = 0.9;
    mt_figure_span(one, &low, &high);
    assert_true(low == 0.0 && high == 0.9);
    mt_page_free(&page);
    assert_int_equal(ctx.live_bytes, 0);
}

/* A failure stays, and everything after it is harmless. */
static void test_failure_stays(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_page page;
    mt_context_init(&ctx, NULL);
    mt_page_init(&page, &ctx, "Title");
    struct mt_figure *figure = lines(&page);
    mt_figure_cell(figure, "row", "column", 1);
    assert_int_equal(mt_page_status(&page), MT_ERR_INTERNAL);
    mt_figure_point(figure, "a", 1, 2);
    assert_int_equal(mt_figure_rows(figure), 0);
    assert_null(mt_page_figure(&page, &(struct mt_figure_head){0}));
    mt_figure_text(NULL, "nothing");
    mt_page_card(&page, "a", "b", "c");
    assert_null(page.first_card);
    mt_page_free(&page);
    assert_int_equal(ctx.live_bytes, 0);
}

static void test_thinning(void **state)
{
    (void)state;
    enum { POINTS = 100000, SPIKE = 77777, DIP = 40123 };
    struct mt_context ctx;
    struct mt_page page;
    struct mt_thinned thinned;
    mt_context_init(&ctx, NULL);
    mt_page_init(&page, &ctx, "Title");
    struct mt_figure *figure = lines(&page);
    for (int i = 0; i < POINTS; i++) {
        double y = i == SPIKE ? 50 : (i == DIP ? -50 : sin(i * 0.001));
        mt_figure_point(figure, i % 2 ? "odd" : "even", i, i % 1000 == 3 ? (double)NAN : y);
    }
    assert_int_equal(mt_thin(figure, MT_THIN_ROWS, &thinned), MT_OK);
    assert_int_equal(thinned.rows, POINTS);
    assert_in_range(thinned.kept, MT_THIN_ROWS / 2, MT_THIN_ROWS);
    size_t kept = 0;
    for (size_t row = 0; row < thinned.rows; row++) kept += mt_thinned_has(&thinned, row) ? 1 : 0;
    assert_int_equal(kept, thinned.kept);
    assert_true(mt_thinned_has(&thinned, SPIKE) && mt_thinned_has(&thinned, DIP));
    assert_true(mt_thinned_has(&thinned, 0) && mt_thinned_has(&thinned, 1));
    assert_true(mt_thinned_has(&thinned, POINTS - 1) && mt_thinned_has(&thinned, POINTS - 2));
    mt_thinned_free(&thinned);
    assert_int_equal(mt_thin(figure, POINTS, &thinned), MT_OK); // as many as there are: all
    assert_null(thinned.keep);
    mt_page_free(&page);
    assert_int_equal(ctx.live_bytes, 0);
}

static void test_numbers(void **state)
{
    (void)state;
    static const struct {
        double number;
        const char *text;
    } cases[] = {{0, "0"},
                 {-0.0, "0"},
                 {12, "12"},
                 {0.5, "0.5000"},
                 {2.0 / 3, "0.6667"},
                 {-1.61234, "-1.612"},
                 {123.456, "123.5"},
                 {12345.6, "12346"},
                 {0.00012345, "1.234e-4"},
                 {1e100, "1.000e100"},
                 {0.0625, "0.06250"},
                 {1234567, "1234567"}};
    char text[MT_NUMBER_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(mt_number_text(text, cases[i].number), cases[i].text);
    assert_string_equal(mt_number_text(text, (double)NAN), "–");
    assert_string_equal(mt_number_text(text, -(double)INFINITY), "-∞");
}

static void test_memory(void **state)
{
    (void)state;
    assert_every_allocation_may_fail(build, NULL, 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_columns),  cmocka_unit_test(test_ids_and_texts),
        cmocka_unit_test(test_colours),  cmocka_unit_test(test_axes),
        cmocka_unit_test(test_scales),   cmocka_unit_test(test_failure_stays),
        cmocka_unit_test(test_thinning), cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
