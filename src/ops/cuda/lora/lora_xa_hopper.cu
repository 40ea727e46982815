/*
 * lora_xa by Hopper's own instructions. A block per multiprocessor takes an even share of the rows, tiles of
 * up to 256 below each other. One warp asks the copy engine for 64 steps of a tile, of the expert's weights
 * and of the mask; four groups of four warps multiply 64 rows each. What the mask drops becomes 0 on its way
 * through registers. Weights of bf16 at equal distances are read as they lie, others another kernel has
 * rounded.
 *
 * An exact call has one linear, whose f32 weights become three of bf16 (split_gemm.cu); they stand where
 * three linears would, and their sums are joined before they are stored.
 */
#include "ops/cuda/lora/lora_hopper.cuh"
#include "ops/cuda/products/tensor_map.cuh"

#define GROUPS     4
#define THREADS    (GROUPS * 128 + 32)
#define TILE       (GROUPS * LORA_ROWS)
#define X_BYTES    (GROUPS * LORA_BOX)
#define MASK_STEPS 8 // stages whose words of the mask come at once: 64 bytes of a row
#define MASK_WORDS (2 * MASK_STEPS)
#define MASK_LINE  (MASK_WORDS * 4) // bytes
#define MASK_BYTES (TILE * MASK_LINE)
#define MASKS      2 // in memory
#define PARTS      3 // of an exact linear's weights

struct xa_call {
    struct lora_boxes x, mask;
    CUtensorMap weight[MT_LORA_LINEARS]; // boxes [1,LORA_RANK,64] of [experts,rank,K]
    struct lora_rows rows;
    int steps;  // stages of a tile
    bool exact; // PARTS of one linear
    int rank[MT_LORA_LINEARS];
    struct tile_output xa[MT_LORA_LINEARS];
};

/* A stage: rows, then weights; masks come after all stages. */
template <int LINEARS> struct xa_memory {
    static constexpr int STAGES = LINEARS == 1 ? 5 : 4;
    static constexpr unsigned STAGE = X_BYTES + LINEARS * LORA_WEIGHT;
    static constexpr unsigned MASK = STAGES * STAGE;
    static constexpr size_t BYTES = MASK + MASKS * MASK_BYTES + WGMMA_PATTERN;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* Addresses in shared memory. */
struct xa_pipeline {
    unsigned stages, full, empty, mask_empty;
};

/* One thread brings the stages of all tiles of a share. */
template <int LINEARS, bool MASKED>
__device__ static void bring_stages(const struct xa_call &call, const struct lora_table *table,
                                    const struct xa_pipeline &p)
{
    using memory = xa_memory<LINEARS>;
    struct lora_place stage = {0, 1};
    struct lora_place mask = {0, 1};
    struct lora_segment s;
    const uint64_t policy = passing_through();
    for (int index = table->begin; index < table->end; index = s.next) {
        s = segment_at(table, call.rows.experts, index);
        for (int row = s.row; row < s.row_end; row += TILE) {
            int count = s.row_end - row < TILE ? s.row_end - row : TILE;
            int lines = copied_lines(count);
            for (int step = 0; step < call.steps; step++, stage.move(1, memory::STAGES)) {
                bool brings_mask = MASKED && step % MASK_STEPS == 0;
                unsigned target = p.stages + stage.at * memory::STAGE;
                unsigned full = p.full + 8 * stage.at;
                barrier_wait(p.empty + 8 * stage.at, stage.parity);
                barrier_expect(full, (unsigned)(lines * WGMMA_LINE * 2 + LINEARS * LORA_WEIGHT +
                                                (brings_mask ? lines * MASK_LINE : 0)));
                for (int i = 0; i < count; i += LORA_ROWS)
                    copy_rows(target + (unsigned)(i * WGMMA_LINE * 2), call.x, step * WGMMA_LINE, row + i,
                              count - i, WGMMA_LINE * 2, full, policy);
#pragma unroll
                for (int i = 0; i < LINEARS; i++)
                    copy_box(target + X_BYTES + (unsigned)i * LORA_WEIGHT, &call.weight[i], step * WGMMA_LINE,
                             0, s.expert, full);
                if (!brings_mask) continue;
                unsigned words = p.stages + memory::MASK + mask.at * MASK_BYTES;
                barrier_wait(p.mask_empty + 8 * mask.at, mask.parity);
                for (int i = 0; i < count; i += LORA_ROWS)
                    copy_rows(words + (unsigned)(i * MASK_LINE), call.mask, step * 2, row + i, count - i,
                              MASK_LINE, full, policy);
                mask.move(1, MASKS);
            }
        }
    }
}

/* What a mask's two words of a row keep: bits of even and odd columns, turned so that a byte's highest
 * counts.
 */
struct turned_words {
    unsigned even[2], odd[2];

    __device__ __forceinline__ void load(unsigned address)
    {
        unsigned word[2];
        asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(word[0]), "=r"(word[1]) : "r"(address));
#pragma unroll
        for (int i = 0; i < 2; i++) {
            even[i] = turn_bit(word[i], cuda_lane() % 4 * 2);
            odd[i] = turn_bit(word[i], cuda_lane() % 4 * 2 + 1);
        }
    }
};

/* Sixteen steps' fragment of x, the HALF-th of a word's 32 columns. */
template <int HALF>
__device__ __forceinline__ static void keep_fragment(unsigned (&x)[4], const struct turned_words (&rows)[2],
                                                     int word)
{
    x[0] = keep_pair<2 * HALF>(x[0], rows[0].even[word], rows[0].odd[word]);
    x[1] = keep_pair<2 * HALF>(x[1], rows[1].even[word], rows[1].odd[word]);
    x[2] = keep_pair<2 * HALF + 1>(x[2], rows[0].even[word], rows[0].odd[word]);
    x[3] = keep_pair<2 * HALF + 1>(x[3], rows[1].even[word], rows[1].odd[word]);
}

/* The group's rows of a stage, [64,64] as four fragments; `words`: the mask's of its first row. */
template <bool MASKED>
__device__ __forceinline__ static void load_rows(unsigned (&x)[4][4], unsigned box, unsigned words)
{
    int lane = cuda_lane();
    int warp = (int)threadIdx.x % 128 / 32;
    int line = warp * 16 + lane % 16;
    unsigned place = box + (unsigned)line * WGMMA_LINE * 2;
#pragma unroll
    for (int k = 0; k < 4; k++)
        load_fragment<false>(x[k], place + (unsigned)((2 * k + lane / 16) ^ (line % 8)) * 16);
    if constexpr (MASKED) {
        struct turned_words rows[2];
        unsigned own = words + (unsigned)(warp * 16 + lane / 4) * MASK_LINE;
        rows[0].load(own);
        rows[1].load(own + 8 * MASK_LINE);
        keep_fragment<0>(x[0], rows, 0);
        keep_fragment<1>(x[1], rows, 0);
        keep_fragment<0>(x[2], rows, 1);
        keep_fragment<1>(x[3], rows, 1);
    }
}

/* A stage's products of the group's rows. */
template <int LINEARS, bool MASKED>
__device__ __forceinline__ static void add_stage(float (&sum)[LINEARS][4][4], unsigned stage, int group,
                                                 unsigned words)
{
    unsigned x[4][4];
    load_rows<MASKED>(x, stage + (unsigned)group * LORA_BOX, words);
    const uint64_t weight = operand_at(stage + X_BYTES, 0);
#pragma unroll
    for (int i = 0; i < LINEARS; i++) group_pin(sum[i]);
    group_pin(x);
    group_begin();
#pragma unroll
    for (int k = 0; k < 4; k++) {
#pragma unroll
        for (int i = 0; i < LINEARS; i++)
            multiply_box<false>(sum[i], x[k], operand_after(weight, (unsigned)(i * LORA_WEIGHT + k * 32)));
    }
    group_commit();
    group_wait<0>();
    group_pin(x);
#pragma unroll
    for (int i = 0; i < LINEARS; i++) group_pin(sum[i]);
}

/* The sum of an exact linear's parts, smallest first, in the first one's place. */
template <int LINEARS> __device__ __forceinline__ static void join_parts(float (&sum)[LINEARS][4][4])
{
#pragma unroll
    for (int i = 0; i < 16; i++) {
        float joined = 0.0f;
#pragma unroll
        for (int part = LINEARS - 1; part >= 0; part--) joined += sum[part][i / 4][i % 4];
        sum[0][i / 4][i % 4] = joined;
    }
}

/* 64 rows of every tile of a share, by one group. */
template <int LINEARS, bool MASKED>
__device__ static void make_middles(const struct xa_call &call, const struct lora_table *table,
                                    const struct xa_pipeline &p, int group)
{
    using memory = xa_memory<LINEARS>;
    struct lora_place stage = {0, 0};
    struct lora_place mask = {0, 0};
    struct lora_segment s;
    for (int index = table->begin; index < table->end; index = s.next) {
        s = segment_at(table, call.rows.experts, index);
        for (int first = s.row; first < s.row_end; first += TILE) {
            int row = first + group * LORA_ROWS;
            float sum[LINEARS][4][4] = {};
            for (int step = 0; step < call.steps; step++, stage.move(1, memory::STAGES)) {
                unsigned words = p.stages + memory::MASK + mask.at * MASK_BYTES +
                                 (unsigned)(group * LORA_ROWS * MASK_LINE + step % MASK_STEPS * 8);
                barrier_wait(p.full + 8 * stage.at, stage.parity);
                if (row < s.row_end)
                    add_stage<LINEARS, MASKED>(sum, p.stages + stage.at * memory::STAGE, group, words);
                release_stage(p.empty + 8 * stage.at);
                if (!MASKED || (step % MASK_STEPS != MASK_STEPS - 1 && step + 1 < call.steps)) continue;
                release_stage(p.mask_empty + 8 * mask.at);
                mask.move(1, MASKS);
            }
            if (row >= s.row_end) continue;
            if (LINEARS == PARTS && call.exact) join_parts(sum);
#pragma unroll
            for (int i = 0; i < LINEARS; i++)
                store_sums<4>(call.xa[i], sum[i], row + (int)threadIdx.x % 128 / 32 * 16, s.row_end, 0,
                              call.rank[i]);
        }
    }
}

#endif

template <int LINEARS, bool MASKED>
__global__ static void __launch_bounds__(THREADS, 1) xa_kernel(const __grid_constant__ struct xa_call call)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ unsigned char memory[];
    __shared__ uint64_t full[xa_memory<LINEARS>::STAGES];
    __shared__ uint64_t empty[xa_memory<LINEARS>::STAGES];
    __shared__ uint64_t mask_empty[MASKS];
    __shared__ struct lora_table table;
    unsigned aligned = (shared_address(memory) + WGMMA_PATTERN - 1) / WGMMA_PATTERN * WGMMA_PATTERN;
    struct xa_pipeline p = {aligned, shared_address(full), shared_address(empty), shared_address(mask_empty)};
    if (threadIdx.x == 0) {
        for (int i = 0; i < xa_memory<LINEARS>::STAGES; i++) {
            barrier_init(&full[i], 1);
            barrier_init(&empty[i], GROUPS * 4);
        }
        for (int i = 0; i < MASKS; i++) barrier_init(&mask_empty[i], GROUPS * 4);
        barrier_publish();
    }
    earlier_kernels_end();
    make_table(call.rows, (int)blockIdx.x, &table);
    __syncthreads();
    if (threadIdx.x >= GROUPS * 128) {
        if (threadIdx.x == GROUPS * 128) bring_stages<LINEARS, MASKED>(call, &table, p);
    } else {
        make_middles<LINEARS, MASKED>(call, &table, p, (int)threadIdx.x / 128);
    }
#endif
}

// ------------------------------------------------------------------ weights

/* Whether a linear's weights can be read as they lie. */
static bool is_regular(const struct mt_lora_xa_args *l, int i)
{
    const struct mt_tensor *any = cuda_uniform(l->a[i], l->experts);
    return any->dtype == MT_BF16 && any->stride[0] % 8 == 0 && cuda_gap(l->a[i], l->experts) > 0;
}

static bool all_regular(const struct mt_lora_xa_args *l)
{
    for (int i = 0; i < l->linears; i++) {
        if (!is_regular(l, i)) return false;
    }
    return true;
}

struct round_call {
    const void *from[MT_LORA_LINEARS][LORA_EXPERTS]; // NULL: absent, which counts as zeros
    bool bf16[MT_LORA_LINEARS];                      // these are copied
    int64_t stride[MT_LORA_LINEARS];
    int rank[MT_LORA_LINEARS];
    int linears;
    bool exact; // they are the parts of one
    int64_t columns;
    __nv_bfloat16 *to; // [experts,linears,LORA_RANK,columns]
};

/* What of a number `part` has: it rounded, or what the parts before leave. */
__device__ static inline float rest_of(float value, int part)
{
    for (int i = 0; i < part; i++) {
        float rounded = __bfloat162float(__float2bfloat16_rn(value));
        value = isfinite(rounded) ? value - rounded : 0.0f; // exact
    }
    return value;
}

/* Eight numbers a thread; a block's are of one expert and linear. */
__global__ static void round_kernel(const __grid_constant__ struct round_call call)
{
    int linear = (int)blockIdx.y;
    const void *from = call.from[linear][blockIdx.z];
    int64_t eighths = call.columns / 8;
    int64_t i = cuda_thread();
    if (i >= LORA_RANK * eighths) return;
    int64_t line = i / eighths;
    int64_t at = line * call.stride[linear] + (i - line * eighths) * 8;
    uint4 eight = {};
    if (from != NULL && line < call.rank[linear] && call.bf16[linear]) {
        eight = *reinterpret_cast<const uint4 *>(static_cast<const __nv_bfloat16 *>(from) + at);
    } else if (from != NULL && line < call.rank[linear]) {
        const float4 *fours = reinterpret_cast<const float4 *>(static_cast<const float *>(from) + at);
        float4 low = fours[0];
        float4 high = fours[1];
        if (call.exact) {
            float *each[] = {&low.x, &low.y, &low.z, &low.w, &high.x, &high.y, &high.z, &high.w};
#pragma unroll
            for (int j = 0; j < 8; j++) *each[j] = rest_of(*each[j], linear);
        }
        eight = make_uint4(pack_bf16(low.x, low.y), pack_bf16(low.z, low.w), pack_bf16(high.x, high.y),
                           pack_bf16(high.z, high.w));
    }
    uint4 *to =
        reinterpret_cast<uint4 *>(call.to) + (blockIdx.z * call.linears + linear) * LORA_RANK * eighths;
    to[i] = eight;
}

/* Linears as the kernel sees them. */
static int linears_of(const struct mt_lora_xa_args *l)
{
    return l->exact ? PARTS : l->linears;
}

static enum mt_status round_weights(struct mt_device *device, const struct mt_lora_xa_args *l,
                                    __nv_bfloat16 *to)
{
    struct round_call call = {};
    call.linears = linears_of(l);
    call.exact = l->exact;
    call.columns = l->x.dim[1];
    call.to = to;
    for (int i = 0; i < call.linears; i++) {
        int linear = l->exact ? 0 : i;
        call.rank[i] = (int)l->xa[linear].dim[1];
        for (int e = 0; e < l->experts; e++) {
            if (!mt_tensor_present(&l->a[linear][e])) continue;
            call.from[i][e] = l->a[linear][e].data;
            call.bf16[i] = l->a[linear][e].dtype == MT_BF16;
            call.stride[i] = l->a[linear][e].stride[0];
        }
    }
    int64_t threads = LORA_RANK * call.columns / 8;
    dim3 grid((unsigned)((threads + CUDA_THREADS - 1) / CUDA_THREADS), (unsigned)call.linears,
              (unsigned)l->experts);
    round_kernel<<<grid, CUDA_THREADS, 0, cuda_stream(device)>>>(call);
    return cuda_launched(device, "rounding LoRA's weights");
}

/* Tensor maps of all weights, rounded into scratch where they cannot be read as they lie. */
static enum mt_status find_weights(struct mt_device *device, const struct mt_lora_xa_args *l, void *scratch,
                                   CUtensorMap *maps)
{
    bool regular = all_regular(l);
    int64_t columns = l->x.dim[1];
    int count = linears_of(l);
    enum mt_status status = MT_OK;
    if (!regular) status = round_weights(device, l, static_cast<__nv_bfloat16 *>(scratch));
    for (int i = 0; i < count && status == MT_OK; i++) {
        struct map_shape shape = {};
        shape.data =
            regular ? l->a[i][0].data : static_cast<__nv_bfloat16 *>(scratch) + i * LORA_RANK * columns;
        shape.dimensions = 3;
        shape.size[0] = (uint64_t)columns;
        shape.size[1] = (uint64_t)(regular ? l->xa[i].dim[1] : LORA_RANK);
        shape.size[2] = (uint64_t)l->experts;
        shape.stride[0] = (uint64_t)(regular ? l->a[i][0].stride[0] : columns) * 2;
        shape.stride[1] =
            (uint64_t)(regular ? cuda_gap(l->a[i], l->experts) : count * LORA_RANK * columns * 2);
        shape.box[0] = WGMMA_LINE;
        shape.box[1] = LORA_RANK;
        shape.box[2] = 1;
        status = cuda_make_map(device, &shape, &maps[i]);
    }
    return status;
}

// ------------------------------------------------------------------ launch

/* f32, or bf16 whose lines are aligned. */
static bool weights_fit(const struct mt_tensor *list, int experts)
{
    const struct mt_tensor *any = cuda_uniform(list, experts);
    if (any != NULL && any->dtype == MT_BF16) return any->stride[0] % 8 == 0;
    return cuda_lora_matrices_fit(list, experts);
}

static bool fits(const struct mt_device *device, const struct mt_lora_xa_args *l)
{
    if (!cuda_lora_suits(device, l->x.dim[0], l->experts, &l->offsets)) return false;
    if (!cuda_lora_reads(&l->x) || !cuda_lora_mask_fits(&l->mask)) return false;
    if (l->exact && (l->linears > 1 || l->a[0][0].dtype != MT_F32)) return false;
    for (int i = 0; i < l->linears; i++) {
        bool suits = weights_fit(l->a[i], l->experts) && l->xa[i].dim[1] <= LORA_RANK &&
                     cuda_is_float_or_bf16(&l->xa[i]);
        if (!suits) return false;
    }
    return true;
}

static size_t scratch_bytes(const struct mt_device *, const struct mt_lora_xa_args *l)
{
    return all_regular(l) ? 0 : cuda_halves(l->experts * linears_of(l) * LORA_RANK * l->x.dim[1]);
}

template <int LINEARS, bool MASKED>
static enum mt_status launch(struct mt_device *device, const struct xa_call *call)
{
    struct lora_launch launch = {};
    launch.kernel = reinterpret_cast<const void *>(xa_kernel<LINEARS, MASKED>);
    launch.grid = dim3((unsigned)call->rows.shares);
    launch.threads = THREADS;
    launch.shared_bytes = xa_memory<LINEARS>::BYTES;
    launch.blocks = 1;
    return cuda_lora_launch(device, &launch, call, "lora_xa");
}

template <bool MASKED>
static enum mt_status pick(struct mt_device *device, int linears, const struct xa_call *call)
{
    if (linears == 1) return launch<1, MASKED>(device, call);
    return linears == 2 ? launch<2, MASKED>(device, call) : launch<3, MASKED>(device, call);
}

static enum mt_status run(struct mt_device *device, const struct mt_lora_xa_args *l, void *scratch)
{
    bool masked = mt_tensor_present(&l->mask);
    struct xa_call call = {};
    call.rows.experts = l->experts;
    call.rows.rows = (int)l->x.dim[0];
    call.rows.turns = 1;
    call.rows.cost[0] = 1;
    call.rows.shares =
        lora_least(cuda_state_of(device)->multiprocessors, (l->x.dim[0] + LORA_ROWS - 1) / LORA_ROWS);
    if (mt_tensor_present(&l->offsets)) call.rows.offsets = static_cast<const int32_t *>(l->offsets.data);
    call.steps = (int)((l->x.dim[1] + WGMMA_LINE - 1) / WGMMA_LINE);
    call.exact = l->exact;
    int linears = linears_of(l);
    for (int i = 0; i < l->linears; i++) {
        call.rank[i] = (int)l->xa[i].dim[1];
        call.xa[i] = tile_output_of(&l->xa[i], masked ? l->alpha * l->mask_scale : l->alpha, 0.0f);
    }
    enum mt_status status = find_weights(device, l, scratch, call.weight);
    if (status == MT_OK) status = cuda_lora_boxes(device, &l->x, &call.x);
    if (status == MT_OK && masked) status = cuda_lora_mask_boxes(device, &l->mask, MASK_WORDS, &call.mask);
    if (status != MT_OK) return status;
    return masked ? pick<true>(device, linears, &call) : pick<false>(device, linears, &call);
}

const struct cuda_variant<struct mt_lora_xa_args> cuda_lora_xa_hopper = {
    fits, scratch_bytes, run
};
