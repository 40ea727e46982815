/* row_noise: y = x δ, δ = 1 + amount ε_i (2u - 1), ε_i = min_{m≠i} |w_i - w_m| / (2 |w_i|). */
#include <math.h>

#include "base/rng.h"
#include "ops/ref/ref.h"

static double squared_distance(const struct mt_tensor *weight, int64_t i, int64_t m)
{
    double sum = 0.0;
    for (int64_t j = 0; j < weight->dim[1]; j++) {
        double difference = ref_get2(weight, i, j) - ref_get2(weight, m, j);
        sum += difference * difference;
    }
    return sum;
}

static double squared_length(const struct mt_tensor *weight, int64_t i)
{
    double sum = 0.0;
    for (int64_t j = 0; j < weight->dim[1]; j++) sum += ref_get2(weight, i, j) * ref_get2(weight, i, j);
    return sum;
}

static double epsilon_of(const struct mt_tensor *weight, int64_t i)
{
    double nearest = INFINITY;
    for (int64_t m = 0; m < weight->dim[0]; m++) {
        if (m != i) nearest = fmin(nearest, squared_distance(weight, i, m));
    }
    double length = squared_length(weight, i);
    return isfinite(nearest) && length > 0.0 ? 0.5 * sqrt(nearest / length) : 0.0;
}

enum mt_status mt_ref_row_noise(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_row_noise_args *a = args;
    int64_t width = a->weight.dim[1];
    for (int64_t i = 0; i < a->weight.dim[0]; i++) {
        double epsilon = a->amount > 0.0f ? (double)a->amount * epsilon_of(&a->weight, i) : 0.0;
        for (int64_t j = 0; j < width; j++) {
            uint32_t word = mt_rng_u32(a->seed, a->stream, (uint64_t)(i * width + j));
            double noisy = ref_get2(&a->x, i, j) * (1.0 + epsilon * (2.0 * (double)mt_rng_unit(word) - 1.0));
            ref_set2(&a->y, i, j, a->accumulate ? ref_get2(&a->y, i, j) + noisy : noisy);
        }
    }
    return MT_OK;
}
