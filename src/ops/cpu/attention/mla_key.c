/* mla_key on rows of floats: a token's shared part is rotated once, then copied to every head. */
#include <string.h>

#include "ops/cpu/attention/rotate.h"

void MT_CPU(mla_key_forward)(struct mt_device *device, const struct mt_mla_key_forward_args *m)
{
    int64_t tokens = m->key.dim[0];
    int64_t heads = m->key.dim[1];
    if (heads == 0) return;
    int64_t plain = m->nope.dim[2];
    int64_t rotated = m->shared.dim[1];
    const int32_t *positions = m->positions.data;
#pragma omp parallel for num_threads(cpu_threads(device, tokens *heads * m->key.dim[2])) schedule(static)
    for (int64_t t = 0; t < tokens; t++) {
        float *shared = cpu_head_row(&m->key, t, 0) + plain;
        cpu_rotate_row(cpu_row(&m->shared, t), cpu_row(&m->cosine, positions[t]),
                       cpu_row(&m->sine, positions[t]), 1.0f, m->layout, rotated / 2, shared);
        for (int64_t h = 0; h < heads; h++) {
            float *key = cpu_head_row(&m->key, t, h);
            memcpy(key, cpu_head_row(&m->nope, t, h), (size_t)plain * sizeof(float));
            if (h > 0) memcpy(key + plain, shared, (size_t)rotated * sizeof(float));
        }
    }
}

void MT_CPU(mla_key_backward)(struct mt_device *device, const struct mt_mla_key_backward_args *m)
{
    int64_t tokens = m->dkey.dim[0];
    int64_t heads = m->dkey.dim[1];
    int64_t plain = m->dnope.dim[2];
    int64_t rotated = m->dshared.dim[1];
    const int32_t *positions = m->positions.data;
#pragma omp parallel for num_threads(cpu_threads(device, tokens *heads * m->dkey.dim[2])) schedule(static)
    for (int64_t t = 0; t < tokens; t++) {
        float *sum = cpu_row(&m->dshared, t);
        memset(sum, 0, (size_t)rotated * sizeof(float));
        for (int64_t h = 0; h < heads; h++) {
            const float *dkey = cpu_head_row(&m->dkey, t, h);
            memcpy(cpu_head_row(&m->dnope, t, h), dkey, (size_t)plain * sizeof(float));
#pragma omp simd
            for (int64_t j = 0; j < rotated; j++) sum[j] += dkey[plain + j];
        }
        cpu_rotate_row(sum, cpu_row(&m->cosine, positions[t]), cpu_row(&m->sine, positions[t]), -1.0f,
                       m->layout, rotated / 2, sum);
    }
}
