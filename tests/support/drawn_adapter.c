/* LoRA pairs with values. */
#include "support/drawn_adapter.h"

#include "base/rng.h"

void drawn_adapter_fill(const struct mt_params *params, float size)
{
    for (size_t i = 0; i < params->trained_count; i++) {
        float *values = params->trained[i].value.data;
        for (int64_t j = 0; j < mt_tensor_count(&params->trained[i].value); j++) {
            values[j] = size * (0.1f + mt_rng_uniform(3, i, (uint64_t)j)) * (j % 2 == 0 ? 1.0f : -1.0f);
        }
    }
}

enum mt_status drawn_adapter_write(const struct workplace *place, const char *name,
                                   const struct mt_params *params, const struct mt_model_desc *desc,
                                   const struct mt_train_selection *selection, enum mt_adapter_layout layout)
{
    char path[128];
    struct mt_adapter_write_options options = {
        .directory = workplace_path(place, name, path, sizeof path),
        .layout = layout,
        .base_model = "somewhere/\"quoted\"",
        .selection = selection,
        .biases = true,
    };
    return mt_adapter_write(params, desc, &options);
}
