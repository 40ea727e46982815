/* The ops of LoRA pairs: hand-computed values and refusals. Small integers, so that sums are exact. */
#include <math.h>

#include "ops/op_test.h"

/* Two linears of one x, two experts of one row each, a third row that is nobody's. */
static void test_by_hand(void **state)
{
    struct op_test *test = *state;
    float x[] = {1, 2, 3, 4, 5, 6};
    int32_t mask[] = {3, 2, 3}; // of the two columns: both, the second, both
    int32_t offsets[] = {0, 1, 2};
    float a0[] = {1, 1};       // [1,2], of both experts
    float a1[] = {1, 0, 0, 1}; // [2,2], of the second expert alone
    float xa0[] = {NAN, NAN, 7};
    float xa1[] = {NAN, NAN, NAN, NAN, 8, 9};
    struct mt_tensor first[] = {mt_tensor_2d(a0, MT_F32, 1, 2), mt_tensor_2d(a0, MT_F32, 1, 2)};
    struct mt_tensor second[] = {{0}, mt_tensor_2d(a1, MT_F32, 2, 2)};
    struct mt_lora_xa_args xa = {.x = mt_tensor_2d(x, MT_F32, 3, 2),
                                 .mask = mt_tensor_2d(mask, MT_I32, 3, 1),
                                 .mask_scale = 2.0f,
                                 .linears = 2,
                                 .a = {first, second},
                                 .alpha = 3.0f,
                                 .xa = {mt_tensor_2d(xa0, MT_F32, 3, 1), mt_tensor_2d(xa1, MT_F32, 3, 2)},
                                 .experts = 2,
                                 .offsets = mt_tensor_1d(offsets, MT_I32, 3)};
    assert_int_equal(mt_lora_xa(test->device, &xa), MT_OK);
    assert_memory_equal(xa0, ((float[]){3 * 2 * 3, 3 * 2 * 4, 7}), sizeof xa0);
    assert_memory_equal(xa1, ((float[]){0, 0, 0, 3 * 2 * 4, 8, 9}), sizeof xa1);
    float dxa0[] = {1, 10, 100};
    float dxa1[] = {1, 2, 3, 4, 5, 6};
    float da0[] = {1, 1};
    float da1[] = {0, 0, 0, 1};
    struct mt_tensor dfirst[] = {mt_tensor_2d(da0, MT_F32, 1, 2), {0}};
    struct mt_tensor dsecond[] = {{0}, mt_tensor_2d(da1, MT_F32, 2, 2)};
    struct mt_lora_da_args da = {.x = xa.x,
                                 .mask = xa.mask,
                                 .mask_scale = 2.0f,
                                 .linears = 2,
                                 .dxa = {mt_tensor_2d(dxa0, MT_F32, 3, 1), mt_tensor_2d(dxa1, MT_F32, 3, 2)},
                                 .da = {dfirst, dsecond},
                                 .experts = 2,
                                 .offsets = xa.offsets};
    assert_int_equal(mt_lora_da(test->device, &da), MT_OK);
    assert_memory_equal(da0, ((float[]){1 + 2, 1 + 4}), sizeof da0);
    assert_memory_equal(da1, ((float[]){0, 3 * 8, 0, 1 + 4 * 8}), sizeof da1);
}

static void test_pair_gradient(void **state)
{
    struct op_test *test = *state;
    float dy[] = {1, 2, 3, 4}; // [2,2]
    float xa[] = {5, 6};       // [2,1]
    float b[] = {10, 100};     // [2,1]
    float db[] = {1, 1};
    float dxa[] = {NAN, NAN};
    float unlearned[] = {NAN, NAN};
    struct mt_tensor weight = mt_tensor_2d(b, MT_F32, 2, 1);
    struct mt_tensor gradient = mt_tensor_2d(db, MT_F32, 2, 1);
    struct mt_lora_dxa_args args = {.linears = 2,
                                    .linear = {{.dy = mt_tensor_2d(dy, MT_F32, 2, 2),
                                                .xa = mt_tensor_2d(xa, MT_F32, 2, 1),
                                                .b = &weight,
                                                .db = &gradient,
                                                .scale = 2.0f,
                                                .db_scale = 3.0f,
                                                .dxa = mt_tensor_2d(dxa, MT_F32, 2, 1)},
                                               {.dy = mt_tensor_2d(dy, MT_F32, 2, 2),
                                                .b = &weight,
                                                .scale = 1.0f,
                                                .dxa = mt_tensor_2d(unlearned, MT_F32, 2, 1)}},
                                    .experts = 1};
    assert_int_equal(mt_lora_dxa(test->device, &args), MT_OK);
    assert_memory_equal(dxa, ((float[]){420, 860}), sizeof dxa);
    assert_memory_equal(unlearned, ((float[]){210, 430}), sizeof unlearned);
    assert_memory_equal(db, ((float[]){1 + 3 * (5 + 18), 1 + 3 * (10 + 24)}), sizeof db);
}

static void test_xa_refusals(void **state)
{
    struct op_test *test = *state;
    static float memory[64];
    static int32_t bits[8];
    struct mt_tensor a = mt_tensor_2d(memory, MT_F32, 2, 3);
    struct mt_lora_xa_args args = {.x = mt_tensor_2d(memory + 8, MT_F32, 4, 3),
                                   .linears = 1,
                                   .a = {&a},
                                   .alpha = 1.0f,
                                   .xa = {mt_tensor_2d(memory + 32, MT_F32, 4, 2)},
                                   .experts = 1};
    assert_int_equal(mt_lora_xa(test->device, &args), MT_OK);
    args.linears = 0;
    op_test_refused(test, mt_lora_xa(test->device, &args), MT_ERR_USAGE, "linears is 0");
    args.linears = 4;
    op_test_refused(test, mt_lora_xa(test->device, &args), MT_ERR_USAGE, "linears is 4, expected 1 to 3");
    args.linears = 2;
    op_test_refused(test, mt_lora_xa(test->device, &args), MT_ERR_USAGE, "linear 1: xa is missing");
    args.xa[1] = args.xa[0];
    op_test_refused(test, mt_lora_xa(test->device, &args), MT_ERR_USAGE, "linear 1: a is missing");
    args.linears = 1;
    args.alpha = 0.0f;
    op_test_refused(test, mt_lora_xa(test->device, &args), MT_ERR_USAGE, "alpha is 0");
    args.alpha = 1.0f;
    args.mask = mt_tensor_2d(bits, MT_I32, 4, 1);
    op_test_refused(test, mt_lora_xa(test->device, &args), MT_ERR_USAGE, "mask_scale is 0");
    args.mask.dim[1] = 2;
    op_test_refused(test, mt_lora_xa(test->device, &args), MT_ERR_SHAPE, "mask is");
    args.mask.rank = 0;
    args.experts = 2;
    op_test_refused(test, mt_lora_xa(test->device, &args), MT_ERR_USAGE, "experts is 2");
    args.experts = 1;
    args.exact = true;
    args.offsets = mt_tensor_1d(bits, MT_I32, 2);
    op_test_refused(test, mt_lora_xa(test->device, &args), MT_ERR_USAGE, "takes no offsets");
    args.offsets.rank = 0;
    args.xa[0].dim[1] = 1;
    op_test_refused(test, mt_lora_xa(test->device, &args), MT_ERR_SHAPE, "linear 0: a[0] is");
}

static void test_gradient_refusals(void **state)
{
    struct op_test *test = *state;
    static float memory[64];
    struct mt_tensor b = mt_tensor_2d(memory, MT_F32, 3, 2);
    struct mt_tensor db = mt_tensor_2d(memory + 8, MT_F32, 3, 2);
    struct mt_lora_dxa_args dxa = {.linears = 1,
                                   .linear = {{.dy = mt_tensor_2d(memory + 16, MT_F32, 4, 3),
                                               .b = &b,
                                               .scale = 1.0f,
                                               .dxa = mt_tensor_2d(memory + 32, MT_F32, 4, 2)}},
                                   .experts = 1};
    assert_int_equal(mt_lora_dxa(test->device, &dxa), MT_OK);
    dxa.linear[0].db = &db;
    op_test_refused(test, mt_lora_dxa(test->device, &dxa), MT_ERR_USAGE, "linear 0: db_scale is 0");
    dxa.linear[0].db_scale = 1.0f;
    op_test_refused(test, mt_lora_dxa(test->device, &dxa), MT_ERR_USAGE, "linear 0: xa is missing");
    dxa.linear[0].xa = mt_tensor_2d(memory + 48, MT_F32, 4, 2);
    assert_int_equal(mt_lora_dxa(test->device, &dxa), MT_OK);
    db.dim[0] = 2;
    op_test_refused(test, mt_lora_dxa(test->device, &dxa), MT_ERR_SHAPE, "linear 0: db[0] is");
    dxa.linear[0].scale = 0.0f;
    op_test_refused(test, mt_lora_dxa(test->device, &dxa), MT_ERR_USAGE, "linear 0: scale is 0");
    dxa.linear[0].b = NULL;
    op_test_refused(test, mt_lora_dxa(test->device, &dxa), MT_ERR_USAGE, "linear 0: b is missing");
    dxa.linears = 2;
    dxa.linear[0].dxa.dim[0] = 3;
    op_test_refused(test, mt_lora_dxa(test->device, &dxa), MT_ERR_SHAPE, "linear 0: dy is");
    struct mt_tensor da = mt_tensor_2d(memory, MT_F32, 2, 3);
    struct mt_lora_da_args args = {.x = mt_tensor_2d(memory + 16, MT_F32, 4, 3),
                                   .linears = 1,
                                   .dxa = {mt_tensor_2d(memory + 32, MT_F32, 4, 2)},
                                   .da = {&da},
                                   .experts = 1};
    assert_int_equal(mt_lora_da(test->device, &args), MT_OK);
    da.dtype = MT_BF16;
    op_test_refused(test, mt_lora_da(test->device, &args), MT_ERR_DTYPE, "linear 0: da[0] is");
    args.da[0] = NULL;
    op_test_refused(test, mt_lora_da(test->device, &args), MT_ERR_USAGE, "linear 0: da is missing");
    args.dxa[0].dim[0] = 5;
    op_test_refused(test, mt_lora_da(test->device, &args), MT_ERR_SHAPE, "linear 0: dxa is");
}

int main(void)
{
    const struct CMUnitTest tests[] = {ON_REF(test_by_hand),       ON_CPU(test_by_hand),
                                       ON_REF(test_pair_gradient), ON_CPU(test_pair_gradient),
                                       ON_CPU(test_xa_refusals),   ON_CPU(test_gradient_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
