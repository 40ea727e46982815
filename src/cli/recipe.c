/*
 * metier recipe: training rows out of benchmarks' training splits. A teacher is an endpoint that answers, and
 * a sandbox that judges programs.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/amount.h"
#include "base/clock.h"
#include "base/files/folder.h"
#include "base/interrupt.h"
#include "cli/cli.h"
#include "cli/shared/endpoint.h"
#include "cli/shared/share.h"
#include "cli/shared/table.h"
#include "eval/code/code_judge.h"
#include "eval/code/sandbox_cgroup.h"
#include "eval/endpoint/endpoint.h"
#include "recipe/write.h"
#include "text/row_identity.h"

#define ARENA_BYTES     65536
#define MOST_ROWS       INT64_C(1000000000000)
#define MOST_WORDS      1000
#define MOST_AGAINST    256
#define AT_ONCE         8 // requests to an endpoint
#define MOST_SAMPLES    100
#define MOST_NEW        1000000
#define PROGRAM_SECONDS 60  // of an answer that is run
#define DRAWN           0.8 // temperature where a question may be asked again

struct recipe_arguments {
    const char *data, *out, *overlaps, *against;
    struct cli_list exclude;
    int64_t count, seed, words;
    bool list, keys, skip_missing, quiet;
    // The teacher.
    struct cli_endpoint endpoint;
    const char *model;
    double temperature, top_p;
    int64_t samples, slots, max_new;
    bool fill, without_sandbox;
};

// ------------------------------------------------------------------ the teacher

/* A teacher behind an endpoint, and what judges its programs. */
struct recipe_teacher {
    struct mt_endpoint *endpoint;
    struct mt_sandbox_judge judge;
    struct mt_sandbox_cgroups cgroups;
    struct mt_code_judge face;
    char settings[1024];
    struct mt_recipe_teacher teacher; // what mt_recipe_write is given
};

static enum mt_status check_teacher(struct mt_context *ctx, const struct recipe_arguments *arguments,
                                    struct mt_http_options *http)
{
    if (arguments->model == NULL)
        return mt_fail(ctx, MT_ERR_USAGE,
                       "--teacher-model NAME is missing: the endpoint's name for the teacher");
    const struct cli_limit limits[] = {{"--slots", arguments->slots, 1, MT_HTTP_MOST_PARALLEL},
                                       {"--samples", arguments->samples, 1, MOST_SAMPLES},
                                       {"--max-new", arguments->max_new, 0, MOST_NEW}};
    enum mt_status status = cli_check_limits(ctx, limits, 3);
    return status == MT_OK ? cli_endpoint_http(ctx, &arguments->endpoint, arguments->slots, http) : status;
}

/* As a line of JSON: what a teacher's answers depend on besides its question. Not where it is. */
static enum mt_status note_settings(struct mt_context *ctx, const struct recipe_arguments *arguments,
                                    double temperature, struct recipe_teacher *teacher)
{
    struct mt_text_writer text = {.text = {.ctx = ctx}};
    mt_text_put_string(&text, "{\"model\": ", mt_text_of(arguments->model));
    mt_text_put_number(&text, ", \"temperature\": ", temperature);
    mt_text_put_number(&text, ", \"top_p\": ", arguments->top_p);
    mt_text_putf(&text, ", \"seed\": %lld, \"max_tokens\": %lld}", (long long)arguments->seed,
                 (long long)arguments->max_new);
    enum mt_status status = text.status;
    if (status == MT_OK && text.text.count >= sizeof teacher->settings)
        status = mt_fail(ctx, MT_ERR_USAGE, "--teacher-model is too long");
    if (status == MT_OK)
        (void)snprintf(teacher->settings, sizeof teacher->settings, "%.*s", (int)text.text.count,
                       (const char *)text.text.data);
    mt_byte_list_free(&text.text);
    return status;
}

/* Programs are run only in a sandbox, unless somebody says otherwise by name. */
static enum mt_status open_judge(struct mt_context *ctx, const struct recipe_arguments *arguments,
                                 const struct mt_recipe *recipe, const char *tasks, struct mt_arena *arena,
                                 struct recipe_teacher *teacher)
{
    const struct mt_recipe *const *leaves = NULL;
    size_t count = 0;
    const char *runs = NULL;
    enum mt_status status = mt_recipe_leaves(recipe, arena, &leaves, &count);
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        struct mt_task_list list = {0};
        if (leaves[i]->task == NULL) continue;
        status = mt_task_resolve(ctx, tasks, leaves[i]->task, arena, &list);
        if (status == MT_OK && mt_task_runs_programs(&list.tasks[0])) runs = list.tasks[0].name;
    }
    if (status != MT_OK || runs == NULL) return status;
    teacher->judge = (struct mt_sandbox_judge){.ctx = ctx, .options = mt_sandbox_defaults()};
    teacher->judge.options.seconds = PROGRAM_SECONDS;
    teacher->judge.options.without_sandbox = arguments->without_sandbox;
    mt_sandbox_adopt_orphans();
    mt_sandbox_cgroups_open(&teacher->cgroups, MT_CGROUP_ROOT, MT_CGROUP_OWN);
    teacher->judge.options.cgroups = &teacher->cgroups;
    teacher->face = mt_sandbox_code_judge(&teacher->judge);
    teacher->teacher.judge = &teacher->face;
    status = mt_sandbox_judge_check(&teacher->judge);
    return status == MT_OK ? MT_OK
                           : mt_fail_within(ctx, status, "task %s runs programs that a model wrote", runs);
}

/* Refuses what cannot be asked; opens the sandbox where a source's answers are programs. Nothing is sent.
 * Closed whatever it returned. */
static enum mt_status open_teacher(struct mt_context *ctx, const struct recipe_arguments *arguments,
                                   const struct mt_recipe *recipe, const char *tasks, struct mt_arena *arena,
                                   struct recipe_teacher *teacher)
{
    double temperature = arguments->temperature;
    struct mt_endpoint_options options = {
        .model = arguments->model, .top_p = arguments->top_p, .seed = (uint64_t)arguments->seed};
    *teacher = (struct recipe_teacher){0};
    enum mt_status status = check_teacher(ctx, arguments, &options.http);
    if (temperature < 0.0) temperature = arguments->samples > 1 ? DRAWN : 0.0;
    options.temperature = temperature;
    if (status == MT_OK) status = mt_endpoint_create(ctx, &options, &teacher->endpoint);
    if (status == MT_OK) status = note_settings(ctx, arguments, temperature, teacher);
    if (status == MT_OK) status = open_judge(ctx, arguments, recipe, tasks, arena, teacher);
    if (status != MT_OK) return status;
    teacher->teacher.answerer = mt_endpoint_answerer(teacher->endpoint);
    teacher->teacher.settings = teacher->settings;
    teacher->teacher.samples = arguments->samples;
    teacher->teacher.max_tokens = arguments->max_new;
    teacher->teacher.fill = arguments->fill;
    (void)fprintf(stderr, "questions go to %s, the teacher is %s\n",
                  mt_endpoint_place(teacher->endpoint, false), arguments->model);
    return MT_OK;
}

static void close_teacher(struct recipe_teacher *teacher)
{
    mt_endpoint_destroy(teacher->endpoint);
    if (teacher->teacher.judge != NULL) mt_sandbox_cgroups_close(&teacher->cgroups);
}

// ------------------------------------------------------------------ lists

static enum mt_status print_list(struct mt_context *ctx, const char *folder, struct mt_arena *arena)
{
    static const struct cli_column columns[] = {
        {"recipe", false}, {"task", false}, {"rows", true}, {"title", false}};
    const char *const *names = NULL;
    size_t count = 0;
    struct cli_table table;
    cli_table_init(&table, ctx, columns, 4);
    enum mt_status status = cli_list_yaml(arena, folder, &names, &count);
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        char path[4096];
        char rows[32] = "all";
        char mixed[64];
        struct mt_recipe recipe;
        (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        status = mt_recipe_read(ctx, path, NULL, 0, arena, &recipe);
        if (status != MT_OK) break;
        if (recipe.count > 0) (void)snprintf(rows, sizeof rows, "%" PRId64, recipe.count);
        (void)snprintf(mixed, sizeof mixed, "mixture of %zu", recipe.source_count);
        const char *task = recipe.task != NULL ? recipe.task : "";
        cli_table_row(
            &table, (const char *[]){recipe.name, recipe.sources != NULL ? mixed : task, rows, recipe.title});
    }
    enum mt_status printed = cli_table_print(&table, stdout);
    return status == MT_OK ? printed : status;
}

// ------------------------------------------------------------------ results

static enum mt_status print_sources(struct mt_context *ctx, const struct mt_recipe_report *report,
                                    bool taught)
{
    static const struct cli_column columns[] = {{"source", false},   {"task", false},       {"rows", true},
                                                {"unusable", true},  {"overlapping", true}, {"left", true},
                                                {"asked for", true}, {"drawn", true},       {"right", true}};
    struct cli_table table;
    cli_table_init(&table, ctx, columns, taught ? 9 : 8);
    for (size_t i = 0; i < report->source_count; i++) {
        const struct mt_recipe_source_report *source = &report->sources[i];
        char wanted[32] = "all";
        char right[32] = "";
        if (source->wanted > 0) (void)snprintf(wanted, sizeof wanted, "%" PRId64, source->wanted);
        if (taught) (void)snprintf(right, sizeof right, "\t%" PRId64, source->right);
        cli_table_add(&table, "%s\t%s\t%" PRId64 "\t%" PRId64 "\t%" PRId64 "\t%" PRId64 "\t%s\t%" PRId64 "%s",
                      source->recipe->name, source->recipe->task != NULL ? source->recipe->task : "-",
                      source->rows, source->unusable, source->overlapping, source->available, wanted,
                      source->drawn, right);
    }
    return cli_table_print(&table, stdout);
}

/* Pairs that have something in common; of the others one line. */
static enum mt_status print_overlaps(struct mt_context *ctx, const struct mt_recipe_report *report,
                                     int64_t words)
{
    static const struct cli_column columns[] = {
        {"source", false}, {"test", false}, {"by words", true}, {"by question", true}};
    struct cli_table table;
    size_t pairs = 0;
    int64_t questions = 0;
    int64_t removed = 0;
    cli_table_init(&table, ctx, columns, 4);
    for (size_t i = 0; i < report->test_count; i++) questions += report->tests[i].questions;
    for (size_t s = 0; s < report->source_count; s++) {
        removed += report->sources[s].overlapping;
        for (size_t t = 0; t < report->test_count; t++) {
            size_t cell = s * report->test_count + t;
            if (report->runs[cell] + report->wholes[cell] == 0) continue;
            pairs++;
            cli_table_add(&table, "%s\t%s\t%" PRId64 "\t%" PRId64, report->sources[s].recipe->name,
                          report->tests[t].task, report->runs[cell], report->wholes[cell]);
        }
    }
    if (words == 0) {
        printf("\nnot compared with test questions (--words 0)\n");
    } else {
        printf("\n%s removed: %" PRId64 " words in a row, or a whole shorter question, of %s of %s\n",
               mt_counted((uint64_t)removed, "row", "rows").text, words,
               mt_counted((uint64_t)questions, "test question", "test questions").text,
               mt_counted(report->test_count, "task", "tasks").text);
    }
    if (pairs == 0) return MT_OK;
    printf("\n");
    return cli_table_print(&table, stdout);
}

static void print_excluded(const struct mt_recipe_report *report)
{
    int64_t excluded = 0;
    for (size_t i = 0; i < report->source_count; i++) excluded += report->sources[i].excluded;
    printf("\n%s left out: excluded (--exclude)\n", mt_counted((uint64_t)excluded, "row", "rows").text);
}

static enum mt_status print_report(struct mt_context *ctx, const struct recipe_arguments *arguments,
                                   const struct mt_recipe_report *report, double seconds)
{
    enum mt_status status = print_sources(ctx, report, arguments->endpoint.url != NULL);
    if (status == MT_OK) status = print_overlaps(ctx, report, arguments->words);
    if (status == MT_OK && arguments->exclude.count > 0) print_excluded(report);
    if (status != MT_OK || report->stopped) return status;
    printf("\n%s in %.1f s\n\nwritten: %s\n         %s.json\n",
           mt_counted((uint64_t)report->written, "row", "rows").text, seconds, arguments->out,
           arguments->out);
    if (arguments->overlaps != NULL) printf("         %s\n", arguments->overlaps);
    if (arguments->endpoint.url != NULL) printf("         %s.teacher\n", arguments->out);
    return MT_OK;
}

// ------------------------------------------------------------------ the run

static bool told_to_stop(void *self)
{
    return mt_interrupt_seen(self) != 0;
}

/* "a,b" as a list; NULL: none. */
static enum mt_status split_names(struct mt_arena *arena, const char *text, const char *const **names)
{
    enum mt_status status = MT_OK;
    size_t count = 0;
    *names = NULL;
    if (text == NULL) return MT_OK;
    const char **made = mt_arena_array(arena, MOST_AGAINST + 1, sizeof *made, &status);
    for (const char *at = text; status == MT_OK && *at != '\0' && count < MOST_AGAINST;) {
        size_t length = strcspn(at, ",");
        const char *name = NULL;
        if (length > 0) status = mt_arena_copy_text(arena, at, length, &name);
        if (length > 0) made[count++] = name;
        at += length + (at[length] == ',' ? 1 : 0);
    }
    *names = made;
    return status;
}

static enum mt_status write_rows(struct cli_call *call, const struct recipe_arguments *arguments,
                                 const struct mt_recipe *recipe, const char *tasks, struct mt_arena *arena)
{
    struct mt_context *ctx = call->ctx;
    struct mt_row_hashes exclude = {.ctx = ctx};
    struct recipe_teacher teacher = {0};
    struct mt_interrupt interrupt = {0};
    struct mt_recipe_report report = {0};
    struct mt_log log;
    bool taught = arguments->endpoint.url != NULL;
    double start = mt_clock_seconds();
    mt_log_init(&log, stderr, MT_LOG_WARNING);
    struct mt_recipe_options options = {.tasks = tasks,
                                        .data = arguments->data,
                                        .out = arguments->out,
                                        .overlaps = arguments->overlaps,
                                        .count = arguments->count,
                                        .seed = (uint64_t)arguments->seed,
                                        .words = arguments->words,
                                        .skip_missing = arguments->skip_missing,
                                        .stop = told_to_stop,
                                        .stop_self = &interrupt,
                                        .terminal = arguments->quiet ? NULL : stderr,
                                        .log = &log};
    if (arguments->exclude.count > 0) options.exclude = &exclude;
    enum mt_status status = mt_row_hashes_add_files(&exclude, arguments->exclude.item);
    if (status == MT_OK) status = split_names(arena, arguments->against, &options.against);
    if (status == MT_OK) status = mt_folder_make_above(ctx, arguments->out);
    if (status == MT_OK && arguments->overlaps != NULL)
        status = mt_folder_make_above(ctx, arguments->overlaps);
    if (taught) mt_interrupt_begin(&interrupt, stderr, "answers are kept");
    if (status == MT_OK && taught) status = open_teacher(ctx, arguments, recipe, tasks, arena, &teacher);
    if (taught) options.teacher = &teacher.teacher;
    if (status == MT_OK) status = mt_recipe_write(ctx, recipe, &options, arena, &report);
    int seen = mt_interrupt_seen(&interrupt);
    if (taught) mt_interrupt_end(&interrupt);
    if (status == MT_OK && report.stopped) {
        (void)fprintf(stderr, "stopped; what was answered is kept in %s.teacher, the same command goes on\n",
                      arguments->out);
        call->exit_status = 128 + seen;
    } else if (status == MT_OK) {
        status = print_report(ctx, arguments, &report, mt_clock_seconds() - start);
        call->exit_status = report.unanswered > 0 ? 1 : 0;
    }
    close_teacher(&teacher);
    mt_row_hashes_free(&exclude);
    return status;
}

static enum mt_status check(struct cli_call *call, struct recipe_arguments *arguments)
{
    struct mt_context *ctx = call->ctx;
    bool lists = arguments->list || arguments->keys;
    const struct cli_void rules[] = {
        {lists,
         "--data --out --overlap-out --against --exclude --count --seed --words --skip-missing --teacher "
         "--teacher-model",
         arguments->list ? "with --list" : "with --keys"},
        {arguments->endpoint.url == NULL,
         "--teacher-model --key-env --samples --fill --temperature --top-p --max-new --slots --timeout "
         "--retries "
         "--backoff --insecure-http --without-sandbox",
         "without --teacher"},
        {arguments->words == 0, "--against --overlap-out", "with --words 0"},
    };
    const struct cli_limit limits[] = {{"--count", arguments->count, 0, MOST_ROWS},
                                       {"--words", arguments->words, 0, MOST_WORDS}};
    enum mt_status status = cli_refuse_void(call, rules, sizeof rules / sizeof rules[0]);
    if (status == MT_OK) status = cli_check_limits(ctx, limits, 2);
    if (status != MT_OK || lists) return status;
    if (call->positional_count != 1)
        return mt_fail(ctx, MT_ERR_USAGE, "name a recipe or a recipe file; --list has the recipes");
    if (arguments->data == NULL) arguments->data = getenv("METIER_DATA");
    if (arguments->data == NULL)
        return mt_fail(ctx, MT_ERR_USAGE, "--data DIR is missing ($METIER_DATA is not set)");
    if (arguments->out == NULL) return mt_fail(ctx, MT_ERR_USAGE, "--out FILE is missing");
    return MT_OK;
}

static enum mt_status run_checked(struct cli_call *call, const struct recipe_arguments *arguments)
{
    struct mt_arena arena;
    const char *recipes = NULL;
    const char *tasks = NULL;
    const struct mt_recipe *recipe = NULL;
    if (arguments->keys) return cli_print_keys(&mt_recipe_keys, 18);
    mt_arena_init(&arena, call->ctx, ARENA_BYTES);
    enum mt_status status = cli_find_share(&arena, "recipes", "recipes", &recipes);
    if (status == MT_OK) status = cli_find_share(&arena, "tasks", "tasks", &tasks);
    if (status == MT_OK && arguments->list) {
        status = print_list(call->ctx, recipes, &arena);
    } else if (status == MT_OK) {
        status = mt_recipe_resolve(call->ctx, recipes, call->positional[0], &arena, &recipe);
        if (status == MT_OK) status = write_rows(call, arguments, recipe, tasks, &arena);
    }
    mt_arena_free(&arena);
    return status;
}

static enum mt_status run_verb(struct cli_call *call)
{
    struct recipe_arguments arguments = {.words = MT_RECIPE_WORDS,
                                         .endpoint = {.retries = 5, .timeout = 300, .backoff = 1},
                                         .temperature = -1.0,
                                         .top_p = 1.0,
                                         .samples = 1,
                                         .slots = AT_ONCE};
    const struct cli_option options[] = {
        {"--list", CLI_FLAG, &arguments.list, NULL, "list the recipes"},
        {"--keys", CLI_FLAG, &arguments.keys, NULL, "the keys of recipe files"},
        {"--data", CLI_TEXT, &arguments.data, "DIR", "folder of the benchmarks' files; default $METIER_DATA"},
        {"--out", CLI_TEXT, &arguments.out, "FILE", "the rows, JSONL; FILE.json says what they were made of"},
        {"--count", CLI_INTEGER, &arguments.count, "N", "number of rows; 0: as the recipe says (0)"},
        {"--seed", CLI_INTEGER, &arguments.seed, "N", "seed of the draw (0)"},
        {"--words", CLI_INTEGER, &arguments.words, "N",
         "remove rows that share this many words in sequence with a test question (13); 0: none"},
        {"--against", CLI_TEXT, &arguments.against, "A,B", "more tasks to compare with"},
        {"--exclude", CLI_LIST, &arguments.exclude, "FILE",
         "leave out the rows of this file: rows, or a model's rows_read.hashes; may be given several times"},
        {"--overlap-out", CLI_TEXT, &arguments.overlaps, "FILE", "the rows removed and why, JSONL"},
        {"--skip-missing", CLI_FLAG, &arguments.skip_missing, NULL,
         "leave out missing files, of sources and of tests"},
        {"--quiet", CLI_FLAG, &arguments.quiet, NULL, "no progress"},
        {"--teacher", CLI_TEXT, &arguments.endpoint.url, "URL",
         "an OpenAI-compatible server that writes the answers; those that are right are kept"},
        {"--teacher-model", CLI_TEXT, &arguments.model, "NAME", "the teacher, as the server calls it"},
        {"--samples", CLI_INTEGER, &arguments.samples, "N", "answers to a question, until one is right (1)"},
        {"--fill", CLI_FLAG, &arguments.fill, NULL,
         "draw other questions for those answered wrong, until there are --count rows"},
        {"--temperature", CLI_REAL, &arguments.temperature, "T",
         "temperature of the answers (0; with --samples 0.8)"},
        {"--top-p", CLI_REAL, &arguments.top_p, "P", "top-p of the answers (1)"},
        {"--max-new", CLI_INTEGER, &arguments.max_new, "N",
         "maximum tokens of an answer; 0: as the task says (0)"},
        {"--slots", CLI_INTEGER, &arguments.slots, "N", "requests at once (8)"},
        {"--key-env", CLI_TEXT, &arguments.endpoint.key_env, "VARIABLE",
         "environment variable with the server's key; default " CLI_KEY_NAME ", if set"},
        {"--timeout", CLI_REAL, &arguments.endpoint.timeout, "SECONDS", "timeout of one request (300)"},
        {"--retries", CLI_INTEGER, &arguments.endpoint.retries, "N",
         "retries of a request if the server is busy (5)"},
        {"--backoff", CLI_REAL, &arguments.endpoint.backoff, "SECONDS",
         "wait before the first retry, doubled each time (1)"},
        {"--insecure-http", CLI_FLAG, &arguments.endpoint.insecure_http, NULL,
         "allow plain http to other machines"},
        {"--without-sandbox", CLI_FLAG, &arguments.without_sandbox, NULL,
         "run the teacher's programs without a sandbox: they can do everything you can do"},
        {0},
    };
    enum mt_status status = cli_parse(call, options);
    if (status != MT_OK || call->help_shown) return status;
    status = check(call, &arguments);
    return status == MT_OK ? run_checked(call, &arguments) : status;
}

static const struct cli_keys keys = {.keys = &mt_recipe_keys, .title = "a recipe of metier recipe"};

const struct cli_verb cli_verb_recipe = {
    .name = "recipe",
    .summary =
        "make training rows from benchmarks' training splits, without rows that overlap with their tests",
    .arguments = "NAME|FILE.yaml --data DIR --out ROWS.jsonl",
    .details =
        "A recipe names the task whose prompt it uses, the file of the training split, and what the answer\n"
        "looks like; or it mixes other recipes. The seed draws the rows, each at most once. metier removes\n"
        "and counts rows that share 13 words in sequence with a test question of any task in the mixture.\n"
        "The same command gives the same bytes. ROWS.jsonl.json has sources, checksums and counts. With\n"
        "--teacher a model writes the answers. metier keeps those that the task's own judge finds right, "
        "and\n"
        "stores all in ROWS.jsonl.teacher, so that no question is asked twice. docs/recipes.md has the rest.",
    .examples =
        "  metier recipe --list\n"
        "  metier recipe gsm8k --data data --out gsm8k.jsonl\n"
        "  metier recipe paper_math --data data --count 6000 --seed 1 --out math-rows.jsonl --skip-missing\n"
        "  metier recipe gsm8k --data data --against math500 --overlap-out removed.jsonl --out gsm8k.jsonl\n"
        "  metier recipe gsm8k --data data --out taught.jsonl --teacher http://localhost:8000/v1 "
        "--teacher-model NAME --samples 4",
    .counts_arguments = true,
    .keys = &keys,
    .names = "recipes",
    .run = run_verb,
};
