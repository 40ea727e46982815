/* rope, one thread per pair: (a·cos - b·sin, a·sin + b·cos) at the token's position. */
#include "ops/cuda/rotate.cuh"

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

enum mt_status mt_cuda_rope(struct mt_device *device, const void *args)
{
    const struct mt_rope_args *r = static_cast<const struct mt_rope_args *>(args);
    int64_t pairs = mt_tensor_count(&r->x) / 2;
    if (pairs == 0) return MT_OK;
    rope_kernel<<<cuda_blocks(pairs), CUDA_THREADS, 0, cuda_stream(device)>>>(*r);
    return cuda_launched(device, "rope");
}
