/*
 * gate and up of a SwiGLU block and silu(gate) · up in one launch, by Hopper's own instructions. It works as
 * grouped_hopper.cu does, but a tile is 128 columns of gate and the same of up: of a stage's four boxes of
 * weights the first two are gate's, the last two up's, so that a product of 256 columns makes both of the
 * same rows. In a thin term's stage, which is for one of them, the other's weights are zeros: products of
 * another shape on a part of the sums would have to wait for those before.
 *
 * Both are rounded to bf16 in registers as a tile ends. While the next tile's products run they are stored,
 * and with them silu(gate) · up, made there and then of what was rounded.
 */
#include "ops/cuda/elementwise/swiglu.cuh"
#include "ops/cuda/products/grouped_hopper_tile.cuh"

// Terms of the sum both are to Hopper's host code. The long ones go together; thin ones may be absent.
enum { GATE, UP, THIN_GATE, THIN_UP };

// Matrices beside y, which is gate; all of one stride.
enum { BESIDE_UP, BESIDE_PRODUCT };

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// ------------------------------------------------------------------ the way out

/* A lane's rounded sums of the tile before: of two rows, eight further on the second. */
struct waiting_pair {
    static constexpr int early = MANY; // stages of a tile beside which the tile before is stored
    unsigned value[WIDE][2];           // gate's, then up's
    int64_t at;                        // the first row's place in each of the matrices
    int left[2];                       // columns from this lane's first on; 0 or less: none
};

__device__ __forceinline__ static void store_eight(void *matrix, int64_t at, const unsigned (&v)[4])
{
    *reinterpret_cast<uint4 *>(static_cast<__nv_bfloat16 *>(matrix) + at) =
        make_uint4(v[0], v[1], v[2], v[3]);
}

/*
 * Beside an even stage 32 columns of one of the rows of gate and up are stored, beside the next one what
 * comes of them, so that neither makes the tensor cores wait. All lanes call it.
 */
template <int STAGE>
__device__ __forceinline__ static void store_beside(const struct hopper_call &call, struct waiting_pair &w)
{
    static_assert(waiting_pair::early == 2 * 2 * HALF / 4, "every piece has its stages");
    constexpr int half = STAGE / 2 % 2;
    constexpr int j = STAGE / 4 * 4;
    int64_t at = w.at + half * 8 * call.y.stride + 8 * j;
    bool there = 8 * j < w.left[half];
    unsigned gate[4];
    unsigned up[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        gate[i] = w.value[j + i][half];
        up[i] = w.value[HALF + j + i][half];
    }
    if constexpr (STAGE % 2 == 0) {
        transpose_four(gate);
        transpose_four(up);
        if (there) store_eight(call.y.data, at, gate);
        if (there) store_eight(call.beside[BESIDE_UP].data, at, up);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            w.value[j + i][half] = gate[i];
            w.value[HALF + j + i][half] = up[i];
        }
    } else {
        unsigned product[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            product[i] = pack_bf16(swiglu(low_bf16(gate[i]), low_bf16(up[i])),
                                   swiglu(high_bf16(gate[i]), high_bf16(up[i])));
        if (there) store_eight(call.beside[BESIDE_PRODUCT].data, at, product);
    }
}

/* Where a tile's sums will go. */
__device__ __forceinline__ static void aim(const struct hopper_call &call, const struct place &place, int row,
                                           struct waiting_pair &w)
{
    int first = cuda_lane() % 4 * 8;
    int left = tile_columns(call, place) - first;
    int own = own_row(row);
    w.left[0] = own < place.row_end ? left : 0;
    w.left[1] = own + 8 < place.row_end ? left : 0;
    w.at = own * call.y.stride + place.block * HOPPER_BLOCK + first;
}

// ------------------------------------------------------------------ tiles of one group

/* 64 rows of a tile from `row` on, by one group. */
__device__ __forceinline__ static void make_tile(const struct hopper_call &call, const struct pipeline &p,
                                                 const struct operands &first, const struct place &place,
                                                 int row, unsigned *turn, struct waiting_pair &w)
{
    float sum[WIDE][4];
    add_long<WIDE, false, false, LATER>(call, p, first, place, row, sum, turn, w);
    aim(call, place, row, w);
    unsigned end = *turn + (unsigned)call.thin_stages;
#pragma unroll 1
    for (; *turn < end; ++*turn) add_stage<WIDE, false, HOPPER_SHORT / 16>(sum, p, first, *turn);
    group_wait<0>();
    group_pin(sum);
    release(p, *turn - 1);
    keep_sums<WIDE>(call.y, sum, w.value);
}

__device__ __forceinline__ static void make_tiles(const struct hopper_call &call, const struct pipeline &p,
                                                  int group)
{
    unsigned turn = 0;
    struct waiting_pair w;
    w.left[0] = 0;
    w.left[1] = 0;
    const struct operands first = group_operands<false>(p, group);
    for (unsigned tiles = 0;; tiles++) {
        await(p, turn); // with the first stage comes the place
        const struct place &place = p.places[tiles % PLACES];
        int row = place.row + group * 64;
        if (place.row < 0) break;
        if (row >= place.row_end)
            pass_tile(call, p, &turn);
        else
            make_tile(call, p, first, place, row, &turn, w);
    }
    store_besides<0, waiting_pair::early>(call, w);
}

#endif

__global__ static void __launch_bounds__((1 + GROUPS) * GROUP, 1)
    swiglu_kernel(const __grid_constant__ struct hopper_call call)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ unsigned char memory[];
    __shared__ struct block_state state;
    struct pipeline p = begin_block(call, memory, &state);
    if (threadIdx.x < GROUP) {
        give_registers();
        if (threadIdx.x == 0) bring_operands<false, true>(call, &state.table, p);
    } else {
        take_registers();
        make_tiles(call, p, (int)threadIdx.x / GROUP - 1);
    }
#endif
}

// ------------------------------------------------------------------ launch

/* To Hopper's host code gate and up are one sum; this makes a call of two sums out of its call. */
void cuda_hopper_pair(struct hopper_call *call, int second, int thin_first, int thin_second)
{
    for (int t = 0; t < call->terms; t++) {
        if (call->term[t].number == thin_first) call->term[t].sums = SUM_FIRST;
        if (call->term[t].number == thin_second) call->term[t].sums = SUM_SECOND;
    }
    call->long_stages -= call->term[second].stages; // its weights come with the first's
    call->term[second].stages = 0;
    int blocks = (call->columns + HOPPER_BLOCK - 1) / HOPPER_BLOCK;
    call->across = (blocks + HALF_BLOCKS - 1) / HALF_BLOCKS;
}

static enum mt_status launch(struct mt_device *device, bool n_inner, const struct hopper_call *call)
{
    (void)n_inner; // weights are [N,K]
    struct hopper_call pair = *call;
    cuda_hopper_pair(&pair, UP, THIN_GATE, THIN_UP);
    return launch_tiles(device, swiglu_kernel, &pair);
}

/* gate and up as one sum; `terms`, of MT_MAX_TERMS, is borrowed by it. */
static struct mt_grouped_sum_args both_of(const struct mt_grouped_swiglu_args *a,
                                          struct mt_product_term *terms)
{
    struct mt_grouped_sum_args both = a->gate;
    both.terms = terms;
    both.count = 0;
    terms[both.count++] = a->gate.terms[0];
    terms[both.count++] = a->up.terms[0];
    if (a->gate.count > 1) terms[both.count++] = a->gate.terms[1];
    if (a->up.count > 1) terms[both.count++] = a->up.terms[1];
    return both;
}

/* One of the two: a long term, and at most one that is thin, without a mask. */
static bool half_fits(const struct mt_grouped_sum_args *a, const struct mt_grouped_swiglu_args *whole)
{
    bool thin = a->count == 1 || (a->count == 2 && !cuda_hopper_is_long(&a->terms[1], a->experts));
    return thin && cuda_hopper_is_long(&a->terms[0], a->experts) && cuda_hopper_masks(a) == 0 &&
           cuda_hopper_is_matrix(&a->y) && a->y.stride[0] == whole->y.stride[0] && a->beta == 0.0f &&
           a->terms[0].transpose_weight;
}

static bool same_matrix(const struct mt_tensor *one, const struct mt_tensor *other)
{
    return one->data == other->data && one->stride[0] == other->stride[0];
}

static bool fits(const struct mt_device *device, const struct mt_grouped_swiglu_args *a)
{
    struct mt_product_term terms[MT_MAX_TERMS];
    if (!half_fits(&a->gate, a) || !half_fits(&a->up, a) || !cuda_hopper_is_matrix(&a->y)) return false;
    const struct mt_tensor *x = &a->gate.terms[0].x;
    if (!cuda_hopper_is_matrix(x) || !same_matrix(x, &a->up.terms[0].x)) return false;
    struct mt_grouped_sum_args both = both_of(a, terms);
    return a->gate.count == a->up.count && cuda_hopper_sum.fits(device, &both);
}

static size_t scratch_bytes(const struct mt_device *device, const struct mt_grouped_swiglu_args *a)
{
    struct mt_product_term terms[MT_MAX_TERMS];
    struct mt_grouped_sum_args both = both_of(a, terms);
    return cuda_hopper_sum.bytes(device, &both);
}

static enum mt_status run(struct mt_device *device, const struct mt_grouped_swiglu_args *a, void *scratch)
{
    struct mt_product_term terms[MT_MAX_TERMS];
    struct mt_grouped_sum_args both = both_of(a, terms);
    struct hopper_matrix beside[HOPPER_BESIDE] = {};
    beside[BESIDE_UP] = cuda_hopper_matrix(&a->up.y);
    beside[BESIDE_PRODUCT] = cuda_hopper_matrix(&a->y);
    if (mt_tensor_count(&a->y) == 0) return MT_OK;
    return cuda_hopper_sum_by(device, &both, beside, launch, scratch);
}

const struct cuda_variant<struct mt_grouped_swiglu_args> cuda_hopper_swiglu = {
    fits, scratch_bytes, run
};
