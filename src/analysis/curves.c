/* Root mean square of the distance between two curves. */
#include "analysis/curves.h"

#include <math.h>

/* b at x, which lies within its range; *place is the last point at or before x, and only rises. */
static double read_between(const struct mt_curve *b, double x, size_t *place)
{
    while (*place + 1 < b->count && b->x[*place + 1] <= x) (*place)++;
    size_t i = *place;
    if (i + 1 == b->count || b->x[i] == x) return b->y[i];
    double part = (x - b->x[i]) / (b->x[i + 1] - b->x[i]);
    return b->y[i] + part * (b->y[i + 1] - b->y[i]);
}

double mt_curves_rmse(const struct mt_curve *a, const struct mt_curve *b, size_t *points)
{
    double squares = 0.0;
    size_t counted = 0;
    size_t place = 0;
    for (size_t i = 0; b->count > 0 && i < a->count; i++) {
        if (!(a->x[i] >= b->x[0]) || a->x[i] > b->x[b->count - 1]) continue;
        double difference = a->y[i] - read_between(b, a->x[i], &place);
        if (isnan(difference)) continue;
        squares += difference * difference;
        counted++;
    }
    if (points != NULL) *points = counted;
    return counted > 0 ? sqrt(squares / (double)counted) : NAN;
}
