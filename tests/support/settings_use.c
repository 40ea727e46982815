/* Files of settings, read and used. */
#define _DEFAULT_SOURCE // mkdtemp
#include "support/settings_use.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compare/settings/settings.h"
#include "eval/answers/grade.h"
#include "recipe/source.h"

#define ARENA_BYTES 16384

/* Rows that have every field the texts of the tests name. */
static const char rows[] = "{\"id\": \"a\", \"n\": 1, \"question\": \"1+1\", \"answer\": \"B\", \"list\": "
                           "[\"1\", \"2\"], \"x\": \"1\", \"y\": \"2\"}\n"
                           "{\"id\": \"b\", \"n\": 2, \"question\": \"\", \"answer\": \"A\", \"list\": [], "
                           "\"x\": \"\", \"y\": \"\"}\n";

static const char task_file[] =
    "title: t\ndomain: math\ndata: d.jsonl\nprompt: '{question}'\nanswer: '{answer}'\n";

/* Ends the process, which is how a fuzzer learns of it. */
static void demand(bool held)
{
    if (!held) abort();
}

// ------------------------------------------------------------------ a folder of data

/* A folder with the rows and a task, made anew for each use of a text that is accepted. */
struct folder {
    char path[64], data[96], task[96];
};

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "wb");
    demand(file != NULL);
    demand(fputs(text, file) >= 0);
    demand(fclose(file) == 0);
}

static void open_folder(struct folder *folder)
{
    (void)snprintf(folder->path, sizeof folder->path, "/tmp/metier-use-XXXXXX");
    demand(mkdtemp(folder->path) != NULL);
    (void)snprintf(folder->data, sizeof folder->data, "%s/d.jsonl", folder->path);
    (void)snprintf(folder->task, sizeof folder->task, "%s/t.yaml", folder->path);
    write_file(folder->data, rows);
    write_file(folder->task, task_file);
}

static void close_folder(const struct folder *folder)
{
    (void)unlink(folder->data);
    (void)unlink(folder->task);
    (void)rmdir(folder->path);
}

// ------------------------------------------------------------------ a task

/* Every sample with its continuations, and an answer judged. */
static enum mt_status ask(struct mt_context *ctx, const struct mt_task *task, const struct mt_task_data *data)
{
    struct mt_grader grader = {0};
    struct mt_task_sample sample;
    struct mt_byte_list text = {.ctx = ctx};
    struct mt_outcome outcome;
    bool whole = task->filters[0].extract_count == 1 && task->filters[0].extract[0].kind == MT_EXTRACT_WHOLE;
    bool written = task->kind == MT_TASK_GENERATE && (!whole || task->compare != MT_COMPARE_TEXT);
    enum mt_status status = written ? mt_grader_open(ctx, task, NULL, &grader) : MT_OK;
    mt_sample_init(ctx, &sample);
    for (size_t i = 0; i < mt_task_data_count(data) && status == MT_OK; i++) {
        status = mt_task_data_sample(data, i, &sample);
        struct mt_prompt_names names = mt_sample_names(task, &sample);
        demand(status != MT_OK || task->kind != MT_TASK_CHOOSE || sample.choice_count > 0);
        for (size_t k = 0; k < sample.choice_count && status == MT_OK; k++) {
            names.choice = (int)k;
            text.count = 0;
            status = mt_prompt_render(task->continuation, &sample.row, &names, &text);
        }
        text.count = 0;
        if (status == MT_OK && written)
            status = mt_grade(&grader, &sample, mt_text_of("So it is B."), &text, &outcome);
        if (status == MT_OK) mt_grade_choice(&sample, 0, &outcome);
    }
    mt_sample_free(&sample);
    mt_byte_list_free(&text);
    if (written) mt_grader_free(&grader);
    return status;
}

/* Its files are the folder's, whatever they are called: a text of a fuzzer is no path. */
static void use_one_task(struct mt_context *ctx, struct mt_task *task)
{
    static const char *const the_file[] = {"d.jsonl", NULL};
    struct folder folder = {0};
    struct mt_task_data *data = NULL;
    demand(task->title != NULL && task->title[0] != '\0');
    if (task->members != NULL) {
        demand(task->members[0] != NULL && task->members[0][0] != '\0');
        return;
    }
    demand(task->data != NULL && task->data[0] != NULL && task->prompt != NULL && task->prompt[0] != '\0');
    demand(task->answer != NULL && task->answer[0] != '\0' && task->continuation[0] != '\0');
    demand(task->subtasks == NULL || (task->subtasks[0] != NULL && task->subtasks[0][0] != '\0'));
    demand(task->compare != MT_COMPARE_CODE || (task->program[0] != '\0' && task->tests[0] != '\0'));
    demand(task->max_tokens > 0 && task->metric_count > 0 && task->filter_count > 0 &&
           task->filters[0].extract_count > 0);
    task->data = the_file;
    if (task->few_shot_data != NULL) task->few_shot_data = the_file;
    if (task->few_shot_text != NULL) task->few_shot_text = "t.yaml";
    if (task->subtasks != NULL) task->subtask = task->subtasks[0];
    open_folder(&folder);
    enum mt_status status = mt_task_data_open(ctx, task, folder.path, &data);
    bool here = !mt_task_runs_programs(task) && task->compare != MT_COMPARE_COMMAND;
    if (status == MT_OK && here) status = ask(ctx, task, data);
    demand(status == MT_OK || ctx->message[0] != '\0');
    mt_task_data_close(data);
    close_folder(&folder);
}

/* Ends a use: the message of a refusal, and no byte left behind. */
static bool end_use(struct mt_context *ctx, struct mt_arena *arena, enum mt_status status, char *why,
                    size_t why_bytes)
{
    demand(status == MT_OK || ctx->message[0] != '\0');
    (void)snprintf(why, why_bytes, "%s", status == MT_OK ? "" : ctx->message);
    mt_arena_free(arena);
    demand(ctx->live_bytes == 0);
    return status == MT_OK;
}

bool use_task(const char *text, size_t bytes, char *why, size_t why_bytes)
{
    struct mt_context ctx;
    struct mt_arena arena;
    struct mt_task task;
    mt_context_init(&ctx, NULL);
    mt_arena_init(&arena, &ctx, ARENA_BYTES);
    enum mt_status status = mt_task_read(&ctx, "t.yaml", text, bytes, &arena, &task);
    if (status == MT_OK) use_one_task(&ctx, &task);
    return end_use(&ctx, &arena, status, why, why_bytes);
}

// ------------------------------------------------------------------ a recipe

static enum mt_status read_rows(struct mt_context *ctx, const struct mt_source *source)
{
    struct mt_source_row row;
    enum mt_status status = MT_OK;
    mt_source_row_init(ctx, &row);
    for (size_t f = 0; f < source->file_count; f++) {
        size_t count = source->files[f].data != NULL ? mt_task_data_count(source->files[f].data) : 0;
        for (size_t i = 0; i < count && (status == MT_OK || status == MT_ERR_FORMAT); i++) {
            (void)mt_source_key(source, f, i, 1);
            status = mt_source_read(source, f, i, &row);
        }
    }
    mt_source_row_free(&row);
    return status;
}

static void use_one_recipe(struct mt_context *ctx, struct mt_recipe *recipe, struct mt_arena *arena)
{
    static const char *const files[] = {"d.jsonl", NULL};
    struct folder folder = {0};
    struct mt_source source;
    demand(recipe->title != NULL && recipe->title[0] != '\0');
    for (size_t i = 0; i < recipe->source_count; i++) demand(recipe->sources[i].name[0] != '\0');
    if (recipe->sources != NULL) return;
    demand(recipe->data[0] != NULL && recipe->data[0][0] != '\0' && recipe->response[0] != '\0');
    if (recipe->task != NULL) recipe->task = "t";
    open_folder(&folder);
    // Files of the text's own names are not there: a name without a slash, that nobody has.
    bool named = strchr(recipe->data[0], '/') == NULL && strncmp(recipe->data[0], "d.jsonl", 7) != 0;
    enum mt_status status = MT_OK;
    if (named && recipe->data[0][0] != '.') {
        status = mt_source_open(ctx, recipe, folder.path, folder.path, true, arena, &source);
        mt_source_close(&source);
    }
    recipe->data = files;
    if (status == MT_OK) {
        status = mt_source_open(ctx, recipe, folder.path, folder.path, false, arena, &source);
        if (status == MT_OK) status = read_rows(ctx, &source);
        mt_source_close(&source);
    }
    demand(status == MT_OK || ctx->message[0] != '\0');
    close_folder(&folder);
}

bool use_recipe(const char *text, size_t bytes, char *why, size_t why_bytes)
{
    struct mt_context ctx;
    struct mt_arena arena;
    struct mt_recipe recipe;
    mt_context_init(&ctx, NULL);
    mt_arena_init(&arena, &ctx, ARENA_BYTES);
    enum mt_status status = mt_recipe_read(&ctx, "r.yaml", text, bytes, &arena, &recipe);
    if (status == MT_OK) use_one_recipe(&ctx, &recipe, &arena);
    return end_use(&ctx, &arena, status, why, why_bytes);
}

// ------------------------------------------------------------------ a comparison

/* Names make folders and columns: they are there, and no two are the same. */
static void use_one_compare(const struct mt_compare_settings *settings)
{
    demand(settings->out[0] != '\0' && settings->models > 0 && settings->methods > 0 && settings->seeds > 0);
    demand(settings->trained > 0 && settings->trained <= settings->domains);
    demand(mt_compare_reference(settings) < settings->methods);
    for (size_t i = 0; i < settings->models; i++) demand(settings->model[i].path[0] != '\0');
    for (size_t i = 0; i < settings->models; i++)
        demand(settings->models == 1 || settings->model[i].name[0] != '\0');
    for (size_t i = 0; i < settings->methods; i++) {
        demand(settings->method[i].name[0] != '\0' && settings->method[i].words.count > 0);
        for (size_t j = 0; j < i; j++)
            demand(strcmp(settings->method[i].name, settings->method[j].name) != 0);
    }
    for (size_t i = 0; i < settings->domains; i++) demand(settings->domain[i].name[0] != '\0');
    for (size_t i = 0; i < settings->entries; i++)
        demand(settings->entry[i].name[0] != '\0' && settings->entry[i].task[0] != '\0');
    for (size_t i = 0; i < settings->domains; i++) {
        for (size_t k = 0; k < settings->entries; k++)
            (void)mt_compare_asks(&settings->domain[i], &settings->entry[k]);
    }
}

bool use_compare(const char *text, size_t bytes, char *why, size_t why_bytes)
{
    struct mt_context ctx;
    struct mt_arena arena;
    struct mt_compare_settings *settings =
        malloc(sizeof *settings); // too large for a stack under a sanitizer
    demand(settings != NULL);
    mt_context_init(&ctx, NULL);
    mt_arena_init(&arena, &ctx, ARENA_BYTES);
    enum mt_status status = mt_compare_settings_read(&ctx, "c.yaml", text, bytes, NULL, 0, &arena, settings);
    if (status == MT_OK) use_one_compare(settings);
    free(settings);
    return end_use(&ctx, &arena, status, why, why_bytes);
}
