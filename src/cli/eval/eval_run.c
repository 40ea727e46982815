/* metier eval: running tasks with a model, an endpoint or a file of answers, and the table at the end. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/amount.h"
#include "base/files/folder.h"
#include "base/files/folder_lock.h"
#include "base/interrupt.h"
#include "cli/eval/eval.h"
#include "cli/shared/ranks.h"
#include "cli/shared/table.h"
#include "eval/code/code_judge.h"
#include "eval/endpoint/endpoint.h"
#include "eval/run/recorded.h"
#include "infer/answerer.h"
#include "infer/answers_folder.h"
#include "infer/task_routing.h"

#define PROGRAM_SECONDS 60 // of an answer that is run

/* Everything one run holds. */
struct evaluation {
    struct mt_context *ctx;
    const struct eval_arguments *arguments;
    const struct mt_task_list *list;
    struct mt_comm *comm;
    struct mt_interrupt interrupt;
    struct mt_log log;
    struct mt_sandbox_judge judge;
    struct mt_sandbox_cgroups cgroups;     // of the programs it runs
    struct mt_recorded *recorded;          // --answers
    struct mt_endpoint *endpoint;          // --endpoint
    struct mt_session session;             // --model
    struct mt_session_answerer *answering; // likewise
    struct mt_task_routing routing;        // likewise, unless --no-routing
    struct mt_task_result *results;        // [list->count]
    char device[MT_ANSWERS_DEVICE_BYTES];  // likewise: what computes
    int lock;                              // of the folder, rank 0's; the others hold it
};

// ------------------------------------------------------------------ the table

static void add_rows(struct cli_table *table, const struct mt_task_result *result)
{
    for (size_t k = 0; k < result->task->metric_count; k++) {
        char label[64];
        char violation[32] = "";
        const struct mt_metric_result *metric = &result->metrics[k];
        if (k == 0 && !isnan(result->max_vio))
            (void)snprintf(violation, sizeof violation, "%.3f", result->max_vio);
        cli_table_add(table, "%s\t%zu\t%s\t%.4f\t%.4f to %.4f\t%s", k == 0 ? result->task->name : "",
                      result->done, mt_eval_metric_label(result->task, k, label, sizeof label), metric->value,
                      metric->low, metric->high, violation);
    }
}

static enum mt_status print_results(const struct evaluation *e)
{
    static const struct cli_column columns[] = {{"task", false}, {"samples", true},        {"metric", false},
                                                {"value", true}, {"95 % interval", false}, {"MaxVio", true}};
    struct cli_table table;
    bool watched = false;
    for (size_t i = 0; i < e->list->count; i++) watched = watched || !isnan(e->results[i].max_vio);
    cli_table_init(&table, e->ctx, columns, watched ? 6 : 5);
    for (size_t i = 0; i < e->list->count; i++) {
        if (!e->results[i].skipped) add_rows(&table, &e->results[i]);
    }
    for (size_t i = 0; i < e->list->count; i++) {
        struct mt_metric_result mean;
        if (!mt_eval_group(e->results, e->list->count, i, &mean) || mean.samples == 0) continue;
        cli_table_add(&table, "%s\t%zu\tmean\t%.4f\t%.4f to %.4f\t", e->results[i].task->asked, mean.samples,
                      mean.value, mean.low, mean.high);
    }
    return cli_table_print(&table, stdout);
}

/* Where everything is, and what of it an earlier start had done. */
static void print_places(const struct evaluation *e)
{
    size_t kept = 0;
    size_t done = 0;
    for (size_t i = 0; i < e->list->count; i++) {
        kept += e->results[i].kept;
        done += e->results[i].done;
    }
    if (kept > 0)
        printf("\nof %s, %zu judged now and %zu before\n", mt_counted(done, "sample", "samples").text,
               done - kept, kept);
    printf("\nwritten: %s/results.json\n         %s/samples_TASK.jsonl\n", e->arguments->out,
           e->arguments->out);
    if (e->routing.watch != NULL) printf("         %s/routing_TASK.json\n", e->arguments->out);
}

/* What a stop leaves behind: how far it got, and how to go on. */
static void print_stop(const struct evaluation *e)
{
    size_t done = 0;
    size_t whole = 0;
    const char *task = "";
    for (size_t i = 0; i < e->list->count; i++) {
        const struct mt_task_result *result = &e->results[i];
        done += result->done;
        if (!result->stopped) whole++;
        if (result->stopped && task[0] == '\0') task = result->task->name;
    }
    (void)fprintf(stderr, "stopped in %s: %zu of %s done, %s kept in %s; the same command goes on\n", task,
                  whole, mt_counted(e->list->count, "task", "tasks").text,
                  mt_counted(done, "sample is", "samples are").text, e->arguments->out);
}

// ------------------------------------------------------------------ what answers and what judges

/* An endpoint gets prompts as they are, to go on with. */
static bool asks_plainly(const struct eval_arguments *arguments)
{
    const char *template = arguments->infer.template_name;
    return template != NULL && strcmp(template, "none") == 0;
}

/* Programs are run only in a sandbox, unless somebody says otherwise by name; that is known before hours of
 * answering. */
static enum mt_status open_judge(struct evaluation *e, bool *needed)
{
    const struct mt_task *task = NULL;
    for (size_t i = 0; i < e->list->count && task == NULL; i++) {
        if (e->list->tasks[i].compare == MT_COMPARE_CODE) task = &e->list->tasks[i];
    }
    *needed = task != NULL;
    if (task == NULL) return MT_OK;
    e->judge = (struct mt_sandbox_judge){.ctx = e->ctx, .options = mt_sandbox_defaults()};
    e->judge.options.seconds = PROGRAM_SECONDS; // processor time is limited more: a busy machine fails nobody
    e->judge.options.without_sandbox = e->arguments->without_sandbox;
    mt_sandbox_adopt_orphans();
    mt_sandbox_cgroups_open(&e->cgroups, MT_CGROUP_ROOT, MT_CGROUP_OWN);
    e->judge.options.cgroups = &e->cgroups;
    enum mt_status status = mt_sandbox_judge_check(&e->judge);
    if (status == MT_OK) return MT_OK;
    return mt_fail_within(e->ctx, status, "task %s runs programs that a model wrote", task->name);
}

/* What leaves this machine, said before it does. */
static enum mt_status tell_of_questions(void *self, const struct mt_task *task, size_t samples, size_t kept)
{
    const struct evaluation *e = self;
    const struct eval_arguments *arguments = e->arguments;
    if (arguments->limit > 0 && (uint64_t)arguments->limit < samples) samples = (size_t)arguments->limit;
    if (mt_comm_rank(e->comm) == 0 && kept < samples)
        (void)fprintf(stderr, "%s: %s to %s, the model is %s\n", task->name,
                      mt_counted(samples - kept, "question goes", "questions go").text,
                      mt_endpoint_place(e->endpoint, task->kind == MT_TASK_CHOOSE),
                      arguments->endpoint_model);
    return MT_OK;
}

static enum mt_status ignore_rest(void *self, size_t asked)
{
    (void)self;
    (void)asked;
    return MT_OK;
}

static enum mt_status ignore_end(void *self, struct mt_task_result *result)
{
    (void)self;
    (void)result;
    return MT_OK;
}

static enum mt_status open_endpoint(struct evaluation *e, struct mt_answerer *answerer)
{
    const struct infer_settings *infer = &e->arguments->infer;
    const struct mt_endpoint_options options = {.model = e->arguments->endpoint_model,
                                                .plain = asks_plainly(e->arguments),
                                                .http = e->arguments->http,
                                                .temperature = infer->temperature,
                                                .top_p = infer->top_p,
                                                .seed = (uint64_t)infer->seed};
    enum mt_status status = mt_endpoint_create(e->ctx, &options, &e->endpoint);
    if (status == MT_OK) *answerer = mt_endpoint_answerer(e->endpoint);
    return status;
}

/* Answers that nobody asked for: their task or id is probably misspelt. */
static enum mt_status warn_of_unmatched(struct evaluation *e)
{
    struct mt_byte_list names = {.ctx = e->ctx};
    size_t count = 0;
    if (mt_comm_rank(e->comm) != 0) return MT_OK;
    enum mt_status status = mt_recorded_unmatched(e->recorded, e->list, e->arguments->data, &names, &count);
    if (status == MT_OK && count > 0)
        mt_log_warning(&e->log, "%s: %s no question of these tasks: %.*s%s", e->arguments->answers,
                       mt_counted(count, "answer matches", "answers match").text, (int)names.count,
                       (const char *)names.data, count > MT_RECORDED_NAMED ? "; ..." : "");
    mt_byte_list_free(&names);
    return status;
}

static enum mt_status open_answerer(struct evaluation *e, struct mt_answerer *answerer)
{
    const struct eval_arguments *arguments = e->arguments;
    enum mt_status status = MT_OK;
    if (arguments->endpoint.url != NULL) return open_endpoint(e, answerer);
    if (arguments->answers != NULL) {
        status = mt_recorded_open(e->ctx, arguments->answers, &e->recorded);
        if (status == MT_OK) *answerer = mt_recorded_answerer(e->recorded);
        return status == MT_OK ? warn_of_unmatched(e) : status;
    }
    const struct mt_session_answerer_options options = {.name = arguments->infer.directory,
                                                        .temperature = arguments->infer.temperature,
                                                        .top_p = arguments->infer.top_p,
                                                        .seed = (uint64_t)arguments->infer.seed,
                                                        .watched = !arguments->no_routing};
    struct infer_settings infer = arguments->infer;
    infer.threads = mt_comm_threads(e->comm, infer.threads);
    infer.device = e->device;
    infer.quiet = arguments->quiet || mt_comm_rank(e->comm) != 0;
    status = cli_infer_open(e->ctx, &infer, &e->session);
    if (status == MT_OK && mt_comm_rank(e->comm) == 0) {
        cli_infer_warn_of_texts(&e->session, &e->log);
        if (e->session.template != NULL && !mt_session_talks(&e->session) && !arguments->template_taken)
            cli_infer_warn_of_plain(&e->log);
    }
    if (status == MT_OK) status = mt_session_answerer_create(&e->session, &options, &e->answering);
    if (status == MT_OK) *answerer = mt_session_answerer_face(e->answering);
    if (status == MT_OK && !arguments->no_routing)
        status = mt_task_routing_open(&e->session, e->comm, arguments->out, &e->routing);
    return status;
}

static void close_all(struct evaluation *e)
{
    mt_release(e->ctx, e->results, e->list->count * sizeof *e->results);
    mt_task_routing_close(&e->routing);
    mt_session_answerer_destroy(e->answering);
    mt_session_close(&e->session);
    mt_recorded_close(e->recorded);
    mt_endpoint_destroy(e->endpoint);
    mt_sandbox_cgroups_close(&e->cgroups);
    mt_folder_unlock(e->lock);
}

// ------------------------------------------------------------------ the run

static bool told_to_stop(void *self)
{
    const struct evaluation *e = self;
    return mt_interrupt_seen(&e->interrupt) != 0;
}

/* Rank 0 makes the folder, for all, and keeps other runs out of it. */
static enum mt_status open_folder(struct evaluation *e)
{
    const struct infer_settings *infer = &e->arguments->infer;
    const char *out = e->arguments->out;
    const struct mt_answers_source source = {.out = out,
                                             .answers = e->arguments->answers,
                                             .endpoint_model = e->arguments->endpoint_model,
                                             .plain = asks_plainly(e->arguments),
                                             .model = infer->directory,
                                             .adapter = infer->adapter,
                                             .template_name = infer->template_name,
                                             .templates = e->arguments->templates,
                                             .template_options = infer->template_options.item,
                                             .bos = infer->bos,
                                             .context = infer->context,
                                             .temperature = infer->temperature,
                                             .top_p = infer->top_p,
                                             .seed = infer->seed,
                                             .max_new = infer->max_new};
    enum mt_status status = MT_OK;
    if (mt_comm_rank(e->comm) == 0) {
        status = mt_folder_make_all(e->ctx, out);
        if (status == MT_OK) status = mt_folder_lock(e->ctx, out, "evaluating", &e->lock);
        if (status == MT_OK) status = mt_answers_claim(e->ctx, &source, e->list, e->device, &e->log);
    }
    status = mt_comm_agree(e->comm, e->ctx, status);
    if (status == MT_OK && mt_comm_rank(e->comm) != 0) status = mt_folder_hold(e->ctx, out, &e->lock);
    return status;
}

/* What every rank needs before the first question. */
static enum mt_status open_all(struct evaluation *e, struct mt_answerer *answerer, bool *runs_programs)
{
    void *memory = NULL;
    enum mt_status status = open_judge(e, runs_programs);
    status = mt_comm_agree(e->comm, e->ctx, status);
    if (status == MT_OK && e->arguments->infer.directory != NULL)
        status = mt_answers_choose_device(e->ctx, e->arguments->out, e->arguments->infer.device, e->comm,
                                          e->device);
    status = mt_comm_agree(e->comm, e->ctx, status);
    if (status == MT_OK) status = open_folder(e);
    status = mt_comm_agree(e->comm, e->ctx, status);
    if (status != MT_OK) return status;
    status = open_answerer(e, answerer);
    if (status == MT_OK) status = mt_allocate_array(e->ctx, e->list->count, sizeof *e->results, &memory);
    e->results = memory;
    return mt_comm_agree(e->comm, e->ctx, status);
}

static void warn_of_cut_prompts(struct evaluation *e)
{
    int64_t cut = e->answering != NULL ? mt_session_answerer_cut(e->answering) : 0;
    mt_comm_sum_i64(e->comm, &cut, 1);
    if (cut == 0 || mt_comm_rank(e->comm) != 0) return;
    mt_log_warning(&e->log, "%s too long and cut at the beginning; --context is %lld tokens",
                   mt_counted((uint64_t)cut, "prompt was", "prompts were").text,
                   (long long)e->session.context);
}

static enum mt_status run(struct evaluation *e)
{
    const struct eval_arguments *arguments = e->arguments;
    struct mt_answerer answerer = {0};
    struct mt_code_judge judge = mt_sandbox_code_judge(&e->judge);
    bool runs_programs = false;
    bool talks = mt_comm_rank(e->comm) == 0;
    enum mt_status status = open_all(e, &answerer, &runs_programs);
    if (status != MT_OK) return status;
    struct mt_task_watcher watcher = mt_task_routing_watcher(&e->routing);
    if (e->endpoint != NULL)
        watcher = (struct mt_task_watcher){
            .self = e, .began = tell_of_questions, .rested = ignore_rest, .ended = ignore_end};
    const struct mt_eval_options options = {
        .tasks = e->list->tasks,
        .task_count = e->list->count,
        .data = arguments->data,
        .out = arguments->out,
        .held = &e->lock,
        .answerer = &answerer,
        .judge = runs_programs ? &judge : NULL,
        .watcher = e->routing.watch != NULL || e->endpoint != NULL ? &watcher : NULL,
        .limit = arguments->limit,
        .skip_missing = arguments->skip_missing,
        .stop = told_to_stop,
        .stop_self = e,
        .terminal = arguments->quiet || !talks ? NULL : stderr,
        .log = talks ? &e->log : NULL,
        .comm = e->comm};
    status = mt_eval_run(e->ctx, &options, e->results);
    if (status == MT_ERR_IO) status = mt_folder_blame(e->ctx, status, arguments->out, e->lock);
    if (status == MT_OK) warn_of_cut_prompts(e);
    return status;
}

enum mt_status cli_eval_run_tasks(struct mt_context *ctx, const struct eval_arguments *arguments,
                                  const struct mt_task_list *list, struct mt_comm *comm, int *exit_status)
{
    struct evaluation e = {
        .ctx = ctx, .arguments = arguments, .list = list, .comm = comm, .lock = MT_FOLDER_UNLOCKED};
    bool stopped = false;
    bool failed = false;
    bool talks = mt_comm_rank(comm) == 0;
    mt_log_init(&e.log, stderr, MT_LOG_WARNING);
    // Before the device makes threads.
    mt_interrupt_begin(&e.interrupt, talks ? stderr : NULL, "finished samples are kept");
    enum mt_status status = run(&e);
    int64_t seen = mt_interrupt_seen(&e.interrupt);
    mt_interrupt_end(&e.interrupt);
    for (size_t i = 0; status == MT_OK && i < list->count; i++) {
        stopped = stopped || e.results[i].stopped;
        failed = failed || e.results[i].failed > 0;
    }
    *exit_status = failed ? 1 : 0;
    if (status == MT_OK && stopped) {
        mt_comm_max_i64(comm, &seen, 1); // it may have reached some ranks only
        *exit_status = seen != 0 ? 128 + (int)seen : 0;
        if (talks) print_stop(&e);
    } else if (status == MT_OK && talks) {
        status = print_results(&e); // a signal came too late to stop anything
        if (status == MT_OK) print_places(&e);
    }
    close_all(&e);
    return status;
}
