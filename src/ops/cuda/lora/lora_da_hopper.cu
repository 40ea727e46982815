/*
 * lora_da by Hopper's own instructions. A block has a slice of x's columns, four boxes of 64, and an even
 * share of the rows. One warp asks the copy engine for 64 rows of the slice, of all linears' dxa and of the
 * mask; two groups of four warps multiply, 128 columns each, a warp 32 of them: one word of a row of the
 * mask. What the mask drops becomes 0 on its way through registers, where x is transposed: sums are [columns
 * of x, ranks], kept until the segment ends.
 */
#include "ops/cuda/lora/lora_hopper.cuh"

#define GROUPS      2
#define THREADS     (GROUPS * 128 + 32)
#define SLICE       256 // columns
#define SLICE_BOXES (SLICE / WGMMA_LINE)
#define X_BYTES     (SLICE_BOXES * LORA_BOX)
#define MASK_WORDS  (SLICE / 32)
#define MASK_LINE   (MASK_WORDS * 4) // bytes
#define MASK_BYTES  (LORA_ROWS * MASK_LINE)
#define LEAST_SHARE 384           // rows
#define PART_FOURS  (2 * 4 * 128) // fours of numbers that a group has of a linear

struct da_call {
    struct lora_boxes x, mask;
    struct lora_boxes dxa[MT_LORA_LINEARS];
    struct lora_rows rows;
    int64_t stride[MT_LORA_LINEARS];
    int rank[MT_LORA_LINEARS];
    float scale;
    int columns;
    float4 *part;                             // [shares,slices,GROUPS,PART_FOURS * linears]
    unsigned *meetings;                       // a word of all blocks, one of each group
    float *da[MT_LORA_LINEARS][LORA_EXPERTS]; // NULL: not wanted
};

/* A stage: the slice's boxes, dxa of every linear, the mask's words. */
template <int LINEARS> struct da_memory {
    static constexpr int STAGES = 6 - LINEARS;
    static constexpr unsigned DXA = X_BYTES;
    static constexpr unsigned MASK = DXA + LINEARS * LORA_BOX;
    static constexpr unsigned STAGE = MASK + MASK_BYTES;
    static constexpr size_t BYTES = STAGES * STAGE + WGMMA_PATTERN;
    static_assert(STAGE % WGMMA_PATTERN == 0, "boxes are aligned");
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* Addresses in shared memory. */
struct da_pipeline {
    unsigned stages, full, empty;
};

/* One thread brings the stages of all rows of a share. */
template <int LINEARS, bool MASKED>
__device__ static void bring_stages(const struct da_call &call, const struct lora_table *table,
                                    const struct da_pipeline &p)
{
    using memory = da_memory<LINEARS>;
    struct lora_place stage = {0, 1};
    struct lora_segment s;
    const uint64_t policy = passing_through();
    int column = (int)blockIdx.x * SLICE;
    int boxes = (call.columns - column + WGMMA_LINE - 1) / WGMMA_LINE;
    if (boxes > SLICE_BOXES) boxes = SLICE_BOXES;
    for (int index = table->begin; index < table->end; index = s.next) {
        s = segment_at(table, call.rows.experts, index);
        for (int row = s.row; row < s.row_end; row += LORA_ROWS, stage.move(1, memory::STAGES)) {
            int count = s.row_end - row < LORA_ROWS ? s.row_end - row : LORA_ROWS;
            int lines = copied_lines(count);
            unsigned target = p.stages + stage.at * memory::STAGE;
            unsigned full = p.full + 8 * stage.at;
            barrier_wait(p.empty + 8 * stage.at, stage.parity);
            barrier_expect(
                full, (unsigned)(lines * ((boxes + LINEARS) * WGMMA_LINE * 2 + (MASKED ? MASK_LINE : 0))));
            for (int i = 0; i < boxes; i++)
                copy_rows(target + (unsigned)i * LORA_BOX, call.x, column + i * WGMMA_LINE, row, count,
                          WGMMA_LINE * 2, full, policy);
            for (int i = 0; i < LINEARS; i++)
                copy_rows(target + memory::DXA + (unsigned)i * LORA_BOX, call.dxa[i], 0, row, count,
                          WGMMA_LINE * 2, full, policy);
            if (MASKED)
                copy_rows(target + memory::MASK, call.mask, column / 32, row, count, MASK_LINE, full, policy);
        }
    }
}

/* The word of a row of the mask, turned to this lane's column; without one, everything is kept. */
template <bool MASKED>
__device__ __forceinline__ static unsigned turned_word(unsigned words, int row, int rows)
{
    unsigned word = 0xffffffffu;
    if constexpr (MASKED)
        asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(words + (unsigned)row * MASK_LINE));
    return row < rows ? turn_bit(word, cuda_lane() / 4) : 0;
}

/* What is kept of sixteen rows of a warp's 32 columns, as two fragments; rows from `rows` on count as 0. */
template <bool MASKED>
__device__ __forceinline__ static void keep_rows(unsigned (&x)[2][4], unsigned words, int first, int rows)
{
    int row = first + cuda_lane() % 4 * 2;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        unsigned even = turned_word<MASKED>(words, row + 8 * half, rows);
        unsigned odd = turned_word<MASKED>(words, row + 8 * half + 1, rows);
        x[0][2 * half] = keep_pair<0>(x[0][2 * half], even, odd);
        x[0][2 * half + 1] = keep_pair<1>(x[0][2 * half + 1], even, odd);
        x[1][2 * half] = keep_pair<2>(x[1][2 * half], even, odd);
        x[1][2 * half + 1] = keep_pair<3>(x[1][2 * half + 1], even, odd);
    }
}

/* A stage's products: 64 rows of this warp's columns, from `place` of a box on. */
template <int LINEARS, bool MASKED>
__device__ __forceinline__ static void add_stage(float (&sum)[2][LINEARS][4][4], unsigned box, unsigned chunk,
                                                 unsigned words, uint64_t dxa, int rows)
{
    unsigned x[4][2][4];
    int lane = cuda_lane();
    unsigned line = (unsigned)(lane % 8 + lane / 16 * 8);
#pragma unroll
    for (unsigned k = 0; k < 4; k++) {
#pragma unroll
        for (unsigned j = 0; j < 2; j++)
            load_fragment<true>(x[k][j], box + (16 * k + line) * WGMMA_LINE * 2 +
                                             ((chunk + 2 * j + lane / 8 % 2) ^ (line % 8)) * 16);
        if (MASKED || rows < LORA_ROWS) keep_rows<MASKED>(x[k], words, (int)(16 * k), rows);
    }
#pragma unroll
    for (int j = 0; j < 2; j++) {
#pragma unroll
        for (int i = 0; i < LINEARS; i++) group_pin(sum[j][i]);
    }
#pragma unroll
    for (int k = 0; k < 4; k++) group_pin(x[k]);
    group_begin();
#pragma unroll
    for (unsigned k = 0; k < 4; k++) {
#pragma unroll
        for (int j = 0; j < 2; j++) {
#pragma unroll
            for (unsigned i = 0; i < LINEARS; i++)
                multiply_box<true>(sum[j][i], x[k][j], operand_after(dxa, i * LORA_BOX + k * 2048));
        }
    }
    group_commit();
    group_wait<0>();
#pragma unroll
    for (int k = 0; k < 4; k++) group_pin(x[k]);
#pragma unroll
    for (int j = 0; j < 2; j++) {
#pragma unroll
        for (int i = 0; i < LINEARS; i++) group_pin(sum[j][i]);
    }
}

/* Adds four sums to a gradient, [rank,columns]: two ranks from `line` on of `column` and of the eighth behind
 * it.
 */
__device__ __forceinline__ static void add_gradient(const struct da_call &call, int linear, int expert,
                                                    const float (&sum)[4], int line, int column)
{
    float *to = call.da[linear][expert];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int at = column + i / 2 * 8;
        if (at < call.columns && line + i % 2 < call.rank[linear])
            add_once(to + (line + i % 2) * call.stride[linear] + at, call.scale * sum[i]);
    }
}

/* A group's part of a share. */
template <int LINEARS>
__device__ static inline float4 *part_at(const struct da_call &call, int share, int group)
{
    int64_t place = ((int64_t)share * gridDim.x + blockIdx.x) * GROUPS + group;
    return call.part + place * LINEARS * PART_FOURS;
}

__device__ static inline unsigned *flag_at(const struct da_call &call, int share, int group)
{
    return call.meetings + 1 + (share * (int)gridDim.x + (int)blockIdx.x) * GROUPS + group;
}

template <int LINEARS>
__device__ __forceinline__ static void leave_part(float4 *part, const float (&sum)[2][LINEARS][4][4])
{
#pragma unroll
    for (int i = 0; i < 8 * LINEARS; i++) leave_four(part, i, sum[i / 4 / LINEARS][i / 4 % LINEARS][i % 4]);
}

/* What the shares behind this one have of the expert. */
template <int LINEARS>
__device__ __forceinline__ static void take_parts(const struct da_call &call, const struct lora_table *table,
                                                  const struct lora_segment &s, int group,
                                                  float (&sum)[2][LINEARS][4][4])
{
    int share = (int)blockIdx.y + 1;
    int begin = s.next;
    while (begin < s.end) {
        int next = share_begin(call.rows, table->count, share + 1);
        if (begin < next) {
            const float4 *part = part_at<LINEARS>(call, share, group);
            part_is_awaited(flag_at(call, share, group), 1 + group);
#pragma unroll
            for (int i = 0; i < 8 * LINEARS; i++)
                take_four(part, i, sum[i / 4 / LINEARS][i / 4 % LINEARS][i % 4]);
        }
        begin = next;
        share++;
    }
}

/* A segment's sums to the gradients or to whoever adds them. */
template <int LINEARS>
__device__ __forceinline__ static void give_gradients(const struct da_call &call,
                                                      const struct lora_table *table,
                                                      const struct lora_segment &s, int group,
                                                      float (&sum)[2][LINEARS][4][4])
{
    if (!s.whole && (call.rows.offsets == NULL || !s.begins)) {
        leave_part<LINEARS>(part_at<LINEARS>(call, (int)blockIdx.y, group), sum);
        if (call.rows.offsets != NULL) part_is_left(flag_at(call, (int)blockIdx.y, group), 1 + group);
        return;
    }
    if (!s.whole) take_parts<LINEARS>(call, table, s, group, sum);
    int lane = cuda_lane();
    int column = (int)blockIdx.x * SLICE + group * 128 + (int)threadIdx.x % 128 / 32 * 32 + lane / 4;
#pragma unroll
    for (int linear = 0; linear < LINEARS; linear++) {
        if (call.da[linear][s.expert] == NULL) continue;
#pragma unroll
        for (int i = 0; i < 8; i++)
            add_gradient(call, linear, s.expert, sum[i / 4][linear][i % 4], i % 4 * 8 + lane % 4 * 2,
                         column + i / 4 * 16);
    }
}

/* Without offsets: a share's piece of the gradients of which all shares have left parts, by its warps. */
template <int LINEARS> __device__ static void join_parts(const struct da_call &call, int group)
{
    const int lane = cuda_lane();
    const int64_t gap = (int64_t)gridDim.x * GROUPS * LINEARS * PART_FOURS;
    for (int i = (int)blockIdx.y * 4 + (int)threadIdx.x % 128 / 32; i < 32 * LINEARS;
         i += call.rows.shares * 4) {
        const float4 *place = part_at<LINEARS>(call, 0, group) + i * 32 + lane;
        float sum[4] = {};
        int linear = i / 16 % LINEARS;
        if (call.da[linear][0] == NULL) continue;
        add_run(sum, place, place + gap, gap, call.rows.shares);
        add_gradient(call, linear, 0, sum, i / 4 % 4 * 8 + lane % 4 * 2,
                     (int)blockIdx.x * SLICE + group * 128 + i % 4 * 32 + i / 16 / LINEARS * 16 + lane / 4);
    }
}

/* 128 columns of the slice, by one group. */
template <int LINEARS, bool MASKED>
__device__ static void make_gradients(const struct da_call &call, const struct lora_table *table,
                                      const struct da_pipeline &p, int group)
{
    using memory = da_memory<LINEARS>;
    struct lora_place stage = {0, 0};
    struct lora_segment s;
    int warp = (int)threadIdx.x % 128 / 32;
    for (int index = table->begin; index < table->end; index = s.next) {
        float sum[2][LINEARS][4][4] = {};
        s = segment_at(table, call.rows.experts, index);
        for (int row = s.row; row < s.row_end; row += LORA_ROWS, stage.move(1, memory::STAGES)) {
            int rows = s.row_end - row;
            unsigned target = p.stages + stage.at * memory::STAGE;
            barrier_wait(p.full + 8 * stage.at, stage.parity);
            if (rows < LORA_ROWS) {
                for (unsigned i = 0; i < LINEARS; i++) clear_lines(target + memory::DXA + i * LORA_BOX, rows);
                group_meet(1 + group);
            }
            add_stage<LINEARS, MASKED>(sum, target + (unsigned)(group * 2 + warp / 2) * LORA_BOX,
                                       (unsigned)(warp % 2 * 4),
                                       target + memory::MASK + (unsigned)(group * 4 + warp) * 4,
                                       operand_at(target + memory::DXA, 0), rows);
            release_stage(p.empty + 8 * stage.at);
        }
        give_gradients<LINEARS>(call, table, s, group, sum);
    }
    if (call.rows.offsets != NULL || call.rows.shares == 1) return;
    asm volatile("bar.sync 3, 256;" ::: "memory"); // of both groups
    if (threadIdx.x == 0) meet_all(call.meetings);
    asm volatile("bar.sync 3, 256;" ::: "memory");
    join_parts<LINEARS>(call, group);
}

#endif

template <int LINEARS, bool MASKED>
__global__ static void __launch_bounds__(THREADS, 1) da_kernel(const __grid_constant__ struct da_call call)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ unsigned char memory[];
    __shared__ uint64_t full[da_memory<LINEARS>::STAGES];
    __shared__ uint64_t empty[da_memory<LINEARS>::STAGES];
    __shared__ struct lora_table table;
    unsigned aligned = (shared_address(memory) + WGMMA_PATTERN - 1) / WGMMA_PATTERN * WGMMA_PATTERN;
    struct da_pipeline p = {aligned, shared_address(full), shared_address(empty)};
    if (threadIdx.x == 0) {
        for (int i = 0; i < da_memory<LINEARS>::STAGES; i++) {
            barrier_init(&full[i], 1);
            barrier_init(&empty[i], GROUPS * 4);
        }
        barrier_publish();
    }
    earlier_kernels_end();
    make_table(call.rows, (int)blockIdx.y, &table);
    __syncthreads();
    if (threadIdx.x >= GROUPS * 128) {
        if (threadIdx.x == GROUPS * 128) bring_stages<LINEARS, MASKED>(call, &table, p);
    } else {
        make_gradients<LINEARS, MASKED>(call, &table, p, (int)threadIdx.x / 128);
    }
#endif
}

// ------------------------------------------------------------------ launch

static bool fits(const struct mt_device *device, const struct mt_lora_da_args *l)
{
    if (!cuda_lora_suits(device, l->x.dim[0], l->experts, &l->offsets)) return false;
    if (!cuda_lora_reads(&l->x) || !cuda_lora_mask_fits(&l->mask)) return false;
    for (int i = 0; i < l->linears; i++) {
        bool suits = cuda_lora_matrices_fit(l->da[i], l->experts) && l->dxa[i].dim[1] <= LORA_RANK &&
                     cuda_lora_reads(&l->dxa[i]);
        if (!suits) return false;
    }
    return true;
}

static int slices_of(const struct mt_lora_da_args *l)
{
    return (int)((l->x.dim[1] + SLICE - 1) / SLICE);
}

static int shares_of(const struct mt_device *device, const struct mt_lora_da_args *l)
{
    int even = cuda_state_of(device)->multiprocessors / slices_of(l);
    int shares = lora_least(even, (l->x.dim[0] + LEAST_SHARE - 1) / LEAST_SHARE);
    return shares > 1 ? shares : 1;
}

static size_t scratch_bytes(const struct mt_device *device, const struct mt_lora_da_args *l)
{
    int64_t groups = (int64_t)shares_of(device, l) * slices_of(l) * GROUPS;
    return cuda_floats(groups * l->linears * PART_FOURS * 4);
}

template <int LINEARS, bool MASKED>
static enum mt_status launch(struct mt_device *device, int slices, const struct da_call *call)
{
    struct lora_launch launch = {};
    launch.kernel = reinterpret_cast<const void *>(da_kernel<LINEARS, MASKED>);
    launch.grid = dim3((unsigned)slices, (unsigned)call->rows.shares);
    launch.threads = THREADS;
    launch.shared_bytes = da_memory<LINEARS>::BYTES;
    launch.blocks = 1;
    return cuda_lora_launch(device, &launch, call, "lora_da");
}

template <bool MASKED>
static enum mt_status pick(struct mt_device *device, int linears, int slices, const struct da_call *call)
{
    if (linears == 1) return launch<1, MASKED>(device, slices, call);
    return linears == 2 ? launch<2, MASKED>(device, slices, call) : launch<3, MASKED>(device, slices, call);
}

static enum mt_status run(struct mt_device *device, const struct mt_lora_da_args *l, void *scratch)
{
    bool masked = mt_tensor_present(&l->mask);
    struct da_call call = {};
    call.rows.experts = l->experts;
    call.rows.rows = (int)l->x.dim[0];
    call.rows.turns = 1;
    call.rows.cost[0] = 1;
    call.rows.shares = shares_of(device, l);
    if (mt_tensor_present(&l->offsets)) call.rows.offsets = static_cast<const int32_t *>(l->offsets.data);
    call.scale = masked ? l->mask_scale : 1.0f;
    call.columns = (int)l->x.dim[1];
    call.part = static_cast<float4 *>(scratch);
    call.meetings = cuda_state_of(device)->meetings;
    enum mt_status status = cuda_lora_boxes(device, &l->x, &call.x);
    if (status == MT_OK && masked) status = cuda_lora_mask_boxes(device, &l->mask, MASK_WORDS, &call.mask);
    for (int i = 0; i < l->linears && status == MT_OK; i++) {
        call.rank[i] = (int)l->dxa[i].dim[1];
        call.stride[i] = cuda_uniform(l->da[i], l->experts)->stride[0];
        for (int e = 0; e < l->experts; e++) {
            if (mt_tensor_present(&l->da[i][e])) call.da[i][e] = static_cast<float *>(l->da[i][e].data);
        }
        status = cuda_lora_boxes(device, &l->dxa[i], &call.dxa[i]);
    }
    if (status != MT_OK) return status;
    return masked ? pick<true>(device, l->linears, slices_of(l), &call)
                  : pick<false>(device, l->linears, slices_of(l), &call);
}

const struct cuda_variant<struct mt_lora_da_args> cuda_lora_da_hopper = {
    fits, scratch_bytes, run
};
