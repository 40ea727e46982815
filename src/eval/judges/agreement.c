/* Agreement: the figures. */
#include "eval/judges/agreement.h"

#include <math.h>
#include <stdlib.h>

#include "base/rng.h"

#define RESAMPLES      1000
#define BOOTSTRAP_SEED 20240817u

static const enum mt_judge pair_judges[MT_JUDGE_PAIRS][2] = {
    [MT_PAIR_RULE_LLM] = {MT_JUDGE_RULE, MT_JUDGE_LLM},
    [MT_PAIR_RULE_HUMAN] = {MT_JUDGE_RULE, MT_JUDGE_HUMAN},
    [MT_PAIR_LLM_HUMAN] = {MT_JUDGE_LLM, MT_JUDGE_HUMAN},
};

const char *mt_judge_name(enum mt_judge judge)
{
    static const char *const names[MT_JUDGES] = {"rule", "llm", "human"};
    return names[judge];
}

const char *mt_judge_pair_name(enum mt_judge_pair pair)
{
    static const char *const names[MT_JUDGE_PAIRS] = {"rule-llm", "rule-human", "llm-human"};
    return names[pair];
}

// ------------------------------------------------------------------ two judges

/* NaN where both gave one and the same verdict throughout: then chance alone explains everything. */
static double cohen(const size_t table[2][2])
{
    double both = (double)table[1][1];
    double first = (double)table[1][0];
    double second = (double)table[0][1];
    double neither = (double)table[0][0];
    double n = both + first + second + neither;
    double observed = (both + neither) / n;
    double expected = ((both + first) * (both + second) + (neither + first) * (neither + second)) / (n * n);
    // The verdicts are constant exactly when the products are n² as whole numbers; no rounding decides.
    if ((first == 0 && second == 0) && (both == 0 || neither == 0)) return NAN;
    return (observed - expected) / (1 - expected);
}

static int by_size(const void *a, const void *b)
{
    double one = *(const double *)a;
    double other = *(const double *)b;
    return one < other ? -1 : (one > other ? 1 : 0);
}

/* Draws the answers again, with replacement, and takes the percentiles of kappa. */
static void bootstrap(struct mt_agreement_pair *pair)
{
    double values[RESAMPLES];
    size_t count = 0;
    const size_t *cells = &pair->table[0][0];
    for (uint64_t round = 0; round < RESAMPLES; round++) {
        size_t drawn[2][2] = {{0}};
        for (uint64_t i = 0; i < pair->both; i++) {
            size_t at = (size_t)mt_rng_below(BOOTSTRAP_SEED, round, i, pair->both);
            int cell = 0;
            while (at >= cells[cell]) at -= cells[cell++];
            drawn[cell / 2][cell % 2]++;
        }
        double value = cohen((const size_t(*)[2])drawn);
        if (!isnan(value)) values[count++] = value;
    }
    if (count < 2) {
        pair->why = "too few answers for an interval";
        return;
    }
    qsort(values, count, sizeof values[0], by_size);
    pair->low = values[(size_t)(0.025 * (double)(count - 1))];
    pair->high = values[(size_t)ceil(0.975 * (double)(count - 1))];
}

void mt_agreement_of_table(struct mt_agreement_pair *pair)
{
    const size_t(*table)[2] = (const size_t(*)[2])pair->table;
    pair->both = table[0][0] + table[0][1] + table[1][0] + table[1][1];
    pair->raw = pair->kappa = pair->low = pair->high = NAN;
    pair->why = NULL;
    if (pair->both == 0) {
        pair->why = "no answer was judged by both";
        return;
    }
    pair->raw = (double)(table[0][0] + table[1][1]) / (double)pair->both;
    pair->kappa = cohen(table);
    if (isnan(pair->kappa)) {
        pair->why = "both gave every answer the same verdict: kappa is not defined";
        return;
    }
    bootstrap(pair);
}

// ------------------------------------------------------------------ three judges

struct mt_agreement_three mt_agreement_of_counts(const size_t counts[4])
{
    struct mt_agreement_three three = {.kappa = NAN};
    double correct = 0; // verdicts
    double pairs = 0;   // of judges that agree, 3 to an answer
    for (int c = 0; c < 4; c++) {
        three.all += counts[c];
        correct += c * (double)counts[c];
        pairs += (c == 0 || c == 3 ? 3.0 : 1.0) * (double)counts[c];
    }
    if (three.all == 0) {
        three.why = "no answer was judged by all three";
        return three;
    }
    if (counts[0] == three.all || counts[3] == three.all) {
        three.why = "all three gave every answer the same verdict: kappa is not defined";
        return three;
    }
    double n = (double)three.all;
    double share = correct / (3 * n);
    double expected = share * share + (1 - share) * (1 - share);
    three.kappa = (pairs / (3 * n) - expected) / (1 - expected);
    return three;
}

// ------------------------------------------------------------------ a run

static bool decided(enum mt_verdict verdict)
{
    return verdict == MT_VERDICT_CORRECT || verdict == MT_VERDICT_INCORRECT;
}

static void count_sample(const struct mt_judged_sample *sample, struct mt_agreement *agreement,
                         size_t counts[4])
{
    const enum mt_verdict *verdicts = sample->verdicts;
    bool all = true;
    int correct = 0;
    for (int judge = 0; judge < MT_JUDGES; judge++) {
        agreement->shares[judge].verdicts[verdicts[judge]]++;
        all = all && decided(verdicts[judge]);
        correct += verdicts[judge] == MT_VERDICT_CORRECT ? 1 : 0;
    }
    if (all) counts[correct]++;
    for (int pair = 0; pair < MT_JUDGE_PAIRS; pair++) {
        enum mt_verdict first = verdicts[pair_judges[pair][0]];
        enum mt_verdict second = verdicts[pair_judges[pair][1]];
        if (!decided(first) || !decided(second)) continue;
        agreement->pairs[pair].table[first == MT_VERDICT_CORRECT][second == MT_VERDICT_CORRECT]++;
    }
}

void mt_agreement_compute(const struct mt_judged_run *run, const struct mt_judged_task *task,
                          struct mt_agreement *agreement)
{
    size_t counts[4] = {0};
    *agreement = (struct mt_agreement){0};
    for (size_t i = 0; i < run->count; i++) {
        const struct mt_judged_task *one = &run->tasks[i];
        if (task != NULL && one != task) continue;
        for (size_t k = 0; k < one->count; k++) count_sample(&one->samples[k], agreement, counts);
    }
    for (int judge = 0; judge < MT_JUDGES; judge++) {
        struct mt_judge_share *share = &agreement->shares[judge];
        size_t correct = share->verdicts[MT_VERDICT_CORRECT];
        size_t all = correct + share->verdicts[MT_VERDICT_INCORRECT];
        share->accuracy = all > 0 ? (double)correct / (double)all : NAN;
    }
    for (int pair = 0; pair < MT_JUDGE_PAIRS; pair++) mt_agreement_of_table(&agreement->pairs[pair]);
    agreement->three = mt_agreement_of_counts(counts);
}
