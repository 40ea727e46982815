/* What the parts of a report share: numbers of JSON, runs side by side, figures of routing. */
#ifndef MT_REPORT_REPORT_FIGURES_H
#define MT_REPORT_REPORT_FIGURES_H

#include "formats/text/json.h"
#include "report/page.h"
#include "report/run.h"

#define MT_REPORT_NAME_BYTES 160

/* A number that may be null; a failure goes to the page. NaN: not known. */
double mt_report_value(struct mt_page *page, const struct mt_json_node *node);

/* A member that may be absent or null. */
double mt_report_number(struct mt_page *page, const struct mt_json_node *object, const char *key);

/* Columns of numbers, one for each run; from the second on followed by the difference to the first. */
void mt_report_run_columns(struct mt_figure *table, const struct mt_run *runs, size_t count);

/* The cells of such a row. value: [count]. */
void mt_report_run_cells(struct mt_figure *table, const double *value, size_t count);

/* The object with the means over layers of a run's `what`; false where the run has none. */
typedef bool mt_report_means_of(struct mt_page *page, const struct mt_run *run, const char *what,
                                struct mt_json_node *means);

struct mt_report_means {
    const char *title, *what, *meaning; // what: name of the first column
    const char *const *whats;           // [count]
    size_t count;
    mt_report_means_of *means_of;
};

/*
 * A table of figures of routing. One run: a row for each what, a column for each figure. Several: a row for
 * each what and figure, the runs side by side.
 */
void mt_report_means_table(struct mt_page *page, const struct mt_run *runs, size_t count,
                           const struct mt_report_means *means);

#endif
