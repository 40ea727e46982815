/* metier analyze: what the routers and experts of a model do with data. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "analysis/run/run.h"
#include "base/amount.h"
#include "base/files/file.h"
#include "base/files/folder.h"
#include "cli/cli.h"
#include "cli/shared/device.h"
#include "cli/shared/ranks.h"
#include "cli/shared/share.h"
#include "cli/shared/table.h"

#define ARENA_BLOCK_BYTES 4096
#define NUMBER_BYTES      32

/* What the user asks for. */
struct asked {
    struct mt_analysis_settings analysis;
    struct cli_list data;
    const char *out; // folder of analysis.json, or file of the experts; NULL: nowhere
    const char *device;
    const char *select; // name of the rule by which experts are chosen; NULL: none are
    const char *score;  // of rule best
    int64_t expert_ranks;
    struct mt_expert_choice choice;
    bool layers, json;
};

// ------------------------------------------------------------------ the tables

static void add_row(struct cli_table *table, const char *name, int64_t tokens, const double *values,
                    int count)
{
    char cells[CLI_TABLE_COLUMNS][NUMBER_BYTES];
    const char *row[CLI_TABLE_COLUMNS] = {name, cells[1]};
    mt_amount_count(cells[1], NUMBER_BYTES, (uint64_t)tokens);
    for (int i = 0; i < count; i++) {
        row[2 + i] = isnan(values[i]) ? "-" : cells[2 + i];
        (void)snprintf(cells[2 + i], NUMBER_BYTES, "%.4g", values[i]);
    }
    cli_table_row(table, row);
}

static void add_figures(struct cli_table *table, const char *name, const struct mt_layer_figures *figures,
                        int64_t tokens)
{
    const double values[] = {figures->max_violation,       figures->entropy,  figures->experts_90,
                             figures->effective_experts,   figures->rv_token, figures->input.overlap,
                             figures->output_unit.overlap, figures->abs_cos};
    add_row(table, name, tokens, values, 8);
}

/* What a model read otherwise chooses: how much of it is the same. */
static void add_agreement(struct cli_table *table, const char *name, const struct mt_drift_figures *drift)
{
    const double values[] = {100.0 * (1.0 - drift->sets_changed), 100.0 * (1.0 - drift->slots_changed),
                             drift->load_shift};
    add_row(table, name, drift->tokens, values, 3);
}

static void add_drift(struct cli_table *table, const char *name, const struct mt_drift_figures *drift)
{
    const double values[] = {drift->load_shift, drift->sets_changed, drift->slots_changed,
                             drift->router_change};
    add_row(table, name, drift->tokens, values, 4);
}

static const char *domain_name(const struct mt_analysis *run, int domain)
{
    return domain < run->domains ? run->domain[domain].name : "all together";
}

static const char *layer_name(const struct mt_analysis *run, int layer, char name[NUMBER_BYTES])
{
    (void)snprintf(name, NUMBER_BYTES, "  layer %" PRId64, run->number[layer]);
    return name;
}

static enum mt_status print_figures(const struct mt_analysis *run, bool layers)
{
    static const struct cli_column columns[] = {{"domain", false},          {"tokens", true},
                                                {"MaxVio", true},           {"entropy", true},
                                                {"experts for 90 %", true}, {"experts a token", true},
                                                {"rv_token", true},         {"overlap in", true},
                                                {"overlap out", true},      {"|cos|", true}};
    const struct mt_figures *all = &run->model.figures[run->domains];
    struct cli_table table;
    char name[NUMBER_BYTES];
    cli_table_init(&table, run->ctx, columns, 10);
    for (int i = 0; i <= run->domains; i++) {
        const struct mt_figures *figures = &run->model.figures[i];
        add_figures(&table, domain_name(run, i), &figures->mean, figures->layer[0].tokens);
    }
    for (int i = 0; layers && i < run->layers; i++)
        add_figures(&table, layer_name(run, i, name), &all->layer[i], all->layer[i].tokens);
    return cli_table_print(&table, stdout);
}

/* How far domains differ in the experts that serve them. */
static enum mt_status print_serving(const struct mt_analysis *run)
{
    struct mt_serving mean;
    enum mt_status status = mt_analysis_mean_serving(run, &mean);
    if (status != MT_OK || isnan(mean.jaccard)) return status;
    printf("\nThe experts that serve 90 %% of a domain's slots: two domains share %.2f of theirs (Jaccard; "
           "1: the\n"
           "same experts), all domains together have %.2f of all experts.\n",
           mean.jaccard, mean.together);
    return MT_OK;
}

static enum mt_status print_drift(const struct mt_analysis *run, bool layers)
{
    static const struct cli_column columns[] = {{"drift from the base", false}, {"tokens", true},
                                                {"load shift", true},           {"sets changed", true},
                                                {"slots changed", true},        {"router change", true}};
    static const struct cli_column beside[] = {{"routing, both ways", false},
                                               {"tokens", true},
                                               {"same experts %", true},
                                               {"same slots %", true},
                                               {"load shift", true}};
    bool itself = run->settings->against != NULL;
    void (*add)(struct cli_table *, const char *, const struct mt_drift_figures *) =
        itself ? add_agreement : add_drift;
    struct mt_drift_figures drift;
    struct cli_table table;
    char name[NUMBER_BYTES];
    cli_table_init(&table, run->ctx, itself ? beside : columns, itself ? 5 : 6);
    for (int i = 0; i <= run->domains; i++) {
        mt_analysis_mean_drift(run, i, &drift);
        add(&table, domain_name(run, i), &drift);
    }
    for (int i = 0; layers && i < run->layers; i++) {
        mt_analysis_drift(run, run->domains, i, &drift);
        add(&table, layer_name(run, i, name), &drift);
    }
    printf("\n");
    return cli_table_print(&table, stdout);
}

static void add_misses(struct cli_table *table, const char *name, int capacity,
                       const struct mt_analysis_misses *misses)
{
    char label[128];
    (void)snprintf(label, sizeof label, "%d: %s", capacity, name);
    const double values[] = {misses->misses[MT_CACHE_LRU], misses->misses[MT_CACHE_LFU],
                             misses->misses[MT_CACHE_BELADY], misses->first};
    add_row(table, label, misses->tokens, values, 4);
}

static enum mt_status print_caches(const struct mt_analysis *run, bool layers)
{
    static const struct cli_column columns[] = {{"cache of experts: misses a token", false},
                                                {"tokens", true},
                                                {"LRU", true},
                                                {"LFU", true},
                                                {"Belady", true},
                                                {"first uses", true}};
    struct mt_analysis_misses misses;
    struct cli_table table;
    char name[NUMBER_BYTES];
    cli_table_init(&table, run->ctx, columns, 6);
    for (int c = 0; c < run->caches; c++) {
        for (int i = 0; i <= run->domains; i++) {
            mt_analysis_mean_cache(run, i, c, &misses);
            add_misses(&table, domain_name(run, i), run->capacity[c], &misses);
        }
        for (int i = 0; layers && i < run->layers; i++) {
            mt_analysis_cache(run, run->domains, c, i, &misses);
            add_misses(&table, layer_name(run, i, name), run->capacity[c], &misses);
        }
    }
    printf("\n");
    return cli_table_print(&table, stdout);
}

static enum mt_status print_tables(const struct mt_analysis *run, bool layers)
{
    printf("%s, %d of %d experts per token; means over layers. MaxVio at most %.3g, entropy %.3g\n"
           "when balanced; experts a token: effective, at most %d; overlap out by angle. All figures and "
           "formulas:\n"
           "analysis.json.\n\n",
           mt_counted((uint64_t)run->layers, "MoE layer", "MoE layers").text, run->slots, run->experts,
           (double)run->experts / run->slots - 1.0, log((double)run->experts), run->slots);
    enum mt_status status = print_figures(run, layers);
    if (status == MT_OK && run->domains > 1) status = print_serving(run);
    if (status == MT_OK && run->with_base) status = print_drift(run, layers);
    if (status == MT_OK && run->caches > 0) status = print_caches(run, layers);
    if (status == MT_OK) printf("\n");
    return status;
}

// ------------------------------------------------------------------ the run

/* The rule experts are chosen by, and its threshold. */
static enum mt_status check_rule(struct asked *asked, const struct cli_call *call)
{
    struct mt_context *ctx = call->ctx;
    struct mt_expert_choice *choice = &asked->choice;
    bool chooses = asked->select != NULL;
    choice->rule = chooses ? mt_expert_rule_named(asked->select) : NULL;
    if (chooses && choice->rule == NULL)
        return mt_fail(
            ctx, MT_ERR_USAGE,
            "--select-experts is '%s', expected gate, token, sieve or best (with --score and --keep)",
            asked->select);
    bool best = chooses && choice->rule->reached == NULL;
    const struct cli_void needless[] = {
        {!chooses, "--threshold", "without --select-experts"},
        {best, "--threshold", "with --select-experts best, where --keep says how many"},
        {!best, "--score", "without --select-experts best"},
        {!best, "--keep", "without --select-experts best"}};
    enum mt_status status = cli_refuse_void(call, needless, 4);
    if (status != MT_OK || !chooses) return status;
    if (asked->out == NULL) return mt_fail(ctx, MT_ERR_USAGE, "--out FILE for the experts is missing");
    if (best) {
        if (asked->analysis.keep == NULL)
            return mt_fail(ctx, MT_ERR_USAGE, "--keep is missing: how many experts of a layer (16 or 50%%)");
        status = mt_expert_score_named(ctx, "--score", asked->score, &choice->score);
        asked->analysis.scores = MT_SCORE_BIT(choice->score);
        return status;
    }
    if (!cli_is_given(call, "--threshold")) choice->threshold = choice->rule->threshold;
    if (!(choice->threshold > 0.0 && choice->threshold <= 1.0))
        return mt_fail(ctx, MT_ERR_USAGE, "--threshold is %g, expected more than 0 and at most 1",
                       choice->threshold);
    return MT_OK;
}

static enum mt_status check(struct asked *asked, const struct cli_call *call)
{
    struct mt_context *ctx = call->ctx;
    const struct mt_analysis_settings *settings = &asked->analysis;
    if (settings->model == NULL) return mt_fail(ctx, MT_ERR_USAGE, "--model DIR is missing");
    if (asked->data.count == 0) return mt_fail(ctx, MT_ERR_USAGE, "--data FILE is missing");
    enum mt_status status = check_rule(asked, call);
    if (status != MT_OK) return status;
    if (asked->out == NULL && !asked->json)
        return mt_fail(ctx, MT_ERR_USAGE, "--out DIR is missing; --json prints instead of writing");
    const struct cli_limit limits[] = {
        {"--tokens", settings->tokens, 1, INT64_C(1) << 40}, {"--length", settings->length, 2, 1 << 20},
        {"--sample", settings->sample, 1, 1 << 20},          {"--queries", settings->queries, 0, INT32_MAX},
        {"--neighbours", settings->neighbours, 1, 4096},     {"--seed", settings->seed, 0, INT64_MAX},
    };
    status = cli_check_limits(ctx, limits, sizeof limits / sizeof limits[0]);
    const struct cli_void rules[] = {
        {asked->json, "--layers", "with --json, which has every layer"},
        {settings->against != NULL, "--base", "with --against: the base is the model itself"}};
    return status == MT_OK ? cli_refuse_void(call, rules, 2) : status;
}

static enum mt_status write_experts(const struct mt_analysis *run, const struct asked *asked)
{
    struct mt_expert_choice choice = asked->choice;
    enum mt_status status = mt_folder_make_above(run->ctx, asked->out);
    if (status == MT_OK) status = mt_analysis_write_experts(run, &choice, asked->out);
    if (status != MT_OK || asked->json) return status;
    printf("written: %s: %.3g of %d experts a layer, ", asked->out, (double)choice.chosen / run->layers,
           run->experts);
    if (choice.rule->reached != NULL)
        printf("%.3g %% %s or more", 100.0 * choice.threshold, choice.rule->reached);
    else
        printf("the best by %s", mt_expert_score_kind(choice.score)->name);
    printf("; they serve %.3g %% of the data's slots, %.3g %% in the layer where it is least\n",
           100.0 * choice.share, 100.0 * choice.least_share);
    return MT_OK;
}

static enum mt_status hand_over(const struct mt_analysis *run, const struct asked *asked)
{
    struct mt_json_text text;
    char *path = NULL;
    const char *out = asked->choice.rule == NULL ? asked->out : NULL;
    mt_json_text_init(&text, run->ctx);
    enum mt_status status = mt_analysis_put_json(run, &text);
    if (status == MT_OK && out != NULL) status = mt_folder_make_all(run->ctx, out);
    if (status == MT_OK && out != NULL) status = mt_path_join(run->ctx, out, "analysis.json", &path);
    if (status == MT_OK && out != NULL) status = mt_file_write_all(run->ctx, path, text.bytes, text.length);
    if (status == MT_OK && asked->json) (void)fwrite(text.bytes, 1, text.length, stdout);
    if (status == MT_OK && !asked->json) status = print_tables(run, asked->layers);
    if (status == MT_OK && !asked->json && out != NULL) printf("written: %s\n", path);
    if (status == MT_OK && asked->choice.rule != NULL) status = write_experts(run, asked);
    mt_path_release(run->ctx, path);
    mt_json_text_free(&text);
    return status;
}

/* What every rank knows. */
struct analyzing {
    const struct cli_call *call;
    struct asked *asked;
    struct mt_arena *arena; // paths
};

static enum mt_status prepare(const struct analyzing *analyzing, struct mt_analysis **run)
{
    struct asked *asked = analyzing->asked;
    struct mt_analysis_settings *settings = &asked->analysis;
    enum mt_status status = check(asked, analyzing->call);
    settings->data = asked->data.item;
    settings->data_count = (size_t)asked->data.count;
    settings->terminal = stderr;
    if (status == MT_OK) status = mt_analysis_open(analyzing->call->ctx, settings, run);
    if (status != MT_OK) return status;
    return cli_find_templates(analyzing->arena, settings->template_name, &settings->templates);
}

static enum mt_status run_rank(void *self, struct mt_comm *comm, int *exit_status)
{
    (void)exit_status;
    const struct analyzing *analyzing = self;
    const struct asked *asked = analyzing->asked;
    struct mt_context *ctx = analyzing->call->ctx;
    struct mt_analysis *run = NULL;
    struct mt_device *device = NULL;
    const char *name = NULL;
    int64_t threads = asked->analysis.threads;
    enum mt_status status = mt_comm_agree(comm, ctx, prepare(analyzing, &run));
    struct mt_comm *sharing = NULL;
    if (status == MT_OK) status = cli_split_experts(ctx, comm, asked->expert_ranks, &sharing);
    analyzing->asked->analysis.expert_ranks = sharing;
    if (status == MT_OK) status = mt_device_choose(ctx, comm, asked->device, MT_USE_FAST, &name);
    if (status == MT_OK) status = mt_device_create(ctx, name, (int)mt_comm_threads(comm, threads), &device);
    status = mt_comm_agree(comm, ctx, status);
    if (status == MT_OK && mt_comm_rank(comm) == 0)
        cli_name_device(device, threads, mt_device_is_automatic(asked->device));
    if (status == MT_OK) status = mt_analysis_run(run, device, comm);
    if (status == MT_OK && mt_comm_rank(comm) == 0) status = hand_over(run, asked);
    mt_analysis_close(run);
    mt_device_destroy(device);
    mt_comm_close(sharing);
    return status;
}

static enum mt_status run_verb(struct cli_call *call)
{
    struct asked asked = {.analysis = {.template_name = "model",
                                       .tokens = 20000,
                                       .length = 512,
                                       .sample = 2048,
                                       .neighbours = 10},
                          .score = "reap",
                          .expert_ranks = 1,
                          .device = MT_DEVICE_AUTO};
    const struct cli_option options[] = {
        {"--model", CLI_TEXT, &asked.analysis.model, "DIR", "a Hugging Face model folder"},
        {"--adapter", CLI_TEXT, &asked.analysis.adapter, "DIR",
         "a PEFT adapter to run with; the model without it is the base"},
        {"--quantize", CLI_TEXT, &asked.analysis.quantise, "HOW", CLI_QUANTISE_HELP},
        {"--against", CLI_TEXT, &asked.analysis.against, "HOW",
         "the base is this model and adapter, with the weights stored as none, nf4, ..."},
        {"--base", CLI_TEXT, &asked.analysis.base, "DIR", "another model folder: report the drift from it"},
        {"--data", CLI_LIST, &asked.data, "FILE[=DOMAIN]",
         "rows as training reads them, or text; may be given several times"},
        {"--out", CLI_TEXT, &asked.out, "DIR", "where analysis.json goes; with --select-experts a file"},
        {"--select-experts", CLI_TEXT, &asked.select, "RULE",
         "write a file of experts: gate or token (ESFT), sieve, or best, the --keep best by --score"},
        {"--threshold", CLI_REAL, &asked.choice.threshold, "P",
         "share that the experts reach together: of weights (gate: 0.1), slots (token: 0.2), experts (sieve: "
         "0.25)"},
        {"--score", CLI_TEXT, &asked.score, "NAME", "of rule best: use, mean, reap or easy-ep (reap)"},
        {"--keep", CLI_TEXT, &asked.analysis.keep, "K", "of rule best: experts of each layer, 16 or 50%"},
        {"--cache", CLI_TEXT, &asked.analysis.cache, "C,...",
         "misses per token with room for C experts in a layer: LRU, LFU, Belady (the best possible)"},
        {"--tokens", CLI_INTEGER, &asked.analysis.tokens, "N",
         "tokens of each domain; the last sequence is kept whole (20000)"},
        {"--length", CLI_INTEGER, &asked.analysis.length, "N", "maximum tokens of a sequence (512)"},
        {"--template", CLI_TEXT, &asked.analysis.template_name, "NAME",
         "chat template: a name of share/templates or a file (model: the model's own)"},
        {"--sample", CLI_INTEGER, &asked.analysis.sample, "N",
         "vectors kept per layer and domain, for overlap, silhouette and PCA (2048)"},
        {"--queries", CLI_INTEGER, &asked.analysis.queries, "N",
         "points of the sample to compare with all others; errors are reported (0: all points, exact)"},
        {"--neighbours", CLI_INTEGER, &asked.analysis.neighbours, "K",
         "number of neighbours for the overlap (10)"},
        {"--seed", CLI_INTEGER, &asked.analysis.seed, "S", "seed of shuffling and sampling (0)"},
        {"--layers", CLI_FLAG, &asked.layers, NULL, "a row of the table for every layer"},
        {"--json", CLI_FLAG, &asked.json, NULL, "print analysis.json instead of tables"},
        {"--experts", CLI_INTEGER, &asked.expert_ranks, "E",
         "for a model that fits no card: E ranks share its experts (1)"},
        {"--device", CLI_TEXT, &asked.device, "NAME", CLI_DEVICE_HELP},
        {"--threads", CLI_THREADS, &asked.analysis.threads, "N", "0: as many as the machine has"},
        {0},
    };
    struct mt_arena arena;
    enum mt_status status = cli_parse(call, options);
    if (status != MT_OK || call->help_shown) return status;
    mt_arena_init(&arena, call->ctx, ARENA_BLOCK_BYTES);
    status = cli_run_ranks(call, run_rank, &(struct analyzing){call, &asked, &arena});
    mt_arena_free(&arena);
    return status;
}

const struct cli_verb cli_verb_analyze = {
    .name = "analyze",
    .summary = "show what the experts became: balance, specialisation, affinity to domains, drift",
    .arguments = "--model DIR --data FILE[=DOMAIN] ... --out DIR",
    .details =
        "Runs data through a model and records what its routers and experts do: load and MaxVio, routing\n"
        "variance, overlap and silhouette of inputs and expert outputs, |cos| between a token's expert\n"
        "outputs, and which experts serve which domain. With --adapter or --base it also measures how far\n"
        "routing moved from the base on the same tokens. With --against it measures how storing the weights\n"
        "in another way changes the choice of experts. A domain is a file, or all files with the same "
        "=DOMAIN.\n"
        "Under mpirun the ranks share the batches, and the figures are the same.\n"
        "OUT/analysis.json has every figure by layer and domain. metier report OUT shows it, together with\n"
        "the log if OUT is the folder of a run. docs/analysis.md has the formulas.",
    .examples = "  metier analyze --model models/moe --data math.jsonl --data code.jsonl --out runs/base\n"
                "  metier analyze --model models/moe --adapter runs/first/adapter --data math.jsonl \\\n"
                "      --out runs/first     # in the run's folder: metier report runs/first shows both\n"
                "  metier analyze --model models/merged --base models/moe --data wiki.txt --out runs/merged "
                "--layers\n"
                "  metier analyze --model models/moe --quantize nf4 --against none --data math.jsonl \\\n"
                "      --out runs/nf4 --layers     # tokens that keep their experts in 4 bits\n"
                "  metier analyze --model models/moe --data math.jsonl --cache 4,6 --out runs/base\n"
                "  metier analyze --model models/moe --data math.jsonl --select-experts gate \\\n"
                "      --threshold 0.1 --out experts.json     # for train's experts=experts.json\n"
                "  metier analyze --model models/moe --data math.jsonl --select-experts best \\\n"
                "      --score reap --keep 50% --out half.json     # for eval --prune half.json",
    .ranks = CLI_RANKS_SHARE,
    .run = run_verb,
};
