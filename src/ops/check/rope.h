/* The check rope and mla_key share. */
#ifndef MT_OPS_CHECK_ROPE_H
#define MT_OPS_CHECK_ROPE_H

#include "ops/check/check.h"

/* positions, the cosine and sine tables, and the layout of a rotation of `tokens` rows, `width` wide. */
enum mt_status mt_check_rotation(const struct mt_device *device, const struct mt_tensor *positions,
                                 const struct mt_tensor *cosine, const struct mt_tensor *sine, int64_t tokens,
                                 int64_t width, enum mt_rope_layout layout);

#endif
