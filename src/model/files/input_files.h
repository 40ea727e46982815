/*
 * Which files of a model, a tokenizer and an adapter are read, for the fingerprint of a run
 * (formats/fingerprint.h): whoever reads another one names it here.
 */
#ifndef MT_MODEL_INPUT_FILES_H
#define MT_MODEL_INPUT_FILES_H

#include "formats/fingerprint.h"

/* config.json, generation_config.json, the weights, and the routers' biases beside them. */
enum mt_status mt_input_files_model(struct mt_fingerprint *print, const char *folder);

/* A folder or a file: the tokenizer, its config, and the chat templates beside it. */
enum mt_status mt_input_files_tokenizer(struct mt_fingerprint *print, const char *path);

/* adapter_config.json, the weights, the routers' biases, and the chat template it was trained with. */
enum mt_status mt_input_files_adapter(struct mt_fingerprint *print, const char *folder);

#endif
