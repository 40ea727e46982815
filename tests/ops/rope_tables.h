/* Cosine and sine tables for cases and tests of rope and mla_key. */
#ifndef MT_TESTS_ROPE_TABLES_H
#define MT_TESTS_ROPE_TABLES_H

#include <math.h>

#include "tensor/dtype.h"

/* cos and sin of position · 10000^(-i/pairs), rounded to float, whatever the tables' type. */
static inline void fill_rope_tables(struct mt_tensor *cosine, struct mt_tensor *sine)
{
    int64_t pairs = cosine->dim[1];
    for (int64_t p = 0; p < cosine->dim[0]; p++) {
        for (int64_t i = 0; i < pairs; i++) {
            double angle = (double)p * pow(10000.0, -(double)i / (double)pairs);
            mt_store(cosine->dtype, cosine->data, p * cosine->stride[0] + i, (double)(float)cos(angle));
            mt_store(sine->dtype, sine->data, p * sine->stride[0] + i, (double)(float)sin(angle));
        }
    }
}

/* Positions of packed sequences: counting from 0, and again from 0 every `length` tokens. */
static inline void fill_positions(struct mt_tensor *positions, int64_t length)
{
    int32_t *values = positions->data;
    for (int64_t t = 0; t < positions->dim[0]; t++) values[t] = (int32_t)(t % length);
}

#endif
