/* Building pages: columns, labels, ids, broken texts, thinning, memory. */
#include "report/page.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

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
    assert_string_equal(empty->id, "x-2"); // the nameless section is x
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
        cmocka_unit_test(test_columns),       cmocka_unit_test(test_ids_and_texts),
        cmocka_unit_test(test_failure_stays), cmocka_unit_test(test_thinning),
        cmocka_unit_test(test_numbers),       cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
