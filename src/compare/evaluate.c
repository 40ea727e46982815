/* A cell's benchmarks: what was trained is opened as metier eval opens it, and asked. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/interrupt.h"
#include "compare/cell.h"
#include "infer/task_evaluation.h"
#include "train/settings/settings.h"

#define PATH_BYTES 4096

struct evaluating {
    const struct mt_cell_job *job;
    const struct mt_cell *cell;
    const struct mt_train_settings *training;
    struct mt_comm *comm;         // borrowed: the ranks of the cell, or this process alone
    struct mt_comm *expert_ranks; // owned: those that share the experts; NULL: none do
    struct mt_interrupt interrupt;
    struct mt_session session;    // opened when the first benchmark asks
    char model[PATH_BYTES];       // what is evaluated: the base, or what was trained of it
    char adapter[PATH_BYTES];     // "": none
    size_t task;                  // at hand, and its part
    size_t before;                // questions of the parts that are done
    size_t part_done, part_count; // of the part at hand
};

/* A run of LoRA leaves an adapter, one of whole parameters a model. */
static void find_trained(struct evaluating *e)
{
    const struct mt_train_settings *training = e->training;
    bool adapter = training->train == MT_TRAIN_LORA;
    e->adapter[0] = '\0';
    (void)snprintf(e->model, sizeof e->model, "%s", training->model);
    if (e->cell->base) return;
    if (adapter)
        (void)snprintf(e->adapter, sizeof e->adapter, "%s/adapter", training->out);
    else
        (void)snprintf(e->model, sizeof e->model, "%s/model", training->out);
}

/* How it is asked: as the entry says, else as the task fixes it, else as in training. A base is asked as the
 * cells are trained. */
static struct mt_form_request asking_of(const struct evaluating *e, const struct mt_compare_task *task)
{
    const struct mt_train_settings *training = e->training;
    struct mt_form_request request = {.given = task->entry->template,
                                      .by = "the comparison's settings say so",
                                      .options = training->template_options,
                                      .date = training->template_date};
    if (!e->cell->base || task->entry->template != NULL || task->list.tasks[0].form != NULL) return request;
    request.given = training->template_name;
    request.by = "the cells are trained with it";
    request.to_train = true;
    return request;
}

static enum mt_status open_session(struct evaluating *e, const struct mt_text_form *form, const char *device)
{
    const struct mt_compare_settings *settings = e->job->settings;
    const struct mt_session_options options = {.directory = e->model,
                                               .adapter = e->adapter[0] != '\0' ? e->adapter : NULL,
                                               .quantise_cache = e->training->quantise_cache,
                                               .log = e->job->log,
                                               .form = form,
                                               .templates = e->job->templates,
                                               .expert_ranks = e->expert_ranks,
                                               .device = device,
                                               .threads = (int)e->job->threads,
                                               .context = settings->context};
    if (e->session.ctx != NULL) return mt_session_set_form(&e->session, form);
    return mt_session_open(e->job->ctx, &options, &e->session);
}

// ------------------------------------------------------------------ while it is answered

static bool told_to_stop(void *self)
{
    const struct evaluating *e = self;
    return mt_interrupt_seen(&e->interrupt) != 0;
}

/* Parts come one after the other: a count that falls back is the next one's. */
static void progressed(void *self, size_t done, size_t count)
{
    struct evaluating *e = self;
    if (done < e->part_done || count != e->part_count) e->before += e->part_done;
    e->part_done = done;
    e->part_count = count;
    if (e->job->asked != NULL)
        e->job->asked(e->job->self, e->task, e->before + done, e->job->tasks->task[e->task].questions);
}

/* The task's own metric; of a group or family the mean over its parts' samples. */
static void take_value(const struct mt_compare_task *task, const struct mt_task_result *results,
                       struct mt_cell_task *value)
{
    struct mt_metric_result metric = results[0].metrics[0];
    size_t samples = results[0].done;
    if (mt_eval_group(results, task->list.count, 0, &metric)) samples = metric.samples;
    *value = (struct mt_cell_task){
        .known = true, .value = metric.value, .low = metric.low, .high = metric.high, .samples = samples};
}

/* The form its texts had, and why: of parts the first that is not as it was trained. */
static enum mt_status take_form(const struct mt_cell_job *job, const struct mt_task_evaluation *evaluation,
                                struct mt_cell_task *value)
{
    const struct mt_text_form *form = &evaluation->forms[0];
    for (size_t i = 0; i < evaluation->options.list->count && !mt_text_form_differs(form); i++)
        form = &evaluation->forms[i];
    if (!mt_text_form_differs(form)) form = &evaluation->forms[0];
    char text[MT_FORM_SENTENCE_BYTES];
    char warning[MT_FORM_SENTENCE_BYTES];
    (void)snprintf(text, sizeof text, "%.120s, because %.200s", form->name, form->why);
    if (mt_text_form_warning(form, warning) != NULL) (void)snprintf(text, sizeof text, "%.500s", warning);
    value->form_differs = mt_text_form_differs(form);
    return mt_arena_copy_text(job->arena, text, strlen(text), &value->form);
}

static enum mt_status evaluate_task(struct evaluating *e, const char *out, struct mt_cell_task *value,
                                    bool *stopped)
{
    const struct mt_cell_job *job = e->job;
    const struct mt_compare_task *task = &job->tasks->task[e->task];
    const struct mt_task_evaluation_options options = {
        .list = &task->list,
        .data = job->data,
        .source = {.out = out,
                   .model = e->model,
                   .adapter = e->adapter[0] != '\0' ? e->adapter : NULL,
                   .own_name = e->cell->base ? NULL : "the cell's",
                   .asking = asking_of(e, task),
                   .bos = MT_BOS_RULES,
                   .templates = job->templates,
                   .context = job->settings->context,
                   .temperature = -1.0,
                   .top_p = -1.0,
                   .max_new = task->max_tokens},
        .device = job->device,
        .judge = job->judge,
        .comm = e->comm,
        .log = e->cell->base ? job->log : NULL, // all are asked the same: once is enough
        .stop = told_to_stop,
        .progressed = progressed,
        .self = e};
    struct mt_task_evaluation evaluation;
    enum mt_status status = mt_task_evaluation_open(job->ctx, &options, &evaluation);
    if (status == MT_OK)
        status = mt_comm_agree(e->comm, job->ctx, open_session(e, &evaluation.form, evaluation.device));
    const struct mt_task_answering answering = {.session = &e->session, .routing = true};
    if (status == MT_OK) status = mt_task_evaluation_run(&evaluation, &answering);
    for (size_t i = 0; status == MT_OK && i < task->list.count; i++)
        *stopped = *stopped || evaluation.results[i].stopped;
    if (status == MT_OK && !*stopped && mt_comm_rank(e->comm) == 0)
        take_value(task, evaluation.results, value);
    if (status == MT_OK && !*stopped) status = take_form(job, &evaluation, value);
    mt_task_evaluation_close(&evaluation);
    return status;
}

enum mt_status mt_cell_evaluate(const struct mt_cell_job *job, struct mt_cell *cell,
                                const struct mt_train_settings *training, const char *identity,
                                bool *interrupted, int *signal)
{
    struct evaluating e = {.job = job, .cell = cell, .training = training};
    char out[PATH_BYTES];
    if (job->tasks->count == 0) return MT_OK;
    struct mt_comm *alone = NULL;
    enum mt_status status = job->ranks == NULL ? mt_comm_open_alone(job->ctx, &alone) : MT_OK;
    if (status != MT_OK) return status;
    e.comm = alone != NULL ? alone : job->ranks;
    if (training->expert_ranks > 1)
        status = mt_comm_split(e.comm, mt_comm_rank(e.comm) / (int)training->expert_ranks, &e.expert_ranks);
    find_trained(&e);
    if (job->signals) mt_interrupt_begin(&e.interrupt, NULL, "");
    for (size_t t = 0; t < job->tasks->count && status == MT_OK && !*interrupted; t++) {
        int64_t known = cell->result.task[t].known ? 1 : 0;
        mt_comm_max_i64(e.comm, &known, 1); // what the first rank knows
        if (known != 0 || !mt_cell_asks(job, cell, t)) continue;
        e.task = t;
        e.before = e.part_done = e.part_count = 0;
        int length = snprintf(out, sizeof out, "%s/eval/%s", cell->folder, job->tasks->task[t].name);
        if (length < 0 || (size_t)length >= sizeof out)
            status = mt_fail(job->ctx, MT_ERR_USAGE, "%.100s...: the path is too long", cell->folder);
        double start = mt_clock_seconds();
        if (status == MT_OK) status = evaluate_task(&e, out, &cell->result.task[t], interrupted);
        cell->result.took += mt_clock_seconds() - start;
        bool first = mt_comm_rank(e.comm) == 0;
        if (status == MT_OK && !*interrupted && first) status = mt_cell_file_write(job, cell, identity);
        status = mt_comm_agree(e.comm, job->ctx, status);
        int64_t ended = *interrupted ? 1 : 0;
        if (status == MT_OK) mt_comm_max_i64(e.comm, &ended, 1);
        *interrupted = ended != 0;
    }
    *signal = mt_interrupt_seen(&e.interrupt);
    *interrupted = *interrupted || *signal != 0; // it may have come after the last question
    mt_session_close(&e.session);
    mt_interrupt_end(&e.interrupt);
    mt_comm_close(e.expert_ranks);
    mt_comm_close(alone);
    return status;
}
