/*
 * What is seen across cells: each method's figures over seeds, against the reference, of one model at a time.
 *
 * A column is a fixed figure (its enum mt_compare_figure), a benchmark (mt_compare_task_column) or a part of
 * a probe (mt_compare_probe_column): tables go over columns and need not know which is which. The mean is
 * over seeds of the mean over domains, the deviation over seeds. Differences are paired: the same seed, the
 * same domain.
 */
#ifndef MT_COMPARE_SUMMARY_H
#define MT_COMPARE_SUMMARY_H

#include "compare/compare.h"
#include "compare/stats.h"

#define MT_ALL_DOMAINS  SIZE_MAX
#define MT_COMPARE_BASE "base" // what tables call the model before training

struct mt_compare_summary {
    struct mt_moments moments; // over seeds that have all domains asked for
    struct mt_paired paired;   // method - reference
    double holm;               // p of `paired`, corrected for the number of methods
};

/* The column of a benchmark; all columns are below mt_compare_columns. */
size_t mt_compare_task_column(size_t task);
size_t mt_compare_columns(const struct mt_comparison *comparison);

/* The columns of probes, in the order of comparison->probe. */
size_t mt_compare_probes(const struct mt_comparison *comparison);
size_t mt_compare_probe_column(const struct mt_comparison *comparison, size_t probe, enum mt_probe_part part);

/* How a column is called and shown; of a figure mt_compare_figure_row. */
const struct mt_compare_figure_row *mt_compare_column_row(const struct mt_comparison *comparison,
                                                          size_t column);

/* A column of every method, [methods]; domain: one that is trained on, or MT_ALL_DOMAINS. Points of a grid
 * have no corrected p and do not count in the correction. */
void mt_compare_summarize(const struct mt_comparison *comparison, size_t model, size_t column, size_t domain,
                          struct mt_compare_summary *summary);

/* The same of one part of a mix, by their places in the settings. NaN of columns that are of no domain. */
void mt_compare_summarize_part(const struct mt_comparison *comparison, size_t model, size_t column,
                               size_t domain, size_t part, struct mt_compare_summary *summary);

/* Differences method - other over all seeds and domains. */
struct mt_paired mt_compare_pair(const struct mt_comparison *comparison, size_t model, size_t method,
                                 size_t other, size_t column);

/* A column of a cell; NaN when it is not known. */
double mt_compare_value(const struct mt_comparison *comparison, size_t model, size_t method, size_t domain,
                        size_t seed, size_t column);

/* A figure of a cell on one of the domains it was trained on; NaN when it is not known. */
double mt_compare_part_value(const struct mt_comparison *comparison, size_t model, size_t method,
                             size_t domain, size_t part, size_t seed, size_t column);

/*
 * A column of the model before training: one value, the mean over domains or of one domain. NaN where it is
 * not known, as in comparisons of older versions and of what only training has. Nothing is tested against it.
 */
struct mt_moments mt_compare_base(const struct mt_comparison *comparison, size_t model, size_t column,
                                  size_t domain);

/* True when the model was measured before training: tables then have the row `base`. */
bool mt_compare_has_base(const struct mt_comparison *comparison, size_t model);

/* The base less the mean of a method, for tables of differences; without an error. */
double mt_compare_base_difference(const struct mt_comparison *comparison, size_t model, size_t method,
                                  size_t column, size_t domain);

/*
 * The places of the methods in a column, [methods], by their means: 1 is best, equal means share the mean of
 * their places. NaN for points of a grid, and where a mean is not known.
 */
void mt_compare_places(const struct mt_comparison *comparison, const struct mt_compare_summary *summary,
                       size_t column, double *place);

/* 1: the best mean of a column, 2: the next one, 0: others, and all where
 * all are the same; [methods]. Points of a grid have no mark. */
void mt_compare_marks(const struct mt_comparison *comparison, const struct mt_compare_summary *summary,
                      size_t column, int *mark);

/* What a column of a benchmark counts in means over benchmarks: those of one benchmark with several token
 * budgets count as one together. */
double mt_compare_weight(const struct mt_comparison *comparison, size_t task);

/* Benchmarks, whatever the number of their budgets. */
size_t mt_compare_benchmarks(const struct mt_comparison *comparison);

/* The mean of a method's places over all benchmarks, [methods]; NaN where one is not known, or there are
 * none. */
void mt_compare_ranks(const struct mt_comparison *comparison, size_t model, size_t domain, double *rank);

enum mt_compare_curve { MT_CURVE_MAXVIO, MT_CURVE_LOSS };

/*
 * MaxVio or L_h while training, the mean over seeds of a domain, or over all; steps that not all cells have
 * are left out, and so are cells that are not known. curve: room for `most` steps. Returns how many there
 * are.
 */
size_t mt_compare_curve(const struct mt_comparison *comparison, enum mt_compare_curve kind, size_t model,
                        size_t method, size_t domain, double *curve, size_t most);

/* sqrt(mean (a - b)²) over the steps both have; NaN without any. */
double mt_compare_rmse(const double *a, size_t a_steps, const double *b, size_t b_steps);

/* Steps of the longest curve. */
size_t mt_compare_most_steps(const struct mt_comparison *comparison);

/* Points to both sides that a picture of differences shows at least. */
#define MT_COMPARE_REACH 1.0

#endif
