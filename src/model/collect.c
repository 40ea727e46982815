/* The one place where a model's observer and a collector meet. */
#include "model/collect.h"

bool mt_collector_options_of(const struct mt_model_desc *desc, int64_t *number,
                             struct mt_collector_options *options)
{
    *options = (struct mt_collector_options){.layers = mt_model_moe_layers(desc, number),
                                             .number = number,
                                             .experts = desc->experts,
                                             .slots = desc->router.slots,
                                             .width = desc->width};
    return options->layers > 0;
}

static enum mt_status look(void *self, int moe_layer, const struct mt_routing *record,
                           const struct mt_tensor *input)
{
    return mt_collector_add(self, moe_layer, record, input);
}

void mt_model_collect(struct mt_model *model, struct mt_collector *collector)
{
    const struct mt_layer_observer observer = {.self = collector, .look = look};
    mt_model_observe(model, collector != NULL ? &observer : NULL);
}

// ------------------------------------------------------------------ records on the host

/* Memory of the device that tensors of all layers lie in, with whatever lies between them. */
struct span {
    char *start, *end; // NULL: no tensor so far
    struct mt_buffer *host;
};

static void widen(struct span *span, const struct mt_tensor *tensor)
{
    if (!mt_tensor_present(tensor)) return;
    char *start = tensor->data;
    char *end = start + (size_t)mt_tensor_count(tensor) * mt_dtype_bytes(tensor->dtype);
    if (span->start == NULL || start < span->start) span->start = start;
    if (span->end == NULL || end > span->end) span->end = end;
}

static enum mt_status fetch_span(struct mt_device *device, const struct span *span)
{
    size_t bytes = (size_t)(span->end - span->start);
    if (bytes > span->host->bytes) {
        mt_buffer_release(span->host);
        enum mt_status status = mt_device_staging_create(device, bytes, span->host);
        if (status != MT_OK) return mt_fail_within(mt_device_context(device), status, "routing records");
    }
    return mt_device_download(device, span->host->data, span->start, bytes);
}

/* The tensor where the host has it. */
static struct mt_tensor on_host(const struct span *span, const struct mt_tensor *tensor)
{
    struct mt_tensor moved = *tensor;
    if (mt_tensor_present(tensor))
        moved.data = (char *)span->host->data + ((char *)tensor->data - span->start);
    return moved;
}

/* Brings the records of all layers to the host, in two copies. */
static enum mt_status fetch(struct mt_collection *collection)
{
    const struct mt_model *model = collection->model;
    struct mt_device *device = mt_model_device(model);
    struct span floats = {.host = &collection->floats};
    struct span indices = {.host = &collection->indices};
    int found = 0;
    for (int64_t i = 0; i < mt_model_description(model)->layers && found < collection->layers; i++) {
        const struct mt_routing *record = mt_model_routing(model, i);
        if (record == NULL) continue;
        collection->record[found++] = *record;
        widen(&floats, &record->probs);
        widen(&floats, &record->weight);
        widen(&floats, &record->gram);
        widen(&indices, &record->mask);
        widen(&indices, &record->chosen);
        widen(&indices, &record->expert);
    }
    enum mt_status status = fetch_span(device, &floats);
    if (status == MT_OK) status = fetch_span(device, &indices);
    if (status != MT_OK) return status;
    for (int i = 0; i < found; i++) {
        const struct mt_routing record = collection->record[i];
        collection->record[i] = (struct mt_routing){.tokens = collection->tokens,
                                                    .experts = record.experts,
                                                    .slots = record.slots,
                                                    .mask = on_host(&indices, &record.mask),
                                                    .probs = on_host(&floats, &record.probs),
                                                    .chosen = on_host(&indices, &record.chosen),
                                                    .expert = on_host(&indices, &record.expert),
                                                    .weight = on_host(&floats, &record.weight),
                                                    .gram = on_host(&floats, &record.gram)};
    }
    collection->last = MT_PASS_ON_HOST;
    return MT_OK;
}

// ------------------------------------------------------------------ around a pass

static enum mt_status count(struct mt_collection *collection)
{
    enum mt_status status = MT_OK;
    for (int i = 0; status == MT_OK && i < collection->layers; i++)
        status = mt_collector_add_host(collection->collector, i, &collection->record[i]);
    collection->last = MT_PASS_COUNTED;
    return status;
}

static enum mt_status name_tokens(struct mt_collection *collection, int64_t tokens)
{
    return collection->name != NULL ? collection->name(collection->self, tokens) : MT_OK;
}

static enum mt_status before_pass(void *self)
{
    struct mt_collection *collection = self;
    return collection->last == MT_PASS_ON_DEVICE ? fetch(collection) : MT_OK;
}

/* The device is at work: time to count the pass before. Only then may the tokens of this one get names. */
static enum mt_status after_pass(void *self, int64_t tokens)
{
    struct mt_collection *collection = self;
    enum mt_status status = collection->last == MT_PASS_ON_HOST ? count(collection) : MT_OK;
    if (status == MT_OK) status = name_tokens(collection, tokens);
    collection->tokens = tokens;
    if (status == MT_OK) collection->last = MT_PASS_ON_DEVICE;
    return status;
}

static enum mt_status within_pass(void *self, int moe_layer, const struct mt_routing *record,
                                  const struct mt_tensor *input)
{
    struct mt_collection *collection = self;
    enum mt_status status = moe_layer == 0 ? name_tokens(collection, record->tokens) : MT_OK;
    return status == MT_OK ? mt_collector_add(collection->collector, moe_layer, record, input) : status;
}

// ------------------------------------------------------------------ begin and end

enum mt_status mt_collection_begin(struct mt_collection *collection)
{
    struct mt_model *model = collection->model;
    struct mt_context *ctx = mt_device_context(mt_model_device(model));
    struct mt_layer_observer observer = {.self = collection, .look = within_pass};
    if (mt_model_keeps_records(model)) {
        void *memory = NULL;
        int layers = mt_model_moe_layers(mt_model_description(model), NULL);
        enum mt_status status = mt_allocate_array(ctx, (size_t)layers, sizeof *collection->record, &memory);
        if (status != MT_OK) return status;
        collection->record = memory;
        collection->layers = layers;
        observer = (struct mt_layer_observer){.self = collection, .before = before_pass, .after = after_pass};
    }
    mt_model_observe(model, &observer);
    return MT_OK;
}

enum mt_status mt_collection_settle(struct mt_collection *collection)
{
    enum mt_status status = before_pass(collection);
    return status == MT_OK && collection->last == MT_PASS_ON_HOST ? count(collection) : status;
}

void mt_collection_forget(struct mt_collection *collection)
{
    collection->last = MT_PASS_COUNTED;
}

void mt_collection_end(struct mt_collection *collection)
{
    if (collection->model == NULL) return;
    mt_model_observe(collection->model, NULL);
    mt_buffer_release(&collection->floats);
    mt_buffer_release(&collection->indices);
    struct mt_context *ctx = mt_device_context(mt_model_device(collection->model));
    mt_release(ctx, collection->record, (size_t)collection->layers * sizeof *collection->record);
    *collection = (struct mt_collection){0};
}
