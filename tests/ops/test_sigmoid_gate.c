/* sigmoid_gate: hand-computed values, gates where exp overflows, refusals. */
#include "ops/op_test.h"

static void test_values(void **state)
{
    struct op_test *test = *state;
    float x[] = {1, 2, 3, 4, 5, 6, 7, 8};
    float gate[] = {0, 1, 200, -200};
    float y[8];
    struct mt_sigmoid_gate_forward_args args = {.x = mt_tensor_2d(x, MT_F32, 4, 2),
                                                .gate = mt_tensor_2d(gate, MT_F32, 4, 1),
                                                .y = mt_tensor_2d(y, MT_F32, 4, 2)};
    assert_int_equal(mt_sigmoid_gate_forward(test->device, &args), MT_OK);
    const float expected[] = {0.5f, 1, 3 * 0.731058579f, 4 * 0.731058579f, 5, 6, 0, 0};
    for (int j = 0; j < 8; j++) assert_float_equal(y[j], expected[j], 1e-6f);

    float dy[] = {1, 1, 1, -1, 1, 1, 1, 1};
    float dgate[4];
    struct mt_sigmoid_gate_backward_args back = {.dy = mt_tensor_2d(dy, MT_F32, 4, 2),
                                                 .x = args.x,
                                                 .gate = args.gate,
                                                 .dx = mt_tensor_2d(dy, MT_F32, 4, 2),
                                                 .dgate = mt_tensor_2d(dgate, MT_F32, 4, 1)};
    assert_int_equal(mt_sigmoid_gate_backward(test->device, &back), MT_OK);
    // s (1 - s) is 1/4 at 0 and 0.196611933 at 1
    const float expected_dgate[] = {0.75f, -0.196611933f, 0, 0};
    const float expected_dx[] = {0.5f, 0.5f, 0.731058579f, -0.731058579f, 1, 1, 0, 0};
    for (int j = 0; j < 4; j++) assert_float_equal(dgate[j], expected_dgate[j], 1e-6f);
    for (int j = 0; j < 8; j++) assert_float_equal(dy[j], expected_dx[j], 1e-6f);
}

static void test_refusals(void **state)
{
    struct op_test *test = *state;
    float data[6] = {0};
    struct mt_tensor good = mt_tensor_2d(data, MT_F32, 3, 2);
    struct mt_tensor gate = mt_tensor_2d(data, MT_F32, 3, 1);
    struct mt_sigmoid_gate_forward_args args = {.x = good, .gate = good, .y = good};
    op_test_refused(test, mt_sigmoid_gate_forward(test->device, &args), MT_ERR_SHAPE, "gate is f32 [3, 2]");
    args.gate = gate;
    args.y = mt_tensor_2d(data, MT_F32, 2, 2);
    op_test_refused(test, mt_sigmoid_gate_forward(test->device, &args), MT_ERR_SHAPE, "y is f32 [2, 2]");
    struct mt_sigmoid_gate_backward_args back = {.dy = good, .x = good, .gate = gate, .dx = good};
    op_test_refused(test, mt_sigmoid_gate_backward(test->device, &back), MT_ERR_USAGE, "dgate is missing");
}

int main(void)
{
    const struct CMUnitTest tests[] = {ON_REF(test_values), ON_CPU(test_values), ON_CPU(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
