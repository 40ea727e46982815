/*
 * slot_stats: the statistics of column_stats for rows given by their k slots, and how many slots chose each
 * expert. Backward: dw_s = dsum_e + 2 w_s dsquares_e + 2 drow_squares Σ_m w_m, e the slot's expert.
 */
#include "ops/cuda/token_sums.cuh"

/* Σ of the weights of a token's slots that have an expert. */
__device__ static double token_weight(const struct mt_tensor &expert, const struct mt_tensor &weight,
                                      int64_t i)
{
    double total = 0.0;
    for (int64_t s = 0; s < expert.dim[1]; s++) {
        if (cuda_int2(expert, i, s) >= 0) total += cuda_get2(weight, i, s);
    }
    return total;
}

/* Columns of the sums: n of counts, n of first choices, n of weights, n of their squares, one of rows. */
struct slot_statistic {
    struct mt_slot_stats_forward_args a;

    __device__ double value(int64_t i, int64_t column) const
    {
        int64_t n = a.count.dim[1];
        bool weighs = cuda_present(a.weight);
        if (column == 4 * n) {
            double total = weighs ? token_weight(a.expert, a.weight, i) : 0.0;
            return total * total;
        }
        double sum = 0.0;
        for (int64_t s = 0; s < a.expert.dim[1]; s++) {
            if (cuda_int2(a.expert, i, s) != column % n) continue;
            double w = weighs ? cuda_get2(a.weight, i, s) : 0.0;
            switch (column / n) {
            case 0: sum += 1.0; break;
            case 1: sum += s == 0 ? 1.0 : 0.0; break;
            case 2: sum += w; break;
            default: sum += w * w; break;
            }
        }
        return sum;
    }

    __device__ void store(int64_t b, int64_t column, double sum) const
    {
        int64_t n = a.count.dim[1];
        if (column == 4 * n) {
            if (cuda_present(a.row_squares)) cuda_put1(a.row_squares, b, sum);
            return;
        }
        switch (column / n) {
        case 0: put(a.count, b, column % n, sum); break;
        case 1: put(a.first, b, column % n, sum); break;
        case 2: put(a.sum, b, column % n, sum); break;
        default: put(a.squares, b, column % n, sum); break;
        }
    }

    __device__ static void put(const struct mt_tensor &target, int64_t b, int64_t expert, double sum)
    {
        if (cuda_present(target)) cuda_put2(target, b, expert, sum);
    }
};

__global__ static void backward_kernel(struct mt_slot_stats_backward_args a)
{
    for (int64_t i = cuda_thread(); i < a.expert.dim[0]; i += cuda_thread_count()) {
        bool counts = token_counts(a.mask, i);
        int64_t b = token_segment(a.segment, i);
        double both = 2.0 * token_weight(a.expert, a.weight, i) * optional1(a.drow_squares, b);
        for (int64_t s = 0; s < a.expert.dim[1]; s++) {
            int32_t e = cuda_int2(a.expert, i, s);
            double dw = 0.0;
            if (counts && e >= 0) {
                double w = cuda_get2(a.weight, i, s);
                dw = cuda_get2(a.dsum, b, e) + 2.0 * w * optional2(a.dsquares, b, e) + both;
            }
            cuda_give2(a.dweight, i, s, dw, a.accumulate);
        }
    }
}

size_t mt_cuda_slot_stats_forward_scratch(const struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_slot_stats_forward_args *a = static_cast<const struct mt_slot_stats_forward_args *>(args);
    return token_sums_bytes(a->count.dim[0], 4 * a->count.dim[1] + 1);
}

enum mt_status mt_cuda_slot_stats_forward(struct mt_device *device, const void *args)
{
    const struct mt_slot_stats_forward_args *a = static_cast<const struct mt_slot_stats_forward_args *>(args);
    struct token_cut cut = {a->mask, a->segment, a->expert.dim[0], a->count.dim[0], 4 * a->count.dim[1] + 1};
    token_sums(cuda_stream(device), slot_statistic{*a}, cut, static_cast<double *>(device->scratch.data));
    return cuda_launched(device, "slot_stats forward");
}

enum mt_status mt_cuda_slot_stats_backward(struct mt_device *device, const void *args)
{
    const struct mt_slot_stats_backward_args *a =
        static_cast<const struct mt_slot_stats_backward_args *>(args);
    if (mt_tensor_count(&a->dweight) == 0) return MT_OK;
    backward_kernel<<<cuda_blocks(a->expert.dim[0]), CUDA_THREADS, 0, cuda_stream(device)>>>(*a);
    return cuda_launched(device, "slot_stats backward");
}
