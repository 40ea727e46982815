/*
 * The tensor cores' instructions (sm_80 on), copies that run beside them, and the way out of their registers.
 *
 * A fragment of sums is [16,8]: a lane holds columns 2(l%4) and the next, of rows l/4 (elements 0, 1) and
 * l/4 + 8 (elements 2, 3). Operands are bf16, [16,16] of a and [16,16] of b (two fragments side by side).
 */
#ifndef MT_OPS_CUDA_MMA_CUH
#define MT_OPS_CUDA_MMA_CUH

#include "ops/cuda/common/common.cuh"

__device__ static inline unsigned shared_address(const void *pointer)
{
    return (unsigned)__cvta_generic_to_shared(pointer);
}

// ------------------------------------------------------------------ copies to shared memory

/* 16 bytes, both sides aligned. */
__device__ static inline void copy_async(void *target, const void *source)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(target)), "l"(source)
                 : "memory");
}

/* 16 bytes, or with `there` false as many zeros: then the source is not read. */
__device__ static inline void copy_async_or_zero(void *target, const void *source, bool there)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(target)), "l"(source),
                 "r"(there ? 16 : 0)
                 : "memory");
}

/* 4 bytes, likewise. */
__device__ static inline void copy_word_async(void *target, const void *source, bool there)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(target)), "l"(source),
                 "r"(there ? 4 : 0)
                 : "memory");
}

/* Ends a group of copies: possibly of none. */
__device__ static inline void copy_commit(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Until at most LEFT groups of this thread are under way. */
template <int LEFT> __device__ static inline void copy_wait(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

// ------------------------------------------------------------------ fragments

/* Four 8×8 matrices; lane i names row i%8 of matrix i/8. */
__device__ static inline void load_matrices(unsigned (&to)[4], const __nv_bfloat16 *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(row))
                 : "memory");
}

__device__ static inline void load_transposed(unsigned (&to)[4], const __nv_bfloat16 *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(row))
                 : "memory");
}

/* [16 rows, 16 steps] of a, in shared memory by rows (K_INNER) or by steps, lines `pitch` elements apart. */
template <bool K_INNER>
__device__ static inline void load_a(unsigned (&a)[4], const __nv_bfloat16 *first, int pitch)
{
    int i = cuda_lane();
    if (K_INNER) {
        load_matrices(a, first + i % 16 * pitch + i / 16 * 8);
    } else {
        load_transposed(a, first + (i % 8 + i / 16 * 8) * pitch + i / 8 % 2 * 8);
    }
}

/* [16 steps, 16 columns] of b, in shared memory by columns (K_INNER) or by steps: b[0], b[1] are the first
 * eight columns, b[2], b[3] the others. */
template <bool K_INNER>
__device__ static inline void load_b(unsigned (&b)[4], const __nv_bfloat16 *first, int pitch)
{
    int i = cuda_lane();
    if (K_INNER) {
        load_matrices(b, first + (i % 8 + i / 16 * 8) * pitch + i / 8 % 2 * 8);
    } else {
        load_transposed(b, first + i % 16 * pitch + i / 16 * 8);
    }
}

/* sum += a · b. */
__device__ static inline void multiply_add(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Two numbers rounded to bf16, the first in the lower half. */
__device__ static inline unsigned pack_bf16(float low, float high)
{
    __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<unsigned *>(&both);
}

__device__ static inline float low_bf16(unsigned both)
{
    return __uint_as_float(both << 16);
}

__device__ static inline float high_bf16(unsigned both)
{
    return __uint_as_float(both & 0xffff0000u);
}

// ------------------------------------------------------------------ the way out

/* Where sums go: c = alpha · sum + beta · c. */
struct tile_output {
    void *data;
    bool bf16;    // else f32
    bool aligned; // 16 bytes of bf16, or 8 of f32, may be written at any multiple of 8 columns
    int64_t stride;
    float alpha, beta;
};

static inline struct tile_output tile_output_of(const struct mt_tensor *t, float alpha, float beta)
{
    struct tile_output output = {};
    output.data = t->data;
    output.bf16 = t->dtype == MT_BF16;
    output.stride = t->stride[0];
    output.aligned = t->stride[0] % 8 == 0 && reinterpret_cast<uintptr_t>(t->data) % 16 == 0;
    output.alpha = alpha;
    output.beta = beta;
    return output;
}

/* The output from row `row` on. */
__device__ static inline struct tile_output tile_output_at(const struct tile_output &o, int64_t row)
{
    struct tile_output later = o;
    later.data = static_cast<char *>(o.data) + row * o.stride * (o.bf16 ? 2 : 4);
    return later;
}

/*
 * Asks for what a tile [ROWS,COLUMNS] of the output holds, if it will be read: sums take a while, and memory
 * can be on its way to the cache. `member` of `members` threads that share the work.
 */
template <int ROWS, int COLUMNS>
__device__ static inline void expect_output(const struct tile_output &c, int64_t row, int64_t row_end,
                                            int64_t column, int64_t column_end, int member, int members)
{
    const int line = c.bf16 ? 64 : 32; // numbers of 128 bytes
    const int lines = COLUMNS / line;
    if (c.beta == 0.0f) return;
    for (int i = member; i < ROWS * lines; i += members) {
        int64_t r = row + i / lines;
        int64_t at = column + i % lines * line;
        if (r >= row_end || at >= column_end) continue;
        const char *place = static_cast<const char *>(c.data) + (r * c.stride + at) * (c.bf16 ? 2 : 4);
        asm volatile("prefetch.global.L2 [%0];" ::"l"(place));
    }
}

/*
 * Each of four neighbouring lanes gives number j of itself to lane j, and gets that lane's own: a 4×4 matrix
 * transposed. What was a lane's two columns in each of four fragments becomes eight columns of one.
 */
__device__ static inline void transpose_four(unsigned (&v)[4])
{
    bool odd_lane = (threadIdx.x & 1) != 0;
    bool upper = (threadIdx.x & 2) != 0;
#pragma unroll
    for (int pair = 0; pair < 4; pair += 2) {
        unsigned got = __shfl_xor_sync(CUDA_EVERY, odd_lane ? v[pair] : v[pair + 1], 1);
        v[pair] = odd_lane ? got : v[pair];
        v[pair + 1] = odd_lane ? v[pair + 1] : got;
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        unsigned got = __shfl_xor_sync(CUDA_EVERY, upper ? v[i] : v[i + 2], 2);
        v[i] = upper ? got : v[i];
        v[i + 2] = upper ? v[i + 2] : got;
    }
}

/* Two columns of one row, one by one: where a tile hangs over the edge, or memory is not aligned. */
__device__ static inline void store_pair(const struct tile_output &c, float first, float second, int64_t row,
                                         int64_t column, int64_t column_end)
{
    enum mt_dtype dtype = c.bf16 ? MT_BF16 : MT_F32;
    for (int i = 0; i < 2; i++) {
        if (column + i >= column_end) return;
        int64_t at = row * c.stride + column + i;
        float old = c.beta == 0.0f ? 0.0f : c.beta * cuda_float_at(c.data, dtype, at);
        cuda_float_set(c.data, dtype, at, c.alpha * (i == 0 ? first : second) + old);
    }
}

/* Four fragments side by side in one row, 16 bytes a lane; all lanes call it. */
__device__ static inline void store_four(const struct tile_output &c, float (*sums)[4], int half, int64_t row,
                                         bool there, int64_t column)
{
    int64_t at = row * c.stride + column + threadIdx.x % 4 * 8;
    uint4 *place = reinterpret_cast<uint4 *>(static_cast<__nv_bfloat16 *>(c.data) + at);
    unsigned v[4] = {0, 0, 0, 0};
    if (c.beta != 0.0f) {
        uint4 old = there ? *place : make_uint4(0, 0, 0, 0);
        v[0] = old.x;
        v[1] = old.y;
        v[2] = old.z;
        v[3] = old.w;
        transpose_four(v);
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float low = c.beta == 0.0f ? 0.0f : c.beta * low_bf16(v[i]);
        float high = c.beta == 0.0f ? 0.0f : c.beta * high_bf16(v[i]);
        v[i] = pack_bf16(c.alpha * sums[i][2 * half] + low, c.alpha * sums[i][2 * half + 1] + high);
    }
    transpose_four(v);
    if (there) *place = make_uint4(v[0], v[1], v[2], v[3]);
}

/* One fragment's two columns of one row. */
__device__ static inline void store_one(const struct tile_output &c, const float (&sum)[4], int half,
                                        int64_t row, int64_t column, int64_t column_end)
{
    float first = sum[2 * half];
    float second = sum[2 * half + 1];
    int64_t at = column + threadIdx.x % 4 * 2;
    if (c.bf16 || !c.aligned || column + 8 > column_end) {
        store_pair(c, first, second, row, at, column_end);
        return;
    }
    float2 *place = reinterpret_cast<float2 *>(static_cast<float *>(c.data) + row * c.stride + at);
    float2 old = c.beta == 0.0f ? make_float2(0.0f, 0.0f) : *place;
    *place = make_float2(c.alpha * first + c.beta * old.x, c.alpha * second + c.beta * old.y);
}

/* A warp's [16, 8·COUNT] sums, whose first element is (row, column) of the output. All lanes call it. */
template <int COUNT>
__device__ static inline void store_sums(const struct tile_output &c, float (&sums)[COUNT][4], int64_t row,
                                         int64_t row_end, int64_t column, int64_t column_end)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int64_t own = row + cuda_lane() / 4 + 8 * half;
        bool there = own < row_end;
#pragma unroll
        for (int j = 0; j < COUNT; j += 4) {
            int64_t first = column + 8 * j;
            if (COUNT % 4 == 0 && c.bf16 && c.aligned && first + 32 <= column_end) {
                store_four(c, &sums[j], half, own, there, first);
                continue;
            }
#pragma unroll
            for (int i = j; i < j + 4 && i < COUNT; i++) {
                if (there && column + 8 * i < column_end)
                    store_one(c, sums[i], half, own, column + 8 * i, column_end);
            }
        }
    }
}

#endif
