/* Tables: marks, lines between rows, and their columns as files of numbers have them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/page_parts.h"

void mt_figure_rule(struct mt_figure *figure)
{
    if (figure == NULL) return;
    struct mt_rule *rule = mt_page_make(figure->page, sizeof *rule);
    if (rule == NULL) return;
    *rule = (struct mt_rule){.row = mt_figure_rows(figure), .next = figure->rules};
    figure->rules = rule;
}

bool mt_figure_has_rule(const struct mt_figure *figure, size_t row)
{
    for (const struct mt_rule *rule = figure->rules; rule != NULL; rule = rule->next) {
        if (rule->row == row && row > 0) return true;
    }
    return false;
}

/* A number as it is shown, times a power of ten: what is the same to a reader is the same. */
static double shown(const struct mt_column *column, size_t row, int better)
{
    return better * rint(column->numbers[row] * pow(10, column->decimals));
}

/* The highest of the numbers below `limit`; NaN without any. */
static double highest_below(const struct mt_column *column, int better, size_t first, double limit)
{
    double most = (double)NAN;
    for (size_t row = first; row < column->rows; row++) {
        double value = shown(column, row, better);
        if (value < limit) most = fmax(most, value);
    }
    return most;
}

void mt_figure_rank(struct mt_figure *figure, int column, int better, size_t first)
{
    if (figure == NULL || figure->page->status != MT_OK || better == 0) return;
    struct mt_column *measures = &figure->column[column];
    size_t known = 0;
    for (size_t row = first; row < measures->rows; row++) known += isfinite(measures->numbers[row]) ? 1 : 0;
    double best = highest_below(measures, better, first, (double)INFINITY);
    double second = highest_below(measures, better, first, best);
    if (known < 2 || isnan(second)) return; // all the same: none is better
    for (size_t row = first; row < measures->rows; row++) {
        double value = shown(measures, row, better);
        if (value == best) measures->marks[row] |= MT_MARK_BEST;
        if (value == second) measures->marks[row] |= MT_MARK_SECOND;
    }
}

static unsigned column_marks(const struct mt_column *column)
{
    unsigned marks = 0;
    for (size_t row = 0; row < column->rows && column->kind == MT_COLUMN_MEASURE; row++)
        marks |= column->marks[row];
    return marks;
}

unsigned mt_figure_marks(const struct mt_figure *figure)
{
    unsigned marks = 0;
    for (int i = 0; i < figure->column_count; i++) marks |= column_marks(&figure->column[i]);
    return marks;
}

const char *mt_marks_text(unsigned marks)
{
    static const char *const texts[] = {"",         "best",           "second",          "",
                                        "p < 0.05", "best, p < 0.05", "second, p < 0.05"};
    return marks < sizeof texts / sizeof texts[0] ? texts[marks] : "";
}

size_t mt_figure_parts(const struct mt_figure *figure, struct mt_column_part parts[MT_FIGURE_MOST_PARTS])
{
    size_t count = 0;
    for (int i = 0; i < figure->column_count; i++) {
        const struct mt_column *column = &figure->column[i];
        parts[count++] = (struct mt_column_part){column, MT_PART_VALUE};
        if (column->kind != MT_COLUMN_MEASURE) continue;
        parts[count++] = (struct mt_column_part){column, MT_PART_SPREAD};
        if (column_marks(column) != 0) parts[count++] = (struct mt_column_part){column, MT_PART_MARKS};
    }
    return count;
}

const char *mt_part_name(char name[MT_PART_NAME_BYTES], const struct mt_column_part *part)
{
    const char *whole = part->column->name;
    size_t length = strlen(whole) < MT_PART_NAME_BYTES - 8 ? strlen(whole) : MT_PART_NAME_BYTES - 8;
    if (part->part == MT_PART_VALUE) return whole;
    while (length > 0 && ((unsigned char)whole[length] & 0xC0u) == 0x80u) length--; // no half character
    (void)snprintf(name, MT_PART_NAME_BYTES, "%.*s %s", (int)length, whole,
                   part->part == MT_PART_SPREAD ? "±" : "mark");
    return name;
}
