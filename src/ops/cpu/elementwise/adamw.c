/*
 * adamw on floats. What is the same for all elements is computed once, in double:
 * lr (m/c1) / (sqrt(v/c2) + ε) = rate m / (sqrt(v) root + ε), rate = lr/c1, root = 1/sqrt(c2).
 */
#include <math.h>

#include "ops/cpu/elementwise/convert.h"
#include "ops/cpu/pieces.h"

struct adamw_factors {
    float grad_scale;
    float keep1, add1; // β1, 1-β1
    float keep2, add2; // β2, 1-β2
    float keep_param;  // 1 - lr·decay
    float rate, root, epsilon;
};

static struct adamw_factors factors_of(const struct mt_adamw_args *a)
{
    double rate = (double)a->learning_rate;
    double correction1 = 1.0 - pow((double)a->beta1, (double)a->step);
    double correction2 = 1.0 - pow((double)a->beta2, (double)a->step);
    return (struct adamw_factors){
        .grad_scale = a->grad_scale,
        .keep1 = a->beta1,
        .add1 = (float)(1.0 - (double)a->beta1),
        .keep2 = a->beta2,
        .add2 = (float)(1.0 - (double)a->beta2),
        .keep_param = (float)(1.0 - rate * (double)a->weight_decay),
        .rate = (float)(rate / correction1),
        .root = (float)(1.0 / sqrt(correction2)),
        .epsilon = a->epsilon,
    };
}

static void update(struct adamw_factors f, float *restrict param, const float *restrict grad,
                   float *restrict m, float *restrict v, int64_t count)
{
#pragma omp simd
    for (int64_t j = 0; j < count; j++) {
        float g = grad[j] * f.grad_scale;
        float mean = f.keep1 * m[j] + f.add1 * g;
        float square = f.keep2 * v[j] + f.add2 * g * g;
        m[j] = mean;
        v[j] = square;
        param[j] = param[j] * f.keep_param - f.rate * mean / (sqrtf(square) * f.root + f.epsilon);
    }
}

bool MT_CPU(adamw_fits)(const struct mt_adamw_args *a)
{
    return cpu_all_f32(&a->param, &a->grad, &a->m, &a->v) &&
           (!mt_tensor_present(&a->param_copy) || cpu_converts(a->param_copy.dtype));
}

void MT_CPU(adamw)(struct mt_device *device, const struct mt_adamw_args *a)
{
    bool has_copy = mt_tensor_present(&a->param_copy);
    struct adamw_factors factors = factors_of(a);
    struct cpu_pieces pieces = cpu_pieces_of(&a->param, true);
    int64_t copy_bytes = has_copy ? (int64_t)mt_dtype_bytes(a->param_copy.dtype) : 0;
#pragma omp parallel for num_threads(cpu_threads(device, mt_tensor_count(&a->param))) schedule(static)
    for (int64_t i = 0; i < pieces.count; i++) {
        struct cpu_piece piece = cpu_piece_at(&pieces, i);
        float *param = (float *)a->param.data + piece.start;
        update(factors, param, (const float *)a->grad.data + piece.start, (float *)a->m.data + piece.start,
               (float *)a->v.data + piece.start, piece.count);
        if (has_copy) {
            cpu_convert_from_f32(param, piece.count, a->param_copy.dtype,
                                 (char *)a->param_copy.data + piece.start * copy_bytes);
        }
    }
}
