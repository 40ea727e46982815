/*
 * embedding: y[t] = table[ids[t]]. Backward dtable[ids[t]] += dy[t], in the order of t: the block of an id's
 * first token adds the rows of all tokens with that id, one after the other, and nobody else touches that
 * row.
 */
#include "ops/cuda/common/common.cuh"

__global__ static void forward_kernel(struct mt_embedding_forward_args a)
{
    int64_t column = cuda_thread();
    if (column >= a.y.dim[1]) return;
    for (int64_t t = blockIdx.y; t < a.y.dim[0]; t += gridDim.y) {
        cuda_put2(a.y, t, column, cuda_get2(a.table, cuda_int1(a.ids, t), column));
    }
}

/* One block per token. Finding the first and the later ones costs T comparisons, shared by the block. */
__global__ static void backward_kernel(struct mt_embedding_backward_args a)
{
    __shared__ bool same[CUDA_THREADS];
    int64_t token = blockIdx.x;
    int32_t id = cuda_int1(a.ids, token);
    int seen = 0;
    for (int64_t t = threadIdx.x; t < token; t += CUDA_THREADS) seen |= cuda_int1(a.ids, t) == id;
    if (__syncthreads_or(seen)) return;
    for (int64_t start = token; start < a.ids.dim[0]; start += CUDA_THREADS) {
        int64_t t = start + threadIdx.x;
        same[threadIdx.x] = t < a.ids.dim[0] && cuda_int1(a.ids, t) == id;
        bool any = __syncthreads_or(same[threadIdx.x]);
        for (int64_t j = threadIdx.x; any && j < a.dy.dim[1]; j += CUDA_THREADS) {
            for (int i = 0; i < CUDA_THREADS; i++) {
                if (same[i]) cuda_give2(a.dtable, id, j, cuda_get2(a.dy, start + i, j), true);
            }
        }
        __syncthreads(); // before `same` is written again
    }
}

enum mt_status mt_cuda_embedding_forward(struct mt_device *device, const struct mt_embedding_forward_args *a)
{
    if (mt_tensor_count(&a->y) == 0) return MT_OK;
    forward_kernel<<<cuda_grid(a->y.dim[0], a->y.dim[1]), CUDA_THREADS, 0, cuda_stream(device)>>>(*a);
    return cuda_launched(device, "embedding forward");
}

enum mt_status mt_cuda_embedding_backward(struct mt_device *device,
                                          const struct mt_embedding_backward_args *a)
{
    if (mt_tensor_count(&a->dy) == 0) return MT_OK;
    backward_kernel<<<(unsigned)a->ids.dim[0], CUDA_THREADS, 0, cuda_stream(device)>>>(*a);
    return cuda_launched(device, "embedding backward");
}
