/*
 * Rows of data by hashes of what they say, 64 bits each: a set, in memory and as a file. A model's folder has
 * such a file where the rows are known that it was trained on (MT_ROWS_READ_FILE).
 *
 * Two texts are the same when they differ in white space only: runs of it count as one space, and none at
 * either end. Which part of a row is hashed says text/row_identity.h.
 *
 * The file: a line of 48 bytes that names format and version; how many hashes, and a checksum of them, 8
 * bytes each; then the hashes, rising. Numbers are little-endian. It is somebody else's until it is checked.
 */
#ifndef MT_FORMATS_ROW_HASHES_H
#define MT_FORMATS_ROW_HASHES_H

#include <stdbool.h>

#include "formats/text/lists.h"

#define MT_ROWS_READ_FILE       "rows_read.hashes"
#define MT_ROWS_READ_MOST_BYTES ((size_t)1 << 33)

/* Appends a text as it is compared; a space comes before it where there is something already. */
enum mt_status mt_row_text_append(struct mt_byte_list *to, const char *text, size_t bytes);

/* The hash of a text in that form, the same on every machine. */
uint64_t mt_row_hash(const void *text, size_t bytes);

/* Zeroed with its context set it is empty. */
struct mt_row_hashes {
    struct mt_context *ctx; // borrowed
    uint64_t *slot;         // owned; open addressing, 0: free. A hash of 0 is kept as 1
    size_t capacity;        // 0, or a power of two
    size_t count;
    uint64_t key[2]; // drawn with the table, so that no file can choose where its hashes collide
};

void mt_row_hashes_free(struct mt_row_hashes *set); // a zeroed struct is allowed

/* Adds a hash; *fresh: it was not there. NULL: nobody wants to know. */
enum mt_status mt_row_hashes_add(struct mt_row_hashes *set, uint64_t hash, bool *fresh);
bool mt_row_hashes_has(const struct mt_row_hashes *set, uint64_t hash);

/* True when a file begins as one of hashes does, of whatever version. */
bool mt_row_hashes_is_file(const char *path);

/* Adds what a file has; one that is damaged, cut off, too long or of another version is refused. */
enum mt_status mt_row_hashes_read(struct mt_row_hashes *set, const char *path);

/* Writes the file; the same set, the same bytes. */
enum mt_status mt_row_hashes_write(const struct mt_row_hashes *set, const char *path);

/* Adds what the folder of a model says that it has read; *present: it says so. */
enum mt_status mt_row_hashes_read_model(struct mt_row_hashes *set, const char *folder, bool *present);

#endif
