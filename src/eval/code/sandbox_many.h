/*
 * Many programs, some of them at a time, in one thread; each alone, or with another that judges it.
 *
 * The two are in sandboxes of their own, joined by a socket and nothing else: neither sees the other's files,
 * memory or processes. The pair has passed when the judge has. A program that ends early, or breaks a limit,
 * ends the pair with its own outcome. Both have the same limits.
 */
#ifndef MT_EVAL_SANDBOX_MANY_H
#define MT_EVAL_SANDBOX_MANY_H

#include "eval/code/sandbox.h"
#include "eval/text.h"

#define MT_SANDBOX_MOST_AT_ONCE 256

/* Where programs come from and results go, both called in the caller's thread. */
struct mt_sandbox_batch {
    size_t count;
    int at_once; // programs at a time; 0: as many as the machine has processors
    void *self;  // borrowed; handed to both calls
    // Appends program `index`; may change the options, which hold the ones given to mt_sandbox_run_many.
    // Called again, like `judge`, where a sandbox has failed and is tried again.
    enum mt_status (*program)(void *self, size_t index, struct mt_byte_list *text,
                              struct mt_sandbox_options *options);
    // Appends the program that judges program `index`; NULL, or nothing appended: it stands alone.
    enum mt_status (*judge)(void *self, size_t index, struct mt_byte_list *text);
    // Program `index` has ended; they come in the order they end. The result lasts for the call.
    enum mt_status (*done)(void *self, size_t index, const struct mt_sandbox_result *result);
};

/*
 * Runs them all. A sandbox that fails is tried again, after a rest, three times. The first failure of one for
 * good, or of a call, ends the rest; that of a program does not.
 */
enum mt_status mt_sandbox_run_many(struct mt_context *ctx, const struct mt_sandbox_options *options,
                                   const struct mt_sandbox_batch *batch);

#endif
