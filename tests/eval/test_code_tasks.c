/*
 * HumanEval and MBPP by their task files: the benchmarks' own solutions pass; broken ones made from them, and
 * answers that cheat, fail. Some twenty tasks and all cheats on a few, or all of everything with
 * METIER_CODE_TASKS=all (scripts/code-tasks). Needs METIER_SHARED_DATA and a sandbox.
 * Tests src/eval/code/code_judge.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eval/answers/grade.h"
#include "eval/code/code_judge.h"
#include "support/cmocka_all.h"
#include "support/hostile_programs.h"
#include "support/sandbox_bench.h"

#define SAMPLE       10 // tasks of each benchmark, unless all
#define CHEAT_SAMPLE 2  // tasks for every cheat, unless all
#define MOST_SPECIAL 4  // tasks that are always there
#define ARENA_BLOCK  (1 << 16)

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
    struct mt_arena arena; // what follows is in it
    struct mt_task_list list;
    struct mt_task_data *data;
    struct mt_grader grader;
    bool continues; // HumanEval: answers go on with the prompt
    size_t most;
    struct mt_code_trial *trials; // [most]
    const char **names;           // [most]: "HumanEval/3, raises"
    bool *expected;               // [most]: passes
    size_t count;
    int wrong;
};

static void *arena_array(struct mt_arena *arena, size_t count, size_t size)
{
    void *memory = NULL;
    assert_int_equal(mt_arena_allocate(arena, count * size, &memory), MT_OK);
    return memory;
}

static const char *arena_text(struct mt_arena *arena, const void *text, size_t bytes)
{
    const char *copy = NULL;
    assert_int_equal(mt_arena_copy_text(arena, text, bytes, &copy), MT_OK);
    return copy;
}

/* A field of the row that is a text, NUL-terminated. */
static const char *field(struct benchmark *benchmark, const struct mt_task_sample *sample, const char *name)
{
    const struct mt_row_field *found = mt_row_field(&sample->row, name);
    assert_non_null(found);
    return arena_text(&benchmark->arena, found->text, found->bytes);
}

// ------------------------------------------------------------------ answers

/* Appends the words before and after the name of every top-level function that the tests mention. */
static void for_each_tested(const char *reference, const char *tests, struct mt_byte_list *text,
                            const char *const words[3])
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    for (const char *at = reference; at != NULL; at = strchr(at, '\n')) {
        if (*at == '\n') at++;
        if (strncmp(at, "def ", 4) != 0) continue;
        char name[128];
        (void)snprintf(name, sizeof name, "%.*s", (int)strspn(at + 4, letters), at + 4);
        if (strstr(tests, name) == NULL) continue;
        (void)mt_byte_list_append_text(text, words[0]);
        (void)mt_byte_list_append_text(text, name);
        (void)mt_byte_list_append_text(text, words[1]);
        if (words[2] != NULL) (void)mt_byte_list_append_text(text, name);
        if (words[2] != NULL) (void)mt_byte_list_append_text(text, words[2]);
    }
}

static void write_variant(struct benchmark *benchmark, const struct mt_task_sample *sample,
                          enum variant variant, struct mt_byte_list *text)
{
    static const char *const body[VARIANTS] = {
        [RETURNS_NONE] = "    return None\n", [RAISES] = "    raise ValueError(1)\n"};
    static const char *const words[VARIANTS][3] = {
        [RETURNS_NONE] = {"def ", "(*a, **k): return None\n", NULL},
        [RAISES] = {"def ", "(*a, **k): raise ValueError(1)\n", NULL},
        [OFF_BY_ONE] = {"", " = _wrapped(", ")\n"},
    };
    const char *reference = field(benchmark, sample, benchmark->continues ? "canonical_solution" : "code");
    if (variant == AS_IT_IS || variant == OFF_BY_ONE) (void)mt_byte_list_append_text(text, reference);
    if (variant == OFF_BY_ONE) (void)mt_byte_list_append_text(text, off_by_one);
    if (benchmark->continues && body[variant] != NULL) {
        (void)mt_byte_list_append_text(text, body[variant]);
    } else if (benchmark->continues && variant == OFF_BY_ONE) {
        const char *entry = field(benchmark, sample, "entry_point");
        char line[300];
        (void)snprintf(line, sizeof line, "%s = _wrapped(%s)\n", entry, entry);
        (void)mt_byte_list_append_text(text, line);
    } else if (variant != AS_IT_IS) {
        struct mt_byte_list tests = {.ctx = &benchmark->ctx};
        struct mt_prompt_names names = mt_sample_names(benchmark->grader.task, sample);
        assert_int_equal(mt_prompt_render("{test_list|join}", &sample->row, &names, &tests), MT_OK);
        assert_int_equal(mt_byte_list_append(&tests, "", 1), MT_OK);
        for_each_tested(reference, (const char *)tests.data, text, words[variant]);
        mt_byte_list_free(&tests);
    }
}

/* The answer as a model would give it, taken apart as an evaluation does. */
static void add_trial(struct benchmark *benchmark, const struct mt_task_sample *sample, const char *what,
                      const struct mt_byte_list *program, bool expected)
{
    struct mt_byte_list answer = {.ctx = &benchmark->ctx};
    struct mt_byte_list found = {.ctx = &benchmark->ctx};
    struct mt_byte_list parts[MT_TRIAL_PARTS];
    struct mt_code_trial trial;
    char name[256];
    int64_t unjudged = 0;
    for (int i = 0; i < MT_TRIAL_PARTS; i++) parts[i] = (struct mt_byte_list){.ctx = &benchmark->ctx};
    if (!benchmark->continues) (void)mt_byte_list_append_text(&answer, "```python\n");
    (void)mt_byte_list_append(&answer, program->data, program->count);
    if (!benchmark->continues) (void)mt_byte_list_append_text(&answer, "\n```\n");
    assert_int_equal(
        mt_grade_program(&benchmark->grader, sample, mt_text_in(&answer), &found, parts, &trial, &unjudged),
        MT_OK);
    size_t at = benchmark->count++;
    assert_true(at < benchmark->most);
    for (int i = 0; i < MT_TRIAL_PARTS; i++) {
        benchmark->trials[at].part[i] = (struct mt_text){
            .text = arena_text(&benchmark->arena, parts[i].data, parts[i].count), .bytes = parts[i].count};
        mt_byte_list_free(&parts[i]);
    }
    (void)snprintf(name, sizeof name, "%s, %s", sample->id, what);
    benchmark->names[at] = arena_text(&benchmark->arena, name, strlen(name));
    benchmark->expected[at] = expected;
    mt_byte_list_free(&answer);
    mt_byte_list_free(&found);
}

static void add_variants(struct benchmark *benchmark, const struct mt_task_sample *sample)
{
    for (int variant = 0; variant < VARIANTS; variant++) {
        struct mt_byte_list text = {.ctx = &benchmark->ctx};
        write_variant(benchmark, sample, (enum variant)variant, &text);
        add_trial(benchmark, sample, variant_names[variant], &text, variant == AS_IT_IS);
        mt_byte_list_free(&text);
    }
}

/* The solution as a chat model gives it: the whole function, in a block. */
static void add_whole(struct benchmark *benchmark, const struct mt_task_sample *sample)
{
    struct mt_byte_list text = {.ctx = &benchmark->ctx};
    (void)mt_byte_list_append_text(&text, field(benchmark, sample, "prompt"));
    (void)mt_byte_list_append_text(&text, field(benchmark, sample, "canonical_solution"));
    add_trial(benchmark, sample, "whole function", &text, true);
    mt_byte_list_free(&text);
}

static void add_cheats(struct benchmark *benchmark, const struct mt_task_sample *sample)
{
    size_t few = 0;
    size_t more = 0;
    const struct mt_cheat *cheats = mt_cheats(&few);
    const struct mt_cheat *others = hostile_cheats(&more);
    const char *entry = field(benchmark, sample, "entry_point");
    for (size_t i = 0; i < few + more; i++) {
        const struct mt_cheat *cheat = i < few ? &cheats[i] : &others[i - few];
        struct mt_byte_list text = {.ctx = &benchmark->ctx};
        (void)mt_byte_list_append_text(&text, "    pass\n\n"); // the function that the prompt begins
        assert_int_equal(mt_cheat_answer(cheat, entry, &text), MT_OK);
        add_trial(benchmark, sample, cheat->name, &text, false);
        mt_byte_list_free(&text);
    }
}

// ------------------------------------------------------------------ running

static enum mt_status hear(void *self, size_t trial, const struct mt_sandbox_result *result)
{
    struct benchmark *benchmark = self;
    if ((result->outcome == MT_SANDBOX_PASSED) == benchmark->expected[trial]) return MT_OK;
    benchmark->wrong++;
    print_error("%s: %s after %.2f s\n%s\n", benchmark->names[trial],
                mt_sandbox_outcome_name(result->outcome), result->seconds, result->tail);
    return MT_OK;
}

/* False: there is no such data, and nothing to close. */
static bool open_benchmark(struct benchmark *benchmark, const char *task)
{
    const char *data = getenv("METIER_SHARED_DATA");
    *benchmark = (struct benchmark){.continues = strcmp(task, "humaneval") == 0};
    mt_context_init(&benchmark->ctx, NULL);
    mt_arena_init(&benchmark->arena, &benchmark->ctx, ARENA_BLOCK);
    assert_int_equal(
        mt_task_resolve(&benchmark->ctx, getenv("METIER_TASKS"), task, &benchmark->arena, &benchmark->list),
        MT_OK);
    struct mt_task *first = &benchmark->list.tasks[0];
    static const char *const nothing[] = {NULL};
    first->rows = NULL;    // MBPP: not only those of its test part
    first->stop = nothing; // cheats and broken solutions are more than one function, and not to be cut
    if (data == NULL || !mt_task_data_exists(first, data)) {
        mt_arena_free(&benchmark->arena);
        return false;
    }
    static const struct mt_code_judge nobody = {0};
    assert_int_equal(mt_task_data_open(&benchmark->ctx, first, data, &benchmark->data), MT_OK);
    assert_int_equal(mt_grader_open(&benchmark->ctx, first, &nobody, &benchmark->grader), MT_OK);
    return true;
}

typedef void adder(struct benchmark *benchmark, const struct mt_task_sample *sample);

/* Some tasks of a benchmark, so many answers to each. */
static void run_benchmark(const char *task, size_t tasks, size_t answers, adder *add)
{
    struct benchmark benchmark;
    if (!open_benchmark(&benchmark, task)) {
        print_message("skipped: there is no data of %s in METIER_SHARED_DATA\n", task);
        skip();
    }
    const char *which = getenv("METIER_CODE_TASKS");
    size_t rows = mt_task_data_count(benchmark.data);
    size_t step = which != NULL && strcmp(which, "all") == 0 ? 1 : rows / tasks;
    benchmark.most = (rows / step + 1 + MOST_SPECIAL) * answers;
    benchmark.trials = arena_array(&benchmark.arena, benchmark.most, sizeof *benchmark.trials);
    benchmark.names = arena_array(&benchmark.arena, benchmark.most, sizeof *benchmark.names);
    benchmark.expected = arena_array(&benchmark.arena, benchmark.most, sizeof *benchmark.expected);
    struct mt_task_sample sample;
    mt_sample_init(&benchmark.ctx, &sample);
    for (size_t i = 0; i < rows; i++) {
        assert_int_equal(mt_task_data_sample(benchmark.data, i, &sample), MT_OK);
        const struct mt_row_field *setup = mt_row_field(&sample.row, "test_setup_code");
        bool special = setup != NULL && setup->bytes > 0; // MBPP: objects are made before the tests
        if (i % step == 0 || special) add(&benchmark, &sample);
    }
    mt_sample_free(&sample);
    // A busy machine is no reason to fail a solution.
    const struct mt_sandbox_judge judge = {.ctx = &benchmark.ctx, .options = sandbox_patient_options()};
    const struct mt_trial_listener listener = {.self = &benchmark, .heard = hear};
    enum mt_status status = mt_code_trials_run(&judge, benchmark.trials, benchmark.count, &listener);
    if (status == MT_ERR_UNSUPPORTED) print_message("skipped: %s\n", benchmark.ctx.message);
    if (status == MT_OK)
        print_message("%s: %zu answers, %d other than expected\n", task, benchmark.count, benchmark.wrong);
    int wrong = benchmark.wrong;
    mt_grader_free(&benchmark.grader);
    mt_task_data_close(benchmark.data);
    mt_arena_free(&benchmark.arena);
    if (status == MT_ERR_UNSUPPORTED) skip();
    assert_int_equal(status, MT_OK);
    assert_int_equal(wrong, 0);
    assert_int_equal(benchmark.ctx.live_bytes, 0);
}

static void test_humaneval(void **state)
{
    (void)state;
    run_benchmark("humaneval", SAMPLE, VARIANTS, add_variants);
}

static void test_humaneval_whole(void **state)
{
    (void)state;
    run_benchmark("humaneval_chat", SAMPLE, 1, add_whole);
}

static void test_mbpp(void **state)
{
    (void)state;
    run_benchmark("mbpp_chat", SAMPLE, VARIANTS, add_variants);
}

static void test_cheats(void **state)
{
    (void)state;
    size_t cheats = 0;
    size_t others = 0;
    (void)mt_cheats(&cheats);
    (void)hostile_cheats(&others);
    run_benchmark("humaneval", CHEAT_SAMPLE, cheats + others, add_cheats);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_humaneval),
        cmocka_unit_test(test_humaneval_whole),
        cmocka_unit_test(test_mbpp),
        cmocka_unit_test(test_cheats),
    };
    mt_sandbox_adopt_orphans();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
