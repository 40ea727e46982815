/*
 * combine on rows of floats, one token at a time. A token's k rows are walked together, a vector of
 * columns at a step: each element is loaded once, and while it is in a register it serves the weighted
 * sum and all k(k+1)/2 dot products of the Gram matrix (backward: the k weight gradients and the k×k
 * coupling). The op waits for memory, so this arithmetic costs almost nothing.
 *
 * Up to FAST_SLOTS rows the step is compiled with a constant k, so that every sum has a register of its
 * own; where the registers do not suffice, the dot products take turns on blocks of columns.
 * A dot product runs over columns in VECTOR_LANES sums, then over these: the order is the same for any number
 * of threads.
 */
#include <string.h>

#include "ops/cpu/level.h"
#include "ops/cpu/vector.h"

// The slots whose dot products take turns. With 32 registers all 36 go in one turn; with 16 those of slots
// 0-3 (10 of them), 4-5 (11), 6 (7), 7 (8).
#if VECTOR_LANES == 16
#define TURN_1 8
#define TURN_2 8
#define TURN_3 8
#else
#define TURN_1 4
#define TURN_2 6
#define TURN_3 7
#endif

#define BLOCK_COLUMNS 512 // of FAST_SLOTS rows: 16 KiB
#define FAST_SLOTS    8
#define FAST_PAIRS    (FAST_SLOTS * (FAST_SLOTS + 1) / 2)

/* What a token combines: its slots that have a row, in order. */
struct token {
    int present;
    bool accumulate; // y is added to
    int slot[MT_MAX_SLOTS];
    const float *row[MT_MAX_SLOTS];
    float weight[MT_MAX_SLOTS];
};

static void gather_token(struct token *token, const struct mt_tensor *rows,
                         const struct mt_tensor *row_of_slot, const struct mt_tensor *weight, int64_t i)
{
    const int32_t *row = (const int32_t *)row_of_slot->data + i * row_of_slot->stride[0];
    const float *w = cpu_row(weight, i);
    token->present = 0;
    for (int s = 0; s < (int)row_of_slot->dim[1]; s++) {
        if (row[s] < 0) continue;
        token->slot[token->present] = s;
        token->row[token->present] = cpu_row(rows, row[s]);
        token->weight[token->present] = w[s];
        token->present++;
    }
}

/* `count` floats, the missing lanes zero. With the constant VECTOR_LANES this is one load. */
static inline vector_f32 load_columns(const float *source, int64_t count)
{
    vector_f32 columns = {0};
    memcpy(&columns, source, (size_t)count * sizeof(float));
    return columns;
}

static inline void store_columns(float *target, vector_f32 columns, int64_t count)
{
    memcpy(target, &columns, (size_t)count * sizeof(float));
}

static inline float sum_of_lanes(vector_f32 v)
{
    float sum = 0.0f;
    for (int lane = 0; lane < VECTOR_LANES; lane++) sum += v[lane];
    return sum;
}

/*
 * Columns [j, j+count): with a target y the weighted sum, and the share of the dot products (s,m), m <= s,
 * for s in [from, to).
 */
VECTOR_INLINE void forward_step(int k, int from, int to, const struct token *token, const float *base,
                                float *y, int64_t j, int64_t count, vector_f32 *pair)
{
    vector_f32 x[FAST_SLOTS];
    vector_f32 sum = base != NULL ? load_columns(base + j, count) : (vector_f32){0};
    if (y != NULL && token->accumulate) sum += load_columns(y + j, count);
    int rows = y != NULL ? k : to;
#pragma GCC unroll 8
    for (int s = 0; s < rows; s++) {
        vector_f32 row = load_columns(token->row[s] + j, count);
        if (y != NULL) sum += token->weight[s] * row;
        if (s < to) x[s] = row;
        if (s >= from && s < to) {
#pragma GCC unroll 8
            for (int m = 0; m <= s; m++) pair[s * (s + 1) / 2 + m] += row * x[m];
        }
    }
    if (y != NULL) store_columns(y + j, sum, count);
}

/* forward_step over columns [start, stop). */
VECTOR_INLINE void forward_columns(int k, int from, int to, const struct token *token, const float *base,
                                   float *y, int64_t start, int64_t stop, vector_f32 *pair)
{
    int64_t j = start;
    for (; j + VECTOR_LANES <= stop; j += VECTOR_LANES)
        forward_step(k, from, to, token, base, y, j, VECTOR_LANES, pair);
    if (j < stop) forward_step(k, from, to, token, base, y, j, stop - j, pair);
}

/*
 * The whole row of a token, and gram [k,k], the dot products of the rows present. Where the dot products
 * outnumber the registers they take turns on a block of columns that stays in the first-level cache.
 */
VECTOR_INLINE void forward_row_with_gram(int k, const struct token *token, const float *base, float *y,
                                         int64_t width, float *gram)
{
    vector_f32 pair[FAST_PAIRS];
    for (int p = 0; p < k * (k + 1) / 2; p++) pair[p] = (vector_f32){0};
    if (k <= TURN_1) {
        forward_columns(k, 0, k, token, base, y, 0, width, pair);
    } else {
        for (int64_t start = 0; start < width; start += BLOCK_COLUMNS) {
            int64_t stop = cpu_min(width, start + BLOCK_COLUMNS);
            forward_columns(k, 0, TURN_1, token, base, y, start, stop, pair);
            forward_columns(k, TURN_1, k < TURN_2 ? k : TURN_2, token, NULL, NULL, start, stop, pair);
            if (k > TURN_2) {
                forward_columns(k, TURN_2, k < TURN_3 ? k : TURN_3, token, NULL, NULL, start, stop, pair);
            }
            if (k > TURN_3) forward_columns(k, TURN_3, k, token, NULL, NULL, start, stop, pair);
        }
    }
    for (int s = 0; s < k; s++) {
        for (int m = 0; m <= s; m++) {
            float dot = sum_of_lanes(pair[s * (s + 1) / 2 + m]);
            gram[s * k + m] = dot;
            gram[m * k + s] = dot;
        }
    }
}

/* More rows than FAST_SLOTS: each dot product on its own. */
static void gram_by_pairs(const struct token *token, int64_t width, float *gram)
{
    int k = token->present;
    for (int s = 0; s < k; s++) {
        for (int m = 0; m <= s; m++) {
            const float *a = token->row[s];
            const float *b = token->row[m];
            float dot = 0.0f;
#pragma omp simd reduction(+ : dot)
            for (int64_t j = 0; j < width; j++) dot += a[j] * b[j];
            gram[s * k + m] = dot;
            gram[m * k + s] = dot;
        }
    }
}

static void combine_token(const struct token *token, const float *base, float *y, int64_t width)
{
    switch (token->present) {
    case 1: forward_columns(1, 0, 0, token, base, y, 0, width, NULL); break;
    case 2: forward_columns(2, 0, 0, token, base, y, 0, width, NULL); break;
    case 3: forward_columns(3, 0, 0, token, base, y, 0, width, NULL); break;
    case 4: forward_columns(4, 0, 0, token, base, y, 0, width, NULL); break;
    case 5: forward_columns(5, 0, 0, token, base, y, 0, width, NULL); break;
    case 6: forward_columns(6, 0, 0, token, base, y, 0, width, NULL); break;
    case 7: forward_columns(7, 0, 0, token, base, y, 0, width, NULL); break;
    case 8: forward_columns(8, 0, 0, token, base, y, 0, width, NULL); break;
    default: forward_columns(token->present, 0, 0, token, base, y, 0, width, NULL); break;
    }
}

static void combine_token_with_gram(const struct token *token, const float *base, float *y, int64_t width,
                                    float *gram)
{
    switch (token->present) {
    case 1: forward_row_with_gram(1, token, base, y, width, gram); break;
    case 2: forward_row_with_gram(2, token, base, y, width, gram); break;
    case 3: forward_row_with_gram(3, token, base, y, width, gram); break;
    case 4: forward_row_with_gram(4, token, base, y, width, gram); break;
    case 5: forward_row_with_gram(5, token, base, y, width, gram); break;
    case 6: forward_row_with_gram(6, token, base, y, width, gram); break;
    case 7: forward_row_with_gram(7, token, base, y, width, gram); break;
    case 8: forward_row_with_gram(8, token, base, y, width, gram); break;
    default:
        forward_columns(token->present, 0, 0, token, base, y, 0, width, NULL);
        gram_by_pairs(token, width, gram);
        break;
    }
}

/* From the dot products of the rows present to gram[i]: zeros where a slot has no row. */
static void store_gram(const struct token *token, const float *dots, const struct mt_tensor *gram, int64_t i)
{
    float *target = (float *)gram->data + i * gram->stride[0];
    for (int64_t s = 0; s < gram->dim[1]; s++) {
        memset(target + s * gram->stride[1], 0, (size_t)gram->dim[2] * sizeof(float));
    }
    for (int s = 0; s < token->present; s++) {
        float *row = target + token->slot[s] * gram->stride[1];
        for (int m = 0; m < token->present; m++) row[token->slot[m]] = dots[s * token->present + m];
    }
}

void MT_CPU(combine_forward)(struct mt_device *device, const struct mt_combine_forward_args *a)
{
    bool has_y = mt_tensor_present(&a->y);
    bool has_base = mt_tensor_present(&a->base);
    bool has_gram = mt_tensor_present(&a->gram);
    int64_t tokens = a->row_of_slot.dim[0];
    int64_t width = a->rows.dim[1];
    int64_t slots = a->row_of_slot.dim[1];
#pragma omp parallel for num_threads(cpu_threads(device, tokens *slots *width)) schedule(static)
    for (int64_t i = 0; i < tokens; i++) {
        struct token token;
        gather_token(&token, &a->rows, &a->row_of_slot, &a->weight, i);
        token.accumulate = a->accumulate;
        const float *base = has_base ? cpu_row(&a->base, i) : NULL;
        float *y = has_y ? cpu_row(&a->y, i) : NULL;
        if (!has_gram) {
            combine_token(&token, base, y, width);
            continue;
        }
        float dots[MT_MAX_SLOTS * MT_MAX_SLOTS]; // [present, present]
        combine_token_with_gram(&token, base, y, width, dots);
        store_gram(&token, dots, &a->gram, i);
    }
}

/* Columns [j, j+count): all rows are read before one is written, since drows may be rows. */
VECTOR_INLINE void backward_step(int k, bool with_coupling, const struct token *token, const float *coupling,
                                 const float *dy, float *const *drow, int64_t j, int64_t count,
                                 vector_f32 *dweight)
{
    vector_f32 x[MT_MAX_SLOTS];
    vector_f32 g = dy != NULL ? load_columns(dy + j, count) : (vector_f32){0};
#pragma GCC unroll 8
    for (int s = 0; s < k; s++) {
        x[s] = load_columns(token->row[s] + j, count);
        dweight[s] += g * x[s];
    }
#pragma GCC unroll 8
    for (int s = 0; s < k; s++) {
        vector_f32 sum = token->weight[s] * g;
        if (with_coupling) {
#pragma GCC unroll 8
            for (int m = 0; m < k; m++) sum += coupling[s * k + m] * x[m];
        }
        store_columns(drow[s] + j, sum, count);
    }
}

/* The whole row of a token; dots[s] = <dy, row s>, coupling [k,k] for the rows present. */
VECTOR_INLINE void backward_row(int k, bool with_coupling, const struct token *token, const float *coupling,
                                const float *dy, float *const *drow, int64_t width, float *dots)
{
    vector_f32 dweight[MT_MAX_SLOTS];
    for (int s = 0; s < k; s++) dweight[s] = (vector_f32){0};
    int64_t j = 0;
    for (; j + VECTOR_LANES <= width; j += VECTOR_LANES) {
        backward_step(k, with_coupling, token, coupling, dy, drow, j, VECTOR_LANES, dweight);
    }
    if (j < width) backward_step(k, with_coupling, token, coupling, dy, drow, j, width - j, dweight);
    for (int s = 0; s < k; s++) dots[s] = sum_of_lanes(dweight[s]);
}

VECTOR_INLINE void backward_token(bool with_coupling, const struct token *token, const float *coupling,
                                  const float *dy, float *const *drow, int64_t width, float *dots)
{
    switch (token->present) {
    case 1: backward_row(1, with_coupling, token, coupling, dy, drow, width, dots); break;
    case 2: backward_row(2, with_coupling, token, coupling, dy, drow, width, dots); break;
    case 3: backward_row(3, with_coupling, token, coupling, dy, drow, width, dots); break;
    case 4: backward_row(4, with_coupling, token, coupling, dy, drow, width, dots); break;
    case 5: backward_row(5, with_coupling, token, coupling, dy, drow, width, dots); break;
    case 6: backward_row(6, with_coupling, token, coupling, dy, drow, width, dots); break;
    case 7: backward_row(7, with_coupling, token, coupling, dy, drow, width, dots); break;
    case 8: backward_row(8, with_coupling, token, coupling, dy, drow, width, dots); break;
    default: backward_row(token->present, with_coupling, token, coupling, dy, drow, width, dots); break;
    }
}

/* factor times the coupling between the rows present, [present, present]. */
static void gather_coupling(const struct token *token, const struct mt_tensor *coupling, float factor,
                            int64_t i, float *gathered)
{
    const float *source = (const float *)coupling->data + i * coupling->stride[0];
    for (int s = 0; s < token->present; s++) {
        const float *row = source + token->slot[s] * coupling->stride[1];
        for (int m = 0; m < token->present; m++)
            gathered[s * token->present + m] = factor * row[token->slot[m]];
    }
}

void MT_CPU(combine_backward)(struct mt_device *device, const struct mt_combine_backward_args *a)
{
    bool has_coupling = mt_tensor_present(&a->coupling);
    bool has_dy = mt_tensor_present(&a->dy);
    float factor = mt_tensor_present(&a->factor) ? (float)mt_load(a->factor.dtype, a->factor.data, 0) : 1.0f;
    int64_t tokens = a->row_of_slot.dim[0];
    int64_t width = a->rows.dim[1];
    int64_t slots = a->row_of_slot.dim[1];
#pragma omp parallel for num_threads(cpu_threads(device, tokens *slots *width)) schedule(static)
    for (int64_t i = 0; i < tokens; i++) {
        struct token token;
        gather_token(&token, &a->rows, &a->row_of_slot, &a->weight, i);
        const int32_t *row = (const int32_t *)a->row_of_slot.data + i * a->row_of_slot.stride[0];
        float *drow[MT_MAX_SLOTS];
        for (int s = 0; s < token.present; s++) drow[s] = cpu_row(&a->drows, row[token.slot[s]]);
        const float *dy = has_dy ? cpu_row(&a->dy, i) : NULL;
        float dots[MT_MAX_SLOTS];
        if (has_coupling) {
            float coupling[MT_MAX_SLOTS * MT_MAX_SLOTS]; // [present, present]
            gather_coupling(&token, &a->coupling, factor, i, coupling);
            backward_token(true, &token, coupling, dy, drow, width, dots);
        } else {
            backward_token(false, &token, NULL, dy, drow, width, dots);
        }
        if (!has_dy) continue;
        float *dweight = cpu_row(&a->dweight, i);
        for (int64_t s = 0; s < slots; s++) dweight[s] = 0.0f;
        for (int s = 0; s < token.present; s++) dweight[token.slot[s]] = dots[s];
    }
}
