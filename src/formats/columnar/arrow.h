/* What the files of the Arrow reader share: fields as a tree, with the buffers of the record batch at hand.
 */
#ifndef MT_FORMATS_ARROW_H
#define MT_FORMATS_ARROW_H

#include "base/arena.h"
#include "formats/columnar/flatbuffer.h"
#include "formats/columnar/row_text.h"
#include "formats/columnar/unpack.h"

#define MT_ARROW_MOST_FIELDS 4096
#define MT_ARROW_MOST_DEPTH  64
#define MT_ARROW_WHAT_BYTES  400

enum mt_arrow_layout {
    MT_ARROW_NOTHING, // all null
    MT_ARROW_BITS,
    MT_ARROW_FIXED,  // values of `width` bytes
    MT_ARROW_TEXTS,  // offsets of `width` bytes (4 or 8), and what they point into
    MT_ARROW_VIEWS,  // places of 16 bytes
    MT_ARROW_LIST,   // offsets of `width` bytes
    MT_ARROW_ARRAYS, // lists of `width` items each
    MT_ARROW_STRUCT,
    MT_ARROW_MAP,
};

/* A buffer of a batch: in the file, or unpacked. */
struct mt_arrow_buffer {
    const uint8_t *data;
    uint64_t bytes;
    struct mt_byte_list unpacked; // owned; empty where data lies in the file
};

struct mt_arrow_field {
    struct mt_context *ctx;         // borrowed
    char what[MT_ARROW_WHAT_BYTES]; // begins its messages
    const char *name;               // in the arena
    size_t name_bytes;
    enum mt_arrow_layout layout;
    uint64_t width;
    bool is_signed;    // of indexes
    bool milliseconds; // of dates, instead of days
    struct mt_value_type type;
    struct mt_arrow_field *child; // the first
    struct mt_arrow_field *next;
    // A field of indexes into a dictionary: `width` is theirs, the rest is that of `values`.
    bool indexed;
    int64_t dictionary;
    struct mt_arrow_field *values; // as its dictionary has them; without buffers of its own
    // The batch.
    uint64_t length;
    struct mt_arrow_buffer valid;
    struct mt_arrow_buffer offsets; // or views
    struct mt_arrow_buffer data;
    struct mt_arrow_buffer *more; // of views: [more_count]
    size_t more_count;
};

/* A dictionary as it came: its values, in one batch or, where later ones add to it, several. */
struct mt_arrow_dictionary {
    int64_t id;
    struct mt_arrow_field
        *field;     // its values' field, in the arena; its buffers are freed with the dictionary
    uint64_t first; // number of its first value
    struct mt_arrow_dictionary *next; // older ones
};

struct mt_arrow {
    struct mt_context *ctx; // borrowed
    struct mt_row_text *out;
    struct mt_arena arena;
    struct mt_arrow_field *columns; // the first; NULL: no schema yet
    size_t field_count;
    struct mt_arrow_dictionary *dictionaries; // the newest first
    int depth;                                // of dictionaries within each other, of the value being written
};

/* Reads the schema's fields into the arena. */
enum mt_status mt_arrow_schema_read(struct mt_arrow *arrow, const struct mt_flat_table *schema);

/* A copy of a field and what is below it, without buffers, for a dictionary's values. */
enum mt_status mt_arrow_field_copy(struct mt_arrow *arrow, const struct mt_arrow_field *field,
                                   struct mt_arrow_field **copy);

/* The field whose dictionary has that id, or NULL; dictionaries may hold fields with others. */
const struct mt_arrow_field *mt_arrow_indexed(const struct mt_arrow_field *first, int64_t dictionary);

/* Places a batch's buffers, which lie in `body`, in the fields beginning with `first`. */
enum mt_status mt_arrow_batch_load(struct mt_arrow *arrow, const struct mt_flat_table *batch,
                                   const uint8_t *body, uint64_t body_bytes, struct mt_arrow_field *first);

/* Frees what was unpacked for a batch, in the fields beginning with `first`. */
void mt_arrow_batch_free(struct mt_arrow_field *first);

/* Writes an object of the fields beginning with `first`, and the value of one, of row `index`. */
enum mt_status mt_arrow_members_write(struct mt_arrow *arrow, const struct mt_arrow_field *first,
                                      uint64_t index);
enum mt_status mt_arrow_value_write(struct mt_arrow *arrow, const struct mt_arrow_field *field,
                                    uint64_t index, bool as_key);

enum mt_status mt_arrow_fail(const struct mt_arrow_field *field, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
