/* The architectures, by their number in a config. */
#include "model/arch/arch.h"

const mt_arch_describe_fn mt_arch_table[MT_HF_MODEL_COUNT] = {
    [MT_HF_DEEPSEEK] = mt_arch_deepseek,       [MT_HF_DEEPSEEK_V2] = mt_arch_deepseek_v2,
    [MT_HF_DEEPSEEK_V3] = mt_arch_deepseek_v3, [MT_HF_MIXTRAL] = mt_arch_mixtral,
    [MT_HF_PHIMOE] = mt_arch_phimoe,           [MT_HF_OLMOE] = mt_arch_olmoe,
    [MT_HF_QWEN3_MOE] = mt_arch_qwen3_moe,
};
