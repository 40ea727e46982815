/* metier eval: benchmark tasks put to a model or an endpoint, or judged from a file of answers. */
#define _DEFAULT_SOURCE // realpath
#include "cli/eval/eval.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files/file.h"
#include "cli/agreement.h"
#include "cli/cli.h"
#include "cli/shared/device.h"
#include "cli/shared/ranks.h"
#include "cli/shared/share.h"
#include "cli/shared/table.h"
#include "eval/run/results.h"
#include "eval/tasks/task_data.h"
#include "formats/text/printable.h"

#define ARENA_BYTES  65536
#define AT_ONCE      8 // requests to an endpoint
#define MOST_NEW     1000000
#define MOST_SLOTS   4096
#define MOST_SAMPLES 1000

// ------------------------------------------------------------------ lists

static enum mt_status print_task(struct mt_context *ctx, const char *folder, const char *file,
                                 struct mt_arena *arena)
{
    char path[4096];
    char comparable[600] = "";
    struct mt_task task;
    (void)snprintf(path, sizeof path, "%s/%s", folder, file);
    enum mt_status status = mt_task_read(ctx, path, NULL, 0, arena, &task);
    if (status != MT_OK) return status;
    size_t parts = 0;
    const char *const *names = task.members != NULL ? task.members : task.subtasks;
    while (names != NULL && names[parts] != NULL) parts++;
    char note[64] = "";
    if (parts > 0)
        (void)snprintf(note, sizeof note, " (%s of %zu)", task.members != NULL ? "group" : "family", parts);
    if (task.comparable != NULL)
        (void)snprintf(comparable, sizeof comparable, "; comparable with %.512s", task.comparable);
    else if (task.members == NULL)
        (void)snprintf(comparable, sizeof comparable, "; our own, not comparable with published figures");
    (void)snprintf(path, sizeof path, "%.2048s%s%s", task.title, note, comparable);
    mt_make_printable(path, strlen(path), false);
    int taken = printf("%-22s %-10s ", mt_printable(task.name).text, mt_domain_name(task.domain));
    cli_print_text(taken, path);
    return MT_OK;
}

static enum mt_status print_list(struct mt_context *ctx, const char *folder, struct mt_arena *arena)
{
    const char *const *names = NULL;
    size_t count = 0;
    enum mt_status status = cli_list_yaml(arena, folder, &names, &count);
    for (size_t i = 0; i < count && status == MT_OK; i++) status = print_task(ctx, folder, names[i], arena);
    return status;
}

// ------------------------------------------------------------------ questions

/* To standard output where there is no writer. */
static enum mt_status write_question(struct mt_byte_list *line, const struct mt_task *task,
                                     const struct mt_task_sample *sample, struct mt_file_writer *writer)
{
    struct mt_text_writer made = {.text = *line};
    made.text.count = 0;
    mt_text_put_string(&made, "{\"task\": ", mt_text_of(task->name));
    mt_text_put_string(&made, ", \"id\": ", mt_text_of(sample->id));
    mt_text_put_string(&made, ", \"prompt\": ", mt_text_in(&sample->prompt));
    mt_text_putf(&made, ", \"max_tokens\": %" PRId64 "}\n", task->max_tokens);
    *line = made.text;
    enum mt_status status = made.status;
    if (status != MT_OK) return status;
    if (writer != NULL) return mt_file_writer_write(writer, line->data, line->count);
    (void)mt_show_text(stdout, (const char *)line->data, line->count);
    if (ferror(stdout))
        status = mt_fail(line->ctx, MT_ERR_IO, "cannot write the questions: %s", strerror(errno));
    return status;
}

static enum mt_status write_task_questions(struct mt_context *ctx, const struct eval_arguments *arguments,
                                           const struct mt_task *task, struct mt_file_writer *writer)
{
    struct mt_task_data *data = NULL;
    struct mt_task_sample sample;
    struct mt_byte_list line = {.ctx = ctx};
    struct mt_log log;
    mt_log_init(&log, stderr, MT_LOG_WARNING);
    if (arguments->skip_missing && !mt_task_data_exists(task, arguments->data)) return MT_OK;
    mt_sample_init(ctx, &sample);
    enum mt_status status = mt_task_data_open(ctx, task, arguments->data, &data);
    if (status == MT_OK) status = mt_task_data_warn(data, &log);
    size_t count = status == MT_OK ? mt_task_data_count(data) : 0;
    if (arguments->limit > 0 && (uint64_t)arguments->limit < count) count = (size_t)arguments->limit;
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        status = mt_task_data_sample(data, i, &sample);
        if (status == MT_OK) status = write_question(&line, task, &sample, writer);
    }
    mt_byte_list_free(&line);
    mt_sample_free(&sample);
    mt_task_data_close(data);
    return status;
}

static enum mt_status write_questions(struct mt_context *ctx, const struct eval_arguments *arguments,
                                      const struct mt_task_list *list)
{
    bool there = false;
    for (size_t i = 0; i < list->count && !there; i++)
        there = mt_task_data_exists(&list->tasks[i], arguments->data);
    if (!there && arguments->skip_missing)
        return mt_fail(ctx, MT_ERR_USAGE, "%s: has no data for any of the tasks", arguments->data);
    bool standard = strcmp(arguments->questions, "-") == 0;
    struct mt_file_writer writer = {0};
    enum mt_status status = standard ? MT_OK : mt_file_writer_open(ctx, arguments->questions, &writer);
    for (size_t i = 0; i < list->count && status == MT_OK; i++)
        status = write_task_questions(ctx, arguments, &list->tasks[i], standard ? NULL : &writer);
    if (status == MT_OK && !standard) status = mt_file_writer_commit(&writer);
    mt_file_writer_abandon(&writer);
    return status;
}

// ------------------------------------------------------------------ which tasks

/* Names between commas. */
static enum mt_status resolve_named(struct mt_context *ctx, const char *folder, const char *names,
                                    struct mt_arena *arena, struct mt_task_list *list)
{
    enum mt_status status = MT_OK;
    for (const char *at = names; status == MT_OK && *at != '\0';) {
        size_t length = strcspn(at, ",");
        const char *name = NULL;
        if (length > 0) status = mt_arena_copy_text(arena, at, length, &name);
        if (length > 0 && status == MT_OK) status = mt_task_resolve(ctx, folder, name, arena, list);
        at += length + (at[length] == ',' ? 1 : 0);
    }
    return status;
}

/* What options change about tasks. */
static enum mt_status adapt_tasks(struct mt_context *ctx, const struct eval_arguments *arguments,
                                  struct mt_task_list *list)
{
    bool sampled = false;
    for (size_t i = 0; i < list->count; i++) {
        struct mt_task *task = &list->tasks[i];
        if (arguments->shots >= 0) task->few_shot = arguments->shots;
        if (arguments->infer.max_new > 0) task->max_tokens = arguments->infer.max_new;
        if (task->few_shot > 0 && task->few_shot_data == NULL && task->few_shot_text == NULL)
            return mt_fail(ctx, MT_ERR_USAGE, "task %s names no file of examples for --shots", task->name);
        int64_t k = arguments->pass_k > 0 ? arguments->pass_k : arguments->samples;
        if (arguments->samples > 0) sampled = mt_task_take_samples(task, arguments->samples, k) || sampled;
    }
    if (arguments->samples > 0 && !sampled)
        return mt_fail(ctx, MT_ERR_USAGE,
                       "--samples needs a task with the metric pass, and none of these has it");
    return MT_OK;
}

static enum mt_status find_tasks(struct mt_context *ctx, const struct eval_arguments *arguments,
                                 const struct cli_call *given, const char *folder, struct mt_arena *arena,
                                 struct mt_task_list *list)
{
    enum mt_status status = MT_OK;
    for (int i = 0; i < given->positional_count && status == MT_OK; i++)
        status = mt_task_resolve(ctx, folder, given->positional[i], arena, list);
    if (status == MT_OK && arguments->tasks != NULL)
        status = resolve_named(ctx, folder, arguments->tasks, arena, list);
    if (status == MT_OK && list->count == 0)
        status = mt_fail(ctx, MT_ERR_USAGE, "a task is missing; --list names them");
    return status == MT_OK ? adapt_tasks(ctx, arguments, list) : status;
}

// ------------------------------------------------------------------ arguments

static enum mt_status check_void(const struct eval_arguments *arguments, const struct cli_call *given)
{
    static const char of_tasks[] = "--tasks --data --model --endpoint --answers --questions --limit --shots "
                                   "--samples --pass-k --max-new --max-tokens --again --skip-missing "
                                   "--without-sandbox";
    static const char of_a_model[] = "--adapter --quantize --prune --template --template-option --bos "
                                     "--temperature "
                                     "--top-p --seed --slots --context --memory --device --threads "
                                     "--experts --no-routing";
    bool asks = arguments->endpoint.url != NULL;
    const struct cli_void rules[] = {
        {arguments->keys, "--list --out --merge-review", "with --keys"},
        {arguments->keys, of_tasks, "with --keys"},
        {arguments->list, "--out --merge-review", "with --list"},
        {arguments->list, of_tasks, "with --list"},
        {arguments->merge_review != NULL, of_tasks, "with --merge-review"},
        {arguments->questions != NULL, "--out --again --without-sandbox --samples --pass-k",
         "with --questions: nothing is answered"},
        {arguments->answers != NULL, "--max-new --max-tokens", "with --answers: they are there already"},
        {asks,
         "--adapter --quantize --prune --template-option --bos --context --memory --device --threads "
         "--experts --no-routing",
         "with --endpoint: the server knows"},
        {asks || arguments->answers != NULL || arguments->infer.quantise != NULL ||
             arguments->infer.prune != NULL,
         "--card", "unless the model in --model answers, as it is in its folder"},
        {!asks, "--key-env --timeout --retries --backoff --insecure-http", "without --endpoint"},
        {arguments->infer.directory == NULL && !asks, of_a_model, "without --model"},
    };
    if ((arguments->keys || arguments->list || arguments->merge_review != NULL) &&
        given->positional_count > 0)
        return mt_fail(given->ctx, MT_ERR_USAGE, "unexpected argument '%s'", given->positional[0]);
    return cli_refuse_void(given, rules, sizeof rules / sizeof rules[0]);
}

static enum mt_status print_keys(const struct eval_arguments *arguments, const struct cli_call *given)
{
    enum mt_status status = check_void(arguments, given);
    return status == MT_OK ? cli_print_keys(&mt_task_keys, 17) : status;
}

/* The endpoint writes conversations out itself; only whether prompts are such can be said. */
static enum mt_status check_endpoint(struct mt_context *ctx, struct eval_arguments *arguments)
{
    const char *template = arguments->infer.template_name;
    if (arguments->endpoint.url == NULL) return MT_OK;
    if (arguments->endpoint_model == NULL)
        return mt_fail(ctx, MT_ERR_USAGE, "--model NAME is missing: the endpoint's name for the model");
    if (template != NULL && strcmp(template, "none") != 0 && strcmp(template, "model") != 0)
        return mt_fail(ctx, MT_ERR_USAGE,
                       "--template is '%s', expected none (plain texts) or model (the endpoint's own)",
                       template);
    int64_t at_once = arguments->infer.batch >= 0 ? arguments->infer.batch : AT_ONCE;
    const struct cli_limit limit = {"--slots", at_once, 1, MT_HTTP_MOST_PARALLEL};
    enum mt_status status = cli_check_limits(ctx, &limit, 1);
    if (status != MT_OK) return status;
    return cli_endpoint_http(ctx, &arguments->endpoint, at_once, &arguments->http);
}

static enum mt_status check(struct eval_arguments *arguments, const struct cli_call *given)
{
    struct mt_context *ctx = given->ctx;
    int sources = (arguments->answers != NULL) + (arguments->questions != NULL) +
                  (arguments->infer.directory != NULL) + (arguments->endpoint.url != NULL);
    if (sources != 1)
        return mt_fail(ctx, MT_ERR_USAGE,
                       "one of --model DIR, --endpoint URL, --answers FILE and --questions FILE is expected");
    if (arguments->answers != NULL && arguments->out == NULL)
        return mt_fail(ctx, MT_ERR_USAGE, "--out DIR is missing");
    const struct cli_limit limits[] = {
        {"--shots", arguments->shots < 0 ? 0 : arguments->shots, 0, 1000},
        {"--slots", arguments->infer.batch >= 0 ? arguments->infer.batch : 1, 1, MOST_SLOTS},
        {"--max-new", arguments->infer.max_new, 0, MOST_NEW},
        {"--samples", arguments->samples > 0 ? arguments->samples : 1, 1, MOST_SAMPLES}};
    enum mt_status status = cli_check_limits(ctx, limits, sizeof limits / sizeof limits[0]);
    if (status == MT_OK) status = check_endpoint(ctx, arguments);
    if (status != MT_OK) return status;
    if (arguments->pass_k > arguments->samples)
        return mt_fail(ctx, MT_ERR_USAGE, "--pass-k is %" PRId64 ", expected 1 to --samples",
                       arguments->pass_k);
    return cli_infer_check(&arguments->infer, given);
}

/* The last part of a path; of RUN/adapter, which every run has, the one before. */
static void short_name(const char *path, char *name, size_t bytes)
{
    char whole[PATH_MAX];
    if (realpath(path, whole) == NULL) (void)snprintf(whole, sizeof whole, "%s", path);
    char *slash = strrchr(whole, '/');
    if (slash != NULL && strcmp(slash + 1, "adapter") == 0) {
        *slash = '\0';
        slash = strrchr(whole, '/');
    }
    (void)snprintf(name, bytes, "%.*s", (int)bytes - 1, slash != NULL ? slash + 1 : whole);
}

/* Where results go when nobody said: "eval-MODEL" or "eval-MODEL-RUN" in the folder at hand; in the arena. */
static enum mt_status default_out(struct mt_arena *arena, const struct eval_arguments *arguments,
                                  const char **out)
{
    char model[128];
    char adapter[128] = "";
    char text[sizeof model + sizeof adapter + 16];
    bool asks = arguments->endpoint_model != NULL;
    short_name(asks ? arguments->endpoint_model : arguments->infer.directory, model, sizeof model);
    if (arguments->infer.adapter != NULL) short_name(arguments->infer.adapter, adapter, sizeof adapter);
    int length = snprintf(text, sizeof text, "eval-%s%s%s", model, adapter[0] != '\0' ? "-" : "", adapter);
    return mt_arena_copy_text(arena, text, (size_t)length, out);
}

/* What every rank knows. */
struct evaluating {
    struct mt_context *ctx;
    struct eval_arguments *arguments;
    const struct cli_call *given;
    struct mt_arena *arena;
};

/* Options of writing, drawing and programs, where nothing is written, every answer is the most likely one, or
 * nothing is run. Questions that go elsewhere may be answered in writing. */
static enum mt_status check_writing(const struct evaluating *e, const struct mt_task_list *list)
{
    double temperature = e->arguments->infer.temperature;
    bool draws = temperature > 0.0;
    bool writes = e->arguments->questions != NULL;
    bool runs = false;
    for (size_t i = 0; i < list->count; i++) {
        draws = draws || (temperature < 0.0 && list->tasks[i].samples > 1);
        writes = writes || list->tasks[i].kind == MT_TASK_GENERATE;
        runs = runs || mt_task_runs_programs(&list->tasks[i]);
    }
    const struct cli_void rules[] = {
        {!writes, "--max-new --max-tokens --temperature --top-p --seed",
         "with these tasks: their choices are scored, not written"},
        {!runs, "--without-sandbox", "with these tasks: none runs programs"},
        {!draws, "--top-p --seed", "without --temperature: always the most likely token is taken"}};
    return cli_refuse_void(e->given, rules, sizeof rules / sizeof rules[0]);
}

/* What needs no model, and one rank only. */
static bool is_for_one(const struct eval_arguments *arguments)
{
    return arguments->list || arguments->merge_review != NULL || arguments->questions != NULL;
}

/* Tasks and folders, before anything is opened. */
static enum mt_status prepare(const struct evaluating *e, const char *folder, struct mt_task_list *list)
{
    struct eval_arguments *arguments = e->arguments;
    struct mt_text_form form = {0};
    enum mt_status status = find_tasks(e->ctx, arguments, e->given, folder, e->arena, list);
    if (status == MT_OK) status = check(arguments, e->given);
    if (status == MT_OK) status = check_writing(e, list);
    if (status == MT_OK && arguments->infer.directory != NULL)
        status = cli_infer_find_form(e->arena, &arguments->infer, &form);
    const struct cli_void untold = {form.template == NULL, "--template-option", "without --template"};
    if (status == MT_OK) status = cli_refuse_void(e->given, &untold, 1);
    if (status == MT_OK && arguments->endpoint.url == NULL)
        status = cli_find_templates(e->arena, NULL, &arguments->templates);
    if (status != MT_OK) return status;
    if (arguments->data == NULL) arguments->data = getenv("METIER_DATA");
    if (arguments->data == NULL)
        return mt_fail(e->ctx, MT_ERR_USAGE, "--data DIR is missing ($METIER_DATA is not set)");
    if (arguments->out == NULL && arguments->questions == NULL)
        status = default_out(e->arena, arguments, &arguments->out);
    return status;
}

static enum mt_status run_for_one(const struct evaluating *e, const char *folder)
{
    struct eval_arguments *arguments = e->arguments;
    struct mt_task_list list = {0};
    if (arguments->list) return print_list(e->ctx, folder, e->arena);
    if (arguments->merge_review != NULL && arguments->out != NULL)
        return cli_merge_review(e->ctx, arguments->out, arguments->merge_review);
    if (arguments->merge_review != NULL)
        return mt_fail(e->ctx, MT_ERR_USAGE, "--out DIR is missing: the run that was reviewed");
    enum mt_status status = prepare(e, folder, &list);
    return status == MT_OK ? write_questions(e->ctx, arguments, &list) : status;
}

static enum mt_status run(void *self, struct mt_comm *comm, int *exit_status)
{
    const struct evaluating *e = self;
    const char *folder = NULL;
    struct mt_task_list list = {0};
    if (is_for_one(e->arguments) && mt_comm_rank(comm) != 0) return MT_OK;
    enum mt_status status = check_void(e->arguments, e->given);
    if (status == MT_OK) status = cli_find_share(e->arena, "tasks", "tasks", &folder);
    if (is_for_one(e->arguments)) {
        if (status == MT_OK) status = run_for_one(e, folder);
    } else {
        if (status == MT_OK) status = prepare(e, folder, &list);
        status = mt_comm_agree(comm, e->ctx, status);
        if (status == MT_OK) status = cli_eval_run_tasks(e->ctx, e->arguments, &list, comm, exit_status);
    }
    return status;
}

static enum mt_status do_as_asked(struct eval_arguments *arguments, struct cli_call *call)
{
    struct mt_arena arena;
    if (arguments->keys) return print_keys(arguments, call);
    if (arguments->endpoint.url != NULL) {
        arguments->endpoint_model = arguments->infer.directory;
        arguments->infer.directory = NULL;
    }
    mt_arena_init(&arena, call->ctx, ARENA_BYTES);
    struct evaluating e = {.ctx = call->ctx, .arguments = arguments, .given = call, .arena = &arena};
    enum mt_status status = cli_run_ranks(call, run, &e);
    mt_arena_free(&arena);
    return status;
}

static enum mt_status run_verb(struct cli_call *call)
{
    struct eval_arguments arguments = {
        .shots = -1, .expert_ranks = 1, .endpoint = {.retries = 5, .timeout = 300, .backoff = 1}};
    struct infer_settings *infer = &arguments.infer;
    cli_infer_settings_init(infer);
    infer->batch = -1;
    infer->template_date = MT_TEMPLATE_DATE; // a run that goes on tomorrow asks the same questions
    const struct cli_option options[] = {
        {"--list", CLI_FLAG, &arguments.list, NULL, "list the tasks"},
        {"--keys", CLI_FLAG, &arguments.keys, NULL, "the keys of task files"},
        {"--tasks", CLI_TEXT, &arguments.tasks, "A,B", "tasks, in addition to those named as arguments"},
        {"--data", CLI_TEXT, &arguments.data, "DIR", "folder of the benchmarks' files; default $METIER_DATA"},
        {"--model", CLI_TEXT, &infer->directory, "DIR",
         "the model that answers; with --endpoint its name there"},
        {"--endpoint", CLI_TEXT, &arguments.endpoint.url, "URL",
         "an OpenAI-compatible server that answers: https://HOST/v1"},
        {"--adapter", CLI_TEXT, &infer->adapter, "DIR", "a PEFT adapter to answer with"},
        {"--quantize", CLI_TEXT, &infer->quantise, "HOW", CLI_QUANTISE_HELP},
        {"--prune", CLI_TEXT, &infer->prune, "FILE",
         "keep these experts and take all others away; metier analyze --select-experts best makes the file"},
        {"--template", CLI_TEXT, &infer->template_name, "NAME",
         "chat template: model, a name, a file, none; default the task's, else that of training"},
        {"--template-option", CLI_LIST, &infer->template_options, "X=Y",
         "a variable of the template, as enable_thinking=false; may be given several times"},
        {"--bos", CLI_TEXT, &infer->bos, "WHEN",
         "a token that begins texts: yes, no, or as the tokenizer adds it (tokenizer)"},
        {"--answers", CLI_TEXT, &arguments.answers, "FILE", "answers made elsewhere, JSONL"},
        {"--questions", CLI_TEXT, &arguments.questions, "FILE",
         "write the questions instead, JSONL; - is standard output"},
        {"--out", CLI_TEXT, &arguments.out, "DIR", "where results go; with --model by default eval-MODEL"},
        {"--card", CLI_FLAG, &arguments.card, NULL,
         "also put the figures into the card of the adapter, or the model, that answers"},
        {"--again", CLI_FLAG, &arguments.again, NULL, "start over: the old results move to OUT/before-1"},
        {"--merge-review", CLI_TEXT, &arguments.merge_review, "FILE",
         "add a person's marks (metier review) to the run of --out"},
        {"--limit", CLI_INTEGER, &arguments.limit, "N", "maximum number of samples of each task"},
        {"--shots", CLI_INTEGER, &arguments.shots, "N",
         "examples before each question; default as the task says, none"},
        {"--samples", CLI_INTEGER, &arguments.samples, "N",
         "answers to each question of HumanEval and MBPP, for pass@k"},
        {"--pass-k", CLI_INTEGER, &arguments.pass_k, "K", "k of pass@k, in addition to pass@1; default N"},
        {"--temperature", CLI_REAL, &infer->temperature, "T",
         "default 0, the most likely token; 0.8 with --samples above 1"},
        {"--top-p", CLI_REAL, &infer->top_p, "P",
         "draw from the most likely tokens that have this probability together"},
        {"--seed", CLI_INTEGER, &infer->seed, "S", "seed of the random draws (0)"},
        {"--max-new", CLI_INTEGER, &infer->max_new, "N",
         "maximum tokens of an answer; default as the task says (512)"},
        {"--max-tokens", CLI_INTEGER, &infer->max_new, "N", "the same"},
        {"--slots", CLI_AUTO, &infer->batch, "N",
         "sequences computed together (auto: by memory and device), or requests at a time (8)"},
        {"--context", CLI_INTEGER, &infer->context, "N",
         "maximum tokens of prompt and answer together (4096, or the model's own limit)"},
        {"--memory", CLI_TEXT, &infer->memory, "LIMIT", CLI_MEMORY_HELP},
        {"--experts", CLI_INTEGER, &arguments.expert_ranks, "E",
         "for a model that fits no card: E ranks share its experts (1)"},
        {"--device", CLI_TEXT, &infer->device, "NAME", CLI_DEVICE_HELP},
        {"--threads", CLI_THREADS, &infer->threads, "N", "0: as many as the machine has"},
        {"--no-routing", CLI_FLAG, &arguments.no_routing, NULL, "do not record which experts are used"},
        {"--key-env", CLI_TEXT, &arguments.endpoint.key_env, "VARIABLE",
         "environment variable with the endpoint's key; default " CLI_KEY_NAME ", if set"},
        {"--timeout", CLI_REAL, &arguments.endpoint.timeout, "SECONDS", "timeout of one request (300)"},
        {"--retries", CLI_INTEGER, &arguments.endpoint.retries, "N",
         "retries of a request if the server is busy (5)"},
        {"--backoff", CLI_REAL, &arguments.endpoint.backoff, "SECONDS",
         "wait before the first retry, doubled each time (1)"},
        {"--insecure-http", CLI_FLAG, &arguments.endpoint.insecure_http, NULL,
         "allow plain http to other machines"},
        {"--without-sandbox", CLI_FLAG, &arguments.without_sandbox, NULL,
         "run the model's programs without a sandbox: they can do everything you can do"},
        {"--skip-missing", CLI_FLAG, &arguments.skip_missing, NULL, "leave out tasks without data"},
        {"--quiet", CLI_FLAG, &arguments.quiet, NULL, "no progress on the terminal"},
        {0},
    };
    enum mt_status status = cli_parse(call, options);
    return status != MT_OK || call->help_shown ? status : do_as_asked(&arguments, call);
}

static const struct cli_keys keys = {.keys = &mt_task_keys, .title = "a task of metier eval"};

const struct cli_verb cli_verb_eval = {
    .name = "eval",
    .summary = "evaluate a model or a server on benchmarks, or judge answers: GSM8K, MATH-500, MMLU, BBH, "
               "GLUE, HumanEval, ...",
    .arguments = "TASK... --model DIR",
    .counts_arguments = true,
    .details =
        "Reads the tasks' questions from --data, lets the model answer them (or takes answers from a file),\n"
        "judges the answers, and writes OUT/samples_TASK.jsonl (a line per sample), OUT/routing_TASK.json\n"
        "(the experts the task used) and OUT/results.json (figures with standard errors and 95 % intervals,\n"
        "in lm-evaluation-harness's layout). Ctrl-C keeps what is finished. After a stop or a kill, the "
        "same\n"
        "command goes on. Under mpirun the ranks share the samples, and the results are the same.\n"
        "A file of answers is JSONL:\n"
        "  {\"task\": \"gsm8k\", \"id\": \"0\", \"answer\": \"... #### 18\"}\n"
        "With --endpoint the questions go to a server that speaks OpenAI's API, such as vLLM. metier first\n"
        "says where they go and how many there are. The exit status is 1 if a question got no answer.\n"
        "A TASK is a name of --list, a group (glue, bbh), one task of a family (mmlu_anatomy) or a file of\n"
        "your own. HumanEval and MBPP run programs that the model wrote, in a sandbox (metier sandbox "
        "--check).\n"
        "docs/evaluation.md describes task files and data.",
    .examples =
        "  metier eval --list\n"
        "  metier eval --tasks gsm8k,mmlu --data data --model models/moe     # into eval-moe\n"
        "  metier eval --tasks gsm8k,mmlu --data data --model models/moe --adapter runs/first/adapter \\\n"
        "      --out runs/first     # in the run's folder: metier report runs/first shows both\n"
        "  mpirun -n 4 metier eval --tasks gsm8k,mmlu --data data --model models/moe\n"
        "  metier eval gsm8k mmlu --data data --endpoint http://localhost:8000/v1 --model NAME --slots 64\n"
        "  metier eval humaneval --data data --model models/moe --samples 20 --pass-k 10 --out runs/code\n"
        "  metier eval glue --skip-missing --limit 50 --shots 0 --data data --model models/moe --out "
        "runs/glue\n"
        "  metier eval gsm8k math500 --data data --questions questions.jsonl\n"
        "  metier eval gsm8k math500 --data data --answers theirs.jsonl --out runs/eval\n"
        "  metier eval --merge-review review.json --out runs/eval",
    .ranks = CLI_RANKS_SHARE,
    .keys = &keys,
    .names = "tasks",
    .run = run_verb,
};
