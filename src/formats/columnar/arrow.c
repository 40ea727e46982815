/*
 * Arrow's IPC: messages one behind the other, each a description and a body. A schema comes first, then
 * dictionaries and record batches. A file is such a stream between two magic words, with a table of contents
 * at its end, which is not needed to read all of it.
 */
#include "formats/columnar/arrow.h"

#include <string.h>

#include "formats/columnar/columnar.h"

#define MAGIC        "ARROW1"
#define MAGIC_BYTES  6
#define FILE_START   8 // the magic, and two bytes that fill up
#define FORGET_BYTES ((uint64_t)16 << 20)

enum header { HEADER_SCHEMA = 1, HEADER_DICTIONARY, HEADER_BATCH };

struct stream {
    struct mt_arrow arrow;
    const struct mt_file_mapping *file;
    bool mapped;
    const uint8_t *at;
    const uint8_t *end;
};

static enum mt_status fail(const struct stream *stream, const char *problem)
{
    return mt_fail(stream->arrow.ctx, MT_ERR_FORMAT, "%s: %s", stream->arrow.out->file, problem);
}

static uint32_t load32(const uint8_t *data)
{
    return (uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
}

// ------------------------------------------------------------------ dictionaries

/* The values of a dictionary so far; with `drop` they go, and the oldest entry is for the new ones. */
static struct mt_arrow_dictionary *known(struct mt_arrow *arrow, int64_t id, bool drop, uint64_t *count)
{
    struct mt_arrow_dictionary *oldest = NULL;
    *count = 0;
    for (struct mt_arrow_dictionary *d = arrow->dictionaries; d != NULL; d = d->next) {
        if (d->id != id) continue;
        oldest = d;
        *count += d->field->length;
        if (drop) mt_arrow_batch_free(d->field);
    }
    return oldest;
}

static enum mt_status read_dictionary(struct stream *stream, const struct mt_flat_table *header,
                                      const uint8_t *body, uint64_t body_bytes)
{
    struct mt_arrow *arrow = &stream->arrow;
    enum mt_status status = MT_OK;
    uint64_t count = 0;
    int64_t id = mt_flat_whole(header, 0, 8, 0);
    struct mt_flat_table batch = mt_flat_child(header, 1);
    bool adds = mt_flat_whole(header, 2, 1, 0) != 0;
    const struct mt_arrow_field *field = mt_arrow_indexed(arrow->columns, id);
    if (batch.at == 0 || field == NULL) return fail(stream, "a dictionary of no column, or damaged");
    struct mt_arrow_dictionary *dictionary = known(arrow, id, !adds, &count);
    if (adds || dictionary == NULL) {
        dictionary = mt_arena_array(&arrow->arena, 1, sizeof *dictionary, &status);
        if (status != MT_OK) return status;
        dictionary->id = id;
        dictionary->first = count;
        status = mt_arrow_field_copy(arrow, field->values, &dictionary->field);
        if (status != MT_OK) return status;
        dictionary->next = arrow->dictionaries;
        arrow->dictionaries = dictionary;
    }
    return mt_arrow_batch_load(arrow, &batch, body, body_bytes, dictionary->field);
}

// ------------------------------------------------------------------ messages

static enum mt_status write_rows(struct stream *stream, uint64_t rows, const uint8_t *body,
                                 uint64_t body_bytes)
{
    struct mt_arrow *arrow = &stream->arrow;
    enum mt_status status = MT_OK;
    uint64_t written = arrow->out->written;
    for (uint64_t i = 0; i < rows && status == MT_OK; i++) {
        status = mt_arrow_members_write(arrow, arrow->columns, i);
        if (status == MT_OK) status = mt_row_text_end(arrow->out);
        // A batch may be all of the file: what was read of it does not stay in memory.
        if (!stream->mapped || arrow->out->written - written < FORGET_BYTES) continue;
        mt_file_forget(stream->file, body, (size_t)body_bytes);
        written = arrow->out->written;
    }
    return status;
}

static enum mt_status read_batch(struct stream *stream, const struct mt_flat_table *header,
                                 const uint8_t *body, uint64_t body_bytes)
{
    struct mt_arrow *arrow = &stream->arrow;
    int64_t rows = mt_flat_whole(header, 0, 8, 0);
    if (rows < 0 || header->buffer->broken) return fail(stream, "a record batch's description is damaged");
    enum mt_status status = mt_arrow_batch_load(arrow, header, body, body_bytes, arrow->columns);
    if (status == MT_OK) status = write_rows(stream, (uint64_t)rows, body, body_bytes);
    mt_arrow_batch_free(arrow->columns);
    return status;
}

static enum mt_status take_message(struct stream *stream, struct mt_flatbuffer *buffer)
{
    struct mt_flat_table message = mt_flat_root(buffer);
    int64_t kind = mt_flat_whole(&message, 1, 1, 0);
    struct mt_flat_table header = mt_flat_child(&message, 2);
    uint64_t body_bytes = (uint64_t)mt_flat_whole(&message, 3, 8, 0);
    const uint8_t *body = stream->at;
    if (buffer->broken || header.at == 0) return fail(stream, "a message's description is damaged");
    if (body_bytes > (uint64_t)(stream->end - stream->at)) return fail(stream, "is cut off within a message");
    stream->at += body_bytes;
    if (kind == HEADER_SCHEMA)
        return stream->arrow.columns == NULL ? mt_arrow_schema_read(&stream->arrow, &header)
                                             : fail(stream, "has two schemas");
    if (kind != HEADER_DICTIONARY && kind != HEADER_BATCH)
        return fail(stream, "has a message that does not belong to a table");
    if (stream->arrow.columns == NULL) return fail(stream, "has rows before its schema");
    enum mt_status status = kind == HEADER_BATCH ? read_batch(stream, &header, body, body_bytes)
                                                 : read_dictionary(stream, &header, body, body_bytes);
    if (stream->mapped && kind == HEADER_BATCH) mt_file_forget(stream->file, body, (size_t)body_bytes);
    return status;
}

/* The next message, from the length of its description on; *more: there was one before the end's mark. */
static enum mt_status next_message(struct stream *stream, bool *more)
{
    uint32_t length = 0;
    for (int i = 0; i < 2; i++) { // a mark of four bytes may come first
        if (stream->end - stream->at < 4)
            return fail(stream, "ends without the mark of its end: is it whole?");
        length = load32(stream->at);
        stream->at += 4;
        if (length != UINT32_MAX) break;
    }
    *more = length != 0;
    if (length == 0) return MT_OK;
    if (length > (uint64_t)(stream->end - stream->at))
        return fail(stream, "is cut off within a message, or not an Arrow file");
    struct mt_flatbuffer buffer = {.data = stream->at, .bytes = length};
    stream->at += length;
    return take_message(stream, &buffer);
}

/* A file's stream lies between its magic words, before the table of contents. */
static enum mt_status find_stream(struct stream *stream)
{
    uint64_t bytes = stream->file->bytes;
    const uint8_t *data = stream->file->data;
    if (bytes == 0) return fail(stream, "is empty");
    stream->at = data;
    stream->end = data + bytes;
    if (bytes >= 4 && memcmp(data, "FEA1", 4) == 0)
        return fail(stream, "is a Feather file of the first version, which is not read");
    if (bytes < MAGIC_BYTES || memcmp(data, MAGIC, MAGIC_BYTES) != 0) return MT_OK;
    uint64_t tail = 4 + MAGIC_BYTES;
    if (bytes < FILE_START + tail || memcmp(data + bytes - MAGIC_BYTES, MAGIC, MAGIC_BYTES) != 0)
        return fail(stream, "does not end as an Arrow file: is it whole?");
    uint64_t contents = load32(data + bytes - tail);
    if (contents > bytes - FILE_START - tail)
        return fail(stream, "its table of contents is longer than the file");
    stream->at = data + FILE_START;
    stream->end = data + bytes - tail - contents;
    return MT_OK;
}

enum mt_status mt_arrow_rows(const struct mt_file_mapping *file, bool mapped, struct mt_row_text *out)
{
    struct stream stream = {.arrow = {.ctx = out->ctx, .out = out}, .file = file, .mapped = mapped};
    bool more = true;
    mt_arena_init(&stream.arrow.arena, out->ctx, 1 << 16);
    enum mt_status status = find_stream(&stream);
    while (status == MT_OK && more) status = next_message(&stream, &more);
    if (status == MT_OK && stream.arrow.columns == NULL) status = fail(&stream, "has no schema");
    mt_arrow_batch_free(stream.arrow.columns);
    for (struct mt_arrow_dictionary *d = stream.arrow.dictionaries; d != NULL; d = d->next)
        mt_arrow_batch_free(d->field);
    mt_arena_free(&stream.arrow.arena);
    return status;
}
