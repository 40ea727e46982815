/*
 * How far judges agree: raw agreement, Cohen's kappa (1960) of two, Fleiss' kappa (1971) of three.
 *
 *     kappa = (observed - expected) / (1 - expected)
 *
 * Only answers count that every judge in question called correct or incorrect; unsure, unreadable and
 * unjudged ones are left out. Where kappa does not exist a sentence says why.
 */
#ifndef MT_EVAL_AGREEMENT_H
#define MT_EVAL_AGREEMENT_H

#include "eval/judges/judged_run.h"

struct mt_agreement_pair {
    size_t both;        // answers both judged
    size_t table[2][2]; // [first says correct][second says correct]
    double raw;         // share of equal verdicts; NaN: none in common
    double kappa;       // NaN: does not exist
    double low, high;   // 95 %, percentiles of 1000 bootstrap samples with a fixed seed; NaN: none
    const char *why;    // why there is no kappa or no interval; NULL: there is
};

/* Fills in raw, kappa, interval and why from the table. */
void mt_agreement_of_table(struct mt_agreement_pair *pair);

struct mt_agreement_three {
    size_t all;   // answers all three judged
    double kappa; // Fleiss'; NaN: does not exist
    const char *why;
};

/* counts[c]: answers that c of the three judges called correct. */
struct mt_agreement_three mt_agreement_of_counts(const size_t counts[4]);

struct mt_judge_share {
    size_t verdicts[MT_VERDICTS];
    double accuracy; // correct among correct and incorrect; NaN: none
};

enum mt_judge_pair { MT_PAIR_RULE_LLM, MT_PAIR_RULE_HUMAN, MT_PAIR_LLM_HUMAN, MT_JUDGE_PAIRS };

struct mt_agreement {
    struct mt_judge_share shares[MT_JUDGES];
    struct mt_agreement_pair pairs[MT_JUDGE_PAIRS];
    struct mt_agreement_three three;
};

/* Of one task, or (task NULL) of all samples of the run together. */
void mt_agreement_compute(const struct mt_judged_run *run, const struct mt_judged_task *task,
                          struct mt_agreement *agreement);

const char *mt_judge_name(enum mt_judge judge);          // "rule", "llm", "human"
const char *mt_judge_pair_name(enum mt_judge_pair pair); // "rule-llm", ...

/*
 * Appends `text`, a JSON object that has been parsed before, with member `name` (plain ASCII) set to `value`
 * (JSON): in its place where it is there, else as the last. Everything else stays byte by byte.
 */
enum mt_status mt_json_member_set(const char *text, size_t bytes, const char *name,
                                  const struct mt_byte_list *value, struct mt_byte_list *out);

/* Computes everything and stores it as "agreement" in FOLDER/results.json, whose other members stay as they
 * are.
 */
enum mt_status mt_agreement_store(struct mt_context *ctx, const struct mt_judged_run *run);

/* The same for a folder whose summary was written anew; nothing where no other judge has judged. */
enum mt_status mt_agreement_refresh(struct mt_context *ctx, const char *folder);

#endif
