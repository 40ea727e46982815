/* What runs the programs that tasks ask for; only in a sandbox, unless somebody says otherwise by name. */
#ifndef MT_EVAL_TASK_JUDGE_H
#define MT_EVAL_TASK_JUDGE_H

#include "eval/code/code_judge.h"
#include "eval/tasks/task.h"

struct mt_task_judge {
    struct mt_sandbox_judge sandbox;
    struct mt_sandbox_cgroups cgroups; // of the programs it runs
    bool needed;                       // one of the tasks runs programs
};

/*
 * Opens a caller-owned judge, which stays where it is until it is closed. Where a task runs programs and they
 * cannot be run here, that is refused: it is known before hours of answering. Closed whatever it returned.
 */
enum mt_status mt_task_judge_open(struct mt_context *ctx, const struct mt_task_list *list,
                                  bool without_sandbox, struct mt_task_judge *judge);
void mt_task_judge_close(struct mt_task_judge *judge); // a zeroed struct is allowed

#endif
