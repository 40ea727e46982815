/*
 * A full-size model without its weights, for the programs that time one on a device.
 * A file with holes stands in for the weights; what the device keeps of it is overwritten with small random
 * numbers.
 */
#ifndef MT_BENCH_HOLLOW_MODEL_H
#define MT_BENCH_HOLLOW_MODEL_H

#include "model/model.h"

/*
 * Writes config.json, a copy of `config`, and model.safetensors, all zeros, into the folder, which exists.
 * *shared: the model has experts that every token goes to.
 */
enum mt_status hollow_model_write(struct mt_context *ctx, const char *config, const char *folder,
                                  bool *shared);

/* Random numbers for the device's own copies of frozen weights. On host memory the weights stay zero. */
enum mt_status hollow_model_fill(struct mt_model *model);

#endif
