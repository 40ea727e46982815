/*
 * Tables of the page for a LaTeX document: booktabs, one float each. Grids of numbers are tables, too. With a
 * folder of pictures the other figures are floats that include them.
 */
#include <math.h>
#include <string.h>

#include "report/render.h"
#include "report/render/math.h"

#define MOST_ROWS    60 // of a table; a float is a page at the most
#define LONG_TEXT    40 // bytes of a cell from which on its column breaks lines
#define MOST_COLUMNS 16 // of a grid
#define MOST_WAITING 12 // floats without a page in between

static void put_head(struct mt_output *out, const struct mt_page *page, bool pictures)
{
    mt_put(out, "% ");
    mt_put_latex(out, page->title);
    mt_put(out, "\n% Needs in the preamble: \\usepackage{amsmath,booktabs,graphicx}\n"
                "% Tables wider than the text are made smaller.\n");
    if (pictures) mt_put(out, "% Pictures are looked for from where LaTeX is started.\n");
    mt_put(out, "\\providecommand{\\metierfit}[1]{\\sbox0{#1}\\ifdim\\wd0>\\linewidth"
                "\\resizebox{\\linewidth}{!}{\\usebox0}\\else\\usebox0\\fi}\n");
}

static void put_caption(struct mt_output *out, const struct mt_figure *figure, const char *kind)
{
    mt_put(out, "\\caption{");
    mt_put_latex(out, figure->head.title);
    mt_put(out, figure->head.meaning[0] != '\0' ? ". " : "");
    mt_put_latex_math(out, figure->head.meaning);
    mt_putf(out, "}\n\\label{%s:%s}\n", kind, figure->id);
}

/* What the marks mean, and the formula, in small print below the table. */
static void put_notes(struct mt_output *out, const struct mt_figure *figure)
{
    unsigned marks = mt_figure_marks(figure);
    if (marks == 0 && figure->head.formula[0] == '\0') return;
    mt_put(out, "\n\\par\\vspace{2pt}{\\raggedright\\footnotesize ");
    if ((marks & MT_MARK_BEST) != 0) mt_put(out, "Bold: best; underlined: second best. ");
    if ((marks & MT_MARK_BEYOND) != 0) mt_put(out, "$^{*}$: beyond chance, $p < 0.05$. ");
    mt_put_latex_math(out, figure->head.formula);
    mt_put(out, "\\par}\n");
}

// ------------------------------------------------------------------ cells

static void put_number(struct mt_output *out, const char *text)
{
    mt_put(out, "$");
    if (strcmp(text, "–") == 0) {
        mt_put(out, "\\text{--}");
    } else {
        const char *exponent = strchr(text, 'e');
        for (const char *at = text; *at != '\0' && at != exponent; at++) {
            if (strncmp(at, "−", 3) == 0) {
                mt_put(out, "-");
                at += 2;
            } else if (strncmp(at, "∞", 3) == 0) {
                mt_put(out, "\\infty");
                at += 2;
            } else {
                mt_put_bytes(out, at, 1);
            }
        }
        if (exponent != NULL) mt_putf(out, " \\cdot 10^{%s}", exponent + 1);
    }
    mt_put(out, "$");
}

static void put_measure(struct mt_output *out, const struct mt_column *column, size_t row)
{
    char text[MT_NUMBER_BYTES];
    unsigned marks = column->marks[row];
    double number = column->numbers[row];
    double spread = column->spreads[row];
    if (!isfinite(number)) {
        put_number(out, mt_number_text(text, number));
        return;
    }
    if ((marks & MT_MARK_SECOND) != 0) mt_put(out, "\\underline{");
    mt_put(out, (marks & MT_MARK_BEST) != 0 ? "$\\mathbf{" : "${");
    const char *digits = mt_fixed_text(text, number, column->decimals, column->is_signed);
    bool negative = strncmp(digits, "−", 3) == 0;
    mt_putf(out, "%s%s}", negative ? "-" : "", negative ? digits + 3 : digits);
    if (isfinite(spread)) mt_putf(out, " \\pm %s", mt_fixed_text(text, spread, column->decimals, false));
    if ((marks & MT_MARK_BEYOND) != 0) mt_put(out, "^{*}");
    mt_put(out, "$");
    if ((marks & MT_MARK_SECOND) != 0) mt_put(out, "}");
}

static void put_cell(struct mt_output *out, const struct mt_column *column, size_t row)
{
    char text[MT_NUMBER_BYTES];
    switch (column->kind) {
    case MT_COLUMN_LABEL: mt_put_latex(out, mt_column_text(column, row)); break;
    case MT_COLUMN_NUMBER: put_number(out, mt_number_text(text, column->numbers[row])); break;
    case MT_COLUMN_MEASURE: put_measure(out, column, row); break;
    }
}

// ------------------------------------------------------------------ tables

static bool is_long(const struct mt_column *column)
{
    for (size_t i = 0; i < column->level_count; i++) {
        if (strlen(column->levels[i]) > LONG_TEXT) return true;
    }
    return false;
}

static void open_float(struct mt_output *out, const struct mt_figure *figure)
{
    mt_put(out, "\n\\begin{table}[!htbp]\n\\centering\n");
    put_caption(out, figure, "tab");
    mt_put(out, "\\metierfit{\\begin{tabular}{@{}");
}

static void close_float(struct mt_output *out, const struct mt_figure *figure)
{
    mt_put(out, "\\bottomrule\n\\end{tabular}}");
    put_notes(out, figure);
    mt_put(out, "\\end{table}\n");
}

static void put_table(struct mt_output *out, const struct mt_figure *figure)
{
    open_float(out, figure);
    for (int i = 0; i < figure->column_count; i++) {
        const struct mt_column *column = &figure->column[i];
        mt_put(out, column->kind != MT_COLUMN_LABEL ? "r" : (is_long(column) ? "p{5cm}" : "l"));
    }
    mt_put(out, "@{}}\n\\toprule\n");
    for (int i = 0; i < figure->column_count; i++) {
        mt_put(out, i > 0 ? " & " : "");
        mt_put_latex(out, figure->column[i].name);
    }
    mt_put(out, " \\\\\n\\midrule\n");
    for (size_t row = 0; row < mt_figure_rows(figure) && out->status == MT_OK; row++) {
        if (mt_figure_has_rule(figure, row)) mt_put(out, "\\midrule\n");
        for (int i = 0; i < figure->column_count; i++) {
            mt_put(out, i > 0 ? " & " : "");
            put_cell(out, &figure->column[i], row);
        }
        mt_put(out, " \\\\\n");
    }
    close_float(out, figure);
}

/* The last number given for a place of a grid. */
static double grid_cell(const struct mt_figure *figure, size_t down, size_t across)
{
    for (size_t row = mt_figure_rows(figure); row > 0; row--) {
        if (figure->column[0].codes[row - 1] == down && figure->column[1].codes[row - 1] == across)
            return figure->column[2].numbers[row - 1];
    }
    return (double)NAN;
}

static void put_grid(struct mt_output *out, const struct mt_figure *figure)
{
    const struct mt_column *down = &figure->column[0];
    const struct mt_column *across = &figure->column[1];
    char text[MT_NUMBER_BYTES];
    open_float(out, figure);
    mt_put(out, "l");
    for (size_t k = 0; k < across->level_count; k++) mt_put(out, "r");
    mt_putf(out, "@{}}\n\\toprule\n & \\multicolumn{%zu}{c}{", across->level_count);
    mt_put_latex(out, across->name);
    mt_put(out, "} \\\\\n");
    mt_put_latex(out, down->name);
    for (size_t k = 0; k < across->level_count; k++) {
        mt_put(out, " & ");
        mt_put_latex(out, across->levels[k]);
    }
    mt_put(out, " \\\\\n\\midrule\n");
    for (size_t i = 0; i < down->level_count && out->status == MT_OK; i++) {
        mt_put_latex(out, down->levels[i]);
        for (size_t k = 0; k < across->level_count; k++) {
            mt_put(out, " & ");
            put_number(out, mt_number_text(text, grid_cell(figure, i, k)));
        }
        mt_put(out, " \\\\\n");
    }
    close_float(out, figure);
}

static void put_picture(struct mt_output *out, const struct mt_figure *figure, const char *pictures)
{
    mt_put(out, "\n\\begin{figure}[!htbp]\n\\centering\n\\includegraphics[width=\\linewidth]{\\detokenize{");
    mt_put(out, pictures);
    mt_putf(out, "/%s.png}}\n", figure->id);
    put_caption(out, figure, "fig");
    mt_put(out, "\\end{figure}\n");
}

/* Returns how many floats it made. */
static int put_figure(struct mt_output *out, const struct mt_figure *figure, const char *pictures)
{
    size_t rows = mt_figure_rows(figure);
    bool grid = figure->head.kind == MT_FIGURE_GRID && figure->column[1].level_count <= MOST_COLUMNS &&
                figure->column[0].level_count <= MOST_ROWS;
    if (rows == 0) return 0;
    if (grid) put_grid(out, figure);
    if (figure->head.kind == MT_FIGURE_TABLE && rows <= MOST_ROWS) {
        put_table(out, figure);
        return 1;
    }
    if (figure->head.kind == MT_FIGURE_TABLE) {
        mt_putf(out, "\n%% %s has %zu rows, too many for a float: see %s.csv of --csv.\n", figure->id, rows,
                figure->id);
        return 0;
    }
    if (pictures != NULL) put_picture(out, figure, pictures);
    return (grid ? 1 : 0) + (pictures != NULL ? 1 : 0);
}

enum mt_status mt_render_latex(const struct mt_page *page, const char *pictures, struct mt_output *out)
{
    int waiting = 0; // floats since the last page that was ended
    put_head(out, page, pictures != NULL);
    for (const struct mt_section *section = page->first; section != NULL; section = section->next) {
        for (const struct mt_block *block = section->first; block != NULL; block = block->next) {
            if (block->figure == NULL) continue;
            waiting += put_figure(out, block->figure, pictures);
            if (waiting < MOST_WAITING) continue;
            mt_put(out, "\n\\clearpage % LaTeX holds back no more than 18 floats\n");
            waiting = 0;
        }
    }
    return out->status;
}
