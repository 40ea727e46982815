/*
 * Running an op: check, scratch, dispatch. The one place every op passes through.
 */
#include "metier/ops.h"

#include "base/clock.h"
#include "ops/check/check.h"
#include "ops/device.h"

const char *mt_op_name(enum mt_op op)
{
    static const char *const names[] = {
#define MT_OP_NAME(name) [MT_OP_##name] = #name,
        MT_OP_LIST(MT_OP_NAME)
#undef MT_OP_NAME
    };
    if ((unsigned)op >= MT_OP_COUNT) return "unknown op";
    return names[op];
}

/* Scratch only grows, so that after one planned or real step no step allocates. */
static enum mt_status grow_scratch(struct mt_device *device, enum mt_op op, size_t bytes)
{
    if (bytes <= device->scratch.bytes) return MT_OK;
    mt_buffer_release(&device->scratch);
    mt_buffer_release(&device->owned); // of a loan that is not enough: what comes takes its place
    enum mt_status status = mt_device_buffer_create(device, bytes, &device->scratch);
    if (status != MT_OK) return mt_fail_within(device->ctx, status, "scratch for %s", mt_op_name(op));
    return MT_OK;
}

const struct mt_op_impl *mt_op_choose(const struct mt_device *device, enum mt_op op, const void *args)
{
    const struct mt_op_impl *impl = device->impl[op];
    while (impl->fits != NULL && !impl->fits(device, args)) impl++;
    return impl;
}

/* Runs it with nothing else under way, and notes how long it took. */
static enum mt_status run_timed(struct mt_device *device, const struct mt_op_impl *impl, enum mt_op op,
                                const void *args)
{
    enum mt_status status = mt_device_synchronise(device);
    if (status != MT_OK) return status;
    double start = mt_clock_seconds();
    status = impl->run(device, args);
    if (status == MT_OK) status = mt_device_synchronise(device);
    device->times[op].seconds += mt_clock_seconds() - start;
    device->times[op].calls++;
    return status;
}

enum mt_status mt_op_run(struct mt_device *device, enum mt_op op, const void *args)
{
    if (device == NULL) return MT_ERR_USAGE;
    if ((unsigned)op >= MT_OP_COUNT)
        return mt_fail(device->ctx, MT_ERR_USAGE, "there is no op number %d", (int)op);
    if (args == NULL) return mt_fail(device->ctx, MT_ERR_USAGE, "%s: args is NULL", mt_op_name(op));
    if (device->impl[op]->run == NULL) {
        return mt_fail(device->ctx, MT_ERR_UNSUPPORTED, "device %s has no %s", device->name, mt_op_name(op));
    }
    enum mt_status status = mt_op_check(device, op, args);
    if (status != MT_OK) return mt_fail_within(device->ctx, status, "%s", mt_op_name(op));
    const struct mt_op_impl *impl = mt_op_choose(device, op, args);
    size_t bytes = impl->scratch != NULL ? impl->scratch(device, args) : 0;
    status = grow_scratch(device, op, bytes);
    if (status != MT_OK || device->planning) return status;
    return device->times != NULL ? run_timed(device, impl, op, args) : impl->run(device, args);
}
