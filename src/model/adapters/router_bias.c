/* Selection biases: their memory, their file. */
#include "model/adapters/router_bias.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files/file.h"
#include "formats/safetensors/checkpoint.h"
#include "formats/safetensors/safetensors_writer.h"
#include "formats/text/printable.h"
#include "metier/ops.h"
#include "model/params/params.h"

#define ARENA_BLOCK_BYTES 16384

// ------------------------------------------------------------------ reading

/* The layer of "model.layers.L....", which is checked elsewhere; -1 when there is none. */
static int64_t layer_of(const char *name)
{
    static const char prefix[] = "model.layers.";
    char *end = NULL;
    if (strncmp(name, prefix, sizeof prefix - 1) != 0) return -1;
    long long layer = strtoll(name + sizeof prefix - 1, &end, 10);
    return *end == '.' ? layer : -1;
}

/* By copying: a tensor in the file may lie at any address. */
static float value_at(const struct mt_safetensors_tensor *stored, int64_t index)
{
    float value = 0.0f;
    memcpy(&value, (const char *)stored->data + (size_t)index * sizeof value, sizeof value);
    return value;
}

static enum mt_status check_bias(struct mt_context *ctx, const struct mt_safetensors *file,
                                 const struct mt_model_desc *desc, const struct mt_safetensors_tensor *stored)
{
    char expected[MT_PARAMS_NAME_BYTES] = "";
    int64_t layer = layer_of(stored->name);
    bool there = layer >= 0 && layer < desc->layers && mt_model_layer_is_moe(desc, layer);
    if (there) mt_params_correction_name(desc, layer, expected, sizeof expected);
    if (!there || strcmp(stored->name, expected) != 0 || stored->dtype != MT_SAFETENSORS_F32 ||
        stored->rank != 1 || stored->dim[0] != desc->experts) {
        return mt_fail(ctx, MT_ERR_FORMAT, "%s: %s is not the selection bias, F32 [%d], of a router",
                       file->path, mt_printable(stored->name).text, desc->experts);
    }
    for (int64_t i = 0; i < desc->experts; i++) {
        if (isfinite(value_at(stored, i))) continue;
        return mt_fail(ctx, MT_ERR_FORMAT, "%s: %s is not a number for expert %lld", file->path, stored->name,
                       (long long)i);
    }
    return MT_OK;
}

/* What no model of this description can have. */
static enum mt_status check_model(struct mt_context *ctx, const struct mt_safetensors *file,
                                  const struct mt_model_desc *desc)
{
    if (desc == NULL) {
        return mt_fail(ctx, MT_ERR_UNSUPPORTED,
                       "%s: metier can only read these biases together with their model", file->path);
    }
    if (desc->router.kind != MT_ROUTER_SPARSEMIXER) return MT_OK;
    return mt_fail(ctx, MT_ERR_UNSUPPORTED, "%s: SparseMixer chooses without a bias", file->path);
}

enum mt_status mt_router_bias_open(struct mt_context *ctx, const char *directory, const char *name,
                                   const struct mt_model_desc *desc, struct mt_safetensors *file)
{
    bool found = false;
    char *path = NULL;
    *file = (struct mt_safetensors){0};
    enum mt_status status = mt_checkpoint_has_file(ctx, directory, name, &found);
    if (status != MT_OK || !found) return status;
    status = mt_path_join(ctx, directory, name, &path);
    if (status == MT_OK) status = mt_safetensors_open(ctx, path, file);
    mt_path_release(ctx, path);
    if (status != MT_OK) return status;
    status = check_model(ctx, file, desc);
    for (size_t i = 0; status == MT_OK && i < file->tensor_count; i++)
        status = check_bias(ctx, file, desc, &file->tensors[i]);
    if (status != MT_OK) mt_safetensors_close(file);
    return status;
}

void mt_router_bias_read(const struct mt_safetensors *file, int experts, float *values)
{
    for (size_t i = 0; i < file->tensor_count; i++) {
        const struct mt_safetensors_tensor *stored = &file->tensors[i];
        memcpy(values + layer_of(stored->name) * experts, stored->data, (size_t)experts * sizeof *values);
    }
}

// ------------------------------------------------------------------ in the parameters

enum mt_status mt_router_bias_create(struct mt_params *params, const struct mt_model_desc *desc,
                                     struct mt_buffer *buffer)
{
    int64_t missing = 0;
    for (int64_t i = 0; i < params->layers; i++) {
        const struct mt_layer_params *layer = &params->layer[i];
        missing += layer->moe && !mt_tensor_present(&layer->correction) ? 1 : 0;
    }
    if (missing == 0) return MT_OK;
    size_t bytes = (size_t)missing * (size_t)desc->experts * sizeof(float);
    enum mt_status status = mt_device_buffer_create(params->device, bytes, buffer);
    if (status != MT_OK) return status;
    struct mt_tensor all = mt_tensor_2d(buffer->data, MT_F32, missing, desc->experts);
    int64_t used = 0;
    for (int64_t i = 0; i < params->layers; i++) {
        struct mt_layer_params *layer = &params->layer[i];
        if (layer->moe && !mt_tensor_present(&layer->correction))
            layer->correction = mt_tensor_at(&all, used++);
    }
    return mt_fill(params->device, &(struct mt_fill_args){.y = all, .value = 0.0f});
}

bool mt_router_bias_present(const struct mt_params *params)
{
    bool present = false;
    for (int64_t i = 0; i < params->layers && !present; i++)
        present = mt_tensor_present(&params->layer[i].correction);
    return present;
}

enum mt_status mt_router_bias_apply(const struct mt_safetensors *file, struct mt_params *params)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; status == MT_OK && i < file->tensor_count; i++) {
        const struct mt_safetensors_tensor *stored = &file->tensors[i];
        const struct mt_tensor *correction = &params->layer[layer_of(stored->name)].correction;
        if (!mt_tensor_present(correction)) {
            return mt_fail(mt_device_context(params->device), MT_ERR_USAGE,
                           "%s: the model was opened without room for these biases", file->path);
        }
        status = mt_params_upload_f32(params->device, stored, correction);
    }
    return status;
}

enum mt_status mt_router_bias_download(const struct mt_params *params, int experts, float *values)
{
    enum mt_status status = MT_OK;
    for (int64_t i = 0; i < params->layers && status == MT_OK; i++) {
        const struct mt_tensor *correction = &params->layer[i].correction;
        if (mt_tensor_present(correction)) {
            status = mt_device_download(params->device, values + i * experts, correction->data,
                                        (size_t)experts * sizeof *values);
        }
    }
    return status;
}

// ------------------------------------------------------------------ writing

static enum mt_status list_rows(struct mt_arena *arena, const struct mt_model_desc *desc,
                                struct mt_safetensors_spec *specs, size_t *count)
{
    enum mt_status status = MT_OK;
    *count = 0;
    for (int64_t layer = 0; layer < desc->layers && status == MT_OK; layer++) {
        char name[MT_PARAMS_NAME_BYTES];
        const char *copy = NULL;
        if (!mt_model_layer_is_moe(desc, layer)) continue;
        mt_params_correction_name(desc, layer, name, sizeof name);
        status = mt_arena_copy_text(arena, name, strlen(name), &copy);
        specs[(*count)++] = (struct mt_safetensors_spec){
            .name = copy, .dtype = MT_SAFETENSORS_F32, .rank = 1, .dim = {desc->experts}};
    }
    return status;
}

enum mt_status mt_router_bias_write(struct mt_context *ctx, const struct mt_model_desc *desc,
                                    const float *values, const char *path)
{
    struct mt_arena arena;
    struct mt_safetensors_writer out = {0};
    void *specs = NULL;
    size_t count = 0;
    mt_arena_init(&arena, ctx, ARENA_BLOCK_BYTES);
    enum mt_status status =
        mt_arena_allocate(&arena, (size_t)desc->layers * sizeof(struct mt_safetensors_spec), &specs);
    if (status == MT_OK) status = list_rows(&arena, desc, specs, &count);
    if (status == MT_OK) status = mt_safetensors_writer_open(ctx, path, specs, count, NULL, 0, &out);
    for (int64_t layer = 0; layer < desc->layers && status == MT_OK; layer++) {
        if (!mt_model_layer_is_moe(desc, layer)) continue;
        status = mt_safetensors_writer_write(&out, values + layer * desc->experts,
                                             (size_t)desc->experts * sizeof *values);
    }
    if (status == MT_OK) status = mt_safetensors_writer_finish(&out);
    mt_safetensors_writer_abandon(&out);
    mt_arena_free(&arena);
    return status;
}

enum mt_status mt_router_bias_save(const struct mt_params *params, const struct mt_model_desc *desc,
                                   const char *directory, const char *name)
{
    struct mt_context *ctx = mt_device_context(params->device);
    size_t count = (size_t)desc->layers * (size_t)desc->experts;
    void *values = NULL;
    char *path = NULL;
    if (!mt_router_bias_present(params)) return MT_OK;
    enum mt_status status = mt_allocate_array(ctx, count, sizeof(float), &values);
    if (status == MT_OK) status = mt_router_bias_download(params, desc->experts, values);
    if (status == MT_OK) status = mt_path_join(ctx, directory, name, &path);
    if (status == MT_OK) status = mt_router_bias_write(ctx, desc, values, path);
    mt_path_release(ctx, path);
    mt_release(ctx, values, count * sizeof(float));
    return status;
}
