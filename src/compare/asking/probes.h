/*
 * A cell's held-out problems asked besides the end of training: on its way (settings.at), and with the least
 * used experts taken away (settings.prune). What is used is counted on the domain's training data, on about
 * as many problems as are held out. Of a mix the means over its parts, each with its own experts taken away.
 */
#ifndef MT_COMPARE_PROBES_H
#define MT_COMPARE_PROBES_H

#include "compare/cell.h"
#include "model/model.h"
#include "train/settings/settings.h"

/* One pass over the domain's held-out problems with the model as it is. */
enum mt_status mt_cell_ask(const struct mt_cell_job *job, const struct mt_cell *cell,
                           const struct mt_train_settings *training, struct mt_model *model,
                           struct mt_cell_probe *probe);

/* Fills result->pruned and result->asked, as far as settings ask; the model is afterwards as it was. */
enum mt_status mt_cell_ask_more(const struct mt_cell_job *job, const struct mt_cell *cell,
                                const struct mt_train_settings *training, struct mt_model *model,
                                struct mt_cell_result *result);

/* The part of it that askings.h lists (fewer.c). */
enum mt_status mt_cell_ask_fewer(const struct mt_cell_job *job, const struct mt_cell *cell,
                                 const struct mt_train_settings *training, struct mt_model *model,
                                 struct mt_cell_result *result);

#endif
