/*
 * A language model behind an endpoint as judge of a run: question, reference answer and answer go out, a
 * verdict comes back and is appended to FOLDER/judge_TASK.jsonl. What has a verdict is not asked again.
 */
#ifndef MT_EVAL_JUDGE_LLM_H
#define MT_EVAL_JUDGE_LLM_H

#include <stdio.h>

#include "eval/judges/judge_http.h"
#include "eval/judges/judged_run.h"

struct mt_llm_judge_options {
    const char *model;
    const char *template; // of the prompt, NUL-terminated
    int64_t max_tokens;   // of a reply; 0: the endpoint's own limit
    struct mt_http_options http;
    FILE *terminal; // progress; NULL: none
};

#define MT_LLM_JUDGE_WHY 512

struct mt_llm_judge_report {
    size_t kept;                // had a verdict before
    size_t judged;              // got one now
    size_t failed;              // got none
    char why[MT_LLM_JUDGE_WHY]; // of the first that failed
};

/*
 * Asks about every sample of the run that has no verdict, and enters the verdicts into the run. One model and
 * one prompt judge a run: a task judged by another is refused. What was judged before a failure is kept.
 */
enum mt_status mt_llm_judge(struct mt_context *ctx, const struct mt_llm_judge_options *options,
                            struct mt_judged_run *run, struct mt_llm_judge_report *report);

#endif
