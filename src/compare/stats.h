/* Means, paired differences, and what they are worth. */
#ifndef MT_COMPARE_STATS_H
#define MT_COMPARE_STATS_H

#include <stddef.h>

/* Of the numbers that are not NaN. */
struct mt_moments {
    size_t count;
    double mean;      // NaN without any
    double deviation; // sqrt(Σ(x - mean)² / (n - 1)); NaN of fewer than two
};
struct mt_moments mt_moments(const double *values, size_t count);

/* I_x(a, b), the regularised incomplete beta function: a, b > 0, 0 <= x <= 1. */
double mt_incomplete_beta(double a, double b, double x);

/* P(|T| >= |t|) of Student's distribution with so many degrees of freedom (> 0). */
double mt_student_two_sided(double t, double freedom);

/* Half of the 95 % interval of a mean, by Student's distribution: t deviation / sqrt(n). NaN of fewer than
 * two. */
double mt_half_width(const struct mt_moments *moments);

#define MT_COMPARE_SIGNIFICANT 0.05 // p below which a difference is called more than chance

#define MT_LEAST_PAIRS         3 // below that nothing is claimed

/* Differences value - reference of the same problem; pairs with a NaN do not count. */
struct mt_paired {
    size_t count;
    double mean;  // NaN without any
    double error; // standard error: deviation / sqrt(n)
    double t;     // mean / error
    double p;     // two-sided, n - 1 degrees of freedom; NaN below MT_LEAST_PAIRS, and where all are 0
};
struct mt_paired mt_paired(const double *values, const double *reference, size_t count);

/*
 * Holm's correction: the i-th smallest of m becomes the largest of (m - j + 1) p_j over j <= i, at most 1.
 * NaN stays, and is not one of the m.
 */
void mt_holm(const double *p, size_t count, double *adjusted);

#endif
