/*
 * gemm, grouped_gemm, grouped_gemm_dw: refused arguments, hand-computed values, every tile edge at every
 * level. Values are small integers, so that sums are exact and any difference is a bug.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "metier/ops.h"
#include "tensor/dtype.h"

#define LARGEST  40
#define PADDING  3
#define CAPACITY ((size_t)(LARGEST + PADDING) * (LARGEST + PADDING))

static struct mt_device *new_device(struct mt_context *ctx, const char *name, const char *level)
{
    struct mt_device *device = NULL;
    if (level != NULL) assert_int_equal(setenv("METIER_CPU_LEVEL", level, 1), 0);
    enum mt_status status = mt_device_create(ctx, name, 2, &device);
    assert_int_equal(unsetenv("METIER_CPU_LEVEL"), 0);
    assert_true(status == MT_OK || level != NULL); // a level the machine lacks is not a failure
    return device;
}

// ------------------------------------------------------------------ every tile edge

static const char *const levels[] = {"v1", "v3", "v4", "amx", "neon", "sve", "bf16", "base"};

/* Integers from -4 to 4, exact in every type, products and sums exact in f32. */
static double small_integer(int64_t i, int64_t seed)
{
    uint64_t mixed = (uint64_t)(i + 1) * 0x9E3779B97F4A7C15u + (uint64_t)seed * 0xD1B54A32D192ED03u;
    return (double)((mixed >> 40) % 9) - 4.0;
}

static struct mt_tensor padded_matrix(enum mt_dtype dtype, int64_t rows, int64_t columns, void *memory,
                                      int64_t seed)
{
    struct mt_tensor tensor = mt_tensor_2d(memory, dtype, rows, columns);
    tensor.stride[0] = columns + PADDING;
    for (int64_t i = 0; i < rows * tensor.stride[0]; i++) {
        mt_store(dtype, memory, i, small_integer(i, seed));
    }
    return tensor;
}

struct sweep {
    struct mt_device *device;
    float a[CAPACITY]; // any type fits
    float b[CAPACITY];
    float c[CAPACITY];
    float before[CAPACITY];
};

static double element(const struct mt_tensor *t, int64_t row, int64_t column, bool transpose)
{
    int64_t index = transpose ? column * t->stride[0] + row : row * t->stride[0] + column;
    return mt_load(t->dtype, t->data, index);
}

static void check_product(struct sweep *s, int64_t m, int64_t n, int64_t k, int form, enum mt_dtype b_type)
{
    bool transpose_a = (form & 1) != 0;
    bool transpose_b = (form & 2) != 0;
    float beta = (float)((m + n + k) % 3); // 0, 1, 2
    struct mt_tensor a = padded_matrix(MT_F32, transpose_a ? k : m, transpose_a ? m : k, s->a, 1);
    struct mt_tensor b = padded_matrix(b_type, transpose_b ? n : k, transpose_b ? k : n, s->b, 2);
    struct mt_tensor c = padded_matrix(MT_F32, m, n, s->c, 3);
    memcpy(s->before, s->c, sizeof s->c);
    struct mt_gemm_args args = {.a = a,
                                .b = b,
                                .c = c,
                                .transpose_a = transpose_a,
                                .transpose_b = transpose_b,
                                .alpha = 0.5f,
                                .beta = beta};
    assert_int_equal(mt_gemm(s->device, &args), MT_OK);
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < c.stride[0]; j++) {
            double expected = (double)s->before[i * c.stride[0] + j];
            if (j < n) {
                double sum = 0.0;
                for (int64_t p = 0; p < k; p++) {
                    sum += element(&a, i, p, transpose_a) * element(&b, p, j, transpose_b);
                }
                expected = 0.5 * sum + (double)beta * expected;
            }
            if ((double)s->c[i * c.stride[0] + j] == expected) continue;
            fail_msg("%s form %d b %s m=%d n=%d k=%d: c[%d,%d] is %g, expected %g",
                     mt_device_description(s->device), form, mt_dtype_name(b_type), (int)m, (int)n, (int)k,
                     (int)i, (int)j, (double)s->c[i * c.stride[0] + j], expected);
        }
    }
}

/* Three planes of sizes from 1 to 40: each pair of dimensions whole, the third running through. */
static void test_every_edge(void **state)
{
    (void)state;
    static const enum mt_dtype types[] = {MT_F32, MT_BF16, MT_F16};
    static struct sweep s;
    for (size_t level = 0; level < sizeof levels / sizeof levels[0]; level++) {
        struct mt_context ctx;
        mt_context_init(&ctx, NULL);
        s.device = new_device(&ctx, "cpu", levels[level]);
        if (s.device == NULL) {
            print_message("skipped: level %s: %s\n", levels[level], ctx.message);
            continue;
        }
        for (int64_t i = 1; i <= LARGEST; i++) {
            for (int64_t j = 1; j <= LARGEST; j++) {
                int64_t third = 1 + (i * 7 + j * 13) % LARGEST;
                for (int form = 0; form < 4; form++) {
                    // Each plane meets each type in its neighbours.
                    check_product(&s, i, j, third, form, types[(i + j) % 3]);
                    check_product(&s, third, i, j, form, types[(i + j + 1) % 3]);
                    check_product(&s, i, third, j, form, types[(i + j + 2) % 3]);
                }
            }
        }
        mt_device_destroy(s.device);
    }
}

/* Every f16 and bf16 value comes through packing as its own f32: NaN, inf and subnormals included. */
static void test_every_half(void **state)
{
    (void)state;
    static uint16_t half[65536];
    static float c[3 * 65536];
    for (int i = 0; i < 65536; i++) half[i] = (uint16_t)i;
    for (size_t level = 0; level < sizeof levels / sizeof levels[0]; level++) {
        struct mt_context ctx;
        mt_context_init(&ctx, NULL);
        struct mt_device *device = new_device(&ctx, "cpu", levels[level]);
        if (device == NULL) continue;
        for (int type = 0; type < 2; type++) {
            enum mt_dtype dtype = type == 0 ? MT_F16 : MT_BF16;
            float ones[3] = {1.0f, 1.0f, 1.0f};
            struct mt_gemm_args args = {.a = mt_tensor_2d(ones, MT_F32, 3, 1),
                                        .b = mt_tensor_2d(half, dtype, 1, 65536),
                                        .c = mt_tensor_2d(c, MT_F32, 3, 65536),
                                        .alpha = 1.0f};
            assert_int_equal(mt_gemm(device, &args), MT_OK);
            for (int i = 0; i < 65536; i++) {
                float expected = type == 0 ? mt_f16_to_float(half[i]) : mt_bf16_to_float(half[i]);
                bool same = isnan(expected) ? isnan(c[65536 + i]) : c[65536 + i] == expected;
                if (!same) fail_msg("%s 0x%04x became %g", mt_dtype_name(dtype), i, (double)c[65536 + i]);
            }
        }
        mt_device_destroy(device);
    }
}

/* Vectors of any length sum as NEON's do: the same bits from both levels. */
static void test_any_length(void **state)
{
    (void)state;
    enum { ROWS = 37, COLUMNS = 131, STEPS = 291 };
    static float a[ROWS * STEPS];
    static float b[COLUMNS * STEPS]; // any type fits
    static float c[2][ROWS * COLUMNS];
    static const char *const pair[] = {"neon", "sve"};
    for (int form = 0; form < 8; form++) {
        enum mt_dtype b_type = (form & 4) != 0 ? MT_BF16 : MT_F32;
        for (int64_t i = 0; i < (int64_t)ROWS * STEPS; i++) a[i] = (float)sin((double)(7 * i + 1));
        for (int64_t i = 0; i < (int64_t)COLUMNS * STEPS; i++)
            mt_store(b_type, b, i, sin((double)(3 * i + 2)));
        for (int level = 0; level < 2; level++) {
            struct mt_context ctx;
            mt_context_init(&ctx, NULL);
            struct mt_device *device = new_device(&ctx, "cpu", pair[level]);
            if (device == NULL) {
                print_message("skipped: level %s: %s\n", pair[level], ctx.message);
                skip();
            }
            bool transpose_a = (form & 1) != 0;
            bool transpose_b = (form & 2) != 0;
            for (int64_t i = 0; i < (int64_t)ROWS * COLUMNS; i++) c[level][i] = (float)cos((double)i);
            struct mt_gemm_args args = {
                .a = mt_tensor_2d(a, MT_F32, transpose_a ? STEPS : ROWS, transpose_a ? ROWS : STEPS),
                .b = mt_tensor_2d(b, b_type, transpose_b ? COLUMNS : STEPS, transpose_b ? STEPS : COLUMNS),
                .c = mt_tensor_2d(c[level], MT_F32, ROWS, COLUMNS),
                .transpose_a = transpose_a,
                .transpose_b = transpose_b,
                .alpha = 0.7f,
                .beta = 0.3f};
            assert_int_equal(mt_gemm(device, &args), MT_OK);
            mt_device_destroy(device);
        }
        assert_memory_equal(c[0], c[1], sizeof c[0]);
    }
}

// ------------------------------------------------------------------ values by hand

static void test_by_hand(void **state)
{
    const char *name = *state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct mt_device *device = new_device(&ctx, name, NULL);
    float a[] = {1, 2, 3, 4};         // [[1,2],[3,4]]
    float b[] = {5, 6, 7, 8};         // [[5,6],[7,8]]
    float c[] = {NAN, NAN, NAN, NAN}; // must not be read
    struct mt_gemm_args args = {.a = mt_tensor_2d(a, MT_F32, 2, 2),
                                .b = mt_tensor_2d(b, MT_F32, 2, 2),
                                .c = mt_tensor_2d(c, MT_F32, 2, 2),
                                .alpha = 1.0f};
    assert_int_equal(mt_gemm(device, &args), MT_OK);
    assert_memory_equal(c, ((float[]){19, 22, 43, 50}), sizeof c);
    args.transpose_b = true;
    args.alpha = 2.0f;
    args.beta = -1.0f;
    assert_int_equal(mt_gemm(device, &args), MT_OK);
    assert_memory_equal(c, ((float[]){34 - 19, 46 - 22, 78 - 43, 106 - 50}), sizeof c);
    // Nothing to sum: beta alone acts, and 0 overwrites.
    args.a = mt_tensor_2d(NULL, MT_F32, 2, 0);
    args.b = mt_tensor_2d(NULL, MT_F32, 2, 0);
    assert_int_equal(mt_gemm(device, &args), MT_OK);
    assert_memory_equal(c, ((float[]){-15, -24, -35, -56}), sizeof c);
    args.beta = 0.0f;
    assert_int_equal(mt_gemm(device, &args), MT_OK);
    assert_memory_equal(c, ((float[]){0, 0, 0, 0}), sizeof c);
    mt_device_destroy(device);
    assert_int_equal(ctx.live_bytes, 0);
}

static void test_grouped_by_hand(void **state)
{
    const char *name = *state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct mt_device *device = new_device(&ctx, name, NULL);
    float x[] = {1, 2, 3, 4, 5, 6, 7, 8};   // [4,2]
    float w[] = {1, 0, 0, 1, 1, 1, 10, -1}; // three experts of [1,2], and two spare
    float y[] = {NAN, NAN, NAN, 77};
    int32_t offsets[] = {0, 1, 1, 3}; // the second expert is empty, the last row is nobody's
    struct mt_tensor weight[3];
    for (int e = 0; e < 3; e++) weight[e] = mt_tensor_2d(w + 2 * e, MT_F32, 1, 2);
    struct mt_tensor offset_tensor = mt_tensor_1d(offsets, MT_I32, 4);
    struct mt_grouped_gemm_args args = {.x = mt_tensor_2d(x, MT_F32, 4, 2),
                                        .weight = weight,
                                        .experts = 3,
                                        .offsets = offset_tensor,
                                        .y = mt_tensor_2d(y, MT_F32, 4, 1),
                                        .transpose_weight = true,
                                        .alpha = 1.0f};
    assert_int_equal(mt_grouped_gemm(device, &args), MT_OK);
    assert_memory_equal(y, ((float[]){1, 7, 11, 77}), sizeof y);
    float dw[] = {NAN, NAN, NAN, NAN, NAN, NAN};
    float dy[] = {1, 2, 3, 4};
    struct mt_tensor dweight[3];
    for (int e = 0; e < 3; e++) dweight[e] = mt_tensor_2d(dw + 2 * e, MT_F32, 1, 2);
    struct mt_grouped_gemm_dw_args dw_args = {.dy = mt_tensor_2d(dy, MT_F32, 4, 1),
                                              .x = args.x,
                                              .dweight = dweight,
                                              .experts = 3,
                                              .offsets = offset_tensor,
                                              .alpha = 1.0f};
    assert_int_equal(mt_grouped_gemm_dw(device, &dw_args), MT_OK);
    assert_memory_equal(dw, ((float[]){1, 2, 0, 0, 21, 26}), sizeof dw);
    mt_device_destroy(device);
    assert_int_equal(ctx.live_bytes, 0);
}

/* Three experts: a bf16 matrix, none, an f32 matrix; a gradient for the last alone. */
static void test_grouped_absent(void **state)
{
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct mt_device *device = new_device(&ctx, *state, NULL);
    uint16_t first[] = {mt_float_to_bf16(2.0f), mt_float_to_bf16(-1.0f)};
    float last[] = {1, 3};
    float x[] = {1, 2, 3, 4, 5, 6};
    float y[] = {10, 20, 30};
    int32_t offsets[] = {0, 1, 2, 3};
    struct mt_tensor weight[] = {mt_tensor_2d(first, MT_BF16, 1, 2), {0}, mt_tensor_2d(last, MT_F32, 1, 2)};
    struct mt_grouped_gemm_args args = {.x = mt_tensor_2d(x, MT_F32, 3, 2),
                                        .weight = weight,
                                        .experts = 3,
                                        .offsets = mt_tensor_1d(offsets, MT_I32, 4),
                                        .y = mt_tensor_2d(y, MT_F32, 3, 1),
                                        .transpose_weight = true,
                                        .alpha = 1.0f,
                                        .beta = 2.0f};
    assert_int_equal(mt_grouped_gemm(device, &args), MT_OK);
    assert_memory_equal(y, ((float[]){20, 40, 83}), sizeof y);
    args.beta = 0.0f;
    y[1] = NAN;
    assert_int_equal(mt_grouped_gemm(device, &args), MT_OK);
    assert_memory_equal(y, ((float[]){0, 0, 23}), sizeof y);

    float dy[] = {7, 8, 9};
    float dw[] = {1, 1};
    struct mt_tensor dweight[] = {{0}, {0}, mt_tensor_2d(dw, MT_F32, 1, 2)};
    struct mt_grouped_gemm_dw_args dw_args = {.dy = mt_tensor_2d(dy, MT_F32, 3, 1),
                                              .x = args.x,
                                              .dweight = dweight,
                                              .experts = 3,
                                              .offsets = args.offsets,
                                              .alpha = 1.0f,
                                              .beta = 1.0f};
    assert_int_equal(mt_grouped_gemm_dw(device, &dw_args), MT_OK);
    assert_memory_equal(dw, ((float[]){46, 55}), sizeof dw);
    mt_device_destroy(device);
    assert_int_equal(ctx.live_bytes, 0);
}

// ------------------------------------------------------------------ refusals

static void expect(enum mt_status got, enum mt_status wanted, const struct mt_context *ctx, const char *word)
{
    assert_int_equal(got, wanted);
    if (strstr(ctx->message, word) == NULL) fail_msg("'%s' does not name '%s'", ctx->message, word);
}

static void test_gemm_refuses(void **state)
{
    (void)state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct mt_device *device = new_device(&ctx, "ref", NULL);
    static float memory[64];
    struct mt_gemm_args good = {.a = mt_tensor_2d(memory, MT_F32, 2, 3),
                                .b = mt_tensor_2d(memory + 16, MT_F32, 3, 4),
                                .c = mt_tensor_2d(memory + 32, MT_F32, 2, 4),
                                .alpha = 1.0f};
    assert_int_equal(mt_gemm(device, &good), MT_OK);
    struct mt_gemm_args bad = good;
    bad.alpha = 0.0f;
    expect(mt_gemm(device, &bad), MT_ERR_USAGE, &ctx, "alpha is 0");
    bad = good;
    bad.a = (struct mt_tensor){0};
    expect(mt_gemm(device, &bad), MT_ERR_USAGE, &ctx, "a is missing");
    bad = good;
    bad.a.dtype = MT_I32;
    expect(mt_gemm(device, &bad), MT_ERR_DTYPE, &ctx, "a is i32");
    bad = good;
    bad.transpose_b = true;
    expect(mt_gemm(device, &bad), MT_ERR_SHAPE, &ctx, "b is f32 [3, 4]");
    bad = good;
    bad.transpose_a = true;
    expect(mt_gemm(device, &bad), MT_ERR_SHAPE, &ctx, "b is f32 [3, 4]");
    bad = good;
    bad.c.dim[0] = 3;
    expect(mt_gemm(device, &bad), MT_ERR_SHAPE, &ctx, "c is f32 [3, 4]");
    bad = good;
    bad.b.stride[1] = 2;
    expect(mt_gemm(device, &bad), MT_ERR_SHAPE, &ctx, "b: the last dimension has stride 2");
    mt_device_destroy(device);
}

static void test_grouped_refuses(void **state)
{
    (void)state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct mt_device *device = new_device(&ctx, "ref", NULL);
    static float memory[96];
    int32_t offsets[] = {0, 2, 5};
    struct mt_tensor weight[] = {mt_tensor_2d(memory + 24, MT_F32, 4, 3),
                                 mt_tensor_2d(memory + 36, MT_F32, 4, 3)};
    struct mt_grouped_gemm_args good = {.x = mt_tensor_2d(memory, MT_F32, 5, 3),
                                        .weight = weight,
                                        .experts = 2,
                                        .offsets = mt_tensor_1d(offsets, MT_I32, 3),
                                        .y = mt_tensor_2d(memory + 48, MT_F32, 5, 4),
                                        .transpose_weight = true,
                                        .alpha = 1.0f};
    assert_int_equal(mt_grouped_gemm(device, &good), MT_OK);
    struct mt_grouped_gemm_args bad = good;
    bad.alpha = 0.0f;
    expect(mt_grouped_gemm(device, &bad), MT_ERR_USAGE, &ctx, "alpha is 0");
    bad = good;
    bad.experts = 0;
    expect(mt_grouped_gemm(device, &bad), MT_ERR_USAGE, &ctx, "experts is 0");
    bad = good;
    bad.weight = NULL;
    expect(mt_grouped_gemm(device, &bad), MT_ERR_USAGE, &ctx, "weight is missing");
    bad = good;
    bad.transpose_weight = false;
    expect(mt_grouped_gemm(device, &bad), MT_ERR_SHAPE, &ctx, "weight[0] is f32 [4, 3]");
    bad = good;
    bad.y.dim[0] = 4;
    expect(mt_grouped_gemm(device, &bad), MT_ERR_SHAPE, &ctx, "y is f32 [4, 4]");
    bad = good;
    bad.offsets.dim[0] = 2;
    expect(mt_grouped_gemm(device, &bad), MT_ERR_SHAPE, &ctx, "offsets is i32 [2]");
    offsets[2] = 6;
    expect(mt_grouped_gemm(device, &good), MT_ERR_USAGE, &ctx, "offsets holds 6");
    offsets[2] = 1;
    expect(mt_grouped_gemm(device, &good), MT_ERR_USAGE, &ctx, "offsets holds 1");
    offsets[2] = 5;
    weight[0] = (struct mt_tensor){0};
    weight[1].dim[1] = 4;
    expect(mt_grouped_gemm(device, &good), MT_ERR_SHAPE, &ctx, "weight[1] is f32 [4, 4]");
    weight[1].dim[1] = 3;
    weight[1].dtype = MT_I32;
    expect(mt_grouped_gemm(device, &good), MT_ERR_DTYPE, &ctx, "weight[1] is i32");
    mt_device_destroy(device);
}

static void test_dw_refuses(void **state)
{
    (void)state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct mt_device *device = new_device(&ctx, "ref", NULL);
    static float memory[96];
    int32_t offsets[] = {0, 2, 5};
    struct mt_tensor dweight[] = {mt_tensor_2d(memory + 48, MT_F32, 4, 3),
                                  mt_tensor_2d(memory + 60, MT_F32, 4, 3)};
    struct mt_grouped_gemm_dw_args good = {.dy = mt_tensor_2d(memory, MT_F32, 5, 4),
                                           .x = mt_tensor_2d(memory + 24, MT_F32, 5, 3),
                                           .dweight = dweight,
                                           .experts = 2,
                                           .offsets = mt_tensor_1d(offsets, MT_I32, 3),
                                           .alpha = 1.0f};
    assert_int_equal(mt_grouped_gemm_dw(device, &good), MT_OK);
    struct mt_grouped_gemm_dw_args bad = good;
    bad.alpha = 0.0f;
    expect(mt_grouped_gemm_dw(device, &bad), MT_ERR_USAGE, &ctx, "alpha is 0");
    bad = good;
    bad.x.dim[0] = 4;
    expect(mt_grouped_gemm_dw(device, &bad), MT_ERR_SHAPE, &ctx, "x is f32 [4, 3]");
    bad = good;
    bad.dweight = NULL;
    expect(mt_grouped_gemm_dw(device, &bad), MT_ERR_USAGE, &ctx, "dweight is missing");
    bad = good;
    bad.experts = -1;
    expect(mt_grouped_gemm_dw(device, &bad), MT_ERR_USAGE, &ctx, "experts is -1");
    offsets[0] = 1;
    expect(mt_grouped_gemm_dw(device, &good), MT_ERR_USAGE, &ctx, "offsets holds 1");
    offsets[0] = 0;
    dweight[1].dim[1] = 2;
    expect(mt_grouped_gemm_dw(device, &good), MT_ERR_SHAPE, &ctx, "dweight[1] is f32 [4, 2]");
    dweight[1].dim[1] = 3;
    dweight[0].dtype = MT_BF16;
    expect(mt_grouped_gemm_dw(device, &good), MT_ERR_DTYPE, &ctx, "dweight[0] is bf16");
    mt_device_destroy(device);
}

int main(void)
{
    static char ref_name[] = "ref";
    static char cpu_name[] = "cpu";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_edge),
        cmocka_unit_test(test_every_half),
        cmocka_unit_test(test_any_length),
        cmocka_unit_test_prestate(test_by_hand, ref_name),
        cmocka_unit_test_prestate(test_by_hand, cpu_name),
        cmocka_unit_test_prestate(test_grouped_by_hand, ref_name),
        cmocka_unit_test_prestate(test_grouped_by_hand, cpu_name),
        cmocka_unit_test_prestate(test_grouped_absent, ref_name),
        cmocka_unit_test_prestate(test_grouped_absent, cpu_name),
        cmocka_unit_test(test_gemm_refuses),
        cmocka_unit_test(test_grouped_refuses),
        cmocka_unit_test(test_dw_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
