/* Merged and unmerged on the same ids. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compare.h"
#include "base/files/folder.h"
#include "base/rng.h"
#include "model/files/adapted.h"
#include "model/files/merge.h"
#include "model/model.h"
#include "model/prune.h"

#define SEQUENCES         2
#define LENGTH            128
#define TOKENS            (SEQUENCES * LENGTH)
#define SEED              20250
#define PATH_BYTES        4096
#define ARENA_BLOCK_BYTES 4096
#define EXACT_LIMIT       1e-6 // of the same weights
#define WIDE_LIMIT        1e-4
#define NARROW_LIMIT      2e-2
#define FLIPPED_TOKENS    (TOKENS / 100) // may choose another expert of two that are equally good

/* A folder as it is run. */
struct folder {
    const char *directory;
    const char *adapter;        // NULL: none
    const struct mt_kept *kept; // the other experts are taken away; NULL: none are
    bool without_biases;
};

/* Logits [TOKENS, vocabulary] of a folder. The caller releases. */
struct run {
    void *logits;
    size_t bytes;
    int64_t vocabulary;
};

static enum mt_status forward(struct mt_context *ctx, struct mt_model *model, struct run *run)
{
    int32_t ids[TOKENS];
    static const int32_t offsets[SEQUENCES + 1] = {0, LENGTH, TOKENS};
    run->vocabulary = mt_model_description(model)->vocabulary;
    for (int i = 0; i < TOKENS; i++) {
        ids[i] = (int32_t)mt_rng_below(SEED, 0, (uint64_t)i, (uint64_t)run->vocabulary);
    }
    struct mt_batch batch = {
        .tokens = TOKENS, .sequences = SEQUENCES, .ids = ids, .offsets = offsets, .loss_only = true};
    struct mt_model_loss loss;
    size_t bytes = (size_t)(TOKENS * run->vocabulary) * sizeof(float);
    struct mt_device *device = mt_model_device(model);
    struct mt_buffer there = {0};
    enum mt_status status = mt_allocate(ctx, bytes, &run->logits);
    if (status != MT_OK) return status;
    run->bytes = bytes;
    status = mt_device_buffer_create(device, bytes, &there);
    if (status != MT_OK) return status;
    struct mt_tensor logits = mt_tensor_2d(there.data, MT_F32, TOKENS, run->vocabulary);
    status = mt_model_forward(model, &batch, &loss);
    if (status == MT_OK) status = mt_model_logits(model, &logits);
    if (status == MT_OK) status = mt_device_download(device, run->logits, there.data, bytes);
    mt_buffer_release(&there);
    return status;
}

/* The same with some experts masked. */
static enum mt_status forward_masked(struct mt_context *ctx, struct mt_model *model,
                                     const struct mt_kept *kept, struct run *run)
{
    struct mt_arena arena;
    struct mt_pruning pruning = {0};
    const bool *const *others = NULL;
    mt_arena_init(&arena, ctx, ARENA_BLOCK_BYTES);
    enum mt_status status = mt_kept_others(kept, mt_model_description(model), &arena, &others);
    if (status == MT_OK) status = mt_pruning_begin(model, others, &pruning);
    if (status == MT_OK) status = forward(ctx, model, run);
    enum mt_status ended = mt_pruning_end(&pruning);
    mt_arena_free(&arena);
    return status == MT_OK ? ended : status;
}

static enum mt_status run_folder(struct mt_device *device, const struct folder *folder, struct run *run)
{
    struct mt_context *ctx = mt_device_context(device);
    struct mt_model_options options = {.tokens = TOKENS,
                                       .sequences = SEQUENCES,
                                       .positions = LENGTH,
                                       .without_biases = folder->without_biases};
    struct mt_model *model = NULL;
    enum mt_status status = mt_adapted_open(device, folder->directory, folder->adapter, &options, &model);
    if (status == MT_OK) {
        status =
            folder->kept != NULL ? forward_masked(ctx, model, folder->kept, run) : forward(ctx, model, run);
    }
    mt_model_close(model);
    return status;
}

/* log of the sum of exponentials, and where the largest is. */
static double log_sum(const float *logits, int64_t count, int64_t *largest)
{
    double others = 0.0;
    *largest = 0;
    for (int64_t i = 1; i < count; i++) *largest = logits[i] > logits[*largest] ? i : *largest;
    for (int64_t i = 0; i < count; i++) {
        if (i != *largest) others += exp((double)logits[i] - (double)logits[*largest]);
    }
    return (double)logits[*largest] + log1p(others);
}

/* The tokens as probabilities: KL(want || got), and whether the most likely ones are the same. */
static void compare_choices(const struct run *want, const struct run *got,
                            struct mt_merge_difference *difference)
{
    int64_t count = want->vocabulary;
    double divergence = 0.0;
    int64_t same = 0;
    for (int64_t t = 0; t < TOKENS; t++) {
        const float *a = (const float *)want->logits + t * count;
        const float *b = (const float *)got->logits + t * count;
        int64_t top_a = 0;
        int64_t top_b = 0;
        double sum_a = log_sum(a, count, &top_a);
        double sum_b = log_sum(b, count, &top_b);
        for (int64_t i = 0; i < count; i++) {
            double log_a = (double)a[i] - sum_a;
            divergence += exp(log_a) * (log_a - ((double)b[i] - sum_b));
        }
        same += top_a == top_b ? 1 : 0;
    }
    difference->divergence = divergence / TOKENS;
    difference->same_top = (double)same / TOKENS;
}

static void compare(const struct run *want, const struct run *got, struct mt_merge_difference *difference)
{
    double tokens[TOKENS]; // each one's squared distance
    double squares = 0.0;
    double apart = 0.0;
    double largest = 0.0;
    compare_choices(want, got, difference);
    for (int64_t t = 0; t < TOKENS; t++) {
        const float *a = (const float *)want->logits + t * want->vocabulary;
        const float *b = (const float *)got->logits + t * want->vocabulary;
        tokens[t] = 0.0;
        for (int64_t i = 0; i < want->vocabulary; i++) {
            double distance = fabs((double)a[i] - (double)b[i]);
            squares += (double)a[i] * (double)a[i];
            tokens[t] += distance * distance;
            largest = distance > largest || isnan(distance) ? distance : largest;
        }
        apart += tokens[t];
    }
    if (apart == 0.0) return;
    double count = (double)want->vocabulary;
    double size = sqrt(squares / (count * TOKENS));
    difference->largest = largest / size;
    difference->rms = sqrt(apart / (count * TOKENS)) / size;
    difference->median = difference->rms; // not a number where any logit is none
    if (isnan(apart)) return;
    qsort(tokens, TOKENS, sizeof *tokens, mt_by_number);
    difference->median = sqrt(tokens[TOKENS / 2] / count) / size;
}

/* The largest distance of a logit as a share of the largest logit: over all tokens, and without those that
 * may choose another expert. */
static void compare_peaks(const struct run *want, const struct run *got,
                          struct mt_merge_difference *difference)
{
    double tokens[TOKENS];
    double peak = 0.0;
    for (int64_t t = 0; t < TOKENS; t++) {
        const float *a = (const float *)want->logits + t * want->vocabulary;
        const float *b = (const float *)got->logits + t * want->vocabulary;
        tokens[t] = 0.0;
        for (int64_t i = 0; i < want->vocabulary; i++) {
            double distance = fabs((double)a[i] - (double)b[i]);
            tokens[t] = distance > tokens[t] || isnan(distance) ? distance : tokens[t];
            peak = fmax(peak, fabs((double)a[i]));
        }
    }
    for (int64_t t = 0; t < TOKENS; t++) {
        tokens[t] /= peak > 0.0 ? peak : 1.0;
        if (!(tokens[t] <= difference->tolerance)) difference->beyond++;
    }
    difference->peak_largest = difference->rms; // not a number where any logit is none
    difference->peak_most = difference->rms;
    if (isnan(difference->rms)) return;
    qsort(tokens, TOKENS, sizeof *tokens, mt_by_number);
    difference->peak_largest = tokens[TOKENS - 1];
    difference->peak_most = tokens[TOKENS - 1 - FLIPPED_TOKENS];
}

/* How far the merged model is from the other when its file of biases is left alone. */
static enum mt_status run_without_biases(struct mt_device *device, const char *directory,
                                         const struct run *unmerged, double *rms)
{
    struct run run = {0};
    struct mt_merge_difference difference = {0};
    enum mt_status status =
        run_folder(device, &(struct folder){.directory = directory, .without_biases = true}, &run);
    if (status == MT_OK) compare(unmerged, &run, &difference);
    *rms = difference.rms;
    mt_release(mt_device_context(device), run.logits, run.bytes);
    return status;
}

static bool rounds(const struct mt_device *device, bool narrow)
{
    return narrow || mt_device_activations(device) == MT_BF16;
}

const char *mt_merge_measure(const struct mt_merge_difference *difference)
{
    return difference->by_median ? "median of tokens"
           : difference->by_peak ? "largest logit in 99 % of tokens"
                                 : "root mean square";
}

static struct mt_merge_difference nothing_yet(bool by_median)
{
    return (struct mt_merge_difference){
        .tolerance = by_median ? NARROW_LIMIT : WIDE_LIMIT, .by_median = by_median, .tokens = TOKENS};
}

/* Compares, and fails above the tolerance. */
static enum mt_status judge(struct mt_context *ctx, const char *directory, const struct run *unmerged,
                            const struct run *merged, struct mt_merge_difference *difference)
{
    compare(unmerged, merged, difference);
    compare_peaks(unmerged, merged, difference);
    double judged = difference->by_median ? difference->median
                    : difference->by_peak ? difference->peak_most
                                          : difference->rms;
    if (judged <= difference->tolerance) return MT_OK;
    return mt_fail(ctx, MT_ERR_NUMERIC,
                   "%s: its logits are %.2e (%s, relative) from those of the model it was made of, more than "
                   "%.0e",
                   directory, judged, mt_merge_measure(difference), difference->tolerance);
}

enum mt_status mt_merge_verify(struct mt_device *device, const struct mt_merge_options *options,
                               const struct mt_merge_result *result, struct mt_merge_difference *difference)
{
    struct mt_context *ctx = mt_device_context(device);
    struct run unmerged = {0};
    struct run merged = {0};
    const struct folder before = {
        .directory = options->directory, .adapter = options->adapter, .kept = options->kept};
    *difference = nothing_yet(rounds(device, result->narrow));
    if (options->adapter == NULL && !difference->by_median) {
        difference->by_peak = true;
        difference->tolerance = EXACT_LIMIT;
    }
    enum mt_status status = run_folder(device, &before, &unmerged);
    if (status == MT_OK) status = run_folder(device, &(struct folder){.directory = options->out}, &merged);
    if (status == MT_OK && result->biases_beside)
        status = run_without_biases(device, options->out, &unmerged, &difference->without_biases);
    if (status == MT_OK) status = judge(ctx, options->out, &unmerged, &merged, difference);
    mt_release(ctx, unmerged.logits, unmerged.bytes);
    mt_release(ctx, merged.logits, merged.bytes);
    return status;
}

/* Merges into floats at `path`, runs that, and removes it. */
static enum mt_status run_in_floats(struct mt_device *device, const struct mt_merge_options *options,
                                    const char *path, bool *narrow, struct run *run)
{
    struct mt_context *ctx = mt_device_context(device);
    struct mt_merge_options floats = *options;
    struct mt_merge_result result = {0};
    floats.out = path;
    floats.requantise = false;
    enum mt_status status = mt_merge(ctx, &floats, &result);
    if (status != MT_OK) return status;
    *narrow = result.narrow;
    status = run_folder(device, &(struct folder){.directory = path}, run);
    enum mt_status removed = mt_folder_remove(ctx, path);
    return status == MT_OK ? removed : status;
}

enum mt_status mt_merge_verify_requantised(struct mt_device *device, const struct mt_merge_options *options,
                                           struct mt_merge_difference *floats,
                                           struct mt_merge_difference *codes)
{
    struct mt_context *ctx = mt_device_context(device);
    struct run unmerged = {0};
    struct run merged = {0};
    struct run again = {0};
    bool narrow = false;
    char path[PATH_BYTES];
    int length = snprintf(path, sizeof path, "%s" MT_FOLDER_TEMPORARY "floats", options->out);
    if (length < 0 || (size_t)length >= sizeof path)
        return mt_fail(ctx, MT_ERR_USAGE, "%s: the path is too long", options->out);
    const struct folder before = {.directory = options->directory, .adapter = options->adapter};
    enum mt_status status = run_folder(device, &before, &unmerged);
    if (status == MT_OK) status = run_in_floats(device, options, path, &narrow, &merged);
    if (status == MT_OK) status = run_folder(device, &(struct folder){.directory = options->out}, &again);
    *floats = nothing_yet(rounds(device, narrow));
    *codes = *floats;
    if (status == MT_OK) {
        compare(&unmerged, &again, codes);
        status = judge(ctx, path, &unmerged, &merged, floats);
    }
    if (status == MT_OK && isnan(codes->rms))
        status = mt_fail(ctx, MT_ERR_NUMERIC, "%s: a logit is not a number", options->out);
    mt_release(ctx, unmerged.logits, unmerged.bytes);
    mt_release(ctx, merged.logits, merged.bytes);
    mt_release(ctx, again.logits, again.bytes);
    return status;
}
