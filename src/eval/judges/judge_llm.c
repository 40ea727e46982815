/* Judging a run with a language model. */
#include "eval/judges/judge_llm.h"

#include <string.h>

#include "base/files/folder_lock.h"
#include "base/progress.h"
#include "eval/judges/chat_api.h"
#include "eval/judges/judge_prompt.h"
#include "eval/run/line_file.h"
#include "eval/run/results.h"

#define MOST_FAILURES 20 // before the first verdict: then something is wrong with all of them
#define REPLY_BYTES   8192

/* One task being judged. */
struct judging {
    struct mt_context *ctx;
    const struct mt_llm_judge_options *options;
    struct mt_llm_judge_report *report;
    struct mt_judged_task *task;
    struct mt_digest_text prompt_hash;
    size_t *open; // [open_count]: samples without a verdict
    size_t open_count;
    const char *folder; // of the run, held
    int held;
    struct mt_line_file file;
    struct mt_byte_list prompt;
    struct mt_byte_list text;
    struct mt_byte_list line;
    struct mt_progress *progress;
};

static enum mt_status make_request(void *self, size_t index, struct mt_byte_list *body)
{
    struct judging *judging = self;
    const struct mt_judged_sample *sample = &judging->task->samples[judging->open[index]];
    judging->prompt.count = 0;
    enum mt_status status =
        mt_judge_prompt_render(judging->ctx, judging->options->template, sample, &judging->prompt);
    if (status != MT_OK) return status;
    return mt_chat_request(judging->options->model, (const char *)judging->prompt.data, judging->prompt.count,
                           judging->options->max_tokens, body);
}

static void show(struct judging *judging)
{
    const struct mt_llm_judge_report *report = judging->report;
    mt_progress_update(judging->progress, (int64_t)(report->kept + report->judged + report->failed));
}

static enum mt_status note_failure(void *self, size_t index, const char *why)
{
    struct judging *judging = self;
    struct mt_llm_judge_report *report = judging->report;
    const struct mt_judged_sample *sample = &judging->task->samples[judging->open[index]];
    if (report->failed == 0)
        (void)snprintf(report->why, sizeof report->why, "task %s, id %.64s: %.300s", judging->task->name,
                       sample->id, why);
    report->failed++;
    show(judging);
    if (report->judged == 0 && report->failed >= MOST_FAILURES)
        return mt_fail(judging->ctx, MT_ERR_IO, "the first %d answers all got no verdict (%s)", MOST_FAILURES,
                       report->why);
    return MT_OK;
}

/* A verdict with who gave it, and what was said: cut where somebody talks too long. */
static enum mt_status write_verdict(struct judging *judging, const struct mt_judged_sample *sample,
                                    enum mt_verdict verdict)
{
    struct mt_byte_list *line = &judging->line;
    const char *model = judging->options->model;
    struct mt_text name = {.text = model, .bytes = strlen(model)};
    size_t bytes = judging->text.count;
    struct mt_text said = {.text = (const char *)judging->text.data,
                           .bytes = bytes < REPLY_BYTES ? bytes : REPLY_BYTES};
    line->count = 0;
    enum mt_status status = mt_judged_append_verdict(line, sample, verdict);
    if (status == MT_OK) status = mt_byte_list_append_text(line, ", \"model\": ");
    if (status == MT_OK) status = mt_results_append_string(line, name);
    if (status == MT_OK) status = mt_byte_list_append_text(line, ", \"prompt_hash\": \"");
    if (status == MT_OK) status = mt_byte_list_append_text(line, judging->prompt_hash.digits);
    if (status == MT_OK) status = mt_byte_list_append_text(line, "\", \"reply\": ");
    if (status == MT_OK) status = mt_results_append_string(line, said);
    if (status == MT_OK) status = mt_byte_list_append_text(line, "}\n");
    if (status == MT_OK) status = mt_folder_check(judging->ctx, judging->folder, judging->held);
    return status == MT_OK ? mt_line_file_append(&judging->file, line) : status;
}

static enum mt_status take_reply(void *self, size_t index, const struct mt_byte_list *body)
{
    struct judging *judging = self;
    struct mt_judged_sample *sample = &judging->task->samples[judging->open[index]];
    judging->text.count = 0;
    enum mt_status status =
        mt_chat_reply(judging->ctx, body->data, body->count, judging->options->http.key, &judging->text);
    if (status == MT_ERR_FORMAT) return note_failure(self, index, judging->ctx->message);
    if (status != MT_OK) return status;
    enum mt_verdict verdict = mt_judge_prompt_verdict((const char *)judging->text.data, judging->text.count);
    status = write_verdict(judging, sample, verdict);
    if (status != MT_OK) return status;
    sample->verdicts[MT_JUDGE_LLM] = verdict;
    judging->report->judged++;
    show(judging);
    return MT_OK;
}

/* The verdicts are in the run already. */
static enum mt_status pass_over(void *self, const struct mt_json_node *line)
{
    (void)self;
    (void)line;
    return MT_OK;
}

static enum mt_status check_task(const struct judging *judging)
{
    const struct mt_judged_task *task = judging->task;
    if (task->model != NULL && strcmp(task->model, judging->options->model) != 0)
        return mt_fail(
            judging->ctx, MT_ERR_USAGE,
            "judge_%s.jsonl holds verdicts of %.200s; one model judges a run: take the file away to "
            "judge with %.200s",
            task->name, task->model, judging->options->model);
    if (task->prompt_hash != NULL && strcmp(task->prompt_hash, judging->prompt_hash.digits) != 0)
        return mt_fail(judging->ctx, MT_ERR_USAGE,
                       "judge_%s.jsonl holds verdicts that were asked for with another prompt: take the file "
                       "away to judge anew",
                       task->name);
    for (size_t i = 0; i < task->count; i++) {
        if (task->samples[i].question == NULL)
            return mt_fail(judging->ctx, MT_ERR_FORMAT,
                           "samples_%s.jsonl does not hold the questions (sample %s): it was written by an "
                           "older version, evaluate again into a new folder",
                           task->name, task->samples[i].id);
    }
    return MT_OK;
}

static enum mt_status judge_open(struct judging *judging, struct mt_judged_run *run)
{
    const char *path = NULL;
    const struct mt_http_work work = {.count = judging->open_count,
                                      .self = judging,
                                      .request = make_request,
                                      .reply = take_reply,
                                      .refused = note_failure};
    enum mt_status status = mt_folder_check(judging->ctx, judging->folder, judging->held);
    if (status == MT_OK) status = mt_judged_path(run, "judge", judging->task->name, &path);
    if (status == MT_OK) status = mt_line_file_open(judging->ctx, path, pass_over, NULL, &judging->file);
    if (status == MT_OK) status = mt_http_post_all(judging->ctx, &judging->options->http, &work);
    enum mt_status closed = mt_line_file_close(&judging->file);
    return status == MT_OK ? closed : status;
}

static enum mt_status judge_task(struct judging *judging, struct mt_judged_run *run)
{
    void *memory = NULL;
    size_t count = judging->task->count;
    enum mt_status status = mt_allocate_array(judging->ctx, count, sizeof *judging->open, &memory);
    if (status != MT_OK) return status;
    judging->open = memory;
    judging->open_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (judging->task->samples[i].verdicts[MT_JUDGE_LLM] == MT_VERDICT_NONE)
            judging->open[judging->open_count++] = i;
    }
    judging->report->kept += count - judging->open_count;
    if (judging->open_count > 0) status = judge_open(judging, run);
    mt_release(judging->ctx, judging->open, count * sizeof *judging->open);
    judging->open = NULL;
    return status;
}

enum mt_status mt_llm_judge(struct mt_context *ctx, const struct mt_llm_judge_options *options,
                            struct mt_judged_run *run, struct mt_llm_judge_report *report)
{
    struct mt_progress progress;
    struct judging judging = {.ctx = ctx,
                              .options = options,
                              .folder = run->folder,
                              .report = report,
                              .prompt_hash = mt_digest_of(options->template, strlen(options->template)),
                              .prompt = {.ctx = ctx},
                              .text = {.ctx = ctx},
                              .line = {.ctx = ctx},
                              .progress = &progress};
    size_t total = 0;
    *report = (struct mt_llm_judge_report){0};
    enum mt_status status = mt_http_check(ctx, &options->http);
    for (size_t i = 0; i < run->count && status == MT_OK; i++) {
        judging.task = &run->tasks[i];
        total += judging.task->count;
        status = check_task(&judging);
    }
    if (status == MT_OK) status = mt_folder_hold(ctx, run->folder, &judging.held);
    if (status != MT_OK) return status;
    const struct mt_progress_options shown = {
        .stream = options->terminal, .label = "judging", .unit = "answers", .total = (int64_t)total};
    mt_progress_start(&progress, &shown);
    for (size_t i = 0; i < run->count && status == MT_OK; i++) {
        judging.task = &run->tasks[i];
        status = judge_task(&judging, run);
    }
    status = mt_folder_blame(ctx, status, run->folder, judging.held);
    mt_folder_unlock(judging.held);
    show(&judging);
    mt_progress_finish(&progress);
    mt_byte_list_free(&judging.line);
    mt_byte_list_free(&judging.text);
    mt_byte_list_free(&judging.prompt);
    return status;
}
