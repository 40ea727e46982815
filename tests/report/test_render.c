/* Renderers: hostile strings, nothing, one point, many points, NaN; every kind as a picture; memory. */
#include "report/render.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "support/every_allocation.h"

static const char hostile[] = "</script><script>alert('1')</script> & \"q\" | *b* `c`, =1+1 \x01 \\";

/* A page with a figure of every kind, all of whose strings are hostile. */
static void fill(struct mt_page *page, struct mt_context *ctx)
{
    static const enum mt_figure_shape kinds[] = {MT_FIGURE_LINES, MT_FIGURE_BARS,    MT_FIGURE_HEATMAP,
                                                 MT_FIGURE_GRID,  MT_FIGURE_SCATTER, MT_FIGURE_RADAR,
                                                 MT_FIGURE_DOTS,  MT_FIGURE_TABLE};
    mt_page_init(page, ctx, hostile);
    mt_page_subtitle(page, hostile);
    mt_page_card(page, hostile, hostile, hostile);
    mt_page_section(page, hostile);
    mt_page_text(page, "%s", hostile);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct mt_figure *figure = mt_page_figure(page, &(struct mt_figure_head){.kind = kinds[i],
                                                                                 .title = hostile,
                                                                                 .meaning = hostile,
                                                                                 .formula = hostile,
                                                                                 .series = hostile,
                                                                                 .x = hostile,
                                                                                 .y = hostile,
                                                                                 .value = hostile,
                                                                                 .band = i < 2 || i == 6,
                                                                                 .log_y = i == 0,
                                                                                 .centred = i == 3,
                                                                                 .centre = 0.5});
        if (kinds[i] == MT_FIGURE_TABLE) mt_figure_column(figure, MT_COLUMN_LABEL, hostile);
        if (kinds[i] == MT_FIGURE_TABLE) mt_figure_column(figure, MT_COLUMN_NUMBER, "number");
        for (int k = 0; k < 12; k++) {
            const char *label = k % 3 ? hostile : "b";
            double y = k == 5 ? (double)NAN : 0.1 + k / 12.0;
            switch (kinds[i]) {
            case MT_FIGURE_LINES:
            case MT_FIGURE_SCATTER: mt_figure_range(figure, label, k, y, y - 0.05, y + 0.05); break;
            case MT_FIGURE_BARS:
            case MT_FIGURE_DOTS:
            case MT_FIGURE_RADAR:
                mt_figure_bar(figure, label, k % 2 ? "even" : "odd", y, y - 0.05, y + 0.05);
                break;
            case MT_FIGURE_HEATMAP:
            case MT_FIGURE_GRID: mt_figure_cell(figure, label, k % 2 ? "even" : "odd", y); break;
            case MT_FIGURE_TABLE:
                mt_figure_text(figure, label);
                mt_figure_number(figure, y);
                break;
            }
        }
    }
}

static size_t count_of(const struct mt_output *out, const char *word)
{
    size_t count = 0;
    size_t length = strlen(word);
    for (size_t i = 0; i + length <= out->text.count; i++)
        count += memcmp(out->text.data + i, word, length) == 0 ? 1 : 0;
    return count;
}

static struct mt_figure *figure_at(const struct mt_page *page, int index)
{
    for (struct mt_block *block = page->first->first; block != NULL; block = block->next) {
        if (block->figure != NULL && index-- == 0) return block->figure;
    }
    return NULL;
}

static void test_html_is_safe(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_page page;
    struct mt_output out;
    const struct mt_html_parts parts = {0};
    mt_context_init(&ctx, NULL);
    fill(&page, &ctx);
    mt_output_init(&out, &ctx);
    assert_int_equal(mt_page_status(&page), MT_OK);
    assert_int_equal(mt_render_html(&page, &parts, &out), MT_OK);
    // One script for each of eight figures, two for the page; none of the strings opened or closed another.
    assert_int_equal(count_of(&out, "<script"), 10);
    assert_int_equal(count_of(&out, "</script>"), 10);
    assert_int_equal(count_of(&out, "alert('1')"), 0 + count_of(&out, "\\u003cscript\\u003ealert('1')"));
    assert_true(count_of(&out, "&lt;script&gt;alert(&#39;1&#39;)") > 10);
    assert_int_equal(count_of(&out, "<canvas"), 7);
    assert_int_equal(count_of(&out, "<td class=\"n\">–</td>"), 1);
    assert_int_equal(count_of(&out, "http"), 1); // http-equiv; no address anywhere
    mt_output_free(&out);
    mt_page_free(&page);
    assert_int_equal(ctx.live_bytes, 0);
}

/* Without Chart.js: pictures, but for the heat maps, which the page's script draws; and why. */
static void test_html_without_charts(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_page page;
    struct mt_output out;
    struct mt_html_parts parts = {0};
    (void)snprintf(parts.missing, sizeof parts.missing, "It is <missing>.");
    mt_context_init(&ctx, NULL);
    fill(&page, &ctx);
    mt_output_init(&out, &ctx);
    assert_int_equal(mt_render_html(&page, &parts, &out), MT_OK);
    assert_int_equal(count_of(&out, "<p class=\"note missing\">It is &lt;missing&gt;.</p>"), 1);
    assert_int_equal(count_of(&out, "<canvas"), 2);
    assert_int_equal(count_of(&out, "<img class=\"picture\" alt=\"&lt;/script"), 5);
    assert_int_equal(count_of(&out, "src=\"data:image/svg+xml;base64,PD94bWwg"), 5); // "<?xml "
    assert_int_equal(count_of(&out, "<script"), 10);
    mt_output_free(&out);
    mt_page_free(&page);
    assert_int_equal(ctx.live_bytes, 0);
}

/* The numbers in the page parse and are what went in. */
static void test_data_in_page(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_page page;
    struct mt_output out;
    const struct mt_html_parts parts = {0};
    static const char open[] = "<script type=\"application/json\">";
    mt_context_init(&ctx, NULL);
    fill(&page, &ctx);
    mt_output_init(&out, &ctx);
    assert_int_equal(mt_render_html(&page, &parts, &out), MT_OK);
    mt_put_bytes(&out, "", 1);
    const char *start = strstr((const char *)out.text.data, open);
    assert_non_null(start);
    start += strlen(open);
    json_t *data = json_loadb(start, (size_t)(strstr(start, "</script>") - start), 0, NULL);
    assert_non_null(data);
    assert_string_equal(json_string_value(json_object_get(data, "title")), page.title);
    const json_t *columns = json_object_get(data, "columns");
    assert_int_equal(json_array_size(columns), 5);
    const json_t *values = json_object_get(json_array_get(columns, 2), "values");
    assert_int_equal(json_array_size(values), 12);
    assert_true(json_is_null(json_array_get(values, 5)));
    assert_true(json_number_value(json_array_get(values, 1)) == 0.1 + 1 / 12.0);
    json_decref(data);
    mt_output_free(&out);
    mt_page_free(&page);
}

static void test_csv_and_json(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_page page;
    struct mt_output out;
    mt_context_init(&ctx, NULL);
    mt_page_init(&page, &ctx, "T");
    struct mt_figure *table = mt_page_figure(&page, &(struct mt_figure_head){.title = "t"});
    mt_figure_column(table, MT_COLUMN_LABEL, "a,b");
    mt_figure_column(table, MT_COLUMN_NUMBER, "n");
    mt_figure_text(table, "say \"hi\"\n");
    mt_figure_number(table, 0.1);
    mt_figure_text(table, "=SUM(A1)");
    mt_figure_number(table, (double)NAN);
    mt_figure_text(table, "unfinished"); // half a row is no row
    mt_output_init(&out, &ctx);
    assert_int_equal(mt_render_csv(table, &out), MT_OK);
    mt_put_bytes(&out, "", 1);
    assert_string_equal((const char *)out.text.data,
                        "\"a,b\",n\r\n\"say \"\"hi\"\"\n\",0.1\r\n\"'=SUM(A1)\",\r\n");
    mt_output_free(&out);
    mt_output_init(&out, &ctx);
    assert_int_equal(mt_render_json(table, &out), MT_OK);
    json_t *data = json_loadb((const char *)out.text.data, out.text.count, 0, NULL);
    assert_non_null(data);
    const json_t *rows = json_object_get(data, "rows");
    assert_int_equal(json_array_size(rows), 2);
    assert_string_equal(json_string_value(json_array_get(json_array_get(rows, 1), 0)), "=SUM(A1)");
    assert_true(json_is_null(json_array_get(json_array_get(rows, 1), 1)));
    json_decref(data);
    mt_output_free(&out);
    mt_page_free(&page);
    assert_int_equal(ctx.live_bytes, 0);
}

static void test_markdown(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_page page;
    struct mt_output out;
    mt_context_init(&ctx, NULL);
    fill(&page, &ctx);
    mt_output_init(&out, &ctx);
    assert_int_equal(mt_render_markdown(&page, "pictures", &out), MT_OK);
    assert_int_equal(count_of(&out, "<script"), 0);
    assert_int_equal(count_of(&out, "](<pictures/"), 7); // the table has no picture
    assert_true(count_of(&out, "| – |") >= 1);
    assert_true(count_of(&out, "\\|") > 0); // a bar in a cell does not end it
    mt_output_free(&out);
    mt_page_free(&page);
    assert_int_equal(ctx.live_bytes, 0);
}

static void assert_png(const struct mt_figure *figure)
{
    struct mt_output out;
    mt_output_init(&out, figure->page->ctx);
    assert_int_equal(mt_render_png(figure, &out), MT_OK);
    assert_true(out.text.count > 2000);
    assert_memory_equal(out.text.data, "\x89PNG\r\n\x1a\n", 8);
    assert_memory_equal(out.text.data + 16, "\0\0\x06\x40", 4); // 1600 pixels in width
    mt_output_free(&out);
}

/* Drawn twice, an SVG has the same bytes, and holds nothing but what SVG has: no text, no address to load. */
static void assert_svg(const struct mt_figure *figure)
{
    struct mt_output out[2];
    for (int i = 0; i < 2; i++) {
        mt_output_init(&out[i], figure->page->ctx);
        assert_int_equal(mt_render_svg(figure, &out[i]), MT_OK);
    }
    assert_true(count_of(&out[0], "<svg") == 1 && count_of(&out[0], "</svg>") == 1);
    assert_int_equal(count_of(&out[0], "<text"), 0);
    assert_int_equal(count_of(&out[0], "<image"), 0);
    assert_int_equal(count_of(&out[0], "alert"), 0);
    assert_int_equal(out[0].text.count, out[1].text.count);
    assert_memory_equal(out[0].text.data, out[1].text.data, out[0].text.count);
    for (int i = 0; i < 2; i++) mt_output_free(&out[i]);
}

static void test_pictures(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_page page;
    mt_context_init(&ctx, NULL);
    fill(&page, &ctx);
    for (int i = 0; i < 7; i++) {
        assert_true(mt_figure_has_picture(figure_at(&page, i)));
        assert_png(figure_at(&page, i));
        assert_svg(figure_at(&page, i));
    }
    assert_false(mt_figure_has_picture(figure_at(&page, 7)));
    mt_page_free(&page);
    assert_int_equal(ctx.live_bytes, 0);
}

/* Nothing, one point, only NaN, numbers at the end of what a double holds. */
static void test_odd_data(void **state)
{
    (void)state;
    static const double odd[] = {0, (double)NAN, 1e308, -1e308, 5e-324, (double)INFINITY};
    struct mt_context ctx;
    struct mt_page page;
    struct mt_output out;
    const struct mt_html_parts parts = {0};
    mt_context_init(&ctx, NULL);
    mt_page_init(&page, &ctx, "T");
    mt_page_section(&page, "S");
    struct mt_figure *empty =
        mt_page_figure(&page, &(struct mt_figure_head){.kind = MT_FIGURE_LINES, .title = "none"});
    assert_false(mt_figure_has_picture(empty));
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        struct mt_figure *one =
            mt_page_figure(&page, &(struct mt_figure_head){.kind = MT_FIGURE_LINES, .title = "one"});
        struct mt_figure *cell =
            mt_page_figure(&page, &(struct mt_figure_head){.kind = MT_FIGURE_HEATMAP, .title = "h"});
        struct mt_figure *bar =
            mt_page_figure(&page, &(struct mt_figure_head){.kind = MT_FIGURE_BARS, .title = "b"});
        mt_figure_point(one, "a", odd[i], odd[i]);
        mt_figure_cell(cell, "a", "b", odd[i]);
        mt_figure_bar(bar, "a", "b", odd[i], 0, 0);
        if (i > 2) continue; // the rest is drawn together below
        assert_png(one);
        assert_png(cell);
        assert_png(bar);
    }
    struct mt_figure *both =
        mt_page_figure(&page, &(struct mt_figure_head){.kind = MT_FIGURE_LINES, .title = "both"});
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) mt_figure_point(both, "a", (double)i, odd[i]);
    assert_png(both);
    mt_output_init(&out, &ctx);
    assert_int_equal(mt_render_html(&page, &parts, &out), MT_OK);
    assert_int_equal(count_of(&out, "No data."), 1);
    assert_int_equal(count_of(&out, "inf"), 0);
    assert_int_equal(count_of(&out, "nan"), 0);
    mt_output_free(&out);
    mt_output_init(&out, &ctx);
    assert_int_equal(mt_render_markdown(&page, NULL, &out), MT_OK);
    mt_output_free(&out);
    mt_page_free(&page);
    assert_int_equal(ctx.live_bytes, 0);
}

static void test_many_points(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_page page;
    struct mt_output out;
    const struct mt_html_parts parts = {0};
    mt_context_init(&ctx, NULL);
    mt_page_init(&page, &ctx, "T");
    struct mt_figure *figure =
        mt_page_figure(&page, &(struct mt_figure_head){.kind = MT_FIGURE_LINES, .title = "many"});
    for (int i = 0; i < 100000; i++) mt_figure_point(figure, "a", i, sin(i));
    mt_output_init(&out, &ctx);
    assert_int_equal(mt_render_html(&page, &parts, &out), MT_OK);
    assert_true(out.text.count < 1000000);
    assert_int_equal(count_of(&out, "of 100000 rows: of every stretch of a curve its lowest and highest"), 1);
    mt_output_free(&out);
    mt_output_init(&out, &ctx);
    assert_int_equal(mt_render_csv(figure, &out), MT_OK);
    assert_int_equal(count_of(&out, "\n"), 100001); // files have every row
    mt_output_free(&out);
    assert_png(figure);
    mt_page_free(&page);
}

static enum mt_status render_all(struct mt_context *ctx, const void *self)
{
    (void)self;
    struct mt_page page;
    struct mt_output out[3];
    const struct mt_html_parts parts = {.missing = "Chart.js"}; // so that pictures are drawn, too
    fill(&page, ctx);
    for (int i = 0; i < 3; i++) mt_output_init(&out[i], ctx);
    enum mt_status status = mt_page_status(&page);
    if (status == MT_OK) status = mt_render_html(&page, &parts, &out[0]);
    if (status == MT_OK) status = mt_render_markdown(&page, NULL, &out[1]);
    if (status == MT_OK) status = mt_render_json(figure_at(&page, 0), &out[2]);
    for (int i = 0; i < 3; i++) mt_output_free(&out[i]);
    mt_page_free(&page);
    return status;
}

static void test_memory(void **state)
{
    (void)state;
    assert_every_allocation_may_fail(render_all, NULL, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_html_is_safe), cmocka_unit_test(test_html_without_charts),
        cmocka_unit_test(test_data_in_page), cmocka_unit_test(test_csv_and_json),
        cmocka_unit_test(test_markdown),     cmocka_unit_test(test_pictures),
        cmocka_unit_test(test_odd_data),     cmocka_unit_test(test_many_points),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
