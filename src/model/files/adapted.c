/* Opening a model with its adapter, and timing a forward. */
#include "model/files/adapted.h"

#include <math.h>

#include "base/clock.h"
#include "base/rng.h"
#include "model/adapters/adapter.h"

#define LENGTH 128 // tokens of a sequence
#define SEED   20251
#define TIMED  3 // forwards, after one that warms up

enum mt_status mt_adapted_open(struct mt_device *device, const char *directory, const char *adapter,
                               const struct mt_model_options *options, struct mt_model **model)
{
    struct mt_context *ctx = mt_device_context(device);
    struct mt_model_options opened = *options;
    struct mt_adapter pairs = {0};
    enum mt_status status = MT_OK;
    *model = NULL;
    if (adapter != NULL) {
        status = mt_adapter_open_for(ctx, adapter, directory, &pairs);
        if (status == MT_OK) mt_adapter_select(&pairs, &opened.selection);
    }
    if (status == MT_OK) status = mt_model_open(device, directory, &opened, model);
    if (status == MT_OK && adapter != NULL) status = mt_adapter_apply(&pairs, mt_model_params(*model));
    mt_adapter_close(&pairs);
    return status;
}

static enum mt_status forward(struct mt_model *model, const struct mt_batch *batch, double *seconds)
{
    struct mt_device *device = mt_model_device(model);
    struct mt_model_loss loss;
    enum mt_status status = mt_device_synchronise(device);
    double start = mt_clock_seconds();
    if (status == MT_OK) status = mt_model_forward(model, batch, &loss);
    if (status == MT_OK) status = mt_device_synchronise(device);
    *seconds = mt_clock_seconds() - start;
    return status;
}

static enum mt_status measure(struct mt_model *model, int64_t tokens, int32_t *ids, int32_t *offsets,
                              double *rate)
{
    int64_t vocabulary = mt_model_description(model)->vocabulary;
    int64_t sequences = (tokens + LENGTH - 1) / LENGTH;
    double seconds = 0.0;
    for (int64_t i = 0; i < tokens; i++)
        ids[i] = (int32_t)mt_rng_below(SEED, 0, (uint64_t)i, (uint64_t)vocabulary);
    for (int64_t i = 0; i <= sequences; i++)
        offsets[i] = (int32_t)(i * LENGTH < tokens ? i * LENGTH : tokens);
    const struct mt_batch batch = {
        .tokens = tokens, .sequences = sequences, .ids = ids, .offsets = offsets, .loss_only = true};
    enum mt_status status = forward(model, &batch, &seconds);
    *rate = 0.0;
    for (int i = 0; i < TIMED && status == MT_OK; i++) {
        status = forward(model, &batch, &seconds);
        if (seconds > 0.0) *rate = fmax(*rate, (double)tokens / seconds);
    }
    return status;
}

enum mt_status mt_adapted_speed(struct mt_device *device, const char *directory, const char *adapter,
                                int64_t tokens, double *rate)
{
    struct mt_context *ctx = mt_device_context(device);
    size_t numbers = 2 * (size_t)tokens + 1; // ids, and at most as many sequences
    struct mt_model_options options = {
        .tokens = tokens, .sequences = (tokens + LENGTH - 1) / LENGTH, .positions = LENGTH};
    struct mt_model *model = NULL;
    void *memory = NULL;
    options.activations = mt_device_activations(device);
    enum mt_status status = mt_allocate_array(ctx, numbers, sizeof(int32_t), &memory);
    if (status != MT_OK) return status;
    int32_t *ids = memory;
    status = mt_adapted_open(device, directory, adapter, &options, &model);
    if (status == MT_OK) status = measure(model, tokens, ids, ids + tokens, rate);
    mt_model_close(model);
    mt_release(ctx, memory, numbers * sizeof(int32_t));
    return status;
}
