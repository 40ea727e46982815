/* LiveBench's judges of mathematical contests, for answers.c. */
#ifndef MT_EVAL_LIVEBENCH_CONTESTS_H
#define MT_EVAL_LIVEBENCH_CONTESTS_H

#include "eval/livebench/python.h"

struct mt_livebench_question {
    struct mt_text text;   // the question
    struct mt_text truth;  // the right answer
    struct mt_text answer; // the model's
    const char *released;  // "2024-11-25"
};

/* AMC and SMC: the letter of a choice, or the choice itself at the end. */
double mt_livebench_judge_contest(struct mt_python *python, const struct mt_livebench_question *question);

/* AIME: the number at the end. */
double mt_livebench_judge_aime(struct mt_python *python, const struct mt_livebench_question *question);

/* IMO and USAMO: numbers of formulae in order; 1 - edits / numbers of the longer list. */
double mt_livebench_judge_olympiad(struct mt_python *python, const struct mt_livebench_question *question);

#endif
