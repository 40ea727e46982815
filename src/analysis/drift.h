/*
 * How far routing moved from a base model's, on the same tokens.
 *
 *     load shift     ½ Σ_j |p_j - q_j|, p and q the shares of the load: total variation, in [0, 1]
 *     sets changed   share of tokens whose set of k experts is another
 *     slots changed  mean over tokens of 1 - |A ∩ B| / k
 *     router change  ‖W - W₀‖ / ‖W₀‖ (Frobenius)
 */
#ifndef MT_ANALYSIS_DRIFT_H
#define MT_ANALYSIS_DRIFT_H

#include <stdint.h>

struct mt_drift_figures {
    int64_t tokens; // compared
    double load_shift;
    double sets_changed, slots_changed; // NaN without tokens
    double router_change;               // NaN: not known
};

/* ½ Σ |p - q| of two loads [n]; NaN when one of them is empty. */
double mt_drift_load(const double *load, const double *base, int experts);

/* Compares the experts [tokens,k] of the same tokens, in any order within a token. */
void mt_drift_choices(const uint16_t *choices, const uint16_t *base, int64_t tokens, int slots,
                      struct mt_drift_figures *figures);

/* ‖w - base‖ / ‖base‖ of `count` numbers; NaN when the base is zero. */
double mt_drift_weights(const float *weights, const float *base, int64_t count);

#endif
