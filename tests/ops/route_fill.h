/*
 * Routing made by rule, for cases that need one before any op ran: which expert a (token, slot) pair
 * goes to, and the rows that follow from it.
 */
#ifndef MT_TESTS_ROUTE_FILL_H
#define MT_TESTS_ROUTE_FILL_H

#include "base/rng.h"
#include "metier/tensor.h"

enum route_kind {
    ROUTE_SPREAD,  // k different experts per token, about evenly
    ROUTE_DROPPED, // the same, with some pairs left without an expert
    ROUTE_SKEWED,  // all tokens on the last k experts: the others stay empty
};

/* True for the pairs ROUTE_DROPPED leaves out: some of a token's, and now and then all of them. */
static inline bool route_drops(int64_t i, int64_t s)
{
    return (i * 3 + s) % 5 == 3 || i % 7 == 4;
}

/* The expert of pair (i,s), or -1. The experts of a token differ while k <= n. */
static inline int32_t route_expert(enum route_kind kind, int64_t i, int64_t s, int64_t slots, int64_t experts)
{
    if (kind == ROUTE_DROPPED && route_drops(i, s)) return -1;
    if (kind == ROUTE_SKEWED) return (int32_t)((experts - slots + s) % experts);
    uint64_t first = mt_rng_below(11, 3, (uint64_t)i, (uint64_t)experts);
    return (int32_t)((int64_t)(first + (uint64_t)(s * (experts / slots > 0 ? experts / slots : 1))) %
                     experts);
}

/* Pairs that have an expert. */
static inline int64_t route_rows(enum route_kind kind, int64_t tokens, int64_t slots)
{
    int64_t rows = 0;
    for (int64_t i = 0; i < tokens; i++) {
        for (int64_t s = 0; s < slots; s++) rows += kind != ROUTE_DROPPED || !route_drops(i, s);
    }
    return rows;
}

/*
 * Fills row_of_slot i32 [N,k] and slot_of_row i32 [R] (unless that is NULL), sorted by expert; rows past
 * the last pair get slot -1.
 */
static inline void route_fill(enum route_kind kind, int64_t experts, struct mt_tensor *row_of_slot,
                              struct mt_tensor *slot_of_row)
{
    int64_t tokens = row_of_slot->dim[0];
    int64_t slots = row_of_slot->dim[1];
    int32_t row = 0;
    for (int32_t e = -1; e < experts; e++) {
        for (int64_t pair = 0; pair < tokens * slots; pair++) {
            int64_t i = pair / slots;
            int64_t s = pair % slots;
            if (route_expert(kind, i, s, slots, experts) != e) continue;
            ((int32_t *)row_of_slot->data)[i * row_of_slot->stride[0] + s] = e < 0 ? -1 : row;
            if (e < 0) continue;
            if (slot_of_row != NULL) ((int32_t *)slot_of_row->data)[row] = (int32_t)pair;
            row++;
        }
    }
    if (slot_of_row == NULL) return;
    for (int64_t r = row; r < slot_of_row->dim[0]; r++) ((int32_t *)slot_of_row->data)[r] = -1;
}

#endif
