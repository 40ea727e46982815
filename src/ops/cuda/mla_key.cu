/*
 * mla_key: key[t,h] = [nope[t,h] | rope(shared[t])]. Backward: dnope[t,h] = dkey[t,h,:Dn];
 * dshared[t] = rope⁻¹(Σ_h dkey[t,h,Dn:]), the heads in order.
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

enum mt_status mt_cuda_mla_key_forward(struct mt_device *device, const void *args)
{
    const struct mt_mla_key_forward_args *m = static_cast<const struct mt_mla_key_forward_args *>(args);
    int64_t count = mt_tensor_count(&m->nope);
    int64_t pairs = mt_tensor_count(&m->shared) / 2;
    cudaStream_t stream = cuda_stream(device);
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
    if (count > 0) {
        copy_kernel<<<cuda_blocks(count), CUDA_THREADS, 0, stream>>>(m->dkey, m->dnope, m->dnope.dim[2]);
    }
    if (pairs > 0) rotate_back_kernel<<<cuda_blocks(pairs), CUDA_THREADS, 0, stream>>>(*m);
    return cuda_launched(device, "mla_key backward");
}
