/* The files a run reads, for its fingerprint. */
#ifndef MT_TRAIN_INPUTS_H
#define MT_TRAIN_INPUTS_H

#include "formats/fingerprint.h"
#include "train/settings/settings.h"

/*
 * Model, tokenizer, chat template, adapter, list of experts, choices, and every file of data. Files that are
 * only evaluated on may change, as the settings that name them may. templates: the folder of those that come
 * along.
 */
enum mt_status mt_train_inputs(struct mt_fingerprint *print, const struct mt_train_settings *settings,
                               const char *templates);

#endif
