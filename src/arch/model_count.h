/* Parameter counts of a config, and what LoRA training of it needs in memory. */
#ifndef MT_ARCH_MODEL_COUNT_H
#define MT_ARCH_MODEL_COUNT_H

#include "arch/model_tensors.h"

struct mt_model_count {
    int64_t total[MT_MODEL_PART_COUNT];
    int64_t active[MT_MODEL_PART_COUNT]; // what one token passes through; the embedding table counts whole
    int64_t all;
    int64_t all_active;
    int64_t tensors;
    int64_t moe_layers;
};

/* Counts every parameter the config implies. */
void mt_model_count(const struct mt_hf_config *config, struct mt_model_count *count);

struct mt_model_memory {
    int64_t rank;
    int64_t tokens;                        // of one step
    int64_t adapters[MT_MODEL_PART_COUNT]; // LoRA parameters per part
    int64_t all_adapters;
    // bytes
    int64_t weights;
    int64_t adapter_bytes;
    int64_t gradient_bytes;
    int64_t optimizer_bytes;
    int64_t activation_bytes;
    int64_t all_bytes;
};

/*
 * Frozen weights of `weight_bytes`; adapters of rank r on every linear layer of the layers, router included,
 * r·(in + out) parameters each, in f32, with f32 gradients and two f32 AdamW moments; activations by the
 * formula of mt_model_activation_formula.
 */
void mt_model_memory(const struct mt_hf_config *config, int64_t weight_bytes, int64_t rank, int64_t tokens,
                     struct mt_model_memory *memory);

/* The activation estimate in words, for printing beside the number; lives forever. */
const char *mt_model_activation_formula(void);

#endif
