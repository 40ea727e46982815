/* safetensors reader: nothing in the header is believed before it has been checked. */
#include "formats/safetensors/safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/text/json.h"
#include "formats/text/printable.h"

#define LENGTH_BYTES      8
#define ARENA_BLOCK_BYTES 65536

static const struct mt_json_limits header_limits = {
    .max_bytes = MT_SAFETENSORS_HEADER_BYTES,
    .max_values = 4000000, // some 250,000 tensors; bounds the parsed form to a few hundred MB
    .max_depth = 3,        // {name: {shape: []}}
};

// ------------------------------------------------------------------ types

static const struct {
    const char *name;
    size_t bytes;
} dtypes[] = {
#define DTYPE_ROW(enumerator, text, size) [enumerator] = {(text), (size)},
    MT_SAFETENSORS_DTYPE_LIST(DTYPE_ROW)
#undef DTYPE_ROW
};

#define DTYPE_WORD(enumerator, text, size) " " text
static const char known_dtypes[] = MT_SAFETENSORS_DTYPE_LIST(DTYPE_WORD);
#undef DTYPE_WORD

const char *mt_safetensors_dtype_name(enum mt_safetensors_dtype dtype)
{
    return (unsigned)dtype < MT_SAFETENSORS_DTYPE_COUNT ? dtypes[dtype].name : "unknown";
}

size_t mt_safetensors_dtype_bytes(enum mt_safetensors_dtype dtype)
{
    return dtypes[dtype].bytes;
}

struct mt_safetensors_shape mt_safetensors_shape(int rank, const int64_t *dim)
{
    struct mt_safetensors_shape shape = {"["};
    size_t used = 1;
    for (int i = 0; i < rank; i++) {
        used += (size_t)snprintf(shape.text + used, sizeof shape.text - used, "%s%lld", i > 0 ? ", " : "",
                                 (long long)dim[i]);
    }
    (void)snprintf(shape.text + used, sizeof shape.text - used, "]");
    return shape;
}

enum mt_safetensors_dtype mt_safetensors_dtype_of(enum mt_dtype dtype)
{
    switch (dtype) {
    case MT_F32: return MT_SAFETENSORS_F32;
    case MT_BF16: return MT_SAFETENSORS_BF16;
    case MT_F16: return MT_SAFETENSORS_F16;
    case MT_I32: return MT_SAFETENSORS_I32;
    case MT_U8: return MT_SAFETENSORS_U8;
    case MT_F64:
    case MT_DTYPE_COUNT: break;
    }
    return MT_SAFETENSORS_F64;
}

enum mt_status mt_safetensors_size(struct mt_context *ctx, const char *file, const char *name,
                                   enum mt_safetensors_dtype dtype, int rank, const int64_t *dim,
                                   uint64_t *bytes)
{
    if (rank < 0 || rank > MT_SAFETENSORS_MAX_RANK) {
        return mt_fail(ctx, MT_ERR_FORMAT, "%s: tensor %s has %d dimensions, the limit is %d", file,
                       mt_printable(name).text, rank, MT_SAFETENSORS_MAX_RANK);
    }
    // The product without its zeros must fit too, so that strides computed from it never overflow.
    uint64_t product = mt_safetensors_dtype_bytes(dtype);
    bool empty = false;
    for (int i = 0; i < rank; i++) {
        if (dim[i] < 0) {
            return mt_fail(ctx, MT_ERR_FORMAT, "%s: tensor %s: dimension %d is %" PRId64, file,
                           mt_printable(name).text, i, dim[i]);
        }
        empty = empty || dim[i] == 0;
        uint64_t factor = dim[i] == 0 ? 1 : (uint64_t)dim[i];
        if (product > (uint64_t)INT64_MAX / factor) {
            return mt_fail(ctx, MT_ERR_FORMAT, "%s: tensor %s: its shape is too large to address", file,
                           mt_printable(name).text);
        }
        product *= factor;
    }
    *bytes = empty ? 0 : product;
    return MT_OK;
}

// ------------------------------------------------------------------ one entry of the header

static enum mt_status read_dtype(const struct mt_json_node *entry, enum mt_safetensors_dtype *dtype)
{
    const char *text = NULL;
    enum mt_status status = mt_json_get_string(entry, "dtype", &text);
    if (status != MT_OK) return status;
    for (int i = 0; i < MT_SAFETENSORS_DTYPE_COUNT; i++) {
        if (strcmp(text, dtypes[i].name) == 0) {
            *dtype = (enum mt_safetensors_dtype)i;
            return MT_OK;
        }
    }
    (void)mt_json_fail(entry, "has the data type %s; known are%s", mt_printable(text).text, known_dtypes);
    return MT_ERR_DTYPE;
}

static enum mt_status read_shape(const struct mt_json_node *entry, struct mt_safetensors_tensor *tensor)
{
    struct mt_json_node shape;
    enum mt_status status = mt_json_get_array(entry, "shape", &shape);
    if (status != MT_OK) return status;
    size_t rank = mt_json_count(&shape);
    if (rank > MT_SAFETENSORS_MAX_RANK) {
        return mt_json_fail(&shape, "has %zu dimensions, the limit is %d", rank, MT_SAFETENSORS_MAX_RANK);
    }
    tensor->rank = (int)rank;
    for (size_t i = 0; i < rank; i++) {
        struct mt_json_node item = mt_json_element(&shape, i);
        status = mt_json_as_integer(&item, 0, INT64_MAX, &tensor->dim[i]);
        if (status != MT_OK) return status;
    }
    return MT_OK;
}

static enum mt_status read_offsets(const struct mt_json_node *entry, uint64_t data_bytes,
                                   struct mt_safetensors_tensor *tensor)
{
    struct mt_json_node offsets;
    enum mt_status status = mt_json_get_array(entry, "data_offsets", &offsets);
    if (status != MT_OK) return status;
    if (mt_json_count(&offsets) != 2) {
        return mt_json_fail(&offsets, "has %zu numbers, expected 2", mt_json_count(&offsets));
    }
    int64_t place[2];
    for (size_t i = 0; i < 2; i++) {
        struct mt_json_node item = mt_json_element(&offsets, i);
        status = mt_json_as_integer(&item, 0, INT64_MAX, &place[i]);
        if (status != MT_OK) return status;
    }
    if (place[1] < place[0]) {
        return mt_json_fail(&offsets, "ends (%" PRId64 ") before it begins (%" PRId64 ")", place[1],
                            place[0]);
    }
    if ((uint64_t)place[1] > data_bytes) {
        return mt_json_fail(&offsets, "ends at %" PRId64 ", but the file holds %" PRIu64 " bytes of data",
                            place[1], data_bytes);
    }
    uint64_t found = (uint64_t)(place[1] - place[0]);
    if (found != tensor->bytes) {
        return mt_json_fail(&offsets, "covers %" PRIu64 " bytes, the shape and %s make %" PRIu64, found,
                            mt_safetensors_dtype_name(tensor->dtype), tensor->bytes);
    }
    tensor->offset = (uint64_t)place[0];
    return MT_OK;
}

static enum mt_status read_entry(struct mt_safetensors *file, const struct mt_json_node *entry,
                                 struct mt_safetensors_tensor *tensor)
{
    enum mt_status status = mt_json_expect_object(entry);
    if (status == MT_OK) status = read_dtype(entry, &tensor->dtype);
    if (status == MT_OK) status = read_shape(entry, tensor);
    if (status != MT_OK) return status;
    if (mt_json_count(entry) != 3) {
        return mt_json_fail(entry, "has %zu keys, expected dtype, shape and data_offsets only",
                            mt_json_count(entry));
    }
    status = mt_safetensors_size(file->ctx, file->path, entry->key, tensor->dtype, tensor->rank, tensor->dim,
                                 &tensor->bytes);
    if (status == MT_OK) status = read_offsets(entry, file->data_bytes, tensor);
    if (status != MT_OK) return status;
    return mt_arena_copy_text(&file->arena, entry->key, strlen(entry->key), &tensor->name);
}

static enum mt_status read_metadata(struct mt_safetensors *file, const struct mt_json_node *object)
{
    enum mt_status status = mt_json_expect_object(object);
    if (status != MT_OK) return status;
    file->metadata = mt_arena_array(&file->arena, mt_json_count(object), sizeof *file->metadata, &status);
    if (status != MT_OK) return status;
    struct mt_json_node item;
    for (void *position = NULL; mt_json_next(object, &position, &item);) {
        const char *text = NULL;
        const char *key = NULL;
        const char *value = NULL;
        status = mt_json_as_string(&item, &text);
        if (status == MT_OK) status = mt_arena_copy_text(&file->arena, item.key, strlen(item.key), &key);
        if (status == MT_OK) status = mt_arena_copy_text(&file->arena, text, strlen(text), &value);
        if (status != MT_OK) return status;
        file->metadata[file->metadata_count++] = (struct mt_safetensors_metadata){key, value};
    }
    return MT_OK;
}

// ------------------------------------------------------------------ the header as a whole

static enum mt_status read_header(struct mt_safetensors *file, const struct mt_json_node *root,
                                  const unsigned char *data)
{
    enum mt_status status = mt_json_expect_object(root);
    if (status != MT_OK) return status;
    file->tensors = mt_arena_array(&file->arena, mt_json_count(root), sizeof *file->tensors, &status);
    if (status != MT_OK) return status;
    struct mt_json_node entry;
    for (void *position = NULL; mt_json_next(root, &position, &entry);) {
        if (strcmp(entry.key, "__metadata__") == 0) {
            status = read_metadata(file, &entry);
        } else {
            struct mt_safetensors_tensor *tensor = &file->tensors[file->tensor_count];
            status = read_entry(file, &entry, tensor);
            if (status == MT_OK) tensor->data = data + tensor->offset;
            file->tensor_count++;
        }
        if (status != MT_OK) return status;
    }
    return MT_OK;
}

static int compare_offsets(const void *left, const void *right)
{
    const struct mt_safetensors_tensor *a = left;
    const struct mt_safetensors_tensor *b = right;
    if (a->offset != b->offset) return a->offset < b->offset ? -1 : 1;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;
    return 0;
}

static int compare_names(const void *left, const void *right)
{
    const struct mt_safetensors_tensor *a = left;
    const struct mt_safetensors_tensor *b = right;
    return strcmp(a->name, b->name);
}

/* The tensors must tile the data exactly: no byte in two of them, none in no one, none after the last. */
static enum mt_status check_tiling(struct mt_safetensors *file)
{
    if (file->tensor_count > 0) {
        qsort(file->tensors, file->tensor_count, sizeof *file->tensors, compare_offsets);
    }
    uint64_t end = 0;
    for (size_t i = 0; i < file->tensor_count; i++) {
        const struct mt_safetensors_tensor *tensor = &file->tensors[i];
        if (tensor->offset != end) {
            return mt_fail(file->ctx, MT_ERR_FORMAT,
                           "%s: tensor %s begins at byte %" PRIu64
                           " of the data, the one before it (%s) ends "
                           "at %" PRIu64 ": %s",
                           file->path, mt_printable(tensor->name).text, tensor->offset,
                           i > 0 ? mt_printable(file->tensors[i - 1].name).text : "none", end,
                           tensor->offset < end ? "they overlap" : "there is a gap");
        }
        end += tensor->bytes;
    }
    if (end != file->data_bytes) {
        return mt_fail(file->ctx, MT_ERR_FORMAT,
                       "%s: the tensors end at byte %" PRIu64 " of the data, the file holds %" PRIu64,
                       file->path, end, file->data_bytes);
    }
    if (file->tensor_count > 0) {
        qsort(file->tensors, file->tensor_count, sizeof *file->tensors, compare_names);
    }
    return MT_OK;
}

static uint64_t little_endian_64(const unsigned char *bytes)
{
    uint64_t value = 0;
    for (int i = 7; i >= 0; i--) value = value << 8 | bytes[i];
    return value;
}

static enum mt_status parse(struct mt_safetensors *file, const unsigned char *bytes, size_t size)
{
    if (size < LENGTH_BYTES) {
        return mt_fail(file->ctx, MT_ERR_FORMAT, "%s: %zu bytes, too short for a safetensors file",
                       file->path, size);
    }
    static const char pointer[] = "version https://git-lfs";
    if (size >= sizeof pointer - 1 && memcmp(bytes, pointer, sizeof pointer - 1) == 0) {
        return mt_fail(
            file->ctx, MT_ERR_FORMAT,
            "%s: is a git-lfs pointer to a file that was not fetched; in its folder, run: git lfs pull",
            file->path);
    }
    uint64_t header_bytes = little_endian_64(bytes);
    if (header_bytes > MT_SAFETENSORS_HEADER_BYTES) {
        return mt_fail(file->ctx, MT_ERR_FORMAT,
                       "%s: the header claims %" PRIu64
                       " bytes, the limit is %d; is this a safetensors file?",
                       file->path, header_bytes, MT_SAFETENSORS_HEADER_BYTES);
    }
    if (header_bytes > size - LENGTH_BYTES) {
        return mt_fail(file->ctx, MT_ERR_FORMAT,
                       "%s: the header claims %" PRIu64
                       " bytes, the file holds %zu after its length: cut short?",
                       file->path, header_bytes, size - LENGTH_BYTES);
    }
    const unsigned char *header = bytes + LENGTH_BYTES;
    if (header_bytes == 0 || header[0] != '{') {
        return mt_fail(file->ctx, MT_ERR_FORMAT, "%s: the header does not begin with '{'", file->path);
    }
    file->data_bytes = size - LENGTH_BYTES - header_bytes;
    struct mt_json json;
    enum mt_status status =
        mt_json_parse(file->ctx, file->path, header, (size_t)header_bytes, &header_limits, &json);
    if (status != MT_OK) return status;
    struct mt_json_node root = mt_json_root(&json);
    status = read_header(file, &root, header + header_bytes);
    mt_json_free(&json);
    if (status == MT_OK) status = check_tiling(file);
    return status;
}

// ------------------------------------------------------------------ opening and finding

enum mt_status mt_safetensors_open_memory(struct mt_context *ctx, const char *path, const void *data,
                                          size_t bytes, struct mt_safetensors *file)
{
    *file = (struct mt_safetensors){.ctx = ctx};
    mt_arena_init(&file->arena, ctx, ARENA_BLOCK_BYTES);
    enum mt_status status = mt_arena_copy_text(&file->arena, path, strlen(path), &file->path);
    if (status == MT_OK) status = parse(file, data, bytes);
    if (status != MT_OK) mt_safetensors_close(file);
    return status;
}

enum mt_status mt_safetensors_open(struct mt_context *ctx, const char *path, struct mt_safetensors *file)
{
    *file = (struct mt_safetensors){0};
    struct mt_file_mapping mapping = {0};
    enum mt_status status = mt_file_map(ctx, path, &mapping);
    if (status != MT_OK) return status;
    status = mt_safetensors_open_memory(ctx, path, mapping.data, mapping.bytes, file);
    if (status != MT_OK) {
        mt_file_unmap(&mapping);
        return status;
    }
    file->mapping = mapping;
    return MT_OK;
}

void mt_safetensors_close(struct mt_safetensors *file)
{
    if (file->ctx != NULL) mt_arena_free(&file->arena);
    mt_file_unmap(&file->mapping);
    *file = (struct mt_safetensors){0};
}

const struct mt_safetensors_tensor *mt_safetensors_find(const struct mt_safetensors *file, const char *name)
{
    if (file->tensor_count == 0) return NULL;
    const struct mt_safetensors_tensor wanted = {.name = name};
    return bsearch(&wanted, file->tensors, file->tensor_count, sizeof *file->tensors, compare_names);
}

// ------------------------------------------------------------------ elements

void mt_safetensors_read(const struct mt_safetensors_tensor *tensor, int64_t first, int64_t count,
                         void *target)
{
    size_t item = mt_safetensors_dtype_bytes(tensor->dtype);
    if (mt_safetensors_whole(tensor))
        memcpy(target, (const char *)tensor->data + (size_t)first * item, (size_t)count * item);
    else
        mt_strided_gather(tensor->data, &tensor->apart, item, first, count, target);
}

size_t mt_safetensors_extent(const struct mt_safetensors_tensor *tensor)
{
    const struct mt_strided *apart = &tensor->apart;
    if (mt_safetensors_whole(tensor) || tensor->bytes == 0) return (size_t)tensor->bytes;
    int64_t before = (tensor->dim[0] - 1) * apart->row + (apart->columns - 1) * apart->element;
    return (size_t)before + mt_safetensors_dtype_bytes(tensor->dtype);
}

// ------------------------------------------------------------------ views

static bool our_dtype(enum mt_safetensors_dtype dtype, enum mt_dtype *ours)
{
    if (dtype == MT_SAFETENSORS_U8) return false; // codes or flags: whoever knows what they mean reads them
    for (int i = 0; i < MT_DTYPE_COUNT; i++) {
        if (mt_safetensors_dtype_of((enum mt_dtype)i) == dtype) {
            *ours = (enum mt_dtype)i;
            return true;
        }
    }
    return false;
}

enum mt_status mt_safetensors_view(struct mt_context *ctx, const struct mt_safetensors_tensor *info,
                                   struct mt_tensor *view, struct mt_buffer *copy)
{
    *view = (struct mt_tensor){0};
    *copy = (struct mt_buffer){0};
    enum mt_dtype dtype = MT_F32;
    if (!our_dtype(info->dtype, &dtype)) {
        return mt_fail(ctx, MT_ERR_DTYPE, "tensor %s is %s, which metier cannot compute with",
                       mt_printable(info->name).text, mt_safetensors_dtype_name(info->dtype));
    }
    if (info->rank > MT_MAX_RANK) {
        return mt_fail(ctx, MT_ERR_SHAPE, "tensor %s has %d dimensions, at most %d can be computed with",
                       mt_printable(info->name).text, info->rank, MT_MAX_RANK);
    }
    const void *data = info->data;
    if ((uintptr_t)data % mt_dtype_bytes(dtype) != 0 || !mt_safetensors_whole(info)) {
        enum mt_status status = mt_buffer_create(ctx, (size_t)info->bytes, copy);
        if (status != MT_OK) return status;
        mt_safetensors_read(info, 0, (int64_t)((size_t)info->bytes / mt_dtype_bytes(dtype)), copy->data);
        data = copy->data;
    }
    view->data = (void *)data;
    view->dtype = dtype;
    view->rank = info->rank == 0 ? 1 : info->rank;
    view->dim[0] = 1;
    for (int i = 0; i < info->rank; i++) view->dim[i] = info->dim[i];
    int64_t stride = 1;
    for (int i = view->rank - 1; i >= 0; i--) {
        view->stride[i] = stride;
        stride *= view->dim[i];
    }
    return MT_OK;
}
