/*
 * dispatch_plan: a stable counting sort. The (token, slot) pairs are cut into chunks, one block each, that
 * count their experts; one block turns the counts into each chunk's first row per expert; then each chunk
 * places its own pairs by their rank within the chunk. No atomics. Few pairs are sorted by a single block.
 */
#include "ops/cuda/common/common.cuh"

#define CHUNK       CUDA_THREADS // pairs
#define START_PARTS 32           // threads that share an expert's chunks

/* The expert of pair p; -1 past the end. Shared by the block in `experts`. */
__device__ static int32_t load_chunk(const struct mt_tensor &expert, int64_t p, int32_t *experts)
{
    int64_t slots = expert.dim[1];
    int32_t own = p < expert.dim[0] * slots ? cuda_int2(expert, p / slots, p % slots) : -1;
    experts[threadIdx.x] = own;
    __syncthreads();
    return own;
}

/* counts [chunks, n] starts as zeros: the first pair of an expert in the chunk writes how many there are. */
__global__ static void count_kernel(struct mt_dispatch_plan_args a, int32_t *counts)
{
    __shared__ int32_t experts[CHUNK];
    int64_t n = a.offsets.dim[0] - 1;
    int32_t own = load_chunk(a.expert, cuda_thread(), experts);
    if (own < 0) return;
    int32_t count = 0;
    bool first = true;
    for (int i = 0; i < CHUNK; i++) {
        bool same = experts[i] == own;
        count += same;
        if (same && i < (int)threadIdx.x) first = false;
    }
    if (first) counts[(int64_t)blockIdx.x * n + own] = count;
}

/* The chunks [first, last) that thread row `part` of START_PARTS adds up. */
struct chunk_range {
    int64_t first, last;
};

__device__ static inline struct chunk_range chunks_of_part(int64_t chunks, int part)
{
    return {chunks * part / START_PARTS, chunks * (part + 1) / START_PARTS};
}

/* sums[part][own column] = the part's pairs of expert e. All threads of the block call it. */
__device__ static void add_parts(const int32_t *counts, int64_t n, int64_t e, struct chunk_range range,
                                 int32_t *sum)
{
    int32_t total = 0;
#pragma unroll 8
    for (int64_t chunk = range.first; chunk < range.last && e < n; chunk++) total += counts[chunk * n + e];
    __syncthreads(); // what was there has been read
    *sum = total;
    __syncthreads();
}

/* Each number becomes the sum of itself and all before it; by one warp. */
__device__ static void add_up(int32_t *numbers, int64_t count)
{
    int32_t before = 0;
    for (int64_t start = 0; start < count; start += 32) {
        int64_t i = start + cuda_lane();
        int32_t value = i < count ? numbers[i] : 0;
        for (int offset = 1; offset < 32; offset *= 2) {
            int32_t lower = __shfl_up_sync(CUDA_EVERY, value, offset);
            if (cuda_lane() >= offset) value += lower;
        }
        if (i < count) numbers[i] = before + value;
        before += __shfl_sync(CUDA_EVERY, value, 31);
    }
}

/*
 * One block: offsets, and every count becomes the row where its chunk's pairs of that expert begin. 32
 * experts at a time, each by START_PARTS threads.
 */
__global__ static void start_kernel(struct mt_dispatch_plan_args a, int32_t *counts, int64_t chunks)
{
    __shared__ int32_t sums[START_PARTS][32];
    int32_t *offsets = static_cast<int32_t *>(a.offsets.data);
    int64_t n = a.offsets.dim[0] - 1;
    int part = (int)threadIdx.x / 32;
    struct chunk_range range = chunks_of_part(chunks, part);
    for (int64_t e = cuda_lane(); e - cuda_lane() < n; e += 32) {
        add_parts(counts, n, e, range, &sums[part][cuda_lane()]);
        if (part != 0 || e >= n) continue;
        int32_t total = 0;
        for (int i = 0; i < START_PARTS; i++) total += sums[i][cuda_lane()];
        offsets[e + 1] = total;
    }
    if (threadIdx.x == 0) offsets[0] = 0;
    __syncthreads();
    if (part == 0) add_up(offsets + 1, n);
    __syncthreads();
    for (int64_t e = cuda_lane(); e - cuda_lane() < n; e += 32) {
        add_parts(counts, n, e, range, &sums[part][cuda_lane()]);
        if (e >= n) continue;
        int32_t row = offsets[e];
        for (int i = 0; i < part; i++) row += sums[i][cuda_lane()];
        for (int64_t chunk = range.first; chunk < range.last; chunk++) {
            int32_t count = counts[chunk * n + e];
            counts[chunk * n + e] = row;
            row += count;
        }
    }
}

__global__ static void place_kernel(struct mt_dispatch_plan_args a, const int32_t *starts)
{
    __shared__ int32_t experts[CHUNK];
    int64_t n = a.offsets.dim[0] - 1;
    int64_t slots = a.expert.dim[1];
    int64_t p = cuda_thread();
    int32_t own = load_chunk(a.expert, p, experts);
    if (p >= a.expert.dim[0] * slots) return;
    int32_t *slot_of_row = static_cast<int32_t *>(a.slot_of_row.data);
    int32_t row = -1;
    if (own >= 0) {
        int rank = 0;
        for (int i = 0; i < (int)threadIdx.x; i++) rank += experts[i] == own;
        row = starts[(int64_t)blockIdx.x * n + own] + rank;
        slot_of_row[row] = (int32_t)p;
    }
    cuda_int_row(a.row_of_slot, p / slots)[p % slots] = row;
    if (p >= cuda_int1(a.offsets, n)) slot_of_row[p] = -1; // as many rows as pairs: p also counts rows
}

// ------------------------------------------------------------------ few pairs

#define FEW_WARPS   32
#define FEW_THREADS (32 * FEW_WARPS)
#define LANE_PAIRS  4 // of a lane, at the most
#define FEW_PAIRS   (LANE_PAIRS * FEW_THREADS)
#define FEW_EXPERTS 256

/*
 * One block. Each warp counts its own stretch of pairs, 32 at a time, and every pair gets its rank among
 * the stretch's pairs of its expert; then counts become the row where the stretch's pairs of an expert begin.
 */
__global__ static void __launch_bounds__(FEW_THREADS) few_kernel(struct mt_dispatch_plan_args a)
{
    cuda_follow();
    __shared__ int32_t counts[FEW_WARPS][FEW_EXPERTS];
    __shared__ int32_t totals[FEW_EXPERTS]; // of the experts up to each, itself included
    int32_t *slot_of_row = static_cast<int32_t *>(a.slot_of_row.data);
    int n = (int)a.offsets.dim[0] - 1;
    int slots = (int)a.expert.dim[1];
    int pairs = (int)a.expert.dim[0] * slots;
    int rounds = (pairs + FEW_THREADS - 1) / FEW_THREADS;
    int warp = (int)threadIdx.x / 32;
    int start = warp * rounds * 32 + cuda_lane();
    int32_t own[LANE_PAIRS];
    int32_t rank[LANE_PAIRS];
    for (int e = cuda_lane(); e < n; e += 32) counts[warp][e] = 0;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < LANE_PAIRS; i++) {
        int p = start + 32 * i;
        bool there = i < rounds && p < pairs;
        own[i] = there ? cuda_int2(a.expert, p / slots, p % slots) : -1;
        unsigned same = __match_any_sync(CUDA_EVERY, own[i]);
        int before = __popc(same & ((1u << cuda_lane()) - 1));
        rank[i] = own[i] >= 0 ? counts[warp][own[i]] + before : 0;
        __syncwarp(); // all have read it
        if (own[i] >= 0 && before == 0) counts[warp][own[i]] += __popc(same);
        __syncwarp();
    }
    __syncthreads();
    for (int e = (int)threadIdx.x; e < n; e += FEW_THREADS) {
        int32_t row = 0;
#pragma unroll
        for (int w = 0; w < FEW_WARPS; w++) {
            int32_t count = counts[w][e];
            counts[w][e] = row;
            row += count;
        }
        totals[e] = row;
    }
    __syncthreads();
    if (warp == 0) add_up(totals, n);
    __syncthreads();
    for (int e = (int)threadIdx.x; e <= n; e += FEW_THREADS)
        static_cast<int32_t *>(a.offsets.data)[e] = e == 0 ? 0 : totals[e - 1];
#pragma unroll
    for (int i = 0; i < LANE_PAIRS; i++) {
        int p = start + 32 * i;
        if (i >= rounds || p >= pairs) continue;
        int32_t row = -1;
        if (own[i] >= 0) {
            row = (own[i] == 0 ? 0 : totals[own[i] - 1]) + counts[warp][own[i]] + rank[i];
            slot_of_row[row] = p;
        }
        cuda_int_row(a.row_of_slot, p / slots)[p % slots] = row;
        if (p >= totals[n - 1]) slot_of_row[p] = -1; // as many rows as pairs: p also counts rows
    }
}

static bool is_few(const struct mt_dispatch_plan_args *a)
{
    int64_t experts = a->offsets.dim[0] - 1;
    return mt_tensor_count(&a->expert) <= FEW_PAIRS && experts >= 1 && experts <= FEW_EXPERTS;
}

// ------------------------------------------------------------------ launcher

static int64_t chunks_of(const struct mt_dispatch_plan_args *a)
{
    return (mt_tensor_count(&a->expert) + CHUNK - 1) / CHUNK;
}

size_t mt_cuda_dispatch_plan_scratch(const struct mt_device *, const struct mt_dispatch_plan_args *a)
{
    if (is_few(a)) return 0;
    return (size_t)(chunks_of(a) * (a->offsets.dim[0] - 1)) * sizeof(int32_t);
}

enum mt_status mt_cuda_dispatch_plan(struct mt_device *device, const struct mt_dispatch_plan_args *a)
{
    cudaStream_t stream = cuda_stream(device);
    int64_t chunks = chunks_of(a);
    int32_t *counts = static_cast<int32_t *>(device->scratch.data);
    if (is_few(a)) return cuda_launch(device, "dispatch_plan", few_kernel, dim3(1), FEW_THREADS, 0, *a);
    if (chunks > 0) {
        cudaError_t error = cudaMemsetAsync(counts, 0, mt_cuda_dispatch_plan_scratch(device, a), stream);
        enum mt_status status = cuda_status(device, error, "clearing counts");
        if (status != MT_OK) return status;
        count_kernel<<<(unsigned)chunks, CHUNK, 0, stream>>>(*a, counts);
    }
    start_kernel<<<1, 32 * START_PARTS, 0, stream>>>(*a, counts, chunks);
    if (chunks > 0) place_kernel<<<(unsigned)chunks, CHUNK, 0, stream>>>(*a, counts);
    return cuda_launched(device, "dispatch_plan");
}
