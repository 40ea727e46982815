/*
 * Quantised matrices on the host: what every code stands for, against values computed from its fields in
 * double; what numbers become which code, on boundaries and beside them; blocks that end early; numbers that
 * no format has.
 */
// cmocka.h needs these before it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "tensor/quantised.h"

static const struct {
    enum mt_quantised_format format;
    bool nested;
} kinds[] = {{MT_QUANTISED_FP8, false},
             {MT_QUANTISED_INT8, false},
             {MT_QUANTISED_NF4, false},
             {MT_QUANTISED_NF4, true},
             {MT_QUANTISED_MXFP4, false}};

#define KINDS (sizeof kinds / sizeof kinds[0])

/* A matrix with memory of its own; free_matrix frees it. */
static struct mt_quantised new_matrix(enum mt_quantised_format format, bool nested, int64_t out, int64_t in)
{
    struct mt_quantised matrix = mt_quantised_shape(format, nested, out, in);
    struct mt_tensor *parts[MT_QUANTISED_TENSORS];
    mt_quantised_each(&matrix, parts);
    for (int i = 0; i < MT_QUANTISED_TENSORS; i++) {
        size_t bytes = (size_t)mt_tensor_count(parts[i]) * mt_dtype_bytes(parts[i]->dtype);
        if (bytes == 0) continue;
        parts[i]->data = malloc(bytes);
        assert_non_null(parts[i]->data);
        memset(parts[i]->data, 0xAB, bytes);
    }
    if (nested) mt_nf4_nested_map(matrix.nested_map.data);
    return matrix;
}

static void free_matrix(struct mt_quantised *matrix)
{
    struct mt_tensor *parts[MT_QUANTISED_TENSORS];
    mt_quantised_each(matrix, parts);
    for (int i = 0; i < MT_QUANTISED_TENSORS; i++) free(parts[i]->data);
}

// ------------------------------------------------------------------ single codes

/* E4M3 from its fields. */
static double fp8_value(int code)
{
    int exponent = code >> 3 & 15;
    int mantissa = code & 7;
    double value = exponent == 0 ? ldexp(mantissa, -9) : ldexp(8 + mantissa, exponent - 10);
    return code & 0x80 ? -value : value;
}

static void fp8_codes(void **state)
{
    (void)state;
    for (int code = 0; code < 256; code++) {
        float value = mt_fp8_to_float((uint8_t)code);
        if ((code & 0x7F) == 0x7F) {
            assert_true(isnan(value));
            assert_int_equal(mt_float_to_fp8(value) & 0x7F, 0x7F);
            continue;
        }
        assert_true((double)value == fp8_value(code));
        assert_int_equal(signbit(value) != 0, code >= 128);
        assert_int_equal(mt_float_to_fp8(value), code);
    }
    assert_true(mt_fp8_to_float(0x7E) == 448.0f);
    assert_int_equal(mt_float_to_fp8(1e30f), 0x7E);
    assert_int_equal(mt_float_to_fp8(-INFINITY), 0xFE);
}

/* Between neighbours: up to the middle the lower one, or the even one exactly there. */
static void fp8_rounding(void **state)
{
    (void)state;
    for (int code = 0; code < 0x7E; code++) {
        float low = (float)fp8_value(code);
        float high = (float)fp8_value(code + 1);
        float middle = (low + high) / 2.0f; // exact
        assert_int_equal(mt_float_to_fp8(nextafterf(middle, 0.0f)), code);
        assert_int_equal(mt_float_to_fp8(middle), code % 2 == 0 ? code : code + 1);
        assert_int_equal(mt_float_to_fp8(nextafterf(middle, 1e9f)), code + 1);
        assert_int_equal(mt_float_to_fp8(-nextafterf(middle, 1e9f)), 0x80 | (code + 1));
    }
}

static void e8m0_codes(void **state)
{
    (void)state;
    for (int code = 0; code < 255; code++)
        assert_true((double)mt_e8m0_to_float((uint8_t)code) == ldexp(1.0, code - 127));
    assert_true(isnan(mt_e8m0_to_float(255)));
}

static void nested_map(void **state)
{
    (void)state;
    float map[MT_NF4_NESTED_CODES];
    mt_nf4_nested_map(map);
    for (int i = 0; i + 1 < MT_NF4_NESTED_CODES; i++) assert_true(map[i] < map[i + 1]);
    assert_true(map[0] == -0.992968738079071f && map[127] == 0.0f && map[255] == 1.0f);
    assert_true(map[128] == 5.50000038e-7f && map[254] == 0.992968738079071f);
}

// ------------------------------------------------------------------ codes of numbers

/* The number of every nf4 code has that code; a boundary belongs to the lower one. */
static void nf4_codes(void **state)
{
    (void)state;
    float values[MT_NF4_BLOCK] = {0};
    for (int i = 0; i < 16; i++) values[i] = mt_nf4_values[i];
    for (int i = 0; i < 15; i++) {
        float boundary = (mt_nf4_values[i] + mt_nf4_values[i + 1]) / 2.0f;
        values[16 + 2 * i] = boundary;
        values[17 + 2 * i] = nextafterf(boundary, 2.0f);
    }
    struct mt_quantised matrix = new_matrix(MT_QUANTISED_NF4, false, 1, MT_NF4_BLOCK);
    assert_true(mt_quantise(MT_F32, values, &matrix));
    const uint8_t *codes = matrix.codes.data;
    assert_true(*(float *)matrix.scales.data == 1.0f);
    for (int i = 0; i < 8; i++) assert_int_equal(codes[i], 2 * i << 4 | (2 * i + 1));
    for (int i = 0; i < 15; i++) assert_int_equal(codes[8 + i], i << 4 | (i + 1));
    assert_int_equal(codes[31], 0x77); // zeros
    free_matrix(&matrix);
}

/* Three elements: half a byte is left over, and is the code of 0. The scale of no block is less than 1e-38.
 */
static void nf4_broken_block(void **state)
{
    (void)state;
    const float values[] = {-0.5f, 0.25f, 0.5f};
    const float zeros[] = {0.0f, 0.0f, 0.0f};
    struct mt_quantised matrix = new_matrix(MT_QUANTISED_NF4, false, 3, 1);
    assert_int_equal(mt_quantised_bytes(&matrix), 2 + 4);
    assert_true(mt_quantise(MT_F32, values, &matrix));
    assert_int_equal(((uint8_t *)matrix.codes.data)[0], 0x0C);
    assert_int_equal(((uint8_t *)matrix.codes.data)[1], 0xF7);
    assert_true(*(float *)matrix.scales.data == 0.5f);
    assert_true(mt_quantise(MT_F32, zeros, &matrix));
    assert_true(*(float *)matrix.scales.data == 1e-38f);
    float back[3];
    mt_dequantise(&matrix, MT_F32, back);
    assert_true(back[0] == 0.0f && back[1] == 0.0f && back[2] == 0.0f);
    free_matrix(&matrix);
}

/* Ties go to the even code, past 6 there is nothing, and a row's last block is filled up. */
static void mxfp4_codes(void **state)
{
    (void)state;
    const float values[] = {4.0f, 0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f, 7.9f, -0.26f, -6.0f};
    const unsigned expected[] = {6, 0, 2, 2, 4, 4, 6, 6, 7, 9, 15};
    enum { COUNT = sizeof values / sizeof values[0] };
    struct mt_quantised matrix = new_matrix(MT_QUANTISED_MXFP4, false, 1, COUNT);
    assert_true(mt_quantise(MT_F32, values, &matrix));
    const uint8_t *codes = matrix.codes.data;
    assert_int_equal(*(uint8_t *)matrix.scales.data, 127);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(i % 2 == 0 ? codes[i / 2] & 15 : codes[i / 2] >> 4, expected[i]);
    for (int i = COUNT / 2 + 1; i < 16; i++) assert_int_equal(codes[i], 0);
    float extremes[COUNT] = {FLT_MAX, FLT_MIN, -FLT_TRUE_MIN};
    assert_true(mt_quantise(MT_F32, extremes, &matrix));
    assert_int_equal(*(uint8_t *)matrix.scales.data, 127 + 125);
    float least[COUNT] = {FLT_TRUE_MIN};
    assert_true(mt_quantise(MT_F32, least, &matrix));
    assert_int_equal(*(uint8_t *)matrix.scales.data, 0);
    free_matrix(&matrix);
}

static void int8_codes(void **state)
{
    (void)state;
    const float values[] = {127.0f, -127.0f, 0.5f, 1.5f, -2.5f, 0.0f, 63.4f};
    const int expected[] = {127, -127, 0, 2, -2, 0, 63};
    struct mt_quantised matrix = new_matrix(MT_QUANTISED_INT8, false, 1, 7);
    assert_true(mt_quantise(MT_F32, values, &matrix));
    for (int i = 0; i < 7; i++) assert_int_equal(((int8_t *)matrix.codes.data)[i], expected[i]);
    float back[7];
    mt_dequantise(&matrix, MT_F32, back);
    assert_true(back[0] == 127.0f && back[4] == -2.0f);
    free_matrix(&matrix);
}

// ------------------------------------------------------------------ whole matrices

#define OUT 131
#define IN  197

/* The largest error of an element, as a share of the largest number of its block. */
static double allowed_error(enum mt_quantised_format format)
{
    switch (format) {
    case MT_QUANTISED_FP8: return 1.0 / 16.0 + 1e-6;  // of three mantissa bits, half of the last
    case MT_QUANTISED_INT8: return 0.5 / 127 + 1e-6;  // half a step
    case MT_QUANTISED_NF4: return 0.1520;             // half of the widest gap, from -1 to -0.696
    case MT_QUANTISED_MXFP4: return 1.0 / 4.0 + 1e-6; // past 6 in 8
    case MT_QUANTISED_FORMATS: break;
    }
    return 0.0;
}

static void there_and_back(void **state)
{
    (void)state;
    static float values[OUT * IN];
    static float back[OUT * IN];
    static uint16_t halves[OUT * IN];
    for (int i = 0; i < OUT * IN; i++) {
        float value = 0.02f * mt_rng_normal(1, 2, (uint64_t)i);
        value = value > 0.05f ? 0.05f : value < -0.05f ? -0.05f : value; // every block's largest is near this
        halves[i] = mt_float_to_bf16(value);
        values[i] = mt_bf16_to_float(halves[i]);
    }
    for (size_t k = 0; k < KINDS; k++) {
        struct mt_quantised matrix = new_matrix(kinds[k].format, kinds[k].nested, OUT, IN);
        struct mt_quantised again = new_matrix(kinds[k].format, kinds[k].nested, OUT, IN);
        assert_true(mt_quantise(MT_F32, values, &matrix));
        assert_true(mt_quantise(MT_BF16, halves, &again));
        size_t codes = (size_t)mt_tensor_count(&matrix.codes);
        assert_memory_equal(matrix.codes.data, again.codes.data, codes);
        size_t scales = (size_t)mt_tensor_count(&matrix.scales) * mt_dtype_bytes(matrix.scales.dtype);
        assert_memory_equal(matrix.scales.data, again.scales.data, scales);
        mt_dequantise(&matrix, MT_F32, back);
        double worst = 0.0;
        for (int i = 0; i < OUT * IN; i++) {
            double error = fabs((double)values[i] - (double)back[i]);
            if (error > worst) worst = error; // gcc 12 for aarch64 fails on fmax here
        }
        double most = allowed_error(kinds[k].format) * 0.0501; // 0.05, rounded up to bf16
        assert_true(worst <= most * (kinds[k].nested ? 1.02 : 1.0));
        assert_true(worst > most / 20.0); // the error is of this size, not none
        // A part of a row is the same as the whole of it.
        float part[7];
        mt_dequantise_row(&matrix, 77, 100, 7, part);
        assert_memory_equal(part, back + 77 * IN + 100, sizeof part);
        free_matrix(&matrix);
        free_matrix(&again);
    }
}

/* Numbers that no format has are found wherever they are. */
static void not_finite(void **state)
{
    (void)state;
    static float values[OUT * IN];
    const float bad[] = {NAN, INFINITY, -INFINITY};
    const int places[] = {0, 64, OUT * IN / 2, OUT * IN - 1};
    for (size_t k = 0; k < KINDS; k++) {
        struct mt_quantised matrix = new_matrix(kinds[k].format, kinds[k].nested, OUT, IN);
        for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
            values[places[i]] = bad[i % 3];
            assert_false(mt_quantise(MT_F32, values, &matrix));
            values[places[i]] = 0.0f;
        }
        assert_true(mt_quantise(MT_F32, values, &matrix));
        free_matrix(&matrix);
    }
}

/* From the largest floats to the smallest: what comes back is finite, and zeros are zeros. */
static void extremes(void **state)
{
    (void)state;
    static float values[OUT * IN];
    static float back[OUT * IN];
    const float sizes[] = {FLT_MAX, 1e30f, 1.0f, 1e-30f, FLT_MIN, 1e-40f, FLT_TRUE_MIN, 0.0f};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        for (int i = 0; i < OUT * IN; i++) {
            float unit = 2.0f * mt_rng_uniform(3, 4, (uint64_t)i) - 1.0f;
            values[i] = i % 9 == 0 ? 0.0f : unit * sizes[s];
        }
        for (size_t k = 0; k < KINDS; k++) {
            struct mt_quantised matrix = new_matrix(kinds[k].format, kinds[k].nested, OUT, IN);
            assert_true(mt_quantise(MT_F32, values, &matrix));
            mt_dequantise(&matrix, MT_F32, back);
            for (int i = 0; i < OUT * IN; i++) {
                assert_true(isfinite(back[i]));
                if (i % 9 == 0) assert_true(back[i] == 0.0f);
            }
            free_matrix(&matrix);
        }
    }
}

static void bytes_of_formats(void **state)
{
    (void)state;
    const double bits[KINDS] = {8.0 + 32.0 / 16384, 8.0 + 32.0 / 2048, 4.5, 4.0 + 8.0 / 64 + 32.0 / 16384,
                                4.25};
    for (size_t k = 0; k < KINDS; k++) {
        struct mt_quantised matrix = mt_quantised_shape(kinds[k].format, kinds[k].nested, 1408, 2048);
        double found = 8.0 * (double)mt_quantised_bytes(&matrix) / (1408.0 * 2048.0);
        assert_true(fabs(found - bits[k]) < 1e-3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fp8_codes),   cmocka_unit_test(fp8_rounding), cmocka_unit_test(e8m0_codes),
        cmocka_unit_test(nested_map),  cmocka_unit_test(nf4_codes),    cmocka_unit_test(nf4_broken_block),
        cmocka_unit_test(mxfp4_codes), cmocka_unit_test(int8_codes),   cmocka_unit_test(there_and_back),
        cmocka_unit_test(not_finite),  cmocka_unit_test(extremes),     cmocka_unit_test(bytes_of_formats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
