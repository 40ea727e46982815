/*
 * Back through down and swiglu in one launch: the products of grouped_hopper.cu, whose sums, the gradient of
 * what down read, never reach memory. Rounded to bf16 they go to shared memory, and while the next tile's
 * products run, a group of warps of its own meets them with gate and up and stores gradients of the two and
 * what down read. The groups that multiply have no time for that: what they do besides, the tensor cores wait
 * for.
 *
 * Weights are [K,N]. Matrices have one stride, so that a single number says where a lane is in all of them.
 */
#define STAGES 3 // the sums need the memory of a fourth

#include "ops/cuda/elementwise/swiglu.cuh"
#include "ops/cuda/products/grouped_hopper_tile.cuh"

#define EIGHT     8                           // elements that a lane loads and stores at once
#define ROW_BYTES (HOPPER_BLOCK * 4 * 2 + 16) // of rounded sums: neighbouring rows begin in other banks
#define SUM_BYTES (HOPPER_ROWS * ROW_BYTES)
#define FINISHERS (GROUP - 32) // threads: a group without the warp that brings operands
#define BATCH     6            // eights of gate and up that a lane asks for at once

/* Where a call's matrices stand beside y. */
enum beside { GATE, UP, DGATE, DUP };

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* A tile's rounded sums on their way from those who multiply: addresses in shared memory. */
struct handover {
    unsigned sums;        // [HOPPER_ROWS,256] in rows of ROW_BYTES
    unsigned full, empty; // barriers of all threads: a tile's sums are there, and were read
};

// ------------------------------------------------------------------ those who multiply

__device__ __forceinline__ static void put_word(unsigned to, unsigned word)
{
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(word) : "memory");
}

/* A group's sums of a tile. */
template <int FRAGMENTS>
__device__ __forceinline__ static void put_sums(const struct tile_output &y, const float (&sum)[FRAGMENTS][4],
                                                unsigned to)
{
#pragma unroll
    for (int j = 0; j < FRAGMENTS; j++) {
        unsigned at = to + (unsigned)(j * EIGHT * 2);
        put_word(at, pack_bf16(y.alpha * sum[j][0], y.alpha * sum[j][1]));
        put_word(at + 8 * ROW_BYTES, pack_bf16(y.alpha * sum[j][2], y.alpha * sum[j][3]));
    }
}

/* 64 rows of a tile from `row` on, by one group. */
template <int FRAGMENTS, bool MASKED>
__device__ __forceinline__ static void make_tile(const struct hopper_call &call, const struct pipeline &p,
                                                 const struct operands &first, const struct place &place,
                                                 int row, unsigned *turn, const struct handover &h,
                                                 unsigned tiles)
{
    float sum[FRAGMENTS][4];
    struct waiting none; // sums leave at once
    add_long<FRAGMENTS, true, MASKED, AT_ONCE>(call, p, first, place, row, sum, turn, none);
    unsigned end = *turn + (unsigned)call.thin_stages;
#pragma unroll 1
    for (; *turn < end; ++*turn) add_stage<FRAGMENTS, true, HOPPER_SHORT / 16>(sum, p, first, *turn);
    group_wait<0>();
    group_pin(sum);
    release(p, *turn - 1);
    barrier_wait(h.empty, (tiles + 1) & 1);
    int own = own_row(row) - place.row;
    put_sums<FRAGMENTS>(call.y, sum, h.sums + (unsigned)(own * ROW_BYTES + cuda_lane() % 4 * 4));
}

template <bool MASKED>
__device__ __forceinline__ static void make_tiles(const struct hopper_call &call, const struct pipeline &p,
                                                  const struct handover &h, int group)
{
    unsigned turn = 0;
    const struct operands first = group_operands<true>(p, group);
    for (unsigned tiles = 0;; tiles++) {
        await(p, turn); // with the first stage comes the place
        const struct place &place = p.places[tiles % PLACES];
        int row = place.row + group * 64;
        bool last = place.row < 0;
        if (last || row >= place.row_end) {
            if (!last) pass_tile(call, p, &turn);
            barrier_wait(h.empty, (tiles + 1) & 1);
        } else if (place.blocks == 4) {
            make_tile<WIDE, MASKED>(call, p, first, place, row, &turn, h, tiles);
        } else {
            make_tile<NARROW, MASKED>(call, p, first, place, row, &turn, h, tiles);
        }
        barrier_arrive(h.full);
        if (last) break;
    }
}

// ------------------------------------------------------------------ those who finish

__device__ __forceinline__ static uint4 get_eight(unsigned from)
{
    uint4 eight;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(eight.x), "=r"(eight.y), "=r"(eight.z), "=r"(eight.w)
                 : "r"(from)
                 : "memory");
    return eight;
}

/* Of two elements: what down read in place of its gradient, gradients in place of gate and up. */
__device__ __forceinline__ static void turn_two(unsigned &d, unsigned &gate, unsigned &up)
{
    float d_low = low_bf16(d);
    float gate_low = low_bf16(gate);
    float up_low = low_bf16(up);
    swiglu_gradient(&d_low, &gate_low, &up_low);
    float d_high = high_bf16(d);
    float gate_high = high_bf16(gate);
    float up_high = high_bf16(up);
    swiglu_gradient(&d_high, &gate_high, &up_high);
    d = pack_bf16(d_low, d_high);
    gate = pack_bf16(gate_low, gate_high);
    up = pack_bf16(up_low, up_high);
}

/* What becomes of eight sums of a row. */
__device__ __forceinline__ static void finish_eight(const struct hopper_call &call, uint4 d, uint4 gate,
                                                    uint4 up, int at)
{
    turn_two(d.x, gate.x, up.x);
    turn_two(d.y, gate.y, up.y);
    turn_two(d.z, gate.z, up.z);
    turn_two(d.w, gate.w, up.w);
    reinterpret_cast<uint4 *>(call.beside[DGATE].data)[at] = gate;
    reinterpret_cast<uint4 *>(call.beside[DUP].data)[at] = up;
    static_cast<uint4 *>(call.y.data)[at] = d;
}

/* What a lane finishes of a tile: the same eight columns of every `step`th row. */
struct share {
    unsigned from; // of the next row's sums
    int at;        // of the next row, in all matrices, in eights
    int rows;      // left, from the next one on
    int step;
};

__device__ __forceinline__ static struct share share_of(const struct hopper_call &call,
                                                        const struct place &place, const struct handover &h)
{
    int lane = (int)threadIdx.x % GROUP - 32;
    int eights = place.blocks * (HOPPER_BLOCK / EIGHT); // a divisor of FINISHERS
    int row = lane / eights;
    int eight = lane % eights;
    int rows = place.row_end - place.row < HOPPER_ROWS ? place.row_end - place.row : HOPPER_ROWS;
    struct share share;
    share.from = h.sums + (unsigned)(row * ROW_BYTES + eight * EIGHT * 2);
    share.at =
        (place.row + row) * (int)(call.y.stride / EIGHT) + place.block * (HOPPER_BLOCK / EIGHT) + eight;
    share.rows = eight * EIGHT < tile_columns(call, place) ? rows - row : 0;
    share.step = FINISHERS / eights;
    return share;
}

/* BATCH rows of a share. */
__device__ __forceinline__ static void finish_batch(const struct hopper_call &call, struct share &share)
{
    uint4 gate[BATCH];
    uint4 up[BATCH];
    int down = share.step * (int)(call.y.stride / EIGHT);
#pragma unroll
    for (int i = 0; i < BATCH; i++) {
        if (i * share.step >= share.rows) continue;
        gate[i] = reinterpret_cast<const uint4 *>(call.beside[GATE].data)[share.at + i * down];
        up[i] = reinterpret_cast<const uint4 *>(call.beside[UP].data)[share.at + i * down];
    }
#pragma unroll
    for (int i = 0; i < BATCH; i++) {
        if (share.rows <= 0) continue;
        finish_eight(call, get_eight(share.from), gate[i], up[i], share.at);
        share.from += (unsigned)(share.step * ROW_BYTES);
        share.at += down;
        share.rows -= share.step;
    }
}

__device__ __forceinline__ static void finish_tiles(const struct hopper_call &call, const struct pipeline &p,
                                                    const struct handover &h)
{
    for (unsigned tiles = 0;; tiles++) {
        barrier_wait(h.full, tiles & 1);
        const struct place &place = p.places[tiles % PLACES];
        if (place.row < 0) break;
        struct share share = share_of(call, place, h);
#pragma unroll 1
        while (share.rows > 0) finish_batch(call, share);
        barrier_arrive(h.empty);
    }
}

#endif

template <bool MASKED>
__global__ static void __launch_bounds__((1 + GROUPS) * GROUP, 1)
    swiglu_backward_kernel(const __grid_constant__ struct hopper_call call)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ unsigned char memory[];
    __shared__ struct block_state state;
    __shared__ uint64_t full;
    __shared__ uint64_t empty;
    if (threadIdx.x == 0) {
        barrier_init(&full, GROUPS * GROUP);
        barrier_init(&empty, FINISHERS);
    }
    struct pipeline p = begin_block(call, memory, &state);
    struct handover h = {p.stages + STAGES * STAGE_BYTES, shared_address(&full), shared_address(&empty)};
    // Registers go to those who hold sums, and some to those who finish.
    if (threadIdx.x < GROUP) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 128;");
        if (threadIdx.x == 0) bring_operands<true>(call, &state.table, p);
        if (threadIdx.x >= 32) finish_tiles(call, p, h);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 184;");
        make_tiles<MASKED>(call, p, h, (int)threadIdx.x / GROUP - 1);
    }
#endif
}

// ------------------------------------------------------------------ launch

static enum mt_status launch(struct mt_device *device, bool n_inner, const struct hopper_call *call)
{
    (void)n_inner; // see what fits
    return call->masked_stages > 0 ? launch_tiles(device, swiglu_backward_kernel<true>, call, SUM_BYTES)
                                   : launch_tiles(device, swiglu_backward_kernel<false>, call, SUM_BYTES);
}

static bool fits(const struct mt_device *device, const struct mt_grouped_swiglu_backward_args *a)
{
    const struct mt_grouped_sum_args *sum = &a->sum;
    const struct mt_tensor *const matrices[] = {&sum->y, &a->gate, &a->up, &a->dgate, &a->dup};
    if (!cuda_hopper_sum.fits(device, sum) || cuda_hopper_masks(sum) > 1) return false;
    for (const struct mt_tensor *matrix : matrices) {
        if (!cuda_hopper_is_matrix(matrix) || matrix->stride[0] != sum->y.stride[0]) return false;
    }
    return !sum->terms[0].transpose_weight && sum->y.dim[0] * (sum->y.stride[0] / EIGHT) <= INT32_MAX;
}

static size_t scratch_bytes(const struct mt_device *device, const struct mt_grouped_swiglu_backward_args *a)
{
    return cuda_hopper_sum.bytes(device, &a->sum);
}

static enum mt_status run(struct mt_device *device, const struct mt_grouped_swiglu_backward_args *a,
                          void *scratch)
{
    struct hopper_matrix beside[HOPPER_BESIDE];
    if (mt_tensor_count(&a->sum.y) == 0) return MT_OK;
    beside[GATE] = cuda_hopper_matrix(&a->gate);
    beside[UP] = cuda_hopper_matrix(&a->up);
    beside[DGATE] = cuda_hopper_matrix(&a->dgate);
    beside[DUP] = cuda_hopper_matrix(&a->dup);
    return cuda_hopper_sum_by(device, &a->sum, beside, launch, scratch);
}

const struct cuda_variant<struct mt_grouped_swiglu_backward_args> cuda_hopper_swiglu_backward = {
    fits, scratch_bytes, run
};
