/* The failing allocator and its driver. */
#include "support/failing_allocator.h"

#include <stdio.h>
#include <stdlib.h>

static void *allocate(void *self, size_t bytes, size_t alignment)
{
    struct failing_allocator *state = self;
    if (state->calls++ == state->fail_at) return NULL;
    size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    void *block = aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
    if (block != NULL) state->live++;
    return block;
}

static void release(void *self, void *block, size_t bytes)
{
    (void)bytes;
    ((struct failing_allocator *)self)->live--;
    free(block);
}

struct mt_allocator failing_allocator(struct failing_allocator *state)
{
    return (struct mt_allocator){allocate, release, state};
}

struct failing_report fail_each_allocation(failing_run_fn run, const void *self)
{
    struct failing_report report = {.ok = true};
    for (long n = 0;; n++) {
        struct failing_allocator state = {.fail_at = n};
        struct mt_allocator allocator = failing_allocator(&state);
        struct mt_context ctx;
        mt_context_init(&ctx, &allocator);
        enum mt_status status = run(&ctx, self);
        bool reached = state.calls > n;
        bool clean = state.live == 0 && ctx.live_bytes == 0;
        bool expected = reached ? status == MT_ERR_MEMORY && ctx.message[0] != '\0' : status == MT_OK;
        report.allocations = n;
        if (!clean || !expected) {
            report.ok = false;
            (void)snprintf(report.problem, sizeof report.problem,
                           "allocation %ld failing gives '%s' (%.300s), %ld blocks left", n,
                           mt_status_text(status), ctx.message, state.live);
            return report;
        }
        if (!reached) return report;
    }
}
