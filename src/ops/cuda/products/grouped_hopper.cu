/*
 * Sums of products over rows sorted by expert, in bf16 by Hopper's own instructions, in one launch: a block
 * per multiprocessor takes tile after tile, [128,256] of y or [128,192]. One of its threads asks the copy
 * engine for the operands, STAGES stages ahead; two groups of four warps multiply, 64 rows each. Which rows
 * are whose is read on the device, so that nobody waits for the host. Tiles are handed out in order, so that
 * the blocks work side by side on few weights and rows, which stay in the cache, and end together.
 *
 * Products under a mask come first in a tile: they are its first sums, and what the mask drops becomes zero
 * before the others are added by the tensor cores.
 *
 * A tile's sums are rounded to bf16 in registers and stored while the next tile's products run: the tensor
 * cores wait for the rounding alone. What y held, if it is added to, is read beside the tile's last products.
 * Where y is not bf16 or not aligned, sums are stored at once.
 *
 * Loops whose length the compiler does not know stay loops where unrolled ones took registers sums need.
 */
#include <type_traits>

#include "ops/cuda/products/grouped_hopper_tile.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* 64 rows of a tile from `row` on, by one group. */
template <int FRAGMENTS, bool N_INNER, bool MASKED, enum way_out WAY, class WAITING>
__device__ __forceinline__ static void make_tile(const struct hopper_call &call, const struct pipeline &p,
                                                 const struct operands &first, const struct place &place,
                                                 int row, unsigned *turn, WAITING &w)
{
    float sum[FRAGMENTS][4];
    add_long<FRAGMENTS, N_INNER, MASKED, WAY>(call, p, first, place, row, sum, turn, w);
    if constexpr (WAY != AT_ONCE) aim(call, place, row, w);
    if constexpr (WAY == LATER_ADDED) load_old<FRAGMENTS>(w, call.y.stride);
    unsigned end = *turn + (unsigned)call.thin_stages;
#pragma unroll 1
    for (; *turn < end; ++*turn) add_stage<FRAGMENTS, N_INNER, HOPPER_SHORT / 16>(sum, p, first, *turn);
    if constexpr (WAY == LATER_ADDED) turn_old<FRAGMENTS>(w);
    group_wait<0>();
    group_pin(sum);
    release(p, *turn - 1);
    if constexpr (WAY == LATER_ADDED) {
        add_sums<FRAGMENTS>(call.y, sum, w);
    } else if constexpr (WAY == LATER) {
        keep_sums<FRAGMENTS>(call.y, sum, w.value);
    } else {
        int column = place.block * HOPPER_BLOCK;
        store_sums<FRAGMENTS>(call.y, sum, row + (int)(threadIdx.x % GROUP) / 32 * 16, place.row_end, column,
                              column + tile_columns(call, place));
    }
}

template <bool N_INNER, bool MASKED, enum way_out WAY, class WAITING>
__device__ __forceinline__ static void make_tiles(const struct hopper_call &call, const struct pipeline &p,
                                                  int group)
{
    unsigned turn = 0;
    WAITING w;
    w.left[0] = 0;
    w.left[1] = 0;
    const struct operands first = group_operands<N_INNER>(p, group);
    for (unsigned tiles = 0;; tiles++) {
        await(p, turn); // with the first stage comes the place
        const struct place &place = p.places[tiles % PLACES];
        int row = place.row + group * 64;
        if (place.row < 0) break;
        if (row >= place.row_end) {
            pass_tile(call, p, &turn);
        } else if (WAY == AT_ONCE || place.blocks == 4) {
            make_tile<WIDE, N_INNER, MASKED, WAY>(call, p, first, place, row, &turn, w);
        } else {
            make_tile<NARROW, N_INNER, MASKED, WAY>(call, p, first, place, row, &turn, w);
        }
    }
    if (WAY != AT_ONCE) store_besides<0, WAITING::early>(call, w);
}

#endif

/* N_INNER: weights are [K,N]; else [N,K]. LONGER: there are MANY stages to store beside. */
template <bool N_INNER, bool MASKED, enum way_out WAY, bool LONGER = false>
__global__ static void __launch_bounds__((1 + GROUPS) * GROUP, 1)
    hopper_kernel(const __grid_constant__ struct hopper_call call)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ unsigned char memory[];
    __shared__ struct block_state state;
    struct pipeline p = begin_block(call, memory, &state);
    if (threadIdx.x < GROUP) {
        give_registers();
        if (threadIdx.x == 0) bring_operands<N_INNER>(call, &state.table, p);
    } else {
        take_registers();
        using waits = std::conditional_t<LONGER, struct waiting_longer, struct waiting>;
        make_tiles<N_INNER, MASKED, WAY, waits>(call, p, (int)threadIdx.x / GROUP - 1);
    }
#endif
}

// ------------------------------------------------------------------ launch

template <bool N_INNER, bool MASKED>
static enum mt_status launch(struct mt_device *device, const struct hopper_call *call)
{
    bool later = call->y.bf16 && call->y.aligned && call->columns % 8 == 0;
    if (!later) return launch_tiles(device, hopper_kernel<N_INNER, MASKED, AT_ONCE>, call);
    if (call->y.beta != 0.0f) return launch_tiles(device, hopper_kernel<N_INNER, MASKED, LATER_ADDED>, call);
    if (MASKED && call->long_stages >= MANY)
        return launch_tiles(device, hopper_kernel<N_INNER, MASKED, LATER, MASKED>, call);
    return launch_tiles(device, hopper_kernel<N_INNER, MASKED, LATER>, call);
}

enum mt_status cuda_hopper_launch(struct mt_device *device, bool n_inner, const struct hopper_call *call)
{
    if (call->masked_stages > 0) return launch<true, true>(device, call);
    return n_inner ? launch<true, false>(device, call) : launch<false, false>(device, call);
}
