/* rope on rows of floats: tokens are independent, a token's heads share its row of the tables. */
#include "ops/cpu/attention/rotate.h"

void MT_CPU(rope)(struct mt_device *device, const struct mt_rope_args *r)
{
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
}
