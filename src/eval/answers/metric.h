/*
 * Figures over a task's samples, each with a standard error and a 95 % interval: Wilson's for means of what
 * is between 0 and 1 (shares, scores, pass@k), else the bootstrap's percentiles, drawn with a fixed seed. The
 * standard error of a mean is the samples' deviation over the root of their number, of other figures the
 * bootstrap's.
 */
#ifndef MT_EVAL_METRIC_H
#define MT_EVAL_METRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "metier/context.h"

#define MT_RESAMPLES       1000 // of a bootstrap
#define MT_RESAMPLING_SEED 20240817u
#define MT_NORMAL_95       1.959963984540054 // two-sided 95 %

#define MT_MOST_FILTERS    3 // ways to read one answer

enum mt_metric_kind {
    MT_METRIC_ACCURACY,    // share of right answers; lm-evaluation-harness: acc
    MT_METRIC_ACC_NORM,    // the same by log-likelihoods over the choices' lengths; there: acc_norm
    MT_METRIC_EXACT_MATCH, // the same, for answers that were written
    MT_METRIC_MEAN,        // of scores between 0 and 1
    MT_METRIC_F1,          // of class 1 against class 0
    MT_METRIC_MACRO_F1,    // mean over the classes there are
    MT_METRIC_MATTHEWS,
    MT_METRIC_PEARSON,
    MT_METRIC_SPEARMAN,
    MT_METRIC_PASS, // pass@k, unbiased (Chen et al. 2021)
    // IFEval: answers that follow all of their instructions, and instructions that are followed
    MT_METRIC_PROMPT_STRICT,
    MT_METRIC_INSTRUCTION_STRICT,
    MT_METRIC_PROMPT_LOOSE,
    MT_METRIC_INSTRUCTION_LOOSE,
    MT_METRIC_KINDS
};

#define MT_MOST_INSTRUCTIONS 32 // of one question

/* Which instructions an answer follows, a bit each. An open one has no verdict here. */
struct mt_instruction_marks {
    uint32_t count;
    uint32_t strict, strict_open;
    uint32_t loose, loose_open;
};

/* One sample. Which fields count depends on the metric. */
struct mt_outcome {
    double score;     // 1: right, 0: wrong, or between
    double predicted; // class or number; NaN: no answer
    double gold;
    double normalized;                 // score by log-likelihoods over lengths; NaN: there are none
    double other[MT_MOST_FILTERS - 1]; // scores by the task's other filters
    uint32_t found;                    // a bit for each filter that found something in the first answer
    int64_t tries;                     // answers given, and how many of them are right
    int64_t passed;
    int64_t cut;         // of the answers given: those that ended at the limit of tokens,
    int64_t empty;       // that say nothing,
    int64_t unclosed;    // that end before their thinking does
    int64_t cut_prompts; // 1: the prompt was too long and lost its beginning
    int64_t not_finite;  // log-likelihoods of the choices
    int64_t unjudged; // of the answers given: those whose judging took more work than allowed; they count as
                      // wrong
    struct mt_instruction_marks marks; // count 0: nothing was asked for in that way
};

struct mt_metric_result {
    double value;
    double error; // standard error
    double low, high;
    size_t samples;
};

/* What the summary and task files call it. */
const char *mt_metric_name(enum mt_metric_kind kind);
enum mt_metric_kind mt_metric_named(const char *name); // MT_METRIC_KINDS: unknown

/*
 * A figure of `count` samples; k is pass@k's. No samples, or a correlation of constants, gives NaN. Memory
 * only for ranks and resampling.
 */
enum mt_status mt_metric_compute(struct mt_context *ctx, enum mt_metric_kind kind, int64_t k,
                                 const struct mt_outcome *outcomes, size_t count,
                                 struct mt_metric_result *result);

/* Of answers, be it strict or loose: 1 where all instructions are followed, 0 where one is not, NaN: it is
 * open. */
double mt_metric_follows_all(const struct mt_instruction_marks *marks, bool loose);

/* True when the figure is the mean of a part of every sample, between 0 and 1. */
bool mt_metric_is_mean(enum mt_metric_kind kind);

/* Wilson's interval of such a mean: `value` and `samples` are set, `variance` is that of the parts. */
void mt_metric_wilson(struct mt_metric_result *result, double variance);

/* The 95 % percentiles of at least two values of a bootstrap, which are sorted. */
void mt_metric_interval(double *values, size_t count, double *low, double *high);

/* 1 - C(n-c, k)/C(n, k): the chance that one of k answers drawn from n, of which c are right, is right. */
double mt_pass_at_k(int64_t n, int64_t c, int64_t k);

#endif
