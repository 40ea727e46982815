/* metier eval --card: figures for README.md and .eval_results. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/eval/eval.h"
#include "metier/version.h"
#include "model/files/card.h"

#define TEXT_BYTES 512

/* All questions were asked as they should be, and judged. */
static bool is_whole(const struct mt_task_result *result)
{
    return !result->skipped && result->done == result->total && result->failed == 0 &&
           result->unjudged == 0 && result->cut_prompts == 0 && result->dropped == 0;
}

/* Data set and task on the hub, if it has as many questions as were asked. */
static enum mt_status read_hub(struct mt_arena *arena, const char *hub, size_t total,
                               struct mt_card_result *row)
{
    const char *space = strchr(hub, ' ');
    const char *count = strrchr(hub, ' ');
    if (space == NULL || count == space || strtoull(count, NULL, 10) != total) return MT_OK;
    enum mt_status status = mt_arena_copy_text(arena, hub, (size_t)(space - hub), &row->hub_data);
    if (status == MT_OK)
        status = mt_arena_copy_text(arena, space + 1, (size_t)(count - space) - 1, &row->hub_task);
    return status;
}

/* One figure: of a task, or of a family as a whole. False: there is none. */
static bool read_figure(const struct mt_task_list *list, const struct mt_task_result *results, size_t at,
                        struct mt_metric_result *figure, size_t *total, bool *whole)
{
    const struct mt_task_result *result = &results[at];
    bool family = mt_eval_group(results, list->count, at, figure);
    *whole = true;
    *total = 0;
    // One of a family's later tasks: the first has spoken for all.
    for (size_t i = 0; i < at && !family; i++) {
        if (strcmp(results[i].task->asked, result->task->asked) == 0) return false;
    }
    for (size_t i = at; i < (family ? list->count : at + 1); i++) {
        if (strcmp(results[i].task->asked, result->task->asked) != 0) continue;
        *total += results[i].total;
        *whole = *whole && is_whole(&results[i]);
    }
    if (!family) *figure = result->metrics[0];
    return figure->samples > 0;
}

enum mt_status cli_eval_write_card(struct mt_context *ctx, const struct eval_arguments *arguments,
                                   const struct mt_task_list *list, const struct mt_task_result *results)
{
    const char *folder =
        arguments->infer.adapter != NULL ? arguments->infer.adapter : arguments->infer.directory;
    struct mt_arena arena;
    enum mt_status status = MT_OK;
    size_t count = 0;
    mt_arena_init(&arena, ctx, 16384);
    struct mt_card_result *rows = mt_arena_array(&arena, list->count, sizeof *rows, &status);
    for (size_t i = 0; i < list->count && status == MT_OK; i++) {
        const struct mt_task *task = results[i].task;
        struct mt_metric_result figure;
        char label[TEXT_BYTES];
        char notes[TEXT_BYTES];
        const char *kept = NULL;
        bool whole = false;
        size_t total = 0;
        if (results[i].skipped || !read_figure(list, results, i, &figure, &total, &whole)) continue;
        // A task that was asked for as a file: the path of that is nobody's business.
        const char *name = strchr(task->asked, '/') != NULL ? task->family : task->asked;
        status = mt_card_name(&arena, name, &name);
        if (status != MT_OK) break;
        (void)mt_eval_metric_label(task, 0, label, sizeof label);
        (void)snprintf(notes, sizeof notes, "metier %.32s, task %.128s, version %lld, %lld examples, %.128s",
                       mt_version(), name, (long long)task->version, (long long)task->few_shot, label);
        struct mt_card_result *row = &rows[count++];
        *row = (struct mt_card_result){.task = name,
                                       .value = figure.value,
                                       .low = figure.low,
                                       .high = figure.high,
                                       .samples = figure.samples,
                                       .total = total};
        if (whole && task->hub != NULL) status = read_hub(&arena, task->hub, total, row);
        if (status == MT_OK) status = mt_arena_copy_text(&arena, label, strlen(label), &row->metric);
        if (status == MT_OK) status = mt_arena_copy_text(&arena, notes, strlen(notes), &kept);
        row->notes = kept;
    }
    if (status == MT_OK) status = mt_card_add_results(ctx, folder, rows, count);
    if (status == MT_OK) printf("         %s/" MT_CARD_FILE "\n", folder);
    mt_arena_free(&arena);
    return status;
}
