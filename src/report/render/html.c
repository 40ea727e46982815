/*
 * The page as one HTML file. Texts and tables are plain HTML, so they are there without a script; a figure's
 * numbers are JSON in the page, from which the script draws and offers downloads. A policy in the head
 * forbids every request.
 */
#include <math.h>
#include <stdio.h>

#include "base/files/file.h"
#include "report/output.h"
#include "report/render.h"
#include "report/render/math.h"
#include "report/thin.h"

#define MOST_PART_BYTES ((size_t)8 << 20)

// ------------------------------------------------------------------ a figure's numbers

static const char *const kind_names[] = {
    [MT_FIGURE_TABLE] = "table",     [MT_FIGURE_LINES] = "lines", [MT_FIGURE_BARS] = "bars",
    [MT_FIGURE_HEATMAP] = "heatmap", [MT_FIGURE_GRID] = "grid",   [MT_FIGURE_SCATTER] = "scatter",
    [MT_FIGURE_RADAR] = "radar",     [MT_FIGURE_DOTS] = "dots",
};

/* "table", "lines": as the page's style and script call it. */
static const char *kind_name(const struct mt_figure *figure)
{
    return kind_names[figure->head.kind];
}

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

static void put_spreads(struct mt_output *out, const struct mt_column *column)
{
    mt_put(out, "\"values\":[");
    for (size_t row = 0; row < column->rows && out->status == MT_OK; row++) {
        if (row > 0) mt_put(out, ",");
        mt_put_exact(out, column->spreads[row], "null");
    }
    mt_put(out, "]");
}

/* Marks as labels, the code of each being its bits. */
static void put_marks(struct mt_output *out, const struct mt_column *column)
{
    mt_put(out, "\"levels\":[");
    for (unsigned marks = 0; marks < 8; marks++) {
        if (marks > 0) mt_put(out, ",");
        mt_put_json(out, mt_marks_text(marks));
    }
    mt_put(out, "],\"codes\":[");
    for (size_t row = 0; row < column->rows && out->status == MT_OK; row++)
        mt_putf(out, row > 0 ? ",%u" : "%u", (unsigned)column->marks[row]);
    mt_put(out, "]");
}

static void put_columns(struct mt_output *out, const struct mt_figure *figure,
                        const struct mt_thinned *thinned)
{
    struct mt_column_part parts[MT_FIGURE_MOST_PARTS];
    char name[MT_PART_NAME_BYTES];
    size_t count = mt_figure_parts(figure, parts);
    for (size_t i = 0; i < count; i++) {
        const struct mt_column *column = parts[i].column;
        mt_put(out, i > 0 ? ",{\"name\":" : "{\"name\":");
        mt_put_json(out, mt_part_name(name, &parts[i]));
        mt_put(out, ",");
        if (parts[i].part == MT_PART_SPREAD) {
            put_spreads(out, column);
        } else if (parts[i].part == MT_PART_MARKS) {
            put_marks(out, column);
        } else if (column->kind == MT_COLUMN_LABEL) {
            put_codes(out, column, thinned);
        } else {
            put_numbers(out, column, thinned);
        }
        mt_put(out, "}");
    }
}

static void put_named(struct mt_output *out, const char *name, const char *text)
{
    mt_putf(out, ",\"%s\":", name);
    mt_put_json(out, text);
}

/* The rows that `thinned` keeps; safe inside <script>. */
static void put_data(struct mt_output *out, const struct mt_figure *figure, const struct mt_thinned *thinned)
{
    const struct mt_figure_head *head = &figure->head;
    mt_put(out, "{\"id\":");
    mt_put_json(out, figure->id);
    put_named(out, "kind", kind_name(figure));
    put_named(out, "title", head->title);
    put_named(out, "meaning", head->meaning);
    put_named(out, "formula", head->formula);
    put_named(out, "x", head->x);
    put_named(out, "y", head->y);
    put_named(out, "value", head->value);
    put_named(out, "unit", head->unit);
    mt_putf(out, ",\"band\":%s,\"log\":%s,\"centre\":", head->band ? "true" : "false",
            head->log_y ? "true" : "false");
    if (head->centred) {
        mt_put_exact(out, head->centre, "null");
    } else {
        mt_put(out, "null");
    }
    mt_put(out, ",\"reach\":");
    mt_put_exact(out, head->reach, "0");
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
    put_columns(out, figure, thinned);
    mt_put(out, "]}");
}

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
    return mt_fail(ctx, MT_ERR_FORMAT,
                   "%s: holds '</script', '</style' or '<!--', so it cannot be put into a page", path);
}

/* Chart.js, or what it takes to have it. */
static enum mt_status read_charts(struct mt_context *ctx, const char *path, struct mt_html_parts *parts)
{
    enum mt_status status = read_part(ctx, path, &parts->charts);
    if (status == MT_OK && !holds(&parts->charts, "chart.js v3."))
        status = mt_fail(ctx, MT_ERR_FORMAT, "%s: is not Chart.js 3", path);
    if (status == MT_OK || status == MT_ERR_MEMORY) return status;
    mt_byte_list_free(&parts->charts);
    parts->charts = (struct mt_byte_list){.ctx = ctx};
    (void)snprintf(
        parts->missing, sizeof parts->missing,
        "Chart.js is missing (%.500s): figures are fixed pictures. To have figures that show their "
        "values, install it (apt install libjs-chart.js), or name a copy of version 3 with "
        "--chart-js FILE, and write the page again.",
        ctx->message);
    return MT_OK;
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
    if (status == MT_OK) status = read_charts(ctx, charts, parts);
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

// ------------------------------------------------------------------ elements

static void put_element(struct mt_output *out, const char *open, const char *text, const char *close)
{
    mt_put(out, open);
    mt_put_html(out, text);
    mt_put(out, close);
}

/* Texts in which formulas are set. */
static void put_worded(struct mt_output *out, const char *open, const char *text, const char *close)
{
    mt_put(out, open);
    mt_put_html_math(out, text);
    mt_put(out, close);
}

static void put_measure(struct mt_output *out, const struct mt_column *column, size_t row)
{
    char text[MT_NUMBER_BYTES];
    unsigned marks = column->marks[row];
    mt_put(out, (marks & MT_MARK_BEST) != 0     ? "<td class=\"n best\">"
                : (marks & MT_MARK_SECOND) != 0 ? "<td class=\"n second\">"
                                                : "<td class=\"n\">");
    put_element(out, "<b>", mt_fixed_text(text, column->numbers[row], column->decimals, column->is_signed),
                "</b>");
    if (isfinite(column->numbers[row]) && isfinite(column->spreads[row]))
        put_element(out, "<i>", mt_fixed_text(text, column->spreads[row], column->decimals, false), "</i>");
    if ((marks & MT_MARK_BEYOND) != 0) mt_put(out, "<sup>*</sup>");
    mt_put(out, "</td>");
}

static void put_cell(struct mt_output *out, const struct mt_figure *figure, int index, size_t row)
{
    char number[MT_NUMBER_BYTES];
    const struct mt_column *column = &figure->column[index];
    if (column->kind == MT_COLUMN_MEASURE) {
        put_measure(out, column, row);
    } else if (column->kind == MT_COLUMN_NUMBER) {
        put_element(out, "<td class=\"n\">", mt_number_text(number, column->numbers[row]), "</td>");
    } else {
        put_element(out, index == 0 ? "<th scope=\"row\">" : "<td>", mt_column_text(column, row),
                    index == 0 ? "</th>" : "</td>");
    }
}

/* What the marks of a table mean. */
static void put_marks_note(struct mt_output *out, unsigned marks)
{
    if (marks == 0) return;
    mt_put(out, "<p class=\"note marks\">");
    if ((marks & MT_MARK_BEST) != 0)
        mt_put(out, "<b class=\"best\">best</b> and <span class=\"second\">second best</span> of a column");
    if ((marks & MT_MARK_BEYOND) != 0)
        mt_put(out, (marks & MT_MARK_BEST) != 0 ? "; * beyond chance: p &lt; 0.05"
                                                : "* beyond chance: p &lt; 0.05");
    mt_put(out, ".</p>\n");
}

static void put_table(struct mt_output *out, const struct mt_figure *figure)
{
    size_t rows = mt_figure_rows(figure);
    mt_put(out, "<div class=\"wide\"><div class=\"scroll\" tabindex=\"0\"><table><thead><tr>");
    for (int i = 0; i < figure->column_count; i++) {
        bool label = figure->column[i].kind == MT_COLUMN_LABEL;
        put_element(out, label ? "<th scope=\"col\">" : "<th scope=\"col\" class=\"n\">",
                    figure->column[i].name, "</th>");
    }
    mt_put(out, "</tr></thead><tbody>\n");
    for (size_t row = 0; row < rows && out->status == MT_OK; row++) {
        mt_put(out, mt_figure_has_rule(figure, row) ? "<tr class=\"rule\">" : "<tr>");
        for (int i = 0; i < figure->column_count; i++) put_cell(out, figure, i, row);
        mt_put(out, "</tr>\n");
    }
    mt_put(out, "</tbody></table></div></div>\n");
    put_marks_note(out, mt_figure_marks(figure));
}

/* Rows of a heat map and of dots decide how high it is. */
static int plot_height(const struct mt_figure *figure, size_t panel)
{
    size_t rows = figure->column[0].level_count;
    if (figure->head.kind == MT_FIGURE_DOTS) return (int)(20 * mt_figure_panel_rows(figure, panel)) + 48;
    if (figure->head.kind != MT_FIGURE_HEATMAP && figure->head.kind != MT_FIGURE_GRID) return 320;
    size_t row_height = figure->head.kind == MT_FIGURE_GRID || rows <= 8 ? 34 : 18;
    size_t height = rows * row_height + 96;
    return height < 200 ? 200 : (height > 1400 ? 1400 : (int)height);
}

static void put_canvas(struct mt_output *out, const struct mt_figure *figure, const char *panel)
{
    mt_put(out, "<canvas role=\"img\" aria-label=\"");
    mt_put_html(out, figure->head.title);
    mt_put(out, ". ");
    mt_put_html(out, panel != NULL ? panel : figure->head.meaning);
    mt_put(out, "\"></canvas>");
}

static void put_base64(struct mt_output *out, const struct mt_byte_list *bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < bytes->count; i += 3) {
        size_t here = bytes->count - i < 3 ? bytes->count - i : 3;
        uint32_t bits = 0;
        for (size_t k = 0; k < 3; k++) bits = bits << 8 | (k < here ? bytes->data[i + k] : 0u);
        char text[4] = {digits[bits >> 18], digits[bits >> 12 & 63], digits[bits >> 6 & 63],
                        digits[bits & 63]};
        for (size_t k = here + 1; k < 4; k++) text[k] = '=';
        mt_put_bytes(out, text, sizeof text);
    }
}

/*
 * The figure without Chart.js. An image of its own, not SVG in the page: names in cairo's SVG are the same in
 * every one.
 */
static void put_picture(struct mt_output *out, const struct mt_figure *figure)
{
    struct mt_output picture;
    mt_output_init(&picture, figure->page->ctx);
    enum mt_status status = mt_render_svg(figure, &picture);
    if (status == MT_OK) {
        mt_put(out, "<img class=\"picture\" alt=\"");
        mt_put_html(out, figure->head.title);
        mt_put(out, "\" src=\"data:image/svg+xml;base64,");
        put_base64(out, &picture.text);
        mt_put(out, "\">\n");
    } else if (status == MT_ERR_MEMORY) {
        out->status = status;
    } else {
        put_element(out, "<p class=\"empty\">No picture: ", figure->page->ctx->message, "</p>\n");
    }
    mt_output_free(&picture);
}

/* Heat maps are drawn by the page's own script. */
static bool needs_charts(const struct mt_figure *figure)
{
    return figure->head.kind != MT_FIGURE_HEATMAP && figure->head.kind != MT_FIGURE_GRID;
}

static void put_plot(struct mt_output *out, const struct mt_figure *figure, bool charts)
{
    const struct mt_column *panels = mt_figure_panels(figure);
    if (mt_figure_rows(figure) == 0) {
        mt_put(out, "<p class=\"empty\">No data.</p>\n");
        return;
    }
    if (!charts && needs_charts(figure)) {
        put_picture(out, figure);
        return;
    }
    if (panels == NULL) {
        mt_putf(out, "<div class=\"plot %s\" style=\"height:%dpx\">", kind_name(figure),
                plot_height(figure, 0));
        put_canvas(out, figure, NULL);
        mt_put(out, "</div>\n");
        return;
    }
    mt_put(out, "<div class=\"panels\">\n");
    for (size_t i = 0; i < panels->level_count; i++) {
        put_element(out, "<div class=\"panel\"><h4>", panels->levels[i], "</h4><div class=\"plot\"");
        if (figure->head.kind == MT_FIGURE_DOTS)
            mt_putf(out, " style=\"height:%dpx\"", plot_height(figure, i));
        mt_put(out, ">");
        put_canvas(out, figure, panels->levels[i]);
        mt_put(out, "</div></div>\n");
    }
    mt_put(out, "</div>\n");
}

static enum mt_status put_figure(struct mt_output *out, const struct mt_figure *figure, bool charts)
{
    struct mt_thinned thinned = {0};
    bool table = figure->head.kind == MT_FIGURE_TABLE;
    if (out->status == MT_OK) out->status = mt_thin(figure, MT_THIN_ROWS, &thinned);
    if (out->status != MT_OK) return out->status;
    mt_putf(out, "<figure id=\"f-%s\" class=\"%s%s\" data-figure=\"%s\"%s><figcaption>", figure->id,
            kind_name(figure), mt_figure_panels(figure) != NULL ? " many" : "", figure->id,
            figure->head.filtered ? " data-filtered" : "");
    put_element(out, "<h3>", figure->head.title, "</h3>");
    put_worded(out, "<p>", figure->head.meaning, "</p></figcaption>\n");
    if (table) {
        put_table(out, figure);
    } else {
        put_plot(out, figure, charts);
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
        put_worded(out, "<p class=\"formula\">", figure->head.formula, "</p>");
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
}

static void put_cards(struct mt_output *out, const struct mt_page *page)
{
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

static void put_finding(struct mt_output *out, const struct mt_block *block)
{
    static const char *const tones[] = {"plain", "good", "bad", "open"};
    mt_putf(out, "<p class=\"finding %s\">", tones[block->tone]);
    put_worded(out, "<b>", block->headline, "</b> ");
    put_worded(out, "", block->text, "</p>\n");
}

/* Findings on one side, the figure on the other; one that is added before any finding comes first. */
static void put_verdict(struct mt_output *out, const struct mt_section *section, bool charts)
{
    const struct mt_block *begin = section->first;
    mt_put(out, "<div class=\"verdict\">\n");
    for (; begin != NULL && begin->figure != NULL; begin = begin->next)
        (void)put_figure(out, begin->figure, charts);
    mt_put(out, "<div>\n");
    for (const struct mt_block *block = section->first; block != NULL; block = block->next) {
        if (block->headline != NULL) {
            put_finding(out, block);
        } else if (block->figure == NULL) {
            put_worded(out, "<p class=\"text\">", block->text, "</p>\n");
        }
    }
    mt_put(out, "</div>\n");
    for (const struct mt_block *block = begin; block != NULL; block = block->next) {
        if (block->figure != NULL) (void)put_figure(out, block->figure, charts);
    }
    mt_put(out, "</div></section>\n");
}

/* charts: Chart.js is in the page. */
static void put_section(struct mt_output *out, const struct mt_section *section, bool charts)
{
    mt_putf(out, "<section id=\"s-%s\">", section->id);
    put_element(out, "<h2>", section->title, "</h2>\n");
    if (section->verdict) {
        put_verdict(out, section, charts);
        return;
    }
    mt_put(out, "<div class=\"blocks\">\n");
    for (const struct mt_block *block = section->first; block != NULL && out->status == MT_OK;
         block = block->next) {
        if (block->figure != NULL) {
            (void)put_figure(out, block->figure, charts);
        } else if (block->headline != NULL) {
            put_finding(out, block);
        } else {
            put_worded(out, "<p class=\"text\">", block->text, "</p>\n");
        }
    }
    mt_put(out, "</div></section>\n");
}

enum mt_status mt_render_html(const struct mt_page *page, const struct mt_html_parts *parts,
                              struct mt_output *out)
{
    const struct mt_section *section = page->first;
    bool charts = parts->missing[0] == '\0';
    put_head(out, page, parts);
    put_contents(out, page);
    if (!charts) put_element(out, "<p class=\"note missing\">", parts->missing, "</p>\n");
    // What was found comes before everything else.
    for (; section != NULL && section->verdict; section = section->next) put_section(out, section, charts);
    put_cards(out, page);
    for (; section != NULL; section = section->next) put_section(out, section, charts);
    mt_put(out, "</main></div>\n<script>");
    mt_put_bytes(out, parts->charts.data, parts->charts.count);
    mt_put(out, "</script>\n<script>");
    mt_put_bytes(out, parts->program.data, parts->program.count);
    mt_put(out, "</script>\n</body></html>\n");
    return out->status;
}
