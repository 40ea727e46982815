/* Flatbuffers: offsets forwards to children, backwards to a table's list of where its fields are. */
#include "formats/columnar/flatbuffer.h"

/* A little-endian number, with its sign; 0 and broken where it does not lie in the buffer. */
static int64_t load(struct mt_flatbuffer *buffer, size_t at, int bytes)
{
    uint64_t number = 0;
    if (buffer->broken || at > buffer->bytes || (size_t)bytes > buffer->bytes - at) {
        buffer->broken = true;
        return 0;
    }
    for (int i = 0; i < bytes; i++) number |= (uint64_t)buffer->data[at + (size_t)i] << (8 * i);
    switch (bytes) {
    case 1: return (int8_t)number;
    case 2: return (int16_t)number;
    case 4: return (int32_t)number;
    default: return (int64_t)number;
    }
}

/* Where an offset at `at` leads; 0: nowhere. */
static size_t follow(struct mt_flatbuffer *buffer, size_t at)
{
    uint32_t offset = (uint32_t)load(buffer, at, 4);
    if (buffer->broken || offset == 0 || offset > buffer->bytes - at) {
        buffer->broken = true;
        return 0;
    }
    return at + offset;
}

struct mt_flat_table mt_flat_root(struct mt_flatbuffer *buffer)
{
    return (struct mt_flat_table){.buffer = buffer, .at = follow(buffer, 0)};
}

/* Where a field lies; 0: it is absent. */
static size_t field_at(const struct mt_flat_table *table, int field)
{
    struct mt_flatbuffer *buffer = table->buffer;
    if (table->at == 0 || buffer->broken) return 0;
    int64_t fields = (int64_t)table->at - load(buffer, table->at, 4);
    if (fields < 0 || fields > (int64_t)buffer->bytes) {
        buffer->broken = true;
        return 0;
    }
    uint16_t bytes = (uint16_t)load(buffer, (size_t)fields, 2);
    size_t place = 4 + 2 * (size_t)field;
    if (place + 2 > bytes) return 0;
    uint16_t offset = (uint16_t)load(buffer, (size_t)fields + place, 2);
    return offset == 0 || buffer->broken ? 0 : table->at + offset;
}

int64_t mt_flat_whole(const struct mt_flat_table *table, int field, int bytes, int64_t absent)
{
    size_t at = field_at(table, field);
    return at != 0 ? load(table->buffer, at, bytes) : absent;
}

struct mt_flat_table mt_flat_child(const struct mt_flat_table *table, int field)
{
    size_t at = field_at(table, field);
    return (struct mt_flat_table){.buffer = table->buffer, .at = at != 0 ? follow(table->buffer, at) : 0};
}

struct mt_flat_vector mt_flat_items(const struct mt_flat_table *table, int field, size_t item_bytes)
{
    struct mt_flat_vector vector = {.buffer = table->buffer};
    size_t at = field_at(table, field);
    size_t start = at != 0 ? follow(table->buffer, at) : 0;
    if (start == 0) return vector;
    uint32_t count = (uint32_t)load(table->buffer, start, 4);
    if (table->buffer->broken || count > (table->buffer->bytes - start - 4) / item_bytes) {
        table->buffer->broken = true;
        return vector;
    }
    vector.at = start + 4;
    vector.count = count;
    return vector;
}

const char *mt_flat_text(const struct mt_flat_table *table, int field, size_t *bytes)
{
    struct mt_flat_vector letters = mt_flat_items(table, field, 1);
    *bytes = letters.count;
    return letters.at != 0 ? (const char *)table->buffer->data + letters.at : NULL;
}

struct mt_flat_table mt_flat_table_item(const struct mt_flat_vector *vector, size_t index)
{
    return (struct mt_flat_table){.buffer = vector->buffer,
                                  .at = follow(vector->buffer, vector->at + 4 * index)};
}

int64_t mt_flat_struct_item(const struct mt_flat_vector *vector, size_t index, size_t item_bytes,
                            size_t offset)
{
    return load(vector->buffer, vector->at + index * item_bytes + offset, 8);
}
