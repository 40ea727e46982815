/* Work beside other work (ops/beside.h), on a second stream. */
#ifndef MT_OPS_CUDA_BESIDE_CUH
#define MT_OPS_CUDA_BESIDE_CUH

#include "ops/cuda/common/common.cuh"

enum mt_status cuda_beside_begin(struct mt_device *device);
enum mt_status cuda_beside_end(struct mt_device *device);
enum mt_status cuda_join(struct mt_device *device);

/* Frees the stream and its events; its cuBLAS is freed with the others (gemm.cuh). */
void cuda_beside_free(struct cuda_state *state);

#endif
