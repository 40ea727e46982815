/* What metier forward writes: a safetensors file with logits, hidden states, routing, losses and gradients.
 */
#include <inttypes.h>
#include <stdio.h>

#include "cli/forward/forward.h"
#include "formats/safetensors/safetensors_writer.h"
#include "infer/sampler.h"
#include "tensor/dtype.h"

#define NAME_BYTES 256
#define PIECE      ((size_t)1 << 18) // numbers fetched at a time

/* Where the values of a tensor are, and in which type there. */
struct source {
    const void *data;
    bool on_device;
    enum mt_dtype type; // on the device: f32, i32, or a type that is written as f32
};

/* The tensors of the file, in order; the arena owns names, and values made here. */
struct listing {
    struct mt_arena arena;
    struct mt_safetensors_spec *specs;
    struct source *sources;
    size_t count, capacity;
};

static enum mt_status add(struct listing *list, const char *name, enum mt_safetensors_dtype dtype, int rank,
                          const int64_t *dims, struct source source)
{
    struct mt_context *ctx = list->arena.ctx;
    if (list->count == list->capacity)
        return mt_fail(ctx, MT_ERR_INTERNAL, "more tensors than counted, at %s", name);
    const char *copy = NULL;
    enum mt_status status = mt_arena_copy_text(&list->arena, name, strlen(name), &copy);
    if (status != MT_OK) return status;
    struct mt_safetensors_spec *spec = &list->specs[list->count];
    *spec = (struct mt_safetensors_spec){.name = copy, .dtype = dtype, .rank = rank};
    for (int axis = 0; axis < rank; axis++) spec->dim[axis] = dims[axis];
    list->sources[list->count++] = source;
    return MT_OK;
}

/* A contiguous tensor of the device: i32 as it is, activations of whatever type as f32. */
static enum mt_status add_tensor(struct listing *list, const char *prefix, const char *rest,
                                 const struct mt_tensor *tensor)
{
    char name[NAME_BYTES];
    (void)snprintf(name, sizeof name, "%s%s", prefix, rest);
    enum mt_safetensors_dtype dtype = tensor->dtype == MT_I32 ? MT_SAFETENSORS_I32 : MT_SAFETENSORS_F32;
    return add(list, name, dtype, tensor->rank, tensor->dim,
               (struct source){.data = tensor->data, .on_device = true, .type = tensor->dtype});
}

/* f64 values: one without a dimension, or one per MoE layer. */
static enum mt_status add_values(struct listing *list, const char *prefix, const char *rest, int rank,
                                 int64_t count, double **values)
{
    char name[NAME_BYTES];
    (void)snprintf(name, sizeof name, "%s%s", prefix, rest);
    enum mt_status status = MT_OK;
    *values = mt_arena_array(&list->arena, (size_t)count, sizeof **values, &status);
    if (status != MT_OK) return status;
    return add(list, name, MT_SAFETENSORS_F64, rank, &count, (struct source){.data = *values});
}

static enum mt_status add_value(struct listing *list, const char *prefix, const char *rest, double value)
{
    double *place = NULL;
    enum mt_status status = add_values(list, prefix, rest, 0, 1, &place);
    if (status == MT_OK) *place = value;
    return status;
}

static enum mt_status add_terms(struct listing *list, const struct forward_results *results)
{
    const struct mt_objective *objective = mt_model_objective(results->model);
    if (objective == NULL) return MT_OK;
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        const char *name = mt_term_name((enum mt_term)term);
        double *scale = NULL;
        double sum = 0.0;
        enum mt_status status = add_values(list, "scale.", name, 1, results->moe_layers, &scale);
        if (status != MT_OK) return status;
        for (int layer = 0; layer < results->moe_layers; layer++) {
            const struct mt_layer_report *report = mt_objective_layer(objective, layer);
            scale[layer] = report->weight[term];
            sum += report->loss[term];
        }
        status = add_value(list, "loss.", name, sum);
        if (status != MT_OK) return status;
    }
    return MT_OK;
}

static enum mt_status add_losses(struct listing *list, const struct forward_results *results)
{
    enum mt_status status = add_value(list, "loss", "", results->loss.task + results->loss.terms);
    if (status == MT_OK) status = add_value(list, "loss.", "h", results->loss.task);
    if (status == MT_OK) status = add_terms(list, results);
    return status;
}

static enum mt_status add_layers(struct listing *list, const struct forward_results *results)
{
    enum mt_status status = MT_OK;
    int64_t layers = mt_model_description(results->model)->layers;
    for (int64_t layer = 0; status == MT_OK && layer < layers; layer++) {
        char number[32];
        (void)snprintf(number, sizeof number, "%" PRId64, layer);
        status = add_tensor(list, "hidden.", number, mt_model_hidden(results->model, layer));
        const struct mt_routing *routing = mt_model_routing(results->model, layer);
        if (status != MT_OK || routing == NULL) continue;
        status = add_tensor(list, "router_logits.", number, &routing->logits);
        if (status == MT_OK) status = add_tensor(list, "experts.", number, &routing->expert);
        if (status == MT_OK) status = add_tensor(list, "weights.", number, &routing->weight);
    }
    return status;
}

static bool is_lora(const struct mt_param *param)
{
    return strncmp(param->name, "base_model.", strlen("base_model.")) == 0;
}

static enum mt_status add_params(struct listing *list, const struct mt_params *params)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; status == MT_OK && i < params->trained_count; i++) {
        const struct mt_param *param = &params->trained[i];
        status = add_tensor(list, "grad.", param->name, &param->grad);
        if (status == MT_OK && is_lora(param))
            status = add_tensor(list, "param.", param->name, &param->value);
    }
    return status;
}

/* Numbers on their way from the device to the file. */
struct piece {
    float stored[PIECE];  // as they lie there, of at most four bytes each
    float widened[PIECE]; // as f32
};

/* *finite becomes false where a number of the device's is infinite or none. */
static enum mt_status write_source(struct mt_device *device, const struct source *source, size_t bytes,
                                   struct piece *piece, struct mt_safetensors_writer *writer, bool *finite)
{
    const char *data = source->data;
    if (!source->on_device) return mt_safetensors_writer_write(writer, data, bytes);
    bool as_stored = source->type == MT_F32 || source->type == MT_I32;
    size_t element = mt_dtype_bytes(source->type);
    size_t total = bytes / sizeof(float);
    enum mt_status status = MT_OK;
    for (size_t first = 0; first < total && status == MT_OK; first += PIECE) {
        size_t count = total - first < PIECE ? total - first : PIECE;
        status = mt_device_download(device, piece->stored, data + first * element, count * element);
        if (status != MT_OK) return status;
        if (!as_stored) mt_convert_to_f32(source->type, piece->stored, (int64_t)count, piece->widened);
        const float *values = as_stored ? piece->stored : piece->widened;
        *finite = *finite && (source->type == MT_I32 || mt_logits_finite(values, (int64_t)count));
        status = mt_safetensors_writer_write(writer, values, count * sizeof(float));
    }
    return status;
}

static enum mt_status write_file(struct mt_device *device, const struct listing *list, const char *path)
{
    struct mt_safetensors_writer writer;
    struct mt_context *ctx = list->arena.ctx;
    void *piece = NULL;
    const char *damaged = NULL; // the first tensor that has numbers that are none
    enum mt_status status = mt_allocate(ctx, sizeof(struct piece), &piece);
    if (status != MT_OK) return status;
    status = mt_safetensors_writer_open(ctx, path, list->specs, list->count, NULL, 0, &writer);
    for (size_t i = 0; status == MT_OK && i < list->count; i++) {
        const struct mt_safetensors_spec *spec = &list->specs[i];
        size_t bytes = mt_safetensors_dtype_bytes(spec->dtype);
        for (int axis = 0; axis < spec->rank; axis++) bytes *= (size_t)spec->dim[axis];
        bool finite = true;
        status = write_source(device, &list->sources[i], bytes, piece, &writer, &finite);
        if (!finite && damaged == NULL) damaged = spec->name;
    }
    mt_release(ctx, piece, sizeof(struct piece));
    if (status == MT_OK) status = mt_safetensors_writer_finish(&writer);
    if (status != MT_OK || damaged == NULL) return status;
    // The file is there for whoever looks for the cause.
    return mt_fail(ctx, MT_ERR_NUMERIC,
                   "numbers of '%s' are not finite (see %s): weights are damaged or too large", damaged,
                   path);
}

static enum mt_status list_and_write(struct listing *list, const struct forward_settings *settings,
                                     const struct forward_results *results, const struct mt_tensor *logits)
{
    // f64 first: then every tensor of the file is aligned.
    enum mt_status status = settings->grads ? add_losses(list, results) : MT_OK;
    if (status == MT_OK) status = add_tensor(list, "logits", "", logits);
    if (status == MT_OK) status = add_layers(list, results);
    if (status == MT_OK && settings->grads) status = add_params(list, mt_model_params(results->model));
    if (status != MT_OK) return status;
    return write_file(mt_model_params(results->model)->device, list, settings->out);
}

enum mt_status cli_forward_write(struct mt_context *ctx, const struct forward_settings *settings,
                                 const struct forward_ids *ids, const struct forward_results *results)
{
    const struct mt_model_desc *desc = mt_model_description(results->model);
    struct listing list = {0};
    mt_arena_init(&list.arena, ctx, 65536);
    list.capacity =
        3 + 2 * MT_TERM_COUNT + 4 * (size_t)desc->layers + 2 * mt_model_params(results->model)->trained_count;
    int64_t tokens = (int64_t)ids->ids.count;
    size_t logit_bytes = (size_t)tokens * (size_t)desc->vocabulary * sizeof(float);
    struct mt_buffer logit_memory = {0};
    enum mt_status status = MT_OK;
    list.specs = mt_arena_array(&list.arena, list.capacity, sizeof *list.specs, &status);
    list.sources = mt_arena_array(&list.arena, list.capacity, sizeof *list.sources, &status);
    if (status == MT_OK) {
        status = mt_device_buffer_create(mt_model_params(results->model)->device, logit_bytes, &logit_memory);
        if (status != MT_OK) status = mt_fail_within(ctx, status, "logits");
    }
    if (status == MT_OK) {
        struct mt_tensor logits = mt_tensor_2d(logit_memory.data, MT_F32, tokens, desc->vocabulary);
        status = mt_model_logits(results->model, &logits);
        if (status == MT_OK) status = list_and_write(&list, settings, results, &logits);
    }
    mt_buffer_release(&logit_memory);
    mt_arena_free(&list.arena);
    return status;
}
