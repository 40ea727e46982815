/* The one place where a model's observer and a collector meet. */
#include "model/collect.h"

bool mt_collector_options_of(const struct mt_model_desc *desc, int64_t *number,
                             struct mt_collector_options *options)
{
    *options = (struct mt_collector_options){.layers = mt_model_moe_layers(desc, number),
                                             .number = number,
                                             .experts = desc->experts,
                                             .slots = desc->router.slots,
                                             .width = desc->width};
    return options->layers > 0;
}

static enum mt_status look(void *self, int moe_layer, const struct mt_routing *record,
                           const struct mt_tensor *input)
{
    return mt_collector_add(self, moe_layer, record, input);
}

void mt_model_collect(struct mt_model *model, struct mt_collector *collector)
{
    const struct mt_layer_observer observer = {.self = collector, .look = look};
    mt_model_observe(model, collector != NULL ? &observer : NULL);
}
