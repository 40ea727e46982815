/*
 * random_multiply: y = x m, m an f32 made from the element's own random number. Dropout: m = 0 when its 16
 * bits are below amount, else 1/(1 - amount). Jitter: m = 1 + amount (2u - 1), rounded once, u =
 * mt_rng_unit(word).
 */
#include <math.h>

#include "base/rng.h"
#include "ops/dropout.h"
#include "ops/ref/ref.h"

static float multiplier(const struct mt_random_multiply_args *a, uint64_t element)
{
    if (a->kind == MT_RANDOM_DROPOUT) {
        bool kept = mt_rng_half(a->seed, a->stream, element) >= mt_dropout_threshold(a->amount);
        return kept ? 1.0f / (1.0f - a->amount) : 0.0f;
    }
    float unit = mt_rng_unit(mt_rng_u32(a->seed, a->stream, element));
    return fmaf(a->amount, 2.0f * unit - 1.0f, 1.0f);
}

enum mt_status mt_ref_random_multiply(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_random_multiply_args *a = args;
    int64_t width = a->x.dim[1];
    for (int64_t t = 0; t < a->x.dim[0]; t++) {
        for (int64_t j = 0; j < width; j++) {
            float m = multiplier(a, (uint64_t)(t * width + j));
            double product = ref_get2(&a->x, t, j) * (double)m;
            if (a->accumulate) product += ref_get2(&a->y, t, j);
            ref_set2(&a->y, t, j, product);
        }
    }
    return MT_OK;
}
