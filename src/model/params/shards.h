/*
 * Values brought together for writing. Where ranks share the routed experts each holds its own experts' part;
 * the first of these ranks writes for all of them. It runs the ordinary writers, which ask for numbers
 * wherever they are, piece by piece; meanwhile the others serve:
 *
 *     first rank                                the others
 *     mt_model_export(...) or the like          mt_shards_serve(params)
 *       mt_shards_read_value(...), as often as needed
 *     mt_shards_release(params)                 returns
 *
 * The first rank holds a piece of somebody else's at a time, and can fail at any point: it just releases.
 */
#ifndef MT_MODEL_SHARDS_H
#define MT_MODEL_SHARDS_H

#include "model/params/params.h"

/* Numbers first … first+count-1 of a parameter's values, to the host. */
enum mt_status mt_shards_read_value(const struct mt_params *params, const struct mt_param *param,
                                    int64_t first, int64_t count, float *values);

/* Answers until released. After a failure the first rank waits for an answer that does not come: the job has
 * to be ended. */
enum mt_status mt_shards_serve(const struct mt_params *params);

/* On the first rank: lets the others go. Nothing where no experts are shared. */
void mt_shards_release(const struct mt_params *params);

#endif
