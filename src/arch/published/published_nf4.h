/* bitsandbytes' nf4: what its parts must be, and what its quant_state says. Part of published.h. */
#ifndef MT_ARCH_PUBLISHED_NF4_H
#define MT_ARCH_PUBLISHED_NF4_H

#include "arch/published/published.h"

/* Fills `offset`, and the matrix where scales are nested; MT_ERR_FORMAT with a sentence where a part is
 * missing or says something else. */
enum mt_status mt_published_fit_nf4(const struct mt_checkpoint *checkpoint,
                                    const struct mt_published_names *names, struct mt_published *published);

/* A part that has to have this type and shape: "OF is U8 [3], expected F32 [16]". */
enum mt_status mt_published_fit(struct mt_context *ctx, const struct mt_safetensors_tensor *found,
                                const char *of, enum mt_safetensors_dtype dtype, int rank,
                                const int64_t *dim);

#endif
