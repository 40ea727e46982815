/* grouped_sum: hand-computed values and refusals. Small integers, so that sums are exact. */
#include <math.h>

#include "ops/op_test.h"

static void test_by_hand(void **state)
{
    struct op_test *test = *state;
    float x[] = {1, 2, 3, 4, 5, 6};
    float low[] = {1, 2, 3};
    float w0[] = {1, 1, 2, -1}; // [N,K] = [2,2]
    float w1[] = {0, 3, 1, 0};
    float b0[] = {10, 20}; // [K,N] = [1,2]
    int32_t offsets[] = {0, 1, 2};
    int32_t mask_y[] = {3, 2, 0}; // of the two columns: both, the second, none
    float y[] = {NAN, NAN, NAN, NAN, 7, 8};
    struct mt_tensor weight[] = {mt_tensor_2d(w0, MT_F32, 2, 2), mt_tensor_2d(w1, MT_F32, 2, 2)};
    struct mt_tensor pair[] = {{0}, mt_tensor_2d(b0, MT_F32, 1, 2)};
    struct mt_product_term terms[] = {
        {.x = mt_tensor_2d(x, MT_F32, 3, 2), .weight = weight, .transpose_weight = true, .alpha = 2.0f},
        {.x = mt_tensor_2d(low, MT_F32, 3, 1),
         .weight = pair,
         .alpha = 0.5f,
         .mask_y = mt_tensor_2d(mask_y, MT_I32, 3, 1),
         .mask_scale = 4.0f}};
    struct mt_grouped_sum_args args = {.terms = terms,
                                       .count = 2,
                                       .experts = 2,
                                       .offsets = mt_tensor_1d(offsets, MT_I32, 3),
                                       .y = mt_tensor_2d(y, MT_F32, 3, 2)};
    assert_int_equal(mt_grouped_sum(test->device, &args), MT_OK);
    // Row 0: 2·(1,2) by w0, no pair. Row 1: 2·(3,4) by w1, and 0.5·4·2·20 where the mask keeps. Row 2:
    // nobody's.
    assert_memory_equal(y, ((float[]){6, 0, 24, 6 + 80, 7, 8}), sizeof y);
    args.experts = 1;
    args.offsets.rank = 0;
    args.beta = 1.0f;
    terms[1].weight = pair + 1;
    assert_int_equal(mt_grouped_sum(test->device, &args), MT_OK);
    assert_memory_equal(y, ((float[]){6 + 6 + 20, 0 + 0 + 40, 24 + 14, 86 + 4 + 80, 7 + 22, 8 + 8}),
                        sizeof y);
}

static void test_refusals(void **state)
{
    struct op_test *test = *state;
    static float memory[64];
    static int32_t bits[8];
    struct mt_tensor weight = mt_tensor_2d(memory, MT_F32, 2, 3);
    struct mt_product_term term = {.x = mt_tensor_2d(memory + 8, MT_F32, 4, 3),
                                   .weight = &weight,
                                   .transpose_weight = true,
                                   .alpha = 1.0f};
    struct mt_grouped_sum_args args = {
        .terms = &term, .count = 1, .experts = 1, .y = mt_tensor_2d(memory + 32, MT_F32, 4, 2)};
    assert_int_equal(mt_grouped_sum(test->device, &args), MT_OK);
    args.count = 7;
    op_test_refused(test, mt_grouped_sum(test->device, &args), MT_ERR_USAGE, "count is 7");
    args.count = 0;
    op_test_refused(test, mt_grouped_sum(test->device, &args), MT_ERR_USAGE, "count is 0");
    args.count = 1;
    args.terms = NULL;
    op_test_refused(test, mt_grouped_sum(test->device, &args), MT_ERR_USAGE, "terms are missing");
    args.terms = &term;
    args.experts = 2;
    op_test_refused(test, mt_grouped_sum(test->device, &args), MT_ERR_USAGE, "experts is 2");
    args.experts = 1;
    term.alpha = 0.0f;
    op_test_refused(test, mt_grouped_sum(test->device, &args), MT_ERR_USAGE, "term 0: alpha is 0");
    term.alpha = 1.0f;
    term.mask_y = mt_tensor_2d(bits, MT_I32, 4, 1);
    op_test_refused(test, mt_grouped_sum(test->device, &args), MT_ERR_USAGE, "mask_scale is 0");
    term.mask_scale = 1.0f;
    term.mask_y.dim[1] = 2;
    op_test_refused(test, mt_grouped_sum(test->device, &args), MT_ERR_SHAPE, "mask_y is");
    term.mask_y = mt_tensor_2d(memory, MT_F32, 4, 1);
    op_test_refused(test, mt_grouped_sum(test->device, &args), MT_ERR_DTYPE, "mask_y is");
    term.mask_y.rank = 0;
    term.transpose_weight = false;
    op_test_refused(test, mt_grouped_sum(test->device, &args), MT_ERR_SHAPE, "weight[0] is");
}

int main(void)
{
    const struct CMUnitTest tests[] = {ON_REF(test_by_hand), ON_CPU(test_by_hand), ON_CPU(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
