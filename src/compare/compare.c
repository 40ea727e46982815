/* All cells, one after the other. */
#include "compare/compare.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "arch/config.h"
#include "base/files/file.h"
#include "base/files/folder.h"
#include "base/files/folder_lock.h"
#include "base/progress.h"
#include "ops/choose.h"
#include "synth/synth.h"

#define ARENA_BLOCK_BYTES 65536
#define LINE_BYTES        300

// ------------------------------------------------------------------ files of built-in problems

static enum mt_status write_problems(const struct mt_cell_job *job, const struct mt_compare_domain *domain,
                                     bool test)
{
    const struct mt_compare_settings *settings = job->settings;
    struct mt_synth_options options = {.split = test ? MT_SYNTH_TEST : MT_SYNTH_TRAIN,
                                       .seed = (uint64_t)settings->problem_seed,
                                       .difficulty = (int)settings->difficulty};
    struct mt_synth *source = NULL;
    struct mt_file_writer writer = {0};
    const char *path = NULL;
    enum mt_status status = mt_cell_data(job, domain, test, &path);
    if (status != MT_OK || access(path, F_OK) == 0) return status;
    if (!mt_synth_domain(domain->name, &options.domain))
        return mt_fail(job->ctx, MT_ERR_INTERNAL, "%s is no built-in domain", domain->name);
    status = mt_synth_create(job->ctx, &options, &source);
    if (status == MT_OK) status = mt_file_writer_open(job->ctx, path, &writer);
    int64_t count = test ? settings->test_problems : settings->train_problems;
    if (status == MT_OK) status = mt_synth_write_rows(job->ctx, &source, 1, count, &writer);
    if (status == MT_OK) status = mt_file_writer_commit(&writer);
    mt_file_writer_abandon(&writer);
    mt_synth_free(source);
    return status;
}

static enum mt_status write_all_problems(const struct mt_cell_job *job)
{
    const struct mt_compare_settings *settings = job->settings;
    char folder[4096];
    int length = snprintf(folder, sizeof folder, "%s/data", settings->out);
    if (length < 0 || (size_t)length >= sizeof folder)
        return mt_fail(job->ctx, MT_ERR_USAGE, "%.100s...: the path is too long", settings->out);
    enum mt_status status = mt_folder_make(job->ctx, folder);
    for (size_t d = 0; d < settings->domains && status == MT_OK; d++) {
        const struct mt_compare_domain *domain = &settings->domain[d];
        if (domain->trained && domain->train == NULL) status = write_problems(job, domain, false);
        if (status == MT_OK && domain->test == NULL) status = write_problems(job, domain, true);
    }
    return status;
}

// ------------------------------------------------------------------ opening

/* Methods change fastest, seeds slowest: a comparison that is cut short has all methods of fewer seeds. */
static enum mt_status name_cells(struct mt_comparison *comparison)
{
    const struct mt_compare_settings *settings = comparison->settings;
    void *memory = NULL;
    comparison->cells = settings->seeds * settings->trained * settings->methods;
    enum mt_status status =
        mt_arena_allocate(&comparison->arena, comparison->cells * sizeof(struct mt_cell), &memory);
    comparison->cell = memory;
    for (size_t i = 0; i < comparison->cells && status == MT_OK; i++) {
        struct mt_cell *cell = &comparison->cell[i];
        cell->method = i % settings->methods;
        cell->domain = i / settings->methods % settings->trained;
        cell->seed = i / settings->methods / settings->trained;
        status = mt_cell_name(&comparison->job, cell);
    }
    return status;
}

struct mt_cell *mt_comparison_cell(const struct mt_comparison *comparison, size_t method, size_t domain,
                                   size_t seed)
{
    const struct mt_compare_settings *settings = comparison->settings;
    return &comparison->cell[(seed * settings->trained + domain) * settings->methods + method];
}

/* Cells of the first seed and domain have all there is to check. */
static enum mt_status check_cells(struct mt_comparison *comparison)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < comparison->settings->methods && status == MT_OK; i++) {
        int64_t steps = 0;
        status = mt_cell_check(&comparison->job, &comparison->cell[i], &steps);
        if (i == 0) comparison->steps = steps;
    }
    if (status != MT_OK) return status;
    return mt_cell_check_shared(&comparison->job, comparison->cell, comparison->settings->methods);
}

static size_t count_known(const struct mt_comparison *comparison)
{
    size_t known = 0;
    for (size_t i = 0; i < comparison->cells; i++) known += comparison->cell[i].result.known ? 1 : 0;
    return known;
}

/* OUT/device: one line. */
static enum mt_status read_device(struct mt_comparison *comparison)
{
    struct mt_context *ctx = comparison->ctx;
    char *path = NULL;
    void *text = NULL;
    size_t bytes = 0;
    enum mt_status status = mt_path_join(ctx, comparison->settings->out, "device", &path);
    if (status == MT_OK && access(path, F_OK) == 0) {
        status = mt_file_read_all(ctx, path, MT_COMPARE_DEVICE_BYTES, &text, &bytes);
        size_t length = 0;
        while (length < bytes && ((const char *)text)[length] > ' ') length++;
        if (status == MT_OK && (length == 0 || length >= sizeof comparison->device))
            status = mt_fail(ctx, MT_ERR_FORMAT, "%s: names no device", path);
        if (status == MT_OK) memcpy(comparison->device, text, length);
        mt_release(ctx, text, bytes);
    } else if (status == MT_OK && count_known(comparison) > 0) {
        memcpy(comparison->device, "cpu", sizeof "cpu"); // before it was noted
    }
    mt_path_release(ctx, path);
    return status;
}

/* Cells are compared with each other: all are computed on one device, by whatever command. */
static enum mt_status choose_device(struct mt_comparison *comparison, FILE *terminal)
{
    struct mt_context *ctx = comparison->ctx;
    const char *asked = comparison->settings->device;
    const char *name = NULL;
    char *path = NULL;
    bool noted = comparison->device[0] != '\0';
    bool automatic = strcmp(asked, MT_DEVICE_AUTO) == 0;
    if (noted && !automatic && strcmp(asked, comparison->device) != 0)
        return mt_fail(ctx, MT_ERR_USAGE,
                       "%s was begun on the device %s, and device is %s now: set it back, or choose another "
                       "out",
                       comparison->settings->out, comparison->device, asked);
    enum mt_status status =
        mt_device_choose(ctx, NULL, noted ? comparison->device : asked, MT_USE_FAST, &name);
    if (status == MT_OK && !noted) (void)snprintf(comparison->device, sizeof comparison->device, "%s", name);
    if (status == MT_OK) status = mt_path_join(ctx, comparison->settings->out, "device", &path);
    if (status == MT_OK) {
        char line[MT_COMPARE_DEVICE_BYTES + 1];
        int length = snprintf(line, sizeof line, "%s\n", comparison->device);
        status = mt_file_write_all(ctx, path, line, (size_t)length);
    }
    mt_path_release(ctx, path);
    if (status == MT_OK && terminal != NULL) (void)fprintf(terminal, "device: %s\n", comparison->device);
    comparison->job.device = comparison->device;
    return status;
}

enum mt_status mt_comparison_open(struct mt_context *ctx, const struct mt_compare_settings *settings,
                                  const struct mt_comparison_options *options,
                                  struct mt_comparison *comparison)
{
    *comparison = (struct mt_comparison){.ctx = ctx, .settings = settings};
    mt_arena_init(&comparison->arena, ctx, ARENA_BLOCK_BYTES);
    comparison->job = (struct mt_cell_job){.ctx = ctx,
                                           .settings = settings,
                                           .device = settings->device,
                                           .templates = options->templates,
                                           .log = options->log,
                                           .held = MT_FOLDER_UNLOCKED,
                                           .arena = &comparison->arena,
                                           .signals = options->signals,
                                           .stop_after = options->stop_after};
    enum mt_status status = name_cells(comparison);
    if (status == MT_OK) status = check_cells(comparison);
    for (size_t i = 0; i < comparison->cells && status == MT_OK; i++)
        status = mt_cell_read(&comparison->job, &comparison->cell[i]);
    return status == MT_OK ? read_device(comparison) : status;
}

void mt_comparison_close(struct mt_comparison *comparison)
{
    if (comparison->ctx != NULL) {
        mt_arena_free(&comparison->arena);
        mt_folder_unlock(comparison->job.held);
    }
    *comparison = (struct mt_comparison){0};
}

// ------------------------------------------------------------------ running

/* What the bar counts: steps of all cells, where a cell's number of steps is known, else cells. */
struct bar {
    struct mt_progress progress;
    const struct mt_compare_settings *settings;
    const struct mt_cell *cell;
    int64_t before; // items of cells that are done
    int64_t each;   // items of a cell
    size_t number, cells;
};

static void show(struct bar *bar, uint64_t step, uint64_t steps)
{
    const struct mt_compare_settings *settings = bar->settings;
    mt_progress_note(&bar->progress,
                     "cell %zu of %zu  %s, %s, seed %" PRIu64 "  step %" PRIu64 " of %" PRIu64, bar->number,
                     bar->cells, settings->method[bar->cell->method].name,
                     settings->domain[bar->cell->domain].name, settings->seed[bar->cell->seed], step, steps);
}

static void stepped(void *self, uint64_t step, uint64_t steps)
{
    struct bar *bar = self;
    show(bar, step, steps);
    int64_t done = step < (uint64_t)bar->each ? (int64_t)step : bar->each;
    mt_progress_update(&bar->progress, bar->before + (bar->each > 1 ? done : 0));
}

/* A line that stays: what came out of a cell. */
static void tell(struct bar *bar, const struct mt_cell *cell)
{
    char line[LINE_BYTES];
    const double *figure = cell->result.figure;
    if (cell->failure != NULL)
        (void)snprintf(line, sizeof line, "%s: FAILED: %.200s", cell->name, cell->failure);
    else
        (void)snprintf(
            line, sizeof line,
            "%s: accuracy %.1f %%, others %.1f %%, L_h %.4f, MaxVio %.3f, overlap %.4f, |cos| %.4f, "
            "%.3f s/step",
            cell->name, 100.0 * figure[MT_COMPARE_ACCURACY], 100.0 * figure[MT_COMPARE_ACCURACY_OTHERS],
            figure[MT_COMPARE_LOSS], figure[MT_COMPARE_MAXVIO], figure[MT_COMPARE_OVERLAP],
            figure[MT_COMPARE_ABS_COS], figure[MT_COMPARE_SECONDS]);
    mt_progress_line(&bar->progress, line);
}

/* A failure is the cell's own; only memory that ran out ends everything. */
static enum mt_status note_failure(struct mt_comparison *comparison, struct mt_cell *cell,
                                   enum mt_status status)
{
    char *copy = NULL;
    comparison->failed++;
    cell->result = (struct mt_cell_result){0};
    if (status == MT_ERR_MEMORY) return status;
    status = mt_arena_copy_text(&comparison->arena, comparison->ctx->message,
                                strlen(comparison->ctx->message), &copy);
    cell->failure = copy;
    return status;
}

static enum mt_status run_cells(struct mt_comparison *comparison, struct bar *bar, bool *interrupted,
                                int *signal)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < comparison->cells && status == MT_OK && !*interrupted; i++) {
        struct mt_cell *cell = &comparison->cell[i];
        if (cell->result.known) continue;
        status = mt_folder_check(comparison->ctx, comparison->settings->out, comparison->job.held);
        if (status != MT_OK) break;
        bar->cell = cell;
        bar->number++;
        show(bar, 0, (uint64_t)comparison->steps);
        status = mt_cell_run(&comparison->job, cell, interrupted, signal);
        if (status != MT_OK) status = note_failure(comparison, cell, status);
        bar->before += bar->each;
        if (*interrupted || status != MT_OK) continue;
        tell(bar, cell);
        mt_progress_update(&bar->progress, bar->before);
    }
    // What is written last is for the same folder, too.
    return mt_folder_blame(comparison->ctx, status, comparison->settings->out, comparison->job.held);
}

/* Cells that are done stay what they are: all must be of the same files. */
static enum mt_status check_inputs(const struct mt_comparison *comparison)
{
    const struct mt_cell *unknown = NULL;
    struct mt_fingerprint inputs;
    mt_fingerprint_init(comparison->ctx, &inputs);
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < comparison->cells && status == MT_OK; i++) {
        const struct mt_cell *cell = &comparison->cell[i];
        bool known = true;
        if (!cell->result.known) continue;
        status = mt_cell_check_inputs(&comparison->job, cell, &inputs, &known);
        if (!known) unknown = cell;
    }
    if (status == MT_OK && unknown != NULL)
        mt_log_warning(
            comparison->job.log,
            "%s/" MT_FINGERPRINT_FILE
            ": is not there: whether model and data are what they were when the cell was made is not "
            "known",
            unknown->folder);
    mt_fingerprint_release(&inputs);
    return status;
}

/* A model that cannot be read fails no cell, but the whole, before anything is written. */
static enum mt_status check_model(const struct mt_comparison *comparison)
{
    struct mt_hf_config config;
    enum mt_status status = mt_hf_config_read_folder(comparison->ctx, comparison->settings->model, &config);
    if (status == MT_OK) mt_hf_config_free(&config);
    return status;
}

enum mt_status mt_comparison_run(struct mt_comparison *comparison,
                                 const struct mt_comparison_options *options, bool *interrupted, int *signal)
{
    size_t known = count_known(comparison);
    comparison->kept = known;
    struct bar bar = {.settings = comparison->settings, .cells = comparison->cells, .number = known};
    *interrupted = false;
    *signal = 0;
    enum mt_status status = known < comparison->cells ? check_model(comparison) : MT_OK;
    if (status == MT_OK) status = check_inputs(comparison);
    if (status == MT_OK) status = mt_folder_make_all(comparison->ctx, comparison->settings->out);
    if (status == MT_OK) status = write_all_problems(&comparison->job);
    if (status != MT_OK || known == comparison->cells) return status;
    status = choose_device(comparison, options->terminal);
    if (status == MT_OK)
        status = mt_folder_hold(comparison->ctx, comparison->settings->out, &comparison->job.held);
    if (status != MT_OK) return status;
    bar.each = comparison->steps > 0 ? comparison->steps : 1;
    bar.before = (int64_t)known * bar.each;
    comparison->job.stepped = stepped;
    comparison->job.self = &bar;
    mt_progress_start(&bar.progress, &(struct mt_progress_options){.stream = options->terminal,
                                                                   .label = "comparing",
                                                                   .unit = "step",
                                                                   .total = (int64_t)bar.cells * bar.each,
                                                                   .done = bar.before});
    status = run_cells(comparison, &bar, interrupted, signal);
    mt_progress_finish(&bar.progress);
    return status;
}
