/* Values of a page, one after the other, in each of Parquet's encodings. */
#include "formats/columnar/parquet.h"
#include "tensor/dtype.h"

static uint32_t load32(const uint8_t *data)
{
    return (uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
}

static uint64_t load64(const uint8_t *data)
{
    return load32(data) | (uint64_t)load32(data + 4) << 32;
}

static enum mt_status fail_early(const struct mt_parquet_leaf *leaf)
{
    return mt_parquet_fail(leaf, "has a page whose values end early, or are damaged");
}

/* A whole number as what the column means; a decimal's bytes are put together beside it. */
static enum mt_status take_whole(struct mt_parquet_leaf *leaf, int64_t number, struct mt_value *value)
{
    value->whole = number;
    if (leaf->physical == MT_PARQUET_INT32) {
        uint32_t low = (uint32_t)(uint64_t)number; // sums of differences wrap in 32 bits
        value->whole = leaf->type.kind == MT_VALUE_UNSIGNED ? (int64_t)low : (int64_t)(int32_t)low;
    }
    if (leaf->type.kind != MT_VALUE_DECIMAL) return MT_OK;
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)((uint64_t)value->whole >> (56 - 8 * i));
    leaf->previous.count = 0;
    enum mt_status status = mt_byte_list_append(&leaf->previous, bytes, sizeof bytes);
    value->data = leaf->previous.data;
    value->bytes = sizeof bytes;
    return status;
}

/* A value of fixed length as it is written plainly. */
static enum mt_status take_fixed(struct mt_parquet_leaf *leaf, const uint8_t *data, struct mt_value *value)
{
    uint32_t bits = 0;
    float real = 0;
    uint64_t wide = 0;
    value->data = data;
    value->bytes = leaf->fixed;
    switch (leaf->physical) {
    case MT_PARQUET_INT32: return take_whole(leaf, (int64_t)load32(data), value);
    case MT_PARQUET_INT64: return take_whole(leaf, (int64_t)load64(data), value);
    case MT_PARQUET_FLOAT:
        bits = load32(data);
        memcpy(&real, &bits, sizeof real);
        value->real = real;
        return MT_OK;
    case MT_PARQUET_DOUBLE:
        wide = load64(data);
        memcpy(&value->real, &wide, sizeof value->real);
        return MT_OK;
    default:
        if (leaf->type.kind == MT_VALUE_REAL)
            value->real = mt_f16_to_float((uint16_t)(data[0] | data[1] << 8));
        return MT_OK;
    }
}

static enum mt_status take_plain(struct mt_parquet_leaf *leaf, struct mt_value *value)
{
    uint64_t left = (uint64_t)(leaf->values_end - leaf->values);
    if (leaf->physical == MT_PARQUET_BOOLEAN) {
        if (leaf->bit / 8 >= left) return fail_early(leaf);
        value->whole = leaf->values[leaf->bit / 8] >> (leaf->bit % 8) & 1;
        leaf->bit++;
        return MT_OK;
    }
    uint64_t bytes = leaf->fixed;
    if (leaf->physical == MT_PARQUET_BYTE_ARRAY) {
        if (left < 4) return fail_early(leaf);
        bytes = load32(leaf->values);
        leaf->values += 4;
        left -= 4;
    }
    if (bytes > left) return fail_early(leaf);
    const uint8_t *data = leaf->values;
    leaf->values += bytes;
    if (leaf->physical != MT_PARQUET_BYTE_ARRAY) return take_fixed(leaf, data, value);
    value->data = data;
    value->bytes = (size_t)bytes;
    return MT_OK;
}

static enum mt_status take_entry(struct mt_parquet_leaf *leaf, struct mt_value *value)
{
    uint32_t index = 0;
    if (!mt_parquet_runs_next(&leaf->indexes, &index)) return fail_early(leaf);
    if (index >= leaf->entry_count) {
        return mt_parquet_fail(leaf, "names entry %u of a dictionary of %zu", index, leaf->entry_count);
    }
    const struct mt_parquet_entry *entry = &leaf->entries[index];
    if (leaf->physical != MT_PARQUET_BYTE_ARRAY) return take_fixed(leaf, entry->data, value);
    value->data = entry->data;
    value->bytes = entry->bytes;
    return MT_OK;
}

static enum mt_status take_length(struct mt_parquet_leaf *leaf, struct mt_value *value)
{
    int64_t length = 0;
    if (!mt_parquet_deltas_next(&leaf->lengths, &length) || length < 0 ||
        length > leaf->values_end - leaf->values)
        return fail_early(leaf);
    value->data = leaf->values;
    value->bytes = (size_t)length;
    leaf->values += length;
    return MT_OK;
}

/* The beginning of the value before, and what is new. */
static enum mt_status take_suffix(struct mt_parquet_leaf *leaf, struct mt_value *value)
{
    int64_t prefix = 0;
    if (!mt_parquet_deltas_next(&leaf->deltas, &prefix) || prefix < 0 ||
        (uint64_t)prefix > leaf->previous.count)
        return fail_early(leaf);
    enum mt_status status = take_length(leaf, value);
    if (status != MT_OK) return status;
    leaf->previous.count = (size_t)prefix;
    if (value->bytes > MT_UNPACKED_MOST - leaf->previous.count) return fail_early(leaf);
    status = mt_byte_list_reserve(&leaf->previous, value->bytes + 1); // nothing is a place, too
    if (status == MT_OK) status = mt_byte_list_append(&leaf->previous, value->data, value->bytes);
    if (status != MT_OK) return status;
    value->data = leaf->previous.data;
    value->bytes = leaf->previous.count;
    if (leaf->physical == MT_PARQUET_BYTE_ARRAY) return MT_OK;
    return value->bytes == leaf->fixed ? take_fixed(leaf, value->data, value) : fail_early(leaf);
}

/* The n-th byte of every value lies in the n-th stream. */
static enum mt_status take_split(struct mt_parquet_leaf *leaf, struct mt_value *value)
{
    if (leaf->values == leaf->values_end || leaf->streams == 0) return fail_early(leaf);
    leaf->previous.count = 0;
    enum mt_status status = mt_byte_list_reserve(&leaf->previous, leaf->fixed + 8);
    if (status != MT_OK) return status;
    // A decimal's bytes are put into `previous`, too; what is read lies behind them.
    uint8_t *data = leaf->previous.data + 8;
    for (size_t i = 0; i < leaf->fixed; i++) data[i] = leaf->values[i * leaf->streams];
    leaf->values++;
    return take_fixed(leaf, data, value);
}

enum mt_status mt_parquet_leaf_value(struct mt_parquet_leaf *leaf, struct mt_value *value)
{
    uint32_t bit = 0;
    int64_t number = 0;
    *value = (struct mt_value){.data = (const uint8_t *)""};
    switch (leaf->encoding) {
    case MT_PARQUET_PLAIN: return take_plain(leaf, value);
    case MT_PARQUET_RLE_DICTIONARY: return take_entry(leaf, value);
    case MT_PARQUET_RLE:
        if (!mt_parquet_runs_next(&leaf->indexes, &bit)) return fail_early(leaf);
        value->whole = bit;
        return MT_OK;
    case MT_PARQUET_DELTA_BINARY_PACKED:
        if (!mt_parquet_deltas_next(&leaf->deltas, &number)) return fail_early(leaf);
        return take_whole(leaf, number, value);
    case MT_PARQUET_DELTA_LENGTH_BYTE_ARRAY: return take_length(leaf, value);
    case MT_PARQUET_DELTA_BYTE_ARRAY: return take_suffix(leaf, value);
    default: return take_split(leaf, value);
    }
}

// ------------------------------------------------------------------ the beginning of a page

/* True when the encoding is for values of the column's physical type. */
static bool fits(const struct mt_parquet_leaf *leaf, int encoding)
{
    bool texts = leaf->physical == MT_PARQUET_BYTE_ARRAY;
    bool wholes = leaf->physical == MT_PARQUET_INT32 || leaf->physical == MT_PARQUET_INT64;
    bool boolean = leaf->physical == MT_PARQUET_BOOLEAN;
    switch (encoding) {
    case MT_PARQUET_PLAIN: return true;
    case MT_PARQUET_PLAIN_DICTIONARY:
    case MT_PARQUET_RLE_DICTIONARY: return !boolean;
    case MT_PARQUET_RLE: return boolean;
    case MT_PARQUET_DELTA_BINARY_PACKED: return wholes;
    case MT_PARQUET_DELTA_LENGTH_BYTE_ARRAY: return texts;
    case MT_PARQUET_DELTA_BYTE_ARRAY: return texts || leaf->physical == MT_PARQUET_FIXED;
    case MT_PARQUET_BYTE_STREAM_SPLIT: return !texts && !boolean && leaf->physical != MT_PARQUET_INT96;
    default: return false;
    }
}

/* Lengths as differences, and behind them the texts. */
static bool start_lengths(struct mt_parquet_leaf *leaf, const uint8_t *data, const uint8_t *end)
{
    if (!mt_parquet_deltas_start(&leaf->lengths, data, (size_t)(end - data))) return false;
    leaf->values = mt_parquet_deltas_end(&leaf->lengths);
    return leaf->values != NULL;
}

static bool start_indexes(struct mt_parquet_leaf *leaf, const uint8_t *data, size_t bytes)
{
    if (bytes == 0) { // a page of nulls may have no width
        mt_parquet_runs_start(&leaf->indexes, data, 0, 1);
        return true;
    }
    if (data[0] > 32) return false;
    mt_parquet_runs_start(&leaf->indexes, data + 1, bytes - 1, data[0]);
    return true;
}

static bool start_booleans(struct mt_parquet_leaf *leaf, const uint8_t *data, size_t bytes)
{
    uint32_t length = bytes >= 4 ? load32(data) : 0;
    if (bytes >= 4 && length > bytes - 4) return false;
    mt_parquet_runs_start(&leaf->indexes, bytes >= 4 ? data + 4 : data, length, 1);
    return true;
}

enum mt_status mt_parquet_values_start(struct mt_parquet_leaf *leaf, const uint8_t *data, size_t bytes,
                                       uint64_t count)
{
    bool sound = true;
    const uint8_t *end = data + bytes;
    leaf->values = data;
    leaf->values_end = end;
    leaf->bit = 0;
    leaf->previous.count = 0;
    if (!fits(leaf, leaf->encoding))
        return mt_parquet_fail(leaf, "has encoding %d, which is not read for its type", leaf->encoding);
    if (leaf->encoding == MT_PARQUET_PLAIN_DICTIONARY) leaf->encoding = MT_PARQUET_RLE_DICTIONARY;
    switch (leaf->encoding) {
    case MT_PARQUET_RLE_DICTIONARY: sound = start_indexes(leaf, data, bytes); break;
    case MT_PARQUET_RLE: sound = start_booleans(leaf, data, bytes); break;
    case MT_PARQUET_DELTA_BINARY_PACKED:
        sound = bytes == 0 || mt_parquet_deltas_start(&leaf->deltas, data, bytes);
        if (bytes == 0) leaf->deltas = (struct mt_parquet_deltas){0};
        break;
    case MT_PARQUET_DELTA_LENGTH_BYTE_ARRAY:
        if (bytes == 0) leaf->lengths = (struct mt_parquet_deltas){0};
        sound = bytes == 0 || start_lengths(leaf, data, end);
        break;
    case MT_PARQUET_DELTA_BYTE_ARRAY:
        leaf->deltas = (struct mt_parquet_deltas){0};
        leaf->lengths = leaf->deltas;
        sound = bytes == 0 || mt_parquet_deltas_start(&leaf->deltas, data, bytes);
        data = sound && bytes > 0 ? mt_parquet_deltas_end(&leaf->deltas) : data;
        sound = bytes == 0 || (sound && data != NULL && start_lengths(leaf, data, end));
        break;
    case MT_PARQUET_BYTE_STREAM_SPLIT:
        // Every stream has a byte of each value that is not null.
        leaf->streams = bytes / leaf->fixed;
        sound = bytes % leaf->fixed == 0 && leaf->streams <= count;
        leaf->values_end = data + leaf->streams;
        break;
    default: break;
    }
    return sound ? MT_OK : fail_early(leaf);
}

enum mt_status mt_parquet_values_dictionary(struct mt_parquet_leaf *leaf, const uint8_t *data, size_t bytes,
                                            uint64_t count)
{
    size_t least = leaf->physical == MT_PARQUET_BYTE_ARRAY ? 4 : leaf->fixed;
    leaf->values = data;
    leaf->values_end = data + bytes;
    leaf->entry_count = 0;
    if (leaf->physical == MT_PARQUET_BOOLEAN || count > bytes / least)
        return mt_parquet_fail(leaf, "has a dictionary of %llu entries in %zu bytes",
                               (unsigned long long)count, bytes);
    enum mt_status status = MT_OK;
    leaf->entries = mt_list_reserve(leaf->ctx, leaf->entries, &leaf->entry_capacity, sizeof *leaf->entries,
                                    (size_t)count, &status);
    for (uint64_t i = 0; i < count && status == MT_OK; i++) {
        size_t length = leaf->fixed;
        size_t left = (size_t)(leaf->values_end - leaf->values);
        if (leaf->physical == MT_PARQUET_BYTE_ARRAY) {
            length = left >= 4 ? load32(leaf->values) : 0;
            leaf->values += left >= 4 ? 4 : 0;
            if (left < 4 || length > left - 4) return fail_early(leaf);
        } else if (length > left) {
            return fail_early(leaf);
        }
        leaf->entries[leaf->entry_count++] =
            (struct mt_parquet_entry){.data = leaf->values, .bytes = (uint32_t)length};
        leaf->values += length;
    }
    return status;
}
