/* Trials to verdicts. */
#include "eval/code/code_judge.h"

struct trials {
    const struct mt_code_trial *trials;
    const struct mt_trial_listener *listener;
};

static enum mt_status give_program(void *self, size_t index, struct mt_byte_list *text,
                                   struct mt_sandbox_options *options)
{
    (void)options;
    const struct trials *run = self;
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

static enum mt_status keep_verdict(void *self, size_t trial, const struct mt_sandbox_result *result)
{
    bool *passed = self;
    passed[trial] = result->outcome == MT_SANDBOX_PASSED;
    return MT_OK;
}

static enum mt_status run(void *self, const struct mt_code_trial *trials, size_t count, bool *passed)
{
    const struct mt_trial_listener listener = {.self = passed, .heard = keep_verdict};
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
    bool passed[2] = {false, false};
    const struct mt_trial_listener listener = {.self = passed, .heard = keep_verdict};
    enum mt_status status = mt_code_trials_run(judge, trials, 2, &listener);
    if (status != MT_OK || (passed[0] && !passed[1])) return status;
    return mt_fail(judge->ctx, MT_ERR_UNSUPPORTED, "programs cannot be judged here: one that is %s",
                   passed[0] ? "wrong passes" : "right does not pass");
}

struct mt_code_judge mt_sandbox_code_judge(struct mt_sandbox_judge *judge)
{
    return (struct mt_code_judge){.self = judge, .run = run};
}
