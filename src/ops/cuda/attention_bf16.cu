/*
 * attention through cuBLAS on bf16 roundings of q, k, v and dout, sums in f32: a tile of queries of one
 * sequence, for all heads at once, against all the keys it sees. Scores of a tile are in scratch, never those
 * of a batch.
 *
 *   forward    S = scale q kᵀ; P = softmax(S); out = P v
 *   backward   P = exp(S - lse); dP = dout vᵀ; dS = scale P (dP - δ); dq = dS k; dk += dSᵀ q; dv += Pᵀ dout
 *
 * Products are batched over the key heads; the heads of a group take turns, so that nothing is added from two
 * sides at once.
 */
#include "ops/cuda/attention_bf16.cuh"

#include "ops/cuda/gemm.cuh"
#include "ops/cuda/sums.cuh"

#define SCORES_AT_ONCE  ((int64_t)16 << 20)
#define OFFSETS_AT_ONCE 256 // sequences whose offsets are on the stack at a time
#define LEAST_QUERIES   64  // of an average sequence

// ------------------------------------------------------------------ operands

/* [T,H,D] to contiguous bf16. */
__global__ static void round_heads_kernel(struct mt_tensor from, __nv_bfloat16 *to)
{
    int64_t width = from.dim[2];
    int64_t heads = from.dim[1];
    const float *data = static_cast<const float *>(from.data);
    for (int64_t i = cuda_thread(); i < from.dim[0] * heads * width; i += cuda_thread_count()) {
        int64_t line = i / width; // token and head
        int64_t token = line / heads;
        int64_t at = token * from.stride[0] + (line - token * heads) * from.stride[1] + i - line * width;
        to[i] = __float2bfloat16_rn(data[at]);
    }
}

__global__ static void zero_heads_kernel(struct mt_tensor t)
{
    int64_t width = t.dim[2];
    int64_t heads = t.dim[1];
    float *data = static_cast<float *>(t.data);
    for (int64_t i = cuda_thread(); i < t.dim[0] * heads * width; i += cuda_thread_count()) {
        int64_t line = i / width;
        int64_t token = line / heads;
        data[token * t.stride[0] + (line - token * heads) * t.stride[1] + i - line * width] = 0.0f;
    }
}

static __nv_bfloat16 *round_heads(struct mt_device *device, const struct mt_tensor *from, char **scratch)
{
    __nv_bfloat16 *to = reinterpret_cast<__nv_bfloat16 *>(*scratch);
    int64_t count = mt_tensor_count(from);
    *scratch += cuda_halves(count);
    if (count > 0) {
        round_heads_kernel<<<cuda_blocks(count), CUDA_THREADS, 0, cuda_stream(device)>>>(*from, to);
    }
    return to;
}

static struct mt_tensor matrix(const void *data, enum mt_dtype dtype, int64_t rows, int64_t columns,
                               int64_t stride)
{
    struct mt_tensor t = mt_tensor_2d(const_cast<void *>(data), dtype, rows, columns);
    t.stride[0] = stride;
    return t;
}

/* Heads of one kind in rounded memory or in a caller's tensor: where row r of key head 0 and group member g
 * is. */
struct heads {
    void *data;
    enum mt_dtype dtype;
    int64_t row, head; // elements between tokens, between heads
    int64_t width;
    int64_t group; // heads per key head: 1 for keys and values
};

static struct heads rounded_heads(void *data, const struct mt_tensor *like, int64_t group)
{
    struct heads h = {data, MT_BF16, like->dim[1] * like->dim[2], like->dim[2], like->dim[2], group};
    return h;
}

static struct heads heads_of(const struct mt_tensor *t, int64_t group)
{
    struct heads h = {t->data, t->dtype, t->stride[0], t->stride[1], t->dim[2], group};
    return h;
}

/* Rows [first, first + rows) of group member g of key head 0; the other key heads follow `step_of` later. */
static struct mt_tensor rows_of(const struct heads &h, int64_t g, int64_t first, int64_t rows)
{
    size_t bytes = h.dtype == MT_BF16 ? 2 : 4;
    const char *data = static_cast<const char *>(h.data) + (size_t)(first * h.row + g * h.head) * bytes;
    return matrix(data, h.dtype, rows, h.width, h.row);
}

static int64_t step_of(const struct heads &h)
{
    return h.group * h.head;
}

// ------------------------------------------------------------------ tiles

/* Queries of one sequence, and the keys they see at the most. */
struct tile {
    int64_t q_row, queries; // rows of q
    int64_t k_row, keys;    // rows of k and v
    int64_t position;       // of the first query, counted from the first of these keys
    int64_t pitch;          // elements between rows of scores: aligned, as the tensor cores like it
    int window;
};

struct walk {
    int64_t key_heads;
    int window;
};

static int64_t pitch_of(int64_t keys)
{
    return (keys + 7) / 8 * 8;
}

typedef enum mt_status (*tile_fn)(struct mt_device *device, const struct tile *tile, void *self);

/* Every tile of one sequence; its queries are no more than its keys. */
static enum mt_status walk_sequence(struct mt_device *device, const struct walk *walk, int64_t q_first,
                                    int64_t queries, int64_t k_first, int64_t keys, tile_fn visit, void *self)
{
    int64_t shift = keys - queries;
    int64_t most = SCORES_AT_ONCE / (walk->key_heads * pitch_of(keys > 0 ? keys : 1));
    int64_t at_once = most > 0 ? most : 1;
    enum mt_status status = MT_OK;
    for (int64_t first = 0; first < queries && status == MT_OK; first += at_once) {
        int64_t count = queries - first < at_once ? queries - first : at_once;
        int64_t oldest = walk->window > 0 ? first + shift - walk->window + 1 : 0;
        if (oldest < 0) oldest = 0;
        struct tile tile = {};
        tile.q_row = q_first + first;
        tile.queries = count;
        tile.k_row = k_first + oldest;
        tile.keys = first + count + shift - oldest;
        tile.position = first + shift - oldest;
        tile.pitch = pitch_of(tile.keys);
        tile.window = walk->window;
        status = visit(device, &tile, self);
    }
    return status;
}

static enum mt_status walk_tiles(struct mt_device *device, const struct walk *walk,
                                 const struct mt_tensor *q_offsets, const struct mt_tensor *k_offsets,
                                 tile_fn visit, void *self, bool *done)
{
    int32_t q[OFFSETS_AT_ONCE + 1];
    int32_t k[OFFSETS_AT_ONCE + 1];
    int64_t sequences = q_offsets->dim[0] - 1;
    *done = true;
    for (int64_t first = 0; first < sequences; first += OFFSETS_AT_ONCE) {
        int64_t count = sequences - first < OFFSETS_AT_ONCE ? sequences - first : OFFSETS_AT_ONCE;
        size_t bytes = (size_t)(count + 1) * sizeof *q;
        enum mt_status status =
            mt_device_download(device, q, static_cast<const int32_t *>(q_offsets->data) + first, bytes);
        if (status == MT_OK)
            status =
                mt_device_download(device, k, static_cast<const int32_t *>(k_offsets->data) + first, bytes);
        for (int64_t b = 0; b < count && status == MT_OK; b++) {
            int64_t queries = q[b + 1] - q[b];
            int64_t keys = k[b + 1] - k[b];
            *done = *done && queries <= keys;
            if (!*done) return MT_OK;
            status = walk_sequence(device, walk, q[b], queries, k[b], keys, visit, self);
        }
        if (status != MT_OK) return status;
    }
    return MT_OK;
}

/* True when query `row` of the tile sees its key `key`. */
__device__ static inline bool tile_sees(const struct tile &tile, int64_t row, int64_t key)
{
    int64_t position = tile.position + row;
    return key <= position && (tile.window == 0 || position - key < tile.window);
}

bool cuda_attention_is_large(const struct mt_device *device, const struct mt_tensor *q,
                             const struct mt_tensor *k, const struct mt_tensor *v,
                             const struct mt_tensor *q_offsets)
{
    return cuda_state_of(device)->bf16 && q->dtype == MT_F32 && k->dtype == MT_F32 && v->dtype == MT_F32 &&
           q->dim[0] >= LEAST_QUERIES * (q_offsets->dim[0] - 1);
}

/* Numbers of a tile's scores at the most: one query may have more keys than fit otherwise. */
static int64_t most_scores(const struct mt_tensor *k)
{
    int64_t single = pitch_of(k->dim[0]) * k->dim[1];
    return single > SCORES_AT_ONCE ? single : SCORES_AT_ONCE;
}

// ------------------------------------------------------------------ forward

struct forward_work {
    const struct mt_attention_forward_args *a;
    struct heads q, k, v, out;
    float *scores;                // [key heads, queries, keys]
    __nv_bfloat16 *probabilities; // the same
};

/* One warp per row of scores; lse [Tq,Hq] may be absent. */
__global__ static void softmax_kernel(struct tile tile, const float *scores, __nv_bfloat16 *probabilities,
                                      struct mt_tensor lse, int64_t key_heads, int64_t group, int64_t member)
{
    int64_t line = cuda_warp();
    if (line >= key_heads * tile.queries) return;
    int64_t key_head = line / tile.queries;
    int64_t row = line - key_head * tile.queries;
    const float *x = scores + line * tile.pitch;
    __nv_bfloat16 *p = probabilities + line * tile.pitch;
    float highest = -INFINITY;
    for (int64_t j = cuda_lane(); j < tile.keys; j += 32) {
        if (tile_sees(tile, row, j)) highest = fmaxf(highest, x[j]);
    }
    for (int offset = 16; offset > 0; offset /= 2) {
        highest = fmaxf(highest, __shfl_xor_sync(CUDA_EVERY, highest, offset));
    }
    float sum = 0.0f;
    for (int64_t j = cuda_lane(); j < tile.keys; j += 32) {
        if (tile_sees(tile, row, j)) sum += expf(x[j] - highest);
    }
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(CUDA_EVERY, sum, offset);
    float factor = 1.0f / sum; // a query sees at least its own key
    for (int64_t j = cuda_lane(); j < tile.keys; j += 32) {
        p[j] = __float2bfloat16_rn(tile_sees(tile, row, j) ? expf(x[j] - highest) * factor : 0.0f);
    }
    if (cuda_lane() != 0 || !cuda_present(lse)) return;
    cuda_put2(lse, tile.q_row + row, key_head * group + member, (double)highest + log((double)sum));
}

static enum mt_status product(struct mt_device *device, const struct mt_tensor &x, bool transpose_x,
                              int64_t x_step, const struct mt_tensor &y, bool transpose_y, int64_t y_step,
                              const struct mt_tensor &result, int64_t result_step, float alpha, float beta,
                              int64_t count)
{
    struct mt_gemm_args g = {};
    g.a = x;
    g.b = y;
    g.c = result;
    g.transpose_a = transpose_x;
    g.transpose_b = transpose_y;
    g.alpha = alpha;
    g.beta = beta;
    struct cuda_batch batch = {count, x_step, y_step, result_step};
    return cuda_multiply_bf16(device, -1, &g, &batch);
}

static enum mt_status forward_tile(struct mt_device *device, const struct tile *tile, void *self)
{
    const struct forward_work *w = static_cast<const struct forward_work *>(self);
    int64_t key_heads = w->a->k.dim[1];
    int64_t step = tile->queries * tile->pitch;
    struct mt_tensor scores = matrix(w->scores, MT_F32, tile->queries, tile->keys, tile->pitch);
    struct mt_tensor shares = matrix(w->probabilities, MT_BF16, tile->queries, tile->keys, tile->pitch);
    struct mt_tensor k = rows_of(w->k, 0, tile->k_row, tile->keys);
    struct mt_tensor v = rows_of(w->v, 0, tile->k_row, tile->keys);
    enum mt_status status = MT_OK;
    for (int64_t g = 0; g < w->q.group && status == MT_OK; g++) {
        struct mt_tensor q = rows_of(w->q, g, tile->q_row, tile->queries);
        struct mt_tensor out = rows_of(w->out, g, tile->q_row, tile->queries);
        status = product(device, q, false, step_of(w->q), k, true, step_of(w->k), scores, step, w->a->scale,
                         0.0f, key_heads);
        if (status != MT_OK) return status;
        softmax_kernel<<<cuda_warp_blocks(key_heads * tile->queries), CUDA_THREADS, 0, cuda_stream(device)>>>(
            *tile, w->scores, w->probabilities, w->a->lse, key_heads, w->q.group, g);
        status = cuda_launched(device, "attention's softmax");
        if (status != MT_OK) return status;
        status = product(device, shares, false, step, v, false, step_of(w->v), out, step_of(w->out), 1.0f,
                         0.0f, key_heads);
    }
    return status;
}

size_t cuda_attention_forward_bytes(const struct mt_attention_forward_args *a)
{
    int64_t scores = most_scores(&a->k);
    return cuda_halves(mt_tensor_count(&a->q)) + cuda_halves(mt_tensor_count(&a->k)) +
           cuda_halves(mt_tensor_count(&a->v)) + cuda_floats(scores) + cuda_halves(scores);
}

enum mt_status cuda_attention_forward_bf16(struct mt_device *device,
                                           const struct mt_attention_forward_args *a, bool *done)
{
    char *scratch = static_cast<char *>(device->scratch.data);
    int64_t group = a->q.dim[1] / a->k.dim[1];
    struct forward_work work = {};
    work.a = a;
    work.q = rounded_heads(round_heads(device, &a->q, &scratch), &a->q, group);
    work.k = rounded_heads(round_heads(device, &a->k, &scratch), &a->k, 1);
    work.v = rounded_heads(round_heads(device, &a->v, &scratch), &a->v, 1);
    work.out = heads_of(&a->out, group);
    work.scores = reinterpret_cast<float *>(scratch);
    work.probabilities = reinterpret_cast<__nv_bfloat16 *>(scratch + cuda_floats(most_scores(&a->k)));
    struct walk walk = {a->k.dim[1], a->window};
    enum mt_status status = cuda_launched(device, "rounding attention's operands");
    if (status != MT_OK) return status;
    return walk_tiles(device, &walk, &a->q_offsets, &a->k_offsets, forward_tile, &work, done);
}

// ------------------------------------------------------------------ backward

struct backward_work {
    const struct mt_attention_backward_args *a;
    struct heads q, k, v, dout, dq, dk, dv;
    float *deltas;                                // [Tq,Hq]
    float *scores, *toward;                       // [key heads, queries, keys]: S, dP
    __nv_bfloat16 *probabilities, *score_changes; // P, dS
};

/* P and dS from S and dP. */
__global__ static void changes_kernel(struct tile tile, struct backward_work w, struct mt_tensor lse,
                                      float scale, int64_t key_heads, int64_t group, int64_t member)
{
    int64_t line = cuda_warp();
    if (line >= key_heads * tile.queries) return;
    int64_t key_head = line / tile.queries;
    int64_t row = line - key_head * tile.queries;
    int64_t head = key_head * group + member;
    float sum = (float)cuda_get2(lse, tile.q_row + row, head);
    float delta = w.deltas[(tile.q_row + row) * key_heads * group + head];
    for (int64_t j = cuda_lane(); j < tile.keys; j += 32) {
        int64_t at = line * tile.pitch + j;
        float p = tile_sees(tile, row, j) ? expf(w.scores[at] - sum) : 0.0f;
        w.probabilities[at] = __float2bfloat16_rn(p);
        w.score_changes[at] = __float2bfloat16_rn(p == 0.0f ? 0.0f : scale * p * (w.toward[at] - delta));
    }
}

/* dq, dk and dv of one group member, from P and dS. */
static enum mt_status add_gradients(struct mt_device *device, const struct tile *tile,
                                    const struct backward_work *w, int64_t g)
{
    int64_t key_heads = w->a->k.dim[1];
    int64_t step = tile->queries * tile->pitch;
    struct mt_tensor shares = matrix(w->probabilities, MT_BF16, tile->queries, tile->keys, tile->pitch);
    struct mt_tensor changes = matrix(w->score_changes, MT_BF16, tile->queries, tile->keys, tile->pitch);
    enum mt_status status = product(
        device, shares, true, step, rows_of(w->dout, g, tile->q_row, tile->queries), false, step_of(w->dout),
        rows_of(w->dv, 0, tile->k_row, tile->keys), step_of(w->dv), 1.0f, 1.0f, key_heads);
    if (status != MT_OK) return status;
    status = product(device, changes, true, step, rows_of(w->q, g, tile->q_row, tile->queries), false,
                     step_of(w->q), rows_of(w->dk, 0, tile->k_row, tile->keys), step_of(w->dk), 1.0f, 1.0f,
                     key_heads);
    if (status != MT_OK) return status;
    return product(device, changes, false, step, rows_of(w->k, 0, tile->k_row, tile->keys), false,
                   step_of(w->k), rows_of(w->dq, g, tile->q_row, tile->queries), step_of(w->dq), 1.0f, 0.0f,
                   key_heads);
}

static enum mt_status backward_tile(struct mt_device *device, const struct tile *tile, void *self)
{
    const struct backward_work *w = static_cast<const struct backward_work *>(self);
    int64_t key_heads = w->a->k.dim[1];
    int64_t step = tile->queries * tile->pitch;
    struct mt_tensor scores = matrix(w->scores, MT_F32, tile->queries, tile->keys, tile->pitch);
    struct mt_tensor toward = matrix(w->toward, MT_F32, tile->queries, tile->keys, tile->pitch);
    enum mt_status status = MT_OK;
    for (int64_t g = 0; g < w->q.group && status == MT_OK; g++) {
        status = product(device, rows_of(w->q, g, tile->q_row, tile->queries), false, step_of(w->q),
                         rows_of(w->k, 0, tile->k_row, tile->keys), true, step_of(w->k), scores, step,
                         w->a->scale, 0.0f, key_heads);
        if (status != MT_OK) return status;
        status = product(device, rows_of(w->dout, g, tile->q_row, tile->queries), false, step_of(w->dout),
                         rows_of(w->v, 0, tile->k_row, tile->keys), true, step_of(w->v), toward, step, 1.0f,
                         0.0f, key_heads);
        if (status != MT_OK) return status;
        changes_kernel<<<cuda_warp_blocks(key_heads * tile->queries), CUDA_THREADS, 0, cuda_stream(device)>>>(
            *tile, *w, w->a->lse, w->a->scale, key_heads, w->q.group, g);
        status = cuda_launched(device, "attention's score gradients");
        if (status == MT_OK) status = add_gradients(device, tile, w, g);
    }
    return status;
}

size_t cuda_attention_backward_bytes(const struct mt_attention_backward_args *a)
{
    int64_t scores = most_scores(&a->k);
    return cuda_halves(mt_tensor_count(&a->q)) + cuda_halves(mt_tensor_count(&a->k)) +
           cuda_halves(mt_tensor_count(&a->v)) + cuda_halves(mt_tensor_count(&a->dout)) +
           cuda_floats(a->q.dim[0] * a->q.dim[1]) + 2 * cuda_floats(scores) + 2 * cuda_halves(scores);
}

static void zero_heads(struct mt_device *device, const struct mt_tensor *t)
{
    int64_t count = mt_tensor_count(t);
    if (count == 0) return;
    zero_heads_kernel<<<cuda_blocks(count), CUDA_THREADS, 0, cuda_stream(device)>>>(*t);
}

enum mt_status cuda_attention_backward_bf16(struct mt_device *device,
                                            const struct mt_attention_backward_args *a, bool *done)
{
    char *scratch = static_cast<char *>(device->scratch.data);
    int64_t group = a->q.dim[1] / a->k.dim[1];
    int64_t scores = most_scores(&a->k);
    struct backward_work work = {};
    work.a = a;
    work.q = rounded_heads(round_heads(device, &a->q, &scratch), &a->q, group);
    work.k = rounded_heads(round_heads(device, &a->k, &scratch), &a->k, 1);
    work.v = rounded_heads(round_heads(device, &a->v, &scratch), &a->v, 1);
    work.dout = rounded_heads(round_heads(device, &a->dout, &scratch), &a->dout, group);
    work.dq = heads_of(&a->dq, group);
    work.dk = heads_of(&a->dk, 1);
    work.dv = heads_of(&a->dv, 1);
    work.deltas = reinterpret_cast<float *>(scratch);
    scratch += cuda_floats(a->q.dim[0] * a->q.dim[1]);
    work.scores = reinterpret_cast<float *>(scratch);
    work.toward = reinterpret_cast<float *>(scratch + cuda_floats(scores));
    scratch += 2 * cuda_floats(scores);
    work.probabilities = reinterpret_cast<__nv_bfloat16 *>(scratch);
    work.score_changes = reinterpret_cast<__nv_bfloat16 *>(scratch + cuda_halves(scores));
    cuda_attention_deltas(device, a, work.deltas); // before dq may take dout's place
    zero_heads(device, &a->dk);
    zero_heads(device, &a->dv);
    struct walk walk = {a->k.dim[1], a->window};
    enum mt_status status = cuda_launched(device, "attention backward");
    if (status != MT_OK) return status;
    return walk_tiles(device, &walk, &a->q_offsets, &a->k_offsets, backward_tile, &work, done);
}
