/*
 * cross_entropy on rows of floats. Rows that have a label are taken a chunk at a time; the vocabulary is
 * cut into tiles of columns. Of a chunk,
 *
 *   forward   each tile: logits by gemm, then per row m = max and s = Σ exp(z - m); the tile keeps
 *             e = exp(z - m). A row's lse follows from its tiles' m and s.
 *   backward  each tile: g = e · exp(m - lse) · dloss, less dloss at the label; dweight and dbias of
 *             the tile's columns; and g·weight added to dhidden.
 *
 * so every logit costs one exp. dhidden is summed in "lanes", fixed runs of tiles with a partial sum each,
 * added up in lane order: the bits do not depend on the number of threads. A tile lies in memory as one
 * piece. Without gradients a tile lives only as long as its thread works on it.
 *
 * Rows without a label cost nothing, unless lse is asked for: then they go through forward alone.
 */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "ops/cpu/products/gemm_block.h"
#include "ops/cpu/simd.h"

#define TILE_COLUMNS 512                  // vocabulary entries per tile
#define TILE_STRIDE  (TILE_COLUMNS + 16)  // floats between a tile's rows; as padded() makes it
#define MOST_ROWS    512                  // of a chunk, when the device chooses
#define LEAST_ROWS   32                   // of a chunk, when the device chooses
#define LOGIT_BYTES  ((int64_t)112 << 20) // of a chunk's logits, when the device chooses
#define MOST_LANES   32
#define MAXIMA       32                  // kept side by side in the search for a row's largest logit
#define LANE_BYTES   ((int64_t)64 << 20) // of all lanes' partial sums

/* Sizes, and where things lie in the scratch memory (byte offsets). */
struct plan {
    int64_t most_rows; // of a chunk
    int64_t tiles;
    int64_t lanes;
    bool gradients;
    size_t row_index;    // i64 [rows]
    size_t hidden;       // [rows, d], rows padded
    size_t hidden_xa;    // [rows, r], rows padded
    size_t bias;         // [V] when the bias is not f32
    size_t tile_max;     // [tiles, rows]
    size_t tile_sum;     // [tiles, rows]
    size_t label_logit;  // [rows]
    size_t lse;          // f64 [rows]
    size_t logits;       // [tiles, rows, TILE_STRIDE]; without gradients a tile for each thread
    size_t dhidden;      // [lanes, rows, d], rows padded
    size_t dhidden_xa;   // [lanes, rows, r], rows padded
    size_t workspace;    // of gemm, one for each thread
    size_t thread_bytes; // of one such workspace
    size_t bytes;        // in all
};

/* A chunk at work. */
struct chunk {
    const struct mt_cross_entropy_args *a;
    struct plan plan;
    char *scratch;
    const float *bias; // [V] or NULL
    int64_t rows;      // in this chunk
    int threads;
    bool gradients; // of this chunk's rows
};

static size_t place(struct plan *plan, int64_t items, size_t item_bytes)
{
    size_t offset = plan->bytes;
    plan->bytes += ((size_t)items * item_bytes + 63) / 64 * 64;
    return offset;
}

/*
 * Floats between rows of our own: whole cache lines, one more than needed, so that rows of a power of two
 * do not all fall into the same sets of the cache.
 */
static int64_t padded(int64_t width)
{
    return (width + 15) / 16 * 16 + 16;
}

static int64_t low_rank(const struct mt_cross_entropy_args *a)
{
    return mt_tensor_present(&a->hidden_xa) ? a->hidden_xa.dim[1] : 0;
}

static int64_t clamp(int64_t value, int64_t least, int64_t most)
{
    return value < least ? least : cpu_min(value, most);
}

static struct plan make_plan(const struct mt_cross_entropy_args *a, int threads)
{
    struct plan plan = {0};
    int64_t width = padded(a->hidden.dim[1]);
    int64_t rank = padded(low_rank(a));
    int64_t vocabulary = a->weight.dim[0];
    bool sums_hidden = mt_tensor_present(&a->dhidden) || mt_tensor_present(&a->dhidden_xa);
    plan.gradients = sums_hidden || mt_tensor_present(&a->dweight) || mt_tensor_present(&a->dbias) ||
                     mt_tensor_present(&a->dweight_b);
    int64_t fitting = LOGIT_BYTES / (vocabulary * (int64_t)sizeof(float));
    int64_t wanted = plan.gradients ? clamp(fitting, LEAST_ROWS, MOST_ROWS) : MOST_ROWS;
    int64_t chunk = a->chunk_rows > 0 ? a->chunk_rows : wanted;
    int64_t rows = cpu_min(chunk, a->hidden.dim[0]);
    plan.most_rows = rows;
    plan.tiles = (vocabulary + TILE_COLUMNS - 1) / TILE_COLUMNS;
    plan.lanes = plan.tiles;
    if (sums_hidden) {
        // By what a whole chunk would take: the lanes are the order of a row's sum, whatever else is summed.
        int64_t lane_bytes = (chunk + 1) * (width + rank) * (int64_t)sizeof(float);
        plan.lanes = cpu_min(plan.tiles, clamp(LANE_BYTES / lane_bytes, 1, MOST_LANES));
    }
    bool converts_bias = mt_tensor_present(&a->bias) && !cpu_is_f32(&a->bias);
    plan.row_index = place(&plan, rows, sizeof(int64_t));
    plan.hidden = place(&plan, rows * width, sizeof(float));
    plan.hidden_xa = place(&plan, rows * rank, sizeof(float));
    plan.bias = place(&plan, converts_bias ? vocabulary : 0, sizeof(float));
    plan.tile_max = place(&plan, plan.tiles * rows, sizeof(float));
    plan.tile_sum = place(&plan, plan.tiles * rows, sizeof(float));
    plan.label_logit = place(&plan, rows, sizeof(float));
    plan.lse = place(&plan, rows, sizeof(double));
    plan.logits = place(&plan, (plan.gradients ? plan.tiles : threads) * rows * TILE_STRIDE, sizeof(float));
    if (mt_tensor_present(&a->dhidden)) {
        plan.dhidden = place(&plan, plan.lanes * rows * width, sizeof(float));
    }
    if (mt_tensor_present(&a->dhidden_xa)) {
        plan.dhidden_xa = place(&plan, plan.lanes * rows * rank, sizeof(float));
    }
    plan.thread_bytes = (MT_CPU(gemm_block_workspace)() + 63) / 64 * 64;
    plan.workspace = place(&plan, threads, plan.thread_bytes);
    return plan;
}

bool MT_CPU(cross_entropy_fits)(const struct mt_cross_entropy_args *a)
{
    const struct mt_tensor *floats[] = {
        &a->hidden,  &a->hidden_xa, &a->loss,  &a->lse,        &a->dloss,
        &a->dhidden, &a->dweight,   &a->dbias, &a->dhidden_xa, &a->dweight_b,
    };
    for (size_t i = 0; i < sizeof floats / sizeof floats[0]; i++) {
        if (mt_tensor_present(floats[i]) && !cpu_is_f32(floats[i])) return false;
    }
    return a->weight.dtype != MT_F64 && !(mt_tensor_present(&a->weight_b) && a->weight_b.dtype == MT_F64);
}

size_t MT_CPU(cross_entropy_scratch)(const struct mt_device *device, const struct mt_cross_entropy_args *args)
{
    return make_plan(args, device->threads).bytes;
}

// ------------------------------------------------------------------ the parts of a chunk

static void *memory_at(const struct chunk *c, size_t offset)
{
    return c->scratch + offset;
}

static float *floats_at(const struct chunk *c, size_t offset)
{
    return memory_at(c, offset);
}

static const int64_t *row_index(const struct chunk *c)
{
    return memory_at(c, c->plan.row_index);
}

static void *thread_workspace(const struct chunk *c)
{
    return memory_at(c, c->plan.workspace + (size_t)omp_get_thread_num() * c->plan.thread_bytes);
}

/* The tile's [rows, TILE_STRIDE] floats: its own, or without gradients the thread's. */
static float *tile_logits(const struct chunk *c, int64_t tile)
{
    int64_t slot = c->plan.gradients ? tile : omp_get_thread_num();
    return floats_at(c, c->plan.logits) + slot * c->plan.most_rows * TILE_STRIDE;
}

static int64_t tile_start(int64_t tile)
{
    return tile * TILE_COLUMNS;
}

static int64_t tile_columns(const struct chunk *c, int64_t tile)
{
    return cpu_min(TILE_COLUMNS, c->a->weight.dim[0] - tile_start(tile));
}

/* Column of the row's label inside the tile, or -1. */
static int64_t label_column(const struct chunk *c, int64_t row, int64_t tile)
{
    int64_t label = ((const int32_t *)c->a->labels.data)[row_index(c)[row]];
    int64_t column = label - tile_start(tile);
    return column >= 0 && column < tile_columns(c, tile) ? column : -1;
}

/* Rows [start, ...) of a [V, width] weight as a gemm operand: B[k,n] of logits is its transpose. */
static struct gemm_operand weight_rows(const struct mt_tensor *weight, int64_t start, bool transposed)
{
    int64_t stride = weight->stride[0];
    const char *data = (const char *)weight->data + (size_t)(start * stride) * mt_dtype_bytes(weight->dtype);
    return (struct gemm_operand){
        .data = data,
        .dtype = weight->dtype,
        .row = transposed ? 1 : stride,
        .column = transposed ? stride : 1,
    };
}

static struct gemm_operand float_rows(const float *data, int64_t stride, bool transposed)
{
    return (struct gemm_operand){
        .data = data,
        .dtype = MT_F32,
        .row = transposed ? 1 : stride,
        .column = transposed ? stride : 1,
    };
}

// ------------------------------------------------------------------ forward

/* The largest of a row, NaN aside. Several are sought side by side: compilers keep a plain maximum in order.
 */
static float row_max(const float *z, int64_t columns)
{
    float top[MAXIMA];
    for (int i = 0; i < MAXIMA; i++) top[i] = -INFINITY;
    int64_t whole = columns / MAXIMA * MAXIMA;
    for (int64_t j = 0; j < whole; j += MAXIMA) {
#pragma omp simd
        for (int i = 0; i < MAXIMA; i++) {
            top[i] = z[j + i] > top[i] ? z[j + i] : top[i];
        }
    }
    for (int64_t j = whole; j < columns; j++) top[0] = z[j] > top[0] ? z[j] : top[0];
    for (int i = 1; i < MAXIMA; i++) top[0] = top[i] > top[0] ? top[i] : top[0];
    return top[0];
}

/* Turns a row of logits into exp(z - max) and returns the max and the sum; -inf logits become 0. */
static void exponentiate(float *z, int64_t columns, float *highest, float *total)
{
    float top = row_max(z, columns);
    float reference = top == -INFINITY ? 0.0f : top; // -inf - -inf would be NaN
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < columns; j++) {
        z[j] = simd_exp(z[j] - reference);
        sum += z[j];
    }
    *highest = top;
    *total = sum;
}

static void forward_tile(const struct chunk *c, int64_t tile)
{
    const struct mt_cross_entropy_args *a = c->a;
    int64_t start = tile_start(tile);
    int64_t columns = tile_columns(c, tile);
    int64_t width = a->hidden.dim[1];
    int64_t rank = low_rank(a);
    float *logits = tile_logits(c, tile);
    void *workspace = thread_workspace(c);
    MT_CPU(gemm_block)
    (c->rows, columns, width, 1.0f, float_rows(floats_at(c, c->plan.hidden), padded(width), false),
     weight_rows(&a->weight, start, true), 0.0f, logits, TILE_STRIDE, workspace);
    if (rank > 0) {
        MT_CPU(gemm_block)
        (c->rows, columns, rank, 1.0f, float_rows(floats_at(c, c->plan.hidden_xa), padded(rank), false),
         weight_rows(&a->weight_b, start, true), 1.0f, logits, TILE_STRIDE, workspace);
    }
    float *tile_max = floats_at(c, c->plan.tile_max) + tile * c->plan.most_rows;
    float *tile_sum = floats_at(c, c->plan.tile_sum) + tile * c->plan.most_rows;
    for (int64_t row = 0; row < c->rows; row++) {
        float *z = logits + row * TILE_STRIDE;
        if (c->bias != NULL) {
            const float *bias = c->bias + start;
#pragma omp simd
            for (int64_t j = 0; j < columns; j++) z[j] += bias[j];
        }
        int64_t label = label_column(c, row, tile);
        if (label >= 0) floats_at(c, c->plan.label_logit)[row] = z[label];
        exponentiate(z, columns, &tile_max[row], &tile_sum[row]);
    }
}

/* lse of a row out of its tiles, in tile order; then its results. */
static void finish_row(const struct chunk *c, int64_t row)
{
    const float *tile_max = floats_at(c, c->plan.tile_max) + row;
    const float *tile_sum = floats_at(c, c->plan.tile_sum) + row;
    int64_t stride = c->plan.most_rows;
    float highest = -INFINITY;
    for (int64_t tile = 0; tile < c->plan.tiles; tile++) highest = fmaxf(highest, tile_max[tile * stride]);
    double sum = 0.0;
    for (int64_t tile = 0; tile < c->plan.tiles; tile++) {
        float part = tile_sum[tile * stride];
        // A sum of 0 is a tile of -inf only, which has no maximum to relate to; a NaN is kept.
        if (part != 0.0f) sum += (double)part * exp((double)tile_max[tile * stride] - (double)highest);
    }
    double lse = sum == 0.0 ? -INFINITY : (double)highest + log(sum);
    double *row_lse = memory_at(c, c->plan.lse);
    row_lse[row] = lse;
    int64_t at = row_index(c)[row];
    if (mt_tensor_present(&c->a->lse)) ((float *)c->a->lse.data)[at] = (float)lse;
    if (((const int32_t *)c->a->labels.data)[at] < 0) return;
    ((float *)c->a->loss.data)[at] = (float)(lse - (double)floats_at(c, c->plan.label_logit)[row]);
}

// ------------------------------------------------------------------ backward

/* The tile's logits become their gradient. */
static void differentiate_tile(const struct chunk *c, int64_t tile)
{
    const float *tile_max = floats_at(c, c->plan.tile_max) + tile * c->plan.most_rows;
    const double *lse = memory_at(c, c->plan.lse);
    int64_t columns = tile_columns(c, tile);
    float *logits = tile_logits(c, tile);
    for (int64_t row = 0; row < c->rows; row++) {
        float *g = logits + row * TILE_STRIDE;
        float dloss = ((const float *)c->a->dloss.data)[row_index(c)[row]];
        float factor = (float)(exp((double)tile_max[row] - lse[row]) * (double)dloss);
#pragma omp simd
        for (int64_t j = 0; j < columns; j++) g[j] *= factor;
        int64_t label = label_column(c, row, tile);
        if (label >= 0) g[label] -= dloss;
    }
}

static void add_dbias(const struct chunk *c, int64_t tile)
{
    float sum[TILE_COLUMNS] = {0};
    int64_t columns = tile_columns(c, tile);
    const float *logits = tile_logits(c, tile);
    for (int64_t row = 0; row < c->rows; row++) {
        const float *g = logits + row * TILE_STRIDE;
#pragma omp simd
        for (int64_t j = 0; j < columns; j++) sum[j] += g[j];
    }
    float *dbias = (float *)c->a->dbias.data + tile_start(tile);
    for (int64_t j = 0; j < columns; j++) dbias[j] += sum[j];
}

/* dweight[v] += Σ_rows g[row,v] · hidden[row], for the tile's v. */
static void add_dweight(const struct chunk *c, int64_t tile, const float *hidden,
                        const struct mt_tensor *dweight)
{
    int64_t width = dweight->dim[1];
    MT_CPU(gemm_block)
    (tile_columns(c, tile), width, c->rows, 1.0f, float_rows(tile_logits(c, tile), TILE_STRIDE, true),
     float_rows(hidden, padded(width), false), 1.0f, cpu_row(dweight, tile_start(tile)), dweight->stride[0],
     thread_workspace(c));
}

/* The lane's partial sum [rows, width] of g·weight, begun by its first tile. */
static void add_dhidden(const struct chunk *c, int64_t tile, bool first, const struct mt_tensor *weight,
                        float *partial)
{
    int64_t width = weight->dim[1];
    MT_CPU(gemm_block)
    (c->rows, width, tile_columns(c, tile), 1.0f, float_rows(tile_logits(c, tile), TILE_STRIDE, false),
     weight_rows(weight, tile_start(tile), false), first ? 0.0f : 1.0f, partial, padded(width),
     thread_workspace(c));
}

static void backward_lane(const struct chunk *c, int64_t lane)
{
    const struct mt_cross_entropy_args *a = c->a;
    const struct plan *plan = &c->plan;
    int64_t start = lane * plan->tiles / plan->lanes;
    int64_t end = (lane + 1) * plan->tiles / plan->lanes;
    int64_t lane_rows = lane * plan->most_rows;
    for (int64_t tile = start; tile < end; tile++) {
        differentiate_tile(c, tile);
        if (mt_tensor_present(&a->dbias)) add_dbias(c, tile);
        if (mt_tensor_present(&a->dweight)) add_dweight(c, tile, floats_at(c, plan->hidden), &a->dweight);
        if (mt_tensor_present(&a->dweight_b)) {
            add_dweight(c, tile, floats_at(c, plan->hidden_xa), &a->dweight_b);
        }
        if (mt_tensor_present(&a->dhidden)) {
            float *partial = floats_at(c, plan->dhidden) + lane_rows * padded(a->weight.dim[1]);
            add_dhidden(c, tile, tile == start, &a->weight, partial);
        }
        if (mt_tensor_present(&a->dhidden_xa)) {
            float *partial = floats_at(c, plan->dhidden_xa) + lane_rows * padded(low_rank(a));
            add_dhidden(c, tile, tile == start, &a->weight_b, partial);
        }
    }
}

/* A row of the result: the lanes' sums added in order. */
static void add_lanes(const struct chunk *c, int64_t row, const float *partials,
                      const struct mt_tensor *target)
{
    int64_t width = target->dim[1];
    float *restrict out = cpu_row(target, row_index(c)[row]);
    memset(out, 0, (size_t)width * sizeof(float));
    for (int64_t lane = 0; lane < c->plan.lanes; lane++) {
        const float *restrict partial = partials + (lane * c->plan.most_rows + row) * padded(width);
#pragma omp simd
        for (int64_t j = 0; j < width; j++) out[j] += partial[j];
    }
}

// ------------------------------------------------------------------ the op

static void run_chunk(const struct chunk *c)
{
    const struct plan *plan = &c->plan;
#pragma omp parallel num_threads(c->threads)
    {
#pragma omp for schedule(dynamic, 1)
        for (int64_t tile = 0; tile < plan->tiles; tile++) forward_tile(c, tile);
#pragma omp for schedule(static)
        for (int64_t row = 0; row < c->rows; row++) finish_row(c, row);
        if (c->gradients) {
#pragma omp for schedule(dynamic, 1)
            for (int64_t lane = 0; lane < plan->lanes; lane++) backward_lane(c, lane);
#pragma omp for schedule(static)
            for (int64_t row = 0; row < c->rows; row++) {
                if (mt_tensor_present(&c->a->dhidden)) {
                    add_lanes(c, row, floats_at(c, plan->dhidden), &c->a->dhidden);
                }
                if (mt_tensor_present(&c->a->dhidden_xa)) {
                    add_lanes(c, row, floats_at(c, plan->dhidden_xa), &c->a->dhidden_xa);
                }
            }
        }
    }
}

/* Gathers the next `count` rows that have (or lack) a label, from `*next` on. */
static void gather_rows(struct chunk *c, bool labelled, int64_t count, int64_t *next)
{
    const int32_t *labels = c->a->labels.data;
    int64_t *index = memory_at(c, c->plan.row_index);
    int64_t width = c->a->hidden.dim[1];
    int64_t rank = low_rank(c->a);
    for (c->rows = 0; c->rows < count; ++*next) {
        if ((labels[*next] >= 0) != labelled) continue;
        index[c->rows] = *next;
        memcpy(floats_at(c, c->plan.hidden) + c->rows * padded(width), cpu_row(&c->a->hidden, *next),
               (size_t)width * sizeof(float));
        if (rank > 0) {
            memcpy(floats_at(c, c->plan.hidden_xa) + c->rows * padded(rank), cpu_row(&c->a->hidden_xa, *next),
                   (size_t)rank * sizeof(float));
        }
        c->rows++;
    }
}

/* All rows that have (or lack) a label, in chunks of nearly equal size. */
static void run_rows(struct chunk *c, bool labelled, int64_t count)
{
    int64_t chunks = (count + c->plan.most_rows - 1) / c->plan.most_rows;
    int64_t next = 0;
    c->gradients = labelled && c->plan.gradients;
    for (int64_t i = 0; i < chunks; i++) {
        gather_rows(c, labelled, (i + 1) * count / chunks - i * count / chunks, &next);
        run_chunk(c);
    }
}

/* What a row without a label gets. */
static void clear_row(const struct mt_cross_entropy_args *a, int64_t row)
{
    ((float *)a->loss.data)[row] = 0.0f;
    if (mt_tensor_present(&a->dhidden)) {
        memset(cpu_row(&a->dhidden, row), 0, (size_t)a->dhidden.dim[1] * sizeof(float));
    }
    if (mt_tensor_present(&a->dhidden_xa)) {
        memset(cpu_row(&a->dhidden_xa, row), 0, (size_t)a->dhidden_xa.dim[1] * sizeof(float));
    }
}

void MT_CPU(cross_entropy)(struct mt_device *device, const struct mt_cross_entropy_args *a)
{
    int64_t rows = a->hidden.dim[0];
    int64_t labelled = 0;
    for (int64_t row = 0; row < rows; row++) {
        bool has_label = ((const int32_t *)a->labels.data)[row] >= 0;
        labelled += has_label;
        if (!has_label) clear_row(a, row);
    }
    struct chunk c = {.a = a, .plan = make_plan(a, device->threads), .scratch = device->scratch.data};
    c.threads = cpu_threads(device, rows * a->hidden.dim[1] * a->weight.dim[0] / 64);
    if (mt_tensor_present(&a->bias)) c.bias = cpu_vector_f32(&a->bias, floats_at(&c, c.plan.bias));
    if (labelled > 0) run_rows(&c, true, labelled);
    if (labelled < rows && mt_tensor_present(&a->lse)) run_rows(&c, false, rows - labelled);
}
