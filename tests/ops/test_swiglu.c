/* swiglu: refusals, hand-computed values, and gates where exp overflows. */
#include "ops/op_test.h"

static void test_values(void **state)
{
    struct op_test *test = *state;
    float gate[] = {0, 1, -1, 200, -200, -90};
    float up[] = {5, 2, 2, 3, 3, 1};
    float y[6];
    struct mt_swiglu_forward_args args = {.gate = mt_tensor_2d(gate, MT_F32, 1, 6),
                                          .up = mt_tensor_2d(up, MT_F32, 1, 6),
                                          .y = mt_tensor_2d(y, MT_F32, 1, 6)};
    assert_int_equal(mt_swiglu_forward(test->device, &args), MT_OK);
    const float expected[] = {0, 2 * 0.731058579f, -2 * 0.268941421f, 600, 0, 0};
    for (int j = 0; j < 6; j++) assert_float_equal(y[j], expected[j], 1e-6f);

    float dy[] = {1, 1, 1, 1, 1, 1};
    struct mt_tensor gradient = mt_tensor_2d(dy, MT_F32, 1, 6);
    struct mt_swiglu_backward_args back = {
        .dy = gradient, .gate = args.gate, .up = args.up, .dgate = args.gate, .dup = args.up, .y = gradient};
    assert_int_equal(mt_swiglu_backward(test->device, &back), MT_OK);
    // silu'(0) = 1/2, silu'(1) = s + s(1-s) with s = 0.731058579
    const float dgate[] = {2.5f, 2 * 0.927670512f, 2 * 0.0723294880f, 3, 0, 0};
    const float dup[] = {0, 0.731058579f, -0.268941421f, 200, 0, 0};
    for (int j = 0; j < 6; j++) {
        assert_float_equal(gate[j], dgate[j], 1e-6f);
        assert_float_equal(up[j], dup[j], 1e-6f);
        assert_true(dy[j] == y[j]); // forward's very bits
    }
}

static void test_refusals(void **state)
{
    struct op_test *test = *state;
    float data[6] = {0};
    int32_t integers[6] = {0};
    struct mt_tensor good = mt_tensor_2d(data, MT_F32, 2, 3);
    struct mt_swiglu_forward_args args = {.gate = good, .up = good, .y = mt_tensor_2d(data, MT_F32, 2, 2)};
    op_test_refused(test, mt_swiglu_forward(test->device, &args), MT_ERR_SHAPE, "y is f32 [2, 2]");
    args.up = mt_tensor_2d(integers, MT_I32, 2, 3);
    op_test_refused(test, mt_swiglu_forward(test->device, &args), MT_ERR_DTYPE, "up is i32");
    struct mt_swiglu_backward_args back = {.dy = good, .gate = good, .up = good, .dgate = good};
    op_test_refused(test, mt_swiglu_backward(test->device, &back), MT_ERR_USAGE, "dup is missing");
    back.dup = good;
    back.dgate.data = NULL;
    op_test_refused(test, mt_swiglu_backward(test->device, &back), MT_ERR_USAGE, "dgate, f32 [2, 3], has no");
    back.dgate = good;
    back.y = mt_tensor_2d(data, MT_F32, 3, 2);
    op_test_refused(test, mt_swiglu_backward(test->device, &back), MT_ERR_SHAPE, "y is f32 [3, 2]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {ON_REF(test_values), ON_CPU(test_values), ON_CPU(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
