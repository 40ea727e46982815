/*
 * router_orth on the rows w_e [d] of W, pairs e, f of one group (K groups of g = n/K experts):
 *   cosine  Σ (c_ef - δ_ef)² / (K g²), c_ef = <u_e, u_f>, u_e = w_e / l_e, l_e = max(|w_e|, 1e-12)
 *           ∂loss/∂w_e = 4 Σ_f (c_ef - δ_ef) (u_f - c_ef u_e) / l_e / (K g²): what u_f has in common with u_e
 *           is taken out pair by pair, because the length of u_e cannot change; where l_e is clamped, it can
 *   L1      Σ |G_ef - δ_ef|, G_ef = <w_e, w_f>; ∂loss/∂w_e = 2 Σ_f sign(G_ef - δ_ef) w_f
 * One formula for both: ∂loss/∂w_e = factor_e Σ_f pull_ef (r_f - kept_ef r_e), r the rows as they are
 * compared.
 */
#include <math.h>

#include "ops/ref/ref.h"

#define SHORTEST 1e-12 // what a row's length counts for at the least
#define BLOCK    64    // columns summed at a time

/* The rows as they are compared. */
struct rows {
    const struct mt_tensor *weight;
    bool cosine;
    int64_t size; // of a group
};

static struct rows rows_of(const struct mt_tensor *weight, enum mt_router_orth_kind kind, int groups)
{
    return (struct rows){
        .weight = weight,
        .cosine = kind == MT_ROUTER_ORTH_COSINE,
        .size = weight->dim[0] / (groups > 1 ? groups : 1),
    };
}

static double squared_length(const struct rows *r, int64_t e)
{
    double sum = 0.0;
    for (int64_t j = 0; j < r->weight->dim[1]; j++)
        sum += ref_get2(r->weight, e, j) * ref_get2(r->weight, e, j);
    return sum;
}

/* What row e is divided by. */
static double length_of(const struct rows *r, int64_t e)
{
    if (!r->cosine) return 1.0;
    double length = sqrt(squared_length(r, e));
    return length <= SHORTEST ? SHORTEST : length; // NaN stays
}

static double product_of(const struct rows *r, int64_t e, int64_t f)
{
    double of_e = length_of(r, e);
    double of_f = length_of(r, f);
    double sum = 0.0;
    for (int64_t j = 0; j < r->weight->dim[1]; j++) {
        sum += ref_get2(r->weight, e, j) / of_e * (ref_get2(r->weight, f, j) / of_f);
    }
    return sum;
}

static double divisor_of(const struct rows *r)
{
    return r->cosine ? (double)(r->weight->dim[0] * r->size) : 1.0;
}

static double sign_of(double x)
{
    return (double)((x > 0.0) - (x < 0.0));
}

enum mt_status mt_ref_router_orth_forward(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_router_orth_forward_args *a = args;
    struct rows rows = rows_of(&a->weight, a->kind, a->groups);
    double sum = 0.0;
    for (int64_t e = 0; e < a->weight.dim[0]; e++) {
        int64_t from = e / rows.size * rows.size;
        for (int64_t f = from; f < from + rows.size; f++) {
            double difference = product_of(&rows, e, f) - (e == f ? 1.0 : 0.0);
            sum += rows.cosine ? difference * difference : fabs(difference);
        }
    }
    ref_set1(&a->loss, 0, sum / divisor_of(&rows));
    return MT_OK;
}

/* Columns [start, start + count) of Σ_f pull_ef (r_f - kept_ef r_e). */
static void pull_row(const struct rows *r, int64_t e, int64_t start, int64_t count, double *pulled)
{
    double own = length_of(r, e);
    bool turns = r->cosine && own > SHORTEST; // a row that keeps its length
    for (int64_t j = 0; j < count; j++) pulled[j] = 0.0;
    int64_t from = e / r->size * r->size;
    for (int64_t f = from; f < from + r->size; f++) {
        double product = product_of(r, e, f);
        double difference = product - (e == f ? 1.0 : 0.0);
        double pull = r->cosine ? difference : sign_of(difference);
        double other = length_of(r, f);
        for (int64_t j = 0; j < count; j++) {
            double along = turns ? product * (ref_get2(r->weight, e, start + j) / own) : 0.0;
            pulled[j] += pull * (ref_get2(r->weight, f, start + j) / other - along);
        }
    }
}

enum mt_status mt_ref_router_orth_backward(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_router_orth_backward_args *a = args;
    struct rows rows = rows_of(&a->weight, a->kind, a->groups);
    double squares = 0.0;
    for (int64_t e = 0; e < a->weight.dim[0]; e++) {
        double factor =
            (double)a->scale * (rows.cosine ? 4.0 : 2.0) / divisor_of(&rows) / length_of(&rows, e);
        for (int64_t start = 0; start < a->weight.dim[1]; start += BLOCK) {
            int64_t left = a->weight.dim[1] - start;
            int64_t count = left < BLOCK ? left : BLOCK;
            double pulled[BLOCK];
            pull_row(&rows, e, start, count, pulled);
            for (int64_t j = 0; j < count; j++) {
                double gradient = factor * pulled[j];
                squares += gradient * gradient;
                if (!mt_tensor_present(&a->dweight)) continue;
                ref_set2(&a->dweight, e, start + j, ref_get2(&a->dweight, e, start + j) + gradient);
            }
        }
    }
    if (mt_tensor_present(&a->squares)) ref_set1(&a->squares, 0, squares);
    return MT_OK;
}
