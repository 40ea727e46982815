/* lora_low, lora_dlow and lora_da by Hopper's own instructions: what fits, bytes of scratch, and the call. */
#ifndef MT_OPS_CUDA_LORA_CUH
#define MT_OPS_CUDA_LORA_CUH
#include "ops/cuda/common/common.cuh"

bool cuda_lora_low_fits(const struct mt_device *device, const struct mt_lora_low_args *l);
size_t cuda_lora_low_bytes(const struct mt_lora_low_args *l);
enum mt_status cuda_lora_low_hopper(struct mt_device *device, const struct mt_lora_low_args *l,
                                    void *scratch);

bool cuda_lora_dlow_fits(const struct mt_device *device, const struct mt_lora_dlow_args *l);
size_t cuda_lora_dlow_bytes(const struct mt_device *device, const struct mt_lora_dlow_args *l);
enum mt_status cuda_lora_dlow_hopper(struct mt_device *device, const struct mt_lora_dlow_args *l,
                                     void *scratch);

bool cuda_lora_da_fits(const struct mt_device *device, const struct mt_lora_da_args *l);
size_t cuda_lora_da_bytes(const struct mt_device *device, const struct mt_lora_da_args *l);
enum mt_status cuda_lora_da_hopper(struct mt_device *device, const struct mt_lora_da_args *l, void *scratch);

#endif
