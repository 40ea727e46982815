/*
 * rmsnorm and layernorm: refusals, hand-computed rows, accuracy on wide rows and rows far from zero. Tests
 * src/ops.
 */
#include <math.h>

#include "base/rng.h"
#include "ops/op_test.h"

#define WIDTH 16384

static void test_rmsnorm_values(void **state)
{
    (void)state;
    for (int i = 0; i < OP_TEST_DEVICES; i++) {
        struct op_test test;
        op_test_open(&test, op_test_devices[i]);
        float x[] = {1, -7}; // mean square 25
        float weight[] = {1, 10};
        float y[2];
        float rstd[1];
        struct mt_rmsnorm_forward_args args = {.x = mt_tensor_2d(x, MT_F32, 1, 2),
                                               .weight = mt_tensor_1d(weight, MT_F32, 2),
                                               .y = mt_tensor_2d(y, MT_F32, 1, 2),
                                               .rstd = mt_tensor_1d(rstd, MT_F32, 1)};
        assert_int_equal(mt_rmsnorm_forward(test.device, &args), MT_OK);
        assert_float_equal(y[0], 0.2f, 1e-6f);
        assert_float_equal(y[1], -14.0f, 1e-5f);
        assert_float_equal(rstd[0], 0.2f, 1e-7f);
        op_test_close(&test);
    }
}

static void test_layernorm_values(void **state)
{
    (void)state;
    for (int i = 0; i < OP_TEST_DEVICES; i++) {
        struct op_test test;
        op_test_open(&test, op_test_devices[i]);
        float x[] = {1, 3}; // mean 2, variance 1
        float residual[] = {10, 12};
        float sum[2];
        float weight[] = {2, 4};
        float bias[] = {0.5f, -1};
        float y[2];
        float mean[1];
        float rstd[1];
        struct mt_layernorm_forward_args args = {.x = mt_tensor_2d(x, MT_F32, 1, 2),
                                                 .residual = mt_tensor_2d(residual, MT_F32, 1, 2),
                                                 .sum = mt_tensor_2d(sum, MT_F32, 1, 2),
                                                 .weight = mt_tensor_1d(weight, MT_F32, 2),
                                                 .bias = mt_tensor_1d(bias, MT_F32, 2),
                                                 .y = mt_tensor_2d(y, MT_F32, 1, 2),
                                                 .mean = mt_tensor_1d(mean, MT_F32, 1),
                                                 .rstd = mt_tensor_1d(rstd, MT_F32, 1)};
        assert_int_equal(mt_layernorm_forward(test.device, &args), MT_OK);
        // h = 11, 15: mean 13, variance 4
        assert_float_equal(sum[1], 15.0f, 0.0f);
        assert_float_equal(mean[0], 13.0f, 0.0f);
        assert_float_equal(rstd[0], 0.5f, 0.0f);
        assert_float_equal(y[0], -1.5f, 1e-6f);
        assert_float_equal(y[1], 3.0f, 1e-6f);
        op_test_close(&test);
    }
}

/* A row around 10000 with a spread of 1: cancellation must not reach the result. */
static void test_layernorm_far_from_zero(void **state)
{
    (void)state;
    static float x[WIDTH];
    static float y[WIDTH];
    static float ones[WIDTH];
    static float zeros[WIDTH];
    double sum = 0.0;
    for (int j = 0; j < WIDTH; j++) {
        x[j] = 10000.0f + mt_rng_normal(1, 2, (uint64_t)j);
        ones[j] = 1.0f;
        sum += (double)x[j];
    }
    double mean = sum / WIDTH;
    double squares = 0.0;
    for (int j = 0; j < WIDTH; j++) squares += ((double)x[j] - mean) * ((double)x[j] - mean);
    double rstd = 1.0 / sqrt(squares / WIDTH + 1e-5);
    struct op_test test;
    op_test_open(&test, "cpu");
    struct mt_layernorm_forward_args args = {.x = mt_tensor_2d(x, MT_F32, 1, WIDTH),
                                             .weight = mt_tensor_1d(ones, MT_F32, WIDTH),
                                             .bias = mt_tensor_1d(zeros, MT_F32, WIDTH),
                                             .y = mt_tensor_2d(y, MT_F32, 1, WIDTH),
                                             .epsilon = 1e-5f};
    assert_int_equal(mt_layernorm_forward(test.device, &args), MT_OK);
    for (int j = 0; j < WIDTH; j++) {
        assert_float_equal(y[j], (float)(((double)x[j] - mean) * rstd), 2e-6f);
    }
    op_test_close(&test);
}

/* A wide row of equal elements: a sum of floats that only grows would lose digits. */
static void test_rmsnorm_wide_row(void **state)
{
    (void)state;
    static float x[WIDTH];
    static float weight[WIDTH];
    for (int j = 0; j < WIDTH; j++) {
        x[j] = 0.1f;
        weight[j] = 1.0f;
    }
    float rstd[1];
    struct op_test test;
    op_test_open(&test, "cpu");
    struct mt_rmsnorm_forward_args args = {.x = mt_tensor_2d(x, MT_F32, 1, WIDTH),
                                           .weight = mt_tensor_1d(weight, MT_F32, WIDTH),
                                           .y = mt_tensor_2d(x, MT_F32, 1, WIDTH),
                                           .rstd = mt_tensor_1d(rstd, MT_F32, 1)};
    assert_int_equal(mt_rmsnorm_forward(test.device, &args), MT_OK);
    assert_float_equal(rstd[0], 10.0f, 2e-5f);
    assert_float_equal(x[WIDTH - 1], 1.0f, 2e-6f);
    op_test_close(&test);
}

static void test_layernorm_refusals(void **state)
{
    (void)state;
    struct op_test test;
    op_test_open(&test, "cpu");
    float data[6] = {0};
    struct mt_tensor wide = mt_tensor_2d(data, MT_F32, 2, 3);
    struct mt_tensor vector = mt_tensor_1d(data, MT_F32, 3);
    struct mt_tensor rows = mt_tensor_1d(data, MT_F32, 2);
    struct mt_layernorm_forward_args args = {.x = wide, .weight = vector, .bias = rows, .y = wide};
    op_test_refused(&test, mt_layernorm_forward(test.device, &args), MT_ERR_SHAPE, "bias is f32 [2]");
    args.bias = vector;
    args.mean = rows;
    op_test_refused(&test, mt_layernorm_forward(test.device, &args), MT_ERR_USAGE, "rstd is missing");
    args.rstd = rows;
    args.residual = wide;
    op_test_refused(&test, mt_layernorm_forward(test.device, &args), MT_ERR_USAGE, "sum is missing");
    args.sum = wide;
    args.epsilon = -1.0f;
    op_test_refused(&test, mt_layernorm_forward(test.device, &args), MT_ERR_USAGE, "epsilon is -1");

    struct mt_layernorm_backward_args back = {
        .dy = wide, .x = wide, .weight = vector, .mean = rows, .rstd = rows, .dx = wide};
    back.dbias = mt_tensor_1d(data, MT_BF16, 3);
    op_test_refused(&test, mt_layernorm_backward(test.device, &back), MT_ERR_DTYPE, "dbias is");
    back.dweight = rows;
    op_test_refused(&test, mt_layernorm_backward(test.device, &back), MT_ERR_SHAPE, "dweight is");
    back.mean = (struct mt_tensor){0};
    op_test_refused(&test, mt_layernorm_backward(test.device, &back), MT_ERR_USAGE, "mean is missing");
    op_test_close(&test);
}

static void test_rmsnorm_refusals(void **state)
{
    (void)state;
    struct op_test test;
    op_test_open(&test, "cpu");
    float data[6] = {0};
    struct mt_tensor wide = mt_tensor_2d(data, MT_F32, 2, 3);
    struct mt_tensor vector = mt_tensor_1d(data, MT_F32, 3);
    struct mt_rmsnorm_forward_args args = {.x = wide, .weight = vector, .y = wide, .epsilon = -1.0f};
    op_test_refused(&test, mt_rmsnorm_forward(test.device, &args), MT_ERR_USAGE, "epsilon is -1");
    args.residual = wide;
    op_test_refused(&test, mt_rmsnorm_forward(test.device, &args), MT_ERR_USAGE, "sum is missing");
    args.y.stride[0] = 2;
    op_test_refused(&test, mt_rmsnorm_forward(test.device, &args), MT_ERR_SHAPE, "y: dimension 0");
    struct mt_rmsnorm_backward_args back = {.dy = wide, .x = wide, .weight = vector, .dx = wide};
    op_test_refused(&test, mt_rmsnorm_backward(test.device, &back), MT_ERR_USAGE, "rstd is missing");
    op_test_close(&test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rmsnorm_values),     cmocka_unit_test(test_layernorm_values),
        cmocka_unit_test(test_rmsnorm_wide_row),   cmocka_unit_test(test_layernorm_far_from_zero),
        cmocka_unit_test(test_layernorm_refusals), cmocka_unit_test(test_rmsnorm_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
