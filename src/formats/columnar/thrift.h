/*
 * Thrift's compact protocol, as far as Parquet's metadata needs it: a cursor over bytes. What does not hold
 * together, or ends early, marks the cursor as broken; from then on it gives zeros, no fields and empty
 * lists, so that whoever reads looks at `broken` once, at the end.
 */
#ifndef MT_FORMATS_THRIFT_H
#define MT_FORMATS_THRIFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mt_thrift_type {
    MT_THRIFT_STOP,
    MT_THRIFT_TRUE,
    MT_THRIFT_FALSE,
    MT_THRIFT_I8,
    MT_THRIFT_I16,
    MT_THRIFT_I32,
    MT_THRIFT_I64,
    MT_THRIFT_DOUBLE,
    MT_THRIFT_BINARY,
    MT_THRIFT_LIST,
    MT_THRIFT_SET,
    MT_THRIFT_MAP,
    MT_THRIFT_STRUCT,
};

struct mt_thrift {
    const uint8_t *at; // borrowed
    const uint8_t *end;
    bool broken;
};

/* A field of a struct at hand; zeroed before the first. */
struct mt_thrift_field {
    int id;
    int type; // of enum mt_thrift_type
};

/* The next field of the struct; false at its end. The caller reads its value, or skips it. */
bool mt_thrift_next(struct mt_thrift *thrift, struct mt_thrift_field *field);

/* Steps over the field's value. */
void mt_thrift_skip(struct mt_thrift *thrift, const struct mt_thrift_field *field);

/* Values; one of another type than asked for breaks the cursor. */
int64_t mt_thrift_whole(struct mt_thrift *thrift, const struct mt_thrift_field *field);
bool mt_thrift_flag(struct mt_thrift *thrift, const struct mt_thrift_field *field);
const uint8_t *mt_thrift_bytes(struct mt_thrift *thrift, const struct mt_thrift_field *field, size_t *bytes);

/* True when the field is a struct, whose fields come next. */
bool mt_thrift_struct(struct mt_thrift *thrift, const struct mt_thrift_field *field);

/* How many structs the list has, which come next. */
size_t mt_thrift_structs(struct mt_thrift *thrift, const struct mt_thrift_field *field);

/* A number of the protocol without a sign, for whoever has bytes that begin with one. */
uint64_t mt_thrift_varint(struct mt_thrift *thrift);

#endif
