/* Two devices that wait for each other; the waiting itself is the device folder's. */
#include "ops/streams.h"

#include "base/clock.h"
#include "ops/device.h"

enum mt_status mt_device_create_beside(struct mt_device *device, struct mt_device **other)
{
    enum mt_status status = mt_device_enter(device);
    *other = NULL;
    return status == MT_OK ? mt_device_create(device->ctx, device->name, device->threads, other) : status;
}

enum mt_status mt_device_follow(struct mt_device *device, struct mt_device *other)
{
    if (device->planning) return MT_OK;
    return device->follow != NULL ? device->follow(device, other) : mt_device_synchronise(other);
}

void *mt_device_stream(const struct mt_device *device)
{
    return device->stream != NULL ? device->stream(device) : NULL;
}

static enum mt_status add_time(struct mt_device *device, double *when)
{
    if (device->planning) return MT_OK;
    if (device->add_time != NULL) return device->add_time(device, when);
    *when += mt_clock_seconds();
    return MT_OK;
}

enum mt_status mt_device_begin_span(struct mt_device *device, struct mt_span *span)
{
    return span != NULL ? add_time(device, &span->begin) : MT_OK;
}

enum mt_status mt_device_end_span(struct mt_device *device, struct mt_span *span)
{
    return span != NULL ? add_time(device, &span->end) : MT_OK;
}
