/* reduce: refusals, hand-computed values, NaN and infinity in every place of a row. */
#include <math.h>

#include "ops/op_test.h"

#define WIDTH 67

static double reduced(const struct op_test *test, float *x, enum mt_reduce_kind kind)
{
    double out = -1.0;
    struct mt_reduce_args args = {
        .x = mt_tensor_1d(x, MT_F32, WIDTH), .out = mt_tensor_1d(&out, MT_F64, 1), .kind = kind};
    assert_int_equal(mt_reduce(test->device, &args), MT_OK);
    return out;
}

static void test_values(void **state)
{
    struct op_test *test = *state;
    float x[] = {1, -4, 0x1p26f, 1};
    double out = 10.0;
    struct mt_reduce_args args = {.x = mt_tensor_2d(x, MT_F32, 2, 2), .out = mt_tensor_1d(&out, MT_F64, 1)};
    args.accumulate = true;
    assert_int_equal(mt_reduce(test->device, &args), MT_OK);
    assert_true(out == 0x1p26 + 8.0); // a float sum could not hold the last digit
    args.accumulate = false;
    args.kind = MT_REDUCE_SUM_SQUARES;
    assert_int_equal(mt_reduce(test->device, &args), MT_OK);
    assert_true(out == 0x1p52 + 18.0);
    args.kind = MT_REDUCE_MAX_ABS;
    args.x = mt_tensor_1d(x, MT_F32, 2);
    assert_int_equal(mt_reduce(test->device, &args), MT_OK);
    assert_true(out == 4.0);
    args.accumulate = true;
    out = 5.0;
    assert_int_equal(mt_reduce(test->device, &args), MT_OK);
    assert_true(out == 5.0);
    out = (double)NAN;
    assert_int_equal(mt_reduce(test->device, &args), MT_OK);
    assert_true(isnan(out));
}

static void test_specials_everywhere(void **state)
{
    struct op_test *test = *state;
    float x[WIDTH];
    for (int j = 0; j < WIDTH; j++) x[j] = (float)j;
    for (int place = 0; place < WIDTH; place++) {
        float kept = x[place];
        x[place] = NAN;
        assert_true(reduced(test, x, MT_REDUCE_NONFINITE) == 1.0);
        assert_true(isnan(reduced(test, x, MT_REDUCE_MAX_ABS)));
        assert_true(isnan(reduced(test, x, MT_REDUCE_SUM)));
        x[place] = -INFINITY;
        assert_true(reduced(test, x, MT_REDUCE_NONFINITE) == 1.0);
        assert_true(isinf(reduced(test, x, MT_REDUCE_MAX_ABS)));
        assert_true(isinf(reduced(test, x, MT_REDUCE_SUM_SQUARES)));
        x[place] = kept;
    }
    assert_true(reduced(test, x, MT_REDUCE_NONFINITE) == 0.0);
}

/* Its neighbour logit_summary: the first of equals, sums of what exp alone could not hold, -1 where one is
 * NaN. */
static void test_logit_summary(void **state)
{
    struct op_test *test = *state;
    float logits[3][4] = {
        {1e4f, 1e4f, -1e4f, 0.0f}, {-3.0f, -2.0f, -2.0f, -4.0f}, {1.0f, (float)NAN, 2.0f, 3.0f}};
    int32_t highest[3];
    double log_sum[3];
    struct mt_logit_summary_args args = {.logits = mt_tensor_2d(logits, MT_F32, 3, 4),
                                         .highest = mt_tensor_1d(highest, MT_I32, 3),
                                         .log_sum = mt_tensor_1d(log_sum, MT_F64, 3)};
    assert_int_equal(mt_logit_summary(test->device, &args), MT_OK);
    assert_int_equal(highest[0], 0);
    assert_int_equal(highest[1], 1);
    assert_int_equal(highest[2], -1);
    assert_true(fabs(log_sum[0] - (1e4 + log(2.0))) < 1e-6);
    assert_true(fabs(log_sum[1] - log(exp(-3.0) + 2.0 * exp(-2.0) + exp(-4.0))) < 1e-6);
    assert_true(isnan(log_sum[2]));
}

static void test_refusals(void **state)
{
    struct op_test *test = *state;
    float data[8] = {0};
    double out = 0.0;
    struct mt_reduce_args args = {.x = mt_tensor_1d(data, MT_F32, 8), .kind = (enum mt_reduce_kind)4};
    op_test_refused(test, mt_reduce(test->device, &args), MT_ERR_USAGE, "out is missing");
    args.out = mt_tensor_1d(data, MT_F32, 1);
    op_test_refused(test, mt_reduce(test->device, &args), MT_ERR_DTYPE, "out is f32");
    args.out = mt_tensor_1d(&out, MT_F64, 1);
    op_test_refused(test, mt_reduce(test->device, &args), MT_ERR_USAGE, "kind is 4");
    args.x = mt_tensor_3d(data, MT_F32, 2, 2, 2);
    op_test_refused(test, mt_reduce(test->device, &args), MT_ERR_SHAPE, "x has 3 dimensions");
    args.x = mt_tensor_1d(data, MT_I32, 8);
    op_test_refused(test, mt_reduce(test->device, &args), MT_ERR_DTYPE, "x is i32");
}

int main(void)
{
    const struct CMUnitTest tests[] = {ON_REF(test_values),
                                       ON_CPU(test_values),
                                       ON_REF(test_specials_everywhere),
                                       ON_CPU(test_specials_everywhere),
                                       ON_REF(test_logit_summary),
                                       ON_CPU(test_logit_summary),
                                       ON_CPU(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
