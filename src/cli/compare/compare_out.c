/* metier compare: the table on the terminal, and the files. */
#include <stdio.h>

#include "base/amount.h"
#include "cli/compare/compare.h"
#include "cli/shared/page_out.h"
#include "cli/shared/table.h"
#include "compare/pages.h"
#include "compare/write.h"
#include "report/render.h"

#define PATH_BYTES 4096

// ------------------------------------------------------------------ the table

static enum mt_status print_table(const struct mt_comparison *comparison)
{
    static const enum mt_compare_figure shown[] = {
        MT_COMPARE_ACCURACY, MT_COMPARE_ACCURACY_OTHERS, MT_COMPARE_LOSS,
        MT_COMPARE_MAXVIO,   MT_COMPARE_OVERLAP,         MT_COMPARE_SILHOUETTE,
        MT_COMPARE_RV_TOKEN, MT_COMPARE_ABS_COS,         MT_COMPARE_SECONDS};
    enum { SHOWN = sizeof shown / sizeof shown[0] };
    const struct mt_compare_settings *settings = comparison->settings;
    struct mt_compare_summary summary[MT_COMPARE_MOST_METHODS];
    struct cli_column columns[SHOWN + 1] = {{"method", false}};
    char text[SHOWN][MT_COMPARE_TEXT_BYTES];
    struct cli_table table;
    for (int i = 0; i < SHOWN; i++)
        columns[i + 1] = (struct cli_column){mt_compare_figure_row(shown[i])->title, true};
    cli_table_init(&table, comparison->ctx, columns, SHOWN + 1);
    for (size_t m = 0; m < settings->methods; m++) {
        const char *cells[SHOWN + 1] = {settings->method[m].name};
        for (int i = 0; i < SHOWN; i++) {
            mt_compare_summarize(comparison, shown[i], MT_ALL_DOMAINS, summary);
            cells[i + 1] = mt_compare_mean_text(text[i], shown[i], &summary[m].moments);
        }
        cli_table_row(&table, cells);
    }
    return cli_table_print(&table, stdout);
}

/* What the numbers are of, and what they cannot say. */
static void print_notes(const struct mt_comparison *comparison)
{
    const struct mt_compare_settings *settings = comparison->settings;
    printf("\ntrained on");
    for (size_t d = 0; d < settings->trained; d++) printf(" %s", settings->domain[d].name);
    printf(", measured on held-out problems");
    if (settings->domains > 1)
        printf("; others: of the other %s",
               settings->domains == 2 ? "domain"
                                      : mt_counted(settings->domains - 1, "domain", "domains").text);
    printf("; ");
    if (settings->seeds > 1)
        printf("mean ± standard deviation over %zu seeds\n", settings->seeds);
    else
        printf("one seed: differences may be chance\n");
    if (comparison->kept > 0)
        printf("of %s, %zu trained and measured now, %zu before\n",
               mt_counted(comparison->cells, "cell", "cells").text,
               comparison->cells - comparison->kept - comparison->failed, comparison->kept);
}

enum mt_status compare_print(const struct mt_comparison *comparison)
{
    enum mt_status status = print_table(comparison);
    if (status == MT_OK) print_notes(comparison);
    for (size_t i = 0; i < comparison->cells; i++) {
        const struct mt_cell *cell = &comparison->cell[i];
        if (cell->failure != NULL) printf("failed: %s: %s\n", cell->name, cell->failure);
    }
    return status;
}

// ------------------------------------------------------------------ files

static enum mt_status write_markdown(const struct mt_comparison *comparison,
                                     const struct compare_outputs *outputs, const struct mt_page *page)
{
    struct mt_output out;
    mt_output_init(&out, comparison->ctx);
    enum mt_status status = MT_OK;
    if (outputs->png != NULL) status = mt_save_pictures(page, outputs->png);
    if (status == MT_OK) status = mt_render_markdown(page, outputs->png, &out);
    if (status == MT_OK) status = mt_output_save(&out, outputs->markdown);
    mt_output_free(&out);
    return status;
}

enum mt_status compare_write(const struct mt_comparison *comparison, const struct compare_outputs *outputs)
{
    char json[PATH_BYTES], html[PATH_BYTES];
    struct mt_page page = {0};
    const char *out = comparison->settings->out;
    int length = snprintf(json, sizeof json, "%s/compare.json", out);
    if (length < 0 || (size_t)length >= sizeof json)
        return mt_fail(comparison->ctx, MT_ERR_USAGE, "%.100s...: the path is too long", out);
    (void)snprintf(html, sizeof html, "%s/report.html", out);
    enum mt_status status = mt_comparison_write(comparison, json);
    if (status != MT_OK) return status;
    mt_page_init(&page, comparison->ctx, "Comparison");
    status = mt_comparison_page(comparison, &page);
    if (status == MT_OK) status = cli_page_write_html(&page, outputs->chart_js, html, NULL);
    if (status == MT_OK && outputs->markdown != NULL) status = write_markdown(comparison, outputs, &page);
    mt_page_free(&page);
    if (status != MT_OK) return status;
    printf("\nwritten: %s\n         %s\n", json, html);
    if (outputs->markdown != NULL) printf("         %s\n", outputs->markdown);
    return MT_OK;
}
