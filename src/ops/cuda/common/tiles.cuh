/*
 * Products on the tensor cores, tile by tile: c = alpha · a · b + beta · c with a [M,K], b [K,N] in f32 or
 * bf16, rounded to bf16 on their way into shared memory, sums in f32, c in f32 or bf16. A block of
 * CUDA_THREADS makes one tile, loading steps while it multiplies others. For products cuBLAS is no help with:
 * many small or thin ones whose sizes only the device knows.
 */
#ifndef MT_OPS_CUDA_TILES_CUH
#define MT_OPS_CUDA_TILES_CUH

#include "ops/cuda/common/mma.cuh"

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

/* Bits of dropout_bits for an operand whose lines are rows. */
struct tile_mask {
    const uint32_t *data; // NULL: none
    int64_t stride;       // words between rows
    int64_t words;        // of a row
};

static inline struct tile_mask tile_mask_of(const struct mt_tensor *mask)
{
    struct tile_mask bits = {};
    if (!mt_tensor_present(mask)) return bits;
    bits.data = static_cast<const uint32_t *>(mask->data);
    bits.stride = mask->stride[0];
    bits.words = mask->dim[1];
    return bits;
}

/* The mask from row `row` on. */
__device__ static inline struct tile_mask tile_mask_rows(const struct tile_mask &mask, int64_t row)
{
    struct tile_mask later = mask;
    if (mask.data != NULL) later.data = mask.data + row * mask.stride;
    return later;
}

/* A thread's words of LINES rows, WORDS of each, that advance with the steps of a product. */
template <int LINES, int WORDS> struct mask_reader {
    static constexpr int DOWN = CUDA_THREADS / WORDS; // rows between a thread's words
    static constexpr int PIECES = (LINES + DOWN - 1) / DOWN;
    const uint32_t *source; // its first word, of the next step
    int64_t stride, advance;
    int row, word; // of its first word, within a stage

    /* Rows from `first` on, words from `at` on; `advance_` words from step to step. */
    __device__ void start(const struct tile_mask &mask, int64_t first, int64_t at, int64_t advance_)
    {
        row = (int)threadIdx.x / WORDS;
        word = (int)threadIdx.x % WORDS;
        stride = mask.stride;
        advance = advance_;
        source = mask.data + (first + row) * stride + at + word;
    }

    /* The next step's words, zeros past the ends; they may still be on their way. */
    __device__ void load(uint32_t *part, int64_t rows_left, int64_t words_left)
    {
#pragma unroll
        for (int i = 0; i < PIECES; i++) {
            int own = row + i * DOWN;
            if (LINES % DOWN != 0 && own >= LINES) break;
            copy_word_async(part + own * WORDS + word, source + i * DOWN * stride,
                            own < rows_left && word < words_left);
        }
        source += advance;
    }
};

/*
 * What bits `at` of two words keep of two bf16 numbers in a register, the first word's of the lower one; with
 * BYTE bits `at` + 8 BYTE. The words come rotated (turn_bit), so that the bit is the highest of its byte,
 * which spreads over bytes.
 */
__device__ static inline uint32_t turn_bit(uint32_t word, int at)
{
    return __funnelshift_l(word, word, (unsigned)(7 - at));
}

template <int BYTE> __device__ static inline unsigned keep_pair(unsigned pair, uint32_t low, uint32_t high)
{
    unsigned kept;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(kept) : "r"(low), "r"(high), "n"(0xcc88 + 0x1111 * BYTE));
    return pair & kept;
}

/* An operand's part of a tile in shared memory, as it lies in memory: lines of k, or lines of outers. */
template <int OUTER, int STEPS, bool K_INNER> struct tile_part {
    static constexpr int INNER = K_INNER ? STEPS : OUTER;
    static constexpr int LINES = K_INNER ? OUTER : STEPS;
    static constexpr int PITCH = INNER + TILE_SHIFT;
    static constexpr int ELEMENTS = LINES * PITCH;

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

    // ---- the same for aligned bf16, where a thread only moves on from step to step

    static constexpr int ACROSS = INNER / 8;           // pieces of a line
    static constexpr int DOWN = CUDA_THREADS / ACROSS; // lines between a thread's pieces
    static constexpr int PIECES = (LINES + DOWN - 1) / DOWN;
    static_assert(CUDA_THREADS % ACROSS == 0, "a thread's pieces are below each other");

    struct reader {
        const __nv_bfloat16 *source; // its first piece, of the next step
        int64_t jump, advance;       // elements from piece to piece, and from step to step
        int line, column;            // of its first piece, within a stage
        int outers;                  // of a stage's that are there

        __device__ void start(const struct tile_operand &o, int64_t outer, int64_t outer_end)
        {
            line = (int)threadIdx.x / ACROSS;
            column = (int)threadIdx.x % ACROSS * 8;
            int64_t at = K_INNER ? (outer + line) * o.stride + column : line * o.stride + outer + column;
            source = static_cast<const __nv_bfloat16 *>(o.data) + at;
            jump = DOWN * o.stride;
            advance = K_INNER ? STEPS : STEPS * o.stride;
            outers = outer_end - outer < OUTER ? (int)(outer_end - outer) : OUTER;
        }

        /* The next stage, which has `left` steps: zeros past the ends. */
        __device__ void load(__nv_bfloat16 *part, int left)
        {
            int lines = K_INNER ? outers : left;
            bool inside = column < (K_INNER ? left : outers);
#pragma unroll
            for (int i = 0; i < PIECES; i++) {
                int own = line + i * DOWN;
                if (LINES % DOWN != 0 && own >= LINES) break;
                copy_async_or_zero(part + own * PITCH + column, source + i * jump, inside && own < lines);
            }
            source += advance;
        }
    };

    /* Whether pieces are whole or not there at all. */
    __device__ static bool reads(const struct tile_operand &o, int64_t outer_end, int64_t k_end)
    {
        return o.bf16 && o.aligned && (K_INNER ? k_end : outer_end) % 8 == 0;
    }

    /* Where the fragment of these outers and steps begins. */
    __device__ static const __nv_bfloat16 *at(const __nv_bfloat16 *part, int outer, int k)
    {
        return K_INNER ? part + outer * PITCH + k : part + k * PITCH + outer;
    }
};

/* Which operand has a mask: a stored [M,K], or b stored [K,N]. Either way its lines are rows of the mask. */
enum tile_masked {
    MASK_NONE,
    MASK_A,
    MASK_B,
};

/*
 * Tiles [M,N] by eight warps, each [WARP_M,WARP_N], STEPS steps at a time, STAGES of them in shared memory.
 * A_INNER: a is stored [M,K]; B_INNER: b is stored [N,K].
 */
template <int M, int N, int WARP_M, int WARP_N, int STEPS, int STAGES, bool A_INNER, bool B_INNER,
          enum tile_masked MASKED = MASK_NONE>
struct tile_product {
    static_assert(MASKED != MASK_A || (A_INNER && STEPS % 32 == 0), "whole words of a mask");
    static_assert(MASKED != MASK_B || (!B_INNER && N % 32 == 0), "whole words of a mask");
    static_assert((M / WARP_M) * (N / WARP_N) == CUDA_WARPS, "every warp has a part of the tile");
    using a_part = tile_part<M, STEPS, A_INNER>;
    using b_part = tile_part<N, STEPS, B_INNER>;
    static constexpr int MASK_LINES = MASKED == MASK_A ? M : STEPS;
    static constexpr int MASK_WORDS = MASKED == MASK_A ? STEPS / 32 : N / 32; // of a line
    static constexpr int BITS = a_part::ELEMENTS + b_part::ELEMENTS;          // where a stage's mask begins
    static constexpr int STAGE = BITS + (MASKED == MASK_NONE ? 0 : 2 * MASK_LINES * MASK_WORDS); // elements
    static constexpr size_t BYTES = (size_t)STAGES * STAGE * sizeof(__nv_bfloat16);
    static constexpr int RESIDENT = M * N <= 64 * 128 ? 3 : 1; // blocks a multiprocessor should hold
    static constexpr int ROWS = WARP_M / 16;
    static constexpr int COLUMNS = WARP_N / 8;

    /* One product: sizes, and the tile's first element. */
    struct task {
        struct tile_operand a, b;
        struct tile_mask mask;
        int64_t m, m_end;
        int64_t n, n_end;
        int64_t k_end;
    };

    /* What a thread loads, step after step. */
    struct readers {
        typename a_part::reader a;
        typename b_part::reader b;
        mask_reader<MASK_LINES, MASK_WORDS> mask;
        bool even; // both operands by their readers

        __device__ void start(const task &t)
        {
            even = a_part::reads(t.a, t.m_end, t.k_end) && b_part::reads(t.b, t.n_end, t.k_end);
            a.start(t.a, t.m, t.m_end);
            b.start(t.b, t.n, t.n_end);
            if (MASKED == MASK_A) mask.start(t.mask, t.m, 0, MASK_WORDS);
            if (MASKED == MASK_B) mask.start(t.mask, 0, t.n / 32, STEPS * t.mask.stride);
        }
    };

    __device__ static void load(__nv_bfloat16 *shared, const task &t, readers &r, int step)
    {
        __nv_bfloat16 *stage = shared + step % STAGES * STAGE;
        int64_t first = (int64_t)step * STEPS;
        if (first < t.k_end) {
            int left = t.k_end - first < STEPS ? (int)(t.k_end - first) : STEPS;
            if (r.even) {
                r.a.load(stage, left);
                r.b.load(stage + a_part::ELEMENTS, left);
            } else {
                a_part::load(stage, t.a, t.m, t.m_end, first, t.k_end);
                b_part::load(stage + a_part::ELEMENTS, t.b, t.n, t.n_end, first, t.k_end);
            }
            uint32_t *bits = reinterpret_cast<uint32_t *>(stage + BITS);
            if (MASKED == MASK_A) r.mask.load(bits, t.m_end - t.m, t.mask.words - step * MASK_WORDS);
            if (MASKED == MASK_B) r.mask.load(bits, left, t.mask.words - t.n / 32);
        }
        copy_commit();
    }

    /* What the mask keeps of a fragment of a: rows from `row` on, steps from `k` on. */
    __device__ static void mask_a(unsigned (&a)[4], const __nv_bfloat16 *stage, int row, int k)
    {
        const uint32_t *bits = reinterpret_cast<const uint32_t *>(stage + BITS);
        int lane = cuda_lane();
        int at = k % 32 + lane % 4 * 2;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            uint32_t word = bits[(row + lane / 4 + 8 * half) * MASK_WORDS + k / 32];
            uint32_t low = turn_bit(word, at);
            uint32_t high = turn_bit(word, at + 1);
            a[half] = keep_pair<0>(a[half], low, high);
            a[half + 2] = keep_pair<1>(a[half + 2], low, high);
        }
    }

    /* The same of b: columns from `column` on. */
    __device__ static void mask_b(unsigned (&b)[4], const __nv_bfloat16 *stage, int k, int column)
    {
        const uint32_t *bits = reinterpret_cast<const uint32_t *>(stage + BITS);
        int lane = cuda_lane();
        int at = column % 32 + lane / 4;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const uint32_t *word = bits + (k + lane % 4 * 2 + 8 * half) * MASK_WORDS + column / 32;
            uint32_t low = turn_bit(word[0], at);
            uint32_t high = turn_bit(word[MASK_WORDS], at);
            b[half] = keep_pair<0>(b[half], low, high);
            b[half + 2] = keep_pair<1>(b[half + 2], low, high);
        }
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
                if constexpr (MASKED == MASK_A) mask_a(left[i], stage, warp_m + i * 16, k);
            }
#pragma unroll
            for (int j = 0; j < COLUMNS; j += 2) {
                unsigned right[4];
                load_b<B_INNER>(right, b_part::at(stage + a_part::ELEMENTS, warp_n + j * 8, k),
                                b_part::PITCH);
                if constexpr (MASKED == MASK_B) mask_b(right, stage, k, warp_n + j * 8);
#pragma unroll
                for (int i = 0; i < ROWS; i++) {
                    multiply_add(sum[i][j], left[i], right[0], right[1]);
                    multiply_add(sum[i][j + 1], left[i], right[2], right[3]);
                }
            }
        }
    }

    /* The tile; `shared` has BYTES. */
    __device__ static void run(__nv_bfloat16 *shared, const task &t, const struct tile_output &c)
    {
        int warp = (int)threadIdx.x / 32;
        int warp_m = warp / (N / WARP_N) * WARP_M;
        int warp_n = warp % (N / WARP_N) * WARP_N;
        float sum[ROWS][COLUMNS][4] = {};
        int steps = (int)((t.k_end + STEPS - 1) / STEPS);
        readers r;
        r.start(t);
        for (int step = 0; step < STAGES - 1; step++) load(shared, t, r, step);
        expect_output<M, N>(c, t.m, t.m_end, t.n, t.n_end, (int)threadIdx.x, CUDA_THREADS);
        for (int step = 0; step < steps; step++) {
            copy_wait<STAGES - 2>();
            __syncthreads(); // everyone's part is there, and the stage before this one is free again
            load(shared, t, r, step + STAGES - 1);
            multiply(shared + step % STAGES * STAGE, warp_m, warp_n, sum);
        }
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            store_sums<COLUMNS>(c, sum[i], t.m + warp_m + i * 16, t.m_end, t.n + warp_n, t.n_end);
        }
    }
};

#endif
