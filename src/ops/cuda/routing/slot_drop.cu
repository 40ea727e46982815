/*
 * slot_drop: chance decides token by token, shares formed in double exactly as ref does; then each expert has
 * a block that walks over all slots in their order and keeps the first `capacity` of its own. Integers only:
 * both drop the same slots.
 */
#include "ops/cuda/elementwise/philox.cuh"

__global__ static void chance_kernel(struct mt_slot_drop_args a)
{
    int64_t slots = a.expert.dim[1];
    for (int64_t i = cuda_thread(); i < a.expert.dim[0]; i += cuda_thread_count()) {
        bool counts = !cuda_present(a.mask) || cuda_int1(a.mask, i) != 0;
        double total = 0.0;
        for (int64_t s = 0; s < slots && a.threshold > 0.0f; s++) total += cuda_get2(a.weight, i, s);
        for (int64_t s = 0; s < slots; s++) {
            int32_t e = cuda_int2(a.expert, i, s);
            bool lost = false;
            if (s > 0 && a.threshold > 0.0f) {
                float u = cuda_random_unit(cuda_random_word(a.seed, a.stream, (uint64_t)(i * slots + s)));
                lost = cuda_get2(a.weight, i, s) / total <= (double)a.threshold * (double)u;
            }
            cuda_int_row(a.kept, i)[s] = e >= 0 && counts && !lost ? e : -1;
        }
    }
}

/* One block per expert; other blocks turn other experts' slots into -1 meanwhile, which changes nothing here.
 */
__global__ static void capacity_kernel(struct mt_slot_drop_args a)
{
    __shared__ int of_warp[CUDA_WARPS];
    int64_t served = 0; // the same in every thread
    for (int64_t s = 0; s < a.kept.dim[1]; s++) {
        for (int64_t start = 0; start < a.kept.dim[0]; start += CUDA_THREADS) {
            int64_t i = start + threadIdx.x;
            bool own = i < a.kept.dim[0] && cuda_int2(a.kept, i, s) == (int32_t)blockIdx.x;
            unsigned lanes = __ballot_sync(CUDA_EVERY, own);
            if (cuda_lane() == 0) of_warp[threadIdx.x / 32] = __popc(lanes);
            __syncthreads();
            int64_t rank = served + __popc(lanes & ((1u << cuda_lane()) - 1));
            for (int warp = 0; warp < CUDA_WARPS; warp++) {
                if (warp < (int)threadIdx.x / 32) rank += of_warp[warp];
                served += of_warp[warp];
            }
            if (own && rank >= a.capacity) cuda_int_row(a.kept, i)[s] = -1;
            __syncthreads(); // before the counts are written again
        }
    }
}

enum mt_status mt_cuda_slot_drop(struct mt_device *device, const struct mt_slot_drop_args *a)
{
    if (mt_tensor_count(&a->expert) == 0) return MT_OK;
    cudaStream_t stream = cuda_stream(device);
    chance_kernel<<<cuda_blocks(a->expert.dim[0]), CUDA_THREADS, 0, stream>>>(*a);
    if (a->capacity > 0) capacity_kernel<<<(unsigned)a->experts, CUDA_THREADS, 0, stream>>>(*a);
    return cuda_launched(device, "slot_drop");
}
