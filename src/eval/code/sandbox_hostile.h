/*
 * Programs that try to get out, to do harm, or to cheat, each with how it must end. What `metier sandbox
 * --check` runs to tell whether the sandbox holds on this machine. The tests run these and those of
 * tests/support/hostile_programs.h.
 *
 * A program that attacks reaches its last line, and so passes, only if the attack has worked.
 */
#ifndef MT_EVAL_SANDBOX_HOSTILE_H
#define MT_EVAL_SANDBOX_HOSTILE_H

#include "eval/code/code_trial.h"
#include "eval/code/sandbox_many.h"

#define MT_ENDS(outcome) (1u << MT_SANDBOX_##outcome)

// What several programs begin with: a system call by number, or by x86-64 and aarch64 number.
#define MT_PYTHON_CALLS                                                                                      \
    "import ctypes, os, platform\n"                                                                          \
    "libc = ctypes.CDLL(None, use_errno=True)\n"                                                             \
    "x86 = platform.machine() == 'x86_64'\n"                                                                 \
    "def call(numbers, *arguments):\n"                                                                       \
    "    number = numbers[0 if x86 else 1]\n"                                                                \
    "    return libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) for a in arguments])\n"

struct mt_hostile_case {
    const char *name;
    const char *program;  // with PARENT, CANARY and HOME of struct mt_hostile_setting defined
    double seconds;       // 0: the suite's
    int64_t cpu_seconds;  // 0: the suite's
    unsigned expected;    // outcomes that mean it was contained: 1u << enum mt_sandbox_outcome
    const char *contains; // what the end of standard error must hold; NULL: anything
};

/* What attacks are aimed at. */
struct mt_hostile_setting {
    const char *canary; // absolute path of a file of ours that no program may see or change
    const char *home;   // our home folder
};

/* The cases; `count` of them. They live forever. */
const struct mt_hostile_case *mt_hostile_cases(size_t *count);

/* Limits small enough that the whole suite takes seconds, and times that only a hang exceeds. */
struct mt_sandbox_options mt_hostile_options(void);

/* Appends the program of a case to an empty text. */
enum mt_status mt_hostile_program(const struct mt_hostile_case *hostile,
                                  const struct mt_hostile_setting *setting, struct mt_byte_list *text);

/* The limits of a case, in place of the suite's. */
void mt_hostile_limit(const struct mt_hostile_case *hostile, struct mt_sandbox_options *options);

/* Ended as it must. */
bool mt_hostile_contained(const struct mt_hostile_case *hostile, const struct mt_sandbox_result *result);

/* Answers that solve nothing; none may pass its tests. */
struct mt_cheat {
    const char *name;
    const char *program; // ENTRY: the function under test
};

/* The cheats; `count` of them. They live forever. */
const struct mt_cheat *mt_cheats(size_t *count);

/* Appends a cheat as the answer to a task about a function called `entry`. */
enum mt_status mt_cheat_answer(const struct mt_cheat *cheat, const char *entry, struct mt_byte_list *text);

/* A small task about a function called twice, for an answer, which is borrowed. */
struct mt_code_trial mt_cheat_trial(const struct mt_byte_list *answer);

#endif
