/* The cells that are not done, one after the other; those that fail once more. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "arch/arch.h"
#include "base/clock.h"
#include "base/files/folder.h"
#include "base/files/folder_lock.h"
#include "base/progress.h"
#include "compare/compare.h"
#include "compare/prepare.h"

// ------------------------------------------------------------------ the bar

/*
 * Progress over all cells of a comparison, with the time left. Steps of training, measuring and the questions
 * of every benchmark take different times: what each kind took so far says what those still to do will take.
 */

/* What is done of one kind. */
struct work {
    int64_t left; // items still to do, in all cells
    int64_t done; // in this process
    double seconds;
};

enum { WORK_STEPS, WORK_MEASURING, WORK_TASKS }; // the first task's kind, then one for each

#define MOST_WORK (WORK_TASKS + MT_COMPARE_MOST_TASKS)

struct bar {
    struct mt_progress progress;
    const struct mt_comparison *comparison; // borrowed
    struct work work[MOST_WORK];
    const struct mt_cell *cell; // at hand
    size_t number, jobs;        // of it among all of this rank
    size_t kind;                // what it is at
    int64_t reached;            // of that
    double start, last;         // clock
};

#define LINE_BYTES   600
#define MILLISECONDS 1000.0

/* Seconds of one item; of a kind nothing is known of, as of all the others. 0: nothing is known at all. */
static double cost_of(const struct bar *bar, size_t kind)
{
    double seconds = bar->work[kind].seconds;
    int64_t done = bar->work[kind].done;
    for (size_t k = 0; k < MOST_WORK && bar->work[kind].done == 0; k++) {
        seconds += bar->work[k].seconds;
        done += bar->work[k].done;
    }
    return done > 0 ? seconds / (double)done : 0.0;
}

/* Items of the bar are milliseconds: those that went by, and those the rest will take. */
static void show(struct bar *bar)
{
    double left = 0.0;
    double passed = mt_clock_seconds() - bar->start;
    for (size_t k = 0; k < MOST_WORK; k++) {
        if (bar->work[k].left > 0) left += (double)bar->work[k].left * cost_of(bar, k);
    }
    if (left > 0.0) mt_progress_total(&bar->progress, (int64_t)(MILLISECONDS * (passed + left)));
    mt_progress_update(&bar->progress, (int64_t)(MILLISECONDS * passed));
}

/* The cell at hand has come to `reached` items of a kind. */
static void advance(struct bar *bar, size_t kind, int64_t reached)
{
    double now = mt_clock_seconds();
    if (kind != bar->kind) bar->reached = 0;
    bar->kind = kind;
    struct work *work = &bar->work[kind];
    int64_t items = reached - bar->reached;
    work->seconds += now - bar->last;
    bar->last = now;
    if (items <= 0) return;
    bar->reached = reached;
    work->done += items;
    work->left = work->left > items ? work->left - items : 0;
}

/* The stream may be NULL: nothing is shown. Ends with mt_progress_finish(&bar->progress). */
static void bar_start(struct bar *bar, const struct mt_comparison *comparison, FILE *stream)
{
    *bar = (struct bar){.comparison = comparison};
    for (size_t i = 0; i < mt_comparison_jobs(comparison); i++) {
        const struct mt_cell *cell = mt_comparison_job(comparison, i);
        bar->number += cell->result.complete ? 1 : 0;
        bar->jobs += cell->result.complete || mt_comparison_owns(comparison, i) ? 1 : 0;
        if (!mt_comparison_owns(comparison, i)) continue;
        bool trained = !cell->base && !cell->start && !cell->result.known;
        if (trained) bar->work[WORK_STEPS].left += comparison->steps > 0 ? comparison->steps : 1;
        if (!cell->base && !cell->result.known) bar->work[WORK_MEASURING].left++;
        for (size_t t = 0; t < comparison->tasks.count; t++) {
            if (!cell->result.task[t].known && mt_cell_asks(&comparison->job, cell, t))
                bar->work[WORK_TASKS + t].left += (int64_t)comparison->tasks.task[t].questions;
        }
    }
    mt_progress_start(&bar->progress, &(struct mt_progress_options){
                                          .stream = stream, .label = "comparing", .only_share = true});
    bar->start = mt_clock_seconds();
    bar->last = bar->start;
}

/* The next cell; `again`: it has been counted before. */
static void bar_begin(struct bar *bar, const struct mt_cell *cell, bool again)
{
    bar->cell = cell;
    bar->kind = MOST_WORK;
    if (!again) bar->number++;
    mt_progress_note(&bar->progress, "cell %zu of %zu  %s", bar->number, bar->jobs, bar->cell->name);
    show(bar);
}

/* After a step, and while questions are answered: callbacks of struct mt_cell_job. */
static void bar_stepped(void *self, uint64_t step, uint64_t steps)
{
    struct bar *bar = self;
    mt_progress_note(&bar->progress, "cell %zu of %zu  %s  step %" PRIu64 " of %" PRIu64, bar->number,
                     bar->jobs, bar->cell->name, step, steps);
    advance(bar, WORK_STEPS, bar->comparison->steps > 0 ? (int64_t)step : step == steps);
    show(bar);
}

static void bar_asked(void *self, size_t task, size_t done, size_t questions)
{
    struct bar *bar = self;
    // What went by since the last step is measuring, and opening what was trained.
    if (bar->kind == WORK_STEPS) advance(bar, WORK_MEASURING, 1);
    mt_progress_note(&bar->progress, "cell %zu of %zu  %s  %s %zu of %zu", bar->number, bar->jobs,
                     bar->cell->name, bar->comparison->tasks.task[task].name, done, questions);
    advance(bar, WORK_TASKS + task, (int64_t)done);
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

static void put_tasks(const struct bar *bar, const struct mt_cell *cell, char *line, size_t length)
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

/* A cell is over: what came out of it stays as a line. */
static void bar_end(struct bar *bar, const struct mt_cell *cell)
{
    char line[LINE_BYTES];
    int length = snprintf(line, sizeof line, "%.100s: ", cell->name);
    if (bar->kind == WORK_STEPS || cell->start) advance(bar, WORK_MEASURING, 1);
    if (cell->failure != NULL)
        (void)snprintf(line + length, sizeof line - (size_t)length, "FAILED: %.300s", cell->failure);
    else
        put_tasks(bar, cell, line, (size_t)length);
    mt_progress_line(&bar->progress, line);
    bar->last = mt_clock_seconds();
    show(bar);
}

// ------------------------------------------------------------------ the cells

/* A failure is the cell's own; only memory that ran out ends everything. */
static enum mt_status note_failure(struct mt_comparison *comparison, struct mt_cell *cell,
                                   enum mt_status status)
{
    if (status == MT_ERR_MEMORY) return status;
    status = mt_arena_copy_text(&comparison->arena, comparison->ctx->message,
                                strlen(comparison->ctx->message), &cell->failure);
    if (status == MT_OK) status = mt_cell_failure_write(&comparison->job, cell);
    if (!cell->result.known) cell->result = (struct mt_cell_result){0};
    return status;
}

/* All that this rank has to do; `again`: those that failed. */
static enum mt_status run_cells(struct mt_comparison *comparison, struct bar *bar, bool again,
                                bool *interrupted, int *signal)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < mt_comparison_jobs(comparison) && status == MT_OK && !*interrupted; i++) {
        struct mt_cell *cell = mt_comparison_job(comparison, i);
        if (!mt_comparison_owns(comparison, i) || cell->result.complete) continue;
        if (again && cell->failure == NULL) continue;
        status = mt_folder_check(comparison->ctx, comparison->settings->out, comparison->job.held);
        cell->failure = NULL;
        if (status == MT_OK) status = mt_cell_failure_write(&comparison->job, cell);
        status = mt_cell_agree(&comparison->job, status);
        if (status != MT_OK) break;
        bar_begin(bar, cell, again);
        status = mt_cell_run(&comparison->job, cell, interrupted, signal);
        if (status != MT_OK) status = note_failure(comparison, cell, status);
        status = mt_cell_agree(&comparison->job, status);
        if (!*interrupted && status == MT_OK) bar_end(bar, cell);
    }
    // What is written last is for the same folder, too.
    return mt_folder_blame(comparison->ctx, status, comparison->settings->out, comparison->job.held);
}

static size_t count_failed(const struct mt_comparison *comparison)
{
    size_t failed = 0;
    for (size_t i = 0; i < mt_comparison_jobs(comparison); i++)
        failed += mt_comparison_job(comparison, i)->failure != NULL ? 1 : 0;
    return failed;
}

/* Cells that are done stay what they are: all must be of the same files. */
static enum mt_status check_inputs(const struct mt_comparison *comparison)
{
    const struct mt_cell *unknown = NULL;
    struct mt_fingerprint inputs;
    mt_fingerprint_init(comparison->ctx, &inputs);
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < mt_comparison_jobs(comparison) && status == MT_OK; i++) {
        const struct mt_cell *cell = mt_comparison_job(comparison, i);
        bool known = true;
        if (!cell->result.known) continue;
        status = mt_cell_check_inputs(&comparison->job, cell, &inputs, &known);
        if (!known) unknown = cell;
    }
    if (status == MT_OK && unknown != NULL)
        mt_log_warning(
            comparison->job.log,
            "%s/" MT_FINGERPRINT_FILE
            ": is missing: metier cannot tell whether model and data have changed since the cell was made",
            unknown->folder);
    mt_fingerprint_release(&inputs);
    return status;
}

/* Whether a model can be asked with so few experts as the settings say. */
static enum mt_status check_fewer(const struct mt_comparison *comparison, const char *path,
                                  const struct mt_hf_config *config)
{
    const struct mt_compare_settings *settings = comparison->settings;
    struct mt_context *ctx = comparison->ctx;
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < settings->pruning.keeps && status == MT_OK; i++) {
        int keep = 0;
        status = mt_experts_keep_parse(ctx, "prune.keep", settings->pruning.keep[i], (int)config->experts,
                                       (int)config->experts_per_token, &keep);
        if (status != MT_OK) status = mt_fail_within(ctx, status, "%s", path);
    }
    for (size_t i = 0; i < settings->slots.count && status == MT_OK; i++) {
        int64_t slots = settings->slots.value[i];
        if (config->scoring == MT_HF_SCORING_SPARSEMIXER && slots != config->experts_per_token)
            status = mt_fail(ctx, MT_ERR_USAGE,
                             "%s: experts_per_token has %" PRId64
                             ", and SparseMixer routes every token to %" PRId64 " experts",
                             path, slots, config->experts_per_token);
        else if (slots > config->experts_per_token)
            status = mt_fail(ctx, MT_ERR_USAGE,
                             "%s: experts_per_token has %" PRId64 ", and a token of the model gets %" PRId64,
                             path, slots, config->experts_per_token);
    }
    for (size_t i = 0; i < settings->cache.count && status == MT_OK; i++) {
        int64_t room = settings->cache.value[i];
        if (room < config->experts_per_token || room > config->experts)
            status =
                mt_fail(ctx, MT_ERR_USAGE,
                        "%s: cache has %" PRId64 ", expected %" PRId64 " (experts of a token) to %" PRId64,
                        path, room, config->experts_per_token, config->experts);
    }
    return status;
}

/* A model that cannot be read fails no cell, but the whole, before anything is written. */
static enum mt_status check_models(const struct mt_comparison *comparison)
{
    const struct mt_compare_settings *settings = comparison->settings;
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < settings->models && status == MT_OK; i++) {
        struct mt_hf_config config;
        status = mt_hf_config_read_folder(comparison->ctx, settings->model[i].path, &config);
        if (status != MT_OK) break;
        const struct mt_compare_probes *prune = &settings->prune;
        int64_t most = prune->count > 0 ? prune->value[prune->count - 1] : 0; // they rise
        if (most > 0 && config.experts - most < config.experts_per_token)
            status = mt_fail(comparison->ctx, MT_ERR_USAGE,
                             "%s: prune has %" PRId64 ", but the model has %" PRId64
                             " experts, of which a token gets %" PRId64,
                             settings->model[i].path, most, config.experts, config.experts_per_token);
        if (status == MT_OK) status = check_fewer(comparison, settings->model[i].path, &config);
        mt_hf_config_free(&config);
    }
    return status;
}

/* Programs that a model writes are run in a sandbox: whether there is one is known before the first step. */
static enum mt_status open_judge(struct mt_comparison *comparison)
{
    enum mt_status status = MT_OK;
    for (size_t t = 0; t < comparison->tasks.count && status == MT_OK && !comparison->judge.needed; t++)
        status =
            mt_task_judge_open(comparison->ctx, &comparison->tasks.task[t].list, false, &comparison->judge);
    return status;
}

/* The first rank: what must be so before the first cell, for all. */
static enum mt_status prepare(struct mt_comparison *comparison, bool done)
{
    enum mt_status status = done ? MT_OK : check_models(comparison);
    if (status == MT_OK) status = check_inputs(comparison);
    if (status == MT_OK) status = mt_read_rows_check(comparison, true);
    if (status == MT_OK) status = mt_folder_make_all(comparison->ctx, comparison->settings->out);
    if (status == MT_OK) status = mt_comparison_write_problems(&comparison->job);
    if (status == MT_OK) status = mt_read_rows_check(comparison, false);
    if (status == MT_OK && !done) status = mt_comparison_choose_device(comparison);
    if (status == MT_OK && !done) status = mt_comparison_note_device(comparison);
    return status;
}

/* The first rank, or a share: what the others have made, and what they failed at. */
static enum mt_status gather_cells(struct mt_comparison *comparison)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < mt_comparison_jobs(comparison) && status == MT_OK; i++) {
        struct mt_cell *cell = mt_comparison_job(comparison, i);
        if (cell->result.complete || mt_comparison_owns(comparison, i)) continue;
        status = mt_cell_read(&comparison->job, cell);
        if (status == MT_OK) status = mt_cell_failure_read(&comparison->job, cell);
        comparison->absent += cell->result.complete || cell->failure != NULL ? 0 : 1;
    }
    return status;
}

/* Both passes over this rank's cells. */
static enum mt_status run_share(struct mt_comparison *comparison, FILE *terminal, bool *interrupted,
                                int *signal)
{
    struct bar bar;
    bar_start(&bar, comparison, terminal);
    comparison->job.stepped = bar_stepped;
    comparison->job.asked = bar_asked;
    comparison->job.self = &bar;
    enum mt_status status = run_cells(comparison, &bar, false, interrupted, signal);
    if (status == MT_OK && !*interrupted && count_failed(comparison) > 0)
        status = run_cells(comparison, &bar, true, interrupted, signal);
    if (!*interrupted) mt_progress_total(&bar.progress, bar.progress.done);
    mt_progress_finish(&bar.progress);
    return status;
}

enum mt_status mt_comparison_run(struct mt_comparison *comparison,
                                 const struct mt_comparison_options *options, bool *interrupted, int *signal)
{
    struct mt_comm *comm = comparison->comm;
    struct mt_context *ctx = comparison->ctx;
    bool first = mt_comm_rank(comm) == 0;
    bool done = comparison->kept == mt_comparison_jobs(comparison);
    *interrupted = false;
    *signal = 0;
    enum mt_status status = done ? MT_OK : open_judge(comparison);
    status = mt_comm_agree(comm, ctx, status);
    if (status == MT_OK && first) status = prepare(comparison, done);
    status = mt_comm_agree(comm, ctx, status);
    if (status != MT_OK || done) return status;
    if (!first) status = mt_comparison_read_device(comparison);
    comparison->job.device = comparison->device;
    if (status == MT_OK) status = mt_folder_hold(ctx, comparison->settings->out, &comparison->job.held);
    status = mt_comm_agree(comm, ctx, status);
    if (status != MT_OK) return status;
    status = run_share(comparison, first ? options->terminal : NULL, interrupted, signal);
    status = mt_comm_agree(comm, ctx, status);
    if (status != MT_OK) return status;
    int64_t ended[2] = {*interrupted ? 1 : 0, *signal}; // a signal may have reached some ranks only
    mt_comm_max_i64(comm, ended, 2);
    *interrupted = ended[0] != 0;
    *signal = (int)ended[1];
    if (first && (mt_comm_size(comm) > 1 || options->shares > 0)) status = gather_cells(comparison);
    comparison->failed = count_failed(comparison);
    return mt_comm_agree(comm, ctx, status);
}
