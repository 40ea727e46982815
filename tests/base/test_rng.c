/* Philox against its published answers; the distributions by their moments. */
#include <math.h>

#include "base/rng.h"
#include "support/cmocka_all.h"

#define DRAWS 200000

static void known_answer(struct mt_rng_block counter, uint32_t key0, uint32_t key1, int rounds,
                         const uint32_t expected[4])
{
    struct mt_rng_block got = mt_rng_philox(counter, key0, key1, rounds);
    for (int i = 0; i < 4; i++) assert_int_equal(got.word[i], expected[i]);
}

/* From Random123's own test vectors (philox4x32, 10 and 7 rounds). */
static void known_answers(void **state)
{
    (void)state;
    const struct mt_rng_block zeros = {{0, 0, 0, 0}};
    const struct mt_rng_block ones = {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}};
    const struct mt_rng_block pi = {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}};
    known_answer(zeros, 0, 0, 10, (const uint32_t[]){0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
    known_answer(ones, 0xffffffff, 0xffffffff, 10,
                 (const uint32_t[]){0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
    known_answer(pi, 0xa4093822, 0x299f31d0, 10,
                 (const uint32_t[]){0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
    known_answer(zeros, 0, 0, 7, (const uint32_t[]){0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48});
    known_answer(ones, 0xffffffff, 0xffffffff, 7,
                 (const uint32_t[]){0x5207ddc2, 0x45165e59, 0x4d8ee751, 0x8c52f662});
    known_answer(pi, 0xa4093822, 0x299f31d0, 7,
                 (const uint32_t[]){0x4dfccaba, 0x190a87f0, 0xc47362ba, 0xb6b5242a});
}

static void elements_are_words_of_blocks(void **state)
{
    (void)state;
    uint64_t seed = 0x299f31d0a4093822u;
    uint64_t stream = 0x0370734413198a2eu;
    uint64_t block = 0x85a308d3243f6a88u;
    static const uint32_t expected[] = {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1};
    struct mt_rng_block words = mt_rng_words(seed, stream, block);
    for (int i = 0; i < 4; i++) assert_int_equal(words.word[i], expected[i]);
    assert_int_equal(mt_rng_words7(seed, stream, block).word[3], 0xb6b5242a);
    for (uint64_t i = 0; i < 12; i++) {
        assert_int_equal(mt_rng_u32(5, 6, i), mt_rng_words(5, 6, i / 4).word[i % 4]);
    }
}

static void unit_intervals(void **state)
{
    (void)state;
    assert_true(mt_rng_unit(0) == 0.0f);
    assert_true(mt_rng_unit(UINT32_MAX) < 1.0f);
    assert_true(mt_rng_unit_open(0) > 0.0f);
    assert_true(mt_rng_unit_open(UINT32_MAX) < 1.0f);
    // What the Gumbel noise of a router needs at both ends.
    assert_true(isfinite(logf(-logf(mt_rng_unit_open(0)))));
    assert_true(isfinite(logf(-logf(mt_rng_unit_open(UINT32_MAX)))));
}

static void uniform_moments(void **state)
{
    (void)state;
    double sum = 0.0;
    double squares = 0.0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        double value = (double)mt_rng_uniform(1, 2, i);
        assert_true(value >= 0.0 && value < 1.0);
        sum += value;
        squares += value * value;
    }
    // Four standard errors: 4·sqrt(1/12/200000) and 4·sqrt(4/45/200000).
    assert_true(fabs(sum / DRAWS - 0.5) < 2.6e-3);
    assert_true(fabs(squares / DRAWS - 1.0 / 3.0) < 2.7e-3);
}

static void normal_moments(void **state)
{
    (void)state;
    double moment[5] = {0};
    for (uint64_t i = 0; i < DRAWS; i++) {
        double value = (double)mt_rng_normal(1, 2, i);
        assert_true(isfinite(value));
        double power = 1.0;
        for (int m = 1; m <= 4; m++) {
            power *= value;
            moment[m] += power / DRAWS;
        }
    }
    // Four standard errors: the variances of z, z², z³, z⁴ are 1, 2, 15, 96.
    assert_true(fabs(moment[1]) < 4.0 * sqrt(1.0 / DRAWS));
    assert_true(fabs(moment[2] - 1.0) < 4.0 * sqrt(2.0 / DRAWS));
    assert_true(fabs(moment[3]) < 4.0 * sqrt(15.0 / DRAWS));
    assert_true(fabs(moment[4] - 3.0) < 4.0 * sqrt(96.0 / DRAWS));
}

static double correlation(uint64_t seed_a, uint64_t stream_a, uint64_t seed_b, uint64_t stream_b,
                          uint64_t shift)
{
    double sum = 0.0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        sum +=
            (double)mt_rng_normal(seed_a, stream_a, i) * (double)mt_rng_normal(seed_b, stream_b, i + shift);
    }
    return sum / DRAWS;
}

static void streams_are_independent(void **state)
{
    (void)state;
    double limit = 4.5 * sqrt(1.0 / DRAWS);
    assert_true(fabs(correlation(1, 0, 1, 1, 0)) < limit);                 // neighbouring streams
    assert_true(fabs(correlation(1, 0, 2, 0, 0)) < limit);                 // neighbouring seeds
    assert_true(fabs(correlation(1, 0, 1, 0, 1)) < limit);                 // neighbouring elements
    assert_true(fabs(correlation(1, 0, 1, (uint64_t)1 << 32, 0)) < limit); // the stream's high word counts
    assert_true(fabs(correlation(1, 0, (uint64_t)1 << 32 | 1, 0, 0)) < limit);
    assert_true(fabs(correlation(1, 0, 1, 0, 0) - 1.0) < 0.02); // the same place, the same number
}

static void below_is_unbiased(void **state)
{
    (void)state;
    enum { BOUND = 7 };
    double counts[BOUND] = {0};
    for (uint64_t i = 0; i < DRAWS; i++) {
        uint64_t value = mt_rng_below(3, 4, i, BOUND);
        assert_true(value < BOUND);
        counts[value] += 1.0;
    }
    double chi_squared = 0.0;
    for (int i = 0; i < BOUND; i++) {
        double expected = (double)DRAWS / BOUND;
        chi_squared += (counts[i] - expected) * (counts[i] - expected) / expected;
    }
    assert_true(chi_squared < 27.9); // 6 degrees of freedom, one in ten thousand
}

/* Just above half the range nearly every second draw is redrawn; modulo would double the low values. */
static void below_redraws(void **state)
{
    (void)state;
    uint64_t bound = ((uint64_t)1 << 63) + 1;
    double low = 0.0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        uint64_t value = mt_rng_below(3, 5, i, bound);
        assert_true(value < bound);
        low += value < bound / 2;
    }
    assert_true(fabs(low / DRAWS - 0.5) < 4.0 * 0.5 / sqrt((double)DRAWS));
    assert_int_equal(mt_rng_below(3, 5, 0, 1), 0);
    assert_true(mt_rng_below(3, 5, 0, UINT64_MAX) < UINT64_MAX);
    assert_true(mt_rng_below(3, 5, UINT64_MAX, 10) < 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),     cmocka_unit_test(elements_are_words_of_blocks),
        cmocka_unit_test(unit_intervals),    cmocka_unit_test(uniform_moments),
        cmocka_unit_test(normal_moments),    cmocka_unit_test(streams_are_independent),
        cmocka_unit_test(below_is_unbiased), cmocka_unit_test(below_redraws),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
