/* What is left of a comparison, and how long it will take. */
#include "compare/bar.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"

#define LINE_BYTES   600
#define MILLISECONDS 1000.0

/* Seconds of one item; of a kind nothing is known of, as of all the others. 0: nothing is known at all. */
static double cost_of(const struct mt_compare_bar *bar, size_t kind)
{
    double seconds = bar->work[kind].seconds;
    int64_t done = bar->work[kind].done;
    for (size_t k = 0; k < MT_COMPARE_MOST_WORK && bar->work[kind].done == 0; k++) {
        seconds += bar->work[k].seconds;
        done += bar->work[k].done;
    }
    return done > 0 ? seconds / (double)done : 0.0;
}

/* Items of the bar are milliseconds: those that went by, and those the rest will take. */
static void show(struct mt_compare_bar *bar)
{
    double left = 0.0;
    double passed = mt_clock_seconds() - bar->start;
    for (size_t k = 0; k < MT_COMPARE_MOST_WORK; k++) {
        if (bar->work[k].left > 0) left += (double)bar->work[k].left * cost_of(bar, k);
    }
    if (left > 0.0) mt_progress_total(&bar->progress, (int64_t)(MILLISECONDS * (passed + left)));
    mt_progress_update(&bar->progress, (int64_t)(MILLISECONDS * passed));
}

/* The cell at hand has come to `reached` items of a kind. */
static void advance(struct mt_compare_bar *bar, size_t kind, int64_t reached)
{
    double now = mt_clock_seconds();
    if (kind != bar->kind) bar->reached = 0;
    bar->kind = kind;
    struct mt_compare_work *work = &bar->work[kind];
    int64_t items = reached - bar->reached;
    work->seconds += now - bar->last;
    bar->last = now;
    if (items <= 0) return;
    bar->reached = reached;
    work->done += items;
    work->left = work->left > items ? work->left - items : 0;
}

void mt_compare_bar_start(struct mt_compare_bar *bar, const struct mt_comparison *comparison, FILE *stream)
{
    *bar = (struct mt_compare_bar){.comparison = comparison};
    for (size_t i = 0; i < mt_comparison_jobs(comparison); i++) {
        const struct mt_cell *cell = mt_comparison_job(comparison, i);
        bar->number += cell->result.complete ? 1 : 0;
        bar->jobs += cell->result.complete || mt_comparison_owns(comparison, i) ? 1 : 0;
        if (!mt_comparison_owns(comparison, i)) continue;
        bool trained = !cell->base && !cell->start && !cell->result.known;
        if (trained) bar->work[MT_WORK_STEPS].left += comparison->steps > 0 ? comparison->steps : 1;
        if (!cell->base && !cell->result.known) bar->work[MT_WORK_MEASURING].left++;
        for (size_t t = 0; t < comparison->tasks.count; t++) {
            if (!cell->result.task[t].known && mt_cell_asks(&comparison->job, cell, t))
                bar->work[MT_WORK_TASKS + t].left += (int64_t)comparison->tasks.task[t].questions;
        }
    }
    mt_progress_start(&bar->progress, &(struct mt_progress_options){
                                          .stream = stream, .label = "comparing", .only_share = true});
    bar->start = mt_clock_seconds();
    bar->last = bar->start;
}

void mt_compare_bar_begin(struct mt_compare_bar *bar, const struct mt_cell *cell, bool again)
{
    bar->cell = cell;
    bar->kind = MT_COMPARE_MOST_WORK;
    if (!again) bar->number++;
    mt_progress_note(&bar->progress, "cell %zu of %zu  %s", bar->number, bar->jobs, bar->cell->name);
    show(bar);
}

void mt_compare_bar_stepped(void *self, uint64_t step, uint64_t steps)
{
    struct mt_compare_bar *bar = self;
    mt_progress_note(&bar->progress, "cell %zu of %zu  %s  step %" PRIu64 " of %" PRIu64, bar->number,
                     bar->jobs, bar->cell->name, step, steps);
    advance(bar, MT_WORK_STEPS, bar->comparison->steps > 0 ? (int64_t)step : step == steps);
    show(bar);
}

void mt_compare_bar_asked(void *self, size_t task, size_t done, size_t questions)
{
    struct mt_compare_bar *bar = self;
    // What went by since the last step is measuring, and opening what was trained.
    if (bar->kind == MT_WORK_STEPS) advance(bar, MT_WORK_MEASURING, 1);
    mt_progress_note(&bar->progress, "cell %zu of %zu  %s  %s %zu of %zu", bar->number, bar->jobs,
                     bar->cell->name, bar->comparison->tasks.task[task].name, done, questions);
    advance(bar, MT_WORK_TASKS + task, (int64_t)done);
    show(bar);
}

/* Those there are: a comparison may have no other domains, a run too few steps. */
static void put_figures(const double *figure, const char *between, char *line, size_t length)
{
    static const struct {
        enum mt_compare_figure figure;
        const char *name, *unit;
        double factor;
        int decimals;
    } shown[] = {{MT_COMPARE_ACCURACY, "exact ", " %", 100.0, 1},
                 {MT_COMPARE_ACCURACY_OTHERS, "others ", " %", 100.0, 1},
                 {MT_COMPARE_LOSS, "L_h ", "", 1.0, 4},
                 {MT_COMPARE_MAXVIO, "MaxVio ", "", 1.0, 3},
                 {MT_COMPARE_OVERLAP, "overlap ", "", 1.0, 4},
                 {MT_COMPARE_ABS_COS, "|cos| ", "", 1.0, 4},
                 {MT_COMPARE_SECONDS, "", " s/step", 1.0, 3}};
    for (size_t i = 0; i < sizeof shown / sizeof shown[0] && length < LINE_BYTES; i++) {
        double value = shown[i].factor * figure[shown[i].figure];
        if (isnan(value)) continue;
        int added = snprintf(line + length, LINE_BYTES - length, "%s%s%.*f%s", between, shown[i].name,
                             shown[i].decimals, value, shown[i].unit);
        length += added > 0 ? (size_t)added : 0;
        between = ", ";
    }
}

static void put_tasks(const struct mt_compare_bar *bar, const struct mt_cell *cell, char *line, size_t length)
{
    const char *between = "";
    for (size_t t = 0; t < bar->comparison->tasks.count && length < LINE_BYTES; t++) {
        if (!mt_cell_asks(&bar->comparison->job, cell, t)) continue;
        int added = snprintf(line + length, LINE_BYTES - length, "%s%s %.1f %%", between,
                             bar->comparison->tasks.task[t].name, 100.0 * cell->result.task[t].value);
        length += added > 0 ? (size_t)added : 0;
        between = ", ";
    }
    if (!cell->base) put_figures(cell->result.figure, *between != '\0' ? "; " : "", line, length);
}

void mt_compare_bar_end(struct mt_compare_bar *bar, const struct mt_cell *cell)
{
    char line[LINE_BYTES];
    int length = snprintf(line, sizeof line, "%.100s: ", cell->name);
    if (bar->kind == MT_WORK_STEPS || cell->start) advance(bar, MT_WORK_MEASURING, 1);
    if (cell->failure != NULL)
        (void)snprintf(line + length, sizeof line - (size_t)length, "FAILED: %.300s", cell->failure);
    else
        put_tasks(bar, cell, line, (size_t)length);
    mt_progress_line(&bar->progress, line);
    bar->last = mt_clock_seconds();
    show(bar);
}
