/* What the weights of a model's routers and experts say by themselves (analysis/coupling.h). */
#ifndef MT_ANALYSIS_RUN_WEIGHTS_H
#define MT_ANALYSIS_RUN_WEIGHTS_H

#include "analysis/collector/collector.h"
#include "analysis/coupling.h"
#include "model/model.h"

/* A router's weight as it acts, LoRA included, into f32 [n,d] of the device. */
enum mt_status mt_router_weight(struct mt_device *device, const struct mt_linear *router,
                                const struct mt_tensor *target);

/*
 * Every MoE layer's, figures[MoE layers]. What compares routers with experts is not known where ranks share
 * the experts.
 */
enum mt_status mt_model_coupling(struct mt_model *model, struct mt_coupling_figures *figures);

/* Puts them beside what a collector saw: figures of the same layers. The mean is made anew. */
void mt_figures_take_coupling(struct mt_figures *figures, const struct mt_coupling_figures *coupling);

#endif
