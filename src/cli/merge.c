/* metier merge: an adapter merged into its model, as a complete model folder. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/amount.h"
#include "base/files/folder.h"
#include "cli/cli.h"
#include "cli/shared/device.h"
#include "cli/shared/table.h"
#include "model/adapters/router_bias.h"
#include "model/files/merge.h"
#include "model/files/merge_check.h"

struct settings {
    const char *adapter;
    const char *out;
    const char *check; // a folder somebody merged; NULL: merge
    const char *dtype;
    const char *device; // of --verify
    int64_t threads;
    bool verify;
    bool requantise;
};

static enum mt_status read_dtype(struct mt_context *ctx, const char *word, enum mt_hf_float *dtype)
{
    *dtype = MT_HF_FLOAT_UNKNOWN;
    if (word == NULL) return MT_OK;
    if (strcmp(word, "f32") == 0) *dtype = MT_HF_FLOAT32;
    if (strcmp(word, "bf16") == 0) *dtype = MT_HF_BFLOAT16;
    if (*dtype != MT_HF_FLOAT_UNKNOWN) return MT_OK;
    return mt_fail(ctx, MT_ERR_USAGE, "--dtype is '%s', expected f32 or bf16", word);
}

static enum mt_status check(const struct settings *settings, const struct cli_call *call)
{
    const struct cli_void checked = {settings->check != NULL, "--out --dtype --requantise --verify --threads",
                                     "with --check"};
    enum mt_status status = cli_refuse_void(call, &checked, 1);
    if (status != MT_OK || settings->check != NULL) return status;
    if (settings->adapter == NULL) return mt_fail(call->ctx, MT_ERR_USAGE, "--adapter DIR is missing");
    if (settings->out == NULL) return mt_fail(call->ctx, MT_ERR_USAGE, "--out DIR is missing");
    const struct cli_void rules[] = {{!settings->verify, "--device", "without --verify"},
                                     {settings->requantise, "--dtype", "with --requantise"}};
    return cli_refuse_void(call, rules, 2);
}

static void print_row(const char *name, const struct mt_merge_difference *difference)
{
    printf("  %-16s %10.2e %10.2e %10.2e %10.2e %9.1f %%\n", name, difference->largest, difference->rms,
           difference->median, difference->divergence, 100.0 * difference->same_top);
}

/* Merged into floats and into codes, both against the adapter on top. */
static enum mt_status verify_requantised(struct mt_device *device, const struct mt_merge_options *options,
                                         const struct mt_merge_result *result)
{
    struct mt_merge_difference floats;
    struct mt_merge_difference codes;
    char name[32];
    enum mt_status status = mt_merge_verify_requantised(device, options, &floats, &codes);
    if (status != MT_OK && status != MT_ERR_NUMERIC) return status;
    printf("logits of %s against the adapter on top of %s, relative to their root mean square;\n"
           "KL in nats; same: tokens with the same most likely next token\n",
           mt_counted((uint64_t)floats.tokens, "token", "tokens").text, options->directory);
    printf("  %-16s %10s %10s %10s %10s %11s\n", "", "largest", "rms", "median", "KL", "same");
    print_row("merged, floats", &floats);
    (void)snprintf(name, sizeof name, "merged, %s", result->format);
    print_row(name, &codes);
    return status;
}

/* What the weights lose where they are written in codes again, by kind. */
static void print_loss(const struct mt_merge_result *result)
{
    printf("%s in %s; of those with a pair, relative to the weights' root mean square:\n",
           mt_counted(result->codes, "matrix", "matrices").text, result->format);
    printf("  %-16s %10s %14s %10s\n", "", "matrices", "adapter adds", "lost");
    for (int part = 0; part < MT_MODEL_PART_COUNT; part++) {
        const struct mt_merge_loss *loss = &result->loss[part];
        if (loss->matrices == 0) continue;
        printf("  %-16s %10zu %14.2e %10.2e\n", mt_model_part_name((enum mt_model_part)part), loss->matrices,
               loss->change, loss->error);
    }
}

static enum mt_status verify(struct mt_context *ctx, const struct settings *settings,
                             const struct mt_merge_options *options, const struct mt_merge_result *result)
{
    struct mt_device *device = NULL;
    struct mt_merge_difference difference = {0};
    enum mt_status status = cli_open_device(ctx, settings->device, MT_USE_EXACT, options->threads, &device);
    if (status == MT_OK && options->requantise) {
        status = verify_requantised(device, options, result);
        mt_device_destroy(device);
        return status;
    }
    if (status == MT_OK) status = mt_merge_verify(device, options, result, &difference);
    if (status == MT_OK || status == MT_ERR_NUMERIC) {
        printf("logits of %s, relative to their root mean square: largest difference %.2e, "
               "root mean square %.2e, median of tokens %.2e (tolerance %.0e for the %s)\n",
               mt_counted((uint64_t)difference.tokens, "token", "tokens").text, difference.largest,
               difference.rms, difference.median, difference.tolerance,
               difference.by_median ? "median" : "root mean square");
    }
    if ((status == MT_OK || status == MT_ERR_NUMERIC) && result->biases_beside) {
        printf("that is with " MT_ROUTER_BIAS_OF_MODEL "; without it, as other programs read the folder, the "
               "root mean square is %.2e\n",
               difference.without_biases);
    }
    mt_device_destroy(device);
    return status;
}

/* A checkpoint of this architecture has no tensors for the biases: nobody else will use them. */
static void warn_of_biases(const char *out)
{
    (void)fflush(stdout);
    (void)fprintf(stderr,
                  "metier merge: warning: the adapter's routers choose experts by score plus bias, and a "
                  "checkpoint of this architecture has no place for biases. They are in %s/%s, which metier "
                  "reads; in transformers, PEFT and vLLM the merged model routes without them\n",
                  out, MT_ROUTER_BIAS_OF_MODEL);
}

/* What is left over may be what rounding costs, twice; *sound: nowhere more. */
static enum mt_status check_merged(struct mt_context *ctx, const struct settings *settings, const char *base,
                                   bool *sound)
{
    static const struct cli_column columns[] = {
        {"part", false},  {"tensors", true},      {"changed", true},   {"missing", true},
        {"change", true}, {"adapter adds", true}, {"left over", true}, {"", false}};
    struct mt_merge_check check;
    struct cli_table table;
    enum mt_status status = mt_merge_check(ctx, base, settings->check, settings->adapter, &check);
    if (status != MT_OK) return status;
    *sound = true;
    cli_table_init(&table, ctx, columns, 8);
    for (int p = 0; p < MT_MODEL_PART_COUNT; p++) {
        const struct mt_merge_checked *part = &check.part[p];
        if (part->tensors == 0) continue;
        bool right = part->missing == 0 && part->off <= 2.0 * check.rounding;
        if (settings->adapter == NULL) right = part->missing == 0;
        *sound = *sound && right;
        cli_table_add(&table, "%s\t%zu\t%zu\t%zu\t%.2e\t%.2e\t%.2e\t%s",
                      mt_model_part_name((enum mt_model_part)p), part->tensors, part->changed, part->missing,
                      part->change, part->expected, part->off, right ? "" : "differs");
    }
    if (settings->adapter != NULL)
        printf("%s: %s\n\n", settings->check,
               *sound ? "merged as the adapter says" : "not what the adapter says");
    else
        printf("%s: against %s\n\n", settings->check, base);
    return cli_table_print(&table, stdout);
}

static enum mt_status run(struct mt_context *ctx, const struct settings *settings, const char *directory)
{
    struct mt_merge_options options = {.directory = directory,
                                       .adapter = settings->adapter,
                                       .out = settings->out,
                                       .requantise = settings->requantise,
                                       .threads = (int)settings->threads,
                                       .progress = stderr};
    struct mt_merge_result result;
    enum mt_status status = read_dtype(ctx, settings->dtype, &options.dtype);
    if (status == MT_OK) status = mt_folder_make_above(ctx, settings->out);
    if (status == MT_OK) status = mt_merge(ctx, &options, &result);
    if (status != MT_OK) return status;
    printf("%s: %zu of %s merged, %" PRIu64 " bytes, %s with weights, %s carried over\n", settings->out,
           result.merged, mt_counted(result.tensors, "tensor", "tensors").text, result.bytes,
           mt_counted(result.files, "file", "files").text,
           mt_counted(result.carried, "other", "others").text);
    if (result.biases > 0)
        printf("correction biases of %s written back\n", mt_counted(result.biases, "layer", "layers").text);
    if (result.left_out > 0) {
        printf("%s no part of the model itself left out: in the format of the base, which the result is not "
               "in\n",
               mt_counted(result.left_out, "tensor that is", "tensors that are").text);
    }
    if (settings->requantise) print_loss(&result);
    if (result.biases_beside) warn_of_biases(settings->out);
    if (settings->verify) status = verify(ctx, settings, &options, &result);
    return status;
}

static enum mt_status run_verb(struct cli_call *call)
{
    struct settings settings = {.device = MT_DEVICE_AUTO};
    const struct cli_option options[] = {
        {"--adapter", CLI_TEXT, &settings.adapter, "DIR", "the PEFT adapter, in either layout"},
        {"--out", CLI_TEXT, &settings.out, "DIR", "where to write; must not exist, or be empty"},
        {"--check", CLI_TEXT, &settings.check, "MERGED",
         "do not merge: which weights of MERGED differ from DIR, and whether as --adapter says"},
        {"--dtype", CLI_TEXT, &settings.dtype, "TYPE", "of the weights: f32 or bf16 (as they are stored)"},
        {"--requantise", CLI_FLAG, &settings.requantise, NULL,
         "write a quantised model in its format again, and say what that costs (floats)"},
        {"--verify", CLI_FLAG, &settings.verify, NULL,
         "then compare the logits of merged and unmerged model on 256 random ids"},
        {"--device", CLI_TEXT, &settings.device, "NAME",
         "of --verify: device to compute on, see metier devices (auto: cuda with a GPU, else cpu)"},
        {"--threads", CLI_THREADS, &settings.threads, "N", "0: as many as the machine has"},
        {0},
    };
    enum mt_status status = cli_parse(call, options);
    if (status != MT_OK || call->help_shown) return status;
    status = check(&settings, call);
    if (status == MT_OK && settings.check != NULL) {
        bool sound = false;
        status = check_merged(call->ctx, &settings, call->positional[0], &sound);
        call->exit_status = sound ? 0 : 1;
        return status;
    }
    return status == MT_OK ? run(call->ctx, &settings, call->positional[0]) : status;
}

const struct cli_verb cli_verb_merge = {
    .name = "merge",
    .summary = "merge an adapter into its model: a complete model folder",
    .arguments = "DIR",
    .wanted = "a model folder",
    .details =
        "DIR is a Hugging Face model folder. Weights become W + alpha/r B A, rounded once. Config, "
        "tokenizer\n"
        "and all other small files are copied. If the adapter has correction biases, they go to the\n"
        "checkpoint's tensor, or to a file of their own (router_bias.metier) if the architecture has no "
        "such\n"
        "tensor; other programs then route without them. Tensors are streamed, so metier needs memory for a\n"
        "piece of one tensor only. The folder appears whole or not at all. With --verify the exit status is\n"
        "1 if the logits differ by more than 1e-4 (f32: root mean square) or 2e-2 (16 bits: median of\n"
        "tokens), relative. A quantised model is merged into floats: the values of its codes, plus the "
        "pairs.\n"
        "--requantise writes it in the same format again: weights without a pair keep their codes, the "
        "others\n"
        "are rounded to new ones. It prints what that costs for each kind of weight. With --verify a table\n"
        "compares the logits of three models: the adapter on top, the merge into floats (written next to "
        "OUT\n"
        "for this purpose and then removed), and the requantised one.\n"
        "--check compares a folder that anybody merged with DIR, by kinds of weights: the relative change,\n"
        "what the adapter adds, and what is left over. The exit status is 1 if more is left over than twice\n"
        "the rounding of the weights' type, or if weights are missing.",
    .examples =
        "  metier merge models/moe --adapter runs/first/adapter --out models/merged --verify\n"
        "  metier merge models/moe --adapter runs/first/adapter --check models/merged\n"
        "  metier merge models/moe --adapter runs/first/adapter --out models/merged-bf16 --dtype bf16\n"
        "  metier merge models/moe-fp8 --adapter runs/first/adapter --out models/merged-fp8 --requantise",
    .run = run_verb,
};
