/*
 * random_multiply and dropout_bits: refusals, the stated rules element by element, frequencies and ranges,
 * and that neighbours are independent.
 */
#include <math.h>

#include "base/rng.h"
#include "ops/cpu/elementwise/mask_draw.h"
#include "ops/op_test.h"

#define ROWS  101
#define WIDTH 103 // odd: rows begin at every word of a block
#define COUNT (ROWS * WIDTH)
#define WORDS ((WIDTH + 31) / 32) // of a mask's row

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

/* An element's 16 bits: bit b is a bit of the b-th random word of its mask word. */
static uint32_t number_of(uint64_t seed, uint64_t stream, int element)
{
    uint64_t word = (uint64_t)element / WIDTH * WORDS + (uint64_t)element % WIDTH / 32;
    uint32_t number = 0;
    for (uint32_t b = 0; b < 16; b++) {
        uint32_t drawn = mt_rng_words7(seed, stream, 4 * word + b / 4).word[b % 4];
        number |= (drawn >> element % WIDTH % 32 & 1u) << b;
    }
    return number;
}

static void test_dropout_rule(void **state)
{
    struct op_test *test = *state;
    static float x[COUNT];
    static float y[COUNT];
    struct mt_random_multiply_args args = ones_args(x, y, MT_RANDOM_DROPOUT, 0.3f);
    assert_int_equal(mt_random_multiply(test->device, &args), MT_OK);
    int dropped = 0;
    for (int e = 0; e < COUNT; e++) {
        bool drop = number_of(args.seed, args.stream, e) < 0x4ccdu; // ceil(0.3·2^16)
        float expected = drop ? 0.0f : 1.0f / (1.0f - 0.3f);
        assert_float_equal(y[e], expected, 0.0f);
        dropped += drop;
    }
    // 3121 expected; five standard deviations are 234.
    assert_in_range(dropped, 3121 - 234, 3121 + 234);
}

/* The same elements are dropped whichever op draws them, rows that end inside a word included. */
static void test_bits_agree(void **state)
{
    struct op_test *test = *state;
    static float x[COUNT];
    static float y[COUNT];
    static uint32_t bits[ROWS][WORDS];
    struct mt_random_multiply_args args = ones_args(x, y, MT_RANDOM_DROPOUT, 0.1f);
    assert_int_equal(mt_random_multiply(test->device, &args), MT_OK);
    struct mt_dropout_bits_args draw = {.bits = mt_tensor_2d(bits, MT_I32, ROWS, WORDS),
                                        .columns = WIDTH,
                                        .amount = 0.1f,
                                        .seed = args.seed,
                                        .stream = args.stream};
    assert_int_equal(mt_dropout_bits(test->device, &draw), MT_OK);
    for (int row = 0; row < ROWS; row++) {
        for (int column = 0; column < WIDTH; column++) {
            bool kept = (bits[row][column / 32] >> column % 32 & 1u) != 0;
            assert_true(kept == (y[row * WIDTH + column] != 0.0f));
        }
        assert_int_equal(bits[row][WIDTH / 32] >> WIDTH % 32, 0);
    }
}

/* Where the upper half of blocks' numbers changes on the way: no tensor of a test is so large. */
static void test_upper_half(void **state)
{
    (void)state;
    const uint64_t seed = 0xDEADBEEF12345678u;
    const uint64_t stream = 0xFFFFFFFF00000001u;
    const uint64_t changes = (uint64_t)3 << 32;
    struct mask_draw draw = mask_draw_of(0.1f, seed, stream);
    for (uint64_t before = 0; before <= 2 * MASK_STRETCH; before += before < 4 ? 1 : 255) {
        uint32_t kept[MASK_STRETCH];
        uint64_t word = changes / MT_DROPOUT_PARTS - before;
        draw_mask(&draw, word, MASK_STRETCH, kept);
        for (uint64_t i = 0; i < MASK_STRETCH; i++)
            assert_int_equal(kept[i], ref_mask_word(seed, stream, draw.threshold, word + i));
        uint32_t drawn[PHILOX_WORDS];
        struct philox_keys keys = philox_keys_of(seed, stream, changes - before);
        for (uint64_t block = changes - before; block <= changes; block += PHILOX_BLOCKS) {
            draw_words(&keys, block, drawn);
            for (uint64_t i = 0; i < PHILOX_WORDS; i++)
                assert_int_equal(drawn[i], mt_rng_u32(seed, stream, 4 * block + i));
        }
    }
}

#define MANY 65536 // mask words

static int ones_of(uint32_t word)
{
    return __builtin_popcount(word);
}

/* Draws MANY words, of rows of four, for an amount. */
static void draw_many(const char *device, float amount, uint64_t stream, uint32_t *bits)
{
    struct op_test test;
    op_test_open(&test, device);
    struct mt_dropout_bits_args draw = {.bits = mt_tensor_2d(bits, MT_I32, MANY / 4, 4),
                                        .columns = 128,
                                        .amount = amount,
                                        .seed = 77,
                                        .stream = stream};
    assert_int_equal(mt_dropout_bits(test.device, &draw), MT_OK);
    op_test_close(&test);
}

/* How often an element is dropped: within four standard deviations, whatever parts the amount needs. */
static void test_frequencies(void **state)
{
    (void)state;
    static uint32_t bits[MANY];
    const double count = 32.0 * MANY;
    const float amounts[] = {0.0f, 0x1p-16f, 0.001f, 0.05f, 0.1f, 0.25f, 0.33f, 0.5f, 0.9f, 0.999f};
    for (size_t i = 0; i < sizeof amounts / sizeof amounts[0]; i++) {
        draw_many("cpu", amounts[i], i, bits);
        double dropped = 0.0;
        for (int w = 0; w < MANY; w++) dropped += 32 - ones_of(bits[w]);
        double rate = (double)ceilf(amounts[i] * 0x1p16f) * 0x1p-16;
        double allowed = 4.0 * sqrt(rate * (1.0 - rate) / count);
        assert_true(fabs(dropped / count - rate) <= allowed);
    }
}

/* How far the dropped ones of two masks, one turned and shifted against the other, fall together too often.
 */
static double excess(const uint32_t *a, const uint32_t *b, int turn, int shift, double rate)
{
    double both = 0.0;
    for (int w = 0; w + shift < MANY; w++) {
        uint32_t turned = turn == 0 ? b[w + shift] : b[w + shift] << turn | b[w + shift] >> (32 - turn);
        both += ones_of(~a[w] & ~turned);
    }
    double count = 32.0 * (MANY - shift);
    double chance = rate * rate;
    return fabs(both / count - chance) / sqrt(chance * (1.0 - chance) / count); // standard deviations
}

/* Whether two elements are dropped has nothing to do with each other: of a word, of words, rows, streams. */
static void test_independence(void **state)
{
    (void)state;
    static uint32_t bits[MANY];
    static uint32_t other[MANY];
    const float amount = 0.3f;
    const double rate = ceil((double)amount * 65536.0) / 65536.0;
    draw_many("cpu", amount, 5, bits);
    draw_many("cpu", amount, 6, other);
    for (int turn = 0; turn < 32; turn++) {
        // A turn by 16 meets every pair twice, so its deviations are larger by the square root of 2.
        if (turn != 0) assert_true(excess(bits, bits, turn, 0, rate) < (turn == 16 ? 6.4 : 4.5));
        for (int shift = 1; shift <= 4; shift++) assert_true(excess(bits, bits, turn, shift, rate) < 4.5);
        assert_true(excess(bits, other, turn, 0, rate) < 4.5);
    }
}

static void test_jitter_rule(void **state)
{
    struct op_test *test = *state;
    static float x[COUNT];
    static float y[COUNT];
    struct mt_random_multiply_args args = ones_args(x, y, MT_RANDOM_JITTER, 0.01f);
    assert_int_equal(mt_random_multiply(test->device, &args), MT_OK);
    double sum = 0.0;
    for (int e = 0; e < COUNT; e++) {
        float unit = mt_rng_uniform(args.seed, args.stream, (uint64_t)e);
        assert_float_equal(y[e], fmaf(0.01f, 2.0f * unit - 1.0f, 1.0f), 0.0f);
        assert_true(y[e] >= 0.99f && y[e] <= 1.01f);
        sum += (double)y[e];
    }
    assert_float_equal((float)(sum / COUNT), 1.0f, 5.0f * 0.01f / 176.0f); // 176 = sqrt(3 COUNT)
}

static void test_refusals(void **state)
{
    struct op_test *test = *state;
    static float x[COUNT];
    struct mt_random_multiply_args args = ones_args(x, x, MT_RANDOM_DROPOUT, 1.0f);
    op_test_refused(test, mt_random_multiply(test->device, &args), MT_ERR_USAGE, "amount is 1");
    args.amount = -0.1f;
    op_test_refused(test, mt_random_multiply(test->device, &args), MT_ERR_USAGE, "amount is -0.1");
    args.amount = NAN;
    op_test_refused(test, mt_random_multiply(test->device, &args), MT_ERR_USAGE, "amount is");
    args.kind = (enum mt_random_kind)7;
    op_test_refused(test, mt_random_multiply(test->device, &args), MT_ERR_USAGE, "kind is 7");
    args.y.dim[0] = 1;
    op_test_refused(test, mt_random_multiply(test->device, &args), MT_ERR_SHAPE, "y is");

    struct mt_dropout_bits_args draw = {.bits = mt_tensor_2d(x, MT_I32, 2, 3), .columns = 97, .amount = 0.1f};
    op_test_refused(test, mt_dropout_bits(test->device, &draw), MT_ERR_SHAPE, "bits is");
    draw.columns = -1;
    op_test_refused(test, mt_dropout_bits(test->device, &draw), MT_ERR_USAGE, "columns is -1");
    draw.columns = 96;
    draw.amount = 1.0f;
    op_test_refused(test, mt_dropout_bits(test->device, &draw), MT_ERR_USAGE, "amount is 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {ON_REF(test_dropout_rule),
                                       ON_CPU(test_dropout_rule),
                                       ON_REF(test_bits_agree),
                                       ON_CPU(test_bits_agree),
                                       cmocka_unit_test(test_upper_half),
                                       cmocka_unit_test(test_frequencies),
                                       cmocka_unit_test(test_independence),
                                       ON_REF(test_jitter_rule),
                                       ON_CPU(test_jitter_rule),
                                       ON_CPU(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
