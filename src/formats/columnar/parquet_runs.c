/* Whole numbers as Parquet packs them: in runs, and as differences. */
#include "formats/columnar/parquet.h"

/* `width` bits (at most 64) from the bit `bit` on, the lowest first; false where they are not there. */
static bool take_bits(const uint8_t *data, const uint8_t *end, uint64_t bit, unsigned width, uint64_t *number)
{
    uint64_t first = bit / 8;
    unsigned shift = (unsigned)(bit % 8);
    uint64_t needed = (shift + width + 7) / 8;
    uint64_t there = (uint64_t)(end - data);
    uint64_t low = 0;
    if (first > there || needed > there - first) return false;
    data += first;
    for (unsigned i = 0; i < needed && i < 8; i++) low |= (uint64_t)data[i] << (8 * i);
    low >>= shift;
    if (needed > 8) low |= (uint64_t)data[8] << (64 - shift);
    *number = width < 64 ? low & (((uint64_t)1 << width) - 1) : low;
    return true;
}

// ------------------------------------------------------------------ runs

void mt_parquet_runs_start(struct mt_parquet_runs *runs, const uint8_t *data, size_t bytes, unsigned width)
{
    *runs = (struct mt_parquet_runs){.at = data, .end = data + bytes, .width = width};
}

/* The head of the next run that is not empty. */
static bool next_run(struct mt_parquet_runs *runs)
{
    // A packed run's own bytes lie behind us.
    if (runs->packed) {
        uint64_t bytes = (runs->bit + 7) / 8;
        if (bytes > (uint64_t)(runs->end - runs->at)) return false;
        runs->at += bytes;
    }
    runs->packed = false;
    while (runs->left == 0) {
        struct mt_thrift head = {.at = runs->at, .end = runs->end};
        uint64_t number = mt_thrift_varint(&head);
        if (head.broken) return false;
        runs->at = head.at;
        runs->packed = (number & 1) != 0;
        runs->left = runs->packed ? (number >> 1) * 8 : number >> 1;
        runs->bit = 0;
        if (runs->left > (uint64_t)1 << 34) return false;
        if (runs->packed) continue;
        unsigned bytes = (runs->width + 7) / 8;
        if (bytes > (uint64_t)(runs->end - runs->at)) return false;
        runs->repeated = 0;
        for (unsigned i = 0; i < bytes; i++) runs->repeated |= (uint32_t)runs->at[i] << (8 * i);
        runs->at += bytes;
    }
    return true;
}

static bool next_older(struct mt_parquet_runs *runs, uint32_t *number)
{
    *number = 0;
    if (runs->width > 8 * (uint64_t)(runs->end - runs->at) - runs->bit) return false;
    for (unsigned i = 0; i < runs->width; i++, runs->bit++)
        *number = *number << 1 | ((uint32_t)runs->at[runs->bit / 8] >> (7 - runs->bit % 8) & 1u);
    return true;
}

bool mt_parquet_runs_next(struct mt_parquet_runs *runs, uint32_t *number)
{
    uint64_t bits = 0;
    *number = 0;
    if (runs->width == 0) return true; // nothing to tell apart, and nothing written
    if (runs->older) return next_older(runs, number);
    if (runs->left == 0 && !next_run(runs)) return false;
    runs->left--;
    *number = runs->repeated;
    if (!runs->packed) return true;
    if (!take_bits(runs->at, runs->end, runs->bit, runs->width, &bits)) return false;
    runs->bit += runs->width;
    *number = (uint32_t)bits;
    return true;
}

// ------------------------------------------------------------------ differences

bool mt_parquet_deltas_start(struct mt_parquet_deltas *deltas, const uint8_t *data, size_t bytes)
{
    *deltas = (struct mt_parquet_deltas){.bytes = {.at = data, .end = data + bytes}};
    struct mt_thrift *head = &deltas->bytes;
    uint64_t block = mt_thrift_varint(head);
    deltas->miniblocks = mt_thrift_varint(head);
    deltas->left = mt_thrift_varint(head);
    uint64_t first = mt_thrift_varint(head);
    deltas->value = first >> 1 ^ (0 - (first & 1));
    if (head->broken || deltas->miniblocks == 0 || block > (uint64_t)1 << 24) return false;
    deltas->per_miniblock = block / deltas->miniblocks;
    return block % deltas->miniblocks == 0 && deltas->per_miniblock > 0 && deltas->per_miniblock % 8 == 0;
}

/* The head of a block: its lowest difference, and a byte for each miniblock's width. */
static bool next_block(struct mt_parquet_deltas *deltas)
{
    struct mt_thrift *head = &deltas->bytes;
    uint64_t lowest = mt_thrift_varint(head);
    deltas->lowest = lowest >> 1 ^ (0 - (lowest & 1));
    if (head->broken || deltas->miniblocks > (uint64_t)(head->end - head->at)) return false;
    deltas->widths = head->at;
    deltas->widths_left = deltas->miniblocks;
    head->at += deltas->miniblocks;
    return true;
}

static bool next_miniblock(struct mt_parquet_deltas *deltas)
{
    if (deltas->widths_left == 0 && !next_block(deltas)) return false;
    struct mt_thrift *bytes = &deltas->bytes;
    deltas->width = *deltas->widths++;
    deltas->widths_left--;
    deltas->inside = deltas->per_miniblock;
    deltas->packed = bytes->at;
    deltas->bit = 0;
    if (deltas->width > 64) return false;
    uint64_t length = deltas->per_miniblock / 8 * deltas->width;
    if (length > (uint64_t)(bytes->end - bytes->at)) return false;
    bytes->at += length;
    return true;
}

bool mt_parquet_deltas_next(struct mt_parquet_deltas *deltas, int64_t *number)
{
    uint64_t difference = 0;
    if (deltas->left == 0) return false;
    *number = (int64_t)deltas->value;
    if (--deltas->left == 0) return true;
    if (deltas->inside == 0 && !next_miniblock(deltas)) return false;
    deltas->inside--;
    if (!take_bits(deltas->packed, deltas->bytes.end, deltas->bit, deltas->width, &difference)) return false;
    deltas->bit += deltas->width;
    deltas->value += deltas->lowest + difference; // around the end of 64 bits, as it was written
    return true;
}

const uint8_t *mt_parquet_deltas_end(const struct mt_parquet_deltas *deltas)
{
    struct mt_parquet_deltas ahead = *deltas;
    uint64_t left = ahead.left > 0 ? ahead.left - 1 : 0;
    while (left > 0) {
        if (!next_miniblock(&ahead)) return NULL;
        left -= left < ahead.per_miniblock ? left : ahead.per_miniblock;
    }
    return ahead.bytes.at;
}
