/*
 * Listing, writing, reading. The moments are one flat buffer each, laid out like the masters; in the file
 * they are cut along the parameters, without the gaps between them, so that the layout in memory may change.
 */
#include "train/state/state_tensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "formats/text/printable.h"

#define ARENA_BLOCK_BYTES 65536
#define PIECE_BYTES       ((size_t)4 << 20) // on the way from a device whose memory the host cannot read

#define VALUE_PREFIX      "value."
#define FIRST_PREFIX      "first_moment."
#define SECOND_PREFIX     "second_moment."

// ------------------------------------------------------------------ listing

static enum mt_status add(struct mt_state_tensors *list, const char *prefix, const char *name,
                          const struct mt_tensor *tensor, bool on_device)
{
    char text[MT_PARAMS_NAME_BYTES + 64];
    const char *copy = NULL;
    int length = snprintf(text, sizeof text, "%s%s", prefix, name);
    if (list->count == list->capacity || length < 0 || (size_t)length >= sizeof text)
        return mt_fail(list->arena.ctx, MT_ERR_INTERNAL, "a tensor too many, or too long a name: %s", name);
    enum mt_status status = mt_arena_copy_text(&list->arena, text, (size_t)length, &copy);
    if (status != MT_OK) return status;
    struct mt_safetensors_spec *spec = &list->specs[list->count];
    *spec = (struct mt_safetensors_spec){
        .name = copy, .dtype = mt_safetensors_dtype_of(tensor->dtype), .rank = tensor->rank};
    for (int axis = 0; axis < tensor->rank; axis++) spec->dim[axis] = tensor->dim[axis];
    list->places[list->count++] = (struct mt_state_place){.data = tensor->data, .on_device = on_device};
    return MT_OK;
}

/* Numbers on the host; wide ones come first, so that everything in the file is aligned. */
static enum mt_status add_numbers(struct mt_state_tensors *list, const char *name, double *numbers,
                                  size_t count)
{
    if (count == 0) return MT_OK;
    struct mt_tensor tensor = mt_tensor_1d(numbers, MT_F64, (int64_t)count);
    return add(list, "", name, &tensor, false);
}

/* One array of everything trainable: `memory`, flat, is laid out like the masters. */
static enum mt_status add_trained(struct mt_state_tensors *list, enum mt_shard_array array,
                                  const void *memory, const char *prefix)
{
    const struct mt_params *params = list->params;
    for (size_t i = 0; i < params->trained_count; i++) {
        const struct mt_param *param = &params->trained[i];
        struct mt_tensor part = param->value;
        if (mt_param_is_here(param)) {
            ptrdiff_t offset = (char *)part.data - (char *)params->masters.data;
            part.data = (char *)memory + offset;
        }
        enum mt_status status = add(list, prefix, param->name, &part, true);
        if (status != MT_OK) return status;
        list->places[list->count - 1].param = param;
        list->places[list->count - 1].array = array;
    }
    return MT_OK;
}

static enum mt_status add_biases(struct mt_state_tensors *list, const struct mt_params *params)
{
    enum mt_status status = MT_OK;
    for (int64_t layer = 0; layer < params->layers && status == MT_OK; layer++) {
        char name[64];
        if (!mt_tensor_present(&params->layer[layer].correction)) continue;
        (void)snprintf(name, sizeof name, "%" PRId64, layer);
        status = add(list, "correction_bias.", name, &params->layer[layer].correction, true);
    }
    return status;
}

static enum mt_status check_moments(struct mt_context *ctx, const struct mt_run_tensors *run, bool reading)
{
    const struct mt_tensor *moments[] = {&run->first, &run->second};
    int64_t wanted = (int64_t)(run->params->masters.bytes / sizeof(float));
    bool absent = !mt_tensor_present(&run->first) && !mt_tensor_present(&run->second);
    if (absent && (reading || run->params->trained_count == 0)) return MT_OK;
    for (size_t i = 0; i < sizeof moments / sizeof moments[0]; i++) {
        char text[128];
        if (mt_tensor_present(moments[i]) && moments[i]->dtype == MT_F32 &&
            mt_tensor_is_contiguous(moments[i]) && mt_tensor_count(moments[i]) == wanted)
            continue;
        return mt_fail(ctx, MT_ERR_SHAPE, "a moment of the optimizer is %s, expected f32 [%" PRId64 "]",
                       mt_tensor_describe(moments[i], text, sizeof text), wanted);
    }
    return MT_OK;
}

static enum mt_status list_all(struct mt_state_tensors *list, const struct mt_run_tensors *run)
{
    const struct mt_params *params = run->params;
    size_t state_count = 0;
    double *state = run->objective != NULL ? mt_objective_state(run->objective, &state_count) : NULL;
    enum mt_status status = add_numbers(list, "objective", state, state_count);
    if (status == MT_OK) status = add_numbers(list, "running", run->running, run->running_count);
    if (status == MT_OK) status = add_trained(list, MT_SHARD_VALUES, params->masters.data, VALUE_PREFIX);
    if (status == MT_OK && mt_tensor_present(&run->first)) {
        status = add_trained(list, MT_SHARD_FIRST_MOMENTS, run->first.data, FIRST_PREFIX);
        if (status == MT_OK)
            status = add_trained(list, MT_SHARD_SECOND_MOMENTS, run->second.data, SECOND_PREFIX);
    }
    if (status == MT_OK) status = add_biases(list, params);
    return status;
}

enum mt_status mt_state_tensors_list(struct mt_context *ctx, const struct mt_run_tensors *run, bool reading,
                                     struct mt_state_tensors *list)
{
    void *specs = NULL;
    void *places = NULL;
    *list = (struct mt_state_tensors){.params = run->params};
    mt_arena_init(&list->arena, ctx, ARENA_BLOCK_BYTES);
    enum mt_status status = check_moments(ctx, run, reading);
    if (status != MT_OK) return status;
    list->capacity = 2 + 3 * run->params->trained_count + (size_t)run->params->layers;
    status = mt_arena_allocate(&list->arena, list->capacity * sizeof *list->specs, &specs);
    if (status == MT_OK) {
        status = mt_arena_allocate(&list->arena, list->capacity * sizeof *list->places, &places);
    }
    list->specs = specs;
    list->places = places;
    if (status == MT_OK) status = list_all(list, run);
    if (status != MT_OK) mt_state_tensors_free(list);
    return status;
}

void mt_state_tensors_free(struct mt_state_tensors *list)
{
    mt_arena_free(&list->arena);
    *list = (struct mt_state_tensors){.arena = list->arena};
}

// ------------------------------------------------------------------ writing

static size_t bytes_of(const struct mt_safetensors_spec *spec)
{
    size_t bytes = mt_safetensors_dtype_bytes(spec->dtype);
    for (int axis = 0; axis < spec->rank; axis++) bytes *= (size_t)spec->dim[axis];
    return bytes;
}

/* By way of memory on the host: from the device, or from the rank that holds it. */
static enum mt_status write_pieces(const struct mt_params *params, const struct mt_state_place *place,
                                   size_t bytes, void *piece, struct mt_safetensors_writer *writer)
{
    const char *data = place->data;
    enum mt_status status = MT_OK;
    for (size_t first = 0; first < bytes && status == MT_OK; first += PIECE_BYTES) {
        size_t count = bytes - first < PIECE_BYTES ? bytes - first : PIECE_BYTES;
        if (data != NULL) {
            status = mt_device_download(params->device, piece, data + first, count);
        } else {
            mt_shards_ask(params, place->param, place->array, (int64_t)(first / sizeof(float)),
                          (int64_t)(count / sizeof(float)), piece);
        }
        if (status == MT_OK) status = mt_safetensors_writer_write(writer, piece, count);
    }
    return status;
}

enum mt_status mt_state_tensors_write(struct mt_device *device, const struct mt_state_tensors *list,
                                      const char *path, struct mt_digest *digest)
{
    struct mt_context *ctx = mt_device_context(device);
    struct mt_safetensors_writer writer = {0};
    void *piece = NULL;
    bool direct = mt_device_on_host(device);
    enum mt_status status = MT_OK;
    if (!direct || list->params->expert_ranks != NULL) status = mt_allocate(ctx, PIECE_BYTES, &piece);
    if (status == MT_OK) {
        status =
            mt_safetensors_writer_open_digest(ctx, path, list->specs, list->count, NULL, 0, digest, &writer);
    }
    for (size_t i = 0; i < list->count && status == MT_OK; i++) {
        const struct mt_state_place *place = &list->places[i];
        size_t bytes = bytes_of(&list->specs[i]);
        bool in_pieces = place->data == NULL || (place->on_device && !direct);
        status = in_pieces ? write_pieces(list->params, place, bytes, piece, &writer)
                           : mt_safetensors_writer_write(&writer, place->data, bytes);
    }
    if (status == MT_OK) status = mt_safetensors_writer_finish(&writer);
    mt_safetensors_writer_abandon(&writer);
    mt_release(ctx, piece, PIECE_BYTES);
    return status;
}

// ------------------------------------------------------------------ reading

static bool is_moment(const char *name)
{
    return strncmp(name, FIRST_PREFIX, strlen(FIRST_PREFIX)) == 0 ||
           strncmp(name, SECOND_PREFIX, strlen(SECOND_PREFIX)) == 0;
}

static bool listed(const struct mt_state_tensors *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->specs[i].name, name) == 0) return true;
    }
    return false;
}

static enum mt_status check_tensor(const struct mt_safetensors_spec *spec, const struct mt_safetensors *file)
{
    const struct mt_safetensors_tensor *stored = mt_safetensors_find(file, spec->name);
    if (stored == NULL)
        return mt_fail(file->ctx, MT_ERR_SHAPE, "%s: does not have %s, which this run trains or keeps",
                       file->path, spec->name);
    bool same = stored->dtype == spec->dtype && stored->rank == spec->rank;
    for (int axis = 0; same && axis < spec->rank; axis++) same = stored->dim[axis] == spec->dim[axis];
    if (same) return MT_OK;
    return mt_fail(file->ctx, MT_ERR_SHAPE, "%s: %s has another shape or type than in this run", file->path,
                   spec->name);
}

/* Everything the run has is there, and nothing else is. */
static enum mt_status check_tensors(const struct mt_state_tensors *list, const struct mt_safetensors *file,
                                    bool with_moments)
{
    size_t counted = 0;
    for (size_t i = 0; i < list->count; i++) {
        enum mt_status status = check_tensor(&list->specs[i], file);
        if (status != MT_OK) return status;
    }
    for (size_t i = 0; i < file->tensor_count; i++) {
        counted += with_moments || !is_moment(file->tensors[i].name) ? 1 : 0;
    }
    if (counted == list->count) return MT_OK;
    for (size_t i = 0; i < file->tensor_count; i++) {
        const char *name = file->tensors[i].name;
        if ((!with_moments && is_moment(name)) || listed(list, name)) continue;
        return mt_fail(file->ctx, MT_ERR_SHAPE, "%s: has %s, which this run does not train or keep",
                       file->path, mt_printable(name).text);
    }
    return MT_OK;
}

enum mt_status mt_state_tensors_read(struct mt_device *device, const struct mt_state_tensors *list,
                                     const struct mt_safetensors *file, bool with_moments)
{
    enum mt_status status = check_tensors(list, file, with_moments);
    for (size_t i = 0; i < list->count && status == MT_OK; i++) {
        const struct mt_safetensors_tensor *stored = mt_safetensors_find(file, list->specs[i].name);
        const struct mt_state_place *place = &list->places[i];
        if (place->data == NULL) continue; // its rank takes it
        if (place->on_device) {
            status = mt_device_upload(device, place->data, stored->data, (size_t)stored->bytes);
        } else {
            memcpy(place->data, stored->data, (size_t)stored->bytes);
        }
    }
    return status;
}
