/*
 * An answer that is a program, and what tests it: two programs in two interpreters (src/eval/code/python).
 *
 *     the answer's   runs `answer`, then answers calls; it has nothing of the tests
 *     the judge's    runs `given` (the task's own solution, with helpers and imports), then `tests`, in which
 * the names of `calls` are functions of the answer's
 *
 * Arguments and results travel as data (wire.py) and are rebuilt as Python's own types: comparing them runs
 * no code of the answer's. The answer has passed when the tests have run through.
 *
 * By cases (row_cases.h) it is the same two interpreters, with other parts:
 *
 *     the answer's   runs `answer` anew for every case, in a process of its own, on an input it is given
 *     the judge's    has the cases, hands over one input after another and compares what comes back with the
 * right output, which the answer's interpreter never gets
 */
#ifndef MT_EVAL_CODE_TRIAL_H
#define MT_EVAL_CODE_TRIAL_H

#include "eval/text.h"

enum mt_trial_part {
    MT_TRIAL_ANSWER, // nothing: there was no program in the answer, which fails
    MT_TRIAL_GIVEN,  // may be nothing; by cases: the public ones
    MT_TRIAL_TESTS,  // by cases: the private ones
    MT_TRIAL_CALLS,  // "name=answers_name ..."; nothing: the names that `given` defines, or nobody, and tests
                     // use; by cases: what mt_row_cases_write wrote
    MT_TRIAL_PARTS
};

enum mt_trial_kind {
    MT_TRIAL_BY_CALLS,
    MT_TRIAL_BY_CASES,
};

struct mt_code_trial {
    enum mt_trial_kind kind;
    struct mt_text part[MT_TRIAL_PARTS]; // borrowed
};

/* That Python, as text in the program: CMake makes the arrays. */
extern const char mt_python_wire[];         // values between the two interpreters
extern const char mt_python_answer[];       // of the answer's
extern const char mt_python_tests[];        // of the tests'
extern const char mt_python_cases_answer[]; // of the answer's, by cases
extern const char mt_python_cases_judge[];  // of the judge's, by cases

/* Append the two programs, for mt_sandbox_run_many. The texts may hold any bytes. */
enum mt_status mt_code_trial_program(const struct mt_code_trial *trial, struct mt_byte_list *text);
enum mt_status mt_code_trial_judge(const struct mt_code_trial *trial, struct mt_byte_list *text);

#endif
