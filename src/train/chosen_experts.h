/* Which experts are trainable (ESFT): a JSON file {"LAYER": [expert, ...], ...}; of other layers none is.
 */
#ifndef MT_TRAIN_CHOSEN_EXPERTS_H
#define MT_TRAIN_CHOSEN_EXPERTS_H

#include "arch/desc.h"
#include "base/arena.h"

/*
 * Reads the file into flags as struct mt_train_selection wants them: [layers] arrays of n flags, in the
 * arena. A layer without experts, an expert there is not, or a file that chooses nothing is refused.
 */
enum mt_status mt_chosen_experts_read(struct mt_context *ctx, const char *path,
                                      const struct mt_model_desc *desc, struct mt_arena *arena,
                                      const bool *const **experts);

#endif
