/*
 * Measures a trained model: held-out problems of every domain go through it once, and what it would answer,
 * how likely the right answers are, and what its routers and experts do are all taken from that pass.
 */
#ifndef MT_COMPARE_MEASURE_H
#define MT_COMPARE_MEASURE_H

#include "compare/cell.h"
#include "model/model.h"
#include "train/settings/settings.h"

/* Fills the result but for steps, curve and seconds. `training`: the settings the model was trained with. */
enum mt_status mt_cell_measure(const struct mt_cell_job *job, const struct mt_cell *cell,
                               const struct mt_train_settings *training, struct mt_model *model,
                               struct mt_cell_result *result);

#endif
