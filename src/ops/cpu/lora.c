/*
 * The ops of LoRA pairs, on grouped_gemm and its gradient. What a mask keeps of x is made once for all maps,
 * in scratch: rows at a time for their middles, columns at a time for the gradients of A, which are sums over
 * all rows.
 */
#include "ops/cpu/gemm_tiles.h"
#include "ops/cpu/mask.h"
#include "ops/cpu/row_chunks.h"

#define MASKED_BYTES ((int64_t)8 << 20) // of columns of x in scratch
#define COLUMN_GRAIN 64                 // of a tile of a gradient, and whole words of a mask

/* Whether the products read these matrices, those that are there. */
static bool reads_all(const struct mt_tensor *list, int experts)
{
    for (int e = 0; e < experts; e++) {
        if (mt_tensor_present(&list[e]) && !gemm_reads(list[e].dtype)) return false;
    }
    return true;
}

/* Whether the gradient is made for these matrices. */
static bool writes_all(const struct mt_tensor *list, int experts)
{
    for (int e = 0; e < experts; e++) {
        if (mt_tensor_present(&list[e]) && !cpu_is_f32(&list[e])) return false;
    }
    return true;
}

/* Scratch: what products need themselves, then these. */
struct pieces {
    int32_t *offsets;       // [experts + 1]
    struct mt_tensor *view; // [experts]
    void *x;                // what a mask keeps
    size_t bytes;
};

static struct pieces pieces_of(const struct mt_device *device, int experts, int64_t elements)
{
    size_t offsets = (gemm_scratch_bytes(device) + 63) / 64 * 64;
    size_t view = offsets + chunk_bytes(experts + 1, sizeof(int32_t));
    size_t x = view + chunk_bytes(experts, sizeof(struct mt_tensor));
    char *base = device->scratch.data;
    struct pieces pieces = {.bytes = x + chunk_bytes(elements, sizeof(float))};
    if (base == NULL) return pieces;
    pieces.offsets = (int32_t *)(void *)(base + offsets);
    pieces.view = (struct mt_tensor *)(void *)(base + view);
    pieces.x = base + x;
    return pieces;
}

// ------------------------------------------------------------------ lora_low

static bool low_is_fast(const struct mt_lora_low_args *l)
{
    for (int i = 0; i < l->maps; i++) {
        if (!cpu_is_f32(&l->low[i]) || !reads_all(l->a[i], l->experts)) return false;
    }
    return gemm_reads(l->x.dtype);
}

/* Rows of x made at a time; all of an x that has no mask. */
static int64_t low_rows(const struct mt_lora_low_args *l)
{
    return mt_tensor_present(&l->mask) ? chunk_rows(l->x.dim[0], l->x.dim[1]) : l->x.dim[0];
}

static struct pieces low_pieces(const struct mt_device *device, const struct mt_lora_low_args *l)
{
    bool masked = mt_tensor_present(&l->mask);
    return pieces_of(device, l->experts, masked ? low_rows(l) * l->x.dim[1] : 0);
}

size_t MT_CPU(lora_low_scratch)(const struct mt_device *device, const void *args)
{
    return low_is_fast(args) ? low_pieces(device, args).bytes : 0;
}

enum mt_status MT_CPU(lora_low)(struct mt_device *device, const void *args)
{
    const struct mt_lora_low_args *l = args;
    if (!low_is_fast(l)) return mt_ref_lora_low(device, args);
    struct pieces pieces = low_pieces(device, l);
    int64_t rows = chunk_all_rows(&l->offsets, l->experts, l->x.dim[0]);
    int64_t step = low_rows(l);
    for (int64_t row = 0; row < rows; row += step) {
        int64_t count = cpu_min(step, rows - row);
        struct mt_grouped_gemm_args product = {
            .x = mt_tensor_rows(&l->x, row, count),
            .experts = l->experts,
            .offsets = chunk_offsets(&l->offsets, l->experts, l->x.dim[0], row, count, pieces.offsets),
            .transpose_weight = true,
            .alpha = l->alpha,
        };
        if (mt_tensor_present(&l->mask)) {
            product.x = mask_part(device, &l->x, &l->mask, row, count, 0, l->x.dim[1], pieces.x);
            product.alpha *= l->mask_scale;
        }
        for (int i = 0; i < l->maps; i++) {
            product.weight = l->a[i];
            product.y = mt_tensor_rows(&l->low[i], row, count);
            enum mt_status status = MT_CPU(grouped_gemm)(device, &product);
            if (status != MT_OK) return status;
        }
    }
    return MT_OK;
}

// ------------------------------------------------------------------ lora_dlow

static bool dlow_is_fast(const struct mt_lora_dlow_args *l)
{
    for (int i = 0; i < l->maps; i++) {
        const struct mt_lora_pair_gradient *map = &l->map[i];
        if (!gemm_reads(map->dy.dtype) || !cpu_is_f32(&map->dlow) || !reads_all(map->b, l->experts))
            return false;
        if (map->db == NULL) continue;
        if (!gemm_reads(map->low.dtype) || !writes_all(map->db, l->experts)) return false;
    }
    return true;
}

size_t MT_CPU(lora_dlow_scratch)(const struct mt_device *device, const void *args)
{
    const struct mt_lora_dlow_args *l = args;
    return dlow_is_fast(l) ? pieces_of(device, l->experts, 0).bytes : 0;
}

static enum mt_status pair_gradient(struct mt_device *device, const struct mt_lora_dlow_args *l,
                                    const struct mt_lora_pair_gradient *map, const struct mt_tensor *offsets)
{
    enum mt_status status = MT_CPU(grouped_gemm)(device, &(struct mt_grouped_gemm_args){
                                                             .x = map->dy,
                                                             .weight = map->b,
                                                             .experts = l->experts,
                                                             .offsets = *offsets,
                                                             .y = map->dlow,
                                                             .alpha = map->scale,
                                                         });
    if (status != MT_OK || map->db == NULL) return status;
    return MT_CPU(grouped_gemm_dw)(device, &(struct mt_grouped_gemm_dw_args){
                                               .dy = map->dy,
                                               .x = map->low,
                                               .dweight = map->db,
                                               .experts = l->experts,
                                               .offsets = *offsets,
                                               .alpha = map->db_scale,
                                               .beta = 1.0f,
                                           });
}

enum mt_status MT_CPU(lora_dlow)(struct mt_device *device, const void *args)
{
    const struct mt_lora_dlow_args *l = args;
    if (!dlow_is_fast(l)) return mt_ref_lora_dlow(device, args);
    struct pieces pieces = pieces_of(device, l->experts, 0);
    int64_t rows = l->map[0].dlow.dim[0];
    struct mt_tensor offsets = chunk_offsets(&l->offsets, l->experts, rows, 0, rows, pieces.offsets);
    for (int i = 0; i < l->maps; i++) {
        enum mt_status status = pair_gradient(device, l, &l->map[i], &offsets);
        if (status != MT_OK) return status;
    }
    return MT_OK;
}

// ------------------------------------------------------------------ lora_da

static bool da_is_fast(const struct mt_lora_da_args *l)
{
    for (int i = 0; i < l->maps; i++) {
        if (!gemm_reads(l->dlow[i].dtype) || !writes_all(l->da[i], l->experts)) return false;
    }
    return gemm_reads(l->x.dtype);
}

/* Columns of x made at a time; all of an x that has no mask. */
static int64_t da_columns(const struct mt_lora_da_args *l)
{
    int64_t columns = l->x.dim[1];
    if (!mt_tensor_present(&l->mask) || l->x.dim[0] == 0) return columns;
    int64_t fitting = MASKED_BYTES / (l->x.dim[0] * (int64_t)sizeof(float)) / COLUMN_GRAIN * COLUMN_GRAIN;
    return cpu_min(columns, fitting > COLUMN_GRAIN ? fitting : COLUMN_GRAIN);
}

static struct pieces da_pieces(const struct mt_device *device, const struct mt_lora_da_args *l)
{
    bool masked = mt_tensor_present(&l->mask);
    return pieces_of(device, l->experts, masked ? l->x.dim[0] * da_columns(l) : 0);
}

size_t MT_CPU(lora_da_scratch)(const struct mt_device *device, const void *args)
{
    return da_is_fast(args) ? da_pieces(device, args).bytes : 0;
}

/* Columns [column, column + columns) of every matrix that is there. */
static const struct mt_tensor *columns_of(const struct mt_tensor *list, int experts, int64_t column,
                                          int64_t columns, struct mt_tensor *view)
{
    for (int e = 0; e < experts; e++) {
        view[e] = list[e];
        if (mt_tensor_present(&list[e])) view[e] = mt_tensor_columns(&list[e], column, columns);
    }
    return view;
}

enum mt_status MT_CPU(lora_da)(struct mt_device *device, const void *args)
{
    const struct mt_lora_da_args *l = args;
    if (!da_is_fast(l)) return mt_ref_lora_da(device, args);
    struct pieces pieces = da_pieces(device, l);
    int64_t rows = chunk_all_rows(&l->offsets, l->experts, l->x.dim[0]);
    int64_t step = da_columns(l);
    struct mt_grouped_gemm_dw_args product = {
        .experts = l->experts, .offsets = l->offsets, .alpha = 1.0f, .beta = 1.0f};
    for (int64_t column = 0; column < l->x.dim[1]; column += step) {
        int64_t columns = cpu_min(step, l->x.dim[1] - column);
        product.x = mt_tensor_rows(&l->x, 0, rows);
        if (mt_tensor_present(&l->mask)) {
            product.x = mask_part(device, &l->x, &l->mask, 0, rows, column, columns, pieces.x);
            product.alpha = l->mask_scale;
        }
        for (int i = 0; i < l->maps; i++) {
            product.dy = mt_tensor_rows(&l->dlow[i], 0, rows);
            product.dweight = columns_of(l->da[i], l->experts, column, columns, pieces.view);
            enum mt_status status = MT_CPU(grouped_gemm_dw)(device, &product);
            if (status != MT_OK) return status;
        }
    }
    return MT_OK;
}
