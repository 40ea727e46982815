/* The page as Markdown: texts, tables, links to pictures; of curves and points their extent. */
#include <math.h>

#include "report/render.h"
#include "report/render/math.h"

#define MOST_MATRIX_COLUMNS 16 // of a heat map that is written out; a wider one is summed up

static void put_number_cell(struct mt_output *out, double number)
{
    char text[MT_NUMBER_BYTES];
    mt_putf(out, " %s |", mt_number_text(text, number));
}

static void put_text_cell(struct mt_output *out, const char *text)
{
    mt_put(out, " ");
    mt_put_markdown(out, text);
    mt_put(out, " |");
}

/* The line below the titles: one column of texts after the other, then columns of numbers. */
static void put_rule(struct mt_output *out, size_t texts, size_t numbers)
{
    mt_put(out, "\n|");
    for (size_t i = 0; i < texts; i++) mt_put(out, "---|");
    for (size_t i = 0; i < numbers; i++) mt_put(out, "---:|");
    mt_put(out, "\n");
}

/* The best is bold, the second best in italics: Markdown cannot underline. */
static void put_measure_cell(struct mt_output *out, const struct mt_column *column, size_t row)
{
    char text[MT_NUMBER_BYTES];
    unsigned marks = column->marks[row];
    const char *around = (marks & MT_MARK_BEST) != 0 ? "**" : ((marks & MT_MARK_SECOND) != 0 ? "*" : "");
    mt_putf(out, " %s%s%s", around,
            mt_fixed_text(text, column->numbers[row], column->decimals, column->is_signed), around);
    if (isfinite(column->numbers[row]) && isfinite(column->spreads[row]))
        mt_putf(out, " ± %s", mt_fixed_text(text, column->spreads[row], column->decimals, false));
    mt_put(out, (marks & MT_MARK_BEYOND) != 0 ? " \\* |" : " |");
}

static void put_marks_note(struct mt_output *out, unsigned marks)
{
    if (marks == 0) return;
    mt_put(out, "\n");
    if ((marks & MT_MARK_BEST) != 0) mt_put(out, "Bold: best of a column; italics: second best. ");
    if ((marks & MT_MARK_BEYOND) != 0) mt_put(out, "\\*: beyond chance, p < 0.05.");
    mt_put(out, "\n");
}

static void put_rows(struct mt_output *out, const struct mt_figure *figure)
{
    size_t rows = mt_figure_rows(figure);
    mt_put(out, "|");
    for (int i = 0; i < figure->column_count; i++) put_text_cell(out, figure->column[i].name);
    mt_put(out, "\n|");
    for (int i = 0; i < figure->column_count; i++)
        mt_put(out, figure->column[i].kind == MT_COLUMN_LABEL ? "---|" : "---:|");
    mt_put(out, "\n");
    for (size_t row = 0; row < rows && out->status == MT_OK; row++) {
        mt_put(out, "|");
        for (int i = 0; i < figure->column_count; i++) {
            const struct mt_column *column = &figure->column[i];
            if (column->kind == MT_COLUMN_MEASURE) {
                put_measure_cell(out, column, row);
            } else if (column->kind == MT_COLUMN_NUMBER) {
                put_number_cell(out, column->numbers[row]);
            } else {
                put_text_cell(out, mt_column_text(column, row));
            }
        }
        mt_put(out, "\n");
    }
    put_marks_note(out, mt_figure_marks(figure));
}

/* What is known of a series or a row: first, last, lowest, highest, mean. */
struct extent {
    double first, last, low, high, sum;
    size_t count;
};

static enum mt_status measure(const struct mt_figure *figure, struct extent *extents)
{
    const struct mt_column *labels = &figure->column[0];
    size_t rows = mt_figure_rows(figure);
    for (size_t i = 0; i < labels->level_count; i++)
        extents[i] = (struct extent){.first = NAN, .last = NAN, .low = NAN, .high = NAN};
    for (size_t row = 0; row < rows; row++) {
        struct extent *one = &extents[labels->codes[row]];
        double y = figure->column[2].numbers[row];
        if (isnan(y)) continue;
        if (one->count == 0) one->first = y;
        one->last = y;
        one->low = fmin(one->low, y);
        one->high = fmax(one->high, y);
        one->sum += y;
        one->count++;
    }
    return MT_OK;
}

static void put_extents(struct mt_output *out, const struct mt_figure *figure)
{
    struct mt_context *ctx = figure->page->ctx;
    const struct mt_column *labels = &figure->column[0];
    bool curve = figure->head.kind == MT_FIGURE_LINES;
    void *memory = NULL;
    if (out->status == MT_OK)
        out->status = mt_allocate_array(ctx, labels->level_count, sizeof(struct extent), &memory);
    if (out->status != MT_OK) return;
    struct extent *extents = memory;
    (void)measure(figure, extents);
    mt_put(out, "|");
    put_text_cell(out, labels->name);
    mt_put(out,
           curve ? " first | last | lowest | highest | points |" : " lowest | mean | highest | points |");
    put_rule(out, 1, curve ? 5 : 4);
    for (size_t i = 0; i < labels->level_count; i++) {
        mt_put(out, "|");
        put_text_cell(out, labels->levels[i]);
        if (curve) {
            put_number_cell(out, extents[i].first);
            put_number_cell(out, extents[i].last);
        }
        put_number_cell(out, extents[i].low);
        if (!curve) put_number_cell(out, extents[i].sum / (double)extents[i].count);
        put_number_cell(out, extents[i].high);
        put_number_cell(out, (double)extents[i].count);
        mt_put(out, "\n");
    }
    mt_release(ctx, memory, labels->level_count * sizeof *extents);
}

/* A heat map as a matrix: rows and columns by their labels. */
static void put_matrix(struct mt_output *out, const struct mt_figure *figure)
{
    struct mt_context *ctx = figure->page->ctx;
    const struct mt_column *down = &figure->column[0];
    const struct mt_column *across = &figure->column[1];
    size_t cells = down->level_count * across->level_count;
    void *memory = NULL;
    if (out->status == MT_OK) out->status = mt_allocate_array(ctx, cells, sizeof(double), &memory);
    if (out->status != MT_OK) return;
    double *matrix = memory;
    for (size_t i = 0; i < cells; i++) matrix[i] = NAN;
    for (size_t row = 0; row < mt_figure_rows(figure); row++)
        matrix[down->codes[row] * across->level_count + across->codes[row]] = figure->column[2].numbers[row];
    mt_put(out, "|");
    put_text_cell(out, down->name);
    for (size_t k = 0; k < across->level_count; k++) put_text_cell(out, across->levels[k]);
    put_rule(out, 1, across->level_count);
    for (size_t i = 0; i < down->level_count && out->status == MT_OK; i++) {
        mt_put(out, "|");
        put_text_cell(out, down->levels[i]);
        for (size_t k = 0; k < across->level_count; k++)
            put_number_cell(out, matrix[i * across->level_count + k]);
        mt_put(out, "\n");
    }
    mt_release(ctx, memory, cells * sizeof *matrix);
}

static void put_figure(struct mt_output *out, const struct mt_figure *figure, const char *pictures)
{
    bool matrix = figure->head.kind == MT_FIGURE_HEATMAP || figure->head.kind == MT_FIGURE_GRID;
    mt_put(out, "### ");
    mt_put_markdown(out, figure->head.title);
    mt_put(out, "\n\n");
    mt_put_markdown_math(out, figure->head.meaning);
    mt_put(out, "\n\n");
    if (pictures != NULL && mt_figure_has_picture(figure)) {
        mt_put(out, "![");
        mt_put_markdown(out, figure->head.title);
        mt_put(out, "](<");
        mt_put(out, pictures);
        mt_putf(out, "/%s.png>)\n\n", figure->id);
    }
    if (mt_figure_rows(figure) == 0) {
        mt_put(out, "No data.\n");
    } else if (matrix && figure->column[1].level_count <= MOST_MATRIX_COLUMNS) {
        put_matrix(out, figure);
    } else if (matrix || figure->head.kind == MT_FIGURE_LINES || figure->head.kind == MT_FIGURE_SCATTER) {
        put_extents(out, figure);
    } else {
        put_rows(out, figure);
    }
    if (figure->head.formula[0] != '\0') {
        mt_put(out, "\n");
        mt_put_markdown_math(out, figure->head.formula);
        mt_put(out, "\n");
    }
    mt_put(out, "\n");
}

static void put_cards(struct mt_output *out, const struct mt_page *page)
{
    for (const struct mt_card *card = page->first_card; card != NULL; card = card->next) {
        mt_put(out, "- **");
        mt_put_markdown(out, card->name);
        mt_put(out, "**: ");
        mt_put_markdown(out, card->value);
        mt_put(out, card->note[0] != '\0' ? " (" : "");
        mt_put_markdown(out, card->note);
        mt_put(out, card->note[0] != '\0' ? ")\n" : "\n");
    }
}

static void put_finding(struct mt_output *out, const struct mt_block *block)
{
    static const char *const signs[] = {"", "✓ ", "✗ ", "? "};
    mt_putf(out, "- %s**", signs[block->tone]);
    mt_put_markdown_math(out, block->headline);
    mt_put(out, "** ");
    mt_put_markdown_math(out, block->text);
    mt_put(out, block->next != NULL && block->next->headline != NULL ? "\n" : "\n\n");
}

static void put_section(struct mt_output *out, const struct mt_section *section, const char *pictures)
{
    mt_put(out, "\n## ");
    mt_put_markdown(out, section->title);
    mt_put(out, "\n\n");
    for (const struct mt_block *block = section->first; block != NULL; block = block->next) {
        if (block->figure != NULL) {
            put_figure(out, block->figure, pictures);
        } else if (block->headline != NULL) {
            put_finding(out, block);
        } else {
            mt_put_markdown_math(out, block->text);
            mt_put(out, "\n\n");
        }
    }
}

enum mt_status mt_render_markdown(const struct mt_page *page, const char *pictures, struct mt_output *out)
{
    mt_put(out, "# ");
    mt_put_markdown(out, page->title);
    mt_put(out, "\n\n");
    if (page->subtitle[0] != '\0') {
        mt_put_markdown(out, page->subtitle);
        mt_put(out, "\n\n");
    }
    const struct mt_section *section = page->first;
    for (; section != NULL && section->verdict; section = section->next) put_section(out, section, pictures);
    put_cards(out, page);
    for (; section != NULL; section = section->next) put_section(out, section, pictures);
    return out->status;
}
