/* Recordings: what a device took down, and where its scratch was then. */
#include "ops/device.h"

struct mt_recording {
    struct mt_device *device; // borrowed
    void *recorded;           // the device folder's
    const void *scratch;      // where it was
    const void *beside;       // and the other side's (ops/beside.h)
};

bool mt_device_records(const struct mt_device *device)
{
    return device != NULL && device->record_begin != NULL && !device->planning && device->times == NULL;
}

enum mt_status mt_device_record_begin(struct mt_device *device)
{
    if (device == NULL) return MT_ERR_USAGE;
    if (device->record_begin == NULL)
        return mt_fail(device->ctx, MT_ERR_UNSUPPORTED, "device %s does not record", device->name);
    return device->record_begin(device);
}

enum mt_status mt_device_record_end(struct mt_device *device, struct mt_recording **recording)
{
    void *recorded = NULL;
    void *memory = NULL;
    if (device == NULL) return MT_ERR_USAGE;
    if (recording == NULL || device->record_end == NULL)
        return mt_fail(device->ctx, MT_ERR_USAGE,
                       recording == NULL ? "mt_device_record_end: recording is NULL"
                                         : "mt_device_record_end: the device does not record");
    *recording = NULL;
    enum mt_status status = device->record_end(device, &recorded);
    if (status != MT_OK) return status;
    status = mt_allocate_array(device->ctx, 1, sizeof **recording, &memory);
    if (status != MT_OK) {
        device->release_recorded(device, recorded);
        return status;
    }
    struct mt_recording *made = memory;
    *made = (struct mt_recording){.device = device,
                                  .recorded = recorded,
                                  .scratch = device->scratch.data,
                                  .beside = device->scratch_beside.data};
    *recording = made;
    return MT_OK;
}

bool mt_recording_is_usable(const struct mt_recording *recording)
{
    if (recording == NULL) return false;
    const struct mt_device *device = recording->device;
    return recording->scratch == device->scratch.data && recording->beside == device->scratch_beside.data;
}

enum mt_status mt_device_replay(struct mt_device *device, const struct mt_recording *recording)
{
    if (device == NULL) return MT_ERR_USAGE;
    if (recording == NULL || recording->device != device)
        return mt_fail(device->ctx, MT_ERR_USAGE, "mt_device_replay: the recording is not of this device");
    return device->replay(device, recording->recorded);
}

void mt_recording_free(struct mt_recording *recording)
{
    if (recording == NULL) return;
    struct mt_device *device = recording->device;
    device->release_recorded(device, recording->recorded);
    mt_release(device->ctx, recording, sizeof *recording);
}
