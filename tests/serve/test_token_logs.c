/* Log-probabilities against a plain sum, the likeliest in order, and no more places than there is room for.
 */
#include <math.h>

#include "base/rng.h"
#include "serve/token_logs.h"
#include "support/cmocka_all.h"

#define VOCABULARY 300
#define PLACES     20

static double plain_log(const float *logits, int32_t id)
{
    double sum = 0.0;
    for (int i = 0; i < VOCABULARY; i++) sum += exp((double)logits[i]);
    return (double)logits[id] - log(sum);
}

static void test_places(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_token_logs logs;
    float logits[VOCABULARY];
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_token_logs_create(&ctx, PLACES, 5, &logs), MT_OK);
    for (int32_t place = 0; place <= PLACES; place++) { // one more than there is room for
        for (int i = 0; i < VOCABULARY; i++)
            logits[i] = 8.0f * mt_rng_uniform(1, (uint64_t)place, (uint64_t)i) - 4.0f;
        logits[7] = logits[9]; // a tie
        mt_token_logs_add(&logs, place, logits, VOCABULARY);
        if (place == PLACES) break;
        const struct mt_likely *found = mt_token_logs_at(&logs, (size_t)place);
        assert_int_equal(found[0].id, place);
        assert_true(fabs((double)found[0].log - plain_log(logits, place)) < 1e-5);
        for (int k = 1; k <= 5; k++) {
            int better = 0;
            for (int i = 0; i < VOCABULARY; i++)
                better +=
                    logits[i] > logits[found[k].id] || (i < found[k].id && logits[i] == logits[found[k].id]);
            assert_int_equal(better, k - 1);
            assert_true(fabs((double)found[k].log - plain_log(logits, found[k].id)) < 1e-5);
        }
    }
    assert_int_equal(logs.count, PLACES);
    mt_token_logs_free(&logs);
    assert_int_equal(ctx.live_bytes, 0);
}

static void test_few_tokens(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_token_logs logs;
    const float logits[] = {0.0f, 1.0f};
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_token_logs_create(&ctx, 1, 3, &logs), MT_OK);
    mt_token_logs_add(&logs, 0, logits, 2);
    const struct mt_likely *found = mt_token_logs_at(&logs, 0);
    assert_int_equal(found[1].id, 1);
    assert_int_equal(found[2].id, 0);
    assert_int_equal(found[3].id, -1); // there is no third
    mt_token_logs_free(&logs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_few_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
