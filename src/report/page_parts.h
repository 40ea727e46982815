/* What page.c and figure.c share: both add to the page's arena. */
#ifndef MT_REPORT_PAGE_PARTS_H
#define MT_REPORT_PAGE_PARTS_H

#include "report/page.h"

/* A copy in valid UTF-8; "" once the page has failed. */
const char *mt_page_keep(struct mt_page *page, const char *text);

/* Memory that lives as long as the page, not cleared; NULL once the page has failed. */
void *mt_page_make(struct mt_page *page, size_t bytes);

/* A title as an id: its letters and digits in lower case, '-' for what is between, a number when another
 * section, or another figure, has it. */
const char *mt_page_id(struct mt_page *page, const char *title, bool of_section);

/* One more block of the current section, or of a nameless first one; NULL once the page has failed. */
struct mt_block *mt_page_add_block(struct mt_page *page);

/* Gives a series a colour, the one wanted if it is free, unless it has one. name: the page's own. */
void mt_page_add_series(struct mt_page *page, const char *kind, const char *name, uint32_t wanted);

/* HEATMAP or GRID. */
bool mt_figure_is_map(const struct mt_figure *figure);

/* Frees the columns. */
void mt_figure_free(struct mt_figure *figure);

#endif
