/*
 * attention forward by Hopper's own instructions: attention_forward_bf16.cu's arithmetic in the frame of
 * attention_hopper.cuh. A group's scores of the next tile of keys are made while it sums values of the last
 * one (Shah et al. 2024): the weights wait for neither.
 */
#include "ops/cuda/attention/attention_hopper.cuh"

#define KEYS   128 // of a tile
#define STAGES 2

/* Panels. */
template <int D, int DV> struct forward_memory {
    __nv_bfloat16 q[HOPPER_ROWS * D];
    __nv_bfloat16 k[STAGES][KEYS * D];
    __nv_bfloat16 v[STAGES][KEYS * DV];
};

struct forward_call {
    CUtensorMap q, k, v;
    struct mt_attention_forward_args a;
    unsigned *counter;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* `full`: the copy engine is done; `empty`: both groups are. */
struct forward_barriers {
    uint64_t q_full, q_empty;
    uint64_t k_full[STAGES], k_empty[STAGES];
    uint64_t v_full[STAGES], v_empty[STAGES];
    struct handed_places handed;
};

__device__ static void init_barriers(struct forward_barriers *b)
{
    const int warps = HOPPER_GROUPS * HOPPER_GROUP / 32;
    barrier_init(&b->q_full, 1);
    barrier_init(&b->q_empty, warps);
    for (int i = 0; i < STAGES; i++) {
        barrier_init(&b->k_full[i], 1);
        barrier_init(&b->v_full[i], 1);
        barrier_init(&b->k_empty[i], warps);
        barrier_init(&b->v_empty[i], warps);
    }
    init_handed(&b->handed);
    barrier_publish();
}

__device__ static struct work work_of(const struct forward_call &call)
{
    const struct mt_attention_forward_args &a = call.a;
    return work_along(a.q_offsets, a.q_offsets, a.k_offsets, a.q.dim[1], true, call.counter);
}

/* One warp: queries of every tile of this block, and keys and values as stages become free. */
template <int D, int DV>
__device__ static void bring_tiles(const struct forward_call &call, struct forward_memory<D, DV> &m,
                                   struct forward_barriers *b)
{
    struct place place;
    unsigned step = 0;  // tiles of keys so far
    unsigned tiles = 0; // of queries
    int group = (int)(call.a.q.dim[1] / call.a.k.dim[1]);
    for (unsigned turn = 0; take_place(&b->handed, turn, &place); turn++) {
        struct stretch keys = keys_seen(place, place.start, HOPPER_ROWS, call.a.window);
        if (keys.first >= keys.end) continue;
        barrier_wait(&b->q_empty, (tiles++ + 1) & 1);
        if (cuda_lane() == 0) {
            barrier_expect(&b->q_full, sizeof m.q);
            copy_head_tile<HOPPER_ROWS, D>(m.q, &call.q, place.head, place.q_first + place.start, &b->q_full);
        }
        int key_head = place.head / group;
        for (int key = keys.first; key < keys.end; key += KEYS, step++) {
            unsigned at = step % STAGES;
            unsigned parity = (step / STAGES + 1) & 1;
            barrier_wait(&b->k_empty[at], parity);
            if (cuda_lane() == 0) {
                barrier_expect(&b->k_full[at], sizeof m.k[at]);
                copy_head_tile<KEYS, D>(m.k[at], &call.k, key_head, place.k_first + key, &b->k_full[at]);
            }
            barrier_wait(&b->v_empty[at], parity);
            if (cuda_lane() == 0) {
                barrier_expect(&b->v_full[at], sizeof m.v[at]);
                copy_head_tile<KEYS, DV>(m.v[at], &call.v, key_head, place.k_first + key, &b->v_full[at]);
            }
            __syncwarp();
        }
    }
}

/*
 * Scores become weights relative to the highest so far; `factor` is what that makes of older ones. scale: to
 * units of log 2, positive.
 */
__device__ static inline void update_softmax(float (&scores)[KEYS / 8][4], struct running *r,
                                             float (&factor)[2], float scale)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float highest = r->highest[half];
#pragma unroll
        for (int j = 0; j < KEYS / 8; j++) {
            highest = fmaxf(highest, fmaxf(scores[j][2 * half], scores[j][2 * half + 1]));
        }
        highest = fmaxf(highest, __shfl_xor_sync(CUDA_EVERY, highest, 1));
        highest = fmaxf(highest, __shfl_xor_sync(CUDA_EVERY, highest, 2));
        float reference = highest == -INFINITY ? 0.0f : highest * scale; // no key seen yet
        factor[half] = power_of_two(r->highest[half] * scale - reference);
        float sum = 0.0f;
#pragma unroll
        for (int j = 0; j < KEYS / 8; j++) {
#pragma unroll
            for (int e = 2 * half; e < 2 * half + 2; e++) {
                scores[j][e] = power_of_two(scores[j][e] * scale - reference);
                sum += scores[j][e];
            }
        }
        r->sum[half] = r->sum[half] * factor[half] + sum;
        r->highest[half] = highest;
    }
}

/* What a group works on. */
struct rows {
    const struct mt_attention_forward_args &a;
    const struct place &place;
    int query;   // the group's first
    float scale; // of scores
};

/* Scores become weights; returns what is made of older ones in `factor`. */
__device__ static inline void weigh(const struct rows &rows, int key, float (&scores)[KEYS / 8][4],
                                    struct running *r, float (&factor)[2])
{
    int window = rows.a.window;
    int own = rows.query + (int)threadIdx.x % HOPPER_GROUP / 32 * 16; // this warp's first
    if (!all_see(rows.place, rows.query, 64, key, KEYS, window))
        hide_unseen(scores, columns_seen(rows.place, own, key, window));
    update_softmax(scores, r, factor, rows.scale * LOG2_E);
}

/* out, not yet divided by the sum, over all keys; *step counts tiles of keys. */
template <int D, int DV>
__device__ static inline void attend(const struct rows &rows, struct forward_memory<D, DV> &m,
                                     struct forward_barriers *b, const struct stretch &keys, int group,
                                     unsigned *step, float (&out)[DV / 8][4], struct running *r)
{
    const __nv_bfloat16 *q = m.q + group * 64 * WGMMA_LINE;
    float scores[KEYS / 8][4] = {};
    unsigned weights[KEYS / 16][4];
    float factor[2];
    unsigned at = *step % STAGES;
    barrier_wait(&b->k_full[at], *step / STAGES & 1);
    group_pin(scores);
    group_begin();
    begin_scores<D, HOPPER_ROWS>(scores, q, m.k[at]);
    group_commit();
    group_wait<0>();
    group_pin(scores);
    release(&b->k_empty[at]);
    weigh(rows, keys.first, scores, r, factor);
    pack_factors<KEYS / 8>(weights, scores);
    for (int key = keys.first + KEYS; key < keys.end; key += KEYS) {
        unsigned before = *step % STAGES;
        unsigned before_parity = *step / STAGES & 1;
        ++*step;
        at = *step % STAGES;
        barrier_wait(&b->k_full[at], *step / STAGES & 1);
        group_pin(scores);
        group_begin();
        begin_scores<D, HOPPER_ROWS>(scores, q, m.k[at]);
        group_commit();
        barrier_wait(&b->v_full[before], before_parity);
        group_pin(out);
        group_pin(weights);
        group_begin();
        begin_sums(out, weights, m.v[before]);
        group_commit();
        group_wait<1>();
        group_pin(scores);
        release(&b->k_empty[at]);
        weigh(rows, key, scores, r, factor);
        group_wait<0>();
        group_pin(out);
        group_pin(weights);
        release(&b->v_empty[before]);
#pragma unroll
        for (int n = 0; n < DV / 8; n++) {
#pragma unroll
            for (int e = 0; e < 4; e++) out[n][e] *= factor[e / 2];
        }
        pack_factors<KEYS / 8>(weights, scores);
    }
    release(&b->q_empty);
    at = *step % STAGES;
    barrier_wait(&b->v_full[at], *step / STAGES & 1);
    ++*step;
    group_pin(out);
    group_pin(weights);
    group_begin();
    begin_sums(out, weights, m.v[at]);
    group_commit();
    group_wait<0>();
    group_pin(out);
    group_pin(weights);
    release(&b->v_empty[at]);
}

template <int D, int DV>
__device__ static void make_tiles(const struct forward_call &call, struct forward_memory<D, DV> &m,
                                  struct forward_barriers *b, int group)
{
    struct place place;
    unsigned step = 0;
    unsigned tiles = 0;
    for (unsigned turn = 0; take_place(&b->handed, turn, &place); turn++) {
        struct stretch keys = keys_seen(place, place.start, HOPPER_ROWS, call.a.window);
        struct rows rows = {call.a, place, place.start + group * 64, call.a.scale};
        float out[DV / 8][4] = {};
        struct running r = {{-INFINITY, -INFINITY}, {0.0f, 0.0f}};
        if (keys.first < keys.end) {
            barrier_wait(&b->q_full, tiles++ & 1);
            attend<D, DV>(rows, m, b, keys, group, &step, out, &r);
        }
        int64_t row = place.q_first + rows.query + (int)threadIdx.x % HOPPER_GROUP / 32 * 16;
        finish_rows(call.a, out, r, call.a.scale, row, place.q_first + place.queries, place.head);
    }
}

#endif

template <int D, int DV>
__global__ static void __launch_bounds__(HOPPER_THREADS, 1)
    forward_kernel(const __grid_constant__ struct forward_call call)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ unsigned char memory[];
    __shared__ struct forward_barriers barriers;
    struct forward_memory<D, DV> &m =
        *reinterpret_cast<struct forward_memory<D, DV> *>(align_patterns(memory));
    if (threadIdx.x == 0) init_barriers(&barriers);
    __syncthreads();
    // Registers go to those who hold sums.
    if (threadIdx.x < HOPPER_GROUP) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x < 32) {
            bring_tiles(call, m, &barriers);
        } else if (threadIdx.x < 64) {
            hand_places(work_of(call), &barriers.handed);
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        make_tiles<D, DV>(call, m, &barriers, (int)threadIdx.x / HOPPER_GROUP - 1);
    }
#endif
}

template <int D, int DV>
static enum mt_status launch(struct mt_device *device, const struct mt_attention_forward_args *a,
                             void *scratch)
{
    const void *kernel = reinterpret_cast<const void *>(forward_kernel<D, DV>);
    const size_t bytes = bytes_with_patterns<struct forward_memory<D, DV>>();
    enum mt_status status = cuda_allow_shared(device, kernel, bytes, ATTENTION_SHARED);
    struct forward_call call;
    call.a = *a;
    if (status == MT_OK) status = cuda_map_heads(device, &a->q, HOPPER_ROWS, &call.q);
    if (status == MT_OK) status = cuda_map_heads(device, &a->k, KEYS, &call.k);
    if (status == MT_OK) status = cuda_map_heads(device, &a->v, KEYS, &call.v);
    if (status == MT_OK) status = cuda_take_counter(device, scratch, &call.counter);
    if (status != MT_OK) return status;
    unsigned blocks = (unsigned)cuda_state_of(device)->multiprocessors;
    forward_kernel<D, DV><<<blocks, HOPPER_THREADS, bytes, cuda_stream(device)>>>(call);
    return cuda_launched(device, "attention forward");
}

static bool fits(const struct mt_device *device, const struct mt_attention_forward_args *a)
{
    // Rows between the stretches of a cache may hold anything, and would be multiplied by weights of 0.
    return cuda_attention_fits(device, a) && operands_fit_hopper(device, &a->q, &a->k, &a->v, a->scale) &&
           !mt_tensor_present(&a->k_starts);
}

static size_t counter_bytes(const struct mt_device *, const struct mt_attention_forward_args *)
{
    return CUDA_COUNTER_BYTES;
}

static enum mt_status run(struct mt_device *device, const struct mt_attention_forward_args *a, void *scratch)
{
    int64_t width = a->q.dim[2];
    int64_t value = a->v.dim[2];
    if (width <= 64 && value <= 64) return launch<64, 64>(device, a, scratch);
    return width <= 128 ? launch<128, 128>(device, a, scratch) : launch<192, 128>(device, a, scratch);
}

const struct cuda_variant<struct mt_attention_forward_args> cuda_attention_hopper = {
    fits, counter_bytes, run
};
