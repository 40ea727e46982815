/*
 * grouped_sum: term after term on grouped_gemm, later ones added to y. A term with a mask is made some rows
 * at a time: its product before the mask passes through scratch that stays in the cache.
 */
#include "ops/cpu/elementwise/mask.h"
#include "ops/cpu/products/gemm_tiles.h"
#include "ops/cpu/row_chunks.h"

bool MT_CPU(grouped_sum_fits)(const struct mt_grouped_sum_args *a)
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

/* Scratch, after what products need themselves. */
struct pieces {
    int32_t *offsets; // [experts + 1], of a chunk
    float *y;         // rows of a product
    size_t bytes;
};

static struct pieces pieces_of(const struct mt_device *device, const struct mt_grouped_sum_args *a)
{
    int64_t elements = 0;
    for (int t = 0; t < a->count; t++) {
        if (mt_tensor_present(&a->terms[t].mask_y))
            elements = chunk_rows(a->y.dim[0], a->y.dim[1]) * a->y.dim[1];
    }
    size_t offsets = (gemm_scratch_bytes(device) + 63) / 64 * 64;
    size_t y = offsets + chunk_bytes(a->experts + 1, sizeof(int32_t));
    char *base = device->scratch.data;
    struct pieces pieces = {.bytes = y + chunk_bytes(elements, sizeof(float))};
    if (base == NULL) return pieces;
    pieces.offsets = (int32_t *)(void *)(base + offsets);
    pieces.y = (float *)(void *)(base + y);
    return pieces;
}

size_t MT_CPU(grouped_sum_scratch)(const struct mt_device *device, const struct mt_grouped_sum_args *args)
{
    return pieces_of(device, args).bytes;
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
static void add_rows(struct mt_device *device, const struct mt_grouped_sum_args *a,
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
    bool through = mt_tensor_present(&term->mask_y);
    if (through) {
        product.y = mt_tensor_2d(pieces->y, MT_F32, rows, a->y.dim[1]);
        product.alpha *= term->mask_scale;
        product.beta = 0.0f;
    }
    cpu_run(device, MT_OP_grouped_gemm, &product);
    if (through) add_masked(device, &product.y, &term->mask_y, row, beta, &a->y);
}

void MT_CPU(grouped_sum)(struct mt_device *device, const struct mt_grouped_sum_args *a)
{
    struct pieces pieces = pieces_of(device, a);
    int64_t rows = chunk_all_rows(&a->offsets, a->experts, a->y.dim[0]);
    for (int t = 0; t < a->count; t++) {
        const struct mt_product_term *term = &a->terms[t];
        int64_t step = mt_tensor_present(&term->mask_y) ? chunk_rows(a->y.dim[0], a->y.dim[1]) : rows;
        for (int64_t row = 0; row < rows; row += step)
            add_rows(device, a, term, &pieces, row, cpu_min(step, rows - row), t == 0 ? a->beta : 1.0f);
    }
}
