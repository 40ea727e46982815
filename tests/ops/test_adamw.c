/* adamw: refusals, the first step by hand, a second one against plain doubles. */
#include <math.h>

#include "ops/op_test.h"

struct adamw_data {
    float param[2], grad[2], m[2], v[2];
    uint16_t copy[2];
};

static struct mt_adamw_args args_of(struct adamw_data *data)
{
    return (struct mt_adamw_args){.param = mt_tensor_1d(data->param, MT_F32, 2),
                                  .grad = mt_tensor_1d(data->grad, MT_F32, 2),
                                  .m = mt_tensor_1d(data->m, MT_F32, 2),
                                  .v = mt_tensor_1d(data->v, MT_F32, 2),
                                  .param_copy = mt_tensor_1d(data->copy, MT_BF16, 2),
                                  .learning_rate = 0.5f,
                                  .beta1 = 0.5f,
                                  .beta2 = 0.75f,
                                  .epsilon = 1e-8f,
                                  .grad_scale = 2.0f,
                                  .step = 1};
}

static void test_first_step(void **state)
{
    struct op_test *test = *state;
    struct adamw_data data = {.param = {3, 1}, .grad = {4, -1}};
    struct mt_adamw_args args = args_of(&data);
    args.weight_decay = 0.5f;
    assert_int_equal(mt_adamw(test->device, &args), MT_OK);
    // g = 8, -2. The first step moves by exactly lr against the sign: m/(1-β1) = g, v/(1-β2) = g².
    assert_float_equal(data.m[0], 4.0f, 0.0f);
    assert_float_equal(data.v[0], 16.0f, 0.0f);
    assert_float_equal(data.m[1], -1.0f, 0.0f);
    assert_float_equal(data.v[1], 1.0f, 0.0f);
    assert_float_equal(data.param[0], 3.0f * 0.75f - 0.5f, 1e-6f);
    assert_float_equal(data.param[1], 1.0f * 0.75f + 0.5f, 1e-6f);
    assert_int_equal(data.copy[0], 0x3FE0); // 1.75
    assert_int_equal(data.copy[1], 0x3FA0); // 1.25
}

static void test_later_step(void **state)
{
    struct op_test *test = *state;
    struct adamw_data data = {.param = {1, 0}, .grad = {0.5f, 0}, .m = {1, 0}, .v = {2, 0}};
    struct mt_adamw_args args = args_of(&data);
    args.step = 3;
    assert_int_equal(mt_adamw(test->device, &args), MT_OK);
    double m = 0.5 * 1 + 0.5 * 1;
    double v = 0.75 * 2 + 0.25 * 1;
    double step = 0.5 * (m / (1 - 0.125)) / (sqrt(v / (1 - 0.421875)) + 1e-8);
    assert_float_equal(data.param[0], (float)(1 - step), 1e-6f);
    assert_float_equal(data.param[1], 0.0f, 0.0f); // no gradient yet: 0/ε, not 0/0
}

static void test_refusals(void **state)
{
    struct op_test *test = *state;
    struct adamw_data data = {0};
    struct mt_adamw_args args = args_of(&data);
    args.step = 0;
    op_test_refused(test, mt_adamw(test->device, &args), MT_ERR_USAGE, "step is 0");
    args.grad_scale = 0.0f;
    op_test_refused(test, mt_adamw(test->device, &args), MT_ERR_USAGE, "grad_scale is 0");
    args.weight_decay = -1.0f;
    op_test_refused(test, mt_adamw(test->device, &args), MT_ERR_USAGE, "weight_decay is -1");
    args.epsilon = 0.0f;
    op_test_refused(test, mt_adamw(test->device, &args), MT_ERR_USAGE, "epsilon is 0");
    args.beta2 = 1.0f;
    op_test_refused(test, mt_adamw(test->device, &args), MT_ERR_USAGE, "beta2 is 1");
    args.beta1 = -0.5f;
    op_test_refused(test, mt_adamw(test->device, &args), MT_ERR_USAGE, "beta1 is -0.5");
    args.learning_rate = NAN;
    op_test_refused(test, mt_adamw(test->device, &args), MT_ERR_USAGE, "learning_rate is");
    args.param_copy.dtype = MT_I32;
    op_test_refused(test, mt_adamw(test->device, &args), MT_ERR_DTYPE, "param_copy is i32");
    args.v.dim[0] = 1;
    op_test_refused(test, mt_adamw(test->device, &args), MT_ERR_SHAPE, "v is f32 [1]");
    args.param = mt_tensor_2d(data.param, MT_F32, 2, 1);
    args.param.stride[0] = 2;
    op_test_refused(test, mt_adamw(test->device, &args), MT_ERR_SHAPE, "param has gaps");
    args.param = mt_tensor_3d(data.param, MT_F32, 1, 2, 1);
    op_test_refused(test, mt_adamw(test->device, &args), MT_ERR_SHAPE, "param has 3 dimensions");
}

int main(void)
{
    const struct CMUnitTest tests[] = {ON_REF(test_first_step), ON_CPU(test_first_step),
                                       ON_REF(test_later_step), ON_CPU(test_later_step),
                                       ON_CPU(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
