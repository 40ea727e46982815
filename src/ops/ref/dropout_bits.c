/* dropout_bits: bit j of word w of row r is set when column c = 32w + j < K has half(r K + c) >= threshold.
 */
#include "base/rng.h"
#include "ops/dropout.h"
#include "ops/ref/ref.h"

enum mt_status mt_ref_dropout_bits(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_dropout_bits_args *a = args;
    uint32_t threshold = mt_dropout_threshold(a->amount);
    for (int64_t row = 0; row < a->bits.dim[0]; row++) {
        uint32_t *words = (uint32_t *)a->bits.data + row * a->bits.stride[0];
        for (int64_t w = 0; w < a->bits.dim[1]; w++) words[w] = 0;
        for (int64_t column = 0; column < a->columns; column++) {
            uint32_t half = mt_rng_half(a->seed, a->stream, (uint64_t)(row * a->columns + column));
            uint32_t kept = half >= threshold;
            words[column / MT_MASK_BITS] |= kept << column % MT_MASK_BITS;
        }
    }
    return MT_OK;
}
