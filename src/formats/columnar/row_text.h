/*
 * Rows of columnar files (Parquet, Arrow) as text: a line of JSON for each, which is what every reader of
 * rows takes. Columns become members in the order of the file. A value that JSON has no kind for is a text:
 *
 *     decimal                  "12.50"
 *     date, time               "2024-01-31", "13:05:00"
 *     timestamp                "2024-01-31T13:05:00.250", with a Z behind where it is one of UTC
 *     NaN, infinities          "NaN", "Infinity", "-Infinity"
 *     binary                   as it is where it is UTF-8 without a NUL, else in base64
 *     uuid                     "00112233-4455-6677-8899-aabbccddeeff"
 *
 * What files state is not believed: rows and the whole text are bounded.
 */
#ifndef MT_FORMATS_ROW_TEXT_H
#define MT_FORMATS_ROW_TEXT_H

#include <stdbool.h>

#include "formats/text/lists.h"

enum mt_value_kind {
    MT_VALUE_NULL,
    MT_VALUE_BOOL,
    MT_VALUE_SIGNED,
    MT_VALUE_UNSIGNED,
    MT_VALUE_REAL,
    MT_VALUE_DECIMAL, // bytes: two's complement, the highest byte first
    MT_VALUE_TEXT,
    MT_VALUE_BINARY,
    MT_VALUE_UUID,      // 16 bytes
    MT_VALUE_DATE,      // days since 1970
    MT_VALUE_TIME,      // units since midnight
    MT_VALUE_TIMESTAMP, // units since 1970
    MT_VALUE_INT96,     // 12 bytes: nanoseconds of the day, then its Julian number; little-endian
};

/* What the values of a column mean. */
struct mt_value_type {
    enum mt_value_kind kind;
    int scale;  // of a decimal: digits behind the point
    int digits; // of a second's fraction, which tell the unit: 0, 3, 6 or 9
    bool utc;
    int bits; // of a real; 0: 64
};

/* One value; which members count says its kind. */
struct mt_value {
    int64_t whole;
    double real;
    const uint8_t *data; // borrowed
    size_t bytes;
};

/* Decimals have at most so many bytes (256 bits), and |scale| is at most the other. */
#define MT_DECIMAL_BYTES 32
#define MT_DECIMAL_SCALE 100

struct mt_row_text {
    struct mt_context *ctx; // borrowed
    const char *file;       // borrowed; for messages
    struct mt_byte_list text;
    size_t start; // of the row at hand, in text
    size_t
        max_row_bytes; // what is longer is cut behind the first byte too many, so that its reader refuses it
    uint64_t most;     // bytes of all rows
    uint64_t written;
    uint64_t rows;
    // Takes the text over (and empties it) when it is long; NULL: it stays where it is.
    enum mt_status (*hand_on)(struct mt_row_text *out);
};

/* Appends a part of the row as it is. */
enum mt_status mt_row_text_add(struct mt_row_text *out, const char *text, size_t bytes);

/* Appends `"name":`, with a comma before it where it is not the first member. */
enum mt_status mt_row_text_member(struct mt_row_text *out, bool first, const char *name, size_t bytes);

/* Appends a text of JSON. */
enum mt_status mt_row_text_quoted(struct mt_row_text *out, const char *text, size_t bytes);

/* Ends the row. */
enum mt_status mt_row_text_end(struct mt_row_text *out);

#endif
