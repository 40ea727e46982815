/* The model's own tokens: which ids begin, end and fill a text. */
#ifndef MT_TEXT_SPECIAL_IDS_H
#define MT_TEXT_SPECIAL_IDS_H

#include "arch/config.h"
#include "text/example.h"

/* What tokenizer_config.json beside the tokenizer (its path as it was loaded) says, else what the config
 * does. */
enum mt_status mt_special_ids_find(struct mt_context *ctx, const struct mt_tokenizer *tokenizer,
                                   const char *path, const struct mt_hf_config *config,
                                   struct mt_special_ids *special);

#endif
