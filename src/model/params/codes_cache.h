/*
 * Codes kept beside the model (quantize.cache), so that they are made once and read from then on:
 *
 *     MODEL/quantised/nf4-routed_experts.safetensors
 *
 * The name says how weights are quantised. For every matrix there is a tensor of the weight's name: its codes
 * and scales as they lie in memory (mt_quantised_image) and a checksum of these. The metadata say of what the
 * file was made. It is a folder of its own so that programs which read every safetensors file of a model's
 * folder do not find it.
 */
#ifndef MT_MODEL_PARAMS_CODES_CACHE_H
#define MT_MODEL_PARAMS_CODES_CACHE_H

#include "model/params/loading.h"

/*
 * Fills `kept` of every item that the selection quantises and this rank holds, from the file; one that is not
 * there, is broken or was made of something else is made first, matrix by matrix. The caller closes `file`
 * after the last use.
 *
 * Nothing here fails: what goes wrong is told in the selection's log, and the codes are then made in memory,
 * as without a cache. So they are where another process is making the file just now.
 */
void mt_codes_cache_open(struct mt_context *ctx, const struct mt_checkpoint *checkpoint,
                         const struct mt_train_selection *selection, struct mt_params_items *items,
                         struct mt_safetensors *file);

#endif
