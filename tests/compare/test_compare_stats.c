/* Statistics against numbers worked out by hand and published tables. Tests src/compare/stats.c. */
#include "compare/stats.h"

#include <math.h>

#include "support/cmocka_all.h"

static void close_to(double value, double expected, double tolerance)
{
    if (!(fabs(value - expected) <= tolerance)) fail_msg("%.17g, expected %.17g", value, expected);
}

static void moments_leave_out_what_is_not_known(void **state)
{
    (void)state;
    const double values[] = {1.0, (double)NAN, 2.0, 6.0};
    struct mt_moments moments = mt_moments(values, 4);
    assert_int_equal(moments.count, 3);
    close_to(moments.mean, 3.0, 0.0);
    close_to(moments.deviation, sqrt(7.0), 1e-15); // (4 + 1 + 9) / 2
    moments = mt_moments(values, 1);
    close_to(moments.mean, 1.0, 0.0);
    assert_true(isnan(moments.deviation));
    assert_true(isnan(mt_moments(values + 1, 1).mean));
    assert_true(isnan(mt_moments(values, 0).mean));
}

/* I_x(1, b) = 1 - (1 - x)^b, I_x(a, 1) = x^a, and I_x(a, b) = 1 - I_(1-x)(b, a). */
static void the_incomplete_beta_function_is_right(void **state)
{
    (void)state;
    for (int i = 0; i <= 20; i++) {
        double x = i / 20.0;
        close_to(mt_incomplete_beta(1.0, 3.5, x), 1.0 - pow(1.0 - x, 3.5), 1e-14);
        close_to(mt_incomplete_beta(2.5, 1.0, x), pow(x, 2.5), 1e-14);
        close_to(mt_incomplete_beta(0.5, 7.0, x) + mt_incomplete_beta(7.0, 0.5, 1.0 - x), 1.0, 1e-14);
    }
    // The arcsine law.
    close_to(mt_incomplete_beta(0.5, 0.5, 0.25), 1.0 / 3.0, 1e-14);
    assert_true(isnan(mt_incomplete_beta(1.0, 1.0, (double)NAN)));
}

/* Tables of Student's distribution: the 97.5 % points. One degree is Cauchy's. */
static void student_agrees_with_tables(void **state)
{
    (void)state;
    close_to(mt_student_two_sided(12.706204736174694, 1.0), 0.05, 1e-11);
    close_to(mt_student_two_sided(4.302652729911275, 2.0), 0.05, 1e-11);
    close_to(mt_student_two_sided(2.570581835636314, 5.0), 0.05, 1e-11);
    close_to(mt_student_two_sided(-1.983971518523552, 100.0), 0.05, 1e-11);
    close_to(mt_student_two_sided(1.0, 1.0), 0.5, 1e-14);
    close_to(mt_student_two_sided(0.0, 7.0), 1.0, 0.0);
    close_to(mt_student_two_sided(HUGE_VAL, 7.0), 0.0, 0.0);
}

static void pairs_are_compared(void **state)
{
    (void)state;
    const double values[] = {3.0, 5.0, 4.0, (double)NAN};
    const double reference[] = {1.0, 1.0, 1.0, 1.0};
    struct mt_paired paired = mt_paired(values, reference, 4); // differences 2, 4, 3
    assert_int_equal(paired.count, 3);
    close_to(paired.mean, 3.0, 0.0);
    close_to(paired.error, 1.0 / sqrt(3.0), 1e-15);
    close_to(paired.t, 3.0 * sqrt(3.0), 1e-14);
    // Two degrees have a closed form: 1 - t / sqrt(2 + t²).
    close_to(paired.p, 1.0 - sqrt(27.0 / 29.0), 1e-14);
}

static void little_is_not_claimed(void **state)
{
    (void)state;
    const double values[] = {3.0, 5.0, 4.0};
    const double reference[] = {1.0, 1.0, 1.0};
    struct mt_paired two = mt_paired(values, reference, 2);
    close_to(two.mean, 3.0, 0.0);
    assert_true(isnan(two.p));
    struct mt_paired one = mt_paired(values, reference, 1);
    assert_true(isnan(one.error));
    struct mt_paired same = mt_paired(values, values, 3); // the same method twice
    close_to(same.mean, 0.0, 0.0);
    assert_true(isnan(same.p));
}

static void holm_corrects(void **state)
{
    (void)state;
    const double p[] = {0.01, 0.04, (double)NAN, 0.03, 0.005};
    double adjusted[5];
    mt_holm(p, 5, adjusted); // four tests: 4·0.005, 3·0.01, 2·0.03, then not below the one before
    close_to(adjusted[4], 0.02, 1e-15);
    close_to(adjusted[0], 0.03, 1e-15);
    close_to(adjusted[3], 0.06, 1e-15);
    close_to(adjusted[1], 0.06, 1e-15);
    assert_true(isnan(adjusted[2]));
    const double large[] = {0.6, 0.6};
    mt_holm(large, 2, adjusted);
    close_to(adjusted[0], 1.0, 0.0);
    close_to(adjusted[1], 1.0, 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moments_leave_out_what_is_not_known),
        cmocka_unit_test(the_incomplete_beta_function_is_right),
        cmocka_unit_test(student_agrees_with_tables),
        cmocka_unit_test(pairs_are_compared),
        cmocka_unit_test(little_is_not_claimed),
        cmocka_unit_test(holm_corrects),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
