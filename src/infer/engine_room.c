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
#define HOST_SLACK        16777216.0 // bytes of tokenizer, texts and requests
#define USED_SHARE        0.85       // of what is free: observers, recordings and libraries take some, too

/* What is planned. */
struct planning {
    struct mt_device *device; // that will compute
    const struct mt_engine_place *place;
    double room;   // in bytes
    size_t mapped; // bytes of weights in files, as of the last count
};

/* Bytes that the model and the engine would take, counted on a device that is dry. */
static enum mt_status count_on(struct planning *planning, struct mt_device *dry,
                               const struct mt_engine_options *options, double *bytes)
{
    struct mt_model_options sizes = planning->place->model;
    struct mt_model *model = NULL;
    struct mt_comm *paper = NULL;
    mt_engine_model_options(options, &sizes);
    sizes.activations = mt_device_activations(dry);
    // Other ranks need not count as often as this one.
    const struct mt_comm *ranks = sizes.expert_ranks;
    enum mt_status status = MT_OK;
    if (ranks != NULL)
        status =
            mt_comm_open_on_paper(mt_device_context(dry), mt_comm_rank(ranks), mt_comm_size(ranks), &paper);
    sizes.expert_ranks = paper;
    if (status == MT_OK) status = mt_model_open(dry, planning->place->directory, &sizes, &model);
    if (status != MT_OK) {
        mt_comm_close(paper);
        return status;
    }
    int64_t logits = sizes.logit_rows * mt_model_description(model)->vocabulary;
    *bytes = (double)mt_device_dry_bytes(dry) + (double)logits * sizeof(float);
    if (mt_device_on_host(dry)) {
        planning->mapped = mt_model_bytes(model).mapped;
        *bytes += (double)planning->mapped + (double)mt_device_context(dry)->live_bytes + HOST_SLACK;
    }
    mt_model_close(model);
    mt_comm_close(paper);
    return MT_OK;
}

/* A device of its own for each count: scratch only grows. */
static enum mt_status count_bytes(struct planning *planning, const struct mt_engine_options *options,
                                  double *bytes)
{
    struct mt_device *dry = NULL;
    *bytes = 0.0;
    enum mt_status status =
        mt_device_create(mt_device_context(planning->device), mt_device_name(planning->device),
                         planning->place->threads, &dry);
    if (status == MT_OK) mt_device_set_dry(dry);
    if (status == MT_OK) status = count_on(planning, dry, options, bytes);
    mt_device_destroy(dry);
    return status;
}

/* Smaller passes until `options` fit, as far as that goes. */
static enum mt_status fit_pass(struct planning *planning, struct mt_engine_options *options, double *bytes)
{
    enum mt_status status = count_bytes(planning, options, bytes);
    while (status == MT_OK && *bytes > planning->room && options->pass_tokens > LEAST_PASS_TOKENS) {
        options->pass_tokens /= 2;
        status = count_bytes(planning, options, bytes);
    }
    return status;
}

/* Fewer slots until they fit. */
static enum mt_status fit_slots(struct planning *planning, struct mt_engine_options *options)
{
    double bytes = 0.0;
    enum mt_status status = count_bytes(planning, options, &bytes);
    while (status == MT_OK && bytes > planning->room && options->slots > 1) {
        options->slots -= (options->slots + 7) / 8;
        status = count_bytes(planning, options, &bytes);
    }
    return status;
}

static enum mt_status fit(struct planning *planning, int64_t most_slots, struct mt_engine_options *options)
{
    double least_bytes = 0.0;
    double most_bytes = 0.0;
    double room = planning->room;
    bool slots_given = options->slots > 0;
    if (!slots_given) options->slots = 1;
    enum mt_status status = fit_pass(planning, options, &least_bytes);
    if (status != MT_OK || slots_given || most_slots == 1) return status;
    struct mt_engine_options most = *options;
    most.slots = most_slots;
    status = count_bytes(planning, &most, &most_bytes);
    if (status != MT_OK) return status;
    options->slots = most_slots;
    if (most_bytes <= room) return MT_OK;
    double slot_bytes = (most_bytes - least_bytes) / (double)(most_slots - 1);
    options->slots = 1 + (room > least_bytes ? (int64_t)((room - least_bytes) / slot_bytes) : 0);
    // Passes grow with the first slots alone: a few slots take more than their share.
    return fit_slots(planning, options);
}

enum mt_status mt_engine_choose_room(struct mt_device *device, const struct mt_engine_place *place,
                                     struct mt_engine_options *options)
{
    const struct aims *aims = mt_device_on_host(device) ? &host_aims : &device_aims;
    int64_t countable = INT32_MAX / options->positions; // tokens of all slots
    int64_t most_slots = aims->slots < countable ? aims->slots : countable;
    struct mt_memory_room memory;
    struct mt_memory_bound bound = mt_device_bound(device, &place->limit);
    options->pass_tokens = aims->pass_tokens;
    mt_device_room(device, &memory);
    // Slots that somebody asked for are not lessened, and a pass on the host is small.
    bool planned = bound.given || (memory.total > 0 && (options->slots == 0 || !mt_device_on_host(device)));
    if (!planned) {
        if (options->slots == 0) options->slots = most_slots;
        return MT_OK;
    }
    struct planning planning = {.device = device,
                                .place = place,
                                .room = USED_SHARE * (double)(bound.given ? bound.buffers : memory.free)};
    enum mt_status status = fit(&planning, most_slots, options);
    // Weights in files are none of the context's.
    if (status == MT_OK && bound.given)
        mt_device_set_limit(device, bound.buffers > planning.mapped ? bound.buffers - planning.mapped : 1);
    return status;
}
