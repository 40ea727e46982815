/*
 * What is seen across cells: each method's figures over seeds, against the reference.
 *
 * The mean is over seeds of the mean over domains, the deviation over seeds. Differences are paired: the same
 * seed, the same domain.
 */
#ifndef MT_COMPARE_SUMMARY_H
#define MT_COMPARE_SUMMARY_H

#include "compare/compare.h"
#include "compare/stats.h"

#define MT_ALL_DOMAINS SIZE_MAX

struct mt_compare_summary {
    struct mt_moments moments; // over seeds that have all domains asked for
    struct mt_paired paired;   // method - reference
    double holm;               // p of `paired`, corrected for the number of methods
};

/* A figure of every method, [methods]; domain: one that is trained on, or MT_ALL_DOMAINS. Points of a grid
 * have no corrected p and do not count in the correction. */
void mt_compare_summarize(const struct mt_comparison *comparison, enum mt_compare_figure figure,
                          size_t domain, struct mt_compare_summary *summary);

/* Differences method - other over all seeds and domains. */
struct mt_paired mt_compare_pair(const struct mt_comparison *comparison, size_t method, size_t other,
                                 enum mt_compare_figure figure);

/* A figure of a cell; NaN when it is not known. */
double mt_compare_value(const struct mt_comparison *comparison, size_t method, size_t domain, size_t seed,
                        enum mt_compare_figure figure);

/*
 * MaxVio while training, the mean over seeds of a domain, or over all; steps that not all cells have are left
 * out, and so are cells that are not known. curve: room for `most` steps. Returns how many there are.
 */
size_t mt_compare_curve(const struct mt_comparison *comparison, size_t method, size_t domain, double *curve,
                        size_t most);

/* sqrt(mean (a - b)²) over the steps both have; NaN without any. */
double mt_compare_rmse(const double *a, size_t a_steps, const double *b, size_t b_steps);

/* Steps of the longest curve. */
size_t mt_compare_most_steps(const struct mt_comparison *comparison);

/* True for figures that differ from run to run. */
bool mt_compare_is_time(enum mt_compare_figure figure);

#endif
