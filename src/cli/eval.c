/* metier eval: judging answers to tasks, listing tasks, writing out their questions. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/folder.h"
#include "cli/agreement.h"
#include "cli/share.h"
#include "cli/verbs.h"
#include "eval/recorded.h"
#include "eval/results.h"
#include "eval/runner.h"
#include "eval/task_data.h"

#define ARENA_BYTES 65536
#define MOST_FILES  1024

struct arguments {
    bool list, keys, quiet, skip_missing;
    const char *data, *answers, *out, *questions, *merge_review;
    int64_t limit;
    int64_t shots; // -1: as the task says
};

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
    printf("%-22s %-10s %s%s\n", task.name, mt_domain_name(task.domain), task.title, note);
    return MT_OK;
}

static enum mt_status print_list(struct mt_context *ctx, const char *folder, struct mt_arena *arena)
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

static void print_keys(void)
{
    struct mt_task_key key;
    for (int i = 0; mt_task_key_listed(i, &key); i++) {
        printf("%-17s %s\n%-17s   %s; default %s\n", key.name, key.meaning, "", key.values, key.standard);
    }
}

// ------------------------------------------------------------------ questions

static enum mt_status write_question(struct mt_byte_list *line, const struct mt_task *task,
                                     const struct mt_sample *sample, FILE *stream)
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
    if (status == MT_OK && fwrite(line->data, 1, line->count, stream) != line->count)
        status = mt_fail(line->ctx, MT_ERR_IO, "cannot write the questions: %s", strerror(errno));
    return status;
}

static enum mt_status write_task_questions(struct mt_context *ctx, const struct arguments *arguments,
                                           const struct mt_task *task, FILE *stream)
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
        if (status == MT_OK) status = write_question(&line, task, &sample, stream);
    }
    mt_byte_list_free(&line);
    mt_sample_free(&sample);
    mt_task_data_close(data);
    return status;
}

static enum mt_status write_questions(struct mt_context *ctx, const struct arguments *arguments,
                                      const struct mt_task_list *list)
{
    bool standard = strcmp(arguments->questions, "-") == 0;
    FILE *stream = standard ? stdout : fopen(arguments->questions, "w");
    enum mt_status status = MT_OK;
    if (stream == NULL)
        return mt_fail(ctx, MT_ERR_IO, "%s: cannot write it: %s", arguments->questions, strerror(errno));
    for (size_t i = 0; i < list->count && status == MT_OK; i++)
        status = write_task_questions(ctx, arguments, &list->tasks[i], stream);
    bool flushed = standard ? fflush(stream) == 0 : fclose(stream) == 0;
    if (status == MT_OK && !flushed)
        status = mt_fail(ctx, MT_ERR_IO, "%s: cannot write it: %s", arguments->questions, strerror(errno));
    return status;
}

// ------------------------------------------------------------------ judging

static void print_results(const struct mt_task_result *results, size_t count)
{
    printf("%-40s %8s  %-12s %8s  %s\n", "task", "samples", "metric", "value", "95 % interval");
    for (size_t i = 0; i < count; i++) {
        const struct mt_task_result *one = &results[i];
        for (size_t k = 0; k < one->task->metric_count && !one->skipped; k++) {
            char label[64];
            const struct mt_metric_result *metric = &one->metrics[k];
            printf("%-40s %8zu  %-12s %8.4f  %.4f to %.4f\n", k == 0 ? one->task->name : "", one->done,
                   mt_eval_metric_label(one->task, k, label, sizeof label), metric->value, metric->low,
                   metric->high);
        }
    }
}

static enum mt_status judge(struct mt_context *ctx, const struct arguments *arguments,
                            const struct mt_task_list *list)
{
    struct mt_recorded *recorded = NULL;
    void *memory = NULL;
    struct mt_log log;
    mt_log_init(&log, stderr, MT_LOG_WARNING);
    enum mt_status status = mt_recorded_open(ctx, arguments->answers, &recorded);
    if (status == MT_OK) status = mt_folder_make(ctx, arguments->out);
    if (status == MT_OK) status = mt_allocate_array(ctx, list->count, sizeof(struct mt_task_result), &memory);
    if (status == MT_OK) {
        struct mt_answerer answerer = mt_recorded_answerer(recorded);
        const struct mt_eval_options options = {.tasks = list->tasks,
                                                .task_count = list->count,
                                                .data = arguments->data,
                                                .out = arguments->out,
                                                .answerer = &answerer,
                                                .limit = arguments->limit,
                                                .skip_missing = arguments->skip_missing,
                                                .terminal = arguments->quiet ? NULL : stderr,
                                                .log = &log};
        status = mt_eval_run(ctx, &options, memory);
        if (status == MT_OK) print_results(memory, list->count);
    }
    mt_release(ctx, memory, list->count * sizeof(struct mt_task_result));
    mt_recorded_close(recorded);
    return status;
}

static enum mt_status run(struct mt_context *ctx, struct arguments *arguments,
                          const struct cli_arguments *given, struct mt_arena *arena)
{
    const char *folder = NULL;
    struct mt_task_list list = {0};
    enum mt_status status = cli_find_share(arena, "tasks", &folder);
    if (status == MT_OK && folder == NULL) status = cli_share_missing(ctx, "tasks");
    if (status != MT_OK) return status;
    if (arguments->list) return print_list(ctx, folder, arena);
    if (arguments->merge_review != NULL && arguments->out != NULL)
        return cli_merge_review(ctx, arguments->out, arguments->merge_review);
    if (arguments->merge_review != NULL)
        return mt_fail(ctx, MT_ERR_USAGE, "--out DIR is missing: the run the marks belong to");
    if (given->positional_count == 0)
        return mt_fail(ctx, MT_ERR_USAGE, "a task is missing; --list names them");
    bool answers = arguments->answers != NULL;
    if (answers == (arguments->questions != NULL))
        return mt_fail(ctx, MT_ERR_USAGE, "either --answers FILE or --questions FILE is expected");
    if (answers && arguments->out == NULL) return mt_fail(ctx, MT_ERR_USAGE, "--out DIR is missing");
    if (arguments->limit < 0 || arguments->shots < -1 || arguments->shots > 1000)
        return mt_fail(ctx, MT_ERR_USAGE, "--limit and --shots may not be negative");
    if (arguments->data == NULL) arguments->data = getenv("METIER_DATA");
    if (arguments->data == NULL)
        return mt_fail(ctx, MT_ERR_USAGE, "--data DIR is missing ($METIER_DATA is not set)");
    for (int i = 0; i < given->positional_count && status == MT_OK; i++)
        status = mt_task_resolve(ctx, folder, given->positional[i], arena, &list);
    for (size_t i = 0; i < list.count && status == MT_OK && arguments->shots >= 0; i++) {
        list.tasks[i].few_shot = arguments->shots;
        if (arguments->shots > 0 && list.tasks[i].few_shot_data == NULL)
            status = mt_fail(ctx, MT_ERR_USAGE, "task %s names no file of examples for --shots",
                             list.tasks[i].name);
    }
    if (status != MT_OK) return status;
    return answers ? judge(ctx, arguments, &list) : write_questions(ctx, arguments, &list);
}

int cli_eval(struct mt_context *ctx, const struct cli_verb *verb, int argc, char **argv)
{
    struct arguments arguments = {.shots = -1};
    const struct cli_option options[] = {
        {"--list", CLI_FLAG, &arguments.list, NULL, "the tasks there are"},
        {"--keys", CLI_FLAG, &arguments.keys, NULL, "the keys of task files"},
        {"--data", CLI_TEXT, &arguments.data, "DIR", "folder of the benchmarks' files; default $METIER_DATA"},
        {"--answers", CLI_TEXT, &arguments.answers, "FILE", "answers made elsewhere, JSONL"},
        {"--questions", CLI_TEXT, &arguments.questions, "FILE",
         "write the questions instead, JSONL; - is standard output"},
        {"--out", CLI_TEXT, &arguments.out, "DIR", "where results go"},
        {"--merge-review", CLI_TEXT, &arguments.merge_review, "FILE",
         "take over what a person marked (metier review) into the run of --out"},
        {"--limit", CLI_INTEGER, &arguments.limit, "N", "so many samples of each task at most"},
        {"--shots", CLI_INTEGER, &arguments.shots, "N",
         "examples before each question; default as the task says, none"},
        {"--skip-missing", CLI_FLAG, &arguments.skip_missing, NULL,
         "leave out tasks whose data is not there"},
        {"--quiet", CLI_FLAG, &arguments.quiet, NULL, "no progress on the terminal"},
    };
    struct cli_arguments given;
    struct mt_arena arena;
    mt_arena_init(&arena, ctx, ARENA_BYTES);
    enum mt_status status =
        cli_parse(ctx, verb, options, (int)(sizeof options / sizeof options[0]), argc, argv, &given);
    if (status == MT_OK && given.help_shown) return 0;
    if (status == MT_OK && arguments.keys) {
        print_keys();
    } else if (status == MT_OK) {
        status = run(ctx, &arguments, &given, &arena);
    }
    mt_arena_free(&arena);
    if (status == MT_OK && (fflush(stdout) != 0 || ferror(stdout)))
        status = mt_fail(ctx, MT_ERR_IO, "cannot write standard output: %s", strerror(errno));
    return status == MT_OK ? 0 : cli_fail(ctx, verb, status);
}
