/*
 * The ops of LoRA pairs. The linears of a pair's x share it: it is packed once for all of them, and masked on
 * the way. lora_dxa's products go through grouped_gemm and its gradient.
 */
#include "ops/cpu/products/gemm_tiles.h"
#include "ops/cpu/row_chunks.h"
#include "ops/dropout.h"

_Static_assert(MT_LORA_LINEARS <= GEMM_SHARES, "the linears share a product's operand");

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

/* Scratch: what products need themselves, then a number for each expert and one more. */
static int32_t *own_offsets(const struct mt_device *device)
{
    char *base = device->scratch.data;
    return (int32_t *)(void *)(base + (gemm_scratch_bytes(device) + 63) / 64 * 64);
}

static size_t scratch_bytes(const struct mt_device *device, int experts)
{
    return (gemm_scratch_bytes(device) + 63) / 64 * 64 + chunk_bytes(experts + 1, sizeof(int32_t));
}

/* The first row of expert e; of all rows where there are no offsets. */
static int64_t first_row(const struct mt_tensor *offsets, int e, int64_t rows)
{
    return mt_tensor_present(offsets) ? ((const int32_t *)offsets->data)[e] : e * rows;
}

/* The mask from a row and a word on. */
static struct gemm_mask mask_at(const struct mt_tensor *mask, int64_t row, int64_t word)
{
    if (!mt_tensor_present(mask)) return (struct gemm_mask){0};
    return (struct gemm_mask){(const uint32_t *)mask->data + row * mask->stride[0] + word, mask->stride[0]};
}

/* Tiles wanted of each expert. */
static int64_t enough_tiles(int experts)
{
    return (GEMM_ENOUGH_TILES + experts - 1) / experts;
}

// ------------------------------------------------------------------ lora_xa

bool MT_CPU(lora_xa_fits)(const struct mt_lora_xa_args *l)
{
    for (int i = 0; i < l->linears; i++) {
        if (!cpu_is_f32(&l->xa[i]) || !reads_all(l->a[i], l->experts)) return false;
    }
    return gemm_reads(l->x.dtype);
}

size_t MT_CPU(lora_xa_scratch)(const struct mt_device *device, const struct mt_lora_xa_args *l)
{
    return scratch_bytes(device, l->experts);
}

/* Tiles of the rows of an expert. */
static struct gemm_tiles xa_cut(const struct mt_lora_xa_args *l, int64_t rank, int e)
{
    int64_t rows = first_row(&l->offsets, e + 1, l->x.dim[0]) - first_row(&l->offsets, e, l->x.dim[0]);
    struct gemm_tiles tiles = gemm_cut(rows, rank, l->x.dim[1], enough_tiles(l->experts));
    tiles.column_tiles = 1; // all columns of all linears
    return tiles;
}

/* `count` rows of expert e, from `row` on. */
static void xa_tile(const struct mt_lora_xa_args *l, int e, int64_t row, int64_t count, void *workspace)
{
    struct gemm_share products[MT_LORA_LINEARS];
    struct gemm_operand x = gemm_operand_at(gemm_operand_of(&l->x, false), row, 0);
    int present = 0;
    for (int i = 0; i < l->linears; i++) {
        const struct mt_tensor *a = &l->a[i][e];
        struct gemm_share product = {
            .size = l->xa[i].dim[1], .c = cpu_row(&l->xa[i], row), .c_row = l->xa[i].stride[0]};
        if (mt_tensor_present(a)) {
            product.other = gemm_operand_of(a, true);
            products[present++] = product;
        } else {
            MT_CPU(gemm_block)(count, product.size, 0, 0.0f, x, x, 0.0f, product.c, product.c_row, workspace);
        }
    }
    if (present == 0) return;
    float alpha = mt_tensor_present(&l->mask) ? l->alpha * l->mask_scale : l->alpha;
    MT_CPU(gemm_block_same_a)
    (count, l->x.dim[1], alpha, x, mask_at(&l->mask, row, 0), products, present, 0.0f, workspace);
}

void MT_CPU(lora_xa)(struct mt_device *device, const struct mt_lora_xa_args *l)
{
    int64_t all = l->x.dim[0];
    int64_t rank = 0;
    for (int i = 0; i < l->linears; i++) rank += l->xa[i].dim[1];
    int32_t *first_tile = own_offsets(device);
    first_tile[0] = 0;
    for (int e = 0; e < l->experts; e++)
        first_tile[e + 1] = first_tile[e] + (int32_t)xa_cut(l, rank, e).row_tiles;
    double work = (double)chunk_all_rows(&l->offsets, l->experts, all) * (double)(l->x.dim[1] * rank);
#pragma omp parallel for num_threads(gemm_threads(device, work)) schedule(dynamic)
    for (int32_t tile = 0; tile < first_tile[l->experts]; tile++) {
        int e = 0;
        while (tile >= first_tile[e + 1]) e++;
        struct gemm_tiles tiles = xa_cut(l, rank, e);
        int64_t row = first_row(&l->offsets, e, all) + (tile - first_tile[e]) * tiles.tile_rows;
        int64_t count = cpu_min(tiles.tile_rows, first_row(&l->offsets, e + 1, all) - row);
        xa_tile(l, e, row, count, gemm_own_workspace(device));
    }
}

// ------------------------------------------------------------------ lora_dxa

bool MT_CPU(lora_dxa_fits)(const struct mt_lora_dxa_args *l)
{
    for (int i = 0; i < l->linears; i++) {
        const struct mt_lora_pair_gradient *linear = &l->linear[i];
        if (!gemm_reads(linear->dy.dtype) || !cpu_is_f32(&linear->dxa) || !reads_all(linear->b, l->experts))
            return false;
        if (linear->db == NULL) continue;
        if (!gemm_reads(linear->xa.dtype) || !writes_all(linear->db, l->experts)) return false;
    }
    return true;
}

size_t MT_CPU(lora_dxa_scratch)(const struct mt_device *device, const struct mt_lora_dxa_args *l)
{
    return scratch_bytes(device, l->experts);
}

static void pair_gradient(struct mt_device *device, const struct mt_lora_dxa_args *l,
                          const struct mt_lora_pair_gradient *linear, const struct mt_tensor *offsets)
{
    MT_CPU(grouped_gemm)
    (device, &(struct mt_grouped_gemm_args){
                 .x = linear->dy,
                 .weight = linear->b,
                 .experts = l->experts,
                 .offsets = *offsets,
                 .y = linear->dxa,
                 .alpha = linear->scale,
             });
    if (linear->db == NULL) return;
    MT_CPU(grouped_gemm_dw)
    (device, &(struct mt_grouped_gemm_dw_args){
                 .dy = linear->dy,
                 .x = linear->xa,
                 .dweight = linear->db,
                 .experts = l->experts,
                 .offsets = *offsets,
                 .alpha = linear->db_scale,
                 .beta = 1.0f,
             });
}

void MT_CPU(lora_dxa)(struct mt_device *device, const struct mt_lora_dxa_args *l)
{
    int64_t rows = l->linear[0].dxa.dim[0];
    struct mt_tensor offsets = chunk_offsets(&l->offsets, l->experts, rows, 0, rows, own_offsets(device));
    for (int i = 0; i < l->linears; i++) pair_gradient(device, l, &l->linear[i], &offsets);
}

// ------------------------------------------------------------------ lora_da

bool MT_CPU(lora_da_fits)(const struct mt_lora_da_args *l)
{
    for (int i = 0; i < l->linears; i++) {
        if (!gemm_reads(l->dxa[i].dtype) || !writes_all(l->da[i], l->experts)) return false;
    }
    return gemm_reads(l->x.dtype);
}

size_t MT_CPU(lora_da_scratch)(const struct mt_device *device, const struct mt_lora_da_args *args)
{
    (void)args;
    return gemm_scratch_bytes(device);
}

/* Columns of a tile: whole words of a mask. */
static int64_t da_columns(const struct mt_lora_da_args *l)
{
    int64_t most = cpu_min(GEMM_TILE_COLUMNS, l->x.dim[1] / enough_tiles(l->experts));
    return gemm_even_piece(l->x.dim[1], most > 64 ? most : 64, 64);
}

/* Columns [column, column + columns) of the gradients of expert e. */
static void da_tile(const struct mt_lora_da_args *l, int e, int64_t column, int64_t columns, void *workspace)
{
    int64_t first = first_row(&l->offsets, e, l->x.dim[0]);
    int64_t rows = first_row(&l->offsets, e + 1, l->x.dim[0]) - first;
    struct gemm_operand x = gemm_operand_at(gemm_operand_of(&l->x, false), first, column);
    struct gemm_mask mask = mask_at(&l->mask, first, column / MT_MASK_BITS);
    int64_t largest = 0;
    for (int i = 0; i < l->linears; i++) largest = largest > l->dxa[i].dim[1] ? largest : l->dxa[i].dim[1];
    for (int64_t row = 0; row < largest; row += GEMM_SHARED_ROWS) {
        struct gemm_share products[MT_LORA_LINEARS];
        int count = 0;
        for (int i = 0; i < l->linears; i++) {
            const struct mt_tensor *da = &l->da[i][e];
            if (!mt_tensor_present(da) || row >= da->dim[0]) continue;
            products[count++] = (struct gemm_share){
                .size = cpu_min(GEMM_SHARED_ROWS, da->dim[0] - row),
                .other = gemm_operand_at(gemm_operand_of(&l->dxa[i], true), row, first),
                .c = cpu_row(da, row) + column,
                .c_row = da->stride[0],
            };
        }
        float alpha = mt_tensor_present(&l->mask) ? l->mask_scale : 1.0f;
        MT_CPU(gemm_block_same_b)(columns, rows, alpha, x, mask, products, count, 1.0f, workspace);
    }
}

void MT_CPU(lora_da)(struct mt_device *device, const struct mt_lora_da_args *l)
{
    int64_t columns = l->x.dim[1];
    int64_t rank = 0;
    for (int i = 0; i < l->linears; i++) rank += l->dxa[i].dim[1];
    int64_t piece = da_columns(l);
    int64_t pieces = (columns + piece - 1) / piece;
    double work = (double)chunk_all_rows(&l->offsets, l->experts, l->x.dim[0]) * (double)(columns * rank);
#pragma omp parallel for num_threads(gemm_threads(device, work)) schedule(dynamic)
    for (int64_t tile = 0; tile < l->experts * pieces; tile++) {
        int64_t column = tile % pieces * piece;
        da_tile(l, (int)(tile / pieces), column, cpu_min(piece, columns - column),
                gemm_own_workspace(device));
    }
}
