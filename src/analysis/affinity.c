/* Expert-domain affinity. */
#include "analysis/affinity.h"

#include <math.h>
#include <stddef.h>

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
