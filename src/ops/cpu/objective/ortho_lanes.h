/*
 * The numbers ortho computes with: one vector register of doubles, one token per lane.
 */
#ifndef MT_OPS_CPU_ORTHO_LANES_H
#define MT_OPS_CPU_ORTHO_LANES_H

#include <math.h>
#include <stdint.h>

#if defined(__AVX512F__)
#define LANES 8
#elif defined(__AVX__)
#define LANES 4
#else
#define LANES 2
#endif

typedef double lanes __attribute__((vector_size(LANES * sizeof(double))));
typedef int64_t lane_mask __attribute__((vector_size(LANES * sizeof(int64_t)))); // -1 or 0 per lane

/* x where the mask is set, else 0, whatever x is there. */
static inline lanes lanes_where(lane_mask mask, lanes x)
{
    return (lanes)((lane_mask)x & mask);
}

/* 1 / x, or 0 where that does not exist. */
static inline lanes lanes_inverse(lanes x)
{
    return lanes_where((lane_mask)(x != 0.0), 1.0 / x);
}

static inline lanes lanes_sqrt(lanes x)
{
    lanes root = x;
    for (int lane = 0; lane < LANES; lane++) root[lane] = sqrt(x[lane]);
    return root;
}

#endif
