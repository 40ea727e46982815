/* Agreement of judges as tables. */
#include "cli/agreement.h"

#include <math.h>
#include <stdio.h>

#include "base/amount.h"
#include "cli/shared/table.h"
#include "eval/judges/agreement.h"
#include "eval/judges/review.h"

#define NUMBER_BYTES 32

static const char *number(double value, char text[NUMBER_BYTES])
{
    (void)snprintf(text, NUMBER_BYTES, "%.3f", value);
    return isnan(value) ? "-" : text;
}

static void add_shares(struct cli_table *table, const char *name, const struct mt_agreement *agreement)
{
    for (int judge = 0; judge < MT_JUDGES; judge++) {
        const struct mt_judge_share *share = &agreement->shares[judge];
        char accuracy[NUMBER_BYTES];
        cli_table_add(table, "%s\t%s\t%zu\t%zu\t%zu\t%zu\t%s", judge == 0 ? name : "",
                      mt_judge_name((enum mt_judge)judge), share->verdicts[MT_VERDICT_CORRECT],
                      share->verdicts[MT_VERDICT_INCORRECT], share->verdicts[MT_VERDICT_UNSURE],
                      share->verdicts[MT_VERDICT_UNREADABLE], number(share->accuracy, accuracy));
    }
}

static void add_pairs(struct cli_table *table, const char *name, const struct mt_agreement *agreement)
{
    char raw[NUMBER_BYTES];
    char kappa[NUMBER_BYTES];
    for (int i = 0; i < MT_JUDGE_PAIRS; i++) {
        const struct mt_agreement_pair *pair = &agreement->pairs[i];
        char interval[2 * NUMBER_BYTES] = "-";
        if (!isnan(pair->low))
            (void)snprintf(interval, sizeof interval, "%.3f to %.3f", pair->low, pair->high);
        cli_table_add(table, "%s\t%s\t%zu\t%s\t%s\t%s\t%zu %zu %zu %zu\t%s", i == 0 ? name : "",
                      mt_judge_pair_name((enum mt_judge_pair)i), pair->both, number(pair->raw, raw),
                      number(pair->kappa, kappa), interval, pair->table[1][1], pair->table[1][0],
                      pair->table[0][1], pair->table[0][0], pair->why != NULL ? pair->why : "");
    }
    const struct mt_agreement_three *three = &agreement->three;
    cli_table_add(table, "\tall (Fleiss)\t%zu\t\t%s\t\t\t%s", three->all, number(three->kappa, kappa),
                  three->why != NULL ? three->why : "");
}

/* Rows of every task and, where there are several, of all together. */
static enum mt_status print_run(struct mt_context *ctx, const struct mt_judged_run *run)
{
    static const struct cli_column share_columns[] = {
        {"task", false},  {"judge", false},     {"correct", true}, {"incorrect", true},
        {"unsure", true}, {"unreadable", true}, {"accuracy", true}};
    static const struct cli_column pair_columns[] = {
        {"task", false}, {"judges", false},        {"both", true},         {"agree", true},
        {"kappa", true}, {"95 % interval", false}, {"++ +- -+ --", false}, {"", false}};
    struct cli_table shares;
    struct cli_table pairs;
    cli_table_init(&shares, ctx, share_columns, 7);
    cli_table_init(&pairs, ctx, pair_columns, 8);
    size_t rows = run->count > 1 ? run->count + 1 : run->count;
    for (size_t i = 0; i < rows; i++) {
        struct mt_agreement agreement;
        const struct mt_judged_task *task = i < run->count ? &run->tasks[i] : NULL;
        const char *name = task != NULL ? task->name : "all tasks";
        mt_agreement_compute(run, task, &agreement);
        add_shares(&shares, name, &agreement);
        add_pairs(&pairs, name, &agreement);
    }
    enum mt_status status = cli_table_print(&shares, stdout);
    printf("\n");
    enum mt_status second = cli_table_print(&pairs, stdout);
    for (int judge = MT_JUDGE_LLM; judge < MT_JUDGES; judge++) {
        size_t edited = mt_judged_outdated(run, (enum mt_judge)judge);
        if (edited > 0)
            printf("\n%s: %s left out, because the answer, the question or the right answer has changed\n",
                   mt_judge_name((enum mt_judge)judge),
                   mt_counted(edited, "verdict is", "verdicts are").text);
    }
    return status == MT_OK ? second : status;
}

enum mt_status cli_agreement(struct mt_context *ctx, const char *folder)
{
    struct mt_judged_run run;
    enum mt_status status = mt_judged_run_read(ctx, folder, NULL, &run);
    if (status == MT_OK) status = mt_agreement_store(ctx, &run);
    if (status == MT_OK) status = print_run(ctx, &run);
    mt_judged_run_free(&run);
    return status;
}

enum mt_status cli_merge_review(struct mt_context *ctx, const char *folder, const char *marks)
{
    struct mt_judged_run run;
    size_t count = 0;
    enum mt_status status = mt_judged_run_read(ctx, folder, NULL, &run);
    if (status == MT_OK) status = mt_review_marks_merge(ctx, &run, marks, &count);
    mt_judged_run_free(&run);
    if (status != MT_OK) return status;
    printf("%s merged into %s\n\n", mt_counted(count, "mark", "marks").text, folder);
    return cli_agreement(ctx, folder);
}
