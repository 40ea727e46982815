/*
 * What runs the programs that tasks ask for: those a model wrote only in a sandbox, unless somebody says
 * otherwise by name; a judge of the task's own as it is.
 */
#ifndef MT_EVAL_TASK_JUDGE_H
#define MT_EVAL_TASK_JUDGE_H

#include "eval/answers/grade.h"
#include "eval/code/code_judge.h"
#include "eval/judges/judge_command.h"
#include "eval/tasks/task.h"

struct mt_task_judge {
    struct mt_sandbox_judge sandbox;
    struct mt_sandbox_cgroups cgroups; // of the programs it runs
    bool needed;                       // one of the tasks runs programs
};

#define MT_TASK_FOLDER_BYTES 4096

/* The program that judges a task of compare: command. It borrows the task and `folder`. */
struct mt_judge_command mt_task_command(const struct mt_task *task, char folder[MT_TASK_FOLDER_BYTES]);

/* Answers of some samples, `tries` for each. All borrowed. */
struct mt_answers_to_judge {
    const struct mt_grader *grader;
    const struct mt_task_sample *samples; // [count]
    const bool *answered;                 // [count]: the others have no answers and get no verdicts
    size_t count, tries;
    const struct mt_byte_list *answers; // [count · tries]
    struct mt_byte_list *found;         // [count · tries]: what was extracted
    struct mt_code_verdict *verdicts;   // one behind the other, of those that were answered
};

/* Hands them to the program in one go. `problem` is set where it is empty and there is one. */
enum mt_status mt_task_judge_by_command(struct mt_context *ctx, const struct mt_answers_to_judge *answers,
                                        char problem[MT_COMMAND_PROBLEM_BYTES]);

/*
 * Opens a caller-owned judge, which stays where it is until it is closed. Where a task runs programs and they
 * cannot be run here, that is refused: it is known before hours of answering. So is a judge of a task's own
 * that does not end well with no rows. Closed whatever it returned.
 */
enum mt_status mt_task_judge_open(struct mt_context *ctx, const struct mt_task_list *list,
                                  bool without_sandbox, struct mt_task_judge *judge);
void mt_task_judge_close(struct mt_task_judge *judge); // a zeroed struct is allowed

#endif
