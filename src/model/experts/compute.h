/* What every placement does with rows, before their experts (layers/mlp.h) and after. Parts of experts.h. */
#ifndef MT_MODEL_EXPERTS_COMPUTE_H
#define MT_MODEL_EXPERTS_COMPUTE_H

#include "model/experts/experts.h"

/* The projections of some experts that follow each other; borrows from those of all. */
struct mt_mlp_params mt_experts_some(const struct mt_mlp_params *all, int first, int count);

/* rows [R,d] = x's rows, sorted by expert as the record says. */
enum mt_status mt_experts_gather(const struct mt_pass *pass, const struct mt_routing *record,
                                 const struct mt_tensor *x, const struct mt_tensor *rows);

#endif
