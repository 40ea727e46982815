/* Values of parameters: from the file to the device, and LoRA's first. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "model/params/params_parts.h"
#include "model/params/stream.h"
#include "tensor/dtype.h"

#define PIECE 65536 // elements converted at a time

struct staging {
    float values[PIECE];
    float stored[PIECE]; // bytes as in the file, aligned; at most four per element
};

enum mt_dtype mt_params_stored_type(const struct mt_safetensors_tensor *stored)
{
    switch (stored->dtype) {
    case MT_SAFETENSORS_F32: return MT_F32;
    case MT_SAFETENSORS_BF16: return MT_BF16;
    case MT_SAFETENSORS_F16: return MT_F16;
    default: break;
    }
    assert(false && "mt_params_check lets only these types pass");
    return MT_F32;
}

/* Elements first … first+count-1 of `target` := the staged values. */
static enum mt_status upload_piece(struct mt_device *device, const struct staging *staging,
                                   const struct mt_tensor *target, int64_t first, int64_t count)
{
    return mt_device_upload(device, (float *)target->data + first, staging->values,
                            (size_t)count * sizeof(float));
}

enum mt_status mt_params_upload_f32(struct mt_device *device, const struct mt_safetensors_tensor *stored,
                                    const struct mt_tensor *target)
{
    struct mt_context *ctx = mt_device_context(device);
    enum mt_dtype dtype = mt_params_stored_type(stored);
    size_t item_bytes = mt_dtype_bytes(dtype);
    int64_t total = mt_tensor_count(target);
    void *memory = NULL;
    enum mt_status status = mt_allocate(ctx, sizeof(struct staging), &memory);
    struct staging *staging = memory;
    for (int64_t first = 0; status == MT_OK && first < total; first += PIECE) {
        int64_t count = total - first < PIECE ? total - first : PIECE;
        // By way of aligned memory: a tensor in the file may lie at any address.
        memcpy(staging->stored, (const char *)stored->data + (size_t)first * item_bytes,
               (size_t)count * item_bytes);
        mt_convert_to_f32(dtype, staging->stored, count, staging->values);
        status = upload_piece(device, staging, target, first, count);
    }
    mt_release(ctx, memory, sizeof(struct staging));
    return status;
}

enum mt_status mt_params_fill_lora_a(struct mt_device *device, uint64_t seed, const char *name,
                                     const struct mt_tensor *a)
{
    struct mt_context *ctx = mt_device_context(device);
    uint64_t stream = mt_stream_of_name(name);
    float bound = (float)(1.0 / sqrt((double)a->dim[1])); // kaiming uniform with a = sqrt(5)
    int64_t total = mt_tensor_count(a);
    void *memory = NULL;
    enum mt_status status = mt_allocate(ctx, sizeof(struct staging), &memory);
    struct staging *staging = memory;
    for (int64_t first = 0; status == MT_OK && first < total; first += PIECE) {
        int64_t count = total - first < PIECE ? total - first : PIECE;
        for (int64_t i = 0; i < count; i++) {
            float unit = mt_rng_uniform(seed, stream, (uint64_t)(first + i));
            staging->values[i] = bound * (2.0f * unit - 1.0f);
        }
        status = upload_piece(device, staging, a, first, count);
    }
    mt_release(ctx, memory, sizeof(struct staging));
    return status;
}
