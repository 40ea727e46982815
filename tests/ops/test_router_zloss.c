/* router_zloss: worked by hand, large logits, what a row's gradient sums to, and the argument checks. */
#include <math.h>

#include "base/rng.h"
#include "ops/op_test.h"

static void assert_near(double got, double expected, double tolerance)
{
    if (!(fabs(got - expected) <= tolerance)) fail_msg("%.9g, expected %.9g", got, expected);
}

/* lse = log 2, log 4, and a masked row that would be NaN. */
static void test_values(void **state)
{
    struct op_test *test = *state;
    float logits[] = {0, 0, logf(3), 0, NAN, INFINITY};
    int32_t mask[] = {1, 1, 0};
    float lse[] = {9, 9, 9};
    double sum = 9.0;
    struct mt_router_zloss_forward_args args = {
        .logits = mt_tensor_2d(logits, MT_F32, 3, 2),
        .mask = mt_tensor_1d(mask, MT_I32, 3),
        .lse = mt_tensor_1d(lse, MT_F32, 3),
        .sum = mt_tensor_1d(&sum, MT_F64, 1),
    };
    assert_int_equal(mt_router_zloss_forward(test->device, &args), MT_OK);
    assert_near((double)lse[0], log(2), 1e-7);
    assert_near((double)lse[1], log(4), 2e-7);
    assert_near((double)lse[2], 0.0, 0.0);
    assert_near(sum, log(2) * log(2) + log(4) * log(4), 1e-6);
    float dlogits[] = {1, 1, 1, 1, 1, 1};
    struct mt_router_zloss_backward_args back = {
        .logits = args.logits,
        .mask = args.mask,
        .dlogits = mt_tensor_2d(dlogits, MT_F32, 3, 2),
        .scale = 0.5f,
    };
    const double slope[] = {0.5 * log(2), 0.5 * log(2), 0.75 * log(4), 0.25 * log(4), 0, 0};
    assert_int_equal(mt_router_zloss_backward(test->device, &back), MT_OK);
    for (int i = 0; i < 6; i++) assert_near((double)dlogits[i], slope[i], 3e-7);
    back.accumulate = true;
    assert_int_equal(mt_router_zloss_backward(test->device, &back), MT_OK);
    for (int i = 0; i < 6; i++) assert_near((double)dlogits[i], 2 * slope[i], 6e-7);
}

static void test_large_logits(void **state)
{
    struct op_test *test = *state;
    float logits[] = {1000, 1000, -1000, -1000};
    float lse[2];
    double sum;
    struct mt_router_zloss_forward_args args = {
        .logits = mt_tensor_2d(logits, MT_F32, 2, 2),
        .lse = mt_tensor_1d(lse, MT_F32, 2),
        .sum = mt_tensor_1d(&sum, MT_F64, 1),
    };
    assert_int_equal(mt_router_zloss_forward(test->device, &args), MT_OK);
    assert_near((double)lse[0], 1000 + log(2), 1e-4);
    assert_near((double)lse[1], -1000 + log(2), 1e-4);
    assert_near(sum, 2e6 + 2 * log(2) * log(2), 1e-3);
}

/* The softmax sums to 1: a row's gradient sums to 2 · scale · lse. */
static void test_gradient_sums_to_lse(void **state)
{
    struct op_test *test = *state;
    enum { TOKENS = 65, EXPERTS = 37 };
    float logits[TOKENS * EXPERTS];
    float dlogits[TOKENS * EXPERTS];
    float lse[TOKENS];
    double sum;
    for (int i = 0; i < TOKENS * EXPERTS; i++) logits[i] = 3.0f * mt_rng_normal(4, 4, (uint64_t)i);
    struct mt_router_zloss_forward_args args = {
        .logits = mt_tensor_2d(logits, MT_F32, TOKENS, EXPERTS),
        .lse = mt_tensor_1d(lse, MT_F32, TOKENS),
        .sum = mt_tensor_1d(&sum, MT_F64, 1),
    };
    assert_int_equal(mt_router_zloss_forward(test->device, &args), MT_OK);
    struct mt_router_zloss_backward_args back = {
        .logits = args.logits, .dlogits = mt_tensor_2d(dlogits, MT_F32, TOKENS, EXPERTS), .scale = 2.0f};
    assert_int_equal(mt_router_zloss_backward(test->device, &back), MT_OK);
    double squares = 0.0;
    for (int i = 0; i < TOKENS; i++) {
        double total = 0.0;
        for (int j = 0; j < EXPERTS; j++) total += (double)dlogits[i * EXPERTS + j];
        assert_near(total, 4.0 * (double)lse[i], 1e-5 * fabs(total));
        squares += (double)lse[i] * (double)lse[i];
    }
    assert_near(sum, squares, 1e-6 * squares);
}

static void test_refusals(void **state)
{
    struct op_test *test = *state;
    float logits[6] = {0};
    float lse[3];
    float dlogits[6];
    int32_t mask[3] = {1, 1, 1};
    double sum;
    const struct mt_router_zloss_forward_args good = {
        .logits = mt_tensor_2d(logits, MT_F32, 3, 2),
        .mask = mt_tensor_1d(mask, MT_I32, 3),
        .lse = mt_tensor_1d(lse, MT_F32, 3),
        .sum = mt_tensor_1d(&sum, MT_F64, 1),
    };
    struct mt_router_zloss_forward_args args = good;
    assert_int_equal(mt_router_zloss_forward(test->device, &good), MT_OK);
    args.logits = mt_tensor_2d(mask, MT_I32, 3, 1);
    op_test_refused(test, mt_router_zloss_forward(test->device, &args), MT_ERR_DTYPE, "logits is i32");
    args.logits = mt_tensor_2d(logits, MT_F32, 3, 0);
    op_test_refused(test, mt_router_zloss_forward(test->device, &args), MT_ERR_USAGE, "logits' columns");
    args = good;
    args.mask.dim[0] = 2;
    op_test_refused(test, mt_router_zloss_forward(test->device, &args), MT_ERR_SHAPE, "mask is");
    args = good;
    args.lse.dim[0] = 2;
    op_test_refused(test, mt_router_zloss_forward(test->device, &args), MT_ERR_SHAPE, "lse is");
    args = good;
    args.sum = (struct mt_tensor){0};
    op_test_refused(test, mt_router_zloss_forward(test->device, &args), MT_ERR_USAGE, "sum is missing");
    args.sum = mt_tensor_1d(lse, MT_F32, 1);
    op_test_refused(test, mt_router_zloss_forward(test->device, &args), MT_ERR_DTYPE, "sum is f32");
    struct mt_router_zloss_backward_args back = {.logits = good.logits, .mask = good.mask, .scale = 1.0f};
    op_test_refused(test, mt_router_zloss_backward(test->device, &back), MT_ERR_USAGE, "dlogits is missing");
    back.dlogits = mt_tensor_2d(dlogits, MT_F32, 2, 3);
    op_test_refused(test, mt_router_zloss_backward(test->device, &back), MT_ERR_SHAPE, "dlogits is");
    back.dlogits = mt_tensor_2d(dlogits, MT_F32, 3, 2);
    back.mask.dim[0] = 1;
    op_test_refused(test, mt_router_zloss_backward(test->device, &back), MT_ERR_SHAPE, "mask is");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_REF(test_values),
        ON_CPU(test_values),
        ON_REF(test_large_logits),
        ON_CPU(test_large_logits),
        ON_REF(test_gradient_sums_to_lse),
        ON_CPU(test_gradient_sums_to_lse),
        ON_REF(test_refusals),
        ON_CPU(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
