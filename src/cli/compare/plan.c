/* metier compare --dry-run: cells, benchmarks, memory, disk. */
#include "cli/compare/plan.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/amount.h"
#include "cli/shared/memory.h"
#include "cli/shared/short_number.h"
#include "cli/shared/table.h"
#include "compare/plan.h"

static void print_cells(const struct mt_comparison *comparison, const struct mt_compare_plan *plan)
{
    const struct mt_compare_settings *settings = comparison->settings;
    printf("%s: %s x %s x %s x %s", mt_counted(comparison->cells, "cell", "cells").text,
           mt_counted(settings->models, "model", "models").text,
           mt_counted(settings->trained, "domain", "domains").text,
           mt_counted(settings->seeds, "seed", "seeds").text,
           mt_counted(settings->methods, "method", "methods").text);
    printf("; and %s", mt_counted(comparison->bases + comparison->starts, "base", "bases").text);
    printf("; %zu done\n", plan->done);
    for (size_t d = 0; d < settings->domains; d++) {
        const struct mt_compare_domain *domain = &settings->domain[d];
        const char *train = domain->train != NULL ? domain->train : "";
        if (domain->recipe != NULL) train = domain->recipe;
        const char *test = domain->test != NULL ? domain->test : "";
        const char *rest = "";
        if (*train == '\0' && domain->test == NULL) rest = "built-in problems";
        if (*train != '\0') rest = domain->test != NULL ? ", measured on " : ", a tenth held out";
        printf("%s %s: %s%s%s\n", domain->trained ? "trained on" : "measured on", domain->name, train, rest,
               test);
    }
}

static enum mt_status print_training(const struct mt_comparison *comparison,
                                     const struct mt_compare_plan *plan)
{
    static const struct cli_column columns[] = {{"model", false},     {"method", false}, {"steps", true},
                                                {"trainable", true},  {"memory", true},  {"host", true},
                                                {"disk a cell", true}};
    const struct mt_compare_settings *settings = comparison->settings;
    struct cli_table table;
    printf("\ntraining a cell, of the first domain and seed; bytes are about\n");
    cli_table_init(&table, comparison->ctx, columns, 7);
    for (size_t i = 0; i < settings->models * settings->methods; i++) {
        const struct mt_cell_plan *cell = &plan->method[i];
        cli_table_add(&table, "%s\t%s\t%" PRIu64 "\t%" PRId64 "\t%s\t%s\t%s",
                      settings->model[i / settings->methods].name,
                      settings->method[i % settings->methods].name, cell->steps, cell->trainable,
                      cli_short_bytes((double)cell->memory.all).text,
                      cell->memory.on_host ? "-" : cli_short_bytes((double)cell->memory.held).text,
                      cli_short_bytes(cell->disk_bytes).text);
    }
    enum mt_status status = cli_table_print(&table, stdout);
    printf("\nthe largest: %s from %s\n", settings->method[plan->largest % settings->methods].name,
           settings->model[plan->largest / settings->methods].name);
    cli_print_memory(&plan->method[plan->largest].memory);
    return status;
}

static enum mt_status print_tasks(const struct mt_comparison *comparison)
{
    static const struct cli_column columns[] = {{"benchmark", false}, {"metric", false},  {"parts", true},
                                                {"questions", true},  {"examples", true}, {"tokens", true}};
    struct cli_table table;
    printf("\nbenchmarks of every cell and base\n");
    cli_table_init(&table, comparison->ctx, columns, 6);
    for (size_t t = 0; t < comparison->tasks.count; t++) {
        const struct mt_compare_task *task = &comparison->tasks.task[t];
        const struct mt_task *first = &task->list.tasks[0];
        char tokens[32] = "choices";
        if (task->writes) (void)snprintf(tokens, sizeof tokens, "%" PRId64, first->max_tokens);
        cli_table_add(&table, "%s\t%s\t%zu\t%zu\t%" PRId64 "\t%s", task->name, task->metric, task->list.count,
                      task->questions, first->few_shot, tokens);
    }
    return cli_table_print(&table, stdout);
}

static void print_sums(const struct mt_comparison *comparison, const struct mt_compare_plan *plan)
{
    size_t jobs = mt_comparison_jobs(comparison);
    printf("\n");
    if (comparison->tasks.count > 0)
        printf("questions: %zu with every benchmark once, %zu in all; tokens written: at most %.0f in all\n",
               plan->questions, plan->all_questions, plan->written_tokens);
    printf("disk: about %s for adapters and checkpoints of all cells, and what is answered\n",
           cli_short_bytes(plan->disk_bytes).text);
    if (isnan(plan->seconds)) {
        printf("time: not known before a cell is done\n");
        return;
    }
    char text[32];
    mt_amount_duration(text, sizeof text, plan->seconds);
    printf("time: about %s for the %zu left, at the median of the cells that are done\n", text,
           jobs - plan->done);
}

enum mt_status cli_compare_print_plan(struct mt_comparison *comparison)
{
    struct mt_compare_plan plan;
    enum mt_status status = mt_comparison_plan(comparison, &plan);
    if (status != MT_OK) return status;
    print_cells(comparison, &plan);
    status = print_training(comparison, &plan);
    if (status == MT_OK && comparison->tasks.count > 0) status = print_tasks(comparison);
    if (status == MT_OK) print_sums(comparison, &plan);
    return status;
}
