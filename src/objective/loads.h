/* How evenly experts are used, from how many slots each served. */
#ifndef MT_OBJECTIVE_LOADS_H
#define MT_OBJECTIVE_LOADS_H

#include <stdbool.h>

#define MT_SERVING_SHARE 0.9 // of the slots: whoever serves it has the work

struct mt_load_figures {
    double max_violation; // (largest - mean) / mean: 0 at balance, at most n/k - 1 when nothing is dropped
    double max_violation_code; // largest |load - mean| / mean: the authors' code
    double min;                // smallest / mean
    double entropy;            // of the shares, in nats: ln n at balance, 0 when one expert has everything
};

/* load[n], none negative. All figures are 0 without any load. */
void mt_load_judge(const double *load, int experts, struct mt_load_figures *figures);

/* Σ_ij |load_i - load_j| / (2 n Σ_j load_j): 0 at balance or without any load, at most 1 - 1/n. */
double mt_load_gini(const double *load, int experts);

/*
 * How many experts it takes to serve `share` of the load: the fewest, the most used first, of equal ones the
 * first. member[n] marks them; NULL: nobody asks. 0 without any load.
 */
int mt_load_serving(const double *load, int experts, double share, bool *member);

/*
 * How far domains differ in whom they employ: S_d are the fewest experts that serve 90 % of domain d's slots,
 *
 *     jaccard      mean over pairs of domains of |S_d ∩ S_e| / |S_d ∪ S_e|; 1: all have the same experts
 *     together     |∪_d S_d| / n
 */
struct mt_serving {
    double jaccard;  // NaN with fewer than two domains that have load
    double together; // NaN without any
};

/* load[domains][experts]; member[domains][experts] to work with: S_d. A domain without load does not count.
 */
struct mt_serving mt_serving(const double *load, int domains, int experts, bool *member);

#endif
