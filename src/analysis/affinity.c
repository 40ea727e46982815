/* Expert-domain affinity. */
#include "analysis/affinity.h"

#include <math.h>
#include <stddef.h>

#include "objective/loads.h"

/* Shares of one domain; false when it has no load. */
static int fill_shares(const double *load, int experts, double *share)
{
    double total = 0.0;
    for (int j = 0; j < experts; j++) total += load[j];
    for (int j = 0; j < experts; j++) share[j] = total > 0.0 ? load[j] / total : 0.0;
    return total > 0.0 ? 1 : 0;
}

double mt_affinity(const double *load, int domains, int experts, double *share, double *preference)
{
    size_t n = (size_t)experts;
    int used = 0; // domains with any load
    double information = 0.0;
    for (size_t d = 0; d < (size_t)domains; d++) used += fill_shares(load + d * n, experts, share + d * n);
    for (size_t j = 0; j < n; j++) {
        double sum = 0.0; // of the expert's shares
        for (size_t d = 0; d < (size_t)domains; d++) sum += share[d * n + j];
        for (size_t d = 0; d < (size_t)domains; d++) {
            double part = share[d * n + j];
            preference[d * n + j] = sum > 0.0 ? part / sum : 0.0;
            if (part > 0.0) information += part / used * log(part * used / sum);
        }
    }
    return information > 0.0 ? information : 0.0; // rounding may leave a zero below zero
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
    double pairs = 0.0;
    double sum = 0.0;
    int together = 0;
    for (size_t d = 0; d < (size_t)domains; d++) {
        if (mt_load_serving(load + d * n, experts, MT_SERVING_SHARE, member + used * n) > 0) used++;
    }
    for (size_t d = 1; d < used; d++) {
        for (size_t e = 0; e < d; e++, pairs++) sum += jaccard_of(member + d * n, member + e * n, experts);
    }
    for (size_t j = 0; j < n; j++) {
        bool any = false;
        for (size_t d = 0; d < used; d++) any = any || member[d * n + j];
        together += any ? 1 : 0;
    }
    if (pairs > 0.0) serving.jaccard = sum / pairs;
    if (used > 0) serving.together = (double)together / experts;
    return serving;
}
