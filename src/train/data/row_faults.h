/*
 * What is wrong with the rows of a run, by kind: each kind is told once, with how many rows it is and where
 * the first one stands. Two sentences are of one kind when they differ in numbers and in what stands in
 * quotes alone.
 */
#ifndef MT_TRAIN_ROW_FAULTS_H
#define MT_TRAIN_ROW_FAULTS_H

#include <stdint.h>

#include "base/log.h"
#include "metier/context.h"

/* Where a row stands: whatever the order rows are read in, the first is the first of the first source. */
struct mt_row_place {
    size_t source; // of the run
    uint64_t row;  // of the source
};

struct mt_row_fault {
    uint64_t kind;             // checksum of the sentence without what is a row's own
    struct mt_row_place place; // of the first such row so far
    char *first;               // its "FILE:LINE: ..."; owned
    uint64_t count;            // rows
    uint64_t told;             // of them, how many the log knows of
};

struct mt_row_faults {
    struct mt_context *ctx; // borrowed
    struct mt_row_fault *data;
    size_t count;
    size_t capacity;
    uint64_t
        lost_turns; // of good rows: answers the template writes otherwise, or not at all, as more follows
    uint64_t lost_told;
};

void mt_row_faults_free(struct mt_row_faults *faults);

/* Counts a row of `file`, whose fault is `message`, "FILE:LINE: ...". *fresh: no other is of its kind. */
enum mt_status mt_row_faults_add(struct mt_row_faults *faults, const char *file, struct mt_row_place place,
                                 const char *message, bool *fresh);

/* Tells the log of every kind it does not know the count of, in the order of their first rows. */
void mt_row_faults_tell(struct mt_row_faults *faults, const struct mt_log *log);

/* The first bad row's; NULL: there is none. */
const struct mt_row_fault *mt_row_faults_first(const struct mt_row_faults *faults);

/* The kind most rows have; NULL: there is none. */
const struct mt_row_fault *mt_row_faults_commonest(const struct mt_row_faults *faults);

#endif
