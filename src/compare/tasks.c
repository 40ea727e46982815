/* Entries of `tasks` to lists of tasks. */
#include "compare/tasks.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/files/digest.h"
#include "eval/run/summary.h"
#include "eval/tasks/task_data.h"

#define TEXT_BYTES 256

/* Parts whose data is not there: left out, or refused. */
static enum mt_status look_for_data(struct mt_context *ctx, const struct mt_compare_settings *settings,
                                    const char *data, struct mt_compare_task *task)
{
    size_t kept = 0;
    for (size_t i = 0; i < task->list.count; i++) {
        const struct mt_task *part = &task->list.tasks[i];
        bool there = mt_task_data_exists(part, data);
        if (!there && !settings->skip_missing)
            return mt_fail(ctx, MT_ERR_USAGE,
                           "%s: task %s: there is no %s/%s; evaluation.data names the folder, and "
                           "evaluation.skip_missing=true leaves out parts without data",
                           settings->file, part->name, data, part->data[0]);
        if (there) task->list.tasks[kept++] = *part;
    }
    task->list.count = kept;
    if (kept > 0) return MT_OK;
    return mt_fail(ctx, MT_ERR_USAGE, "%s: task %s: no data in %s", settings->file, task->name, data);
}

/* What the entry changes about its parts. */
static enum mt_status adapt_parts(struct mt_context *ctx, const struct mt_compare_settings *settings,
                                  struct mt_compare_task *task)
{
    for (size_t i = 0; i < task->list.count; i++) {
        struct mt_task *part = &task->list.tasks[i];
        if (task->entry->shots >= 0) part->few_shot = task->entry->shots;
        if (task->max_tokens > 0) part->max_tokens = task->max_tokens;
        if (part->few_shot > 0 && part->few_shot_data == NULL && part->few_shot_text == NULL)
            return mt_fail(ctx, MT_ERR_USAGE, "%s: task %s names no file of examples for shots",
                           settings->file, part->name);
        task->writes = task->writes || part->kind == MT_TASK_GENERATE;
    }
    if (!task->writes) task->max_tokens = 0; // nothing is written
    return MT_OK;
}

/* The entry's limit, spread over its parts; those that get nothing are left out. */
static enum mt_status count_questions(struct mt_context *ctx, const char *data, struct mt_compare_task *task)
{
    size_t parts = task->list.count;
    size_t limit = (size_t)task->entry->limit;
    enum mt_status status = MT_OK;
    if (limit > 0 && limit < parts) task->list.count = limit;
    for (size_t i = 0; i < task->list.count && status == MT_OK; i++) {
        struct mt_task *part = &task->list.tasks[i];
        struct mt_task_data *opened = NULL;
        if (limit > 0) part->most = (int64_t)(limit / parts + (i < limit % parts ? 1 : 0));
        status = mt_task_data_open(ctx, part, data, &opened);
        if (status != MT_OK) break;
        size_t count = mt_task_data_count(opened);
        if (part->most > 0 && (size_t)part->most < count) count = (size_t)part->most;
        task->questions += count;
        if (part->kind == MT_TASK_GENERATE)
            task->written += (double)count * (double)part->samples * (double)part->max_tokens;
        mt_task_data_close(opened);
    }
    return status;
}

/* What an answer depends on beside the model: the parts' files, and how they are asked. */
static enum mt_status describe(const struct mt_compare_task *task, struct mt_arena *arena, const char **text)
{
    struct mt_digest *digest = NULL;
    char line[TEXT_BYTES];
    enum mt_status status = mt_digest_create(arena->ctx, &digest);
    if (status != MT_OK) return status;
    for (size_t i = 0; i < task->list.count; i++) {
        const struct mt_task *part = &task->list.tasks[i];
        int length = snprintf(line, sizeof line, "%.160s %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\n",
                              part->name, part->version, part->most, part->few_shot, part->max_tokens);
        mt_digest_add(digest, line, (size_t)length);
    }
    // Version 2: tasks are put in the form they fix, else in that of the run.
    const char *form = task->entry->template != NULL ? task->entry->template : "form 2";
    mt_digest_add(digest, form, strlen(form));
    struct mt_digest_text sum = mt_digest_finish(digest);
    mt_digest_free(digest);
    status = mt_arena_copy_text(arena, sum.digits, strlen(sum.digits), text);
    return status;
}

static enum mt_status name_task(struct mt_compare_task *task, bool budgets, struct mt_arena *arena)
{
    char text[TEXT_BYTES];
    char label[TEXT_BYTES];
    const struct mt_task *first = &task->list.tasks[0];
    (void)snprintf(text, sizeof text, budgets ? "%.128s@%" PRId64 : "%.128s", task->entry->name,
                   task->max_tokens);
    enum mt_status status = mt_arena_copy_text(arena, text, strlen(text), &task->name);
    (void)mt_eval_metric_label(first, 0, label, sizeof label);
    const char *metric = strcmp(first->asked, first->name) == 0 ? label : "mean";
    return status == MT_OK ? mt_arena_copy_text(arena, metric, strlen(metric), &task->metric) : status;
}

/* Where tasks are looked for. */
struct places {
    const struct mt_compare_settings *settings;
    const char *folder, *data;
    struct mt_arena *arena;
};

/* One entry with one budget. */
static enum mt_status find_task(const struct places *places, const struct mt_compare_entry *entry,
                                int64_t max_tokens, struct mt_compare_task *task)
{
    const struct mt_compare_settings *settings = places->settings;
    struct mt_arena *arena = places->arena;
    struct mt_context *ctx = arena->ctx;
    *task = (struct mt_compare_task){.name = entry->name, .entry = entry, .max_tokens = max_tokens};
    enum mt_status status = mt_task_resolve(ctx, places->folder, entry->task, arena, &task->list);
    if (status != MT_OK) return mt_fail_within(ctx, status, "%s", settings->file);
    status = look_for_data(ctx, settings, places->data, task);
    if (status == MT_OK) status = adapt_parts(ctx, settings, task);
    if (status == MT_OK) status = count_questions(ctx, places->data, task);
    if (status == MT_OK) status = name_task(task, entry->budgets.count > 1 && task->writes, arena);
    if (status == MT_OK && !task->writes && entry->own_budgets)
        status = mt_fail(ctx, MT_ERR_USAGE,
                         "%s: task %s: max_tokens means nothing: its choices are scored, not written",
                         settings->file, entry->name);
    return status == MT_OK ? describe(task, arena, &task->asking) : status;
}

enum mt_status mt_compare_tasks_find(const struct mt_compare_settings *settings, const char *folder,
                                     const char *data, struct mt_arena *arena, struct mt_compare_tasks *tasks)
{
    const struct places places = {settings, folder, data, arena};
    enum mt_status status = MT_OK;
    tasks->count = 0;
    if (settings->entries > 0 && data == NULL)
        return mt_fail(arena->ctx, MT_ERR_USAGE,
                       "%s: evaluation.data is missing: the folder of the benchmarks' files ($METIER_DATA is "
                       "not set)",
                       settings->file);
    for (size_t i = 0; i < settings->entries && status == MT_OK; i++) {
        const struct mt_compare_entry *entry = &settings->entry[i];
        size_t budgets = entry->budgets.count > 0 ? entry->budgets.count : 1;
        for (size_t b = 0; b < budgets && status == MT_OK; b++) {
            if (tasks->count == MT_COMPARE_MOST_TASKS)
                return mt_fail(arena->ctx, MT_ERR_USAGE, "%s: more than %d tasks and budgets", settings->file,
                               MT_COMPARE_MOST_TASKS);
            struct mt_compare_task *task = &tasks->task[tasks->count];
            status = find_task(&places, entry, entry->budgets.tokens[b], task);
            if (status == MT_OK) tasks->count++;
            if (!task->writes) break; // one column, whatever an answer may be long
        }
    }
    return status;
}
