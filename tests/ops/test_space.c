/* Ops in borrowed scratch: the same results, and the device's own scratch grows only if the loan is too
 * small. */
#include "metier/space.h"

#include <string.h>

#include "ops/op_test.h"

#define SIDE 70

static float left[SIDE * SIDE];
static float right[SIDE * SIDE];
static char memory[1 << 22];

static struct mt_gemm_args product_into(float *result)
{
    return (struct mt_gemm_args){.a = mt_tensor_2d(left, MT_F32, SIDE, SIDE),
                                 .b = mt_tensor_2d(right, MT_F32, SIDE, SIDE),
                                 .c = mt_tensor_2d(result, MT_F32, SIDE, SIDE),
                                 .alpha = 1.0f};
}

static void test_loan(void **state)
{
    (void)state;
    static float wanted[SIDE * SIDE];
    static float got[SIDE * SIDE];
    struct op_test test;
    for (int i = 0; i < SIDE * SIDE; i++) {
        left[i] = 0.01f * (float)(i % 97);
        right[i] = 1.0f - 0.02f * (float)(i % 89);
    }
    op_test_open(&test, "cpu");
    struct mt_gemm_args args = product_into(got);
    assert_int_equal(mt_device_scratch_bytes(test.device), 0);
    struct mt_space large = {.data = memory, .bytes = sizeof memory};
    assert_int_equal(mt_op_run_in(test.device, large, MT_OP_gemm, &args), MT_OK);
    assert_int_equal(mt_device_scratch_bytes(test.device), 0); // the loan was enough
    struct mt_space small = {.data = memory, .bytes = 64};
    assert_int_equal(mt_op_run_in(test.device, small, MT_OP_gemm, &args), MT_OK);
    assert_true(mt_device_scratch_bytes(test.device) > 64);
    args = product_into(wanted);
    assert_int_equal(mt_op_run_in(test.device, (struct mt_space){0}, MT_OP_gemm, &args), MT_OK);
    assert_memory_equal(got, wanted, sizeof got);
    // For several ops, and where the device's own turns out to be larger.
    for (size_t i = 0; i < 2; i++) {
        size_t own = mt_device_scratch_bytes(test.device);
        mt_device_lend_scratch(test.device, i == 0 ? large : small);
        assert_int_equal(mt_device_scratch_bytes(test.device), i == 0 ? sizeof memory : own);
        for (int turn = 0; turn < 2; turn++) {
            memset(got, 0, sizeof got);
            args = product_into(got);
            assert_int_equal(mt_gemm(test.device, &args), MT_OK);
            assert_memory_equal(got, wanted, sizeof got);
        }
        mt_device_end_loan(test.device);
        mt_device_end_loan(test.device); // nothing
        assert_int_equal(mt_device_scratch_bytes(test.device), own);
    }
    args.alpha = 0.0f;
    op_test_refused(&test, mt_op_run_in(test.device, large, MT_OP_gemm, &args), MT_ERR_USAGE, "alpha is 0");
    op_test_close(&test);
}

#define ROWS  64
#define WIDTH 16
#define WORDS 20000

/* What was there before is not held beside what grows over a loan: limits count on it. */
static void test_growth_over_a_loan(void **state)
{
    (void)state;
    static float got[SIDE * SIDE];
    static float hidden[ROWS * WIDTH], dhidden[ROWS * WIDTH], weight[WORDS * WIDTH];
    static float loss[ROWS], dloss[ROWS];
    static int32_t labels[ROWS];
    struct mt_cross_entropy_args entropy = {.hidden = mt_tensor_2d(hidden, MT_F32, ROWS, WIDTH),
                                            .weight = mt_tensor_2d(weight, MT_F32, WORDS, WIDTH),
                                            .labels = mt_tensor_1d(labels, MT_I32, ROWS),
                                            .loss = mt_tensor_1d(loss, MT_F32, ROWS),
                                            .dloss = mt_tensor_1d(dloss, MT_F32, ROWS),
                                            .dhidden = mt_tensor_2d(dhidden, MT_F32, ROWS, WIDTH)};
    struct op_test test;
    op_test_open(&test, "cpu");
    struct mt_gemm_args product = product_into(got);
    assert_int_equal(mt_gemm(test.device, &product), MT_OK);
    size_t before = mt_device_scratch_bytes(test.device);
    assert_true(before > 0 && before + 64 <= sizeof memory);
    struct mt_space loan = {.data = memory, .bytes = before + 64};
    assert_int_equal(mt_op_run_in(test.device, loan, MT_OP_cross_entropy, &entropy), MT_OK);
    assert_true(mt_device_scratch_bytes(test.device) > loan.bytes);
    assert_int_equal(test.ctx.peak_bytes, test.ctx.live_bytes);
    op_test_close(&test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_loan),
                                       cmocka_unit_test(test_growth_over_a_loan)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
