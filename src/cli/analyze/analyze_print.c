/* The tables of metier analyze. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/amount.h"
#include "cli/analyze/analyze.h"
#include "cli/shared/table.h"

#define NUMBER_BYTES 32

static void number(char *text, double value)
{
    if (isnan(value))
        (void)snprintf(text, NUMBER_BYTES, "-");
    else
        (void)snprintf(text, NUMBER_BYTES, "%.4g", value);
}

static enum mt_status add_row(struct cli_table *table, const char *name, int64_t tokens, const double *values,
                              int count)
{
    char cells[CLI_TABLE_COLUMNS][NUMBER_BYTES];
    const char *row[CLI_TABLE_COLUMNS] = {name, cells[1]};
    mt_amount_count(cells[1], NUMBER_BYTES, (uint64_t)tokens);
    for (int i = 0; i < count; i++) {
        number(cells[2 + i], values[i]);
        row[2 + i] = cells[2 + i];
    }
    return cli_table_row(table, row);
}

static enum mt_status add_figures(struct cli_table *table, const char *name,
                                  const struct mt_layer_figures *figures, int64_t tokens)
{
    const double values[] = {
        figures->max_violation,       figures->entropy, figures->rv_token, figures->input.overlap,
        figures->output_unit.overlap, figures->abs_cos};
    return add_row(table, name, tokens, values, 6);
}

static enum mt_status print_figures(const struct analyze *run)
{
    static const struct cli_column columns[] = {
        {"domain", false},  {"tokens", true},     {"MaxVio", true},      {"entropy", true},
        {"rv_token", true}, {"overlap in", true}, {"overlap out", true}, {"|cos|", true}};
    struct cli_table table;
    cli_table_init(&table, run->ctx, columns, 8);
    const struct mt_figures *all = &run->model.figures[run->domains];
    enum mt_status status = MT_OK;
    for (int i = 0; status == MT_OK && i < run->domains; i++) {
        const struct mt_figures *figures = &run->model.figures[i];
        status = add_figures(&table, run->domain[i].name, &figures->mean, figures->layer[0].tokens);
    }
    if (status == MT_OK) status = add_figures(&table, "all together", &all->mean, all->layer[0].tokens);
    for (int i = 0; status == MT_OK && run->settings->layers && i < run->layers; i++) {
        char name[NUMBER_BYTES];
        (void)snprintf(name, sizeof name, "  layer %" PRId64, run->number[i]);
        status = add_figures(&table, name, &all->layer[i], all->layer[i].tokens);
    }
    if (status == MT_OK) cli_table_print(&table, stdout);
    cli_table_free(&table);
    return status;
}

static enum mt_status add_drift(struct cli_table *table, const char *name,
                                const struct mt_drift_figures *drift)
{
    const double values[] = {drift->load_shift, drift->sets_changed, drift->slots_changed,
                             drift->router_change};
    return add_row(table, name, drift->tokens, values, 4);
}

static enum mt_status print_drift(const struct analyze *run)
{
    static const struct cli_column columns[] = {{"drift from the base", false}, {"tokens", true},
                                                {"load shift", true},           {"sets changed", true},
                                                {"slots changed", true},        {"router change", true}};
    struct cli_table table;
    struct mt_drift_figures drift;
    cli_table_init(&table, run->ctx, columns, 6);
    enum mt_status status = MT_OK;
    for (int i = 0; status == MT_OK && i <= run->domains; i++) {
        analyze_mean_drift(run, i, &drift);
        status = add_drift(&table, i < run->domains ? run->domain[i].name : "all together", &drift);
    }
    for (int i = 0; status == MT_OK && run->settings->layers && i < run->layers; i++) {
        char name[NUMBER_BYTES];
        (void)snprintf(name, sizeof name, "  layer %" PRId64, run->number[i]);
        analyze_drift(run, run->domains, i, &drift);
        status = add_drift(&table, name, &drift);
    }
    if (status == MT_OK) {
        printf("\n");
        cli_table_print(&table, stdout);
    }
    cli_table_free(&table);
    return status;
}

enum mt_status analyze_print(const struct analyze *run)
{
    printf("%s, %d of %d experts per token; means over layers. MaxVio at most %.3g, entropy %.3g\n"
           "when balanced; overlap out by angle. All figures and formulas: analysis.json.\n\n",
           mt_counted((uint64_t)run->layers, "MoE layer", "MoE layers").text, run->slots, run->experts,
           (double)run->experts / run->slots - 1.0, log((double)run->experts));
    enum mt_status status = print_figures(run);
    return status == MT_OK && run->with_base ? print_drift(run) : status;
}
