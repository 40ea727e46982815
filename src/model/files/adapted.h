/* A model folder with an adapter on top, opened; and how fast it runs. */
#ifndef MT_MODEL_ADAPTED_H
#define MT_MODEL_ADAPTED_H

#include "model/model.h"

/*
 * mt_model_open with what the adapter says of itself; `adapter` is its folder, NULL: none. The caller closes
 * the model, also after a failure.
 */
enum mt_status mt_adapted_open(struct mt_device *device, const char *directory, const char *adapter,
                               const struct mt_model_options *options, struct mt_model **model);

/* Tokens a second of a forward over `tokens` pseudo-random ids: the best of three, after one that warms up.
 */
enum mt_status mt_adapted_speed(struct mt_device *device, const char *directory, const char *adapter,
                                int64_t tokens, double *rate);

#endif
