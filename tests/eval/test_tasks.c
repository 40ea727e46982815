/*
 * Task files: all that come along are read; refusals name line and key; where the public data is there, every
 * row of every task becomes a sample, the right answer is judged right and a wrong one wrong.
 * Tests src/eval/tasks.
 */
#define _GNU_SOURCE // memmem
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "eval/answers/grade.h"
#include "support/cmocka_all.h"
#include "support/failing_allocator.h"

#define ARENA_BYTES 16384

static const char *tasks_folder(void)
{
    const char *folder = getenv("METIER_TASKS");
    assert_non_null(folder);
    return folder;
}

static void test_every_file(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_arena arena;
    int files = 0;
    mt_context_init(&ctx, NULL);
    mt_arena_init(&arena, &ctx, ARENA_BYTES);
    DIR *directory = opendir(tasks_folder());
    assert_non_null(directory);
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        char name[300];
        struct mt_task_list list = {0};
        size_t length = strlen(entry->d_name);
        if (length < 6 || strcmp(entry->d_name + length - 5, ".yaml") != 0) continue;
        (void)snprintf(name, sizeof name, "%.*s", (int)(length - 5), entry->d_name);
        enum mt_status status = mt_task_resolve(&ctx, tasks_folder(), name, &arena, &list);
        if (status != MT_OK) print_message("%s\n", ctx.message);
        assert_int_equal(status, MT_OK);
        assert_true(list.count > 0);
        for (size_t i = 0; i < list.count; i++) { // who writes must end somewhere
            bool stops = list.tasks[i].kind != MT_TASK_GENERATE || list.tasks[i].stop[0] != NULL;
            if (!stops) print_message("%s has no stop texts\n", name);
            assert_true(stops);
        }
        files++;
    }
    (void)closedir(directory);
    assert_true(files >= 30);
    mt_arena_free(&arena);
    assert_int_equal(ctx.live_bytes, 0);
}

static void test_resolve(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_arena arena;
    mt_context_init(&ctx, NULL);
    mt_arena_init(&arena, &ctx, ARENA_BYTES);
    struct mt_task_list list = {0};
    assert_int_equal(mt_task_resolve(&ctx, tasks_folder(), "mmlu", &arena, &list), MT_OK);
    assert_int_equal(list.count, 57);
    assert_int_equal(mt_task_resolve(&ctx, tasks_folder(), "mmlu_anatomy", &arena, &list), MT_OK);
    assert_int_equal(list.count, 57); // there already
    assert_int_equal(mt_task_resolve(&ctx, tasks_folder(), "bbh", &arena, &list), MT_OK);
    assert_int_equal(list.count, 57 + 27);
    // A task of a family in a group, by the group's name.
    assert_int_equal(mt_task_resolve(&ctx, tasks_folder(), "bbh_chat", &arena, &list), MT_OK);
    assert_int_equal(list.count, 57 + 27 + 27);
    assert_int_equal(mt_task_resolve(&ctx, tasks_folder(), "bbh_chat_boolean_expressions", &arena, &list),
                     MT_OK);
    assert_int_equal(list.count, 57 + 27 + 27); // there already
    struct mt_task_list one = {0};
    assert_int_equal(mt_task_resolve(&ctx, tasks_folder(), "bbh_word_sorting", &arena, &one), MT_OK);
    assert_int_equal(one.count, 1);
    assert_string_equal(one.tasks[0].subtask, "word_sorting");
    assert_int_equal(mt_task_resolve(&ctx, tasks_folder(), "mmlu_pro", &arena, &one), MT_OK);
    assert_int_equal(one.count, 1 + 14);
    assert_int_equal(mt_task_resolve(&ctx, tasks_folder(), "bbh_nothing", &arena, &one), MT_ERR_USAGE);
    assert_int_equal(mt_task_resolve(&ctx, tasks_folder(), "gsm9k", &arena, &list), MT_ERR_USAGE);
    assert_non_null(strstr(ctx.message, "did you mean 'gsm8k'"));
    mt_arena_free(&arena);
}

#define TASK "title: x\ndomain: math\ndata: d\nprompt: p\nanswer: a\n"

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"title: x\ndomain: math\npromt: y\n", "t:3: there is no key 'promt'; did you mean 'prompt'?"},
        {"title: x\ndomain: maths\n", "t:2: domain is maths, expected language|reasoning|"},
        {"title: x\ndomain: math\ndata: d\nprompt: '{a'\n", "t:4: prompt: a brace that does not close"},
        {"title: x\ndomain: math\ndata: d\nprompt: '{a|nope}'\n", "an unknown filter"},
        {"title: x\ndomain: math\ndata: d\nprompt: p\n", "the key 'answer' is missing"},
        {"title: x\ndomain: math\ndata: d\nprompt: p\nanswer: a\nkind: choose\n",
         "the key 'choices' is missing"},
        {"title: x\ndomain: math\nmembers: [a]\ndata: d\n", "t:4: a group has no key 'data'"},
        {"title: x\ndomain: math\nextract:\n  - regex: '('\n", "t:4: the pattern"},
        {"title: x\ndomain: math\nextract: [guess]\n", "unknown way to extract 'guess'"},
        {"title: x\ndomain: math\nmetrics: [bleu]\n", "unknown metric 'bleu'"},
        {"title: x\ndomain: math\nmax_tokens: -1\n", "t:3: max_tokens is -1, expected WHOLE NUMBER"},
        {"title: x\ndomain: math\ndata: d\nprompt: p\nanswer: a\nrows: id 5\n", "'FIELD LOW-HIGH'"},
        {"title: x\ndomain: math\ndata: d\nprompt: p\nanswer: a\nrows: day from 2024\n",
         "'FIELD from TEXT to "
         "TEXT'"},
        {"title: x\ndomain: code\ndata: d\nprompt: p\nanswer: a\ncompare: livecodebench\nnormalize: [trim]\n",
         "normalize means nothing with compare: code, livecodebench or command"},
        {TASK "fields: a\n", "t:6: fields is not of the form 'name=name in the file,...'"},
        {TASK "continuation: c\n", "t:6: continuation means nothing without kind: choose"},
        {TASK "program: p\n", "t:6: program means nothing without compare: code"},
        {TASK "pass_k: 1\n", "t:6: pass_k means nothing without the metric pass"},
        {TASK "few_shot_pick: first\n", "t:6: few_shot_pick means nothing without few_shot_data"},
        {TASK "few_shot_example: e\n", "t:6: there is no key 'few_shot_example'"},
        {TASK "separator: x\n", "t:6: separator means nothing without examples"},
        {TASK "filters: []\n", "t:6: filters is empty, expected MAP"},
        {TASK "filters: {a: 1}\n", "t:6: expected a map with the key extract"},
        {TASK "filters: {a: {}}\n", "t:6: the key 'extract' is missing"},
        {TASK "filters: {'a,b': {extract: [whole]}}\n", "a filter's name is a word without commas"},
        {TASK "filters: {a: {extract: [whole], normalise: [trim]}}\n", "did you mean 'normalize'?"},
        {TASK "extract: [whole]\nfilters: {a: {extract: [whole]}}\n", "filters"},
        {TASK "metrics: [f1]\nfilters: {a: {extract: [whole]}, b: {extract: [whole]}}\n",
         "filters are for the metrics acc, exact_match and score"},
        {TASK "choice_list: c\nshuffle: harness\n", "shuffle: harness needs choices or choice_fields"},
        {"title: x\ndomain: math\ndata: d\nprompt: '{a|replace:x=yy}'\n", "an unknown filter"},
        {TASK "version: '2'\nseed: 3\n", "t:7: seed means nothing"},
        {TASK "seed: 3\n", "t:6: seed means nothing where neither"},
        {TASK "format: jsonl\ncolumns: a,b\n", "t:7: columns means nothing"},
        {"title: x\ntitle: y\n", "title"},
    };
    struct mt_context ctx;
    struct mt_arena arena;
    mt_context_init(&ctx, NULL);
    mt_arena_init(&arena, &ctx, ARENA_BYTES);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct mt_task task;
        enum mt_status status = mt_task_read(&ctx, "t", rows[i].text, strlen(rows[i].text), &arena, &task);
        assert_int_not_equal(status, MT_OK);
        if (strstr(ctx.message, rows[i].message) == NULL) print_message("%s\n", ctx.message);
        assert_non_null(strstr(ctx.message, rows[i].message));
    }
    mt_arena_free(&arena);
    assert_int_equal(ctx.live_bytes, 0);
}

/* A description stands before the examples, which are the first rows. */
static void test_description_and_first_examples(void **state)
{
    (void)state;
    static const char text[] =
        "title: x\ndomain: math\ndata: gsm8k/test.jsonl\nanswer: '{answer|after:####|trim}'\n"
        "description: \"Sums.\\n\\n\"\nprompt: 'Q: {question}'\nfew_shot: 2\n"
        "few_shot_data: gsm8k/train.jsonl\nfew_shot_pick: first\n";
    static const char expected[] = "Sums.\n\nQ: A box has 3 rows of 5 eggs. How many eggs are there? 15\n\n"
                                   "Q: Lea is 7 and her brother is twice as old. How old is he? 14\n\n"
                                   "Q: Mira bakes 24 rolls";
    char folder[4096];
    struct mt_context ctx;
    struct mt_arena arena;
    struct mt_task task;
    struct mt_task_data *data = NULL;
    struct mt_task_sample sample;
    mt_context_init(&ctx, NULL);
    mt_arena_init(&arena, &ctx, ARENA_BYTES);
    mt_sample_init(&ctx, &sample);
    (void)snprintf(folder, sizeof folder, "%s/../samples", tasks_folder());
    assert_int_equal(mt_task_read(&ctx, "t", text, sizeof text - 1, &arena, &task), MT_OK);
    assert_int_equal(mt_task_data_open(&ctx, &task, folder, &data), MT_OK);
    assert_int_equal(mt_task_data_sample(data, 0, &sample), MT_OK);
    assert_true(sample.prompt.count > sizeof expected);
    assert_memory_equal(sample.prompt.data, expected, sizeof expected - 1);
    mt_task_data_close(data);
    mt_sample_free(&sample);
    mt_arena_free(&arena);
    assert_int_equal(ctx.live_bytes, 0);
}

/* The first prompt of a task with so many examples, from the samples that come along. */
static void check_prompt(const char *name, int64_t shots, const char *expected)
{
    char folder[4096];
    struct mt_context ctx;
    struct mt_arena arena;
    struct mt_task_list list = {0};
    struct mt_task_data *data = NULL;
    struct mt_task_sample sample;
    mt_context_init(&ctx, NULL);
    mt_arena_init(&arena, &ctx, ARENA_BYTES);
    mt_sample_init(&ctx, &sample);
    (void)snprintf(folder, sizeof folder, "%s/../samples", tasks_folder());
    assert_int_equal(mt_task_resolve(&ctx, tasks_folder(), name, &arena, &list), MT_OK);
    assert_int_equal(list.count, 1);
    list.tasks[0].few_shot = shots;
    enum mt_status status = mt_task_data_open(&ctx, &list.tasks[0], folder, &data);
    if (expected == NULL) {
        assert_int_equal(status, MT_ERR_USAGE);
    } else {
        assert_int_equal(status, MT_OK);
        assert_int_equal(mt_task_data_sample(data, 0, &sample), MT_OK);
        size_t length = strlen(expected);
        bool same = sample.prompt.count >= length && memcmp(sample.prompt.data, expected, length) == 0;
        if (!same) print_message("%.*s\n", (int)sample.prompt.count, (const char *)sample.prompt.data);
        assert_true(same);
    }
    mt_task_data_close(data);
    mt_sample_free(&sample);
    mt_arena_free(&arena);
    assert_int_equal(ctx.live_bytes, 0);
}

/* MMLU-Pro: examples of the question's own category, without choices that are none. BBH: those of its texts.
 */
static void test_examples_of_tasks(void **state)
{
    (void)state;
    check_prompt(
        "mmlu_pro_math", 2,
        "The following are multiple choice questions (with answers) about math. Think step by step and then "
        "finish your answer with \"the answer is (X)\" where X is the correct letter choice.\n"
        "Question:\nWhat is two times three?\nOptions:\nA. five\nB. six\n"
        "Answer: Let's think step by step. Two times three is six. The answer is (B).\n\n"
        "Question:\nWhat is four minus one?\nOptions:\nA. three\nB. four\n"
        "Answer: Let's think step by step. Four minus one is three. The answer is (A).\n\n"
        "Question:\nHow many sides");
    check_prompt("mmlu_pro_chat_computer_science", 1, "The following is a multiple choice question about");
    check_prompt("mmlu_pro_biology", 2, NULL);
    check_prompt("bbh_boolean_expressions", 1,
                 "Evaluate the result of a random Boolean expression.\n\n"
                 "Q: not True is\nA: Let's think step by step.\n"
                 "\"not\" turns True into False. So the answer is False.\n\n");
    check_prompt("bbh_boolean_expressions", 0, // what stands before the first example describes the task
                 "Evaluate the result of a random Boolean expression.\n\nQ: not ( False )");
    check_prompt("bbh_boolean_expressions", 4, NULL);
    check_prompt("bbh_snarks", 1, NULL); // no such text among the samples
    check_prompt("mbpp_sanitized_chat", 1,
                 "Write a function to add two numbers. Your code should satisfy these tests:\n");
}

// ------------------------------------------------------------------ the public data

struct expectation {
    const char *name; // of a file
    size_t tasks;     // of these, with data
    size_t samples;
};

/* What is expected of the partial copy; data that is not there is skipped by name. */
static const struct expectation expected[] = {
    {"gsm8k", 1, 1319},    {"math500", 1, 500},     {"numina", 1, 1000},        {"mmlu", 10, 0},
    {"mmlu_chat", 10, 0},  {"mmlu_pro", 14, 0},     {"mmlu_pro_chat", 14, 0},   {"bbh", 14, 0},
    {"bbh_chat", 14, 0},   {"glue", 7, 0},          {"glue_qqp_json", 1, 1000}, {"glue_mnli_json", 1, 0},
    {"livebench", 6, 572}, {"humaneval", 1, 164},   {"mbpp", 1, 500},           {"humaneval_chat", 1, 164},
    {"mbpp_chat", 1, 500}, {"gsm8k_chat", 1, 1319}, {"math500_chat", 1, 500},
};

static enum mt_status never(void *self, const struct mt_code_trial *trials, size_t count,
                            struct mt_code_verdict *verdicts)
{
    (void)self;
    (void)trials;
    (void)count;
    (void)verdicts;
    return MT_ERR_INTERNAL;
}

/* Judges an answer; a program, which is not run, is right when the tests are in it. */
static enum mt_status judge(const struct mt_grader *grader, const struct mt_task_sample *sample,
                            const struct mt_byte_list *text, struct mt_byte_list *extracted,
                            struct mt_outcome *outcome)
{
    if (!mt_grader_runs_programs(grader))
        return mt_grade(grader, sample, mt_text_in(text), extracted, outcome);
    struct mt_byte_list parts[MT_TRIAL_PARTS];
    for (int i = 0; i < MT_TRIAL_PARTS; i++) parts[i] = (struct mt_byte_list){.ctx = grader->ctx};
    struct mt_code_trial trial;
    int64_t unjudged = 0;
    enum mt_status status =
        mt_grade_program(grader, sample, mt_text_in(text), extracted, parts, &trial, &unjudged);
    struct mt_byte_list *tests = &parts[MT_TRIAL_TESTS];
    if (status == MT_OK) status = mt_byte_list_append(tests, "", 1);
    if (status == MT_OK) {
        bool there = trial.kind == MT_TRIAL_BY_CASES ? trial.part[MT_TRIAL_TESTS].bytes > 0
                                                     : strstr((const char *)tests->data, "assert") != NULL;
        const struct mt_code_verdict verdict = {.passed = there};
        // The answer's program holds no test.
        const struct mt_byte_list *program = &parts[MT_TRIAL_ANSWER];
        if (verdict.passed) assert_null(memmem(program->data, program->count, "assert candidate", 16));
        mt_grade_passed(&verdict, 1, outcome);
    }
    for (int i = 0; i < MT_TRIAL_PARTS; i++) mt_byte_list_free(&parts[i]);
    return status;
}

/* The words that published filters look for. */
static void write_published(const struct mt_task *task, const char **lead, const char **tail)
{
    static const struct {
        const char *family, *lead, *tail;
    } rows[] = {
        {"gsm8k", "#### ", ""},
        {"mmlu_pro", "The answer is (", ")."},
        {"bbh", "So the answer is ", "."},
        {"math500", "Final Answer: The final answer is $", "$. I hope it is correct."},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(task->family, rows[i].family) != 0) continue;
        *lead = rows[i].lead;
        *tail = rows[i].tail;
    }
}

/* What a model would have to write for the right answer, and for a wrong one. */
static void write_answer(const struct mt_task *task, const struct mt_task_sample *sample, bool right,
                         struct mt_byte_list *text)
{
    text->count = 0;
    const char *lead = task->compare == MT_COMPARE_MATH ? "So \\boxed{" : "";
    const char *tail = task->compare == MT_COMPARE_MATH ? "}" : "";
    if (task->form != NULL && task->kind == MT_TASK_GENERATE) write_published(task, &lead, &tail);
    assert_int_equal(mt_byte_list_append_text(text, lead), MT_OK);
    if (right) {
        assert_int_equal(mt_byte_list_append(text, sample->answer.data, sample->answer.count), MT_OK);
    } else if (sample->choice_count > 0 && task->choice_labels == NULL) {
        char letter = (char)('A' + (sample->gold + 1) % (int)sample->choice_count);
        assert_int_equal(mt_byte_list_append(text, &letter, 1), MT_OK);
    } else if (sample->choice_count > 0) {
        const struct mt_text *other = &sample->choices[(sample->gold + 1) % (int)sample->choice_count];
        assert_int_equal(mt_byte_list_append(text, other->text, other->bytes), MT_OK);
    } else if (task->compare == MT_COMPARE_INSTRUCTIONS) {
        assert_int_equal(mt_byte_list_append_text(text, " "), MT_OK); // almost any text follows some
    } else {
        assert_int_equal(
            mt_byte_list_append_text(text, task->compare == MT_COMPARE_MATH ? "-987654321.25" : "[nothing]"),
            MT_OK);
    }
    assert_int_equal(mt_byte_list_append_text(text, tail), MT_OK);
}

struct tally {
    size_t tasks, samples, wrong;
};

/* Where the data has a worked solution, it is judged as if a model had written it. */
static void check_solution(const struct mt_grader *grader, const struct mt_task_sample *sample,
                           struct tally *tally)
{
    bool gsm8k = strncmp(grader->task->name, "gsm8k", 5) == 0;
    if (!gsm8k && strcmp(grader->task->name, "math500_chat") != 0) return;
    const struct mt_row_field *field = mt_row_field(&sample->row, gsm8k ? "answer" : "solution");
    struct mt_byte_list extracted = {.ctx = grader->ctx};
    struct mt_outcome outcome;
    assert_non_null(field);
    assert_int_equal(
        mt_grade(grader, sample, (struct mt_text){field->text, field->bytes}, &extracted, &outcome), MT_OK);
    if (outcome.score != 1.0) {
        print_message("%s %s: the solution's answer '%.*s' is not '%.*s'\n", grader->task->name, sample->id,
                      (int)extracted.count, (const char *)extracted.data, (int)sample->answer.count,
                      (const char *)sample->answer.data);
        tally->wrong++;
    }
    mt_byte_list_free(&extracted);
}

static void check_sample(const struct mt_grader *grader, const struct mt_task_sample *sample,
                         struct tally *tally)
{
    const struct mt_task *task = grader->task;
    struct mt_byte_list text = {.ctx = grader->ctx};
    struct mt_byte_list extracted = {.ctx = grader->ctx};
    struct mt_outcome outcome;
    assert_true(sample->prompt.count > 10);
    write_answer(task, sample, true, &text);
    enum mt_status status = judge(grader, sample, &text, &extracted, &outcome);
    if (status != MT_OK) print_message("%s\n", grader->ctx->message);
    assert_int_equal(status, MT_OK);
    // Of instructions no right answer is known: that every row can be judged is what is seen here.
    // LiveBench's judge of its first puzzles takes one word, whatever the right answer is.
    bool one_word = task->compare == MT_COMPARE_LIVEBENCH && strstr(task->name, "zebra") != NULL &&
                    memchr(sample->answer.data, ',', sample->answer.count) == NULL;
    // A published stop text may be in a right answer: BBH's "Q" is in "(Q)", which nobody gets right there.
    bool stopped = task->form != NULL &&
                   mt_text_until(mt_text_in(&sample->answer), task->stop).bytes < sample->answer.count;
    bool right = outcome.score == 1.0 || task->compare == MT_COMPARE_INSTRUCTIONS || one_word || stopped;
    if (!right) {
        print_message("%s %s: right answer judged %g: '%.*s' extracted '%.*s'\n", task->name, sample->id,
                      outcome.score, (int)(text.count > 200 ? 200 : text.count), (const char *)text.data,
                      (int)(extracted.count > 200 ? 200 : extracted.count), (const char *)extracted.data);
    }
    tally->wrong += right ? 0 : 1;
    if (!mt_task_runs_programs(task)) {
        write_answer(task, sample, false, &text);
        assert_int_equal(judge(grader, sample, &text, &extracted, &outcome), MT_OK);
        if (outcome.score != 0.0) {
            print_message("%s %s: wrong answer judged %g\n", task->name, sample->id, outcome.score);
            tally->wrong++;
        }
    }
    check_solution(grader, sample, tally);
    tally->samples++;
    mt_byte_list_free(&text);
    mt_byte_list_free(&extracted);
}

static void check_task(struct mt_context *ctx, const struct mt_task *task, const char *folder,
                       struct tally *tally)
{
    struct mt_task_data *data = NULL;
    struct mt_grader grader;
    struct mt_task_sample sample;
    const struct mt_code_judge nobody = {.run = never};
    if (!mt_task_data_exists(task, folder)) return;
    enum mt_status status = mt_task_data_open(ctx, task, folder, &data);
    if (status == MT_OK) status = mt_grader_open(ctx, task, &nobody, &grader);
    if (status != MT_OK) print_message("%s\n", ctx->message);
    assert_int_equal(status, MT_OK);
    mt_sample_init(ctx, &sample);
    for (size_t i = 0; i < mt_task_data_count(data); i++) {
        status = mt_task_data_sample(data, i, &sample);
        if (status != MT_OK) {
            print_message("%s: %s\n", task->name, ctx->message);
            tally->wrong++;
            continue;
        }
        check_sample(&grader, &sample, tally);
    }
    tally->tasks++;
    mt_sample_free(&sample);
    mt_grader_free(&grader);
    mt_task_data_close(data);
}

static void test_public_data(void **state)
{
    (void)state;
    const char *folder = getenv("METIER_SHARED_DATA");
    struct stat info;
    char path[1024];
    (void)snprintf(path, sizeof path, "%s/gsm8k", folder != NULL ? folder : "");
    if (folder == NULL || stat(path, &info) != 0) {
        print_message("skipped: no public data at METIER_SHARED_DATA\n");
        skip();
    }
    struct mt_context ctx;
    struct mt_arena arena;
    size_t wrong = 0;
    mt_context_init(&ctx, NULL);
    mt_arena_init(&arena, &ctx, ARENA_BYTES);
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        struct mt_task_list list = {0};
        struct tally tally = {0};
        assert_int_equal(mt_task_resolve(&ctx, tasks_folder(), expected[i].name, &arena, &list), MT_OK);
        for (size_t k = 0; k < list.count; k++) check_task(&ctx, &list.tasks[k], folder, &tally);
        print_message("%-16s %2zu tasks %6zu samples %zu wrong\n", expected[i].name, tally.tasks,
                      tally.samples, tally.wrong);
        wrong += tally.wrong;
        assert_true(tally.tasks >= expected[i].tasks);
        if (expected[i].samples > 0) assert_int_equal(tally.samples, expected[i].samples);
    }
    mt_arena_free(&arena);
    assert_int_equal(wrong, 0);
    assert_int_equal(ctx.live_bytes, 0);
}

static void render(struct mt_context *ctx, const char *template, const struct mt_row *row, bool values,
                   const char *wanted)
{
    static const struct mt_text choices[] = {{"red", 3}, {"blue", 4}};
    const struct mt_prompt_names names = {
        .choices = choices, .choice_count = 2, .subtask = "sub", .choice = values ? -1 : 1};
    struct mt_byte_list out = {.ctx = ctx};
    enum mt_status status = values ? mt_prompt_values(template, row, &names, &out)
                                   : mt_prompt_render(template, row, &names, &out);
    if (status != MT_OK) print_message("%s\n", ctx->message);
    assert_int_equal(status, MT_OK);
    assert_true(mt_text_is(mt_text_in(&out), wanted));
    mt_byte_list_free(&out);
}

/* Filters for line ends; and what of a prompt is the row's own. */
static void test_values(void **state)
{
    (void)state;
    static const char text[] = "{\"a\": \"one\\\\ntwo\\\\\", \"b\": \"x\\r\\ny\\rz\"}\n";
    const struct mt_dataset_options options = {.format = MT_DATASET_JSONL};
    struct mt_context ctx;
    struct mt_dataset *dataset = NULL;
    struct mt_row row;
    mt_context_init(&ctx, NULL);
    mt_row_init(&ctx, &row);
    assert_int_equal(mt_dataset_open_memory(&ctx, "m", text, strlen(text), &options, &dataset), MT_OK);
    assert_int_equal(mt_dataset_read(dataset, 0, &row), MT_OK);
    render(&ctx, "<{a}>", &row, false, "<one\\ntwo\\>");
    render(&ctx, "<{a|unescape}>", &row, false, "<one\ntwo\\>");
    render(&ctx, "{b|unix}", &row, false, "x\ny\rz");
    render(&ctx, "{letter} {choice}", &row, false, "B blue");
    render(&ctx, "About {subtask}: {a|unescape|upper}\n{choices}\nPick {letters}. {{}}", &row, true,
           "ONE\nTWO\\" MT_PROMPT_BREAK "red" MT_PROMPT_BREAK "blue" MT_PROMPT_BREAK);
    mt_row_free(&row);
    mt_dataset_close(dataset);
    assert_int_equal(ctx.live_bytes, 0);
}

/* Rows that somebody picked are the samples, in that order, by the numbers they have in the file. */
static void test_picked(void **state)
{
    (void)state;
    static const uint64_t picked[] = {2, 0};
    static const char *const fewer[] = {"humaneval/HumanEval.jsonl", NULL};
    char folder[4096];
    struct mt_context ctx;
    struct mt_arena arena;
    struct mt_task_list list = {0};
    struct mt_task_data *data = NULL;
    struct mt_task_sample sample;
    mt_context_init(&ctx, NULL);
    mt_arena_init(&arena, &ctx, ARENA_BYTES);
    mt_sample_init(&ctx, &sample);
    (void)snprintf(folder, sizeof folder, "%s/../samples", tasks_folder());
    assert_int_equal(mt_task_resolve(&ctx, tasks_folder(), "gsm8k", &arena, &list), MT_OK);
    list.tasks[0].picked = picked;
    list.tasks[0].picked_count = 2;
    assert_int_equal(mt_task_data_open(&ctx, &list.tasks[0], folder, &data), MT_OK);
    assert_int_equal(mt_task_data_count(data), 2);
    assert_int_equal(mt_task_data_row(data, 0), 2);
    assert_int_equal(mt_task_data_sample(data, 0, &sample), MT_OK);
    assert_string_equal(sample.id, "2");
    assert_int_equal(mt_task_data_sample(data, 1, &sample), MT_OK);
    assert_string_equal(sample.id, "0");
    mt_task_data_close(data);
    list.tasks[0].data = fewer;
    assert_int_equal(mt_task_data_open(&ctx, &list.tasks[0], folder, &data), MT_ERR_FORMAT);
    assert_non_null(strstr(ctx.message, "has become shorter"));
    mt_sample_free(&sample);
    mt_arena_free(&arena);
    assert_int_equal(ctx.live_bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_file),
        cmocka_unit_test(test_resolve),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_description_and_first_examples),
        cmocka_unit_test(test_examples_of_tasks),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_picked),
        cmocka_unit_test(test_public_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
