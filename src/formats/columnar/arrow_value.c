/* A value of a record batch, wherever its layout has it; each access is checked against the buffer. */
#include "formats/columnar/arrow.h"
#include "formats/columnar/value_text.h"
#include "tensor/dtype.h"

static uint64_t load(const uint8_t *data, uint64_t bytes)
{
    uint64_t number = 0;
    for (uint64_t i = 0; i < bytes; i++) number |= (uint64_t)data[i] << (8 * i);
    return number;
}

static int64_t with_sign(uint64_t number, uint64_t bytes)
{
    unsigned shift = (unsigned)(64 - 8 * bytes);
    return (int64_t)(number << shift) >> shift;
}

static enum mt_status fail_outside(const struct mt_arrow_field *field)
{
    return mt_arrow_fail(field, "has a value outside of its buffer");
}

/* Item `index` of a buffer of items of `width` bytes; NULL: outside. */
static const uint8_t *item_of(const struct mt_arrow_buffer *buffer, uint64_t index, uint64_t width)
{
    if (width == 0) return (const uint8_t *)"";
    return index < buffer->bytes / width ? buffer->data + index * width : NULL;
}

static bool bit_of(const struct mt_arrow_buffer *buffer, uint64_t index, bool *bit)
{
    if (index / 8 >= buffer->bytes) return false;
    *bit = (buffer->data[index / 8] >> (index % 8) & 1) != 0;
    return true;
}

/* Where a list or a text begins and ends. */
static bool range_of(const struct mt_arrow_field *field, uint64_t index, uint64_t most, uint64_t *start,
                     uint64_t *end)
{
    const uint8_t *first = item_of(&field->offsets, index, field->width);
    const uint8_t *second = item_of(&field->offsets, index + 1, field->width);
    if (first == NULL || second == NULL) return false;
    *start = load(first, field->width);
    *end = load(second, field->width);
    return *start <= *end && *end <= most;
}

static enum mt_status write_fixed(struct mt_arrow *arrow, const struct mt_arrow_field *field,
                                  const uint8_t *data, bool as_key)
{
    struct mt_value value = {.data = data, .bytes = (size_t)field->width};
    uint8_t reversed[MT_DECIMAL_BYTES];
    uint64_t bits = field->width <= 8 ? load(data, field->width) : 0;
    value.whole = field->type.kind == MT_VALUE_UNSIGNED || field->width > 8 || field->width == 0
                      ? (int64_t)bits
                      : with_sign(bits, field->width);
    if (field->milliseconds) value.whole = value.whole / 86400000 - (value.whole % 86400000 < 0 ? 1 : 0);
    if (field->type.kind == MT_VALUE_REAL && field->width == 2) value.real = mt_f16_to_float((uint16_t)bits);
    if (field->type.kind == MT_VALUE_REAL && field->width == 4)
        value.real = mt_float_from_bits((uint32_t)bits);
    if (field->type.kind == MT_VALUE_REAL && field->width == 8) memcpy(&value.real, &bits, sizeof value.real);
    if (field->type.kind == MT_VALUE_DECIMAL) {
        for (size_t i = 0; i < field->width; i++) reversed[i] = data[field->width - 1 - i];
        value.data = reversed;
    }
    return mt_row_text_value(arrow->out, &field->type, &value, as_key);
}

/* 16 bytes: the length, then the text itself, or its first four bytes, a buffer and where it is in there. */
static bool view_of(const struct mt_arrow_field *field, uint64_t index, struct mt_value *value)
{
    const uint8_t *view = item_of(&field->offsets, index, field->width);
    if (view == NULL) return false;
    uint64_t bytes = load(view, 4);
    uint64_t buffer = load(view + 8, 4);
    uint64_t offset = load(view + 12, 4);
    *value = (struct mt_value){.data = view + 4, .bytes = (size_t)bytes};
    if (bytes <= 12) return true;
    if (buffer >= field->more_count) return false;
    const struct mt_arrow_buffer *from = &field->more[buffer];
    if (offset > from->bytes || bytes > from->bytes - offset) return false;
    value->data = from->data + offset;
    return true;
}

static enum mt_status write_entry(struct mt_arrow *arrow, const struct mt_arrow_field *field, uint64_t index,
                                  bool as_key)
{
    const uint8_t *data = item_of(&field->data, index, field->width);
    if (data == NULL) return fail_outside(field);
    uint64_t entry = load(data, field->width);
    if (field->is_signed) entry = (uint64_t)with_sign(entry, field->width);
    for (const struct mt_arrow_dictionary *d = arrow->dictionaries; d != NULL; d = d->next) {
        if (d->id != field->dictionary || entry < d->first || entry - d->first >= d->field->length) continue;
        // A dictionary's values may have dictionaries of their own, in a hostile file this one.
        if (arrow->depth == MT_ARROW_MOST_DEPTH)
            return mt_arrow_fail(field, "has dictionaries within each other");
        arrow->depth++;
        enum mt_status status = mt_arrow_value_write(arrow, d->field, entry - d->first, as_key);
        arrow->depth--;
        return status;
    }
    return mt_arrow_fail(field, "names entry %lld, which its dictionary does not have at that point",
                         (long long)entry);
}

static enum mt_status write_items(struct mt_arrow *arrow, const struct mt_arrow_field *field, uint64_t index)
{
    bool map = field->layout == MT_ARROW_MAP;
    uint64_t start = index * field->width;
    uint64_t end = start + field->width;
    uint64_t most = field->child->length;
    const struct mt_arrow_field *key = map ? field->child->child : NULL;
    if (field->layout == MT_ARROW_ARRAYS ? field->width > 0 && index >= most / field->width
                                         : !range_of(field, index, most, &start, &end))
        return fail_outside(field);
    enum mt_status status = mt_row_text_add(arrow->out, map ? "{" : "[", 1);
    for (uint64_t i = start; i < end && status == MT_OK; i++) {
        if (i > start) status = mt_row_text_add(arrow->out, ",", 1);
        if (status == MT_OK) status = mt_arrow_value_write(arrow, map ? key : field->child, i, map);
        if (status == MT_OK && map) status = mt_row_text_add(arrow->out, ":", 1);
        if (status == MT_OK && map) status = mt_arrow_value_write(arrow, key->next, i, false);
    }
    return status == MT_OK ? mt_row_text_add(arrow->out, map ? "}" : "]", 1) : status;
}

enum mt_status mt_arrow_members_write(struct mt_arrow *arrow, const struct mt_arrow_field *first,
                                      uint64_t index)
{
    enum mt_status status = mt_row_text_add(arrow->out, "{", 1);
    for (const struct mt_arrow_field *field = first; field != NULL && status == MT_OK; field = field->next) {
        status = mt_row_text_member(arrow->out, field == first, field->name, field->name_bytes);
        if (status == MT_OK) status = mt_arrow_value_write(arrow, field, index, false);
    }
    return status == MT_OK ? mt_row_text_add(arrow->out, "}", 1) : status;
}

enum mt_status mt_arrow_value_write(struct mt_arrow *arrow, const struct mt_arrow_field *field,
                                    uint64_t index, bool as_key)
{
    static const struct mt_value_type null = {.kind = MT_VALUE_NULL};
    struct mt_value value = {0};
    uint64_t start = 0;
    uint64_t end = 0;
    bool bit = true;
    if (index >= field->length) return fail_outside(field);
    if (field->valid.bytes > 0 && !bit_of(&field->valid, index, &bit)) return fail_outside(field);
    if (!bit || field->layout == MT_ARROW_NOTHING)
        return mt_row_text_value(arrow->out, &null, &value, as_key);
    if (field->indexed) return write_entry(arrow, field, index, as_key);
    switch (field->layout) {
    case MT_ARROW_BITS:
        if (!bit_of(&field->data, index, &bit)) return fail_outside(field);
        value.whole = bit;
        break;
    case MT_ARROW_FIXED: {
        const uint8_t *data = item_of(&field->data, index, field->width);
        return data != NULL ? write_fixed(arrow, field, data, as_key) : fail_outside(field);
    }
    case MT_ARROW_TEXTS:
        if (!range_of(field, index, field->data.bytes, &start, &end)) return fail_outside(field);
        value.data = field->data.data + start;
        value.bytes = (size_t)(end - start);
        break;
    case MT_ARROW_VIEWS:
        if (!view_of(field, index, &value)) return fail_outside(field);
        break;
    case MT_ARROW_STRUCT: return mt_arrow_members_write(arrow, field->child, index);
    default: return write_items(arrow, field, index);
    }
    return mt_row_text_value(arrow->out, &field->type, &value, as_key);
}
