/*
 * Listing, writing, reading. Values and moments are flat; in the files they are cut along the parameters,
 * without the gaps between them, so that the layout in memory may change.
 */
#include "train/state/state_tensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "formats/text/printable.h"

#define ARENA_BLOCK_BYTES 65536
#define PIECE_BYTES       ((size_t)4 << 20) // on the way from a device whose memory the host cannot read
#define NAME_BYTES        (MT_PARAMS_NAME_BYTES + 64)

#define VALUE_PREFIX      "value."
#define FIRST_PREFIX      "first_moment."
#define SECOND_PREFIX     "second_moment."

// ------------------------------------------------------------------ listing

/* What of a tensor is written or read. */
struct extent {
    int64_t first, count;
    void *data; // of the first
};

static enum mt_status add(struct mt_state_tensors *list, const char *name, const struct mt_tensor *tensor,
                          const struct extent *extent, bool on_device)
{
    const char *copy = NULL;
    if (list->count == list->capacity)
        return mt_fail(list->arena.ctx, MT_ERR_INTERNAL, "a tensor too many: %s", name);
    enum mt_status status = mt_arena_copy_text(&list->arena, name, strlen(name), &copy);
    if (status != MT_OK) return status;
    struct mt_safetensors_spec *spec = &list->specs[list->count];
    *spec = (struct mt_safetensors_spec){
        .name = copy, .dtype = mt_safetensors_dtype_of(tensor->dtype), .rank = tensor->rank};
    for (int axis = 0; axis < tensor->rank; axis++) spec->dim[axis] = tensor->dim[axis];
    list->places[list->count++] = (struct mt_state_place){
        .data = extent->data, .first = extent->first, .count = extent->count, .on_device = on_device};
    return MT_OK;
}

static enum mt_status add_whole(struct mt_state_tensors *list, const char *name,
                                const struct mt_tensor *tensor, bool on_device)
{
    const struct extent all = {.count = mt_tensor_count(tensor), .data = tensor->data};
    return add(list, name, tensor, &all, on_device);
}

/* Numbers on the host; wide ones come first, so that everything in the file is aligned. */
static enum mt_status add_numbers(struct mt_state_tensors *list, const char *name, double *numbers,
                                  size_t count)
{
    if (count == 0) return MT_OK;
    struct mt_tensor tensor = mt_tensor_1d(numbers, MT_F64, (int64_t)count);
    return add_whole(list, name, &tensor, false);
}

/* Which array of what is trained. */
struct array {
    const char *prefix;
    const struct mt_tensor *moments; // NULL: the values
};

/* What of a parameter's array this rank writes or reads. */
static struct extent extent_of(const struct mt_run_tensors *run, const struct array *array,
                               const struct mt_param *param, bool reading)
{
    struct mt_own_part part = mt_buckets_part(run->buckets, param);
    if (array->moments != NULL)
        return (struct extent){part.first, part.count, (float *)array->moments->data + part.moment};
    if (!mt_param_is_here(param)) return (struct extent){0};
    if (reading) return (struct extent){0, mt_tensor_count(&param->value), param->value.data};
    return (struct extent){part.first, part.count, (float *)param->value.data + part.first};
}

static enum mt_status add_trained(struct mt_state_tensors *list, const struct mt_run_tensors *run,
                                  const struct array *array, bool reading)
{
    const struct mt_params *params = run->params;
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < params->trained_count && status == MT_OK; i++) {
        char name[NAME_BYTES];
        const struct mt_param *param = &params->trained[i];
        struct mt_tensor tensor = param->value;
        struct extent extent = extent_of(run, array, param, reading);
        if (strlen(param->name) >= MT_PARAMS_NAME_BYTES)
            return mt_fail(list->arena.ctx, MT_ERR_INTERNAL, "too long a name: %s", param->name);
        (void)snprintf(name, sizeof name, "%s%s", array->prefix, param->name);
        if (!reading && extent.count == 0) continue;
        if (!reading && extent.count < mt_tensor_count(&tensor)) {
            (void)snprintf(name, sizeof name, "%s%s[%" PRId64 ":%" PRId64 "]", array->prefix, param->name,
                           extent.first, extent.first + extent.count);
            tensor = mt_tensor_1d(extent.data, MT_F32, extent.count);
        }
        status = add(list, name, &tensor, &extent, true);
    }
    return status;
}

static enum mt_status add_biases(struct mt_state_tensors *list, const struct mt_params *params)
{
    enum mt_status status = MT_OK;
    for (int64_t layer = 0; layer < params->layers && status == MT_OK; layer++) {
        char name[64];
        if (!mt_tensor_present(&params->layer[layer].correction)) continue;
        (void)snprintf(name, sizeof name, "correction_bias.%" PRId64, layer);
        status = add_whole(list, name, &params->layer[layer].correction, true);
    }
    return status;
}

static enum mt_status check_moments(struct mt_context *ctx, const struct mt_run_tensors *run, bool reading)
{
    const struct mt_tensor *moments[] = {&run->first, &run->second};
    int64_t wanted = (int64_t)run->buckets->own;
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

/* What every rank has alike, the first writes. */
static enum mt_status list_all(struct mt_state_tensors *list, const struct mt_run_tensors *run, bool reading)
{
    const struct array arrays[] = {
        {VALUE_PREFIX, NULL}, {FIRST_PREFIX, &run->first}, {SECOND_PREFIX, &run->second}};
    bool common = reading || mt_comm_rank(run->comm) == 0;
    size_t array_count = mt_tensor_present(&run->first) ? 3 : 1;
    size_t state_count = 0;
    double *state = run->objective != NULL ? mt_objective_state(run->objective, &state_count) : NULL;
    enum mt_status status = MT_OK;
    if (common) status = add_numbers(list, "objective", state, state_count);
    if (status == MT_OK && common) status = add_numbers(list, "running", run->running, run->running_count);
    for (size_t i = 0; i < array_count && status == MT_OK; i++)
        status = add_trained(list, run, &arrays[i], reading);
    if (status == MT_OK && common) status = add_biases(list, run->params);
    return status;
}

enum mt_status mt_state_tensors_list(struct mt_context *ctx, const struct mt_run_tensors *run, bool reading,
                                     struct mt_state_tensors *list)
{
    void *specs = NULL;
    void *places = NULL;
    *list = (struct mt_state_tensors){0};
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
    if (status == MT_OK) status = list_all(list, run, reading);
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

/* By way of memory on the host. */
static enum mt_status write_pieces(struct mt_device *device, const char *data, size_t bytes, void *piece,
                                   struct mt_safetensors_writer *writer)
{
    enum mt_status status = MT_OK;
    for (size_t first = 0; first < bytes && status == MT_OK; first += PIECE_BYTES) {
        size_t count = bytes - first < PIECE_BYTES ? bytes - first : PIECE_BYTES;
        status = mt_device_download(device, piece, data + first, count);
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
    if (!direct) status = mt_allocate(ctx, PIECE_BYTES, &piece);
    if (status == MT_OK) {
        status =
            mt_safetensors_writer_open_digest(ctx, path, list->specs, list->count, NULL, 0, digest, &writer);
    }
    for (size_t i = 0; i < list->count && status == MT_OK; i++) {
        const struct mt_state_place *place = &list->places[i];
        size_t bytes = bytes_of(&list->specs[i]);
        status = place->on_device && !direct ? write_pieces(device, place->data, bytes, piece, &writer)
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

static bool listed(const struct mt_state_tensors *list, const struct mt_state_piece *piece)
{
    for (size_t i = 0; i < list->count; i++) {
        const char *name = list->specs[i].name;
        if (strlen(name) == piece->name_length && strncmp(name, piece->stored->name, piece->name_length) == 0)
            return true;
    }
    return false;
}

/* All of a tensor is there, in its type: as it is, or its stretches, which follow each other. */
static enum mt_status check_tensor(struct mt_context *ctx, const struct mt_safetensors_spec *spec,
                                   const struct mt_state_pieces *pieces, size_t *counted)
{
    size_t count = 0;
    const struct mt_state_piece *piece = mt_state_pieces_find(pieces, spec->name, &count);
    if (piece == NULL)
        return mt_fail(ctx, MT_ERR_SHAPE, "%s: does not have %s, which this run trains or keeps",
                       pieces->path, spec->name);
    bool same = piece->whole && count == 1 && piece->stored->rank == spec->rank;
    for (int axis = 0; same && axis < spec->rank; axis++) same = piece->stored->dim[axis] == spec->dim[axis];
    int64_t next = 0;
    bool right = true;
    for (size_t i = 0; i < count; i++) {
        right = right && piece[i].stored->dtype == spec->dtype && piece[i].first == next;
        right = right && (same || !piece[i].whole);
        next = piece[i].first + piece[i].count;
    }
    *counted += count;
    if (right && next == (int64_t)(bytes_of(spec) / mt_safetensors_dtype_bytes(spec->dtype))) return MT_OK;
    return mt_fail(ctx, MT_ERR_SHAPE,
                   "%s: %s has a different shape or type than in this run, or is incomplete", pieces->path,
                   spec->name);
}

/* Everything the run has is there, and nothing else is. */
static enum mt_status check_tensors(struct mt_context *ctx, const struct mt_state_tensors *list,
                                    const struct mt_state_pieces *pieces, bool with_moments)
{
    size_t counted = 0;
    size_t stored = 0;
    for (size_t i = 0; i < list->count; i++) {
        enum mt_status status = check_tensor(ctx, &list->specs[i], pieces, &counted);
        if (status != MT_OK) return status;
    }
    for (size_t i = 0; i < pieces->count; i++)
        stored += with_moments || !is_moment(pieces->list[i].stored->name) ? 1 : 0;
    if (counted == stored) return MT_OK;
    for (size_t i = 0; i < pieces->count; i++) {
        const char *name = pieces->list[i].stored->name;
        if ((!with_moments && is_moment(name)) || listed(list, &pieces->list[i])) continue;
        return mt_fail(ctx, MT_ERR_SHAPE, "%s: has %s, which this run does not train or keep", pieces->path,
                       mt_printable(name).text);
    }
    return MT_OK;
}

/* Those of a place's numbers that are in a piece. */
static enum mt_status take(struct mt_device *device, const struct mt_state_place *place,
                           const struct mt_state_piece *piece)
{
    size_t size = mt_safetensors_dtype_bytes(piece->stored->dtype);
    int64_t place_end = place->first + place->count;
    int64_t piece_end = piece->first + piece->count;
    int64_t from = place->first > piece->first ? place->first : piece->first;
    int64_t to = place_end < piece_end ? place_end : piece_end;
    if (from >= to) return MT_OK;
    char *target = (char *)place->data + (size_t)(from - place->first) * size;
    const char *source = (const char *)piece->stored->data + (size_t)(from - piece->first) * size;
    if (place->on_device) return mt_device_upload(device, target, source, (size_t)(to - from) * size);
    memcpy(target, source, (size_t)(to - from) * size);
    return MT_OK;
}

enum mt_status mt_state_tensors_read(struct mt_device *device, const struct mt_state_tensors *list,
                                     const struct mt_state_pieces *pieces, bool with_moments)
{
    enum mt_status status = check_tensors(mt_device_context(device), list, pieces, with_moments);
    for (size_t i = 0; i < list->count && status == MT_OK; i++) {
        size_t count = 0;
        const struct mt_state_piece *piece = mt_state_pieces_find(pieces, list->specs[i].name, &count);
        for (size_t k = 0; k < count && status == MT_OK; k++)
            status = take(device, &list->places[i], &piece[k]);
    }
    return status;
}
