/* The sandbox of the tasks at hand. */
#include "eval/run/task_judge.h"

#include <stdio.h>
#include <string.h>

#define PROGRAM_SECONDS 60 // of an answer that is run

struct mt_judge_command mt_task_command(const struct mt_task *task, char folder[MT_TASK_FOLDER_BYTES])
{
    const char *slash = task->file != NULL ? strrchr(task->file, '/') : NULL;
    int written =
        snprintf(folder, MT_TASK_FOLDER_BYTES, "%.*s", slash != NULL ? (int)(slash - task->file + 1) : 0,
                 task->file != NULL ? task->file : "");
    bool here = slash == NULL || written >= MT_TASK_FOLDER_BYTES;
    return mt_judge_command_for(task->command, here ? NULL : folder);
}

/* A judge that is not there, or lacks what it imports, fails with no rows, too. */
static enum mt_status check_command(struct mt_context *ctx, const struct mt_task *task)
{
    char folder[MT_TASK_FOLDER_BYTES];
    char problem[MT_COMMAND_PROBLEM_BYTES];
    struct mt_judge_command command = mt_task_command(task, folder);
    enum mt_status status = mt_judge_command_run(ctx, &command, mt_text_of(""), 0, NULL, problem);
    if (status != MT_OK || problem[0] == '\0') return status;
    return mt_fail(ctx, MT_ERR_UNSUPPORTED, "task %s: its judge, '%s', %s", task->name, task->command[0],
                   problem);
}

enum mt_status mt_task_judge_by_command(struct mt_context *ctx, const struct mt_answers_to_judge *answers,
                                        char problem[MT_COMMAND_PROBLEM_BYTES])
{
    char folder[MT_TASK_FOLDER_BYTES];
    char found[MT_COMMAND_PROBLEM_BYTES] = "";
    struct mt_judge_command command = mt_task_command(answers->grader->task, folder);
    struct mt_text_writer rows = {.text = {.ctx = ctx}};
    enum mt_status status = MT_OK;
    size_t count = 0;
    for (size_t at = 0; at < answers->count * answers->tries && status == MT_OK; at++) {
        const struct mt_task_sample *sample = &answers->samples[at / answers->tries];
        if (!answers->answered[at / answers->tries]) continue;
        status = mt_grade_row(answers->grader, sample, mt_text_in(&answers->answers[at]), &answers->found[at],
                              &rows);
        count++;
    }
    if (status == MT_OK && count > 0)
        status = mt_judge_command_run(ctx, &command, mt_text_in(&rows.text), count, answers->verdicts, found);
    mt_byte_list_free(&rows.text);
    if (problem[0] == '\0') memcpy(problem, found, sizeof found);
    return status;
}

enum mt_status mt_task_judge_open(struct mt_context *ctx, const struct mt_task_list *list,
                                  bool without_sandbox, struct mt_task_judge *judge)
{
    const struct mt_task *task = NULL;
    *judge = (struct mt_task_judge){0};
    for (size_t i = 0; i < list->count && task == NULL; i++) {
        if (mt_task_runs_programs(&list->tasks[i])) task = &list->tasks[i];
    }
    for (size_t i = 0; i < list->count; i++) {
        if (list->tasks[i].compare != MT_COMPARE_COMMAND) continue;
        enum mt_status checked = check_command(ctx, &list->tasks[i]);
        if (checked != MT_OK) return checked;
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
