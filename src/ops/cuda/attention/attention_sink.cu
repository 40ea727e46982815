/* attention_sink: a warp for a head of a token; the sinks' gradients as sums over all tokens. */
#include "ops/cuda/objective/column_sums.cuh"

__global__ static void forward_kernel(struct mt_attention_sink_forward_args a)
{
    int64_t heads = a.out.dim[1];
    int64_t row = cuda_warp();
    if (row >= a.out.dim[0] * heads) return;
    int64_t t = row / heads;
    int64_t h = row % heads;
    double lse = cuda_get2(a.lse, t, h);
    double sink = cuda_get1(a.sink, h);
    double share = 1.0 / (1.0 + exp(sink - lse));
    for (int64_t j = cuda_lane(); j < a.out.dim[2]; j += 32)
        cuda_put3(a.out, t, h, j, share * cuda_get3(a.out, t, h, j));
    __syncwarp(); // every lane has read lse
    if (cuda_lane() == 0) cuda_put2(a.lse, t, h, fmax(lse, sink) + log1p(exp(-fabs(lse - sink))));
}

enum mt_status mt_cuda_attention_sink_forward(struct mt_device *device,
                                              const struct mt_attention_sink_forward_args *a)
{
    int64_t rows = a->out.dim[0] * a->out.dim[1];
    if (rows == 0) return MT_OK;
    forward_kernel<<<cuda_warp_blocks(rows), CUDA_THREADS, 0, cuda_stream(device)>>>(*a);
    return cuda_launched(device, "attention_sink forward");
}

struct sink_term {
    struct mt_attention_sink_backward_args a;

    __device__ double operator()(int64_t t, int64_t h) const
    {
        double dot = 0.0;
        for (int64_t j = 0; j < a.out.dim[2]; j++)
            dot += cuda_get3(a.dout, t, h, j) * cuda_get3(a.out, t, h, j);
        return -exp(cuda_get1(a.sink, h) - cuda_get2(a.lse, t, h)) * dot;
    }
};

size_t mt_cuda_attention_sink_backward_scratch(const struct mt_device *,
                                               const struct mt_attention_sink_backward_args *a)
{
    return column_sums_bytes(a->out.dim[1]);
}

enum mt_status mt_cuda_attention_sink_backward(struct mt_device *device,
                                               const struct mt_attention_sink_backward_args *a)
{
    column_sums(cuda_stream(device), sink_term{*a}, a->out.dim[0], a->out.dim[1], a->dsink,
                static_cast<double *>(device->scratch.data));
    return cuda_launched(device, "attention_sink backward");
}
