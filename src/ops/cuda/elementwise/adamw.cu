/*
 * adamw: see metier/ops.h for the formula. Four parameters a thread in f32, where all is f32 and aligned, but
 * for a copy in bf16; else one, in double.
 */
#include <math.h>

#include "ops/cuda/common/mma.cuh"

/* correction1 and correction2 are 1 - β^step, made on the host as ref makes them. */
__global__ static void adamw_kernel(struct mt_adamw_args a, int64_t count, double correction1,
                                    double correction2)
{
    double beta1 = (double)a.beta1;
    double beta2 = (double)a.beta2;
    double rate = (double)a.learning_rate;
    for (int64_t i = cuda_thread(); i < count; i += cuda_thread_count()) {
        double g = cuda_get(a.grad, i) * (double)a.grad_scale;
        double m = beta1 * cuda_get(a.m, i) + (1.0 - beta1) * g;
        double v = beta2 * cuda_get(a.v, i) + (1.0 - beta2) * g * g;
        double step = m / correction1 / (sqrt(v / correction2) + (double)a.epsilon);
        double decayed = cuda_get(a.param, i) * (1.0 - rate * (double)a.weight_decay);
        cuda_put(a.m, i, m);
        cuda_put(a.v, i, v);
        cuda_put(a.param, i, decayed - rate * step);
        // The copy is of what was stored, so that a restart from param gives the same copy.
        if (cuda_present(a.param_copy)) cuda_put(a.param_copy, i, cuda_get(a.param, i));
    }
}

/* What is the same for every parameter. */
struct adamw_factors {
    float scale;                      // of the gradient
    float beta1, rest1, beta2, rest2; // rest: 1 - β
    float rate, correction2, epsilon; // rate: lr / (1 - β1^step); correction2: 1 / (1 - β2^step)
    float decayed;                    // 1 - lr · decay
};

__device__ static inline void adamw_one(const struct adamw_factors &f, float grad, float *m, float *v,
                                        float *param)
{
    float g = grad * f.scale;
    *m = f.beta1 * *m + f.rest1 * g;
    *v = f.beta2 * *v + f.rest2 * g * g;
    *param = *param * f.decayed - f.rate * *m / (sqrtf(*v * f.correction2) + f.epsilon);
}

__global__ static void fours_kernel(float4 *param, const float4 *grad, float4 *m, float4 *v, uint2 *copy,
                                    int64_t count, struct adamw_factors f)
{
    for (int64_t i = cuda_thread(); i < count; i += cuda_thread_count()) {
        float4 p = param[i];
        float4 g = grad[i];
        float4 first = m[i];
        float4 second = v[i];
        adamw_one(f, g.x, &first.x, &second.x, &p.x);
        adamw_one(f, g.y, &first.y, &second.y, &p.y);
        adamw_one(f, g.z, &first.z, &second.z, &p.z);
        adamw_one(f, g.w, &first.w, &second.w, &p.w);
        param[i] = p;
        m[i] = first;
        v[i] = second;
        if (copy != NULL) copy[i] = make_uint2(pack_bf16(p.x, p.y), pack_bf16(p.z, p.w));
    }
}

static bool is_fours(const struct mt_tensor *t)
{
    return t->dtype == MT_F32 && mt_tensor_count(t) % 4 == 0 &&
           reinterpret_cast<uintptr_t>(t->data) % 16 == 0;
}

/* A copy that is not wanted, or four numbers of which may be written at a time. */
static bool is_copy_of_fours(const struct mt_tensor *t)
{
    return !mt_tensor_present(t) || (t->dtype == MT_BF16 && reinterpret_cast<uintptr_t>(t->data) % 8 == 0);
}

enum mt_status mt_cuda_adamw(struct mt_device *device, const struct mt_adamw_args *a)
{
    int64_t count = mt_tensor_count(&a->param);
    if (count == 0) return MT_OK;
    double correction1 = 1.0 - pow((double)a->beta1, (double)a->step);
    double correction2 = 1.0 - pow((double)a->beta2, (double)a->step);
    if (is_fours(&a->param) && is_fours(&a->grad) && is_fours(&a->m) && is_fours(&a->v) &&
        is_copy_of_fours(&a->param_copy)) {
        uint2 *copy = mt_tensor_present(&a->param_copy) ? static_cast<uint2 *>(a->param_copy.data) : NULL;
        struct adamw_factors f = {};
        f.scale = a->grad_scale;
        f.beta1 = a->beta1;
        f.rest1 = (float)(1.0 - (double)a->beta1);
        f.beta2 = a->beta2;
        f.rest2 = (float)(1.0 - (double)a->beta2);
        f.rate = (float)((double)a->learning_rate / correction1);
        f.correction2 = (float)(1.0 / correction2);
        f.epsilon = a->epsilon;
        f.decayed = (float)(1.0 - (double)a->learning_rate * (double)a->weight_decay);
        fours_kernel<<<cuda_blocks(count / 4), CUDA_THREADS, 0, cuda_stream(device)>>>(
            static_cast<float4 *>(a->param.data), static_cast<const float4 *>(a->grad.data),
            static_cast<float4 *>(a->m.data), static_cast<float4 *>(a->v.data), copy, count / 4, f);
        return cuda_launched(device, "adamw");
    }
    adamw_kernel<<<cuda_blocks(count), CUDA_THREADS, 0, cuda_stream(device)>>>(*a, count, correction1,
                                                                               correction2);
    return cuda_launched(device, "adamw");
}
