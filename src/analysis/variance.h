/*
 * Routing variance, the three things called so. Sums over tokens come first, the figures at the end; what was
 * added in several parts is what one part would have given.
 *
 *     token     1/N Σ_i 1/(n-1) Σ_j (P_ij - mean_j P_ij)²; the authors' code: how decided a token is
 *     expert    1/n Σ_j 1/N Σ_i (s_ij - mean_i s_ij)²; the paper's L_v: how an expert tells tokens apart
 *     appendix  1/n Σ_j (mean_i P_ij/Σ_m P_im - 1/n)²; the paper's appendix: imbalance, 0 at balance
 *
 * and how concentrated a token's routing is:
 *
 *     effective_experts  1 / (1/N Σ_i Σ_j w_ij²), w_ij = s_ij / Σ_m s_im: between 1 and k
 *     effective_scores   1 / (1/N Σ_i Σ_j p_ij²), p_ij = P_ij / Σ_m P_im: between 1 and n
 *
 * P: scores of all experts before top-k; s: weights after it, 0 where an expert was not chosen or dropped.
 */
#ifndef MT_ANALYSIS_VARIANCE_H
#define MT_ANALYSIS_VARIANCE_H

#include <stddef.h>
#include <stdint.h>

#include "base/any_order.h"

/* All sums, over tokens, whose order does not matter. The arrays are the caller's, zeroed at the start. */
struct mt_variance_sums {
    int64_t tokens;
    struct mt_any_order row_variance;   // of a token's scores, divisor n-1
    struct mt_any_order weight_shares;  // Σ_j w_ij²
    struct mt_any_order score_shares;   // Σ_j p_ij²
    struct mt_any_order *score;         // [n]: P_ij
    struct mt_any_order *share;         // [n]: P_ij / Σ_m P_im
    struct mt_any_order *weight;        // [n]: s_ij
    struct mt_any_order *weight_square; // [n]: s_ij²
};

/* Adds one token: its scores[n], and the experts and weights [k] of its slots (expert -1: dropped). */
void mt_variance_add(struct mt_variance_sums *sums, int experts, const float *scores, int slots,
                     const int32_t *expert, const float *weight);

/* sums += other. */
void mt_variance_merge(struct mt_variance_sums *sums, int experts, const struct mt_variance_sums *other);

struct mt_variance_figures {
    double token, expert, appendix;             // NaN without tokens
    double effective_experts, effective_scores; // likewise
};
struct mt_variance_figures mt_variance_finish(const struct mt_variance_sums *sums, int experts);

#endif
