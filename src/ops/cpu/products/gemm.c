/* gemm: the output cut into tiles, each computed by one thread. */
#include "ops/cpu/products/gemm_tiles.h"

bool MT_CPU(gemm_fits)(const struct mt_gemm_args *g)
{
#if defined(MT_CPU_TILE_UNIT)
    if (!gemm_unit_gains(g->a.dtype, g->b.dtype)) return false;
#endif
    return gemm_reads(g->a.dtype) && gemm_reads(g->b.dtype) && cpu_is_f32(&g->c);
}

size_t MT_CPU(gemm_scratch)(const struct mt_device *device, const struct mt_gemm_args *args)
{
    (void)args;
    return gemm_scratch_bytes(device);
}

void MT_CPU(gemm)(struct mt_device *device, const struct mt_gemm_args *g)
{
    int64_t m = g->c.dim[0];
    int64_t n = g->c.dim[1];
    int64_t k = g->a.dim[g->transpose_a ? 0 : 1];
    struct gemm_operand a = gemm_operand_of(&g->a, g->transpose_a);
    struct gemm_operand b = gemm_operand_of(&g->b, g->transpose_b);
    struct gemm_tiles tiles = gemm_cut(m, n, k, GEMM_ENOUGH_TILES);
    int64_t count = tiles.row_tiles * tiles.column_tiles;
#pragma omp parallel for num_threads(gemm_threads(device, (double)m *(double)n *(double)k)) schedule(dynamic)
    for (int64_t tile = 0; tile < count; tile++) {
        gemm_tile(&tiles, tile, m, n, k, g->alpha, a, b, g->beta, g->c.data, g->c.stride[0],
                  gemm_own_workspace(device));
    }
}
