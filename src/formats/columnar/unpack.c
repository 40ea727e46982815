/* Unpacking, by the libraries and, for Snappy, by ourselves: each is told how much it may write. */
#define ZLIB_CONST

#include "formats/columnar/unpack.h"

#include <lz4.h>
#include <lz4frame.h>
#include <zlib.h>
#include <zstd.h>

#define GZIP_OR_ZLIB (15 + 32) // zlib's number for "the largest window, gzip or zlib by the header"

struct piece {
    const uint8_t *from;
    size_t bytes;
    uint8_t *to;
    size_t room; // what it has to become
};

static bool unpack_gzip(const struct piece *piece)
{
    z_stream stream = {.next_in = piece->from,
                       .avail_in = (unsigned)piece->bytes,
                       .next_out = piece->to,
                       .avail_out = (unsigned)piece->room};
    if (inflateInit2(&stream, GZIP_OR_ZLIB) != Z_OK) return false;
    int outcome = inflate(&stream, Z_FINISH);
    // Several members, one behind the other, are one text.
    while (outcome == Z_STREAM_END && stream.avail_in > 0 && inflateReset(&stream) == Z_OK)
        outcome = inflate(&stream, Z_FINISH);
    (void)inflateEnd(&stream);
    return outcome == Z_STREAM_END && stream.avail_out == 0;
}

static bool unpack_lz4_frame(const struct piece *piece)
{
    LZ4F_dctx *frame = NULL;
    if (LZ4F_isError(LZ4F_createDecompressionContext(&frame, LZ4F_VERSION)) != 0) return false;
    size_t read = 0;
    size_t written = 0;
    size_t wanted = 1; // what the frame still needs; 0: it has ended
    bool moved = true;
    while (wanted != 0 && LZ4F_isError(wanted) == 0 && moved) {
        size_t in = piece->bytes - read;
        size_t out = piece->room - written;
        wanted = LZ4F_decompress(frame, piece->to + written, &out, piece->from + read, &in, NULL);
        read += in;
        written += out;
        moved = in > 0 || out > 0;
    }
    (void)LZ4F_freeDecompressionContext(frame);
    return wanted == 0 && read == piece->bytes && written == piece->room;
}

/* A number of 7 bits a byte; false: it does not end. */
static bool snappy_length(const struct piece *piece, size_t *read, uint64_t *length)
{
    *length = 0;
    for (unsigned shift = 0; shift < 35 && *read < piece->bytes; shift += 7) {
        uint8_t byte = piece->from[(*read)++];
        *length |= (uint64_t)(byte & 0x7Fu) << shift;
        if ((byte & 0x80u) == 0) return true;
    }
    return false;
}

/*
 * Snappy's blocks: the length of all, then pieces of two kinds. Literal bytes follow as they are; a copy
 * repeats what was written `distance` bytes before, and may run into what it writes. Ours, not libsnappy:
 * that is C++, and would bring a libstdc++ of its own into every process that loads libmetier.so beside
 * PyTorch.
 */
static bool unpack_snappy(const struct piece *piece)
{
    size_t read = 0;
    size_t written = 0;
    uint64_t whole = 0;
    if (!snappy_length(piece, &read, &whole) || whole != piece->room) return false;
    while (read < piece->bytes) {
        uint8_t tag = piece->from[read++];
        unsigned kind = tag & 3u;
        uint64_t length = (uint64_t)(tag >> 2) + 1;
        // What follows the tag: of a long literal its length less one, of a copy its distance.
        unsigned extra = kind == 0 ? (length > 60 ? (unsigned)length - 60 : 0) : (kind < 3 ? kind : 4);
        uint64_t number = 0;
        if (extra > piece->bytes - read) return false;
        for (unsigned i = 0; i < extra; i++) number |= (uint64_t)piece->from[read++] << (8 * i);
        if (kind == 0 && extra > 0) length = number + 1;
        if (kind == 1) {
            length = (uint64_t)(tag >> 2 & 7u) + 4;
            number |= (uint64_t)(tag >> 5) << 8;
        }
        if (length > piece->room - written) return false;
        if (kind == 0) {
            if (length > piece->bytes - read) return false;
            memcpy(piece->to + written, piece->from + read, length);
            read += length;
            written += length;
            continue;
        }
        if (number == 0 || number > written) return false;
        for (uint64_t i = 0; i < length; i++, written++) piece->to[written] = piece->to[written - number];
    }
    return written == piece->room;
}

static bool unpack_zstd(const struct piece *piece)
{
    size_t length = ZSTD_decompress(piece->to, piece->room, piece->from, piece->bytes);
    return ZSTD_isError(length) == 0 && length == piece->room;
}

static bool unpack_lz4(const struct piece *piece)
{
    int length = LZ4_decompress_safe((const char *)piece->from, (char *)piece->to, (int)piece->bytes,
                                     (int)piece->room);
    return length >= 0 && (size_t)length == piece->room;
}

static bool copy(const struct piece *piece)
{
    if (piece->bytes != piece->room) return false;
    memcpy(piece->to, piece->from, piece->bytes);
    return true;
}

/* How many bytes a packed one can become at most, by the format (of zstd and lz4's blocks: more than ever).
 */
static uint64_t most_of(enum mt_packing packing, uint64_t bytes)
{
    static const uint64_t factors[] = {1, 64, 1040, 65536, 256, 256};
    return bytes * factors[packing] + 64;
}

enum mt_status mt_unpack(enum mt_packing packing, const uint8_t *from, size_t bytes, uint64_t unpacked,
                         struct mt_byte_list *to, const char *what)
{
    static bool (*const unpackers[])(const struct piece *) = {
        [MT_PACKING_NONE] = copy,          [MT_PACKING_SNAPPY] = unpack_snappy,
        [MT_PACKING_GZIP] = unpack_gzip,   [MT_PACKING_ZSTD] = unpack_zstd,
        [MT_PACKING_LZ4_RAW] = unpack_lz4, [MT_PACKING_LZ4_FRAME] = unpack_lz4_frame,
    };
    to->count = 0;
    if (unpacked > MT_UNPACKED_MOST || bytes > MT_UNPACKED_MOST) {
        return mt_fail(to->ctx, MT_ERR_FORMAT, "%s: a piece has %llu bytes, the limit is %llu", what,
                       (unsigned long long)(unpacked > bytes ? unpacked : bytes),
                       (unsigned long long)MT_UNPACKED_MOST);
    }
    if (unpacked > most_of(packing, bytes)) {
        return mt_fail(to->ctx, MT_ERR_FORMAT, "%s: %zu packed bytes cannot unpack to %llu", what, bytes,
                       (unsigned long long)unpacked);
    }
    // One byte more: nothing unpacked is still a place.
    enum mt_status status = mt_byte_list_reserve(to, (size_t)unpacked + 1);
    if (status != MT_OK) return status;
    const struct piece piece = {.from = from, .bytes = bytes, .to = to->data, .room = (size_t)unpacked};
    if (!unpackers[packing](&piece))
        return mt_fail(to->ctx, MT_ERR_FORMAT, "%s: does not unpack to the %llu bytes it should have", what,
                       (unsigned long long)unpacked);
    to->count = (size_t)unpacked;
    return MT_OK;
}
