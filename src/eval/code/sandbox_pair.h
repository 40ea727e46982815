/*
 * Two programs, each in a sandbox of its own, joined by a socket and nothing else: one that nobody trusts,
 * and one that judges it. Neither sees the other's files, memory or processes.
 *
 * The pair has passed when the judge has. A program that ends early, or breaks a limit, ends the pair with
 * its own outcome.
 */
#ifndef MT_EVAL_SANDBOX_PAIR_H
#define MT_EVAL_SANDBOX_PAIR_H

#include "eval/code/sandbox.h"
#include "eval/tasks/prompt.h"

/* Zeroed, or made by mt_sandbox_pair_start. The fields are not for the caller. */
struct mt_sandbox_pair {
    struct mt_sandbox program;
    struct mt_sandbox judge; // not running: the program stands alone
    bool judged;             // there is a judge
    bool running;
    double judge_ended;              // clock; 0: not yet
    struct mt_sandbox_result result; // complete once `running` is false
};

#define MT_SANDBOX_PAIR_DESCRIPTORS (2 * MT_SANDBOX_DESCRIPTORS)

/*
 * As mt_sandbox_start, descriptors, step and stop. Both programs have the same limits. A judge without text:
 * the program stands alone, and passes by itself.
 */
enum mt_status mt_sandbox_pair_start(struct mt_context *ctx, const struct mt_sandbox_options *options,
                                     struct mt_text program, struct mt_text judge,
                                     struct mt_sandbox_pair *pair);
int mt_sandbox_pair_descriptors(const struct mt_sandbox_pair *pair,
                                struct pollfd waits[MT_SANDBOX_PAIR_DESCRIPTORS]);
enum mt_status mt_sandbox_pair_step(struct mt_sandbox_pair *pair);
void mt_sandbox_pair_stop(struct mt_sandbox_pair *pair);

#endif
