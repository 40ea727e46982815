/* Programs to verdicts. */
#include "eval/code_judge.h"

struct verdicts {
    const struct mt_text *programs;
    bool *passed;
};

static enum mt_status give_program(void *self, size_t index, struct mt_byte_list *text,
                                   struct mt_sandbox_options *options)
{
    (void)options;
    const struct verdicts *verdicts = self;
    const struct mt_text *program = &verdicts->programs[index];
    // An answer without a program must not pass as one that does nothing.
    if (program->bytes == 0) return mt_byte_list_append_text(text, "raise SystemExit(1)\n");
    return mt_byte_list_append(text, program->text, program->bytes);
}

static enum mt_status take_result(void *self, size_t index, const struct mt_sandbox_result *result)
{
    const struct verdicts *verdicts = self;
    verdicts->passed[index] = result->outcome == MT_SANDBOX_PASSED;
    return MT_OK;
}

static enum mt_status run(void *self, const struct mt_text *programs, size_t count, bool *passed)
{
    const struct mt_sandbox_judge *judge = self;
    struct verdicts verdicts = {.programs = programs, .passed = passed};
    const struct mt_sandbox_batch batch = {.count = count,
                                           .at_once = judge->at_once,
                                           .self = &verdicts,
                                           .program = give_program,
                                           .done = take_result};
    return mt_sandbox_run_many(judge->ctx, &judge->options, &batch);
}

enum mt_status mt_sandbox_judge_check(const struct mt_sandbox_judge *judge)
{
    static const char program[] = "pass\n";
    struct mt_sandbox_result result;
    enum mt_status status = mt_sandbox_run(judge->ctx, &judge->options, program, sizeof program - 1, &result);
    if (status != MT_OK || result.outcome == MT_SANDBOX_PASSED) return status;
    return mt_fail(judge->ctx, MT_ERR_UNSUPPORTED, "a program that does nothing does not pass here: %s",
                   mt_sandbox_outcome_name(result.outcome));
}

struct mt_code_judge mt_sandbox_code_judge(struct mt_sandbox_judge *judge)
{
    return (struct mt_code_judge){.self = judge, .run = run};
}
