/*
 * Rows of a task's file that are no samples, and why: a field is missing, the answer names no choice, there
 * is none. They are counted, and the first of each kind is kept with its line and with the fields it has.
 */
#ifndef MT_EVAL_DROPPED_ROWS_H
#define MT_EVAL_DROPPED_ROWS_H

#include "formats/data/dataset.h"

#define MT_ROW_UNANSWERED  "there is no right answer"
#define MT_DROPPED_KINDS   4
#define MT_DROPPED_MESSAGE 640

struct mt_dropped_kind {
    uint64_t count;
    uint64_t line; // of the first of them
    char why[MT_DROPPED_MESSAGE];
};

/* Zeroed: none. */
struct mt_dropped_rows {
    uint64_t count;      // all of them
    uint64_t unanswered; // of these, rows that lack nothing but a right answer
    struct mt_dropped_kind kinds[MT_DROPPED_KINDS];
    size_t kind_count;
    uint64_t others; // of further kinds
};

/* One more; the context's message, "FILE:LINE: WHY", says why. */
enum mt_status mt_dropped_rows_add(struct mt_dropped_rows *dropped, const struct mt_row *row);

/* Appends "line 3: WHY (and 12 rows like it); line 9: ...; 4 others". */
enum mt_status mt_dropped_rows_describe(const struct mt_dropped_rows *dropped, struct mt_byte_list *out);

#endif
