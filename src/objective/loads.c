/* Figures of a load. */
#include "objective/loads.h"

#include <math.h>
#include <stddef.h>

void mt_load_judge(const double *load, int experts, struct mt_load_figures *figures)
{
    *figures = (struct mt_load_figures){0};
    double total = 0.0;
    for (int j = 0; j < experts; j++) total += load[j];
    if (!(total > 0.0)) return;
    double mean = total / experts;
    for (int j = 0; j < experts; j++) {
        double excess = load[j] / mean - 1.0;
        double share = load[j] / total;
        if (j == 0 || excess + 1.0 < figures->min) figures->min = excess + 1.0;
        if (excess > figures->max_violation) figures->max_violation = excess;
        if (fabs(excess) > figures->max_violation_code) figures->max_violation_code = fabs(excess);
        if (share > 0.0) figures->entropy -= share * log(share);
    }
}

int mt_load_serving(const double *load, int experts, double share, bool *member)
{
    double total = 0.0;
    double served = 0.0;
    int last = -1; // the one that was taken last
    int count = 0;
    for (int j = 0; j < experts; j++) {
        total += load[j];
        if (member != NULL) member[j] = false;
    }
    double wanted = share * total * (1.0 - 1e-12); // counts that are just enough are enough, however rounded
    // Without sorting, which would need memory: a pass for each that is taken.
    while (served < wanted && count < experts) {
        int best = -1;
        for (int j = 0; j < experts; j++) {
            bool taken = last >= 0 && (load[j] > load[last] || (j <= last && load[j] == load[last]));
            if (!taken && (best < 0 || load[j] > load[best])) best = j;
        }
        served += load[best];
        if (member != NULL) member[best] = true;
        last = best;
        count++;
    }
    return count;
}

/* As written, without sorting: n is a few hundred at the most. */
double mt_load_gini(const double *load, int experts)
{
    double differences = 0.0; // each unordered pair once
    double total = 0.0;
    for (int i = 0; i < experts; i++) {
        total += load[i];
        for (int j = 0; j < i; j++) differences += fabs(load[i] - load[j]);
    }
    return total > 0.0 ? differences / (experts * total) : 0.0;
}

/* |A ∩ B| / |A ∪ B| of two sets that are not both empty. */
static double jaccard_of(const bool *one, const bool *other, int experts)
{
    double both = 0.0;
    double either = 0.0;
    for (int j = 0; j < experts; j++) {
        both += one[j] && other[j] ? 1.0 : 0.0;
        either += one[j] || other[j] ? 1.0 : 0.0;
    }
    return both / either;
}

struct mt_serving mt_serving(const double *load, int domains, int experts, bool *member)
{
    struct mt_serving serving = {NAN, NAN};
    size_t n = (size_t)experts;
    size_t used = 0; // domains with any load, whose sets come first
    size_t pairs = 0;
    double sum = 0.0;
    int together = 0;
    for (size_t d = 0; d < (size_t)domains; d++) {
        if (mt_load_serving(load + d * n, experts, MT_SERVING_SHARE, member + used * n) > 0) used++;
    }
    for (size_t d = 1; d < used; d++) {
        for (size_t e = 0; e < d; e++) sum += jaccard_of(member + d * n, member + e * n, experts);
        pairs += d;
    }
    for (size_t j = 0; j < n; j++) {
        bool any = false;
        for (size_t d = 0; d < used; d++) any = any || member[d * n + j];
        together += any ? 1 : 0;
    }
    if (pairs > 0) serving.jaccard = sum / (double)pairs;
    if (used > 0) serving.together = (double)together / experts;
    return serving;
}
