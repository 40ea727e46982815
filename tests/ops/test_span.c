/*
 * ops/span.h against Gram-Schmidt on the rows themselves, written out as it is described; the first rows of
 * a router against the others; the gradient against finite differences along symmetric changes of gram.
 */
// cmocka.h needs these before it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "base/rng.h"
#include "ops/span.h"

#define WIDTH 90 // of a row

static double *new_doubles(int count)
{
    double *doubles = calloc((size_t)count, sizeof *doubles);
    assert_non_null(doubles);
    return doubles;
}

static void assert_near(double got, double expected, double tolerance)
{
    if (!(fabs(got - expected) <= tolerance * fabs(expected))) {
        fail_msg("%.17g, expected %.17g", got, expected);
    }
}

/* n rows that lean towards a common one, [n, WIDTH]. */
static double *random_rows(int n)
{
    double *rows = new_doubles(n * WIDTH);
    for (int e = 0; e < n * WIDTH; e++) {
        rows[e] =
            (double)mt_rng_normal(6, 1, (uint64_t)e) + (double)mt_rng_normal(6, 2, (uint64_t)(e % WIDTH));
    }
    return rows;
}

static double dot(const double *a, const double *b)
{
    double sum = 0.0;
    for (int j = 0; j < WIDTH; j++) sum += a[j] * b[j];
    return sum;
}

static double *gram_of(const double *rows, int n)
{
    double *gram = new_doubles(n * n);
    for (int a = 0; a < n; a++) {
        for (int b = 0; b < n; b++) gram[a * n + b] = dot(rows + a * WIDTH, rows + b * WIDTH);
    }
    return gram;
}

/* |projection of row a on the others|², by modified Gram-Schmidt on vectors. */
static double projection(const double *rows, int n, int a, double epsilon)
{
    double *basis = new_doubles(n * WIDTH);
    int found = 0;
    double sum = 0.0;
    for (int row = 0; row < n; row++) {
        if (row == a) continue;
        double *v = basis + found * WIDTH;
        for (int j = 0; j < WIDTH; j++) v[j] = rows[row * WIDTH + j];
        for (int r = 0; r < found; r++) {
            double along = dot(basis + r * WIDTH, v);
            for (int j = 0; j < WIDTH; j++) v[j] -= along * basis[r * WIDTH + j];
        }
        double length = sqrt(dot(v, v));
        for (int j = 0; j < WIDTH; j++) v[j] /= length + epsilon;
        double along = dot(v, rows + a * WIDTH);
        sum += along * along * dot(v, v);
        found++;
    }
    free(basis);
    return sum;
}

static void check_value(int n, int rows_used, double epsilon)
{
    double *rows = random_rows(n);
    double *gram = gram_of(rows, n);
    double *workspace = new_doubles(MT_ORTHO_SPAN_VALUE_WORKSPACE(n));
    double expected = 0.0;
    for (int a = 0; a < rows_used; a++) expected += projection(rows, n, a, epsilon) / rows_used;
    assert_near(mt_ortho_span_value(gram, n, rows_used, epsilon, DBL_EPSILON, workspace), expected, 1e-10);
    free(workspace);
    free(gram);
    free(rows);
}

static void test_value(void **state)
{
    (void)state;
    static const double epsilons[] = {0.0, 1e-6, 0.1, 30.0};
    for (int i = 0; i < 4; i++) {
        for (int n = 2; n <= 9; n++) check_value(n, n, epsilons[i]);
        check_value(64, 64, epsilons[i]);
    }
}

/* The rule for the scale: the first k rows of a router, each against all others. */
static void test_first_rows(void **state)
{
    (void)state;
    check_value(64, 6, 1e-6);
    check_value(80, 1, 1e-6);
    check_value(80, 8, 1e-2);
}

static void test_zero_rows(void **state)
{
    (void)state;
    double *rows = random_rows(6);
    double *fewer = new_doubles(4 * WIDTH);
    static const int kept[] = {1, 2, 4, 5};
    for (int j = 0; j < WIDTH; j++) {
        rows[0 * WIDTH + j] = 0.0;
        rows[3 * WIDTH + j] = 0.0;
        for (int row = 0; row < 4; row++) fewer[row * WIDTH + j] = rows[kept[row] * WIDTH + j];
    }
    double *gram = gram_of(rows, 6);
    double *fewer_gram = gram_of(fewer, 4);
    double workspace[MT_ORTHO_SPAN_GRADIENT_WORKSPACE(6)];
    double gradient[36];
    double fewer_gradient[16];
    for (int i = 0; i < 2; i++) {
        double epsilon = i == 0 ? 0.0 : 1e-6;
        double value = mt_ortho_span_value(gram, 6, 6, epsilon, DBL_EPSILON, workspace);
        assert_near(6 * value, 4 * mt_ortho_span_value(fewer_gram, 4, 4, epsilon, DBL_EPSILON, workspace),
                    1e-14);
        mt_ortho_span_gradient(gram, 6, epsilon, DBL_EPSILON, gradient, workspace);
        mt_ortho_span_gradient(fewer_gram, 4, epsilon, DBL_EPSILON, fewer_gradient, workspace);
        for (int pair = 0; pair < 16; pair++) {
            int place = kept[pair / 4] * 6 + kept[pair % 4];
            assert_near(6 * gradient[place], 4 * fewer_gradient[pair], 1e-12);
            gradient[place] = 0.0;
        }
        for (int pair = 0; pair < 36; pair++) assert_true(gradient[pair] == 0.0);
    }
    free(fewer_gram);
    free(gram);
    free(fewer);
    free(rows);
}

/*
 * A row twice, but with products rounded to float, one up and one down: what is left of the second is noise,
 * and must not become a direction.
 */
static void test_rounded_twin(void **state)
{
    (void)state;
    double *rows = random_rows(3);
    double *gram = gram_of(rows, 3);
    double workspace[MT_ORTHO_SPAN_GRADIENT_WORKSPACE(3)];
    double gradient[9];
    for (int b = 0; b < 3; b++) {
        gram[1 * 3 + b] = gram[0 * 3 + b] * (1.0 + 1e-8 * (b + 1));
        gram[b * 3 + 1] = gram[1 * 3 + b];
    }
    gram[4] = gram[0] * (1.0 + 1.5e-8);
    double q = gram[2] * gram[2] / gram[0];
    double expected = (gram[0] + gram[4] + q) / 3.0; // the twins wholly in each other's span
    assert_near(mt_ortho_span_value(gram, 3, 3, 0.0, (double)FLT_EPSILON, workspace), expected, 1e-6);
    mt_ortho_span_gradient(gram, 3, 0.0, (double)FLT_EPSILON, gradient, workspace);
    for (int pair = 0; pair < 9; pair++) assert_true(fabs(gradient[pair]) < 2.0);
    free(gram);
    free(rows);
}

static void check_gradient(int n, double epsilon)
{
    double *rows = random_rows(n);
    double *gram = gram_of(rows, n);
    double *workspace = new_doubles(MT_ORTHO_SPAN_GRADIENT_WORKSPACE(n));
    double *gradient = new_doubles(n * n);
    mt_ortho_span_gradient(gram, n, epsilon, DBL_EPSILON, gradient, workspace);
    for (int a = 0; a < n; a++) {
        for (int b = 0; b <= a; b++) {
            double analytic = gradient[a * n + b] + (a == b ? 0.0 : gradient[b * n + a]);
            double before = gram[a * n + b];
            double values[2];
            for (int side = 0; side < 2; side++) {
                double changed = before + (side == 0 ? 1e-3 : -1e-3);
                gram[a * n + b] = changed;
                gram[b * n + a] = changed;
                values[side] = mt_ortho_span_value(gram, n, n, epsilon, DBL_EPSILON, workspace);
            }
            gram[a * n + b] = before;
            gram[b * n + a] = before;
            double slope = (values[0] - values[1]) / 2e-3;
            if (fabs(slope - analytic) > 1e-7)
                fail_msg("%d,%d: %.12g, expected %.12g", a, b, analytic, slope);
        }
    }
    free(gradient);
    free(workspace);
    free(gram);
    free(rows);
}

static void test_gradient(void **state)
{
    (void)state;
    static const double epsilons[] = {0.0, 1e-6, 3.0};
    for (int i = 0; i < 3; i++) {
        for (int n = 1; n <= 9; n++) check_gradient(n, epsilons[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_value), cmocka_unit_test(test_first_rows),
                                       cmocka_unit_test(test_zero_rows), cmocka_unit_test(test_rounded_twin),
                                       cmocka_unit_test(test_gradient)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
