/* What the files of the Parquet reader share: the schema as a tree of what rows hold, and a reader of a leaf.
 */
#ifndef MT_FORMATS_PARQUET_H
#define MT_FORMATS_PARQUET_H

#include "base/arena.h"
#include "base/files/file.h"
#include "formats/columnar/row_text.h"
#include "formats/columnar/thrift.h"
#include "formats/columnar/unpack.h"

#define MT_PARQUET_MOST_DEPTH  128
#define MT_PARQUET_MOST_LEAVES 4096
#define MT_PARQUET_WHAT_BYTES  400 // of "FILE: column 'NAME'"

enum mt_parquet_physical {
    MT_PARQUET_BOOLEAN,
    MT_PARQUET_INT32,
    MT_PARQUET_INT64,
    MT_PARQUET_INT96,
    MT_PARQUET_FLOAT,
    MT_PARQUET_DOUBLE,
    MT_PARQUET_BYTE_ARRAY,
    MT_PARQUET_FIXED, // FIXED_LEN_BYTE_ARRAY
    MT_PARQUET_TYPES
};

enum mt_parquet_encoding {
    MT_PARQUET_PLAIN = 0,
    MT_PARQUET_PLAIN_DICTIONARY = 2,
    MT_PARQUET_RLE = 3,
    MT_PARQUET_BIT_PACKED = 4,
    MT_PARQUET_DELTA_BINARY_PACKED = 5,
    MT_PARQUET_DELTA_LENGTH_BYTE_ARRAY = 6,
    MT_PARQUET_DELTA_BYTE_ARRAY = 7,
    MT_PARQUET_RLE_DICTIONARY = 8,
    MT_PARQUET_BYTE_STREAM_SPLIT = 9,
};

/* Whole numbers in runs: the hybrid of repeated values and packed bits, or the older form, packed bits alone
 * with the highest bit first. */
struct mt_parquet_runs {
    const uint8_t *at; // borrowed
    const uint8_t *end;
    unsigned width; // bits of a number, at most 32
    bool older;     // packed bits alone
    bool packed;    // of the run at hand
    uint64_t left;  // numbers of the run
    uint32_t repeated;
    uint64_t bit; // the next of a packed run, from `at`
};

void mt_parquet_runs_start(struct mt_parquet_runs *runs, const uint8_t *data, size_t bytes, unsigned width);
bool mt_parquet_runs_next(struct mt_parquet_runs *runs, uint32_t *number); // false: it ended, or is broken

/* DELTA_BINARY_PACKED: a first number, then differences in blocks of packed bits. */
struct mt_parquet_deltas {
    struct mt_thrift bytes; // its varints are thrift's
    uint64_t per_miniblock; // differences
    uint64_t miniblocks;    // of a block
    uint64_t left;          // numbers not given yet
    uint64_t value;         // the next one
    uint64_t lowest;        // of the block's differences
    const uint8_t *widths;  // of the block's miniblocks not begun
    uint64_t widths_left;
    unsigned width;  // of the miniblock at hand
    uint64_t inside; // differences left in it
    const uint8_t *packed;
    uint64_t bit;
};

bool mt_parquet_deltas_start(struct mt_parquet_deltas *deltas, const uint8_t *data, size_t bytes);
bool mt_parquet_deltas_next(struct mt_parquet_deltas *deltas, int64_t *number);

/* Where the numbers end, without reading them; NULL: they are broken. */
const uint8_t *mt_parquet_deltas_end(const struct mt_parquet_deltas *deltas);

struct mt_parquet_entry { // of a dictionary
    const uint8_t *data;
    uint32_t bytes;
};

/* A column's values, of all those a row group has; moves through its pages. */
struct mt_parquet_leaf {
    struct mt_context *ctx;             // borrowed
    const struct mt_file_mapping *file; // NULL: the bytes are not a mapping's
    char what[MT_PARQUET_WHAT_BYTES];   // begins its messages
    enum mt_parquet_physical physical;
    size_t fixed; // bytes of a value of fixed length
    struct mt_value_type type;
    unsigned max_definition;
    unsigned max_repetition;
    // The column chunk.
    const uint8_t *at;
    const uint8_t *end;
    const uint8_t *done; // what lies before it is given back
    enum mt_packing packing;
    uint64_t chunk_left; // values and nulls in pages to come
    // The page.
    uint64_t page_left;
    struct mt_parquet_runs definitions;
    struct mt_parquet_runs repetitions;
    struct mt_byte_list page; // unpacked
    int encoding;
    const uint8_t *values;
    const uint8_t *values_end;
    struct mt_parquet_runs indexes;  // of a dictionary; booleans
    struct mt_parquet_deltas deltas; // numbers; lengths of prefixes
    struct mt_parquet_deltas lengths;
    uint64_t streams;             // values of a page whose bytes are split into streams
    uint64_t bit;                 // of packed booleans
    struct mt_byte_list previous; // a value put together here
    // The dictionary.
    struct mt_byte_list dictionary;
    struct mt_parquet_entry *entries;
    size_t entry_count;
    size_t entry_capacity;
    // The value at hand; ended: behind the last, and its levels are zero.
    uint32_t definition;
    uint32_t repetition;
    bool ended;
};

/* Starts on a column chunk: the first value is at hand. */
enum mt_status mt_parquet_leaf_start(struct mt_parquet_leaf *leaf);

/* Steps to the next value; whoever needs the one at hand has read it before. */
enum mt_status mt_parquet_leaf_step(struct mt_parquet_leaf *leaf);

/* Reads the value at hand, which is not null; it lasts until the next step. */
enum mt_status mt_parquet_leaf_value(struct mt_parquet_leaf *leaf, struct mt_value *value);

void mt_parquet_leaf_free(struct mt_parquet_leaf *leaf);

/* Places the page's values for an encoding; `count` is values and nulls. */
enum mt_status mt_parquet_values_start(struct mt_parquet_leaf *leaf, const uint8_t *data, size_t bytes,
                                       uint64_t count);

/* Makes the dictionary out of `count` plain values in leaf->dictionary. */
enum mt_status mt_parquet_values_dictionary(struct mt_parquet_leaf *leaf, const uint8_t *data, size_t bytes,
                                            uint64_t count);

/* Records "FILE: column 'NAME' MESSAGE". */
enum mt_status mt_parquet_fail(const struct mt_parquet_leaf *leaf, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

enum mt_parquet_kind { MT_PARQUET_LEAF, MT_PARQUET_STRUCT, MT_PARQUET_LIST, MT_PARQUET_MAP };

/* A place in a row. The levels are those of its first leaf: from `defined` it is not null, of a list or map
 * from `filled` it has items, and an item that is not the first has `repeated`. */
struct mt_parquet_node {
    enum mt_parquet_kind kind;
    const char *name; // as in the file; borrowed from it
    size_t name_bytes;
    unsigned defined;
    unsigned filled;
    unsigned repeated;
    size_t first_leaf;
    size_t leaf_count;
    struct mt_parquet_node *child; // the first: a list's item, a map's key
    struct mt_parquet_node *next;  // the next of the same parent
};

struct mt_parquet_schema {
    struct mt_parquet_node *root; // in the arena
    struct mt_parquet_leaf *leaves;
    size_t leaf_count;
};

/* Reads the list of a file's schema, `count` elements. The leaves belong to the caller. */
enum mt_status mt_parquet_schema_read(struct mt_thrift *thrift, size_t count, const struct mt_row_text *out,
                                      struct mt_arena *arena, struct mt_parquet_schema *schema);

#endif
