/* One thread's matrix product. */
#include "ops/cpu/gemm_block.h"

size_t MT_CPU(gemm_block_workspace)(void)
{
    return 64;
}

void MT_CPU(gemm_block)(int64_t m, int64_t n, int64_t k, float alpha, struct gemm_operand a,
                        struct gemm_operand b, float beta, float *c, int64_t c_row, void *workspace)
{
    (void)workspace;
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            double sum = 0.0;
            for (int64_t p = 0; p < k; p++) {
                sum += mt_load(a.dtype, a.data, i * a.row + p * a.column) *
                       mt_load(b.dtype, b.data, p * b.row + j * b.column);
            }
            float *target = &c[i * c_row + j];
            *target = (float)((double)alpha * sum) + (beta == 0.0f ? 0.0f : beta * *target);
        }
    }
}
