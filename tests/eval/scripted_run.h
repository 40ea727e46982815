/* An evaluation of the samples that come along, whose answers are looked up in the tasks' own data. */
#ifndef TESTS_EVAL_SCRIPTED_RUN_H
#define TESTS_EVAL_SCRIPTED_RUN_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eval/run/runner.h"
#include "eval/tasks/task_data.h"
#include "support/cmocka_all.h"
#include "support/workplace.h"

#define ARENA_BYTES 16384

/* Answers by looking the right one up in the task's own data. */
struct script {
    struct mt_context *ctx;
    const struct mt_task *tasks;
    size_t task_count;
    const char *data;
    bool right;
    size_t asked;
    size_t fail_at; // this question fails; 0: none
};

static const char *samples_folder(char *path, size_t bytes)
{
    const char *tasks = getenv("METIER_TASKS");
    assert_non_null(tasks);
    (void)snprintf(path, bytes, "%s/../samples", tasks);
    return path;
}

static const struct mt_task *task_named(const struct script *script, const char *name)
{
    for (size_t i = 0; i < script->task_count; i++) {
        if (strcmp(script->tasks[i].name, name) == 0) return &script->tasks[i];
    }
    return NULL;
}

static enum mt_status find_sample(struct script *script, const char *name, const char *id,
                                  struct mt_task_sample *sample)
{
    struct mt_task_data *data = NULL;
    enum mt_status status = mt_task_data_open(script->ctx, task_named(script, name), script->data, &data);
    size_t count = status == MT_OK ? mt_task_data_count(data) : 0;
    bool found = false;
    for (size_t i = 0; i < count && status == MT_OK && !found; i++) {
        status = mt_task_data_sample(data, i, sample);
        found = status == MT_OK && strcmp(sample->id, id) == 0;
    }
    mt_task_data_close(data);
    if (status == MT_OK && !found) return mt_fail(script->ctx, MT_ERR_INTERNAL, "no sample %s", id);
    return status;
}

static enum mt_status script_generate(void *self, const struct mt_question *questions, size_t count,
                                      const struct mt_answer_options *options,
                                      const struct mt_answer_listener *listener, struct mt_byte_list *answers)
{
    struct script *script = self;
    enum mt_status status = MT_OK;
    if (options->samples != 1 || options->max_tokens < 1)
        return mt_fail(script->ctx, MT_ERR_INTERNAL, "odd options");
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        struct mt_task_sample sample;
        script->asked++;
        if (script->asked == script->fail_at) return mt_fail(script->ctx, MT_ERR_IO, "the power is gone");
        mt_sample_init(script->ctx, &sample);
        status = find_sample(script, questions[i].task, questions[i].id, &sample);
        enum mt_task_compare compare = task_named(script, questions[i].task)->compare;
        bool math = compare == MT_COMPARE_MATH;
        bool bold = compare == MT_COMPARE_LIVEBENCH;
        if (status == MT_OK)
            status = mt_byte_list_append_text(&answers[i],
                                              math ? "So \\boxed{" : (bold ? "**" : "The answer is "));
        if (status == MT_OK && script->right)
            status = mt_byte_list_append(&answers[i], sample.answer.data, sample.answer.count);
        if (status == MT_OK && !script->right) status = mt_byte_list_append_text(&answers[i], "-4096.5");
        if (status == MT_OK) status = mt_byte_list_append_text(&answers[i], math ? "}" : (bold ? "**" : ""));
        mt_sample_free(&sample);
        if (status == MT_OK) status = listener->answered(listener->self, i);
    }
    return status;
}

static enum mt_status script_score(void *self, const struct mt_choice_question *questions, size_t count,
                                   const struct mt_answer_listener *listener)
{
    struct script *script = self;
    enum mt_status status = MT_OK;
    for (size_t q = 0; q < count && status == MT_OK; q++) {
        const struct mt_choice_question *question = &questions[q];
        struct mt_task_sample sample;
        script->asked++;
        mt_sample_init(script->ctx, &sample);
        status = find_sample(script, question->task, question->id, &sample);
        for (size_t i = 0; i < question->count; i++) {
            bool high = ((int)i == sample.gold) == script->right;
            question->scores[i] = (struct mt_choice_score){.log_likelihood = high ? -1.0 : -5.0};
        }
        mt_sample_free(&sample);
        if (status == MT_OK) status = listener->answered(listener->self, q);
    }
    return status;
}

struct setup {
    struct mt_context ctx;
    struct mt_arena arena;
    struct mt_task_list list;
    struct script script;
    struct mt_answerer answerer;
    struct mt_eval_options options;
    char data[1024];
};

static void set_up(struct setup *setup, const struct workplace *place, const char *const *names)
{
    *setup = (struct setup){0};
    mt_context_init(&setup->ctx, NULL);
    mt_arena_init(&setup->arena, &setup->ctx, ARENA_BYTES);
    (void)samples_folder(setup->data, sizeof setup->data);
    for (size_t i = 0; names[i] != NULL; i++) {
        enum mt_status status =
            mt_task_resolve(&setup->ctx, getenv("METIER_TASKS"), names[i], &setup->arena, &setup->list);
        assert_int_equal(status, MT_OK);
    }
    setup->script = (struct script){.ctx = &setup->ctx,
                                    .tasks = setup->list.tasks,
                                    .task_count = setup->list.count,
                                    .data = setup->data,
                                    .right = true};
    setup->answerer = (struct mt_answerer){.self = &setup->script,
                                           .name = "script",
                                           .batch = 2,
                                           .generate = script_generate,
                                           .score = script_score};
    setup->options = (struct mt_eval_options){.tasks = setup->list.tasks,
                                              .task_count = setup->list.count,
                                              .data = setup->data,
                                              .out = place->directory,
                                              .answerer = &setup->answerer,
                                              .skip_missing = true};
}

static void run_ok(struct setup *setup, struct mt_task_result *results)
{
    enum mt_status status = mt_eval_run(&setup->ctx, &setup->options, results);
    if (status != MT_OK) print_message("%s\n", setup->ctx.message);
    assert_int_equal(status, MT_OK);
}

static void tear_down(struct setup *setup, const struct workplace *place)
{
    mt_arena_free(&setup->arena);
    assert_int_equal(setup->ctx.live_bytes, 0);
    workplace_clear(place);
}

#endif
