/* Test questions: of the sources' own tasks, of all that recipes and the caller name. */
#include <stdio.h>
#include <string.h>

#include "base/amount.h"
#include "eval/tasks/task_data.h"
#include "recipe/making.h"

#define MOST_TESTS 1024

/* Adds a name once. */
static enum mt_status add_name(struct mt_making *making, const char *name)
{
    struct mt_recipe_report *report = making->report;
    for (size_t i = 0; i < report->test_count; i++) {
        if (strcmp(report->tests[i].task, name) == 0) return MT_OK;
    }
    if (report->test_count == MOST_TESTS)
        return mt_fail(making->ctx, MT_ERR_USAGE, "more than %d tasks to look for", MOST_TESTS);
    report->tests[report->test_count++] = (struct mt_recipe_test_report){.task = name};
    return MT_OK;
}

static enum mt_status add_names(struct mt_making *making, const char *const *names)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; names != NULL && names[i] != NULL && status == MT_OK; i++)
        status = add_name(making, names[i]);
    return status;
}

static enum mt_status collect(struct mt_making *making, const struct mt_recipe *recipe)
{
    enum mt_status status = recipe->task != NULL ? add_name(making, recipe->task) : MT_OK;
    if (status == MT_OK) status = add_names(making, recipe->against);
    for (size_t i = 0; i < recipe->source_count && status == MT_OK; i++)
        status = collect(making, recipe->sources[i].recipe);
    return status;
}

static enum mt_status add_questions(struct mt_making *making, size_t group, const struct mt_task *task,
                                    const struct mt_task_data *data)
{
    struct mt_task_sample sample;
    struct mt_byte_list question = {.ctx = making->ctx};
    enum mt_status status = MT_OK;
    size_t count = mt_task_data_count(data);
    mt_sample_init(making->ctx, &sample);
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        status = mt_task_data_sample(data, i, &sample);
        if (status != MT_OK) break;
        struct mt_prompt_names names = mt_sample_names(task, &sample);
        char id[sizeof sample.id + 256];
        (void)snprintf(id, sizeof id, "%.250s%s%s", task->subtask != NULL ? task->subtask : "",
                       task->subtask != NULL ? "/" : "", sample.id);
        question.count = 0;
        status = mt_prompt_values(task->prompt, &sample.row, &names, &question);
        if (status == MT_OK) status = mt_overlap_add(making->overlap, group, id, mt_text_in(&question));
    }
    making->report->tests[group].questions += (int64_t)count;
    mt_byte_list_free(&question);
    mt_sample_free(&sample);
    return status;
}

/* Rows that may hold a question nobody can look for. */
static enum mt_status refuse_dropped(struct mt_making *making, const struct mt_task_data *data)
{
    const struct mt_dropped_rows *dropped = mt_task_data_dropped(data, false);
    struct mt_byte_list why = {.ctx = making->ctx};
    if (dropped->count == dropped->unanswered) return MT_OK;
    enum mt_status status = mt_dropped_rows_describe(dropped, &why);
    if (status == MT_OK)
        status =
            mt_fail(making->ctx, MT_ERR_FORMAT, "%s: %s that no row may overlap with cannot be read: %.*s",
                    mt_task_data_path(data), mt_counted(dropped->count, "question", "questions").text,
                    (int)(why.count < 700 ? why.count : 700), (const char *)why.data);
    mt_byte_list_free(&why);
    return status;
}

/* Opens a test file, or notes that it is not there. */
static enum mt_status read_task(struct mt_making *making, size_t group, const struct mt_task *task,
                                struct mt_digest *digest)
{
    const struct mt_recipe_options *options = making->options;
    struct mt_recipe_test_report *test = &making->report->tests[group];
    struct mt_task_data *data = NULL;
    if (options->skip_missing && !mt_task_data_exists(task, options->data)) {
        test->missing++;
        return MT_OK;
    }
    enum mt_status status = mt_task_data_open(making->ctx, task, options->data, &data);
    if (status != MT_OK)
        return mt_fail_within(making->ctx, status,
                              "test questions that no row may overlap with (--skip-missing leaves them out)");
    status = refuse_dropped(making, data);
    if (status != MT_OK) {
        mt_task_data_close(data);
        return status;
    }
    struct mt_digest_text sum = mt_task_data_sum(data);
    mt_digest_add(digest, sum.digits, MT_DIGEST_DIGITS);
    test->files++;
    status = add_questions(making, group, task, data);
    mt_task_data_close(data);
    return status;
}

static enum mt_status read_group(struct mt_making *making, size_t group)
{
    struct mt_task_list list = {0};
    struct mt_digest *digest = NULL;
    enum mt_status status = mt_task_resolve(making->ctx, making->options->tasks,
                                            making->report->tests[group].task, making->arena, &list);
    if (status == MT_OK) status = mt_digest_create(making->ctx, &digest);
    for (size_t i = 0; i < list.count && status == MT_OK; i++) {
        list.tasks[i].few_shot = 0;
        status = read_task(making, group, &list.tasks[i], digest);
    }
    if (digest != NULL) making->test_sums[group] = mt_digest_finish(digest);
    mt_digest_free(digest);
    return status;
}

enum mt_status mt_making_read_tests(struct mt_making *making)
{
    struct mt_recipe_report *report = making->report;
    enum mt_status status = MT_OK;
    if (making->options->words == 0) return MT_OK;
    report->tests = mt_arena_array(making->arena, MOST_TESTS, sizeof *report->tests, &status);
    making->test_sums = mt_arena_array(making->arena, MOST_TESTS, sizeof *making->test_sums, &status);
    if (status == MT_OK) status = collect(making, making->recipe);
    if (status == MT_OK) status = add_names(making, making->options->against);
    if (status == MT_OK)
        status = mt_overlap_create(making->ctx, (size_t)making->options->words, &making->overlap);
    for (size_t i = 0; i < report->test_count && status == MT_OK; i++) status = read_group(making, i);
    return status;
}
