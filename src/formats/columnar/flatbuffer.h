/*
 * Flatbuffers, as far as Arrow's metadata needs them: tables are looked into where they lie, each access
 * checked against the bytes there are. What contradicts itself marks the buffer as broken, and reads as
 * absent.
 */
#ifndef MT_FORMATS_FLATBUFFER_H
#define MT_FORMATS_FLATBUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mt_flatbuffer {
    const uint8_t *data; // borrowed
    size_t bytes;
    bool broken;
};

/* A table in a buffer; at 0 there is none, and all its fields are absent. */
struct mt_flat_table {
    struct mt_flatbuffer *buffer; // borrowed
    size_t at;
};

/* Items of a vector; the caller stays below count. */
struct mt_flat_vector {
    struct mt_flatbuffer *buffer; // borrowed
    size_t at;
    size_t count;
};

struct mt_flat_table mt_flat_root(struct mt_flatbuffer *buffer);

/* A number of `bytes` bytes (1, 2, 4 or 8), with its sign; absent: the default. */
int64_t mt_flat_whole(const struct mt_flat_table *table, int field, int bytes, int64_t absent);

struct mt_flat_table mt_flat_child(const struct mt_flat_table *table, int field);
struct mt_flat_vector mt_flat_items(const struct mt_flat_table *table, int field, size_t item_bytes);

/* A text, which is not terminated; absent: NULL. */
const char *mt_flat_text(const struct mt_flat_table *table, int field, size_t *bytes);

/* Of a vector of tables; and a number `offset` bytes into an item of a vector of structs. */
struct mt_flat_table mt_flat_table_item(const struct mt_flat_vector *vector, size_t index);
int64_t mt_flat_struct_item(const struct mt_flat_vector *vector, size_t index, size_t item_bytes,
                            size_t offset);

#endif
