/* Sets of hashes of rows, and their file. */
#include "formats/data/row_hashes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/files/file.h"

#define FIRST_CAPACITY 1024 // a power of two

// Separates this use of the hash from others. Changing it moves every built-in problem to another split.
#define ROW_KEY      0x6D65746965723031u

#define NAME_BYTES   48
#define NUMBER_BYTES 8
#define HEAD_BYTES   (NAME_BYTES + 2 * NUMBER_BYTES)
static const char any_version[] = "metier rows read ";
static const unsigned char this_version[NAME_BYTES] = "metier rows read 1: hashes of what rows ask     ";

// ------------------------------------------------------------------ texts

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

enum mt_status mt_row_text_append(struct mt_byte_list *to, const char *text, size_t bytes)
{
    enum mt_status status = MT_OK;
    for (size_t at = 0; at < bytes && status == MT_OK;) {
        size_t end = at;
        while (end < bytes && !is_space(text[end])) end++;
        if (end > at && to->count > 0) status = mt_byte_list_append(to, " ", 1);
        if (end > at && status == MT_OK) status = mt_byte_list_append(to, text + at, end - at);
        at = end + 1;
    }
    return status;
}

uint64_t mt_row_hash(const void *text, size_t bytes)
{
    return mt_digest_short(text, bytes, ROW_KEY);
}

// ------------------------------------------------------------------ the set

void mt_row_hashes_free(struct mt_row_hashes *set)
{
    if (set->ctx != NULL) mt_release(set->ctx, set->slot, set->capacity * sizeof *set->slot);
    *set = (struct mt_row_hashes){.ctx = set->ctx};
}

/* Where a hash is in a table, or the free place where it belongs. */
static size_t place_of(const uint64_t *slot, size_t capacity, const uint64_t key[2], uint64_t hash)
{
    uint64_t mixed = (hash ^ key[0]) * (key[1] | 1);
    mixed = (mixed ^ mixed >> 32) * (key[0] | 1);
    size_t at = (size_t)(mixed ^ mixed >> 32) & (capacity - 1);
    while (slot[at] != 0 && slot[at] != hash) at = (at + 1) & (capacity - 1);
    return at;
}

/* Twice the table, as soon as half of it is taken. */
static enum mt_status make_room(struct mt_row_hashes *set)
{
    void *memory = NULL;
    if (2 * (set->count + 1) <= set->capacity) return MT_OK;
    size_t capacity = set->capacity > 0 ? 2 * set->capacity : FIRST_CAPACITY;
    enum mt_status status = mt_allocate_array(set->ctx, capacity, sizeof *set->slot, &memory);
    if (status != MT_OK) return status;
    uint64_t *slot = memory;
    // Without random bytes a damaged or planted file costs time, and nothing else.
    if (set->capacity == 0 && getrandom(set->key, sizeof set->key, 0) != (ssize_t)sizeof set->key)
        set->key[1] = ROW_KEY;
    for (size_t i = 0; i < set->capacity; i++) {
        if (set->slot[i] != 0) slot[place_of(slot, capacity, set->key, set->slot[i])] = set->slot[i];
    }
    mt_release(set->ctx, set->slot, set->capacity * sizeof *slot);
    set->slot = slot;
    set->capacity = capacity;
    return MT_OK;
}

enum mt_status mt_row_hashes_add(struct mt_row_hashes *set, uint64_t hash, bool *fresh)
{
    enum mt_status status = make_room(set);
    if (status != MT_OK) return status;
    if (hash == 0) hash = 1;
    size_t at = place_of(set->slot, set->capacity, set->key, hash);
    bool new_one = set->slot[at] == 0;
    set->slot[at] = hash;
    set->count += new_one ? 1 : 0;
    if (fresh != NULL) *fresh = new_one;
    return MT_OK;
}

bool mt_row_hashes_has(const struct mt_row_hashes *set, uint64_t hash)
{
    if (set->count == 0) return false;
    if (hash == 0) hash = 1;
    return set->slot[place_of(set->slot, set->capacity, set->key, hash)] == hash;
}

// ------------------------------------------------------------------ the file

static void put_number(unsigned char *to, uint64_t number)
{
    for (int i = 0; i < NUMBER_BYTES; i++) to[i] = (unsigned char)(number >> (8 * i));
}

static uint64_t get_number(const unsigned char *from)
{
    uint64_t number = 0;
    for (int i = 0; i < NUMBER_BYTES; i++) number |= (uint64_t)from[i] << (8 * i);
    return number;
}

bool mt_row_hashes_is_file(const char *path)
{
    char head[sizeof any_version - 1];
    FILE *file = fopen(path, "rb");
    if (file == NULL) return false;
    bool whole = fread(head, 1, sizeof head, file) == sizeof head;
    (void)fclose(file);
    return whole && memcmp(head, any_version, sizeof head) == 0;
}

static enum mt_status check_head(struct mt_context *ctx, const char *path, const unsigned char *data,
                                 size_t bytes)
{
    size_t any = sizeof any_version - 1;
    if (bytes < any || memcmp(data, any_version, any) != 0)
        return mt_fail(ctx, MT_ERR_FORMAT, "%s: is not a file of row hashes", path);
    if (bytes < NAME_BYTES || memcmp(data, this_version, NAME_BYTES) != 0)
        return mt_fail(ctx, MT_ERR_FORMAT, "%s: is a file of row hashes of another version", path);
    if (bytes < HEAD_BYTES || (bytes - HEAD_BYTES) % NUMBER_BYTES != 0 ||
        (bytes - HEAD_BYTES) / NUMBER_BYTES != get_number(data + NAME_BYTES))
        return mt_fail(ctx, MT_ERR_FORMAT, "%s: is damaged: it does not have as many hashes as it says",
                       path);
    if (mt_row_hash(data + HEAD_BYTES, bytes - HEAD_BYTES) != get_number(data + NAME_BYTES + NUMBER_BYTES))
        return mt_fail(ctx, MT_ERR_FORMAT, "%s: is damaged: its checksum does not match", path);
    return MT_OK;
}

enum mt_status mt_row_hashes_read(struct mt_row_hashes *set, const char *path)
{
    void *memory = NULL;
    size_t bytes = 0;
    uint64_t before = 0;
    enum mt_status status = mt_file_read_all(set->ctx, path, MT_ROWS_READ_MOST_BYTES, &memory, &bytes);
    if (status != MT_OK) return status;
    const unsigned char *data = memory;
    status = check_head(set->ctx, path, data, bytes);
    for (size_t at = HEAD_BYTES; at < bytes && status == MT_OK; at += NUMBER_BYTES) {
        uint64_t hash = get_number(data + at);
        if (hash <= before)
            status =
                mt_fail(set->ctx, MT_ERR_FORMAT, "%s: is damaged: its hashes are not in rising order", path);
        before = hash;
        if (status == MT_OK) status = mt_row_hashes_add(set, hash, NULL);
    }
    mt_release(set->ctx, memory, bytes);
    return status;
}

static int by_size(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

/* The hashes, rising, as the file has them. */
static void put_hashes(const struct mt_row_hashes *set, uint64_t *sorted, unsigned char *data)
{
    size_t filled = 0;
    for (size_t i = 0; i < set->capacity; i++) {
        if (set->slot[i] != 0) sorted[filled++] = set->slot[i];
    }
    if (filled > 0) qsort(sorted, filled, sizeof *sorted, by_size);
    for (size_t i = 0; i < filled; i++) put_number(data + HEAD_BYTES + i * NUMBER_BYTES, sorted[i]);
}

enum mt_status mt_row_hashes_write(const struct mt_row_hashes *set, const char *path)
{
    size_t bytes = HEAD_BYTES + set->count * NUMBER_BYTES;
    void *sorted = NULL;
    void *memory = NULL;
    enum mt_status status = mt_allocate_array(set->ctx, set->count + 1, sizeof(uint64_t), &sorted);
    if (status == MT_OK) status = mt_allocate(set->ctx, bytes, &memory);
    if (status == MT_OK) {
        unsigned char *data = memory;
        put_hashes(set, sorted, data);
        for (size_t i = 0; i < NAME_BYTES; i++) data[i] = this_version[i];
        put_number(data + NAME_BYTES, set->count);
        put_number(data + NAME_BYTES + NUMBER_BYTES, mt_row_hash(data + HEAD_BYTES, bytes - HEAD_BYTES));
        status = mt_file_write_all(set->ctx, path, data, bytes);
    }
    mt_release(set->ctx, memory, bytes);
    mt_release(set->ctx, sorted, (set->count + 1) * sizeof(uint64_t));
    return status;
}

enum mt_status mt_row_hashes_read_model(struct mt_row_hashes *set, const char *folder, bool *present)
{
    char *path = NULL;
    enum mt_status status = mt_path_join(set->ctx, folder, MT_ROWS_READ_FILE, &path);
    *present = status == MT_OK && access(path, F_OK) == 0;
    if (*present) status = mt_row_hashes_read(set, path);
    mt_path_release(set->ctx, path);
    return status;
}
