/* metier train --dry-run and --keys: the run before it is one, and what can be set. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "cli/short_number.h"
#include "cli/table.h"
#include "cli/train.h"
#include "formats/model_count.h"

#define NUMBER_BYTES 32

static void print_counts(const char *what, const struct mt_batch_counts *counts)
{
    printf("  %-12s %" PRIu64 " examples, %" PRIu64 " tokens, of which %" PRIu64 " are answers; %" PRIu64
           " steps\n",
           what, counts->examples, counts->tokens, counts->answer_tokens, counts->steps);
    if (counts->truncated > 0) {
        printf("  %-12s %" PRIu64 " examples are longer than max_length and lose %" PRIu64 " tokens, %" PRIu64
               " of answers\n",
               "", counts->truncated, counts->lost_tokens, counts->lost_answer);
    }
    if (counts->without_answer > 0)
        printf("  %-12s %" PRIu64 " rows have no answer within max_length: left out\n", "",
               counts->without_answer);
    if (counts->bad_rows > 0) printf("  %-12s %" PRIu64 " bad rows: left out\n", "", counts->bad_rows);
}

static void print_data(const struct mt_train_settings *settings, const struct mt_run_outline *outline)
{
    printf("\ndata\n");
    print_counts("an epoch", &outline->length.epoch);
    if (outline->held_out.steps > 0) print_counts("held out", &outline->held_out);
    uint64_t epoch_steps = outline->length.epoch_steps;
    double epochs = epoch_steps > 0 ? (double)outline->length.steps / (double)epoch_steps : 0.0;
    printf("  %-12s %" PRIu64 " steps, %.3g epochs; at most %" PRId64 " tokens in a micro-batch\n", "the run",
           outline->length.steps, epochs, settings->tokens);
    if (outline->steps_done > 0)
        printf("  %-12s %" PRIu64 " steps are done: a start goes on from there\n", "", outline->steps_done);
}

static void print_memory(const struct mt_run_outline *outline)
{
    const struct mt_model_bytes *model = &outline->model;
    const struct {
        const char *name;
        double bytes;
    } lines[] = {
        {"weights, mapped", (double)model->mapped},  {"trained values", (double)model->masters},
        {"gradients", (double)model->gradients},     {"moments", (double)outline->moments},
        {"activations", (double)model->activations}, {"work", (double)model->work},
    };
    double total = 0.0;
    printf("\nmemory\n");
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        printf("  %-16s %12s\n", lines[i].name, cli_short_bytes(lines[i].bytes).text);
        total += lines[i].bytes;
    }
    printf("  %-16s %12s\n", "in all", cli_short_bytes(total).text);
}

static enum mt_status print_learning(struct mt_context *ctx, const struct mt_run_outline *outline)
{
    static const struct cli_column columns[] = {
        {"  what learns", false}, {"tensors", true}, {"numbers", true}, {"share", true}};
    const struct mt_params *params = outline->params;
    struct cli_table table;
    enum mt_status status = MT_OK;
    printf("\n");
    cli_table_init(&table, ctx, columns, 4);
    for (int part = 0; status == MT_OK && part < MT_MODEL_PART_COUNT; part++) {
        int64_t tensors = 0;
        int64_t numbers = 0;
        for (size_t i = 0; i < params->trained_count; i++) {
            if ((int)params->trained[i].part != part) continue;
            tensors++;
            numbers += mt_tensor_count(&params->trained[i].value);
        }
        if (tensors == 0) continue;
        char text[4][NUMBER_BYTES];
        (void)snprintf(text[0], NUMBER_BYTES, "  %s", mt_model_part_name((enum mt_model_part)part));
        (void)snprintf(text[1], NUMBER_BYTES, "%" PRId64, tensors);
        (void)snprintf(text[2], NUMBER_BYTES, "%" PRId64, numbers);
        (void)snprintf(text[3], NUMBER_BYTES, "%.1f %%",
                       100.0 * (double)numbers / (double)params->trained_elements);
        const char *cells[] = {text[0], text[1], text[2], text[3]};
        status = cli_table_row(&table, cells);
    }
    if (status == MT_OK) cli_table_print(&table, stdout);
    cli_table_free(&table);
    struct mt_model_count count;
    mt_model_count(outline->desc->config, &count);
    printf("  %" PRId64 " numbers learn, beside %" PRId64 " of the model: %.3g %%\n",
           params->trained_elements, count.all, 100.0 * (double)params->trained_elements / (double)count.all);
    return status;
}

/* Whether a term alone would be alive, and through what. */
static void print_term(struct mt_context *ctx, const struct mt_train_settings *settings,
                       const struct mt_run_outline *outline, enum mt_term term)
{
    struct mt_objective_config alone = settings->objective;
    int routers = 0;
    int experts = 0;
    for (int t = 0; t < MT_TERM_COUNT; t++) {
        if (t != (int)term) alone.coefficient[t] = 0.0;
    }
    for (int i = 0; i < outline->moe_layers; i++) {
        routers += outline->paths[i].router ? 1 : 0;
        experts += outline->paths[i].experts ? 1 : 0;
    }
    enum mt_status status =
        mt_objective_check_live(ctx, &alone, &outline->desc->router, outline->paths, outline->moe_layers);
    printf("  %-12s coefficient %-8g %s", mt_term_name(term), alone.coefficient[term],
           status == MT_OK ? "live" : "DEAD");
    printf(": the router learns in %d, experts in %d of %d layers\n", routers, experts, outline->moe_layers);
}

static void print_objective(struct mt_context *ctx, const struct mt_train_settings *settings,
                            const struct mt_run_outline *outline)
{
    printf("\nobjective: %s\n", settings->objective.method);
    bool any = false;
    for (int term = 0; !settings->task_only && term < MT_TERM_COUNT; term++) {
        if (!(settings->objective.coefficient[term] > 0.0)) continue;
        print_term(ctx, settings, outline, (enum mt_term)term);
        any = true;
    }
    if (!any) printf("  no term besides L_h\n");
    if (!settings->task_only && settings->objective.bias_rule != MT_BIAS_NONE) {
        printf("  each router's bias moves by %g a step%s\n", settings->objective.bias_rate,
               outline->bias_is_lost
                   ? "; this architecture has no place for it on disk: it is not written out"
                   : "");
    }
    bool sum = settings->objective.coefficient[MT_TERM_O] > 0.0 && settings->objective.ortho_sum;
    if (sum)
        printf("  warning: reduce=sum grows with the batch and destroyed the model in every pilot run\n");
}

enum mt_status train_print_outline(struct mt_context *ctx, const struct mt_train_settings *settings,
                                   const struct mt_run_outline *outline)
{
    printf("%s", outline->settings_text);
    print_data(settings, outline);
    print_memory(outline);
    enum mt_status status = print_learning(ctx, outline);
    if (status == MT_OK) print_objective(ctx, settings, outline);
    return status == MT_OK ? train_print_example(ctx, outline->corpus) : status;
}

enum mt_status train_print_keys(struct mt_context *ctx)
{
    static const struct cli_column columns[] = {
        {"key", false}, {"values", false}, {"default", false}, {"meaning", false}};
    struct cli_table table;
    struct mt_train_key key;
    enum mt_status status = MT_OK;
    cli_table_init(&table, ctx, columns, 4);
    for (int i = 0; status == MT_OK && mt_train_key_listed(i, &key); i++) {
        const char *cells[] = {key.name, key.values, key.standard, key.meaning};
        status = cli_table_row(&table, cells);
    }
    if (status == MT_OK) cli_table_print(&table, stdout);
    cli_table_free(&table);
    return status;
}
