/* What the parts of a report that read figures of routing (docs/analysis.md, FIGURES) share. */
#ifndef MT_REPORT_REPORT_FIGURES_H
#define MT_REPORT_REPORT_FIGURES_H

#include "formats/text/json.h"
#include "report/page.h"

/* A number that may be null; a failure goes to the page. NaN: not known. */
double mt_report_value(struct mt_page *page, const struct mt_json_node *node);

/* A member that may be absent or null. */
double mt_report_number(struct mt_page *page, const struct mt_json_node *object, const char *key);

/* A table with a row per `what` and run, and the figures' means over layers as columns. */
struct mt_figure *mt_report_means_table(struct mt_page *page, const char *title, const char *what,
                                        const char *meaning);
void mt_report_means_row(struct mt_figure *table, const char *what, const char *run,
                         const struct mt_json_node *figures);

#endif
