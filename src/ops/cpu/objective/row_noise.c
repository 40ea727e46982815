/*
 * row_noise: a row's nearest neighbour among rows of floats, made of them first if need be, summed in double.
 * Rows are shared out over threads.
 */
#include <math.h>

#include "base/rng.h"
#include "ops/cpu/level.h"

/* |a - b|², with b NULL |a|². */
static double squared_distance(const float *a, const float *b, int64_t width)
{
    double sum = 0.0;
    if (b == NULL) {
#pragma omp simd reduction(+ : sum)
        for (int64_t j = 0; j < width; j++) sum += (double)a[j] * (double)a[j];
        return sum;
    }
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < width; j++) {
        double difference = (double)a[j] - (double)b[j];
        sum += difference * difference;
    }
    return sum;
}

/* rows [n,width] without gaps. */
static double epsilon_of(const float *rows, int64_t count, int64_t width, int64_t i)
{
    const float *own = rows + i * width;
    double nearest = INFINITY;
    for (int64_t m = 0; m < count; m++)
        if (m != i) nearest = fmin(nearest, squared_distance(own, rows + m * width, width));
    double length = squared_distance(own, NULL, width);
    return isfinite(nearest) && length > 0.0 ? 0.5 * sqrt(nearest / length) : 0.0;
}

static void multiply_row(const struct mt_row_noise_args *a, int64_t i, double epsilon)
{
    int64_t width = a->weight.dim[1];
    for (int64_t j = 0; j < width; j++) {
        uint32_t word = mt_rng_u32(a->seed, a->stream, (uint64_t)(i * width + j));
        double noisy = ref_get2(&a->x, i, j) * (1.0 + epsilon * (2.0 * (double)mt_rng_unit(word) - 1.0));
        ref_set2(&a->y, i, j, a->accumulate ? ref_get2(&a->y, i, j) + noisy : noisy);
    }
}

size_t MT_CPU(row_noise_scratch)(const struct mt_device *device, const struct mt_row_noise_args *a)
{
    (void)device;
    return (size_t)mt_tensor_count(&a->weight) * sizeof(float);
}

bool MT_CPU(row_noise_fits)(const struct mt_row_noise_args *a)
{
    return a->weight.dtype != MT_F64;
}

void MT_CPU(row_noise)(struct mt_device *device, const struct mt_row_noise_args *a)
{
    const struct mt_tensor *weight = &a->weight;
    int64_t count = weight->dim[0];
    int64_t width = weight->dim[1];
    float *rows = device->scratch.data;
    size_t bytes = mt_dtype_bytes(weight->dtype) * (size_t)weight->stride[0]; // from row to row
    for (int64_t i = 0; i < count; i++)
        mt_convert_to_f32(weight->dtype, (const char *)weight->data + (size_t)i * bytes, width,
                          rows + i * width);
    int threads = cpu_threads(device, count * mt_tensor_count(weight));
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < count; i++)
        multiply_row(a, i, a->amount > 0.0f ? (double)a->amount * epsilon_of(rows, count, width, i) : 0.0);
}
