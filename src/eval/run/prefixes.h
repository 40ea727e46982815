/* Scoring choices that have a prefix each, with answerers that know questions of one prefix. */
#ifndef MT_EVAL_PREFIXES_H
#define MT_EVAL_PREFIXES_H

#include "eval/answerer.h"

/*
 * As the answerer's `score`. A question with `prefixes` is asked in parts, one for each choice; the listener
 * hears of it once: when it has all scores, or when the first part gets none.
 */
enum mt_status mt_score_choices(struct mt_context *ctx, const struct mt_answerer *answerer,
                                const struct mt_choice_question *questions, size_t count,
                                const struct mt_answer_listener *listener);

#endif
