/* What a merged folder in codes says of itself, where the model it came from was in floats. */
#ifndef MT_MODEL_MERGE_FORMAT_H
#define MT_MODEL_MERGE_FORMAT_H

#include "arch/quantise.h"
#include "formats/text/json_text.h"

/*
 * quantization_config as JSON, with the modules that stay floats: transformers asks for their names. The text
 * ends in a NUL.
 */
enum mt_status mt_merge_describe_format(const struct mt_hf_config *config,
                                        const struct mt_quantise_options *options, struct mt_json_text *text);

#endif
