/* Exporting: which tensors learned, and their values; the rest is rewrite.c's. */
#include "model/files/export.h"

#include <stdlib.h>
#include <string.h>

#include "arch/published/stacks.h"
#include "formats/text/printable.h"
#include "model/adapters/router_bias.h"
#include "model/files/card.h"
#include "model/files/carried_files.h"
#include "model/files/rewrite.h"
#include "model/params/params.h"
#include "model/params/shards.h"

#define ARENA_BLOCK_BYTES 65536

/* A correction bias that is no longer what the checkpoint holds. */
struct moved_bias {
    const char *name;
    float *values; // [n], on the host
};

/* One thing that learned. */
struct learned {
    const struct mt_param *param;
};

struct exporter {
    struct mt_context *ctx;
    const struct mt_params *params;
    const struct mt_model_desc *desc;
    struct mt_checkpoint checkpoint;
    struct mt_arena arena;   // what follows
    struct learned *trained; // sorted by name
    struct moved_bias *biases;
    size_t bias_count;
    size_t beside;                        // biases without a tensor in the checkpoint
    const struct mt_trained_texts *texts; // borrowed: what it was trained on
    const char *base;                     // borrowed: the folder it was trained from
};

// ------------------------------------------------------------------ what learned

static int compare_learned(const void *left, const void *right)
{
    const struct learned *a = left;
    const struct learned *b = right;
    return strcmp(a->param->name, b->param->name);
}

static int compare_name(const void *name, const void *entry)
{
    const struct learned *learned = entry;
    return strcmp(name, learned->param->name);
}

static enum mt_status check_param(const struct exporter *exporter, const struct mt_param *param)
{
    const struct mt_safetensors_tensor *stored = mt_checkpoint_find(&exporter->checkpoint, param->name);
    if (stored == NULL) {
        return mt_fail(exporter->ctx, MT_ERR_USAGE,
                       "%s is trained, but is not a tensor of the model: write LoRA pairs as an adapter",
                       mt_printable(param->name).text);
    }
    bool same = stored->rank == param->value.rank;
    for (int axis = 0; same && axis < stored->rank; axis++) {
        same = stored->dim[axis] == param->value.dim[axis];
    }
    if (same) return MT_OK;
    return mt_fail(exporter->ctx, MT_ERR_SHAPE, "%s has a different shape in the model it was trained from",
                   mt_printable(param->name).text);
}

static enum mt_status list_trained(struct exporter *exporter)
{
    const struct mt_params *params = exporter->params;
    enum mt_status status = MT_OK;
    exporter->trained =
        mt_arena_array(&exporter->arena, params->trained_count, sizeof *exporter->trained, &status);
    for (size_t i = 0; i < params->trained_count && status == MT_OK; i++) {
        exporter->trained[i].param = &params->trained[i];
        status = check_param(exporter, &params->trained[i]);
    }
    if (status == MT_OK && params->trained_count > 0)
        qsort(exporter->trained, params->trained_count, sizeof *exporter->trained, compare_learned);
    return status;
}

/* True when some value is not what the stored tensor says. */
static bool has_moved(const struct mt_safetensors_tensor *stored, const float *values, float *room)
{
    const struct mt_rewrite_tensor tensor = {.stored = stored, .from = mt_params_stored_type(stored)};
    int64_t count = stored->dim[stored->rank - 1]; // [n], or [1,n]
    mt_rewrite_read(&tensor, 0, count, room, room + count);
    return memcmp(room, values, (size_t)count * sizeof *values) != 0;
}

static enum mt_status list_bias(struct exporter *exporter, int64_t layer)
{
    const struct mt_tensor *bias = &exporter->params->layer[layer].correction;
    size_t bytes = (size_t)mt_tensor_count(bias) * sizeof(float);
    char name[MT_PARAMS_NAME_BYTES];
    void *memory = NULL;
    mt_params_correction_name(exporter->desc, layer, name, sizeof name);
    const struct mt_safetensors_tensor *stored = mt_checkpoint_find(&exporter->checkpoint, name);
    if (stored == NULL) {
        exporter->beside++;
        return MT_OK;
    }
    enum mt_status status = mt_arena_allocate(&exporter->arena, 3 * bytes, &memory);
    if (status != MT_OK) return status;
    float *values = memory;
    status = mt_device_download(exporter->params->device, values, bias->data, bytes);
    if (status != MT_OK || !has_moved(stored, values, values + mt_tensor_count(bias))) return status;
    exporter->biases[exporter->bias_count++] = (struct moved_bias){.name = stored->name, .values = values};
    return MT_OK;
}

static enum mt_status list_biases(struct exporter *exporter)
{
    const struct mt_params *params = exporter->params;
    enum mt_status status = MT_OK;
    exporter->biases =
        mt_arena_array(&exporter->arena, (size_t)params->layers, sizeof *exporter->biases, &status);
    for (int64_t layer = 0; layer < params->layers && status == MT_OK; layer++) {
        if (mt_tensor_present(&params->layer[layer].correction)) status = list_bias(exporter, layer);
    }
    return status;
}

// ------------------------------------------------------------------ one tensor

static void choose(void *self, struct mt_rewrite_tensor *tensor)
{
    const struct exporter *exporter = self;
    const char *name = tensor->name;
    for (size_t i = 0; i < exporter->bias_count; i++) {
        if (exporter->biases[i].name != name) continue; // one text, the checkpoint's own
        tensor->data = exporter->biases[i].values;
        tensor->from = MT_F32;
        tensor->to = MT_F32;
    }
    if (exporter->params->trained_count == 0) return;
    const struct learned *found = bsearch(name, exporter->trained, exporter->params->trained_count,
                                          sizeof *exporter->trained, compare_name);
    if (found != NULL) tensor->change = found->param;
}

static enum mt_status fill(void *self, const struct mt_rewrite_tensor *tensor, int64_t first, int64_t count,
                           float *values, float *room)
{
    const struct exporter *exporter = self;
    const struct mt_param *param = tensor->change;
    (void)room;
    return mt_shards_read_value(exporter->params, param, first, count, values);
}

/* Biases the checkpoint has no tensors for; how texts were written out. */
static enum mt_status add_files(void *self, const char *directory)
{
    const struct exporter *exporter = self;
    enum mt_status status = mt_model_write_trained(exporter->ctx, directory, exporter->texts);
    const struct mt_card card = {
        .kind = MT_CARD_MODEL, .base = exporter->base, .text = exporter->texts->card};
    if (status == MT_OK) status = mt_card_write(exporter->ctx, directory, &card);
    if (status != MT_OK || exporter->beside == 0) return status;
    return mt_router_bias_save(exporter->params, exporter->desc, directory, MT_ROUTER_BIAS_OF_MODEL);
}

// ------------------------------------------------------------------ the way in

static enum mt_status write_folder(struct exporter *exporter, const struct mt_export_options *options,
                                   struct mt_export_result *result)
{
    const struct mt_rewrite_source source = {
        .self = exporter, .choose = choose, .fill = fill, .add_files = add_files};
    const struct mt_rewrite_options rewrite = {
        .directory = options->directory,
        .out = options->out,
        .dtype = options->dtype,
        .shard_bytes = options->shard_bytes,
        .requantise = true, // codes cannot be trained: they stay as they lie
        .progress = options->progress,
        .label = "writing",
    };
    struct mt_rewrite_result written;
    enum mt_status status =
        mt_rewrite(exporter->ctx, exporter->desc->config, &exporter->checkpoint, &source, &rewrite, &written);
    if (status != MT_OK || result == NULL) return status;
    *result = (struct mt_export_result){
        .tensors = written.tensors,
        .trained = written.changed,
        .biases = written.replaced,
        .biases_beside = exporter->beside,
        .bytes = written.bytes,
        .files = written.files,
        .carried = written.carried,
        .narrow = written.narrow,
    };
    return MT_OK;
}

enum mt_status mt_model_export(const struct mt_params *params, const struct mt_model_desc *desc,
                               const struct mt_export_options *options, struct mt_export_result *result)
{
    struct mt_context *ctx = mt_device_context(params->device);
    struct exporter exporter = {
        .ctx = ctx, .params = params, .desc = desc, .texts = &options->trained, .base = options->directory};
    mt_arena_init(&exporter.arena, ctx, ARENA_BLOCK_BYTES);
    enum mt_status status = mt_stacks_open(ctx, options->directory, desc->config, &exporter.checkpoint);
    if (status == MT_OK) status = mt_params_check(ctx, desc, &exporter.checkpoint);
    if (status == MT_OK) status = list_trained(&exporter);
    if (status == MT_OK) status = list_biases(&exporter);
    if (status == MT_OK) status = write_folder(&exporter, options, result);
    mt_checkpoint_close(&exporter.checkpoint);
    mt_arena_free(&exporter.arena);
    return status;
}
