/*
 * What the kernels of LoRA's thin work share on Hopper (lora_xa, lora_dxa and lora_da): bf16 rows come by
 * the copy engine, each byte once; sums are f32 in registers. A linear layer's middle has LORA_RANK columns
 * in a product; smaller ranks leave some empty.
 *
 * Rows are shared out evenly, whoever's they are: a share is a run of rows, and its part of one expert is a
 * segment. A gradient whose expert lies in several shares is the sum of their parts, in order: the share in
 * which the expert begins adds to its own what those behind it have left in memory. It comes to its last
 * segment when they have long finished their first. Without offsets all shares have parts of the same
 * gradients: they meet, and each adds up a piece. Either way all blocks of a launch run at once.
 */
#ifndef MT_OPS_CUDA_LORA_HOPPER_CUH
#define MT_OPS_CUDA_LORA_HOPPER_CUH

#include "ops/cuda/common/tiles.cuh"
#include "ops/cuda/common/wgmma.cuh"
#include "ops/cuda/products/grouped.cuh"

#define LORA_RANK    32
#define LORA_ROWS    64                           // of a box
#define LORA_TAIL    8                            // of a box where a segment ends
#define LORA_BOX     (LORA_ROWS * WGMMA_LINE * 2) // bytes
#define LORA_WEIGHT  (LORA_RANK * WGMMA_LINE * 2) // bytes of a linear layer's weights for 64 steps
#define LORA_EXPERTS 256                          // of a call
#define LORA_LEAST   128                          // rows of a call that is worth it
#define LORA_DENSE   1024                         // without offsets: cuBLAS spreads fewer over the device

// ------------------------------------------------------------------ on the host

extern const struct cuda_variant<struct mt_lora_xa_args> cuda_lora_xa_hopper;
extern const struct cuda_variant<struct mt_lora_dxa_args> cuda_lora_dxa_hopper;
extern const struct cuda_variant<struct mt_lora_da_args> cuda_lora_da_hopper;

/* Whether bf16 rows can be read by the copy engine, and f32 matrices of the experts are of one shape. */
bool cuda_lora_reads(const struct mt_tensor *rows);
bool cuda_lora_matrices_fit(const struct mt_tensor *list, int experts);

/* Whether the device and the numbers of rows and experts suit these kernels. */
bool cuda_lora_suits(const struct mt_device *device, int64_t rows, int experts,
                     const struct mt_tensor *offsets);

/* A mask the copy engine can read, or none. */
bool cuda_lora_mask_fits(const struct mt_tensor *mask);

/* Rows as boxes of LORA_ROWS and of LORA_TAIL. */
struct lora_boxes {
    CUtensorMap whole, tail;
};

/* Boxes of 64 columns of bf16; zeros beyond the tensor. */
enum mt_status cuda_lora_boxes(const struct mt_device *device, const struct mt_tensor *rows,
                               struct lora_boxes *boxes);

/* Boxes of `words` words of a mask. */
enum mt_status cuda_lora_mask_boxes(const struct mt_device *device, const struct mt_tensor *mask, int words,
                                    struct lora_boxes *boxes);

/* Whose rows are whose. */
struct lora_rows {
    const int32_t *offsets; // NULL: one expert has all rows
    int experts;
    int rows;
    int shares; // of all turns' rows
    int turns;
    int cost[MT_LORA_LINEARS]; // of a row, in each turn
};

/* Without offsets: the shares that have parts of a turn. */
struct lora_run {
    int first, count;
    bool late; // the first one has rows of an earlier turn, too
};

/*
 * A launch: `kernel` takes the call by value, and waits (earlier_kernels_end) before it reads memory.
 * Clusters of `blocks` blocks.
 */
struct lora_launch {
    const void *kernel;
    dim3 grid;
    int threads;
    size_t shared_bytes;
    int blocks;
};

enum mt_status cuda_lora_launch(struct mt_device *device, const struct lora_launch *launch, const void *call,
                                const char *what);

/* How many clusters of a launch run at once. */
int cuda_lora_clusters(const struct mt_device *device, const struct lora_launch *launch);

static inline int lora_least(int64_t a, int64_t b)
{
    return (int)(a < b ? a : b);
}

// ------------------------------------------------------------------ segments

/* The first index of a share; indices count rows through all turns, of `count` rows each. */
__host__ __device__ static inline int share_begin(const struct lora_rows &rows, int count, int share)
{
    int64_t costs = 0;
    for (int i = 0; i < rows.turns; i++) costs += rows.cost[i];
    int64_t at = costs * count * share / rows.shares;
    int turn = 0;
    for (; turn + 1 < rows.turns && at >= (int64_t)rows.cost[turn] * count; turn++)
        at -= (int64_t)rows.cost[turn] * count;
    return turn * count + (int)(at / rows.cost[turn]);
}

/* Of rows without offsets. */
static inline struct lora_run lora_run_of(const struct lora_rows &rows, int turn)
{
    struct lora_run run = {};
    for (int share = 0; share < rows.shares; share++) {
        int begin = share_begin(rows, rows.rows, share);
        int end = share_begin(rows, rows.rows, share + 1);
        if (begin == end || end <= turn * rows.rows || begin >= (turn + 1) * rows.rows) continue;
        if (run.count == 0) run.first = share;
        if (run.count == 0) run.late = begin < turn * rows.rows;
        run.count = share + 1 - run.first;
    }
    return run;
}

/* In shared memory: where experts begin. */
struct lora_table {
    int first[LORA_EXPERTS + 1];
    int begin, end; // this share's indices
    int count;      // rows of all experts
};

struct lora_segment {
    int turn, expert;
    int row, row_end;
    int next;    // the index behind it
    int end;     // the index behind the expert
    bool begins; // with the expert's first row
    bool whole;  // all of the expert's rows
    bool later;  // not the share's first
};

/* All threads of the block call it; a barrier has to follow. */
__device__ static inline void make_table(const struct lora_rows &rows, int share, struct lora_table *table)
{
    for (int e = (int)threadIdx.x; e <= rows.experts; e += (int)blockDim.x)
        table->first[e] = rows.offsets != NULL ? rows.offsets[e] : e * rows.rows;
    if (threadIdx.x % 32 != 0 || threadIdx.x > 32) return;
    int before = rows.offsets != NULL ? rows.offsets[0] : 0;
    int count = (rows.offsets != NULL ? rows.offsets[rows.experts] : rows.rows) - before;
    // Two warps: dividing takes its time.
    if (threadIdx.x == 0) {
        table->count = count;
        table->begin = share_begin(rows, count, share);
    } else {
        table->end = share_begin(rows, count, share + 1);
    }
}

/* The segment at an index of the share that is not its end. */
__device__ static inline struct lora_segment segment_at(const struct lora_table *table, int experts,
                                                        int index)
{
    struct lora_segment s;
    s.turn = index / table->count;
    s.row = table->first[0] + index - s.turn * table->count;
    int low = 0; // the last expert that begins at or before the row
    int high = experts;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (table->first[middle] <= s.row) {
            low = middle;
        } else {
            high = middle;
        }
    }
    s.expert = low;
    int left = table->end - index;
    int rows = table->first[low + 1] - s.row;
    s.row_end = s.row + (rows < left ? rows : left);
    s.next = index + s.row_end - s.row;
    s.end = index + rows;
    s.begins = s.row == table->first[low];
    s.whole = s.begins && s.row_end == table->first[low + 1];
    s.later = index > table->begin;
    return s;
}

// ------------------------------------------------------------------ shared memory

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* A place in a ring of `count` stages, and the parity of the turn in which it is. */
struct lora_place {
    unsigned at, parity;

    __device__ __forceinline__ void move(unsigned by, unsigned count)
    {
        at += by;
        while (at >= count) {
            at -= count;
            parity ^= 1;
        }
    }
};

/* What kernels before this one have written may be read; the next may start as multiprocessors get free. */
__device__ static inline void earlier_kernels_end(void)
{
    asm volatile("griddepcontrol.wait;\ngriddepcontrol.launch_dependents;" ::: "memory");
}

/* For rows that are read once: they leave the cache before others do. */
__device__ static inline uint64_t passing_through(void)
{
    uint64_t policy;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

__device__ static inline void copy_passing(unsigned target, const CUtensorMap *map, int at, int line,
                                           unsigned barrier, uint64_t policy)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
                 "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(target),
                 "l"(map), "r"(at), "r"(line), "r"(barrier), "l"(policy)
                 : "memory");
}

/* The box of rows [row, row + count), or its first LORA_ROWS, lines of `bytes`; rows come by eights. */
__device__ static inline void copy_rows(unsigned target, const struct lora_boxes &boxes, int at, int row,
                                        int count, int bytes, unsigned barrier, uint64_t policy)
{
    if (count > LORA_ROWS - LORA_TAIL) {
        copy_passing(target, &boxes.whole, at, row, barrier, policy);
        return;
    }
    for (int i = 0; i < count; i += LORA_TAIL)
        copy_passing(target + (unsigned)(i * bytes), &boxes.tail, at, row + i, barrier, policy);
}

/* Lines that copy_rows brings for so many rows. */
__device__ static inline int copied_lines(int count)
{
    return (count + LORA_TAIL - 1) / LORA_TAIL * LORA_TAIL;
}

/* One warp is done with a stage. */
__device__ static inline void release_stage(unsigned barrier)
{
    __syncwarp();
    if (cuda_lane() == 0) barrier_arrive(barrier);
}

/* Waits for the other threads of a group of 128; names from 1 on. */
__device__ static inline void group_meet(int name)
{
    asm volatile("bar.sync %0, 128;" ::"r"(name) : "memory");
}

/* What this thread wrote to shared memory may be read by the tensor cores after the next barrier. */
__device__ static inline void publish_writes(void)
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* A box's lines from `first` on become zeros, for a group of 128 threads, which has to meet afterwards. */
__device__ static inline void clear_lines(unsigned box, int first)
{
    for (int i = first * 8 + (int)threadIdx.x % 128; i < LORA_ROWS * 8; i += 128) {
        asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(box + (unsigned)i * 16), "r"(0)
                     : "memory");
    }
    publish_writes();
}

// ------------------------------------------------------------------ products with 32 columns

// Operands in shared memory are lines of 64 numbers: by lines of steps, or (INNER) of rows of a, columns of
// b.

#define SUMS_TO_15 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define SUM_AT(i)  "+f"(sum[i][0]), "+f"(sum[i][1]), "+f"(sum[i][2]), "+f"(sum[i][3])

/* sum += a · b, a [64,16] and b [16,32] in shared memory. */
template <bool A_INNER, bool B_INNER>
__device__ __forceinline__ static void multiply_boxes(float (&sum)[4][4], uint64_t a, uint64_t b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {" SUMS_TO_15 "}, "
                 "%16, %17, 1, 1, 1, %18, %19;"
                 : SUM_AT(0), SUM_AT(1), SUM_AT(2), SUM_AT(3)
                 : "l"(a), "l"(b), "n"(A_INNER ? 1 : 0), "n"(B_INNER ? 1 : 0));
}

/* The same with a in registers. */
template <bool B_INNER>
__device__ __forceinline__ static void multiply_box(float (&sum)[4][4], const unsigned (&a)[4], uint64_t b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {" SUMS_TO_15 "}, "
                 "{%16, %17, %18, %19}, %20, 1, 1, 1, %21;"
                 : SUM_AT(0), SUM_AT(1), SUM_AT(2), SUM_AT(3)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(B_INNER ? 1 : 0));
}

#undef SUM_AT
#undef SUMS_TO_15

/* Four 8×8 matrices at an address in shared memory, transposed or not. */
template <bool TRANSPOSED>
__device__ __forceinline__ static void load_fragment(unsigned (&to)[4], unsigned address)
{
    if constexpr (TRANSPOSED) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                     : "r"(address)
                     : "memory");
    } else {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                     : "r"(address)
                     : "memory");
    }
}

// ------------------------------------------------------------------ parts of gradients

// Blocks of one launch leave parts for each other in memory (lora_dxa, lora_da). A part is what a group of
// 128 threads holds in registers, four numbers of a thread after the other; whoever adds it has the same
// places in hand.

#define PARTS_AT_ONCE 16 // on their way to a thread

/*
 * Adds to a number of a gradient to which nobody else adds in the same kernel: no order to depend on, and
 * nobody waits for the old value.
 */
__device__ static inline void add_once(float *to, float value)
{
    asm volatile("red.global.add.f32 [%0], %1;" ::"l"(to), "f"(value) : "memory");
}

__device__ static inline void add_once(float2 *to, float2 value)
{
    asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(value.x), "f"(value.y) : "memory");
}

/* Everything before it, of this thread and of those it has met, is there for whoever sees the word. */
__device__ static inline void set_word(unsigned *word, unsigned value)
{
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}

__device__ static inline unsigned see_word(const unsigned *word)
{
    unsigned value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
    return value;
}

__device__ static inline void add_value(float (&sum)[4], const float4 &value)
{
    sum[0] += value.x;
    sum[1] += value.y;
    sum[2] += value.z;
    sum[3] += value.w;
}

/* One piece of a part: four numbers of this thread. `four` counts pieces. */
__device__ static inline void leave_four(float4 *part, int four, const float (&value)[4])
{
    __stcg(part + four * 128 + threadIdx.x % 128, make_float4(value[0], value[1], value[2], value[3]));
}

__device__ static inline void take_four(const float4 *part, int four, float (&sum)[4])
{
    add_value(sum, __ldcg(part + four * 128 + threadIdx.x % 128));
}

/* The group has left its part; `name` as in group_meet. */
__device__ static inline void part_is_left(unsigned *flag, int name)
{
    group_meet(name);
    if (threadIdx.x % 128 == 0) set_word(flag, 1);
}

/* Waits for a part that this group alone takes: its flag is 0 for the next launch. */
__device__ static inline void part_is_awaited(unsigned *flag, int name)
{
    if (threadIdx.x % 128 == 0) {
        while (see_word(flag) == 0) continue;
        *flag = 0;
    }
    group_meet(name);
}

/*
 * Waits for all blocks of the launch. One thread of each calls it, which has met those whose parts the others
 * are to see. The word's highest bit changes when everybody has come, whatever it was.
 */
__device__ static inline void meet_all(unsigned *word)
{
    unsigned blocks = gridDim.x * gridDim.y;
    bool first = blockIdx.x == 0 && blockIdx.y == 0;
    __threadfence();
    unsigned before = atomicAdd(word, first ? 0x80000000u - (blocks - 1) : 1u);
    while (((before ^ see_word(word)) & 0x80000000u) == 0) continue;
}

/* Four numbers of every share of a run, added in order: the first one's place, the next ones', `gap` apart.
 */
__device__ static inline void add_run(float (&sum)[4], const float4 *first, const float4 *next, int64_t gap,
                                      int count)
{
    float4 value[PARTS_AT_ONCE];
    add_value(sum, __ldcg(first));
    for (int left = count - 1; left > 0; left -= PARTS_AT_ONCE, next += PARTS_AT_ONCE * gap) {
#pragma unroll
        for (int i = 0; i < PARTS_AT_ONCE; i++) value[i] = i < left ? __ldcg(next + i * gap) : float4();
#pragma unroll
        for (int i = 0; i < PARTS_AT_ONCE; i++) add_value(sum, value[i]);
    }
}

#endif

#endif
