/* Marked text: small questions and slices. Nothing here allocates. */
#ifndef MT_TEXT_JINJA_MARKED_H
#define MT_TEXT_JINJA_MARKED_H

#include <string.h>

#include "text/jinja/jinja.h"

// Kinds of values. Those up to JINJA_STRING are plain; the others point to an object of run.h.
enum jinja_kind {
    JINJA_ABSENT,    // no value: an argument that was not given
    JINJA_UNDEFINED, // string: what is undefined, for messages
    JINJA_NONE,
    JINJA_BOOL,
    JINJA_INTEGER,
    JINJA_REAL,
    JINJA_STRING,
    JINJA_LIST,      // struct jinja_list
    JINJA_TUPLE,     // struct jinja_list
    JINJA_DICT,      // struct jinja_dict
    JINJA_VIEW,      // struct jinja_view: keys, values or items of a dictionary
    JINJA_RANGE,     // struct jinja_range
    JINJA_ITERATOR,  // struct jinja_iterator: walked once
    JINJA_NAMESPACE, // struct jinja_dict
    JINJA_LOOP,      // struct jinja_loop
    JINJA_MACRO,     // struct jinja_macro
    JINJA_FUNCTION,  // struct jinja_function
    JINJA_METHOD,    // struct jinja_method
    JINJA_CYCLER,    // struct jinja_cycler
    JINJA_JOINER,    // struct jinja_joiner
};

static inline struct mt_marked marked_of(const char *text)
{
    return (struct mt_marked){text, NULL, strlen(text)};
}

static inline struct mt_value marked_value(struct mt_marked text)
{
    return (struct mt_value){.kind = JINJA_STRING, .string = text};
}

static inline bool marked_is(struct mt_marked text, const char *other)
{
    return text.bytes == strlen(other) && memcmp(text.text, other, text.bytes) == 0;
}

static inline bool marked_equal(struct mt_marked a, struct mt_marked b)
{
    return a.bytes == b.bytes && (a.bytes == 0 || memcmp(a.text, b.text, a.bytes) == 0);
}

/* Less than, equal to or greater than 0, in the order of code points. */
static inline int marked_order(struct mt_marked a, struct mt_marked b)
{
    size_t shorter = a.bytes < b.bytes ? a.bytes : b.bytes;
    int order = shorter != 0 ? memcmp(a.text, b.text, shorter) : 0;
    if (order != 0) return order;
    return a.bytes < b.bytes ? -1 : a.bytes > b.bytes;
}

/* Bytes start .. end of it. */
static inline struct mt_marked marked_part(struct mt_marked text, size_t start, size_t end)
{
    return (struct mt_marked){text.text + start, text.marks != NULL ? text.marks + start : NULL, end - start};
}

/* For "%.*s" in messages, which have little room. */
static inline int marked_width(struct mt_marked text)
{
    return text.bytes < 200 ? (int)text.bytes : 200;
}

static inline bool marked_begins(struct mt_marked text, struct mt_marked with)
{
    return text.bytes >= with.bytes && (with.bytes == 0 || memcmp(text.text, with.text, with.bytes) == 0);
}

static inline bool marked_ends(struct mt_marked text, struct mt_marked with)
{
    if (text.bytes < with.bytes) return false;
    return with.bytes == 0 || memcmp(text.text + text.bytes - with.bytes, with.text, with.bytes) == 0;
}

#endif
