/*
 * Elements in row-major order, whatever the rank and strides: for ops that treat a tensor as a list.
 */
#ifndef MT_OPS_REF_ELEMENTS_H
#define MT_OPS_REF_ELEMENTS_H

#include "ops/ref/ref.h"

/* Where the i-th element lies, in elements from the start of the tensor's memory. */
static inline int64_t ref_element_offset(const struct mt_tensor *t, int64_t i)
{
    int64_t offset = 0;
    for (int axis = t->rank - 1; axis >= 0; axis--) {
        offset += i % t->dim[axis] * t->stride[axis];
        i /= t->dim[axis];
    }
    return offset;
}

static inline double ref_get_element(const struct mt_tensor *t, int64_t i)
{
    return mt_load(t->dtype, t->data, ref_element_offset(t, i));
}

static inline void ref_set_element(const struct mt_tensor *t, int64_t i, double value)
{
    mt_store(t->dtype, t->data, ref_element_offset(t, i), value);
}

#endif
