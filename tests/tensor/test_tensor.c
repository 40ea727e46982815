/* Tensor views: construction, slicing, contiguity, description. */
// cmocka.h needs these before it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "metier/tensor.h"

static void test_construction(void **state)
{
    (void)state;
    float data[24];
    struct mt_tensor cube = mt_tensor_3d(data, MT_F32, 2, 3, 4);
    assert_int_equal(cube.rank, 3);
    assert_int_equal(cube.stride[0], 12);
    assert_int_equal(cube.stride[1], 4);
    assert_int_equal(cube.stride[2], 1);
    assert_int_equal(mt_tensor_count(&cube), 24);
    assert_true(mt_tensor_present(&cube));
    struct mt_tensor absent = {0};
    assert_false(mt_tensor_present(&absent));
    assert_int_equal(mt_tensor_count(&absent), 0);
    struct mt_tensor empty = mt_tensor_2d(NULL, MT_BF16, 0, 8);
    assert_true(mt_tensor_present(&empty));
    assert_int_equal(mt_tensor_count(&empty), 0);
}

static void test_slicing(void **state)
{
    (void)state;
    uint16_t data[24];
    struct mt_tensor cube = mt_tensor_3d(data, MT_BF16, 2, 3, 4);
    struct mt_tensor second = mt_tensor_at(&cube, 1);
    assert_int_equal(second.rank, 2);
    assert_ptr_equal(second.data, data + 12);
    assert_int_equal(second.dim[0], 3);
    assert_int_equal(second.stride[0], 4);

    struct mt_tensor rows = mt_tensor_rows(&second, 1, 2);
    assert_ptr_equal(rows.data, data + 16);
    assert_int_equal(rows.dim[0], 2);
    assert_true(mt_tensor_is_contiguous(&rows));

    struct mt_tensor columns = mt_tensor_columns(&second, 1, 2);
    assert_ptr_equal(columns.data, data + 13);
    assert_int_equal(columns.dim[1], 2);
    assert_int_equal(columns.stride[0], 4);
    assert_false(mt_tensor_is_contiguous(&columns));

    // Slices of slices keep the outer strides.
    struct mt_tensor corner = mt_tensor_rows(&columns, 2, 1);
    assert_ptr_equal(corner.data, data + 21);
    assert_true(mt_tensor_is_contiguous(&corner)); // one row has no gaps

    struct mt_tensor none = mt_tensor_rows(&second, 3, 0);
    assert_int_equal(mt_tensor_count(&none), 0);
    struct mt_tensor nowhere = mt_tensor_2d(NULL, MT_F32, 0, 4);
    assert_null(mt_tensor_columns(&nowhere, 2, 2).data);
}

static void test_contiguity_and_shape(void **state)
{
    (void)state;
    float data[24];
    struct mt_tensor a = mt_tensor_2d(data, MT_F32, 4, 6);
    assert_true(mt_tensor_is_contiguous(&a));
    struct mt_tensor single = a;
    single.dim[0] = 1;
    single.stride[0] = 100; // never used: there is one row
    assert_true(mt_tensor_is_contiguous(&single));
    struct mt_tensor padded = mt_tensor_columns(&a, 0, 5);
    assert_false(mt_tensor_is_contiguous(&padded));
    struct mt_tensor narrow = mt_tensor_2d(data, MT_BF16, 4, 5);
    assert_true(mt_tensor_same_shape(&padded, &narrow)); // types and strides may differ
    assert_false(mt_tensor_same_shape(&a, &narrow));
    struct mt_tensor flat = mt_tensor_1d(data, MT_F32, 24);
    assert_false(mt_tensor_same_shape(&a, &flat));
}

static void test_description(void **state)
{
    (void)state;
    char text[64];
    struct mt_tensor cube = mt_tensor_3d(NULL, MT_F16, 2, 0, 163840);
    assert_string_equal(mt_tensor_describe(&cube, text, sizeof text), "f16 [2, 0, 163840]");
    struct mt_tensor vector = mt_tensor_1d(NULL, MT_I32, 7);
    assert_string_equal(mt_tensor_describe(&vector, text, sizeof text), "i32 [7]");
    struct mt_tensor absent = {0};
    assert_string_equal(mt_tensor_describe(&absent, text, sizeof text), "absent");
    // Too small a buffer cuts the text and never writes past its end.
    for (size_t bytes = 0; bytes < 24; bytes++) {
        char small[32];
        memset(small, '#', sizeof small);
        const char *got = mt_tensor_describe(&cube, small, bytes);
        assert_true(bytes == 0 || strlen(got) < bytes);
        for (size_t i = bytes; i < sizeof small; i++) assert_int_equal(small[i], '#');
    }
}

static void test_types(void **state)
{
    (void)state;
    assert_string_equal(mt_dtype_name(MT_BF16), "bf16");
    assert_string_equal(mt_dtype_name((enum mt_dtype)99), "unknown type");
    assert_int_equal(mt_dtype_bytes(MT_F64), 8);
    assert_int_equal(mt_dtype_bytes(MT_F16), 2);
    assert_true(mt_dtype_is_float(MT_F64));
    assert_false(mt_dtype_is_float(MT_I32));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_construction),
        cmocka_unit_test(test_slicing),
        cmocka_unit_test(test_contiguity_and_shape),
        cmocka_unit_test(test_description),
        cmocka_unit_test(test_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
