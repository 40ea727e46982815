/* Agreement of judges as tables. */
#include "cli/agreement.h"

#include <math.h>
#include <stdio.h>

#include "base/amount.h"
#include "cli/shared/table.h"
#include "eval/judges/agreement.h"
#include "eval/judges/review.h"

#define CELL 64

static const char *number(double value, char *text)
{
    (void)snprintf(text, CELL, "%.3f", value);
    return isnan(value) ? "-" : text;
}

static const char *amount(size_t value, char *text)
{
    (void)snprintf(text, CELL, "%zu", value);
    return text;
}

static enum mt_status add_shares(struct cli_table *table, const char *name,
                                 const struct mt_agreement *agreement)
{
    enum mt_status status = MT_OK;
    for (int judge = 0; judge < MT_JUDGES && status == MT_OK; judge++) {
        const struct mt_judge_share *share = &agreement->shares[judge];
        char texts[5][CELL];
        const char *const cells[] = {judge == 0 ? name : "",
                                     mt_judge_name((enum mt_judge)judge),
                                     amount(share->verdicts[MT_VERDICT_CORRECT], texts[0]),
                                     amount(share->verdicts[MT_VERDICT_INCORRECT], texts[1]),
                                     amount(share->verdicts[MT_VERDICT_UNSURE], texts[2]),
                                     amount(share->verdicts[MT_VERDICT_UNREADABLE], texts[3]),
                                     number(share->accuracy, texts[4])};
        status = cli_table_row(table, cells);
    }
    return status;
}

static enum mt_status add_pairs(struct cli_table *table, const char *name,
                                const struct mt_agreement *agreement)
{
    enum mt_status status = MT_OK;
    for (int i = 0; i < MT_JUDGE_PAIRS && status == MT_OK; i++) {
        const struct mt_agreement_pair *pair = &agreement->pairs[i];
        char texts[3][CELL];
        char cells_of_table[2 * CELL];
        char interval[2 * CELL] = "-";
        if (!isnan(pair->low))
            (void)snprintf(interval, sizeof interval, "%.3f to %.3f", pair->low, pair->high);
        (void)snprintf(cells_of_table, sizeof cells_of_table, "%zu %zu %zu %zu", pair->table[1][1],
                       pair->table[1][0], pair->table[0][1], pair->table[0][0]);
        const char *const cells[] = {i == 0 ? name : "",
                                     mt_judge_pair_name((enum mt_judge_pair)i),
                                     amount(pair->both, texts[0]),
                                     number(pair->raw, texts[1]),
                                     number(pair->kappa, texts[2]),
                                     interval,
                                     cells_of_table,
                                     pair->why};
        status = cli_table_row(table, cells);
    }
    const struct mt_agreement_three *three = &agreement->three;
    char texts[2][CELL];
    const char *const cells[] = {
        "", "all (Fleiss)", amount(three->all, texts[0]), "", number(three->kappa, texts[1]), "",
        "", three->why};
    return status == MT_OK ? cli_table_row(table, cells) : status;
}

/* Rows of every task and, where there are several, of all together. */
static enum mt_status add_run(struct cli_table *shares, struct cli_table *pairs,
                              const struct mt_judged_run *run)
{
    enum mt_status status = MT_OK;
    size_t rows = run->count > 1 ? run->count + 1 : run->count;
    for (size_t i = 0; i < rows && status == MT_OK; i++) {
        struct mt_agreement agreement;
        const struct mt_judged_task *task = i < run->count ? &run->tasks[i] : NULL;
        const char *name = task != NULL ? task->name : "all tasks";
        mt_agreement_compute(run, task, &agreement);
        status = add_shares(shares, name, &agreement);
        if (status == MT_OK) status = add_pairs(pairs, name, &agreement);
    }
    return status;
}

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
    enum mt_status status = add_run(&shares, &pairs, run);
    if (status == MT_OK) {
        cli_table_print(&shares, stdout);
        printf("\n");
        cli_table_print(&pairs, stdout);
    }
    cli_table_free(&pairs);
    cli_table_free(&shares);
    return status;
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
