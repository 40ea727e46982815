/* How far two curves lie apart. */
#ifndef MT_ANALYSIS_CURVES_H
#define MT_ANALYSIS_CURVES_H

#include <stddef.h>

/* Points with rising x; both arrays are borrowed. */
struct mt_curve {
    size_t count;
    const double *x;
    const double *y;
};

/*
 * sqrt(mean (a - b)²) over the points of `a` that lie within b's range, where b is read between its points in
 * straight lines; equal x: the plain formula. Points that are NaN in `a`, or where b is, do not count. NaN
 * when no point is left; *points (NULL: not wanted) is how many were.
 */
double mt_curves_rmse(const struct mt_curve *a, const struct mt_curve *b, size_t *points);

#endif
