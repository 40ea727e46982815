/*
 * Two devices on one GPU, each with a stream of its own: what one computes or sends goes on while the other
 * works, and waits for it only where it is told to. Devices without streams just work one after the other.
 */
#ifndef MT_OPS_STREAMS_H
#define MT_OPS_STREAMS_H

#include "base/timeline.h"
#include "metier/device.h"

/* Another device of the same kind, on the same GPU; both read each other's memory. The caller destroys it. */
enum mt_status mt_device_create_beside(struct mt_device *device, struct mt_device **other);

/* What is issued to `device` from now on waits for what was issued to `other` so far; the host does not. */
enum mt_status mt_device_follow(struct mt_device *device, struct mt_device *other);

/* Where what it is given now is issued: a cudaStream_t; NULL: it has none. */
void *mt_device_stream(const struct mt_device *device);

/*
 * A reserved span (base/timeline.h) begins, or ends, when the device comes to here, which is known once it
 * has been waited for. NULL: nothing.
 */
enum mt_status mt_device_begin_span(struct mt_device *device, struct mt_span *span);
enum mt_status mt_device_end_span(struct mt_device *device, struct mt_span *span);

#endif
