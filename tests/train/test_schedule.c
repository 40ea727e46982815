/* The learning rate of every step, against values of transformers' own schedules. */
#include "train/schedule.h"

#include <math.h>

#include "support/cmocka_all.h"

static void check(const struct mt_schedule *schedule, const double *expected, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        double share = mt_schedule_share(schedule, i);
        if (fabs(share - expected[i]) > 1e-12)
            fail_msg("step %zu: %.15g, expected %.15g", i, share, expected[i]);
    }
}

/* get_cosine_schedule_with_warmup(optimizer, 3, 10): LambdaLR's factors of steps 0 to 9. */
static void cosine_is_that_of_transformers(void **state)
{
    (void)state;
    static const double expected[] = {0.0,
                                      0.3333333333333333,
                                      0.6666666666666666,
                                      1.0,
                                      0.9504844339512095,
                                      0.8117449009293668,
                                      0.6112604669781572,
                                      0.38873953302184283,
                                      0.1882550990706332,
                                      0.04951556604879043};
    struct mt_schedule schedule = mt_schedule_make(MT_SCHEDULE_COSINE, 10, 3.0, 0.0);
    check(&schedule, expected, sizeof expected / sizeof expected[0]);
}

/* get_linear_schedule_with_warmup(optimizer, 2, 6). */
static void linear_is_that_of_transformers(void **state)
{
    (void)state;
    static const double expected[] = {0.0, 0.5, 1.0, 0.75, 0.5, 0.25, 0.0, 0.0};
    struct mt_schedule schedule = mt_schedule_make(MT_SCHEDULE_LINEAR, 6, 2.0, 0.0);
    check(&schedule, expected, sizeof expected / sizeof expected[0]);
}

static void constant_stays(void **state)
{
    (void)state;
    static const double expected[] = {0.0, 0.5, 1.0, 1.0, 1.0};
    struct mt_schedule schedule = mt_schedule_make(MT_SCHEDULE_CONSTANT, 5, 2.0, 0.0);
    check(&schedule, expected, sizeof expected / sizeof expected[0]);
}

/* A share of steps is rounded up, as TrainingArguments.get_warmup_steps does; none means none. */
static void warmup_is_steps_or_a_share(void **state)
{
    (void)state;
    assert_int_equal(mt_schedule_make(MT_SCHEDULE_COSINE, 1000, 0.03, 0.0).warmup, 30);
    assert_int_equal(mt_schedule_make(MT_SCHEDULE_COSINE, 101, 0.03, 0.0).warmup, 4);
    assert_int_equal(mt_schedule_make(MT_SCHEDULE_COSINE, 101, 7.0, 0.0).warmup, 7);
    assert_int_equal(mt_schedule_make(MT_SCHEDULE_COSINE, 5, 70.0, 0.0).warmup, 5);
    struct mt_schedule none = mt_schedule_make(MT_SCHEDULE_COSINE, 10, 0.0, 0.0);
    assert_int_equal(none.warmup, 0);
    assert_true(mt_schedule_share(&none, 0) == 1.0);
}

static void a_final_share_is_the_floor(void **state)
{
    (void)state;
    struct mt_schedule schedule = mt_schedule_make(MT_SCHEDULE_COSINE, 100, 10.0, 0.1);
    assert_true(mt_schedule_share(&schedule, 10) == 1.0);
    assert_true(fabs(mt_schedule_share(&schedule, 55) - 0.55) < 1e-12);
    assert_true(fabs(mt_schedule_share(&schedule, 100) - 0.1) < 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cosine_is_that_of_transformers),
        cmocka_unit_test(linear_is_that_of_transformers),
        cmocka_unit_test(constant_stays),
        cmocka_unit_test(warmup_is_steps_or_a_share),
        cmocka_unit_test(a_final_share_is_the_floor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
