/* Judging answers to a sample. */
#ifndef MT_EVAL_GRADE_H
#define MT_EVAL_GRADE_H

#include "eval/answerer.h"
#include "eval/tasks/task_data.h"

/* What judges the answers of one task. */
struct mt_grader {
    struct mt_context *ctx; // borrowed
    const struct mt_task *task;
    struct mt_extractor *extractors[MT_MOST_FILTERS]; // of the task's filters
    const struct mt_code_judge *judge;                // borrowed; NULL: programs cannot be run
};

/* The caller frees. A task of programs is refused without a judge. */
enum mt_status mt_grader_open(struct mt_context *ctx, const struct mt_task *task,
                              const struct mt_code_judge *judge, struct mt_grader *grader);
void mt_grader_free(struct mt_grader *grader);

/* True when answers to the task are programs, which are judged by running them. */
bool mt_grader_runs_programs(const struct mt_grader *grader);

/* True when a program judges the answers. */
bool mt_grader_asks_command(const struct mt_grader *grader);

/* Of such a task: appends one answer as the program gets it, a line of JSON. The rest is as below. */
enum mt_status mt_grade_row(const struct mt_grader *grader, const struct mt_task_sample *sample,
                            struct mt_text text, struct mt_byte_list *extracted, struct mt_text_writer *rows);

/* The outcome of so many answers that a program judged. Without a verdict the score is NaN. */
void mt_grade_command(const struct mt_code_verdict *verdicts, size_t count, struct mt_outcome *outcome);

/*
 * Of such a task: what tries one answer; no answer where it holds no program. The trial's texts are appended
 * to the empty parts, or are the sample's. `extracted` is replaced by what was found. *unjudged is 1 where
 * that took more work than allowed, else 0.
 */
enum mt_status mt_grade_program(const struct mt_grader *grader, const struct mt_task_sample *sample,
                                struct mt_text text, struct mt_byte_list *extracted,
                                struct mt_byte_list parts[MT_TRIAL_PARTS], struct mt_code_trial *trial,
                                int64_t *unjudged);

/* The outcome of so many answers, of which some passed. The first one's verdict is the score. */
void mt_grade_passed(const struct mt_code_verdict *verdicts, size_t count, struct mt_outcome *outcome);

/*
 * Judges one answer that was written, of any other task. `extracted` is replaced by what was found in it. The
 * outcome's score, predicted and gold are set; tries is 1. An answer whose judging takes more work than
 * allowed has score 0 and is `unjudged`.
 */
enum mt_status mt_grade(const struct mt_grader *grader, const struct mt_task_sample *sample,
                        struct mt_text text, struct mt_byte_list *extracted, struct mt_outcome *outcome);

/* The same by the task's filter of that number; 0 is what mt_grade asks. */
enum mt_status mt_grade_filter(const struct mt_grader *grader, size_t filter,
                               const struct mt_task_sample *sample, struct mt_text text,
                               struct mt_byte_list *extracted, struct mt_outcome *outcome);

/*
 * Judges choices by their log-likelihoods; returns the likeliest, -1: none is finite, and that is wrong.
 * Where several choices may be right the score is the share of all probability that the right ones have. A
 * choice whose log-likelihood is not finite is never taken and has no share.
 */
int mt_grade_likeliest(const struct mt_task *task, const struct mt_task_sample *sample,
                       const struct mt_choice_question *question, struct mt_outcome *outcome);

/* The same for a choice that was made. */
void mt_grade_choice(const struct mt_task_sample *sample, int chosen, struct mt_outcome *outcome);

#endif
