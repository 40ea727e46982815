/* The judge of programs: each in a sandbox of its own, several at a time. */
#ifndef MT_EVAL_CODE_JUDGE_H
#define MT_EVAL_CODE_JUDGE_H

#include "eval/answerer.h"
#include "eval/sandbox_many.h"

struct mt_sandbox_judge {
    struct mt_context *ctx; // borrowed
    struct mt_sandbox_options options;
    int at_once; // programs; 0: as many as the machine has processors
};

/*
 * Runs a program that does nothing, to learn before hours are spent whether programs can be run here.
 * MT_ERR_UNSUPPORTED has the reason and the cure.
 */
enum mt_status mt_sandbox_judge_check(const struct mt_sandbox_judge *judge);

/* The judge, as long as the struct stays where it is. */
struct mt_code_judge mt_sandbox_code_judge(struct mt_sandbox_judge *judge);

#endif
