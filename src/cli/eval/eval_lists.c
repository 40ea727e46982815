/* metier eval: listing tasks, writing out their questions. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/files/file.h"
#include "cli/eval/eval.h"
#include "cli/shared/table.h"
#include "eval/run/results.h"
#include "eval/tasks/task_data.h"

#define MOST_FILES 1024

// ------------------------------------------------------------------ lists

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static enum mt_status print_task(struct mt_context *ctx, const char *folder, const char *file,
                                 struct mt_arena *arena)
{
    char path[4096];
    struct mt_task task;
    (void)snprintf(path, sizeof path, "%s/%s", folder, file);
    enum mt_status status = mt_task_read(ctx, path, arena, &task);
    if (status != MT_OK) return status;
    size_t parts = 0;
    const char *const *names = task.members != NULL ? task.members : task.subtasks;
    while (names != NULL && names[parts] != NULL) parts++;
    char note[64] = "";
    if (parts > 0)
        (void)snprintf(note, sizeof note, " (%s of %zu)", task.members != NULL ? "group" : "family", parts);
    (void)snprintf(path, sizeof path, "%s%s", task.title, note);
    printf("%-22s %-10s ", task.name, mt_domain_name(task.domain));
    cli_print_text(34, path);
    return MT_OK;
}

enum mt_status eval_print_list(struct mt_context *ctx, const char *folder, struct mt_arena *arena)
{
    const char *names[MOST_FILES];
    size_t count = 0;
    enum mt_status status = MT_OK;
    DIR *directory = opendir(folder);
    if (directory == NULL) return mt_fail(ctx, MT_ERR_IO, "%s: cannot read it: %s", folder, strerror(errno));
    for (struct dirent *entry = readdir(directory); entry != NULL && status == MT_OK && count < MOST_FILES;
         entry = readdir(directory)) {
        size_t length = strlen(entry->d_name);
        char *copy = NULL;
        if (length < 6 || strcmp(entry->d_name + length - 5, ".yaml") != 0) continue;
        status = mt_arena_copy_text(arena, entry->d_name, length, &copy);
        names[count++] = copy;
    }
    (void)closedir(directory);
    if (status == MT_OK) qsort(names, count, sizeof names[0], by_text);
    for (size_t i = 0; i < count && status == MT_OK; i++) status = print_task(ctx, folder, names[i], arena);
    return status;
}

enum mt_status eval_print_keys(void)
{
    struct mt_task_key key;
    for (int i = 0; mt_task_key_listed(i, &key); i++)
        cli_print_key(17, key.name, key.meaning, key.values, key.standard);
    return MT_OK;
}

// ------------------------------------------------------------------ questions

/* To standard output where there is no writer. */
static enum mt_status write_question(struct mt_byte_list *line, const struct mt_task *task,
                                     const struct mt_sample *sample, struct mt_file_writer *writer)
{
    struct mt_text name = {.text = task->name, .bytes = strlen(task->name)};
    struct mt_text id = {.text = sample->id, .bytes = strlen(sample->id)};
    struct mt_text prompt = {.text = (const char *)sample->prompt.data, .bytes = sample->prompt.count};
    char tail[64];
    line->count = 0;
    enum mt_status status = mt_byte_list_append_text(line, "{\"task\": ");
    if (status == MT_OK) status = mt_results_append_string(line, name);
    if (status == MT_OK) status = mt_byte_list_append_text(line, ", \"id\": ");
    if (status == MT_OK) status = mt_results_append_string(line, id);
    if (status == MT_OK) status = mt_byte_list_append_text(line, ", \"prompt\": ");
    if (status == MT_OK) status = mt_results_append_string(line, prompt);
    (void)snprintf(tail, sizeof tail, ", \"max_tokens\": %" PRId64 "}\n", task->max_tokens);
    if (status == MT_OK) status = mt_byte_list_append_text(line, tail);
    if (status != MT_OK) return status;
    if (writer != NULL) return mt_file_writer_write(writer, line->data, line->count);
    if (fwrite(line->data, 1, line->count, stdout) != line->count)
        status = mt_fail(line->ctx, MT_ERR_IO, "cannot write the questions: %s", strerror(errno));
    return status;
}

static enum mt_status write_task_questions(struct mt_context *ctx, const struct eval_arguments *arguments,
                                           const struct mt_task *task, struct mt_file_writer *writer)
{
    struct mt_task_data *data = NULL;
    struct mt_sample sample;
    struct mt_byte_list line = {.ctx = ctx};
    if (arguments->skip_missing && !mt_task_data_exists(task, arguments->data)) return MT_OK;
    mt_sample_init(ctx, &sample);
    enum mt_status status = mt_task_data_open(ctx, task, arguments->data, &data);
    size_t count = status == MT_OK ? mt_task_data_count(data) : 0;
    if (arguments->limit > 0 && (uint64_t)arguments->limit < count) count = (size_t)arguments->limit;
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        status = mt_task_data_sample(data, i, &sample);
        if (status == MT_OK) status = write_question(&line, task, &sample, writer);
    }
    mt_byte_list_free(&line);
    mt_sample_free(&sample);
    mt_task_data_close(data);
    return status;
}

enum mt_status eval_write_questions(struct mt_context *ctx, const struct eval_arguments *arguments,
                                    const struct mt_task_list *list)
{
    bool standard = strcmp(arguments->questions, "-") == 0;
    struct mt_file_writer writer = {0};
    enum mt_status status = standard ? MT_OK : mt_file_writer_open(ctx, arguments->questions, &writer);
    for (size_t i = 0; i < list->count && status == MT_OK; i++)
        status = write_task_questions(ctx, arguments, &list->tasks[i], standard ? NULL : &writer);
    if (status == MT_OK && !standard) status = mt_file_writer_commit(&writer);
    mt_file_writer_abandon(&writer);
    return status;
}
