/* Ops in borrowed scratch. */
#include "metier/space.h"

#include "ops/device.h"

void mt_device_lend_scratch(struct mt_device *device, struct mt_space space)
{
    if (device == NULL || space.data == NULL || space.bytes <= device->scratch.bytes) return;
    device->owned = device->scratch;
    device->lent = space.data;
    device->scratch = mt_buffer_borrow(space.data, space.bytes, device->memory);
}

void mt_device_end_loan(struct mt_device *device)
{
    if (device == NULL || device->lent == NULL) return;
    // Else neither was enough, and the device has more now.
    if (device->scratch.data == device->lent) device->scratch = device->owned;
    device->owned = (struct mt_buffer){0};
    device->lent = NULL;
}

enum mt_status mt_op_run_in(struct mt_device *device, struct mt_space space, enum mt_op op, const void *args)
{
    mt_device_lend_scratch(device, space);
    enum mt_status status = mt_op_run(device, op, args);
    mt_device_end_loan(device);
    return status;
}
