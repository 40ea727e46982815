/* Reading choices: every number is looked at once, when the file is opened. */
#include "train/data/choices.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/files/digest.h"

#define SHOWN_IDS 8 // of a sequence that is not there

// ------------------------------------------------------------------ finding a sequence

#define HASH_KEY      0
#define FEWEST_PLACES 16

int64_t mt_sequence_start(const struct mt_sequence_index *index, size_t number)
{
    int64_t start = 0;
    memcpy(&start, (const char *)index->offsets + number * sizeof start, sizeof start);
    return start;
}

/* The ids of a sequence, as bytes. */
static const char *bytes_of(const struct mt_sequence_index *index, size_t number, size_t *bytes)
{
    int64_t start = mt_sequence_start(index, number);
    *bytes = (size_t)(mt_sequence_start(index, number + 1) - start) * sizeof(int32_t);
    return (const char *)index->ids + (size_t)start * sizeof(int32_t);
}

/* Where a sequence is, or would be. */
static size_t place_of(const struct mt_sequence_index *index, const void *ids, size_t bytes)
{
    size_t place = (size_t)mt_digest_short(ids, bytes, HASH_KEY) & (index->places - 1);
    for (; index->place[place] != 0; place = (place + 1) & (index->places - 1)) {
        size_t other = 0;
        const char *there = bytes_of(index, (size_t)index->place[place] - 1, &other);
        if (other == bytes && memcmp(there, ids, bytes) == 0) return place;
    }
    return place;
}

static void put(struct mt_sequence_index *index, size_t number)
{
    size_t bytes = 0;
    const char *ids = bytes_of(index, number, &bytes);
    size_t place = place_of(index, ids, bytes);
    if (index->place[place] == 0) index->place[place] = number + 1;
}

enum mt_status mt_sequence_index_reserve(struct mt_sequence_index *index, size_t count)
{
    size_t places = index->places > 0 ? index->places : FEWEST_PLACES;
    while (places / 2 < count) places *= 2;
    if (places == index->places) return MT_OK;
    void *memory = NULL;
    enum mt_status status = mt_allocate_array(index->ctx, places, sizeof *index->place, &memory);
    if (status != MT_OK) return status;
    mt_release(index->ctx, index->place, index->places * sizeof *index->place);
    index->place = memory;
    index->places = places;
    for (size_t s = 0; s < index->count; s++) put(index, s);
    return MT_OK;
}

void mt_sequence_index_free(struct mt_sequence_index *index)
{
    if (index->ctx == NULL) return;
    mt_release(index->ctx, index->place, index->places * sizeof *index->place);
    *index = (struct mt_sequence_index){0};
}

void mt_sequence_index_add(struct mt_sequence_index *index)
{
    put(index, index->count);
    index->count++;
}

bool mt_sequence_index_find(const struct mt_sequence_index *index, const int32_t *ids, int64_t length,
                            size_t *number)
{
    if (index->places == 0) return false;
    size_t place = place_of(index, ids, (size_t)length * sizeof *ids);
    if (index->place[place] == 0) return false;
    *number = (size_t)index->place[place] - 1;
    return true;
}

// ------------------------------------------------------------------ numbers

/* Elements of `experts` from `first` on, as many as there are slots; what no model has becomes INT32_MIN. */
static void read_row(const struct mt_choices *choices, int64_t first, int32_t *row)
{
    int slots = choices->shape.slots;
    size_t bytes = mt_safetensors_dtype_bytes(choices->experts->dtype);
    const unsigned char *data = (const unsigned char *)choices->experts->data + (size_t)first * bytes;
    switch (choices->experts->dtype) {
    case MT_SAFETENSORS_U8:
        for (int s = 0; s < slots; s++) row[s] = data[s];
        return;
    case MT_SAFETENSORS_I16:
        for (int s = 0; s < slots; s++) {
            int16_t value = 0;
            memcpy(&value, data + (size_t)s * bytes, sizeof value);
            row[s] = value;
        }
        return;
    case MT_SAFETENSORS_I32: memcpy(row, data, (size_t)slots * sizeof *row); return;
    default:
        for (int s = 0; s < slots; s++) {
            int64_t value = 0;
            memcpy(&value, data + (size_t)s * bytes, sizeof value);
            row[s] = value < -1 || value > INT32_MAX ? INT32_MIN : (int32_t)value;
        }
    }
}

// ------------------------------------------------------------------ opening

static enum mt_status find_tensor(const struct mt_safetensors *file, const char *name, int rank,
                                  const char *expected, const struct mt_safetensors_tensor **tensor)
{
    *tensor = mt_safetensors_find(file, name);
    if (*tensor == NULL) return mt_fail(file->ctx, MT_ERR_FORMAT, "%s: has no tensor '%s'", file->path, name);
    if ((*tensor)->rank == rank) return MT_OK;
    return mt_fail(file->ctx, MT_ERR_FORMAT, "%s: '%s' is %s, expected %s", file->path, name,
                   mt_safetensors_shape((*tensor)->rank, (*tensor)->dim).text, expected);
}

static enum mt_status check_type(const struct mt_safetensors *file,
                                 const struct mt_safetensors_tensor *tensor, bool right, const char *expected)
{
    if (right) return MT_OK;
    return mt_fail(file->ctx, MT_ERR_FORMAT, "%s: '%s' is %s, expected %s", file->path, tensor->name,
                   mt_safetensors_dtype_name(tensor->dtype), expected);
}

/* The three tensors, and whether they are of one piece and for this model. */
static enum mt_status find_tensors(struct mt_choices *choices)
{
    const struct mt_safetensors *file = &choices->file;
    const struct mt_choice_shape *shape = &choices->shape;
    const struct mt_safetensors_tensor *ids = NULL;
    const struct mt_safetensors_tensor *offsets = NULL;
    const struct mt_safetensors_tensor *experts = NULL;
    enum mt_status status = find_tensor(file, "ids", 1, "[tokens]", &ids);
    if (status == MT_OK) status = check_type(file, ids, ids->dtype == MT_SAFETENSORS_I32, "I32");
    if (status == MT_OK) status = find_tensor(file, "offsets", 1, "[sequences + 1]", &offsets);
    if (status == MT_OK) status = check_type(file, offsets, offsets->dtype == MT_SAFETENSORS_I64, "I64");
    if (status == MT_OK) status = find_tensor(file, "experts", 3, "[tokens, MoE layers, slots]", &experts);
    if (status != MT_OK) return status;
    bool whole = experts->dtype == MT_SAFETENSORS_U8 || experts->dtype == MT_SAFETENSORS_I16 ||
                 experts->dtype == MT_SAFETENSORS_I32 || experts->dtype == MT_SAFETENSORS_I64;
    status = check_type(file, experts, whole, "U8, I16, I32 or I64");
    if (status != MT_OK) return status;
    if (experts->dim[0] != ids->dim[0] || experts->dim[1] != shape->layers ||
        experts->dim[2] != shape->slots) {
        return mt_fail(file->ctx, MT_ERR_SHAPE,
                       "%s: 'experts' is %s, expected [%" PRId64
                       ", %d, %d]: a row for each of the ids, the model's MoE layers (dense ones have no "
                       "experts to choose), its experts per token",
                       file->path, mt_safetensors_shape(experts->rank, experts->dim).text, ids->dim[0],
                       shape->layers, shape->slots);
    }
    if (offsets->dim[0] < 2) return mt_fail(file->ctx, MT_ERR_FORMAT, "%s: holds no sequence", file->path);
    choices->experts = experts;
    choices->tokens = ids->dim[0];
    choices->index = (struct mt_sequence_index){.ctx = file->ctx, .ids = ids->data, .offsets = offsets->data};
    return MT_OK;
}

static enum mt_status index_sequences(struct mt_choices *choices)
{
    struct mt_sequence_index *index = &choices->index;
    const struct mt_safetensors_tensor *offsets = mt_safetensors_find(&choices->file, "offsets");
    size_t count = (size_t)offsets->dim[0] - 1;
    for (size_t s = 0; s <= count; s++) {
        int64_t start = mt_sequence_start(index, s);
        bool right = s == 0 ? start == 0 : start > mt_sequence_start(index, s - 1);
        right = right && start <= choices->tokens && (s < count || start == choices->tokens);
        if (right) continue;
        return mt_fail(choices->ctx, MT_ERR_FORMAT,
                       "%s: offsets[%zu] is %" PRId64 ", expected offsets that rise from 0 to %" PRId64,
                       choices->file.path, s, start, choices->tokens);
    }
    enum mt_status status = mt_sequence_index_reserve(index, count);
    for (size_t s = 0; s < count && status == MT_OK; s++) mt_sequence_index_add(index);
    return status;
}

/* What is wrong with a token's experts in one layer; NULL: nothing. */
static const char *fault_of(const struct mt_choice_shape *shape, const int32_t *row)
{
    bool absent = row[0] == -1;
    for (int s = 0; s < shape->slots; s++) {
        if ((row[s] == -1) != absent) return "is -1 in some slots, but not in all";
        if (absent) continue;
        if (row[s] < 0 || row[s] >= shape->experts) return "names an expert the model does not have";
        for (int m = 0; m < s; m++) {
            if (row[m] == row[s]) return "names an expert twice";
        }
    }
    return NULL;
}

static enum mt_status check_experts(const struct mt_choices *choices)
{
    const struct mt_choice_shape *shape = &choices->shape;
    int64_t rows = choices->tokens * shape->layers;
    for (int64_t row = 0; row < rows; row++) {
        read_row(choices, row * shape->slots, choices->batch); // which nobody uses yet
        const char *fault = fault_of(shape, choices->batch);
        if (fault == NULL) continue;
        return mt_fail(choices->ctx, MT_ERR_FORMAT,
                       "%s: experts[%" PRId64 ", %" PRId64 "] %s; it has experts 0 to %d", choices->file.path,
                       row / shape->layers, row % shape->layers, fault, shape->experts - 1);
    }
    return MT_OK;
}

/* The file is open. */
static enum mt_status open_rest(struct mt_choices *choices)
{
    void *memory = NULL;
    enum mt_status status = find_tensors(choices);
    if (status == MT_OK) status = index_sequences(choices);
    size_t each = (size_t)choices->shape.layers * (size_t)choices->shape.slots * sizeof *choices->batch;
    if (status == MT_OK) status = mt_allocate_array(choices->ctx, (size_t)choices->room, each, &memory);
    choices->batch = memory;
    if (status == MT_OK) status = check_experts(choices);
    if (status != MT_OK) mt_choices_close(choices);
    return status;
}

enum mt_status mt_choices_open(struct mt_context *ctx, const char *path, const struct mt_choice_shape *shape,
                               int64_t room, struct mt_choices *choices)
{
    *choices = (struct mt_choices){.ctx = ctx, .shape = *shape, .room = room};
    enum mt_status status = mt_safetensors_open(ctx, path, &choices->file);
    if (status == MT_OK) return open_rest(choices);
    *choices = (struct mt_choices){0};
    return status;
}

enum mt_status mt_choices_open_memory(struct mt_context *ctx, const char *path, const void *data,
                                      size_t bytes, const struct mt_choice_shape *shape, int64_t room,
                                      struct mt_choices *choices)
{
    *choices = (struct mt_choices){.ctx = ctx, .shape = *shape, .room = room};
    enum mt_status status = mt_safetensors_open_memory(ctx, path, data, bytes, &choices->file);
    if (status == MT_OK) return open_rest(choices);
    *choices = (struct mt_choices){0};
    return status;
}

void mt_choices_close(struct mt_choices *choices)
{
    if (choices->ctx == NULL) return;
    size_t each = (size_t)choices->shape.layers * (size_t)choices->shape.slots * sizeof *choices->batch;
    if (choices->batch != NULL) mt_release(choices->ctx, choices->batch, (size_t)choices->room * each);
    mt_sequence_index_free(&choices->index);
    mt_safetensors_close(&choices->file);
    *choices = (struct mt_choices){0};
}

// ------------------------------------------------------------------ a batch

/* Refuses a sequence that the file does not have. */
static enum mt_status find(const struct mt_choices *choices, const int32_t *ids, int64_t length,
                           size_t *number)
{
    char text[SHOWN_IDS * 14];
    int used = 0;
    if (mt_sequence_index_find(&choices->index, ids, length, number)) return MT_OK;
    text[0] = '\0';
    for (int64_t i = 0; i < length && i < SHOWN_IDS; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, "%s%" PRId32, i > 0 ? ", " : "", ids[i]);
    return mt_fail(choices->ctx, MT_ERR_USAGE,
                   "%s: has no choices for a sequence of %" PRId64
                   " tokens whose ids begin %s%s: record it with the tokenizer, data.template and "
                   "data.max_length of this run (metier train --record-choices)",
                   choices->file.path, length, text, length > SHOWN_IDS ? ", ..." : "");
}

/* The experts of one sequence, [tokens,L,k] in the file, go to its place in [L,T,k]. */
static void take_sequence(struct mt_choices *choices, size_t number, int64_t at, int64_t tokens)
{
    int64_t first = mt_sequence_start(&choices->index, number);
    int64_t count = mt_sequence_start(&choices->index, number + 1) - first;
    int64_t layers = choices->shape.layers;
    int64_t slots = choices->shape.slots;
    for (int64_t i = 0; i < count; i++) {
        for (int64_t l = 0; l < layers; l++)
            read_row(choices, ((first + i) * layers + l) * slots,
                     choices->batch + (l * tokens + at + i) * slots);
    }
}

enum mt_status mt_choices_take(struct mt_choices *choices, struct mt_batch *batch)
{
    if (batch->tokens > choices->room) {
        return mt_fail(choices->ctx, MT_ERR_USAGE,
                       "choices for a batch of %" PRId64 " tokens; there is room for %" PRId64, batch->tokens,
                       choices->room);
    }
    for (int64_t b = 0; b < batch->sequences; b++) {
        size_t number = 0;
        int64_t at = batch->offsets[b];
        int64_t length = batch->offsets[b + 1] - at;
        enum mt_status status = find(choices, batch->ids + at, length, &number);
        if (status != MT_OK) return status;
        take_sequence(choices, number, at, batch->tokens);
    }
    batch->chosen = choices->batch;
    return MT_OK;
}
