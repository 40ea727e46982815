/*
 * What came out of each sample, one JSON object a line, appended as samples are done. A file that is there
 * already is continued: samples in it with the same id, the same prompt and the same content (`sample_hash`,
 * which lines of older versions do not have) are not asked again. A last line without its end, as a killed
 * process leaves it, is cut off.
 */
#ifndef MT_EVAL_RESULTS_H
#define MT_EVAL_RESULTS_H

#include <stdbool.h>

#include "base/files/digest.h"
#include "eval/answerer.h"
#include "eval/answers/metric.h"
#include "eval/run/judged_by.h"
#include "eval/tasks/task.h"

struct mt_results; // opaque

/* Opens or creates a file; `by` (borrowed) judges now, and says how questions are put. The caller closes. */
enum mt_status mt_results_open(struct mt_context *ctx, const char *path, const struct mt_judged_by *by,
                               struct mt_results **results);

/* Brings everything to the disk and closes; NULL is allowed. What was open is freed whatever happens. */
enum mt_status mt_results_close(struct mt_results *results);

/* True when nothing was done before. */
bool mt_results_empty(const struct mt_results *results);

/* The outcome of a sample done before; false: it was not, or with another prompt or content. */
bool mt_results_find(const struct mt_results *results, const char *id, struct mt_text prompt,
                     const struct mt_digest_text *content, struct mt_outcome *outcome);

/* Answers of a sample that somebody else judged. */
struct mt_old_answers {
    const struct mt_results *results;
    size_t at; // where they lie
    uint64_t answers, scores;
};

/* True when that outcome is another judge's, or nobody knows whose: the answers are to be judged again. */
bool mt_results_old(const struct mt_results *results, const char *id, struct mt_text prompt,
                    struct mt_old_answers *old);
struct mt_text mt_old_answer(const struct mt_old_answers *old, size_t index);        // index < answers
struct mt_choice_score mt_old_score(const struct mt_old_answers *old, size_t index); // index < scores

/* Who judged the first of them; "": unknown. And how many samples were asked in another way: they are not
 * done. */
const char *mt_results_old_judge(const struct mt_results *results);
size_t mt_results_asked_otherwise(const struct mt_results *results);

struct mt_result_record {
    size_t number; // of the sample in its task
    const char *id;
    struct mt_text prompt;
    struct mt_digest_text content; // mt_sample_sum
    struct mt_text target;
    const struct mt_text *answers; // [count], as the model gave them
    const struct mt_text *found;   // [count], what was extracted
    size_t count;
    const struct mt_task_filter *filters; // [filter_count], the task's; of the others `other` is what they
    size_t filter_count;                  // found, their scores are in the outcome
    const struct mt_text *other;          // [filter_count - 1]
    const struct mt_text
        *why; // [count], why a program did not pass, or empty; NULL: all passed, or no programs
    const struct mt_choice_question *choosing; // with its scores; NULL: the answers were written
    const char *form;                          // of the text it was put in; NULL: not known
    struct mt_outcome outcome;
};

enum mt_status mt_results_add(struct mt_results *results, const struct mt_result_record *record);

#endif
