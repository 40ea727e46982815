/*
 * combine for up to eight slots, one block per token, eight columns a thread: the token's rows are read once,
 * and all that is made of them is made on the way.
 *   forward   y = base + Σ_s w_s x_s; gram[s,m] = <x_s, x_m>, summed over the block at the end
 *   backward  dx_s = w_s dy + Σ_m C[s,m] x_m; dw_s = <dy, x_s>
 * SLOTS is the next even number from the slots on; slots beyond count as slots without a row: zeros.
 */
#include "ops/cuda/combine.cuh"
#include "ops/cuda/wide.cuh"

#define MOST_SLOTS 8

/* Rows of the token's slots: -1 where there is none. */
template <int SLOTS>
__device__ static inline void load_places(const struct mt_tensor &row_of_slot, int64_t token,
                                          int32_t (&place)[SLOTS])
{
#pragma unroll
    for (int s = 0; s < SLOTS; s++) place[s] = s < row_of_slot.dim[1] ? cuda_int2(row_of_slot, token, s) : -1;
}

/* The same columns of all rows. */
template <int SLOTS>
__device__ static inline void load_rows(const struct mt_tensor &rows, const int32_t (&place)[SLOTS],
                                        int64_t column, float (&x)[SLOTS][CUDA_WIDE])
{
#pragma unroll
    for (int s = 0; s < SLOTS; s++) {
#pragma unroll
        for (int c = 0; c < CUDA_WIDE; c++) x[s][c] = 0.0f;
        if (place[s] >= 0) wide_load2(rows, {place[s], column}, x[s]);
    }
}

__device__ static inline float small_get(const struct mt_tensor &t, int64_t i, int s)
{
    return s < t.dim[1] ? (float)cuda_get2(t, i, s) : 0.0f;
}

// ------------------------------------------------------------------ forward

/* Sums of products over eight columns, added to dot: pair (s,m), s <= m, after those of smaller s. */
template <int SLOTS>
__device__ static inline void add_products(const float (&x)[SLOTS][CUDA_WIDE],
                                           float (&dot)[SLOTS * (SLOTS + 1) / 2])
{
    int pair = 0;
#pragma unroll
    for (int s = 0; s < SLOTS; s++) {
#pragma unroll
        for (int m = s; m < SLOTS; m++) {
#pragma unroll
            for (int c = 0; c < CUDA_WIDE; c++) dot[pair] = fmaf(x[s][c], x[m][c], dot[pair]);
            pair++;
        }
    }
}

/* The two slots of pair number `pair`. */
__device__ static inline void slots_of_pair(int slots, int pair, int *first, int *second)
{
    int s = 0;
    while (pair >= slots - s) {
        pair -= slots - s;
        s++;
    }
    *first = s;
    *second = s + pair;
}

/*
 * The pairs' sums over the block, and into the Gram matrix; `partial` is shared memory for 32 numbers of each
 * warp. 32 pairs at a time: a warp's lanes then hold one of them each.
 */
template <int SLOTS>
__device__ static inline void store_gram(const struct mt_tensor &gram, int64_t token,
                                         const float (&dot)[SLOTS * (SLOTS + 1) / 2], float *partial)
{
    constexpr int pairs = SLOTS * (SLOTS + 1) / 2;
#pragma unroll
    for (int start = 0; start < pairs; start += 32) {
        float value[32];
#pragma unroll
        for (int i = 0; i < 32; i++)
            value[i] = start + i < pairs ? dot[start + i < pairs ? start + i : 0] : 0.0f;
        float own = wide_warp_sums(value);
        __syncthreads(); // what was there before has been read
        partial[threadIdx.x] = own;
        __syncthreads();
        int pair = start + (int)threadIdx.x;
        if (threadIdx.x >= 32 || pair >= pairs) continue;
        float total = 0.0f;
        for (int i = (int)threadIdx.x; i < (int)blockDim.x; i += 32) total += partial[i];
        int s = 0;
        int m = 0;
        slots_of_pair(SLOTS, pair, &s, &m);
        if (m >= gram.dim[1]) continue;
        cuda_put3(gram, token, s, m, (double)total);
        cuda_put3(gram, token, m, s, (double)total);
    }
}

template <int SLOTS, bool GRAM>
__global__ static void __launch_bounds__(CUDA_THREADS, SLOTS <= 6 ? 3 : 2)
    forward_kernel(struct mt_combine_forward_args a)
{
    constexpr int pairs = SLOTS * (SLOTS + 1) / 2;
    __shared__ float partial[GRAM ? CUDA_THREADS : 1];
    int64_t token = blockIdx.x;
    int32_t place[SLOTS];
    float weight[SLOTS];
    float dot[pairs] = {};
    load_places<SLOTS>(a.row_of_slot, token, place);
#pragma unroll
    for (int s = 0; s < SLOTS; s++) weight[s] = small_get(a.weight, token, s);
    for (int64_t j = threadIdx.x * CUDA_WIDE; j < a.y.dim[1]; j += (int64_t)blockDim.x * CUDA_WIDE) {
        float x[SLOTS][CUDA_WIDE];
        float y[CUDA_WIDE] = {};
        load_rows<SLOTS>(a.rows, place, j, x);
        if (cuda_present(a.base)) wide_load2(a.base, {token, j}, y);
#pragma unroll
        for (int s = 0; s < SLOTS; s++) {
            if (place[s] < 0) continue; // its weight may be anything
#pragma unroll
            for (int c = 0; c < CUDA_WIDE; c++) y[c] = fmaf(weight[s], x[s][c], y[c]);
        }
        wide_store2(a.y, {token, j}, y);
        if (GRAM) add_products<SLOTS>(x, dot);
    }
    if (!GRAM) return;
    store_gram<SLOTS>(a.gram, token, dot, partial);
}

// ------------------------------------------------------------------ backward

template <int SLOTS, bool COUPLED>
__global__ static void __launch_bounds__(CUDA_THREADS) backward_kernel(struct mt_combine_backward_args a)
{
    __shared__ float partial[SLOTS * CUDA_WARPS];
    __shared__ float coupling[COUPLED ? SLOTS * SLOTS : 1];
    int64_t token = blockIdx.x;
    int slots = (int)a.row_of_slot.dim[1];
    int32_t place[SLOTS];
    float weight[SLOTS];
    float dot[SLOTS] = {};
    load_places<SLOTS>(a.row_of_slot, token, place);
#pragma unroll
    for (int s = 0; s < SLOTS; s++) weight[s] = small_get(a.weight, token, s);
    if (COUPLED) {
        // Between slots that have rows; what stands elsewhere may be anything.
        for (int i = (int)threadIdx.x; i < SLOTS * SLOTS; i += (int)blockDim.x) {
            int s = i / SLOTS;
            int m = i % SLOTS;
            bool both = s < slots && m < slots && cuda_int2(a.row_of_slot, token, s) >= 0 &&
                        cuda_int2(a.row_of_slot, token, m) >= 0;
            coupling[i] = both ? (float)cuda_get3(a.coupling, token, s, m) : 0.0f;
        }
        __syncthreads();
    }
    for (int64_t j = threadIdx.x * CUDA_WIDE; j < a.dy.dim[1]; j += (int64_t)blockDim.x * CUDA_WIDE) {
        float x[SLOTS][CUDA_WIDE];
        float dy[CUDA_WIDE];
        wide_load2(a.dy, {token, j}, dy);
        load_rows<SLOTS>(a.rows, place, j, x); // all of them before any is written: drows may be rows
#pragma unroll
        for (int s = 0; s < SLOTS; s++) {
            if (place[s] < 0) continue;
            float dx[CUDA_WIDE];
#pragma unroll
            for (int c = 0; c < CUDA_WIDE; c++) {
                dot[s] = fmaf(dy[c], x[s][c], dot[s]);
                dx[c] = weight[s] * dy[c];
            }
#pragma unroll
            for (int m = 0; COUPLED && m < SLOTS; m++) {
                float factor = coupling[s * SLOTS + m];
#pragma unroll
                for (int c = 0; c < CUDA_WIDE; c++) dx[c] = fmaf(factor, x[m][c], dx[c]);
            }
            wide_store2(a.drows, {place[s], j}, dx);
        }
    }
    wide_block_sums<SLOTS>(dot, partial);
#pragma unroll
    for (int s = 0; s < SLOTS; s++) {
        if ((int)threadIdx.x == s && s < slots) cuda_put2(a.dweight, token, s, (double)dot[s]);
    }
}

// ------------------------------------------------------------------ launchers

bool cuda_combine_is_wide(const struct mt_tensor *row_of_slot, const struct mt_tensor *rows,
                          const struct mt_tensor *first, const struct mt_tensor *second)
{
    return row_of_slot->dim[1] >= 1 && row_of_slot->dim[1] <= MOST_SLOTS && rows->dim[1] > 0 &&
           cuda_is_wide(rows) && cuda_is_wide(first) && cuda_is_wide(second);
}

template <int SLOTS> static void launch_forward(cudaStream_t stream, const struct mt_combine_forward_args &a)
{
    unsigned tokens = (unsigned)a.y.dim[0];
    unsigned threads = wide_row_threads(a.y.dim[1]);
    if (mt_tensor_present(&a.gram)) {
        forward_kernel<SLOTS, true><<<tokens, threads, 0, stream>>>(a);
    } else {
        forward_kernel<SLOTS, false><<<tokens, threads, 0, stream>>>(a);
    }
}

void cuda_combine_forward_wide(struct mt_device *device, const struct mt_combine_forward_args *a)
{
    cudaStream_t stream = cuda_stream(device);
    switch ((a->row_of_slot.dim[1] + 1) / 2) {
    case 1: launch_forward<2>(stream, *a); break;
    case 2: launch_forward<4>(stream, *a); break;
    case 3: launch_forward<6>(stream, *a); break;
    default: launch_forward<8>(stream, *a); break;
    }
}

template <int SLOTS>
static void launch_backward(cudaStream_t stream, const struct mt_combine_backward_args &a)
{
    unsigned tokens = (unsigned)a.dy.dim[0];
    unsigned threads = wide_row_threads(a.dy.dim[1]);
    if (mt_tensor_present(&a.coupling)) {
        backward_kernel<SLOTS, true><<<tokens, threads, 0, stream>>>(a);
    } else {
        backward_kernel<SLOTS, false><<<tokens, threads, 0, stream>>>(a);
    }
}

void cuda_combine_backward_wide(struct mt_device *device, const struct mt_combine_backward_args *a)
{
    cudaStream_t stream = cuda_stream(device);
    switch ((a->row_of_slot.dim[1] + 1) / 2) {
    case 1: launch_backward<2>(stream, *a); break;
    case 2: launch_backward<4>(stream, *a); break;
    case 3: launch_backward<6>(stream, *a); break;
    default: launch_backward<8>(stream, *a); break;
    }
}
