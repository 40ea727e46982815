/*
 * Whole evaluations of the samples that come along, with scripted answers: right ones give 1, wrong ones 0; a
 * run cut off at any sample goes on without asking again; the summary reads back. Tests src/eval/run.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/file.h"
#include "base/files/folder_lock.h"
#include "eval/scripted_run.h"
#include "formats/text/json.h"
#include "support/every_allocation.h"

#define MOST_TASKS 128
static const char *const all_tasks[] = {"gsm8k_chat",
                                        "math500_chat",
                                        "numina",
                                        "numina_cot",
                                        "mmlu_chat",
                                        "mmlu_pro_chat",
                                        "gpqa_chat",
                                        "bbh_chat",
                                        "glue",
                                        "livebench_amps_hard",
                                        "livebench_olympiad",
                                        "livebench_spatial",
                                        "livebench_zebra_puzzle",
                                        NULL};

static void test_right_and_wrong(void **state)
{
    const struct workplace *place = *state;
    for (int turn = 0; turn < 2; turn++) {
        struct setup setup;
        struct mt_task_result results[MOST_TASKS];
        size_t judged = 0;
        set_up(&setup, place, all_tasks);
        assert_true(setup.list.count <= MOST_TASKS);
        setup.script.right = turn == 0;
        run_ok(&setup, results);
        for (size_t i = 0; i < setup.list.count; i++) {
            if (results[i].skipped) continue;
            judged++;
            bool correlation = results[i].task->metrics[0] == MT_METRIC_PEARSON;
            bool matthews = results[i].task->metrics[0] == MT_METRIC_MATTHEWS;
            double value = results[i].metrics[0].value;
            double expected = turn == 0 ? 1.0 : (matthews ? -1.0 : 0.0);
            if (correlation && turn == 1) {
                assert_true(isnan(value)); // the same number each time
                continue;
            }
            if (!(fabs(value - expected) < 1e-12)) print_message("%s: %g\n", results[i].task->name, value);
            assert_true(fabs(value - expected) < 1e-12);
        }
        assert_true(judged == 40);
        tear_down(&setup, place);
    }
}

/*
 * A run that dies at question N, then goes on: the same figures, nothing asked twice. Its last line is torn;
 * or, after a power failure, bytes never arrived, though the file is as long as if they had, and some that
 * follow did.
 */
static void test_resume(void **state)
{
    const struct workplace *place = *state;
    static const char *const names[] = {"gsm8k_chat", NULL};
    static const char torn[] = "{\"doc_id\": 2, \"id\": \"2\", \"prom";
    static const char zeros[] = "{\"doc_id\": 2,\0\0\0\0\0\0\n{\"doc_id\": 1, \"id\": \"1\"}\n";
    char path[512];
    for (size_t i = 2; i <= 9; i++) {
        size_t fail_at = i / 2;
        bool failure = i % 2 == 1; // of power
        struct setup setup;
        struct mt_task_result result;
        set_up(&setup, place, names);
        setup.answerer.batch = 1;
        setup.script.fail_at = fail_at;
        enum mt_status status = mt_eval_run(&setup.ctx, &setup.options, &result);
        assert_int_equal(status, fail_at <= 3 ? MT_ERR_IO : MT_OK);
        (void)workplace_path(place, "samples_gsm8k_chat.jsonl", path, sizeof path);
        FILE *file = fopen(path, "a");
        assert_non_null(file);
        size_t bytes = failure ? sizeof zeros - 1 : sizeof torn - 1;
        assert_int_equal(fwrite(failure ? zeros : torn, 1, bytes, file), bytes);
        assert_int_equal(fclose(file), 0);
        size_t asked = setup.script.asked - (fail_at <= 3 ? 1 : 0);
        setup.script.fail_at = 0;
        setup.script.asked = 0;
        run_ok(&setup, &result);
        assert_int_equal(setup.script.asked, 3 - asked);
        assert_int_equal(result.kept, asked);
        assert_int_equal(result.done, 3);
        assert_true(result.metrics[0].value == 1.0);
        tear_down(&setup, place);
    }
}

/* Another prompt is another question; a file of something else is refused. */
static void test_changed_prompt(void **state)
{
    const struct workplace *place = *state;
    static const char *const names[] = {"gsm8k_chat", NULL};
    struct setup setup;
    struct mt_task_result result;
    set_up(&setup, place, names);
    run_ok(&setup, &result);
    setup.script.asked = 0;
    setup.list.tasks[0].prompt = "{question} Answer:";
    run_ok(&setup, &result);
    assert_int_equal(setup.script.asked, 3);
    assert_int_equal(result.kept, 0);
    setup.list.tasks[0].few_shot = 2;
    setup.script.asked = 0;
    run_ok(&setup, &result);
    assert_int_equal(setup.script.asked, 3);
    assert_int_equal(workplace_write(place, "samples_gsm8k_chat.jsonl", "what\n", 5), 0);
    assert_int_equal(mt_eval_run(&setup.ctx, &setup.options, &result), MT_ERR_FORMAT);
    assert_non_null(strstr(setup.ctx.message, "samples_gsm8k_chat.jsonl:1"));
    tear_down(&setup, place);
}

/* A right answer that has become another: the sample is judged anew, its prompt being the same. */
static void test_changed_row(void **state)
{
    const struct workplace *place = *state;
    static const char *const names[] = {"gsm8k_chat", NULL};
    static const char *const file[] = {"rows.jsonl", NULL};
    static const char first[] = "{\"question\": \"One?\", \"answer\": \"#### 1\"}\n"
                                "{\"question\": \"Two?\", \"answer\": \"#### 2\"}\n";
    static const char second[] = "{\"question\": \"One?\", \"answer\": \"#### 1\"}\n"
                                 "{\"question\": \"Two?\", \"answer\": \"#### 3\"}\n";
    struct setup setup;
    struct mt_task_result result;
    set_up(&setup, place, names);
    setup.list.tasks[0].data = file;
    setup.options.data = place->directory;
    setup.script.data = place->directory;
    assert_int_equal(workplace_write(place, "rows.jsonl", first, sizeof first - 1), 0);
    run_ok(&setup, &result);
    assert_int_equal(setup.script.asked, 2);
    setup.script.asked = 0;
    setup.script.right = false;
    assert_int_equal(workplace_write(place, "rows.jsonl", second, sizeof second - 1), 0);
    run_ok(&setup, &result);
    assert_int_equal(setup.script.asked, 1);
    assert_int_equal(result.kept, 1);
    assert_true(result.metrics[0].value == 0.5);
    tear_down(&setup, place);
}

/* Answers that lose their folder on the way: the run ends, and writes nothing into the one that is there now.
 */
static enum mt_status steal_folder(void *self, const struct mt_question *questions, size_t count,
                                   const struct mt_answer_options *options,
                                   const struct mt_answer_listener *listener, struct mt_byte_list *answers)
{
    const struct setup *setup = self;
    char moved[512];
    (void)snprintf(moved, sizeof moved, "%s-moved", setup->options.out);
    assert_int_equal(rename(setup->options.out, moved), 0);
    assert_int_equal(mkdir(setup->options.out, 0700), 0);
    return script_generate((void *)&setup->script, questions, count, options, listener, answers);
}

static void test_lost_folder(void **state)
{
    const struct workplace *place = *state;
    static const char *const names[] = {"gsm8k_chat", NULL};
    struct setup setup;
    struct mt_task_result result;
    char out[256];
    int held = MT_FOLDER_UNLOCKED;
    set_up(&setup, place, names);
    setup.options.out = workplace_path(place, "out", out, sizeof out);
    assert_int_equal(mkdir(out, 0700), 0);
    assert_int_equal(mt_folder_lock(&setup.ctx, out, "evaluating", &held), MT_OK);
    setup.options.held = &held;
    setup.answerer.self = &setup;
    setup.answerer.generate = steal_folder;
    assert_int_equal(mt_eval_run(&setup.ctx, &setup.options, &result), MT_ERR_IO);
    assert_non_null(strstr(setup.ctx.message, "was moved, removed or replaced"));
    assert_int_equal(rmdir(out), 0); // it is empty
    // Nor does a next task begin there.
    assert_int_equal(mkdir(out, 0700), 0);
    assert_int_equal(mt_eval_run(&setup.ctx, &setup.options, &result), MT_ERR_IO);
    assert_int_equal(rmdir(out), 0);
    mt_folder_unlock(held);
    workplace_remove_folder(place, "out-moved");
    tear_down(&setup, place);
}

/* Samples go into the file of that name, and through no link elsewhere. */
static void test_links_are_not_followed(void **state)
{
    const struct workplace *place = *state;
    static const char *const names[] = {"gsm8k_chat", NULL};
    struct setup setup;
    struct mt_task_result result;
    struct stat info;
    char path[256];
    char target[256];
    set_up(&setup, place, names);
    assert_int_equal(workplace_write(place, "precious", "precious", 8), 0);
    (void)workplace_path(place, "precious", target, sizeof target);
    assert_int_equal(symlink(target, workplace_path(place, "samples_gsm8k_chat.jsonl", path, sizeof path)),
                     0);
    assert_int_equal(mt_eval_run(&setup.ctx, &setup.options, &result), MT_ERR_IO);
    assert_non_null(strstr(setup.ctx.message, "symbolic link"));
    assert_int_equal(stat(target, &info), 0);
    assert_int_equal(info.st_size, 8);
    tear_down(&setup, place);
}

static void test_summary(void **state)
{
    const struct workplace *place = *state;
    static const char *const names[] = {"gsm8k_chat", "glue", NULL};
    struct setup setup;
    struct mt_task_result results[16];
    char path[512];
    struct mt_json json = {0};
    struct mt_json_node node;
    struct mt_json_node task;
    double value = 0;
    int64_t count = 0;
    set_up(&setup, place, names);
    run_ok(&setup, results);
    (void)workplace_path(place, "results.json", path, sizeof path);
    assert_int_equal(mt_json_read(&setup.ctx, path, &mt_json_file_limits, &json), MT_OK);
    struct mt_json_node root = mt_json_root(&json);
    assert_int_equal(mt_json_get_object(&root, "results", &node), MT_OK);
    assert_int_equal(mt_json_count(&node), 10);
    assert_int_equal(mt_json_get_object(&node, "gsm8k_chat", &task), MT_OK);
    assert_int_equal(mt_json_get_real(&task, "exact_match,flexible", 0, 1, &value), MT_OK);
    assert_true(value == 1.0);
    assert_int_equal(mt_json_get_real(&task, "exact_match_stderr,flexible", 0, 1, &value), MT_OK);
    assert_int_equal(mt_json_get_object(&node, "glue_mrpc", &task), MT_OK);
    assert_int_equal(mt_json_get_real(&task, "f1,none", 0, 1, &value), MT_OK);
    assert_int_equal(mt_json_get_object(&root, "n-samples", &node), MT_OK);
    assert_int_equal(mt_json_get_object(&node, "gsm8k_chat", &task), MT_OK);
    assert_int_equal(mt_json_get_integer(&task, "effective", 0, 100, &count), MT_OK);
    assert_int_equal(count, 3);
    assert_int_equal(mt_json_get_object(&root, "groups", &node), MT_OK);
    assert_int_equal(mt_json_get_object(&node, "glue", &task), MT_OK);
    assert_int_equal(mt_json_get_real(&task, "mean,none", 0, 1, &value), MT_OK);
    assert_true(value == 1.0);
    assert_true(mt_json_has(&task, "mean_ci95,none"));
    struct mt_metric_result mean;
    assert_false(mt_eval_group(results, setup.list.count, 0, &mean)); // gsm8k_chat is no group
    assert_true(mt_eval_group(results, setup.list.count, 1, &mean));
    assert_false(mt_eval_group(results, setup.list.count, 2, &mean)); // not its first task
    struct mt_task member = *results[0].task;                         // of a group of shares
    member.asked = "group";
    for (size_t i = 1; i < 3; i++) {
        results[i].task = &member;
        results[i].done = 10;
        results[i].metrics[0] = (struct mt_metric_result){.value = 1.0, .samples = 10};
    }
    assert_true(mt_eval_group(results, 3, 1, &mean));
    assert_int_equal(mean.samples, 20);
    assert_true(mean.high == 1.0 && fabs(mean.low - 0.838875) < 1e-5); // Wilson's of 20 of 20
    for (size_t i = 1; i < 3; i++) {
        results[i].done = 1;
        results[i].metrics[0] = (struct mt_metric_result){.value = i == 1, .samples = 1};
    }
    assert_true(mt_eval_group(results, 3, 1, &mean)); // tasks of one sample: Wilson's of 1 of 2
    assert_true(fabs(mean.low - 0.094529) < 1e-5 && fabs(mean.high - 0.905471) < 1e-5);
    assert_int_equal(mt_json_get_object(&root, "versions", &node), MT_OK);
    assert_int_equal(mt_json_get_object(&root, "configs", &node), MT_OK);
    mt_json_free(&json);
    tear_down(&setup, place);
}

static enum mt_status hear_nothing(void *self, size_t index)
{
    (void)self;
    (void)index;
    return MT_OK;
}

/* Nothing but NaN for the first question; for the second a wrong choice that is infinite, and a cut prompt.
 */
static enum mt_status broken_score(void *self, const struct mt_choice_question *questions, size_t count,
                                   const struct mt_answer_listener *listener)
{
    const struct mt_answer_listener nobody = {.answered = hear_nothing};
    enum mt_status status = script_score(self, questions, count, &nobody);
    for (size_t q = 0; q < count && status == MT_OK; q++) {
        const struct mt_choice_question *question = &questions[q];
        for (size_t i = 0; i < question->count; i++) {
            bool right = question->scores[i].log_likelihood > -2;
            if (question->number == 0) question->scores[i].log_likelihood = NAN;
            if (question->number == 1 && !right) question->scores[i].log_likelihood = INFINITY;
            if (question->number == 1 && right) question->scores[i].prompt_cut = true;
        }
        status = listener->answered(listener->self, q);
    }
    return status;
}

/* What went wrong with scores is in the figures and the file, of samples that were done before, too. */
static void test_counts(void **state)
{
    const struct workplace *place = *state;
    static const char *const names[] = {"glue_sst2", "gsm8k_chat", NULL};
    static const char *const nowhere[] = {"nowhere.jsonl", NULL};
    struct setup setup;
    struct mt_task_result results[2];
    char path[512];
    set_up(&setup, place, names);
    setup.answerer.score = broken_score;
    setup.list.tasks[1].data = nowhere;
    setup.options.unmatched = 7;
    for (int turn = 0; turn < 3; turn++) {
        void *text = NULL;
        size_t bytes = 0;
        if (turn == 2) setup.list.tasks[0].version++; // judged again
        run_ok(&setup, results);
        assert_int_equal(results[0].kept, turn == 0 ? 0 : 2);
        assert_int_equal(results[0].not_finite, 3);
        assert_int_equal(results[0].unscored, 1);
        assert_int_equal(results[0].cut_prompts, 1);
        assert_true(results[0].metrics[0].value == 0.5);
        (void)workplace_path(place, "results.json", path, sizeof path);
        assert_int_equal(mt_file_read_all(&setup.ctx, path, 1 << 20, &text, &bytes), MT_OK);
        const struct mt_text json = {.text = text, .bytes = bytes};
        static const char counts[] = "\"cut_prompts,none\": 1, \"not_finite,none\": 3, \"unscored,none\": 1";
        assert_true(mt_text_find(json, 0, counts) < bytes);
        assert_true(mt_text_find(json, 0, "\"tasks_without_data\": 1, \"unmatched_answers\": 7") < bytes);
        mt_release(&setup.ctx, text, bytes);
    }
    tear_down(&setup, place);
}

static void test_shuffled_choices(void **state)
{
    const struct workplace *place = *state;
    static const char *const names[] = {"gpqa_chat", NULL};
    struct setup setup;
    set_up(&setup, place, names);
    int seen[4] = {0};
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct mt_task_data *data = NULL;
        struct mt_task_sample sample;
        setup.list.tasks[0].seed = seed;
        mt_sample_init(&setup.ctx, &sample);
        assert_int_equal(mt_task_data_open(&setup.ctx, &setup.list.tasks[0], setup.data, &data), MT_OK);
        assert_int_equal(mt_task_data_sample(data, 0, &sample), MT_OK);
        assert_int_equal(sample.choice_count, 4);
        assert_true(sample.choices[sample.gold].bytes == strlen("Carbon dioxide"));
        seen[sample.gold]++;
        mt_sample_free(&sample);
        mt_task_data_close(data);
    }
    for (int i = 0; i < 4; i++) assert_true(seen[i] > 0);
    tear_down(&setup, place);
}

/* Says stop after so many questions; the run keeps what was finished, and goes on later. */
static bool stop_after(void *self)
{
    const struct setup *setup = self;
    return setup->script.asked >= 2;
}

/* Asks between two answers, as an answerer should. */
static enum mt_status patient_generate(void *self, const struct mt_question *questions, size_t count,
                                       const struct mt_answer_options *options,
                                       const struct mt_answer_listener *listener,
                                       struct mt_byte_list *answers)
{
    struct script *script = self;
    enum mt_status status = MT_OK;
    if (options->samples != 1) return mt_fail(script->ctx, MT_ERR_INTERNAL, "odd options");
    for (size_t i = 0; i < count && status == MT_OK && listener->go_on(listener->self, (int64_t)i); i++) {
        script->asked++;
        assert_int_equal(questions[i].id[0] - '0', questions[i].number);
        // A byte no JSON reader likes, and one that is no UTF-8.
        status = mt_byte_list_append(&answers[i], "a\0b\xff", 4);
        if (status == MT_OK) status = listener->answered(listener->self, i);
    }
    return status;
}

static void test_stop(void **state)
{
    const struct workplace *place = *state;
    static const char *const names[] = {"gsm8k_chat", "math500_chat", NULL};
    struct setup setup;
    struct mt_task_result results[2];
    char path[512];
    set_up(&setup, place, names);
    setup.answerer.batch = 8;
    setup.answerer.generate = patient_generate;
    setup.options.stop = stop_after;
    setup.options.self = &setup;
    run_ok(&setup, results);
    assert_true(results[0].stopped && results[1].stopped);
    assert_int_equal(results[0].done, 2);
    assert_int_not_equal(access(workplace_path(place, "results.json", path, sizeof path), F_OK), 0);
    setup.options.stop = NULL;
    setup.script.asked = 0;
    setup.options.task_count = 1;
    run_ok(&setup, results);
    assert_int_equal(setup.script.asked, 1);
    assert_int_equal(results[0].kept, 2);
    assert_int_equal(results[0].done, 3);
    assert_false(results[0].stopped);
    assert_int_equal(access(workplace_path(place, "results.json", path, sizeof path), F_OK), 0);
    tear_down(&setup, place);
}

/* Answers of which some are programs, and a judge that finds every second one good. */
static enum mt_status several_generate(void *self, const struct mt_question *questions, size_t count,
                                       const struct mt_answer_options *options,
                                       const struct mt_answer_listener *listener,
                                       struct mt_byte_list *answers)
{
    (void)self;
    (void)questions;
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        for (int64_t k = 0; k < options->samples && status == MT_OK; k++) {
            size_t at = i * (size_t)options->samples + (size_t)k;
            status = mt_byte_list_append_text(&answers[at], "```python\npass\n```");
        }
        if (status == MT_OK) status = listener->answered(listener->self, i);
    }
    return status;
}

static enum mt_status judge_half(void *self, const struct mt_code_trial *trials, size_t count,
                                 struct mt_code_verdict *verdicts)
{
    size_t *judged = self;
    for (size_t i = 0; i < count; i++) {
        for (int part = 0; part < MT_TRIAL_PARTS; part++) assert_true(trials[i].part[part].bytes > 0);
        verdicts[i] = (struct mt_code_verdict){.passed = i % 2 == 0};
        if (i % 2 == 1) (void)snprintf(verdicts[i].why, sizeof verdicts[i].why, "trial %zu", i);
    }
    *judged += count;
    return MT_OK;
}

static void test_several_programs(void **state)
{
    const struct workplace *place = *state;
    static const char *const names[] = {"humaneval_chat", NULL};
    struct setup setup;
    struct mt_task_result result;
    size_t judged = 0;
    char label[64];
    const struct mt_code_judge judge = {.self = &judged, .run = judge_half};
    set_up(&setup, place, names);
    setup.answerer.generate = several_generate;
    setup.options.judge = &judge;
    assert_true(mt_task_take_samples(&setup.list.tasks[0], 4, 2));
    run_ok(&setup, &result);
    assert_int_equal(judged, 4);
    assert_int_equal(result.task->metric_count, 2);
    assert_string_equal(mt_eval_metric_label(result.task, 0, label, sizeof label), "pass@1");
    assert_string_equal(mt_eval_metric_label(result.task, 1, label, sizeof label), "pass@2");
    assert_true(fabs(result.metrics[0].value - 0.5) < 1e-12);
    assert_true(fabs(result.metrics[1].value - (1.0 - 1.0 / 6.0)) < 1e-12);
    char path[512];
    void *lines = NULL;
    size_t bytes = 0;
    (void)workplace_path(place, "samples_humaneval_chat.jsonl", path, sizeof path);
    assert_int_equal(mt_file_read_all(&setup.ctx, path, 1 << 20, &lines, &bytes), MT_OK);
    const struct mt_text text = {.text = lines, .bytes = bytes};
    assert_true(mt_text_find(text, 0, "\"why\": [\"\", \"trial 1\", \"\", \"trial 3\"]") < bytes);
    mt_release(&setup.ctx, lines, bytes);
    // Another number of answers is another question.
    setup.list.tasks[0].samples = 2;
    run_ok(&setup, &result);
    assert_int_equal(judged, 6);
    assert_int_equal(result.kept, 0);
    run_ok(&setup, &result);
    assert_int_equal(judged, 6);
    tear_down(&setup, place);
}

/* An endpoint that answers the first question and is gone. */
static enum mt_status broken_generate(void *self, const struct mt_question *questions, size_t count,
                                      const struct mt_answer_options *options,
                                      const struct mt_answer_listener *listener, struct mt_byte_list *answers)
{
    struct script *script = self;
    script->asked += count;
    if (count < 2) return several_generate(self, questions, count, options, listener, answers);
    enum mt_status status = several_generate(self, questions, 1, options, listener, answers);
    return status == MT_OK ? mt_fail(script->ctx, MT_ERR_IO, "nobody is there") : status;
}

static enum mt_status judge_all(void *self, const struct mt_code_trial *trials, size_t count,
                                struct mt_code_verdict *verdicts)
{
    (void)trials;
    for (size_t i = 0; i < count; i++) verdicts[i].passed = true;
    *(size_t *)self += count;
    return MT_OK;
}

/* Programs that came before an endpoint was gone are judged, and not asked for again. */
static void test_broken_programs(void **state)
{
    const struct workplace *place = *state;
    static const char *const names[] = {"mbpp_chat", NULL};
    struct setup setup;
    struct mt_task_result result;
    size_t judged = 0;
    const struct mt_code_judge judge = {.self = &judged, .run = judge_all};
    set_up(&setup, place, names);
    setup.answerer.batch = 8;
    setup.answerer.generate = broken_generate;
    setup.list.tasks[0].rows = "task_id 4-11"; // also one that is for examples
    setup.options.judge = &judge;
    assert_int_equal(mt_eval_run(&setup.ctx, &setup.options, &result), MT_ERR_IO);
    assert_string_equal(setup.ctx.message, "nobody is there");
    assert_int_equal(judged, 1);
    setup.script.asked = 0;
    run_ok(&setup, &result);
    assert_int_equal(setup.script.asked, 1);
    assert_int_equal(result.kept, 1);
    assert_int_equal(result.done, 2);
    tear_down(&setup, place);
}

/* Answers to every question: its own text. */
static enum mt_status echo_generate(void *self, const struct mt_question *questions, size_t count,
                                    const struct mt_answer_options *options,
                                    const struct mt_answer_listener *listener, struct mt_byte_list *answers)
{
    struct script *script = self;
    enum mt_status status = MT_OK;
    (void)options;
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        script->asked++;
        status = mt_byte_list_append(&answers[i], questions[i].prompt.text, questions[i].prompt.bytes);
        if (status == MT_OK) status = listener->answered(listener->self, i);
    }
    return status;
}

/* A judge that is a program and dies: what has no verdict is in no figure, and is asked again. */
static void test_command(void **state)
{
    static const char task[] = "title: t\ndomain: math\ndata: rows.jsonl\nprompt: '{q}'\nanswer: '{a}'\n"
                               "compare: command\ncommand: [sh, judge.sh]\nmetrics: [score]\n";
    static const char rows[] =
        "{\"q\": \"one\", \"a\": \"1\"}\n{\"q\": \"two\", \"a\": \"2\"}\n{\"q\": \"three\", "
        "\"a\": \"3\"}\n";
    // The row, the right answer and what was said are there; half a point for "one", the rest is not heard.
    static const char dying[] =
        "read row || exit 0\ncase $row in *'\"a\": \"1\"'*'\"target\": \"1\"'*'\"answer\": "
        "\"one\"'*) echo '{\"score\": 0.5}' ;; esac\nkill -9 $$\n";
    static const char sound[] = "while read row; do echo '{\"score\": 1, \"reason\": \"fine\"}'; done\n";
    const struct workplace *place = *state;
    struct setup setup;
    struct mt_task_result result;
    char path[512];
    set_up(&setup, place, (const char *const[]){NULL});
    assert_int_equal(workplace_write(place, "t.yaml", task, sizeof task - 1), 0);
    assert_int_equal(workplace_write(place, "rows.jsonl", rows, sizeof rows - 1), 0);
    assert_int_equal(workplace_write(place, "judge.sh", dying, sizeof dying - 1), 0);
    (void)workplace_path(place, "t.yaml", path, sizeof path);
    assert_int_equal(mt_task_resolve(&setup.ctx, "", path, &setup.arena, &setup.list), MT_OK);
    setup.options.tasks = setup.list.tasks;
    setup.options.task_count = 1;
    setup.options.data = place->directory;
    setup.answerer.batch = 8;
    setup.answerer.generate = echo_generate;
    run_ok(&setup, &result);
    assert_int_equal(result.done, 3);
    assert_int_equal(result.unjudged, 2);
    assert_int_equal(result.metrics[0].samples, 1);
    assert_true(fabs(result.metrics[0].value - 0.5) < 1e-12);
    assert_int_equal(workplace_write(place, "judge.sh", sound, sizeof sound - 1), 0);
    run_ok(&setup, &result);
    assert_int_equal(setup.script.asked, 5);
    assert_int_equal(result.kept, 1);
    assert_int_equal(result.unjudged, 0);
    assert_int_equal(result.metrics[0].samples, 3);
    assert_true(fabs(result.metrics[0].value - 2.5 / 3.0) < 1e-12);
    run_ok(&setup, &result);
    assert_int_equal(setup.script.asked, 5);
    assert_int_equal(result.kept, 3);
    assert_true(fabs(result.metrics[0].value - 2.5 / 3.0) < 1e-12);
    tear_down(&setup, place);
}

/* Programs are not run without somebody to run them. */
static void test_programs(void **state)
{
    const struct workplace *place = *state;
    static const char *const names[] = {"humaneval_chat", NULL};
    struct setup setup;
    struct mt_task_result result;
    set_up(&setup, place, names);
    assert_int_equal(mt_eval_run(&setup.ctx, &setup.options, &result), MT_ERR_UNSUPPORTED);
    tear_down(&setup, place);
}

static enum mt_status run_small(struct mt_context *ctx, const void *self)
{
    const struct workplace *place = self;
    struct mt_arena arena;
    struct mt_task_list list = {0};
    struct mt_task_result results[2];
    char data[1024];
    char path[512];
    (void)samples_folder(data, sizeof data);
    (void)unlink(workplace_path(place, "samples_gsm8k_chat.jsonl", path, sizeof path));
    (void)unlink(workplace_path(place, "samples_glue_rte.jsonl", path, sizeof path));
    mt_arena_init(&arena, ctx, ARENA_BYTES);
    enum mt_status status = mt_task_resolve(ctx, getenv("METIER_TASKS"), "gsm8k_chat", &arena, &list);
    if (status == MT_OK) status = mt_task_resolve(ctx, getenv("METIER_TASKS"), "glue_rte", &arena, &list);
    struct script script = {
        .ctx = ctx, .tasks = list.tasks, .task_count = list.count, .data = data, .right = true};
    const struct mt_answerer answerer = {
        .self = &script, .name = "script", .batch = 2, .generate = script_generate, .score = script_score};
    const struct mt_eval_options options = {.tasks = list.tasks,
                                            .task_count = list.count,
                                            .data = data,
                                            .out = place->directory,
                                            .answerer = &answerer,
                                            .limit = 1};
    if (status == MT_OK) status = mt_eval_run(ctx, &options, results);
    mt_arena_free(&arena);
    return status;
}

static void test_memory(void **state)
{
    assert_every_allocation_may_fail(run_small, *state, 1);
    workplace_clear(*state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_right_and_wrong, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(test_resume, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(test_changed_prompt, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(test_changed_row, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(test_lost_folder, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(test_links_are_not_followed, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(test_summary, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(test_counts, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(test_shuffled_choices, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(test_programs, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(test_several_programs, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(test_broken_programs, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(test_command, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(test_stop, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(test_memory, workplace_open, workplace_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
