/* Index tensors of a batch, gathered on the host as they will lie on the device, and sent there in one copy.
 */
#ifndef MT_MODEL_STAGING_H
#define MT_MODEL_STAGING_H

#include "metier/buffer.h"
#include "metier/device.h"

struct mt_staging {
    struct mt_context *ctx; // borrowed
    char *memory;
    size_t bytes;
    size_t end; // of what is to be sent
};

/* Room for so many tensors of so many numbers. The caller frees. */
enum mt_status mt_staging_create(struct mt_context *ctx, size_t tensors, size_t numbers,
                                 struct mt_staging *staging);
void mt_staging_free(struct mt_staging *staging); // zeroed is allowed

/* Values of an i32 tensor that lies in the region, near its start, without gaps; nothing for one that is
 * absent. */
void mt_staging_put(struct mt_staging *staging, const struct mt_buffer *region,
                    const struct mt_tensor *target, const int32_t *values);

/* Sends everything put since the last time to the start of the region. */
enum mt_status mt_staging_send(struct mt_staging *staging, struct mt_device *device,
                               const struct mt_buffer *region);

#endif
