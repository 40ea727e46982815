/*
 * A page as data: title, cards, sections of paragraphs and figures. What it shows is the caller's business,
 * how it looks the renderers' (render.h); the same page becomes HTML, Markdown, pictures and files of
 * numbers.
 *
 * A figure is a table of columns with a meaning: which columns there are follows from its kind.
 *
 *     kind     columns                                  filled with
 *     TABLE    any, named by mt_figure_column           mt_figure_text, mt_figure_number, cell after cell
 *     LINES    series, x, y (low, high with `band`)     mt_figure_point, mt_figure_range
 *     BARS     series, x: a label, y (low, high)        mt_figure_bar
 *     HEATMAP  y: a label, x: a label, value            mt_figure_cell
 *     GRID     the same, with the numbers in its cells  mt_figure_cell
 *     SCATTER  series, x, y                             mt_figure_point
 *     RADAR    series, x: a label, y                    mt_figure_bar
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
    bool band;           // LINES, BARS: with columns low and high
    bool log_y;          // LINES: a logarithmic axis, as long as every number is above 0
    bool centred;        // HEATMAP, GRID: two colours that part at `centre`, instead of one scale
    double centre;
    const char *scale; // HEATMAP, GRID: figures of the page with the same name here share their colours
    bool from_zero;    // HEATMAP, GRID: the colours begin at 0
};

enum mt_column_kind {
    MT_COLUMN_LABEL,  // texts, each stored once
    MT_COLUMN_NUMBER, // doubles
};

struct mt_column {
    const char *name;
    enum mt_column_kind kind;
    double *numbers;     // NUMBER: [rows]
    uint32_t *codes;     // LABEL: [rows], indices of levels
    const char **levels; // LABEL: [level_count], in order of first appearance
    size_t level_count;
    size_t rows;
    size_t row_capacity, level_capacity;
};

#define MT_FIGURE_MOST_COLUMNS 64
#define MT_FIGURE_MOST_ROWS    ((size_t)1 << 26)

struct mt_figure {
    struct mt_page *page;       // borrowed
    struct mt_figure_head head; // texts owned by the page, never NULL
    const char *id;             // unique in the page; lower-case letters, digits and '-': fit for a file name
    struct mt_column column[MT_FIGURE_MOST_COLUMNS];
    int column_count;
    int next_column; // TABLE: where the next cell goes
};

/* A paragraph or a figure. */
struct mt_block {
    const char *text; // NULL: a figure
    struct mt_figure *figure;
    struct mt_block *next;
};

struct mt_section {
    const char *id;
    const char *title;
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

/* A paragraph of the current section; formatted, cut at 1000 bytes. */
void mt_page_text(struct mt_page *page, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A figure of the current section, which lives as long as the page; NULL once the page has failed: every
 * function below takes that and does nothing. */
struct mt_figure *mt_page_figure(struct mt_page *page, const struct mt_figure_head *head);

/* TABLE: one more column; before the first cell. */
void mt_figure_column(struct mt_figure *figure, enum mt_column_kind kind, const char *name);

/* TABLE: the next cell, row by row from left to right; the kind is the column's. */
void mt_figure_text(struct mt_figure *figure, const char *text);
void mt_figure_number(struct mt_figure *figure, double number);

/* LINES, SCATTER: a point; with a range around it where the figure has a band. */
void mt_figure_point(struct mt_figure *figure, const char *series, double x, double y);
void mt_figure_range(struct mt_figure *figure, const char *series, double x, double y, double low,
                     double high);

/* SCATTER: a point of the series "expert N", whose colour is that of its number unless another expert of the
 * page has it. */
void mt_figure_expert(struct mt_figure *figure, int expert, double x, double y);

/* BARS, RADAR: low and high are ignored without a band. */
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

/* The text of a LABEL column at a row. */
const char *mt_column_text(const struct mt_column *column, size_t row);

#endif
