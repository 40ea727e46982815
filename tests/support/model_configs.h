/* config.json of the seven models, as their authors publish them (the keys that matter here). */
#ifndef MT_TESTS_MODEL_CONFIGS_H
#define MT_TESTS_MODEL_CONFIGS_H

#include "formats/hf/hf_config.h"

/* The text for a model; lives forever. */
const char *model_config_text(enum mt_hf_model model);

#endif
