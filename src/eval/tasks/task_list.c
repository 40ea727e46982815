/* Names to tasks: files, families, groups; and several answers to a question, for pass@k. */
#include <stdio.h>
#include <string.h>

#include "eval/tasks/task.h"
#include "formats/text/yaml_name.h"

#define MOST_DEPTH 8 // of groups in groups

/* Subtask `index` of a family as a task of its own. */
static enum mt_status take_subtask(const struct mt_task *family, size_t index, struct mt_arena *arena,
                                   struct mt_task *task)
{
    enum mt_status status = MT_OK;
    *task = *family;
    task->subtask = family->subtasks[index];
    task->subtasks = NULL;
    size_t bytes = strlen(family->name) + strlen(task->subtask) + 2;
    char *name = mt_arena_array(arena, bytes, 1, &status);
    if (status == MT_OK) (void)snprintf(name, bytes, "%s_%s", family->name, task->subtask);
    task->name = name;
    return status;
}

static enum mt_status append(struct mt_arena *arena, struct mt_task_list *list, const struct mt_task *task)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->tasks[i].name, task->name) == 0) return MT_OK; // named twice, run once
    }
    if (list->count == list->capacity) {
        void *memory = NULL;
        size_t capacity = list->capacity > 0 ? 2 * list->capacity : 16;
        enum mt_status status = mt_arena_allocate(arena, capacity * sizeof *list->tasks, &memory);
        if (status != MT_OK) return status;
        if (list->count > 0) memcpy(memory, list->tasks, list->count * sizeof *list->tasks);
        list->tasks = memory;
        list->capacity = capacity;
    }
    list->tasks[list->count++] = *task;
    return MT_OK;
}

/* The subtask of that name, of a family or of a family in a group. */
static enum mt_status find_in(struct mt_context *ctx, const char *folder, const struct mt_task *family,
                              const char *name, struct mt_arena *arena, struct mt_task *task, bool *found)
{
    for (size_t i = 0; family->subtasks != NULL && family->subtasks[i] != NULL; i++) {
        if (strcmp(family->subtasks[i], name) != 0) continue;
        *found = true;
        return take_subtask(family, i, arena, task);
    }
    for (size_t i = 0; family->members != NULL && family->members[i] != NULL && !*found; i++) {
        char path[MT_YAML_PATH_BYTES];
        struct mt_task member;
        if (!mt_yaml_find(folder, family->members[i], path)) continue;
        enum mt_status status = mt_task_read(ctx, path, NULL, 0, arena, &member);
        member.members = NULL; // groups in groups are not looked into
        if (status == MT_OK) status = find_in(ctx, folder, &member, name, arena, task, found);
        if (status != MT_OK) return status;
    }
    return MT_OK;
}

/* FAMILY_SUBTASK: the family is some beginning of the name before an underscore. */
static enum mt_status find_subtask(struct mt_context *ctx, const char *folder, const char *name,
                                   struct mt_arena *arena, struct mt_task *task, bool *found)
{
    char path[MT_YAML_PATH_BYTES];
    char family_name[256];
    *found = false;
    for (const char *bar = strchr(name, '_'); bar != NULL && !*found; bar = strchr(bar + 1, '_')) {
        size_t length = (size_t)(bar - name);
        if (length >= sizeof family_name) break;
        memcpy(family_name, name, length);
        family_name[length] = '\0';
        struct mt_task family;
        if (!mt_yaml_find(folder, family_name, path)) continue;
        enum mt_status status = mt_task_read(ctx, path, NULL, 0, arena, &family);
        if (status == MT_OK) status = find_in(ctx, folder, &family, bar + 1, arena, task, found);
        if (status != MT_OK) return status;
    }
    return MT_OK;
}

static enum mt_status resolve(struct mt_context *ctx, const char *folder, const char *name,
                              struct mt_arena *arena, struct mt_task_list *list, int depth)
{
    char path[MT_YAML_PATH_BYTES];
    struct mt_task task;
    enum mt_status status = MT_OK;
    if (depth > MOST_DEPTH) return mt_fail(ctx, MT_ERR_USAGE, "task '%s': groups contain each other", name);
    if (!mt_yaml_find(folder, name, path)) {
        bool found = false;
        status = find_subtask(ctx, folder, name, arena, &task, &found);
        if (status != MT_OK) return status;
        return found ? append(arena, list, &task) : mt_yaml_refuse(ctx, "task", folder, name);
    }
    status = mt_task_read(ctx, path, NULL, 0, arena, &task);
    if (status != MT_OK) return status;
    for (size_t i = 0; task.members != NULL && task.members[i] != NULL && status == MT_OK; i++)
        status = resolve(ctx, folder, task.members[i], arena, list, depth + 1);
    for (size_t i = 0; task.subtasks != NULL && task.subtasks[i] != NULL && status == MT_OK; i++) {
        struct mt_task one;
        status = take_subtask(&task, i, arena, &one);
        if (status == MT_OK) status = append(arena, list, &one);
    }
    if (status == MT_OK && task.members == NULL && task.subtasks == NULL) status = append(arena, list, &task);
    return status;
}

enum mt_status mt_task_resolve(struct mt_context *ctx, const char *folder, const char *name,
                               struct mt_arena *arena, struct mt_task_list *list)
{
    size_t before = list->count;
    const char *asked = NULL;
    enum mt_status status = mt_arena_copy_text(arena, name, strlen(name), &asked);
    if (status == MT_OK) status = resolve(ctx, folder, name, arena, list, 0);
    for (size_t i = before; status == MT_OK && i < list->count; i++) list->tasks[i].asked = asked;
    return status;
}

bool mt_task_take_samples(struct mt_task *task, int64_t samples, int64_t k)
{
    size_t at = 0;
    while (at < task->metric_count && task->metrics[at] != MT_METRIC_PASS) at++;
    if (at == task->metric_count) return false;
    task->samples = samples;
    task->pass_k = k;
    if (k == 1 || task->metric_count == MT_TASK_MOST_METRICS) return true;
    for (size_t i = task->metric_count; i > at; i--) task->metrics[i] = task->metrics[i - 1];
    task->metric_count++;
    return true;
}

size_t mt_task_figures(const struct mt_task *task)
{
    return task->metric_count * task->filter_count;
}

int64_t mt_task_metric_k(const struct mt_task *task, size_t metric)
{
    for (size_t i = metric + 1; i < task->metric_count; i++) {
        if (task->metrics[i] == MT_METRIC_PASS) return 1;
    }
    return task->pass_k;
}
