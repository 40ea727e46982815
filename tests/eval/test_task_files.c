/*
 * The task files that come along, as promises: an example and the question differ by the answer alone; a task
 * whose prompt or judging changes gets another version; what is drawn is what Python draws; one answer, read
 * in several ways. Tests src/eval/tasks/task_read.c.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files/digest.h"
#include "base/files/file.h"
#include "eval/answers/grade.h"
#include "eval/tasks/python_random.h"
#include "formats/text/yaml.h"
#include "support/cmocka_all.h"

#define ARENA_BYTES 65536
#define MOST_FILES  256
#define MOST_TEXT   ((size_t)1 << 20)

struct bench {
    struct mt_context ctx;
    struct mt_arena arena;
    char samples[4096];
    const char *tasks; // folder
};

static void open_bench(struct bench *bench)
{
    bench->tasks = getenv("METIER_TASKS");
    assert_non_null(bench->tasks);
    mt_context_init(&bench->ctx, NULL);
    mt_arena_init(&bench->arena, &bench->ctx, ARENA_BYTES);
    (void)snprintf(bench->samples, sizeof bench->samples, "%s/../samples", bench->tasks);
}

static void close_bench(struct bench *bench)
{
    mt_arena_free(&bench->arena);
    assert_int_equal(bench->ctx.live_bytes, 0);
}

static void check(struct bench *bench, enum mt_status status)
{
    if (status != MT_OK) fail_msg("%s", bench->ctx.message);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Names of the task files, without ".yaml", in order. */
static size_t list_files(struct bench *bench, const char *names[MOST_FILES])
{
    size_t count = 0;
    DIR *directory = opendir(bench->tasks);
    assert_non_null(directory);
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        size_t length = strlen(entry->d_name);
        if (length < 6 || strcmp(entry->d_name + length - 5, ".yaml") != 0) continue;
        assert_true(count < MOST_FILES);
        check(bench, mt_arena_copy_text(&bench->arena, entry->d_name, length - 5, &names[count++]));
    }
    (void)closedir(directory);
    qsort(names, count, sizeof *names, by_name);
    assert_true(count >= 50);
    return count;
}

// ------------------------------------------------------------------ one form for examples and questions

/* The first sample's prompt of a copy of the task. */
static void first_prompt(struct bench *bench, const struct mt_task *task, struct mt_task_sample *sample)
{
    struct mt_task_data *data = NULL;
    check(bench, mt_task_data_open(&bench->ctx, task, bench->samples, &data));
    check(bench, mt_task_data_sample(data, 0, sample));
    mt_task_data_close(data);
}

static bool begins(const char *text, const char *end, const char *with)
{
    size_t length = strlen(with);
    return (size_t)(end - text) >= length && memcmp(text, with, length) == 0;
}

/* Question and example of one row: the row of the examples' file, asked. */
static void check_rows(struct bench *bench, const struct mt_task *task)
{
    struct mt_task asked = *task;
    struct mt_task_sample question;
    struct mt_task_sample shown;
    struct mt_byte_list answer = {.ctx = &bench->ctx};
    mt_sample_init(&bench->ctx, &question);
    mt_sample_init(&bench->ctx, &shown);
    asked.data = task->few_shot_data;
    asked.rows = task->few_shot_rows;
    asked.description = NULL;
    asked.few_shot_pick = MT_PICK_FIRST;
    asked.few_shot = 0;
    first_prompt(bench, &asked, &question);
    asked.few_shot = 1;
    first_prompt(bench, &asked, &shown);
    struct mt_prompt_names names = mt_sample_names(&asked, &question);
    const char *template = asked.few_shot_answer;
    names.choice = question.gold;
    // A question put for each choice shows the right one in an example.
    if (strstr(asked.prompt, "{choice") != NULL && strstr(asked.prompt, "{choices") == NULL)
        check(bench, mt_prompt_render(asked.prompt, &question.row, &names, &answer));
    else
        check(bench, mt_byte_list_append(&answer, question.prompt.data, question.prompt.count));
    size_t before = answer.count;
    if (template == NULL && asked.kind == MT_TASK_CHOOSE) {
        check(bench, mt_prompt_render(asked.continuation, &question.row, &names, &answer));
    } else {
        check(bench, mt_byte_list_append_text(&answer, asked.separator));
        if (template != NULL) check(bench, mt_prompt_render(template, &question.row, &names, &answer));
        if (template == NULL)
            check(bench, mt_byte_list_append(&answer, question.answer.data, question.answer.count));
    }
    assert_true(answer.count > before + 1);
    check(bench, mt_byte_list_append_text(&answer, "\n\n"));
    check(bench, mt_byte_list_append(&answer, question.prompt.data, question.prompt.count));
    bool same =
        answer.count == shown.prompt.count && memcmp(answer.data, shown.prompt.data, answer.count) == 0;
    if (!same)
        print_message("%s: %.*s\n", task->name, (int)shown.prompt.count, (const char *)shown.prompt.data);
    assert_true(same);
    mt_byte_list_free(&answer);
    mt_sample_free(&question);
    mt_sample_free(&shown);
}

/* Worked examples in a text: each is the prompt's words around a question, and an answer. */
static void check_text(struct bench *bench, const struct mt_task *task)
{
    struct mt_task asked = *task;
    struct mt_task_sample sample;
    char before[256];
    const char *field = strchr(task->prompt, '{');
    const char *behind = strchr(task->prompt, '}') + 1;
    (void)snprintf(before, sizeof before, "%.*s", (int)(field - task->prompt), task->prompt);
    mt_sample_init(&bench->ctx, &sample);
    asked.few_shot = 0;
    first_prompt(bench, &asked, &sample);
    size_t lead = sample.shared; // what describes the task
    asked.few_shot = 3;
    first_prompt(bench, &asked, &sample);
    check(bench, mt_byte_list_append(&sample.prompt, "", 1));
    const char *at = (const char *)sample.prompt.data + lead;
    const char *end = (const char *)sample.prompt.data + sample.prompt.count - 1;
    for (int i = 0; i < 3; i++) {
        assert_true(begins(at, end, before));
        at = strstr(at, behind);
        assert_non_null(at);
        at += strlen(behind);
        assert_true(begins(at, end, asked.separator) && at[0] != ' ' && at[0] != '\n');
        at = strstr(at, "\n\n");
        assert_non_null(at);
        at += 2;
    }
    assert_true(begins(at, end, before)); // the question
    assert_true(strlen(at) > strlen(behind) && strcmp(end - strlen(behind), behind) == 0);
    mt_sample_free(&sample);
}

static void test_one_form(void **state)
{
    (void)state;
    struct bench bench;
    const char *names[MOST_FILES] = {0};
    size_t checked = 0;
    open_bench(&bench);
    size_t count = list_files(&bench, names);
    for (size_t i = 0; i < count; i++) {
        struct mt_task_list list = {0};
        check(&bench, mt_task_resolve(&bench.ctx, bench.tasks, names[i], &bench.arena, &list));
        bool any = false;
        for (size_t k = 0; k < list.count; k++) {
            const struct mt_task *task = &list.tasks[k];
            bool examples = task->few_shot_data != NULL || task->few_shot_text != NULL;
            if (!examples || !mt_task_data_exists(task, bench.samples)) continue;
            // Of MMLU-Pro's fourteen categories some have no worked question among the samples.
            bool family = task->subtask != NULL && task->few_shot_rows != NULL;
            if (family && strcmp(task->subtask, "math") != 0) continue;
            if (task->few_shot_data != NULL) check_rows(&bench, task);
            if (task->few_shot_text != NULL) check_text(&bench, task);
            any = true;
        }
        checked += any ? 1 : 0;
    }
    assert_true(checked >= 11); // files
    close_bench(&bench);
}

// ------------------------------------------------------------------ versions

/* Keys that decide neither what is asked nor how an answer is judged: words for people, where rows come from.
 */
static bool is_aside(const char *key)
{
    static const char *const keys[] = {"title",   "domain", "version",       "comparable",
                                       "hub",     "data",   "format",        "id",
                                       "columns", "fields", "few_shot_data", "few_shot_text"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (strcmp(keys[i], key) == 0) return true;
    }
    return false;
}

static void add_node(struct mt_digest *digest, const struct mt_yaml_node *node)
{
    const char *key = node->key != NULL ? node->key : "";
    mt_digest_add(digest, key, strlen(key) + 1);
    mt_digest_add(digest, &node->count, sizeof node->count);
    if (node->kind == MT_YAML_SCALAR) mt_digest_add(digest, node->text, strlen(node->text) + 1);
    for (const struct mt_yaml_node *child = node->first; child != NULL; child = child->next)
        add_node(digest, child);
}

/* "VERSION HASH" of a task file, and of the examples that lie beside it. */
static void describe(struct bench *bench, const char *name, char *text, size_t bytes)
{
    char path[4352];
    struct mt_yaml_node *root = NULL;
    struct mt_digest *digest = NULL;
    const char *version = "1";
    (void)snprintf(path, sizeof path, "%s/%s.yaml", bench->tasks, name);
    check(bench, mt_yaml_read(&bench->ctx, path, &mt_yaml_file_limits, &bench->arena, &root));
    check(bench, mt_digest_create(&bench->ctx, &digest));
    for (const struct mt_yaml_node *node = root->first; node != NULL; node = node->next) {
        if (strcmp(node->key, "version") == 0) version = node->text;
        bool beside = strcmp(node->key, "few_shot_data") == 0 && node->kind == MT_YAML_SCALAR &&
                      strncmp(node->text, "./", 2) == 0;
        if (beside) {
            void *shots = NULL;
            size_t length = 0;
            (void)snprintf(path, sizeof path, "%s/%s", bench->tasks, node->text + 2);
            check(bench, mt_file_read_all(&bench->ctx, path, MOST_TEXT, &shots, &length));
            mt_digest_add(digest, shots, length);
            mt_release(&bench->ctx, shots, length);
        }
        if (!is_aside(node->key)) add_node(digest, node);
    }
    (void)snprintf(text, bytes, "%s %.16s", version, mt_digest_finish(digest).digits);
    mt_digest_free(digest);
}

/* The last line of a task in the table, whose versions must rise; false: it has none. */
static bool look_up(const char *table, const char *name, char *text, size_t bytes)
{
    size_t length = strlen(name);
    long latest = 0;
    for (const char *line = table; line != NULL && *line != '\0';) {
        const char *end = strchr(line, '\n');
        assert_non_null(end);
        if (strncmp(line, name, length) == 0 && line[length] == ' ') {
            long version = strtol(line + length + 1, NULL, 10);
            if (version <= latest)
                fail_msg("task_versions: %s has version %ld after %ld", name, version, latest);
            latest = version;
            (void)snprintf(text, bytes, "%.*s", (int)(end - line - (long)length - 1), line + length + 1);
        }
        line = end + 1;
    }
    return latest > 0;
}

/*
 * tests/eval/cases/task_versions has a line for every version a task had. Lines are only added: a prompt that
 * changes gives another hash, which needs another line, which needs another version.
 */
static void test_versions(void **state)
{
    (void)state;
    struct bench bench;
    const char *names[MOST_FILES] = {0};
    char path[4096];
    void *table = NULL;
    size_t bytes = 0;
    int wrong = 0;
    open_bench(&bench);
    (void)snprintf(path, sizeof path, "%s/task_versions", getenv("METIER_EVAL_CASES"));
    check(&bench, mt_file_read_all(&bench.ctx, path, MOST_TEXT, &table, &bytes));
    char *text = test_calloc(bytes + 1, 1);
    memcpy(text, table, bytes);
    mt_release(&bench.ctx, table, bytes);
    size_t count = list_files(&bench, names);
    for (size_t i = 0; i < count; i++) {
        char now[64];
        char noted[64] = "";
        describe(&bench, names[i], now, sizeof now);
        bool known = look_up(text, names[i], noted, sizeof noted);
        if (known && strcmp(now, noted) == 0) continue;
        wrong++;
        if (known && strtol(now, NULL, 10) <= strtol(noted, NULL, 10)) {
            print_message("%s asks or judges otherwise than its version %ld did: raise `version`\n", names[i],
                          strtol(noted, NULL, 10));
        } else {
            print_message("add to tests/eval/cases/task_versions: %s %s\n", names[i], now);
        }
    }
    test_free(text);
    assert_int_equal(wrong, 0);
    close_bench(&bench);
}

// ------------------------------------------------------------------ what Python draws

/* Expected numbers are CPython's: random.Random(SEED).sample(range(COUNT), WANTED). */
static void test_python_random(void **state)
{
    (void)state;
    static const struct {
        uint64_t seed;
        uint32_t count, wanted;
        uint32_t drawn[7];
    } rows[] = {{1234, 7473, 5, {6374, 3610, 957, 61, 742}}, {42, 20, 5, {3, 0, 8, 7, 16}}};
    struct mt_python_random random;
    uint32_t pool[128];
    uint32_t drawn[7];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        mt_python_random_seed(&random, rows[i].seed);
        mt_python_random_sample(&random, rows[i].count, rows[i].wanted, pool, drawn);
        assert_memory_equal(drawn, rows[i].drawn, rows[i].wanted * sizeof drawn[0]);
    }
    // The same stream, further on: a pool, a pool as large as a set, a set.
    static const uint32_t further[5][7] = {{4, 3, 17, 2, 13},
                                           {1, 0, 2, 6, 7},
                                           {64, 77, 3, 71, 25, 69, 53},
                                           {28, 57, 75, 35, 0, 20, 54},
                                           {43, 35, 19, 27, 13, 11, 48}};
    static const uint32_t counts[5] = {20, 20, 80, 85, 86};
    for (size_t i = 0; i < 5; i++) {
        uint32_t wanted = i < 2 ? 5 : 7;
        assert_int_equal(mt_python_random_pool(counts[i], wanted), i < 4 ? counts[i] : 0);
        mt_python_random_sample(&random, counts[i], wanted, pool, drawn);
        assert_memory_equal(drawn, further[i], wanted * sizeof drawn[0]);
    }
    mt_python_random_seed(&random, 123456789012345u); // of two words
    assert_int_equal(mt_python_random_below(&random, 1), 0);
    assert_int_equal(mt_python_random_below(&random, 4294967295u), 1255537387u);
}

// ------------------------------------------------------------------ filters

/* GSM8K's two filters on one answer; what lm-evaluation-harness says of these (lm_eval_parity.py has more).
 */
static void test_filters(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double strict, flexible;
    } rows[] = {
        {"6 bags.\n#### 18", 1, 1},
        {"She takes $18.", 0, 1},
        {"#### 18\nThat is 6 bags.", 1, 0},
        {"#### 17, no: #### 18", 0, 1},
        {"#### 18.", 1, 1},
        {"#### 18\nQuestion: and 5? #### 5", 1, 1},
        {"<think>#### 5</think>#### 18", 0, 1},
        {"Eighteen", 0, 0},
    };
    struct bench bench;
    struct mt_task_list list = {0};
    struct mt_task_data *data = NULL;
    struct mt_task_sample sample;
    struct mt_grader grader;
    open_bench(&bench);
    struct mt_byte_list found = {.ctx = &bench.ctx};
    mt_sample_init(&bench.ctx, &sample);
    check(&bench, mt_task_resolve(&bench.ctx, bench.tasks, "gsm8k", &bench.arena, &list));
    assert_int_equal(list.tasks[0].filter_count, 2);
    check(&bench, mt_task_data_open(&bench.ctx, &list.tasks[0], bench.samples, &data));
    check(&bench, mt_task_data_sample(data, 0, &sample));
    check(&bench, mt_grader_open(&bench.ctx, &list.tasks[0], NULL, &grader));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct mt_outcome strict;
        struct mt_outcome flexible;
        check(&bench, mt_grade_filter(&grader, 0, &sample, mt_text_of(rows[i].text), &found, &strict));
        check(&bench, mt_grade_filter(&grader, 1, &sample, mt_text_of(rows[i].text), &found, &flexible));
        if (strict.score != rows[i].strict || flexible.score != rows[i].flexible)
            print_message("%s: %g, %g\n", rows[i].text, strict.score, flexible.score);
        assert_true(strict.score == rows[i].strict && flexible.score == rows[i].flexible);
    }
    mt_grader_free(&grader);
    mt_task_data_close(data);
    mt_sample_free(&sample);
    mt_byte_list_free(&found);
    close_bench(&bench);
}

/* The likeliest choice and the likeliest for its length; characters count, not bytes. */
static void test_normalized(void **state)
{
    (void)state;
    struct mt_choice_score scores[] = {
        {.log_likelihood = -4}, {.log_likelihood = -5}, {.log_likelihood = -6}};
    const struct mt_text choices[] = {{" ab", 3}, {" abc", 4}, {" \xC3\xA9\xC3\xA9\xC3\xA9", 7}};
    const struct mt_choice_question question = {.continuations = choices, .scores = scores, .count = 3};
    const struct mt_task task = {.kind = MT_TASK_CHOOSE};
    struct mt_task_sample sample = {.gold = 1, .right = 2};
    struct mt_outcome outcome;
    assert_int_equal(mt_grade_likeliest(&task, &sample, &question, &outcome), 0);
    assert_true(outcome.score == 0.0 && outcome.normalized == 1.0); // -2, -1.67, -2
    sample.gold = 0;
    sample.right = 1;
    assert_int_equal(mt_grade_likeliest(&task, &sample, &question, &outcome), 0);
    assert_true(outcome.score == 1.0 && outcome.normalized == 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_form),      cmocka_unit_test(test_versions),
        cmocka_unit_test(test_python_random), cmocka_unit_test(test_filters),
        cmocka_unit_test(test_normalized),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
