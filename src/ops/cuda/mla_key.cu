/*
 * mla_key: key[t,h] = [nope[t,h] | rope(shared[t])]. Backward: dnope[t,h] = dkey[t,h,:Dn];
 * dshared[t] = rope⁻¹(Σ_h dkey[t,h,Dn:]), the heads in order. By
 * eights of columns where the operands allow, else element by element.
 */
#include "ops/cuda/rotate.cuh"

/* to[t,h,:columns] = from[t,h,:columns]. */
__global__ static void copy_kernel(struct mt_tensor from, struct mt_tensor to, int64_t columns)
{
    int64_t heads = to.dim[1];
    int64_t count = to.dim[0] * heads * columns;
    for (int64_t at = cuda_thread(); at < count; at += cuda_thread_count()) {
        int64_t j = at % columns;
        int64_t h = at / columns % heads;
        int64_t t = at / columns / heads;
        cuda_put3(to, t, h, j, cuda_get3(from, t, h, j));
    }
}

__global__ static void rotate_kernel(struct mt_mla_key_forward_args m)
{
    int64_t plain = m.nope.dim[2];
    int64_t rotated = m.shared.dim[1];
    int64_t pairs = rotated / 2;
    for (int64_t at = cuda_thread(); at < m.shared.dim[0] * pairs; at += cuda_thread_count()) {
        int64_t i = at % pairs;
        int64_t t = at / pairs;
        struct rope_pair pair = rope_pair_at(m.layout, rotated, i);
        double a = cuda_get2(m.shared, t, pair.first);
        double b = cuda_get2(m.shared, t, pair.second);
        rope_rotate(m.cosine, m.sine, cuda_int1(m.positions, t), i, false, &a, &b);
        for (int64_t h = 0; h < m.nope.dim[1]; h++) {
            cuda_put3(m.key, t, h, plain + pair.first, a);
            cuda_put3(m.key, t, h, plain + pair.second, b);
        }
    }
}

__global__ static void rotate_back_kernel(struct mt_mla_key_backward_args m)
{
    int64_t plain = m.dnope.dim[2];
    int64_t rotated = m.dshared.dim[1];
    int64_t pairs = rotated / 2;
    for (int64_t at = cuda_thread(); at < m.dshared.dim[0] * pairs; at += cuda_thread_count()) {
        int64_t i = at % pairs;
        int64_t t = at / pairs;
        struct rope_pair pair = rope_pair_at(m.layout, rotated, i);
        double a = 0.0;
        double b = 0.0;
        for (int64_t h = 0; h < m.dnope.dim[1]; h++) {
            a += cuda_get3(m.dkey, t, h, plain + pair.first);
            b += cuda_get3(m.dkey, t, h, plain + pair.second);
        }
        rope_rotate(m.cosine, m.sine, cuda_int1(m.positions, t), i, true, &a, &b);
        cuda_put2(m.dshared, t, pair.first, a);
        cuda_put2(m.dshared, t, pair.second, b);
    }
}

// ------------------------------------------------------------------ eights

/* A thread per eight columns of a key: copied, or turned (interleaved layout). */
__global__ static void wide_forward_kernel(struct mt_mla_key_forward_args m)
{
    // 32 bits are enough (fits), and their divisions cheap.
    unsigned eights = (unsigned)m.key.dim[2] / CUDA_WIDE;
    unsigned heads = (unsigned)m.key.dim[1];
    unsigned count = (unsigned)m.key.dim[0] * heads * eights;
    int64_t plain = m.nope.dim[2];
    for (unsigned at = blockIdx.x * blockDim.x + threadIdx.x; at < count; at += gridDim.x * blockDim.x) {
        int64_t j = (int64_t)(at % eights) * CUDA_WIDE;
        int64_t h = at / eights % heads;
        int64_t t = at / eights / heads;
        float x[CUDA_WIDE];
        if (j < plain) {
            wide_load(m.nope.data, m.nope.dtype, t * m.nope.stride[0] + h * m.nope.stride[1] + j, x);
        } else {
            struct rope_turn turn = {m.cosine, m.sine, cuda_int1(m.positions, t), false};
            wide_load2(m.shared, {t, j - plain}, x);
            rope_turn_neighbours(turn, (j - plain) / 2, x);
        }
        wide_store(m.key.data, m.key.dtype, t * m.key.stride[0] + h * m.key.stride[1] + j, x);
    }
}

/* A thread per eight columns of dkey's first part, or per eight of dshared, which it sums over the heads. */
__global__ static void wide_backward_kernel(struct mt_mla_key_backward_args m)
{
    unsigned plain = (unsigned)m.dnope.dim[2];
    unsigned heads = (unsigned)m.dnope.dim[1];
    unsigned copied = heads * (plain / CUDA_WIDE);
    unsigned steps = copied + (unsigned)m.dshared.dim[1] / CUDA_WIDE; // of a token
    unsigned count = (unsigned)m.dnope.dim[0] * steps;
    for (unsigned at = blockIdx.x * blockDim.x + threadIdx.x; at < count; at += gridDim.x * blockDim.x) {
        unsigned step = at % steps;
        int64_t t = at / steps;
        float x[CUDA_WIDE];
        if (step < copied) {
            int64_t h = step / (plain / CUDA_WIDE);
            int64_t j = (int64_t)(step % (plain / CUDA_WIDE)) * CUDA_WIDE;
            wide_load(m.dkey.data, m.dkey.dtype, t * m.dkey.stride[0] + h * m.dkey.stride[1] + j, x);
            wide_store(m.dnope.data, m.dnope.dtype, t * m.dnope.stride[0] + h * m.dnope.stride[1] + j, x);
            continue;
        }
        int64_t j = (int64_t)(step - copied) * CUDA_WIDE;
        float sum[CUDA_WIDE] = {};
        for (int64_t h = 0; h < heads; h++) {
            int64_t from = t * m.dkey.stride[0] + h * m.dkey.stride[1] + plain + j;
            wide_load(m.dkey.data, m.dkey.dtype, from, x);
#pragma unroll
            for (int c = 0; c < CUDA_WIDE; c++) sum[c] += x[c];
        }
        struct rope_turn turn = {m.cosine, m.sine, cuda_int1(m.positions, t), true};
        rope_turn_neighbours(turn, j / 2, sum);
        wide_store2(m.dshared, {t, j}, sum);
    }
}

/* Both parts in eights, the interleaved layout, f32 tables, and few enough elements for 32 bits. */
static bool fits(const struct mt_tensor *key, const struct mt_tensor *nope, const struct mt_tensor *shared,
                 const struct mt_tensor *cosine, const struct mt_tensor *sine, enum mt_rope_layout layout)
{
    return layout == MT_ROPE_INTERLEAVED && cosine->dtype == MT_F32 && sine->dtype == MT_F32 &&
           nope->dim[2] > 0 && mt_tensor_count(key) < INT32_MAX && cuda_is_wide(key) && cuda_is_wide(nope) &&
           cuda_is_wide(shared);
}

// ------------------------------------------------------------------ launchers

enum mt_status mt_cuda_mla_key_forward(struct mt_device *device, const void *args)
{
    const struct mt_mla_key_forward_args *m = static_cast<const struct mt_mla_key_forward_args *>(args);
    int64_t count = mt_tensor_count(&m->nope);
    int64_t pairs = mt_tensor_count(&m->shared) / 2;
    cudaStream_t stream = cuda_stream(device);
    if (count > 0 && fits(&m->key, &m->nope, &m->shared, &m->cosine, &m->sine, m->layout)) {
        wide_forward_kernel<<<cuda_blocks(mt_tensor_count(&m->key) / CUDA_WIDE), CUDA_THREADS, 0, stream>>>(
            *m);
        return cuda_launched(device, "mla_key forward");
    }
    if (count > 0)
        copy_kernel<<<cuda_blocks(count), CUDA_THREADS, 0, stream>>>(m->nope, m->key, m->nope.dim[2]);
    if (pairs > 0) rotate_kernel<<<cuda_blocks(pairs), CUDA_THREADS, 0, stream>>>(*m);
    return cuda_launched(device, "mla_key forward");
}

enum mt_status mt_cuda_mla_key_backward(struct mt_device *device, const void *args)
{
    const struct mt_mla_key_backward_args *m = static_cast<const struct mt_mla_key_backward_args *>(args);
    int64_t count = mt_tensor_count(&m->dnope);
    int64_t pairs = mt_tensor_count(&m->dshared) / 2;
    cudaStream_t stream = cuda_stream(device);
    if (count > 0 && fits(&m->dkey, &m->dnope, &m->dshared, &m->cosine, &m->sine, m->layout)) {
        wide_backward_kernel<<<cuda_blocks(count / CUDA_WIDE), CUDA_THREADS, 0, stream>>>(*m);
        return cuda_launched(device, "mla_key backward");
    }
    if (count > 0) {
        copy_kernel<<<cuda_blocks(count), CUDA_THREADS, 0, stream>>>(m->dkey, m->dnope, m->dnope.dim[2]);
    }
    if (pairs > 0) rotate_back_kernel<<<cuda_blocks(pairs), CUDA_THREADS, 0, stream>>>(*m);
    return cuda_launched(device, "mla_key backward");
}
