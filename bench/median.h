/* The median of what rounds measured. */
#ifndef MT_BENCH_MEDIAN_H
#define MT_BENCH_MEDIAN_H

#include <stdlib.h>

static inline int bench_compare(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Sorts the values, of which there is one at least; of an even number, the mean of the two in the middle. */
static inline double bench_median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, bench_compare);
    return 0.5 * (values[(count - 1) / 2] + values[count / 2]);
}

#endif
