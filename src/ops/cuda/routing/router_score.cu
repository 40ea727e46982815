/*
 * router_score: softmax or sigmoid of a token's logits, one warp per token, in double. Rows of f32 that are
 * not long stay in registers (PARTS · 32 numbers).
 */
#include "ops/cuda/common/sums.cuh"

#define MOST_PARTS 8

/* The row's numbers that are this lane's; `beyond` where the row has none. */
template <int PARTS>
__device__ static inline void load_row(const struct mt_tensor &t, int64_t i, double beyond,
                                       double (&value)[PARTS])
{
    const float *row = static_cast<const float *>(t.data) + i * t.stride[0];
    int width = (int)t.dim[1];
#pragma unroll
    for (int part = 0; part < PARTS; part++) {
        int j = 32 * part + cuda_lane();
        value[part] = j < width ? (double)row[j] : beyond;
    }
}

template <int PARTS>
__device__ static inline void store_row(const struct mt_tensor &t, int64_t i, const double (&value)[PARTS])
{
    float *row = static_cast<float *>(t.data) + i * t.stride[0];
    int width = (int)t.dim[1];
#pragma unroll
    for (int part = 0; part < PARTS; part++) {
        int j = 32 * part + cuda_lane();
        if (j < width) row[j] = (float)value[part];
    }
}

/* Whether rows of these stay in registers. */
static bool is_held(const struct mt_tensor *a, const struct mt_tensor *b, const struct mt_tensor *c)
{
    return a->dtype == MT_F32 && b->dtype == MT_F32 && c->dtype == MT_F32 && a->dim[1] <= 32 * MOST_PARTS;
}

// ------------------------------------------------------------------ forward

template <int PARTS>
__global__ static void __launch_bounds__(CUDA_THREADS)
    held_softmax_kernel(struct mt_router_score_forward_args a)
{
    cuda_follow();
    int64_t i = cuda_warp();
    if (i >= a.logits.dim[0]) return;
    double value[PARTS];
    load_row(a.logits, i, -INFINITY, value);
    double highest = value[0];
#pragma unroll
    for (int part = 1; part < PARTS; part++) highest = fmax(highest, value[part]);
    highest = warp_max(highest);
    double sum = 0.0;
#pragma unroll
    for (int part = 0; part < PARTS; part++) {
        value[part] = 32 * part + cuda_lane() < a.logits.dim[1] ? exp(value[part] - highest) : 0.0;
        sum += value[part];
    }
    sum = warp_sum(sum);
#pragma unroll
    for (int part = 0; part < PARTS; part++) value[part] /= sum;
    store_row(a.probs, i, value);
}

__global__ static void softmax_kernel(struct mt_router_score_forward_args a)
{
    cuda_follow();
    int64_t i = cuda_warp();
    int64_t experts = a.logits.dim[1];
    if (i >= a.logits.dim[0]) return;
    double highest = -INFINITY;
    for (int64_t j = cuda_lane(); j < experts; j += 32) highest = fmax(highest, cuda_get2(a.logits, i, j));
    highest = warp_max(highest);
    double sum = 0.0;
    for (int64_t j = cuda_lane(); j < experts; j += 32) sum += exp(cuda_get2(a.logits, i, j) - highest);
    sum = warp_sum(sum);
    // A lane writes what only itself reads: probs may be logits.
    for (int64_t j = cuda_lane(); j < experts; j += 32) {
        cuda_put2(a.probs, i, j, exp(cuda_get2(a.logits, i, j) - highest) / sum);
    }
}

__global__ static void sigmoid_kernel(struct mt_router_score_forward_args a)
{
    cuda_follow();
    int64_t i = cuda_warp();
    if (i >= a.logits.dim[0]) return;
    for (int64_t j = cuda_lane(); j < a.logits.dim[1]; j += 32) {
        cuda_put2(a.probs, i, j, 1.0 / (1.0 + exp(-cuda_get2(a.logits, i, j))));
    }
}

// ------------------------------------------------------------------ backward

template <int PARTS>
__global__ static void __launch_bounds__(CUDA_THREADS)
    held_backward_kernel(struct mt_router_score_backward_args a)
{
    cuda_follow();
    int64_t i = cuda_warp();
    if (i >= a.probs.dim[0]) return;
    double p[PARTS];
    double g[PARTS];
    double dz[PARTS] = {};
    load_row(a.probs, i, 0.0, p);
    load_row(a.dprobs, i, 0.0, g);
    if (a.accumulate) load_row(a.dlogits, i, 0.0, dz);
    double mean = 0.0; // of g under p
    if (a.kind == MT_SCORE_SOFTMAX) {
#pragma unroll
        for (int part = 0; part < PARTS; part++) mean += p[part] * g[part];
        mean = warp_sum(mean);
    }
#pragma unroll
    for (int part = 0; part < PARTS; part++)
        dz[part] +=
            a.kind == MT_SCORE_SOFTMAX ? p[part] * (g[part] - mean) : g[part] * p[part] * (1.0 - p[part]);
    store_row(a.dlogits, i, dz);
}

__global__ static void backward_kernel(struct mt_router_score_backward_args a)
{
    cuda_follow();
    int64_t i = cuda_warp();
    int64_t experts = a.probs.dim[1];
    if (i >= a.probs.dim[0]) return;
    double mean = 0.0; // of g under p
    for (int64_t j = cuda_lane(); j < experts; j += 32) {
        mean += cuda_get2(a.probs, i, j) * cuda_get2(a.dprobs, i, j);
    }
    mean = warp_sum(mean);
    for (int64_t j = cuda_lane(); j < experts; j += 32) {
        double p = cuda_get2(a.probs, i, j);
        double g = cuda_get2(a.dprobs, i, j);
        double dz = a.kind == MT_SCORE_SOFTMAX ? p * (g - mean) : g * p * (1.0 - p);
        cuda_give2(a.dlogits, i, j, dz, a.accumulate);
    }
}

enum mt_status mt_cuda_router_score_forward(struct mt_device *device,
                                            const struct mt_router_score_forward_args *a)
{
    if (mt_tensor_count(&a->logits) == 0) return MT_OK;
    auto kernel = a->kind == MT_SCORE_SOFTMAX ? softmax_kernel : sigmoid_kernel;
    if (a->kind == MT_SCORE_SOFTMAX && is_held(&a->logits, &a->probs, &a->probs))
        kernel = a->logits.dim[1] <= 64 ? held_softmax_kernel<2> : held_softmax_kernel<MOST_PARTS>;
    dim3 blocks(cuda_warp_blocks(a->logits.dim[0]));
    return cuda_launch(device, "router_score forward", kernel, blocks, CUDA_THREADS, 0, *a);
}

enum mt_status mt_cuda_router_score_backward(struct mt_device *device,
                                             const struct mt_router_score_backward_args *a)
{
    if (mt_tensor_count(&a->probs) == 0) return MT_OK;
    auto kernel = backward_kernel;
    if (is_held(&a->probs, &a->dprobs, &a->dlogits))
        kernel = a->probs.dim[1] <= 64 ? held_backward_kernel<2> : held_backward_kernel<MOST_PARTS>;
    return cuda_launch(device, "router_score backward", kernel, dim3(cuda_warp_blocks(a->probs.dim[0])),
                       CUDA_THREADS, 0, *a);
}
