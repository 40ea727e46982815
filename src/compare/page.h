/* A comparison as a page (report/page.h): the paper's tables and figures, each with its sentence and formula.
 */
#ifndef MT_COMPARE_PAGE_H
#define MT_COMPARE_PAGE_H

#include "compare/summary.h"
#include "report/page.h"

/* Fills a page; a failure stays in the page, too. */
enum mt_status mt_comparison_page(const struct mt_comparison *comparison, struct mt_page *page);

#define MT_COMPARE_TEXT_BYTES 64

/* "41.2 ± 0.8", "41.2" of one seed, "–" of none; as the column's row says. */
const char *mt_compare_mean_text(char text[MT_COMPARE_TEXT_BYTES], const struct mt_compare_figure_row *row,
                                 const struct mt_moments *moments);

#endif
