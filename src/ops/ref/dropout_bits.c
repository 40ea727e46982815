/* dropout_bits: word w of row r is mask word r ceil(K/32) + w of its stream, without the bits beyond K. */
#include "ops/ref/mask.h"

enum mt_status mt_ref_dropout_bits(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_dropout_bits_args *a = args;
    uint32_t threshold = mt_dropout_threshold(a->amount);
    int64_t width = a->bits.dim[1];
    for (int64_t row = 0; row < a->bits.dim[0]; row++) {
        uint32_t *words = (uint32_t *)a->bits.data + row * a->bits.stride[0];
        for (int64_t w = 0; w < width; w++) {
            uint32_t word = ref_mask_word(a->seed, a->stream, threshold, (uint64_t)(row * width + w));
            words[w] = word & mt_mask_used(a->columns, w);
        }
    }
    return MT_OK;
}
