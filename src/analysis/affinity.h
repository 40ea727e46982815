/*
 * Which expert serves which domain, from the loads of every domain.
 *
 *     share        A_dj = load_dj / Σ_m load_dm: of domain d's slots, what expert j serves; rows sum to 1
 *     preference   B_dj = A_dj / Σ_e A_ej: of expert j, all domains weighing the same; columns sum to 1
 *     information  I = Σ_dj A_dj/D · ln(A_dj / mean_e A_ej), in nats: what knowing the expert tells about the
 *                  domain; 0 where all domains use the experts alike, at most ln D
 */
#ifndef MT_ANALYSIS_AFFINITY_H
#define MT_ANALYSIS_AFFINITY_H

/*
 * load[domains][experts] in; share and preference of the same shape out. Returns the information. A domain
 * without load, and an expert nobody uses, have zeros; such a domain does not count.
 */
double mt_affinity(const double *load, int domains, int experts, double *share, double *preference);

#endif
