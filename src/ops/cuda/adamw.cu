/* adamw, one thread per parameter, in double; see metier/ops.h for the formula. */
#include <math.h>

#include "ops/cuda/common.cuh"

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

enum mt_status mt_cuda_adamw(struct mt_device *device, const void *args)
{
    const struct mt_adamw_args *a = static_cast<const struct mt_adamw_args *>(args);
    int64_t count = mt_tensor_count(&a->param);
    if (count == 0) return MT_OK;
    double correction1 = 1.0 - pow((double)a->beta1, (double)a->step);
    double correction2 = 1.0 - pow((double)a->beta2, (double)a->step);
    adamw_kernel<<<cuda_blocks(count), CUDA_THREADS, 0, cuda_stream(device)>>>(*a, count, correction1,
                                                                               correction2);
    return cuda_launched(device, "adamw");
}
