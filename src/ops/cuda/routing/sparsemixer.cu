/*
 * SparseMixer-2, one thread per token, as ref has it: z the logits still allowed, m their maximum, expert j
 * competes unless (m - z_j) / max(|z_j|, m) > 2·jitter, p the softmax over those that compete. A NaN logit is
 * never the maximum before a number, always competes, and makes the weight NaN.
 */
#include "ops/cuda/elementwise/philox.cuh"

struct contest {
    int64_t i;        // token
    int32_t excluded; // the first slot's choice; -1 in the first slot
    double threshold; // 2·jitter
    double highest;
    int32_t argmax;
    double sum; // Σ exp(z - highest) over those that compete
};

__device__ static bool competes(const struct contest &c, const struct mt_tensor &logits, int64_t j)
{
    if (j == c.excluded) return false;
    double z = cuda_get2(logits, c.i, j);
    return !((c.highest - z) / fmax(fabs(z), c.highest) > c.threshold);
}

__device__ static double probability(const struct contest &c, const struct mt_tensor &logits, int64_t j)
{
    return competes(c, logits, j) ? exp(cuda_get2(logits, c.i, j) - c.highest) / c.sum : 0.0;
}

__device__ static struct contest open_contest(const struct mt_tensor &logits, int64_t i, int32_t excluded,
                                              float jitter)
{
    struct contest c = {i, excluded, 2.0 * (double)jitter, -INFINITY, excluded == 0 ? 1 : 0, 0.0};
    for (int32_t j = 0; j < logits.dim[1]; j++) {
        double z = cuda_get2(logits, i, j);
        if (j == excluded || !(z > c.highest)) continue;
        c.highest = z;
        c.argmax = j;
    }
    for (int64_t j = 0; j < logits.dim[1]; j++) {
        if (competes(c, logits, j)) c.sum += exp(cuda_get2(logits, i, j) - c.highest);
    }
    return c;
}

/* Gumbel-max: a draw from p. `first` is the element of the draw that belongs to expert 0. */
__device__ static int32_t sample(const struct contest &c, const struct mt_sparsemixer_forward_args &a,
                                 uint64_t first)
{
    double best = -INFINITY;
    int32_t chosen = c.argmax;
    for (int32_t j = 0; j < a.logits.dim[1]; j++) {
        if (!competes(c, a.logits, j)) continue;
        uint32_t word = cuda_random_word(a.seed, a.stream, first + (uint64_t)j);
        double noisy = cuda_get2(a.logits, c.i, j) - log(-log((double)cuda_random_unit_open(word)));
        if (!(noisy > best)) continue;
        best = noisy;
        chosen = j;
    }
    return chosen;
}

__global__ static void forward_kernel(struct mt_sparsemixer_forward_args a)
{
    uint64_t experts = (uint64_t)a.logits.dim[1];
    for (int64_t i = cuda_thread(); i < a.logits.dim[0]; i += cuda_thread_count()) {
        int32_t chosen = -1;
        for (int slot = 0; slot < 2; slot++) {
            struct contest c = open_contest(a.logits, i, chosen, a.jitter);
            double factor = 1.0;
            chosen = c.argmax;
            if (a.training) {
                uint64_t first = ((uint64_t)i * 2 + (uint64_t)slot) * (experts + 1);
                chosen = sample(c, a, first);
                bool lucky = cuda_random_unit(cuda_random_word(a.seed, a.stream, first + experts)) > 0.75f;
                if (chosen != c.argmax && !lucky) factor = 1.0 / 3.0;
            }
            cuda_int_row(a.expert, i)[slot] = chosen;
            cuda_put2(a.weight, i, slot, factor * probability(c, a.logits, chosen));
        }
    }
}

__global__ static void backward_kernel(struct mt_sparsemixer_backward_args a)
{
    for (int64_t i = cuda_thread(); i < a.logits.dim[0]; i += cuda_thread_count()) {
        int32_t e1 = cuda_int2(a.expert, i, 0);
        int32_t e2 = cuda_int2(a.expert, i, 1);
        struct contest first = open_contest(a.logits, i, -1, a.jitter);
        struct contest second = open_contest(a.logits, i, e1, a.jitter);
        double g1 = cuda_get2(a.dweight, i, 0) * probability(first, a.logits, e1);
        double g2 = cuda_get2(a.dweight, i, 1) * probability(second, a.logits, e2);
        for (int64_t j = 0; j < a.logits.dim[1]; j++) {
            double dz = g1 * ((j == e1 ? 1.0 : 0.0) - probability(first, a.logits, j)) +
                        g2 * ((j == e2 ? 1.0 : 0.0) - probability(second, a.logits, j));
            cuda_give2(a.dlogits, i, j, dz, a.accumulate);
        }
    }
}

enum mt_status mt_cuda_sparsemixer_forward(struct mt_device *device,
                                           const struct mt_sparsemixer_forward_args *a)
{
    if (a->logits.dim[0] == 0) return MT_OK;
    forward_kernel<<<cuda_blocks(a->logits.dim[0]), CUDA_THREADS, 0, cuda_stream(device)>>>(*a);
    return cuda_launched(device, "sparsemixer forward");
}

enum mt_status mt_cuda_sparsemixer_backward(struct mt_device *device,
                                            const struct mt_sparsemixer_backward_args *a)
{
    if (a->logits.dim[0] == 0) return MT_OK;
    backward_kernel<<<cuda_blocks(a->logits.dim[0]), CUDA_THREADS, 0, cuda_stream(device)>>>(*a);
    return cuda_launched(device, "sparsemixer backward");
}
