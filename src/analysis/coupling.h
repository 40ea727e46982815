/*
 * How routers and experts fit each other, from weights alone. R_i is the router's row of expert i, W_j expert
 * j's gate matrix, M_ij = ‖R_i W_j‖ what expert j makes of that row ("Coupling Experts and Routers in
 * Mixture-of-Experts via an Auxiliary Loss", ERC).
 *
 *     row cos      mean over i < j of cos(R_i, R_j); |cos| likewise. A row without length has 0
 *     diagonal     share of i whose M_ii is the largest of row i and of column i
 *     dominance    mean M_ii / mean over i ≠ j of M_ij: 1 where an expert answers its own row as any other
 */
#ifndef MT_ANALYSIS_COUPLING_H
#define MT_ANALYSIS_COUPLING_H

struct mt_coupling_figures {
    double row_cos, row_abs_cos; // NaN of one expert
    double diagonal, dominance;  // NaN: not known; dominance also of one expert
};

/* gram[n,n] = R Rᵀ. */
void mt_coupling_rows(const float *gram, int experts, struct mt_coupling_figures *figures);

/* norms[n,n]: M, expert by expert: norms[j,i] = M_ij. */
void mt_coupling_norms(const double *norms, int experts, struct mt_coupling_figures *figures);

#endif
