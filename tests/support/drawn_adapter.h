/* LoRA pairs with values, and the adapter they make. */
#ifndef MT_TESTS_DRAWN_ADAPTER_H
#define MT_TESTS_DRAWN_ADAPTER_H

#include "model/adapters/adapter.h"
#include "support/workplace.h"

/* Fills everything that is trained with numbers of the given size, none of them zero. */
void drawn_adapter_fill(const struct mt_params *params, float size);

/* Writes the pairs as the folder NAME of the workplace, with biases. */
enum mt_status drawn_adapter_write(const struct workplace *place, const char *name,
                                   const struct mt_params *params, const struct mt_model_desc *desc,
                                   const struct mt_train_selection *selection, enum mt_adapter_layout layout);

#endif
