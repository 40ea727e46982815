/*
 * grouped_sum: term after term on grouped_gemm, later ones added to y. A term with masks is made some rows at
 * a time: what its mask keeps of x, and its product before the mask, pass through scratch that stays in the
 * cache.
 */
#include "ops/cpu/gemm_tiles.h"
#include "ops/cpu/mask.h"
#include "ops/cpu/row_chunks.h"

static bool is_fast(const struct mt_grouped_sum_args *a)
{
    for (int t = 0; t < a->count; t++) {
        const struct mt_product_term *term = &a->terms[t];
        if (!gemm_reads(term->x.dtype)) return false;
        for (int e = 0; e < a->experts; e++) {
            if (mt_tensor_present(&term->weight[e]) && !gemm_reads(term->weight[e].dtype)) return false;
        }
    }
    return cpu_is_f32(&a->y);
}

// ------------------------------------------------------------------ scratch

static bool is_masked(const struct mt_product_term *term)
{
    return mt_tensor_present(&term->mask_x) || mt_tensor_present(&term->mask_y);
}

/* Rows of a masked term made at a time. */
static int64_t term_rows(const struct mt_grouped_sum_args *a, const struct mt_product_term *term)
{
    int64_t columns = 0;
    if (mt_tensor_present(&term->mask_x)) columns = term->x.dim[1];
    if (mt_tensor_present(&term->mask_y) && a->y.dim[1] > columns) columns = a->y.dim[1];
    return chunk_rows(a->y.dim[0], columns);
}

/* Scratch, after what products need themselves. */
struct pieces {
    int32_t *offsets; // [experts + 1], of a chunk
    void *x;          // rows of x
    float *y;         // rows of a product
    size_t bytes;
};

static struct pieces pieces_of(const struct mt_device *device, const struct mt_grouped_sum_args *a)
{
    size_t x_bytes = 0;
    size_t y_bytes = 0;
    for (int t = 0; t < a->count; t++) {
        const struct mt_product_term *term = &a->terms[t];
        int64_t rows = term_rows(a, term);
        size_t x = chunk_bytes(rows * term->x.dim[1], sizeof(float));
        size_t y = chunk_bytes(rows * a->y.dim[1], sizeof(float));
        if (mt_tensor_present(&term->mask_x) && x > x_bytes) x_bytes = x;
        if (mt_tensor_present(&term->mask_y) && y > y_bytes) y_bytes = y;
    }
    size_t offsets = (gemm_scratch_bytes(device) + 63) / 64 * 64;
    size_t x = offsets + chunk_bytes(a->experts + 1, sizeof(int32_t));
    char *base = device->scratch.data;
    struct pieces pieces = {.bytes = x + x_bytes + y_bytes};
    if (base == NULL) return pieces;
    pieces.offsets = (int32_t *)(void *)(base + offsets);
    pieces.x = base + x;
    pieces.y = (float *)(void *)(base + x + x_bytes);
    return pieces;
}

size_t MT_CPU(grouped_sum_scratch)(const struct mt_device *device, const void *args)
{
    return is_fast(args) ? pieces_of(device, args).bytes : 0;
}

// ------------------------------------------------------------------ terms

/* y = beta · y + what the mask keeps of `product`, rows [row, row + product's). */
static void add_masked(const struct mt_device *device, const struct mt_tensor *product,
                       const struct mt_tensor *mask, int64_t row, float beta, const struct mt_tensor *y)
{
    int64_t columns = y->dim[1];
#pragma omp parallel for num_threads(cpu_threads(device, product->dim[0] * columns)) schedule(static)
    for (int64_t r = 0; r < product->dim[0]; r++) {
        float *own = cpu_row(product, r);
        float *target = cpu_row(y, row + r);
        mask_f32(own, mask_row(mask, row + r), beta == 0.0f ? target : own, columns);
        if (beta == 0.0f) continue;
#pragma omp simd
        for (int64_t j = 0; j < columns; j++) target[j] = beta * target[j] + own[j];
    }
}

/* Rows [row, row + rows) of a term, added to beta · y. */
static enum mt_status add_rows(struct mt_device *device, const struct mt_grouped_sum_args *a,
                               const struct mt_product_term *term, const struct pieces *pieces, int64_t row,
                               int64_t rows, float beta)
{
    struct mt_grouped_gemm_args product = {
        .x = mt_tensor_rows(&term->x, row, rows),
        .weight = term->weight,
        .experts = a->experts,
        .offsets = chunk_offsets(&a->offsets, a->experts, a->y.dim[0], row, rows, pieces->offsets),
        .y = mt_tensor_rows(&a->y, row, rows),
        .transpose_weight = term->transpose_weight,
        .alpha = term->alpha,
        .beta = beta,
    };
    if (mt_tensor_present(&term->mask_x)) {
        product.x = mask_part(device, &term->x, &term->mask_x, row, rows, 0, term->x.dim[1], pieces->x);
        product.alpha *= term->mask_scale;
    }
    bool through = mt_tensor_present(&term->mask_y);
    if (through) {
        product.y = mt_tensor_2d(pieces->y, MT_F32, rows, a->y.dim[1]);
        product.alpha *= term->mask_scale;
        product.beta = 0.0f;
    }
    enum mt_status status = MT_CPU(grouped_gemm)(device, &product);
    if (status == MT_OK && through) add_masked(device, &product.y, &term->mask_y, row, beta, &a->y);
    return status;
}

enum mt_status MT_CPU(grouped_sum)(struct mt_device *device, const void *args)
{
    const struct mt_grouped_sum_args *a = args;
    if (!is_fast(a)) return mt_ref_grouped_sum(device, args);
    struct pieces pieces = pieces_of(device, a);
    int64_t rows = chunk_all_rows(&a->offsets, a->experts, a->y.dim[0]);
    for (int t = 0; t < a->count; t++) {
        const struct mt_product_term *term = &a->terms[t];
        int64_t step = is_masked(term) ? term_rows(a, term) : rows;
        for (int64_t row = 0; row < rows; row += step) {
            enum mt_status status =
                add_rows(device, a, term, &pieces, row, cpu_min(step, rows - row), t == 0 ? a->beta : 1.0f);
            if (status != MT_OK) return status;
        }
    }
    return MT_OK;
}
