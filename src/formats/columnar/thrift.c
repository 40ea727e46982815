/* Thrift's compact protocol: numbers of 7 bits a byte, fields by the distance from the one before. */
#include "formats/columnar/thrift.h"

#define MOST_DEPTH 32

static uint8_t next_byte(struct mt_thrift *thrift)
{
    if (thrift->broken || thrift->at >= thrift->end) {
        thrift->broken = true;
        return 0;
    }
    return *thrift->at++;
}

uint64_t mt_thrift_varint(struct mt_thrift *thrift)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t byte = next_byte(thrift);
        value |= (uint64_t)(byte & 0x7Fu) << shift;
        if ((byte & 0x80u) == 0) return value;
    }
    thrift->broken = true;
    return 0;
}

static int64_t zigzag(struct mt_thrift *thrift)
{
    uint64_t value = mt_thrift_varint(thrift);
    return (int64_t)(value >> 1 ^ (0 - (value & 1)));
}

static void step(struct mt_thrift *thrift, uint64_t bytes)
{
    if (thrift->broken || bytes > (uint64_t)(thrift->end - thrift->at)) {
        thrift->broken = true;
        return;
    }
    thrift->at += bytes;
}

bool mt_thrift_next(struct mt_thrift *thrift, struct mt_thrift_field *field)
{
    uint8_t head = next_byte(thrift);
    field->type = head & 0x0F;
    if (field->type == MT_THRIFT_STOP || thrift->broken) return false;
    int64_t id = head >> 4 != 0 ? field->id + (head >> 4) : zigzag(thrift);
    if (field->type > MT_THRIFT_STRUCT || id < INT16_MIN || id > INT16_MAX) thrift->broken = true;
    field->id = (int)id;
    return !thrift->broken;
}

/* The head of a list; each item takes a byte at least, so that no count is larger than what is left. */
static size_t list_head(struct mt_thrift *thrift, int *type)
{
    uint8_t head = next_byte(thrift);
    uint64_t count = head >> 4 != 15 ? head >> 4 : mt_thrift_varint(thrift);
    *type = head & 0x0F;
    if (count > (uint64_t)(thrift->end - thrift->at)) thrift->broken = true;
    return thrift->broken ? 0 : (size_t)count;
}

static void skip_value(struct mt_thrift *thrift, int type, int depth, bool in_list);

static void skip_items(struct mt_thrift *thrift, int type, size_t count, int depth)
{
    for (size_t i = 0; i < count && !thrift->broken; i++) skip_value(thrift, type, depth, true);
}

static void skip_map(struct mt_thrift *thrift, int depth)
{
    uint64_t count = mt_thrift_varint(thrift);
    if (count == 0) return;
    uint8_t types = next_byte(thrift);
    for (uint64_t i = 0; i < count && !thrift->broken; i++) {
        skip_value(thrift, types >> 4, depth, true);
        skip_value(thrift, types & 0x0F, depth, true);
    }
}

static void skip_value(struct mt_thrift *thrift, int type, int depth, bool in_list)
{
    struct mt_thrift_field field = {0};
    int items = 0;
    if (depth > MOST_DEPTH) thrift->broken = true;
    if (thrift->broken) return;
    switch (type) {
    case MT_THRIFT_TRUE:
    case MT_THRIFT_FALSE: step(thrift, in_list ? 1 : 0); return; // a field's type is its value
    case MT_THRIFT_I8: step(thrift, 1); return;
    case MT_THRIFT_I16:
    case MT_THRIFT_I32:
    case MT_THRIFT_I64: (void)mt_thrift_varint(thrift); return;
    case MT_THRIFT_DOUBLE: step(thrift, 8); return;
    case MT_THRIFT_BINARY: step(thrift, mt_thrift_varint(thrift)); return;
    case MT_THRIFT_LIST:
    case MT_THRIFT_SET: {
        size_t count = list_head(thrift, &items);
        skip_items(thrift, items, count, depth + 1);
        return;
    }
    case MT_THRIFT_MAP: skip_map(thrift, depth + 1); return;
    case MT_THRIFT_STRUCT:
        while (mt_thrift_next(thrift, &field)) skip_value(thrift, field.type, depth + 1, false);
        return;
    default: thrift->broken = true;
    }
}

void mt_thrift_skip(struct mt_thrift *thrift, const struct mt_thrift_field *field)
{
    skip_value(thrift, field->type, 0, false);
}

int64_t mt_thrift_whole(struct mt_thrift *thrift, const struct mt_thrift_field *field)
{
    if (field->type == MT_THRIFT_I8) return (int8_t)next_byte(thrift);
    if (field->type >= MT_THRIFT_I16 && field->type <= MT_THRIFT_I64) return zigzag(thrift);
    thrift->broken = true;
    return 0;
}

bool mt_thrift_flag(struct mt_thrift *thrift, const struct mt_thrift_field *field)
{
    if (field->type != MT_THRIFT_TRUE && field->type != MT_THRIFT_FALSE) thrift->broken = true;
    return field->type == MT_THRIFT_TRUE;
}

const uint8_t *mt_thrift_bytes(struct mt_thrift *thrift, const struct mt_thrift_field *field, size_t *bytes)
{
    uint64_t length = field->type == MT_THRIFT_BINARY ? mt_thrift_varint(thrift) : 0;
    const uint8_t *data = thrift->at;
    if (field->type != MT_THRIFT_BINARY) thrift->broken = true;
    step(thrift, length);
    *bytes = thrift->broken ? 0 : (size_t)length;
    return data;
}

bool mt_thrift_struct(struct mt_thrift *thrift, const struct mt_thrift_field *field)
{
    if (field->type != MT_THRIFT_STRUCT) thrift->broken = true;
    return !thrift->broken;
}

size_t mt_thrift_structs(struct mt_thrift *thrift, const struct mt_thrift_field *field)
{
    int items = 0;
    size_t count = field->type == MT_THRIFT_LIST ? list_head(thrift, &items) : 0;
    if (field->type != MT_THRIFT_LIST || (count > 0 && items != MT_THRIFT_STRUCT)) thrift->broken = true;
    return thrift->broken ? 0 : count;
}
