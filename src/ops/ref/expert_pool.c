/*
 * expert_pool: an expert is in when fewer than d come before it. pool_mask: element by element.
 */
#include "base/rng.h"
#include "ops/ref/tokens.h"

static double score(const struct mt_expert_pool_args *a, int64_t b, int64_t j)
{
    double rows = ref_get1(&a->rows, b);
    float mean = (float)(ref_get2(&a->sum, b, j) / (rows > 1.0 ? rows : 1.0));
    double bias = mt_tensor_present(&a->bias) ? ref_get1(&a->bias, j) : 0.0;
    return (double)(float)((double)mean + bias);
}

/* d of a sequence. */
static int64_t drawn(const struct mt_expert_pool_args *a, int64_t b)
{
    uint64_t sizes = (uint64_t)(a->sum.dim[1] - a->least + 1);
    uint64_t word = mt_rng_u32(a->seed, a->stream, a->first + (uint64_t)b);
    return a->least + (int64_t)((word * sizes) >> 32);
}

enum mt_status mt_ref_expert_pool(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_expert_pool_args *a = args;
    int64_t experts = a->sum.dim[1];
    for (int64_t b = 0; b < a->sum.dim[0]; b++) {
        int64_t size = drawn(a, b);
        for (int64_t j = 0; j < experts; j++) {
            int64_t before = 0;
            for (int64_t m = 0; m < experts; m++)
                before += ref_comes_before(score(a, b, m), m, score(a, b, j), j);
            ref_set2(&a->pool, b, j, before < size ? 1.0 : 0.0);
        }
    }
    return MT_OK;
}

enum mt_status mt_ref_pool_mask(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_pool_mask_args *a = args;
    for (int64_t i = 0; i < a->x.dim[0]; i++) {
        int64_t b = token_segment(&a->segment, i);
        for (int64_t j = 0; j < a->x.dim[1]; j++) {
            if (ref_int2(&a->pool, b, j) == 0) ref_set2(&a->x, i, j, (double)a->value);
        }
    }
    return MT_OK;
}
