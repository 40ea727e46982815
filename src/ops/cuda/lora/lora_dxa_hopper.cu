/*
 * lora_dxa by Hopper's own instructions: dxa and dB from one reading of dy. Blocks that share a cluster
 * share rows, an even share of all linears' and experts'; each has a slice of dy's columns, up to 16 boxes
 * of 64. A slice of B stays in shared memory, rounded to bf16, as long as the rows are of one expert.
 *
 * One thread asks the copy engine for boxes of 64 rows and for the middles that belong to them. One group of
 * warps makes dxa of a box's rows, as far as the slice goes: the blocks of a cluster take turns in adding up
 * each other's sums, in order, and storing them. Two groups make dB, of one box of a pair each, and keep its
 * sums until the segment ends.
 */
#include "ops/cuda/lora/lora_hopper.cuh"

#define THREADS     512
#define MOST_BOXES  16 // of a slice
#define FEW_BOXES   11 // of a slice, beyond which it is better to have more slices
#define OWN_BOXES   (MOST_BOXES / 2)
#define MOST_BLOCKS 4              // of a cluster
#define MIDDLES     3              // tiles of middles in memory
#define PAIR_BYTES  (2 * LORA_BOX) // boxes come in pairs, the last of a slice perhaps alone
#define MOST_RING   12
#define SUM_BYTES   (LORA_ROWS * LORA_RANK * 4)
#define LEAST_SHARE 256       // rows of a share
#define TILE_COST   3         // boxes that would take as long as a tile of rows takes beside its boxes
#define MOST_STRIDE (1 << 16) // of B: places in it have 31 bits
#define FIXED_BYTES 4096      // of shared memory for barriers and the table of experts

struct dxa_call {
    struct lora_boxes dy[MT_LORA_LINEARS], xa[MT_LORA_LINEARS];
    struct lora_rows rows;        // a linear is a turn
    int columns[MT_LORA_LINEARS]; // of dy
    int blocks;                   // of a cluster
    int boxes;                    // of the longest slice
    int ring;                     // pairs in memory
    int rank[MT_LORA_LINEARS];
    int64_t b_stride[MT_LORA_LINEARS], db_stride[MT_LORA_LINEARS];
    const float *any_b[MT_LORA_LINEARS]; // one of them that is there
    struct tile_output dxa[MT_LORA_LINEARS];
    float db_scale[MT_LORA_LINEARS];
    float4 *part;                                  // [shares,2,blocks,2 groups,part_fours]
    unsigned *meetings;                            // a word of all blocks, one of each group
    struct lora_run run[MT_LORA_LINEARS];          // without offsets
    const float *b[MT_LORA_LINEARS][LORA_EXPERTS]; // NULL: zeros
    float *db[MT_LORA_LINEARS][LORA_EXPERTS];      // NULL: not wanted
};

/* Fours of numbers in a part: a group's sums of every other box of the longest slice. */
__host__ __device__ static inline int64_t part_fours(const struct dxa_call &call)
{
    return (call.boxes + 1) / 2 * 4 * 128;
}

/* Bytes of shared memory before the ring of boxes. */
__host__ __device__ static inline unsigned before_ring(const struct dxa_call &call)
{
    unsigned sums = call.blocks > 1 ? (unsigned)call.blocks * SUM_BYTES : 0;
    return (unsigned)call.boxes * LORA_WEIGHT + sums + MIDDLES * LORA_BOX;
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* Addresses in shared memory. */
struct dxa_memory {
    unsigned weights, sums, middles, ring;
    unsigned full, empty;               // barriers of the ring
    unsigned middle_full, middle_empty; // and of the middles
    unsigned ready, taken;              // and of the cluster's sums: of this block's turns, of everybody's
};

/* A block's boxes of columns. */
struct slice {
    int first, count;
};

// ------------------------------------------------------------------ clusters

__device__ static inline unsigned block_rank(void)
{
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

/* The same place in another block of the cluster. */
__device__ static inline unsigned address_in(unsigned address, unsigned rank)
{
    unsigned there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    return there;
}

__device__ static inline void cluster_meet(void)
{
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
}

/* One warp's arrival at a barrier of another block, whom it lets write what the warp has read. */
__device__ static inline void arrive_in(unsigned barrier, unsigned rank)
{
    if (cuda_lane() == 0)
        asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(address_in(barrier, rank))
                     : "memory");
}

/* Four numbers to a block of the cluster, whose barrier counts their bytes: no fence is waited for. */
__device__ static inline void send_four(unsigned to, unsigned barrier, const float (&four)[4])
{
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], "
                 "{%1, %2, %3, %4}, [%5];" ::"r"(to),
                 "f"(four[0]), "f"(four[1]), "f"(four[2]), "f"(four[3]), "r"(barrier)
                 : "memory");
}

/* This block's slice of a linear. */
__device__ static inline struct slice slice_of(const struct dxa_call &call, int turn)
{
    int boxes = (call.columns[turn] + WGMMA_LINE - 1) / WGMMA_LINE;
    int rank = (int)block_rank();
    struct slice slice = {boxes * rank / call.blocks, 0};
    slice.count = boxes * (rank + 1) / call.blocks - slice.first;
    return slice;
}

// ------------------------------------------------------------------ the thread that brings boxes

__device__ static void bring_boxes(const struct dxa_call &call, const struct lora_table *table,
                                   const struct dxa_memory &m)
{
    struct lora_place pair = {0, 1};
    struct lora_place middle = {0, 1};
    struct lora_segment s;
    const uint64_t policy = passing_through();
    for (int index = table->begin; index < table->end; index = s.next) {
        s = segment_at(table, call.rows.experts, index);
        const struct slice slice = slice_of(call, s.turn);
        for (int row = s.row; row < s.row_end; row += LORA_ROWS) {
            int count = s.row_end - row < LORA_ROWS ? s.row_end - row : LORA_ROWS;
            unsigned bytes = (unsigned)copied_lines(count) * WGMMA_LINE * 2;
            barrier_wait(m.middle_empty + 8 * middle.at, middle.parity);
            barrier_expect(m.middle_full + 8 * middle.at, bytes);
            copy_rows(m.middles + middle.at * LORA_BOX, call.xa[s.turn], 0, row, count, WGMMA_LINE * 2,
                      m.middle_full + 8 * middle.at, policy);
            middle.move(1, MIDDLES);
            for (int i = 0; i < slice.count; i += 2, pair.move(1, (unsigned)call.ring)) {
                int boxes = i + 1 < slice.count ? 2 : 1;
                unsigned full = m.full + 8 * pair.at;
                barrier_wait(m.empty + 8 * pair.at, pair.parity);
                barrier_expect(full, bytes * (unsigned)boxes);
                for (int j = 0; j < boxes; j++)
                    copy_rows(m.ring + pair.at * PAIR_BYTES + (unsigned)j * LORA_BOX, call.dy[s.turn],
                              (slice.first + i + j) * WGMMA_LINE, row, count, WGMMA_LINE * 2, full, policy);
            }
        }
    }
}

// ------------------------------------------------------------------ dxa

#define EIGHTS 8 // of columns that a warp has on their way

/*
 * B's slice, [columns,rank] of f32, to lines of 64 steps, a rank each: a lane has a rank. `warp` of `warps`
 * that share the work. Everybody loads, places that are not there being replaced by others: branches would
 * take longer than the loads.
 */
__device__ static void load_weights(const struct dxa_call &call, const struct lora_segment &s,
                                    const struct dxa_memory &m, int warp, int warps)
{
    const struct slice slice = slice_of(call, s.turn);
    const int columns = call.columns[s.turn];
    int rank = cuda_lane();
    const float *b = call.b[s.turn][s.expert];
    bool there = b != NULL && rank < call.rank[s.turn];
    int stride = (int)call.b_stride[s.turn];
    if (b == NULL) b = call.any_b[s.turn];
    if (there) b += rank;
    unsigned own = m.weights + (unsigned)rank * WGMMA_LINE * 2;
    for (int first = warp; first < slice.count * 8; first += warps * EIGHTS) {
        float value[EIGHTS][8];
#pragma unroll
        for (int i = 0; i < EIGHTS; i++) {
            int column = slice.first * WGMMA_LINE + (first + warps * i) * 8;
#pragma unroll
            for (int j = 0; j < 8; j++) {
                int at = column + j < columns ? column + j : columns - 1;
                value[i][j] = b[at * stride];
            }
        }
#pragma unroll
        for (int i = 0; i < EIGHTS; i++) {
            int eight = first + warps * i;
            int left = columns - slice.first * WGMMA_LINE - eight * 8;
            unsigned packed[4];
#pragma unroll
            for (int j = 0; j < 4; j++)
                packed[j] = there && 2 * j < left ? pack_bf16(value[i][2 * j], value[i][2 * j + 1]) : 0;
            unsigned place = own + (unsigned)(eight / 8 * LORA_WEIGHT + ((eight % 8) ^ (rank % 8)) * 16);
            if (eight < slice.count * 8)
                asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(place), "r"(packed[0]),
                             "r"(packed[1]), "r"(packed[2]), "r"(packed[3])
                             : "memory");
        }
    }
    publish_writes();
}

/* A tile of rows whose sums this block adds up. */
struct pending {
    bool there;
    unsigned tile;
    int turn, row, row_end;
};

/* This block's sums of a tile, sent to the block of the cluster whose turn it is. */
__device__ static void hand_over(const struct dxa_call &call, const struct dxa_memory &m, unsigned tile,
                                 const float (&sum)[4][4])
{
    unsigned blocks = (unsigned)call.blocks;
    unsigned to = tile % blocks;
    unsigned place = m.sums + block_rank() * SUM_BYTES + threadIdx.x % 128 * 16;
    unsigned there = address_in(place, to);
    unsigned ready = address_in(m.ready, to);
    if (to == block_rank() && threadIdx.x % 128 == 0) barrier_expect(m.ready, blocks * SUM_BYTES);
    barrier_wait(m.taken + 8 * to, (tile / blocks & 1) ^ 1);
#pragma unroll
    for (unsigned i = 0; i < 4; i++) send_four(there + i * 2048, ready, sum[i]);
}

/* The sum of what all blocks have sent, in their order. */
__device__ static void finish_tile(const struct dxa_call &call, const struct dxa_memory &m,
                                   struct pending *tile)
{
    if (!tile->there) return;
    unsigned blocks = (unsigned)call.blocks;
    float sum[4][4] = {};
    barrier_wait(m.ready, tile->tile / blocks & 1);
    for (unsigned rank = 0; rank < blocks; rank++) {
        unsigned place = m.sums + rank * SUM_BYTES + threadIdx.x % 128 * 16;
#pragma unroll
        for (unsigned i = 0; i < 4; i++) {
            float part[4];
            asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                         : "=f"(part[0]), "=f"(part[1]), "=f"(part[2]), "=f"(part[3])
                         : "r"(place + i * 2048)
                         : "memory");
#pragma unroll
            for (int j = 0; j < 4; j++) sum[i][j] += part[j];
        }
    }
    group_pin(sum); // everything has been read
    __syncwarp();
    for (unsigned rank = 0; rank < blocks; rank++) arrive_in(m.taken + 8 * block_rank(), rank);
    store_sums<4>(call.dxa[tile->turn], sum, tile->row + (int)threadIdx.x % 128 / 32 * 16, tile->row_end, 0,
                  call.rank[tile->turn]);
    tile->there = false;
}

/* dy's slice of a tile times B's: a pair is given back when the next one's products are under way. */
__device__ __forceinline__ static void multiply_slice(const struct dxa_call &call, const struct dxa_memory &m,
                                                      int boxes, struct lora_place *pair, float (&sum)[4][4])
{
    const uint64_t ring = operand_at(m.ring, 0);
    uint64_t weight = operand_at(m.weights, 0);
    unsigned before = 0;
    for (int i = 0; i < boxes; i += 2) {
        uint64_t x = operand_after(ring, pair->at * PAIR_BYTES);
        barrier_wait(m.full + 8 * pair->at, pair->parity);
        group_pin(sum);
        group_begin();
#pragma unroll
        for (unsigned k = 0; k < 4; k++)
            multiply_boxes<false, false>(sum, operand_after(x, k * 32), operand_after(weight, k * 32));
        if (i + 1 < boxes) {
            group_begin();
#pragma unroll
            for (unsigned k = 0; k < 4; k++)
                multiply_boxes<false, false>(sum, operand_after(x, LORA_BOX + k * 32),
                                             operand_after(weight, LORA_WEIGHT + k * 32));
        }
        group_commit();
        group_wait<1>();
        if (i > 0) release_stage(m.empty + 8 * before);
        before = pair->at;
        pair->move(1, (unsigned)call.ring);
        weight = operand_after(weight, 2 * LORA_WEIGHT);
    }
    group_wait<0>();
    group_pin(sum);
    release_stage(m.empty + 8 * before);
}

/* The first segment's weights are there already. */
__device__ static void make_dxa(const struct dxa_call &call, const struct lora_table *table,
                                const struct dxa_memory &m)
{
    struct lora_place pair = {0, 0};
    unsigned tile = 0;
    struct pending own = {};
    struct lora_segment s;
    for (int index = table->begin; index < table->end; index = s.next) {
        s = segment_at(table, call.rows.experts, index);
        const struct slice slice = slice_of(call, s.turn);
        if (s.later) {
            group_meet(1); // nobody multiplies by the weights of the segment before
            load_weights(call, s, m, (int)threadIdx.x % 128 / 32, 4);
            group_meet(1);
        }
        for (int row = s.row; row < s.row_end; row += LORA_ROWS, tile++) {
            float sum[4][4] = {};
            multiply_slice(call, m, slice.count, &pair, sum);
            if (call.blocks == 1) {
                store_sums<4>(call.dxa[s.turn], sum, row + (int)threadIdx.x % 128 / 32 * 16, s.row_end, 0,
                              call.rank[s.turn]);
                continue;
            }
            hand_over(call, m, tile, sum);
            finish_tile(call, m, &own); // of an earlier tile: nobody has to be waited for
            if (tile % (unsigned)call.blocks == block_rank()) own = {true, tile, s.turn, row, s.row_end};
        }
    }
    finish_tile(call, m, &own);
}

// ------------------------------------------------------------------ dB

/* Adds a box's fourth of a gradient, eight ranks of it: `column` and `at` are the thread's first. */
__device__ __forceinline__ static void add_gradient(const struct dxa_call &call, int turn, int expert,
                                                    const float (&sum)[4], int column, int at)
{
    float scale = call.db_scale[turn];
    if (at >= call.rank[turn]) return;
    float *place = call.db[turn][expert] + column * call.db_stride[turn] + at;
    if (column < call.columns[turn])
        add_once(reinterpret_cast<float2 *>(place), make_float2(scale * sum[0], scale * sum[1]));
    if (column + 8 < call.columns[turn])
        add_once(reinterpret_cast<float2 *>(place + 8 * call.db_stride[turn]),
                 make_float2(scale * sum[2], scale * sum[3]));
}

/* A group's part of a share. */
__device__ static inline float4 *part_at(const struct dxa_call &call, int share, bool later, int half)
{
    int64_t place = ((share * 2 + (later ? 1 : 0)) * call.blocks + (int)block_rank()) * 2 + half;
    return call.part + place * part_fours(call);
}

__device__ static inline unsigned *flag_at(const struct dxa_call &call, int share, int half)
{
    return call.meetings + 1 + (share * call.blocks + (int)block_rank()) * 2 + half;
}

__device__ __forceinline__ static void leave_part(float4 *part, const float (&sum)[OWN_BOXES][4][4], int own)
{
#pragma unroll
    for (int i = 0; i < OWN_BOXES; i++) {
        if (i >= own) continue;
#pragma unroll
        for (int j = 0; j < 4; j++) leave_four(part, i * 4 + j, sum[i][j]);
    }
}

__device__ __forceinline__ static void take_part(const float4 *part, float (&sum)[OWN_BOXES][4][4], int own)
{
#pragma unroll
    for (int i = 0; i < OWN_BOXES; i++) {
        if (i >= own) continue;
#pragma unroll
        for (int j = 0; j < 4; j++) take_four(part, i * 4 + j, sum[i][j]);
    }
}

/* What the shares behind this one have of the expert. */
__device__ __forceinline__ static void take_parts(const struct dxa_call &call, const struct lora_table *table,
                                                  const struct lora_segment &s, int half,
                                                  float (&sum)[OWN_BOXES][4][4], int own)
{
    int share = (int)blockIdx.x / call.blocks + 1;
    int begin = s.next;
    while (begin < s.end) {
        int next = share_begin(call.rows, table->count, share + 1);
        if (begin < next) {
            part_is_awaited(flag_at(call, share, half), 2 + half);
            take_part(part_at(call, share, false, half), sum, own);
        }
        begin = next;
        share++;
    }
}

/* A segment's sums, of every other box of the slice, to the gradient or to whoever adds it. */
__device__ __forceinline__ static void give_gradient(const struct dxa_call &call,
                                                     const struct lora_table *table,
                                                     const struct lora_segment &s, int half,
                                                     float (&sum)[OWN_BOXES][4][4])
{
    const struct slice slice = slice_of(call, s.turn);
    const int own = (slice.count - half + 1) / 2;
    const int share = (int)blockIdx.x / call.blocks;
    if (call.db[s.turn][s.expert] == NULL) return;
    if (!s.whole && (call.rows.offsets == NULL || !s.begins)) {
        leave_part(part_at(call, share, s.later, half), sum, own);
        if (call.rows.offsets != NULL) part_is_left(flag_at(call, share, half), 2 + half);
        return;
    }
    if (!s.whole) take_parts(call, table, s, half, sum, own);
    int column = (slice.first + half) * WGMMA_LINE + (int)threadIdx.x % 128 / 32 * 16 + cuda_lane() / 4;
#pragma unroll
    for (int i = 0; i < OWN_BOXES; i++) {
        if (i >= own) continue;
#pragma unroll
        for (int j = 0; j < 4; j++)
            add_gradient(call, s.turn, s.expert, sum[i][j], column + 2 * i * WGMMA_LINE,
                         j * 8 + cuda_lane() % 4 * 2);
    }
}

/* Without offsets: a share's piece of the gradients of which all shares have left parts, by its warps. */
__device__ static void join_parts(const struct dxa_call &call, int half)
{
    const int share = (int)blockIdx.x / call.blocks;
    for (int turn = 0; turn < call.rows.turns; turn++) {
        const struct lora_run run = call.run[turn];
        const struct slice slice = slice_of(call, turn);
        const int pieces = (slice.count - half + 1) / 2 * 16; // a warp's fours of a box
        if (run.count < 2 || call.db[turn][0] == NULL) continue;
        for (int i = share * 4 + (int)threadIdx.x % 128 / 32; i < pieces; i += call.rows.shares * 4) {
            float sum[4] = {};
            int place = i * 32 + cuda_lane();
            add_run(sum, part_at(call, run.first, run.late, half) + place,
                    part_at(call, run.first + 1, false, half) + place, part_fours(call) * call.blocks * 4,
                    run.count);
            add_gradient(call, turn, 0, sum,
                         (slice.first + i / 16 * 2 + half) * WGMMA_LINE + i % 4 * 16 + cuda_lane() / 4,
                         i % 16 / 4 * 8 + cuda_lane() % 4 * 2);
        }
    }
}

/* One tile of rows: a box of each pair, added to sums of its own; given back while the next is under way. */
__device__ __forceinline__ static void add_tile(const struct dxa_call &call, const struct dxa_memory &m,
                                                int boxes, int half, int rows, unsigned middle,
                                                struct lora_place *pair, float (&sum)[OWN_BOXES][4][4])
{
    unsigned before = 0;
    const uint64_t xa = operand_at(m.middles + middle * LORA_BOX, 0);
    if (rows < LORA_ROWS) clear_lines(m.middles + middle * LORA_BOX, rows);
#pragma unroll
    for (int i = 0; i < OWN_BOXES; i++) {
        if (2 * i >= boxes) continue;
        unsigned place = m.ring + pair->at * PAIR_BYTES + (unsigned)half * LORA_BOX;
        barrier_wait(m.full + 8 * pair->at, pair->parity);
        if (2 * i + half < boxes) {
            if (rows < LORA_ROWS) {
                clear_lines(place, rows);
                group_meet(2 + half);
            }
            const uint64_t dy = operand_at(place, 0);
            group_pin(sum[i]);
            group_begin();
#pragma unroll
            for (unsigned k = 0; k < 4; k++) // sixteen lines further each time
                multiply_boxes<true, true>(sum[i], operand_after(dy, k * 2048), operand_after(xa, k * 2048));
            group_commit();
        }
        group_wait<1>();
        if (i > 0) release_stage(m.empty + 8 * before);
        before = pair->at;
        pair->move(1, (unsigned)call.ring);
    }
    group_wait<0>();
#pragma unroll
    for (int i = 0; i < OWN_BOXES; i++) group_pin(sum[i]);
    release_stage(m.empty + 8 * before);
}

__device__ static void make_gradients(const struct dxa_call &call, const struct lora_table *table,
                                      const struct dxa_memory &m, int half)
{
    struct lora_place pair = {0, 0};
    struct lora_place middle = {0, 0};
    struct lora_segment s;
    for (int index = table->begin; index < table->end; index = s.next) {
        float sum[OWN_BOXES][4][4] = {};
        s = segment_at(table, call.rows.experts, index);
        const int boxes = slice_of(call, s.turn).count;
        for (int row = s.row; row < s.row_end; row += LORA_ROWS) {
            int rows = s.row_end - row < LORA_ROWS ? s.row_end - row : LORA_ROWS;
            barrier_wait(m.middle_full + 8 * middle.at, middle.parity);
            add_tile(call, m, boxes, half, rows, middle.at, &pair, sum);
            release_stage(m.middle_empty + 8 * middle.at);
            middle.move(1, MIDDLES);
        }
        give_gradient(call, table, s, half, sum);
    }
    if (call.rows.offsets != NULL || call.rows.shares == 1) return;
    asm volatile("bar.sync 5, 256;" ::: "memory"); // of both groups that make gradients
    if (threadIdx.x == 256) meet_all(call.meetings);
    asm volatile("bar.sync 5, 256;" ::: "memory");
    join_parts(call, half);
}

#endif

__global__ static void __launch_bounds__(THREADS, 1) dxa_kernel(const __grid_constant__ struct dxa_call call)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ unsigned char memory[];
    __shared__ uint64_t full[MOST_RING], empty[MOST_RING];
    __shared__ uint64_t middle_full[MIDDLES], middle_empty[MIDDLES];
    __shared__ uint64_t ready, taken[MOST_BLOCKS];
    __shared__ struct lora_table table;
    unsigned aligned = (shared_address(memory) + WGMMA_PATTERN - 1) / WGMMA_PATTERN * WGMMA_PATTERN;
    struct dxa_memory m = {};
    m.weights = aligned;
    m.middles = m.weights + (unsigned)call.boxes * LORA_WEIGHT;
    m.ring = aligned + before_ring(call);
    m.sums = m.middles + MIDDLES * LORA_BOX;
    m.full = shared_address(full);
    m.empty = shared_address(empty);
    m.middle_full = shared_address(middle_full);
    m.middle_empty = shared_address(middle_empty);
    m.ready = shared_address(&ready);
    m.taken = shared_address(taken);
    if (threadIdx.x == 0) {
        for (int i = 0; i < call.ring; i++) {
            barrier_init(&full[i], 1);
            barrier_init(&empty[i], 3 * 4); // all warps that multiply
        }
        for (int i = 0; i < MIDDLES; i++) {
            barrier_init(&middle_full[i], 1);
            barrier_init(&middle_empty[i], 2 * 4);
        }
        barrier_init(&ready, 1);
        for (int i = 0; i < call.blocks; i++) barrier_init(&taken[i], 4);
        barrier_publish();
    }
    earlier_kernels_end();
    make_table(call.rows, (int)blockIdx.x / call.blocks, &table);
    __syncthreads();
    cluster_meet();
    if (threadIdx.x >= 128 && table.begin < table.end) {
        struct lora_segment first = segment_at(&table, call.rows.experts, table.begin);
        load_weights(call, first, m, (int)threadIdx.x / 32 - 4, THREADS / 32 - 4);
    }
    if (threadIdx.x >= 128) asm volatile("bar.sync 4, 384;" ::: "memory");
    // Registers go to those who hold sums.
    if (threadIdx.x < 128) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0) bring_boxes(call, &table, m);
    } else if (threadIdx.x < 256) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 112;");
        make_dxa(call, &table, m);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 176;");
        make_gradients(call, &table, m, (int)threadIdx.x / 128 - 2);
    }
    __syncwarp();
    cluster_meet(); // nobody leaves while others may read its sums
#endif
}

// ------------------------------------------------------------------ launch

static bool linear_fits(const struct mt_lora_dxa_args *l, const struct mt_lora_pair_gradient *linear)
{
    if (linear->db == NULL || !cuda_lora_reads(&linear->dy) || !cuda_lora_reads(&linear->xa)) return false;
    if (!cuda_is_float_or_bf16(&linear->dxa) || linear->dxa.dim[1] > LORA_RANK || linear->dxa.dim[1] % 2 != 0)
        return false;
    if (linear->dy.dim[1] > MOST_BLOCKS * MOST_BOXES * WGMMA_LINE) return false;
    const struct mt_tensor *b = cuda_uniform(linear->b, l->experts);
    if (b == NULL || b->stride[0] > MOST_STRIDE) return false;
    return cuda_lora_matrices_fit(linear->b, l->experts) && cuda_lora_matrices_fit(linear->db, l->experts);
}

static bool fits(const struct mt_device *device, const struct mt_lora_dxa_args *l)
{
    if (!cuda_lora_suits(device, l->linear[0].dxa.dim[0], l->experts, &l->offsets)) return false;
    for (int i = 0; i < l->linears; i++) {
        if (!linear_fits(l, &l->linear[i])) return false;
    }
    return true;
}

static int boxes_of(const struct mt_lora_pair_gradient *linear)
{
    return (int)((linear->dy.dim[1] + WGMMA_LINE - 1) / WGMMA_LINE);
}

/* Blocks of a cluster, for dy of so many boxes. */
static int blocks_of(int boxes)
{
    return boxes <= FEW_BOXES ? 1 : boxes <= 2 * FEW_BOXES ? 2 : MOST_BLOCKS;
}

/* Linears from `first` on that go together: each has a box for every block. */
static int linears_together(const struct mt_lora_dxa_args *l, int first)
{
    int least = boxes_of(&l->linear[first]);
    int most = least;
    int count = 1;
    for (; first + count < l->linears; count++) {
        int boxes = boxes_of(&l->linear[first + count]);
        if (boxes < least) least = boxes;
        if (boxes > most) most = boxes;
        if (least < blocks_of(most)) break;
    }
    return count;
}

static struct lora_launch launch_of(const struct dxa_call *call)
{
    struct lora_launch launch = {};
    launch.kernel = reinterpret_cast<const void *>(dxa_kernel);
    launch.grid = dim3((unsigned)(call->rows.shares * call->blocks));
    launch.threads = THREADS;
    launch.shared_bytes = before_ring(*call) + (size_t)call->ring * PAIR_BYTES + WGMMA_PATTERN;
    launch.blocks = call->blocks;
    return launch;
}

/* Fewer shares, if so many clusters do not run at once: parts of the device may have multiprocessors left
 * over.
 */
static void limit_shares(const struct mt_device *device, struct dxa_call *call)
{
    struct lora_launch launch = launch_of(call);
    if (call->blocks == 1) return;
    int most = cuda_lora_clusters(device, &launch);
    if (most > 0 && most < call->rows.shares) call->rows.shares = most;
}

/* The sizes of a launch of `linears` linears. */
static struct dxa_call sizes_of(const struct mt_device *device, const struct mt_lora_dxa_args *l, int first,
                                int linears)
{
    struct dxa_call call = {};
    int64_t rows = l->linear[first].dxa.dim[0];
    int most = 0;
    for (int i = 0; i < linears; i++) {
        call.columns[i] = (int)l->linear[first + i].dy.dim[1];
        if (boxes_of(&l->linear[first + i]) > most) most = boxes_of(&l->linear[first + i]);
    }
    call.blocks = blocks_of(most);
    call.boxes = (most + call.blocks - 1) / call.blocks;
    call.rows.experts = l->experts;
    call.rows.rows = (int)rows;
    call.rows.turns = linears;
    for (int i = 0; i < linears; i++)
        call.rows.cost[i] = TILE_COST + (boxes_of(&l->linear[first + i]) + call.blocks - 1) / call.blocks;
    if (mt_tensor_present(&l->offsets)) call.rows.offsets = static_cast<const int32_t *>(l->offsets.data);
    size_t left = cuda_state_of(device)->shared_bytes - FIXED_BYTES - WGMMA_PATTERN - before_ring(call);
    call.ring = lora_least((int64_t)(left / PAIR_BYTES), MOST_RING);
    // A share of few rows would write more of its gradient than it reads.
    call.rows.shares = lora_least(cuda_state_of(device)->multiprocessors / call.blocks,
                                  (rows * linears + LEAST_SHARE - 1) / LEAST_SHARE);
    return call;
}

static size_t scratch_bytes(const struct mt_device *device, const struct mt_lora_dxa_args *l)
{
    size_t most = 0;
    for (int first = 0; first < l->linears; first += linears_together(l, first)) {
        struct dxa_call call = sizes_of(device, l, first, linears_together(l, first));
        size_t bytes = cuda_floats((int64_t)call.rows.shares * call.blocks * 4 * part_fours(call) * 4);
        if (bytes > most) most = bytes;
    }
    return most;
}

/* What belongs to one linear. */
static enum mt_status add_linear(struct mt_device *device, const struct mt_lora_dxa_args *l,
                                 const struct mt_lora_pair_gradient *linear, int i, struct dxa_call *call)
{
    call->db_scale[i] = linear->db_scale;
    call->rank[i] = (int)linear->dxa.dim[1];
    call->dxa[i] = tile_output_of(&linear->dxa, linear->scale, 0.0f);
    const struct mt_tensor *any = cuda_uniform(linear->b, l->experts);
    call->any_b[i] = static_cast<const float *>(any->data);
    call->b_stride[i] = any->stride[0];
    call->db_stride[i] = cuda_uniform(linear->db, l->experts)->stride[0];
    for (int e = 0; e < l->experts; e++) {
        if (mt_tensor_present(&linear->b[e])) call->b[i][e] = static_cast<const float *>(linear->b[e].data);
        if (mt_tensor_present(&linear->db[e])) call->db[i][e] = static_cast<float *>(linear->db[e].data);
    }
    enum mt_status status = cuda_lora_boxes(device, &linear->dy, &call->dy[i]);
    return status == MT_OK ? cuda_lora_boxes(device, &linear->xa, &call->xa[i]) : status;
}

static enum mt_status run(struct mt_device *device, const struct mt_lora_dxa_args *l, void *scratch)
{
    enum mt_status status = MT_OK;
    for (int first = 0; first < l->linears && status == MT_OK; first += linears_together(l, first)) {
        int linears = linears_together(l, first);
        struct dxa_call call = sizes_of(device, l, first, linears);
        limit_shares(device, &call);
        call.part = static_cast<float4 *>(scratch);
        call.meetings = cuda_state_of(device)->meetings;
        for (int i = 0; i < linears; i++) call.run[i] = lora_run_of(call.rows, i);
        for (int i = 0; i < linears && status == MT_OK; i++)
            status = add_linear(device, l, &l->linear[first + i], i, &call);
        struct lora_launch launch = launch_of(&call);
        if (status == MT_OK) status = cuda_lora_launch(device, &launch, &call, "lora_dxa");
    }
    return status;
}

const struct cuda_variant<struct mt_lora_dxa_args> cuda_lora_dxa_hopper = {
    fits, scratch_bytes, run
};
