/* Cells from settings, those that are done read; the device that all are computed on. */
#include "compare/compare.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/files/file.h"
#include "base/files/folder_lock.h"
#include "ops/choose.h"

#define ARENA_BLOCK_BYTES 65536
#define LINE_BYTES        300

// ------------------------------------------------------------------ the device

enum mt_status mt_comparison_read_device(struct mt_comparison *comparison)
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
    } else if (status == MT_OK && mt_comparison_any_known(comparison)) {
        memcpy(comparison->device, "cpu", sizeof "cpu"); // before it was noted
    }
    mt_path_release(ctx, path);
    return status;
}

static enum mt_status name_device(const struct mt_comparison *comparison)
{
    const struct mt_cell_job *job = &comparison->job;
    struct mt_device *device = NULL;
    if (job->terminal == NULL) return MT_OK;
    enum mt_status status = mt_device_create(job->ctx, job->device, (int)job->threads, &device);
    if (status == MT_OK) (void)fprintf(job->terminal, "device: %s\n", mt_device_description(device));
    if (status == MT_OK && mt_device_is_automatic(comparison->settings->device))
        mt_device_warn_idle(device, job->terminal);
    mt_device_destroy(device);
    return status;
}

enum mt_status mt_comparison_choose_device(struct mt_comparison *comparison)
{
    const char *asked = comparison->settings->device;
    const char *name = NULL;
    bool noted = comparison->device[0] != '\0';
    bool automatic = strcmp(asked, MT_DEVICE_AUTO) == 0;
    if (noted && !automatic && strcmp(asked, comparison->device) != 0)
        return mt_fail(comparison->ctx, MT_ERR_USAGE,
                       "%s was begun on the device %s, and device is %s now: set it back, or choose another "
                       "out",
                       comparison->settings->out, comparison->device, asked);
    enum mt_status status =
        mt_device_choose(comparison->ctx, NULL, noted ? comparison->device : asked, MT_USE_FAST, &name);
    if (status != MT_OK) return status;
    if (!noted) (void)snprintf(comparison->device, sizeof comparison->device, "%s", name);
    comparison->job.device = comparison->device;
    return name_device(comparison);
}

enum mt_status mt_comparison_note_device(const struct mt_comparison *comparison)
{
    struct mt_context *ctx = comparison->ctx;
    char line[MT_COMPARE_DEVICE_BYTES + 1];
    char *path = NULL;
    enum mt_status status = mt_path_join(ctx, comparison->settings->out, "device", &path);
    int length = snprintf(line, sizeof line, "%s\n", comparison->device);
    if (status == MT_OK) status = mt_file_write_all(ctx, path, line, (size_t)length);
    mt_path_release(ctx, path);
    return status;
}

// ------------------------------------------------------------------ opening

/* Where there are benchmarks, every model is evaluated as it is, too. */
static enum mt_status name_bases(struct mt_comparison *comparison)
{
    if (comparison->tasks.count == 0) return MT_OK;
    size_t bases = comparison->settings->models;
    enum mt_status status = MT_OK;
    comparison->base = mt_arena_array(&comparison->arena, bases, sizeof(struct mt_cell), &status);
    if (status != MT_OK) return status;
    comparison->bases = bases;
    for (size_t i = 0; i < bases && status == MT_OK; i++) {
        comparison->base[i].base = true;
        comparison->base[i].model = i;
        status = mt_cell_name(&comparison->job, &comparison->base[i]);
    }
    return status;
}

/* Every model before its training, measured as the cells of each domain are. */
static enum mt_status name_starts(struct mt_comparison *comparison)
{
    size_t trained = comparison->settings->trained;
    size_t starts = comparison->settings->models * trained;
    enum mt_status status = MT_OK;
    comparison->start = mt_arena_array(&comparison->arena, starts, sizeof(struct mt_cell), &status);
    if (status != MT_OK) return status;
    comparison->starts = starts;
    for (size_t i = 0; i < starts && status == MT_OK; i++) {
        struct mt_cell *start = &comparison->start[i];
        *start = (struct mt_cell){.start = true, .model = i / trained, .domain = i % trained};
        status = mt_cell_name(&comparison->job, start);
    }
    return status;
}

const struct mt_cell *mt_comparison_start(const struct mt_comparison *comparison, size_t model, size_t domain)
{
    return &comparison->start[model * comparison->settings->trained + domain];
}

/* Methods change fastest, seeds slowest: a comparison that is cut short has all methods of fewer seeds. */
static enum mt_status name_cells(struct mt_comparison *comparison)
{
    const struct mt_compare_settings *settings = comparison->settings;
    size_t cells = settings->seeds * settings->models * settings->trained * settings->methods;
    enum mt_status status = MT_OK;
    comparison->cell = mt_arena_array(&comparison->arena, cells, sizeof(struct mt_cell), &status);
    if (status != MT_OK) return status;
    comparison->cells = cells;
    for (size_t i = 0; i < cells && status == MT_OK; i++) {
        struct mt_cell *cell = &comparison->cell[i];
        cell->method = i % settings->methods;
        cell->domain = i / settings->methods % settings->trained;
        cell->model = i / settings->methods / settings->trained % settings->models;
        cell->seed = i / settings->methods / settings->trained / settings->models;
        status = mt_cell_name(&comparison->job, cell);
    }
    return status;
}

struct mt_cell *mt_comparison_cell(const struct mt_comparison *comparison, size_t model, size_t method,
                                   size_t domain, size_t seed)
{
    const struct mt_compare_settings *settings = comparison->settings;
    size_t row = (seed * settings->models + model) * settings->trained + domain;
    return &comparison->cell[row * settings->methods + method];
}

size_t mt_comparison_jobs(const struct mt_comparison *comparison)
{
    return comparison->bases + comparison->starts + comparison->cells;
}

struct mt_cell *mt_comparison_job(const struct mt_comparison *comparison, size_t number)
{
    if (number < comparison->bases) return &comparison->base[number];
    number -= comparison->bases;
    if (number < comparison->starts) return &comparison->start[number];
    return &comparison->cell[number - comparison->starts];
}

bool mt_comparison_any_known(const struct mt_comparison *comparison)
{
    bool any = false;
    for (size_t i = 0; i < mt_comparison_jobs(comparison); i++)
        any = any || mt_comparison_job(comparison, i)->result.known;
    return any;
}

const struct mt_cell_task *mt_comparison_form(const struct mt_comparison *comparison, size_t task)
{
    const struct mt_cell_task *found = NULL;
    for (size_t i = mt_comparison_jobs(comparison); i > 0; i--) { // cells come behind bases
        const struct mt_cell_task *one = &mt_comparison_job(comparison, i - 1)->result.task[task];
        if (!one->known || one->form == NULL) continue;
        if (one->form_differs) return one;
        if (found == NULL) found = one;
    }
    return found;
}

/* How a benchmark is shown. */
static enum mt_status describe_tasks(struct mt_comparison *comparison)
{
    enum mt_status status = MT_OK;
    for (size_t t = 0; t < comparison->tasks.count && status == MT_OK; t++) {
        const struct mt_compare_task *task = &comparison->tasks.task[t];
        char title[LINE_BYTES], formula[LINE_BYTES];
        const char *texts[2] = {NULL, NULL};
        (void)snprintf(title, sizeof title, "%.200s %%", task->name);
        (void)snprintf(formula, sizeof formula, "100 · %.60s over %zu questions", task->metric,
                       task->questions);
        status = mt_arena_copy_text(&comparison->arena, title, strlen(title), &texts[0]);
        if (status == MT_OK)
            status = mt_arena_copy_text(&comparison->arena, formula, strlen(formula), &texts[1]);
        comparison->task_row[t] = (struct mt_compare_figure_row){.name = task->name,
                                                                 .title = texts[0],
                                                                 .formula = texts[1],
                                                                 .better = 1,
                                                                 .factor = 100.0,
                                                                 .decimals = 1};
    }
    return status;
}

/* Cells of the first seed, model and domain have all there is to check. */
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

/* What is not done, among the ranks in turn; or all of it, where they train together. Shares that start at
 * different times see different things done: theirs goes by the place among all. */
static enum mt_status share_jobs(struct mt_comparison *comparison,
                                 const struct mt_comparison_options *options)
{
    enum mt_status status = MT_OK;
    size_t jobs = mt_comparison_jobs(comparison);
    size_t open = 0;
    comparison->mine = mt_arena_array(&comparison->arena, jobs, sizeof *comparison->mine, &status);
    for (size_t i = 0; i < jobs && status == MT_OK; i++) {
        if (mt_comparison_job(comparison, i)->result.complete) continue;
        comparison->mine[i] = comparison->job.ranks != NULL ||
                              (options->shares > 0 ? i % options->shares == options->share
                                                   : open % (size_t)mt_comm_size(comparison->comm) ==
                                                         (size_t)mt_comm_rank(comparison->comm));
        open++;
    }
    comparison->kept = jobs - open;
    return status;
}

bool mt_comparison_owns(const struct mt_comparison *comparison, size_t number)
{
    return comparison->mine[number];
}

enum mt_status mt_comparison_open(struct mt_context *ctx, const struct mt_compare_settings *settings,
                                  const struct mt_comparison_options *options,
                                  struct mt_comparison *comparison)
{
    *comparison = (struct mt_comparison){.ctx = ctx, .settings = settings};
    mt_arena_init(&comparison->arena, ctx, ARENA_BLOCK_BYTES);
    comparison->comm = options->comm;
    comparison->own_comm = options->comm == NULL;
    enum mt_status status = comparison->own_comm ? mt_comm_open_alone(ctx, &comparison->comm) : MT_OK;
    if (status != MT_OK) return status;
    comparison->job = (struct mt_cell_job){.ctx = ctx,
                                           .settings = settings,
                                           .device = settings->device,
                                           .templates = options->templates,
                                           .data = settings->data != NULL ? settings->data : options->data,
                                           .task_files = options->tasks,
                                           .recipes = options->recipes,
                                           .terminal = options->terminal,
                                           .tasks = &comparison->tasks,
                                           .judge = &comparison->judge,
                                           .log = options->log,
                                           .threads = mt_comm_threads(comparison->comm, settings->threads),
                                           .held = MT_FOLDER_UNLOCKED,
                                           .arena = &comparison->arena,
                                           .signals = options->signals,
                                           .stop_after = options->stop_after};
    if (settings->ranks == MT_COMPARE_RANKS_EACH && mt_comm_size(comparison->comm) > 1)
        comparison->job.ranks = comparison->comm;
    status = mt_compare_tasks_find(settings, options->tasks, comparison->job.data, &comparison->arena,
                                   &comparison->tasks);
    if (status == MT_OK) status = describe_tasks(comparison);
    if (status == MT_OK) status = mt_comparison_list_probes(comparison);
    if (status == MT_OK) status = name_bases(comparison);
    if (status == MT_OK) status = name_starts(comparison);
    if (status == MT_OK) status = name_cells(comparison);
    if (status == MT_OK) status = check_cells(comparison);
    for (size_t i = 0; status == MT_OK && i < mt_comparison_jobs(comparison); i++)
        status = mt_cell_read(&comparison->job, mt_comparison_job(comparison, i));
    if (status == MT_OK) status = share_jobs(comparison, options);
    return status == MT_OK ? mt_comparison_read_device(comparison) : status;
}

void mt_comparison_close(struct mt_comparison *comparison)
{
    if (comparison->ctx != NULL) {
        mt_task_judge_close(&comparison->judge);
        mt_arena_free(&comparison->arena);
        mt_folder_unlock(comparison->job.held);
        if (comparison->own_comm) mt_comm_close(comparison->comm);
    }
    *comparison = (struct mt_comparison){0};
}
