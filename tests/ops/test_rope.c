/* rope and mla_key: hand-computed values, identities, and the checks of their arguments. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "metier/ops.h"
#include "ops/rope_tables.h"

#define TOKENS    7
#define HEADS     3
#define WIDTH     10
#define PLAIN     5
#define POSITIONS 16

struct rope_test {
    struct mt_context ctx;
    struct mt_device *device;
    float x[TOKENS * HEADS * WIDTH];
    float y[TOKENS * HEADS * WIDTH];
    float cosine[POSITIONS * WIDTH / 2];
    float sine[POSITIONS * WIDTH / 2];
    int32_t positions[TOKENS];
};

static struct mt_rope_args arguments(struct rope_test *test, enum mt_rope_layout layout)
{
    return (struct mt_rope_args){
        .x = mt_tensor_3d(test->x, MT_F32, TOKENS, HEADS, WIDTH),
        .y = mt_tensor_3d(test->y, MT_F32, TOKENS, HEADS, WIDTH),
        .positions = mt_tensor_1d(test->positions, MT_I32, TOKENS),
        .cosine = mt_tensor_2d(test->cosine, MT_F32, POSITIONS, WIDTH / 2),
        .sine = mt_tensor_2d(test->sine, MT_F32, POSITIONS, WIDTH / 2),
        .layout = layout,
    };
}

static void fill_normal(float *values, int count, uint64_t stream)
{
    for (int i = 0; i < count; i++) values[i] = mt_rng_normal(3, stream, (uint64_t)i);
}

static void start(struct rope_test *test, const char *device)
{
    memset(test, 0, sizeof *test);
    mt_context_init(&test->ctx, NULL);
    assert_int_equal(mt_device_create(&test->ctx, device, 2, &test->device), MT_OK);
    fill_normal(test->x, TOKENS * HEADS * WIDTH, 1);
    struct mt_rope_args args = arguments(test, MT_ROPE_HALF);
    fill_rope_tables(&args.cosine, &args.sine);
    for (int t = 0; t < TOKENS; t++) test->positions[t] = (t * 5) % POSITIONS;
}

static void finish(struct rope_test *test)
{
    mt_device_destroy(test->device);
    assert_int_equal(test->ctx.live_bytes, 0);
}

static const char *const devices[] = {"ref", "cpu"};

static void a_quarter_turn_by_hand(void **state)
{
    (void)state;
    for (int d = 0; d < 2; d++) {
        struct rope_test test;
        start(&test, devices[d]);
        float x[4] = {1.0f, 2.0f, 3.0f, 4.0f};
        float y[4];
        float cosine[4] = {1.0f, 1.0f, 0.0f, 2.0f}; // position 1: a quarter turn; twice as long
        float sine[4] = {0.0f, 0.0f, 1.0f, 0.0f};
        int32_t position = 1;
        struct mt_rope_args args = {
            .x = mt_tensor_3d(x, MT_F32, 1, 1, 4),
            .y = mt_tensor_3d(y, MT_F32, 1, 1, 4),
            .positions = mt_tensor_1d(&position, MT_I32, 1),
            .cosine = mt_tensor_2d(cosine, MT_F32, 2, 2),
            .sine = mt_tensor_2d(sine, MT_F32, 2, 2),
        };
        assert_int_equal(mt_rope(test.device, &args), MT_OK);
        assert_memory_equal(y, ((float[]){-3.0f, 4.0f, 1.0f, 8.0f}), sizeof y);
        args.layout = MT_ROPE_INTERLEAVED;
        assert_int_equal(mt_rope(test.device, &args), MT_OK);
        assert_memory_equal(y, ((float[]){-2.0f, 1.0f, 6.0f, 8.0f}), sizeof y);
        args.inverse = true;
        assert_int_equal(mt_rope(test.device, &args), MT_OK);
        assert_memory_equal(y, ((float[]){2.0f, -1.0f, 6.0f, 8.0f}), sizeof y);
        position = 0;
        assert_int_equal(mt_rope(test.device, &args), MT_OK);
        assert_memory_equal(y, x, sizeof y);
        finish(&test);
    }
}

static void inverse_undoes_and_norms_stay(void **state)
{
    (void)state;
    for (int layout = 0; layout < 2; layout++) {
        struct rope_test test;
        start(&test, "cpu");
        struct mt_rope_args args = arguments(&test, (enum mt_rope_layout)layout);
        assert_int_equal(mt_rope(test.device, &args), MT_OK);
        for (int row = 0; row < TOKENS * HEADS; row++) {
            double before = 0.0;
            double after = 0.0;
            for (int j = 0; j < WIDTH; j++) {
                before += (double)test.x[row * WIDTH + j] * (double)test.x[row * WIDTH + j];
                after += (double)test.y[row * WIDTH + j] * (double)test.y[row * WIDTH + j];
            }
            assert_true(fabs(after - before) <= 1e-6 * before);
        }
        args.x = args.y;
        args.inverse = true;
        assert_int_equal(mt_rope(test.device, &args), MT_OK);
        for (int i = 0; i < TOKENS * HEADS * WIDTH; i++) {
            assert_true(fabsf(test.y[i] - test.x[i]) <= 1e-6f * (1.0f + fabsf(test.x[i])));
        }
        finish(&test);
    }
}

/* The interleaved rotation is the half rotation of the columns put in order evens first, then odds. */
static void layouts_differ_by_a_permutation(void **state)
{
    (void)state;
    struct rope_test test;
    start(&test, "cpu");
    struct mt_rope_args args = arguments(&test, MT_ROPE_INTERLEAVED);
    assert_int_equal(mt_rope(test.device, &args), MT_OK);
    float sorted[TOKENS * HEADS * WIDTH];
    float rotated[TOKENS * HEADS * WIDTH];
    for (int row = 0; row < TOKENS * HEADS; row++) {
        for (int j = 0; j < WIDTH; j++) {
            sorted[row * WIDTH + j % 2 * (WIDTH / 2) + j / 2] = test.x[row * WIDTH + j];
        }
    }
    args.x.data = sorted;
    args.y.data = rotated;
    args.layout = MT_ROPE_HALF;
    assert_int_equal(mt_rope(test.device, &args), MT_OK);
    for (int row = 0; row < TOKENS * HEADS; row++) {
        for (int j = 0; j < WIDTH; j++) {
            float interleaved = test.y[row * WIDTH + j];
            float half = rotated[row * WIDTH + j % 2 * (WIDTH / 2) + j / 2];
            assert_true(fabsf(interleaved - half) <= 1e-6f);
        }
    }
    finish(&test);
}

static void key_is_the_concatenation(void **state)
{
    (void)state;
    for (int layout = 0; layout < 2; layout++) {
        struct rope_test test;
        start(&test, "cpu");
        float nope[TOKENS * HEADS * PLAIN];
        float shared[TOKENS * WIDTH];
        float rotated[TOKENS * WIDTH];
        float key[TOKENS * HEADS * (PLAIN + WIDTH)];
        fill_normal(nope, TOKENS * HEADS * PLAIN, 2);
        fill_normal(shared, TOKENS * WIDTH, 3);
        struct mt_rope_args args = arguments(&test, (enum mt_rope_layout)layout);
        args.x = mt_tensor_3d(shared, MT_F32, TOKENS, 1, WIDTH);
        args.y = mt_tensor_3d(rotated, MT_F32, TOKENS, 1, WIDTH);
        assert_int_equal(mt_rope(test.device, &args), MT_OK);
        struct mt_mla_key_forward_args forward = {
            .nope = mt_tensor_3d(nope, MT_F32, TOKENS, HEADS, PLAIN),
            .shared = mt_tensor_2d(shared, MT_F32, TOKENS, WIDTH),
            .positions = args.positions,
            .cosine = args.cosine,
            .sine = args.sine,
            .key = mt_tensor_3d(key, MT_F32, TOKENS, HEADS, PLAIN + WIDTH),
            .layout = (enum mt_rope_layout)layout,
        };
        assert_int_equal(mt_mla_key_forward(test.device, &forward), MT_OK);
        for (int row = 0; row < TOKENS * HEADS; row++) {
            const float *found = key + row * (PLAIN + WIDTH);
            assert_memory_equal(found, nope + row * PLAIN, PLAIN * sizeof(float));
            assert_memory_equal(found + PLAIN, rotated + row / HEADS * WIDTH, WIDTH * sizeof(float));
        }
        finish(&test);
    }
}

static void expect_rope_failure(struct rope_test *test, const struct mt_rope_args *args,
                                enum mt_status status, const char *word)
{
    assert_int_equal(mt_rope(test->device, args), status);
    assert_non_null(strstr(test->ctx.message, word));
}

static void wrong_rope_arguments(void **state)
{
    (void)state;
    struct rope_test test;
    start(&test, "cpu");
    struct mt_rope_args args = arguments(&test, MT_ROPE_HALF);
    args.x = (struct mt_tensor){0};
    expect_rope_failure(&test, &args, MT_ERR_USAGE, "x is missing");
    args = arguments(&test, MT_ROPE_HALF);
    args.y.dim[1] = HEADS - 1;
    expect_rope_failure(&test, &args, MT_ERR_SHAPE, "y is");
    args = arguments(&test, MT_ROPE_HALF);
    args.x.dim[2] = WIDTH - 1;
    args.y.dim[2] = WIDTH - 1;
    expect_rope_failure(&test, &args, MT_ERR_USAGE, "width");
    args = arguments(&test, MT_ROPE_HALF);
    args.positions.dtype = MT_F32;
    expect_rope_failure(&test, &args, MT_ERR_DTYPE, "positions");
    args = arguments(&test, MT_ROPE_HALF);
    args.cosine.dim[1] = WIDTH;
    expect_rope_failure(&test, &args, MT_ERR_SHAPE, "cosine");
    args = arguments(&test, MT_ROPE_HALF);
    args.sine.dim[0] = POSITIONS - 1;
    expect_rope_failure(&test, &args, MT_ERR_SHAPE, "sine");
    args = arguments(&test, (enum mt_rope_layout)2);
    expect_rope_failure(&test, &args, MT_ERR_USAGE, "layout");
    args = arguments(&test, MT_ROPE_HALF);
    test.positions[3] = POSITIONS;
    expect_rope_failure(&test, &args, MT_ERR_USAGE, "positions");
    test.positions[3] = -1;
    expect_rope_failure(&test, &args, MT_ERR_USAGE, "positions");
    finish(&test);
}

static void wrong_mla_key_arguments(void **state)
{
    (void)state;
    struct rope_test test;
    start(&test, "cpu");
    struct mt_rope_args rope = arguments(&test, MT_ROPE_HALF);
    float key[TOKENS * HEADS * 2 * WIDTH];
    float shared[TOKENS * WIDTH] = {0.0f};
    struct mt_mla_key_forward_args forward = {
        .nope = rope.x,
        .shared = mt_tensor_2d(shared, MT_F32, TOKENS, WIDTH),
        .positions = rope.positions,
        .cosine = rope.cosine,
        .sine = rope.sine,
        .key = mt_tensor_3d(key, MT_F32, TOKENS, HEADS, 2 * WIDTH - 1),
    };
    assert_int_equal(mt_mla_key_forward(test.device, &forward), MT_ERR_SHAPE);
    assert_non_null(strstr(test.ctx.message, "key is"));
    forward.key.dim[2] = 2 * WIDTH;
    forward.shared.dim[0] = TOKENS - 1;
    assert_int_equal(mt_mla_key_forward(test.device, &forward), MT_ERR_SHAPE);
    assert_non_null(strstr(test.ctx.message, "shared"));
    struct mt_mla_key_backward_args backward = {
        .dkey = mt_tensor_3d(key, MT_F32, TOKENS, HEADS, 2 * WIDTH),
        .positions = rope.positions,
        .cosine = rope.cosine,
        .sine = rope.sine,
        .dnope = rope.y,
    };
    assert_int_equal(mt_mla_key_backward(test.device, &backward), MT_ERR_USAGE);
    assert_non_null(strstr(test.ctx.message, "dshared is missing"));
    backward.dshared = mt_tensor_2d(shared, MT_F32, TOKENS, WIDTH - 2);
    assert_int_equal(mt_mla_key_backward(test.device, &backward), MT_ERR_SHAPE);
    assert_non_null(strstr(test.ctx.message, "dkey"));
    finish(&test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_quarter_turn_by_hand),
        cmocka_unit_test(inverse_undoes_and_norms_stay),
        cmocka_unit_test(layouts_differ_by_a_permutation),
        cmocka_unit_test(key_is_the_concatenation),
        cmocka_unit_test(wrong_rope_arguments),
        cmocka_unit_test(wrong_mla_key_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
