/*
 * Answers judged by cases: verdicts as LiveCodeBench gives them, limits of a case, what is said of a failure,
 * cheats. Skipped, with the reason, where there can be no sandbox. Tests src/eval/code/code_judge.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "eval/code/code_judge.h"
#include "eval/code/row_cases.h"
#include "formats/data/dataset.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"
#include "support/hostile_programs.h"
#include "support/sandbox_bench.h"

#define MOST_TRIALS 256
#define ARENA_BYTES 65536

struct bench {
    struct mt_context ctx;
    struct mt_arena arena; // of texts
    struct mt_code_trial trials[MOST_TRIALS];
    const char *names[MOST_TRIALS];
    bool passes[MOST_TRIALS];
    size_t count;
};

static void open_bench(struct bench *bench)
{
    *bench = (struct bench){0};
    mt_context_init(&bench->ctx, NULL);
    mt_arena_init(&bench->arena, &bench->ctx, ARENA_BYTES);
}

static struct mt_text keep(struct bench *bench, struct mt_text text)
{
    const char *kept = NULL;
    assert_int_equal(mt_arena_copy_text(&bench->arena, text.text, text.bytes, &kept), MT_OK);
    return (struct mt_text){.text = kept, .bytes = text.bytes};
}

/* An answer, and its cases as JSON. */
static void add(struct bench *bench, const char *name, struct mt_text program, struct mt_text cases,
                const char *function, bool passes)
{
    char words[128];
    (void)snprintf(words, sizeof words, "0 0 %s", function);
    assert_true(bench->count < MOST_TRIALS);
    bench->names[bench->count] = keep(bench, mt_text_of(name)).text;
    bench->passes[bench->count] = passes;
    struct mt_code_trial *trial = &bench->trials[bench->count++];
    *trial = (struct mt_code_trial){.kind = MT_TRIAL_BY_CASES};
    trial->part[MT_TRIAL_ANSWER] = keep(bench, program);
    trial->part[MT_TRIAL_GIVEN] = mt_text_of("[]");
    trial->part[MT_TRIAL_TESTS] = keep(bench, cases);
    trial->part[MT_TRIAL_CALLS] = keep(bench, mt_text_of(words));
}

static enum mt_status hear(void *self, size_t trial, const struct mt_sandbox_result *result)
{
    struct bench *bench = self;
    if ((result->outcome == MT_SANDBOX_PASSED) == bench->passes[trial]) return MT_OK;
    print_error("%s: %s\n%s\n", bench->names[trial], mt_sandbox_outcome_name(result->outcome), result->tail);
    bench->names[trial] = NULL;
    return MT_OK;
}

/* Runs them all: each ends as it must. */
static void run(struct bench *bench)
{
    const struct mt_sandbox_judge judge = {.ctx = &bench->ctx, .options = sandbox_patient_options()};
    const struct mt_trial_listener listener = {.self = bench, .heard = hear};
    assert_int_equal(mt_code_trials_run(&judge, bench->trials, bench->count, &listener), MT_OK);
    for (size_t i = 0; i < bench->count; i++) assert_non_null(bench->names[i]);
    mt_arena_free(&bench->arena);
    assert_int_equal(bench->ctx.live_bytes, 0);
}

// ------------------------------------------------------------------ verdicts

static struct mt_text text_field(const struct mt_row *row, const char *name)
{
    const struct mt_row_field *field = mt_row_field(row, name);
    return field != NULL ? (struct mt_text){.text = field->text, .bytes = field->bytes} : mt_text_of("");
}

/* [[input, output], ...] as a row has them. */
static void write_cases(const struct mt_row *row, struct mt_text_writer *cases)
{
    struct mt_json_node list;
    assert_true(mt_row_value(row, "cases", &list));
    for (size_t i = 0; i < mt_json_count(&list); i++) {
        const char *texts[2] = {NULL, NULL};
        const struct mt_json_node pair = mt_json_element(&list, i);
        for (size_t k = 0; k < 2; k++) {
            const struct mt_json_node one = mt_json_element(&pair, k);
            assert_int_equal(mt_json_as_string(&one, &texts[k]), MT_OK);
        }
        mt_text_put_string(cases, i == 0 ? "[{\"input\": " : ", {\"input\": ", mt_text_of(texts[0]));
        mt_text_put_string(cases, ", \"output\": ", mt_text_of(texts[1]));
        mt_text_put(cases, "}");
    }
    mt_text_put(cases, "]");
    assert_int_equal(cases->status, MT_OK);
}

/* tests/parity/livecodebench_parity.py holds the labels against LiveCodeBench's own program. */
static void test_verdicts(void **state)
{
    (void)state;
    struct bench bench;
    struct mt_row row;
    struct mt_dataset *rows = NULL;
    char path[1024];
    open_bench(&bench);
    mt_row_init(&bench.ctx, &row);
    (void)snprintf(path, sizeof path, "%s/livecodebench.jsonl", getenv("METIER_EVAL_CASES"));
    assert_int_equal(mt_dataset_open(&bench.ctx, path, &(struct mt_dataset_options){0}, &rows), MT_OK);
    assert_true(mt_dataset_rows(rows) >= 80);
    for (uint64_t i = 0; i < mt_dataset_rows(rows); i++) {
        struct mt_text_writer cases = {.text = {.ctx = &bench.ctx}};
        char function[32];
        assert_int_equal(mt_dataset_read(rows, i, &row), MT_OK);
        write_cases(&row, &cases);
        struct mt_text name = text_field(&row, "function");
        (void)snprintf(function, sizeof function, "%.*s", (int)name.bytes, name.text);
        add(&bench, keep(&bench, text_field(&row, "name")).text, text_field(&row, "program"),
            mt_text_in(&cases.text), function, mt_text_is(text_field(&row, "passes"), "true"));
        mt_byte_list_free(&cases.text);
    }
    mt_row_free(&row);
    mt_dataset_close(rows);
    run(&bench);
}

// ------------------------------------------------------------------ limits and reasons

#define ONE "[{\"input\": \"1\", \"output\": \"2\"}, {\"input\": \"2\", \"output\": \"3\"}]"

/* What is recorded of an answer; "": it passes. */
static void test_reasons(void **state)
{
    (void)state;
    static const struct {
        const char *answer, *function, *why;
    } reasons[] = {
        {"print(int(input()) + 1)\n", "", ""},
        {"print(2)\n", "", "test 2 of 2: line 1 is '2' instead of '3'"},
        {"print(2); print()\nprint(3)\n", "", "test 1 of 2: 3 lines instead of 1"},
        {"raise ValueError('two\\nlines')\n", "", "test 1 of 2: lines"},
        {"def f(x): return x + 1\n", "f", ""},
        {"def f(x): return 'x' * 100\n", "f", "test 1 of 2: 'xxxxxxxx"},
        {"def f(x): return {x}\n", "f", "test 1 of 2: TypeError: no right answer has a set"},
        {"def g(x): return x\n", "f", "test 1 of 2: AttributeError: "},
        {"def f(:\n", "", "SyntaxError: "},
        {"while True: pass\n", "", "test 1 of 2: more than 6 s of processor time"},
        {"import signal, os\nos.kill(os.getpid(), signal.SIGSEGV)\n", "", "test 1 of 2: ended by signal 11"},
        {"x = bytearray(1 << 40)\n", "", "test 1 of 2: MemoryError"},
        {"while True: print('x' * 65536)\n", "", "test 1 of 2: "},
        {"import sys\nfor i in range(100000): print('noise', file=sys.stderr)\nprint(int(input()) + 1)\n", "",
         ""},
        {"import os, time\nif os.fork() == 0:\n    while True: time.sleep(1)\nprint(int(input()) + 1)\n", "",
         ""},
        {"open('left', 'a').write('x')\nprint(int(input()) + 1)\n", "", ""},
        {"", "", "no program in the answer"},
    };
    enum { COUNT = sizeof reasons / sizeof reasons[0] };
    struct bench bench;
    struct mt_code_verdict verdicts[COUNT];
    open_bench(&bench);
    for (size_t i = 0; i < COUNT; i++)
        add(&bench, "", mt_text_of(reasons[i].answer), mt_text_of(ONE), reasons[i].function, true);
    struct mt_sandbox_judge sandbox = {.ctx = &bench.ctx, .options = sandbox_patient_options()};
    const struct mt_code_judge judge = mt_sandbox_code_judge(&sandbox);
    assert_int_equal(judge.run(judge.self, bench.trials, COUNT, verdicts), MT_OK);
    int wrong = 0;
    for (size_t i = 0; i < COUNT; i++) {
        size_t length = strlen(reasons[i].why);
        bool same = length == 0
                        ? verdicts[i].passed && verdicts[i].why[0] == '\0'
                        : !verdicts[i].passed && strncmp(verdicts[i].why, reasons[i].why, length) == 0;
        if (!same) print_error("wanted '%s', got '%s'\n", reasons[i].why, verdicts[i].why);
        wrong += same ? 0 : 1;
    }
    assert_int_equal(wrong, 0);
    mt_arena_free(&bench.arena);
    assert_int_equal(bench.ctx.live_bytes, 0);
}

// ------------------------------------------------------------------ cheats

/* What the answer's processes can reach beside themselves: the one that forked them, and its descriptors. */
static const char *const cheats[] = {
    "import os\n"
    "place = '/proc/%d/fd/' % os.getppid()\n"
    "for n in os.listdir(place):\n"
    "    try: open(place + n, 'wb').write(b'[null, 2]\\n2\\n[null, 2]\\n3\\n')\n"
    "    except OSError: pass\n",
    "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\n",
    "import os\nfor n in range(3, 64):\n    try: os.write(n, b'[null, 2]\\n2\\n')\n    except OSError: "
    "pass\n",
    "import os, re\ntext = open('/program.py', 'rb').read()\n"
    "for proof in re.findall(rb\"b'([0-9a-f]{32})'\", text):\n"
    "    for n in range(64):\n        try: os.write(n, proof)\n        except OSError: pass\n",
    "import sys\nfor n in (2, 3): print(n)\n",
    "import os\nos.setsid()\nprint(open('/proc/%d/mem' % os.getppid(), 'r+b'))\n",
};

static void test_cheats(void **state)
{
    (void)state;
    static const char called[] =
        "[{\"input\": \"1\", \"output\": \"2\"}, {\"input\": \"[1, 2]\", \"output\": "
        "\"[1, 2, 1, 2]\"}, {\"input\": \"\\\"a\\\"\", \"output\": \"\\\"aa\\\"\"}]";
    struct bench bench;
    size_t few = 0;
    size_t more = 0;
    const struct mt_cheat *known = mt_cheats(&few);
    const struct mt_cheat *others = hostile_cheats(&more);
    open_bench(&bench);
    add(&bench, "an honest one", mt_text_of("def twice(x): return 2 * x\n"), mt_text_of(called), "twice",
        true);
    for (size_t i = 0; i < few + more; i++) {
        const struct mt_cheat *cheat = i < few ? &known[i] : &others[i - few];
        struct mt_byte_list text = {.ctx = &bench.ctx};
        assert_int_equal(mt_cheat_answer(cheat, "twice", &text), MT_OK);
        add(&bench, cheat->name, mt_text_in(&text), mt_text_of(called), "twice", false);
        add(&bench, cheat->name, mt_text_in(&text), mt_text_of(ONE), "", false);
        mt_byte_list_free(&text);
    }
    for (size_t i = 0; i < sizeof cheats / sizeof cheats[0]; i++)
        add(&bench, cheats[i], mt_text_of(cheats[i]), mt_text_of(ONE), "", false);
    run(&bench);
}

static enum mt_status build(struct mt_context *ctx, const void *self)
{
    struct mt_byte_list program = {.ctx = ctx};
    struct mt_byte_list judge = {.ctx = ctx};
    enum mt_status status = mt_code_trial_program(self, &program);
    if (status == MT_OK) status = mt_code_trial_judge(self, &judge);
    mt_byte_list_free(&program);
    mt_byte_list_free(&judge);
    return status;
}

static void test_every_allocation_failing(void **state)
{
    (void)state;
    const struct mt_code_trial trial = {
        .kind = MT_TRIAL_BY_CASES,
        .part = {mt_text_of("pass\n"), mt_text_of("[]"), mt_text_of(ONE), mt_text_of("0 0 ")}};
    assert_every_allocation_may_fail(build, &trial, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_verdicts),
        cmocka_unit_test(test_reasons),
        cmocka_unit_test(test_cheats),

        cmocka_unit_test(test_every_allocation_failing),
    };
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    mt_sandbox_adopt_orphans();
    const struct mt_sandbox_judge judge = {.ctx = &ctx, .options = sandbox_patient_options()};
    if (mt_sandbox_judge_check(&judge) == MT_ERR_UNSUPPORTED) {
        (void)printf("skipped: %s\n", ctx.message);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
