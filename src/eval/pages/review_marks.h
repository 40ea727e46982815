/*
 * What a person marked on a review page, as the page saves it:
 *
 *     {"format": "metier-review", "version": 1, "marks": [
 *       {"task": "gsm8k", "id": "0", "answer_hash": "...", "verdict": "correct"}, ...]}
 */
#ifndef MT_EVAL_REVIEW_MARKS_H
#define MT_EVAL_REVIEW_MARKS_H

#include "eval/judges/judged_run.h"

/*
 * Enters the marks of a file into a run and writes FOLDER/review_TASK.jsonl of every task that has marks; a
 * mark replaces an earlier one of the same answer. A mark of a task, sample or answer that the run does not
 * have is refused, and then nothing is written. *count (may be NULL): marks in the file.
 */
enum mt_status mt_review_marks_merge(struct mt_context *ctx, struct mt_judged_run *run, const char *path,
                                     size_t *count);

#endif
