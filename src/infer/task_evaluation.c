/* From a folder and a session to results. */
#include "infer/task_evaluation.h"

#include <string.h>

#include "base/amount.h"
#include "base/files/folder.h"
#include "base/files/folder_lock.h"
#include "eval/run/runner.h"

#define ARENA_BYTES 4096

// ------------------------------------------------------------------ forms

/* Answers from elsewhere: what is known of how their questions were put. */
static struct mt_text_form form_elsewhere(const struct mt_answers_source *source, const struct mt_task *task)
{
    if (source->endpoint_model == NULL)
        return (struct mt_text_form){.name = "unknown", .why = "the answers were made elsewhere"};
    if (source->plain) return (struct mt_text_form){.name = MT_TEXT_FORM_NONE, .why = "--template says so"};
    if (task != NULL && task->kind == MT_TASK_CHOOSE)
        return (struct mt_text_form){.name = MT_TEXT_FORM_NONE, .why = "choices are scored as plain texts"};
    return (struct mt_text_form){.name = "chat", .why = "the endpoint writes conversations out"};
}

static enum mt_status find_form(struct mt_task_evaluation *e, const struct mt_task *task,
                                struct mt_text_form *form)
{
    const struct mt_answers_source *source = &e->options.source;
    struct mt_form_request request = source->asking;
    request.model = source->model;
    request.adapter = source->adapter;
    request.fixed = task != NULL ? task->form : NULL;
    if (source->model == NULL) {
        *form = form_elsewhere(source, task);
        return MT_OK;
    }
    enum mt_status status = mt_text_form_find(&e->arena, &request, form);
    if (status == MT_OK && source->bos != MT_BOS_RULES) form->bos = source->bos;
    return status;
}

/* Of tasks that fix their text, and that another form changes. */
static void warn_of_form(const struct mt_task_evaluation *e, const struct mt_task *task,
                         const struct mt_text_form *form, const char *before)
{
    char sentence[MT_FORM_SENTENCE_BYTES];
    const struct mt_log *log = e->options.log;
    const char *warning = mt_text_form_warning(form, sentence);
    if (warning != NULL && before != form->name) mt_log_warning(log, "%s is %s", task->name, warning);
    if (task->form != NULL && strcmp(task->form, form->name) != 0 && e->options.source.answers == NULL)
        mt_log_warning(log, "%s fixes its text (%s), but is asked as %s: %s", task->name, task->form,
                       form->name, form->why);
}

static enum mt_status find_forms(struct mt_task_evaluation *e)
{
    const struct mt_task_list *list = e->options.list;
    const char *before = NULL;
    enum mt_status status = MT_OK;
    e->forms = mt_arena_array(&e->arena, list->count, sizeof *e->forms, &status);
    if (status == MT_OK) status = find_form(e, NULL, &e->form);
    for (size_t i = 0; i < list->count && status == MT_OK; i++) {
        const struct mt_task *task = &list->tasks[i];
        e->forms[i] = e->form;
        if (task->form != NULL || e->options.source.model == NULL) status = find_form(e, task, &e->forms[i]);
        if (status == MT_OK) warn_of_form(e, task, &e->forms[i], before);
        before = e->forms[i].name;
    }
    return status;
}

// ------------------------------------------------------------------ room to think

/* True for the form of a model that thinks before it answers: its template in Jinja has <think>, and no
 * option turns that off. */
static enum mt_status form_thinks(const struct mt_task_evaluation *e, const struct mt_text_form *form,
                                  bool *thinks)
{
    struct mt_chat_template *template = NULL;
    *thinks = false;
    if (!form->talks || (form->options != NULL && strstr(form->options, "enable_thinking=false") != NULL))
        return MT_OK;
    enum mt_status status =
        mt_text_form_open(e->ctx, form, e->options.source.templates, e->options.source.model, &template);
    const char *text = status == MT_OK && template != NULL ? mt_chat_template_jinja(template) : NULL;
    *thinks = text != NULL && strstr(text, "<think>") != NULL;
    mt_chat_template_free(template);
    return status;
}

static enum mt_status leave_room_to_think(struct mt_task_evaluation *e)
{
    const struct mt_task_list *list = e->options.list;
    const struct mt_text_form *before = NULL;
    bool thinks = false;
    enum mt_status status = MT_OK;
    if (!e->options.room_to_think || e->options.source.model == NULL) return MT_OK;
    for (size_t i = 0; i < list->count && status == MT_OK; i++) {
        struct mt_task *task = &list->tasks[i];
        if (task->kind != MT_TASK_GENERATE || task->max_tokens >= MT_THINKING_TOKENS) continue;
        bool same = before != NULL && strcmp(before->name, e->forms[i].name) == 0;
        if (!same) status = form_thinks(e, &e->forms[i], &thinks);
        before = &e->forms[i];
        if (!thinks) continue;
        task->max_tokens = MT_THINKING_TOKENS;
        e->thinking = MT_THINKING_TOKENS;
    }
    return status;
}

// ------------------------------------------------------------------ the folder

/* Rank 0 makes the folder, for all, and keeps other runs out of it. */
static enum mt_status hold_folder(struct mt_task_evaluation *e)
{
    const struct mt_task_evaluation_options *options = &e->options;
    const char *out = options->source.out;
    struct mt_comm *comm = options->comm;
    enum mt_status status = MT_OK;
    if (mt_comm_rank(comm) == 0) {
        status = mt_folder_make_all(e->ctx, out);
        if (status == MT_OK) status = mt_folder_lock(e->ctx, out, "evaluating", &e->lock);
        if (status == MT_OK && options->again) status = mt_answers_put_aside(e->ctx, out, options->log);
    }
    status = mt_comm_agree(comm, e->ctx, status);
    if (status == MT_OK && mt_comm_rank(comm) != 0) status = mt_folder_hold(e->ctx, out, &e->lock);
    return mt_comm_agree(comm, e->ctx, status);
}

static enum mt_status claim_folder(struct mt_task_evaluation *e)
{
    const struct mt_task_evaluation_options *options = &e->options;
    enum mt_status status = MT_OK;
    if (mt_comm_rank(options->comm) == 0)
        status = mt_answers_claim(e->ctx, &options->source, &e->form, e->device, options->log);
    return mt_comm_agree(options->comm, e->ctx, status);
}

enum mt_status mt_task_evaluation_open(struct mt_context *ctx,
                                       const struct mt_task_evaluation_options *options,
                                       struct mt_task_evaluation *evaluation)
{
    void *memory = NULL;
    *evaluation = (struct mt_task_evaluation){.ctx = ctx, .options = *options, .lock = MT_FOLDER_UNLOCKED};
    mt_arena_init(&evaluation->arena, ctx, ARENA_BYTES);
    enum mt_status status = find_forms(evaluation);
    if (status == MT_OK) status = leave_room_to_think(evaluation);
    status = mt_comm_agree(options->comm, ctx, status);
    if (status == MT_OK) status = hold_folder(evaluation);
    if (status == MT_OK && options->source.model != NULL)
        status = mt_answers_choose_device(ctx, options->source.out, options->device, options->comm,
                                          evaluation->device);
    status = mt_comm_agree(options->comm, ctx, status);
    if (status == MT_OK) status = claim_folder(evaluation);
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
    mt_arena_free(&evaluation->arena);
    *evaluation = (struct mt_task_evaluation){0};
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
                                        .forms = e->forms,
                                        .limit = options->limit,
                                        .skip_missing = options->skip_missing,
                                        .unmatched = options->unmatched,
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

/* Puts each task in its form before its first question, then tells whoever watches. */
struct task_asking {
    const struct mt_task_evaluation *evaluation;
    struct mt_session *session;
    const struct mt_task_watcher *watcher; // NULL: nobody watches
};

static enum mt_status task_began(void *self, const struct mt_task *task, size_t samples, size_t kept)
{
    const struct task_asking *asking = self;
    const struct mt_task_evaluation *e = asking->evaluation;
    const struct mt_text_form *form = &e->forms[task - e->options.list->tasks];
    const struct mt_task_watcher *watcher = asking->watcher;
    enum mt_status status = MT_OK;
    const struct mt_text_form *now = &asking->session->form;
    if (strcmp(now->name, form->name) != 0 || now->bos != form->bos)
        status = mt_session_set_form(asking->session, form);
    if (status != MT_OK || watcher == NULL) return status;
    return watcher->began(watcher->self, task, samples, kept);
}

static enum mt_status task_rested(void *self, size_t asked)
{
    const struct mt_task_watcher *watcher = ((const struct task_asking *)self)->watcher;
    return watcher != NULL ? watcher->rested(watcher->self, asked) : MT_OK;
}

static enum mt_status task_ended(void *self, struct mt_task_result *result)
{
    const struct mt_task_watcher *watcher = ((const struct task_asking *)self)->watcher;
    return watcher != NULL ? watcher->ended(watcher->self, result) : MT_OK;
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
        struct task_asking asking = {
            .evaluation = e, .session = session, .watcher = e->watched ? &watcher : NULL};
        const struct mt_task_watcher asker = {
            .self = &asking, .began = task_began, .rested = task_rested, .ended = task_ended};
        status = run_tasks(e, &answerer, &asker);
    }
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
