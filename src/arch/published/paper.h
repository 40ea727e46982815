/* The weights a config asks for, without any of them: for counting what a model would take. */
#ifndef MT_ARCH_PAPER_H
#define MT_ARCH_PAPER_H

#include "arch/arch.h"
#include "formats/safetensors/checkpoint.h"

/*
 * Every tensor of the model with its shape, in the config's type of floats (f32 where it names none, as
 * `metier init`). Their data are addresses that nobody may read: only dry devices take such a checkpoint. The
 * caller closes it; after a failure there is nothing to close.
 */
enum mt_status mt_paper_checkpoint(struct mt_context *ctx, const struct mt_hf_config *config,
                                   struct mt_checkpoint *checkpoint);

#endif
