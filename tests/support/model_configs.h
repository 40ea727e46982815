/* config.json of the models, as their authors publish them (the keys that matter here). */
#ifndef MT_TESTS_MODEL_CONFIGS_H
#define MT_TESTS_MODEL_CONFIGS_H

#include "arch/arch.h"

/* The text for a model; lives forever. */
const char *model_config_text(const struct mt_arch *model);

#endif
