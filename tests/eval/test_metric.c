/* Figures with values worked out by hand or known from the literature, and their intervals. */
#include <math.h>
#include <string.h>

#include "eval/answers/metric.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"

static struct mt_metric_result compute(enum mt_metric_kind kind, int64_t k, const struct mt_outcome *outcomes,
                                       size_t count)
{
    struct mt_context ctx;
    struct mt_metric_result result;
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_metric_compute(&ctx, kind, k, outcomes, count, &result), MT_OK);
    assert_int_equal(ctx.live_bytes, 0);
    return result;
}

static void near(double value, double expected, double tolerance)
{
    if (!(fabs(value - expected) <= tolerance)) print_message("%.9g, expected %.9g\n", value, expected);
    assert_true(fabs(value - expected) <= tolerance);
}

static void test_accuracy(void **state)
{
    (void)state;
    struct mt_outcome outcomes[10] = {0};
    for (int i = 0; i < 7; i++) outcomes[i].score = 1.0;
    outcomes[9].score = 0.5; // nearly right is not right
    struct mt_metric_result result = compute(MT_METRIC_ACCURACY, 1, outcomes, 10);
    near(result.value, 0.7, 1e-12);
    near(result.error, sqrt(0.7 * 0.3 / 9), 1e-12);
    near(result.low, 0.396774, 1e-5); // Wilson's interval for 7 of 10
    near(result.high, 0.892210, 1e-5);
    result = compute(MT_METRIC_MEAN, 1, outcomes, 10);
    near(result.value, 0.75, 1e-12);
    double squares = 0;
    for (int i = 0; i < 10; i++) squares += pow(outcomes[i].score - 0.75, 2);
    near(result.error, sqrt(squares / 9 / 10), 1e-12);
    for (int i = 0; i < 10; i++) outcomes[i].score = 1.0;
    result = compute(MT_METRIC_ACCURACY, 1, outcomes, 10);
    near(result.high, 1.0, 1e-12);
    near(result.low, 0.722467, 1e-5);
    assert_true(isnan(compute(MT_METRIC_ACCURACY, 1, outcomes, 0).value));
}

static void test_classes(void **state)
{
    (void)state;
    // tp 3, fp 1, fn 2, tn 4
    static const double said[] = {1, 1, 1, 1, 0, 0, 0, 0, 0, 0};
    static const double is[] = {1, 1, 1, 0, 1, 1, 0, 0, 0, 0};
    struct mt_outcome outcomes[10];
    for (int i = 0; i < 10; i++) outcomes[i] = (struct mt_outcome){.predicted = said[i], .gold = is[i]};
    struct mt_metric_result f1 = compute(MT_METRIC_F1, 1, outcomes, 10);
    near(f1.value, 6.0 / 9.0, 1e-12);
    assert_true(f1.low < f1.value && f1.value < f1.high && f1.error > 0);
    near(compute(MT_METRIC_MACRO_F1, 1, outcomes, 10).value, (6.0 / 9.0 + 8.0 / 11.0) / 2, 1e-12);
    near(compute(MT_METRIC_MATTHEWS, 1, outcomes, 10).value, (3.0 * 4 - 1 * 2) / sqrt(4.0 * 5 * 5 * 6),
         1e-12);
    for (int i = 0; i < 10; i++) outcomes[i].predicted = 1;
    near(compute(MT_METRIC_MATTHEWS, 1, outcomes, 10).value, 0.0, 0.0);
    for (int i = 0; i < 10; i++) outcomes[i].predicted = NAN; // silence is wrong every time
    near(compute(MT_METRIC_MATTHEWS, 1, outcomes, 10).value, -1.0, 1e-12);
    near(compute(MT_METRIC_F1, 1, outcomes, 10).value, 0.0, 0.0);
    // Half right, and silent where class 0 is right: as if class 1 had been said there.
    for (int i = 0; i < 10; i++) {
        outcomes[i].gold = i < 5 ? 1 : 0;
        outcomes[i].predicted = i < 5 ? 1 : (double)NAN;
    }
    near(compute(MT_METRIC_F1, 1, outcomes, 10).value, 10.0 / 15.0, 1e-12);
    near(compute(MT_METRIC_MACRO_F1, 1, outcomes, 10).value, 0.5, 1e-12);
}

static void test_correlation(void **state)
{
    (void)state;
    static const double x[] = {1, 2, 3, 4, 5};
    static const double y[] = {2, 1, 4, 3, 5};
    struct mt_outcome outcomes[5];
    for (int i = 0; i < 5; i++) outcomes[i] = (struct mt_outcome){.predicted = x[i], .gold = y[i]};
    near(compute(MT_METRIC_PEARSON, 1, outcomes, 5).value, 0.8, 1e-12);
    near(compute(MT_METRIC_SPEARMAN, 1, outcomes, 5).value, 0.8, 1e-12);
    for (int i = 0; i < 5; i++) outcomes[i].predicted = exp(3 * x[i]); // ranks do not mind
    near(compute(MT_METRIC_SPEARMAN, 1, outcomes, 5).value, 0.8, 1e-12);
    assert_true(compute(MT_METRIC_PEARSON, 1, outcomes, 5).value < 0.8);
    static const double ties[] = {1, 1, 2, 2, 3};
    for (int i = 0; i < 5; i++) outcomes[i] = (struct mt_outcome){.predicted = ties[i], .gold = x[i]};
    near(compute(MT_METRIC_SPEARMAN, 1, outcomes, 5).value, 0.948683298, 1e-8);
    for (int i = 0; i < 5; i++) outcomes[i].predicted = 1;
    assert_true(isnan(compute(MT_METRIC_PEARSON, 1, outcomes, 5).value));
}

static void test_pass(void **state)
{
    (void)state;
    near(mt_pass_at_k(10, 3, 1), 0.3, 1e-12);
    near(mt_pass_at_k(10, 3, 5), 1.0 - 21.0 / 252.0, 1e-12);
    near(mt_pass_at_k(5, 0, 2), 0.0, 0.0);
    near(mt_pass_at_k(5, 4, 2), 1.0, 0.0);
    assert_true(isnan(mt_pass_at_k(1, 1, 2)));
    const struct mt_outcome outcomes[2] = {{.tries = 10, .passed = 3}, {.tries = 10, .passed = 0}};
    near(compute(MT_METRIC_PASS, 1, outcomes, 2).value, 0.15, 1e-12);
    // One answer each: a share, with the interval of one. All right is not certainty.
    struct mt_outcome all[10];
    for (int i = 0; i < 10; i++) all[i] = (struct mt_outcome){.score = 1, .tries = 1, .passed = 1};
    struct mt_metric_result pass = compute(MT_METRIC_PASS, 1, all, 10);
    near(pass.low, 0.722467, 1e-5);
    near(pass.high, 1.0, 1e-12);
    near(compute(MT_METRIC_MEAN, 1, all, 10).low, 0.722467, 1e-5);
    for (int i = 7; i < 10; i++) all[i] = (struct mt_outcome){.tries = 1};
    pass = compute(MT_METRIC_PASS, 1, all, 10);
    near(pass.low, 0.396774, 1e-5);
    near(pass.high, 0.892210, 1e-5);
    near(pass.error, sqrt(0.7 * 0.3 / 9), 1e-12);
}

/* The same samples give the same interval, drawn as it is. */
static void test_repeatable(void **state)
{
    (void)state;
    struct mt_outcome outcomes[40];
    for (int i = 0; i < 40; i++) outcomes[i] = (struct mt_outcome){.predicted = i % 3 == 0, .gold = i % 2};
    struct mt_metric_result one = compute(MT_METRIC_F1, 1, outcomes, 40);
    struct mt_metric_result two = compute(MT_METRIC_F1, 1, outcomes, 40);
    assert_memory_equal(&one, &two, sizeof one);
}

static enum mt_status run(struct mt_context *ctx, const void *self)
{
    struct mt_metric_result result;
    return mt_metric_compute(ctx, MT_METRIC_SPEARMAN, 1, self, 5, &result);
}

static void test_memory(void **state)
{
    (void)state;
    struct mt_outcome outcomes[5];
    for (int i = 0; i < 5; i++) outcomes[i] = (struct mt_outcome){.predicted = i, .gold = i};
    assert_every_allocation_may_fail(run, outcomes, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accuracy),    cmocka_unit_test(test_classes),
        cmocka_unit_test(test_correlation), cmocka_unit_test(test_pass),
        cmocka_unit_test(test_repeatable),  cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
