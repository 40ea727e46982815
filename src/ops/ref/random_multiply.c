/*
 * random_multiply: y = x m, m an f32 made from the element's own random number. Dropout: m = 0 where
 * dropout_bits has a 0, else 1/(1 - amount). Jitter: m = 1 + amount (2u - 1), rounded once, u =
 * mt_rng_unit(word).
 */
#include <math.h>

#include "ops/ref/mask.h"

static float multiplier(const struct mt_random_multiply_args *a, int64_t row, int64_t column)
{
    int64_t width = a->x.dim[1];
    if (a->kind == MT_RANDOM_DROPOUT) {
        int64_t index = row * mt_mask_words(width) + column / MT_MASK_BITS;
        uint32_t word = ref_mask_word(a->seed, a->stream, mt_dropout_threshold(a->amount), (uint64_t)index);
        return (word >> column % MT_MASK_BITS & 1u) != 0 ? 1.0f / (1.0f - a->amount) : 0.0f;
    }
    float unit = mt_rng_unit(mt_rng_u32(a->seed, a->stream, (uint64_t)(row * width + column)));
    return fmaf(a->amount, 2.0f * unit - 1.0f, 1.0f);
}

enum mt_status mt_ref_random_multiply(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_random_multiply_args *a = args;
    for (int64_t t = 0; t < a->x.dim[0]; t++) {
        for (int64_t j = 0; j < a->x.dim[1]; j++) {
            double product = ref_get2(&a->x, t, j) * (double)multiplier(a, t, j);
            if (a->accumulate) product += ref_get2(&a->y, t, j);
            ref_set2(&a->y, t, j, product);
        }
    }
    return MT_OK;
}
