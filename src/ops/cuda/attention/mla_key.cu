/*
 * mla_key: key[t,h] = [nope[t,h] | rope(shared[t])]. Backward: dnope[t,h] = dkey[t,h,:Dn];
 * dshared[t] = rope⁻¹(Σ_h dkey[t,h,Dn:]), the heads in order. By
 * eights of columns where the operands allow, else element by element.
 */
#include "ops/cuda/attention/rotate.cuh"

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

#define BATCH 2 // heads whose loads are under way together

/*
 * Eights of columns, counted in 32 bits (fits): first those of every token that are turned, which take longer
 * and so begin first, then those of every token and head that are copied.
 */
struct key_eights {
    unsigned turned, copied; // of a token; of a head
    unsigned heads;
    unsigned turned_count, count;
};

static struct key_eights key_eights_of(const struct mt_tensor *key, int64_t plain)
{
    unsigned tokens = (unsigned)key->dim[0];
    unsigned heads = (unsigned)key->dim[1];
    unsigned copied = (unsigned)(plain / CUDA_WIDE);
    unsigned turned = (unsigned)(key->dim[2] / CUDA_WIDE) - copied;
    return {turned, copied, heads, tokens * turned, tokens * (turned + heads * copied)};
}

/* to[t,h,eight] = from[t,h,eight], the copied eight number `at`. */
__device__ static inline void copy_eight(const struct key_eights &eights, unsigned at,
                                         const struct mt_tensor &from, const struct mt_tensor &to)
{
    unsigned row = at / eights.copied; // of all tokens' heads
    int64_t column = (int64_t)(at - row * eights.copied) * CUDA_WIDE;
    int64_t token = row / eights.heads;
    int64_t head = row - (unsigned)token * eights.heads;
    float x[CUDA_WIDE];
    wide_load(from.data, from.dtype, token * from.stride[0] + head * from.stride[1] + column, x);
    wide_store(to.data, to.dtype, token * to.stride[0] + head * to.stride[1] + column, x);
}

__global__ static void wide_forward_kernel(struct mt_mla_key_forward_args m, struct key_eights eights)
{
    unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= eights.count) return;
    if (at >= eights.turned_count) {
        copy_eight(eights, at - eights.turned_count, m.nope, m.key);
        return;
    }
    int64_t token = at / eights.turned;
    int64_t column = (int64_t)(at - (unsigned)token * eights.turned) * CUDA_WIDE;
    struct rope_turn turn = {m.cosine, m.sine, cuda_int1(m.positions, token), false};
    float x[CUDA_WIDE];
    wide_load2(m.shared, {token, column}, x);
    rope_turn_neighbours(turn, column / 2, x);
    int64_t to = token * m.key.stride[0] + m.nope.dim[2] + column;
    for (unsigned h = 0; h < eights.heads; h++) {
        wide_store(m.key.data, m.key.dtype, to + h * m.key.stride[1], x);
    }
}

__global__ static void __launch_bounds__(CUDA_THREADS, 6)
    wide_backward_kernel(struct mt_mla_key_backward_args m, struct key_eights eights)
{
    unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= eights.count) return;
    if (at >= eights.turned_count) {
        copy_eight(eights, at - eights.turned_count, m.dkey, m.dnope);
        return;
    }
    int64_t token = at / eights.turned;
    int64_t column = (int64_t)(at - (unsigned)token * eights.turned) * CUDA_WIDE;
    struct rope_turn turn = {m.cosine, m.sine, cuda_int1(m.positions, token), true};
    int64_t from = token * m.dkey.stride[0] + m.dnope.dim[2] + column;
    float sum[CUDA_WIDE] = {};
    for (unsigned first = 0; first < eights.heads; first += BATCH) {
        float x[BATCH][CUDA_WIDE] = {};
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
            if (first + i >= eights.heads) break;
            wide_load(m.dkey.data, m.dkey.dtype, from + (first + i) * m.dkey.stride[1], x[i]);
        }
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
#pragma unroll
            for (int c = 0; c < CUDA_WIDE; c++) sum[c] += x[i][c];
        }
    }
    rope_turn_neighbours(turn, column / 2, sum);
    wide_store2(m.dshared, {token, column}, sum);
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

enum mt_status mt_cuda_mla_key_forward(struct mt_device *device, const struct mt_mla_key_forward_args *m)
{
    int64_t count = mt_tensor_count(&m->nope);
    int64_t pairs = mt_tensor_count(&m->shared) / 2;
    cudaStream_t stream = cuda_stream(device);
    if (count > 0 && fits(&m->key, &m->nope, &m->shared, &m->cosine, &m->sine, m->layout)) {
        struct key_eights eights = key_eights_of(&m->key, m->nope.dim[2]);
        wide_forward_kernel<<<cuda_blocks(eights.count), CUDA_THREADS, 0, stream>>>(*m, eights);
        return cuda_launched(device, "mla_key forward");
    }
    if (count > 0)
        copy_kernel<<<cuda_blocks(count), CUDA_THREADS, 0, stream>>>(m->nope, m->key, m->nope.dim[2]);
    if (pairs > 0) rotate_kernel<<<cuda_blocks(pairs), CUDA_THREADS, 0, stream>>>(*m);
    return cuda_launched(device, "mla_key forward");
}

enum mt_status mt_cuda_mla_key_backward(struct mt_device *device, const struct mt_mla_key_backward_args *m)
{
    int64_t count = mt_tensor_count(&m->dnope);
    int64_t pairs = mt_tensor_count(&m->dshared) / 2;
    cudaStream_t stream = cuda_stream(device);
    if (count > 0 && fits(&m->dkey, &m->dnope, &m->dshared, &m->cosine, &m->sine, m->layout)) {
        struct key_eights eights = key_eights_of(&m->dkey, m->dnope.dim[2]);
        wide_backward_kernel<<<cuda_blocks(eights.count), CUDA_THREADS, 0, stream>>>(*m, eights);
        return cuda_launched(device, "mla_key backward");
    }
    if (count > 0) {
        copy_kernel<<<cuda_blocks(count), CUDA_THREADS, 0, stream>>>(m->dkey, m->dnope, m->dnope.dim[2]);
    }
    if (pairs > 0) rotate_back_kernel<<<cuda_blocks(pairs), CUDA_THREADS, 0, stream>>>(*m);
    return cuda_launched(device, "mla_key backward");
}
