/* metier init: a model folder with random weights, or with experts that start alike. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/amount.h"
#include "cli/cli.h"
#include "model/files/init.h"
#include "model/files/upcycle.h"

struct settings {
    const char *config;
    const char *upcycle; // the model whose experts become alike; NULL: random weights
    int64_t expert;
    double noise;
    const char *out;
    const char *dtype;
    const char *quantise;
    int64_t seed;
    double deviation;
    int64_t threads;
};

static enum mt_status read_dtype(struct mt_context *ctx, const char *word, enum mt_hf_float *dtype)
{
    static const struct {
        const char *word;
        enum mt_hf_float dtype;
    } words[] = {{"f32", MT_HF_FLOAT32}, {"bf16", MT_HF_BFLOAT16}, {"f16", MT_HF_FLOAT16}};
    *dtype = MT_HF_FLOAT_UNKNOWN;
    if (word == NULL) return MT_OK;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(word, words[i].word) == 0) {
            *dtype = words[i].dtype;
            return MT_OK;
        }
    }
    return mt_fail(ctx, MT_ERR_USAGE, "--dtype is '%s', expected f32, bf16 or f16", word);
}

static enum mt_status check(const struct cli_call *call, const struct settings *settings)
{
    struct mt_context *ctx = call->ctx;
    const struct cli_void rules[] = {{settings->upcycle != NULL, "--config --dtype --std --threads",
                                      "with --upcycle: weights are the model's"},
                                     {settings->upcycle == NULL, "--expert --noise", "without --upcycle"}};
    enum mt_status status = cli_refuse_void(call, rules, sizeof rules / sizeof rules[0]);
    if (status != MT_OK) return status;
    if (!(settings->noise >= 0.0 && settings->noise <= 1.0))
        return mt_fail(ctx, MT_ERR_USAGE, "--noise is %g, expected 0 to 1", settings->noise);
    if (settings->config == NULL && settings->upcycle == NULL)
        return mt_fail(ctx, MT_ERR_USAGE, "--config FILE is missing");
    if (settings->out == NULL) return mt_fail(ctx, MT_ERR_USAGE, "--out DIR is missing");
    if (isnan(settings->deviation) || settings->deviation <= 1e3) return MT_OK;
    return mt_fail(ctx, MT_ERR_USAGE, "--std is %g, expected 0 to 1000", settings->deviation);
}

static enum mt_status run_upcycle(struct mt_context *ctx, const struct settings *settings)
{
    const struct mt_upcycle_options options = {.directory = settings->upcycle,
                                               .out = settings->out,
                                               .expert = settings->expert,
                                               .noise = settings->noise,
                                               .seed = (uint64_t)settings->seed,
                                               .progress = stderr};
    struct mt_upcycle_result result;
    enum mt_status status = mt_model_upcycle(ctx, &options, &result);
    if (status != MT_OK) return status;
    printf("%s: %zu tensors of experts are those of expert %" PRId64 "; %" PRIu64 " bytes, %s\n",
           settings->out, result.tensors, settings->expert, result.bytes,
           mt_counted(result.files, "file", "files").text);
    return MT_OK;
}

static enum mt_status run(struct mt_context *ctx, const struct settings *settings)
{
    struct mt_model_init_options options = {
        .config = settings->config,
        .directory = settings->out,
        .seed = (uint64_t)settings->seed,
        .deviation = isnan(settings->deviation) ? -1.0 : settings->deviation,
        .threads = (int)settings->threads,
        .progress = stderr,
    };
    struct mt_model_init_result result;
    enum mt_status status = read_dtype(ctx, settings->dtype, &options.dtype);
    if (status == MT_OK && settings->quantise != NULL)
        status = mt_quantise_parse(ctx, settings->quantise, &options.quantise);
    if (status == MT_OK) status = mt_quantise_refuse_cache(ctx, &options.quantise);
    if (status == MT_OK) status = mt_model_init(ctx, &options, &result);
    if (status != MT_OK) return status;
    printf("%s: %" PRId64 " parameters, %" PRIu64 " bytes, %s\n", settings->out, result.parameters,
           result.bytes, mt_counted(result.files, "file", "files").text);
    return MT_OK;
}

static enum mt_status run_verb(struct cli_call *call)
{
    struct settings settings = {.deviation = NAN}; // not given: the config's own
    const struct cli_option options[] = {
        {"--config", CLI_TEXT, &settings.config, "FILE", "config.json of one of the known architectures"},
        {"--upcycle", CLI_TEXT, &settings.upcycle, "DIR",
         "instead of --config: a model whose experts become copies of one of them, layer by layer"},
        {"--expert", CLI_INTEGER, &settings.expert, "N", "the expert to copy (0)"},
        {"--noise", CLI_REAL, &settings.noise, "X",
         "noise added to the copies: standard deviation over the root mean square of a row (0)"},
        {"--out", CLI_TEXT, &settings.out, "DIR", "where to write; created if it does not exist"},
        {"--seed", CLI_INTEGER, &settings.seed, "N", "seed of the random numbers (0)"},
        {"--dtype", CLI_TEXT, &settings.dtype, "TYPE", "f32, bf16 or f16 (the config's, else f32)"},
        {"--quantize", CLI_TEXT, &settings.quantise, "HOW",
         "write codes, as in published folders: fp8, nf4 or mxfp4, then parts, with commas"},
        {"--std", CLI_REAL, &settings.deviation, "X",
         "standard deviation (the config's initializer_range, else 0.02)"},
        {"--threads", CLI_THREADS, &settings.threads, "N", "0: as many as the machine has"},
        {0},
    };
    enum mt_status status = cli_parse(call, options);
    if (status != MT_OK || call->help_shown) return status;
    status = check(call, &settings);
    if (status != MT_OK) return status;
    return settings.upcycle != NULL ? run_upcycle(call->ctx, &settings) : run(call->ctx, &settings);
}

const struct cli_verb cli_verb_init = {
    .name = "init",
    .summary = "make a model folder with random weights from a config.json",
    .arguments = "",
    .details =
        "Writes a copy of the config, and weights under the architecture's names on disk: normal with mean "
        "0,\n"
        "norms 1, biases 0. The same config, seed, type and deviation give the same bytes. With --quantize\n"
        "the folder has the codes that its floats would be quantised to. metier refuses a folder that "
        "already\n"
        "has weights.\n"
        "--upcycle copies a model, except for its routed experts: in each layer they become copies of one\n"
        "expert, as if a dense model had been upcycled. Routers stay the same.",
    .examples = "  metier init --config config.json --seed 1 --out models/small\n"
                "  metier init --config config.json --seed 1 --dtype bf16 --std 0.006 --out models/narrow\n"
                "  metier init --upcycle models/moe --noise 0.01 --seed 1 --out models/alike",
    .run = run_verb,
};
