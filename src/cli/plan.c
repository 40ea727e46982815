/* metier plan: what training of a model takes on so many ranks. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/amount.h"
#include "base/compare.h"
#include "cli/cli.h"
#include "cli/shared/links.h"
#include "cli/shared/memory.h"
#include "cli/shared/short_number.h"
#include "cli/shared/table.h"
#include "model/experts/ranks.h"
#include "ops/choose.h"
#include "ops/limit.h"
#include "train/opening.h"

#define MOST_RANKS        1048576
#define MOST_WORDS        64
#define ARENA_BLOCK_BYTES 16384

struct arguments {
    const char *model;            // NULL: the first argument
    const char *links;            // file; NULL: ours
    const char *link, *node_link; // names of it
    int64_t nodes, per_node;      // 0 nodes: ranks are all alike
    int64_t ranks;
    double teraflops, gigabytes, microseconds, max_violation; // 0 GB/s, µs below 0: the link's
    bool table;
};

struct plan {
    struct mt_context *ctx;
    const struct arguments *arguments;
    struct mt_arena arena;
    struct mt_train_settings settings;
    struct mt_hf_config config;
    struct mt_model_desc desc;
    struct mt_adapter adapter;
    struct mt_train_selection selection;
    bool without_weights; // the folder has a config alone
    struct mt_cluster cluster;
    struct cli_links links;
    struct mt_fit_freedom freedom;
    struct mt_memory_bound bound; // whole 0: any
    int64_t ranks;                // of what is counted at the moment
    struct mt_run_memory memory;  // of the last count,
    struct mt_rank_memory counted;
};

/* A plan of so many ranks. */
struct planned {
    struct mt_fit fit;
    struct mt_fit_sizes sizes; // of these
    struct mt_layout layout;
    struct mt_scaling scaling;
    char why[MT_SPREAD_BYTES]; // of the ranks that share experts; "": they were given
};

// ------------------------------------------------------------------ what is planned

static enum mt_status check(const struct arguments *arguments, const struct cli_call *given)
{
    struct mt_context *ctx = given->ctx;
    if (given->positional_count == 0 && arguments->model == NULL)
        return mt_fail(ctx, MT_ERR_USAGE, "expected a model folder, or a configuration of metier train");
    const struct cli_limit limits[] = {{"--ranks", arguments->ranks, 1, MOST_RANKS},
                                       {"--per-node", arguments->per_node, 1, 1024},
                                       {"--nodes", arguments->nodes, 0, MOST_RANKS / 1024}};
    enum mt_status status = cli_check_limits(ctx, limits, 3);
    if (status != MT_OK) return status;
    if (!(arguments->teraflops > 0.0))
        return mt_fail(ctx, MT_ERR_USAGE, "--flops is %g, expected a number above 0", arguments->teraflops);
    const struct cli_void rules[] = {
        {arguments->nodes == 0, "--per-node --node-link", "without --nodes"},
        {arguments->nodes > 0, "--ranks", "with --nodes, which says how many there are"},
        {arguments->gigabytes > 0.0 && arguments->microseconds >= 0.0, "--link",
         "together with --bandwidth and --latency"},
    };
    return cli_refuse_void(given, rules, sizeof rules / sizeof rules[0]);
}

/* A configuration with words over it, or a folder with words and nothing else that a run would need. */
static enum mt_status read_settings(struct plan *plan, const struct cli_call *given)
{
    static const char no_out[] = "out=(none)";
    static const char no_data[] = "data.path=(none)";
    const char *words[MOST_WORDS + 3];
    size_t count = 0;
    char model[2048];
    const char *first = plan->arguments->model;
    int taken = first == NULL ? 1 : 0;
    if (first == NULL) first = given->positional[0];
    bool file = mt_ends_with(first, ".yaml") || mt_ends_with(first, ".yml");
    if (given->positional_count - taken > MOST_WORDS)
        return mt_fail(plan->ctx, MT_ERR_USAGE, "more than %d settings", MOST_WORDS);
    if (strlen(first) > sizeof model - 8)
        return mt_fail(plan->ctx, MT_ERR_USAGE, "the name of the model folder is too long");
    (void)snprintf(model, sizeof model, "model=%s", first);
    if (!file) {
        words[count++] = model;
        words[count++] = no_out;
        words[count++] = no_data;
    }
    for (int i = taken; i < given->positional_count; i++) words[count++] = given->positional[i];
    return mt_train_settings_read(plan->ctx, file ? first : "the settings", file ? NULL : "", 0, words, count,
                                  &plan->arena, &plan->settings);
}

static enum mt_status resolve_cluster(struct plan *plan)
{
    const struct arguments *arguments = plan->arguments;
    struct mt_cluster *cluster = &plan->cluster;
    cluster->flops = arguments->teraflops * 1e12;
    cluster->node_ranks = arguments->nodes > 0 ? arguments->per_node : 0;
    plan->ranks = arguments->nodes > 0 ? arguments->nodes * arguments->per_node : arguments->ranks;
    enum mt_status status = cli_links_read(plan->ctx, &plan->arena, arguments->links, &plan->links);
    if (status == MT_OK)
        status = cli_links_find(plan->ctx, &plan->links, "--link", arguments->link, &cluster->wire);
    if (status == MT_OK)
        status = cli_links_find(plan->ctx, &plan->links, "--node-link", arguments->node_link, &cluster->node);
    if (arguments->gigabytes > 0.0) cluster->wire.bandwidth = arguments->gigabytes * 1e9;
    if (arguments->microseconds >= 0.0) cluster->wire.latency = arguments->microseconds * 1e-6;
    return status;
}

static enum mt_status resolve_model(struct plan *plan)
{
    struct mt_train_settings *settings = &plan->settings;
    struct mt_context *ctx = plan->ctx;
    bool single = false;
    bool index = false;
    enum mt_status status = mt_hf_config_read_folder(ctx, settings->model, &plan->config);
    if (status == MT_OK) status = mt_model_describe(ctx, &plan->config, &plan->desc);
    if (status == MT_OK)
        status = mt_train_select(ctx, settings, &plan->desc, &plan->arena, &plan->adapter, &plan->selection);
    if (status == MT_OK)
        status = mt_device_choose(ctx, NULL, settings->device, MT_USE_FAST, &settings->device);
    if (status == MT_OK) status = mt_checkpoint_has_file(ctx, settings->model, MT_CHECKPOINT_SINGLE, &single);
    if (status == MT_OK) status = mt_checkpoint_has_file(ctx, settings->model, MT_CHECKPOINT_INDEX, &index);
    plan->without_weights = !single && !index;
    return status;
}

/* What may be chosen to fit the limit; without a limit all is as the fastest. */
static enum mt_status resolve_memory(struct plan *plan)
{
    struct mt_train_settings *settings = &plan->settings;
    struct mt_memory_limit limit;
    struct mt_device *device = NULL;
    bool open = settings->tokens == 0;
    if (open) settings->tokens = mt_train_auto_tokens(settings);
    plan->freedom = mt_train_freedom(settings, open);
    if (plan->freedom.first.expert_ranks == 0) plan->freedom.first.expert_ranks = 1;
    (void)mt_memory_limit_read(settings->memory_limit, &limit);    // as the settings were checked
    if (strcmp(settings->memory_limit, "auto") == 0) return MT_OK; // what is free here says nothing of there
    enum mt_status status = mt_device_create(plan->ctx, settings->device, 1, &device);
    if (status == MT_OK) {
        plan->bound = mt_device_bound(device, &limit);
        plan->freedom.host_embedding = mt_train_embedding_may_leave(settings, &plan->desc, device);
    }
    mt_device_destroy(device);
    return status;
}

// ------------------------------------------------------------------ counting

/* The first rank that owns the most experts; of what is shared evenly the first has no less than others. */
static int fullest_rank(int experts, int sharing)
{
    int fullest = 0;
    int most = 0;
    for (int r = 0; r < sharing; r++) {
        int owned =
            mt_expert_ranks_first(experts, r + 1, sharing) - mt_expert_ranks_first(experts, r, sharing);
        if (owned > most) fullest = r;
        if (owned > most) most = owned;
    }
    return fullest;
}

static enum mt_status count(void *self, const struct mt_fit_sizes *sizes, size_t *bytes)
{
    struct plan *plan = self;
    struct mt_device *dry = NULL;
    struct mt_rank_memory *counted = &plan->counted;
    size_t before = plan->ctx->live_bytes;
    enum mt_status status =
        mt_device_create(plan->ctx, plan->settings.device, (int)plan->settings.threads, &dry);
    if (status != MT_OK) return status;
    mt_device_set_dry(dry);
    struct mt_model_options options = mt_train_model_options(&plan->settings, &plan->selection, dry, sizes);
    options.without_weights = plan->without_weights;
    status = mt_rank_memory(dry, &plan->settings, &options, sizes,
                            fullest_rank(plan->desc.experts, (int)sizes->expert_ranks), (int)plan->ranks,
                            (int)plan->settings.source_count, counted);
    if (status == MT_OK) {
        counted->live -= before; // what this verb holds, a run does not
        *bytes = mt_rank_memory_bytes(dry, counted);
        bool on_host = mt_device_on_host(dry);
        plan->memory = (struct mt_run_memory){.device = mt_device_name(dry),
                                              .on_host = on_host,
                                              .model = counted->model,
                                              .moments = counted->moments,
                                              .buffers = counted->buffers,
                                              .held = counted->live + counted->summed,
                                              .tokens = sizes->tokens};
        plan->memory.all = counted->buffers + (on_host ? counted->model.mapped + plan->memory.held : 0);
    }
    mt_device_destroy(dry);
    return status;
}

/* Chooses what is left to us, counts, and predicts. */
static enum mt_status make(struct plan *plan, int64_t ranks, struct planned *made)
{
    struct mt_fit_freedom freedom = plan->freedom;
    size_t room = plan->bound.whole > 0 ? plan->bound.buffers : SIZE_MAX;
    enum mt_status status = MT_OK;
    size_t bytes = 0;
    plan->ranks = ranks;
    *made = (struct planned){0};
    if (plan->settings.expert_ranks == 0) {
        struct mt_spread spread = {.ranks = ranks, .experts = plan->desc.experts};
        status = mt_fit_spread(&freedom, room, count, plan, &spread);
        freedom.first.expert_ranks = spread.expert_ranks;
        mt_spread_sentence(&spread, room, made->why);
    } else if (freedom.first.expert_ranks > ranks) {
        freedom.first.expert_ranks = ranks; // a line of the table with fewer ranks
    }
    if (status == MT_OK && ranks % freedom.first.expert_ranks != 0)
        return mt_fail(plan->ctx, MT_ERR_USAGE,
                       "parallel.experts is %" PRId64 ", which does not divide %" PRId64 " ranks",
                       freedom.first.expert_ranks, ranks);
    if (status == MT_OK) status = mt_fit_choose(&freedom, room, count, plan, &made->fit);
    if (status != MT_OK) return status;
    made->sizes = made->fit.tried[made->fit.chosen].sizes;
    if (made->fit.chosen != made->fit.count - 1) status = count(plan, &made->sizes, &bytes);
    const struct mt_rank_memory *counted = &plan->counted;
    made->layout = (struct mt_layout){.ranks = ranks,
                                      .expert_ranks = made->sizes.expert_ranks,
                                      .tokens = made->sizes.tokens,
                                      .length = plan->settings.max_length,
                                      .row_bytes = counted->narrow ? 2 : 4,
                                      .recompute = made->sizes.recompute,
                                      .max_violation = plan->arguments->max_violation,
                                      .full = plan->settings.train == MT_TRAIN_FULL,
                                      .trained_experts = (double)counted->trained_experts,
                                      .trained_rest = (double)counted->trained_rest,
                                      .common_bytes = (double)counted->common,
                                      .own_bytes = (double)counted->own};
    mt_scaling_predict(&plan->config, &plan->cluster, &made->layout, &made->scaling);
    return status;
}

// ------------------------------------------------------------------ printing

static double sent(const struct mt_scaling *s)
{
    return s->gradient_bytes + s->expert_bytes + s->statistics_bytes;
}

static void print_times(const struct plan *plan, const struct planned *made)
{
    const struct mt_scaling *s = &made->scaling;
    double violation = plan->arguments->max_violation;
    printf("\na step\n");
    printf("  arithmetic             %10.3f TFLOP   %.1f %% of it by routed experts\n", s->flops / 1e12,
           100.0 * s->routed_flops / s->flops);
    printf("  sent by a rank         %10.3f MB\n", sent(s) / 1e6);
    printf("    gradients, values    %10.3f MB\n", s->gradient_bytes / 1e6);
    printf("    rows of experts      %10.3f MB\n", s->expert_bytes / 1e6);
    printf("    statistics           %10.3f MB\n", s->statistics_bytes / 1e6);
    printf("  time of a step         %10.3f ms   balanced; efficiency %.1f %%\n", s->balanced * 1e3,
           100.0 * s->efficiency);
    printf("    arithmetic           %10.3f ms\n", s->compute * 1e3);
    printf("    rows of experts      %10.3f ms   of which %.3f behind other work\n", s->experts * 1e3,
           s->hidden * 1e3);
    printf("    gradients            %10.3f ms   what backward does not hide, and values back\n",
           s->gradients * 1e3);
    printf("    statistics           %10.3f ms\n", s->statistics * 1e3);
    if (violation > 0.0) {
        printf("  with MaxVio %-10g %10.3f ms   one hot expert on the fullest rank\n", violation,
               s->hot_expert * 1e3);
        printf("                         %10.3f ms   a whole rank of hot experts\n", s->hot_rank * 1e3);
    }
    if (violation > 0.0 && made->sizes.expert_ranks > 1) {
        printf("    rows it sends        %10.3f MB   with one hot expert\n", s->hot_expert_bytes / 1e6);
        printf("                         %10.3f MB   with a rank of them; all ranks together as balanced\n",
               s->hot_rank_bytes / 1e6);
    }
}

static enum mt_status print_plan(struct plan *plan)
{
    struct planned made;
    char format[MT_QUANTISE_TEXT_BYTES];
    enum mt_status status = make(plan, plan->ranks, &made);
    if (status != MT_OK) return status;
    struct mt_quantise_options stored = plan->selection.quantise;
    if (!stored.on) mt_quantise_as_published(&plan->config, &stored);
    printf("%s, %s, weights %s; %s, experts over %" PRId64 ", %s a rank and step, recompute: %s\n",
           plan->config.arch->name, plan->settings.train == MT_TRAIN_LORA ? "LoRA" : "full",
           stored.on ? mt_quantise_text(&stored, format) : "as floats",
           mt_counted((uint64_t)plan->ranks, "rank", "ranks").text, made.sizes.expert_ranks,
           mt_counted((uint64_t)made.sizes.tokens, "token", "tokens").text,
           mt_recompute_name(made.sizes.recompute));
    if (made.why[0] != '\0') printf("parallel.experts: auto: %s\n", made.why);
    cli_print_memory(&plan->memory);
    status = cli_print_fit(plan->ctx, &plan->settings, &made.fit, &plan->bound);
    if (status != MT_OK) return status;
    print_times(plan, &made);
    if (plan->ranks == 1) return MT_OK;
    printf("\nmessages of a step, if all went over one link (%s)\n", plan->links.file);
    return cli_links_print(plan->ctx, &plan->links, &plan->config, &made.layout);
}

/* 1, 2, 4, ... ranks; as many of them share the experts as parallel.experts says. */
static enum mt_status print_table(struct plan *plan)
{
    static const struct cli_column columns[] = {
        {"ranks", true},       {"experts", true},     {"memory GB", true},
        {"sent MB", true},     {"balanced ms", true}, {"hot exp. ms", true},
        {"hot rank ms", true}, {"tokens/s", true},    {"efficiency", true}};
    struct cli_table table;
    enum mt_status status = MT_OK;
    int64_t most = plan->ranks;
    int64_t sharing = plan->freedom.first.expert_ranks;
    cli_table_init(&table, plan->ctx, columns, 9);
    for (int64_t ranks = 1; ranks <= most && status == MT_OK; ranks *= 2) {
        struct planned made;
        if (ranks > sharing && ranks % sharing != 0) continue;
        status = make(plan, ranks, &made);
        const struct mt_scaling *s = &made.scaling;
        if (status == MT_OK)
            cli_table_add(&table, "%" PRId64 "\t%" PRId64 "\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.0f\t%.1f%%",
                          ranks, made.sizes.expert_ranks, (double)plan->memory.all / 1e9, sent(s) / 1e6,
                          s->balanced * 1e3, s->hot_expert * 1e3, s->hot_rank * 1e3,
                          (double)(ranks * made.sizes.tokens) / s->balanced, 100.0 * s->efficiency);
    }
    enum mt_status printed = cli_table_print(&table, stdout);
    return status == MT_OK ? printed : status;
}

static enum mt_status run(struct plan *plan, const struct cli_call *given)
{
    enum mt_status status = read_settings(plan, given);
    if (status == MT_OK) status = resolve_cluster(plan);
    if (status == MT_OK) status = resolve_model(plan);
    if (status == MT_OK) status = resolve_memory(plan);
    if (status != MT_OK) return status;
    return plan->arguments->table ? print_table(plan) : print_plan(plan);
}

static enum mt_status run_verb(struct cli_call *call)
{
    struct arguments arguments = {.ranks = 8,
                                  .per_node = 8,
                                  .link = "infiniband-ndr",
                                  .node_link = "nvlink-4",
                                  .teraflops = 400.0,
                                  .microseconds = -1.0};
    const struct cli_option options[] = {
        {"--model", CLI_TEXT, &arguments.model, "DIR", "the model folder, instead of an argument"},
        {"--ranks", CLI_INTEGER, &arguments.ranks, "P", "processes, one for each GPU (8)"},
        {"--nodes", CLI_INTEGER, &arguments.nodes, "N",
         "machines, instead of --ranks: the link inside a machine is another"},
        {"--per-node", CLI_INTEGER, &arguments.per_node, "G", "ranks of one machine (8)"},
        {"--link", CLI_TEXT, &arguments.link, "NAME",
         "between ranks, or with --nodes between machines (infiniband-ndr)"},
        {"--node-link", CLI_TEXT, &arguments.node_link, "NAME", "inside a machine (nvlink-4)"},
        {"--links", CLI_TEXT, &arguments.links, "FILE", "another table of links than share/plan/links.yaml"},
        {"--flops", CLI_REAL, &arguments.teraflops, "TFLOP/S",
         "sustained rate of one rank, in 10^12 a second (400)"},
        {"--bandwidth", CLI_REAL, &arguments.gigabytes, "GB/S",
         "sending rate of one rank, in 10^9 bytes a second (the link's)"},
        {"--latency", CLI_REAL, &arguments.microseconds, "US",
         "latency of a message, in microseconds (the link's)"},
        {"--max-violation", CLI_REAL, &arguments.max_violation, "V", "MaxVio of the experts' loads (0)"},
        {"--table", CLI_FLAG, &arguments.table, NULL, "1, 2, 4, ... up to P ranks, a line each"},
        {0},
    };
    enum mt_status status = cli_parse(call, options);
    if (status != MT_OK || call->help_shown) return status;
    status = check(&arguments, call);
    if (status != MT_OK) return status;
    struct plan plan = {.ctx = call->ctx, .arguments = &arguments};
    mt_arena_init(&plan.arena, call->ctx, ARENA_BLOCK_BYTES);
    status = run(&plan, call);
    mt_adapter_close(&plan.adapter);
    mt_hf_config_free(&plan.config);
    mt_arena_free(&plan.arena);
    return status;
}

static const struct cli_keys keys = {
    .keys = &mt_train_keys, .title = "a configuration of metier train", .words = true};

const struct cli_verb cli_verb_plan = {
    .name = "plan",
    .summary = "predict memory, network traffic and step time of training on many ranks",
    .arguments = "DIR|CONFIG.yaml [key=value ...]",
    .counts_arguments = true,
    .details =
        "DIR holds a config.json; weights are not needed. The keys are those of metier train: plan opens a\n"
        "rank of such a run on a device that only counts, so memory is what --dry-run prints, without the\n"
        "data. A rank runs one micro-batch (batch.tokens) a step. The step takes the arithmetic at the\n"
        "sustained rate plus the messages, each latency + bytes/bandwidth of its link. Gradients overlap\n"
        "with the last backward. If ranks share the experts, all wait for the fullest rank; --max-violation\n"
        "prints what this imbalance costs. docs/lab/scaling.md has the formulas, and says how good the\n"
        "predictions are.",
    .examples =
        "  metier plan models/OLMoE-1B-7B --ranks 8 parallel.experts=8\n"
        "  metier plan models/OLMoE-1B-7B --ranks 1 quantize.format=nf4 activations=bf16\n"
        "  metier plan models/OLMoE-1B-7B --ranks 8 parallel.experts=auto memory.limit=22GiB\n"
        "  metier plan models/DeepSeek-V3 --nodes 16 --link ethernet-400 parallel.experts=8\n"
        "  metier plan models/DeepSeek-V3 --ranks 1024 parallel.experts=64 --max-violation 0.5 --table",
    .keys = &keys,
    .run = run_verb,
};
