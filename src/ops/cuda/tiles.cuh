/*
 * Products on the tensor cores, tile by tile: c = alpha · a · b + beta · c with a [M,K], b [K,N] in f32 or
 * bf16, rounded to bf16 on their way into shared memory, sums in f32, c in f32 or bf16. A block of
 * CUDA_THREADS makes one tile, loading steps while it multiplies others. For products cuBLAS is no help with:
 * many small or thin ones whose sizes only the device knows.
 */
#ifndef MT_OPS_CUDA_TILES_CUH
#define MT_OPS_CUDA_TILES_CUH

#include <math.h>

#include "ops/cuda/mma.cuh"
#include "ops/cuda/philox.cuh"

#define TILE_SHIFT 8 // elements between lines of shared memory beyond their length: banks differ

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

/*
 * Dropout of an operand or of the product: element (line, at) is number line · width + at of the stream, or
 * bit `at` of the mask's line.
 */
struct tile_drop {
    bool any;
    uint32_t below; // words under it drop their element
    float kept;     // what is left of 1
    uint64_t stream;
    int64_t width;
    int64_t lines;
    const unsigned char *mask; // drawn beforehand; NULL: not
    int64_t mask_stride;       // bytes
    struct random_keys keys;
};

static inline struct tile_drop tile_drop_of(const struct mt_dropout *drop, const struct mt_tensor *t)
{
    struct tile_drop d = {};
    d.any = drop->amount > 0.0f;
    // A word's upper 24 bits are a number in [0, 1): below amount where they are below amount · 2^24, which
    // is exact.
    d.below = (uint32_t)ceilf(drop->amount * 0x1p24f) << 8;
    d.kept = 1.0f / (1.0f - drop->amount);
    d.stream = drop->stream;
    d.width = t->dim[1];
    d.lines = t->dim[0];
    if (mt_tensor_present(&drop->mask)) d.mask = static_cast<const unsigned char *>(drop->mask.data);
    d.mask_stride = drop->mask.stride[0] * (int64_t)sizeof(int32_t);
    d.keys = random_keys_of(drop->seed);
    return d;
}

/* Bit i: whether the i-th of four neighbours stays. */
__device__ static inline unsigned stay_four(const struct tile_drop &d, uint64_t block)
{
    uint4 word = cuda_random_block(d.keys, d.stream, block);
    return (word.x >= d.below ? 1u : 0u) | (word.y >= d.below ? 2u : 0u) | (word.z >= d.below ? 4u : 0u) |
           (word.w >= d.below ? 8u : 0u);
}

/* What the mask says of eight neighbours; `at` is a multiple of eight. */
__device__ static inline unsigned masked_eight(const struct tile_drop &d, int64_t line, int64_t at)
{
    return line < d.lines && at < d.width ? d.mask[line * d.mask_stride + at / 8] : 0;
}

/* Bit i: whether the i-th of eight neighbours stays, by drawing; a call, because its registers are wanted. */
__device__ static __noinline__ unsigned draw_eight(const struct tile_drop &d, uint64_t element)
{
    unsigned shift = (unsigned)(element % 4); // not 0 only where a row is no multiple of a block
    unsigned bits = stay_four(d, element / 4) | stay_four(d, element / 4 + 1) << 4;
    if (shift != 0) bits |= stay_four(d, element / 4 + 2) << 8;
    return bits >> shift;
}

/* The same by the mask, if there is one; `at` is a multiple of eight. */
__device__ static inline unsigned stay_eight(const struct tile_drop &d, int64_t line, int64_t at)
{
    return d.mask != NULL ? masked_eight(d, line, at) : draw_eight(d, (uint64_t)(line * d.width + at));
}

/* All ones for each of two bf16 numbers whose bit is set. */
__device__ static inline unsigned kept_pair(unsigned bits)
{
    return ((bits & 1u) != 0 ? 0x0000ffffu : 0u) | ((bits & 2u) != 0 ? 0xffff0000u : 0u);
}

/*
 * A warp's [16, 8·COUNT] sums, whose first element is (row, column), dropped. Each of four lanes that share a
 * row draws for the eight columns of one fragment, and tells the others.
 */
template <int COUNT>
__device__ static inline void drop_sums(float (&sums)[COUNT][4], const struct tile_drop &d, int64_t row,
                                        int64_t column)
{
    static_assert(COUNT % 4 == 0, "fragments are dropped four at a time");
    int lane = cuda_lane() % 4;
#pragma unroll
    for (int half = 0; half < 2; half++) {
#pragma unroll
        for (int j = 0; j < COUNT; j += 4) {
            unsigned own = stay_eight(d, row + cuda_lane() / 4 + 8 * half, column + 8 * (j + lane));
#pragma unroll
            for (int i = 0; i < 4; i++) {
                unsigned bits = __shfl_sync(CUDA_EVERY, own, i, 4) >> 2 * lane;
                sums[j + i][2 * half] *= (bits & 1u) != 0 ? d.kept : 0.0f;
                sums[j + i][2 * half + 1] *= (bits & 2u) != 0 ? d.kept : 0.0f;
            }
        }
    }
}

/* Eight elements of a line, zeros past the ends; bf16 numbers may still be on their way when it returns. */
__device__ static inline void load_eight(__nv_bfloat16 *target, const struct tile_operand &o, int64_t line,
                                         int64_t line_end, int64_t at, int64_t end)
{
    const float *floats = static_cast<const float *>(o.data) + line * o.stride + at;
    const __nv_bfloat16 *halves = static_cast<const __nv_bfloat16 *>(o.data) + line * o.stride + at;
    bool whole = line < line_end && at + 8 <= end && o.aligned;
    if (whole && o.bf16) {
        copy_async(target, halves);
        return;
    }
    uint4 values;
    if (whole) {
        float4 low = reinterpret_cast<const float4 *>(floats)[0];
        float4 high = reinterpret_cast<const float4 *>(floats)[1];
        values = make_uint4(pack_bf16(low.x, low.y), pack_bf16(low.z, low.w), pack_bf16(high.x, high.y),
                            pack_bf16(high.z, high.w));
    } else {
        float single[8];
        for (int i = 0; i < 8; i++) {
            bool there = line < line_end && at + i < end;
            single[i] = !there ? 0.0f : o.bf16 ? __bfloat162float(halves[i]) : floats[i];
        }
        values = make_uint4(pack_bf16(single[0], single[1]), pack_bf16(single[2], single[3]),
                            pack_bf16(single[4], single[5]), pack_bf16(single[6], single[7]));
    }
    *reinterpret_cast<uint4 *>(target) = values;
}

/* An operand's part of a tile in shared memory, as it lies in memory: lines of k, or lines of outers. */
template <int OUTER, int STEPS, bool K_INNER> struct tile_part {
    static constexpr int INNER = K_INNER ? STEPS : OUTER;
    static constexpr int LINES = K_INNER ? OUTER : STEPS;
    static constexpr int PITCH = INNER + TILE_SHIFT;
    static constexpr int ELEMENTS = LINES * PITCH;
    static constexpr int PIECES = (LINES * (INNER / 8) + CUDA_THREADS - 1) / CUDA_THREADS; // of a thread

    __device__ static void load(__nv_bfloat16 *part, const struct tile_operand &o, int64_t outer,
                                int64_t outer_end, int64_t k, int64_t k_end)
    {
        int64_t line = K_INNER ? outer : k;
        int64_t line_end = K_INNER ? outer_end : k_end;
        int64_t at = K_INNER ? k : outer;
        int64_t end = K_INNER ? k_end : outer_end;
#pragma unroll 4
        for (int piece = (int)threadIdx.x; piece < LINES * (INNER / 8); piece += CUDA_THREADS) {
            int row = piece / (INNER / 8);
            int column = piece % (INNER / 8) * 8;
            load_eight(part + row * PITCH + column, o, line + row, line_end, at + column, end);
        }
    }

    /* Which elements of this thread's pieces stay; `first` is the tensor's line that is line 0 here. */
    __device__ static void draw(unsigned (&bits)[PIECES], const struct tile_drop &d, int64_t first,
                                int64_t outer, int64_t k)
    {
#pragma unroll
        for (int i = 0; i < PIECES; i++) {
            int piece = (int)threadIdx.x + i * CUDA_THREADS;
            int64_t line = first + (K_INNER ? outer : k) + piece / (INNER / 8);
            bits[i] = masked_eight(d, line, (K_INNER ? k : outer) + piece % (INNER / 8) * 8);
        }
    }

    /* Zeros for those that do not, in what this thread has loaded. */
    __device__ static void clear(__nv_bfloat16 *part, const unsigned (&bits)[PIECES])
    {
#pragma unroll
        for (int i = 0; i < PIECES; i++) {
            int piece = (int)threadIdx.x + i * CUDA_THREADS;
            if (piece >= LINES * (INNER / 8)) continue;
            uint4 *place =
                reinterpret_cast<uint4 *>(part + piece / (INNER / 8) * PITCH + piece % (INNER / 8) * 8);
            uint4 now = *place;
            now.x &= kept_pair(bits[i]);
            now.y &= kept_pair(bits[i] >> 2);
            now.z &= kept_pair(bits[i] >> 4);
            now.w &= kept_pair(bits[i] >> 6);
            *place = now;
        }
    }

    /* Where the fragment of these outers and steps begins. */
    __device__ static const __nv_bfloat16 *at(const __nv_bfloat16 *part, int outer, int k)
    {
        return K_INNER ? part + outer * PITCH + k : part + k * PITCH + outer;
    }
};

/* The operand whose elements a mask drops; what stays is not multiplied, which is alpha's to do. */
enum tile_dropped {
    TILE_DROPS_NONE,
    TILE_DROPS_A,
    TILE_DROPS_B,
};

/*
 * Tiles [M,N] by eight warps, each [WARP_M,WARP_N], STEPS steps at a time, STAGES of them in shared memory.
 * A_INNER: a is stored [M,K]; B_INNER: b is stored [N,K].
 */
template <int M, int N, int WARP_M, int WARP_N, int STEPS, int STAGES, bool A_INNER, bool B_INNER,
          enum tile_dropped DROPPED = TILE_DROPS_NONE>
struct tile_product {
    static_assert((M / WARP_M) * (N / WARP_N) == CUDA_WARPS, "every warp has a part of the tile");
    using a_part = tile_part<M, STEPS, A_INNER>;
    using b_part = tile_part<N, STEPS, B_INNER>;
    static constexpr int STAGE = a_part::ELEMENTS + b_part::ELEMENTS; // elements
    static constexpr size_t BYTES = (size_t)STAGES * STAGE * sizeof(__nv_bfloat16);
    static constexpr int RESIDENT = M * N <= 64 * 128 ? 3 : 1; // blocks a multiprocessor should hold
    static constexpr int ROWS = WARP_M / 16;
    static constexpr int COLUMNS = WARP_N / 8;

    /* One product: sizes, and the tile's first element. */
    struct task {
        struct tile_operand a, b;
        int64_t m, m_end;
        int64_t n, n_end;
        int64_t k_end;
        const struct tile_drop *drop; // of the operand, or else, if not NULL, of the product
        int64_t drop_line;            // of the dropped tensor: line 0 here
    };

    __device__ static void load(__nv_bfloat16 *shared, const task &t, int64_t step)
    {
        __nv_bfloat16 *stage = shared + step % STAGES * STAGE;
        if (step * STEPS < t.k_end) {
            a_part::load(stage, t.a, t.m, t.m_end, step * STEPS, t.k_end);
            b_part::load(stage + a_part::ELEMENTS, t.b, t.n, t.n_end, step * STEPS, t.k_end);
        }
        copy_commit();
    }

    __device__ static void multiply(const __nv_bfloat16 *stage, int warp_m, int warp_n,
                                    float (&sum)[ROWS][COLUMNS][4])
    {
#pragma unroll
        for (int k = 0; k < STEPS; k += 16) {
            unsigned left[ROWS][4];
#pragma unroll
            for (int i = 0; i < ROWS; i++) {
                load_a<A_INNER>(left[i], a_part::at(stage, warp_m + i * 16, k), a_part::PITCH);
            }
#pragma unroll
            for (int j = 0; j < COLUMNS; j += 2) {
                unsigned right[4];
                load_b<B_INNER>(right, b_part::at(stage + a_part::ELEMENTS, warp_n + j * 8, k),
                                b_part::PITCH);
#pragma unroll
                for (int i = 0; i < ROWS; i++) {
                    multiply_add(sum[i][j], left[i], right[0], right[1]);
                    multiply_add(sum[i][j + 1], left[i], right[2], right[3]);
                }
            }
        }
    }

    /* Waits for step `step` to be there, its elements dropped if they are. */
    __device__ static void await(__nv_bfloat16 *shared, const task &t, int64_t step)
    {
        __nv_bfloat16 *stage = shared + step % STAGES * STAGE;
        if constexpr (DROPPED == TILE_DROPS_A) {
            unsigned bits[a_part::PIECES];
            a_part::draw(bits, *t.drop, t.drop_line, t.m, step * STEPS);
            copy_wait<STAGES - 2>();
            a_part::clear(stage, bits);
        } else if constexpr (DROPPED == TILE_DROPS_B) {
            unsigned bits[b_part::PIECES];
            b_part::draw(bits, *t.drop, t.drop_line, t.n, step * STEPS);
            copy_wait<STAGES - 2>();
            b_part::clear(stage + a_part::ELEMENTS, bits);
        } else {
            copy_wait<STAGES - 2>();
        }
        __syncthreads(); // everyone's part is there, and the stage before this one is free again
    }

    /* The tile; `shared` has BYTES. */
    __device__ static void run(__nv_bfloat16 *shared, const task &t, const struct tile_output &c)
    {
        int warp = (int)threadIdx.x / 32;
        int warp_m = warp / (N / WARP_N) * WARP_M;
        int warp_n = warp % (N / WARP_N) * WARP_N;
        float sum[ROWS][COLUMNS][4] = {};
        int64_t steps = (t.k_end + STEPS - 1) / STEPS;
        for (int64_t step = 0; step < STAGES - 1; step++) load(shared, t, step);
        expect_output<M, N>(c, t.m, t.m_end, t.n, t.n_end, (int)threadIdx.x, CUDA_THREADS);
        for (int64_t step = 0; step < steps; step++) {
            await(shared, t, step);
            load(shared, t, step + STAGES - 1);
            multiply(shared + step % STAGES * STAGE, warp_m, warp_n, sum);
        }
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            if constexpr (COLUMNS % 4 == 0 && DROPPED == TILE_DROPS_NONE) {
                if (t.drop != NULL)
                    drop_sums<COLUMNS>(sum[i], *t.drop, t.drop_line + t.m + warp_m + i * 16, t.n + warp_n);
            }
            store_sums<COLUMNS>(c, sum[i], t.m + warp_m + i * 16, t.m_end, t.n + warp_n, t.n_end);
        }
    }
};

#endif
