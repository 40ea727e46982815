/* metier eval: running tasks with a model, an endpoint or a file of answers, and the table at the end. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/amount.h"
#include "base/interrupt.h"
#include "cli/eval/eval.h"
#include "cli/shared/device.h"
#include "cli/shared/ranks.h"
#include "cli/shared/table.h"
#include "eval/endpoint/endpoint.h"
#include "eval/run/recorded.h"
#include "formats/text/printable.h"
#include "infer/task_evaluation.h"

#define ARENA_BYTES 4096
#define ENDS_BYTES  160

/* Everything one run holds. */
struct evaluation {
    struct mt_context *ctx;
    const struct eval_arguments *arguments;
    const struct mt_task_list *list;
    struct mt_comm *comm;
    struct mt_comm *expert_ranks; // owned: those that share the experts with this one; NULL: none do
    struct mt_interrupt interrupt;
    struct mt_log log;
    struct mt_arena arena;
    const char *options; // of the template, as one text; NULL: none
    struct mt_task_judge judge;
    struct mt_recorded *recorded; // --answers
    struct mt_endpoint *endpoint; // --endpoint
    struct mt_session session;    // --model
    struct mt_task_evaluation tasks;
};

// ------------------------------------------------------------------ the table

/* "20 cut, 3 empty": answers that end early, or were asked for or scored in a way that says less. */
static const char *describe_ends(const struct mt_task_result *result, char *text, size_t bytes)
{
    const struct {
        size_t count;
        const char *what;
    } kinds[] = {{result->cut, "cut"},
                 {result->unclosed, "still thinking"},
                 {result->empty, "empty"},
                 {result->cut_prompts, "with a cut prompt"},
                 {result->not_finite, "not finite"}};
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (kinds[i].count == 0 || used >= bytes) continue;
        used += (size_t)snprintf(text + used, bytes - used, "%s%zu %s", used > 0 ? ", " : "", kinds[i].count,
                                 kinds[i].what);
    }
    return text;
}

static void add_rows(struct cli_table *table, const struct mt_task_result *result, bool watched)
{
    char ends[ENDS_BYTES];
    for (size_t k = 0; k < mt_task_figures(result->task); k++) {
        char label[128];
        char violation[32] = "";
        const struct mt_metric_result *metric = &result->metrics[k];
        if (k == 0 && !isnan(result->max_vio))
            (void)snprintf(violation, sizeof violation, "%.3f", result->max_vio);
        cli_table_add(table, "%s\t%zu\t%s\t%.4f\t%.4f to %.4f\t%s%s%s", k == 0 ? result->task->name : "",
                      result->done, mt_eval_metric_label(result->task, k, label, sizeof label), metric->value,
                      metric->low, metric->high, violation, watched ? "\t" : "",
                      k == 0 ? describe_ends(result, ends, sizeof ends) : "");
    }
    // The share of answers in the form that each way of reading looks for.
    for (size_t f = 0; result->task->filter_count > 1 && result->done > 0 && f < result->task->filter_count;
         f++)
        cli_table_add(table, "\t%zu\tin form,%s\t%.4f\t\t%s", result->done, result->task->filters[f].name,
                      (double)result->in_form[f] / (double)result->done, watched ? "\t" : "");
}

static enum mt_status print_results(const struct evaluation *e)
{
    struct cli_column columns[7] = {
        {"task", false}, {"samples", true}, {"metric", false}, {"value", true}, {"95 % interval", false}};
    int count = 5;
    bool ended = false;
    struct cli_table table;
    bool watched = false;
    for (size_t i = 0; i < e->list->count; i++) watched = watched || !isnan(e->tasks.results[i].max_vio);
    for (size_t i = 0; i < e->list->count; i++) {
        char ends[ENDS_BYTES];
        ended = ended || describe_ends(&e->tasks.results[i], ends, sizeof ends)[0] != '\0';
    }
    if (watched) columns[count++] = (struct cli_column){"MaxVio", true};
    if (ended) columns[count++] = (struct cli_column){"answers", false};
    cli_table_init(&table, e->ctx, columns, count);
    for (size_t i = 0; i < e->list->count; i++) {
        if (!e->tasks.results[i].skipped) add_rows(&table, &e->tasks.results[i], watched);
    }
    for (size_t i = 0; i < e->list->count; i++) {
        struct mt_metric_result mean;
        if (!mt_eval_group(e->tasks.results, e->list->count, i, &mean) || mean.samples == 0) continue;
        cli_table_add(&table, "%s\t%zu\tmean\t%.4f\t%.4f to %.4f\t", e->tasks.results[i].task->asked,
                      mean.samples, mean.value, mean.low, mean.high);
    }
    return cli_table_print(&table, stdout);
}

static bool all_alike(const struct evaluation *e)
{
    bool alike = true;
    for (size_t i = 1; i < e->list->count; i++)
        alike = alike && strcmp(e->tasks.forms[i].name, e->tasks.forms[0].name) == 0;
    return alike;
}

/* In what form questions were put, and why: a line for each. */
static void print_forms(const struct evaluation *e)
{
    const struct mt_text_form *before = NULL;
    for (size_t i = 0; i < e->list->count; i++) {
        const struct mt_task_result *result = &e->tasks.results[i];
        const struct mt_text_form *form = result->form;
        if (result->skipped || form == NULL) continue;
        bool same =
            before != NULL && strcmp(before->name, form->name) == 0 && strcmp(before->why, form->why) == 0;
        if (same) continue;
        printf("%sform: %s, because %s", before == NULL ? "\n" : "", mt_printable(form->name).text,
               form->why);
        if (mt_text_form_differs(form))
            printf("; the run was trained as %s", mt_printable(form->trained).text);
        if (form != &e->tasks.forms[0] || !all_alike(e)) printf(" (%s)", result->task->asked);
        printf("\n");
        before = form;
    }
}

/* Where everything is, and what of it an earlier start had done. */
static void print_places(const struct evaluation *e)
{
    size_t kept = 0;
    size_t done = 0;
    for (size_t i = 0; i < e->list->count; i++) {
        kept += e->tasks.results[i].kept;
        done += e->tasks.results[i].done;
    }
    if (kept > 0)
        printf("\nof %s, %zu judged now and %zu before\n", mt_counted(done, "sample", "samples").text,
               done - kept, kept);
    printf("\nwritten: %s/results.json\n         %s/samples_TASK.jsonl\n", e->arguments->out,
           e->arguments->out);
    if (e->tasks.watched) printf("         %s/routing_TASK.json\n", e->arguments->out);
}

/* What a stop leaves behind: how far it got, and how to go on. */
static void print_stop(const struct evaluation *e)
{
    size_t done = 0;
    size_t whole = 0;
    const char *task = "";
    for (size_t i = 0; i < e->list->count; i++) {
        const struct mt_task_result *result = &e->tasks.results[i];
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
    e->tasks.options.unmatched = count;
    mt_byte_list_free(&names);
    return status;
}

static enum mt_status open_session(struct evaluation *e)
{
    const struct eval_arguments *arguments = e->arguments;
    struct infer_settings infer = arguments->infer;
    infer.threads = mt_comm_threads(e->comm, infer.threads);
    infer.automatic = mt_device_is_automatic(infer.device);
    infer.device = e->tasks.device;
    infer.answers = e->tasks.thinking;
    infer.expert_ranks = e->expert_ranks;
    infer.quiet = arguments->quiet || mt_comm_rank(e->comm) != 0;
    cli_infer_tell_of_form(&infer, &e->tasks.form);
    if (e->tasks.thinking > 0 && !infer.quiet)
        (void)fprintf(
            stderr,
            "answers: up to %lld tokens, as far as the context goes, because the chat template thinks "
            "(<think>); --max-new N sets another limit\n",
            (long long)e->tasks.thinking);
    enum mt_status status = cli_infer_open(e->ctx, &infer, &e->tasks.form, &e->session);
    if (status != MT_OK || mt_comm_rank(e->comm) != 0) return status;
    cli_infer_warn_of_texts(&e->session, &e->log);
    if (e->session.template != NULL && !mt_session_talks(&e->session)) cli_infer_warn_of_plain(&e->log);
    return status;
}

static enum mt_status open_answerer(struct evaluation *e, struct mt_answerer *answerer)
{
    const struct eval_arguments *arguments = e->arguments;
    if (arguments->endpoint.url != NULL) return open_endpoint(e, answerer);
    if (arguments->answers == NULL) return open_session(e);
    enum mt_status status = mt_recorded_open(e->ctx, arguments->answers, &e->recorded);
    if (status == MT_OK) *answerer = mt_recorded_answerer(e->recorded);
    return status == MT_OK ? warn_of_unmatched(e) : status;
}

static void close_all(struct evaluation *e)
{
    mt_task_evaluation_close(&e->tasks);
    mt_session_close(&e->session);
    mt_comm_close(e->expert_ranks);
    mt_recorded_close(e->recorded);
    mt_endpoint_destroy(e->endpoint);
    mt_task_judge_close(&e->judge);
    mt_arena_free(&e->arena);
}

// ------------------------------------------------------------------ the run

static bool told_to_stop(void *self)
{
    const struct evaluation *e = self;
    return mt_interrupt_seen(&e->interrupt) != 0;
}

/* What answers and how it is asked, as OUT notes it. */
static struct mt_answers_source source_of(const struct eval_arguments *arguments, const char *options)
{
    const struct infer_settings *infer = &arguments->infer;
    return (struct mt_answers_source){.out = arguments->out,
                                      .answers = arguments->answers,
                                      .endpoint_model = arguments->endpoint_model,
                                      .plain = asks_plainly(arguments),
                                      .model = infer->directory,
                                      .adapter = infer->adapter,
                                      .quantise = infer->quantise,
                                      .prune = infer->prune,
                                      .asking = cli_infer_asking(infer, options),
                                      .bos = cli_infer_bos(infer),
                                      .templates = arguments->templates,
                                      .context = infer->context,
                                      .temperature = infer->temperature,
                                      .top_p = infer->top_p,
                                      .seed = infer->seed,
                                      .max_new = infer->max_new};
}

static enum mt_status run(struct evaluation *e)
{
    const struct eval_arguments *arguments = e->arguments;
    struct mt_answerer answerer = {0};
    bool talks = mt_comm_rank(e->comm) == 0;
    enum mt_status status = cli_infer_join_options(&e->arena, &arguments->infer, &e->options);
    const struct mt_task_evaluation_options options = {.list = e->list,
                                                       .data = arguments->data,
                                                       .source = source_of(arguments, e->options),
                                                       .device = arguments->infer.device,
                                                       .judge = &e->judge,
                                                       .comm = e->comm,
                                                       .log = talks ? &e->log : NULL,
                                                       .terminal = arguments->quiet || !talks ? NULL : stderr,
                                                       .limit = arguments->limit,
                                                       .again = arguments->again,
                                                       .room_to_think = arguments->infer.max_new == 0,
                                                       .skip_missing = arguments->skip_missing,
                                                       .stop = told_to_stop,
                                                       .self = e};
    if (status == MT_OK) status = mt_task_judge_open(e->ctx, e->list, arguments->without_sandbox, &e->judge);
    status = mt_comm_agree(e->comm, e->ctx, status);
    if (status == MT_OK) status = mt_task_evaluation_open(e->ctx, &options, &e->tasks);
    if (status != MT_OK) return status;
    status = cli_split_experts(e->ctx, e->comm, arguments->expert_ranks, &e->expert_ranks);
    if (status != MT_OK) return status;
    status = mt_comm_agree(e->comm, e->ctx, open_answerer(e, &answerer));
    if (status != MT_OK) return status;
    const struct mt_task_watcher watcher = {
        .self = e, .began = tell_of_questions, .rested = ignore_rest, .ended = ignore_end};
    const struct mt_task_answering answering = {.session = e->session.ctx != NULL ? &e->session : NULL,
                                                .routing = !arguments->no_routing,
                                                .answerer = &answerer,
                                                .watcher = e->endpoint != NULL ? &watcher : NULL};
    return mt_task_evaluation_run(&e->tasks, &answering);
}

enum mt_status cli_eval_run_tasks(struct mt_context *ctx, const struct eval_arguments *arguments,
                                  const struct mt_task_list *list, struct mt_comm *comm, int *exit_status)
{
    struct evaluation e = {.ctx = ctx, .arguments = arguments, .list = list, .comm = comm};
    bool stopped = false;
    bool failed = false;
    bool talks = mt_comm_rank(comm) == 0;
    mt_arena_init(&e.arena, ctx, ARENA_BYTES);
    mt_log_init(&e.log, stderr, MT_LOG_WARNING);
    // Before the device makes threads.
    mt_interrupt_begin(&e.interrupt, talks ? stderr : NULL, "finished samples are kept");
    enum mt_status status = run(&e);
    int64_t seen = mt_interrupt_seen(&e.interrupt);
    mt_interrupt_end(&e.interrupt);
    for (size_t i = 0; status == MT_OK && i < list->count; i++) {
        stopped = stopped || e.tasks.results[i].stopped;
        const struct mt_task_result *result = &e.tasks.results[i];
        bool unheard = result->unjudged > 0 && result->task->compare == MT_COMPARE_COMMAND;
        failed = failed || result->failed > 0 || unheard;
    }
    *exit_status = failed ? 1 : 0;
    if (status == MT_OK && stopped) {
        mt_comm_max_i64(comm, &seen, 1); // it may have reached some ranks only
        *exit_status = seen != 0 ? 128 + (int)seen : 0;
        if (talks) print_stop(&e);
    } else if (status == MT_OK && talks) {
        status = print_results(&e); // a signal came too late to stop anything
        if (status == MT_OK) print_forms(&e);
        if (status == MT_OK) print_places(&e);
        if (status == MT_OK && arguments->card)
            status = cli_eval_write_card(ctx, arguments, list, e.tasks.results);
    }
    close_all(&e);
    return status;
}
