/* The pages of a column chunk: their heads, unpacking, and the levels of values. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "formats/columnar/parquet.h"

enum page_type { PAGE_DATA, PAGE_INDEX, PAGE_DICTIONARY, PAGE_DATA_2 };

struct page_head {
    int64_t type;
    int64_t unpacked;
    int64_t packed; // bytes in the file
    bool summed;
    uint32_t sum;  // CRC-32
    int64_t count; // values and nulls
    int64_t encoding;
    int64_t definition_encoding;
    int64_t repetition_encoding;
    int64_t definition_bytes; // of PAGE_DATA_2
    int64_t repetition_bytes;
    bool is_packed;
};

enum mt_status mt_parquet_fail(const struct mt_parquet_leaf *leaf, const char *format, ...)
{
    char problem[400];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(problem, sizeof problem, format, arguments);
    va_end(arguments);
    return mt_fail(leaf->ctx, MT_ERR_FORMAT, "%s %s", leaf->what, problem);
}

static unsigned bits_for(unsigned most)
{
    unsigned bits = 0;
    while (most >> bits != 0) bits++;
    return bits;
}

// ------------------------------------------------------------------ the head

/* Of a data page or a dictionary, which has no levels. */
static void read_data_head(struct mt_thrift *thrift, struct page_head *head, bool dictionary)
{
    struct mt_thrift_field field = {0};
    while (mt_thrift_next(thrift, &field)) {
        switch (dictionary && field.id > 2 ? 0 : field.id) {
        case 1: head->count = mt_thrift_whole(thrift, &field); break;
        case 2: head->encoding = mt_thrift_whole(thrift, &field); break;
        case 3: head->definition_encoding = mt_thrift_whole(thrift, &field); break;
        case 4: head->repetition_encoding = mt_thrift_whole(thrift, &field); break;
        default: mt_thrift_skip(thrift, &field);
        }
    }
}

static void read_data_2_head(struct mt_thrift *thrift, struct page_head *head)
{
    struct mt_thrift_field field = {0};
    while (mt_thrift_next(thrift, &field)) {
        switch (field.id) {
        case 1: head->count = mt_thrift_whole(thrift, &field); break;
        case 4: head->encoding = mt_thrift_whole(thrift, &field); break;
        case 5: head->definition_bytes = mt_thrift_whole(thrift, &field); break;
        case 6: head->repetition_bytes = mt_thrift_whole(thrift, &field); break;
        case 7: head->is_packed = mt_thrift_flag(thrift, &field); break;
        default: mt_thrift_skip(thrift, &field);
        }
    }
}

static enum mt_status read_head(struct mt_parquet_leaf *leaf, struct page_head *head)
{
    struct mt_thrift thrift = {.at = leaf->at, .end = leaf->end};
    struct mt_thrift_field field = {0};
    *head = (struct page_head){.type = -1,
                               .definition_encoding = MT_PARQUET_RLE,
                               .repetition_encoding = MT_PARQUET_RLE,
                               .is_packed = true};
    while (mt_thrift_next(&thrift, &field)) {
        switch (field.id) {
        case 1: head->type = mt_thrift_whole(&thrift, &field); break;
        case 2: head->unpacked = mt_thrift_whole(&thrift, &field); break;
        case 3: head->packed = mt_thrift_whole(&thrift, &field); break;
        case 4:
            head->sum = (uint32_t)mt_thrift_whole(&thrift, &field);
            head->summed = true;
            break;
        case 5:
        case 7:
            if (mt_thrift_struct(&thrift, &field)) read_data_head(&thrift, head, field.id == 7);
            break;
        case 8:
            if (mt_thrift_struct(&thrift, &field)) read_data_2_head(&thrift, head);
            break;
        default: mt_thrift_skip(&thrift, &field);
        }
    }
    if (thrift.broken) return mt_parquet_fail(leaf, "has a page whose head is cut off or damaged");
    leaf->at = thrift.at;
    uint64_t left = (uint64_t)(leaf->end - leaf->at);
    if (head->packed < 0 || (uint64_t)head->packed > left || head->unpacked < 0 || head->count < 0 ||
        head->definition_bytes < 0 || head->repetition_bytes < 0)
        return mt_parquet_fail(leaf, "has a page of %lld bytes with %llu left in the file",
                               (long long)head->packed, (unsigned long long)left);
    return MT_OK;
}

/* Unpacks the page's bytes behind the first `before`, or leaves them where they are. */
static enum mt_status unpack(struct mt_parquet_leaf *leaf, const struct page_head *head, uint64_t before,
                             struct mt_byte_list *to, const uint8_t **data, size_t *bytes)
{
    *data = leaf->at + before;
    *bytes = (size_t)((uint64_t)head->packed - before);
    if (leaf->packing == MT_PACKING_NONE || !head->is_packed) return MT_OK;
    // A page of nothing but nulls may have no bytes at all.
    bool nothing = *bytes == 0 && (uint64_t)head->unpacked == before;
    if (nothing) return MT_OK;
    enum mt_status status =
        mt_unpack(leaf->packing, *data, *bytes, (uint64_t)head->unpacked - before, to, leaf->what);
    *data = to->data;
    *bytes = to->count;
    return status;
}

// ------------------------------------------------------------------ levels

/* Takes levels off the front of a page of the first kind. */
static enum mt_status take_levels(struct mt_parquet_leaf *leaf, const struct page_head *head,
                                  int64_t encoding, unsigned most, struct mt_parquet_runs *runs,
                                  const uint8_t **data, size_t *bytes)
{
    unsigned width = bits_for(most);
    uint64_t length = 0;
    mt_parquet_runs_start(runs, *data, 0, width);
    if (width == 0) return MT_OK;
    if (encoding == MT_PARQUET_BIT_PACKED) {
        length = ((uint64_t)head->count * width + 7) / 8;
    } else if (encoding == MT_PARQUET_RLE && *bytes >= 4) {
        const uint8_t *at = *data;
        length = (uint64_t)at[0] | (uint64_t)at[1] << 8 | (uint64_t)at[2] << 16 | (uint64_t)at[3] << 24;
        *data += 4;
        *bytes -= 4;
    } else {
        return mt_parquet_fail(leaf, "has levels in encoding %lld, or none", (long long)encoding);
    }
    if (length > *bytes) return mt_parquet_fail(leaf, "has a page that ends within its levels");
    mt_parquet_runs_start(runs, *data, (size_t)length, width);
    runs->older = encoding == MT_PARQUET_BIT_PACKED;
    *data += length;
    *bytes -= (size_t)length;
    return MT_OK;
}

static enum mt_status start_data(struct mt_parquet_leaf *leaf, const struct page_head *head)
{
    const uint8_t *data = NULL;
    size_t bytes = 0;
    enum mt_status status = unpack(leaf, head, 0, &leaf->page, &data, &bytes);
    if (status == MT_OK)
        status = take_levels(leaf, head, head->repetition_encoding, leaf->max_repetition, &leaf->repetitions,
                             &data, &bytes);
    if (status == MT_OK)
        status = take_levels(leaf, head, head->definition_encoding, leaf->max_definition, &leaf->definitions,
                             &data, &bytes);
    return status == MT_OK ? mt_parquet_values_start(leaf, data, bytes, (uint64_t)head->count) : status;
}

/* The second kind of page has its levels unpacked, before the values. */
static enum mt_status start_data_2(struct mt_parquet_leaf *leaf, const struct page_head *head)
{
    const uint8_t *data = NULL;
    size_t bytes = 0;
    int64_t levels = head->definition_bytes + head->repetition_bytes;
    if (levels > head->packed || levels > head->unpacked)
        return mt_parquet_fail(leaf, "has a page that ends within its levels");
    mt_parquet_runs_start(&leaf->repetitions, leaf->at, (size_t)head->repetition_bytes,
                          bits_for(leaf->max_repetition));
    mt_parquet_runs_start(&leaf->definitions, leaf->at + head->repetition_bytes,
                          (size_t)head->definition_bytes, bits_for(leaf->max_definition));
    enum mt_status status = unpack(leaf, head, (uint64_t)levels, &leaf->page, &data, &bytes);
    return status == MT_OK ? mt_parquet_values_start(leaf, data, bytes, (uint64_t)head->count) : status;
}

// ------------------------------------------------------------------ pages

static enum mt_status start_dictionary(struct mt_parquet_leaf *leaf, const struct page_head *head)
{
    const uint8_t *data = NULL;
    size_t bytes = 0;
    if (head->encoding != MT_PARQUET_PLAIN && head->encoding != MT_PARQUET_PLAIN_DICTIONARY)
        return mt_parquet_fail(leaf, "has a dictionary in encoding %lld", (long long)head->encoding);
    enum mt_status status = unpack(leaf, head, 0, &leaf->dictionary, &data, &bytes);
    return status == MT_OK ? mt_parquet_values_dictionary(leaf, data, bytes, (uint64_t)head->count) : status;
}

/* Reads a page of any kind; of data: its first value comes next. */
static enum mt_status next_page(struct mt_parquet_leaf *leaf)
{
    struct page_head head;
    // What was read of the file is not needed again, but for a dictionary that is used where it lies.
    if (leaf->file != NULL && leaf->done < leaf->at)
        mt_file_forget(leaf->file, leaf->done, (size_t)(leaf->at - leaf->done));
    leaf->done = leaf->at;
    enum mt_status status = read_head(leaf, &head);
    if (status != MT_OK) return status;
    if (head.summed && head.packed <= UINT32_MAX &&
        (uint32_t)crc32(0, leaf->at, (unsigned)head.packed) != head.sum)
        return mt_parquet_fail(leaf, "has a page whose checksum does not match: the file is damaged");
    switch (head.type) {
    case PAGE_DICTIONARY: status = start_dictionary(leaf, &head); break;
    case PAGE_INDEX: break;
    case PAGE_DATA:
    case PAGE_DATA_2:
        if ((uint64_t)head.count > leaf->chunk_left)
            return mt_parquet_fail(leaf, "has a page of %lld values where %llu are left",
                                   (long long)head.count, (unsigned long long)leaf->chunk_left);
        leaf->encoding = (int)head.encoding;
        leaf->chunk_left -= (uint64_t)head.count;
        leaf->page_left = (uint64_t)head.count;
        status = head.type == PAGE_DATA ? start_data(leaf, &head) : start_data_2(leaf, &head);
        break;
    default: status = mt_parquet_fail(leaf, "has a page of the unknown kind %lld", (long long)head.type);
    }
    leaf->at += head.packed;
    return status;
}

enum mt_status mt_parquet_leaf_step(struct mt_parquet_leaf *leaf)
{
    leaf->definition = 0;
    leaf->repetition = 0;
    while (leaf->page_left == 0) {
        leaf->ended = leaf->chunk_left == 0;
        if (leaf->ended) return MT_OK;
        enum mt_status status = next_page(leaf);
        if (status != MT_OK) return status;
    }
    leaf->page_left--;
    bool read = mt_parquet_runs_next(&leaf->repetitions, &leaf->repetition) &&
                mt_parquet_runs_next(&leaf->definitions, &leaf->definition);
    if (!read || leaf->definition > leaf->max_definition || leaf->repetition > leaf->max_repetition)
        return mt_parquet_fail(leaf, "has levels that end early, or are damaged");
    return MT_OK;
}

enum mt_status mt_parquet_leaf_start(struct mt_parquet_leaf *leaf)
{
    leaf->page_left = 0;
    leaf->entry_count = 0;
    leaf->done = leaf->at;
    leaf->ended = false;
    return mt_parquet_leaf_step(leaf);
}

void mt_parquet_leaf_free(struct mt_parquet_leaf *leaf)
{
    mt_byte_list_free(&leaf->page);
    mt_byte_list_free(&leaf->dictionary);
    mt_byte_list_free(&leaf->previous);
    mt_release(leaf->ctx, leaf->entries, leaf->entry_capacity * sizeof *leaf->entries);
}
