/* Sums in any order: the same bits, and close to the true sum. */
#include "base/any_order.h"

#include <math.h>

#include "base/rng.h"
#include "support/cmocka_all.h"

#define NUMBERS 20000

static double number_of(uint64_t i)
{
    struct mt_rng_block words = mt_rng_words(5, 0, i);
    double size = ldexp(1.0, (int)(words.word[0] % 40) - 30); // from 2^-30 to 2^9
    return size * ((double)words.word[1] / 4294967296.0 - 0.3);
}

/* Forwards, backwards, in two halves by turns: sums of very different sizes. */
static void order_does_not_matter(void **state)
{
    (void)state;
    struct mt_any_order forwards = {0};
    struct mt_any_order backwards = {0};
    struct mt_any_order halves[2] = {0};
    double plain_forwards = 0.0;
    double plain_backwards = 0.0;
    long double exact = 0.0L;
    for (uint64_t i = 0; i < NUMBERS; i++) {
        mt_any_order_add(&forwards, number_of(i));
        mt_any_order_add(&backwards, number_of(NUMBERS - 1 - i));
        mt_any_order_add(&halves[i % 7 < 3 ? 1 : 0], number_of(i));
        plain_forwards += number_of(i);
        plain_backwards += number_of(NUMBERS - 1 - i);
        exact += (long double)number_of(i);
    }
    mt_any_order_merge(&halves[1], &halves[0]);
    assert_true(plain_forwards != plain_backwards); // what this is for
    assert_true(forwards.high == backwards.high && forwards.low == backwards.low);
    assert_true(forwards.high == halves[1].high && forwards.low == halves[1].low);
    assert_true(fabsl((long double)mt_any_order_value(&forwards) - exact) <= NUMBERS * 0x1p-51L + 0x1p-40L);
}

/* What fits the places is not changed at all. */
static void short_numbers_are_exact(void **state)
{
    (void)state;
    struct mt_any_order sum = {0};
    for (int i = 1; i <= 1000; i++) mt_any_order_add(&sum, i / 64.0);
    assert_true(mt_any_order_value(&sum) == 500500.0 / 64.0 && sum.low == 0.0);
    mt_any_order_add(&sum, -500500.0 / 64.0);
    assert_true(mt_any_order_value(&sum) == 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_does_not_matter),
        cmocka_unit_test(short_numbers_are_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
