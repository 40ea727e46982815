/*
 * expert_pool: sequences are few and the work is n² comparisons of each, so ref's loops do, sequence by
 * sequence on all threads. pool_mask: a select over each row.
 */
#include "ops/cpu/level.h"
#include "ops/ref/tokens.h"

/* Sequence b alone; its number goes along. */
static struct mt_expert_pool_args one_sequence(const struct mt_expert_pool_args *a, int64_t b)
{
    struct mt_expert_pool_args one = *a;
    one.sum = mt_tensor_rows(&a->sum, b, 1);
    one.rows = mt_tensor_rows(&a->rows, b, 1);
    one.pool = mt_tensor_rows(&a->pool, b, 1);
    one.first = a->first + (uint64_t)b;
    return one;
}

void MT_CPU(expert_pool)(struct mt_device *device, const struct mt_expert_pool_args *a)
{
    int64_t sequences = a->sum.dim[0];
    int64_t comparisons = mt_tensor_count(&a->sum) * a->sum.dim[1];
    int threads = cpu_threads(device, comparisons);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t b = 0; b < sequences; b++) {
        const struct mt_expert_pool_args one = one_sequence(a, b);
        mt_ref_expert_pool(&one);
    }
}

void MT_CPU(pool_mask)(struct mt_device *device, const struct mt_pool_mask_args *a)
{
    int64_t experts = a->x.dim[1];
#pragma omp parallel for num_threads(cpu_threads(device, mt_tensor_count(&a->x))) schedule(static)
    for (int64_t i = 0; i < a->x.dim[0]; i++) {
        float *x = cpu_row(&a->x, i);
        const int32_t *pool =
            (const int32_t *)a->pool.data + token_segment(&a->segment, i) * a->pool.stride[0];
        for (int64_t j = 0; j < experts; j++) x[j] = pool[j] != 0 ? x[j] : a->value;
    }
}
