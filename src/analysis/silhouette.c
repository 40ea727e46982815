/* Silhouette. A label's points lie side by side, so each mean distance is a sum over a stretch. */
#include "analysis/silhouette.h"

#include <math.h>

#define LANES 8

static double distance_sum(const double *value, int64_t count, bool squared)
{
    double sum[LANES] = {0};
    double total = 0.0;
    int64_t whole = count - count % LANES;
    for (int64_t i = 0; i < whole; i += LANES) {
        for (int64_t l = 0; l < LANES; l++) sum[l] += squared ? sqrt(value[i + l]) : value[i + l];
    }
    for (int64_t i = whole; i < count; i++) total += squared ? sqrt(value[i]) : value[i];
    for (int l = 0; l < LANES; l++) total += sum[l];
    return total;
}

double mt_silhouette_point(const struct mt_distances *distances, int64_t asked, const double *value)
{
    bool squared = distances->distance == MT_DISTANCE_EUCLIDEAN;
    int64_t own_label = distances->label_of[asked];
    double own = 0.0;
    double other = INFINITY;
    for (int64_t label = 0; label < distances->label_count; label++) {
        int64_t start = distances->label_start[label];
        int64_t count = distances->label_start[label + 1] - start;
        if (label == own_label && count == 1) return 0.0;
        double sum = distance_sum(value + start, count, squared);
        if (label == own_label)
            own = sum / (double)(count - 1); // its distance to itself is 0
        else
            other = fmin(other, sum / (double)count);
    }
    double larger = fmax(own, other);
    return larger > 0.0 ? (other - own) / larger : 0.0;
}
