/*
 * A page as data: title, a verdict, cards, sections of paragraphs and figures. What it shows is the caller's
 * business, how it looks the renderers' (render.h); the same page becomes HTML, Markdown, LaTeX, pictures and
 * files of numbers.
 *
 * A figure is a table of columns with a meaning: which columns there are follows from its kind.
 *
 *     kind     columns                                  filled with
 *     TABLE    any, named by mt_figure_column           mt_figure_text, _number, _measure, cell after cell
 *     LINES    series, x, y (low, high with `band`)     mt_figure_point, mt_figure_range
 *     BARS     series, x: a label, y (low, high)        mt_figure_bar
 *     DOTS     the same; labels down, numbers across    mt_figure_bar
 *     HEATMAP  y: a label, x: a label, value            mt_figure_cell
 *     GRID     the same, with the numbers in its cells  mt_figure_cell
 *     SCATTER  series, x, y                             mt_figure_point
 *     RADAR    series, x: a label, y                    mt_figure_bar
 *
 * DOTS are for differences: their axis has a line at 0, and its labels are those of the panel, in the order
 * of its rows.
 *
 * LINES, BARS, DOTS and SCATTER with a `panel` are small multiples: a chart for each panel (mt_figure_panel),
 * one caption and one legend for all. The panel is then the last column.
 *
 * A measure is a number of a table that comes with its spread, and that may be the best of its column:
 * "41.2 ± 0.8". Files of numbers have it as columns of their own (mt_figure_parts).
 *
 * Meanings, formulas, paragraphs and findings may hold formulas between dollar signs, in the part of TeX that
 * render/math.h knows.
 *
 * Labels keep the order in which they first come. A series of one kind and name (run "a", expert 3) has one
 * colour in all figures of a page, and heat maps of one `scale` share theirs. NaN is a number nobody knows: a
 * gap, or "–".
 *
 *     mt_page_init(&page, ctx, "Runs");
 *     mt_page_section(&page, "Training");
 *     struct mt_figure *figure = mt_page_figure(&page, &(struct mt_figure_head){.kind = MT_FIGURE_LINES,
 * ...}); for (...) mt_figure_point(figure, run, step, loss); status = mt_page_status(&page);
 *
 * Building does not fail call by call: the first failure stays in the page, everything after it does nothing,
 * and mt_page_status tells. All texts are copied; what is not UTF-8 becomes U+FFFD on the way in.
 */
#ifndef MT_REPORT_PAGE_H
#define MT_REPORT_PAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

enum mt_figure_shape {
    MT_FIGURE_TABLE,
    MT_FIGURE_LINES,
    MT_FIGURE_BARS,
    MT_FIGURE_DOTS,
    MT_FIGURE_HEATMAP,
    MT_FIGURE_GRID,
    MT_FIGURE_SCATTER,
    MT_FIGURE_RADAR,
};

/* What a figure is called and says; texts that are NULL are empty. */
struct mt_figure_head {
    enum mt_figure_shape kind;
    const char *title;
    const char *meaning; // one sentence: what a reader should see in it
    const char *formula; // which formula made the numbers
    const char *series;  // names of the columns, and of the axes: "run",
    const char *x;       // "step",
    const char *y;       // "L_h",
    const char *value;   // and of a heat map's numbers
    bool band;           // LINES, BARS, DOTS: with columns low and high
    bool log_y;          // LINES: a logarithmic axis, as long as every number is above 0
    bool centred;        // HEATMAP, GRID: two colours that part at `centre`, instead of one scale
    double centre;
    const char *scale; // HEATMAP, GRID: figures of the page with the same name here share their colours
    bool from_zero;    // HEATMAP, GRID: the colours begin at 0
    const char *panel; // LINES, BARS, DOTS, SCATTER: what a panel is of, "figure"; NULL: one chart
    bool filtered;     // TABLE: rows can be chosen by their labels, columns by name; those of a page together
    double reach;      // BARS, DOTS: the axis of y goes from -reach to reach at least; 0: as the numbers are
    const char *unit;  // of y, on the axis: "s", "B" become ms, MB and so on; NULL: none
};

enum mt_column_kind {
    MT_COLUMN_LABEL,   // texts, each stored once
    MT_COLUMN_NUMBER,  // doubles
    MT_COLUMN_MEASURE, // doubles with a spread, shown with so many decimals
};

/* What is said of a cell beside its number; bits. */
enum mt_mark {
    MT_MARK_BEST = 1,
    MT_MARK_SECOND = 2,
    MT_MARK_BEYOND = 4, // beyond chance, by the test the figure's formula names
};

struct mt_column {
    const char *name;
    enum mt_column_kind kind;
    double *numbers;     // NUMBER, MEASURE: [rows]
    double *spreads;     // MEASURE: [rows]; NaN: none
    uint8_t *marks;      // MEASURE: [rows]
    int decimals;        // MEASURE: shown
    bool is_signed;      // MEASURE: shown with a plus where positive
    uint32_t *codes;     // LABEL: [rows], indices of levels
    const char **levels; // LABEL: [level_count], in order of first appearance
    size_t level_count;
    size_t rows;
    size_t row_capacity, level_capacity, spread_capacity, mark_capacity;
};

#define MT_FIGURE_MOST_COLUMNS 64
#define MT_FIGURE_MOST_ROWS    ((size_t)1 << 26)

struct mt_figure {
    struct mt_page *page;       // borrowed
    struct mt_figure_head head; // texts owned by the page, never NULL
    const char *id; // unique among figures; lower-case letters, digits and '-': fit for a file name
    struct mt_column column[MT_FIGURE_MOST_COLUMNS];
    int column_count;
    int next_column;       // TABLE: where the next cell goes
    const char *panel;     // of the rows that come
    struct mt_rule *rules; // TABLE: lines between rows; the last one first
};

/* A line above a row of a table. */
struct mt_rule {
    size_t row;
    struct mt_rule *next;
};

/* How a finding is meant. */
enum mt_tone {
    MT_TONE_PLAIN, // as it is
    MT_TONE_GOOD,
    MT_TONE_BAD,
    MT_TONE_OPEN, // nobody can say: chance, or not measured
};

/* A paragraph, a finding or a figure. */
struct mt_block {
    const char *text;     // NULL: a figure
    const char *headline; // of a finding; NULL: no finding
    enum mt_tone tone;
    struct mt_figure *figure;
    struct mt_block *next;
};

struct mt_section {
    const char *id;
    const char *title;
    bool verdict;
    struct mt_block *first, *last;
    struct mt_section *next;
};

#define MT_PAGE_COLOURS 16 // that differ; those of higher numbers differ in marks or dashes

/* A series that figures of the page have, and the number of its colour. */
struct mt_series {
    const char *kind; // "run", "expert": as the figures' heads have it
    const char *name;
    uint32_t colour;
    struct mt_series *next;
};

/* A number at the top of the page. */
struct mt_card {
    const char *name;
    const char *value;
    const char *note; // small print below; may be ""
    struct mt_card *next;
};

struct mt_page {
    struct mt_context *ctx; // borrowed
    enum mt_status status;  // of the first failure
    struct mt_arena arena;  // texts and structs
    const char *title;
    const char *subtitle;
    struct mt_card *first_card, *last_card;
    struct mt_series *series; // the last one first
    struct mt_section *first, *last;
};

/* Prepares a caller-owned, empty page. Whatever happens, the caller frees it. */
void mt_page_init(struct mt_page *page, struct mt_context *ctx, const char *title);
void mt_page_free(struct mt_page *page); // a zeroed page is allowed

/* MT_OK, or the first failure of anything done to the page or its figures. */
enum mt_status mt_page_status(const struct mt_page *page);

/* Something the caller did for the page: a failure stays like one of the page's own. True when all is well.
 */
bool mt_page_check(struct mt_page *page, enum mt_status status);

void mt_page_subtitle(struct mt_page *page, const char *text);
void mt_page_card(struct mt_page *page, const char *name, const char *value, const char *note);

/* What follows stands below this heading. */
void mt_page_section(struct mt_page *page, const char *title);

/* The first section of a page, for findings and one figure: what was found, before anything else. */
void mt_page_verdict(struct mt_page *page, const char *title);

/* A finding: a few words, and a sentence, which is formatted and cut at 1000 bytes. */
void mt_page_finding(struct mt_page *page, enum mt_tone tone, const char *headline, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* A paragraph of the current section; formatted, cut at 1000 bytes. */
void mt_page_text(struct mt_page *page, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A figure of the current section, which lives as long as the page; NULL once the page has failed: every
 * function below takes that and does nothing. */
struct mt_figure *mt_page_figure(struct mt_page *page, const struct mt_figure_head *head);

/* TABLE: one more column; before the first cell. */
void mt_figure_column(struct mt_figure *figure, enum mt_column_kind kind, const char *name);

/* The same for measures; `is_signed`: differences, +1.2. */
void mt_figure_measure_column(struct mt_figure *figure, const char *name, int decimals, bool is_signed);

/* TABLE: the next cell, row by row from left to right; the kind is the column's. spread: NaN for none. */
void mt_figure_text(struct mt_figure *figure, const char *text);
void mt_figure_number(struct mt_figure *figure, double number);
void mt_figure_measure(struct mt_figure *figure, double number, double spread, bool beyond_chance);

/* TABLE: a line above the row that comes next. */
void mt_figure_rule(struct mt_figure *figure);
bool mt_figure_has_rule(const struct mt_figure *figure, size_t row);

/*
 * TABLE: marks the best and the second best of a column of measures among the rows from `first` on, by the
 * numbers as they are shown; equals share a mark. better: 1: high, -1: low, 0: nothing is marked.
 */
void mt_figure_rank(struct mt_figure *figure, int column, int better, size_t first);

/* The rows that come belong to this panel. */
void mt_figure_panel(struct mt_figure *figure, const char *name);

/* The column of panels; NULL: the figure is one chart. */
const struct mt_column *mt_figure_panels(const struct mt_figure *figure);

/* Rows of a panel; those of all where there are none. */
size_t mt_figure_panel_rows(const struct mt_figure *figure, size_t panel);

/* LINES, SCATTER: a point; with a range around it where the figure has a band. */
void mt_figure_point(struct mt_figure *figure, const char *series, double x, double y);
void mt_figure_range(struct mt_figure *figure, const char *series, double x, double y, double low,
                     double high);

/* SCATTER: a point of the series "expert N", whose colour is that of its number unless another expert of the
 * page has it. */
void mt_figure_expert(struct mt_figure *figure, int expert, double x, double y);

/* BARS, DOTS, RADAR: low and high are ignored without a band. */
void mt_figure_bar(struct mt_figure *figure, const char *series, const char *label, double y, double low,
                   double high);

/* HEATMAP, GRID: a cell; the last one given for a place counts. */
void mt_figure_cell(struct mt_figure *figure, const char *row, const char *column, double value);

/* The number of a series' colour; level: its place among the labels of column 0. */
uint32_t mt_figure_colour(const struct mt_figure *figure, size_t level);

/* Series of its kind on the whole page: where there are several, a figure with one of them says which. */
size_t mt_figure_kindred(const struct mt_figure *figure);

/* HEATMAP, GRID: the numbers that the colours span: those of all figures of its scale. Without any 0 to 1. */
void mt_figure_span(const struct mt_figure *figure, double *low, double *high);

/* Rows of a figure; an unfinished one of a table does not count. */
size_t mt_figure_rows(const struct mt_figure *figure);

/* A column as files of numbers have it: a measure's number, its spread, its marks in words. */
struct mt_column_part {
    const struct mt_column *column;
    enum { MT_PART_VALUE, MT_PART_SPREAD, MT_PART_MARKS } part;
};

#define MT_FIGURE_MOST_PARTS (3 * MT_FIGURE_MOST_COLUMNS)

/* All parts of all columns; returns how many. A measure without any mark has no column of marks. */
size_t mt_figure_parts(const struct mt_figure *figure, struct mt_column_part parts[MT_FIGURE_MOST_PARTS]);

#define MT_PART_NAME_BYTES 256

/* The name of such a column: "gsm8k", "gsm8k ±", "gsm8k mark". */
const char *mt_part_name(char name[MT_PART_NAME_BYTES], const struct mt_column_part *part);

/* The marks of all cells together. */
unsigned mt_figure_marks(const struct mt_figure *figure);

/* "best", "second, p < 0.05": marks in words; "" for none. */
const char *mt_marks_text(unsigned marks);

/* The text of a LABEL column at a row. */
const char *mt_column_text(const struct mt_column *column, size_t row);

#endif
