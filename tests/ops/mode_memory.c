/*
 * memory: a run in which the N-th allocation fails, for every N the run makes: device, tensors, scratch.
 * Each must end with MT_ERR_MEMORY, a message, and every byte returned.
 */
#include <stdio.h>
#include <stdlib.h>

#include "ops/op_case.h"

struct failing_allocator {
    long calls;
    long fail_at; // this call fails, counting from 0
    long live;    // blocks
};

static void *failing_allocate(void *self, size_t bytes, size_t alignment)
{
    struct failing_allocator *a = self;
    if (a->calls++ == a->fail_at) return NULL;
    size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    void *block = aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
    if (block != NULL) a->live++;
    return block;
}

static void failing_release(void *self, void *block, size_t bytes)
{
    (void)bytes;
    ((struct failing_allocator *)self)->live--;
    free(block);
}

static enum mt_status small_run(struct mt_context *ctx, const struct op_case *c, const char *device_name)
{
    struct mt_device *device = NULL;
    struct case_tensors host;
    struct case_tensors on_device;
    enum mt_status status = case_make_host(ctx, c, false, &host);
    if (status != MT_OK) return status;
    status = mt_device_create(ctx, device_name, 2, &device);
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

/* Returns the number of allocations made, or -1 after printing what went wrong. */
static long memory_case(const struct op_case *c, const char *device_name)
{
    for (long n = 0;; n++) {
        struct failing_allocator state = {.fail_at = n};
        struct mt_allocator allocator = {failing_allocate, failing_release, &state};
        struct mt_context ctx;
        mt_context_init(&ctx, &allocator);
        enum mt_status status = small_run(&ctx, c, device_name);
        bool reached = state.calls > n;
        bool clean = state.live == 0 && ctx.live_bytes == 0;
        bool expected = reached ? status == MT_ERR_MEMORY && ctx.message[0] != '\0' : status == MT_OK;
        if (!clean || !expected) {
            printf("FAIL %s %s: allocation %ld failing gives '%s' (%s), %ld blocks left\n", mt_op_name(c->op),
                   c->label, n, mt_status_text(status), ctx.message, state.live);
            return -1;
        }
        if (!reached) return n;
    }
}

int mode_memory(const struct case_list *list, const struct mode_options *options)
{
    int failures = 0;
    int passed = 0;
    long allocations = 0;
    for (size_t i = 0; i < list->count; i++) {
        const struct op_case *c = &list->items[i];
        if (c->only_speed || !case_selected(c, options)) continue;
        long made = memory_case(c, options->device);
        passed += made >= 0;
        failures += made < 0;
        if (made > 0) allocations += made;
    }
    printf("%ld allocations made to fail, one at a time\n", allocations);
    printf("%d passed, %d failed\n", passed, failures);
    return passed + failures == 0 ? 1 : failures;
}
