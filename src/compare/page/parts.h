/* What the parts of a comparison's page share. Each part looks at one model; the page goes over them. */
#ifndef MT_COMPARE_PAGE_PARTS_H
#define MT_COMPARE_PAGE_PARTS_H

#include "compare/summary.h"
#include "report/page.h"

#define MT_COMPARE_TITLE_BYTES 192

/* One model of a comparison, and the page it is shown on. */
struct mt_compare_view {
    const struct mt_comparison *comparison;
    struct mt_page *page;
    size_t model;
    size_t methods; // those in front, which are not points of a grid
    size_t reference;
};

/* A model on a page. */
struct mt_compare_view mt_compare_view_of(const struct mt_comparison *comparison, struct mt_page *page,
                                          size_t model);

/* "WHAT" of the only model, "WHAT: MODEL" of one of several. */
const char *mt_view_title(char title[MT_COMPARE_TITLE_BYTES], const struct mt_compare_view *view,
                          const char *what);

/*
 * The score of methods: the mean over all benchmarks in points, of 100, or without benchmarks whole answers
 * that are right. Of a cell NaN where one is not known.
 */
struct mt_score {
    struct mt_moments moments; // over seeds
    struct mt_paired paired;   // method - reference, over seeds and domains
    double holm;               // p of it, corrected for the number of methods
};

/* Of every method that is not of a grid; [view->methods]. */
void mt_view_scores(const struct mt_compare_view *view, struct mt_score *scores);

/* Differences of two methods' scores, method - other. */
struct mt_paired mt_view_score_pair(const struct mt_compare_view *view, size_t method, size_t other);

/* What the model scores as it is; NaN: not known. */
double mt_view_base_score(const struct mt_compare_view *view);

/*
 * The row of the model before training, which stands first and is neither ranked nor tested: begun with its
 * name, to be filled like a method's. Returns how many rows it makes, 0 where it is not known.
 */
size_t mt_view_base_row(const struct mt_compare_view *view, struct mt_figure *table);

/* A column of the base as a measure of a table, or its difference to the reference. */
void mt_view_base_measure(const struct mt_compare_view *view, struct mt_figure *table, size_t column,
                          size_t domain);
void mt_view_base_difference(const struct mt_compare_view *view, struct mt_figure *table, size_t column,
                             size_t domain);

/* "6 benchmarks", "gsm8k", "whole answers". */
const char *mt_view_score_name(char name[MT_COMPARE_TITLE_BYTES], const struct mt_compare_view *view);

/* The formula of a column: TeX where the report has it, else the row's own words. */
const char *mt_view_formula(const struct mt_compare_figure_row *row);

/* Lists "TITLE: FORMULA; " of columns. */
void mt_view_formulas(char *text, size_t bytes, const struct mt_compare_view *view, const size_t *columns,
                      size_t count);

/* True for the paper's method, its ablations, and what they are held against. */
bool mt_view_is_ablation(const struct mt_compare_view *view, size_t method);
bool mt_view_has_ablations(const struct mt_compare_view *view);

// The parts, each a section or some figures of one; page.c has their order.
void mt_page_compare_verdict(const struct mt_compare_view *view); // verdict.c
void mt_page_compare_picture(const struct mt_comparison *comparison, struct mt_page *page);
void mt_page_compare_few(const struct mt_comparison *comparison, struct mt_page *page); // fewer.c
void mt_page_compare_benchmarks(const struct mt_compare_view *view);                    // tables.c
void mt_page_compare_answers(const struct mt_compare_view *view);                       // tables.c
void mt_page_compare_parts(const struct mt_compare_view *view);                         // domains.c
void mt_page_compare_geometry(const struct mt_compare_view *view);                      // tables.c
void mt_page_compare_budgets(const struct mt_compare_view *view);                       // budgets.c
void mt_page_compare_ablation(const struct mt_compare_view *view);                      // ablation.c
void mt_page_compare_claims(const struct mt_compare_view *view);                        // claims.c
void mt_page_compare_curves(const struct mt_compare_view *view);                        // figures.c
void mt_page_compare_bars(const struct mt_compare_view *view);                          // figures.c
void mt_page_compare_radar(const struct mt_compare_view *view);                         // figures.c
void mt_page_compare_tokens(const struct mt_compare_view *view);                        // experts.c
void mt_page_compare_shares(const struct mt_compare_view *view);                        // experts.c
void mt_page_compare_pruned(const struct mt_compare_view *view);                        // probes.c
void mt_page_compare_fewer(const struct mt_compare_view *view);                         // fewer.c
void mt_page_compare_steps(const struct mt_compare_view *view);                         // probes.c
void mt_page_compare_sensitivity(const struct mt_compare_view *view);                   // sensitivity.c
void mt_page_compare_cost(const struct mt_compare_view *view);                          // cost.c

#endif
