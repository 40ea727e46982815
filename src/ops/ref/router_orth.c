/*
 * router_orth, from G = W Wᵀ, pairs e, f of one group (K groups of g = n/K experts):
 *   cosine  Σ (Ĝ_ef - δ_ef)² / (K g²), Ĝ_ef = G_ef / (l_e l_f), l_e = max(√G_ee, 1e-12)
 *           Γ_ef = 2 (Ĝ_ef - δ_ef) / (l_e l_f) / (K g²); where l_e is not clamped, ∂l_e/∂G_ee = 1/(2 l_e) and
 *           ∂loss/∂l_e = -2 Σ_f ((Ĝ_ef - δ_ef) Ĝ_ef + (Ĝ_fe - δ_fe) Ĝ_fe) / l_e / (K g²) add to Γ_ee
 *   L1      Σ |G_ef - δ_ef|; Γ_ef = sign(G_ef - δ_ef)
 * Backward: coupling = scale · (Γ + Γᵀ).
 */
#include <math.h>

#include "ops/ref/ref.h"

#define SHORTEST 1e-12 // what a row's length counts for at the least

static double length_of(const struct mt_tensor *gram, int64_t e)
{
    double square = ref_get2(gram, e, e);
    return square > SHORTEST * SHORTEST ? sqrt(square) : SHORTEST;
}

static double cosine_of(const struct mt_tensor *gram, int64_t e, int64_t f)
{
    return ref_get2(gram, e, f) / (length_of(gram, e) * length_of(gram, f));
}

static double sign_of(double x)
{
    return (double)((x > 0.0) - (x < 0.0));
}

static int64_t group_size(const struct mt_tensor *gram, int groups)
{
    return gram->dim[0] / (groups > 1 ? groups : 1);
}

enum mt_status mt_ref_router_orth_forward(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_router_orth_forward_args *a = args;
    int64_t experts = a->gram.dim[0];
    int64_t size = group_size(&a->gram, a->groups);
    double sum = 0.0;
    for (int64_t e = 0; e < experts; e++) {
        for (int64_t f = 0; f < experts; f++) {
            double same = e == f ? 1.0 : 0.0;
            if (a->kind == MT_ROUTER_ORTH_L1) {
                sum += fabs(ref_get2(&a->gram, e, f) - same);
            } else if (e / size == f / size) {
                double difference = cosine_of(&a->gram, e, f) - same;
                sum += difference * difference;
            }
        }
    }
    ref_set1(&a->loss, 0, a->kind == MT_ROUTER_ORTH_L1 ? sum : sum / (double)(experts * size));
    return MT_OK;
}

/* Γ_ef of the cosine kind. */
static double cosine_gradient(const struct mt_tensor *gram, int64_t size, int64_t e, int64_t f)
{
    if (e / size != f / size) return 0.0;
    double divisor = (double)(gram->dim[0] * size);
    double length = length_of(gram, e);
    double same = e == f ? 1.0 : 0.0;
    double direct = 2.0 * (cosine_of(gram, e, f) - same) / (length * length_of(gram, f)) / divisor;
    if (e != f || ref_get2(gram, e, e) <= SHORTEST * SHORTEST) return direct;
    double by_length = 0.0; // ∂loss/∂l_e, times -l_e/2
    for (int64_t m = e / size * size; m < (e / size + 1) * size; m++) {
        double across = cosine_of(gram, e, m);
        double down = cosine_of(gram, m, e);
        double itself = e == m ? 1.0 : 0.0;
        by_length += (across - itself) * across + (down - itself) * down;
    }
    return direct - by_length / (length * length) / divisor;
}

static double gradient_of(const struct mt_router_orth_backward_args *a, int64_t e, int64_t f)
{
    if (a->kind == MT_ROUTER_ORTH_L1) return sign_of(ref_get2(&a->gram, e, f) - (e == f ? 1.0 : 0.0));
    return cosine_gradient(&a->gram, group_size(&a->gram, a->groups), e, f);
}

enum mt_status mt_ref_router_orth_backward(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_router_orth_backward_args *a = args;
    for (int64_t e = 0; e < a->gram.dim[0]; e++) {
        for (int64_t f = 0; f < a->gram.dim[0]; f++) {
            ref_set2(&a->coupling, e, f, (double)a->scale * (gradient_of(a, e, f) + gradient_of(a, f, e)));
        }
    }
    return MT_OK;
}
