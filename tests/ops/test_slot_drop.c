/*
 * slot_drop: who is served, worked by hand; every draw replayed from the generator by a plain loop in the
 * order ops.h gives; and the argument checks.
 */
#include "base/rng.h"
#include "ops/op_test.h"

static void assert_ints(const int32_t *got, const int32_t *expected, int count)
{
    for (int i = 0; i < count; i++) {
        if (got[i] != expected[i]) fail_msg("[%d] is %d, expected %d", i, (int)got[i], (int)expected[i]);
    }
}

/* Two places per expert. First choices go before second ones, whatever the token. */
static void test_capacity(void **state)
{
    struct op_test *test = *state;
    int32_t expert[] = {0, 1, 0, 2, 0, 1, 1, 0};
    int32_t mask[] = {0, 1, 1, 1};
    int32_t kept[8];
    struct mt_slot_drop_args args = {.expert = mt_tensor_2d(expert, MT_I32, 4, 2),
                                     .kept = mt_tensor_2d(kept, MT_I32, 4, 2),
                                     .experts = 3,
                                     .capacity = 2};
    assert_int_equal(mt_slot_drop(test->device, &args), MT_OK);
    assert_ints(kept, (const int32_t[]){0, 1, 0, 2, -1, -1, 1, -1}, 8);
    args.mask = mt_tensor_1d(mask, MT_I32, 4); // the first token makes room
    assert_int_equal(mt_slot_drop(test->device, &args), MT_OK);
    assert_ints(kept, (const int32_t[]){-1, -1, 0, 2, 0, 1, 1, -1}, 8);
    args.capacity = 0;
    assert_int_equal(mt_slot_drop(test->device, &args), MT_OK);
    assert_ints(kept, (const int32_t[]){-1, -1, 0, 2, 0, 1, 1, 0}, 8);
    args.kept = args.expert; // in place
    args.capacity = 1;
    assert_int_equal(mt_slot_drop(test->device, &args), MT_OK);
    assert_ints(expert, (const int32_t[]){-1, -1, 0, 2, -1, -1, 1, -1}, 8);
}

/* A slot that has no share never stays, one that has all of it always does; slot 0 is never drawn for. */
static void test_chance_at_the_ends(void **state)
{
    struct op_test *test = *state;
    int32_t expert[] = {0, 1, 2, 2, 1, 0};
    float weight[] = {0, 1, 0, 0.5f, 0.25f, 0.25f};
    int32_t kept[6];
    struct mt_slot_drop_args args = {.expert = mt_tensor_2d(expert, MT_I32, 2, 3),
                                     .weight = mt_tensor_2d(weight, MT_F32, 2, 3),
                                     .kept = mt_tensor_2d(kept, MT_I32, 2, 3),
                                     .experts = 3,
                                     .threshold = 0.2f};
    for (uint64_t seed = 0; seed < 50; seed++) {
        args.seed = seed;
        assert_int_equal(mt_slot_drop(test->device, &args), MT_OK);
        assert_ints(kept, (const int32_t[]){0, 1, -1, 2, 1, 0}, 6); // 0.25 is above the threshold
    }
}

static void test_draws(void **state)
{
    struct op_test *test = *state;
    enum { TOKENS = 2000, EXPERTS = 8, SLOTS = 3, CAPACITY = 300 };
    static int32_t expert[TOKENS * SLOTS];
    static float weight[TOKENS * SLOTS];
    static int32_t kept[TOKENS * SLOTS];
    static int32_t expected[TOKENS * SLOTS];
    int64_t served[EXPERTS] = {0};
    int lost_draws = 0;
    int full = 0;
    for (int i = 0; i < TOKENS * SLOTS; i++) {
        weight[i] = mt_rng_uniform(3, 1, (uint64_t)i);
        expert[i] = (int32_t)mt_rng_below(3, 2, (uint64_t)i, EXPERTS + 1) - 1;
    }
    for (int s = 0; s < SLOTS; s++) {
        for (int i = 0; i < TOKENS; i++) {
            int at = i * SLOTS + s;
            expected[at] = -1;
            if (expert[at] < 0) continue;
            double total = 0.0;
            for (int m = 0; m < SLOTS; m++) total += (double)weight[i * SLOTS + m];
            float u = mt_rng_unit(mt_rng_u32(12, 34, (uint64_t)at));
            bool lost = s > 0 && (double)weight[at] / total <= 0.5 * (double)u;
            bool no_room = !lost && served[expert[at]] == CAPACITY;
            lost_draws += lost;
            full += no_room;
            if (lost || no_room) continue;
            served[expert[at]]++;
            expected[at] = expert[at];
        }
    }
    assert_true(lost_draws > 500 && full > 50); // both really happen
    struct mt_slot_drop_args args = {.expert = mt_tensor_2d(expert, MT_I32, TOKENS, SLOTS),
                                     .weight = mt_tensor_2d(weight, MT_F32, TOKENS, SLOTS),
                                     .kept = mt_tensor_2d(kept, MT_I32, TOKENS, SLOTS),
                                     .experts = EXPERTS,
                                     .capacity = CAPACITY,
                                     .threshold = 0.5f,
                                     .seed = 12,
                                     .stream = 34};
    assert_int_equal(mt_slot_drop(test->device, &args), MT_OK);
    assert_ints(kept, expected, TOKENS * SLOTS);
}

static void test_refusals(void **state)
{
    struct op_test *test = *state;
    int32_t expert[] = {0, 1, 2, -1};
    float weight[4] = {1, 1, 1, 1};
    int32_t mask[2] = {1, 1};
    int32_t kept[4];
    const struct mt_slot_drop_args good = {.expert = mt_tensor_2d(expert, MT_I32, 2, 2),
                                           .weight = mt_tensor_2d(weight, MT_F32, 2, 2),
                                           .mask = mt_tensor_1d(mask, MT_I32, 2),
                                           .kept = mt_tensor_2d(kept, MT_I32, 2, 2),
                                           .experts = 3,
                                           .capacity = 5,
                                           .threshold = 0.2f};
    struct mt_slot_drop_args args = good;
    assert_int_equal(mt_slot_drop(test->device, &good), MT_OK);
    args.expert = mt_tensor_2d(weight, MT_F32, 2, 2);
    op_test_refused(test, mt_slot_drop(test->device, &args), MT_ERR_DTYPE, "expert is f32");
    args = good;
    args.experts = 2;
    op_test_refused(test, mt_slot_drop(test->device, &args), MT_ERR_USAGE, "expert holds 2");
    args.experts = 0;
    op_test_refused(test, mt_slot_drop(test->device, &args), MT_ERR_USAGE, "experts is 0");
    args = good;
    args.weight = (struct mt_tensor){0};
    op_test_refused(test, mt_slot_drop(test->device, &args), MT_ERR_USAGE, "weight is missing");
    args.threshold = 0.0f;
    assert_int_equal(mt_slot_drop(test->device, &args), MT_OK); // without a threshold nothing is weighed
    args = good;
    args.weight = mt_tensor_2d(weight, MT_F32, 1, 4);
    op_test_refused(test, mt_slot_drop(test->device, &args), MT_ERR_SHAPE, "weight is");
    args = good;
    args.threshold = -0.1f;
    op_test_refused(test, mt_slot_drop(test->device, &args), MT_ERR_USAGE, "threshold is");
    args = good;
    args.capacity = -1;
    op_test_refused(test, mt_slot_drop(test->device, &args), MT_ERR_USAGE, "capacity is");
    args = good;
    args.mask.dim[0] = 1;
    op_test_refused(test, mt_slot_drop(test->device, &args), MT_ERR_SHAPE, "mask is");
    args = good;
    args.kept = mt_tensor_2d(kept, MT_I32, 2, 1);
    op_test_refused(test, mt_slot_drop(test->device, &args), MT_ERR_SHAPE, "kept is");
    expert[0] = -2;
    op_test_refused(test, mt_slot_drop(test->device, &good), MT_ERR_USAGE, "expert holds -2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_REF(test_capacity),           ON_CPU(test_capacity), ON_REF(test_chance_at_the_ends),
        ON_CPU(test_chance_at_the_ends), ON_REF(test_draws),    ON_CPU(test_draws),
        ON_REF(test_refusals),           ON_CPU(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
