/*
 * dispatch: rows[r] = x[slot_of_row[r] / k]. Backward: dx[i] = Σ_s drows[row_of_slot[i,s]], in the order of
 * s. One block per row where eights of elements can be moved at once; forward, where the rows of each token
 * are known, one warp per token, which then is read once.
 */
#include "ops/cuda/common/wide.cuh"

// ------------------------------------------------------------------ single elements

__global__ static void forward_kernel(struct mt_dispatch_forward_args a)
{
    int64_t column = cuda_thread();
    if (column >= a.rows.dim[1]) return;
    for (int64_t r = blockIdx.y; r < a.rows.dim[0]; r += gridDim.y) {
        int32_t slot = cuda_int1(a.slot_of_row, r);
        if (slot >= 0) cuda_put2(a.rows, r, column, cuda_get2(a.x, slot / a.slots, column));
    }
}

__global__ static void backward_kernel(struct mt_dispatch_backward_args a)
{
    int64_t column = cuda_thread();
    if (column >= a.dx.dim[1]) return;
    for (int64_t i = blockIdx.y; i < a.dx.dim[0]; i += gridDim.y) {
        double sum = a.accumulate ? cuda_get2(a.dx, i, column) : 0.0;
        for (int64_t s = 0; s < a.row_of_slot.dim[1]; s++) {
            int32_t row = cuda_int2(a.row_of_slot, i, s);
            if (row >= 0) sum += cuda_get2(a.drows, row, column);
        }
        cuda_put2(a.dx, i, column, sum);
    }
}

// ------------------------------------------------------------------ eights

__global__ static void wide_forward_kernel(struct mt_dispatch_forward_args a)
{
    int64_t r = blockIdx.x;
    int32_t slot = cuda_int1(a.slot_of_row, r);
    if (slot < 0) return;
    int64_t token = slot / a.slots;
    for (int64_t j = threadIdx.x * CUDA_WIDE; j < a.rows.dim[1]; j += (int64_t)blockDim.x * CUDA_WIDE) {
        float value[CUDA_WIDE];
        wide_load2(a.x, {token, j}, value);
        wide_store2(a.rows, {r, j}, value);
    }
}

#define BATCH 6 // slots whose rows are under way together

/* An eight of TYPE as it lies in memory. */
template <enum mt_dtype TYPE> struct packed_eight {
    uint4 part[TYPE == MT_BF16 ? 1 : 2];
};

template <enum mt_dtype TYPE>
__device__ static inline void add_packed(const struct packed_eight<TYPE> &eight, float (&sum)[CUDA_WIDE])
{
    float value[CUDA_WIDE];
    wide_load(&eight, TYPE, 0, value);
#pragma unroll
    for (int c = 0; c < CUDA_WIDE; c++) sum[c] += value[c];
}

/* TYPE: of drows. Rows wait as they are: what turns them into numbers would wait for each. */
template <enum mt_dtype TYPE>
__global__ static void __launch_bounds__(CUDA_THREADS, 5)
    wide_backward_kernel(struct mt_dispatch_backward_args a)
{
    int64_t i = blockIdx.x;
    int slots = (int)a.row_of_slot.dim[1];
    int64_t eights = a.drows.stride[0] / CUDA_WIDE; // from row to row
    for (int64_t j = threadIdx.x; j < a.dx.dim[1] / CUDA_WIDE; j += blockDim.x) {
        const struct packed_eight<TYPE> *column =
            static_cast<const struct packed_eight<TYPE> *>(a.drows.data) + j;
        float sum[CUDA_WIDE] = {};
        if (a.accumulate) wide_load2(a.dx, {i, j * CUDA_WIDE}, sum);
        for (int first = 0; first < slots; first += BATCH) {
            packed_eight<TYPE> row[BATCH] = {}; // zero where a slot has none
            int32_t place[BATCH];
#pragma unroll
            for (int s = 0; s < BATCH; s++)
                place[s] = first + s < slots ? cuda_int2(a.row_of_slot, i, first + s) : -1;
#pragma unroll
            for (int s = 0; s < BATCH; s++) {
                if (place[s] >= 0) row[s] = column[place[s] * eights];
            }
#pragma unroll
            for (int s = 0; s < BATCH; s++) add_packed<TYPE>(row[s], sum);
        }
        wide_store2(a.dx, {i, j * CUDA_WIDE}, sum);
    }
}

// ------------------------------------------------------------------ a token's row to all its places

#define PARTS 4 // of a row that a lane holds at a time, 16 bytes each

__global__ static void token_forward_kernel(struct mt_dispatch_forward_args a, int element)
{
    cuda_follow();
    int64_t token = cuda_warp();
    if (token >= a.x.dim[0]) return;
    int words = (int)(a.x.dim[1] * element / 16); // of a row
    int32_t own = cuda_lane() < a.slots ? cuda_int2(a.row_of_slot, token, cuda_lane()) : -1;
    const char *source = static_cast<const char *>(a.x.data) + token * a.x.stride[0] * element;
    char *rows = static_cast<char *>(a.rows.data);
    for (int start = cuda_lane(); start - cuda_lane() < words; start += 32 * PARTS) {
        uint4 part[PARTS];
#pragma unroll
        for (int i = 0; i < PARTS; i++) {
            if (start + 32 * i < words) part[i] = reinterpret_cast<const uint4 *>(source)[start + 32 * i];
        }
        for (int s = 0; s < a.slots; s++) {
            int32_t row = __shfl_sync(CUDA_EVERY, own, s);
            if (row < 0) continue;
            uint4 *target = reinterpret_cast<uint4 *>(rows + row * a.rows.stride[0] * element);
#pragma unroll
            for (int i = 0; i < PARTS; i++) {
                if (start + 32 * i < words) target[start + 32 * i] = part[i];
            }
        }
    }
}

/* Rows are moved as they are, and a lane knows one of a token's places. */
static bool goes_by_token(const struct mt_dispatch_forward_args *a)
{
    return mt_tensor_present(&a->row_of_slot) && a->slots <= 32 && a->x.dtype == a->rows.dtype &&
           a->x.dim[0] > 0 && cuda_is_wide(&a->x) && cuda_is_wide(&a->rows);
}

// ------------------------------------------------------------------ launchers

enum mt_status mt_cuda_dispatch_forward(struct mt_device *device, const struct mt_dispatch_forward_args *a)
{
    cudaStream_t stream = cuda_stream(device);
    int64_t rows = a->rows.dim[0];
    int64_t width = a->rows.dim[1];
    if (mt_tensor_count(&a->rows) == 0) return MT_OK;
    if (goes_by_token(a)) {
        int element = (int)mt_dtype_bytes(a->x.dtype);
        return cuda_launch(device, "dispatch forward", token_forward_kernel,
                           dim3(cuda_warp_blocks(a->x.dim[0])), CUDA_THREADS, 0, *a, element);
    }
    if (cuda_is_wide(&a->x) && cuda_is_wide(&a->rows)) {
        wide_forward_kernel<<<(unsigned)rows, wide_row_threads(width), 0, stream>>>(*a);
    } else {
        forward_kernel<<<cuda_grid(rows, width), CUDA_THREADS, 0, stream>>>(*a);
    }
    return cuda_launched(device, "dispatch forward");
}

enum mt_status mt_cuda_dispatch_backward(struct mt_device *device, const struct mt_dispatch_backward_args *a)
{
    cudaStream_t stream = cuda_stream(device);
    int64_t tokens = a->dx.dim[0];
    int64_t width = a->dx.dim[1];
    if (mt_tensor_count(&a->dx) == 0) return MT_OK;
    unsigned threads = wide_row_threads(width);
    bool wide = cuda_is_wide(&a->drows) && cuda_is_wide(&a->dx);
    if (wide && a->drows.dtype == MT_BF16) {
        wide_backward_kernel<MT_BF16><<<(unsigned)tokens, threads, 0, stream>>>(*a);
    } else if (wide) {
        wide_backward_kernel<MT_F32><<<(unsigned)tokens, threads, 0, stream>>>(*a);
    } else {
        backward_kernel<<<cuda_grid(tokens, width), CUDA_THREADS, 0, stream>>>(*a);
    }
    return cuda_launched(device, "dispatch backward");
}
