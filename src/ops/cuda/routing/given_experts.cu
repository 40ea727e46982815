/* given_experts: a thread per token, which has few slots; whole numbers, the same as ref's. */
#include "ops/cuda/common/common.cuh"

__global__ static void given_kernel(struct mt_given_experts_args a)
{
    int64_t slots = a.given.dim[1];
    for (int64_t i = cuda_thread(); i < a.given.dim[0]; i += cuda_thread_count()) {
        const int32_t *given = cuda_int_row(a.given, i);
        int32_t *expert = cuda_int_row(a.expert, i);
        bool known = slots > 0 && given[0] >= 0;
        int count = 0;
        for (int64_t s = 0; known && s < slots && cuda_present(a.agreed); s++) {
            for (int64_t m = 0; m < slots; m++) count += given[s] == expert[m];
        }
        for (int64_t s = 0; known && s < slots; s++) expert[s] = given[s];
        if (!cuda_present(a.agreed)) continue;
        cuda_put2(a.agreed, i, 0, (double)count);
        cuda_put2(a.agreed, i, 1, known ? (double)slots : 0.0);
    }
}

enum mt_status mt_cuda_given_experts(struct mt_device *device, const struct mt_given_experts_args *a)
{
    if (a->given.dim[0] == 0) return MT_OK;
    given_kernel<<<cuda_blocks(a->given.dim[0]), CUDA_THREADS, 0, cuda_stream(device)>>>(*a);
    return cuda_launched(device, "given_experts");
}
