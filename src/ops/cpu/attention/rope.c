/* rope on rows of floats: tokens are independent, a token's heads share its row of the tables. */
#include "ops/cpu/attention/rotate.h"

size_t MT_CPU(rope_scratch)(const struct mt_device *device, const void *args)
{
    (void)device;
    (void)args;
    return 0;
}

enum mt_status MT_CPU(rope)(struct mt_device *device, const void *args)
{
    const struct mt_rope_args *r = args;
    bool fast = cpu_is_f32(&r->x) && cpu_is_f32(&r->y) && cpu_is_f32(&r->cosine) && cpu_is_f32(&r->sine);
    if (!fast) return mt_ref_rope(device, args);

    int64_t tokens = r->x.dim[0];
    int64_t heads = r->x.dim[1];
    int64_t pairs = r->x.dim[2] / 2;
    const int32_t *positions = r->positions.data;
    float sign = r->inverse ? -1.0f : 1.0f;
#pragma omp parallel for num_threads(cpu_threads(device, tokens *heads *pairs)) schedule(static)
    for (int64_t t = 0; t < tokens; t++) {
        const float *cosine = cpu_row(&r->cosine, positions[t]);
        const float *sine = cpu_row(&r->sine, positions[t]);
        for (int64_t h = 0; h < heads; h++) {
            cpu_rotate_row(cpu_head_row(&r->x, t, h), cosine, sine, sign, r->layout, pairs,
                           cpu_head_row(&r->y, t, h));
        }
    }
    return MT_OK;
}
