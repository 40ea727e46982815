/* attention forward in registers: from a tile of scores to weights, with a running maximum and a running sum.
 */
#ifndef MT_OPS_CUDA_ATTENTION_SOFTMAX_CUH
#define MT_OPS_CUDA_ATTENTION_SOFTMAX_CUH

#include "ops/cuda/attention/attention_bf16.cuh"

/* Scores become weights relative to the highest so far; `factor` is what that makes of older ones. */
template <int COUNT>
__device__ static inline void update_softmax(float (&scores)[COUNT][4], struct running *r, float (&factor)[2])
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float highest = r->highest[half];
#pragma unroll
        for (int j = 0; j < COUNT; j++) {
            highest = fmaxf(highest, fmaxf(scores[j][2 * half], scores[j][2 * half + 1]));
        }
        highest = fmaxf(highest, __shfl_xor_sync(CUDA_EVERY, highest, 1));
        highest = fmaxf(highest, __shfl_xor_sync(CUDA_EVERY, highest, 2));
        float reference = highest == -INFINITY ? 0.0f : highest; // no key seen yet
        factor[half] = exp2f(r->highest[half] - reference);
        float sum = 0.0f;
#pragma unroll
        for (int j = 0; j < COUNT; j++) {
#pragma unroll
            for (int e = 2 * half; e < 2 * half + 2; e++) {
                scores[j][e] = exp2f(scores[j][e] - reference);
                sum += scores[j][e];
            }
        }
        r->sum[half] = r->sum[half] * factor[half] + sum;
        r->highest[half] = highest;
    }
}

/* Scales scores to units of log 2; -inf where a query does not see the key. */
template <int COUNT>
__device__ static inline void mask_scores(float (&scores)[COUNT][4], const struct sequence &s, int64_t query,
                                          int64_t start, float scale, int window)
{
    bool all = all_see(s, query, 16, start, 8 * COUNT, window);
#pragma unroll
    for (int j = 0; j < COUNT; j++) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            bool seen = all || sees(s, query + fragment_row(e), start + fragment_column(j, e), window);
            scores[j][e] = seen ? scores[j][e] * scale : -INFINITY;
        }
    }
}

#endif
