/* A comparison as a page (report/page.h): the paper's tables and figures, each with its sentence and formula.
 */
#ifndef MT_COMPARE_PAGES_H
#define MT_COMPARE_PAGES_H

#include "compare/summary.h"
#include "report/page.h"

/* Fills a page; a failure stays in the page, too. */
enum mt_status mt_comparison_page(const struct mt_comparison *comparison, struct mt_page *page);

// The parts, in the order of the page.
void mt_compare_page_accuracy(const struct mt_comparison *comparison, struct mt_page *page); // page_tables.c
void mt_compare_page_figures(const struct mt_comparison *comparison, struct mt_page *page);
void mt_compare_page_claims(const struct mt_comparison *comparison, struct mt_page *page); // page_claims.c
void mt_compare_page_bars(const struct mt_comparison *comparison, struct mt_page *page);   // page_pictures.c
void mt_compare_page_curves(const struct mt_comparison *comparison, struct mt_page *page);
void mt_compare_page_radar(const struct mt_comparison *comparison, struct mt_page *page);
void mt_compare_page_tokens(const struct mt_comparison *comparison, struct mt_page *page);
void mt_compare_page_grid(const struct mt_comparison *comparison, struct mt_page *page); // page_grid.c
void mt_compare_page_overhead(const struct mt_comparison *comparison, struct mt_page *page);

#define MT_COMPARE_TEXT_BYTES 64

/* "41.2 ± 0.8", "41.2" of one seed, "–" of none; as the figure's row says. */
const char *mt_compare_mean_text(char text[MT_COMPARE_TEXT_BYTES], enum mt_compare_figure figure,
                                 const struct mt_moments *moments);

/* "+1.2 ± 0.4 *": the difference, its standard error, and a mark where the corrected p is below 0.05. */
const char *mt_compare_difference_text(char text[MT_COMPARE_TEXT_BYTES], enum mt_compare_figure figure,
                                       const struct mt_compare_summary *summary);

/* Methods that are no points of a grid. */
size_t mt_compare_plain_methods(const struct mt_compare_settings *settings);

#endif
