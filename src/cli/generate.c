/* metier generate: prompts in, answers out, many at a time. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/amount.h"
#include "base/clock.h"
#include "base/files/file.h"
#include "base/files/folder.h"
#include "base/interrupt.h"
#include "base/progress.h"
#include "cli/cli.h"
#include "cli/infer.h"
#include "formats/text/json_text.h"
#include "formats/text/printable.h"

#define JOBS_A_SLOT 4 // answers that wait for an earlier one to be written, at the most

struct settings {
    struct infer_settings infer;
    const char *prompt;
    const char *in;
    const char *out;
    bool ids; // write token ids, too
    bool quiet;
};

struct generator;

/* One answer on its way. */
struct job {
    struct generator *generator;
    struct mt_generation request;
    struct mt_id_list ids; // of the prompt
    struct mt_answer answer;
    size_t shown; // bytes of the answer already printed
    bool finished;
    enum mt_finish why;
};

struct generator {
    struct mt_context *ctx;
    const struct settings *settings;
    const struct cli_call *given;
    struct mt_session session;
    struct mt_dataset *dataset; // NULL: --prompt
    struct mt_row row;
    uint64_t rows, started, written;
    struct job *jobs; // [job_count]: row i is in job i % job_count
    size_t job_count;
    struct mt_file_writer writer; // --out
    struct mt_json_text line;
    struct mt_progress progress;
    struct mt_interrupt interrupt;
    double start, seconds; // when the answering began, how long it took
};

// ------------------------------------------------------------------ answers

static bool streams(const struct generator *g)
{
    return g->dataset == NULL && g->settings->out == NULL;
}

static enum mt_status show(struct job *job)
{
    const struct mt_answer *answer = &job->answer;
    if (answer->settled <= job->shown) return MT_OK;
    job->shown +=
        mt_show_text(stdout, (const char *)answer->text.data + job->shown, answer->settled - job->shown);
    if (fflush(stdout) == 0 && !ferror(stdout)) return MT_OK;
    return mt_fail(job->generator->ctx, MT_ERR_IO, "cannot write standard output: %s", strerror(errno));
}

static enum mt_status take_token(void *self, int32_t id, bool *stop)
{
    struct job *job = self;
    enum mt_status status = mt_answer_push(&job->answer, id);
    *stop = job->answer.stopped;
    return status == MT_OK && streams(job->generator) ? show(job) : status;
}

static enum mt_status take_end(void *self, enum mt_finish why)
{
    struct job *job = self;
    job->finished = true;
    job->why = why;
    enum mt_status status = mt_answer_end(&job->answer);
    return status == MT_OK && streams(job->generator) ? show(job) : status;
}

static const char *finish_name(const struct job *job)
{
    if (job->answer.stopped) return "stop";
    return job->why == MT_FINISH_LENGTH ? "length" : "eos";
}

static enum mt_status compose(struct mt_json_text *line, const struct job *job, uint64_t index, bool ids)
{
    const struct mt_answer *answer = &job->answer;
    line->length = 0;
    mt_json_text_format(line, "{\"index\": %" PRIu64 ", \"text\": ", index);
    mt_json_text_bytes(line, answer->text.data, answer->text.count);
    mt_json_text_format(line, ", \"tokens\": %zu, \"prompt_tokens\": %zu, \"finish\": \"%s\"",
                        answer->ids.count, job->ids.count, finish_name(job));
    if (ids) mt_json_text_format(line, ", \"ids\": [");
    for (size_t i = 0; ids && i < answer->ids.count; i++)
        mt_json_text_format(line, "%s%" PRId32, i == 0 ? "" : ", ", answer->ids.data[i]);
    return mt_json_text_format(line, ids ? "]}\n" : "}\n");
}

/* What reads a pipe may write to the terminal at any time. */
static bool prints_to_pipe(const struct generator *g)
{
    struct stat info;
    return g->settings->out == NULL && fstat(STDOUT_FILENO, &info) == 0 && S_ISFIFO(info.st_mode);
}

/* A line of standard output; where that is a terminal, too, the progress makes way. */
static enum mt_status print_line(struct generator *g)
{
    if (isatty(STDOUT_FILENO) == 1) mt_progress_hide(&g->progress);
    (void)mt_show_text(stdout, g->line.bytes, g->line.length);
    if (fflush(stdout) == 0 && !ferror(stdout)) return MT_OK;
    return mt_fail(g->ctx, MT_ERR_IO, "cannot write standard output: %s", strerror(errno));
}

/* Writes what is finished, in the order of the rows. */
static enum mt_status write_finished(struct generator *g)
{
    enum mt_status status = MT_OK;
    while (status == MT_OK && g->written < g->started && g->jobs[g->written % g->job_count].finished) {
        const struct job *job = &g->jobs[g->written % g->job_count];
        if (!streams(g)) status = compose(&g->line, job, g->written, g->settings->ids);
        if (status != MT_OK) return status;
        if (g->settings->out != NULL) {
            status = mt_file_writer_write(&g->writer, g->line.bytes, g->line.length);
        } else if (!streams(g)) {
            status = print_line(g);
        }
        g->written++;
    }
    return status;
}

// ------------------------------------------------------------------ prompts

static enum mt_status encode_prompt(struct generator *g, uint64_t index, struct mt_id_list *ids)
{
    const char *prompt = g->settings->prompt;
    if (g->dataset != NULL) {
        enum mt_status status = mt_dataset_read(g->dataset, index, &g->row);
        if (status == MT_OK) status = mt_session_encode_row(&g->session, &g->row, ids);
        // What a row itself does wrong already says where it is.
        if (status != MT_ERR_USAGE) return status;
        return mt_fail_within(g->ctx, status, "%s:%" PRIu64, g->row.file, g->row.line);
    }
    return mt_session_encode_said(&g->session, prompt, strlen(prompt), ids);
}

static enum mt_status start_job(struct generator *g)
{
    uint64_t index = g->started;
    struct job *job = &g->jobs[index % g->job_count];
    enum mt_status status = mt_answer_clear(&job->answer);
    job->ids.count = 0;
    job->shown = 0;
    job->finished = false;
    if (status == MT_OK) status = encode_prompt(g, index, &job->ids);
    if (status != MT_OK) return status;
    job->request = cli_infer_request(&g->settings->infer, &g->session);
    job->request.ids = job->ids.data;
    job->request.count = (int64_t)job->ids.count;
    job->request.number = index;
    job->request.self = job;
    job->request.token = take_token;
    job->request.finished = take_end;
    status = mt_engine_add_generation(g->session.engine, &job->request);
    if (status != MT_OK && g->dataset != NULL)
        return mt_fail_within(g->ctx, status, "%s:%" PRIu64, g->row.file, g->row.line);
    if (status == MT_OK) g->started++;
    return status;
}

static enum mt_status run_jobs(struct generator *g)
{
    enum mt_status status = MT_OK;
    bool working = true;
    while (status == MT_OK && (g->written < g->rows) && mt_interrupt_seen(&g->interrupt) == 0) {
        while (status == MT_OK && g->started < g->rows && g->started - g->written < g->job_count)
            status = start_job(g);
        if (status == MT_OK) status = mt_engine_step(g->session.engine, &working);
        if (status == MT_OK) status = write_finished(g);
        struct mt_engine_counts counts = mt_engine_counts(g->session.engine);
        double seconds = mt_clock_seconds() - g->start;
        mt_progress_rate(&g->progress, seconds > 0.0 ? (double)counts.generated_tokens / seconds : 0.0);
        mt_progress_update(&g->progress, (int64_t)g->written);
    }
    return status;
}

// ------------------------------------------------------------------ the whole

static enum mt_status open_jobs(struct generator *g)
{
    void *memory = NULL;
    g->rows = g->dataset != NULL ? mt_dataset_rows(g->dataset) : 1;
    g->job_count = (size_t)g->session.slots * JOBS_A_SLOT;
    enum mt_status status = mt_allocate_array(g->ctx, g->job_count, sizeof *g->jobs, &memory);
    g->jobs = memory;
    const char *const *stops = g->settings->infer.stops.count > 0 ? g->settings->infer.stops.item : NULL;
    for (size_t i = 0; status == MT_OK && i < g->job_count; i++) {
        g->jobs[i].generator = g;
        g->jobs[i].ids.ctx = g->ctx;
        status = mt_answer_create(g->ctx, g->session.tokenizer, stops, &g->jobs[i].answer);
    }
    return status;
}

static void close_all(struct generator *g)
{
    for (size_t i = 0; g->jobs != NULL && i < g->job_count; i++) {
        mt_answer_free(&g->jobs[i].answer);
        if (g->jobs[i].ids.ctx != NULL) mt_id_list_free(&g->jobs[i].ids);
    }
    mt_release(g->ctx, g->jobs, g->job_count * sizeof *g->jobs);
    mt_json_text_free(&g->line);
    mt_row_free(&g->row);
    mt_dataset_close(g->dataset);
    mt_session_close(&g->session);
    mt_file_writer_abandon(&g->writer);
}

static void report(const struct generator *g)
{
    struct mt_engine_counts counts = mt_engine_counts(g->session.engine);
    double seconds = g->seconds;
    (void)fprintf(stderr, "%s: %s read, %" PRId64 " written in %.1f s, %.1f a second\n",
                  mt_counted(g->written, "answer", "answers").text,
                  mt_counted((uint64_t)counts.prompt_tokens, "token", "tokens").text, counts.generated_tokens,
                  seconds, seconds > 0.0 ? (double)counts.generated_tokens / seconds : 0.0);
    if (g->settings->out != NULL) (void)fprintf(stderr, "written: %s\n", g->settings->out);
}

/* What is missing is said, whatever else is not. */
static void report_stop(const struct generator *g)
{
    const char *out = g->settings->out;
    if (g->dataset == NULL || g->written == g->rows) return;
    (void)fprintf(stderr, "metier generate: stopped: %" PRIu64 " of %s, %s%s\n", g->written,
                  mt_counted(g->rows, "answer is written", "answers are written").text,
                  out != NULL ? "in " : "to standard output", out != NULL ? out : "");
}

static enum mt_status run(struct generator *g)
{
    const struct settings *settings = g->settings;
    struct mt_log log;
    mt_log_init(&log, stderr, MT_LOG_WARNING);
    enum mt_status status = cli_infer_open_found(g->ctx, &settings->infer, &g->session);
    if (status == MT_OK) status = cli_infer_check_drawing(&settings->infer, &g->session, g->given);
    if (status == MT_OK) cli_infer_warn_of_texts(&g->session, &log);
    if (status == MT_OK && settings->in != NULL) {
        const struct mt_dataset_options plain = {0};
        status = mt_dataset_open(g->ctx, settings->in, &plain, &g->dataset);
    }
    if (status == MT_OK) status = open_jobs(g);
    if (status == MT_OK && settings->out != NULL) status = mt_folder_make_above(g->ctx, settings->out);
    if (status == MT_OK && settings->out != NULL)
        status = mt_file_writer_open(g->ctx, settings->out, &g->writer);
    if (status != MT_OK) return status;
    bool shown = !settings->quiet && g->dataset != NULL;
    mt_progress_start(&g->progress, &(struct mt_progress_options){.stream = shown ? stderr : NULL,
                                                                  .label = "answers",
                                                                  .unit = "tok",
                                                                  .lines = prints_to_pipe(g),
                                                                  .total = (int64_t)g->rows});
    g->start = mt_clock_seconds();
    status = run_jobs(g);
    g->seconds = mt_clock_seconds() - g->start;
    mt_progress_finish(&g->progress);
    if (g->session.talked_plainly) cli_infer_warn_of_plain(&log);
    if (status != MT_OK) return status;
    if (streams(g)) printf("\n");
    if (settings->out != NULL) status = mt_file_writer_commit(&g->writer);
    if (status == MT_OK && !settings->quiet) report(g);
    if (status == MT_OK) report_stop(g);
    return status;
}

static enum mt_status check(const struct settings *settings, const struct cli_call *call)
{
    if ((settings->prompt == NULL) == (settings->in == NULL))
        return mt_fail(call->ctx, MT_ERR_USAGE, "give either --prompt TEXT or --in FILE");
    const struct cli_void rules[] = {
        {settings->prompt != NULL, "--batch", "with --prompt, which is one answer"},
        {settings->prompt != NULL && settings->out == NULL, "--ids",
         "with --prompt: the answer is printed as it comes; --out FILE takes ids, too"},
    };
    enum mt_status status = cli_refuse_void(call, rules, sizeof rules / sizeof rules[0]);
    return status == MT_OK ? cli_infer_check(&settings->infer, call) : status;
}

static enum mt_status run_verb(struct cli_call *call)
{
    struct settings settings = {0};
    cli_infer_settings_init(&settings.infer);
    settings.infer.batch = -1;
    settings.infer.own_template = true;
    struct cli_option options[INFER_OPTIONS + 8] = {
        {"--prompt", CLI_TEXT, &settings.prompt, "TEXT", "one prompt; its answer goes to standard output"},
        {"--in", CLI_TEXT, &settings.in, "FILE", "rows with a prompt or messages"},
        {"--out", CLI_TEXT, &settings.out, "FILE", "where the answers go, as JSONL (standard output)"},
        {"--batch", CLI_AUTO, &settings.infer.batch, "N",
         "answers computed together (auto: by memory and device; 1 for --prompt)"},
        {"--bos", CLI_TEXT, &settings.infer.bos, "WHEN",
         "a token that begins plain texts: yes, no, or as the tokenizer adds it (tokenizer)"},
        {"--ids", CLI_FLAG, &settings.ids, NULL, "also write the ids of each answer's tokens"},
        {"--quiet", CLI_FLAG, &settings.quiet, NULL, "no progress and no summary"},
    };
    cli_infer_options(&settings.infer, options + 7);
    enum mt_status status = cli_parse(call, options);
    if (status != MT_OK || call->help_shown) return status;
    status = check(&settings, call);
    if (status != MT_OK) return status;
    settings.infer.directory = call->positional[0];
    settings.infer.quiet = settings.quiet;
    if (settings.prompt != NULL) settings.infer.batch = 1;
    struct generator generator = {.ctx = call->ctx, .settings = &settings, .given = call};
    mt_row_init(call->ctx, &generator.row);
    mt_json_text_init(&generator.line, call->ctx);
    mt_interrupt_begin(&generator.interrupt, NULL, NULL); // before the device makes threads
    status = run(&generator);
    int signal = mt_interrupt_seen(&generator.interrupt);
    mt_interrupt_end(&generator.interrupt);
    close_all(&generator);
    if (signal != 0) call->exit_status = 128 + signal;
    return status;
}

const struct cli_verb cli_verb_generate = {
    .name = "generate",
    .summary = "answer one prompt, or every prompt of a file",
    .arguments = "DIR",
    .wanted = "a model folder",
    .details =
        "DIR is a Hugging Face model folder. Each row of FILE (JSONL, JSON, CSV or TSV) has a \"prompt\", "
        "or\n"
        "\"messages\" of {role, content}. metier writes the conversation in the form in which the adapter "
        "or\n"
        "model was trained, else with the model's own chat template; a prompt is what the user says.\n"
        "--template overrides both. With --template none, or a model without a template, the model "
        "continues\n"
        "the prompt as plain text. The output is JSONL in the order of the rows: index, text, tokens,\n"
        "prompt_tokens, and finish: eos (the model ended the answer), stop (a --stop text came; it is left\n"
        "out) or length. Sampling follows generation_config.json, and is greedy if that file sets none;\n"
        "options override single values. An answer depends on its prompt, its row's index and the seed, not\n"
        "on --batch. SIGINT ends after the answers that have begun.",
    .examples =
        "  metier generate models/moe --prompt 'The capital of France is' --max-new 20\n"
        "  metier generate models/moe --in prompts.jsonl --out answers.jsonl --batch 16\n"
        "  metier generate models/moe --adapter runs/first/adapter --template none --in texts.jsonl\n"
        "  metier generate models/moe --prompt 'Once' --temperature 0.8 --top-p 0.95 --seed 7 --stop END",
    .run = run_verb,
};
