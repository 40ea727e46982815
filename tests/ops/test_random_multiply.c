/* random_multiply: refusals, the stated rule element by element, frequencies and ranges. */
#include <math.h>

#include "base/rng.h"
#include "ops/op_test.h"

#define ROWS  101
#define WIDTH 103 // odd: rows begin at every word of a block
#define COUNT (ROWS * WIDTH)

static struct mt_random_multiply_args ones_args(float *x, float *y, enum mt_random_kind kind, float amount)
{
    for (int i = 0; i < COUNT; i++) x[i] = 1.0f;
    return (struct mt_random_multiply_args){.x = mt_tensor_2d(x, MT_F32, ROWS, WIDTH),
                                            .y = mt_tensor_2d(y, MT_F32, ROWS, WIDTH),
                                            .kind = kind,
                                            .amount = amount,
                                            .seed = 0xDEADBEEF12345678u,
                                            .stream = 0xFFFFFFFF00000001u};
}

static void test_dropout_rule(void **state)
{
    (void)state;
    static float x[COUNT];
    static float y[COUNT];
    for (int i = 0; i < OP_TEST_DEVICES; i++) {
        struct op_test test;
        op_test_open(&test, op_test_devices[i]);
        struct mt_random_multiply_args args = ones_args(x, y, MT_RANDOM_DROPOUT, 0.25f);
        assert_int_equal(mt_random_multiply(test.device, &args), MT_OK);
        int dropped = 0;
        for (int e = 0; e < COUNT; e++) {
            bool drop = mt_rng_half(args.seed, args.stream, (uint64_t)e) < 0x4000u;
            float expected = drop ? 0.0f : 1.0f / 0.75f;
            assert_float_equal(y[e], expected, 0.0f);
            dropped += drop;
        }
        // 2600 expected; five standard deviations are 221.
        assert_in_range(dropped, COUNT / 4 - 221, COUNT / 4 + 221);
        op_test_close(&test);
    }
}

/* The same elements are dropped whichever op draws them, rows that begin inside a block included. */
static void test_bits_agree(void **state)
{
    (void)state;
    static float x[COUNT];
    static float y[COUNT];
    static uint32_t bits[ROWS][(WIDTH + 31) / 32];
    for (int i = 0; i < OP_TEST_DEVICES; i++) {
        struct op_test test;
        op_test_open(&test, op_test_devices[i]);
        struct mt_random_multiply_args args = ones_args(x, y, MT_RANDOM_DROPOUT, 0.1f);
        assert_int_equal(mt_random_multiply(test.device, &args), MT_OK);
        struct mt_dropout_bits_args draw = {.bits = mt_tensor_2d(bits, MT_I32, ROWS, (WIDTH + 31) / 32),
                                            .columns = WIDTH,
                                            .amount = 0.1f,
                                            .seed = args.seed,
                                            .stream = args.stream};
        assert_int_equal(mt_dropout_bits(test.device, &draw), MT_OK);
        for (int row = 0; row < ROWS; row++) {
            for (int column = 0; column < WIDTH; column++) {
                bool kept = (bits[row][column / 32] >> column % 32 & 1u) != 0;
                assert_true(kept == (y[row * WIDTH + column] != 0.0f));
            }
            assert_int_equal(bits[row][WIDTH / 32] >> WIDTH % 32, 0);
        }
        op_test_close(&test);
    }
}

static void test_jitter_rule(void **state)
{
    (void)state;
    static float x[COUNT];
    static float y[COUNT];
    for (int i = 0; i < OP_TEST_DEVICES; i++) {
        struct op_test test;
        op_test_open(&test, op_test_devices[i]);
        struct mt_random_multiply_args args = ones_args(x, y, MT_RANDOM_JITTER, 0.01f);
        assert_int_equal(mt_random_multiply(test.device, &args), MT_OK);
        double sum = 0.0;
        for (int e = 0; e < COUNT; e++) {
            float unit = mt_rng_uniform(args.seed, args.stream, (uint64_t)e);
            assert_float_equal(y[e], fmaf(0.01f, 2.0f * unit - 1.0f, 1.0f), 0.0f);
            assert_true(y[e] >= 0.99f && y[e] <= 1.01f);
            sum += (double)y[e];
        }
        assert_float_equal((float)(sum / COUNT), 1.0f, 5.0f * 0.01f / 176.0f); // 176 = sqrt(3 COUNT)
        op_test_close(&test);
    }
}

static void test_refusals(void **state)
{
    (void)state;
    static float x[COUNT];
    struct op_test test;
    op_test_open(&test, "cpu");
    struct mt_random_multiply_args args = ones_args(x, x, MT_RANDOM_DROPOUT, 1.0f);
    op_test_refused(&test, mt_random_multiply(test.device, &args), MT_ERR_USAGE, "amount is 1");
    args.amount = -0.1f;
    op_test_refused(&test, mt_random_multiply(test.device, &args), MT_ERR_USAGE, "amount is -0.1");
    args.amount = NAN;
    op_test_refused(&test, mt_random_multiply(test.device, &args), MT_ERR_USAGE, "amount is");
    args.kind = (enum mt_random_kind)7;
    op_test_refused(&test, mt_random_multiply(test.device, &args), MT_ERR_USAGE, "kind is 7");
    args.y.dim[0] = 1;
    op_test_refused(&test, mt_random_multiply(test.device, &args), MT_ERR_SHAPE, "y is");

    struct mt_dropout_bits_args draw = {.bits = mt_tensor_2d(x, MT_I32, 2, 3), .columns = 97, .amount = 0.1f};
    op_test_refused(&test, mt_dropout_bits(test.device, &draw), MT_ERR_SHAPE, "bits is");
    draw.columns = -1;
    op_test_refused(&test, mt_dropout_bits(test.device, &draw), MT_ERR_USAGE, "columns is -1");
    draw.columns = 96;
    draw.amount = 1.0f;
    op_test_refused(&test, mt_dropout_bits(test.device, &draw), MT_ERR_USAGE, "amount is 1");
    op_test_close(&test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_dropout_rule), cmocka_unit_test(test_bits_agree),
                                       cmocka_unit_test(test_jitter_rule), cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
