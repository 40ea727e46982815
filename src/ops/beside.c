/* Work beside other work has scratch of its own; the rest is the device folder's. */
#include "ops/beside.h"

#include "ops/device.h"

static void swap_scratch(struct mt_device *device)
{
    struct mt_buffer other = device->scratch_beside;
    device->scratch_beside = device->scratch;
    device->scratch = other;
}

enum mt_status mt_device_beside_begin(struct mt_device *device)
{
    if (device->beside_begin == NULL) return MT_OK;
    swap_scratch(device);
    if (device->planning) return MT_OK;
    enum mt_status status = device->beside_begin(device);
    device->apart = status == MT_OK;
    return status;
}

enum mt_status mt_device_beside_end(struct mt_device *device)
{
    if (device->beside_begin == NULL) return MT_OK;
    swap_scratch(device);
    return device->apart ? device->beside_end(device) : MT_OK;
}

enum mt_status mt_device_join(struct mt_device *device)
{
    if (!device->apart) return MT_OK;
    device->apart = false;
    return device->join(device);
}
