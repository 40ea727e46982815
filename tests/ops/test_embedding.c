/* embedding: refusals, and values small enough to see. */
#include "ops/op_test.h"

static void test_values(void **state)
{
    struct op_test *test = *state;
    float table[] = {1, 2, 3, 4, 5, 6};
    int32_t ids[] = {2, 0, 2};
    float y[6];
    struct mt_tensor id_tensor = mt_tensor_1d(ids, MT_I32, 3);
    struct mt_embedding_forward_args forward = {
        .table = mt_tensor_2d(table, MT_F32, 3, 2), .ids = id_tensor, .y = mt_tensor_2d(y, MT_F32, 3, 2)};
    assert_int_equal(mt_embedding_forward(test->device, &forward), MT_OK);
    const float expected[] = {5, 6, 1, 2, 5, 6};
    assert_memory_equal(y, expected, sizeof expected);

    float dtable[] = {10, 20, 30, 40, 50, 60};
    struct mt_embedding_backward_args backward = {
        .dy = mt_tensor_2d(y, MT_F32, 3, 2), .ids = id_tensor, .dtable = mt_tensor_2d(dtable, MT_F32, 3, 2)};
    assert_int_equal(mt_embedding_backward(test->device, &backward), MT_OK);
    const float summed[] = {11, 22, 30, 40, 60, 72};
    assert_memory_equal(dtable, summed, sizeof summed);
}

static void test_refusals(void **state)
{
    struct op_test *test = *state;
    float data[6] = {0};
    int32_t ids[] = {0, 3, 1};
    struct mt_embedding_forward_args args = {.table = mt_tensor_2d(data, MT_F32, 3, 2),
                                             .ids = mt_tensor_1d(ids, MT_I32, 3),
                                             .y = mt_tensor_2d(data, MT_F32, 3, 2)};
    op_test_refused(test, mt_embedding_forward(test->device, &args), MT_ERR_USAGE,
                    "ids holds 3 at element 1, expected 0 to 2");
    ids[1] = -1;
    op_test_refused(test, mt_embedding_forward(test->device, &args), MT_ERR_USAGE, "ids holds -1");
    ids[1] = 1;
    args.y.dim[1] = 1;
    op_test_refused(test, mt_embedding_forward(test->device, &args), MT_ERR_SHAPE, "y is f32 [3, 1]");
    args.ids.dtype = MT_F32;
    op_test_refused(test, mt_embedding_forward(test->device, &args), MT_ERR_DTYPE, "ids is");

    struct mt_embedding_backward_args back = {.dy = mt_tensor_2d(data, MT_F32, 3, 2),
                                              .ids = mt_tensor_1d(ids, MT_I32, 3),
                                              .dtable = mt_tensor_2d(data, MT_BF16, 3, 2)};
    op_test_refused(test, mt_embedding_backward(test->device, &back), MT_ERR_DTYPE, "dtable is");
    back.dtable = mt_tensor_2d(data, MT_F32, 1, 2);
    op_test_refused(test, mt_embedding_backward(test->device, &back), MT_ERR_USAGE, "ids holds 1");
    back.dy = (struct mt_tensor){0};
    op_test_refused(test, mt_embedding_backward(test->device, &back), MT_ERR_USAGE, "dy is missing");
}

int main(void)
{
    const struct CMUnitTest tests[] = {ON_REF(test_values), ON_CPU(test_values), ON_CPU(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
