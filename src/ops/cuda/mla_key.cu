/*
 * mla_key: key[t,h] = [nope[t,h] | rope(shared[t])]. Backward: dnope[t,h] = dkey[t,h,:Dn];
 * dshared[t] = rope⁻¹(Σ_h dkey[t,h,Dn:]), the heads in order. By
 * eights of columns of all heads where the operands allow, else element by element.
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

#define BATCH 4 // heads whose loads are under way together

/* Eight columns of all heads of a token: which, and of which token; 32 bits are enough (fits). */
struct key_eight {
    int64_t token, column;
};

__device__ static inline struct key_eight key_eight_at(unsigned at, unsigned eights)
{
    unsigned token = at / eights;
    return {token, (int64_t)(at - token * eights) * CUDA_WIDE};
}

/* Eights of the heads from `first` on. */
__device__ static inline void load_heads(const struct mt_tensor &t, const struct key_eight &eight, int first,
                                         float (&x)[BATCH][CUDA_WIDE])
{
#pragma unroll
    for (int i = 0; i < BATCH; i++) {
        if (first + i >= t.dim[1]) break;
        int64_t at = eight.token * t.stride[0] + (first + i) * t.stride[1] + eight.column;
        wide_load(t.data, t.dtype, at, x[i]);
    }
}

__device__ static inline void store_head(const struct mt_tensor &t, const struct key_eight &eight, int head,
                                         const float (&x)[CUDA_WIDE])
{
    wide_store(t.data, t.dtype, eight.token * t.stride[0] + head * t.stride[1] + eight.column, x);
}

/* to[t,:,eight] = from[t,:,eight]. */
__device__ static inline void copy_heads(const struct mt_tensor &from, const struct mt_tensor &to,
                                         const struct key_eight &eight)
{
    for (int first = 0; first < to.dim[1]; first += BATCH) {
        float x[BATCH][CUDA_WIDE];
        load_heads(from, eight, first, x);
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
            if (first + i < to.dim[1]) store_head(to, eight, first + i, x[i]);
        }
    }
}

/* A thread per eight columns of a token's keys: copied, or turned once for all heads (interleaved layout). */
__global__ static void wide_forward_kernel(struct mt_mla_key_forward_args m)
{
    unsigned eights = (unsigned)m.key.dim[2] / CUDA_WIDE;
    unsigned count = (unsigned)m.key.dim[0] * eights;
    int64_t plain = m.nope.dim[2];
    for (unsigned at = blockIdx.x * blockDim.x + threadIdx.x; at < count; at += gridDim.x * blockDim.x) {
        struct key_eight eight = key_eight_at(at, eights);
        if (eight.column < plain) {
            copy_heads(m.nope, m.key, eight);
            continue;
        }
        float x[CUDA_WIDE];
        struct rope_turn turn = {m.cosine, m.sine, cuda_int1(m.positions, eight.token), false};
        wide_load2(m.shared, {eight.token, eight.column - plain}, x);
        rope_turn_neighbours(turn, (eight.column - plain) / 2, x);
        for (int h = 0; h < m.key.dim[1]; h++) store_head(m.key, eight, h, x);
    }
}

/* A thread per eight columns of a token's dkey: copied, or summed over the heads in order and turned back. */
__global__ static void wide_backward_kernel(struct mt_mla_key_backward_args m)
{
    unsigned eights = (unsigned)m.dkey.dim[2] / CUDA_WIDE;
    unsigned count = (unsigned)m.dkey.dim[0] * eights;
    int64_t plain = m.dnope.dim[2];
    for (unsigned at = blockIdx.x * blockDim.x + threadIdx.x; at < count; at += gridDim.x * blockDim.x) {
        struct key_eight eight = key_eight_at(at, eights);
        if (eight.column < plain) {
            copy_heads(m.dkey, m.dnope, eight);
            continue;
        }
        float sum[CUDA_WIDE] = {};
        for (int first = 0; first < m.dkey.dim[1]; first += BATCH) {
            float x[BATCH][CUDA_WIDE] = {};
            load_heads(m.dkey, eight, first, x);
#pragma unroll
            for (int i = 0; i < BATCH; i++) {
#pragma unroll
                for (int c = 0; c < CUDA_WIDE; c++) sum[c] += x[i][c];
            }
        }
        struct rope_turn turn = {m.cosine, m.sine, cuda_int1(m.positions, eight.token), true};
        rope_turn_neighbours(turn, (eight.column - plain) / 2, sum);
        wide_store2(m.dshared, {eight.token, eight.column - plain}, sum);
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
        int64_t eights = m->key.dim[0] * m->key.dim[2] / CUDA_WIDE;
        wide_forward_kernel<<<cuda_blocks(eights), CUDA_THREADS, 0, stream>>>(*m);
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
        int64_t eights = m->dkey.dim[0] * m->dkey.dim[2] / CUDA_WIDE;
        wide_backward_kernel<<<cuda_blocks(eights), CUDA_THREADS, 0, stream>>>(*m);
        return cuda_launched(device, "mla_key backward");
    }
    if (count > 0) {
        copy_kernel<<<cuda_blocks(count), CUDA_THREADS, 0, stream>>>(m->dkey, m->dnope, m->dnope.dim[2]);
    }
    if (pairs > 0) rotate_back_kernel<<<cuda_blocks(pairs), CUDA_THREADS, 0, stream>>>(*m);
    return cuda_launched(device, "mla_key backward");
}
