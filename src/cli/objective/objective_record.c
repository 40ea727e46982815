/*
 * metier objective: IN, the record of one MoE layer.
 *
 *     logits         F32 [N,n]                     needed
 *     expert_outputs F32 [N,k,d]                   in slot order; the terms that need it are refused without
 *     mask           BOOL, U8, I32 or I64 [N]      0 marks padding
 *     sequence       I32 or I64 [N]                which sequence a token belongs to: any ids
 *     router_weight  F32 [n,d]
 *     router_bias    F32 [n]                       added for selection only
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/objective/objective.h"
#include "formats/text/printable.h"

#define MAX_TOKENS  ((int64_t)1 << 30)
#define MAX_EXPERTS ((int64_t)1 << 16)
#define MAX_WIDTH   ((int64_t)1 << 24)
#define ANY         (-1) // a dimension that is not known beforehand
#define SHAPE_BYTES 160

static const char *const known_names[] = {"logits",   "expert_outputs", "mask",
                                          "sequence", "router_weight",  "router_bias"};
#define KNOWN_COUNT (sizeof known_names / sizeof known_names[0])

/* "F32 [4, 128]" */
static const char *describe(const struct mt_safetensors_tensor *info, char *text, size_t bytes)
{
    size_t used = (size_t)snprintf(text, bytes, "%s [", mt_safetensors_dtype_name(info->dtype));
    for (int i = 0; i < info->rank && used < bytes; i++) {
        used += (size_t)snprintf(text + used, bytes - used, "%s%" PRId64, i > 0 ? ", " : "", info->dim[i]);
    }
    if (used < bytes) (void)snprintf(text + used, bytes - used, "]");
    return text;
}

/* Refuses another shape than `dim`, in which ANY fits everything; `meaning` is the shape in words. */
static enum mt_status check_shape(const struct objective_record *record,
                                  const struct mt_safetensors_tensor *info, int rank, const int64_t *dim,
                                  const char *meaning)
{
    bool fits = info->rank == rank;
    for (int i = 0; fits && i < rank; i++) fits = dim[i] == ANY || dim[i] == info->dim[i];
    if (fits) return MT_OK;
    char found[SHAPE_BYTES];
    return mt_fail(record->ctx, MT_ERR_SHAPE, "%s: %s is %s, expected %s", record->path, info->name,
                   describe(info, found, sizeof found), meaning);
}

/* "3, 0, 12": where element `index` of a tensor stands. */
static void describe_place(const struct mt_safetensors_tensor *info, int64_t index, char *text, size_t bytes)
{
    int64_t place[MT_SAFETENSORS_MAX_RANK] = {0};
    for (int i = info->rank - 1; i >= 0; i--) {
        place[i] = index % info->dim[i];
        index /= info->dim[i];
    }
    size_t used = 0;
    for (int i = 0; i < info->rank && used < bytes; i++) {
        used += (size_t)snprintf(text + used, bytes - used, "%s%" PRId64, i > 0 ? ", " : "", place[i]);
    }
}

static enum mt_status check_finite(const struct objective_record *record,
                                   const struct mt_safetensors_tensor *info, const float *data)
{
    int64_t count = (int64_t)(info->bytes / sizeof(float));
    for (int64_t i = 0; i < count; i++) {
        if (isfinite(data[i])) continue;
        char place[SHAPE_BYTES] = "";
        describe_place(info, i, place, sizeof place);
        return mt_fail(record->ctx, MT_ERR_FORMAT, "%s: %s[%s] is %g; every number must be finite",
                       record->path, info->name, place, (double)data[i]);
    }
    return MT_OK;
}

/* The numbers of an F32 tensor, checked; *data stays NULL when the file does not have it. */
static enum mt_status read_floats(struct objective_record *record, const char *name, int rank,
                                  const int64_t *dim, const char *meaning, const float **data)
{
    const struct mt_safetensors_tensor *info = mt_safetensors_find(&record->file, name);
    if (info == NULL) return MT_OK;
    if (info->dtype != MT_SAFETENSORS_F32) {
        char found[SHAPE_BYTES];
        return mt_fail(record->ctx, MT_ERR_DTYPE, "%s: %s is %s, expected F32: convert it first",
                       record->path, name, describe(info, found, sizeof found));
    }
    enum mt_status status = check_shape(record, info, rank, dim, meaning);
    if (status != MT_OK) return status;
    struct mt_tensor view;
    status = mt_safetensors_view(record->ctx, info, &view, &record->copies[record->copy_count]);
    if (status != MT_OK) return mt_fail_within(record->ctx, status, "%s", record->path);
    record->copy_count += 1;
    status = check_finite(record, info, view.data);
    if (status == MT_OK) *data = view.data;
    return status;
}

/* Element `index` of a tensor of whole numbers, wherever it lies. */
static int64_t whole_number(const struct mt_safetensors_tensor *info, int64_t index)
{
    const unsigned char *at =
        (const unsigned char *)info->data + (size_t)index * mt_safetensors_dtype_bytes(info->dtype);
    int32_t narrow = 0;
    int64_t wide = 0;
    switch (info->dtype) {
    case MT_SAFETENSORS_I32: memcpy(&narrow, at, sizeof narrow); return narrow;
    case MT_SAFETENSORS_I64: memcpy(&wide, at, sizeof wide); return wide;
    default: return *at; // BOOL and U8: the callers let nothing else through
    }
}

/* The N whole numbers of a tensor, owned by the record; *data stays NULL when the file does not have it. */
static enum mt_status read_whole_numbers(struct objective_record *record, const char *name, bool bytes_too,
                                         int32_t **data)
{
    const struct mt_safetensors_tensor *info = mt_safetensors_find(&record->file, name);
    if (info == NULL) return MT_OK;
    bool is_bytes = info->dtype == MT_SAFETENSORS_BOOL || info->dtype == MT_SAFETENSORS_U8;
    bool is_whole = info->dtype == MT_SAFETENSORS_I32 || info->dtype == MT_SAFETENSORS_I64;
    if (!is_whole && !(bytes_too && is_bytes)) {
        char found[SHAPE_BYTES];
        return mt_fail(record->ctx, MT_ERR_DTYPE, "%s: %s is %s, expected %sI32 or I64", record->path, name,
                       describe(info, found, sizeof found), bytes_too ? "BOOL, U8, " : "");
    }
    char meaning[SHAPE_BYTES];
    (void)snprintf(meaning, sizeof meaning, "[%" PRId64 "]: one number for each row of logits",
                   record->arrays.tokens);
    enum mt_status status = check_shape(record, info, 1, &record->arrays.tokens, meaning);
    if (status != MT_OK) return status;
    void *block = NULL;
    status = mt_allocate(record->ctx, (size_t)record->arrays.tokens * sizeof(int32_t), &block);
    if (status != MT_OK) return status;
    *data = block;
    for (int64_t i = 0; i < record->arrays.tokens; i++) {
        int64_t value = whole_number(info, i);
        if (value < INT32_MIN || value > INT32_MAX) {
            return mt_fail(record->ctx, MT_ERR_FORMAT,
                           "%s: %s holds %" PRId64 " (element %" PRId64 "), which 32 bits cannot hold",
                           record->path, name, value, i);
        }
        (*data)[i] = (int32_t)value;
    }
    return MT_OK;
}

static enum mt_status read_logits(struct objective_record *record, int slots)
{
    const struct mt_safetensors_tensor *info = mt_safetensors_find(&record->file, "logits");
    if (info == NULL) {
        char others[2 * MT_PRINTABLE_BYTES];
        cli_objective_record_unused(record, others, sizeof others);
        return mt_fail(record->ctx, MT_ERR_FORMAT, "%s: there is no tensor logits%s%s", record->path,
                       others[0] != '\0' ? "; the file holds " : "", others);
    }
    enum mt_status status = read_floats(record, "logits", 2, (int64_t[]){ANY, ANY},
                                        "F32 [N, n]: tokens, experts", &record->arrays.logits);
    if (status != MT_OK) return status;
    if (info->dim[0] < 1 || info->dim[0] > MAX_TOKENS || info->dim[1] < 1 || info->dim[1] > MAX_EXPERTS) {
        char found[SHAPE_BYTES];
        return mt_fail(record->ctx, MT_ERR_SHAPE,
                       "%s: logits is %s, expected 1 to %" PRId64 " tokens and 1 to %" PRId64 " experts",
                       record->path, describe(info, found, sizeof found), MAX_TOKENS, MAX_EXPERTS);
    }
    record->arrays.tokens = info->dim[0];
    record->arrays.experts = (int)info->dim[1];
    if (slots <= record->arrays.experts) return MT_OK;
    return mt_fail(record->ctx, MT_ERR_USAGE, "--top-k is %d, but logits has only %d experts (%s)", slots,
                   record->arrays.experts, record->path);
}

static enum mt_status read_rows(struct objective_record *record, int slots)
{
    struct mt_objective_arrays *arrays = &record->arrays;
    char meaning[SHAPE_BYTES];
    (void)snprintf(meaning, sizeof meaning,
                   "F32 [%" PRId64 ", %d, d]: the tokens of logits, --top-k, the width", arrays->tokens,
                   slots);
    enum mt_status status = read_floats(record, "expert_outputs", 3, (int64_t[]){arrays->tokens, slots, ANY},
                                        meaning, &arrays->expert_outputs);
    if (status != MT_OK) return status;
    int64_t width = ANY;
    if (arrays->expert_outputs != NULL) width = mt_safetensors_find(&record->file, "expert_outputs")->dim[2];
    (void)snprintf(meaning, sizeof meaning, "F32 [%d, d]: the experts of logits, the width%s",
                   arrays->experts, width != ANY ? " of expert_outputs" : "");
    status = read_floats(record, "router_weight", 2, (int64_t[]){arrays->experts, width}, meaning,
                         &arrays->router_weight);
    if (status != MT_OK) return status;
    if (arrays->router_weight != NULL) width = mt_safetensors_find(&record->file, "router_weight")->dim[1];
    if (width != ANY && (width < 1 || width > MAX_WIDTH)) {
        return mt_fail(record->ctx, MT_ERR_SHAPE, "%s: the width is %" PRId64 ", expected 1 to %" PRId64,
                       record->path, width, MAX_WIDTH);
    }
    arrays->width = width != ANY ? width : 0;
    return MT_OK;
}

/* mask and sequence, and how many tokens count. */
static enum mt_status read_tokens(struct objective_record *record)
{
    enum mt_status status = read_whole_numbers(record, "mask", true, &record->mask);
    if (status == MT_OK) status = read_whole_numbers(record, "sequence", false, &record->sequence);
    if (status != MT_OK) return status;
    record->arrays.mask = record->mask;
    record->arrays.sequence = record->sequence;
    record->counted = record->arrays.tokens;
    if (record->mask == NULL) return MT_OK;
    record->counted = 0;
    for (int64_t i = 0; i < record->arrays.tokens; i++) {
        record->mask[i] = record->mask[i] != 0;
        record->counted += record->mask[i];
    }
    if (record->counted > 0) return MT_OK;
    return mt_fail(record->ctx, MT_ERR_FORMAT, "%s: mask leaves out every token", record->path);
}

static enum mt_status read_bias(struct objective_record *record)
{
    int64_t experts = record->arrays.experts;
    char meaning[SHAPE_BYTES];
    (void)snprintf(meaning, sizeof meaning, "F32 [%" PRId64 "]: the experts of logits", experts);
    return read_floats(record, "router_bias", 1, &experts, meaning, &record->arrays.router_bias);
}

enum mt_status cli_objective_record_read(struct mt_context *ctx, const char *path, int slots,
                                         struct objective_record *record)
{
    *record = (struct objective_record){.ctx = ctx, .path = path};
    struct stat info;
    if (stat(path, &info) != 0 && errno == ENOENT) {
        return mt_fail(ctx, MT_ERR_USAGE, "%s: there is no such file", path);
    }
    enum mt_status status = mt_safetensors_open(ctx, path, &record->file);
    if (status == MT_OK) status = read_logits(record, slots);
    if (status == MT_OK) status = read_rows(record, slots);
    if (status == MT_OK) status = read_tokens(record);
    if (status == MT_OK) status = read_bias(record);
    return status;
}

void cli_objective_record_free(struct objective_record *record)
{
    size_t bytes = (size_t)record->arrays.tokens * sizeof(int32_t);
    mt_release(record->ctx, record->mask, bytes);
    mt_release(record->ctx, record->sequence, bytes);
    for (int i = 0; i < record->copy_count; i++) mt_buffer_release(&record->copies[i]);
    mt_safetensors_close(&record->file);
    *record = (struct objective_record){.ctx = record->ctx};
}

void cli_objective_record_unused(const struct objective_record *record, char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < record->file.tensor_count; i++) {
        const char *name = record->file.tensors[i].name;
        bool known = false;
        for (size_t j = 0; j < KNOWN_COUNT; j++) known = known || strcmp(name, known_names[j]) == 0;
        if (known) continue;
        struct mt_printable printable = mt_printable(name);
        if (used + strlen(printable.text) + sizeof ", ..." > bytes) {
            (void)snprintf(text + used, bytes - used, ", ...");
            return;
        }
        used += (size_t)snprintf(text + used, bytes - used, "%s%s", used > 0 ? ", " : "", printable.text);
    }
}
