/*
 * TensorBoard's event file. The scalars are laid down behind free room in the buffer; once their length is
 * known, the Event's first fields and the frame are put in front of them.
 */
#include "train/log/tensorboard.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/files/folder.h"

#define FRAME_BYTES  12 // length and its checksum
#define HEADER_BYTES 40 // of an Event before its summary: 9 + 11 + 6 at the most
#define FRONT_BYTES  (FRAME_BYTES + HEADER_BYTES)
#define BACK_BYTES   4 // the data's checksum
#define TAG_MOST     63
#define SCALAR_BYTES (2 + 2 + TAG_MOST + 5)
#define MOST_FILES   10 // begun in one second

// Protobuf keys: field number · 8 + wire type (0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes).
enum {
    EVENT_WALL_TIME = 1 * 8 + 1,
    EVENT_STEP = 2 * 8 + 0,
    EVENT_FILE_VERSION = 3 * 8 + 2,
    EVENT_SUMMARY = 5 * 8 + 2,
    EVENT_SESSION_LOG = 7 * 8 + 2,
    SUMMARY_VALUE = 1 * 8 + 2,
    VALUE_TAG = 1 * 8 + 2,
    VALUE_SIMPLE = 2 * 8 + 5,
    SESSION_STATUS = 1 * 8 + 0,
};

void mt_crc32c_table(uint32_t table[256])
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t rest = byte;
        for (int bit = 0; bit < 8; bit++) rest = rest >> 1 ^ (rest & 1 ? 0x82f63b78u : 0u);
        table[byte] = rest;
    }
}

uint32_t mt_crc32c(const uint32_t table[256], const void *data, size_t bytes)
{
    const unsigned char *next = data;
    uint32_t checksum = 0xffffffffu;
    for (size_t i = 0; i < bytes; i++) checksum = checksum >> 8 ^ table[(checksum ^ next[i]) & 0xff];
    return ~checksum;
}

uint32_t mt_crc32c_masked(uint32_t checksum)
{
    return (checksum >> 15 | checksum << 17) + 0xa282ead8u;
}

// ------------------------------------------------------------------ bytes

static unsigned char *put_little(unsigned char *at, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++) *at++ = (unsigned char)(value >> (8 * i) & 0xff);
    return at;
}

static unsigned char *put_varint(unsigned char *at, uint64_t value)
{
    while (value >= 0x80) {
        *at++ = (unsigned char)(value & 0x7f) | 0x80;
        value >>= 7;
    }
    *at++ = (unsigned char)value;
    return at;
}

/* A text's length and its bytes. */
static unsigned char *put_text(unsigned char *at, const char *text, size_t bytes)
{
    at = put_varint(at, bytes);
    for (size_t i = 0; i < bytes; i++) *at++ = (unsigned char)text[i];
    return at;
}

/* wall_time and step. */
static unsigned char *put_event(unsigned char *at, uint64_t step)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    double seconds = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    uint64_t bits;
    memcpy(&bits, &seconds, sizeof bits);
    *at++ = EVENT_WALL_TIME;
    at = put_little(at, bits, 8);
    *at++ = EVENT_STEP;
    return put_varint(at, step);
}

/* Frames and writes data that lies in the buffer with room before and behind it. */
static enum mt_status write_framed(struct mt_tensorboard *board, unsigned char *data, size_t bytes)
{
    unsigned char *start = data - FRAME_BYTES;
    (void)put_little(start, bytes, 8);
    (void)put_little(start + 8, mt_crc32c_masked(mt_crc32c(board->table, start, 8)), 4);
    (void)put_little(data + bytes, mt_crc32c_masked(mt_crc32c(board->table, data, bytes)), 4);
    return mt_log_file_append(&board->file, start, FRAME_BYTES + bytes + BACK_BYTES);
}

// ------------------------------------------------------------------ opening

static enum mt_status write_start(struct mt_tensorboard *board, uint64_t steps_done)
{
    static const char version[] = "brain.Event:2";
    unsigned char *data = board->buffer + FRONT_BYTES;
    unsigned char *end = put_event(data, 0);
    *end++ = EVENT_FILE_VERSION;
    end = put_text(end, version, sizeof version - 1);
    enum mt_status status = write_framed(board, data, (size_t)(end - data));
    if (status != MT_OK || steps_done == 0) return status;
    // A session that starts at this step voids what other files have from there on.
    end = put_event(data, steps_done + 1);
    *end++ = EVENT_SESSION_LOG;
    *end++ = 2;
    *end++ = SESSION_STATUS;
    *end++ = 1;
    return write_framed(board, data, (size_t)(end - data));
}

/* Files are read in the order of their names: the time comes first, and N tells two of one second apart. */
static enum mt_status open_file(struct mt_context *ctx, const char *directory, struct mt_log_file *file)
{
    char host[64] = "";
    char name[160];
    if (gethostname(host, sizeof host) != 0) host[0] = '\0';
    host[sizeof host - 1] = '\0';
    for (char *c = host; *c != '\0'; c++) {
        if (*c == '/') *c = '_';
    }
    for (int n = 0; n < MOST_FILES; n++) {
        bool exists = false;
        (void)snprintf(name, sizeof name, "events.out.tfevents.%010" PRId64 ".%s.%d", (int64_t)time(NULL),
                       host[0] != '\0' ? host : "localhost", n);
        enum mt_status status = mt_log_file_open(ctx, directory, name, true, &exists, file);
        if (status != MT_OK || !exists) return status;
    }
    return mt_fail(ctx, MT_ERR_IO, "%s: %d event files of this second are there already", directory,
                   MOST_FILES);
}

enum mt_status mt_tensorboard_open(struct mt_context *ctx, const char *directory, size_t scalars,
                                   uint64_t steps_done, struct mt_tensorboard *board)
{
    *board = (struct mt_tensorboard){.room = (scalars + 1) * SCALAR_BYTES};
    mt_crc32c_table(board->table);
    void *buffer = NULL;
    enum mt_status status = mt_folder_make(ctx, directory);
    if (status != MT_OK) return status;
    status = mt_allocate(ctx, FRONT_BYTES + board->room + BACK_BYTES, &buffer);
    if (status != MT_OK) return status;
    board->buffer = buffer;
    status = open_file(ctx, directory, &board->file);
    if (status != MT_OK) {
        mt_release(ctx, buffer, FRONT_BYTES + board->room + BACK_BYTES);
        *board = (struct mt_tensorboard){0};
        return status;
    }
    status = write_start(board, steps_done);
    if (status != MT_OK) mt_tensorboard_close(board);
    return status;
}

void mt_tensorboard_close(struct mt_tensorboard *board)
{
    if (board->buffer == NULL) return;
    mt_release(board->file.ctx, board->buffer, FRONT_BYTES + board->room + BACK_BYTES);
    mt_log_file_close(&board->file);
    *board = (struct mt_tensorboard){0};
}

// ------------------------------------------------------------------ records

void mt_tensorboard_scalar(struct mt_tensorboard *board, const char *tag, double value)
{
    size_t length = strlen(tag);
    if (isnan(value)) return;
    if (length > TAG_MOST || SCALAR_BYTES > board->room - board->bytes) {
        board->full = true;
        return;
    }
    float simple = (float)value;
    uint32_t bits;
    memcpy(&bits, &simple, sizeof bits);
    unsigned char *start = board->buffer + FRONT_BYTES + board->bytes;
    unsigned char *at = start;
    *at++ = SUMMARY_VALUE;
    *at++ = (unsigned char)(2 + length + 5); // below 128: a varint of one byte
    *at++ = VALUE_TAG;
    at = put_text(at, tag, length);
    *at++ = VALUE_SIMPLE;
    at = put_little(at, bits, 4);
    board->bytes += (size_t)(at - start);
}

enum mt_status mt_tensorboard_record(struct mt_tensorboard *board, uint64_t step)
{
    unsigned char header[HEADER_BYTES];
    size_t bytes = board->bytes;
    board->bytes = 0;
    if (board->full) {
        board->full = false;
        return mt_fail(board->file.ctx, MT_ERR_INTERNAL,
                       "%s: a record has more scalars than it was opened for", board->file.path);
    }
    if (bytes == 0) return MT_OK;
    unsigned char *end = put_event(header, step);
    *end++ = EVENT_SUMMARY;
    end = put_varint(end, bytes);
    size_t header_bytes = (size_t)(end - header);
    unsigned char *data = board->buffer + FRONT_BYTES - header_bytes;
    memcpy(data, header, header_bytes);
    return write_framed(board, data, header_bytes + bytes);
}
