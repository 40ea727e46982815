/*
 * rope: (a·cos - b·sin, a·sin + b·cos) at the token's position. One thread per pair, or eight pairs of the
 * half layout, four of the interleaved one, where they lie in aligned eights.
 */
#include "ops/cuda/attention/rotate.cuh"

__global__ static void rope_kernel(struct mt_rope_args r)
{
    int64_t width = r.x.dim[2];
    int64_t pairs = width / 2;
    int64_t count = r.x.dim[0] * r.x.dim[1] * pairs;
    for (int64_t at = cuda_thread(); at < count; at += cuda_thread_count()) {
        int64_t i = at % pairs;
        int64_t h = at / pairs % r.x.dim[1];
        int64_t t = at / pairs / r.x.dim[1];
        struct rope_pair pair = rope_pair_at(r.layout, width, i);
        // Both are read before either is written: y may be x.
        double a = cuda_get3(r.x, t, h, pair.first);
        double b = cuda_get3(r.x, t, h, pair.second);
        rope_rotate(r.cosine, r.sine, cuda_int1(r.positions, t), i, r.inverse, &a, &b);
        cuda_put3(r.y, t, h, pair.first, a);
        cuda_put3(r.y, t, h, pair.second, b);
    }
}

__global__ static void wide_kernel(struct mt_rope_args r)
{
    cuda_follow();
    // 32 bits are enough (is_wide), and their divisions cheap.
    unsigned eights = (unsigned)r.x.dim[2] / CUDA_WIDE;
    unsigned heads = (unsigned)r.x.dim[1];
    unsigned steps = r.layout == MT_ROPE_HALF ? eights / 2 : eights; // of a head
    unsigned count = (unsigned)r.x.dim[0] * heads * steps;
    for (unsigned at = blockIdx.x * blockDim.x + threadIdx.x; at < count; at += gridDim.x * blockDim.x) {
        unsigned step = at % steps;
        int64_t h = at / steps % heads;
        int64_t t = at / steps / heads;
        struct rope_turn turn = {r.cosine, r.sine, cuda_int1(r.positions, t), r.inverse};
        int64_t from = t * r.x.stride[0] + h * r.x.stride[1] + step * CUDA_WIDE;
        int64_t to = t * r.y.stride[0] + h * r.y.stride[1] + step * CUDA_WIDE;
        float a[CUDA_WIDE];
        wide_load(r.x.data, r.x.dtype, from, a);
        if (r.layout == MT_ROPE_INTERLEAVED) {
            rope_turn_neighbours(turn, (int64_t)step * CUDA_WIDE / 2, a);
            wide_store(r.y.data, r.y.dtype, to, a);
            continue;
        }
        int64_t half = r.x.dim[2] / 2;
        float b[CUDA_WIDE];
        wide_load(r.x.data, r.x.dtype, from + half, b);
        rope_turn_halves(turn, (int64_t)step * CUDA_WIDE, a, b);
        wide_store(r.y.data, r.y.dtype, to, a);
        wide_store(r.y.data, r.y.dtype, to + half, b);
    }
}

static bool is_wide(const struct mt_rope_args *r)
{
    bool fits = mt_tensor_count(&r->x) < INT32_MAX && r->cosine.dtype == MT_F32 && r->sine.dtype == MT_F32;
    bool even = r->layout == MT_ROPE_INTERLEAVED || r->x.dim[2] % (2 * CUDA_WIDE) == 0;
    return fits && even && cuda_is_wide(&r->x) && cuda_is_wide(&r->y);
}

enum mt_status mt_cuda_rope(struct mt_device *device, const struct mt_rope_args *r)
{
    int64_t pairs = mt_tensor_count(&r->x) / 2;
    if (pairs == 0) return MT_OK;
    if (is_wide(r))
        return cuda_launch(device, "rope", wide_kernel, dim3(cuda_blocks(pairs / (CUDA_WIDE / 2))),
                           CUDA_THREADS, 0, *r);
    rope_kernel<<<cuda_blocks(pairs), CUDA_THREADS, 0, cuda_stream(device)>>>(*r);
    return cuda_launched(device, "rope");
}
