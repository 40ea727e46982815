/*
 * Back through down and swiglu in one launch: the products of grouped_hopper.cu, whose sums, the gradient of
 * what down read, never reach memory. Rounded to bf16 they wait in registers for the next tile; beside each
 * of its first stages a piece of them meets gate and up, which were asked for a stage earlier, and becomes
 * gradients of the two and what down read.
 *
 * Matrices have one stride, so that a single number says where a lane is in all of them: registers are few.
 */
#include "ops/cuda/grouped_hopper_tile.cuh"
#include "ops/cuda/swiglu.cuh"

#define EIGHT 8 // elements that a lane loads and stores at once
#define TAIL  8 // pieces of the last tile that are loaded at once

/* Where a call's matrices stand beside y. */
enum beside { GATE, UP, DGATE, DUP };

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// ------------------------------------------------------------------ the way out

/* A lane's rounded sums of the tile before: of two rows, eight further on the second. */
struct pending {
    unsigned value[WIDE][2];
    int at;      // of the first row and column, in eights
    int left[2]; // columns from this lane's first on; 0 or less: none
};

/* Gate and up of a piece, as they lie; later their gradients. */
struct gate_up {
    uint4 gate, up;
};

__device__ __forceinline__ static uint4 *eights_of(__nv_bfloat16 *data)
{
    return reinterpret_cast<uint4 *>(data);
}

/* The place of piece PIECE of PIECES: 32 columns of one of the rows. */
template <int PIECE>
__device__ __forceinline__ static int piece_at(const struct hopper_call &call, const struct pending &w)
{
    return w.at + PIECE % 2 * 8 * (int)(call.y.stride / EIGHT) + PIECE / 2 * 4;
}

template <int PIECE> __device__ __forceinline__ static bool has_piece(const struct pending &w)
{
    return PIECE / 2 * 32 < w.left[PIECE % 2];
}

/* Asks for gate and up: they may still be on their way. */
template <int PIECE>
__device__ __forceinline__ static void load_piece(const struct hopper_call &call, const struct pending &w,
                                                  struct gate_up &piece)
{
    if (has_piece<PIECE>(w)) {
        int at = piece_at<PIECE>(call, w);
        piece.gate = eights_of(call.beside[GATE].data)[at];
        piece.up = eights_of(call.beside[UP].data)[at];
    }
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

/* Stores what becomes of a piece whose gate and up are there. All lanes call it. */
template <int PIECE>
__device__ __forceinline__ static void store_piece(const struct hopper_call &call, const struct pending &w,
                                                   struct gate_up &piece)
{
    constexpr int half = PIECE % 2;
    constexpr int j = PIECE / 2 * 4;
    unsigned d[4] = {w.value[j][half], w.value[j + 1][half], w.value[j + 2][half], w.value[j + 3][half]};
    transpose_four(d);
    if (has_piece<PIECE>(w)) {
        int at = piece_at<PIECE>(call, w);
        turn_two(d[0], piece.gate.x, piece.up.x);
        turn_two(d[1], piece.gate.y, piece.up.y);
        turn_two(d[2], piece.gate.z, piece.up.z);
        turn_two(d[3], piece.gate.w, piece.up.w);
        eights_of(call.beside[DGATE].data)[at] = piece.gate;
        eights_of(call.beside[DUP].data)[at] = piece.up;
        static_cast<uint4 *>(call.y.data)[at] = make_uint4(d[0], d[1], d[2], d[3]);
    }
}

/* Pieces [PIECE, END) of the last tile, loaded before the first of them is needed. */
template <int PIECE, int END>
__device__ __forceinline__ static void load_pieces(const struct hopper_call &call, const struct pending &w,
                                                   struct gate_up (&piece)[TAIL])
{
    if constexpr (PIECE < END) {
        load_piece<PIECE>(call, w, piece[PIECE % TAIL]);
        load_pieces<PIECE + 1, END>(call, w, piece);
    }
}

template <int PIECE, int END>
__device__ __forceinline__ static void store_pieces(const struct hopper_call &call, const struct pending &w,
                                                    struct gate_up (&piece)[TAIL])
{
    if constexpr (PIECE < END) {
        store_piece<PIECE>(call, w, piece[PIECE % TAIL]);
        store_pieces<PIECE + 1, END>(call, w, piece);
    }
}

/* The last tile, beside which nothing runs. */
__device__ __forceinline__ static void store_last(const struct hopper_call &call, const struct pending &w)
{
    struct gate_up piece[TAIL];
    load_pieces<0, TAIL>(call, w, piece);
    store_pieces<0, TAIL>(call, w, piece);
    load_pieces<TAIL, PIECES>(call, w, piece);
    store_pieces<TAIL, PIECES>(call, w, piece);
}

template <int FRAGMENTS>
__device__ __forceinline__ static void keep_sums(const struct tile_output &y,
                                                 const float (&sum)[FRAGMENTS][4], struct pending &w)
{
#pragma unroll
    for (int j = 0; j < FRAGMENTS; j++) {
        w.value[j][0] = pack_bf16(y.alpha * sum[j][0], y.alpha * sum[j][1]);
        w.value[j][1] = pack_bf16(y.alpha * sum[j][2], y.alpha * sum[j][3]);
    }
}

/* Where what becomes of a tile's sums will go. */
__device__ __forceinline__ static void aim(const struct hopper_call &call, const struct place &place, int row,
                                           struct pending &w)
{
    int lane = cuda_lane() % 4;
    int left = tile_columns(call, place) - lane * EIGHT;
    int own = own_row(row);
    w.left[0] = own < place.row_end ? left : 0;
    w.left[1] = own + 8 < place.row_end ? left : 0;
    w.at = own * (int)(call.y.stride / EIGHT) + place.block * (HOPPER_BLOCK / EIGHT) + lane;
}

// ------------------------------------------------------------------ tiles of one group

/* A tile's first PIECES long stages, from STAGE on; beside each a piece of the tile before is stored, and the
 * next one asked for. */
template <int STAGE, int FRAGMENTS, bool N_INNER, bool MASKED>
__device__ __forceinline__ static void store_beside(const struct hopper_call &call, const struct pipeline &p,
                                                    const struct operands &first, float (&sum)[FRAGMENTS][4],
                                                    unsigned *turn, const struct pending &w,
                                                    struct gate_up &piece)
{
    if constexpr (STAGE < PIECES) {
        await(p, *turn);
        multiply_stage<FRAGMENTS, N_INNER, HOPPER_STEPS / 16>(sum, operands_of(first, *turn),
                                                              MASKED || STAGE > 0);
        store_piece<STAGE>(call, w, piece);
        if constexpr (STAGE + 1 < PIECES) load_piece<STAGE + 1>(call, w, piece);
        group_wait<1>();
        if (STAGE > 0) release(p, *turn - 1);
        ++*turn;
        store_beside<STAGE + 1, FRAGMENTS, N_INNER, MASKED>(call, p, first, sum, turn, w, piece);
    }
}

/* 64 rows of a tile from `row` on, by one group. */
template <int FRAGMENTS, bool N_INNER, bool MASKED>
__device__ __forceinline__ static void make_tile(const struct hopper_call &call, const struct pipeline &p,
                                                 const struct operands &first, const struct place &place,
                                                 int row, unsigned *turn, struct pending &w)
{
    float sum[FRAGMENTS][4];
    struct gate_up piece;
    unsigned end = *turn + (unsigned)(call.masked_stages + call.long_stages);
    load_piece<0>(call, w, piece);
    if constexpr (MASKED) begin_masked<FRAGMENTS, N_INNER, AT_ONCE>(call, p, first, place, row, sum, turn, w);
    store_beside<0, FRAGMENTS, N_INNER, MASKED>(call, p, first, sum, turn, w, piece);
#pragma unroll 1
    for (; *turn < end; ++*turn) add_stage<FRAGMENTS, N_INNER, HOPPER_STEPS / 16>(sum, p, first, *turn);
    aim(call, place, row, w);
    end = *turn + (unsigned)call.thin_stages;
#pragma unroll 1
    for (; *turn < end; ++*turn) add_stage<FRAGMENTS, N_INNER, HOPPER_SHORT / 16>(sum, p, first, *turn);
    group_wait<0>();
    group_pin(sum);
    release(p, *turn - 1);
    keep_sums<FRAGMENTS>(call.y, sum, w);
}

template <bool N_INNER, bool MASKED>
__device__ __forceinline__ static void make_tiles(const struct hopper_call &call, const struct pipeline &p,
                                                  int group)
{
    unsigned turn = 0;
    struct pending w;
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
        } else if (place.blocks == 4) {
            make_tile<WIDE, N_INNER, MASKED>(call, p, first, place, row, &turn, w);
        } else {
            make_tile<NARROW, N_INNER, MASKED>(call, p, first, place, row, &turn, w);
        }
    }
    store_last(call, w);
}

#endif

/* N_INNER: weights are [K,N]; else [N,K]. */
template <bool N_INNER, bool MASKED>
__global__ static void __launch_bounds__((1 + GROUPS) * GROUP, 1)
    swiglu_backward_kernel(const __grid_constant__ struct hopper_call call)
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
        make_tiles<N_INNER, MASKED>(call, p, (int)threadIdx.x / GROUP - 1);
    }
#endif
}

// ------------------------------------------------------------------ launch

static enum mt_status launch(struct mt_device *device, bool n_inner, const struct hopper_call *call)
{
    (void)n_inner; // see what fits
    return call->masked_stages > 0 ? launch_tiles(device, swiglu_backward_kernel<true, true>, call)
                                   : launch_tiles(device, swiglu_backward_kernel<true, false>, call);
}

bool cuda_hopper_swiglu_backward_fits(const struct mt_device *device,
                                      const struct mt_grouped_swiglu_backward_args *a)
{
    const struct mt_grouped_sum_args *sum = &a->sum;
    const struct mt_tensor *const matrices[] = {&sum->y, &a->gate, &a->up, &a->dgate, &a->dup};
    if (!cuda_hopper_sum_fits(device, sum) || cuda_hopper_masks(sum) > 1) return false;
    for (const struct mt_tensor *matrix : matrices) {
        if (!cuda_hopper_is_matrix(matrix) || matrix->stride[0] != sum->y.stride[0]) return false;
    }
    bool long_enough = sum->terms[0].x.dim[1] > (PIECES - 1) * HOPPER_STEPS; // a stage for every piece
    return long_enough && !sum->terms[0].transpose_weight &&
           sum->y.dim[0] * (sum->y.stride[0] / EIGHT) <= INT32_MAX;
}

size_t cuda_hopper_swiglu_backward_bytes(const struct mt_grouped_swiglu_backward_args *a)
{
    return cuda_hopper_sum_bytes(&a->sum);
}

enum mt_status cuda_hopper_swiglu_backward(struct mt_device *device,
                                           const struct mt_grouped_swiglu_backward_args *a, void *scratch)
{
    struct hopper_matrix beside[HOPPER_BESIDE];
    if (mt_tensor_count(&a->sum.y) == 0) return MT_OK;
    beside[GATE] = cuda_hopper_matrix(&a->gate);
    beside[UP] = cuda_hopper_matrix(&a->up);
    beside[DGATE] = cuda_hopper_matrix(&a->dgate);
    beside[DUP] = cuda_hopper_matrix(&a->dup);
    return cuda_hopper_sum_by(device, &a->sum, beside, launch, scratch);
}
