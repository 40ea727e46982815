/* A cell from its settings to cell.json: trained, measured, evaluated. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compare.h"
#include "base/files/file.h"
#include "base/files/folder.h"
#include "base/files/folder_lock.h"
#include "base/interrupt.h"
#include "compare/asking/probes.h"
#include "compare/measure.h"
#include "report/run.h"
#include "train/trainer.h"

#define PATH_BYTES        4096
#define ARENA_BLOCK_BYTES 16384
#define MOST_TIMED        1024 // steps

static bool is_first(const struct mt_cell_job *job)
{
    return job->ranks == NULL || mt_comm_rank(job->ranks) == 0;
}

static enum mt_status write_inputs(const struct mt_cell_job *job, const struct mt_cell *cell,
                                   const struct mt_fingerprint *inputs)
{
    char *path = NULL;
    enum mt_status status = mt_path_join(job->ctx, cell->folder, MT_FINGERPRINT_FILE, &path);
    if (status == MT_OK) status = mt_fingerprint_write(inputs, path);
    mt_path_release(job->ctx, path);
    return status;
}

// ------------------------------------------------------------------ training

static enum mt_status make_folders(const struct mt_cell_job *job, const struct mt_cell *cell)
{
    char cells[PATH_BYTES];
    (void)snprintf(cells, sizeof cells, "%s/cells", job->settings->out);
    enum mt_status status = mt_folder_make(job->ctx, cells);
    return status == MT_OK ? mt_folder_make(job->ctx, cell->folder) : status;
}

/* Sorts; NaN of nothing. */
static double median(double *values, size_t count)
{
    if (count == 0) return (double)NAN;
    qsort(values, count, sizeof *values, mt_by_number);
    return count % 2 == 1 ? values[count / 2] : 0.5 * (values[count / 2 - 1] + values[count / 2]);
}

/* Counts what steps take of the processors, on their way to whoever asked to be told of them; asks problems
 * after those that settings name. */
struct step_clock {
    const struct mt_cell_job *job;
    struct mt_cell *cell;
    const struct mt_train_settings *training;
    struct mt_trainer *trainer;
    enum mt_status asked;       // the first failure of asking
    double last;                // processor time at the end of the step before; negative: none
    double seconds[MOST_TIMED]; // of the first so many steps
    size_t count;
};

static double processor_seconds(void)
{
    struct timespec now;
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) != 0) return (double)NAN;
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Asks where this step is one to be asked after. */
static void ask_after(struct step_clock *clock, uint64_t step)
{
    const struct mt_compare_probes *at = &clock->job->settings->at;
    for (size_t i = 0; i < at->count && clock->asked == MT_OK; i++) {
        if ((uint64_t)at->value[i] == step)
            clock->asked = mt_cell_ask(clock->job, clock->cell, clock->training,
                                       mt_trainer_model(clock->trainer), &clock->cell->result.at[i]);
    }
}

static void count_step(void *self, uint64_t step, uint64_t steps)
{
    struct step_clock *clock = self;
    double now = processor_seconds();
    if (clock->last >= 0.0 && clock->count < MOST_TIMED) clock->seconds[clock->count++] = now - clock->last;
    ask_after(clock, step);
    clock->last = processor_seconds();
    if (clock->job->stepped != NULL) clock->job->stepped(clock->job->self, step, steps);
}

/*
 * Opens the run for training. One that has finished, without having been measured, is trained again: what is
 * measured is the model at hand, and what its steps took of the processors is in no file.
 */
static enum mt_status open_trainer(const struct mt_cell_job *job, const struct mt_train_settings *training,
                                   struct step_clock *clock, struct mt_trainer **trainer)
{
    const struct mt_trainer_options options = {.settings = training,
                                               .templates = job->templates,
                                               .log = job->log,
                                               .signals = job->signals,
                                               .comm = job->ranks,
                                               .stop_after = job->stop_after,
                                               .stepped = count_step,
                                               .self = clock};
    enum mt_status status = mt_trainer_open(job->ctx, &options, trainer);
    if (status != MT_OK || mt_trainer_model(*trainer) != NULL) return status;
    mt_trainer_close(*trainer);
    *trainer = NULL;
    if (is_first(job)) status = mt_folder_remove(job->ctx, training->out);
    status = mt_cell_agree(job, status);
    return status == MT_OK ? mt_trainer_open(job->ctx, &options, trainer) : status;
}

/* What a run that goes on was asked before is nowhere: where problems are asked on the way, it begins anew.
 */
static enum mt_status begin_anew(const struct mt_cell_job *job, const struct mt_train_settings *training)
{
    enum mt_status status = MT_OK;
    if (job->settings->at.count == 0) return MT_OK;
    if (is_first(job) && access(training->out, F_OK) == 0) status = mt_folder_remove(job->ctx, training->out);
    return mt_cell_agree(job, status);
}

/* The curves and the time of training, out of its log. */
static enum mt_status read_log(const struct mt_cell_job *job, const char *folder,
                               struct mt_cell_result *result)
{
    struct mt_run run = {0};
    void *seconds = NULL;
    enum mt_status status = mt_run_read(job->ctx, folder, &run);
    size_t steps = status == MT_OK ? run.log.steps : 0;
    result->maxvio = mt_arena_array(job->arena, steps + 1, sizeof *result->maxvio, &status);
    result->training_loss = mt_arena_array(job->arena, steps + 1, sizeof *result->training_loss, &status);
    if (status == MT_OK) status = mt_allocate_array(job->ctx, steps + 1, sizeof(double), &seconds);
    if (status == MT_OK) {
        result->steps = steps;
        for (size_t i = 0; i < steps; i++) result->maxvio[i] = mt_run_at(&run, i, MT_RUN_MAX_VIOLATION);
        for (size_t i = 0; i < steps; i++) result->training_loss[i] = mt_run_at(&run, i, MT_RUN_TASK);
        double *took = seconds;
        for (size_t i = 1; i < steps; i++)
            took[i - 1] = mt_run_at(&run, i, MT_RUN_SECONDS) - mt_run_at(&run, i - 1, MT_RUN_SECONDS);
        result->figure[MT_COMPARE_SECONDS] = median(took, steps > 0 ? steps - 1 : 0);
    }
    mt_release(job->ctx, seconds, (steps + 1) * sizeof(double));
    mt_run_free(&run);
    return status;
}

/*
 * The most memory that was held while training: what this process allocated, weights that it mapped, and the
 * memory of a device that has its own, which nobody else should be using.
 */
static double peak_memory(const struct mt_cell_job *job, struct mt_trainer *trainer, size_t before)
{
    struct mt_run_outline outline = {0};
    struct mt_memory_room room = {0};
    mt_trainer_outline(trainer, &outline);
    double bytes = (double)(job->ctx->peak_bytes - before);
    if (mt_device_on_host(outline.device)) return bytes + (double)outline.model.mapped;
    mt_device_room(outline.device, &room);
    return bytes + (double)(room.total - room.free);
}

static enum mt_status train_and_measure(const struct mt_cell_job *job, struct mt_cell *cell,
                                        const struct mt_train_settings *training, bool *interrupted,
                                        int *signal)
{
    struct mt_trainer *trainer = NULL;
    struct mt_run_outcome outcome = {0};
    struct step_clock clock = {.job = job, .cell = cell, .training = training, .last = -1.0};
    size_t before = job->ctx->live_bytes;
    job->ctx->peak_bytes = before;
    enum mt_status status = begin_anew(job, training);
    if (status == MT_OK) status = open_trainer(job, training, &clock, &trainer);
    clock.trainer = trainer;
    if (status == MT_OK) ask_after(&clock, 0);
    if (status == MT_OK) status = mt_trainer_run(trainer, &outcome);
    if (status == MT_OK) status = clock.asked;
    if (status == MT_OK) cell->result.figure[MT_COMPARE_MEMORY] = peak_memory(job, trainer, before);
    *interrupted = status == MT_OK && outcome.end == MT_RUN_INTERRUPTED;
    *signal = outcome.signal;
    if (status == MT_OK && !*interrupted)
        status = mt_cell_measure(job, cell, training, mt_trainer_model(trainer), &cell->result);
    if (status == MT_OK && !*interrupted)
        status = mt_cell_ask_more(job, cell, training, mt_trainer_model(trainer), &cell->result);
    mt_trainer_close(trainer);
    if (status != MT_OK || *interrupted) return status;
    cell->result.figure[MT_COMPARE_PROCESSOR] = median(clock.seconds, clock.count);
    return read_log(job, training->out, &cell->result);
}

/* The model before the first step. It is opened for training as the cells' are, and never trained. */
static enum mt_status measure_start(const struct mt_cell_job *job, struct mt_cell *cell,
                                    const struct mt_train_settings *training, bool *interrupted, int *signal)
{
    struct mt_trainer *trainer = NULL;
    struct mt_interrupt interrupt = {0};
    const struct mt_trainer_options options = {
        .settings = training, .templates = job->templates, .log = job->log, .comm = job->ranks};
    if (job->signals) mt_interrupt_begin(&interrupt, NULL, "");
    enum mt_status status = mt_trainer_open(job->ctx, &options, &trainer);
    if (status == MT_OK)
        status = mt_cell_measure(job, cell, training, mt_trainer_model(trainer), &cell->result);
    if (status == MT_OK)
        status = mt_cell_ask_more(job, cell, training, mt_trainer_model(trainer), &cell->result);
    const struct mt_compare_probes *at = &job->settings->at;
    if (at->count > 0 && at->value[0] == 0)
        cell->result.at[0] = (struct mt_cell_probe){cell->result.figure[MT_COMPARE_ACCURACY],
                                                    cell->result.figure[MT_COMPARE_LOSS]};
    mt_trainer_close(trainer);
    *signal = mt_interrupt_seen(&interrupt);
    *interrupted = *signal != 0;
    mt_interrupt_end(&interrupt);
    status = mt_cell_agree(job, status);
    if (is_first(job) && access(training->out, F_OK) == 0) {
        enum mt_status removed = mt_folder_remove(job->ctx, training->out);
        if (status == MT_OK) status = removed;
    }
    return status;
}

/* The part of a cell that is trained and measured; nothing of a base is. */
static enum mt_status make(const struct mt_cell_job *job, struct mt_cell *cell,
                           const struct mt_train_settings *training, bool *interrupted, int *signal)
{
    if (cell->result.known) return MT_OK;
    cell->result = (struct mt_cell_result){0};
    for (int i = 0; i < MT_COMPARE_FIGURES; i++) cell->result.figure[i] = (double)NAN;
    for (int d = 0; d < MT_COMPARE_MOST_DOMAINS; d++)
        cell->result.accuracy[d] = cell->result.loss[d] = (double)NAN;
    for (size_t i = 0; i < MT_COMPARE_MOST_PROBES; i++)
        cell->result.at[i] = cell->result.pruned[i] = (struct mt_cell_probe){(double)NAN, (double)NAN};
    if (cell->base) return MT_OK;
    double start = mt_clock_seconds();
    enum mt_status status = is_first(job) ? mt_folder_sweep(job->ctx, training->out) : MT_OK;
    status = mt_cell_agree(job, status);
    if (status == MT_OK && cell->start) status = measure_start(job, cell, training, interrupted, signal);
    if (status == MT_OK && !cell->start) status = train_and_measure(job, cell, training, interrupted, signal);
    cell->result.took = mt_clock_seconds() - start;
    return status;
}

/* What was made is written down, and asked the benchmarks. */
static enum mt_status finish(const struct mt_cell_job *job, struct mt_cell *cell,
                             const struct mt_train_settings *training, const struct mt_fingerprint *inputs,
                             const char *identity, bool *interrupted, int *signal)
{
    enum mt_status status = MT_OK;
    if (is_first(job)) status = mt_folder_check(job->ctx, job->settings->out, job->held);
    if (status == MT_OK && is_first(job)) status = write_inputs(job, cell, inputs);
    if (status == MT_OK && is_first(job)) status = mt_cell_file_write(job, cell, identity);
    status = mt_cell_agree(job, status);
    if (status == MT_OK && !*interrupted)
        status = mt_cell_evaluate(job, cell, training, identity, interrupted, signal);
    if (status != MT_OK || *interrupted || !is_first(job) || cell->base || cell->start ||
        job->settings->keep == MT_COMPARE_KEEP_RUNS)
        return status;
    return mt_folder_remove(job->ctx, training->out);
}

/* A signal may have reached some ranks alone. */
static void share_interruption(const struct mt_cell_job *job, bool *interrupted, int *signal)
{
    int64_t ended[2] = {*interrupted ? 1 : 0, *signal};
    if (job->ranks == NULL) return;
    mt_comm_max_i64(job->ranks, ended, 2);
    *interrupted = ended[0] != 0;
    *signal = (int)ended[1];
}

enum mt_status mt_cell_run(const struct mt_cell_job *job, struct mt_cell *cell, bool *interrupted,
                           int *signal)
{
    struct mt_train_settings training;
    struct mt_digest_text identity;
    struct mt_fingerprint inputs;
    struct mt_arena arena;
    *interrupted = false;
    *signal = 0;
    mt_arena_init(&arena, job->ctx, ARENA_BLOCK_BYTES);
    mt_fingerprint_init(job->ctx, &inputs);
    enum mt_status status = mt_cell_training(job, cell, &arena, &training);
    if (status == MT_OK) status = mt_cell_identify(job, cell, &arena, &identity);
    if (status == MT_OK && is_first(job)) status = mt_cell_add_inputs(job, cell, &training, &inputs);
    if (status == MT_OK && is_first(job)) status = make_folders(job, cell);
    status = mt_cell_agree(job, status);
    if (status == MT_OK) status = make(job, cell, &training, interrupted, signal);
    status = mt_cell_agree(job, status);
    if (status == MT_OK) share_interruption(job, interrupted, signal);
    // A start is measured whole, whenever a signal came.
    if (status == MT_OK && (!*interrupted || cell->start))
        status = finish(job, cell, &training, &inputs, identity.digits, interrupted, signal);
    status = mt_cell_agree(job, status);
    if (status == MT_OK) share_interruption(job, interrupted, signal);
    // What is shown is what the file says, whether it was made now or before.
    if (status == MT_OK && !*interrupted) status = mt_cell_file_read(job, cell, identity.digits);
    status = mt_cell_agree(job, status);
    mt_fingerprint_release(&inputs);
    mt_arena_free(&arena);
    return status;
}
