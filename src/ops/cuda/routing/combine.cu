/*
 * combine, for a token with expert rows x_s: y = (y +) base + Σ_s w_s x_s, gram[s,m] = <x_s, x_m>.
 * Backward: dw_s = <dy, x_s>, dx_s = w_s dy + Σ_m C[s,m] x_m, C factor times the coupling. Columns are
 * independent of each other, one thread each; inner products take a warp each. Few slots and wide rows:
 * combine_wide.cu.
 */
#include "ops/cuda/common/sums.cuh"
#include "ops/cuda/routing/combine.cuh"

__global__ static void forward_kernel(struct mt_combine_forward_args a)
{
    int64_t column = cuda_thread();
    if (column >= a.y.dim[1]) return;
    for (int64_t i = blockIdx.y; i < a.y.dim[0]; i += gridDim.y) {
        double sum = cuda_present(a.base) ? cuda_get2(a.base, i, column) : 0.0;
        if (a.accumulate) sum += cuda_get2(a.y, i, column);
        for (int64_t s = 0; s < a.row_of_slot.dim[1]; s++) {
            int32_t row = cuda_int2(a.row_of_slot, i, s);
            if (row >= 0) sum += cuda_get2(a.weight, i, s) * cuda_get2(a.rows, row, column);
        }
        cuda_put2(a.y, i, column, sum);
    }
}

/* <row of t, other row of u>, by the warp, in every lane. */
__device__ static double row_dot(const struct mt_tensor &t, int64_t row, const struct mt_tensor &u,
                                 int64_t other)
{
    double dot = 0.0;
    for (int64_t j = cuda_lane(); j < t.dim[1]; j += 32) dot += cuda_get2(t, row, j) * cuda_get2(u, other, j);
    return warp_sum(dot);
}

/* One block per token; its warps share the pairs s <= m. */
__global__ static void gram_kernel(struct mt_combine_forward_args a)
{
    int64_t i = blockIdx.x;
    int slots = (int)a.row_of_slot.dim[1];
    for (int pair = (int)threadIdx.x / 32; pair < slots * slots; pair += CUDA_WARPS) {
        int s = pair / slots;
        int m = pair % slots;
        if (s > m) continue;
        int32_t row = cuda_int2(a.row_of_slot, i, s);
        int32_t other = cuda_int2(a.row_of_slot, i, m);
        double dot = row >= 0 && other >= 0 ? row_dot(a.rows, row, a.rows, other) : 0.0;
        if (cuda_lane() != 0) continue;
        cuda_put3(a.gram, i, s, m, dot);
        cuda_put3(a.gram, i, m, s, dot);
    }
}

/* One warp per (token, slot). */
__global__ static void dweight_kernel(struct mt_combine_backward_args a)
{
    int64_t slots = a.row_of_slot.dim[1];
    int64_t pair = cuda_warp();
    if (pair >= a.dy.dim[0] * slots) return;
    int64_t i = pair / slots;
    int64_t s = pair % slots;
    int32_t row = cuda_int2(a.row_of_slot, i, s);
    double dot = row >= 0 ? row_dot(a.rows, row, a.dy, i) : 0.0;
    if (cuda_lane() == 0) cuda_put2(a.dweight, i, s, dot);
}

/* A column of all k rows is read before any of it is written: drows may be rows. */
__global__ static void drows_kernel(struct mt_combine_backward_args a)
{
    int64_t j = cuda_thread();
    int slots = (int)a.row_of_slot.dim[1];
    if (j >= a.rows.dim[1]) return;
    double factor = (double)combine_factor(a);
    for (int64_t i = blockIdx.y; i < a.row_of_slot.dim[0]; i += gridDim.y) {
        double dy = cuda_present(a.dy) ? cuda_get2(a.dy, i, j) : 0.0;
        double column[MT_MAX_SLOTS]; // zero where a slot has no row
        for (int s = 0; s < slots && cuda_present(a.coupling); s++) {
            int32_t row = cuda_int2(a.row_of_slot, i, s);
            column[s] = row >= 0 ? cuda_get2(a.rows, row, j) : 0.0;
        }
        for (int s = 0; s < slots; s++) {
            int32_t row = cuda_int2(a.row_of_slot, i, s);
            if (row < 0) continue;
            double sum = cuda_get2(a.weight, i, s) * dy;
            for (int m = 0; m < slots && cuda_present(a.coupling); m++) {
                if (cuda_int2(a.row_of_slot, i, m) >= 0)
                    sum += factor * cuda_get3(a.coupling, i, s, m) * column[m];
            }
            cuda_put2(a.drows, row, j, sum);
        }
    }
}

static enum mt_status run_forward(struct mt_device *device, const struct mt_combine_forward_args *a, void *)
{
    cudaStream_t stream = cuda_stream(device);
    int64_t tokens = a->row_of_slot.dim[0];
    if (tokens == 0) return MT_OK;
    if (mt_tensor_present(&a->gram) && mt_tensor_count(&a->gram) > 0) {
        gram_kernel<<<(unsigned)tokens, CUDA_THREADS, 0, stream>>>(*a);
    }
    if (mt_tensor_present(&a->y) && a->y.dim[1] > 0)
        forward_kernel<<<cuda_grid(tokens, a->y.dim[1]), CUDA_THREADS, 0, stream>>>(*a);
    return cuda_launched(device, "combine forward");
}

static const struct cuda_variant<struct mt_combine_forward_args> plain = {
    NULL, NULL, run_forward
};
static const struct cuda_variant<struct mt_combine_forward_args> *const variants[] = {
    &cuda_combine_gram_mma, &cuda_combine_wide, &plain
};
CUDA_OP(combine_forward, variants)

static enum mt_status run_backward(struct mt_device *device, const struct mt_combine_backward_args *a, void *)
{
    cudaStream_t stream = cuda_stream(device);
    int64_t pairs = mt_tensor_count(&a->row_of_slot);
    if (pairs == 0) return MT_OK;
    if (mt_tensor_present(&a->dweight)) // before rows are overwritten
        dweight_kernel<<<cuda_warp_blocks(pairs), CUDA_THREADS, 0, stream>>>(*a);
    if (a->rows.dim[1] > 0) {
        drows_kernel<<<cuda_grid(a->row_of_slot.dim[0], a->rows.dim[1]), CUDA_THREADS, 0, stream>>>(*a);
    }
    return cuda_launched(device, "combine backward");
}

static const struct cuda_variant<struct mt_combine_backward_args> plain_backward = {
    NULL, NULL, run_backward
};
static const struct cuda_variant<struct mt_combine_backward_args> *const backward_variants[] = {
    &cuda_combine_backward_mma, &cuda_combine_backward_wide, &plain_backward,
};
CUDA_OP(combine_backward, backward_variants)
