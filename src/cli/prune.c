/* metier prune: a model folder with fewer experts. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/run/run.h"
#include "base/amount.h"
#include "base/files/folder.h"
#include "cli/cli.h"
#include "cli/shared/device.h"
#include "cli/shared/share.h"
#include "cli/shared/table.h"
#include "model/chosen_experts.h"
#include "model/files/adapted.h"
#include "model/files/merge.h"

#define ARENA_BLOCK_BYTES 16384
#define RANGES_BYTES      (CLI_CELL_BYTES - 1)
#define SPEED_TOKENS      256                  // where nobody says how many
#define LIGHT_BYTES       UINT64_C(1500000000) // a model that may be loaded for the sake of its speed alone

struct settings {
    const char *directory;
    struct cli_list data;
    const char *score_name;
    const char *experts; // the file; NULL: --data
    const char *keep;
    const char *adapter;
    const char *out;
    const char *device;
    int64_t threads;
    int64_t tokens, length; // of --data
    const char *template_name;
    int64_t speed; // -1: as it comes
    bool verify;
    enum mt_expert_score score;
};

/* A pruning on its way. */
struct pruning {
    struct mt_context *ctx;
    const struct settings *settings;
    struct mt_device *device; // of --data and of the speed; NULL: not yet
    struct mt_arena arena;    // what follows
    struct mt_hf_config config;
    struct mt_model_desc desc;
    struct mt_kept kept;
    double *served;  // [layers]: share of the data's slots; NULL: no data
    int32_t *unused; // [layers with experts]: experts that stay and served no token of the data
    double least_served;
    int64_t data_tokens;
};

// ------------------------------------------------------------------ what is asked

static enum mt_status check(struct settings *settings, const struct cli_call *call)
{
    struct mt_context *ctx = call->ctx;
    bool data = settings->data.count > 0;
    if (data == (settings->experts != NULL)) {
        return mt_fail(ctx, MT_ERR_USAGE,
                       data ? "give either --data or --experts, not both: each says which experts stay"
                            : "give --data FILE or --experts FILE, which says which experts stay");
    }
    if (settings->out == NULL) return mt_fail(ctx, MT_ERR_USAGE, "--out DIR is missing");
    if (data && settings->keep == NULL)
        return mt_fail(ctx, MT_ERR_USAGE, "--keep is missing: how many experts of a layer (16 or 50%%)");
    const struct cli_void rules[] = {
        {!data, "--score", "with --experts, which says what stays"},
        {!data, "--tokens", "without --data"},
        {!data, "--length", "without --data"},
        {!data, "--template", "without --data"},
    };
    enum mt_status status = cli_refuse_void(call, rules, sizeof rules / sizeof rules[0]);
    const struct cli_limit limits[] = {{"--tokens", settings->tokens, 1, INT64_C(1) << 40},
                                       {"--length", settings->length, 2, 1 << 20},
                                       {"--speed", settings->speed, -1, 1 << 20}};
    if (status == MT_OK) status = cli_check_limits(ctx, limits, sizeof limits / sizeof limits[0]);
    if (status == MT_OK)
        status = mt_expert_score_named(ctx, "--score", settings->score_name, &settings->score);
    return status;
}

/* One that is named wrongly is refused before anything is computed or written. */
static enum mt_status check_device(struct mt_context *ctx, const struct settings *settings)
{
    const char *name = NULL;
    bool certain = settings->verify || settings->speed > 0 || settings->data.count > 0;
    bool possible = settings->speed != 0 && !mt_device_is_automatic(settings->device);
    if (!certain && !possible) return MT_OK;
    return mt_device_choose(ctx, NULL, settings->device, MT_USE_FAST, &name);
}

static enum mt_status open_model(struct pruning *pruning, int *keep)
{
    struct mt_context *ctx = pruning->ctx;
    const struct settings *settings = pruning->settings;
    enum mt_status status = mt_hf_config_read_folder(ctx, settings->directory, &pruning->config);
    if (status == MT_OK) status = mt_model_describe(ctx, &pruning->config, &pruning->desc);
    if (status == MT_OK && mt_model_moe_layers(&pruning->desc, NULL) == 0)
        status = mt_fail(ctx, MT_ERR_USAGE, "%s: no layer has experts", settings->directory);
    if (status == MT_OK && settings->keep != NULL)
        status = mt_experts_keep_parse(ctx, "--keep", settings->keep, pruning->desc.experts,
                                       pruning->desc.router.slots, keep);
    if (status == MT_OK && settings->keep != NULL) status = mt_kept_check(ctx, &pruning->desc, *keep);
    if (status == MT_OK) status = mt_folder_check_free(ctx, settings->out);
    return status == MT_OK ? check_device(ctx, settings) : status;
}

/* The one that computes fastest, made when it is needed first. */
static enum mt_status open_device(struct pruning *pruning)
{
    const struct settings *settings = pruning->settings;
    if (pruning->device != NULL) return MT_OK;
    return cli_open_device(pruning->ctx, settings->device, MT_USE_FAST, (int)settings->threads,
                           &pruning->device);
}

// ------------------------------------------------------------------ which experts stay

static enum mt_status read_experts(struct pruning *pruning, int keep)
{
    struct mt_context *ctx = pruning->ctx;
    const char *path = pruning->settings->experts;
    const bool *const *flags = NULL;
    enum mt_status status = mt_kept_experts_read(ctx, path, &pruning->desc, &pruning->arena, &flags);
    if (status != MT_OK) return status;
    status = mt_kept_of_flags(ctx, &pruning->desc, flags, &pruning->arena, &pruning->kept);
    if (status != MT_OK) return mt_fail_within(ctx, status, "%s", path);
    if (pruning->settings->keep == NULL || keep == pruning->kept.keep) return MT_OK;
    return mt_fail(ctx, MT_ERR_USAGE, "%s keeps %d experts of each layer, --keep says %d", path,
                   pruning->kept.keep, keep);
}

/* The best by the score, equally many of each group that limits a token's choice. */
static enum mt_status choose_layer(struct pruning *pruning, const struct mt_layer_figures *figures, int keep,
                                   bool *flags, int32_t *unused)
{
    const struct mt_model_desc *desc = &pruning->desc;
    const double *score = figures->score[pruning->settings->score];
    int groups = desc->router.groups > 1 ? desc->router.groups : 1;
    double total = 0.0;
    double served = 0.0;
    for (int j = 0; j < desc->experts; j++) {
        total += figures->load[j];
        if (isfinite(score[j])) continue;
        return mt_fail(pruning->ctx, MT_ERR_NUMERIC,
                       "layer %" PRId64 ": the score of expert %d is not a number", figures->number, j);
    }
    mt_experts_keep_best(score, desc->experts, groups, keep, flags);
    for (int j = 0; j < desc->experts; j++) {
        served += flags[j] ? figures->load[j] : 0.0;
        *unused += flags[j] && !(figures->load[j] > 0.0) ? 1 : 0;
    }
    if (!(total > 0.0))
        return mt_fail(pruning->ctx, MT_ERR_USAGE, "--data: no token of it is routed to an expert");
    pruning->served[figures->number] = served / total;
    return MT_OK;
}

static enum mt_status choose(struct pruning *pruning, const struct mt_analysis *run, int keep)
{
    const struct mt_figures *figures = &run->model.figures[run->domains];
    const struct mt_model_desc *desc = &pruning->desc;
    enum mt_status status = MT_OK;
    bool **flags = mt_arena_array(&pruning->arena, (size_t)desc->layers, sizeof *flags, &status);
    pruning->served = mt_arena_array(&pruning->arena, (size_t)desc->layers, sizeof *pruning->served, &status);
    pruning->unused =
        mt_arena_array(&pruning->arena, (size_t)figures->layers, sizeof *pruning->unused, &status);
    for (int i = 0; i < figures->layers && status == MT_OK; i++) {
        int64_t layer = figures->layer[i].number;
        flags[layer] = mt_arena_array(&pruning->arena, (size_t)desc->experts, sizeof **flags, &status);
        if (status == MT_OK)
            status = choose_layer(pruning, &figures->layer[i], keep, flags[layer], &pruning->unused[i]);
    }
    if (status == MT_OK)
        status =
            mt_kept_of_flags(pruning->ctx, desc, (const bool *const *)flags, &pruning->arena, &pruning->kept);
    pruning->data_tokens = figures->layers > 0 ? figures->layer[0].tokens : 0;
    return status;
}

/* Mean of the layers, and the least. */
static void sum_served(struct pruning *pruning)
{
    int layers = mt_model_moe_layers(&pruning->desc, NULL);
    pruning->kept.share = 0.0;
    pruning->least_served = 1.0;
    for (int64_t layer = 0; layer < pruning->desc.layers; layer++) {
        if (pruning->kept.expert[layer] == NULL) continue;
        pruning->kept.share += pruning->served[layer] / layers;
        pruning->least_served = fmin(pruning->least_served, pruning->served[layer]);
    }
}

/* The data through the model. */
static enum mt_status score_experts(struct pruning *pruning, int keep)
{
    const struct settings *settings = pruning->settings;
    struct mt_analysis_settings asked = {.model = settings->directory,
                                         .adapter = settings->adapter,
                                         .data = settings->data.item,
                                         .data_count = (size_t)settings->data.count,
                                         .template_name = settings->template_name,
                                         .threads = settings->threads,
                                         .tokens = settings->tokens,
                                         .length = settings->length,
                                         .only_scores = true,
                                         .scores = MT_SCORE_BIT(settings->score),
                                         .terminal = stderr};
    struct mt_analysis *run = NULL;
    struct mt_comm *comm = NULL;
    enum mt_status status = mt_analysis_open(pruning->ctx, &asked, &run);
    if (status == MT_OK) status = mt_comm_open_alone(pruning->ctx, &comm);
    if (status == MT_OK) status = cli_find_templates(&pruning->arena, asked.template_name, &asked.templates);
    if (status == MT_OK) status = open_device(pruning);
    if (status == MT_OK) status = mt_analysis_run(run, pruning->device, comm);
    if (status == MT_OK) status = choose(pruning, run, keep);
    if (status == MT_OK) sum_served(pruning);
    pruning->kept.score = mt_expert_score_kind(settings->score)->name;
    pruning->kept.data = settings->data.item;
    pruning->kept.data_count = (size_t)settings->data.count;
    pruning->kept.unused = pruning->unused;
    mt_analysis_close(run);
    mt_comm_close(comm);
    return status;
}

// ------------------------------------------------------------------ what is printed

/* "0-3 7 9-12" */
static void print_ranges(const int32_t *expert, int count, char text[RANGES_BYTES])
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < count && used < RANGES_BYTES - 32;) {
        int last = i;
        while (last + 1 < count && expert[last + 1] == expert[last] + 1) last++;
        used += (size_t)snprintf(text + used, RANGES_BYTES - used, last > i ? "%s%d-%d" : "%s%d",
                                 i > 0 ? " " : "", expert[i], expert[last]);
        i = last + 1;
        if (i < count && used >= RANGES_BYTES - 32) (void)snprintf(text + used, RANGES_BYTES - used, " ...");
    }
}

static enum mt_status print_kept(const struct pruning *pruning)
{
    static const struct cli_column columns[] = {
        {"layer", true}, {"slots served %", true}, {"experts kept", false}};
    static const struct cli_column short_columns[] = {{"layer", true}, {"experts kept", false}};
    bool served = pruning->served != NULL;
    struct cli_table table;
    cli_table_init(&table, pruning->ctx, served ? columns : short_columns, served ? 3 : 2);
    for (int64_t layer = 0; layer < pruning->desc.layers; layer++) {
        char ranges[RANGES_BYTES];
        if (pruning->kept.expert[layer] == NULL) continue;
        print_ranges(pruning->kept.expert[layer], pruning->kept.keep, ranges);
        if (served)
            cli_table_add(&table, "%" PRId64 "\t%.1f\t%s", layer, 100.0 * pruning->served[layer], ranges);
        else
            cli_table_add(&table, "%" PRId64 "\t%s", layer, ranges);
    }
    return cli_table_print(&table, stdout);
}

/* Of experts that stay: data that they never saw did not choose them. */
static enum mt_status print_unused(struct pruning *pruning)
{
    char ranges[RANGES_BYTES];
    enum mt_status status = MT_OK;
    uint64_t experts = 0;
    int count = 0;
    int at = 0;
    int32_t *layer = mt_arena_array(&pruning->arena, (size_t)pruning->desc.layers, sizeof *layer, &status);
    for (int32_t i = 0; i < pruning->desc.layers && status == MT_OK; i++) {
        if (pruning->kept.expert[i] == NULL) continue;
        if (pruning->unused[at] > 0) layer[count++] = i;
        experts += (uint64_t)pruning->unused[at++];
    }
    if (count == 0) return status;
    print_ranges(layer, count, ranges);
    printf("unused       %s served no token of the data, in layer%s %s\n",
           mt_counted(experts, "expert that stays", "experts that stay").text, count == 1 ? "" : "s", ranges);
    return MT_OK;
}

static enum mt_status print_result(struct pruning *pruning, const struct mt_merge_result *result)
{
    const struct settings *settings = pruning->settings;
    printf("%s: %d of %d experts in each of %s, %.1f %% of the weights' bytes\n", settings->out,
           pruning->kept.keep, pruning->desc.experts,
           mt_counted((uint64_t)mt_model_moe_layers(&pruning->desc, NULL), "layer", "layers").text,
           100.0 * (double)result->bytes / (double)result->bytes_before);
    if (pruning->served != NULL) {
        printf("they serve %.1f %% of the slots of %" PRId64
               " tokens of data, %.1f %% in the layer where it is least (the best by %s)\n",
               100.0 * pruning->kept.share, pruning->data_tokens, 100.0 * pruning->least_served,
               pruning->kept.score);
    }
    printf("\n");
    enum mt_status status = print_kept(pruning);
    printf("\nbytes        %" PRIu64 " before, %" PRIu64 " after: %s in %s, %s carried over\n",
           result->bytes_before, result->bytes, mt_counted(result->tensors, "tensor", "tensors").text,
           mt_counted(result->files, "file", "files").text,
           mt_counted(result->carried, "other", "others").text);
    if (status == MT_OK && pruning->unused != NULL) status = print_unused(pruning);
    if (result->further > 0)
        printf("left out     %s of layers that predict further tokens (num_nextn_predict_layers is now 0)\n",
               mt_counted(result->further, "tensor", "tensors").text);
    if (settings->adapter != NULL && result->format != NULL)
        printf("in floats    the model's weights were in %s codes; with an adapter merged they are floats\n",
               result->format);
    return status;
}

// ------------------------------------------------------------------ the model at work

/* Where the model is loaded anyway, is small, or somebody asks. */
static bool measures_speed(const struct settings *settings, const struct mt_merge_result *result)
{
    if (settings->speed >= 0) return settings->speed > 0;
    return settings->verify || settings->data.count > 0 || result->bytes_before < LIGHT_BYTES;
}

/* Digits that mean something. */
static const char *rate_text(double rate, char text[32])
{
    (void)snprintf(text, 32, rate < 100.0 ? "%.3g" : "%.0f", rate);
    return text;
}

static enum mt_status measure_speed(struct pruning *pruning, const struct mt_merge_result *result)
{
    const struct settings *settings = pruning->settings;
    int64_t tokens = settings->speed > 0 ? settings->speed : SPEED_TOKENS;
    double before = 0.0;
    double after = 0.0;
    char texts[2][32];
    if (!measures_speed(settings, result)) {
        if (settings->speed < 0)
            printf("tokens/s     not measured: that would load the whole model; --speed %d does\n",
                   SPEED_TOKENS);
        return MT_OK;
    }
    enum mt_status status = open_device(pruning);
    if (status == MT_OK)
        status = mt_adapted_speed(pruning->device, settings->directory, settings->adapter, tokens, &before);
    if (status == MT_OK) status = mt_adapted_speed(pruning->device, settings->out, NULL, tokens, &after);
    if (status == MT_OK)
        printf("tokens/s     %s before, %s after: a forward of %" PRId64 " tokens on %s, the best of three\n",
               rate_text(before, texts[0]), rate_text(after, texts[1]), tokens,
               mt_device_name(pruning->device));
    return status;
}

static enum mt_status verify(const struct pruning *pruning, const struct mt_merge_options *options,
                             const struct mt_merge_result *result)
{
    const struct settings *settings = pruning->settings;
    struct mt_merge_difference difference = {0};
    struct mt_device *device = NULL;
    enum mt_status status =
        cli_open_device(pruning->ctx, settings->device, MT_USE_EXACT, (int)settings->threads, &device);
    if (status == MT_OK) status = mt_merge_verify(device, options, result, &difference);
    if (status == MT_OK || status == MT_ERR_NUMERIC) {
        printf("%s     the largest difference of a logit from the masked model's, on %" PRId64
               " tokens, is %.2e of the\n"
               "             largest logit, and above %.0e in %s; root mean square %.2e\n"
               "             (tolerance %.0e: %s)\n",
               status == MT_OK ? "verified" : "differs ", difference.tokens, difference.peak_largest,
               difference.tolerance, mt_counted((uint64_t)difference.beyond, "token", "tokens").text,
               difference.rms, difference.tolerance, mt_merge_measure(&difference));
    }
    mt_device_destroy(device);
    return status;
}

// ------------------------------------------------------------------ the verb

static enum mt_status prune(struct pruning *pruning)
{
    const struct settings *settings = pruning->settings;
    int keep = 0;
    const struct mt_merge_options options = {.directory = settings->directory,
                                             .adapter = settings->adapter,
                                             .kept = &pruning->kept,
                                             .out = settings->out,
                                             .threads = (int)settings->threads,
                                             .progress = stderr};
    struct mt_merge_result result;
    enum mt_status status = open_model(pruning, &keep);
    if (status == MT_OK)
        status = settings->experts != NULL ? read_experts(pruning, keep) : score_experts(pruning, keep);
    if (status == MT_OK) status = mt_folder_make_above(pruning->ctx, settings->out);
    if (status == MT_OK) status = mt_merge(pruning->ctx, &options, &result);
    if (status == MT_OK) status = print_result(pruning, &result);
    if (status != MT_OK) return status;
    status = measure_speed(pruning, &result);
    if (status != MT_OK)
        return mt_fail_within(pruning->ctx, status, "%s was written, but its speed could not be measured",
                              settings->out);
    if (settings->verify) status = verify(pruning, &options, &result);
    return status == MT_OK ? MT_OK
                           : mt_fail_within(pruning->ctx, status, "%s was written, but could not be verified",
                                            settings->out);
}

static enum mt_status run_verb(struct cli_call *call)
{
    struct settings settings = {.device = MT_DEVICE_AUTO,
                                .score_name = "reap",
                                .tokens = 20000,
                                .length = 512,
                                .template_name = "model",
                                .speed = -1};
    const struct cli_option options[] = {
        {"--keep", CLI_TEXT, &settings.keep, "K", "experts to keep in each layer, 16 or 50%"},
        {"--data", CLI_LIST, &settings.data, "FILE",
         "rows as training reads them, or text: the best experts on these stay; may be given several times"},
        {"--score", CLI_TEXT, &settings.score_name, "NAME", "of --data: use, mean, reap or easy-ep (reap)"},
        {"--experts", CLI_TEXT, &settings.experts, "FILE",
         "the experts that stay, as metier analyze --select-experts best writes them"},
        {"--adapter", CLI_TEXT, &settings.adapter, "DIR", "a PEFT adapter to merge before experts go"},
        {"--out", CLI_TEXT, &settings.out, "DIR", "where to write; must not exist, or be empty"},
        {"--verify", CLI_FLAG, &settings.verify, NULL,
         "compare the result's logits with those of the whole model with the other experts masked"},
        {"--tokens", CLI_INTEGER, &settings.tokens, "N",
         "tokens of each domain of --data; the last sequence is kept whole (20000)"},
        {"--length", CLI_INTEGER, &settings.length, "N", "maximum tokens of a sequence (512)"},
        {"--template", CLI_TEXT, &settings.template_name, "NAME",
         "chat template: a name of share/templates or a file (model: the model's own)"},
        {"--speed", CLI_INTEGER, &settings.speed, "N",
         "tokens of the forward to time before and after; 0: none (256 if the model is loaded anyway or "
         "small)"},
        {"--device", CLI_TEXT, &settings.device, "NAME",
         "of --data, --verify and the speed: device to compute on, see metier devices (auto)"},
        {"--threads", CLI_THREADS, &settings.threads, "N", "0: as many as the machine has"},
        {0},
    };
    enum mt_status status = cli_parse(call, options);
    if (status != MT_OK || call->help_shown) return status;
    status = check(&settings, call);
    if (status != MT_OK) return status;
    settings.directory = call->positional[0];
    struct pruning pruning = {.ctx = call->ctx, .settings = &settings, .kept = {.share = NAN}};
    mt_arena_init(&pruning.arena, call->ctx, ARENA_BLOCK_BYTES);
    status = prune(&pruning);
    mt_device_destroy(pruning.device);
    mt_hf_config_free(&pruning.config);
    mt_arena_free(&pruning.arena);
    return status;
}

const struct cli_verb cli_verb_prune = {
    .name = "prune",
    .summary = "make a smaller model folder by removing the experts that data needs least",
    .arguments = "DIR",
    .wanted = "a model folder",
    .details =
        "DIR is a Hugging Face model folder, and so is the result, with K experts in every layer. Experts, "
        "the\n"
        "routers' rows, selection biases and config.json shrink; nothing else changes. No value that stays "
        "is\n"
        "rounded again: weights in codes (fp8, nf4, mxfp4) keep their codes and scales. With --adapter the\n"
        "adapter is merged first, as by metier merge; a quantised model then becomes floats. Experts keep\n"
        "their order, and experts.json in the folder has their old numbers.\n"
        "A share is rounded to the nearest number. If a token first chooses among groups of experts "
        "(n_group,\n"
        "topk_group), every group keeps the same number, its own best, so K must be a multiple of n_group.\n"
        "Groups that limit nothing become one. Layers that predict further tokens "
        "(num_nextn_predict_layers)\n"
        "are left out. Tensors are streamed, so metier needs memory for a piece of one tensor only, and for\n"
        "the model if --data, --verify or --speed run it. The folder appears whole or not at all. With\n"
        "--verify the exit status is 1 if the logits are too far apart.",
    .examples =
        "  metier prune models/moe --keep 50% --data math.jsonl --out models/moe-half --verify\n"
        "  metier prune models/moe --keep 16 --data math.jsonl --data code.jsonl --score easy-ep \\\n"
        "      --out models/moe-16\n"
        "  metier prune models/moe --experts half.json --adapter runs/first/adapter --out models/half\n"
        "  metier train run.yaml out=runs/recovered model=models/moe-half     # wins much of it back",
    .run = run_verb,
};
