/*
 * The report of runs: what their folders hold, as a page. One run is shown by itself; several are drawn into
 * the same figures, with their differences to the first. What a run lacks is left out, and a line says how to
 * get it.
 */
#ifndef MT_REPORT_REPORT_H
#define MT_REPORT_REPORT_H

#include "report/page.h"
#include "report/run.h"

/* Fills a page with runs, of which there is at least one; their names differ. A failure stays in the page,
 * too. */
enum mt_status mt_report_build(struct mt_page *page, const struct mt_run *runs, size_t count);

// The parts, in the order of the page; each adds a section of its own, or the line that says why not.
void mt_report_verdict(struct mt_page *page, const struct mt_run *runs, size_t count);  // report_verdict.c
void mt_report_training(struct mt_page *page, const struct mt_run *runs, size_t count); // report_training.c
void mt_report_routing(struct mt_page *page, const struct mt_run *runs, size_t count);  // report_routing.c
void mt_report_evaluation(struct mt_page *page, const struct mt_run *runs,
                          size_t count);                                                // report_evaluation.c
void mt_report_analysis(struct mt_page *page, const struct mt_run *runs, size_t count); // report_analysis.c

#endif
