/*
 * swiglu of one element, for kernels of its own and those of products that end in it: all of them give the
 * same bits for the same operands.
 */
#ifndef MT_OPS_CUDA_SWIGLU_CUH
#define MT_OPS_CUDA_SWIGLU_CUH

#include "ops/cuda/common/common.cuh"

/* Within 2e-6 of its value for |g| up to 20; expf and a division that rounds take three times as long. */
__device__ __forceinline__ static float swiglu_sigmoid(float g)
{
    const float log2_e = 1.44269504f;
    float power;
    float sigmoid;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(g * -log2_e));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(sigmoid) : "f"(1.0f + power));
    return sigmoid;
}

__device__ __forceinline__ static float swiglu(float g, float u)
{
    return g * swiglu_sigmoid(g) * u;
}

/* (d gate, d up) of one element, in place of (gate, up); y in place of dy. */
__device__ __forceinline__ static void swiglu_gradient(float *dy, float *gate, float *up)
{
    float d = *dy;
    float u = *up;
    float sigmoid = swiglu_sigmoid(*gate);
    float silu = *gate * sigmoid;
    *gate = d * u * (sigmoid + silu * (1.0f - sigmoid));
    *up = d * silu;
    *dy = silu * u;
}

// ------------------------------------------------------------------ with a limit

/* g and u + 1 of one element, as they are multiplied. */
__device__ __forceinline__ static float limited_gate(float gate, float limit)
{
    return gate > limit ? limit : gate;
}

__device__ __forceinline__ static float limited_up(float up, float limit)
{
    float clamped = up > limit ? limit : up;
    return (clamped < -limit ? -limit : clamped) + 1.0f;
}

__device__ __forceinline__ static float limited_swiglu(float gate, float up, float limit, float alpha)
{
    float g = limited_gate(gate, limit);
    return g * swiglu_sigmoid(alpha * g) * limited_up(up, limit);
}

__device__ __forceinline__ static void limited_swiglu_gradient(float *dy, float *gate, float *up, float limit,
                                                               float alpha)
{
    float d = *dy;
    float g = limited_gate(*gate, limit);
    float u = limited_up(*up, limit);
    float sigmoid = swiglu_sigmoid(alpha * g);
    *gate = *gate <= limit ? d * u * sigmoid * (1.0f + alpha * g * (1.0f - sigmoid)) : 0.0f;
    *up = fabsf(*up) <= limit ? d * g * sigmoid : 0.0f;
    *dy = g * sigmoid * u;
}

#endif
