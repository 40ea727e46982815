/*
 * A weight as layers see it: matrices of one shape, and how they are stored. A layer never looks at what is
 * stored; it asks mt_weight_operand for tensors that a product can read. Today they are the stored ones, f32,
 * bf16 or f16, from which ops convert as they read.
 *
 * Another way to store weights is one more mt_storage, and a branch in mt_weight_operand:
 *   quantised   `stored` holds packed numbers, their scales lie next to them. The operand is either what is
 *               stored, if products are taught to read it, or a copy made here for the products that follow.
 *   streamed    `stored` is in the file or in host memory; the operand is a copy the device has by then.
 * Both need memory that lasts until the product is done, and products of one x take several operands at a
 * time (gate and up; q, k and v): whoever fills a weight in (params.c) gives it that memory.
 */
#ifndef MT_MODEL_WEIGHT_H
#define MT_MODEL_WEIGHT_H

#include "metier/device.h"
#include "metier/tensor.h"

enum mt_storage {
    MT_STORAGE_PLAIN, // [out,in] of a float type, in memory that ops read
};

struct mt_weight {
    const struct mt_tensor *stored; // [count]; borrowed
    int count;                      // 1, or the routed experts of a layer
    int64_t out, in;                // the shape of each, however it is stored
    enum mt_storage storage;
};

/* What products read: `count` tensors [out,in]. They last until the products of the same x are done. */
static inline enum mt_status mt_weight_operand(struct mt_device *device, const struct mt_weight *weight,
                                               const struct mt_tensor **operand)
{
    (void)device; // other storages copy or unpack with it
    switch (weight->storage) {
    case MT_STORAGE_PLAIN: *operand = weight->stored; break;
    }
    return MT_OK;
}

#endif
