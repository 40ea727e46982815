/* bias, axpby, fill, copy, clamp: refusals and values small enough to see. */
#include <math.h>

#include "ops/op_test.h"
#include "tensor/dtype.h"

static void test_bias(void **state)
{
    (void)state;
    for (int i = 0; i < OP_TEST_DEVICES; i++) {
        struct op_test test;
        op_test_open(&test, op_test_devices[i]);
        float x[] = {1, 2, 3, 4};
        float bias[] = {10, 20};
        struct mt_tensor wide = mt_tensor_2d(x, MT_F32, 2, 2);
        struct mt_tensor vector = mt_tensor_1d(bias, MT_F32, 2);
        struct mt_bias_forward_args forward = {.x = wide, .bias = vector, .y = wide};
        assert_int_equal(mt_bias_forward(test.device, &forward), MT_OK);
        const float sums[] = {11, 22, 13, 24};
        assert_memory_equal(x, sums, sizeof sums);
        struct mt_bias_backward_args backward = {.dy = wide, .dbias = vector};
        assert_int_equal(mt_bias_backward(test.device, &backward), MT_OK);
        assert_float_equal(bias[0], 34.0f, 0.0f);
        assert_float_equal(bias[1], 66.0f, 0.0f);
        op_test_close(&test);
    }
}

static void test_axpby_overwrites_nan(void **state)
{
    (void)state;
    for (int i = 0; i < OP_TEST_DEVICES; i++) {
        struct op_test test;
        op_test_open(&test, op_test_devices[i]);
        float x[] = {1, 2};
        float y[] = {NAN, 4};
        struct mt_axpby_args args = {
            .x = mt_tensor_1d(x, MT_F32, 2), .y = mt_tensor_1d(y, MT_F32, 2), .alpha = 3.0f};
        assert_int_equal(mt_axpby(test.device, &args), MT_OK);
        assert_float_equal(y[0], 3.0f, 0.0f);
        args.beta = -1.0f;
        assert_int_equal(mt_axpby(test.device, &args), MT_OK);
        assert_float_equal(y[0], 0.0f, 0.0f);
        assert_float_equal(y[1], 0.0f, 0.0f);
        op_test_close(&test);
    }
}

static void test_clamp_edges(void **state)
{
    (void)state;
    for (int i = 0; i < OP_TEST_DEVICES; i++) {
        struct op_test test;
        op_test_open(&test, op_test_devices[i]);
        float x[] = {-3, -2, 0.5f, 2, 2.5f, INFINITY, NAN};
        float y[7];
        float dy[] = {1, 2, 3, 4, 5, 6, 7};
        struct mt_tensor input = mt_tensor_2d(x, MT_F32, 1, 7);
        struct mt_tensor gradient = mt_tensor_2d(dy, MT_F32, 1, 7);
        struct mt_clamp_forward_args forward = {
            .x = input, .y = mt_tensor_2d(y, MT_F32, 1, 7), .limit = 2.0f};
        assert_int_equal(mt_clamp_forward(test.device, &forward), MT_OK);
        const float clamped[] = {-2, -2, 0.5f, 2, 2, 2};
        assert_memory_equal(y, clamped, sizeof clamped);
        assert_true(isnan(y[6]));
        struct mt_clamp_backward_args backward = {.dy = gradient, .x = input, .dx = gradient, .limit = 2.0f};
        assert_int_equal(mt_clamp_backward(test.device, &backward), MT_OK);
        const float passed[] = {0, 2, 3, 4, 0, 0, 0};
        assert_memory_equal(dy, passed, sizeof passed);
        op_test_close(&test);
    }
}

static void test_copy_converts(void **state)
{
    (void)state;
    for (int i = 0; i < OP_TEST_DEVICES; i++) {
        struct op_test test;
        op_test_open(&test, op_test_devices[i]);
        float x[] = {1.0f, -2.5f, 1.00390625f, 1e30f}; // 1 + 2^-8 is a tie in bf16: to even, 1
        uint16_t bf16[4];
        uint16_t f16[4];
        struct mt_tensor input = mt_tensor_1d(x, MT_F32, 4);
        struct mt_copy_args to_bf16 = {.x = input, .y = mt_tensor_1d(bf16, MT_BF16, 4)};
        struct mt_copy_args to_f16 = {.x = input, .y = mt_tensor_1d(f16, MT_F16, 4)};
        assert_int_equal(mt_copy(test.device, &to_bf16), MT_OK);
        assert_int_equal(mt_copy(test.device, &to_f16), MT_OK);
        const uint16_t expected_bf16[] = {0x3F80, 0xC020, 0x3F80, 0x714A};
        const uint16_t expected_f16[] = {0x3C00, 0xC100, 0x3C04, 0x7C00};
        assert_memory_equal(bf16, expected_bf16, sizeof bf16);
        assert_memory_equal(f16, expected_f16, sizeof f16);
        op_test_close(&test);
    }
}

/* Floats of every kind, subnormals, infinities and NaN included: all bits as the scalar function has them. */
static void test_copy_to_f16_bits(void **state)
{
    (void)state;
    enum { COUNT = 65537 }; // the last one past whole vectors
    static float x[COUNT];
    static uint16_t y[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) x[i] = mt_float_from_bits(i * 65521u);
    for (int i = 0; i < OP_TEST_DEVICES; i++) {
        struct op_test test;
        op_test_open(&test, op_test_devices[i]);
        struct mt_copy_args args = {.x = mt_tensor_1d(x, MT_F32, COUNT), .y = mt_tensor_1d(y, MT_F16, COUNT)};
        assert_int_equal(mt_copy(test.device, &args), MT_OK);
        for (int j = 0; j < COUNT; j++) assert_int_equal(y[j], mt_float_to_f16(x[j]));
        op_test_close(&test);
    }
}

static void test_refusals(void **state)
{
    (void)state;
    struct op_test test;
    op_test_open(&test, "cpu");
    float data[8] = {0};
    struct mt_tensor wide = mt_tensor_2d(data, MT_F32, 2, 4);
    struct mt_tensor cube = mt_tensor_3d(data, MT_F32, 2, 2, 2);
    struct mt_tensor integers = mt_tensor_2d(data, MT_I32, 2, 4);
    struct mt_tensor deep = {.data = data, .rank = 4, .dim = {1, 1, 1, 1}, .stride = {1, 1, 1, 1}};

    struct mt_bias_forward_args bias = {.x = wide, .bias = mt_tensor_1d(data, MT_F32, 3), .y = wide};
    op_test_refused(&test, mt_bias_forward(test.device, &bias), MT_ERR_SHAPE, "bias is f32 [3]");
    struct mt_bias_backward_args dbias = {.dy = wide, .dbias = mt_tensor_1d(data, MT_F16, 4)};
    op_test_refused(&test, mt_bias_backward(test.device, &dbias), MT_ERR_DTYPE, "dbias is f16");

    struct mt_axpby_args axpby = {.x = cube, .y = cube, .alpha = 1.0f};
    op_test_refused(&test, mt_axpby(test.device, &axpby), MT_ERR_SHAPE, "x has 3 dimensions");
    axpby.x = wide;
    op_test_refused(&test, mt_axpby(test.device, &axpby), MT_ERR_SHAPE, "y is f32 [2, 2, 2]");
    axpby.x = integers;
    op_test_refused(&test, mt_axpby(test.device, &axpby), MT_ERR_DTYPE, "x is i32");

    op_test_refused(&test, mt_fill(test.device, &(struct mt_fill_args){.y = integers, .value = 0.5f}),
                    MT_ERR_USAGE, "value is 0.5");
    op_test_refused(&test, mt_fill(test.device, &(struct mt_fill_args){.y = integers, .value = 3e9f}),
                    MT_ERR_USAGE, "value is 3e+09");
    op_test_refused(&test, mt_fill(test.device, &(struct mt_fill_args){.y = integers, .value = NAN}),
                    MT_ERR_USAGE, "value is");
    op_test_refused(&test, mt_fill(test.device, &(struct mt_fill_args){.y = deep}), MT_ERR_SHAPE,
                    "y has 4 dimensions");
    op_test_refused(&test, mt_fill(test.device, &(struct mt_fill_args){.value = 1.0f}), MT_ERR_USAGE,
                    "y is missing");

    op_test_refused(&test, mt_copy(test.device, &(struct mt_copy_args){.x = wide, .y = integers}),
                    MT_ERR_DTYPE, "y is i32");
    op_test_refused(&test, mt_copy(test.device, &(struct mt_copy_args){.x = integers, .y = wide}),
                    MT_ERR_DTYPE, "y is f32");
    op_test_refused(&test, mt_copy(test.device, &(struct mt_copy_args){.x = cube, .y = wide}), MT_ERR_SHAPE,
                    "y is f32 [2, 4]");
    struct mt_clamp_forward_args clamp = {.x = wide, .y = wide};
    op_test_refused(&test, mt_clamp_forward(test.device, &clamp), MT_ERR_USAGE, "limit is 0");
    struct mt_clamp_backward_args dclamp = {.dy = wide, .x = wide, .dx = wide, .limit = NAN};
    op_test_refused(&test, mt_clamp_backward(test.device, &dclamp), MT_ERR_USAGE, "limit is");
    dclamp.dx = cube;
    op_test_refused(&test, mt_clamp_backward(test.device, &dclamp), MT_ERR_SHAPE, "dx is");
    op_test_close(&test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bias),
        cmocka_unit_test(test_axpby_overwrites_nan),
        cmocka_unit_test(test_clamp_edges),
        cmocka_unit_test(test_copy_converts),
        cmocka_unit_test(test_copy_to_f16_bits),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
