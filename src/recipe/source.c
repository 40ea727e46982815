/* Sources: the recipe's file under the task's prompt. */
#include "recipe/source.h"

#include <stdio.h>
#include <string.h>

#include "base/rng.h"

/* A task that asks nothing of an answer, for recipes that name none. */
static const char no_task[] = "{title: none, domain: math, data: none, prompt: none, answer: none}";

// ------------------------------------------------------------------ tasks

static enum mt_status find_tasks(struct mt_context *ctx, const struct mt_recipe *recipe, const char *folder,
                                 struct mt_arena *arena, struct mt_task_list *list)
{
    if (recipe->task != NULL) {
        enum mt_status status = mt_task_resolve(ctx, folder, recipe->task, arena, list);
        return status == MT_OK ? MT_OK : mt_fail_within(ctx, status, "recipe %s", recipe->name);
    }
    enum mt_status status = MT_OK;
    list->tasks = mt_arena_array(arena, 1, sizeof *list->tasks, &status);
    list->count = 1;
    return status == MT_OK ? mt_task_read(ctx, recipe->name, no_task, strlen(no_task), arena, list->tasks)
                           : status;
}

/* The recipe's keys over the task's. */
static void lay_over(const struct mt_recipe *recipe, struct mt_task *task)
{
    task->family = recipe->name;
    task->asked = recipe->name;
    task->members = NULL;
    task->subtasks = NULL;
    task->format = recipe->format;
    task->columns = recipe->columns;
    task->fields = recipe->fields;
    task->rows = recipe->rows;
    task->id = recipe->id;
    task->few_shot = 0;
    if (recipe->prompt != NULL) task->prompt = recipe->prompt;
    if (recipe->answer != NULL) task->answer = recipe->answer;
    if (recipe->task != NULL) return;
    task->answer = recipe->response;
    task->domain = recipe->domain;
}

static enum mt_status name_file(const struct mt_recipe *recipe, struct mt_arena *arena,
                                struct mt_source_file *file)
{
    const char *subtask = file->task.subtask;
    enum mt_status status = MT_OK;
    size_t bytes = strlen(recipe->name) + (subtask != NULL ? strlen(subtask) : 0) + 2;
    char *name = mt_arena_array(arena, bytes, 1, &status);
    if (status != MT_OK) return status;
    (void)snprintf(name, bytes, "%s%s%s", recipe->name, subtask != NULL ? "_" : "",
                   subtask != NULL ? subtask : "");
    file->task.name = name;
    file->stream = mt_digest_short(name, strlen(name), 0);
    return MT_OK;
}

static bool names_subtask(const struct mt_recipe *recipe)
{
    if (recipe->rows != NULL && strstr(recipe->rows, "{subtask}") != NULL) return true;
    for (size_t i = 0; recipe->data[i] != NULL; i++) {
        if (strstr(recipe->data[i], "{subtask}") == NULL) return false;
    }
    return true;
}

/* A file for every subtask, of the recipe or else of the task. */
static enum mt_status list_files(struct mt_context *ctx, const char *tasks, struct mt_arena *arena,
                                 struct mt_source *source)
{
    const struct mt_recipe *recipe = source->recipe;
    struct mt_task_list list = {0};
    enum mt_status status = find_tasks(ctx, recipe, tasks, arena, &list);
    if (status != MT_OK) return status;
    size_t count = list.count;
    source->task = recipe->task != NULL ? list.tasks[0].family : "";
    if (recipe->subtasks != NULL) {
        for (count = 0; recipe->subtasks[count] != NULL;) count++;
    }
    if (count > 1 && !names_subtask(recipe))
        return mt_fail(ctx, MT_ERR_USAGE,
                       "recipe %s: it has %zu subtasks, so data or rows must name {subtask}", recipe->name,
                       count);
    source->files = mt_arena_array(arena, count, sizeof *source->files, &status);
    source->file_count = status == MT_OK ? count : 0;
    for (size_t i = 0; i < source->file_count && status == MT_OK; i++) {
        struct mt_source_file *file = &source->files[i];
        file->task = list.tasks[recipe->subtasks != NULL ? 0 : i];
        if (recipe->subtasks != NULL) file->task.subtask = recipe->subtasks[i];
        lay_over(recipe, &file->task);
        status = name_file(recipe, arena, file);
    }
    return status;
}

// ------------------------------------------------------------------ files

void mt_source_file_name(const struct mt_source_file *file, char *name, size_t bytes)
{
    const char *data = file->task.data[0];
    const char *mark = file->task.subtask != NULL ? strstr(data, "{subtask}") : NULL;
    int before = mark != NULL ? (int)(mark - data) : (int)strlen(data);
    (void)snprintf(name, bytes, "%.*s%s%s", before, data, mark != NULL ? file->task.subtask : "",
                   mark != NULL ? mark + strlen("{subtask}") : "");
}

static enum mt_status refuse_missing(struct mt_context *ctx, const struct mt_recipe *recipe,
                                     const struct mt_source_file *file, const char *data)
{
    char name[512];
    mt_source_file_name(file, name, sizeof name);
    return mt_fail(ctx, MT_ERR_USAGE,
                   "recipe %s: %s/%s (or .gz) is not there; docs/recipes.md says where data comes from, "
                   "--skip-missing leaves it out",
                   recipe->name, data, name);
}

enum mt_status mt_source_open(struct mt_context *ctx, const struct mt_recipe *recipe, const char *tasks,
                              const char *data, bool skip_missing, struct mt_arena *arena,
                              struct mt_source *source)
{
    *source = (struct mt_source){.recipe = recipe};
    enum mt_status status = list_files(ctx, tasks, arena, source);
    for (size_t i = 0; i < source->file_count && status == MT_OK; i++) {
        struct mt_source_file *file = &source->files[i];
        file->task.data = recipe->data;
        const char *const *found = mt_task_data_found(&file->task, data);
        bool there = found != NULL;
        if (there) file->task.data = found;
        if (there) status = mt_task_data_open_all(ctx, &file->task, data, &file->data);
        if (!there && !skip_missing) status = refuse_missing(ctx, recipe, file, data);
    }
    return status;
}

void mt_source_close(struct mt_source *source)
{
    for (size_t i = 0; i < source->file_count; i++) {
        mt_task_data_close(source->files[i].data);
        source->files[i].data = NULL;
    }
}

// ------------------------------------------------------------------ rows

void mt_source_row_init(struct mt_context *ctx, struct mt_source_row *row)
{
    *row = (struct mt_source_row){.question = {.ctx = ctx}, .response = {.ctx = ctx}};
    mt_sample_init(ctx, &row->sample);
}

void mt_source_row_free(struct mt_source_row *row)
{
    mt_sample_free(&row->sample);
    mt_byte_list_free(&row->question);
    mt_byte_list_free(&row->response);
}

enum mt_status mt_source_read(const struct mt_source *source, size_t file, size_t index,
                              struct mt_source_row *row)
{
    const struct mt_task *task = &source->files[file].task;
    struct mt_task_sample *sample = &row->sample;
    enum mt_status status = mt_task_data_sample(source->files[file].data, index, sample);
    if (status != MT_OK) return status;
    if (!mt_sample_answered(task, sample)) return mt_row_fail(&sample->row, "it has no right answer");
    struct mt_prompt_names names = mt_sample_names(task, sample);
    row->question.count = 0;
    row->response.count = 0;
    status = mt_prompt_values(task->prompt, &sample->row, &names, &row->question);
    names.choice = sample->gold;
    if (status == MT_OK)
        status = mt_prompt_render(source->recipe->response, &sample->row, &names, &row->response);
    if (status == MT_OK && mt_text_trimmed(mt_text_in(&row->response)).bytes == 0)
        status = mt_row_fail(&sample->row, "the response is empty");
    return status;
}

uint64_t mt_source_key(const struct mt_source *source, size_t file, size_t index, uint64_t seed)
{
    const struct mt_source_file *from = &source->files[file];
    struct mt_rng_block block = mt_rng_words(seed, from->stream, mt_task_data_row(from->data, index));
    return (uint64_t)block.word[0] << 32 | block.word[1];
}
