/*
 * A language model behind an endpoint as judge of a run: question, reference answer and answer go out, a
 * verdict comes back and is appended to FOLDER/judge_TASK.jsonl, signed. What has a verdict of this judge is
 * not asked again; what holds none that can be read is, twice, with a reminder, and again with the next call.
 *
 * The prompt is a text (share/judge/prompt.txt) with {question}, {reference}, {answer} and {mark} in it;
 * nothing else in it is special, and nothing in the texts put in is. {mark} is a checksum of the texts: a
 * line that carries it cannot have been written into them by chance.
 */
#ifndef MT_EVAL_JUDGE_LLM_H
#define MT_EVAL_JUDGE_LLM_H

#include <stdio.h>

#include "base/log.h"
#include "eval/endpoint/http.h"
#include "eval/judges/judged_run.h"

/* Refuses a template that lacks {question}, {reference} or {answer}; `file` stands in the message. */
enum mt_status mt_judge_prompt_check(struct mt_context *ctx, const char *file, const char *template);

/* Appends the template filled in. The sample has a question. */
enum mt_status mt_judge_prompt_render(struct mt_context *ctx, const char *template,
                                      const struct mt_judged_sample *sample, struct mt_byte_list *out);

/* CORRECT, INCORRECT or UNSURE in what a judge wrote (verdict.c); unreadable where it does not say, or says
 * one thing and another. */
enum mt_verdict mt_judge_prompt_verdict(const char *text, size_t bytes);

struct mt_llm_judge_options {
    const char *model;
    const char *template; // of the prompt, NUL-terminated
    int64_t max_tokens;   // of a reply; 0: the endpoint's own limit
    bool no_temperature;  // requests do not ask for temperature 0, which some models refuse
    struct mt_http_options http;
    FILE *terminal;           // progress; NULL: none
    const struct mt_log *log; // NULL: silent
};

#define MT_LLM_JUDGE_WHY 512

struct mt_llm_judge_report {
    size_t kept;                // had a verdict before
    size_t judged;              // got one now
    size_t failed;              // got none
    char why[MT_LLM_JUDGE_WHY]; // of the first that failed
};

/*
 * Asks about every sample of the run that has no verdict, and enters the verdicts into the run. Verdicts of
 * another judge (model, endpoint, prompt, temperature, version) do not count: these answers are judged again,
 * which the log is told. What was judged before a failure is kept.
 */
enum mt_status mt_llm_judge(struct mt_context *ctx, const struct mt_llm_judge_options *options,
                            struct mt_judged_run *run, struct mt_llm_judge_report *report);

#endif
