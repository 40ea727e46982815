/*
 * A person as judge. A page shows answers: one HTML file that needs nothing else, made of three files
 * (share/review: review.html with {style}, {data}, {script}, {nonce}; review.css; review.js) and the samples
 * as JSON. Answers are hostile: in the JSON every <, > and & is escaped, the script puts them in as text
 * only, and the page's own policy lets nothing run but the script whose nonce is a checksum of the data.
 *
 * What was marked comes back as the page saves it:
 *
 *     {"format": "metier-review", "version": 1, "marks": [
 *       {"task": "gsm8k", "id": "0", "answer_hash": "...", "question_hash": "...", "verdict": "correct"},
 * ...]}
 */
#ifndef MT_EVAL_REVIEW_H
#define MT_EVAL_REVIEW_H

#include "eval/judges/judged_run.h"

struct mt_review_options {
    const char *share; // the folder of the three files
    int64_t sample;    // so many answers, drawn from all; 0: all
    uint64_t seed;
};

/* Writes the page. *count (may be NULL): the answers on it. */
enum mt_status mt_review_page_write(struct mt_context *ctx, const struct mt_judged_run *run,
                                    const struct mt_review_options *options, const char *path, size_t *count);

/*
 * Enters the marks of a file into a run and writes FOLDER/review_TASK.jsonl of every task that has marks; a
 * mark replaces an earlier one of the same answer. A mark of a task, sample or answer that the run does not
 * have is refused, and then nothing is written. *count (may be NULL): marks in the file.
 */
enum mt_status mt_review_marks_merge(struct mt_context *ctx, struct mt_judged_run *run, const char *path,
                                     size_t *count);

#endif
