/* From a folder and a session to results. */
#include "infer/task_evaluation.h"

#include "base/amount.h"
#include "base/files/folder.h"
#include "base/files/folder_lock.h"

/* Rank 0 makes the folder, for all, and keeps other runs out of it. */
static enum mt_status open_folder(struct mt_task_evaluation *e)
{
    const struct mt_task_evaluation_options *options = &e->options;
    const char *out = options->source.out;
    struct mt_comm *comm = options->comm;
    enum mt_status status = MT_OK;
    if (mt_comm_rank(comm) == 0) {
        status = mt_folder_make_all(e->ctx, out);
        if (status == MT_OK) status = mt_folder_lock(e->ctx, out, "evaluating", &e->lock);
        if (status == MT_OK)
            status = mt_answers_claim(e->ctx, &options->source, options->list, e->device, options->log);
    }
    status = mt_comm_agree(comm, e->ctx, status);
    if (status == MT_OK && mt_comm_rank(comm) != 0) status = mt_folder_hold(e->ctx, out, &e->lock);
    return mt_comm_agree(comm, e->ctx, status);
}

enum mt_status mt_task_evaluation_open(struct mt_context *ctx,
                                       const struct mt_task_evaluation_options *options,
                                       struct mt_task_evaluation *evaluation)
{
    void *memory = NULL;
    *evaluation = (struct mt_task_evaluation){.ctx = ctx, .options = *options, .lock = MT_FOLDER_UNLOCKED};
    enum mt_status status = MT_OK;
    if (options->source.model != NULL)
        status = mt_answers_choose_device(ctx, options->source.out, options->device, options->comm,
                                          evaluation->device);
    status = mt_comm_agree(options->comm, ctx, status);
    if (status == MT_OK) status = open_folder(evaluation);
    if (status != MT_OK) return status;
    status = mt_allocate_array(ctx, options->list->count, sizeof *evaluation->results, &memory);
    evaluation->results = memory;
    return mt_comm_agree(options->comm, ctx, status);
}

void mt_task_evaluation_close(struct mt_task_evaluation *evaluation)
{
    if (evaluation->ctx == NULL) return;
    mt_release(evaluation->ctx, evaluation->results,
               evaluation->options.list->count * sizeof *evaluation->results);
    mt_folder_unlock(evaluation->lock);
    *evaluation = (struct mt_task_evaluation){0};
}

static void warn_of_cut_prompts(const struct mt_task_evaluation *e,
                                const struct mt_session_answerer *answerer, int64_t context)
{
    int64_t cut = mt_session_answerer_cut(answerer);
    mt_comm_sum_i64(e->options.comm, &cut, 1);
    if (cut == 0 || mt_comm_rank(e->options.comm) != 0) return;
    mt_log_warning(e->options.log,
                   "%s too long and cut at the beginning; there is room for %lld tokens (context)",
                   mt_counted((uint64_t)cut, "prompt was", "prompts were").text, (long long)context);
}

static enum mt_status run_tasks(struct mt_task_evaluation *e, const struct mt_answerer *answerer,
                                const struct mt_task_watcher *watcher)
{
    const struct mt_task_evaluation_options *options = &e->options;
    struct mt_code_judge judge = mt_sandbox_code_judge(&options->judge->sandbox);
    const struct mt_eval_options run = {.tasks = options->list->tasks,
                                        .task_count = options->list->count,
                                        .data = options->data,
                                        .out = options->source.out,
                                        .held = &e->lock,
                                        .answerer = answerer,
                                        .judge = options->judge->needed ? &judge : NULL,
                                        .watcher = watcher,
                                        .limit = options->limit,
                                        .skip_missing = options->skip_missing,
                                        .stop = options->stop,
                                        .progressed = options->progressed,
                                        .self = options->self,
                                        .terminal = options->terminal,
                                        .log = options->log,
                                        .comm = options->comm};
    enum mt_status status = mt_eval_run(e->ctx, &run, e->results);
    if (status == MT_ERR_IO) status = mt_folder_blame(e->ctx, status, options->source.out, e->lock);
    return status;
}

static enum mt_status run_session(struct mt_task_evaluation *e, struct mt_session *session, bool routing)
{
    const struct mt_answers_source *source = &e->options.source;
    const struct mt_session_answerer_options options = {.name = source->model,
                                                        .temperature = source->temperature,
                                                        .top_p = source->top_p,
                                                        .seed = (uint64_t)source->seed,
                                                        .watched = routing};
    struct mt_session_answerer *answering = NULL;
    struct mt_task_routing watching = {0};
    enum mt_status status = mt_session_answerer_create(session, &options, &answering);
    if (status == MT_OK && routing)
        status = mt_task_routing_open(session, e->options.comm, source->out, &watching);
    status = mt_comm_agree(e->options.comm, e->ctx, status);
    if (status == MT_OK) {
        const struct mt_answerer answerer = mt_session_answerer_face(answering);
        const struct mt_task_watcher watcher = mt_task_routing_watcher(&watching);
        e->watched = watching.watch != NULL;
        status = run_tasks(e, &answerer, e->watched ? &watcher : NULL);
    }
    if (status == MT_OK) warn_of_cut_prompts(e, answering, session->context);
    mt_task_routing_close(&watching);
    mt_session_answerer_destroy(answering);
    return status;
}

enum mt_status mt_task_evaluation_run(struct mt_task_evaluation *evaluation,
                                      const struct mt_task_answering *answering)
{
    if (answering->session != NULL) return run_session(evaluation, answering->session, answering->routing);
    return run_tasks(evaluation, answering->answerer, answering->watcher);
}
