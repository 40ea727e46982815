/*
 * memory: a run in which the N-th allocation fails, for every N the run makes: device, tensors, scratch.
 * Each must end with MT_ERR_MEMORY, a message, and every byte returned. What a run allocates depends on the
 * op and on which tensors a case has, not on its size: of every op the smallest cases are run.
 */
#include <stdio.h>

#include "ops/op_case.h"
#include "support/failing_allocator.h"

#define CASES_PER_OP 8

struct memory_run {
    const struct op_case *c;
    const char *device;
};

static enum mt_status small_run(struct mt_context *ctx, const void *self)
{
    const struct memory_run *run = self;
    return case_run(ctx, run->c, run->device, 2);
}

static int64_t case_elements(const struct op_case *c)
{
    int64_t elements = 0;
    for (int s = 0; s < c->slots; s++) {
        int64_t count = 1;
        for (int d = 0; d < c->slot[s].rank; d++) count *= c->slot[s].dim[d];
        elements += count;
    }
    return elements;
}

/* True when fewer than CASES_PER_OP selected cases of the same op are smaller; of equals the first counts. */
static bool is_among_smallest(const struct case_list *list, size_t at, const struct mode_options *options)
{
    const struct op_case *c = &list->items[at];
    int64_t elements = case_elements(c);
    int smaller = 0;
    for (size_t i = 0; i < list->count; i++) {
        const struct op_case *other = &list->items[i];
        if (i == at || other->op != c->op || other->only_speed || !case_selected(other, options)) continue;
        int64_t others = case_elements(other);
        smaller += others < elements || (others == elements && i < at);
    }
    return smaller < CASES_PER_OP;
}

int mode_memory(const struct case_list *list, const struct mode_options *options)
{
    int failures = 0;
    int passed = 0;
    int larger = 0;
    long allocations = 0;
    for (size_t i = 0; i < list->count; i++) {
        const struct op_case *c = &list->items[i];
        if (c->only_speed || !case_selected(c, options)) continue;
        if (!is_among_smallest(list, i, options)) {
            larger++;
            continue;
        }
        struct memory_run run = {.c = c, .device = options->device};
        struct failing_report report = fail_each_allocation(small_run, &run);
        passed += report.ok;
        failures += !report.ok;
        allocations += report.allocations;
        if (!report.ok) printf("FAIL %s %s: %s\n", mt_op_name(c->op), c->label, report.problem);
    }
    printf("%ld allocations made to fail, one at a time\n", allocations);
    printf("%d passed, %d failed; %d larger cases of the same ops left out\n", passed, failures, larger);
    return passed + failures == 0 ? 1 : failures;
}
