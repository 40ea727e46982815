/* Models of a few thousand parameters, one per architecture, with the awkward features of each switched on.
 */
#ifndef MT_TESTS_SMALL_MODELS_H
#define MT_TESTS_SMALL_MODELS_H

#include "arch/arch.h"
#include "formats/safetensors/checkpoint.h"
#include "support/workplace.h"

/* The config.json of a small model; lives forever. */
const char *small_model_config(const struct mt_arch *model);

/*
 * Makes the workplace a model folder: config and random weights of a given type and seed. The config may be
 * the caller's own. Returns 0 on success.
 */
int small_model_make(const struct workplace *place, const char *config, enum mt_hf_float dtype,
                     uint64_t seed);

#endif
