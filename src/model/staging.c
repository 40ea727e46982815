/* Gathering index tensors: where one lies in its region is where it lies in the staging memory. */
#include "model/staging.h"

#include <assert.h>
#include <string.h>

#define ALIGNMENT 256 // bytes, at the most, that a planner leaves between tensors

enum mt_status mt_staging_create(struct mt_context *ctx, size_t tensors, size_t numbers,
                                 struct mt_staging *staging)
{
    void *memory = NULL;
    size_t each = numbers * sizeof(int32_t) + ALIGNMENT;
    *staging = (struct mt_staging){.ctx = ctx};
    enum mt_status status = mt_allocate_array(ctx, tensors, each, &memory);
    if (status != MT_OK) return status;
    staging->memory = memory;
    staging->bytes = tensors * each;
    return MT_OK;
}

void mt_staging_free(struct mt_staging *staging)
{
    if (staging->ctx == NULL) return;
    mt_release(staging->ctx, staging->memory, staging->bytes);
    *staging = (struct mt_staging){0};
}

void mt_staging_put(struct mt_staging *staging, const struct mt_buffer *region,
                    const struct mt_tensor *target, const int32_t *values)
{
    if (!mt_tensor_present(target)) return;
    size_t at = (size_t)((const char *)target->data - (const char *)region->data);
    size_t bytes = (size_t)mt_tensor_count(target) * sizeof *values;
    assert(at + bytes <= staging->bytes);
    memcpy(staging->memory + at, values, bytes);
    if (at + bytes > staging->end) staging->end = at + bytes;
}

enum mt_status mt_staging_send(struct mt_staging *staging, struct mt_device *device,
                               const struct mt_buffer *region)
{
    size_t bytes = staging->end;
    staging->end = 0;
    return mt_device_upload(device, region->data, staging->memory, bytes);
}
