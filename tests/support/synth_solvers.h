/* Solving built-in problems from their prompts alone, to hold their answers against. */
#ifndef MT_TESTS_SYNTH_SOLVERS_H
#define MT_TESTS_SYNTH_SOLVERS_H

#include "synth/synth.h"

#define SOLVED_BYTES 64

/* Writes what the prompt asks for; false: the prompt makes no sense. */
typedef bool (*synth_solve_fn)(const char *prompt, char answer[SOLVED_BYTES]);

#define MATCHED_BYTES 32

/*
 * Reads a whole text by a pattern: '#' is a whole number (int *), '@' some letters and digits (char
 * [MATCHED_BYTES]), '~' any one character (char *), a '*' at the end any rest; the others stand for
 * themselves.
 */
bool synth_match(const char *text, const char *pattern, ...);

struct synth_solver {
    const char *task;
    synth_solve_fn solve;
};

/*
 * Solves `each` items of every sub-task of a domain at every difficulty. Returns how many answers differ,
 * prints the first few; a sub-task without a solver counts as a difference.
 */
int synth_compare(enum mt_task_domain domain, const struct synth_solver *solvers, size_t count, int each);

#endif
