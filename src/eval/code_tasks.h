/*
 * Benchmarks whose answers are programs: HumanEval (Chen et al., 2021) and MBPP (Austin et al., 2021), from
 * the rows of their own files. What is run for an answer:
 *
 *     HumanEval   prompt + answer + "\n" + test + "\n" + check(entry_point)
 *     MBPP        answer + "\n" + test_setup_code + "\n" + the lines of test_list
 *                 (the sanitized file: its test_imports are the setup)
 *
 * An answer has passed when that program does (eval/sandbox.h). HumanEval answers continue the prompt; they
 * end before the first stop sequence.
 */
#ifndef MT_EVAL_CODE_TASKS_H
#define MT_EVAL_CODE_TASKS_H

#include "base/arena.h"
#include "eval/sandbox_many.h"
#include "formats/dataset.h"
#include "formats/lists.h"

enum mt_code_benchmark {
    MT_CODE_HUMANEVAL,
    MT_CODE_MBPP,
};

/* One task; its texts are NUL-terminated and belong to the arena it was read into. */
struct mt_code_task {
    enum mt_code_benchmark benchmark;
    const char *id;          // "HumanEval/0", "11"
    const char *prompt;      // HumanEval: the program's beginning; MBPP: the task in words
    const char *reference;   // the solution the benchmark gives
    const char *entry_point; // HumanEval: the function under test; MBPP: ""
    const char *setup;       // MBPP: before the tests, or ""
    const char *tests;       // HumanEval: defines check(); MBPP: one assertion a line
};

/* An answer to one of the tasks. */
struct mt_code_answer {
    size_t task;      // index into the tasks
    const char *text; // borrowed; as given: mt_code_trim is the caller's
    size_t bytes;
};

struct mt_code_verdict {
    enum mt_sandbox_outcome outcome;
    int exit_status;
    double seconds;
};

/* Reads a task from a row, which a JSON or JSONL file gave. A missing or wrong field is MT_ERR_FORMAT. */
enum mt_status mt_code_task_read(const struct mt_row *row, enum mt_code_benchmark benchmark,
                                 struct mt_arena *arena, struct mt_code_task *task);

/*
 * The stop sequences of a benchmark, NULL at the end: what a generation is asked to stop at, and where
 * mt_code_trim cuts. HumanEval's are the paper's (a new top-level statement), MBPP's the end mark of its
 * prompt.
 */
const char *const *mt_code_stops(enum mt_code_benchmark benchmark);

/* How much of an answer counts: up to the first stop sequence. */
size_t mt_code_trim(enum mt_code_benchmark benchmark, const char *answer, size_t bytes);

/* Appends the program that tests an answer, which may hold any bytes. */
enum mt_status mt_code_program(const struct mt_code_task *task, const char *answer, size_t bytes,
                               struct mt_byte_list *program);

/* Hears of every answer when its program has ended. */
struct mt_code_listener {
    void *self; // borrowed
    enum mt_status (*heard)(void *self, size_t answer, const struct mt_sandbox_result *result);
};

/*
 * Runs the programs of all answers, `at_once` at a time (0: one per processor), and fills verdicts[count].
 * `listener` may be NULL.
 */
enum mt_status mt_code_run(struct mt_context *ctx, const struct mt_sandbox_options *options, int at_once,
                           const struct mt_code_task *tasks, const struct mt_code_answer *answers,
                           size_t count, const struct mt_code_listener *listener,
                           struct mt_code_verdict *verdicts);

#endif
