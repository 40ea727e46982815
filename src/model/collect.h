/*
 * A model watched by a collector (analysis/collector/collector.h): whatever runs the model, `metier analyze`,
 * an evaluation or a comparison, gets its routing figures through here.
 */
#ifndef MT_MODEL_COLLECT_H
#define MT_MODEL_COLLECT_H

#include "analysis/collector/collector.h"
#include "model/model.h"

/*
 * Fills what options say of the model itself: layers, number, experts, slots, width. `number` has room for
 * desc->layers entries and is borrowed. False: no layer has experts.
 */
bool mt_collector_options_of(const struct mt_model_desc *desc, int64_t *number,
                             struct mt_collector_options *options);

/* From now on the collector gets every MoE layer of every forward; NULL ends it. Both stay the caller's. */
void mt_model_collect(struct mt_model *model, struct mt_collector *collector);

#endif
