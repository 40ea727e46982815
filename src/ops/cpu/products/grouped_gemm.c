/*
 * grouped_gemm, its weight gradient, and head_gemm: every expert's product is cut into tiles by its own
 * sizes, and all tiles of all experts are shared out together, so that uneven loads keep every thread busy.
 */
#include "ops/cpu/products/gemm_tiles.h"

static const int32_t *offsets_of(const struct mt_tensor *offsets)
{
    return offsets->data;
}

/* Tiles wanted of each expert: many experts are enough work to share out by themselves. */
static int64_t enough_tiles(int experts)
{
    return (GEMM_ENOUGH_TILES + experts - 1) / experts;
}

bool MT_CPU(grouped_gemm_fits)(const struct mt_grouped_gemm_args *g)
{
    for (int e = 0; e < g->experts; e++) {
        if (mt_tensor_present(&g->weight[e]) && !gemm_reads(g->weight[e].dtype)) return false;
    }
    bool gains = true;
#if defined(MT_CPU_TILE_UNIT)
    gains = false;
    for (int e = 0; e < g->experts; e++) {
        gains |= mt_tensor_present(&g->weight[e]) && gemm_unit_gains(g->x.dtype, g->weight[e].dtype);
    }
#endif
    return gains && gemm_reads(g->x.dtype) && cpu_is_f32(&g->y);
}

size_t MT_CPU(grouped_gemm_scratch)(const struct mt_device *device, const struct mt_grouped_gemm_args *args)
{
    (void)args;
    return gemm_scratch_bytes(device);
}

/* The cut of expert e's rows. */
static struct gemm_tiles forward_cut(const struct mt_grouped_gemm_args *g, int e)
{
    const int32_t *offsets = offsets_of(&g->offsets);
    return gemm_cut(offsets[e + 1] - offsets[e], g->y.dim[1], g->x.dim[1], enough_tiles(g->experts));
}

static void forward_tile(const struct mt_grouped_gemm_args *g, int64_t tile, void *workspace)
{
    int e = 0;
    struct gemm_tiles tiles = forward_cut(g, 0);
    while (tile >= tiles.row_tiles * tiles.column_tiles) {
        tile -= tiles.row_tiles * tiles.column_tiles;
        e++;
        tiles = forward_cut(g, e);
    }
    int64_t first = offsets_of(&g->offsets)[e];
    int64_t rows = offsets_of(&g->offsets)[e + 1] - first;
    struct gemm_operand x = gemm_operand_at(gemm_operand_of(&g->x, false), first, 0);
    bool present = mt_tensor_present(&g->weight[e]);
    // Without steps only beta acts, and the operands are not read.
    int64_t steps = present ? g->x.dim[1] : 0;
    struct gemm_operand weight =
        present ? gemm_operand_of(&g->weight[e], g->transpose_weight) : (struct gemm_operand){.data = x.data};
    gemm_tile(&tiles, tile, rows, g->y.dim[1], steps, g->alpha, x, weight, g->beta, cpu_row(&g->y, first),
              g->y.stride[0], workspace);
}

void MT_CPU(grouped_gemm)(struct mt_device *device, const struct mt_grouped_gemm_args *g)
{
    int64_t count = 0;
    for (int e = 0; e < g->experts; e++) {
        struct gemm_tiles tiles = forward_cut(g, e);
        count += tiles.row_tiles * tiles.column_tiles;
    }
    double rows = (double)offsets_of(&g->offsets)[g->experts];
    double work = rows * (double)g->x.dim[1] * (double)g->y.dim[1];
#pragma omp parallel for num_threads(gemm_threads(device, work)) schedule(dynamic)
    for (int64_t tile = 0; tile < count; tile++) forward_tile(g, tile, gemm_own_workspace(device));
}

bool MT_CPU(head_gemm_fits)(const struct mt_head_gemm_args *g)
{
    for (int64_t h = 0; h < g->x.dim[1]; h++) {
        struct mt_gemm_args one = {.a = g->x, .b = g->weight[h], .c = g->y};
        if (!MT_CPU(gemm_fits)(&one)) return false;
    }
    return true;
}

size_t MT_CPU(head_gemm_scratch)(const struct mt_device *device, const struct mt_head_gemm_args *args)
{
    (void)args;
    return gemm_scratch_bytes(device);
}

void MT_CPU(head_gemm)(struct mt_device *device, const struct mt_head_gemm_args *g)
{
    int64_t rows = g->x.dim[0];
    int64_t heads = g->x.dim[1];
    int64_t inner = g->x.dim[2];
    int64_t columns = g->y.dim[2];
    if (heads == 0) return;
    struct gemm_tiles tiles = gemm_cut(rows, columns, inner, (GEMM_ENOUGH_TILES + heads - 1) / heads);
    int64_t each = tiles.row_tiles * tiles.column_tiles;
    double work = (double)rows * (double)heads * (double)inner * (double)columns;
#pragma omp parallel for num_threads(gemm_threads(device, work)) schedule(dynamic)
    for (int64_t tile = 0; tile < heads * each; tile++) {
        struct mt_tensor x = mt_tensor_head(&g->x, tile / each);
        struct mt_tensor y = mt_tensor_head(&g->y, tile / each);
        gemm_tile(&tiles, tile % each, rows, columns, inner, g->alpha, gemm_operand_of(&x, false),
                  gemm_operand_of(&g->weight[tile / each], g->transpose_weight), g->beta, y.data, y.stride[0],
                  gemm_own_workspace(device));
    }
}

bool MT_CPU(grouped_gemm_dw_fits)(const struct mt_grouped_gemm_dw_args *g)
{
    for (int e = 0; e < g->experts; e++) {
        if (mt_tensor_present(&g->dweight[e]) && !cpu_is_f32(&g->dweight[e])) return false;
    }
    return gemm_reads(g->dy.dtype) && gemm_reads(g->x.dtype);
}

size_t MT_CPU(grouped_gemm_dw_scratch)(const struct mt_device *device,
                                       const struct mt_grouped_gemm_dw_args *args)
{
    (void)args;
    return gemm_scratch_bytes(device);
}

/* The rows of expert e. */
static struct mt_tensor rows_of(const struct mt_grouped_gemm_dw_args *g, const struct mt_tensor *x, int64_t e)
{
    if (!mt_tensor_present(&g->offsets)) return *x;
    int64_t first = offsets_of(&g->offsets)[e];
    return mt_tensor_rows(x, first, offsets_of(&g->offsets)[e + 1] - first);
}

/* Every dW_e has the same size, and one cut serves all: what differs is the number of steps (rows). */
static void dw_tile(const struct mt_grouped_gemm_dw_args *g, const struct gemm_tiles *tiles, int64_t tile,
                    void *workspace)
{
    int64_t per_expert = tiles->row_tiles * tiles->column_tiles;
    int64_t e = tile / per_expert;
    if (!mt_tensor_present(&g->dweight[e])) return;
    const struct mt_tensor *dweight = &g->dweight[e];
    struct mt_tensor dy = rows_of(g, &g->dy, e);
    struct mt_tensor x = rows_of(g, &g->x, e);
    gemm_tile(tiles, tile % per_expert, dweight->dim[0], x.dim[1], x.dim[0], g->alpha,
              gemm_operand_of(&dy, true), gemm_operand_of(&x, false), g->beta, dweight->data,
              dweight->stride[0], workspace);
}

void MT_CPU(grouped_gemm_dw)(struct mt_device *device, const struct mt_grouped_gemm_dw_args *g)
{
    int64_t rows = mt_tensor_present(&g->offsets) ? offsets_of(&g->offsets)[g->experts] : g->x.dim[0];
    int64_t columns = g->x.dim[1];
    struct gemm_tiles tiles =
        gemm_cut(g->dy.dim[1], columns, rows / g->experts + 1, enough_tiles(g->experts));
    int64_t count = g->experts * tiles.row_tiles * tiles.column_tiles;
    // dW is written even where there are no rows: count at least one step per element.
    double work = (double)(rows + g->experts) * (double)columns * (double)g->dy.dim[1];
#pragma omp parallel for num_threads(gemm_threads(device, work)) schedule(dynamic)
    for (int64_t tile = 0; tile < count; tile++) dw_tile(g, &tiles, tile, gemm_own_workspace(device));
}
