/*
 * router_orth, from G = W Wᵀ, pairs e, f of one group (K groups of g = n/K experts), one thread per pair:
 *   cosine  Σ (Ĝ_ef - δ_ef)² / (K g²), Ĝ_ef = G_ef / (l_e l_f), l_e = max(√G_ee, 1e-12); its gradient as in
 * ref L1      Σ |G_ef - δ_ef|; Γ_ef = sign(G_ef - δ_ef) Backward: coupling = scale · (Γ + Γᵀ).
 */
#include "ops/cuda/sums.cuh"

#define SHORTEST 1e-12 // what a row's length counts for at the least

__device__ static double length_of(const struct mt_tensor &gram, int64_t e)
{
    double square = cuda_get2(gram, e, e);
    return square > SHORTEST * SHORTEST ? sqrt(square) : SHORTEST;
}

__device__ static double cosine_of(const struct mt_tensor &gram, int64_t e, int64_t f)
{
    return cuda_get2(gram, e, f) / (length_of(gram, e) * length_of(gram, f));
}

__device__ static int64_t group_size(const struct mt_tensor &gram, int groups)
{
    return gram.dim[0] / (groups > 1 ? groups : 1);
}

/* One block: the matrix is small. */
__global__ static void forward_kernel(struct mt_router_orth_forward_args a)
{
    int64_t experts = a.gram.dim[0];
    int64_t size = group_size(a.gram, a.groups);
    bool plain = a.kind == MT_ROUTER_ORTH_L1;
    double sum = 0.0;
    for (int64_t pair = threadIdx.x; pair < experts * experts; pair += CUDA_THREADS) {
        int64_t e = pair / experts;
        int64_t f = pair % experts;
        double same = e == f ? 1.0 : 0.0;
        if (plain) {
            sum += fabs(cuda_get2(a.gram, e, f) - same);
        } else if (e / size == f / size) {
            double difference = cosine_of(a.gram, e, f) - same;
            sum += difference * difference;
        }
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) cuda_put1(a.loss, 0, plain ? sum : sum / (double)(experts * size));
}

/* Γ_ef of the cosine kind. */
__device__ static double cosine_gradient(const struct mt_tensor &gram, int64_t size, int64_t e, int64_t f)
{
    if (e / size != f / size) return 0.0;
    double divisor = (double)(gram.dim[0] * size);
    double length = length_of(gram, e);
    double same = e == f ? 1.0 : 0.0;
    double direct = 2.0 * (cosine_of(gram, e, f) - same) / (length * length_of(gram, f)) / divisor;
    if (e != f || cuda_get2(gram, e, e) <= SHORTEST * SHORTEST) return direct;
    double by_length = 0.0; // ∂loss/∂l_e, times -l_e/2
    for (int64_t m = e / size * size; m < (e / size + 1) * size; m++) {
        double across = cosine_of(gram, e, m);
        double down = cosine_of(gram, m, e);
        double itself = e == m ? 1.0 : 0.0;
        by_length += (across - itself) * across + (down - itself) * down;
    }
    return direct - by_length / (length * length) / divisor;
}

__device__ static double gradient_of(const struct mt_router_orth_backward_args &a, int64_t e, int64_t f)
{
    if (a.kind == MT_ROUTER_ORTH_L1) {
        double x = cuda_get2(a.gram, e, f) - (e == f ? 1.0 : 0.0);
        return (double)((x > 0.0) - (x < 0.0));
    }
    return cosine_gradient(a.gram, group_size(a.gram, a.groups), e, f);
}

__global__ static void backward_kernel(struct mt_router_orth_backward_args a)
{
    int64_t experts = a.gram.dim[0];
    for (int64_t pair = cuda_thread(); pair < experts * experts; pair += cuda_thread_count()) {
        int64_t e = pair / experts;
        int64_t f = pair % experts;
        cuda_put2(a.coupling, e, f, (double)a.scale * (gradient_of(a, e, f) + gradient_of(a, f, e)));
    }
}

enum mt_status mt_cuda_router_orth_forward(struct mt_device *device, const void *args)
{
    const struct mt_router_orth_forward_args *a =
        static_cast<const struct mt_router_orth_forward_args *>(args);
    forward_kernel<<<1, CUDA_THREADS, 0, cuda_stream(device)>>>(*a);
    return cuda_launched(device, "router_orth forward");
}

enum mt_status mt_cuda_router_orth_backward(struct mt_device *device, const void *args)
{
    const struct mt_router_orth_backward_args *a =
        static_cast<const struct mt_router_orth_backward_args *>(args);
    backward_kernel<<<cuda_blocks(mt_tensor_count(&a->gram)), CUDA_THREADS, 0, cuda_stream(device)>>>(*a);
    return cuda_launched(device, "router_orth backward");
}
