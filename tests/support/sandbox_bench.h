/* Sandboxes under test: limits that no slow machine reaches, a word with a program, steps one by one. */
#ifndef MT_TESTS_SANDBOX_BENCH_H
#define MT_TESTS_SANDBOX_BENCH_H

#include "eval/code/sandbox.h"

#define SANDBOX_PATIENCE 300 // seconds: only a hang lasts longer

/* The defaults, with limits of time that a busy or slow machine does not reach. */
struct mt_sandbox_options sandbox_patient_options(void);

/* Starts a program whose descriptor 8 is joined to the one returned, which the caller closes. -1: not
 * started. */
int sandbox_start_talking(struct mt_context *ctx, struct mt_sandbox_options options, const char *program,
                          struct mt_sandbox *sandbox);

/* Waits as a judge does, then steps. */
enum mt_status sandbox_wait_and_step(struct mt_sandbox *sandbox);

/* Buries this process's children, and waits for those that were killed and are dying. False: one lives on. */
bool sandbox_no_child_is_left(void);

#endif
