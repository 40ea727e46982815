/*
 * Conversion between float types: every half value there and back, rounding against an oracle that looks
 * at the two neighbours of a number in double, arrays against single elements.
 */
// cmocka.h needs these before it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "base/rng.h"
#include "tensor/dtype.h"

#define HALVES 65536

static float widen(enum mt_dtype dtype, uint16_t half)
{
    return dtype == MT_BF16 ? mt_bf16_to_float(half) : mt_f16_to_float(half);
}

static uint16_t narrow(enum mt_dtype dtype, float value)
{
    return dtype == MT_BF16 ? mt_float_to_bf16(value) : mt_float_to_f16(value);
}

static uint16_t narrow_double(enum mt_dtype dtype, double value)
{
    uint16_t half = 0;
    mt_store(dtype, &half, 0, value);
    return half;
}

/* The value of a half, from its fields, in double: an oracle that shares no code with the product. */
static double half_value(enum mt_dtype dtype, uint16_t half)
{
    int mantissa_bits = dtype == MT_BF16 ? 7 : 10;
    int bias = dtype == MT_BF16 ? 127 : 15;
    int full = dtype == MT_BF16 ? 255 : 31;
    int exponent = (half & 0x7FFF) >> mantissa_bits;
    int mantissa = half & ((1 << mantissa_bits) - 1);
    double sign = half & 0x8000 ? -1.0 : 1.0;
    if (exponent == full) return mantissa != 0 ? (double)NAN : sign * (double)INFINITY;
    if (exponent == 0) return sign * ldexp(mantissa, 1 - bias - mantissa_bits);
    return sign * ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

/*
 * Nearest half, ties to even, of a finite value: walks up from a half known to be below by bisection over
 * the bit patterns, which order as the magnitudes do.
 */
static uint16_t nearest_half(enum mt_dtype dtype, double value)
{
    uint16_t infinity = dtype == MT_BF16 ? 0x7F80 : 0x7C00;
    double magnitude = fabs(value);
    int low = 0;
    int high = infinity;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (half_value(dtype, (uint16_t)middle) <= magnitude) {
            low = middle;
        } else {
            high = middle;
        }
    }
    // Past the largest number the next one would be as far away again, were there one.
    double below = half_value(dtype, (uint16_t)low);
    double above = high == infinity ? below + (below - half_value(dtype, (uint16_t)(low - 1)))
                                    : half_value(dtype, (uint16_t)high);
    double middle = below + (above - below) / 2; // exact in double
    int chosen = magnitude < middle || (magnitude == middle && low % 2 == 0) ? low : high;
    return (uint16_t)(chosen | (signbit(value) ? 0x8000 : 0));
}

static void every_half(enum mt_dtype dtype)
{
    uint16_t quiet_bit = dtype == MT_BF16 ? 0x0040 : 0x0200;
    for (uint32_t i = 0; i < HALVES; i++) {
        uint16_t half = (uint16_t)i;
        float wide = widen(dtype, half);
        double expected = half_value(dtype, half);
        if (isnan(expected)) {
            assert_true(isnan(wide));
            assert_int_equal(narrow(dtype, wide), half | quiet_bit); // payload kept, quieted
        } else {
            assert_true((double)wide == expected && !signbit(wide) == !signbit(expected));
            assert_int_equal(narrow(dtype, wide), half);
            assert_int_equal(narrow_double(dtype, expected), half);
        }
    }
}

static void test_every_half(void **state)
{
    (void)state;
    every_half(MT_BF16);
    every_half(MT_F16);
}

/* Between every half and the next: the tie, and one f32 (and one double) step to either side of it. */
static void ties(enum mt_dtype dtype)
{
    uint16_t infinity = dtype == MT_BF16 ? 0x7F80 : 0x7C00;
    for (uint32_t i = 0; i < infinity; i++) {
        double below = half_value(dtype, (uint16_t)i);
        double above = i + 1u == infinity ? below + (below - half_value(dtype, (uint16_t)(i - 1)))
                                          : half_value(dtype, (uint16_t)(i + 1));
        double tie = below + (above - below) / 2;
        uint16_t even = (uint16_t)(i % 2 == 0 ? i : i + 1);
        float tie_float = (float)tie; // exact: one more mantissa bit than a half has
        // bf16's smallest numbers are f32's: a tie below f32's last digit exists in double only.
        if ((double)tie_float == tie) {
            assert_int_equal(narrow(dtype, tie_float), even);
            assert_int_equal(narrow(dtype, -tie_float), even | 0x8000);
            assert_int_equal(narrow(dtype, nextafterf(tie_float, 0.0f)), i);
            assert_int_equal(narrow(dtype, nextafterf(tie_float, INFINITY)), i + 1);
        }
        assert_int_equal(narrow_double(dtype, tie), even);
        // One double step off a tie: rounding through f32 first would land on the tie and go to even.
        assert_int_equal(narrow_double(dtype, nextafter(tie, 0.0)), i);
        assert_int_equal(narrow_double(dtype, nextafter(tie, (double)INFINITY)), i + 1);
    }
}

static void test_ties(void **state)
{
    (void)state;
    ties(MT_BF16);
    ties(MT_F16);
}

static void test_random_floats(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 400000; i++) {
        float value = mt_float_from_bits(mt_rng_u32(1, 2, i));
        if (!isfinite(value)) continue;
        assert_int_equal(mt_float_to_bf16(value), nearest_half(MT_BF16, (double)value));
        assert_int_equal(mt_float_to_f16(value), nearest_half(MT_F16, (double)value));
    }
}

static void test_range(void **state)
{
    (void)state;
    assert_int_equal(mt_float_to_f16(65504.0f), 0x7BFF);
    assert_int_equal(mt_float_to_f16(65519.996f), 0x7BFF);
    assert_int_equal(mt_float_to_f16(65520.0f), 0x7C00);
    assert_int_equal(mt_float_to_f16(-1e30f), 0xFC00);
    assert_int_equal(mt_float_to_f16(-INFINITY), 0xFC00);
    assert_int_equal(mt_float_to_f16(0x1p-24f), 0x0001);
    assert_int_equal(mt_float_to_f16(0x1p-25f), 0x0000); // a tie, to even
    assert_int_equal(mt_float_to_f16(-0x1p-149f), 0x8000);
    assert_int_equal(mt_float_to_bf16(3.4028235e38f), 0x7F80);
    assert_int_equal(mt_float_to_bf16(-INFINITY), 0xFF80);
    assert_int_equal(narrow_double(MT_BF16, 1e300), 0x7F80);
    assert_int_equal(narrow_double(MT_F16, -1e300), 0xFC00);
    assert_int_equal(narrow_double(MT_F16, 1e-300), 0x0000);
    assert_true(isnan(mt_bf16_to_float(mt_float_to_bf16(NAN))));
    assert_true(isnan(mt_f16_to_float(mt_float_to_f16(NAN))));
    // A NaN whose payload lies in the bits that are cut off must not become infinity.
    assert_true(isnan(mt_bf16_to_float(mt_float_to_bf16(mt_float_from_bits(0x7F800001u)))));
    assert_true(isnan(mt_f16_to_float(mt_float_to_f16(mt_float_from_bits(0x7F800001u)))));
}

static void test_arrays(void **state)
{
    (void)state;
    static const enum mt_dtype halves[] = {MT_BF16, MT_F16};
    static uint16_t source[HALVES];
    static uint16_t back[HALVES];
    static float wide[HALVES];
    for (int type = 0; type < 2; type++) {
        for (uint32_t i = 0; i < HALVES; i++) source[i] = (uint16_t)i;
        mt_convert_to_f32(halves[type], source, HALVES, wide);
        for (uint32_t i = 0; i < HALVES; i++) {
            assert_int_equal(mt_float_bits(wide[i]), mt_float_bits(widen(halves[type], source[i])));
            wide[i] = mt_float_from_bits(mt_rng_u32(3, 4, i));
        }
        mt_convert_from_f32(wide, HALVES, halves[type], back);
        for (uint32_t i = 0; i < HALVES; i++) assert_int_equal(back[i], narrow(halves[type], wide[i]));
    }
    double doubles[] = {1.0, -2.5, 1e300};
    float floats[3];
    mt_convert_to_f32(MT_F64, doubles, 3, floats);
    assert_true(floats[0] == 1.0f && floats[1] == -2.5f && isinf(floats[2]));
    mt_convert_from_f32(floats, 2, MT_F64, doubles);
    assert_true(doubles[0] == 1.0 && doubles[1] == -2.5);
    float copied[3] = {0};
    mt_convert_to_f32(MT_F32, floats, 3, copied);
    assert_memory_equal(copied, floats, sizeof floats);
    mt_convert_from_f32(floats, 3, MT_F32, copied);
    assert_memory_equal(copied, floats, sizeof floats);
}

static void test_empty_arrays(void **state)
{
    (void)state;
    for (int type = 0; type < MT_DTYPE_COUNT; type++) {
        if (!mt_dtype_is_float((enum mt_dtype)type)) continue;
        mt_convert_to_f32((enum mt_dtype)type, NULL, 0, NULL);
        mt_convert_from_f32(NULL, 0, (enum mt_dtype)type, NULL);
    }
}

static void test_load_store(void **state)
{
    (void)state;
    int32_t integers[] = {0, 0};
    mt_store(MT_I32, integers, 1, -2147483648.0);
    assert_true(mt_load(MT_I32, integers, 1) == -2147483648.0);
    float floats[] = {0, 0};
    mt_store(MT_F32, floats, 1, 0.1);
    assert_true(mt_load(MT_F32, floats, 1) == (double)0.1f);
    double doubles[] = {0, 0};
    mt_store(MT_F64, doubles, 1, 0.1);
    assert_true(mt_load(MT_F64, doubles, 1) == 0.1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_half),    cmocka_unit_test(test_ties),
        cmocka_unit_test(test_random_floats), cmocka_unit_test(test_range),
        cmocka_unit_test(test_arrays),        cmocka_unit_test(test_empty_arrays),
        cmocka_unit_test(test_load_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
