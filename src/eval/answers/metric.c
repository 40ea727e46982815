/* Figures and their uncertainty. */
#include "eval/answers/metric.h"

#include <math.h>
#include <stdlib.h>

#include "base/compare.h"
#include "base/rng.h"
#include "eval/text.h"

#define MOST_CLASSES 32

static const char *const names[MT_METRIC_KINDS] = {
    [MT_METRIC_ACC_NORM] = "acc_norm",
    [MT_METRIC_ACCURACY] = "acc",
    [MT_METRIC_EXACT_MATCH] = "exact_match",
    [MT_METRIC_MEAN] = "score",
    [MT_METRIC_F1] = "f1",
    [MT_METRIC_MACRO_F1] = "macro_f1",
    [MT_METRIC_MATTHEWS] = "mcc",
    [MT_METRIC_PEARSON] = "pearson",
    [MT_METRIC_SPEARMAN] = "spearman",
    [MT_METRIC_PASS] = "pass",
    [MT_METRIC_PROMPT_STRICT] = "prompt_level_strict_acc",
    [MT_METRIC_INSTRUCTION_STRICT] = "inst_level_strict_acc",
    [MT_METRIC_PROMPT_LOOSE] = "prompt_level_loose_acc",
    [MT_METRIC_INSTRUCTION_LOOSE] = "inst_level_loose_acc",
};

const char *mt_metric_name(enum mt_metric_kind kind)
{
    return names[kind];
}

enum mt_metric_kind mt_metric_named(const char *name)
{
    return (enum mt_metric_kind)mt_name_place(names, MT_METRIC_KINDS, name);
}

bool mt_metric_is_mean(enum mt_metric_kind kind)
{
    return kind == MT_METRIC_ACCURACY || kind == MT_METRIC_ACC_NORM || kind == MT_METRIC_EXACT_MATCH ||
           kind == MT_METRIC_MEAN || kind == MT_METRIC_PASS || kind == MT_METRIC_PROMPT_STRICT ||
           kind == MT_METRIC_PROMPT_LOOSE;
}

/* How many of the first 32 bits are set. */
static int bits_in(uint32_t bits)
{
    int count = 0;
    for (; bits != 0; bits &= bits - 1) count++;
    return count;
}

double mt_metric_follows_all(const struct mt_instruction_marks *marks, bool loose)
{
    int count = (int)marks->count;
    int followed = bits_in(loose ? marks->loose : marks->strict);
    int open = bits_in(loose ? marks->loose_open : marks->strict_open);
    if (followed + open < count) return 0.0;
    return count == 0 || open > 0 ? NAN : 1.0;
}

double mt_pass_at_k(int64_t n, int64_t c, int64_t k)
{
    if (n < k || k < 1) return NAN;
    if (n - c < k) return 1.0;
    double missed = 1.0;
    for (int64_t i = n - c + 1; i <= n; i++) missed *= 1.0 - (double)k / (double)i;
    return 1.0 - missed;
}

/* The samples a figure is computed of: all of them in order, or a draw. */
struct metric_view {
    const struct mt_outcome *outcomes;
    const size_t *drawn; // NULL: in order
    const double *ranks; // [2][count of all]: predicted, gold; only for Spearman
    size_t all;
    size_t count;
};

static size_t place(const struct metric_view *view, size_t i)
{
    return view->drawn != NULL ? view->drawn[i] : i;
}

/* What one sample adds to a figure that is a mean. */
static double part_of(const struct mt_outcome *one, enum mt_metric_kind kind, int64_t k)
{
    if (kind == MT_METRIC_PASS) return mt_pass_at_k(one->tries, one->passed, k);
    if (kind == MT_METRIC_ACC_NORM) return one->normalized;
    if (kind == MT_METRIC_PROMPT_STRICT) return mt_metric_follows_all(&one->marks, false);
    if (kind == MT_METRIC_PROMPT_LOOSE) return mt_metric_follows_all(&one->marks, true);
    return kind == MT_METRIC_MEAN ? one->score : (one->score == 1.0 ? 1.0 : 0.0);
}

/* Over the samples that have a part; *count is how many do. None: NaN. */
static double mean_of(const struct metric_view *view, enum mt_metric_kind kind, int64_t k, size_t *count)
{
    double sum = 0;
    *count = 0;
    for (size_t i = 0; i < view->count; i++) {
        double part = part_of(&view->outcomes[place(view, i)], kind, k);
        if (isnan(part)) continue;
        sum += part;
        ++*count;
    }
    return *count > 0 ? sum / (double)*count : NAN;
}

/* Of all instructions that have a verdict. */
static double followed_of(const struct metric_view *view, bool loose)
{
    double followed = 0;
    double judged = 0;
    for (size_t i = 0; i < view->count; i++) {
        const struct mt_instruction_marks *marks = &view->outcomes[place(view, i)].marks;
        followed += bits_in(loose ? marks->loose : marks->strict);
        judged += (double)marks->count - bits_in(loose ? marks->loose_open : marks->strict_open);
    }
    return judged > 0 ? followed / judged : NAN;
}

/* Counts of one class against the rest. */
struct confusion {
    double hit, extra, missed, rest;
};

/* `two`: there are no other classes, and no answer counts as the wrong one: leaving it out would reward
 * silence. Else it is predicted as no class, and missed by its own. */
static struct confusion confusion_of(const struct metric_view *view, double class, bool two)
{
    struct confusion counts = {0};
    for (size_t i = 0; i < view->count; i++) {
        const struct mt_outcome *one = &view->outcomes[place(view, i)];
        bool is = one->gold == class;
        bool said = two && isnan(one->predicted) ? !is : one->predicted == class;
        counts.hit += said && is ? 1 : 0;
        counts.extra += said && !is ? 1 : 0;
        counts.missed += !said && is ? 1 : 0;
        counts.rest += !said && !is ? 1 : 0;
    }
    return counts;
}

static double f1_of(const struct metric_view *view, double class)
{
    struct confusion c = confusion_of(view, class, true);
    double under = 2 * c.hit + c.extra + c.missed;
    return under > 0 ? 2 * c.hit / under : 0.0;
}

static double macro_f1_of(const struct metric_view *view)
{
    double sum = 0;
    int classes = 0;
    for (int class = 0; class < MOST_CLASSES; class ++) {
        struct confusion c = confusion_of(view, class, false);
        if (c.hit + c.extra + c.missed == 0) continue;
        sum += 2 * c.hit / (2 * c.hit + c.extra + c.missed);
        classes++;
    }
    return classes > 0 ? sum / classes : NAN;
}

/* Of two classes, 0 and 1. */
static double matthews_of(const struct metric_view *view)
{
    struct confusion c = confusion_of(view, 1, true);
    double under =
        sqrt(c.hit + c.extra) * sqrt(c.hit + c.missed) * sqrt(c.rest + c.extra) * sqrt(c.rest + c.missed);
    return under > 0 ? (c.hit * c.rest - c.extra * c.missed) / under : 0.0;
}

static double value_at(const struct metric_view *view, size_t i, int side)
{
    size_t at = place(view, i);
    if (view->ranks != NULL) return view->ranks[(size_t)side * view->all + at];
    double value = side == 0 ? view->outcomes[at].predicted : view->outcomes[at].gold;
    return isnan(value) ? 0.0 : value; // no answer: the lowest score there is
}

static double correlation_of(const struct metric_view *view)
{
    double x = 0;
    double y = 0;
    for (size_t i = 0; i < view->count; i++) {
        x += value_at(view, i, 0) / (double)view->count;
        y += value_at(view, i, 1) / (double)view->count;
    }
    double xx = 0;
    double yy = 0;
    double xy = 0;
    for (size_t i = 0; i < view->count; i++) {
        double dx = value_at(view, i, 0) - x;
        double dy = value_at(view, i, 1) - y;
        xx += dx * dx;
        yy += dy * dy;
        xy += dx * dy;
    }
    return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : NAN;
}

/* A figure that is no mean. */
static double figure(const struct metric_view *view, enum mt_metric_kind kind)
{
    switch (kind) {
    case MT_METRIC_F1: return f1_of(view, 1);
    case MT_METRIC_MACRO_F1: return macro_f1_of(view);
    case MT_METRIC_MATTHEWS: return matthews_of(view);
    case MT_METRIC_PEARSON:
    case MT_METRIC_SPEARMAN: return correlation_of(view);
    case MT_METRIC_INSTRUCTION_STRICT:
    case MT_METRIC_INSTRUCTION_LOOSE: return followed_of(view, kind == MT_METRIC_INSTRUCTION_LOOSE);
    default: return NAN; // means have their own way
    }
}

// ------------------------------------------------------------------ ranks

struct value_place {
    double value;
    size_t at;
};

static int by_value(const void *a, const void *b)
{
    const struct value_place *one = a;
    const struct value_place *other = b;
    if (one->value != other->value) return one->value < other->value ? -1 : 1;
    return one->at < other->at ? -1 : 1;
}

/* Ranks from 1; equal values share the mean of theirs. */
static void rank(const struct mt_outcome *outcomes, size_t count, int side, struct value_place *order,
                 double *ranks)
{
    struct metric_view view = {.outcomes = outcomes, .all = count, .count = count};
    for (size_t i = 0; i < count; i++)
        order[i] = (struct value_place){.value = value_at(&view, i, side), .at = i};
    qsort(order, count, sizeof *order, by_value);
    for (size_t i = 0; i < count;) {
        size_t end = i + 1;
        while (end < count && order[end].value == order[i].value) end++;
        for (size_t j = i; j < end; j++) ranks[order[j].at] = 0.5 * (double)(i + 1 + end);
        i = end;
    }
}

// ------------------------------------------------------------------ uncertainty

/*
 * Wilson's interval with the samples' own variance in the place of p(1-p), which it is where every part is 0
 * or 1. Parts between these vary less.
 */
void mt_metric_wilson(struct mt_metric_result *result, double variance)
{
    double n = (double)result->samples;
    double p = result->value;
    double z = MT_NORMAL_95;
    double centre = (p + z * z / (2 * n)) / (1 + z * z / n);
    double half = z * sqrt(variance / n + z * z / (4 * n * n)) / (1 + z * z / n);
    result->low = fmax(0.0, centre - half);
    result->high = fmin(1.0, centre + half);
}

/* Of a mean. Its error is the samples' deviation over the root of their number, as in
 * lm-evaluation-harness. */
static void interval_of_mean(const struct metric_view *view, enum mt_metric_kind kind, int64_t k,
                             struct mt_metric_result *result)
{
    double squares = 0;
    double n = (double)result->samples;
    for (size_t i = 0; i < view->count; i++) {
        double part = part_of(&view->outcomes[i], kind, k);
        if (!isnan(part)) squares += pow(part - result->value, 2);
    }
    result->error = n > 1 ? sqrt(squares / (n - 1) / n) : 0.0;
    mt_metric_wilson(result, squares / n);
}

void mt_metric_interval(double *values, size_t count, double *low, double *high)
{
    qsort(values, count, sizeof values[0], mt_by_number);
    *low = values[(size_t)(0.025 * (double)(count - 1))];
    *high = values[(size_t)ceil(0.975 * (double)(count - 1))];
}

static void bootstrap(struct metric_view view, enum mt_metric_kind kind, size_t *drawn,
                      struct mt_metric_result *result)
{
    double values[MT_RESAMPLES];
    size_t count = 0;
    double sum = 0;
    double squares = 0;
    view.drawn = drawn;
    for (uint64_t round = 0; round < MT_RESAMPLES; round++) {
        for (size_t i = 0; i < view.count; i++)
            drawn[i] = (size_t)mt_rng_below(MT_RESAMPLING_SEED, round, i, view.count);
        double value = figure(&view, kind);
        if (isnan(value)) continue; // a draw of constants has no correlation
        values[count++] = value;
        sum += value;
    }
    result->error = result->low = result->high = NAN;
    if (count < 2) return;
    for (size_t i = 0; i < count; i++) squares += pow(values[i] - sum / (double)count, 2);
    result->error = sqrt(squares / (double)(count - 1));
    mt_metric_interval(values, count, &result->low, &result->high);
}

enum mt_status mt_metric_compute(struct mt_context *ctx, enum mt_metric_kind kind, int64_t k,
                                 const struct mt_outcome *outcomes, size_t count,
                                 struct mt_metric_result *result)
{
    struct metric_view view = {.outcomes = outcomes, .all = count, .count = count};
    *result = (struct mt_metric_result){NAN, NAN, NAN, NAN, count};
    if (count == 0) return MT_OK;
    if (mt_metric_is_mean(kind)) {
        result->value = mean_of(&view, kind, k, &result->samples);
        if (result->samples > 0) interval_of_mean(&view, kind, k, result);
        return MT_OK;
    }
    void *drawn = NULL;
    void *order = NULL;
    void *ranks = NULL;
    bool ranked = kind == MT_METRIC_SPEARMAN;
    enum mt_status status = mt_allocate_array(ctx, count, sizeof(size_t), &drawn);
    if (status == MT_OK && ranked) status = mt_allocate_array(ctx, count, sizeof(struct value_place), &order);
    if (status == MT_OK && ranked) status = mt_allocate_array(ctx, 2 * count, sizeof(double), &ranks);
    if (status == MT_OK && ranked) {
        rank(outcomes, count, 0, order, ranks);
        rank(outcomes, count, 1, order, (double *)ranks + count);
        view.ranks = ranks;
    }
    if (status == MT_OK) {
        result->value = figure(&view, kind);
        bootstrap(view, kind, drawn, result);
    }
    mt_release(ctx, ranks, 2 * count * sizeof(double));
    mt_release(ctx, order, count * sizeof(struct value_place));
    mt_release(ctx, drawn, count * sizeof(size_t));
    return status;
}
