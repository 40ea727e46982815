/*
 * The page as one HTML file. Texts and tables are plain HTML, so they are there without a script; a figure's
 * numbers are JSON in the page, from which the script draws and offers downloads. A policy in the head
 * forbids every request.
 */
#include <stdio.h>

#include "base/files/file.h"
#include "report/render.h"
#include "report/thin.h"

#define MOST_PART_BYTES ((size_t)8 << 20)

static const char *const kind_names[] = {
    [MT_FIGURE_TABLE] = "table",     [MT_FIGURE_LINES] = "lines", [MT_FIGURE_BARS] = "bars",
    [MT_FIGURE_HEATMAP] = "heatmap", [MT_FIGURE_GRID] = "grid",   [MT_FIGURE_SCATTER] = "scatter",
    [MT_FIGURE_RADAR] = "radar",
};

// ------------------------------------------------------------------ parts

static bool holds(const struct mt_byte_list *text, const char *word)
{
    size_t length = strlen(word);
    for (size_t i = 0; i + length <= text->count; i++) {
        size_t same = 0;
        while (same < length && (text->data[i + same] | 0x20) == (uint8_t)word[same]) same++;
        if (same == length) return true;
    }
    return false;
}

/* Reads a part, and refuses one that would end the element it is put into. */
static enum mt_status read_part(struct mt_context *ctx, const char *path, struct mt_byte_list *part)
{
    void *data = NULL;
    size_t bytes = 0;
    enum mt_status status = mt_file_read_all(ctx, path, MOST_PART_BYTES, &data, &bytes);
    if (status != MT_OK) return status;
    *part = (struct mt_byte_list){.ctx = ctx, .data = data, .count = bytes, .capacity = bytes};
    if (!holds(part, "</script") && !holds(part, "</style") && !holds(part, "<!--")) return MT_OK;
    return mt_fail(ctx, MT_ERR_FORMAT, "%s: holds '</script', '</style' or '<!--' and cannot stand in a page",
                   path);
}

enum mt_status mt_html_parts_read(struct mt_context *ctx, const char *folder, const char *charts,
                                  struct mt_html_parts *parts)
{
    char *style = NULL;
    char *program = NULL;
    *parts = (struct mt_html_parts){.style = {.ctx = ctx}, .program = {.ctx = ctx}, .charts = {.ctx = ctx}};
    enum mt_status status = mt_path_join(ctx, folder, "report.css", &style);
    if (status == MT_OK) status = mt_path_join(ctx, folder, "report.js", &program);
    if (status == MT_OK) status = read_part(ctx, style, &parts->style);
    if (status == MT_OK) status = read_part(ctx, program, &parts->program);
    if (status == MT_OK) {
        status = read_part(ctx, charts, &parts->charts);
        if (status == MT_ERR_IO)
            status = mt_fail(
                ctx, status,
                "%.300s cannot be read: the page draws with Chart.js, which is in the package libjs-chart.js "
                "(apt install libjs-chart.js); --chart-js FILE names another copy of version 3",
                charts);
    }
    mt_path_release(ctx, style);
    mt_path_release(ctx, program);
    return status;
}

void mt_html_parts_free(struct mt_html_parts *parts)
{
    mt_byte_list_free(&parts->style);
    mt_byte_list_free(&parts->program);
    mt_byte_list_free(&parts->charts);
}

// ------------------------------------------------------------------ numbers in the page

static void put_codes(struct mt_output *out, const struct mt_column *column, const struct mt_thinned *thinned)
{
    bool first = true;
    mt_put(out, "\"levels\":[");
    for (size_t i = 0; i < column->level_count; i++) {
        if (i > 0) mt_put(out, ",");
        mt_put_json(out, column->levels[i]);
    }
    mt_put(out, "],\"codes\":[");
    for (size_t row = 0; row < thinned->rows && out->status == MT_OK; row++) {
        if (!mt_thinned_has(thinned, row)) continue;
        mt_putf(out, first ? "%u" : ",%u", (unsigned)column->codes[row]);
        first = false;
    }
    mt_put(out, "]");
}

static void put_numbers(struct mt_output *out, const struct mt_column *column,
                        const struct mt_thinned *thinned)
{
    bool first = true;
    mt_put(out, "\"values\":[");
    for (size_t row = 0; row < thinned->rows && out->status == MT_OK; row++) {
        if (!mt_thinned_has(thinned, row)) continue;
        if (!first) mt_put(out, ",");
        mt_put_exact(out, column->numbers[row], "null");
        first = false;
    }
    mt_put(out, "]");
}

static void put_named(struct mt_output *out, const char *name, const char *text)
{
    mt_putf(out, ",\"%s\":", name);
    mt_put_json(out, text);
}

static void put_data(struct mt_output *out, const struct mt_figure *figure, const struct mt_thinned *thinned)
{
    const struct mt_figure_head *head = &figure->head;
    mt_put(out, "{\"id\":");
    mt_put_json(out, figure->id);
    put_named(out, "kind", kind_names[head->kind]);
    put_named(out, "title", head->title);
    put_named(out, "meaning", head->meaning);
    put_named(out, "formula", head->formula);
    put_named(out, "x", head->x);
    put_named(out, "y", head->y);
    put_named(out, "value", head->value);
    mt_putf(out, ",\"band\":%s,\"log\":%s,\"centre\":", head->band ? "true" : "false",
            head->log_y ? "true" : "false");
    if (head->centred) {
        mt_put_exact(out, head->centre, "null");
    } else {
        mt_put(out, "null");
    }
    if (head->kind == MT_FIGURE_HEATMAP || head->kind == MT_FIGURE_GRID) {
        double low = 0.0;
        double high = 0.0;
        mt_figure_span(figure, &low, &high);
        mt_put(out, ",\"range\":[");
        mt_put_exact(out, low, "null");
        mt_put(out, ",");
        mt_put_exact(out, high, "null");
        mt_put(out, "]");
    } else if (head->kind != MT_FIGURE_TABLE) {
        mt_putf(out, ",\"kindred\":%zu,\"colours\":[", mt_figure_kindred(figure));
        for (size_t i = 0; i < figure->column[0].level_count; i++)
            mt_putf(out, i > 0 ? ",%u" : "%u", (unsigned)mt_figure_colour(figure, i));
        mt_put(out, "]");
    }
    mt_putf(out, ",\"rows\":%zu,\"columns\":[", thinned->kept);
    for (int i = 0; i < figure->column_count; i++) {
        const struct mt_column *column = &figure->column[i];
        mt_put(out, i > 0 ? ",{\"name\":" : "{\"name\":");
        mt_put_json(out, column->name);
        mt_put(out, ",");
        if (column->kind == MT_COLUMN_LABEL) {
            put_codes(out, column, thinned);
        } else {
            put_numbers(out, column, thinned);
        }
        mt_put(out, "}");
    }
    mt_put(out, "]}");
}

// ------------------------------------------------------------------ elements

static void put_element(struct mt_output *out, const char *open, const char *text, const char *close)
{
    mt_put(out, open);
    mt_put_html(out, text);
    mt_put(out, close);
}

static void put_table(struct mt_output *out, const struct mt_figure *figure)
{
    char number[MT_NUMBER_BYTES];
    size_t rows = mt_figure_rows(figure);
    mt_put(out, "<div class=\"scroll\" tabindex=\"0\"><table><thead><tr>");
    for (int i = 0; i < figure->column_count; i++) {
        bool label = figure->column[i].kind == MT_COLUMN_LABEL;
        put_element(out, label ? "<th scope=\"col\">" : "<th scope=\"col\" class=\"n\">",
                    figure->column[i].name, "</th>");
    }
    mt_put(out, "</tr></thead><tbody>\n");
    for (size_t row = 0; row < rows && out->status == MT_OK; row++) {
        mt_put(out, "<tr>");
        for (int i = 0; i < figure->column_count; i++) {
            const struct mt_column *column = &figure->column[i];
            if (column->kind == MT_COLUMN_NUMBER) {
                put_element(out, "<td class=\"n\">", mt_number_text(number, column->numbers[row]), "</td>");
            } else {
                put_element(out, i == 0 ? "<th scope=\"row\">" : "<td>", mt_column_text(column, row),
                            i == 0 ? "</th>" : "</td>");
            }
        }
        mt_put(out, "</tr>\n");
    }
    mt_put(out, "</tbody></table></div>\n");
}

/* Rows of a heat map decide how high it is. */
static int plot_height(const struct mt_figure *figure)
{
    size_t rows = figure->column[0].level_count;
    if (figure->head.kind != MT_FIGURE_HEATMAP && figure->head.kind != MT_FIGURE_GRID) return 320;
    size_t row_height = figure->head.kind == MT_FIGURE_GRID || rows <= 8 ? 34 : 18;
    size_t height = rows * row_height + 96;
    return height < 200 ? 200 : (height > 1400 ? 1400 : (int)height);
}

static void put_plot(struct mt_output *out, const struct mt_figure *figure)
{
    if (mt_figure_rows(figure) == 0) {
        mt_put(out, "<p class=\"empty\">No data.</p>\n");
        return;
    }
    mt_putf(out, "<div class=\"plot %s\" style=\"height:%dpx\"><canvas role=\"img\" aria-label=\"",
            kind_names[figure->head.kind], plot_height(figure));
    mt_put_html(out, figure->head.title);
    mt_put(out, ". ");
    mt_put_html(out, figure->head.meaning);
    mt_put(out, "\"></canvas></div>\n");
}

static enum mt_status put_figure(struct mt_output *out, const struct mt_figure *figure)
{
    struct mt_thinned thinned = {0};
    bool table = figure->head.kind == MT_FIGURE_TABLE;
    if (out->status == MT_OK) out->status = mt_thin(figure, MT_THIN_ROWS, &thinned);
    if (out->status != MT_OK) return out->status;
    mt_putf(out, "<figure id=\"f-%s\" class=\"%s\" data-figure=\"%s\"><figcaption>", figure->id,
            kind_names[figure->head.kind], figure->id);
    put_element(out, "<h3>", figure->head.title, "</h3>");
    put_element(out, "<p>", figure->head.meaning, "</p></figcaption>\n");
    if (table) {
        put_table(out, figure);
    } else {
        put_plot(out, figure);
    }
    if (thinned.kept < thinned.rows)
        mt_putf(out,
                "<p class=\"note\">Here are %zu of %zu rows: %s. All of them are written by --data.</p>\n",
                thinned.kept, thinned.rows,
                figure->head.kind == MT_FIGURE_LINES
                    ? "of every stretch of a curve its lowest and highest, and its ends"
                    : "every so-manyth");
    mt_put(out, "<div class=\"foot\">");
    if (figure->head.formula[0] != '\0')
        put_element(out, "<p class=\"formula\"><b>Formula</b> ", figure->head.formula, "</p>");
    mt_put(out, "<p class=\"get\"><button type=\"button\" data-get=\"csv\">CSV</button>"
                "<button type=\"button\" data-get=\"json\">JSON</button></p></div>\n"
                "<script type=\"application/json\">");
    put_data(out, figure, &thinned);
    mt_put(out, "</script></figure>\n");
    mt_thinned_free(&thinned);
    return out->status;
}

static void put_head(struct mt_output *out, const struct mt_page *page, const struct mt_html_parts *parts)
{
    mt_put(out, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
                "'unsafe-inline'; "
                "script-src 'unsafe-inline'; img-src data: blob:\">\n"
                "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                "<meta name=\"color-scheme\" content=\"light dark\">\n");
    put_element(out, "<title>", page->title, "</title>\n<style>\n");
    mt_put_bytes(out, parts->style.data, parts->style.count);
    mt_put(out, "</style></head>\n<body>\n<header><div>");
    put_element(out, "<h1>", page->title, "</h1>");
    if (page->subtitle[0] != '\0') put_element(out, "<p>", page->subtitle, "</p>");
    mt_put(out,
           "</div><button type=\"button\" id=\"theme\" title=\"Light or dark\">Theme</button></header>\n");
    if (page->first_card == NULL) return;
    mt_put(out, "<dl class=\"cards\">\n");
    for (const struct mt_card *card = page->first_card; card != NULL; card = card->next) {
        put_element(out, "<div><dt>", card->name, "</dt>");
        put_element(out, "<dd>", card->value, "</dd>");
        put_element(out, "<dd class=\"small\">", card->note, "</dd></div>\n");
    }
    mt_put(out, "</dl>\n");
}

static void put_contents(struct mt_output *out, const struct mt_page *page)
{
    mt_put(out, "<div class=\"columns\"><nav aria-label=\"Contents\"><ol>\n");
    for (const struct mt_section *section = page->first; section != NULL; section = section->next) {
        mt_putf(out, "<li><a href=\"#s-%s\">", section->id);
        put_element(out, "", section->title, "</a></li>\n");
    }
    mt_put(out, "</ol></nav>\n<main>\n");
}

enum mt_status mt_render_html(const struct mt_page *page, const struct mt_html_parts *parts,
                              struct mt_output *out)
{
    put_head(out, page, parts);
    put_contents(out, page);
    for (const struct mt_section *section = page->first; section != NULL; section = section->next) {
        mt_putf(out, "<section id=\"s-%s\">", section->id);
        put_element(out, "<h2>", section->title, "</h2>\n<div class=\"blocks\">\n");
        for (const struct mt_block *block = section->first; block != NULL && out->status == MT_OK;
             block = block->next) {
            if (block->figure != NULL) {
                (void)put_figure(out, block->figure);
            } else {
                put_element(out, "<p class=\"text\">", block->text, "</p>\n");
            }
        }
        mt_put(out, "</div></section>\n");
    }
    mt_put(out, "</main></div>\n<script>");
    mt_put_bytes(out, parts->charts.data, parts->charts.count);
    mt_put(out, "</script>\n<script>");
    mt_put_bytes(out, parts->program.data, parts->program.count);
    mt_put(out, "</script>\n</body></html>\n");
    return out->status;
}
