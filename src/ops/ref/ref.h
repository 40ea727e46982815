/*
 * The reference device: plain loops over doubles, any float type in and out. It is the definition of
 * every op and the oracle of the tests; nothing here is meant to be fast.
 */
#ifndef MT_OPS_REF_H
#define MT_OPS_REF_H

#include <math.h>

#include "ops/device.h"
#include "tensor/dtype.h"

enum mt_status mt_ref_init(struct mt_device *device, int threads);

// One function per op, in the file of its family. It only computes: it cannot fail.
#define MT_REF_DECLARE(name) void mt_ref_##name(const struct mt_##name##_args *args);
MT_OP_LIST(MT_REF_DECLARE)
#undef MT_REF_DECLARE

/* Elements by index, whatever the type. */
static inline double ref_get1(const struct mt_tensor *t, int64_t i)
{
    return mt_load(t->dtype, t->data, i * t->stride[0]);
}

static inline double ref_get2(const struct mt_tensor *t, int64_t i, int64_t j)
{
    return mt_load(t->dtype, t->data, i * t->stride[0] + j * t->stride[1]);
}

static inline double ref_get3(const struct mt_tensor *t, int64_t i, int64_t j, int64_t k)
{
    return mt_load(t->dtype, t->data, i * t->stride[0] + j * t->stride[1] + k * t->stride[2]);
}

static inline void ref_set1(const struct mt_tensor *t, int64_t i, double value)
{
    mt_store(t->dtype, t->data, i * t->stride[0], value);
}

static inline void ref_set2(const struct mt_tensor *t, int64_t i, int64_t j, double value)
{
    mt_store(t->dtype, t->data, i * t->stride[0] + j * t->stride[1], value);
}

static inline void ref_set3(const struct mt_tensor *t, int64_t i, int64_t j, int64_t k, double value)
{
    mt_store(t->dtype, t->data, i * t->stride[0] + j * t->stride[1] + k * t->stride[2], value);
}

static inline int32_t ref_int1(const struct mt_tensor *t, int64_t i)
{
    return ((const int32_t *)t->data)[i * t->stride[0]];
}

static inline int32_t ref_int2(const struct mt_tensor *t, int64_t i, int64_t j)
{
    return ((const int32_t *)t->data)[i * t->stride[0] + j * t->stride[1]];
}

/* True when item a stands before item b in the order of selection: value falling, place rising, NaN last. */
static inline bool ref_comes_before(double a, int64_t a_place, double b, int64_t b_place)
{
    if (isnan(a) != isnan(b)) return isnan(b);
    if (!isnan(a) && a != b) return a > b;
    return a_place < b_place;
}

#endif
