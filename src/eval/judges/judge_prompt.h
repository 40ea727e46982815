/*
 * What a language model is asked about an answer, and its verdict in what it says. The template is a text
 * (share/judge/prompt.txt) with {question}, {reference}, {answer} and {mark} in it; nothing else in it is
 * special, and nothing in the texts put in is. {mark} is a checksum of the texts: a line that carries it
 * cannot have been written into them by chance.
 */
#ifndef MT_EVAL_JUDGE_PROMPT_H
#define MT_EVAL_JUDGE_PROMPT_H

#include "eval/judges/judged_run.h"

/* Refuses a template that lacks {question}, {reference} or {answer}; `file` stands in the message. */
enum mt_status mt_judge_prompt_check(struct mt_context *ctx, const char *file, const char *template);

/* Appends the template filled in. The sample has a question. */
enum mt_status mt_judge_prompt_render(struct mt_context *ctx, const char *template,
                                      const struct mt_judged_sample *sample, struct mt_byte_list *out);

/* The last line that is not empty says CORRECT, INCORRECT or UNSURE, or the verdict is unreadable. */
enum mt_verdict mt_judge_prompt_verdict(const char *text, size_t bytes);

#endif
