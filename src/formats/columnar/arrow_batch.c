/* A record batch's buffers, placed in the fields: in the order of the schema, depth first. */
#include "formats/columnar/arrow.h"

struct loading {
    struct mt_arrow *arrow;
    const uint8_t *body;
    uint64_t body_bytes;
    struct mt_flat_vector nodes;
    struct mt_flat_vector buffers;
    struct mt_flat_vector variadic; // how many buffers each field of views has
    size_t node;
    size_t buffer;
    size_t view;
    enum mt_packing packing;
};

static enum mt_status unpack(const struct loading *loading, const struct mt_arrow_field *field,
                             struct mt_arrow_buffer *buffer)
{
    uint64_t length = 0;
    if (buffer->bytes < 8) return mt_arrow_fail(field, "has a packed buffer of %d bytes", (int)buffer->bytes);
    for (int i = 0; i < 8; i++) length |= (uint64_t)buffer->data[i] << (8 * i);
    buffer->data += 8;
    buffer->bytes -= 8;
    if (length == UINT64_MAX) return MT_OK; // this one is as it was
    enum mt_status status = mt_unpack(loading->packing, buffer->data, (size_t)buffer->bytes, length,
                                      &buffer->unpacked, field->what);
    buffer->data = buffer->unpacked.data;
    buffer->bytes = buffer->unpacked.count;
    return status;
}

static enum mt_status take_buffer(struct loading *loading, const struct mt_arrow_field *field,
                                  struct mt_arrow_buffer *buffer)
{
    if (loading->buffer >= loading->buffers.count) return mt_arrow_fail(field, "lacks a buffer");
    uint64_t offset = (uint64_t)mt_flat_struct_item(&loading->buffers, loading->buffer, 16, 0);
    uint64_t bytes = (uint64_t)mt_flat_struct_item(&loading->buffers, loading->buffer, 16, 8);
    loading->buffer++;
    if (offset > loading->body_bytes || bytes > loading->body_bytes - offset)
        return mt_arrow_fail(field, "has a buffer outside of its record batch");
    buffer->data = loading->body + offset;
    buffer->bytes = bytes;
    return bytes > 0 && loading->packing != MT_PACKING_NONE ? unpack(loading, field, buffer) : MT_OK;
}

static enum mt_status take_view_buffers(struct loading *loading, struct mt_arrow_field *field)
{
    void *memory = NULL;
    if (loading->view >= loading->variadic.count)
        return mt_arrow_fail(field, "lacks the number of its buffers");
    uint64_t count = (uint64_t)mt_flat_struct_item(&loading->variadic, loading->view++, 8, 0);
    if (count > loading->buffers.count - loading->buffer) return mt_arrow_fail(field, "lacks buffers");
    enum mt_status status =
        mt_allocate_array(field->ctx, (size_t)count, sizeof(struct mt_arrow_buffer), &memory);
    if (status != MT_OK) return status;
    field->more = memory;
    field->more_count = (size_t)count;
    for (size_t i = 0; i < field->more_count; i++) field->more[i].unpacked.ctx = field->ctx;
    for (size_t i = 0; i < field->more_count && status == MT_OK; i++)
        status = take_buffer(loading, field, &field->more[i]);
    return status;
}

static enum mt_status load_field(struct loading *loading, struct mt_arrow_field *field)
{
    if (loading->node >= loading->nodes.count) return mt_arrow_fail(field, "is missing in a record batch");
    int64_t length = mt_flat_struct_item(&loading->nodes, loading->node, 16, 0);
    int64_t nulls = mt_flat_struct_item(&loading->nodes, loading->node, 16, 8);
    loading->node++;
    if (length < 0) return mt_arrow_fail(field, "has %lld values", (long long)length);
    field->length = (uint64_t)length;
    if (field->layout == MT_ARROW_NOTHING) return MT_OK;
    enum mt_status status = take_buffer(loading, field, &field->valid);
    if (nulls == 0) field->valid.bytes = 0; // all are there
    bool offsets = field->layout == MT_ARROW_TEXTS || field->layout == MT_ARROW_VIEWS ||
                   field->layout == MT_ARROW_LIST || field->layout == MT_ARROW_MAP;
    bool data =
        field->layout == MT_ARROW_BITS || field->layout == MT_ARROW_FIXED || field->layout == MT_ARROW_TEXTS;
    if (status == MT_OK && offsets) status = take_buffer(loading, field, &field->offsets);
    if (status == MT_OK && data) status = take_buffer(loading, field, &field->data);
    if (status == MT_OK && field->layout == MT_ARROW_VIEWS) status = take_view_buffers(loading, field);
    for (struct mt_arrow_field *child = field->child; child != NULL && status == MT_OK; child = child->next)
        status = load_field(loading, child);
    return status;
}

enum mt_status mt_arrow_batch_load(struct mt_arrow *arrow, const struct mt_flat_table *batch,
                                   const uint8_t *body, uint64_t body_bytes, struct mt_arrow_field *first)
{
    struct mt_flat_table compression = mt_flat_child(batch, 3);
    struct loading loading = {.arrow = arrow,
                              .body = body,
                              .body_bytes = body_bytes,
                              .nodes = mt_flat_items(batch, 1, 16),
                              .buffers = mt_flat_items(batch, 2, 16),
                              .variadic = mt_flat_items(batch, 4, 8)};
    int64_t codec = mt_flat_whole(&compression, 0, 1, 0);
    if (batch->buffer->broken || codec < 0 || codec > 1)
        return mt_fail(arrow->ctx, MT_ERR_FORMAT,
                       "%s: a record batch's description is damaged, or its compression unknown",
                       arrow->out->file);
    if (compression.at != 0) loading.packing = codec == 0 ? MT_PACKING_LZ4_FRAME : MT_PACKING_ZSTD;
    enum mt_status status = MT_OK;
    for (struct mt_arrow_field *field = first; field != NULL && status == MT_OK; field = field->next)
        status = load_field(&loading, field);
    return status;
}

void mt_arrow_batch_free(struct mt_arrow_field *first)
{
    for (struct mt_arrow_field *field = first; field != NULL; field = field->next) {
        mt_byte_list_free(&field->valid.unpacked);
        mt_byte_list_free(&field->offsets.unpacked);
        mt_byte_list_free(&field->data.unpacked);
        for (size_t i = 0; i < field->more_count; i++) mt_byte_list_free(&field->more[i].unpacked);
        mt_release(field->ctx, field->more, field->more_count * sizeof *field->more);
        field->more = NULL;
        field->more_count = 0;
        field->length = 0;
        mt_arrow_batch_free(field->child);
    }
}
