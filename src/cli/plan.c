/* metier plan: what LoRA training of a model takes on so many ranks. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "arch/arch.h"
#include "base/amount.h"
#include "cli/cli.h"
#include "cli/shared/short_number.h"
#include "cli/shared/table.h"
#include "ops/limit.h"
#include "train/fit.h"
#include "train/scaling.h"

#define MOST_RANKS 1048576

/* Networks by name: what one port carries, of which every rank has its own. */
static const struct network {
    const char *name;
    double gigabytes, microseconds;
} networks[] = {
    {"infiniband-400", 50.0, 5.0}, {"infiniband-200", 25.0, 5.0}, {"ethernet-400", 50.0, 15.0},
    {"ethernet-100", 12.5, 20.0},  {"ethernet-25", 3.125, 30.0},  {"ethernet-10", 1.25, 30.0},
};

struct settings {
    const char *directory;
    const char *network;  // NULL: as the numbers say
    const char *quantise; // NULL: weights are 2 bytes each
    struct mt_quantise_options how;
    int64_t nodes, per_node; // 0 nodes: ranks are all alike
    double node_gigabytes, node_microseconds;
    int64_t ranks, experts, tokens, length, lora_rank, row_bytes;
    double room, teraflops, gigabytes, microseconds, max_violation;
    const char *memory; // NULL: any
    bool table;
};

/* What --network and --nodes stand for; numbers that were given count before a name. */
static enum mt_status resolve(struct mt_context *ctx, struct settings *settings)
{
    struct network found = {.gigabytes = 50.0, .microseconds = 10.0};
    bool known = settings->network == NULL;
    for (size_t i = 0; !known && i < sizeof networks / sizeof networks[0]; i++) {
        known = strcmp(networks[i].name, settings->network) == 0;
        if (known) found = networks[i];
    }
    if (!known) {
        return mt_fail(ctx, MT_ERR_USAGE,
                       "--network is '%s', expected infiniband-400, infiniband-200, ethernet-400, "
                       "ethernet-100, ethernet-25 or ethernet-10",
                       settings->network);
    }
    if (isnan(settings->gigabytes)) settings->gigabytes = found.gigabytes;
    if (isnan(settings->microseconds)) settings->microseconds = found.microseconds;
    if (settings->nodes > 0 && settings->per_node > 0 && settings->nodes <= MOST_RANKS / settings->per_node)
        settings->ranks = settings->nodes * settings->per_node;
    return MT_OK;
}

static enum mt_status check(const struct settings *settings, const struct cli_call *given)
{
    struct mt_context *ctx = given->ctx;
    if (given->positional_count + (settings->directory != NULL ? 1 : 0) != 1)
        return mt_fail(ctx, MT_ERR_USAGE, "expected one model folder");
    if (settings->per_node < 1 || settings->per_node > 1024 ||
        settings->nodes > MOST_RANKS / settings->per_node)
        return mt_fail(ctx, MT_ERR_USAGE, "--nodes and --per-node are %" PRId64 " and %" PRId64,
                       settings->nodes, settings->per_node);
    const struct cli_limit limits[] = {{"--ranks", settings->ranks, 1, MOST_RANKS},
                                       {"--rank", settings->lora_rank, 1, 4096}};
    enum mt_status status = cli_check_limits(ctx, limits, 2);
    if (status != MT_OK) return status;
    if (settings->experts < 1 || settings->ranks % settings->experts != 0) {
        return mt_fail(ctx, MT_ERR_USAGE, "--experts is %" PRId64 ", which does not divide %" PRId64 " ranks",
                       settings->experts, settings->ranks);
    }
    if (settings->tokens < 1 || settings->tokens > (int64_t)1 << 24)
        return mt_fail(ctx, MT_ERR_USAGE, "--tokens is %" PRId64 ", expected 1 to 2^24", settings->tokens);
    if (settings->length < 1 || settings->length > (int64_t)1 << 24)
        return mt_fail(ctx, MT_ERR_USAGE, "--length is %" PRId64 ", expected 1 to 2^24", settings->length);
    if (settings->row_bytes != 2 && settings->row_bytes != 4)
        return mt_fail(ctx, MT_ERR_USAGE, "--row-bytes is %" PRId64 ", expected 2 or 4", settings->row_bytes);
    if (!(settings->teraflops > 0.0) || !(settings->gigabytes > 0.0) || !(settings->microseconds >= 0.0) ||
        !(settings->node_gigabytes > 0.0) || !(settings->node_microseconds >= 0.0) ||
        !(settings->room >= 0.0) || !(settings->max_violation >= 0.0)) {
        return mt_fail(ctx, MT_ERR_USAGE,
                       "--flops and bandwidths must be above 0; latencies, --room and --max-violation must "
                       "not be below 0");
    }
    struct mt_memory_limit limit = {.bytes = 1.0};
    bool readable = settings->memory == NULL || mt_memory_limit_read(settings->memory, &limit);
    if (!readable || limit.bytes == 0.0)
        return mt_fail(ctx, MT_ERR_USAGE, "--memory is '%s', expected an amount as 22GiB or 24GB",
                       settings->memory);
    const struct cli_void rules[] = {
        {settings->nodes == 0, "--per-node --node-bandwidth --node-latency", "without --nodes"},
        {settings->nodes > 0, "--ranks", "with --nodes, which says how many there are"},
        {settings->table, "--memory", "with --table"},
        {settings->experts == 1, "--room", "without --experts: no rank shares them"},
        {cli_is_given(given, "--bandwidth") && cli_is_given(given, "--latency"), "--network",
         "together with --bandwidth and --latency"},
    };
    return cli_refuse_void(given, rules, sizeof rules / sizeof rules[0]);
}

static void predict(const struct mt_hf_config *config, const struct settings *settings, int64_t ranks,
                    int64_t experts, struct mt_scaling *scaling)
{
    const struct mt_cluster cluster = {
        .flops = settings->teraflops * 1e12,
        .wire = {.bandwidth = settings->gigabytes * 1e9, .latency = settings->microseconds * 1e-6},
        .node_ranks = settings->nodes > 0 ? settings->per_node : 0,
        .node = {.bandwidth = settings->node_gigabytes * 1e9, .latency = settings->node_microseconds * 1e-6}};
    const struct mt_layout layout = {.ranks = ranks,
                                     .expert_ranks = experts,
                                     .tokens = settings->tokens,
                                     .length = settings->length,
                                     .lora_rank = settings->lora_rank,
                                     .weight_bytes = 2,
                                     .row_bytes = settings->row_bytes,
                                     .room = settings->room,
                                     .max_violation = settings->max_violation,
                                     .quantise = settings->how};
    mt_scaling_predict(config, &cluster, &layout, scaling);
}

/* A plan with fewer tokens at a time. */
struct cut_plan {
    const struct mt_hf_config *config;
    const struct settings *settings;
};

static enum mt_status count_cut(void *self, const struct mt_fit_sizes *sizes, size_t *bytes)
{
    const struct cut_plan *plan = self;
    struct settings settings = *plan->settings;
    struct mt_scaling scaling;
    settings.tokens = sizes->tokens;
    predict(plan->config, &settings, settings.ranks, settings.experts, &scaling);
    *bytes = (size_t)scaling.memory;
    return MT_OK;
}

/* How the tokens of a step would have to be cut to fit a limit. */
static enum mt_status print_fit(struct mt_context *ctx, const struct mt_hf_config *config,
                                const struct settings *settings)
{
    static const struct cli_column columns[] = {{"  tokens at a time", true}, {"memory", true}, {"", false}};
    struct cut_plan plan = {.config = config, .settings = settings};
    struct mt_memory_limit limit;
    struct cli_table table;
    struct mt_fit fit;
    if (settings->memory == NULL) return MT_OK;
    (void)mt_memory_limit_read(settings->memory, &limit); // as it was checked
    int64_t least = settings->length < settings->tokens ? settings->length : settings->tokens;
    const struct mt_fit_freedom freedom = {
        .least_tokens = least, .step_tokens = settings->tokens, .first = {.tokens = settings->tokens}};
    enum mt_status status = mt_fit_choose(&freedom, (size_t)limit.bytes, count_cut, &plan, &fit);
    if (status != MT_OK) return status;
    printf("\nwhat fits into %s (--memory %s)\n", cli_short_bytes(limit.bytes).text, settings->memory);
    cli_table_init(&table, ctx, columns, 3);
    for (int i = 0; i < fit.count; i++) {
        double over = (double)fit.tried[i].bytes - limit.bytes;
        char verdict[48] = "fits";
        if (over > 0.0) (void)snprintf(verdict, sizeof verdict, "%s too much", cli_short_bytes(over).text);
        cli_table_add(&table, "%" PRId64 "\t%s\t%s", fit.tried[i].sizes.tokens,
                      cli_short_bytes((double)fit.tried[i].bytes).text, verdict);
    }
    status = cli_table_print(&table, stdout);
    printf("  recomputation, which a plan does not know, needs less: metier train --dry-run counts it\n");
    return status;
}

static void print_plan(const struct mt_hf_config *config, const struct settings *settings)
{
    struct mt_scaling s;
    predict(config, settings, settings->ranks, settings->experts, &s);
    printf("%s, LoRA rank %" PRId64 " on every linear layer; %s, experts over %" PRId64
           ", %s a rank and step\n\n",
           config->arch->name, settings->lora_rank,
           mt_counted((uint64_t)settings->ranks, "rank", "ranks").text, settings->experts,
           mt_counted((uint64_t)settings->tokens, "token", "tokens").text);
    printf("  memory of a rank       %10.3f GB\n", s.memory / 1e9);
    printf("    frozen weights       %10.3f GB   %s; routed experts 1/%" PRId64 "\n", s.weights / 1e9,
           settings->how.on ? settings->quantise : "2 bytes each", settings->experts);
    if (s.unpacked > 0.0)
        printf("    a layer unpacked     %10.3f GB   in bf16, for products\n", s.unpacked / 1e9);
    printf("    adapters             %10.3f GB   masters, gradients, sums, a share of moments; routed "
           "experts' 1/%" PRId64 "\n",
           s.adapters / 1e9, settings->experts);
    printf("    activations          %10.3f GB\n", s.activations / 1e9);
    printf("  arithmetic of a step   %10.3f TFLOP   %.1f %% of it by routed experts\n", s.flops / 1e12,
           100.0 * s.routed_flops / s.flops);
    printf("  sent by a rank         %10.3f MB\n",
           (s.gradient_bytes + s.expert_bytes + s.statistics_bytes) / 1e6);
    printf("    gradients, values    %10.3f MB\n", s.gradient_bytes / 1e6);
    printf("    rows of experts      %10.3f MB\n", s.expert_bytes / 1e6);
    printf("    statistics           %10.3f MB\n", s.statistics_bytes / 1e6);
    printf("  time of a step         %10.3f ms   balanced; efficiency %.1f %%\n", s.balanced * 1e3,
           100.0 * s.efficiency);
    printf("    arithmetic           %10.3f ms\n", s.compute * 1e3);
    printf("    rows of experts      %10.3f ms   of which %.3f behind other work\n", s.experts * 1e3,
           s.hidden * 1e3);
    printf("    gradients            %10.3f ms   what backward does not hide, and values back\n",
           s.gradients * 1e3);
    printf("    statistics           %10.3f ms\n", s.statistics * 1e3);
    if (settings->max_violation > 0.0) {
        printf("  with MaxVio %-10g %10.3f ms   one hot expert on the fullest rank\n",
               settings->max_violation, s.hot_expert * 1e3);
        printf("                         %10.3f ms   a whole rank of hot experts\n", s.hot_rank * 1e3);
    }
    if (settings->max_violation > 0.0 && settings->experts > 1) {
        printf("    rows it sends        %10.3f MB   with one hot expert\n", s.hot_expert_bytes / 1e6);
        printf("                         %10.3f MB   with a rank of them; all ranks together as balanced\n",
               s.hot_rank_bytes / 1e6);
    }
}

/* 1, 2, 4, ... ranks; as many of them share the experts as --experts allows. */
static enum mt_status print_table(struct mt_context *ctx, const struct mt_hf_config *config,
                                  const struct settings *settings)
{
    static const struct cli_column columns[] = {
        {"ranks", true},       {"experts", true},     {"memory GB", true},
        {"sent MB", true},     {"balanced ms", true}, {"hot exp. ms", true},
        {"hot rank ms", true}, {"tokens/s", true},    {"efficiency", true}};
    struct cli_table table;
    cli_table_init(&table, ctx, columns, 9);
    for (int64_t ranks = 1; ranks <= settings->ranks; ranks *= 2) {
        struct mt_scaling s;
        int64_t experts = ranks < settings->experts ? ranks : settings->experts;
        if (ranks % experts != 0) continue;
        predict(config, settings, ranks, experts, &s);
        cli_table_add(&table, "%" PRId64 "\t%" PRId64 "\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.0f\t%.1f%%", ranks,
                      experts, s.memory / 1e9, (s.gradient_bytes + s.expert_bytes + s.statistics_bytes) / 1e6,
                      s.balanced * 1e3, s.hot_expert * 1e3, s.hot_rank * 1e3,
                      (double)(ranks * settings->tokens) / s.balanced, 100.0 * s.efficiency);
    }
    return cli_table_print(&table, stdout);
}

static enum mt_status run(struct mt_context *ctx, struct settings *settings)
{
    struct mt_hf_config config;
    enum mt_status status = mt_hf_config_read_folder(ctx, settings->directory, &config);
    if (status != MT_OK) return status;
    char format[MT_QUANTISE_TEXT_BYTES];
    if (settings->quantise == NULL && config.quant.method != MT_HF_QUANT_NONE) {
        mt_quantise_as_published(&config, &settings->how);
        settings->quantise = mt_quantise_text(&settings->how, format);
    }
    if (settings->experts > config.experts) {
        status = mt_fail(ctx, MT_ERR_USAGE, "--experts is %" PRId64 ", but there are %" PRId64 " experts",
                         settings->experts, (int64_t)config.experts);
    } else if (settings->table) {
        status = print_table(ctx, &config, settings);
    } else {
        print_plan(&config, settings);
        status = print_fit(ctx, &config, settings);
    }
    mt_hf_config_free(&config);
    return status;
}

static enum mt_status run_verb(struct cli_call *call)
{
    struct settings settings = {.ranks = 8,
                                .experts = 1,
                                .tokens = 8192,
                                .length = 512,
                                .lora_rank = 32,
                                .row_bytes = 4,
                                .teraflops = 400.0,
                                .per_node = 8,
                                .gigabytes = (double)NAN,
                                .microseconds = (double)NAN,
                                .node_gigabytes = 300.0,
                                .node_microseconds = 3.0};
    const struct cli_option options[] = {
        {"--model", CLI_TEXT, &settings.directory, "DIR", "the model folder, instead of an argument"},
        {"--ranks", CLI_INTEGER, &settings.ranks, "P", "processes, one for each GPU (8)"},
        {"--nodes", CLI_INTEGER, &settings.nodes, "N",
         "machines, instead of --ranks: the network inside a machine is faster"},
        {"--per-node", CLI_INTEGER, &settings.per_node, "G", "ranks of one machine (8)"},
        {"--network", CLI_TEXT, &settings.network, "NAME",
         "infiniband-400, infiniband-200, ethernet-400, ethernet-100, ethernet-25, ethernet-10: a port a "
         "rank"},
        {"--experts", CLI_INTEGER, &settings.experts, "E", "ranks that share the routed experts (1)"},
        {"--room", CLI_REAL, &settings.room, "F", "as the key parallel.room: 0, room for all rows (0)"},
        {"--tokens", CLI_INTEGER, &settings.tokens, "T", "tokens of one rank in one step (8192)"},
        {"--length", CLI_INTEGER, &settings.length, "N", "tokens of a sequence (512)"},
        {"--rank", CLI_INTEGER, &settings.lora_rank, "R", "of LoRA (32)"},
        {"--quantize", CLI_TEXT, &settings.quantise, "HOW",
         "frozen weights in fewer bits: fp8, int8, nf4 or mxfp4, then parts, with commas (none)"},
        {"--row-bytes", CLI_INTEGER, &settings.row_bytes, "N", "of an activation: 4, or 2 for 16 bits (4)"},
        {"--flops", CLI_REAL, &settings.teraflops, "TFLOP/S",
         "sustained rate of one rank, in 10^12 a second (400)"},
        {"--bandwidth", CLI_REAL, &settings.gigabytes, "GB/S",
         "sending rate of one rank, in 10^9 bytes a second (the network's; 50)"},
        {"--latency", CLI_REAL, &settings.microseconds, "US",
         "latency of a message, in microseconds (the network's; 10)"},
        {"--node-bandwidth", CLI_REAL, &settings.node_gigabytes, "GB/S", "the same within a machine (300)"},
        {"--node-latency", CLI_REAL, &settings.node_microseconds, "US", "the same within a machine (3)"},
        {"--max-violation", CLI_REAL, &settings.max_violation, "V", "MaxVio of the experts' loads (0)"},
        {"--memory", CLI_TEXT, &settings.memory, "LIMIT",
         "of one rank, as 22GiB: print how many tokens at a time fit"},
        {"--table", CLI_FLAG, &settings.table, NULL, "1, 2, 4, ... up to P ranks, a line each"},
        {0},
    };
    enum mt_status status = cli_parse(call, options);
    if (status != MT_OK || call->help_shown) return status;
    status = resolve(call->ctx, &settings);
    if (status == MT_OK) status = check(&settings, call);
    if (status != MT_OK) return status;
    if (settings.directory == NULL) settings.directory = call->positional[0];
    if (settings.quantise != NULL) status = mt_quantise_parse(call->ctx, settings.quantise, &settings.how);
    if (status == MT_OK) status = mt_quantise_refuse_cache(call->ctx, &settings.how);
    if (status != MT_OK) return status;
    return run(call->ctx, &settings);
}

const struct cli_verb cli_verb_plan = {
    .name = "plan",
    .summary = "predict memory, network traffic and step time of LoRA training on many ranks",
    .arguments = "DIR",
    .counts_arguments = true,
    .details =
        "DIR holds a config.json; no weights are needed. A step takes the arithmetic at the sustained\n"
        "rate plus the messages, each latency + bytes/bandwidth. Gradients overlap with the last\n"
        "backward. If ranks share the experts, all wait for the fullest rank; --max-violation prints what\n"
        "this imbalance costs. With --nodes the ranks of one machine use the faster network inside it.\n"
        "docs/lab/scaling.md has the formulas, and says how good the predictions are.",
    .examples = "  metier plan models/OLMoE-1B-7B --ranks 8 --experts 8\n"
                "  metier plan models/OLMoE-1B-7B --ranks 1 --quantize nf4 --row-bytes 2\n"
                "  metier plan models/OLMoE-1B-7B --ranks 1 --memory 22GiB\n"
                "  metier plan models/DeepSeek-V3 --nodes 16 --network infiniband-400 --experts 8\n"
                "  metier plan models/DeepSeek-V3 --ranks 1024 --experts 64 --max-violation 0.5 --table",
    .run = run_verb,
};
