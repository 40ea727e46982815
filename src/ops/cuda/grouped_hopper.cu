/*
 * grouped_gemm of bf16 by Hopper's own instructions, in one launch: a block per multiprocessor takes tile
 * after tile, [128,256] of y. One of its warps asks the copy engine for the operands, STEPS steps at a time,
 * STAGES of them ahead; two groups of four warps multiply, 64 rows each. Which rows are whose is read on the
 * device, so that nobody waits for the host. Tiles of one expert follow each other: its weight stays in the
 * cache.
 */
#include <cudaTypedefs.h>

#include "ops/cuda/grouped.cuh"
#include "ops/cuda/wgmma.cuh"

#define TILE_ROWS    128
#define TILE_COLUMNS 256
#define STEPS        WGMMA_LINE
#define STAGES       4
#define GROUPS       2 // that multiply
#define GROUP        128
#define AT_ONCE      64  // experts of a launch: each has a map of its weight among the kernel's arguments
#define LEAST_LARGE  256 // both dimensions of a weight

struct hopper_call {
    CUtensorMap x; // boxes [TILE_ROWS,STEPS]
    CUtensorMap weight[AT_ONCE];
    uint64_t present; // a bit per expert
    const int32_t *offsets;
    int experts;
    int steps; // of STEPS numbers
    int64_t columns;
    struct tile_output y;
};

/* Operands of STEPS steps. */
struct stage {
    __nv_bfloat16 x[TILE_ROWS * STEPS];
    __nv_bfloat16 weight[TILE_COLUMNS * STEPS];
};

// ------------------------------------------------------------------ the kernel

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

struct place {
    int expert;
    int64_t row, row_end; // of x and y
    int64_t column;
    int steps; // 0: the expert has no weight
};

/* Where tile `tile` of all is; false past the last. */
__device__ static bool find_place(const struct hopper_call &call, int64_t tile, struct place *place)
{
    int64_t across = (call.columns + TILE_COLUMNS - 1) / TILE_COLUMNS;
    int64_t down = tile / across;
    int e = find_expert(call.offsets, call.experts, TILE_ROWS, &down);
    if (e < 0) return false;
    place->expert = e;
    place->row = call.offsets[e] + down * TILE_ROWS;
    place->row_end = call.offsets[e + 1];
    place->column = tile % across * TILE_COLUMNS;
    place->steps = (call.present >> e & 1) != 0 ? call.steps : 0;
    return true;
}

struct pipeline {
    struct stage *stages;
    uint64_t *full, *empty; // barriers, one per stage
};

/* One warp: operands of every tile of this block, as stages become free. */
template <bool N_INNER>
__device__ static void bring_operands(const struct hopper_call &call, const struct pipeline &p)
{
    unsigned turn = 0; // steps so far
    struct place place;
    for (int64_t tile = blockIdx.x; find_place(call, tile, &place); tile += gridDim.x) {
        for (int step = 0; step < place.steps; step++, turn++) {
            unsigned at = turn % STAGES;
            uint64_t *full = &p.full[at];
            barrier_wait(&p.empty[at], (turn / STAGES + 1) & 1);
            if (cuda_lane() == 0) {
                const CUtensorMap *weight = &call.weight[place.expert];
                __nv_bfloat16 *target = p.stages[at].weight;
                barrier_expect(full, sizeof(struct stage));
                copy_box(p.stages[at].x, &call.x, step * STEPS, (int)place.row, full);
                if (!N_INNER) copy_box(target, weight, step * STEPS, (int)place.column, full);
                for (int c = 0; N_INNER && c < TILE_COLUMNS; c += WGMMA_LINE) {
                    copy_box(target + c * STEPS, weight, (int)place.column + c, step * STEPS, full);
                }
            }
            __syncwarp();
        }
    }
}

/* The stage of step `turn` may be overwritten, as far as this warp is concerned. */
__device__ static void release(const struct pipeline &p, unsigned turn)
{
    if (cuda_lane() == 0) barrier_arrive(&p.empty[turn % STAGES]);
}

/* 64 rows of a tile, FRAGMENTS · 8 columns, by one group. */
template <int FRAGMENTS, bool N_INNER>
__device__ static void make_tile(const struct hopper_call &call, const struct pipeline &p,
                                 const struct place &place, int group, unsigned *turn)
{
    float sum[FRAGMENTS][4] = {};
    for (int step = 0; step < place.steps; step++, ++*turn) {
        unsigned at = *turn % STAGES;
        const __nv_bfloat16 *x = p.stages[at].x + group * 64 * STEPS;
        const __nv_bfloat16 *weight = p.stages[at].weight;
        barrier_wait(&p.full[at], *turn / STAGES & 1);
        group_pin(sum);
        group_begin();
#pragma unroll
        for (int k = 0; k < STEPS; k += 16) {
            // By lines of steps, sixteen of them are 32 bytes further; by lines of columns, sixteen lines.
            uint64_t b = N_INNER ? operand_at(weight + k * WGMMA_LINE, WGMMA_LINE * STEPS * 2)
                                 : operand_at(weight + k, 0);
            multiply_group<N_INNER>(sum, operand_at(x + k, 0), b);
        }
        group_commit();
        group_wait<1>(); // the step before this one
        if (step > 0) release(p, *turn - 1);
    }
    group_wait<0>();
    group_pin(sum);
    if (place.steps > 0) release(p, *turn - 1);
    int64_t row = place.row + group * 64 + threadIdx.x % GROUP / 32 * 16;
    store_sums<FRAGMENTS>(call.y, sum, row, place.row_end, place.column, call.columns);
}

template <bool N_INNER>
__device__ static void make_tiles(const struct hopper_call &call, const struct pipeline &p, int group)
{
    unsigned turn = 0;
    struct place place;
    for (int64_t tile = blockIdx.x; find_place(call, tile, &place); tile += gridDim.x) {
        if (place.column + TILE_COLUMNS / 2 < call.columns) {
            make_tile<TILE_COLUMNS / 8, N_INNER>(call, p, place, group, &turn);
        } else {
            make_tile<TILE_COLUMNS / 16, N_INNER>(call, p, place, group, &turn);
        }
    }
}

#endif

/* N_INNER: weights are [K,N]; else [N,K]. */
template <bool N_INNER>
__global__ static void __launch_bounds__((1 + GROUPS) * GROUP, 1)
    hopper_kernel(const __grid_constant__ struct hopper_call call)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ unsigned char memory[];
    __shared__ uint64_t full[STAGES];
    __shared__ uint64_t empty[STAGES];
    unsigned char *aligned =
        memory + (WGMMA_PATTERN - shared_address(memory) % WGMMA_PATTERN) % WGMMA_PATTERN;
    struct pipeline p = {reinterpret_cast<struct stage *>(aligned), full, empty};
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            barrier_init(&full[i], 1);
            barrier_init(&empty[i], GROUPS * GROUP / 32);
        }
        barrier_publish();
    }
    __syncthreads();
    // Registers go to those who hold sums.
    if (threadIdx.x < GROUP) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x < 32) bring_operands<N_INNER>(call, p);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        make_tiles<N_INNER>(call, p, (int)threadIdx.x / GROUP - 1);
    }
#endif
}

// ------------------------------------------------------------------ maps

static bool is_aligned(const struct mt_tensor *t)
{
    return t->stride[0] % 8 == 0 && reinterpret_cast<uintptr_t>(t->data) % 16 == 0;
}

static enum mt_status find_encoder(const struct mt_device *device)
{
    struct cuda_state *state = cuda_state_of(device);
    cudaDriverEntryPointQueryResult found;
    if (state->encode_map != NULL) return MT_OK;
    cudaError_t error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &state->encode_map, 12000,
                                                         cudaEnableDefault, &found);
    return cuda_status(device, error, "finding cuTensorMapEncodeTiled");
}

/* Boxes of [lines, WGMMA_LINE] of a bf16 matrix; zeros beyond its ends. */
static enum mt_status make_map(const struct mt_device *device, const struct mt_tensor *matrix, int lines,
                               CUtensorMap *map)
{
    PFN_cuTensorMapEncodeTiled_v12000 encode =
        reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(cuda_state_of(device)->encode_map);
    cuuint64_t sizes[2] = {(cuuint64_t)matrix->dim[1], (cuuint64_t)matrix->dim[0]};
    cuuint64_t strides[1] = {(cuuint64_t)matrix->stride[0] * 2};
    cuuint32_t box[2] = {WGMMA_LINE, (cuuint32_t)lines};
    cuuint32_t each[2] = {1, 1};
    CUresult result = encode(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, matrix->data, sizes, strides, box,
                             each, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result == CUDA_SUCCESS) return MT_OK;
    return mt_fail(device->ctx, MT_ERR_INTERNAL, "cuda: describing a matrix to the copy engine: error %d",
                   (int)result);
}

// ------------------------------------------------------------------ launch

bool cuda_grouped_hopper_fits(const struct mt_device *device, const struct mt_grouped_gemm_args *g)
{
    const struct mt_tensor *weight = cuda_uniform(g->weight, g->experts);
    if (!cuda_state_of(device)->hopper || weight == NULL || weight->dtype != MT_BF16) return false;
    bool x_fits = g->x.dtype == MT_BF16 ? is_aligned(&g->x) : g->x.dim[1] % 8 == 0;
    return x_fits && is_aligned(weight) && is_aligned(&g->y) && weight->dim[0] >= LEAST_LARGE &&
           weight->dim[1] >= LEAST_LARGE;
}

template <bool N_INNER> static enum mt_status launch(struct mt_device *device, const struct hopper_call &call)
{
    const void *kernel = reinterpret_cast<const void *>(hopper_kernel<N_INNER>);
    const size_t bytes = STAGES * sizeof(struct stage) + WGMMA_PATTERN;
    cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    enum mt_status status = cuda_status(device, error, "shared memory for the experts' products");
    if (status != MT_OK) return status;
    unsigned blocks = (unsigned)cuda_state_of(device)->multiprocessors;
    hopper_kernel<N_INNER><<<blocks, (1 + GROUPS) * GROUP, bytes, cuda_stream(device)>>>(call);
    return cuda_launched(device, "grouped_gemm");
}

/* Experts [first, first + count). */
static enum mt_status multiply_some(struct mt_device *device, const struct mt_grouped_gemm_args *g, int first,
                                    int count, struct hopper_call *call)
{
    call->present = 0;
    call->experts = count;
    call->offsets = static_cast<const int32_t *>(g->offsets.data) + first;
    int lines = g->transpose_weight ? TILE_COLUMNS : STEPS;
    for (int i = 0; i < count; i++) {
        const struct mt_tensor *weight = &g->weight[first + i];
        if (!mt_tensor_present(weight)) continue;
        enum mt_status status = make_map(device, weight, lines, &call->weight[i]);
        if (status != MT_OK) return status;
        call->present |= (uint64_t)1 << i;
    }
    return g->transpose_weight ? launch<false>(device, *call) : launch<true>(device, *call);
}

enum mt_status cuda_grouped_hopper(struct mt_device *device, const struct mt_grouped_gemm_args *g)
{
    if (mt_tensor_count(&g->y) == 0) return MT_OK;
    struct hopper_call call = {};
    call.steps = (int)((g->x.dim[1] + STEPS - 1) / STEPS);
    call.columns = g->y.dim[1];
    call.y = tile_output_of(&g->y, g->alpha, g->beta);
    enum mt_status status = find_encoder(device);
    if (status == MT_OK) status = make_map(device, &g->x, TILE_ROWS, &call.x);
    for (int first = 0; first < g->experts && status == MT_OK; first += AT_ONCE) {
        int count = g->experts - first < AT_ONCE ? g->experts - first : AT_ONCE;
        status = multiply_some(device, g, first, count, &call);
    }
    return status;
}
