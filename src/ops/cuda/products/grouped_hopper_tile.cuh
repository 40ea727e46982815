/*
 * What Hopper's kernels of products over sorted rows have in common (grouped_hopper.cu tells how they work):
 * tiles, the thread that brings operands, products with and without masks, the way out, the launch. A kernel
 * that lets more than its sums wait for the next tile has a structure of its own in place of `waiting`, with
 * `left` and `early`, and a store_beside for it.
 */
#ifndef MT_OPS_CUDA_GROUPED_HOPPER_TILE_CUH
#define MT_OPS_CUDA_GROUPED_HOPPER_TILE_CUH

#include "ops/cuda/products/grouped_hopper.cuh"

#ifndef STAGES // a kernel that needs the memory has fewer
#define STAGES 4
#endif
#define GROUPS      2 // that multiply
#define GROUP       128
#define WIDE        32 // fragments of a tile's row, of 8 columns
#define NARROW      24
#define HALF        16 // fragments of each sum, where a tile is of two
#define HALF_BLOCKS 2
#define PIECES      16 // of a row's rounded sums, stored one after the other
#define FEW         8  // stages of a tile beside which the tile before is stored
#define MANY        16 // the same of tiles that have so many
#define INSTEAD     3  // of them, those in whose place masked products stand
#define PLACES      8  // tiles whose places are remembered
#define ROW_GROUP   16 // tiles below each other before the next column
#define X_BYTES     (HOPPER_ROWS * HOPPER_STEPS * 2)
#define BLOCK_BYTES (HOPPER_BLOCK * HOPPER_STEPS * 2)
#define STAGE_BYTES (X_BYTES + 4 * BLOCK_BYTES)

/* How sums leave. */
enum way_out {
    AT_ONCE,
    LATER,       // beside the next tile's products
    LATER_ADDED, // the same, added to what y holds
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// ------------------------------------------------------------------ tiles

struct place {
    int expert;
    int row, row_end; // of x and y; row -1: no tiles are left
    int block;        // of columns
    int blocks;       // 1 to 4
};

/* In shared memory: of each expert, the first row and the first tile; the last entry is the end. */
struct tile_table {
    int row[HOPPER_EXPERTS + 1];
    int tile[HOPPER_EXPERTS + 1];
};

/* One warp makes the table. */
__device__ static void make_table(const struct hopper_call &call, struct tile_table *table)
{
    int before = 0;
    if (cuda_lane() == 0) {
        table->row[0] = call.offsets != NULL ? call.offsets[0] : 0;
        table->tile[0] = 0;
    }
    for (int start = 0; start < call.experts; start += 32) {
        int e = start + cuda_lane();
        int through = 0; // tiles of this expert and those before it
        if (e < call.experts) {
            int end = call.offsets != NULL ? call.offsets[e + 1] : (int)call.rows;
            int rows = end - (call.offsets != NULL ? call.offsets[e] : 0);
            through = (rows + HOPPER_ROWS - 1) / HOPPER_ROWS * call.across;
            table->row[e + 1] = end;
        }
        for (int distance = 1; distance < 32; distance *= 2) {
            int lower = __shfl_up_sync(CUDA_EVERY, through, distance);
            if (cuda_lane() >= distance) through += lower;
        }
        if (e < call.experts) table->tile[e + 1] = before + through;
        before += __shfl_sync(CUDA_EVERY, through, 31);
    }
}

/* Where tile `tile` is; experts before *expert are known to come earlier. False past the last. */
__device__ __forceinline__ static bool find_place(const struct hopper_call &call,
                                                  const struct tile_table *table, int tile, int *expert,
                                                  struct place *place)
{
    while (*expert < call.experts && tile >= table->tile[*expert + 1]) ++*expert;
    if (*expert == call.experts) return false;
    int first = table->row[*expert];
    place->expert = *expert;
    place->row_end = table->row[*expert + 1];
    int down = (place->row_end - first + HOPPER_ROWS - 1) / HOPPER_ROWS;
    int within = tile - table->tile[*expert];
    int group = within / (ROW_GROUP * call.across);
    int high = down - group * ROW_GROUP < ROW_GROUP ? down - group * ROW_GROUP : ROW_GROUP;
    within -= group * ROW_GROUP * call.across;
    int column = within / high;
    place->row = first + (group * ROW_GROUP + within - column * high) * HOPPER_ROWS;
    int blocks = (call.columns + HOPPER_BLOCK - 1) / HOPPER_BLOCK;
    place->block = column * blocks / call.across;
    place->blocks = (column + 1) * blocks / call.across - place->block;
    return true;
}

/* Columns of a tile that y has. */
__device__ __forceinline__ static int tile_columns(const struct hopper_call &call, const struct place &place)
{
    int left = call.columns - place.block * HOPPER_BLOCK;
    return left < place.blocks * HOPPER_BLOCK ? left : place.blocks * HOPPER_BLOCK;
}

// ------------------------------------------------------------------ the thread that brings operands

/* Addresses in shared memory. */
struct pipeline {
    unsigned stages, full, empty; // the latter two: barriers, one per stage
    struct place *places;
};

/* A stage of term t, from step `step` on. */
template <bool N_INNER>
__device__ __forceinline__ static void bring_stage(const struct hopper_call &call, int t, int step,
                                                   const struct place &place, unsigned target, unsigned full)
{
    const struct hopper_term &term = call.term[t];
    const CUtensorMap *map = &call.weight[term.map + (term.apart ? place.expert : 0)];
    int matrix = term.apart ? 0 : place.expert;
    barrier_expect(full, (unsigned)(X_BYTES + place.blocks * BLOCK_BYTES));
    copy_box(target, &term.x, step, place.row, full);
    for (int i = 0; i < place.blocks; i++) {
        int column = (place.block + i) * HOPPER_BLOCK;
        copy_box(target + (unsigned)(X_BYTES + i * BLOCK_BYTES), map, N_INNER ? column : step,
                 N_INNER ? step : column, matrix, full);
    }
}

/* Boxes of weights for one half of a tile, from block `block` on; past the last column they are zeros. */
__device__ __forceinline__ static void bring_half(const struct hopper_call &call,
                                                  const struct hopper_term &term, int step, int expert,
                                                  int block, unsigned target, unsigned full)
{
    const CUtensorMap *map = &call.weight[term.map + (term.apart ? expert : 0)];
    int matrix = term.apart ? 0 : expert;
    for (int i = 0; i < HALF_BLOCKS; i++) {
        unsigned to = target + (unsigned)(i * BLOCK_BYTES);
        copy_box(to, map, step, (block + i) * HOPPER_BLOCK, matrix, full);
    }
}

/*
 * A stage of a tile of two sums, by lines of steps. The second sum's weights of term 0 are term 1's; other
 * terms are one sum's, and the other's weights are zeros.
 */
__device__ __forceinline__ static void bring_paired(const struct hopper_call &call, int t, int step,
                                                    const struct place &place, unsigned target, unsigned full)
{
    const struct hopper_term &term = call.term[t];
    int beyond = (call.columns + HOPPER_BLOCK - 1) / HOPPER_BLOCK;
    barrier_expect(full, STAGE_BYTES);
    copy_box(target, &term.x, step, place.row, full);
    target += X_BYTES;
    bring_half(call, term, step, place.expert, term.sums == SUM_SECOND ? beyond : place.block, target, full);
    target += HALF_BLOCKS * BLOCK_BYTES;
    bring_half(call, t == 0 ? call.term[1] : term, step, place.expert,
               term.sums == SUM_FIRST ? beyond : place.block, target, full);
}

/* Operands of every tile this block takes, as stages become free, and the tiles' places. */
template <bool N_INNER, bool PAIRED = false>
__device__ __forceinline__ static void bring_operands(const struct hopper_call &call,
                                                      const struct tile_table *table,
                                                      const struct pipeline &p)
{
    unsigned turn = 0; // stages so far
    int expert = 0;
    struct place place;
    unsigned tiles = 0;
    int tile = (int)atomicAdd(call.counter, 1u);
    while (find_place(call, table, tile, &expert, &place)) {
        tile = (int)atomicAdd(call.counter, 1u); // it is there when it is needed
        bool told = false;
        for (int t = 0; t < call.terms; t++) {
            const struct hopper_term &term = call.term[t];
            for (int stage = 0; stage < term.stages; stage++, turn++) {
                unsigned at = turn % STAGES;
                barrier_wait(p.empty + 8 * at, (turn / STAGES + 1) & 1);
                if (!told) p.places[tiles++ % PLACES] = place;
                told = true;
                unsigned target = p.stages + at * STAGE_BYTES;
                if constexpr (PAIRED)
                    bring_paired(call, t, stage * term.steps, place, target, p.full + 8 * at);
                else
                    bring_stage<N_INNER>(call, t, stage * term.steps, place, target, p.full + 8 * at);
            }
        }
    }
    barrier_wait(p.empty + 8 * (turn % STAGES), (turn / STAGES + 1) & 1);
    p.places[tiles % PLACES].row = -1;
    barrier_arrive(p.full + 8 * (turn % STAGES));
}

// ------------------------------------------------------------------ the way out

/* A lane's rounded sums of the tile before: of two rows, eight further on the second. */
struct waiting {
    static constexpr int early = FEW; // stages of a tile beside which the tile before is stored
    unsigned value[WIDE][2];
    __nv_bfloat16 *to; // of the first row
    int left[2];       // columns from this lane's first on; 0 or less: none
};

/* The same where stages are many: half as much is stored beside each, which masked products are better off
 * with.
 */
struct waiting_longer : waiting {
    static constexpr int early = MANY;
};

/* Piece PIECE of PIECES: 32 columns of one of the rows. All lanes call it. */
template <int PIECE> __device__ __forceinline__ static void store_piece(struct waiting &w, int64_t stride)
{
    constexpr int half = PIECE % 2;
    constexpr int j = PIECE / 2 * 4;
    unsigned v[4] = {w.value[j][half], w.value[j + 1][half], w.value[j + 2][half], w.value[j + 3][half]};
    transpose_four(v);
    if (8 * j < w.left[half])
        *reinterpret_cast<uint4 *>(w.to + half * 8 * stride + 8 * j) = make_uint4(v[0], v[1], v[2], v[3]);
}

/* Pieces [PIECE, END). */
template <int PIECE, int END>
__device__ __forceinline__ static void store_pieces(struct waiting &w, int64_t stride)
{
    if constexpr (PIECE < END) {
        store_piece<PIECE>(w, stride);
        store_pieces<PIECE + 1, END>(w, stride);
    }
}

/* What is stored beside stage STAGE of the next tile. All lanes call it. */
template <int STAGE>
__device__ __forceinline__ static void store_beside(const struct hopper_call &call, struct waiting &w)
{
    constexpr int pieces = PIECES / waiting::early;
    store_pieces<pieces * STAGE, pieces *(STAGE + 1)>(w, call.y.stride);
}

template <int STAGE>
__device__ __forceinline__ static void store_beside(const struct hopper_call &call, struct waiting_longer &w)
{
    constexpr int pieces = PIECES / waiting_longer::early;
    store_pieces<pieces * STAGE, pieces *(STAGE + 1)>(w, call.y.stride);
}

/* The same of stages [STAGE, END). */
template <int STAGE, int END, class WAITING>
__device__ __forceinline__ static void store_besides(const struct hopper_call &call, WAITING &w)
{
    if constexpr (STAGE < END) {
        store_beside<STAGE>(call, w);
        store_besides<STAGE + 1, END>(call, w);
    }
}

/* The row of y that is this lane's first, for a group's rows from `row` on. */
__device__ __forceinline__ static int own_row(int row)
{
    return row + (int)(threadIdx.x % GROUP) / 32 * 16 + cuda_lane() / 4;
}

/* Where a tile's sums will go. */
__device__ __forceinline__ static void aim(const struct hopper_call &call, const struct place &place, int row,
                                           struct waiting &w)
{
    int first = cuda_lane() % 4 * 8;
    int left = tile_columns(call, place) - first;
    int own = own_row(row);
    w.left[0] = own < place.row_end ? left : 0;
    w.left[1] = own + 8 < place.row_end ? left : 0;
    w.to =
        static_cast<__nv_bfloat16 *>(call.y.data) + own * call.y.stride + place.block * HOPPER_BLOCK + first;
}

/* What y holds there, as it lies: it may still be on its way. */
template <int FRAGMENTS> __device__ __forceinline__ static void load_old(struct waiting &w, int64_t stride)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
#pragma unroll
        for (int j = 0; j < FRAGMENTS; j += 4) {
            uint4 old = make_uint4(0, 0, 0, 0);
            if (8 * j < w.left[half])
                old = *reinterpret_cast<const uint4 *>(w.to + half * 8 * stride + 8 * j);
            w.value[j][half] = old.x;
            w.value[j + 1][half] = old.y;
            w.value[j + 2][half] = old.z;
            w.value[j + 3][half] = old.w;
        }
    }
}

/* That in the order of sums. All lanes call it. */
template <int FRAGMENTS> __device__ __forceinline__ static void turn_old(struct waiting &w)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
#pragma unroll
        for (int j = 0; j < FRAGMENTS; j += 4) {
            unsigned v[4] = {w.value[j][half], w.value[j + 1][half], w.value[j + 2][half],
                             w.value[j + 3][half]};
            transpose_four(v);
#pragma unroll
            for (int i = 0; i < 4; i++) w.value[j + i][half] = v[i];
        }
    }
}

/* Rounds a tile's sums; the tensor cores wait for it, so that a factor of 1 is left out. */
template <int FRAGMENTS>
__device__ __forceinline__ static void keep_sums(const struct tile_output &y,
                                                 const float (&sum)[FRAGMENTS][4], unsigned (&value)[WIDE][2])
{
    if (y.alpha == 1.0f) {
#pragma unroll
        for (int j = 0; j < FRAGMENTS; j++) {
            value[j][0] = pack_bf16(sum[j][0], sum[j][1]);
            value[j][1] = pack_bf16(sum[j][2], sum[j][3]);
        }
        return;
    }
#pragma unroll
    for (int j = 0; j < FRAGMENTS; j++) {
        value[j][0] = pack_bf16(y.alpha * sum[j][0], y.alpha * sum[j][1]);
        value[j][1] = pack_bf16(y.alpha * sum[j][2], y.alpha * sum[j][3]);
    }
}

/* The same, added to what was there. */
template <int FRAGMENTS>
__device__ __forceinline__ static void add_sums(const struct tile_output &y, const float (&sum)[FRAGMENTS][4],
                                                struct waiting &w)
{
#pragma unroll
    for (int j = 0; j < FRAGMENTS; j++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float low = y.beta * low_bf16(w.value[j][half]);
            float high = y.beta * high_bf16(w.value[j][half]);
            w.value[j][half] =
                pack_bf16(y.alpha * sum[j][2 * half] + low, y.alpha * sum[j][2 * half + 1] + high);
        }
    }
}

// ------------------------------------------------------------------ products

/* Operands in the first stage. */
struct operands {
    uint64_t x, weight;
};

__device__ __forceinline__ static struct operands operands_of(const struct operands &first, unsigned turn)
{
    unsigned bytes = turn % STAGES * STAGE_BYTES;
    return {operand_after(first.x, bytes), operand_after(first.weight, bytes)};
}

/*
 * COUNT times sixteen steps; by lines of steps they are 32 bytes further, by lines of columns, sixteen lines.
 * With `add` 0 they are the first of the sums.
 */
template <int FRAGMENTS, bool N_INNER, int COUNT>
__device__ __forceinline__ static void multiply_stage(float (&sum)[FRAGMENTS][4], const struct operands &o,
                                                      int add)
{
    group_pin(sum);
    group_begin();
#pragma unroll
    for (unsigned k = 0; k < COUNT; k++) {
        uint64_t weight = operand_after(o.weight, k * (N_INNER ? 16 * WGMMA_LINE * 2 : 32));
        multiply_group<N_INNER>(sum, operand_after(o.x, k * 32), weight, k == 0 ? add : 1);
    }
    group_commit();
}

/* The stage of `turn` may be overwritten, as far as this warp is concerned. */
__device__ __forceinline__ static void release(const struct pipeline &p, unsigned turn)
{
    if (cuda_lane() == 0) barrier_arrive(p.empty + 8 * (turn % STAGES));
}

__device__ __forceinline__ static void await(const struct pipeline &p, unsigned turn)
{
    barrier_wait(p.full + 8 * (turn % STAGES), turn / STAGES & 1);
}

/* A stage added to the sums; the one before it is given back. */
template <int FRAGMENTS, bool N_INNER, int COUNT>
__device__ __forceinline__ static void add_stage(float (&sum)[FRAGMENTS][4], const struct pipeline &p,
                                                 const struct operands &first, unsigned turn)
{
    await(p, turn);
    multiply_stage<FRAGMENTS, N_INNER, COUNT>(sum, operands_of(first, turn), 1);
    group_wait<1>();
    release(p, turn - 1);
}

/*
 * A tile's first stages, from STAGE on; meanwhile the tile before is stored. They begin with BEGIN: 0,
 * or INSTEAD where masked products came before.
 */
template <int STAGE, int BEGIN, int FRAGMENTS, bool N_INNER, enum way_out WAY, class WAITING>
__device__ __forceinline__ static void begin_tile(const struct hopper_call &call, const struct pipeline &p,
                                                  const struct operands &first, float (&sum)[FRAGMENTS][4],
                                                  unsigned *turn, WAITING &w)
{
    if constexpr (STAGE < WAITING::early) {
        await(p, *turn);
        multiply_stage<FRAGMENTS, N_INNER, HOPPER_STEPS / 16>(sum, operands_of(first, *turn), STAGE > 0);
        if constexpr (WAY != AT_ONCE) store_beside<STAGE>(call, w);
        group_wait<1>();
        if (STAGE > BEGIN) release(p, *turn - 1);
        ++*turn;
        begin_tile<STAGE + 1, BEGIN, FRAGMENTS, N_INNER, WAY>(call, p, first, sum, turn, w);
    }
}

// ------------------------------------------------------------------ masks

/* Four of the sixteen words that are the bits of a tile in two rows; four neighbouring lanes have them all.
 */
__device__ __forceinline__ static void load_bits(const struct hopper_call &call, const struct place &place,
                                                 int row, unsigned (&word)[4])
{
    int own = own_row(row);
    int columns = tile_columns(call, place);
    int first = cuda_lane() % 4 * 2;
    const int32_t *words = call.mask + own * call.mask_stride + place.block * HOPPER_BLOCK / 32 + first;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        bool there = own + k / 2 * 8 < place.row_end && 32 * (first + k % 2) < columns;
        word[k] = there ? (unsigned)words[k / 2 * 8 * call.mask_stride + k % 2] : 0;
    }
}

/* Each lane gets the bits of its own columns, two of eight, from all four lanes' words. */
__device__ __forceinline__ static void share_bits(unsigned (&word)[4])
{
    unsigned bits[4] = {0, 0, 0, 0};
#pragma unroll
    for (int lane = 0; lane < 4; lane++) {
#pragma unroll
        for (int k = 0; k < 4; k++) bits[lane] |= (word[k] >> 2 * lane & 0x03030303u) << 2 * k;
    }
    transpose_four(bits);
#pragma unroll
    for (int lane = 0; lane < 4; lane++) word[lane] = bits[lane];
}

/* Sums that are dropped become 0: byte b of bits[q], after that, has those of fragments 8q + b and 8q + b
 * + 4. */
template <int FRAGMENTS>
__device__ __forceinline__ static void keep_masked(float (&sum)[FRAGMENTS][4], const unsigned (&bits)[4])
{
#pragma unroll
    for (int byte = 0; byte < FRAGMENTS / 2; byte++) {
        unsigned kept = bits[byte / 4] >> byte % 4 * 8;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float &one = sum[byte / 4 * 8 + byte % 4 + i / 2 % 2 * 4][i / 4 * 2 + i % 2];
            one = (kept & 1u << i) != 0 ? one : 0.0f;
        }
    }
}

/* A stage of masked terms; with `add` 0 the tile's first. */
template <int FRAGMENTS, bool N_INNER>
__device__ __forceinline__ static void multiply_masked(float (&sum)[FRAGMENTS][4], const struct pipeline &p,
                                                       const struct operands &first, unsigned turn, int steps,
                                                       int add)
{
    await(p, turn);
    const struct operands o = operands_of(first, turn);
    multiply_stage<FRAGMENTS, N_INNER, HOPPER_SHORT / 16>(sum, o, add);
    if (steps > HOPPER_SHORT) {
        const struct operands rest = {operand_after(o.x, 64),
                                      operand_after(o.weight, N_INNER ? HOPPER_SHORT * WGMMA_LINE * 2 : 64)};
        multiply_stage<FRAGMENTS, N_INNER, HOPPER_SHORT / 16>(sum, rest, 1);
    }
}

/* The masked terms' products become the tile's first sums; meanwhile a part of the tile before is stored. */
template <int FRAGMENTS, bool N_INNER, enum way_out WAY, class WAITING>
__device__ __forceinline__ static void begin_masked(const struct hopper_call &call, const struct pipeline &p,
                                                    const struct operands &first, const struct place &place,
                                                    int row, float (&sum)[FRAGMENTS][4], unsigned *turn,
                                                    WAITING &w)
{
    unsigned bits[4];
    unsigned begin = *turn;
    unsigned end = begin + (unsigned)call.masked_stages;
    load_bits(call, place, row, bits);
    multiply_masked<FRAGMENTS, N_INNER>(sum, p, first, begin, call.masked_steps, 0);
#pragma unroll 1
    for (++*turn; *turn < end; ++*turn)
        multiply_masked<FRAGMENTS, N_INNER>(sum, p, first, *turn, call.masked_steps, 1);
    if constexpr (WAY != AT_ONCE) store_besides<0, INSTEAD>(call, w);
    share_bits(bits);
    group_wait<0>();
    group_pin(sum);
#pragma unroll 1
    for (unsigned done = begin; done < end; done++) release(p, done);
    keep_masked<FRAGMENTS>(sum, bits);
}

// ------------------------------------------------------------------ tiles of one group

/* A tile's products up to the long ones; the last may not be over. The tile before is stored. */
template <int FRAGMENTS, bool N_INNER, bool MASKED, enum way_out WAY, class WAITING>
__device__ __forceinline__ static void add_long(const struct hopper_call &call, const struct pipeline &p,
                                                const struct operands &first, const struct place &place,
                                                int row, float (&sum)[FRAGMENTS][4], unsigned *turn,
                                                WAITING &w)
{
    unsigned end = *turn + (unsigned)(call.masked_stages + call.long_stages);
    if constexpr (WAY != AT_ONCE) {
        if (call.long_stages < WAITING::early) { // too few to store beside
            store_besides<0, WAITING::early>(call, w);
            w.left[0] = 0;
            w.left[1] = 0;
        }
    }
    if constexpr (MASKED) begin_masked<FRAGMENTS, N_INNER, WAY>(call, p, first, place, row, sum, turn, w);
    if (call.long_stages < WAITING::early) {
        await(p, *turn);
        multiply_stage<FRAGMENTS, N_INNER, HOPPER_STEPS / 16>(sum, operands_of(first, *turn), MASKED);
        ++*turn;
    } else {
        constexpr int begin = MASKED ? INSTEAD : 0;
        begin_tile<begin, begin, FRAGMENTS, N_INNER, WAY>(call, p, first, sum, turn, w);
    }
#pragma unroll(WAY == LATER && !MASKED ? 4 : 1)
    for (; *turn < end; ++*turn) add_stage<FRAGMENTS, N_INNER, HOPPER_STEPS / 16>(sum, p, first, *turn);
}

/* Stages of a tile in which this group has no rows. */
__device__ __forceinline__ static void pass_tile(const struct hopper_call &call, const struct pipeline &p,
                                                 unsigned *turn)
{
    unsigned end = *turn + (unsigned)(call.masked_stages + call.long_stages + call.thin_stages);
    for (; *turn < end; ++*turn) {
        await(p, *turn);
        release(p, *turn);
    }
}

/* Operands in the first stage of one of the groups. */
template <bool N_INNER>
__device__ __forceinline__ static struct operands group_operands(const struct pipeline &p, int group)
{
    unsigned rows = (unsigned)(group * 64 * HOPPER_STEPS * 2);
    return {operand_at(p.stages + rows, 0), operand_at(p.stages + X_BYTES, N_INNER ? BLOCK_BYTES : 0)};
}

// ------------------------------------------------------------------ a block

/* In shared memory beside the stages. */
struct block_state {
    uint64_t full[STAGES];
    uint64_t empty[STAGES];
    struct place places[PLACES];
    struct tile_table table;
};

/* Makes the tables and barriers of a block; `memory` has STAGES stages and room to align them. */
__device__ __forceinline__ static struct pipeline begin_block(const struct hopper_call &call,
                                                              const unsigned char *memory,
                                                              struct block_state *state)
{
    unsigned aligned = (shared_address(memory) + WGMMA_PATTERN - 1) / WGMMA_PATTERN * WGMMA_PATTERN;
    if (threadIdx.x < 32) make_table(call, &state->table);
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            barrier_init(&state->full[i], 1);
            barrier_init(&state->empty[i], GROUPS * GROUP / 32);
        }
        barrier_publish();
    }
    __syncthreads();
    asm volatile("griddepcontrol.wait;" ::: "memory"); // for prepared weights
    return {aligned, shared_address(state->full), shared_address(state->empty), state->places};
}

/* Registers go to those who hold sums. */
__device__ __forceinline__ static void give_registers(void)
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
}

__device__ __forceinline__ static void take_registers(void)
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
}

#endif

// ------------------------------------------------------------------ launch

/*
 * A block per multiprocessor; one that follows what prepares weights starts beside it. There are `more` bytes
 * of shared memory behind the stages.
 */
static inline enum mt_status launch_tiles(struct mt_device *device, void (*kernel)(struct hopper_call),
                                          const struct hopper_call *call, size_t more = 0)
{
    const size_t bytes = STAGES * STAGE_BYTES + WGMMA_PATTERN + more;
    enum mt_status status = cuda_allow_shared(device, reinterpret_cast<const void *>(kernel), bytes,
                                              "shared memory for the experts' products");
    if (status != MT_OK) return status;
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)cuda_state_of(device)->multiprocessors);
    config.blockDim = dim3((1 + GROUPS) * GROUP);
    config.dynamicSmemBytes = bytes;
    config.stream = cuda_stream(device);
    config.attrs = &early;
    config.numAttrs = call->follows ? 1 : 0;
    cudaError_t error = cudaLaunchKernelEx(&config, kernel, *call);
    return cuda_status(device, error, "products over rows sorted by expert");
}

#endif
