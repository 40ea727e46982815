/*
 * Products on the tensor cores, tile by tile: c = alpha · a · b + beta · c with a [M,K], b [K,N] in f32 or
 * bf16, rounded to bf16 on their way into shared memory, sums and c in f32. A block of CUDA_THREADS makes one
 * tile. For products cuBLAS is no help with: many small ones whose sizes only the device knows.
 */
#ifndef MT_OPS_CUDA_TILES_CUH
#define MT_OPS_CUDA_TILES_CUH

#include <mma.h>

#include "ops/cuda/common.cuh"

#define TILE_K     64 // steps in shared memory at a time
#define TILE_EDGE  16 // of a fragment
#define TILE_SHIFT 8  // elements between lines of shared memory beyond their length: banks differ

/* a or b. An element has an outer index (row of a, column of b) and a step k; one of them is contiguous. */
struct tile_operand {
    const void *data;
    bool bf16;      // else f32
    bool aligned;   // eight elements at a time may be read from any multiple of eight
    int64_t stride; // elements between lines: outers where k is contiguous, else steps
};

static inline struct tile_operand tile_operand_of(const struct mt_tensor *t)
{
    struct tile_operand operand = {};
    operand.data = t->data;
    operand.bf16 = t->dtype == MT_BF16;
    operand.stride = t->stride[0];
    operand.aligned = t->stride[0] % 8 == 0 && reinterpret_cast<uintptr_t>(t->data) % 16 == 0;
    return operand;
}

/* The operand from line `line` on. */
__device__ static inline struct tile_operand tile_lines(const struct tile_operand &o, int64_t line)
{
    struct tile_operand later = o;
    later.data = static_cast<const char *>(o.data) + line * o.stride * (o.bf16 ? 2 : 4);
    return later;
}

/* Eight elements of a line, zeros past the ends. */
__device__ static inline void load_eight(__nv_bfloat16 *target, const struct tile_operand &o, int64_t line,
                                         int64_t line_end, int64_t at, int64_t end)
{
    __align__(16) __nv_bfloat16 values[8];
    const float *floats = static_cast<const float *>(o.data) + line * o.stride + at;
    const __nv_bfloat16 *halves = static_cast<const __nv_bfloat16 *>(o.data) + line * o.stride + at;
    bool whole = line < line_end && at + 8 <= end && o.aligned;
    if (whole && o.bf16) {
        *reinterpret_cast<uint4 *>(values) = *reinterpret_cast<const uint4 *>(halves);
    } else if (whole) {
        float4 low = reinterpret_cast<const float4 *>(floats)[0];
        float4 high = reinterpret_cast<const float4 *>(floats)[1];
        reinterpret_cast<__nv_bfloat162 *>(values)[0] = __floats2bfloat162_rn(low.x, low.y);
        reinterpret_cast<__nv_bfloat162 *>(values)[1] = __floats2bfloat162_rn(low.z, low.w);
        reinterpret_cast<__nv_bfloat162 *>(values)[2] = __floats2bfloat162_rn(high.x, high.y);
        reinterpret_cast<__nv_bfloat162 *>(values)[3] = __floats2bfloat162_rn(high.z, high.w);
    } else {
        for (int i = 0; i < 8; i++) {
            bool there = line < line_end && at + i < end;
            float value = !there ? 0.0f : o.bf16 ? __bfloat162float(halves[i]) : floats[i];
            values[i] = __float2bfloat16_rn(value);
        }
    }
    *reinterpret_cast<uint4 *>(target) = *reinterpret_cast<const uint4 *>(values);
}

/* An operand's part of a tile in shared memory, as it lies in memory: lines of k, or lines of outers. */
template <int OUTER, bool K_INNER> struct tile_part {
    static constexpr int INNER = K_INNER ? TILE_K : OUTER;
    static constexpr int LINES = K_INNER ? OUTER : TILE_K;
    static constexpr int PITCH = INNER + TILE_SHIFT;
    static constexpr int ELEMENTS = LINES * PITCH;

    __device__ static void load(__nv_bfloat16 *part, const struct tile_operand &o, int64_t outer,
                                int64_t outer_end, int64_t k, int64_t k_end)
    {
        int64_t line = K_INNER ? outer : k;
        int64_t line_end = K_INNER ? outer_end : k_end;
        int64_t at = K_INNER ? k : outer;
        int64_t end = K_INNER ? k_end : outer_end;
        for (int piece = (int)threadIdx.x; piece < LINES * (INNER / 8); piece += CUDA_THREADS) {
            int row = piece / (INNER / 8);
            int column = piece % (INNER / 8) * 8;
            load_eight(part + row * PITCH + column, o, line + row, line_end, at + column, end);
        }
    }

    /* Where the fragment of these outers and steps begins. */
    __device__ static const __nv_bfloat16 *at(const __nv_bfloat16 *part, int outer, int k)
    {
        return K_INNER ? part + outer * PITCH + k : part + k * PITCH + outer;
    }
};

template <bool ROWS> struct tile_layout {
    using type = nvcuda::wmma::row_major;
};
template <> struct tile_layout<false> {
    using type = nvcuda::wmma::col_major;
};

/* Tiles [M,N] by eight warps, each [WARP_M,WARP_N]. A_INNER: a is stored [M,K]; B_INNER: b is stored [N,K].
 */
template <int M, int N, int WARP_M, int WARP_N, bool A_INNER, bool B_INNER> struct tile_product {
    static_assert((M / WARP_M) * (N / WARP_N) == CUDA_WARPS, "every warp has a part of the tile");
    using a_part = tile_part<M, A_INNER>;
    using b_part = tile_part<N, B_INNER>;
    using a_fragment = nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, TILE_EDGE, TILE_EDGE, TILE_EDGE,
                                              __nv_bfloat16, typename tile_layout<A_INNER>::type>;
    using b_fragment = nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, TILE_EDGE, TILE_EDGE, TILE_EDGE,
                                              __nv_bfloat16, typename tile_layout<!B_INNER>::type>;
    using c_fragment =
        nvcuda::wmma::fragment<nvcuda::wmma::accumulator, TILE_EDGE, TILE_EDGE, TILE_EDGE, float>;

    struct memory {
        __align__(32) __nv_bfloat16 a[a_part::ELEMENTS];
        __align__(32) __nv_bfloat16 b[b_part::ELEMENTS];
        __align__(32) float c[CUDA_WARPS][TILE_EDGE * TILE_EDGE]; // a fragment per warp, on its way out
    };

    struct output {
        float *data;
        int64_t stride;
        float alpha, beta;
    };

    __device__ static void store(const output &c, float *staging, const c_fragment &sum, int64_t m,
                                 int64_t m_end, int64_t n, int64_t n_end)
    {
        nvcuda::wmma::store_matrix_sync(staging, sum, TILE_EDGE, nvcuda::wmma::mem_row_major);
        __syncwarp();
        for (int e = cuda_lane(); e < TILE_EDGE * TILE_EDGE; e += 32) {
            int64_t row = m + e / TILE_EDGE;
            int64_t column = n + e % TILE_EDGE;
            if (row >= m_end || column >= n_end) continue;
            float *target = c.data + row * c.stride + column;
            float old = c.beta == 0.0f ? 0.0f : c.beta * *target;
            *target = c.alpha * staging[e] + old;
        }
        __syncwarp();
    }

    /* The tile whose first element is (m, n), of a product with M, N and K ending where it is said. */
    __device__ static void run(memory &shared, const struct tile_operand &a, const struct tile_operand &b,
                               const output &c, int64_t m, int64_t m_end, int64_t n, int64_t n_end,
                               int64_t k_end)
    {
        constexpr int ROWS = WARP_M / TILE_EDGE;
        constexpr int COLUMNS = WARP_N / TILE_EDGE;
        int warp = (int)threadIdx.x / 32;
        int warp_m = warp / (N / WARP_N) * WARP_M;
        int warp_n = warp % (N / WARP_N) * WARP_N;
        c_fragment sum[ROWS][COLUMNS];
        for (int i = 0; i < ROWS; i++) {
            for (int j = 0; j < COLUMNS; j++) nvcuda::wmma::fill_fragment(sum[i][j], 0.0f);
        }
        for (int64_t start = 0; start < k_end; start += TILE_K) {
            a_part::load(shared.a, a, m, m_end, start, k_end);
            b_part::load(shared.b, b, n, n_end, start, k_end);
            __syncthreads();
#pragma unroll
            for (int k = 0; k < TILE_K; k += TILE_EDGE) {
                a_fragment left[ROWS];
                for (int i = 0; i < ROWS; i++) {
                    nvcuda::wmma::load_matrix_sync(left[i], a_part::at(shared.a, warp_m + i * TILE_EDGE, k),
                                                   a_part::PITCH);
                }
                for (int j = 0; j < COLUMNS; j++) {
                    b_fragment right;
                    nvcuda::wmma::load_matrix_sync(right, b_part::at(shared.b, warp_n + j * TILE_EDGE, k),
                                                   b_part::PITCH);
                    for (int i = 0; i < ROWS; i++) {
                        nvcuda::wmma::mma_sync(sum[i][j], left[i], right, sum[i][j]);
                    }
                }
            }
            __syncthreads(); // before the parts are loaded again
        }
        for (int i = 0; i < ROWS; i++) {
            for (int j = 0; j < COLUMNS; j++) {
                store(c, shared.c[warp], sum[i][j], m + warp_m + i * TILE_EDGE, m_end,
                      n + warp_n + j * TILE_EDGE, n_end);
            }
        }
    }
};

#endif
