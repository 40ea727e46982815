/* Cells planned, not run. */
#include "compare/plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/model_count.h"
#include "base/compare.h"
#include "base/files/folder.h"
#include "compare/prepare.h"

#define PATH_BYTES 4096

/* Settings whose OUT is a folder of ours: built-in problems have to be somewhere to be counted. */
struct planning {
    struct mt_compare_settings settings;
    struct mt_cell_job job;
    char folder[PATH_BYTES];
};

static enum mt_status plan_training(const struct mt_cell_job *job, const struct mt_train_settings *training,
                                    struct mt_cell_plan *plan)
{
    struct mt_trainer *trainer = NULL;
    struct mt_run_outline outline = {0};
    struct mt_model_count count;
    const struct mt_trainer_options options = {
        .settings = training, .templates = job->templates, .log = job->log, .plan_only = true};
    enum mt_status status = mt_trainer_open(job->ctx, &options, &trainer);
    if (status != MT_OK) return status;
    mt_trainer_outline(trainer, &outline);
    double checkpoint = (double)(outline.model.masters + outline.moments);
    mt_model_count(outline.desc->config, &count);
    // A whole model is written as bf16; a checkpoint has all that goes on.
    double result =
        training->train == MT_TRAIN_LORA ? (double)outline.model.masters : 2.0 * (double)count.all;
    *plan = (struct mt_cell_plan){.steps = outline.length.steps,
                                  .trainable = outline.params->trained_elements,
                                  .disk_bytes = result + checkpoint};
    mt_run_memory(&outline, &plan->memory);
    mt_trainer_close(trainer);
    return MT_OK;
}

static enum mt_status plan_methods(struct mt_comparison *comparison, const struct planning *planning,
                                   struct mt_compare_plan *plan)
{
    const struct mt_compare_settings *settings = comparison->settings;
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < settings->models * settings->methods && status == MT_OK; i++) {
        struct mt_cell cell = {.model = i / settings->methods, .method = i % settings->methods};
        struct mt_train_settings training;
        struct mt_arena arena;
        mt_arena_init(&arena, comparison->ctx, PATH_BYTES);
        status = mt_cell_name(&planning->job, &cell);
        if (status == MT_OK) status = mt_cell_training(&planning->job, &cell, &arena, &training);
        if (status == MT_OK) status = plan_training(&planning->job, &training, &plan->method[i]);
        mt_arena_free(&arena);
        if (status != MT_OK) break;
        plan->disk_bytes += plan->method[i].disk_bytes * (double)(settings->seeds * settings->trained);
        if (plan->method[i].memory.all > plan->method[plan->largest].memory.all) plan->largest = i;
    }
    return status;
}

static void count_questions(const struct mt_comparison *comparison, struct mt_compare_plan *plan)
{
    for (size_t t = 0; t < comparison->tasks.count; t++) {
        const struct mt_compare_task *task = &comparison->tasks.task[t];
        plan->questions += task->questions;
        for (size_t i = 0; i < mt_comparison_jobs(comparison); i++) {
            if (!mt_cell_asks(&comparison->job, mt_comparison_job(comparison, i), t)) continue;
            plan->all_questions += task->questions;
            plan->written_tokens += task->written;
        }
    }
}

/* Nothing is claimed before a cell is done. */
static enum mt_status estimate_time(struct mt_comparison *comparison, struct mt_compare_plan *plan)
{
    size_t count = 0;
    enum mt_status status = MT_OK;
    double *seconds = mt_arena_array(&comparison->arena, comparison->cells, sizeof *seconds, &status);
    plan->seconds = (double)NAN;
    for (size_t i = 0; status == MT_OK && i < mt_comparison_jobs(comparison); i++)
        plan->done += mt_comparison_job(comparison, i)->result.complete ? 1 : 0;
    for (size_t i = 0; status == MT_OK && i < comparison->cells; i++) {
        const struct mt_cell_result *result = &comparison->cell[i].result;
        if (result->complete && result->took > 0.0) seconds[count++] = result->took;
    }
    if (status != MT_OK || count == 0) return status;
    qsort(seconds, count, sizeof *seconds, mt_by_number);
    plan->seconds = seconds[count / 2] * (double)(mt_comparison_jobs(comparison) - plan->done);
    return MT_OK;
}

enum mt_status mt_comparison_plan(struct mt_comparison *comparison, struct mt_compare_plan *plan)
{
    const struct mt_compare_settings *settings = comparison->settings;
    const char *temporary = getenv("TMPDIR");
    enum mt_status status = mt_comparison_choose_device(comparison);
    struct planning *planning = mt_arena_array(&comparison->arena, 1, sizeof *planning, &status);
    *plan = (struct mt_compare_plan){0};
    plan->method = mt_arena_array(&comparison->arena, settings->models * settings->methods,
                                  sizeof *plan->method, &status);
    if (status != MT_OK) return status;
    planning->settings = *settings;
    planning->job = comparison->job;
    planning->job.settings = &planning->settings;
    (void)snprintf(planning->folder, sizeof planning->folder, "%s/metier-plan-XXXXXX",
                   temporary != NULL ? temporary : "/tmp");
    if (mkdtemp(planning->folder) == NULL)
        return mt_fail(comparison->ctx, MT_ERR_IO, "%s: cannot make a folder to plan in", planning->folder);
    planning->settings.out = planning->folder;
    status = mt_comparison_write_problems(&planning->job);
    if (status == MT_OK) status = plan_methods(comparison, planning, plan);
    enum mt_status removed = mt_folder_remove(comparison->ctx, planning->folder);
    if (status != MT_OK) return status;
    count_questions(comparison, plan);
    return removed == MT_OK ? estimate_time(comparison, plan) : removed;
}
