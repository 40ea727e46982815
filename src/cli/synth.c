/* metier synth: files of built-in problems, lists of them, examples. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/amount.h"
#include "base/files/file.h"
#include "base/files/folder.h"
#include "base/nearest.h"
#include "cli/cli.h"
#include "cli/shared/table.h"
#include "synth/synth.h"
#include "text/row_identity.h"

#define MOST_ITEMS  INT64_C(10000000)
#define DOMAIN_MARK "{domain}"

struct settings {
    const char *domains; // "math,code", or "all"
    const char *split;
    const char *out;
    struct cli_list exclude;
    int64_t count, seed, difficulty, show;
    bool list;
};

/* What was asked for, understood. */
struct request {
    enum mt_task_domain domains[MT_DOMAINS];
    size_t domain_count;
    struct mt_synth_options options; // the domain apart
    struct mt_row_hashes exclude;    // what it points to
};

// ------------------------------------------------------------------ what is asked for

static enum mt_status no_such_word(struct mt_context *ctx, const char *option, const char *word,
                                   const char *const *known, size_t count, const char *expected)
{
    const char *nearest = NULL;
    int distance = CLI_NEAR;
    for (size_t i = 0; i < count; i++) {
        if (mt_nearer(word, known[i], &distance)) nearest = known[i];
    }
    return mt_fail(ctx, MT_ERR_USAGE, "%s is '%s', expected %s%s%s%s", option, word, expected,
                   nearest != NULL ? "; did you mean '" : "", nearest != NULL ? nearest : "",
                   nearest != NULL ? "'?" : "");
}

static enum mt_status add_domain(struct mt_context *ctx, const char *word, struct request *request)
{
    const char *known[MT_DOMAINS];
    enum mt_task_domain domain;
    for (int i = 0; i < MT_DOMAINS; i++) known[i] = mt_domain_name((enum mt_task_domain)i);
    if (!mt_synth_domain(word, &domain)) {
        return no_such_word(ctx, "--domain", word, known, MT_DOMAINS,
                            "language, reasoning, science, math, code or all");
    }
    for (size_t i = 0; i < request->domain_count; i++) {
        if (request->domains[i] == domain) return mt_fail(ctx, MT_ERR_USAGE, "--domain names %s twice", word);
    }
    request->domains[request->domain_count++] = domain;
    return MT_OK;
}

static enum mt_status read_domains(struct mt_context *ctx, const char *list, struct request *request)
{
    if (strcmp(list, "all") == 0) {
        for (int i = 0; i < MT_DOMAINS; i++)
            request->domains[request->domain_count++] = (enum mt_task_domain)i;
        return MT_OK;
    }
    enum mt_status status = MT_OK;
    for (const char *rest = list; rest != NULL && status == MT_OK;) {
        char word[64];
        size_t length = strcspn(rest, ",");
        (void)snprintf(word, sizeof word, "%.*s", (int)(length < sizeof word ? length : sizeof word), rest);
        status = add_domain(ctx, word, request);
        rest = rest[length] == ',' ? rest + length + 1 : NULL;
    }
    return status;
}

static enum mt_status read_split(struct mt_context *ctx, const char *word, enum mt_synth_split *split)
{
    const char *known[MT_SYNTH_SPLITS];
    for (int i = 0; i < MT_SYNTH_SPLITS; i++) {
        *split = (enum mt_synth_split)i;
        known[i] = mt_synth_split_name(*split);
        if (strcmp(word, known[i]) == 0) return MT_OK;
    }
    return no_such_word(ctx, "--split", word, known, MT_SYNTH_SPLITS, "train, valid or test");
}

static enum mt_status read_request(const struct settings *settings, const struct cli_call *call,
                                   struct request *request)
{
    struct mt_context *ctx = call->ctx;
    bool shows = settings->list || settings->show > 0;
    const struct cli_limit limits[] = {{"--difficulty", settings->difficulty, 1, MT_SYNTH_HARDEST},
                                       {"--show", settings->show > 0 ? settings->show : 1, 1, 1000},
                                       {"--count", shows ? 1 : settings->count, 1, MOST_ITEMS}};
    enum mt_status status = cli_check_limits(ctx, limits, 2);
    if (status != MT_OK) return status;
    if (settings->domains == NULL && !shows)
        return mt_fail(ctx, MT_ERR_USAGE,
                       "--domain is missing: language, reasoning, science, math, code or all");
    if (settings->out == NULL && !shows) return mt_fail(ctx, MT_ERR_USAGE, "--out FILE is missing");
    status = cli_check_limits(ctx, &limits[2], 1);
    const struct cli_void rules[] = {
        {settings->list, "--split --count --seed --difficulty --out --show --exclude", "with --list"},
        {settings->show > 0, "--count --out --exclude", "with --show, which prints"},
    };
    if (status == MT_OK) status = cli_refuse_void(call, rules, sizeof rules / sizeof rules[0]);
    if (status != MT_OK) return status;
    request->options.seed = (uint64_t)settings->seed;
    request->options.difficulty = (int)settings->difficulty;
    status = read_split(ctx, settings->split, &request->options.split);
    if (status != MT_OK) return status;
    return read_domains(ctx, settings->domains != NULL ? settings->domains : "all", request);
}

// ------------------------------------------------------------------ lists and examples

static enum mt_status print_list(struct mt_context *ctx, const struct request *request)
{
    static const struct cli_column columns[] = {{"domain", false}, {"task", false}, {"meaning", false}};
    struct cli_table table;
    cli_table_init(&table, ctx, columns, 3);
    for (size_t d = 0; d < request->domain_count; d++) {
        size_t count = 0;
        const struct mt_synth_task *tasks = mt_synth_tasks(request->domains[d], &count);
        for (size_t i = 0; i < count; i++)
            cli_table_row(&table,
                          (const char *[]){mt_domain_name(tasks[i].domain), tasks[i].name, tasks[i].meaning});
    }
    return cli_table_print(&table, stdout);
}

/* The first `show` items of every sub-task, whatever their split. */
static enum mt_status print_examples(struct mt_context *ctx, const struct request *request, int64_t show)
{
    static const struct cli_column columns[] = {
        {"domain", false}, {"task", false}, {"split", false}, {"prompt", true}, {"completion", false}};
    struct cli_table table;
    cli_table_init(&table, ctx, columns, 5);
    for (size_t d = 0; d < request->domain_count; d++) {
        size_t count = 0;
        const struct mt_synth_task *tasks = mt_synth_tasks(request->domains[d], &count);
        for (size_t i = 0; i < count * (size_t)show; i++) {
            const struct mt_synth_task *task = &tasks[i / (size_t)show];
            struct mt_synth_item item;
            mt_synth_make(task, request->options.seed, request->options.difficulty, i % (uint64_t)show,
                          &item);
            const char *split = mt_synth_split_name(mt_synth_split_of(mt_synth_hash(item.prompt)));
            const char *cells[] = {mt_domain_name(task->domain), task->name, split, item.prompt,
                                   item.completion};
            cli_table_row(&table, cells);
        }
    }
    return cli_table_print(&table, stdout);
}

// ------------------------------------------------------------------ files

static enum mt_status write_file(struct mt_context *ctx, const struct request *request, size_t first,
                                 size_t domain_count, int64_t count, const char *path)
{
    struct mt_synth *sources[MT_DOMAINS] = {NULL};
    struct mt_file_writer writer = {0};
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < domain_count && status == MT_OK; i++) {
        struct mt_synth_options options = request->options;
        options.domain = request->domains[first + i];
        status = mt_synth_create(ctx, &options, &sources[i]);
    }
    if (status == MT_OK) status = mt_folder_make_above(ctx, path);
    if (status == MT_OK) status = mt_file_writer_open(ctx, path, &writer);
    if (status == MT_OK) status = mt_synth_write_rows(ctx, sources, domain_count, count, &writer);
    if (status == MT_OK) status = mt_file_writer_commit(&writer);
    mt_file_writer_abandon(&writer);
    size_t excluded = 0;
    for (size_t i = 0; i < domain_count && status == MT_OK; i++) excluded += mt_synth_excluded(sources[i]);
    for (size_t i = 0; i < domain_count; i++) mt_synth_free(sources[i]);
    if (status != MT_OK) return status;
    printf("%s: %s", path, mt_counted((uint64_t)count, "item", "items").text);
    if (request->exclude.count > 0) printf("; %zu that are excluded were replaced", excluded);
    printf("\n");
    return MT_OK;
}

/* One file, or one of each domain where the name has the mark. */
static enum mt_status write_files(struct mt_context *ctx, const struct request *request,
                                  const struct settings *settings)
{
    const char *mark = strstr(settings->out, DOMAIN_MARK);
    if (mark == NULL)
        return write_file(ctx, request, 0, request->domain_count, settings->count, settings->out);
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < request->domain_count && status == MT_OK; i++) {
        char path[4096];
        int written = snprintf(path, sizeof path, "%.*s%s%s", (int)(mark - settings->out), settings->out,
                               mt_domain_name(request->domains[i]), mark + strlen(DOMAIN_MARK));
        if (written < 0 || (size_t)written >= sizeof path)
            return mt_fail(ctx, MT_ERR_USAGE, "--out is too long: %s", settings->out);
        status = write_file(ctx, request, i, 1, settings->count, path);
    }
    return status;
}

static enum mt_status run_verb(struct cli_call *call)
{
    struct settings settings = {.split = "train", .count = 1000, .difficulty = MT_SYNTH_STANDARD};
    const struct cli_option options[] = {
        {"--domain", CLI_TEXT, &settings.domains, "LIST",
         "of language, reasoning, science, math, code, with commas between; or all"},
        {"--split", CLI_TEXT, &settings.split, "SPLIT", "train, valid or test (train)"},
        {"--count", CLI_INTEGER, &settings.count, "N", "items of a file (1000)"},
        {"--seed", CLI_INTEGER, &settings.seed, "N", "seed of the random numbers (0)"},
        {"--difficulty", CLI_INTEGER, &settings.difficulty, "N", "1, easy, to 5 (3)"},
        {"--exclude", CLI_LIST, &settings.exclude, "FILE",
         "leave out the problems of this file: rows, or a model's rows_read.hashes; may be given several "
         "times"},
        {"--out", CLI_TEXT, &settings.out, "FILE", "JSONL; {domain} in its name: a file for each domain"},
        {"--list", CLI_FLAG, &settings.list, NULL, "list the sub-tasks"},
        {"--show", CLI_INTEGER, &settings.show, "N", "print N examples of each sub-task instead"},
        {0},
    };
    struct request request = {0};
    enum mt_status status = cli_parse(call, options);
    if (status != MT_OK || call->help_shown) return status;
    status = read_request(&settings, call, &request);
    if (status != MT_OK) return status;
    if (settings.list) return print_list(call->ctx, &request);
    if (settings.show > 0) return print_examples(call->ctx, &request, settings.show);
    request.exclude.ctx = call->ctx;
    status = mt_row_hashes_add_files(&request.exclude, settings.exclude.item);
    request.options.exclude = &request.exclude;
    if (status == MT_OK) status = write_files(call->ctx, &request, &settings);
    mt_row_hashes_free(&request.exclude);
    return status;
}

const struct cli_verb cli_verb_synth = {
    .name = "synth",
    .summary = "make problems with exact answers, to train and measure a small model",
    .arguments = "",
    .details =
        "Writes JSONL with prompt, completion, domain, task and id: short problems in five domains, all\n"
        "different. A hash of the prompt decides between train, valid and test, so these never overlap,\n"
        "whatever the seed and the difficulty. The same options give the same bytes. Domains and their\n"
        "sub-tasks take turns. docs/synth.md shows every sub-task.",
    .examples =
        "  metier synth --list\n"
        "  metier synth --show 2 --domain math --difficulty 5\n"
        "  metier synth --domain all --count 2000 --out '{domain}.jsonl'    # math.jsonl, code.jsonl, ...\n"
        "  metier synth --domain all --count 100000 --out train.jsonl\n"
        "  metier synth --domain math --count 6000 --exclude train.jsonl --seed 2 --out fresh.jsonl\n"
        "  metier synth --domain all --split test --count 500 --out 'data/synth/{domain}.jsonl'",
    .run = run_verb,
};
