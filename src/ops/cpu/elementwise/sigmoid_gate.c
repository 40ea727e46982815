/* sigmoid_gate on rows of floats, a thread each; the inner product is summed in double. */
#include "ops/cpu/level.h"
#include "ops/cpu/simd.h"

static double row_dot(const float *a, const float *b, int64_t width)
{
    double dot = 0.0;
#pragma omp simd reduction(+ : dot)
    for (int64_t j = 0; j < width; j++) dot += (double)a[j] * (double)b[j];
    return dot;
}

void MT_CPU(sigmoid_gate_forward)(struct mt_device *device, const struct mt_sigmoid_gate_forward_args *a)
{
    int64_t rows = a->x.dim[0];
    int64_t width = a->x.dim[1];
#pragma omp parallel for num_threads(cpu_threads(device, rows *width)) schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        float sigmoid = simd_sigmoid(*cpu_row(&a->gate, r));
        const float *x = cpu_row(&a->x, r);
        float *y = cpu_row(&a->y, r); // may be x itself
#pragma omp simd
        for (int64_t j = 0; j < width; j++) y[j] = sigmoid * x[j];
    }
}

void MT_CPU(sigmoid_gate_backward)(struct mt_device *device, const struct mt_sigmoid_gate_backward_args *a)
{
    int64_t rows = a->dy.dim[0];
    int64_t width = a->dy.dim[1];
#pragma omp parallel for num_threads(cpu_threads(device, rows *width)) schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        float gate = *cpu_row(&a->gate, r);
        float sigmoid = simd_sigmoid(gate);
        const float *dy = cpu_row(&a->dy, r);
        float *dx = cpu_row(&a->dx, r);
        double dot = row_dot(dy, cpu_row(&a->x, r), width); // before dx, which may be dy or x
#pragma omp simd
        for (int64_t j = 0; j < width; j++) dx[j] = sigmoid * dy[j];
        *cpu_row(&a->dgate, r) = sigmoid * simd_sigmoid(-gate) * (float)dot; // 1 - s, without cancelling
    }
}
