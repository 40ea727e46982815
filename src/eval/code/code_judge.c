/* Trials as programs (the Python of src/eval/code/python with the texts at its end), and their verdicts. */
#include "eval/code/code_judge.h"

#include <stdio.h>

// Times what one program may have, as a limit for all cases together.
#define CASES_SECONDS     15
#define CASES_CPU_SECONDS 6

// ------------------------------------------------------------------ programs

static bool is_plain(char byte)
{
    return byte >= ' ' && byte <= '~' && byte != '\'' && byte != '\\';
}

/* Appends bytes as Python writes them: b'...'. */
static enum mt_status append_literal(struct mt_byte_list *text, const struct mt_text *bytes)
{
    enum mt_status status = mt_byte_list_append_text(text, "b'");
    for (size_t i = 0; i < bytes->bytes && status == MT_OK;) {
        size_t begin = i;
        while (i < bytes->bytes && is_plain(bytes->text[i])) i++;
        status = mt_byte_list_append(text, bytes->text + begin, i - begin);
        if (status != MT_OK || i == bytes->bytes) break;
        char byte = bytes->text[i++];
        char escaped[8];
        (void)snprintf(escaped, sizeof escaped, byte == '\\' ? "\\\\" : "\\x%02x",
                       (unsigned)(unsigned char)byte);
        status = mt_byte_list_append_text(text, escaped);
    }
    return status == MT_OK ? mt_byte_list_append_text(text, "'") : status;
}

/* The Python of one side, then its texts by name, each on a line of its own: tracebacks quote lines. */
static enum mt_status append_program(struct mt_byte_list *text, const char *python,
                                     const struct mt_code_trial *trial,
                                     const char *const names[MT_TRIAL_PARTS], const char *last_line)
{
    enum mt_status status = mt_byte_list_append_text(text, mt_python_wire);
    if (status == MT_OK) status = mt_byte_list_append_text(text, python);
    for (int i = 0; i < MT_TRIAL_PARTS && status == MT_OK; i++) {
        if (names[i] == NULL) continue;
        status = mt_byte_list_append_text(text, names[i]);
        if (status == MT_OK) status = append_literal(text, &trial->part[i]);
        if (status == MT_OK) status = mt_byte_list_append_text(text, "\n");
    }
    return status == MT_OK ? mt_byte_list_append_text(text, last_line) : status;
}

enum mt_status mt_code_trial_program(const struct mt_code_trial *trial, struct mt_byte_list *text)
{
    static const char *const names[MT_TRIAL_PARTS] = {[MT_TRIAL_ANSWER] = "ANSWER = "};
    // An answer without a program must not pass as one that does nothing.
    if (trial->part[MT_TRIAL_ANSWER].bytes == 0)
        return mt_byte_list_append_text(text, "raise SystemExit(1)\n");
    if (trial->kind == MT_TRIAL_BY_CASES)
        return append_program(text, mt_python_cases_answer, trial, names, "serve(ANSWER)\n");
    return append_program(text, mt_python_answer, trial, names, "Server().run(ANSWER)\n");
}

enum mt_status mt_code_trial_judge(const struct mt_code_trial *trial, struct mt_byte_list *text)
{
    static const char *const names[MT_TRIAL_PARTS] = {
        [MT_TRIAL_GIVEN] = "GIVEN = ", [MT_TRIAL_TESTS] = "TESTS = ", [MT_TRIAL_CALLS] = "CALLS = "};
    const char *python = trial->kind == MT_TRIAL_BY_CASES ? mt_python_cases_judge : mt_python_tests;
    return append_program(text, python, trial, names, "judge(GIVEN, TESTS, CALLS)\n");
}

// ------------------------------------------------------------------ verdicts

struct trials {
    const struct mt_code_trial *trials;
    const struct mt_trial_listener *listener;
};

/* One trial by cases is many programs, one after the other, each with limits of its own (cases_answer.py). */
static void limit(const struct mt_code_trial *trial, struct mt_sandbox_options *options)
{
    if (trial->kind != MT_TRIAL_BY_CASES) return;
    options->seconds *= CASES_SECONDS;
    options->cpu_seconds *= CASES_CPU_SECONDS;
}

static enum mt_status give_program(void *self, size_t index, struct mt_byte_list *text,
                                   struct mt_sandbox_options *options)
{
    const struct trials *run = self;
    limit(&run->trials[index], options);
    return mt_code_trial_program(&run->trials[index], text);
}

static enum mt_status give_judge(void *self, size_t index, struct mt_byte_list *text)
{
    const struct trials *run = self;
    return mt_code_trial_judge(&run->trials[index], text);
}

static enum mt_status take_result(void *self, size_t index, const struct mt_sandbox_result *result)
{
    const struct trials *run = self;
    return run->listener->heard(run->listener->self, index, result);
}

enum mt_status mt_code_trials_run(const struct mt_sandbox_judge *judge, const struct mt_code_trial *trials,
                                  size_t count, const struct mt_trial_listener *listener)
{
    struct trials run = {.trials = trials, .listener = listener};
    const struct mt_sandbox_batch batch = {.count = count,
                                           .at_once = judge->at_once,
                                           .self = &run,
                                           .program = give_program,
                                           .judge = give_judge,
                                           .done = take_result};
    return mt_sandbox_run_many(judge->ctx, &judge->options, &batch);
}

/* The error in the last line of a traceback, and the line of the tests it came from, where there is one. */
static void explain_failure(const char *tail, char why[MT_CODE_WHY_BYTES])
{
    struct mt_text text = mt_text_trimmed(mt_text_of(tail));
    struct mt_text line;
    struct mt_text error = mt_text_of("");
    struct mt_text test = mt_text_of("");
    bool quoted = false; // the line before names a line of the tests
    size_t at = 0;
    while (mt_text_next_line(text, &at, &line)) {
        if (quoted) test = mt_text_trimmed(line);
        quoted = mt_text_find(line, 0, "File \"tests\", line ") < line.bytes;
        error = mt_text_trimmed(line);
    }
    const int most = MT_CODE_WHY_BYTES / 2 - 8; // of either
    int error_bytes = error.bytes < (size_t)most ? (int)error.bytes : most;
    int test_bytes = test.bytes < (size_t)most ? (int)test.bytes : most;
    (void)snprintf(why, MT_CODE_WHY_BYTES, "%.*s%s%.*s", error_bytes, error.text,
                   error_bytes > 0 && test_bytes > 0 ? " in: " : "", test_bytes, test.text);
}

/* Why a program did not pass, in a line. */
static void explain(const struct mt_sandbox_judge *judge, const struct mt_code_trial *trial,
                    const struct mt_sandbox_result *result, char why[MT_CODE_WHY_BYTES])
{
    const char *outcome = mt_sandbox_outcome_name(result->outcome);
    struct mt_sandbox_options options = judge->options;
    limit(trial, &options);
    why[0] = '\0';
    if (trial->part[MT_TRIAL_ANSWER].bytes == 0) {
        (void)snprintf(why, MT_CODE_WHY_BYTES, "no program in the answer");
    } else if (result->outcome == MT_SANDBOX_TIMED_OUT) {
        (void)snprintf(why, MT_CODE_WHY_BYTES,
                       "%s after %.1f s: %lld s of processor time are allowed, %.0f s in all", outcome,
                       result->seconds, (long long)options.cpu_seconds, options.seconds);
    } else if (result->outcome == MT_SANDBOX_OUT_OF_MEMORY) {
        (void)snprintf(why, MT_CODE_WHY_BYTES, "%s: %llu MiB are allowed", outcome,
                       (unsigned long long)(options.memory >> 20));
    } else if (result->outcome == MT_SANDBOX_FAILED) {
        explain_failure(result->tail, why);
    }
    if (why[0] == '\0')
        (void)snprintf(why, MT_CODE_WHY_BYTES, "%s: exit status %d", outcome, result->exit_status);
}

struct verdicts {
    const struct mt_sandbox_judge *judge;
    const struct mt_code_trial *trials;
    struct mt_code_verdict *verdicts;
};

static enum mt_status keep_verdict(void *self, size_t trial, const struct mt_sandbox_result *result)
{
    const struct verdicts *kept = self;
    struct mt_code_verdict *verdict = &kept->verdicts[trial];
    *verdict = (struct mt_code_verdict){.passed = result->outcome == MT_SANDBOX_PASSED};
    if (!verdict->passed) explain(kept->judge, &kept->trials[trial], result, verdict->why);
    return MT_OK;
}

static enum mt_status run(void *self, const struct mt_code_trial *trials, size_t count,
                          struct mt_code_verdict *verdicts)
{
    struct verdicts kept = {.judge = self, .trials = trials, .verdicts = verdicts};
    const struct mt_trial_listener listener = {.self = &kept, .heard = keep_verdict};
    return mt_code_trials_run(self, trials, count, &listener);
}

#define TEXT(words)                                                                                          \
    {                                                                                                        \
        .text = (words), .bytes = sizeof(words) - 1                                                          \
    }

enum mt_status mt_sandbox_judge_check(const struct mt_sandbox_judge *judge)
{
    static const struct mt_code_trial trials[2] = {
        {.part = {[MT_TRIAL_ANSWER] = TEXT("def f(x): return x + 1\n"),
                  [MT_TRIAL_TESTS] = TEXT("assert f(1) == 2\n")}},
        {.part = {[MT_TRIAL_ANSWER] = TEXT("def f(x): return x\n"),
                  [MT_TRIAL_TESTS] = TEXT("assert f(1) == 2\n")}},
    };
    struct mt_code_verdict verdicts[2] = {0};
    struct verdicts kept = {.judge = judge, .trials = trials, .verdicts = verdicts};
    const struct mt_trial_listener listener = {.self = &kept, .heard = keep_verdict};
    enum mt_status status = mt_code_trials_run(judge, trials, 2, &listener);
    if (status != MT_OK || (verdicts[0].passed && !verdicts[1].passed)) return status;
    return mt_fail(judge->ctx, MT_ERR_UNSUPPORTED, "programs cannot be judged here: a %s",
                   verdicts[0].passed ? "wrong one passes" : "right one fails");
}

struct mt_code_judge mt_sandbox_code_judge(struct mt_sandbox_judge *judge)
{
    return (struct mt_code_judge){.self = judge, .run = run};
}
