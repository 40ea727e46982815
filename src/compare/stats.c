/* Means, Student's t, Holm. */
#include "compare/stats.h"

#include <math.h>
#include <stdbool.h>

#define MOST_TERMS 500
#define TINY       1e-300
#define CLOSE      1e-16

struct mt_moments mt_moments(const double *values, size_t count)
{
    struct mt_moments moments = {.mean = (double)NAN, .deviation = (double)NAN};
    double sum = 0.0;
    double squares = 0.0;
    for (size_t i = 0; i < count; i++) {
        if (isnan(values[i])) continue;
        moments.count++;
        sum += values[i];
    }
    if (moments.count == 0) return moments;
    moments.mean = sum / (double)moments.count;
    for (size_t i = 0; i < count; i++) {
        if (!isnan(values[i])) squares += (values[i] - moments.mean) * (values[i] - moments.mean);
    }
    if (moments.count > 1) moments.deviation = sqrt(squares / (double)(moments.count - 1));
    return moments;
}

/* The continued fraction of the incomplete beta function by Lentz's way; quick for x < (a + 1) / (a + b + 2).
 */
static double beta_fraction(double a, double b, double x)
{
    double c = 1.0;
    double d = 1.0 - (a + b) * x / (a + 1.0);
    d = 1.0 / (fabs(d) < TINY ? TINY : d);
    double value = d;
    for (int m = 1; m <= MOST_TERMS; m++) {
        double even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        double odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        const double terms[] = {even, odd};
        double change = 1.0;
        for (int i = 0; i < 2; i++) {
            d = 1.0 + terms[i] * d;
            c = 1.0 + terms[i] / c;
            d = 1.0 / (fabs(d) < TINY ? TINY : d);
            if (fabs(c) < TINY) c = TINY;
            change = d * c;
            value *= change;
        }
        if (fabs(change - 1.0) < CLOSE) break;
    }
    return value;
}

double mt_incomplete_beta(double a, double b, double x)
{
    if (isnan(x)) return x;
    if (x <= 0.0) return 0.0;
    if (x >= 1.0) return 1.0;
    double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
    if (x < (a + 1.0) / (a + b + 2.0)) return front * beta_fraction(a, b, x) / a;
    return 1.0 - front * beta_fraction(b, a, 1.0 - x) / b;
}

double mt_student_two_sided(double t, double freedom)
{
    if (isinf(t)) return 0.0;
    return mt_incomplete_beta(freedom / 2.0, 0.5, freedom / (freedom + t * t));
}

double mt_half_width(const struct mt_moments *moments)
{
    double freedom = (double)moments->count - 1.0;
    double low = 0.0;
    double high = 16.0; // t of one degree of freedom is 12.7
    if (moments->count < 2) return (double)NAN;
    for (int i = 0; i < 60; i++) {
        double middle = 0.5 * (low + high);
        if (mt_student_two_sided(middle, freedom) > 0.05)
            low = middle;
        else
            high = middle;
    }
    return high * moments->deviation / sqrt((double)moments->count);
}

struct mt_paired mt_paired(const double *values, const double *reference, size_t count)
{
    struct mt_paired paired = {.mean = (double)NAN, .error = (double)NAN, .t = (double)NAN, .p = (double)NAN};
    double sum = 0.0;
    double squares = 0.0;
    for (size_t i = 0; i < count; i++) {
        if (isnan(values[i] - reference[i])) continue;
        paired.count++;
        sum += values[i] - reference[i];
    }
    if (paired.count == 0) return paired;
    double n = (double)paired.count;
    paired.mean = sum / n;
    for (size_t i = 0; i < count; i++) {
        double away = values[i] - reference[i] - paired.mean;
        if (!isnan(away)) squares += away * away;
    }
    if (paired.count < 2) return paired;
    paired.error = sqrt(squares / (n - 1.0) / n);
    paired.t = paired.mean / paired.error; // of nothing but zeros: NaN
    if (paired.count >= MT_LEAST_PAIRS && !isnan(paired.t))
        paired.p = mt_student_two_sided(paired.t, n - 1.0);
    return paired;
}

/* True when p[a] comes before p[b]; the place decides between equals. */
static bool is_before(const double *p, size_t a, size_t b)
{
    return p[a] < p[b] || (a < b && p[a] == p[b]);
}

void mt_holm(const double *p, size_t count, double *adjusted)
{
    size_t tests = 0;
    for (size_t i = 0; i < count; i++) tests += isnan(p[i]) ? 0 : 1;
    for (size_t i = 0; i < count; i++) {
        double largest = p[i];
        for (size_t j = 0; j < count && !isnan(p[i]); j++) {
            if (j != i && !is_before(p, j, i)) continue;
            size_t smaller = 0;
            for (size_t k = 0; k < count; k++) smaller += is_before(p, k, j) ? 1 : 0;
            largest = fmax(largest, (double)(tests - smaller) * p[j]);
        }
        adjusted[i] = isnan(p[i]) ? p[i] : fmin(largest, 1.0);
    }
}
