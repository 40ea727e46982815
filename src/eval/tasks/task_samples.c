/* Several answers to a question, for pass@k. */
#include "eval/tasks/task.h"

bool mt_task_take_samples(struct mt_task *task, int64_t samples, int64_t k)
{
    size_t at = 0;
    while (at < task->metric_count && task->metrics[at] != MT_METRIC_PASS) at++;
    if (at == task->metric_count) return false;
    task->samples = samples;
    task->pass_k = k;
    if (k == 1 || task->metric_count == MT_TASK_MOST_METRICS) return true;
    for (size_t i = task->metric_count; i > at; i--) task->metrics[i] = task->metrics[i - 1];
    task->metric_count++;
    return true;
}

int64_t mt_task_metric_k(const struct mt_task *task, size_t metric)
{
    for (size_t i = metric + 1; i < task->metric_count; i++) {
        if (task->metrics[i] == MT_METRIC_PASS) return 1;
    }
    return task->pass_k;
}
