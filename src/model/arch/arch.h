/*
 * Architectures: one file each, one row of the table each. desc.c fills in what every config says the same
 * way; an architecture adds what only it knows and refuses what its own code has no answer for.
 */
#ifndef MT_MODEL_ARCH_H
#define MT_MODEL_ARCH_H

#include "model/desc.h"

/* Completes a description whose sizes are filled in. */
typedef enum mt_status (*mt_arch_describe_fn)(struct mt_context *ctx, const struct mt_hf_config *config,
                                              struct mt_model_desc *desc);

/* One entry per enum mt_hf_model. */
extern const mt_arch_describe_fn mt_arch_table[MT_HF_MODEL_COUNT];

#define MT_ARCH_DECLARE(name)                                                                                \
    enum mt_status mt_arch_##name(struct mt_context *ctx, const struct mt_hf_config *config,                 \
                                  struct mt_model_desc *desc)
MT_ARCH_DECLARE(deepseek);
MT_ARCH_DECLARE(deepseek_v2);
MT_ARCH_DECLARE(deepseek_v3);
MT_ARCH_DECLARE(mixtral);
MT_ARCH_DECLARE(phimoe);
MT_ARCH_DECLARE(olmoe);
MT_ARCH_DECLARE(qwen3_moe);

/* Attention with q, k and v projections: every element of a head is rotated. */
void mt_arch_grouped_attention(const struct mt_hf_config *config, struct mt_model_desc *desc);

/* Multi-head latent attention (deepseek_v2, deepseek_v3): only the last rope_width elements are rotated. */
void mt_arch_latent_attention(const struct mt_hf_config *config, struct mt_model_desc *desc);

/* "mlp.gate", "mlp.experts.E.gate_proj", ...: all but the two models with a block_sparse_moe. */
extern const struct mt_model_names mt_arch_mlp_names;

/* "block_sparse_moe.gate", "block_sparse_moe.experts.E.w1", ...: mixtral and phimoe. */
extern const struct mt_model_names mt_arch_sparse_block_names;

#endif
