/*
 * HumanEval and MBPP: reading rows, trimming answers, putting programs together; then the benchmarks' own
 * solutions, which pass, and broken ones made from them, which fail: some twenty tasks, or all of them with
 * METIER_CODE_TASKS=all (scripts/code-tasks). Needs METIER_SHARED_DATA and a sandbox for the latter.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "eval/code_tasks.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"

#define SAMPLE      10 // tasks of each benchmark, unless all
#define ARENA_BLOCK (1 << 16)

// ------------------------------------------------------------------ reading and putting together

static const char humaneval_row[] =
    "{\"task_id\": \"HumanEval/7\", \"prompt\": \"def f(x):\\n\", \"entry_point\": \"f\", "
    "\"canonical_solution\": \"    return x\\n\", \"test\": \"def check(g):\\n    assert g(1) == 1\\n\"}\n";
static const char mbpp_row[] =
    "{\"text\": \"Be f.\", \"code\": \"def f(x):\\n    return x\", \"task_id\": 11, \"test_setup_code\": "
    "\"one = 1\", \"test_list\": [\"assert f(one) == 1\", \"assert f(2) == 2\"], \"challenge_test_list\": "
    "[]}\n";
static const char sanitized_row[] =
    "{\"source_file\": \"x\", \"task_id\": 12, \"prompt\": \"Be f.\", \"code\": \"def f(x):\\n    return "
    "x\", "
    "\"test_imports\": [\"import math\"], \"test_list\": [\"assert f(1) == 1\"]}\n";

/* Reads the first row of a JSONL text. */
static enum mt_status read_row(struct mt_context *ctx, const char *text, enum mt_code_benchmark benchmark,
                               struct mt_arena *arena, struct mt_code_task *task)
{
    const struct mt_dataset_options options = {.format = MT_DATASET_JSONL};
    struct mt_dataset *dataset = NULL;
    struct mt_row row;
    mt_row_init(ctx, &row);
    enum mt_status status = mt_dataset_open_memory(ctx, "rows.jsonl", text, strlen(text), &options, &dataset);
    if (status == MT_OK) status = mt_dataset_read(dataset, 0, &row);
    if (status == MT_OK) status = mt_code_task_read(&row, benchmark, arena, task);
    mt_row_free(&row);
    mt_dataset_close(dataset);
    return status;
}

static void expect_program(const char *text, enum mt_code_benchmark benchmark, const char *answer,
                           const char *expected)
{
    struct mt_context ctx;
    struct mt_arena arena;
    struct mt_code_task task;
    mt_context_init(&ctx, NULL);
    mt_arena_init(&arena, &ctx, ARENA_BLOCK);
    struct mt_byte_list program = {.ctx = &ctx};
    assert_int_equal(read_row(&ctx, text, benchmark, &arena, &task), MT_OK);
    assert_int_equal(mt_code_program(&task, answer, strlen(answer), &program), MT_OK);
    assert_int_equal(mt_byte_list_append(&program, "", 1), MT_OK);
    assert_string_equal((const char *)program.data, expected);
    mt_byte_list_free(&program);
    mt_arena_free(&arena);
    assert_int_equal(ctx.live_bytes, 0);
}

static void test_programs(void **state)
{
    (void)state;
    expect_program(humaneval_row, MT_CODE_HUMANEVAL, "    return 1",
                   "def f(x):\n    return 1\ndef check(g):\n    assert g(1) == 1\n\ncheck(f)");
    expect_program(mbpp_row, MT_CODE_MBPP, "f = abs",
                   "f = abs\none = 1\nassert f(one) == 1\nassert f(2) == 2\n");
    expect_program(sanitized_row, MT_CODE_MBPP, "f = abs", "f = abs\nimport math\n\nassert f(1) == 1\n");
}

static size_t trimmed(enum mt_code_benchmark benchmark, const char *answer)
{
    return mt_code_trim(benchmark, answer, strlen(answer));
}

static void test_trimming(void **state)
{
    (void)state;
    assert_int_equal(trimmed(MT_CODE_HUMANEVAL, "    return 1\n"), 13);
    assert_int_equal(trimmed(MT_CODE_HUMANEVAL, "    return 1\n\ndef g():\n"), 13);
    assert_int_equal(trimmed(MT_CODE_HUMANEVAL, "    return 1\nprint(f(1))\nclass A:\n"), 12);
    assert_int_equal(trimmed(MT_CODE_HUMANEVAL, "    # no end\n    if x:\n        def g(): 1\n"), 42);
    assert_int_equal(trimmed(MT_CODE_HUMANEVAL, "\nif"), 0);
    assert_int_equal(trimmed(MT_CODE_HUMANEVAL, "\ni"), 2);
    assert_int_equal(trimmed(MT_CODE_HUMANEVAL, ""), 0);
    assert_int_equal(trimmed(MT_CODE_MBPP, "def f():\n    pass\ndef g(): pass\n[DONE]\nmore"), 32);
    assert_int_equal(trimmed(MT_CODE_MBPP, "[DONE"), 5);
}

static void expect_refusal(const char *text, enum mt_code_benchmark benchmark, const char *words)
{
    struct mt_context ctx;
    struct mt_arena arena;
    struct mt_code_task task;
    mt_context_init(&ctx, NULL);
    mt_arena_init(&arena, &ctx, ARENA_BLOCK);
    assert_int_equal(read_row(&ctx, text, benchmark, &arena, &task), MT_ERR_FORMAT);
    if (strstr(ctx.message, words) == NULL) print_error("'%s' lacks '%s'\n", ctx.message, words);
    assert_non_null(strstr(ctx.message, words));
    mt_arena_free(&arena);
    assert_int_equal(ctx.live_bytes, 0);
}

static void test_bad_rows(void **state)
{
    (void)state;
    expect_refusal("{\"prompt\": \"\"}\n", MT_CODE_HUMANEVAL, "rows.jsonl:1: there is no 'task_id'");
    expect_refusal(mbpp_row, MT_CODE_HUMANEVAL, "there is no 'prompt'");
    expect_refusal(humaneval_row, MT_CODE_MBPP, "there is no 'code'");
    expect_refusal("{\"task_id\": 1, \"prompt\": [1], \"code\": \"\"}\n", MT_CODE_MBPP,
                   "'prompt' is not a text");
    expect_refusal("{\"task_id\": 1, \"text\": \"\", \"code\": \"\", \"test_list\": []}\n", MT_CODE_MBPP,
                   "'test_list' is empty");
    expect_refusal("{\"task_id\": 1, \"text\": \"\", \"code\": \"\", \"test_list\": \"x\"}\n", MT_CODE_MBPP,
                   "'test_list' is not a list");
    expect_refusal("{\"task_id\": 1, \"text\": \"\", \"code\": \"\", \"test_list\": [1]}\n", MT_CODE_MBPP,
                   "'test_list' holds something");
    expect_refusal("{\"task_id\": 1, \"prompt\": \"\", \"canonical_solution\": \"\", \"test\": \"\", "
                   "\"entry_point\": \"f); import os; (\"}\n",
                   MT_CODE_HUMANEVAL, "not the name of a function");
}

static enum mt_status read_and_build(struct mt_context *ctx, const void *self)
{
    struct mt_arena arena;
    struct mt_code_task task;
    struct mt_byte_list program = {.ctx = ctx};
    mt_arena_init(&arena, ctx, 64); // small blocks: many of them
    enum mt_status status = read_row(ctx, self, MT_CODE_MBPP, &arena, &task);
    if (status == MT_OK) status = mt_code_program(&task, task.reference, strlen(task.reference), &program);
    mt_byte_list_free(&program);
    mt_arena_free(&arena);
    return status;
}

static void test_every_allocation_failing(void **state)
{
    (void)state;
    assert_every_allocation_may_fail(read_and_build, mbpp_row, 6);
}

// ------------------------------------------------------------------ the benchmarks

/* What is done to a solution before it is run. */
enum variant {
    AS_IT_IS,
    RETURNS_NONE,
    RAISES,
    OFF_BY_ONE, // what the function gives, changed a little
    VARIANTS
};

static const char *const variant_names[VARIANTS] = {"reference", "returns None", "raises", "off by one"};

// Wraps a function by name so that what it returns is another value of the same type.
static const char off_by_one[] = "\ndef _changed(value):\n"
                                 "    if isinstance(value, bool): return not value\n"
                                 "    if isinstance(value, (int, float, complex)): return value + 1\n"
                                 "    if isinstance(value, str): return value + 'x'\n"
                                 "    if isinstance(value, tuple): return value + (1,)\n"
                                 "    if isinstance(value, list): return value + [1]\n"
                                 "    if isinstance(value, (set, frozenset)): return value | {'x'}\n"
                                 "    if isinstance(value, dict): return {**value, 'x': 1}\n"
                                 "    return 1 if value is None else None\n"
                                 "def _wrapped(f): return lambda *a, **k: _changed(f(*a, **k))\n";

struct benchmark {
    struct mt_context ctx;
    struct mt_arena arena;
    enum mt_code_benchmark kind;
    struct mt_code_task *tasks; // [count], in the arena, like all below
    size_t count;
    struct mt_code_answer *answers; // [count · VARIANTS]
    struct mt_code_verdict *verdicts;
    size_t answer_count;
    int wrong;
};

static void *arena_array(struct mt_arena *arena, size_t count, size_t size)
{
    void *memory = NULL;
    assert_int_equal(mt_arena_allocate(arena, count * size, &memory), MT_OK);
    return memory;
}

/* Every so-manyth task, or all. */
static void read_tasks(struct benchmark *benchmark, const char *path)
{
    const char *which = getenv("METIER_CODE_TASKS");
    struct mt_dataset *dataset = NULL;
    struct mt_row row;
    const struct mt_dataset_options options = {0};
    mt_row_init(&benchmark->ctx, &row);
    assert_int_equal(mt_dataset_open(&benchmark->ctx, path, &options, &dataset), MT_OK);
    uint64_t rows = mt_dataset_rows(dataset);
    uint64_t step = which != NULL && strcmp(which, "all") == 0 ? 1 : rows / SAMPLE;
    benchmark->tasks = arena_array(&benchmark->arena, rows, sizeof *benchmark->tasks);
    for (uint64_t i = 0; i < rows; i += step) {
        assert_int_equal(mt_dataset_read(dataset, i, &row), MT_OK);
        assert_int_equal(mt_code_task_read(&row, benchmark->kind, &benchmark->arena,
                                           &benchmark->tasks[benchmark->count++]),
                         MT_OK);
    }
    mt_row_free(&row);
    mt_dataset_close(dataset);
}

/* Appends the words before and after the name of every top-level function that the tests mention. */
static void for_each_tested(const struct mt_code_task *task, struct mt_byte_list *text,
                            const char *const words[3])
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    for (const char *at = task->reference; at != NULL; at = strchr(at, '\n')) {
        if (*at == '\n') at++;
        if (strncmp(at, "def ", 4) != 0) continue;
        char name[128];
        (void)snprintf(name, sizeof name, "%.*s", (int)strspn(at + 4, letters), at + 4);
        if (strstr(task->tests, name) == NULL) continue;
        (void)mt_byte_list_append_text(text, words[0]);
        (void)mt_byte_list_append_text(text, name);
        (void)mt_byte_list_append_text(text, words[1]);
        if (words[2] != NULL) (void)mt_byte_list_append_text(text, name);
        if (words[2] != NULL) (void)mt_byte_list_append_text(text, words[2]);
    }
}

static void make_answer(struct benchmark *benchmark, size_t task_index, enum variant variant)
{
    const struct mt_code_task *task = &benchmark->tasks[task_index];
    static const char *const body[VARIANTS] = {
        [RETURNS_NONE] = "    return None\n", [RAISES] = "    raise ValueError(1)\n"};
    static const char *const words[VARIANTS][3] = {
        [RETURNS_NONE] = {"def ", "(*a, **k): return None\n", NULL},
        [RAISES] = {"def ", "(*a, **k): raise ValueError(1)\n", NULL},
        [OFF_BY_ONE] = {"", " = _wrapped(", ")\n"},
    };
    struct mt_byte_list text = {.ctx = &benchmark->ctx};
    if (variant == AS_IT_IS || variant == OFF_BY_ONE) (void)mt_byte_list_append_text(&text, task->reference);
    if (variant == OFF_BY_ONE) (void)mt_byte_list_append_text(&text, off_by_one);
    if (benchmark->kind == MT_CODE_HUMANEVAL && body[variant] != NULL) {
        (void)mt_byte_list_append_text(&text, body[variant]);
    } else if (benchmark->kind == MT_CODE_HUMANEVAL && variant == OFF_BY_ONE) {
        char line[300];
        (void)snprintf(line, sizeof line, "%s = _wrapped(%s)\n", task->entry_point, task->entry_point);
        (void)mt_byte_list_append_text(&text, line);
    } else if (variant != AS_IT_IS) {
        for_each_tested(task, &text, words[variant]);
    }
    char *copy = NULL;
    assert_int_equal(mt_arena_copy_text(&benchmark->arena, (const char *)text.data, text.count, &copy),
                     MT_OK);
    benchmark->answers[benchmark->answer_count++] =
        (struct mt_code_answer){.task = task_index, .text = copy, .bytes = text.count};
    mt_byte_list_free(&text);
}

/* References pass; nothing else does. */
static enum mt_status judge(void *self, size_t answer, const struct mt_sandbox_result *result)
{
    struct benchmark *benchmark = self;
    enum variant variant = (enum variant)(answer % VARIANTS);
    bool passed = result->outcome == MT_SANDBOX_PASSED;
    if (passed == (variant == AS_IT_IS)) return MT_OK;
    benchmark->wrong++;
    print_error("%s, %s: %s after %.2f s\n%s\n", benchmark->tasks[benchmark->answers[answer].task].id,
                variant_names[variant], mt_sandbox_outcome_name(result->outcome), result->seconds,
                result->tail);
    return MT_OK;
}

static void run_benchmark(enum mt_code_benchmark kind, const char *name)
{
    struct benchmark benchmark = {.kind = kind};
    char path[1024];
    const char *data = getenv("METIER_SHARED_DATA");
    (void)snprintf(path, sizeof path, "%s/%s", data != NULL ? data : "", name);
    FILE *file = data != NULL ? fopen(path, "r") : NULL;
    if (file == NULL) {
        print_message("skipped: there is no %s in METIER_SHARED_DATA\n", name);
        skip();
    }
    (void)fclose(file);
    mt_context_init(&benchmark.ctx, NULL);
    mt_arena_init(&benchmark.arena, &benchmark.ctx, ARENA_BLOCK);
    read_tasks(&benchmark, path);
    size_t answers = benchmark.count * VARIANTS;
    benchmark.answers = arena_array(&benchmark.arena, answers, sizeof *benchmark.answers);
    benchmark.verdicts = arena_array(&benchmark.arena, answers, sizeof *benchmark.verdicts);
    for (size_t i = 0; i < benchmark.count; i++) {
        for (int variant = 0; variant < VARIANTS; variant++)
            make_answer(&benchmark, i, (enum variant)variant);
    }
    struct mt_sandbox_options options = mt_sandbox_defaults();
    options.seconds = 30; // a busy machine is no reason to fail a solution
    options.cpu_seconds = 20;
    const struct mt_code_listener listener = {.self = &benchmark, .heard = judge};
    double began = mt_clock_seconds();
    enum mt_status status = mt_code_run(&benchmark.ctx, &options, 0, benchmark.tasks, benchmark.answers,
                                        benchmark.answer_count, &listener, benchmark.verdicts);
    double seconds = mt_clock_seconds() - began;
    if (status == MT_ERR_UNSUPPORTED) print_message("skipped: %s\n", benchmark.ctx.message);
    double slowest = 0;
    size_t slow_task = 0;
    for (size_t i = 0; i < answers && status == MT_OK; i += VARIANTS) {
        assert_int_equal(benchmark.verdicts[i].outcome == MT_SANDBOX_PASSED,
                         benchmark.verdicts[i].exit_status == 0);
        if (benchmark.verdicts[i].seconds <= slowest) continue;
        slowest = benchmark.verdicts[i].seconds;
        slow_task = i / VARIANTS;
    }
    print_message(
        "%s: %zu tasks, %zu programs in %.1f s; %d other than expected; slowest reference %s, %.2f s\n", name,
        benchmark.count, answers, seconds, benchmark.wrong,
        benchmark.count > 0 ? benchmark.tasks[slow_task].id : "", slowest);
    mt_arena_free(&benchmark.arena);
    if (status == MT_ERR_UNSUPPORTED) skip();
    assert_int_equal(status, MT_OK);
    assert_int_equal(benchmark.wrong, 0);
}

static void test_humaneval(void **state)
{
    (void)state;
    run_benchmark(MT_CODE_HUMANEVAL, "humaneval/HumanEval.jsonl.gz");
}

static void test_mbpp(void **state)
{
    (void)state;
    run_benchmark(MT_CODE_MBPP, "mbpp/mbpp.jsonl");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_programs),  cmocka_unit_test(test_trimming),
        cmocka_unit_test(test_bad_rows),  cmocka_unit_test(test_every_allocation_failing),
        cmocka_unit_test(test_humaneval), cmocka_unit_test(test_mbpp),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
