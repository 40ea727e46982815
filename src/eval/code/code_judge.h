/* The judge of programs: each answer and its tests in a pair of sandboxes, several at a time. */
#ifndef MT_EVAL_CODE_JUDGE_H
#define MT_EVAL_CODE_JUDGE_H

#include "eval/answerer.h"
#include "eval/code/sandbox_many.h"

struct mt_sandbox_judge {
    struct mt_context *ctx; // borrowed
    struct mt_sandbox_options options;
    int at_once; // answers; 0: as many as the machine has processors
};

/* Hears of every trial when it has ended. */
struct mt_trial_listener {
    void *self; // borrowed
    enum mt_status (*heard)(void *self, size_t trial, const struct mt_sandbox_result *result);
};

/* Runs the trials; they end in any order. */
enum mt_status mt_code_trials_run(const struct mt_sandbox_judge *judge, const struct mt_code_trial *trials,
                                  size_t count, const struct mt_trial_listener *listener);

/*
 * Tries an answer that is right and one that is wrong, to learn before hours are spent whether programs can
 * be judged here. MT_ERR_UNSUPPORTED has the reason and the cure.
 */
enum mt_status mt_sandbox_judge_check(const struct mt_sandbox_judge *judge);

/* The judge, as long as the struct stays where it is. */
struct mt_code_judge mt_sandbox_code_judge(struct mt_sandbox_judge *judge);

#endif
