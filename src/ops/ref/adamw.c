/*
 * adamw: g = grad·grad_scale; m = β1 m + (1-β1) g; v = β2 v + (1-β2) g²;
 * p = p (1 - lr·decay) - lr (m/(1-β1^step)) / (sqrt(v/(1-β2^step)) + ε).
 */
#include <math.h>

#include "ops/ref/elements.h"

enum mt_status mt_ref_adamw(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_adamw_args *a = args;
    double beta1 = (double)a->beta1;
    double beta2 = (double)a->beta2;
    double rate = (double)a->learning_rate;
    double correction1 = 1.0 - pow(beta1, (double)a->step);
    double correction2 = 1.0 - pow(beta2, (double)a->step);
    for (int64_t i = 0; i < mt_tensor_count(&a->param); i++) {
        double g = ref_get_element(&a->grad, i) * (double)a->grad_scale;
        double m = beta1 * ref_get_element(&a->m, i) + (1.0 - beta1) * g;
        double v = beta2 * ref_get_element(&a->v, i) + (1.0 - beta2) * g * g;
        double step = m / correction1 / (sqrt(v / correction2) + (double)a->epsilon);
        double decayed = ref_get_element(&a->param, i) * (1.0 - rate * (double)a->weight_decay);
        ref_set_element(&a->m, i, m);
        ref_set_element(&a->v, i, v);
        ref_set_element(&a->param, i, decayed - rate * step);
        // The copy is of what was stored, so that a restart from param gives the same copy.
        if (mt_tensor_present(&a->param_copy)) {
            ref_set_element(&a->param_copy, i, ref_get_element(&a->param, i));
        }
    }
    return MT_OK;
}
