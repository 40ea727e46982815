/*
 * The levels amx and bf16: f32 products made of bf16 parts are as exact as f32 sums, a row's bits do not
 * depend on its company, and inf, NaN and the largest floats go through. Skipped where the machine has
 * neither. Tests src/ops/cpu/amx and src/ops/cpu/bf16.
 */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "metier/ops.h"
#include "tensor/dtype.h"

#define ROWS    50
#define COLUMNS 70
#define STEPS   1120 // three blocks of steps; less some, so that the last tile is partly filled

struct matrices {
    float a[ROWS * STEPS];
    float b[COLUMNS * STEPS]; // any type fits
    float c[ROWS * COLUMNS];
    float again[ROWS * COLUMNS];
};

static struct mt_device *tile_device(struct mt_context *ctx)
{
    struct mt_device *device = NULL;
    enum mt_status status = MT_ERR_USAGE;
    const char *const levels[] = {"amx", "bf16"};
    for (int i = 0; i < 2 && status != MT_OK; i++) {
        assert_int_equal(setenv("METIER_CPU_LEVEL", levels[i], 1), 0);
        status = mt_device_create(ctx, "cpu", 2, &device);
    }
    assert_int_equal(unsetenv("METIER_CPU_LEVEL"), 0);
    if (status != MT_OK) {
        print_message("skipped: %s\n", ctx->message);
        skip();
    }
    return device;
}

/* Numbers of every size from 2^-20 to 2^20, with all their bits. */
static float number(int64_t i)
{
    uint64_t mixed = (uint64_t)(i + 1) * 0x9E3779B97F4A7C15u;
    mixed ^= mixed >> 29;
    mixed *= 0xBF58476D1CE4E5B9u;
    double mantissa = (double)(mixed >> 40) / 0x1p23 - 1.0;
    return (float)ldexp(mantissa, (int)(mixed & 0xFF) % 41 - 20);
}

static struct mt_gemm_args make(struct matrices *m, bool transpose_a, bool transpose_b, enum mt_dtype b_type,
                                int64_t steps)
{
    for (int64_t i = 0; i < (int64_t)ROWS * STEPS; i++) m->a[i] = number(i);
    for (int64_t i = 0; i < (int64_t)COLUMNS * STEPS; i++) {
        mt_store(b_type, m->b, i, (double)number(i + 1000000));
    }
    return (struct mt_gemm_args){
        .a = mt_tensor_2d(m->a, MT_F32, transpose_a ? steps : ROWS, transpose_a ? ROWS : steps),
        .b = mt_tensor_2d(m->b, b_type, transpose_b ? COLUMNS : steps, transpose_b ? steps : COLUMNS),
        .c = mt_tensor_2d(m->c, MT_F32, ROWS, COLUMNS),
        .transpose_a = transpose_a,
        .transpose_b = transpose_b,
        .alpha = 1.0f};
}

static double element(const struct mt_tensor *t, int64_t row, int64_t column, bool transpose)
{
    int64_t index = transpose ? column * t->stride[0] + row : row * t->stride[0] + column;
    return mt_load(t->dtype, t->data, index);
}

/* Errors as shares of Σ|terms|. Level v4 is off by 4.9e-7 at worst here, of which all is f32's rounding of
 * sums. */
static void test_is_exact(void **state)
{
    (void)state;
    static struct matrices m;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct mt_device *device = tile_device(&ctx);
    for (int form = 0; form < 8; form++) {
        struct mt_gemm_args g =
            make(&m, (form & 1) != 0, (form & 2) != 0, (form & 4) != 0 ? MT_BF16 : MT_F32, STEPS - 7);
        assert_int_equal(mt_gemm(device, &g), MT_OK);
        double worst = 0.0;
        for (int64_t i = 0; i < ROWS; i++) {
            for (int64_t j = 0; j < COLUMNS; j++) {
                double sum = 0.0;
                double size = 0.0;
                for (int64_t p = 0; p < STEPS - 7; p++) {
                    double term = element(&g.a, i, p, g.transpose_a) * element(&g.b, p, j, g.transpose_b);
                    sum += term;
                    size += fabs(term);
                }
                worst = fmax(worst, fabs((double)m.c[i * COLUMNS + j] - sum) / size);
            }
        }
        if (!(worst < 1e-6)) fail_msg("form %d: worst error %.3g of the terms' sizes", form, worst);
    }
    mt_device_destroy(device);
}

/* Without a sum to round: one term an element, of all the bits it has. Two roundings of f32 would be 2^-23.
 */
static void test_single_terms(void **state)
{
    (void)state;
    static struct matrices m;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct mt_device *device = tile_device(&ctx);
    struct mt_gemm_args g = make(&m, false, true, MT_BF16, STEPS);
    for (int64_t i = 0; i < ROWS; i++) {
        for (int64_t p = 0; p < STEPS; p++) {
            if (p != 17 * i % STEPS) m.a[i * STEPS + p] = 0.0f;
        }
    }
    assert_int_equal(mt_gemm(device, &g), MT_OK);
    for (int64_t i = 0; i < ROWS; i++) {
        for (int64_t j = 0; j < COLUMNS; j++) {
            int64_t p = 17 * i % STEPS;
            double expected = (double)m.a[i * STEPS + p] * element(&g.b, p, j, true);
            double error = fabs((double)m.c[i * COLUMNS + j] - expected);
            if (!(error <= 0x1p-22 * fabs(expected))) fail_msg("off by %.3g", error / fabs(expected));
        }
    }
    mt_device_destroy(device);
}

/* Every number of rows gives each row the bits it has among all. */
static void test_rows_are_independent(void **state)
{
    (void)state;
    static struct matrices m;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct mt_device *device = tile_device(&ctx);
    for (int form = 0; form < 8; form++) {
        struct mt_gemm_args g = make(&m, false, (form & 1) != 0, (form & 2) != 0 ? MT_BF16 : MT_F32,
                                     (form & 4) != 0 ? STEPS : STEPS - 7);
        assert_int_equal(mt_gemm(device, &g), MT_OK);
        for (int64_t rows = 1; rows < ROWS; rows++) {
            int64_t first = (rows * 7) % (ROWS - rows + 1);
            struct mt_gemm_args part = g;
            part.a = mt_tensor_rows(&g.a, first, rows);
            part.c = mt_tensor_2d(m.again, MT_F32, rows, COLUMNS);
            assert_int_equal(mt_gemm(device, &part), MT_OK);
            if (memcmp(m.again, m.c + first * COLUMNS, (size_t)(rows * COLUMNS) * sizeof(float)) == 0)
                continue;
            fail_msg("form %d: %d rows from %d differ from the same rows among %d", form, (int)rows,
                     (int)first, ROWS);
        }
    }
    mt_device_destroy(device);
}

/* inf and NaN where they belong and nowhere else; the largest floats stay finite. */
static void test_special_values(void **state)
{
    (void)state;
    enum { WIDTH = 64 };
    static float a[5 * WIDTH];
    static uint16_t b[WIDTH * WIDTH]; // bf16
    static float c[5 * WIDTH];
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct mt_device *device = tile_device(&ctx);
    for (int i = 0; i < 5 * WIDTH; i++) a[i] = 0.0f;
    for (int i = 0; i < WIDTH * WIDTH; i++) mt_store(MT_BF16, b, i, i % WIDTH == i / WIDTH ? 1.0 : 0x1p-3);
    a[3] = 1.5f;
    a[WIDTH + 3] = INFINITY;
    a[2 * WIDTH + 3] = -INFINITY;
    a[3 * WIDTH + 3] = mt_float_from_bits(0x7F800001u); // a NaN whose high half is that of inf
    a[4 * WIDTH + 3] = -FLT_MAX;
    struct mt_gemm_args g = {.a = mt_tensor_2d(a, MT_F32, 5, WIDTH),
                             .b = mt_tensor_2d(b, MT_BF16, WIDTH, WIDTH),
                             .c = mt_tensor_2d(c, MT_F32, 5, WIDTH),
                             .alpha = 1.0f};
    for (int form = 0; form < 2; form++) {
        g.transpose_b = form == 1;
        assert_int_equal(mt_gemm(device, &g), MT_OK);
        for (int j = 0; j < WIDTH; j++) {
            float weight = j == 3 ? 1.0f : 0x1p-3f;
            assert_true(c[j] == 1.5f * weight);
            assert_true(!isfinite(c[WIDTH + j]) && !isfinite(c[2 * WIDTH + j]) && isnan(c[3 * WIDTH + j]));
            assert_true(c[4 * WIDTH + j] == -FLT_MAX * weight);
        }
    }
    mt_device_destroy(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_is_exact),
        cmocka_unit_test(test_single_terms),
        cmocka_unit_test(test_rows_are_independent),
        cmocka_unit_test(test_special_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
