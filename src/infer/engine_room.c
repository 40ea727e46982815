/* Sizes of an engine from the memory that is free. */
#include "infer/engine_room.h"

/* What is aimed at where there is room. */
struct aims {
    int64_t slots;
    int64_t pass_tokens;
};
static const struct aims host_aims = {.slots = 32, .pass_tokens = 1024};
// No more slots than passes of single tokens are recorded for (model/replay.h).
static const struct aims device_aims = {.slots = 512, .pass_tokens = 8192};

#define LEAST_PASS_TOKENS 512
#define USED_SHARE        0.85 // of what is free: observers, recordings and libraries take some, too

/* Bytes that the model and the engine would take on a device that is dry. */
static enum mt_status count_bytes(struct mt_device *dry, const struct mt_engine_place *place,
                                  const struct mt_engine_options *options, double *bytes)
{
    struct mt_model_options sizes = place->model;
    struct mt_model *model = NULL;
    *bytes = 0.0;
    mt_engine_model_options(options, &sizes);
    sizes.activations = mt_device_activations(dry);
    enum mt_status status = mt_model_open(dry, place->directory, &sizes, &model);
    if (status != MT_OK) return status;
    int64_t logits = sizes.logit_rows * mt_model_description(model)->vocabulary;
    *bytes = (double)mt_device_dry_bytes(dry) + (double)logits * sizeof(float);
    if (mt_device_on_host(dry)) *bytes += (double)mt_model_bytes(model).mapped;
    mt_model_close(model);
    return MT_OK;
}

/* Smaller passes until `options` fit, as far as that goes. */
static enum mt_status fit_pass(struct mt_device *dry, const struct mt_engine_place *place, double room,
                               struct mt_engine_options *options, double *bytes)
{
    enum mt_status status = count_bytes(dry, place, options, bytes);
    while (status == MT_OK && *bytes > room && options->pass_tokens > LEAST_PASS_TOKENS) {
        options->pass_tokens /= 2;
        status = count_bytes(dry, place, options, bytes);
    }
    return status;
}

static enum mt_status fit(struct mt_device *dry, const struct mt_engine_place *place, double room,
                          int64_t most_slots, struct mt_engine_options *options)
{
    double least_bytes = 0.0;
    double most_bytes = 0.0;
    bool slots_given = options->slots > 0;
    if (!slots_given) options->slots = 1;
    enum mt_status status = fit_pass(dry, place, room, options, &least_bytes);
    if (status != MT_OK || slots_given || most_slots == 1) return status;
    struct mt_engine_options most = *options;
    most.slots = most_slots;
    status = count_bytes(dry, place, &most, &most_bytes);
    if (status != MT_OK) return status;
    double slot_bytes = (most_bytes - least_bytes) / (double)(most_slots - 1);
    int64_t more = room > least_bytes ? (int64_t)((room - least_bytes) / slot_bytes) : 0;
    options->slots = more < most_slots - 1 ? 1 + more : most_slots;
    return MT_OK;
}

enum mt_status mt_engine_choose_room(struct mt_device *device, const struct mt_engine_place *place,
                                     struct mt_engine_options *options)
{
    const struct aims *aims = mt_device_on_host(device) ? &host_aims : &device_aims;
    int64_t countable = INT32_MAX / options->positions; // tokens of all slots
    int64_t most_slots = aims->slots < countable ? aims->slots : countable;
    struct mt_memory_room memory;
    struct mt_device *dry = NULL;
    options->pass_tokens = aims->pass_tokens;
    mt_device_room(device, &memory);
    // Slots that somebody asked for are not lessened, and a pass on the host is small.
    bool planned = memory.total > 0 && (options->slots == 0 || !mt_device_on_host(device));
    if (!planned) {
        if (options->slots == 0) options->slots = most_slots;
        return MT_OK;
    }
    enum mt_status status =
        mt_device_create(mt_device_context(device), mt_device_name(device), place->threads, &dry);
    if (status != MT_OK) return status;
    mt_device_set_dry(dry);
    status = fit(dry, place, USED_SHARE * (double)memory.free, most_slots, options);
    mt_device_destroy(dry);
    return status;
}
