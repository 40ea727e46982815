/* attention_sink on heads of floats; the sinks' gradients are summed in fixed blocks of rows. */
#include <math.h>
#include <string.h>

#include "ops/cpu/column_sums.h"

bool MT_CPU(attention_sink_forward_fits)(const struct mt_attention_sink_forward_args *a)
{
    return cpu_all_f32(&a->out, &a->lse, &a->sink);
}

void MT_CPU(attention_sink_forward)(struct mt_device *device, const struct mt_attention_sink_forward_args *a)
{
    int64_t tokens = a->out.dim[0];
    int64_t heads = a->out.dim[1];
    int64_t width = a->out.dim[2];
    const float *sink = a->sink.data;
#pragma omp parallel for num_threads(cpu_threads(device, tokens *heads *width)) schedule(static)
    for (int64_t t = 0; t < tokens; t++) {
        float *lse = cpu_row(&a->lse, t);
        for (int64_t h = 0; h < heads; h++) {
            float share = 1.0f / (1.0f + expf(sink[h] - lse[h]));
            float *out = cpu_head_row(&a->out, t, h);
            lse[h] = fmaxf(lse[h], sink[h]) + log1pf(expf(-fabsf(lse[h] - sink[h])));
#pragma omp simd
            for (int64_t j = 0; j < width; j++) out[j] *= share;
        }
    }
}

size_t MT_CPU(attention_sink_backward_scratch)(const struct mt_device *device,
                                               const struct mt_attention_sink_backward_args *a)
{
    (void)device;
    return COLUMN_SUM_BLOCKS * (size_t)a->out.dim[1] * sizeof(float);
}

bool MT_CPU(attention_sink_backward_fits)(const struct mt_attention_sink_backward_args *a)
{
    return cpu_all_f32(&a->dout, &a->out, &a->lse, &a->sink);
}

static float head_dot(const float *a, const float *b, int64_t width)
{
    float dot = 0.0f;
#pragma omp simd reduction(+ : dot)
    for (int64_t j = 0; j < width; j++) dot += a[j] * b[j];
    return dot;
}

void MT_CPU(attention_sink_backward)(struct mt_device *device,
                                     const struct mt_attention_sink_backward_args *a)
{
    int64_t tokens = a->out.dim[0];
    int64_t heads = a->out.dim[1];
    int64_t width = a->out.dim[2];
    const float *sink = a->sink.data;
    float *partials = device->scratch.data; // [blocks, H]
    struct row_blocks blocks = row_blocks_of(tokens, true);
#pragma omp parallel for num_threads(cpu_threads(device, tokens *heads *width)) schedule(static)
    for (int64_t block = 0; block < blocks.count; block++) {
        float *partial = partials + block * heads;
        memset(partial, 0, (size_t)heads * sizeof(float));
        for (int64_t t = block * blocks.each; t < row_block_end(&blocks, block); t++) {
            const float *lse = cpu_row(&a->lse, t);
            for (int64_t h = 0; h < heads; h++) {
                float dot = head_dot(cpu_head_row(&a->dout, t, h), cpu_head_row(&a->out, t, h), width);
                partial[h] -= expf(sink[h] - lse[h]) * dot;
            }
        }
    }
    add_partials(a->dsink.data, partials, blocks.count, heads);
}
