/*
 * An allocator whose N-th call fails, and a driver that lets every call of a run fail in turn: each such
 * run must end with MT_ERR_MEMORY, a message, and every byte returned.
 */
#ifndef MT_TESTS_FAILING_ALLOCATOR_H
#define MT_TESTS_FAILING_ALLOCATOR_H

#include <stdbool.h>

#include "metier/context.h"

struct failing_allocator {
    long calls;
    long fail_at; // this call fails, counting from 0; negative: none
    long live;    // blocks
};

/* The allocator to put into a context; the state is borrowed. */
struct mt_allocator failing_allocator(struct failing_allocator *state);

/* What is tried: frees everything it made, whatever happens. */
typedef enum mt_status (*failing_run_fn)(struct mt_context *ctx, const void *self);

struct failing_report {
    bool ok;
    long allocations;  // made by an undisturbed run; when not ok, the one whose failure went wrong
    char problem[512]; // "" when ok
};

/* Runs with allocation 0, 1, 2, ... failing until none does. */
struct failing_report fail_each_allocation(failing_run_fn run, const void *self);

#endif
