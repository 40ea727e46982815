/* Ops in borrowed scratch. */
#include "metier/space.h"

#include "ops/device.h"

enum mt_status mt_op_run_in(struct mt_device *device, struct mt_space space, enum mt_op op, const void *args)
{
    if (space.data == NULL || space.bytes <= device->scratch.bytes) return mt_op_run(device, op, args);
    struct mt_buffer own = device->scratch;
    device->scratch = mt_buffer_borrow(space.data, space.bytes, device->memory);
    enum mt_status status = mt_op_run(device, op, args);
    if (device->scratch.data == space.data) {
        device->scratch = own;
    } else {
        mt_buffer_release(&own); // neither was enough: the device has more now
    }
    return status;
}
