/* An observer of the model that feeds a collector. */
#include "infer/routing_watch.h"

#include "base/buffer.h"

#define BATCH_TOKENS     4096                // of MaxVio over batches: about what a training step has
#define OUTPUT_BYTES     ((int64_t)64 << 20) // for expert outputs kept to compare, of all layers together
#define MOST_KEPT_TOKENS 256

struct mt_routing_watch {
    struct mt_context *ctx;     // borrowed
    struct mt_session *session; // borrowed
    struct mt_collector_options options;
    int64_t *number;       // [layers]: of the MoE layers in the model
    struct mt_buffer mask; // i32 [T], on the device
    int64_t mask_tokens;
    struct mt_collector *collector;
};

/* The same record without tokens that were counted before. */
static enum mt_status mask_repeats(struct mt_routing_watch *watch, const int32_t *is_new,
                                   struct mt_routing *record)
{
    struct mt_device *device = watch->session->device;
    if (record->tokens > watch->mask_tokens) {
        mt_buffer_release(&watch->mask);
        watch->mask_tokens = 0;
        enum mt_status status =
            mt_device_buffer_create(device, (size_t)record->tokens * sizeof(int32_t), &watch->mask);
        if (status != MT_OK) return status;
        watch->mask_tokens = record->tokens;
    }
    record->mask = mt_tensor_1d(watch->mask.data, MT_I32, record->tokens);
    return mt_device_upload(device, watch->mask.data, is_new, (size_t)record->tokens * sizeof(int32_t));
}

static enum mt_status look(void *self, int moe_layer, const struct mt_routing *record,
                           const struct mt_tensor *input)
{
    struct mt_routing_watch *watch = self;
    const int32_t *is_new = mt_engine_new_tokens(watch->session->engine);
    struct mt_routing counted = *record;
    enum mt_status status = MT_OK;
    if (is_new != NULL) status = mask_repeats(watch, is_new, &counted);
    return status == MT_OK ? mt_collector_add(watch->collector, moe_layer, &counted, input) : status;
}

static void choose_options(struct mt_routing_watch *watch, const struct mt_model_desc *desc)
{
    int64_t layers = 0;
    for (int64_t i = 0; i < desc->layers; i++) {
        if (mt_model_layer_is_moe(desc, i)) watch->number[layers++] = i;
    }
    int64_t bytes = layers * desc->router.slots * desc->width * (int64_t)sizeof(float);
    int64_t kept = bytes > 0 ? OUTPUT_BYTES / bytes : 0;
    watch->options =
        (struct mt_collector_options){.layers = (int)layers,
                                      .number = watch->number,
                                      .experts = desc->experts,
                                      .slots = desc->router.slots,
                                      .width = desc->width,
                                      .outputs = kept < MOST_KEPT_TOKENS ? kept : MOST_KEPT_TOKENS,
                                      .batch_tokens = BATCH_TOKENS};
}

enum mt_status mt_routing_watch_create(struct mt_session *session, struct mt_routing_watch **watch)
{
    struct mt_context *ctx = session->ctx;
    const struct mt_model_desc *desc = mt_model_description(session->model);
    void *memory = NULL;
    void *number = NULL;
    *watch = NULL;
    enum mt_status status = mt_allocate_array(ctx, 1, sizeof **watch, &memory);
    if (status != MT_OK) return status;
    struct mt_routing_watch *made = memory;
    made->ctx = ctx;
    made->session = session;
    status = mt_allocate_array(ctx, (size_t)desc->layers, sizeof *made->number, &number);
    made->number = number;
    if (status == MT_OK) {
        choose_options(made, desc);
        if (made->options.layers > 0) status = mt_routing_watch_begin(made);
    }
    if (status != MT_OK || made->options.layers == 0) {
        mt_routing_watch_destroy(made);
        return status;
    }
    mt_model_observe(session->model, &(struct mt_layer_observer){.self = made, .look = look});
    *watch = made;
    return MT_OK;
}

void mt_routing_watch_destroy(struct mt_routing_watch *watch)
{
    if (watch == NULL) return;
    mt_model_observe(watch->session->model, NULL);
    mt_collector_destroy(watch->collector);
    mt_buffer_release(&watch->mask);
    size_t layers = (size_t)mt_model_description(watch->session->model)->layers;
    mt_release(watch->ctx, watch->number, layers * sizeof *watch->number);
    mt_release(watch->ctx, watch, sizeof *watch);
}

enum mt_status mt_routing_watch_begin(struct mt_routing_watch *watch)
{
    mt_collector_destroy(watch->collector);
    watch->collector = NULL;
    return mt_collector_create(watch->session->device, &watch->options, &watch->collector);
}

struct mt_collector *mt_routing_watch_collector(struct mt_routing_watch *watch)
{
    return watch->collector;
}

enum mt_status mt_routing_watch_figures(struct mt_routing_watch *watch, struct mt_figures *figures)
{
    return mt_collector_finish(watch->collector, NULL, figures);
}
