/* dropout_mask: bit j of a row is 1 when u >= amount, u = mt_rng_unit of element row·d + j's random word. */
#include "base/rng.h"
#include "ops/ref/ref.h"

enum mt_status mt_ref_dropout_mask(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_dropout_mask_args *a = args;
    for (int64_t row = 0; row < a->mask.dim[0]; row++) {
        int32_t *words = (int32_t *)a->mask.data + row * a->mask.stride[0];
        for (int64_t i = 0; i < a->mask.dim[1]; i++) {
            uint32_t bits = 0;
            for (int64_t j = 32 * i; j < 32 * i + 32 && j < a->width; j++) {
                float unit = mt_rng_unit(mt_rng_u32(a->seed, a->stream, (uint64_t)(row * a->width + j)));
                if (unit >= a->amount) bits |= (uint32_t)1 << (j % 32);
            }
            words[i] = (int32_t)bits;
        }
    }
    return MT_OK;
}
