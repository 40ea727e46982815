/*
 * attention by tiles, on gemm_block: scores exist for one block of a tile at a time.
 *
 * Forward keeps a running maximum m and sum l per row (online softmax). A block with scores S raises m to
 * m'; then P = exp(S - m'), l = l·exp(m - m') + ΣP, out = out·exp(m - m') + P·V; at the end out/l and
 * lse = m + log l.
 *
 * Backward makes P = exp(S - lse) again and dS = P·(dout·Vᵀ - δ), δ = <dout, out>; then dV += Pᵀ·dout,
 * dK += scale·dSᵀ·Q, dQ += scale·dS·K. In one pass that is five products per block, and a sequence and
 * key head must stay with one thread. Where these are too few to share out, dK and dV are made by tile of
 * keys and dQ by tile of queries: seven products, many more pieces. Every sum has the same terms in the
 * same order both ways, so the bits are the same.
 */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "ops/cpu/attention/attention_tiles.h"
#include "ops/cpu/products/gemm_block.h"
#include "ops/cpu/products/gemm_vector.h"
#include "ops/cpu/simd.h"

#define LANES          32 // of maxima and sums kept side by side, the same at every level

#define FEW_ROWS       8  // up to so many, P · V is summed without packing V
#define KEYS_A_TURN    32 // when key heads take turns, a multiple of what a product takes side by side
#define TASKS_A_THREAD 2  // at the least, or heads are not taken together
#define ROWS_TOGETHER  4  // of these, to read V once for all
#define SUMS                                                                                                 \
    (VECTOR_REGISTERS == 32 ? 4 : 2) // vectors of columns summed at a time: with the rows, registers enough

_Static_assert(KEY_COLUMNS % LANES == 0, "a row of scores has room for whole vectors");

/* One thread's memory; what a direction does not use stays NULL. */
struct workspace {
    float *q;       // [rows, D], the tile's queries, stacked
    float *out;     // [rows, Dv], forward: unnormalised; backward: dout
    float *dq;      // [rows, D]
    float *scores;  // [rows, KEY_COLUMNS], S, then P
    float *dscores; // [rows, KEY_COLUMNS], dP, then dS
    float *highest; // [rows], forward: m; backward: lse
    float *sum;     // [rows], forward: l; backward: δ
    void *gemm;
};

static size_t round_to_line(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static size_t array_bytes(int64_t floats)
{
    return round_to_line((size_t)floats * sizeof(float));
}

static float *take(char **cursor, int64_t floats)
{
    float *array = (float *)(void *)*cursor;
    *cursor += array_bytes(floats);
    return array;
}

static size_t workspace_bytes(const struct attention_shape *shape, bool backward)
{
    size_t copies = backward ? 2 : 1; // q and dq; scores and dscores
    return copies * array_bytes(shape->rows * shape->width) + array_bytes(shape->rows * shape->value_width) +
           copies * array_bytes(shape->rows * KEY_COLUMNS) + 2 * array_bytes(shape->rows) +
           round_to_line(MT_CPU(gemm_block_workspace)());
}

static struct workspace workspace_at(char *memory, const struct attention_shape *shape, bool backward)
{
    char *cursor = memory;
    struct workspace w = {0};
    w.q = take(&cursor, shape->rows * shape->width);
    w.out = take(&cursor, shape->rows * shape->value_width);
    w.scores = take(&cursor, shape->rows * KEY_COLUMNS);
    w.highest = take(&cursor, shape->rows);
    w.sum = take(&cursor, shape->rows);
    if (backward) {
        w.dq = take(&cursor, shape->rows * shape->width);
        w.dscores = take(&cursor, shape->rows * KEY_COLUMNS);
    }
    w.gemm = cursor;
    return w;
}

/* The tile's rows of q, out or dout, stacked. */
static void gather(const struct mt_tensor *source, const struct attention_shape *shape,
                   const struct query_tile *tile, int64_t kv_head, float *target)
{
    int64_t width = source->dim[2];
    for (int64_t query = 0; query < tile->queries; query++) {
        for (int64_t member = 0; member < shape->group; member++) {
            const float *row = cpu_head_row(source, tile->q_first + query, kv_head * shape->group + member);
            memcpy(target, row, (size_t)width * sizeof(float));
            target += width;
        }
    }
}

/* Rows of a workspace array as an operand. */
static struct gemm_operand rows_operand(const float *data, int64_t row)
{
    return (struct gemm_operand){.data = data, .dtype = MT_F32, .row = row, .column = 1};
}

static struct gemm_operand transposed(struct gemm_operand operand)
{
    return (struct gemm_operand){
        .data = operand.data, .dtype = operand.dtype, .row = operand.column, .column = operand.row};
}

/* The block's rows of k or v (or their gradients), for one key head. */
static float *block_keys(const struct mt_tensor *tensor, const struct query_tile *tile,
                         const struct key_block *block, int64_t kv_head)
{
    return cpu_head_row(tensor, tile->k_first + block->key, kv_head);
}

/* S = scale · Q · Kᵀ for the block. */
static void block_scores(const struct attention_shape *shape, const struct query_tile *tile,
                         const struct key_block *block, const struct mt_tensor *k, int64_t kv_head,
                         float scale, struct workspace *w)
{
    struct gemm_operand q = rows_operand(w->q + block->row * shape->width, shape->width);
    struct gemm_operand keys = rows_operand(block_keys(k, tile, block, kv_head), k->stride[0]);
    MT_CPU(gemm_block)
    (block->rows, block->keys, shape->width, scale, q, transposed(keys), 0.0f, w->scores, KEY_COLUMNS,
     w->gemm);
}

/* Rows of scores are worked on in whole vectors; a row's memory has room for that. */
static int64_t whole_lanes(int64_t columns)
{
    return (columns + LANES - 1) / LANES * LANES;
}

/* Writes `value` where the row does not see the key, and past the block's last key. */
static void set_unseen(const struct attention_shape *shape, const struct query_tile *tile,
                       const struct key_block *block, int64_t row, int64_t columns, float value,
                       float *scores)
{
    int64_t first;
    int64_t end;
    attention_columns(shape, tile, block, row, &first, &end);
    for (int64_t j = 0; j < first; j++) scores[j] = value;
    for (int64_t j = end; j < columns; j++) scores[j] = value;
}

// ------------------------------------------------------------------ forward

static float highest_of(const float *x, int64_t count)
{
    float lane[LANES];
    for (int l = 0; l < LANES; l++) lane[l] = -INFINITY;
    for (int64_t j = 0; j < count; j += LANES) {
#pragma omp simd
        for (int l = 0; l < LANES; l++) lane[l] = x[j + l] > lane[l] ? x[j + l] : lane[l];
    }
#pragma omp simd
    for (int l = 0; l < LANES / 2; l++)
        lane[l] = lane[l + LANES / 2] > lane[l] ? lane[l + LANES / 2] : lane[l];
#pragma omp simd
    for (int l = 0; l < LANES / 4; l++)
        lane[l] = lane[l + LANES / 4] > lane[l] ? lane[l + LANES / 4] : lane[l];
    float highest = lane[0];
    for (int l = 1; l < LANES / 4; l++) highest = lane[l] > highest ? lane[l] : highest;
    return highest;
}

/* x = exp(x - shift); returns the sum. */
static float exponentials(float *x, int64_t count, float shift)
{
    float lane[LANES] = {0.0f};
    for (int64_t j = 0; j < count; j += LANES) {
#pragma omp simd
        for (int l = 0; l < LANES; l++) {
            float e = simd_exp(x[j + l] - shift);
            x[j + l] = e;
            lane[l] += e;
        }
    }
#pragma omp simd
    for (int l = 0; l < LANES / 2; l++) lane[l] += lane[l + LANES / 2];
#pragma omp simd
    for (int l = 0; l < LANES / 4; l++) lane[l] += lane[l + LANES / 4];
    float sum = lane[0];
    for (int l = 1; l < LANES / 4; l++) sum += lane[l];
    return sum;
}

/* Turns the block's scores into P and brings m, l and out to the new maximum. */
static void online_softmax(const struct attention_shape *shape, const struct query_tile *tile,
                           const struct key_block *block, struct workspace *w)
{
    int64_t columns = whole_lanes(block->keys);
    for (int64_t i = 0; i < block->rows; i++) {
        int64_t row = block->row + i;
        float *scores = w->scores + i * KEY_COLUMNS;
        set_unseen(shape, tile, block, row, columns, -INFINITY, scores);
        float before = w->highest[row];
        float highest = highest_of(scores, columns);
        if (highest < before) highest = before;
        float sum = exponentials(scores, columns, highest);
        if (highest != before && before != -INFINITY) {
            float shrink = simd_exp(before - highest);
            float *out = w->out + row * shape->value_width;
#pragma omp simd
            for (int64_t j = 0; j < shape->value_width; j++) out[j] *= shrink;
            w->sum[row] *= shrink;
        }
        w->highest[row] = highest;
        w->sum[row] += sum;
    }
}

/*
 * `rows` rows of out += P · V: a stretch of columns stays in registers while the keys pass by. `rows` is a
 * constant wherever this is inlined.
 */
VECTOR_INLINE void add_value_rows(int rows, const float *p, int64_t keys, const float *values,
                                  int64_t value_row, int64_t columns, float *out)
{
    int64_t j = 0;
    for (; j + SUMS * VECTOR_LANES <= columns; j += SUMS * VECTOR_LANES) {
        vector_f32 sum[ROWS_TOGETHER][SUMS];
        UNROLL
        for (int r = 0; r < rows; r++) {
            UNROLL
            for (int s = 0; s < SUMS; s++) sum[r][s] = vector_load(out + r * columns + j + s * VECTOR_LANES);
        }
        for (int64_t key = 0; key < keys; key++) {
            const float *value = values + key * value_row + j;
            UNROLL
            for (int s = 0; s < SUMS; s++) {
                vector_f32 part = vector_load(value + s * VECTOR_LANES);
                UNROLL
                for (int r = 0; r < rows; r++) sum[r][s] += p[r * KEY_COLUMNS + key] * part;
            }
        }
        UNROLL
        for (int r = 0; r < rows; r++) {
            UNROLL
            for (int s = 0; s < SUMS; s++) vector_store(out + r * columns + j + s * VECTOR_LANES, sum[r][s]);
        }
    }
    for (int r = 0; r < rows; r++) {
        for (int64_t key = 0; key < keys && j < columns; key++) {
            float weight = p[r * KEY_COLUMNS + key];
            for (int64_t c = j; c < columns; c++)
                out[r * columns + c] += weight * values[key * value_row + c];
        }
    }
}

/* out += P · V for the block. For the few rows of a decoding step, packing V would cost more than the
 * product. */
static void add_values(const struct attention_shape *shape, const struct query_tile *tile,
                       const struct key_block *block, const struct mt_tensor *v, int64_t kv_head,
                       struct workspace *w)
{
    int64_t width = shape->value_width;
    float *out = w->out + block->row * width;
    const float *values = block_keys(v, tile, block, kv_head);
    if (block->rows > FEW_ROWS) {
        MT_CPU(gemm_block)
        (block->rows, width, block->keys, 1.0f, rows_operand(w->scores, KEY_COLUMNS),
         rows_operand(values, v->stride[0]), 1.0f, out, width, w->gemm);
        return;
    }
    int64_t row = 0;
    for (; row + ROWS_TOGETHER <= block->rows; row += ROWS_TOGETHER) {
        add_value_rows(ROWS_TOGETHER, w->scores + row * KEY_COLUMNS, block->keys, values, v->stride[0], width,
                       out + row * width);
    }
    for (; row < block->rows; row++) {
        add_value_rows(1, w->scores + row * KEY_COLUMNS, block->keys, values, v->stride[0], width,
                       out + row * width);
    }
}

/* Writes out/l and lse. A row that saw no key has l = 0: zeros, and -inf. */
static void write_forward(const struct mt_attention_forward_args *a, const struct attention_shape *shape,
                          const struct query_tile *tile, int64_t kv_head, const struct workspace *w)
{
    for (int64_t row = 0; row < tile->queries * shape->group; row++) {
        int64_t t = tile->q_first + row / shape->group;
        int64_t h = kv_head * shape->group + row % shape->group;
        float inverse = w->sum[row] == 0.0f ? 0.0f : 1.0f / w->sum[row];
        const float *source = w->out + row * shape->value_width;
        float *target = cpu_head_row(&a->out, t, h);
#pragma omp simd
        for (int64_t j = 0; j < shape->value_width; j++) target[j] = source[j] * inverse;
        if (mt_tensor_present(&a->lse)) cpu_row(&a->lse, t)[h] = w->highest[row] + logf(w->sum[row]);
    }
}

/* The part of a workspace that is head `head`'s, where every head has `rows` rows. */
static struct workspace head_workspace(const struct workspace *w, const struct attention_shape *shape,
                                       int64_t rows, int64_t head)
{
    struct workspace own = *w;
    own.q += head * rows * shape->width;
    own.out += head * rows * shape->value_width;
    own.scores += head * rows * KEY_COLUMNS;
    own.highest += head * rows;
    own.sum += head * rows;
    return own;
}

/* Keys [first, first+keys) of a block. */
static struct key_block part_of_block(const struct key_block *block, int64_t first, int64_t keys)
{
    struct key_block part = *block;
    part.key += first;
    part.keys = cpu_min(keys, block->keys - first);
    return part;
}

/* One block of keys for `heads` key heads from kv_head on, which take turns on a few keys at a time. */
static void forward_block(const struct mt_attention_forward_args *a, const struct attention_shape *shape,
                          const struct query_tile *tile, const struct key_block *block, int64_t kv_head,
                          int64_t heads, const struct workspace *w)
{
    int64_t rows = tile->queries * shape->group;
    int64_t keys = heads == 1 ? block->keys : KEYS_A_TURN;
    for (int64_t first = 0; first < block->keys; first += keys) {
        struct key_block part = part_of_block(block, first, keys);
        for (int64_t head = 0; head < heads; head++) {
            struct workspace own = head_workspace(w, shape, rows, head);
            own.scores += first;
            block_scores(shape, tile, &part, &a->k, kv_head + head, a->scale, &own);
        }
    }
    for (int64_t head = 0; head < heads; head++) {
        struct workspace own = head_workspace(w, shape, rows, head);
        online_softmax(shape, tile, block, &own);
    }
    for (int64_t first = 0; first < block->keys; first += keys) {
        struct key_block part = part_of_block(block, first, keys);
        for (int64_t head = 0; head < heads; head++) {
            struct workspace own = head_workspace(w, shape, rows, head);
            own.scores += first;
            add_values(shape, tile, &part, &a->v, kv_head + head, &own);
        }
    }
}

/* A tile of queries for `heads` key heads from kv_head on. */
static void forward_tile(const struct mt_attention_forward_args *a, const struct attention_shape *shape,
                         struct sequence_piece piece, int64_t kv_head, int64_t heads,
                         const struct workspace *w)
{
    struct query_tile tile = attention_tile(shape, piece);
    int64_t rows = tile.queries * shape->group;
    for (int64_t head = 0; head < heads; head++) {
        struct workspace own = head_workspace(w, shape, rows, head);
        gather(&a->q, shape, &tile, kv_head + head, own.q);
    }
    memset(w->out, 0, (size_t)(heads * rows * shape->value_width) * sizeof(float));
    for (int64_t row = 0; row < heads * rows; row++) {
        w->highest[row] = -INFINITY;
        w->sum[row] = 0.0f;
    }
    int64_t key = tile.key_low;
    while (key < tile.key_high) {
        struct key_block block = attention_block(shape, &tile, key);
        forward_block(a, shape, &tile, &block, kv_head, heads, w);
        key += block.keys;
    }
    for (int64_t head = 0; head < heads; head++) {
        struct workspace own = head_workspace(w, shape, rows, head);
        write_forward(a, shape, &tile, kv_head + head, &own);
    }
}

/*
 * How many key heads a task takes together. In memory the heads of one key are neighbours: when only few
 * rows of queries wait for them (decoding), reading them in that order is what counts. The results do not
 * depend on it, so it may depend on the number of threads.
 */
static int64_t heads_together(const struct attention_shape *shape, int64_t pieces, int threads)
{
    int64_t longest = 0; // queries of a sequence
    for (int64_t b = 0; b < shape->sequences; b++) {
        longest = attention_max(longest, shape->q_offsets[b + 1] - shape->q_offsets[b]);
    }
    int64_t rows = longest * shape->group;
    if (rows > FEW_ROWS) return 1;
    for (int64_t heads = shape->kv_heads; heads > 1; heads--) {
        bool fits = shape->kv_heads % heads == 0 && heads * rows <= shape->rows;
        if (fits && pieces * (shape->kv_heads / heads) >= TASKS_A_THREAD * (int64_t)threads) return heads;
    }
    return 1;
}

size_t MT_CPU(attention_forward_scratch)(const struct mt_device *device,
                                         const struct mt_attention_forward_args *a)
{
    struct attention_shape shape =
        attention_shape_of(&a->q, &a->k, &a->v, &a->q_offsets, &a->k_offsets, a->window);
    return round_to_line(attention_pieces_bytes(a->q.dim[0], shape.sequences, shape.queries)) +
           (size_t)device->threads * workspace_bytes(&shape, false);
}

/* Threads worth waking: little work stays with one. Of k, which may be a large cache, `keys` rows are read.
 */
static int attention_threads(const struct mt_device *device, const struct mt_tensor *q,
                             const struct mt_tensor *k, int64_t keys)
{
    return cpu_threads(device, mt_tensor_count(q) + keys * k->dim[1] * k->dim[2]);
}

void MT_CPU(attention_forward)(struct mt_device *device, const struct mt_attention_forward_args *a)
{

    struct attention_shape shape =
        attention_shape_of(&a->q, &a->k, &a->v, &a->q_offsets, &a->k_offsets, a->window);
    if (mt_tensor_present(&a->k_starts)) shape.k_starts = a->k_starts.data;
    struct sequence_piece *pieces = device->scratch.data;
    int64_t count = attention_cut(shape.q_offsets, shape.sequences, shape.queries, pieces);
    char *workspaces = (char *)device->scratch.data +
                       round_to_line(attention_pieces_bytes(a->q.dim[0], shape.sequences, shape.queries));
    size_t stride = workspace_bytes(&shape, false);
    int threads = attention_threads(device, &a->q, &a->k, shape.k_offsets[shape.sequences]);
    int64_t heads = heads_together(&shape, count, threads);
    int64_t tasks = shape.kv_heads / heads; // of a piece
#pragma omp parallel num_threads(threads)
    {
        struct workspace w = workspace_at(workspaces + (size_t)omp_get_thread_num() * stride, &shape, false);
#pragma omp for schedule(dynamic)
        for (int64_t task = 0; task < count * tasks; task++) {
            forward_tile(a, &shape, pieces[task / tasks], task % tasks * heads, heads, &w);
        }
    }
}

// ------------------------------------------------------------------ backward

/* Which gradients a pass makes. */
struct gradients_wanted {
    bool query;
    bool key_value;
};

/* Brings the tile's q, dout, lse and δ into the workspace. */
static void load_backward_tile(const struct mt_attention_backward_args *a,
                               const struct attention_shape *shape, const struct query_tile *tile,
                               int64_t kv_head, struct workspace *w)
{
    gather(&a->q, shape, tile, kv_head, w->q);
    gather(&a->dout, shape, tile, kv_head, w->out);
    for (int64_t row = 0; row < tile->queries * shape->group; row++) {
        int64_t t = tile->q_first + row / shape->group;
        int64_t h = kv_head * shape->group + row % shape->group;
        const float *out = cpu_head_row(&a->out, t, h);
        const float *dout = w->out + row * shape->value_width;
        float delta = 0.0f;
#pragma omp simd reduction(+ : delta)
        for (int64_t j = 0; j < shape->value_width; j++) delta += dout[j] * out[j];
        w->sum[row] = delta;
        w->highest[row] = cpu_row(&a->lse, t)[h];
    }
}

/* scores: S becomes P; dscores: dP becomes dS. */
static void score_gradients(const struct attention_shape *shape, const struct query_tile *tile,
                            const struct key_block *block, struct workspace *w)
{
    int64_t columns = whole_lanes(block->keys);
    for (int64_t i = 0; i < block->rows; i++) {
        int64_t row = block->row + i;
        float *scores = w->scores + i * KEY_COLUMNS;
        float *dscores = w->dscores + i * KEY_COLUMNS;
        float lse = w->highest[row];
        float delta = w->sum[row];
        // Both: P is 0 there by its own, but 0 times what dscores holds need not be.
        set_unseen(shape, tile, block, row, columns, -INFINITY, scores);
        set_unseen(shape, tile, block, row, columns, 0.0f, dscores);
        for (int64_t j = 0; j < columns; j += LANES) {
#pragma omp simd
            for (int l = 0; l < LANES; l++) {
                float p = simd_exp(scores[j + l] - lse);
                scores[j + l] = p;
                dscores[j + l] = p * (dscores[j + l] - delta);
            }
        }
    }
}

static void backward_block(const struct mt_attention_backward_args *a, const struct attention_shape *shape,
                           const struct query_tile *tile, const struct key_block *block, int64_t kv_head,
                           struct gradients_wanted wanted, struct workspace *w)
{
    int64_t width = shape->width;
    int64_t value_width = shape->value_width;
    struct gemm_operand q = rows_operand(w->q + block->row * width, width);
    struct gemm_operand dout = rows_operand(w->out + block->row * value_width, value_width);
    struct gemm_operand keys = rows_operand(block_keys(&a->k, tile, block, kv_head), a->k.stride[0]);
    struct gemm_operand values = rows_operand(block_keys(&a->v, tile, block, kv_head), a->v.stride[0]);
    struct gemm_operand p = rows_operand(w->scores, KEY_COLUMNS);
    struct gemm_operand ds = rows_operand(w->dscores, KEY_COLUMNS);

    block_scores(shape, tile, block, &a->k, kv_head, a->scale, w);
    MT_CPU(gemm_block)
    (block->rows, block->keys, value_width, 1.0f, dout, transposed(values), 0.0f, w->dscores, KEY_COLUMNS,
     w->gemm);
    score_gradients(shape, tile, block, w);
    if (wanted.key_value) {
        MT_CPU(gemm_block)
        (block->keys, value_width, block->rows, 1.0f, transposed(p), dout, 1.0f,
         block_keys(&a->dv, tile, block, kv_head), a->dv.stride[0], w->gemm);
        MT_CPU(gemm_block)
        (block->keys, width, block->rows, a->scale, transposed(ds), q, 1.0f,
         block_keys(&a->dk, tile, block, kv_head), a->dk.stride[0], w->gemm);
    }
    if (wanted.query) {
        MT_CPU(gemm_block)
        (block->rows, width, block->keys, a->scale, ds, keys, 1.0f, w->dq + block->row * width, width,
         w->gemm);
    }
}

/* What one tile of queries adds, through the keys [key_first, key_end) of its sequence. */
static void backward_tile(const struct mt_attention_backward_args *a, const struct attention_shape *shape,
                          struct sequence_piece piece, int64_t kv_head, int64_t key_first, int64_t key_end,
                          struct gradients_wanted wanted, struct workspace *w)
{
    struct query_tile tile = attention_tile(shape, piece);
    int64_t rows = tile.queries * shape->group;
    int64_t key = attention_max(tile.key_low, key_first);
    int64_t end = cpu_min(tile.key_high, key_end);
    if (wanted.query) memset(w->dq, 0, (size_t)(rows * shape->width) * sizeof(float));
    if (key < end) load_backward_tile(a, shape, &tile, kv_head, w);
    while (key < end) {
        struct key_block block = attention_block(shape, &tile, key);
        backward_block(a, shape, &tile, &block, kv_head, wanted, w);
        key += block.keys;
    }
    if (!wanted.query) return;
    for (int64_t row = 0; row < rows; row++) {
        float *dq = cpu_head_row(&a->dq, tile.q_first + row / shape->group,
                                 kv_head * shape->group + row % shape->group);
        memcpy(dq, w->dq + row * shape->width, (size_t)shape->width * sizeof(float));
    }
}

/* dk and dv start at 0 for the keys [first, end) of a sequence. */
static void clear_keys(const struct mt_attention_backward_args *a, int64_t k_start, int64_t first,
                       int64_t end, int64_t kv_head)
{
    for (int64_t key = first; key < end; key++) {
        memset(cpu_head_row(&a->dk, k_start + key, kv_head), 0, (size_t)a->dk.dim[2] * sizeof(float));
        memset(cpu_head_row(&a->dv, k_start + key, kv_head), 0, (size_t)a->dv.dim[2] * sizeof(float));
    }
}

/*
 * dk and dv of the keys [key_first, key_end) of one sequence and key head, in the order of the queries;
 * with wanted.query also dq, which is complete when the range holds all keys.
 */
static void backward_keys(const struct mt_attention_backward_args *a, const struct attention_shape *shape,
                          int32_t sequence, int64_t kv_head, int64_t key_first, int64_t key_end,
                          struct gradients_wanted wanted, struct workspace *w)
{
    int64_t queries = shape->q_offsets[sequence + 1] - shape->q_offsets[sequence];
    clear_keys(a, shape->k_offsets[sequence], key_first, key_end, kv_head);
    for (int64_t first = 0; first < queries; first += shape->queries) {
        struct sequence_piece piece = {sequence, (int32_t)first};
        backward_tile(a, shape, piece, kv_head, key_first, key_end, wanted, w);
    }
}

static int64_t sequence_keys(const struct attention_shape *shape, int64_t sequence)
{
    return shape->k_offsets[sequence + 1] - shape->k_offsets[sequence];
}

/*
 * Whether one pass, a task per sequence and key head, ends sooner. Handed out as threads become free, tasks
 * end by total/threads + largest·(1 - 1/threads); the two passes do 7/5 of the work, evenly.
 */
static bool one_pass_is_faster(const struct attention_shape *shape, int threads)
{
    double total = 0.0;
    double largest = 0.0;
    for (int64_t b = 0; b < shape->sequences; b++) {
        int64_t keys = sequence_keys(shape, b);
        if (shape->window > 0) keys = cpu_min(keys, shape->window);
        double pairs = (double)(shape->q_offsets[b + 1] - shape->q_offsets[b]) * (double)keys;
        total += pairs * (double)shape->kv_heads;
        if (pairs > largest) largest = pairs;
    }
    return total + largest * (threads - 1) <= 1.4 * total;
}

static void backward_in_one_pass(const struct mt_attention_backward_args *a,
                                 const struct attention_shape *shape, int threads, char *workspaces)
{
    const struct gradients_wanted wanted = {.query = true, .key_value = true};
    size_t stride = workspace_bytes(shape, true);
#pragma omp parallel num_threads(threads)
    {
        struct workspace w = workspace_at(workspaces + (size_t)omp_get_thread_num() * stride, shape, true);
#pragma omp for schedule(dynamic)
        for (int64_t task = 0; task < shape->sequences * shape->kv_heads; task++) {
            int64_t sequence = task / shape->kv_heads;
            backward_keys(a, shape, (int32_t)sequence, task % shape->kv_heads, 0,
                          sequence_keys(shape, sequence), wanted, &w);
        }
    }
}

static void backward_in_two_passes(const struct mt_attention_backward_args *a,
                                   const struct attention_shape *shape, int threads,
                                   struct sequence_piece *pieces, char *workspaces)
{
    const struct gradients_wanted key_value = {.key_value = true};
    const struct gradients_wanted query = {.query = true};
    size_t stride = workspace_bytes(shape, true);
    int64_t key_tiles = attention_cut(shape->k_offsets, shape->sequences, KEY_COLUMNS, pieces);
    struct sequence_piece *query_pieces = pieces + key_tiles;
    int64_t query_tiles = attention_cut(shape->q_offsets, shape->sequences, shape->queries, query_pieces);
#pragma omp parallel num_threads(threads)
    {
        struct workspace w = workspace_at(workspaces + (size_t)omp_get_thread_num() * stride, shape, true);
        // From the back: the first keys of a sequence are seen by the most queries.
#pragma omp for schedule(dynamic) nowait
        for (int64_t task = key_tiles * shape->kv_heads - 1; task >= 0; task--) {
            struct sequence_piece piece = pieces[task / shape->kv_heads];
            int64_t end = cpu_min(sequence_keys(shape, piece.sequence), piece.first + KEY_COLUMNS);
            backward_keys(a, shape, piece.sequence, task % shape->kv_heads, piece.first, end, key_value, &w);
        }
#pragma omp for schedule(dynamic)
        for (int64_t task = 0; task < query_tiles * shape->kv_heads; task++) {
            struct sequence_piece piece = query_pieces[task / shape->kv_heads];
            backward_tile(a, shape, piece, task % shape->kv_heads, 0, sequence_keys(shape, piece.sequence),
                          query, &w);
        }
    }
}

/* Tiles of keys and of queries, for the two passes. */
static size_t backward_pieces_bytes(const struct mt_attention_backward_args *a,
                                    const struct attention_shape *shape)
{
    return round_to_line(attention_pieces_bytes(a->k.dim[0], shape->sequences, KEY_COLUMNS) +
                         attention_pieces_bytes(a->q.dim[0], shape->sequences, shape->queries));
}

size_t MT_CPU(attention_backward_scratch)(const struct mt_device *device,
                                          const struct mt_attention_backward_args *a)
{
    struct attention_shape shape =
        attention_shape_of(&a->q, &a->k, &a->v, &a->q_offsets, &a->k_offsets, a->window);
    return backward_pieces_bytes(a, &shape) + (size_t)device->threads * workspace_bytes(&shape, true);
}

void MT_CPU(attention_backward)(struct mt_device *device, const struct mt_attention_backward_args *a)
{

    struct attention_shape shape =
        attention_shape_of(&a->q, &a->k, &a->v, &a->q_offsets, &a->k_offsets, a->window);
    char *workspaces = (char *)device->scratch.data + backward_pieces_bytes(a, &shape);
    int threads = attention_threads(device, &a->q, &a->k, a->k.dim[0]);
    if (one_pass_is_faster(&shape, threads)) {
        backward_in_one_pass(a, &shape, threads, workspaces);
    } else {
        backward_in_two_passes(a, &shape, threads, device->scratch.data, workspaces);
    }
}
