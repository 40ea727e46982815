/*
 * A page with a figure of every kind, and strings that try to break out, for tests/parity/report_browser.py:
 *     report_page SHARE_REPORT OUT.html DATA_DIR [PICTURES_DIR]
 */
#include <math.h>
#include <stdio.h>

#include "report/render.h"

static const char hostile[] = "</script><img src=x onerror=alert(1)> & \"q\" 'a', =1+1";

static void fill_series(struct mt_page *page)
{
    static const char *const names[] = {"aux", "paper", hostile};
    struct mt_figure *curves = mt_page_figure(page, &(struct mt_figure_head){.kind = MT_FIGURE_LINES,
                                                                             .title = "Curves with bands",
                                                                             .meaning = "A band and a gap.",
                                                                             .formula = "sin",
                                                                             .series = "method",
                                                                             .x = "step",
                                                                             .y = "value",
                                                                             .band = true});
    struct mt_figure *bars = mt_page_figure(page, &(struct mt_figure_head){.kind = MT_FIGURE_BARS,
                                                                           .title = "Bars with whiskers",
                                                                           .meaning = "Grouped.",
                                                                           .formula = "none",
                                                                           .series = "method",
                                                                           .x = "task",
                                                                           .y = "value",
                                                                           .band = true});
    struct mt_figure *dots = mt_page_figure(page, &(struct mt_figure_head){.kind = MT_FIGURE_DOTS,
                                                                           .title = "Dots with whiskers",
                                                                           .meaning = "Around zero.",
                                                                           .formula = "none",
                                                                           .series = "method",
                                                                           .x = "task",
                                                                           .y = "difference",
                                                                           .band = true});
    struct mt_figure *radar = mt_page_figure(page, &(struct mt_figure_head){.kind = MT_FIGURE_RADAR,
                                                                            .title = "Radar",
                                                                            .meaning = "Profiles.",
                                                                            .formula = "none",
                                                                            .series = "method",
                                                                            .x = "task",
                                                                            .y = "value"});
    struct mt_figure *points = mt_page_figure(page, &(struct mt_figure_head){.kind = MT_FIGURE_SCATTER,
                                                                             .title = "Points",
                                                                             .meaning = "Groups.",
                                                                             .formula = "none",
                                                                             .series = "method",
                                                                             .x = "x",
                                                                             .y = "y"});
    for (int s = 0; s < 3; s++) {
        for (int i = 0; i < 60; i++) {
            double y = i == 30 ? (double)NAN : sin(i * 0.1 + s);
            mt_figure_range(curves, names[s], i, y, y - 0.1 * (s + 1), y + 0.1 * (s + 1));
            mt_figure_point(points, names[s], s + cos(i * 7.0), s + sin(i * 3.0));
        }
        for (int i = 0; i < 5; i++) {
            char task[24];
            double y = 0.5 + 0.4 * sin(i * 2.0 + s);
            (void)snprintf(task, sizeof task, "task %d", i);
            mt_figure_bar(bars, names[s], task, i == 3 && s == 1 ? (double)NAN : y, y - 0.05, y + 0.05);
            mt_figure_bar(dots, names[s], task, y - 0.5, y - 0.55, y - 0.45);
            mt_figure_bar(radar, names[s], task, y, 0, 0);
        }
    }
}

static void fill_maps(struct mt_page *page)
{
    struct mt_figure *map = mt_page_figure(page, &(struct mt_figure_head){.kind = MT_FIGURE_HEATMAP,
                                                                          .title = "Heat map",
                                                                          .meaning = "Many cells.",
                                                                          .formula = "none",
                                                                          .x = "expert",
                                                                          .y = "layer",
                                                                          .value = "share"});
    struct mt_figure *grid = mt_page_figure(page, &(struct mt_figure_head){.kind = MT_FIGURE_GRID,
                                                                           .title = "Sensitivity",
                                                                           .meaning = "Numbers in cells.",
                                                                           .formula = "none",
                                                                           .x = "alpha",
                                                                           .y = "beta",
                                                                           .value = "accuracy",
                                                                           .centred = true,
                                                                           .centre = 0.5});
    struct mt_figure *table =
        mt_page_figure(page, &(struct mt_figure_head){.title = hostile, .meaning = hostile});
    mt_figure_column(table, MT_COLUMN_LABEL, "a name");
    mt_figure_column(table, MT_COLUMN_NUMBER, "a number");
    for (int i = 0; i < 26; i++) {
        for (int k = 0; k < 64; k++) {
            char row[16];
            char column[16];
            (void)snprintf(row, sizeof row, "%d", i);
            (void)snprintf(column, sizeof column, "%d", k);
            mt_figure_cell(map, row, column,
                           i == 3 && k == 5 ? (double)NAN : exp(sin(i * 0.7 + k * 1.3)) / 64);
            if (i < 5 && k < 6) mt_figure_cell(grid, row, column, 0.5 + 0.3 * sin(i + k));
        }
        mt_figure_text(table, i % 2 ? hostile : "plain");
        mt_figure_number(table, i % 5 ? i / 7.0 : (double)NAN);
    }
}

static enum mt_status write_page(struct mt_context *ctx, const struct mt_page *page, char **arguments)
{
    struct mt_html_parts parts;
    struct mt_output out;
    mt_output_init(&out, ctx);
    enum mt_status status = mt_html_parts_read(ctx, arguments[1], MT_CHARTS_FILE, &parts);
    if (status == MT_OK) status = mt_render_html(page, &parts, &out);
    if (status == MT_OK) status = mt_output_save(&out, arguments[2]);
    if (status == MT_OK) status = mt_save_numbers(page, arguments[3]);
    if (status == MT_OK && arguments[4] != NULL)
        status = mt_save_pictures(page, arguments[4], MT_PICTURE_PNG);
    mt_html_parts_free(&parts);
    mt_output_free(&out);
    return status;
}

int main(int argc, char **argv)
{
    struct mt_context ctx;
    struct mt_page page;
    if (argc < 4 || argc > 5) {
        (void)fprintf(stderr, "usage: report_page SHARE_REPORT OUT.html DATA_DIR [PICTURES_DIR]\n");
        return 2;
    }
    mt_context_init(&ctx, NULL);
    mt_page_init(&page, &ctx, hostile);
    mt_page_subtitle(&page, hostile);
    mt_page_card(&page, hostile, hostile, hostile);
    mt_page_section(&page, hostile);
    mt_page_text(&page, "%s", hostile);
    fill_series(&page);
    mt_page_section(&page, "Maps");
    fill_maps(&page);
    enum mt_status status = mt_page_status(&page);
    if (status == MT_OK) status = write_page(&ctx, &page, argv);
    mt_page_free(&page);
    if (status != MT_OK) (void)fprintf(stderr, "%s\n", ctx.message);
    return status == MT_OK ? 0 : 1;
}
