/*
 * Who judged a sample, and how it was asked: noted with every verdict, so that a folder judged by other rules
 * is judged again from the answers it has, and one whose answers had another limit is asked again.
 */
#ifndef MT_EVAL_JUDGED_BY_H
#define MT_EVAL_JUDGED_BY_H

#include "base/files/digest.h"
#include "eval/tasks/task.h"

#define MT_JUDGED_BY_BYTES 96

/* The rules that are compiled in: a checksum of their sources and data. */
const char *mt_judging_rules(void);

struct mt_judged_by {
    char judge[MT_JUDGED_BY_BYTES]; // "rules 0f3a…, task version 2, keys 9c…": the rules, and the task's own
    struct mt_digest_text asked;    // of the limit and the stop texts, or of what is scored
};

enum mt_status mt_judged_by_find(struct mt_context *ctx, const struct mt_task *task, bool scores,
                                 struct mt_judged_by *by);

#endif
