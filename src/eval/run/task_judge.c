/* The sandbox of the tasks at hand. */
#include "eval/run/task_judge.h"

#define PROGRAM_SECONDS 60 // of an answer that is run

enum mt_status mt_task_judge_open(struct mt_context *ctx, const struct mt_task_list *list,
                                  bool without_sandbox, struct mt_task_judge *judge)
{
    const struct mt_task *task = NULL;
    *judge = (struct mt_task_judge){0};
    for (size_t i = 0; i < list->count && task == NULL; i++) {
        if (list->tasks[i].compare == MT_COMPARE_CODE) task = &list->tasks[i];
    }
    if (task == NULL) return MT_OK;
    judge->needed = true;
    judge->sandbox = (struct mt_sandbox_judge){.ctx = ctx, .options = mt_sandbox_defaults()};
    // Processor time is limited more: a busy machine fails nobody.
    judge->sandbox.options.seconds = PROGRAM_SECONDS;
    judge->sandbox.options.without_sandbox = without_sandbox;
    mt_sandbox_adopt_orphans();
    mt_sandbox_cgroups_open(&judge->cgroups, MT_CGROUP_ROOT, MT_CGROUP_OWN);
    judge->sandbox.options.cgroups = &judge->cgroups;
    enum mt_status status = mt_sandbox_judge_check(&judge->sandbox);
    if (status == MT_OK) return MT_OK;
    return mt_fail_within(ctx, status, "task %s runs programs that a model wrote", task->name);
}

void mt_task_judge_close(struct mt_task_judge *judge)
{
    mt_sandbox_cgroups_close(&judge->cgroups);
}
