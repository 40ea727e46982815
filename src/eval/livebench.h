/*
 * Judging LiveBench's tasks whose answers no text can be held against (LiveBench/LiveBench,
 * livebench/process_results; instructions as google-research/instruction_following_eval checks them). Texts
 * are valid UTF-8.
 */
#ifndef MT_EVAL_LIVEBENCH_H
#define MT_EVAL_LIVEBENCH_H

#include "eval/prompt.h"

/*
 * Instruction following: the row's `instruction_id_list` names instructions, its `kwargs` holds an object of
 * values for each. The score is the mean of the share that is followed and of 1 where all are, else 0. An
 * instruction nobody can judge here is refused as "FILE:LINE: ...".
 */
enum mt_status mt_livebench_instructions(struct mt_context *ctx, const struct mt_row *row,
                                         struct mt_text answer, double *score);

/* One instruction; *known is false, and nothing else set, where there is no rule of that name. */
enum mt_status mt_livebench_follows(struct mt_context *ctx, const char *instruction,
                                    const struct mt_json_node *values, struct mt_text answer, bool *known,
                                    bool *followed);

#endif
