/*
 * The error of the vectorisable math, in units in the last place, against libm in double; compiled here
 * without fused multiply-add, which only makes it smaller.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <stdio.h>

#include "ops/cpu/simd.h"
#include "ops/cpu/vector_math.h"

#define EXP_ULP     2.0 // what simd.h and vector_math.h state
#define SIGMOID_ULP 4.0 // what vector_math.h states

/* The distance between neighbouring floats at |value|; subnormals are 2^-149 apart. */
static double ulp_at(double value)
{
    int exponent;
    (void)frexp(fabs(value), &exponent);
    return ldexp(1.0, exponent - 24 < -149 ? -149 : exponent - 24);
}

static double error_in_ulp(float got, double expected)
{
    return fabs((double)got - expected) / ulp_at(expected);
}

/* Worst error over every `step`-th float of one sign from 0 to `limit`. */
static double worst_exp(float limit, uint32_t step)
{
    double worst = 0.0;
    uint32_t sign = mt_float_bits(limit) & 0x80000000u;
    uint32_t last = mt_float_bits(limit) & 0x7FFFFFFFu;
    for (uint32_t bits = 0; bits <= last; bits += step) {
        float x = mt_float_from_bits(sign | bits);
        double error = error_in_ulp(simd_exp(x), exp((double)x));
        if (error > worst) worst = error;
    }
    return worst;
}

static void exp_is_within_its_stated_error(void **state)
{
    (void)state;
    double positive = worst_exp(88.7f, 331);
    double negative = worst_exp(-87.3f, 331);
    double subnormal = 0.0;
    for (int i = 0; i < 1660000; i++) {
        float x = -103.9f + 1e-5f * (float)i;
        double error = error_in_ulp(simd_exp(x), exp((double)x));
        if (error > subnormal) subnormal = error;
    }
    printf("simd_exp: worst error %.3f ulp above 0, %.3f below, %.3f among the subnormals\n", positive,
           negative, subnormal);
    assert_true(positive <= EXP_ULP);
    assert_true(negative <= EXP_ULP);
    assert_true(subnormal <= EXP_ULP);
}

static void exp_at_the_ends(void **state)
{
    (void)state;
    assert_true(simd_exp(0.0f) == 1.0f);
    assert_true(simd_exp(-0.0f) == 1.0f);
    assert_true(simd_exp(1e-30f) == 1.0f);
    assert_true(isfinite(simd_exp(88.72283f)));
    assert_true(isinf(simd_exp(88.73f)));
    assert_true(isinf(simd_exp(1000.0f)));
    assert_true(isinf(simd_exp(FLT_MAX)));
    assert_true(isinf(simd_exp(INFINITY)) && simd_exp(INFINITY) > 0.0f);
    assert_true(simd_exp(-87.0f) >= FLT_MIN);
    assert_true(simd_exp(-103.0f) > 0.0f);
    assert_true(simd_exp(-103.0f) < FLT_MIN);
    assert_true(simd_exp(-104.0f) == 0.0f);
    assert_true(simd_exp(-FLT_MAX) == 0.0f);
    assert_true(simd_exp(-INFINITY) == 0.0f);
    assert_true(isnan(simd_exp(NAN)));
    assert_true(isnan(simd_exp(-NAN)));
}

static void exp_never_falls(void **state)
{
    (void)state;
    float before = 0.0f;
    for (int i = 0; i < 193000; i++) {
        float value = simd_exp(-104.0f + 1e-3f * (float)i);
        assert_true(value >= before);
        before = value;
    }
}

static void sigmoid_at_the_ends(void **state)
{
    (void)state;
    assert_true(simd_sigmoid(0.0f) == 0.5f);
    assert_true(simd_sigmoid(INFINITY) == 1.0f);
    assert_true(simd_sigmoid(-INFINITY) == 0.0f);
    assert_true(simd_sigmoid(200.0f) == 1.0f);
    assert_true(simd_sigmoid(-200.0f) == 0.0f);
    assert_true(isnan(simd_sigmoid(NAN)));
    for (int i = -80000; i < 80000; i++) {
        float x = 1e-3f * (float)i;
        assert_true(error_in_ulp(simd_sigmoid(x), 1.0 / (1.0 + exp(-(double)x))) <= EXP_ULP + 2.0);
    }
}

/* The vector functions on one number: every lane must give the same. */
static float in_every_lane(void (*function)(vector_f32 *x), float value)
{
    vector_f32 x[VECTORS_TOGETHER];
    for (int i = 0; i < VECTORS_TOGETHER; i++) x[i] = (vector_f32){0} + value;
    function(x);
    for (int i = 0; i < VECTORS_TOGETHER; i++) {
        for (int lane = 0; lane < VECTOR_LANES; lane++) {
            assert_int_equal(mt_float_bits(x[i][lane]), mt_float_bits(x[0][0]));
        }
    }
    return x[0][0];
}

static void exp_of_vectors(vector_f32 *x)
{
    vectors_exp_nonpositive(x);
}

static void sigmoid_of_vectors(vector_f32 *x)
{
    vectors_sigmoid(x);
}

static void vector_exp_is_within_its_stated_error(void **state)
{
    (void)state;
    double worst = 0.0;
    for (uint32_t bits = 0; bits <= mt_float_bits(87.0f); bits += 3331) {
        float x = -mt_float_from_bits(bits);
        double error = error_in_ulp(in_every_lane(exp_of_vectors, x), exp((double)x));
        if (error > worst) worst = error;
    }
    printf("vectors_exp_nonpositive: worst error %.3f ulp\n", worst);
    assert_true(worst <= EXP_ULP);
    assert_true(in_every_lane(exp_of_vectors, 0.0f) == 1.0f);
    assert_true(in_every_lane(exp_of_vectors, -0.0f) == 1.0f);
    assert_true(in_every_lane(exp_of_vectors, -88.0f) == 0.0f);
    assert_true(in_every_lane(exp_of_vectors, -1000.0f) == 0.0f);
    assert_true(in_every_lane(exp_of_vectors, -FLT_MAX) == 0.0f);
    assert_true(in_every_lane(exp_of_vectors, -INFINITY) == 0.0f);
    assert_true(isnan(in_every_lane(exp_of_vectors, NAN)));
    assert_true(isnan(in_every_lane(exp_of_vectors, -NAN)));
}

static void vector_sigmoid_is_within_its_stated_error(void **state)
{
    (void)state;
    double worst = 0.0;
    for (int i = -86000; i < 86000; i++) {
        float x = 1e-3f * (float)i;
        double error = error_in_ulp(in_every_lane(sigmoid_of_vectors, x), 1.0 / (1.0 + exp(-(double)x)));
        if (error > worst) worst = error;
    }
    printf("vectors_sigmoid: worst error %.3f ulp\n", worst);
    assert_true(worst <= SIGMOID_ULP);
    assert_true(in_every_lane(sigmoid_of_vectors, 0.0f) == 0.5f);
    assert_true(in_every_lane(sigmoid_of_vectors, INFINITY) == 1.0f);
    assert_true(in_every_lane(sigmoid_of_vectors, -INFINITY) == 0.0f);
    assert_true(in_every_lane(sigmoid_of_vectors, 200.0f) == 1.0f);
    assert_true(in_every_lane(sigmoid_of_vectors, -200.0f) == 0.0f);
    assert_true(isnan(in_every_lane(sigmoid_of_vectors, NAN)));
    assert_true(isnan(in_every_lane(sigmoid_of_vectors, -NAN)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_within_its_stated_error),
        cmocka_unit_test(exp_at_the_ends),
        cmocka_unit_test(exp_never_falls),
        cmocka_unit_test(sigmoid_at_the_ends),
        cmocka_unit_test(vector_exp_is_within_its_stated_error),
        cmocka_unit_test(vector_sigmoid_is_within_its_stated_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
