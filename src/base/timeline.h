/*
 * What a process did when: spans of time, written down as they end, for a picture afterwards. Memory is taken
 * once, so that noting a span costs two looks at the clock; what no longer fits is counted. A timeline that
 * is NULL notes nothing.
 */
#ifndef MT_BASE_TIMELINE_H
#define MT_BASE_TIMELINE_H

#include <stddef.h>
#include <stdint.h>

#include "metier/context.h"

// One line per kind: enumerator, name in the picture.
#define MT_SPAN_LIST(X)                                                                                      \
    X(MT_SPAN_DATA, "data")                                                                                  \
    X(MT_SPAN_FORWARD, "forward")                                                                            \
    X(MT_SPAN_BACKWARD, "backward")                                                                          \
    X(MT_SPAN_OPTIMIZER, "optimizer")                                                                        \
    X(MT_SPAN_SAVE, "save")                                                                                  \
    X(MT_SPAN_EXCHANGE, "exchange")                                                                          \
    X(MT_SPAN_GATHER, "gather")                                                                              \
    X(MT_SPAN_WAIT, "wait for sums")                                                                         \
    X(MT_SPAN_SUM, "sum")                                                                                    \
    X(MT_SPAN_VALUES, "values")                                                                              \
    X(MT_SPAN_ROWS, "rows")

enum mt_span_kind {
#define MT_SPAN_ENUM(name, text) name,
    MT_SPAN_LIST(MT_SPAN_ENUM)
#undef MT_SPAN_ENUM
        MT_SPAN_KINDS
};

struct mt_span {
    double begin, end; // seconds since the timeline began
    int32_t kind;      // enum mt_span_kind; a plain number, because spans travel between processes
    int32_t number;    // layer, sum, ...; -1: none
};

struct mt_timeline {
    struct mt_context *ctx; // borrowed
    struct mt_span *spans;  // owned
    size_t count, capacity;
    size_t lost;   // that did not fit
    double origin; // of the clock
};

enum mt_status mt_timeline_create(struct mt_context *ctx, size_t capacity, struct mt_timeline **timeline);
void mt_timeline_free(struct mt_timeline *timeline); // NULL is allowed

/* Time begins now; what was noted so far is forgotten. */
void mt_timeline_begin(struct mt_timeline *timeline);

/* Seconds since it began. */
double mt_timeline_now(const struct mt_timeline *timeline);

/* Notes a span that ends now. */
void mt_timeline_add(struct mt_timeline *timeline, enum mt_span_kind kind, int32_t number, double begin);

/* A span whose ends are not known yet: to both the clock's time is to be added. NULL: no room. */
struct mt_span *mt_timeline_reserve(struct mt_timeline *timeline, enum mt_span_kind kind, int32_t number);

const char *mt_span_name(int32_t kind); // never NULL

/* How far sums were hidden behind other work. */
struct mt_overlap {
    double under_way;                   // seconds in which at least one sum was
    double waited;                      // of these, seconds in which nothing else was done
    double rows_under_way, rows_waited; // the same two for rows on their way to experts and back
};

/* Sorts the spans by their beginning, and measures. */
struct mt_overlap mt_timeline_overlap(struct mt_span *spans, size_t count);

#endif
