/*
 * memory: a run in which the N-th allocation fails, for every N the run makes: device, tensors, scratch.
 * Each must end with MT_ERR_MEMORY, a message, and every byte returned.
 */
#include <stdio.h>

#include "ops/op_case.h"
#include "support/failing_allocator.h"

struct memory_run {
    const struct op_case *c;
    const char *device;
};

static enum mt_status small_run(struct mt_context *ctx, const void *self)
{
    const struct memory_run *run = self;
    const struct op_case *c = run->c;
    struct mt_device *device = NULL;
    struct case_tensors host;
    struct case_tensors on_device;
    enum mt_status status = case_make_host(ctx, c, false, &host);
    if (status != MT_OK) return status;
    status = mt_device_create(ctx, run->device, 2, &device);
    if (status == MT_OK) {
        status = case_copy_to(device, c, &host, &on_device);
        if (status == MT_OK) {
            status = c->forward(device, c, on_device.tensor);
            if (status == MT_OK && c->backward != NULL) status = c->backward(device, c, on_device.tensor);
            case_free(c, &on_device);
        }
    }
    mt_device_destroy(device);
    case_free(c, &host);
    return status;
}

int mode_memory(const struct case_list *list, const struct mode_options *options)
{
    int failures = 0;
    int passed = 0;
    long allocations = 0;
    for (size_t i = 0; i < list->count; i++) {
        const struct op_case *c = &list->items[i];
        if (c->only_speed || !case_selected(c, options)) continue;
        struct memory_run run = {.c = c, .device = options->device};
        struct failing_report report = fail_each_allocation(small_run, &run);
        passed += report.ok;
        failures += !report.ok;
        allocations += report.allocations;
        if (!report.ok) printf("FAIL %s %s: %s\n", mt_op_name(c->op), c->label, report.problem);
    }
    printf("%ld allocations made to fail, one at a time\n", allocations);
    printf("%d passed, %d failed\n", passed, failures);
    return passed + failures == 0 ? 1 : failures;
}
