/*
 * Which expert serves which domain, from the loads of every domain.
 *
 *     share        A_dj = load_dj / Σ_m load_dm: of domain d's slots, what expert j serves; rows sum to 1
 *     preference   B_dj = A_dj / Σ_e A_ej: of expert j, all domains weighing the same; columns sum to 1
 *     information  I = Σ_dj A_dj/D · ln(A_dj / mean_e A_ej), in nats: what knowing the expert tells about the
 *                  domain; 0 where all domains use the experts alike, at most ln D
 *
 * And how far domains differ in whom they employ: S_d are the fewest experts that serve 90 % of domain d's
 * slots,
 *
 *     jaccard      mean over pairs of domains of |S_d ∩ S_e| / |S_d ∪ S_e|; 1: all have the same experts
 *     together     |∪_d S_d| / n
 */
#ifndef MT_ANALYSIS_AFFINITY_H
#define MT_ANALYSIS_AFFINITY_H

#include <stdbool.h>

/*
 * load[domains][experts] in; share and preference of the same shape out. Returns the information. A domain
 * without load, and an expert nobody uses, have zeros; such a domain does not count.
 */
double mt_affinity(const double *load, int domains, int experts, double *share, double *preference);

struct mt_serving {
    double jaccard;  // NaN with fewer than two domains that have load
    double together; // NaN without any
};

/* load[domains][experts]; member[domains][experts] to work with: S_d. A domain without load does not count.
 */
struct mt_serving mt_serving(const double *load, int domains, int experts, bool *member);

#endif
