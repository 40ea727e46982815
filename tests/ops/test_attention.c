/* attention: hand-computed values, causality, packing, windows, and the checks of its arguments. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "metier/ops.h"

#define Q_HEADS   4
#define KV_HEADS  2
#define WIDTH     12
#define VALUE     8
#define MAX_ROWS  700 // several tiles of queries and of keys
#define SEQUENCES 3

struct attention_test {
    struct mt_context ctx;
    struct mt_device *device;
    int32_t offsets[SEQUENCES + 1];
    float q[MAX_ROWS * Q_HEADS * WIDTH];
    float k[MAX_ROWS * KV_HEADS * WIDTH];
    float v[MAX_ROWS * KV_HEADS * VALUE];
    float out[MAX_ROWS * Q_HEADS * VALUE];
    float lse[MAX_ROWS * Q_HEADS];
    float dout[MAX_ROWS * Q_HEADS * VALUE];
    float dq[MAX_ROWS * Q_HEADS * WIDTH];
    float dk[MAX_ROWS * KV_HEADS * WIDTH];
    float dv[MAX_ROWS * KV_HEADS * VALUE];
};

static void fill_normal(float *values, size_t count, uint64_t stream)
{
    for (size_t i = 0; i < count; i++) values[i] = mt_rng_normal(11, stream, i);
}

static struct attention_test *start(void)
{
    struct attention_test *test = calloc(1, sizeof *test);
    assert_non_null(test);
    mt_context_init(&test->ctx, NULL);
    assert_int_equal(mt_device_create(&test->ctx, "cpu", 2, &test->device), MT_OK);
    fill_normal(test->q, sizeof test->q / sizeof(float), 1);
    fill_normal(test->k, sizeof test->k / sizeof(float), 2);
    fill_normal(test->v, sizeof test->v / sizeof(float), 3);
    fill_normal(test->dout, sizeof test->dout / sizeof(float), 4);
    return test;
}

static void finish(struct attention_test *test)
{
    mt_device_destroy(test->device);
    assert_int_equal(test->ctx.live_bytes, 0);
    free(test);
}

/* The rows from `row` on, as `sequences` sequences described by test->offsets. */
static struct mt_attention_forward_args forward_arguments(struct attention_test *test, int row, int rows,
                                                          int sequences)
{
    return (struct mt_attention_forward_args){
        .q = mt_tensor_3d(test->q + row * Q_HEADS * WIDTH, MT_F32, rows, Q_HEADS, WIDTH),
        .k = mt_tensor_3d(test->k + row * KV_HEADS * WIDTH, MT_F32, rows, KV_HEADS, WIDTH),
        .v = mt_tensor_3d(test->v + row * KV_HEADS * VALUE, MT_F32, rows, KV_HEADS, VALUE),
        .q_offsets = mt_tensor_1d(test->offsets, MT_I32, sequences + 1),
        .k_offsets = mt_tensor_1d(test->offsets, MT_I32, sequences + 1),
        .out = mt_tensor_3d(test->out + row * Q_HEADS * VALUE, MT_F32, rows, Q_HEADS, VALUE),
        .lse = mt_tensor_2d(test->lse + row * Q_HEADS, MT_F32, rows, Q_HEADS),
        .scale = 0.3f,
    };
}

static struct mt_attention_backward_args backward_arguments(struct attention_test *test, int row, int rows,
                                                            int sequences)
{
    struct mt_attention_forward_args f = forward_arguments(test, row, rows, sequences);
    return (struct mt_attention_backward_args){
        .q = f.q,
        .k = f.k,
        .v = f.v,
        .q_offsets = f.q_offsets,
        .k_offsets = f.k_offsets,
        .out = f.out,
        .lse = f.lse,
        .dout = mt_tensor_3d(test->dout + row * Q_HEADS * VALUE, MT_F32, rows, Q_HEADS, VALUE),
        .dq = mt_tensor_3d(test->dq + row * Q_HEADS * WIDTH, MT_F32, rows, Q_HEADS, WIDTH),
        .dk = mt_tensor_3d(test->dk + row * KV_HEADS * WIDTH, MT_F32, rows, KV_HEADS, WIDTH),
        .dv = mt_tensor_3d(test->dv + row * KV_HEADS * VALUE, MT_F32, rows, KV_HEADS, VALUE),
        .scale = f.scale,
    };
}

static void assert_close(float got, double expected)
{
    assert_true(fabs((double)got - expected) <= 1e-6 * (1.0 + fabs(expected)));
}

/*
 * Two tokens, one head: scores of the second are 0 and log 3, so its weights are 1/4 and 3/4. With
 * dout = (0, 1): dP = v, δ = out = 0.25·10 + 0.75·20 = 17.5, dS = (-1.875, 1.875).
 */
static void two_tokens_by_hand(void **state)
{
    (void)state;
    static const char *const devices[] = {"ref", "cpu"};
    for (int d = 0; d < 2; d++) {
        struct mt_context ctx;
        mt_context_init(&ctx, NULL);
        struct mt_device *device = NULL;
        assert_int_equal(mt_device_create(&ctx, devices[d], 1, &device), MT_OK);
        const float log3 = 1.09861229f;
        float q[2] = {5.0f, 2.0f};
        float k[2] = {0.0f, log3};
        float v[2] = {10.0f, 20.0f};
        float out[2], lse[2], dq[2], dk[2], dv[2];
        float dout[2] = {0.0f, 1.0f};
        int32_t offsets[2] = {0, 2};
        struct mt_tensor o = mt_tensor_1d(offsets, MT_I32, 2);
        struct mt_attention_forward_args f = {
            .q = mt_tensor_3d(q, MT_F32, 2, 1, 1),
            .k = mt_tensor_3d(k, MT_F32, 2, 1, 1),
            .v = mt_tensor_3d(v, MT_F32, 2, 1, 1),
            .q_offsets = o,
            .k_offsets = o,
            .out = mt_tensor_3d(out, MT_F32, 2, 1, 1),
            .lse = mt_tensor_2d(lse, MT_F32, 2, 1),
            .scale = 0.5f,
        };
        assert_int_equal(mt_attention_forward(device, &f), MT_OK);
        assert_close(out[0], 10.0);
        assert_close(lse[0], 0.0);
        assert_close(out[1], 17.5);
        assert_close(lse[1], log(4.0));
        struct mt_attention_backward_args b = {
            .q = f.q,
            .k = f.k,
            .v = f.v,
            .q_offsets = o,
            .k_offsets = o,
            .out = f.out,
            .lse = f.lse,
            .dout = mt_tensor_3d(dout, MT_F32, 2, 1, 1),
            .dq = mt_tensor_3d(dq, MT_F32, 2, 1, 1),
            .dk = mt_tensor_3d(dk, MT_F32, 2, 1, 1),
            .dv = mt_tensor_3d(dv, MT_F32, 2, 1, 1),
            .scale = 0.5f,
        };
        assert_int_equal(mt_attention_backward(device, &b), MT_OK);
        assert_close(dv[0], 0.25);
        assert_close(dv[1], 0.75);
        assert_close(dq[0], 0.0);
        assert_close(dq[1], 0.5 * 1.875 * (double)log3);
        assert_close(dk[0], -0.5 * 1.875 * 2.0);
        assert_close(dk[1], 0.5 * 1.875 * 2.0);
        mt_device_destroy(device);
    }
}

static void later_keys_change_no_earlier_bit(void **state)
{
    (void)state;
    static const int changed_keys[] = {1, 63, 64, 128, 255, 256, 300, 599};
    struct attention_test *test = start();
    const int rows = 600;
    test->offsets[1] = rows;
    struct mt_attention_forward_args args = forward_arguments(test, 0, rows, 1);
    assert_int_equal(mt_attention_forward(test->device, &args), MT_OK);
    float *out = malloc(sizeof test->out);
    float *lse = malloc(sizeof test->lse);
    assert_non_null(out);
    assert_non_null(lse);
    for (size_t i = 0; i < sizeof changed_keys / sizeof changed_keys[0]; i++) {
        int key = changed_keys[i];
        memcpy(out, test->out, sizeof test->out);
        memcpy(lse, test->lse, sizeof test->lse);
        for (int j = 0; j < KV_HEADS * WIDTH; j++) test->k[key * KV_HEADS * WIDTH + j] += 100.0f;
        for (int j = 0; j < KV_HEADS * VALUE; j++) test->v[key * KV_HEADS * VALUE + j] -= 1e6f;
        assert_int_equal(mt_attention_forward(test->device, &args), MT_OK);
        assert_memory_equal(out, test->out, (size_t)key * Q_HEADS * VALUE * sizeof(float));
        assert_memory_equal(lse, test->lse, (size_t)key * Q_HEADS * sizeof(float));
        // The query at the key's own place does see it.
        assert_memory_not_equal(out + key * Q_HEADS * VALUE, test->out + key * Q_HEADS * VALUE,
                                Q_HEADS * VALUE * sizeof(float));
    }
    free(out);
    free(lse);
    finish(test);
}

static void packed_sequences_equal_lone_ones(void **state)
{
    (void)state;
    struct attention_test *packed = start();
    struct attention_test *lone = start();
    static const int32_t offsets[SEQUENCES + 1] = {0, 130, 131, 600};
    memcpy(packed->offsets, offsets, sizeof offsets);
    struct mt_attention_forward_args f = forward_arguments(packed, 0, offsets[SEQUENCES], SEQUENCES);
    struct mt_attention_backward_args b = backward_arguments(packed, 0, offsets[SEQUENCES], SEQUENCES);
    assert_int_equal(mt_attention_forward(packed->device, &f), MT_OK);
    assert_int_equal(mt_attention_backward(packed->device, &b), MT_OK);
    for (int s = 0; s < SEQUENCES; s++) {
        int rows = offsets[s + 1] - offsets[s];
        lone->offsets[1] = rows;
        f = forward_arguments(lone, offsets[s], rows, 1);
        b = backward_arguments(lone, offsets[s], rows, 1);
        assert_int_equal(mt_attention_forward(lone->device, &f), MT_OK);
        assert_int_equal(mt_attention_backward(lone->device, &b), MT_OK);
    }
    assert_memory_equal(packed->out, lone->out, sizeof packed->out);
    assert_memory_equal(packed->lse, lone->lse, sizeof packed->lse);
    assert_memory_equal(packed->dq, lone->dq, sizeof packed->dq);
    assert_memory_equal(packed->dk, lone->dk, sizeof packed->dk);
    assert_memory_equal(packed->dv, lone->dv, sizeof packed->dv);
    finish(packed);
    finish(lone);
}

/* With window 1 a query sees itself alone: out is its own v. A window as long as the keys is none. */
static void windows(void **state)
{
    (void)state;
    struct attention_test *test = start();
    const int rows = 400;
    test->offsets[1] = rows;
    struct mt_attention_forward_args args = forward_arguments(test, 0, rows, 1);
    args.window = 1;
    assert_int_equal(mt_attention_forward(test->device, &args), MT_OK);
    for (int t = 0; t < rows; t++) {
        for (int h = 0; h < Q_HEADS; h++) {
            const float *value = test->v + (t * KV_HEADS + h / (Q_HEADS / KV_HEADS)) * VALUE;
            assert_memory_equal(test->out + (t * Q_HEADS + h) * VALUE, value, VALUE * sizeof(float));
        }
    }
    args.window = rows;
    assert_int_equal(mt_attention_forward(test->device, &args), MT_OK);
    float *limited = malloc(sizeof test->out);
    assert_non_null(limited);
    memcpy(limited, test->out, sizeof test->out);
    args.window = 0;
    assert_int_equal(mt_attention_forward(test->device, &args), MT_OK);
    assert_memory_equal(limited, test->out, (size_t)rows * Q_HEADS * VALUE * sizeof(float));
    free(limited);
    finish(test);
}

/* Decoding: the last query alone over all keys gives what it gave among the others. */
static void a_cache_gives_the_same_answer(void **state)
{
    (void)state;
    struct attention_test *test = start();
    const int rows = 333;
    test->offsets[1] = rows;
    struct mt_attention_forward_args args = forward_arguments(test, 0, rows, 1);
    assert_int_equal(mt_attention_forward(test->device, &args), MT_OK);
    float last[Q_HEADS * VALUE];
    memcpy(last, test->out + (rows - 1) * Q_HEADS * VALUE, sizeof last);
    int32_t one[2] = {0, 1};
    args.q = mt_tensor_rows(&args.q, rows - 1, 1);
    args.out = mt_tensor_rows(&args.out, rows - 1, 1);
    args.lse = mt_tensor_rows(&args.lse, rows - 1, 1);
    args.q_offsets = mt_tensor_1d(one, MT_I32, 2);
    assert_int_equal(mt_attention_forward(test->device, &args), MT_OK);
    for (int j = 0; j < Q_HEADS * VALUE; j++) {
        assert_close(test->out[(rows - 1) * Q_HEADS * VALUE + j], (double)last[j]);
    }
    finish(test);
}

static void queries_before_the_first_key_see_nothing(void **state)
{
    (void)state;
    struct attention_test *test = start();
    int32_t keys[2] = {0, 2};
    test->offsets[1] = 5;
    struct mt_attention_forward_args f = forward_arguments(test, 0, 5, 1);
    struct mt_attention_backward_args b = backward_arguments(test, 0, 5, 1);
    f.k.dim[0] = f.v.dim[0] = 2;
    b.k.dim[0] = b.v.dim[0] = b.dk.dim[0] = b.dv.dim[0] = 2;
    f.k_offsets = b.k_offsets = mt_tensor_1d(keys, MT_I32, 2);
    memset(test->out, 0xFF, sizeof test->out);
    memset(test->dq, 0xFF, sizeof test->dq);
    assert_int_equal(mt_attention_forward(test->device, &f), MT_OK);
    assert_int_equal(mt_attention_backward(test->device, &b), MT_OK);
    for (int i = 0; i < 3 * Q_HEADS * VALUE; i++) assert_true(test->out[i] == 0.0f);
    for (int i = 0; i < 3 * Q_HEADS * WIDTH; i++) assert_true(test->dq[i] == 0.0f);
    for (int i = 0; i < 3 * Q_HEADS; i++) assert_true(isinf(test->lse[i]) && test->lse[i] < 0.0f);
    for (int i = 3 * Q_HEADS; i < 5 * Q_HEADS; i++) assert_true(isfinite(test->lse[i]));
    finish(test);
}

static void expect_failure(struct attention_test *test, const struct mt_attention_forward_args *args,
                           enum mt_status status, const char *word)
{
    assert_int_equal(mt_attention_forward(test->device, args), status);
    assert_non_null(strstr(test->ctx.message, word));
}

/* Keys in stretches of a larger tensor, as a cache has them, out of order: the same bits as packed. */
static void keys_may_lie_apart(void **state)
{
    (void)state;
    struct attention_test *test = start();
    static float keys[40 * KV_HEADS * WIDTH];
    static float values[40 * KV_HEADS * VALUE];
    static float packed[sizeof test->out / sizeof test->out[0]];
    int32_t starts[2] = {21, 3};
    test->offsets[1] = 5;
    test->offsets[2] = 12;
    struct mt_attention_forward_args args = forward_arguments(test, 0, 12, 2);
    assert_int_equal(mt_attention_forward(test->device, &args), MT_OK);
    memcpy(packed, test->out, sizeof packed);
    memset(keys, 0xFF, sizeof keys); // NaN: what nobody may read
    memset(values, 0xFF, sizeof values);
    struct mt_tensor all_keys = mt_tensor_3d(keys, MT_F32, 40, KV_HEADS, WIDTH);
    struct mt_tensor all_values = mt_tensor_3d(values, MT_F32, 40, KV_HEADS, VALUE);
    for (int b = 0; b < 2; b++) {
        int32_t count = test->offsets[b + 1] - test->offsets[b];
        const struct mt_copy_args copies[] = {
            {.x = mt_tensor_rows(&args.k, test->offsets[b], count),
             .y = mt_tensor_rows(&all_keys, starts[b], count)},
            {.x = mt_tensor_rows(&args.v, test->offsets[b], count),
             .y = mt_tensor_rows(&all_values, starts[b], count)},
        };
        assert_int_equal(mt_copy(test->device, &copies[0]), MT_OK);
        assert_int_equal(mt_copy(test->device, &copies[1]), MT_OK);
    }
    args.k = all_keys;
    args.v = all_values;
    args.k_starts = mt_tensor_1d(starts, MT_I32, 2);
    memset(test->out, 0xFF, sizeof test->out);
    assert_int_equal(mt_attention_forward(test->device, &args), MT_OK);
    assert_memory_equal(packed, test->out, 12 * Q_HEADS * VALUE * sizeof(float));
    starts[1] = 34; // seven keys, of which six are there
    expect_failure(test, &args, MT_ERR_USAGE, "k_starts[1] is 34");
    starts[1] = -1;
    expect_failure(test, &args, MT_ERR_USAGE, "k_starts[1] is -1");
    args.k_starts.dim[0] = 1;
    expect_failure(test, &args, MT_ERR_SHAPE, "k_starts");
    finish(test);
}

static void a_nan_is_not_hidden(void **state)
{
    (void)state;
    struct attention_test *test = start();
    test->offsets[1] = 8;
    test->k[3 * KV_HEADS * WIDTH] = NAN; // key 3, head 0
    struct mt_attention_forward_args args = forward_arguments(test, 0, 8, 1);
    assert_int_equal(mt_attention_forward(test->device, &args), MT_OK);
    assert_true(isfinite(test->out[(2 * Q_HEADS) * VALUE]));
    assert_true(isnan(test->out[(3 * Q_HEADS) * VALUE]));
    assert_true(isnan(test->lse[7 * Q_HEADS]));
    assert_true(isfinite(test->lse[7 * Q_HEADS + Q_HEADS - 1]));
    finish(test);
}

static void wrong_forward_arguments(void **state)
{
    (void)state;
    struct attention_test *test = start();
    test->offsets[1] = 6;
    const struct mt_attention_forward_args right = forward_arguments(test, 0, 6, 1);
    struct mt_attention_forward_args args = right;
    args.k = (struct mt_tensor){0};
    expect_failure(test, &args, MT_ERR_USAGE, "k is missing");
    args = right;
    args.k.dim[2] = WIDTH - 1;
    expect_failure(test, &args, MT_ERR_SHAPE, "k is");
    args = right;
    args.v.dim[0] = 5;
    expect_failure(test, &args, MT_ERR_SHAPE, "v is");
    args = right;
    args.q.dim[1] = args.out.dim[1] = args.lse.dim[1] = Q_HEADS - 1;
    expect_failure(test, &args, MT_ERR_SHAPE, "heads");
    args = right;
    args.out.dim[2] = VALUE + 1;
    expect_failure(test, &args, MT_ERR_SHAPE, "out is");
    args = right;
    args.lse.dtype = MT_BF16;
    expect_failure(test, &args, MT_ERR_DTYPE, "lse is");
    args = right;
    args.q_offsets.dim[0] = args.k_offsets.dim[0] = 0;
    expect_failure(test, &args, MT_ERR_SHAPE, "q_offsets");
    args = right;
    args.k_offsets.dim[0] = 3;
    expect_failure(test, &args, MT_ERR_SHAPE, "k_offsets");
    args = right;
    args.scale = 0.0f;
    expect_failure(test, &args, MT_ERR_USAGE, "scale");
    args.scale = NAN;
    expect_failure(test, &args, MT_ERR_USAGE, "scale");
    args = right;
    args.window = -1;
    expect_failure(test, &args, MT_ERR_USAGE, "window");
    test->offsets[1] = 5;
    expect_failure(test, &right, MT_ERR_USAGE, "q_offsets ends with 5");
    test->offsets[1] = 7;
    expect_failure(test, &right, MT_ERR_USAGE, "q_offsets");
    finish(test);
}

static void wrong_backward_arguments(void **state)
{
    (void)state;
    struct attention_test *test = start();
    test->offsets[1] = 6;
    const struct mt_attention_backward_args right = backward_arguments(test, 0, 6, 1);
    static const struct {
        size_t field;
        const char *message;
    } fields[] = {
        {offsetof(struct mt_attention_backward_args, out), "out is"},
        {offsetof(struct mt_attention_backward_args, lse), "lse is"},
        {offsetof(struct mt_attention_backward_args, dout), "dout is"},
        {offsetof(struct mt_attention_backward_args, dq), "dq is"},
        {offsetof(struct mt_attention_backward_args, dk), "dk is"},
        {offsetof(struct mt_attention_backward_args, dv), "dv is"},
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        struct mt_attention_backward_args args = right;
        struct mt_tensor *tensor = (struct mt_tensor *)(void *)((char *)&args + fields[i].field);
        tensor->dim[1] += 1;
        assert_int_equal(mt_attention_backward(test->device, &args), MT_ERR_SHAPE);
        assert_non_null(strstr(test->ctx.message, fields[i].message));
        *tensor = (struct mt_tensor){0};
        assert_int_equal(mt_attention_backward(test->device, &args), MT_ERR_USAGE);
        assert_non_null(strstr(test->ctx.message, fields[i].message));
    }
    finish(test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_tokens_by_hand),
        cmocka_unit_test(later_keys_change_no_earlier_bit),
        cmocka_unit_test(packed_sequences_equal_lone_ones),
        cmocka_unit_test(windows),
        cmocka_unit_test(a_cache_gives_the_same_answer),
        cmocka_unit_test(queries_before_the_first_key_see_nothing),
        cmocka_unit_test(keys_may_lie_apart),
        cmocka_unit_test(a_nan_is_not_hidden),
        cmocka_unit_test(wrong_forward_arguments),
        cmocka_unit_test(wrong_backward_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
