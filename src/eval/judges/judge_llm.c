/* Judging a run with a language model: asking, finding the verdict, writing it down. */
#include "eval/judges/judge_llm.h"

#include <string.h>

#include "base/amount.h"
#include "base/files/folder_lock.h"
#include "base/progress.h"
#include "eval/endpoint/chat_api.h"
#include "eval/run/line_file.h"

#define MOST_FAILURES 20 // before the first verdict: then something is wrong with all of them
#define REPLY_BYTES   8192
#define MARK_DIGITS   12
#define MOST_ASKED    3 // times about one answer, while replies hold no verdict
#define VERSION       2 // rises when what is asked beside the prompt changes, or how a reply is read
#define BY_BYTES      (MT_HTTP_PLACE_BYTES + 512)

// Behind the prompt where a reply held no verdict.
static const char reminder[] =
    "\n\nA first reply to this held no verdict. End with a line that holds exactly one of these words and "
    "nothing else: CORRECT, INCORRECT or UNSURE.\n";

// ------------------------------------------------------------------ the prompt

enum blank { QUESTION, REFERENCE, ANSWER, MARK, BLANKS };

static const char *const blank_names[BLANKS] = {"{question}", "{reference}", "{answer}", "{mark}"};

enum mt_status mt_judge_prompt_check(struct mt_context *ctx, const char *file, const char *template)
{
    for (int blank = 0; blank < MARK; blank++) {
        if (strstr(template, blank_names[blank]) == NULL)
            return mt_fail(ctx, MT_ERR_FORMAT, "%s: the prompt has no %s in it", file, blank_names[blank]);
    }
    return MT_OK;
}

static enum mt_status mark_of(struct mt_context *ctx, const struct mt_judged_sample *sample,
                              char mark[MARK_DIGITS + 1])
{
    struct mt_digest *digest = NULL;
    enum mt_status status = mt_digest_create(ctx, &digest);
    if (status != MT_OK) return status;
    mt_digest_add(digest, sample->question, strlen(sample->question));
    mt_digest_add(digest, sample->reference, strlen(sample->reference));
    mt_digest_add(digest, sample->answer, strlen(sample->answer));
    struct mt_digest_text text = mt_digest_finish(digest);
    mt_digest_free(digest);
    memcpy(mark, text.digits, MARK_DIGITS);
    mark[MARK_DIGITS] = '\0';
    return MT_OK;
}

enum mt_status mt_judge_prompt_render(struct mt_context *ctx, const char *template,
                                      const struct mt_judged_sample *sample, struct mt_byte_list *out)
{
    char mark[MARK_DIGITS + 1];
    const char *const values[BLANKS] = {sample->question, sample->reference, sample->answer, mark};
    enum mt_status status = mark_of(ctx, sample, mark);
    while (*template != '\0' && status == MT_OK) {
        int blank = 0;
        while (blank < BLANKS && strncmp(template, blank_names[blank], strlen(blank_names[blank])) != 0)
            blank++;
        if (blank < BLANKS) {
            status = mt_byte_list_append_text(out, values[blank]);
            template += strlen(blank_names[blank]);
            continue;
        }
        size_t plain = 1 + strcspn(template + 1, "{");
        status = mt_byte_list_append(out, template, plain);
        template += plain;
    }
    return status;
}

// ------------------------------------------------------------------ a task

/* One task being judged. */
struct llm_judging {
    struct mt_context *ctx;
    const struct mt_llm_judge_options *options;
    struct mt_llm_judge_report *report;
    struct mt_judged_task *task;
    struct mt_digest_text prompt_hash;
    char by[BY_BYTES]; // who judges
    size_t *open;      // [open_count]: samples without a verdict that could be read
    size_t open_count;
    int asked;          // times before
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
    struct llm_judging *judging = self;
    const struct mt_judged_sample *sample = &judging->task->samples[judging->open[index]];
    judging->prompt.count = 0;
    enum mt_status status =
        mt_judge_prompt_render(judging->ctx, judging->options->template, sample, &judging->prompt);
    if (status == MT_OK && judging->asked > 0) status = mt_byte_list_append_text(&judging->prompt, reminder);
    if (status != MT_OK) return status;
    return mt_chat_request(judging->options->model, mt_text_in(&judging->prompt),
                           judging->options->max_tokens, !judging->options->no_temperature, body);
}

static void show(struct llm_judging *judging)
{
    const struct mt_llm_judge_report *report = judging->report;
    mt_progress_update(judging->progress, (int64_t)(report->kept + report->judged + report->failed));
}

static enum mt_status note_failure(void *self, size_t index, const char *why)
{
    struct llm_judging *judging = self;
    struct mt_llm_judge_report *report = judging->report;
    const struct mt_judged_sample *sample = &judging->task->samples[judging->open[index]];
    if (report->failed == 0)
        (void)snprintf(report->why, sizeof report->why, "task %s, id %.64s: %.300s", judging->task->name,
                       sample->id, why);
    report->failed++;
    show(judging);
    if (report->judged == 0 && report->failed >= MOST_FAILURES)
        return mt_fail(judging->ctx, MT_ERR_IO, "none of the first %d answers got a verdict (%s)",
                       MOST_FAILURES, report->why);
    return MT_OK;
}

/* A verdict with who gave it, and what was said: cut where somebody talks too long. */
static enum mt_status write_verdict(struct llm_judging *judging, const struct mt_judged_sample *sample,
                                    enum mt_verdict verdict)
{
    struct mt_text_writer line = {.text = judging->line};
    struct mt_text said = mt_text_in(&judging->text);
    if (said.bytes > REPLY_BYTES) said.bytes = REPLY_BYTES;
    line.text.count = 0;
    mt_judged_put_verdict(&line, sample, verdict);
    mt_text_put_string(&line, ", \"model\": ", mt_text_of(judging->options->model));
    mt_text_put_string(&line, ", \"prompt_hash\": ", mt_text_of(judging->prompt_hash.digits));
    mt_text_put_string(&line, ", \"judged_by\": ", mt_text_of(judging->by));
    mt_text_put_string(&line, ", \"reply\": ", said);
    mt_text_put(&line, "}\n");
    judging->line = line.text;
    enum mt_status status = line.status;
    if (status == MT_OK) status = mt_folder_check(judging->ctx, judging->folder, judging->held);
    return status == MT_OK ? mt_line_file_append(&judging->file, &judging->line) : status;
}

static enum mt_status take_reply(void *self, size_t index, const struct mt_byte_list *body)
{
    struct llm_judging *judging = self;
    struct mt_judged_sample *sample = &judging->task->samples[judging->open[index]];
    judging->text.count = 0;
    enum mt_status status = mt_chat_reply(judging->ctx, body->data, body->count, judging->options->http.key,
                                          &judging->text, NULL, NULL);
    if (status == MT_ERR_FORMAT) return note_failure(self, index, judging->ctx->message);
    if (status != MT_OK) return status;
    enum mt_verdict verdict = mt_judge_prompt_verdict((const char *)judging->text.data, judging->text.count);
    sample->verdicts[MT_JUDGE_LLM] = verdict;
    if (verdict == MT_VERDICT_UNREADABLE && judging->asked + 1 < MOST_ASKED) return MT_OK; // asked again
    status = write_verdict(judging, sample, verdict);
    if (status != MT_OK) return status;
    judging->report->judged++;
    show(judging);
    return MT_OK;
}

static enum mt_status check_task(const struct llm_judging *judging)
{
    const struct mt_judged_task *task = judging->task;
    for (size_t i = 0; i < task->count; i++) {
        if (task->samples[i].question == NULL)
            return mt_fail(judging->ctx, MT_ERR_FORMAT,
                           "samples_%s.jsonl does not hold the questions (sample %s): it was written by an "
                           "older version; evaluate again into a new folder",
                           task->name, task->samples[i].id);
    }
    return MT_OK;
}

/* What another judge said does not count. Said once, of the first such task's. */
static void forget_others(const struct llm_judging *judging, struct mt_judged_run *run)
{
    const char *before = "";
    size_t count = 0;
    for (size_t i = 0; i < run->count; i++) {
        struct mt_judged_task *task = &run->tasks[i];
        if (task->judged_by == NULL || strcmp(task->judged_by, judging->by) == 0) continue;
        if (count == 0) before = task->judged_by;
        count += mt_judged_forget(task);
    }
    if (count > 0)
        mt_log_warning(judging->options->log, "%s judged again, by %s (before: %s)",
                       mt_counted(count, "answer is", "answers are").text, judging->by, before);
    size_t edited = mt_judged_outdated(run, MT_JUDGE_LLM);
    if (edited > 0)
        mt_log_warning(judging->options->log,
                       "%s judged again: the answer, the question or the right answer has changed",
                       mt_counted(edited, "answer is", "answers are").text);
}

static enum mt_status judge_open(struct llm_judging *judging, struct mt_judged_run *run)
{
    const char *path = NULL;
    const struct mt_http_work work = {.count = judging->open_count,
                                      .self = judging,
                                      .request = make_request,
                                      .reply = take_reply,
                                      .refused = note_failure};
    enum mt_status status = mt_folder_check(judging->ctx, judging->folder, judging->held);
    if (status == MT_OK) status = mt_judged_path(run, "judge", judging->task->name, &path);
    // The verdicts are in the run already.
    if (status == MT_OK) status = mt_line_file_open(judging->ctx, path, NULL, NULL, &judging->file);
    if (status == MT_OK) status = mt_http_post_all(judging->ctx, &judging->options->http, &work);
    enum mt_status closed = mt_line_file_close(&judging->file);
    return status == MT_OK ? closed : status;
}

static enum mt_status judge_task(struct llm_judging *judging, struct mt_judged_run *run)
{
    void *memory = NULL;
    size_t count = judging->task->count;
    enum mt_status status = mt_allocate_array(judging->ctx, count, sizeof *judging->open, &memory);
    if (status != MT_OK) return status;
    judging->open = memory;
    for (judging->asked = 0; judging->asked < MOST_ASKED && status == MT_OK; judging->asked++) {
        judging->open_count = 0;
        for (size_t i = 0; i < count; i++) {
            enum mt_verdict verdict = judging->task->samples[i].verdicts[MT_JUDGE_LLM];
            bool first = verdict == MT_VERDICT_NONE && judging->asked == 0;
            if (first || verdict == MT_VERDICT_UNREADABLE) judging->open[judging->open_count++] = i;
        }
        if (judging->asked == 0) judging->report->kept += count - judging->open_count;
        if (judging->open_count > 0) status = judge_open(judging, run);
    }
    mt_release(judging->ctx, judging->open, count * sizeof *judging->open);
    judging->open = NULL;
    return status;
}

enum mt_status mt_llm_judge(struct mt_context *ctx, const struct mt_llm_judge_options *options,
                            struct mt_judged_run *run, struct mt_llm_judge_report *report)
{
    struct mt_progress progress;
    struct llm_judging judging = {.ctx = ctx,
                                  .options = options,
                                  .folder = run->folder,
                                  .report = report,
                                  .prompt_hash = mt_digest_of(options->template, strlen(options->template)),
                                  .prompt = {.ctx = ctx},
                                  .text = {.ctx = ctx},
                                  .line = {.ctx = ctx},
                                  .progress = &progress};
    size_t total = 0;
    char place[MT_HTTP_PLACE_BYTES] = "";
    *report = (struct mt_llm_judge_report){0};
    enum mt_status status = mt_http_check(ctx, &options->http, place);
    (void)snprintf(judging.by, sizeof judging.by, "%.256s at %s, prompt %.12s, version %d%s", options->model,
                   place, judging.prompt_hash.digits, VERSION,
                   options->no_temperature ? ", no temperature" : "");
    for (size_t i = 0; i < run->count && status == MT_OK; i++) {
        judging.task = &run->tasks[i];
        total += judging.task->count;
        status = check_task(&judging);
    }
    if (status == MT_OK) status = mt_folder_hold(ctx, run->folder, &judging.held);
    if (status != MT_OK) return status;
    forget_others(&judging, run);
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
