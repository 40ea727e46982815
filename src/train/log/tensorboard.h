/*
 * TensorBoard's event file, written by hand. A record is
 *
 *     length u64 | masked CRC-32C of the length u32 | data | masked CRC-32C of the data u32     little endian
 *
 * and data a protobuf message Event: wall_time (1, double), step (2, int64), and one of file_version (3,
 * string), summary (5: repeated value (1) with tag (1, string) and simple_value (2, float)), session_log (7:
 * status (1) = 1, START). The scalars of one record share one Event.
 */
#ifndef MT_TRAIN_TENSORBOARD_H
#define MT_TRAIN_TENSORBOARD_H

#include "train/log/log_file.h"

struct mt_tensorboard {
    struct mt_log_file file;
    unsigned char *buffer; // owned; room for one record
    size_t room;
    size_t bytes; // of the scalars so far
    bool full;    // one did not fit
    uint32_t table[256];
};

/*
 * Starts a new event file "events.out.tfevents.TIME.HOST.N" in a directory that is made if it is missing,
 * with room for `scalars` scalars a record. steps_done > 0: a resumed run; what earlier files say about later
 * steps is void, and the file says so.
 */
enum mt_status mt_tensorboard_open(struct mt_context *ctx, const char *directory, size_t scalars,
                                   uint64_t steps_done, struct mt_tensorboard *board);

/* Adds a scalar to the record being made; NaN is left out. Tags are at most 63 bytes. */
void mt_tensorboard_scalar(struct mt_tensorboard *board, const char *tag, double value);

/* Writes the scalars added since the last record as one; none: nothing. */
enum mt_status mt_tensorboard_record(struct mt_tensorboard *board, uint64_t step);

/* A closed or zeroed one is allowed. */
void mt_tensorboard_close(struct mt_tensorboard *board);

/* The checksum of a stretch of bytes, Castagnoli's polynomial, and as event files mask it. */
void mt_crc32c_table(uint32_t table[256]);
uint32_t mt_crc32c(const uint32_t table[256], const void *data, size_t bytes);
uint32_t mt_crc32c_masked(uint32_t checksum);

#endif
