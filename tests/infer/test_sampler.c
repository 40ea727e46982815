/* Choosing tokens: what may be drawn, how often, and that nothing but seed, request and position decides. */
#include <math.h>
#include <string.h>

#include "infer/sampler.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"

#define VOCABULARY 6
#define DRAWS      20000

static const float logits[VOCABULARY] = {0.5f, 2.0f, -1.0f, 2.0f, 1.0f, -3.0f};

struct drawing {
    struct mt_context ctx;
    struct mt_sampler sampler;
};

static int open_drawing(void **state)
{
    static struct drawing drawing;
    mt_context_init(&drawing.ctx, NULL);
    *state = &drawing;
    return mt_sampler_create(&drawing.ctx, VOCABULARY, &drawing.sampler) == MT_OK ? 0 : -1;
}

static int close_drawing(void **state)
{
    struct drawing *drawing = *state;
    mt_sampler_destroy(&drawing->sampler);
    return drawing->ctx.live_bytes == 0 ? 0 : -1;
}

static int32_t draw(struct drawing *drawing, const struct mt_sampling *sampling, uint64_t request,
                    int64_t position)
{
    static const int32_t past[64] = {0};
    float copy[VOCABULARY];
    memcpy(copy, logits, sizeof copy);
    struct mt_sampling_place place = {.request = request, .position = position, .past = past};
    return mt_sampler_choose(&drawing->sampler, sampling, &place, copy);
}

/* How often each token comes, against what it should be: five standard deviations are allowed. */
static void expect_shares(struct drawing *drawing, const struct mt_sampling *sampling,
                          const double share[VOCABULARY])
{
    int count[VOCABULARY] = {0};
    for (int i = 0; i < DRAWS; i++) count[draw(drawing, sampling, (uint64_t)(i / 50), i % 50)]++;
    for (int i = 0; i < VOCABULARY; i++) {
        double deviation = sqrt(share[i] * (1.0 - share[i]) / DRAWS);
        double difference = fabs((double)count[i] / DRAWS - share[i]);
        if (difference > 5.0 * deviation)
            fail_msg("token %d: %d draws, expected %g", i, count[i], share[i] * DRAWS);
    }
}

/* Probabilities of the tokens that are kept. */
static void shares(double temperature, const bool kept[VOCABULARY], double share[VOCABULARY])
{
    double sum = 0.0;
    for (int i = 0; i < VOCABULARY; i++) sum += kept[i] ? exp((double)logits[i] / temperature) : 0.0;
    for (int i = 0; i < VOCABULARY; i++)
        share[i] = kept[i] ? exp((double)logits[i] / temperature) / sum : 0.0;
}

static void test_shares(void **state)
{
    struct drawing *drawing = *state;
    double share[VOCABULARY];
    struct mt_sampling sampling = {.temperature = 0.7, .top_p = 1.0, .repetition_penalty = 1.0, .seed = 3};
    shares(0.7, (const bool[]){true, true, true, true, true, true}, share);
    expect_shares(drawing, &sampling, share);
    sampling.top_k = 3;
    shares(0.7, (const bool[]){false, true, false, true, true, false}, share);
    expect_shares(drawing, &sampling, share);
    // The two best have 0.83 of the probability at this temperature.
    sampling.top_k = 0;
    sampling.top_p = 0.8;
    shares(0.7, (const bool[]){false, true, false, true, false, false}, share);
    expect_shares(drawing, &sampling, share);
    // Of the three best they have 0.89.
    sampling.top_k = 3;
    sampling.top_p = 0.88;
    expect_shares(drawing, &sampling, share);
    sampling.top_p = 0.95;
    shares(0.7, (const bool[]){false, true, false, true, true, false}, share);
    expect_shares(drawing, &sampling, share);
    // Of two that are equal, the first.
    sampling.top_p = 1e-9;
    shares(0.7, (const bool[]){false, true, false, false, false, false}, share);
    expect_shares(drawing, &sampling, share);
}

static void test_determined(void **state)
{
    struct drawing *drawing = *state;
    struct mt_sampling sampling = {.temperature = 1.5, .top_p = 0.99, .repetition_penalty = 1.0, .seed = 3};
    int others[3] = {0};
    for (int64_t i = 0; i < 50; i++) {
        int32_t first = draw(drawing, &sampling, 8, i);
        assert_int_equal(draw(drawing, &sampling, 8, i), first);
        others[0] += draw(drawing, &sampling, 9, i) != first;
        others[1] += draw(drawing, &sampling, 8, i + 1) != first;
        sampling.seed = 4;
        others[2] += draw(drawing, &sampling, 8, i) != first;
        sampling.seed = 3;
    }
    for (int i = 0; i < 3; i++) assert_true(others[i] > 15);
    sampling.temperature = 0.0;
    assert_int_equal(draw(drawing, &sampling, 8, 0), 1);
}

/* Each token is penalised once, however often it was there. */
static void test_penalty(void **state)
{
    struct drawing *drawing = *state;
    const int32_t past[] = {1, 3, 1, 1, 2};
    struct mt_sampling sampling = {.top_p = 1.0, .repetition_penalty = 1.5};
    struct mt_sampling_place place = {.position = 5, .past = past};
    float copy[VOCABULARY];
    for (int round = 0; round < 2; round++) {
        memcpy(copy, logits, sizeof copy);
        assert_int_equal(mt_sampler_choose(&drawing->sampler, &sampling, &place, copy), 1);
        assert_true(copy[1] == 2.0f / 1.5f && copy[3] == 2.0f / 1.5f);
        assert_true(copy[2] == -1.5f && copy[0] == 0.5f);
    }
    sampling.repetition_penalty = 3.0;
    memcpy(copy, logits, sizeof copy);
    assert_int_equal(mt_sampler_choose(&drawing->sampler, &sampling, &place, copy), 4);
}

static void test_refusals(void **state)
{
    struct drawing *drawing = *state;
    const struct mt_sampling good = {.top_p = 1.0, .repetition_penalty = 1.0};
    struct mt_sampling bad[6];
    for (int i = 0; i < 6; i++) bad[i] = good;
    bad[0].temperature = -0.1;
    bad[1].temperature = (double)NAN;
    bad[2].top_p = 1.1;
    bad[3].top_k = -1;
    bad[4].repetition_penalty = 0.0;
    bad[5].repetition_penalty = (double)INFINITY;
    assert_int_equal(mt_sampling_check(&drawing->ctx, &good), MT_OK);
    for (int i = 0; i < 6; i++) assert_int_equal(mt_sampling_check(&drawing->ctx, &bad[i]), MT_ERR_USAGE);
}

static enum mt_status create_only(struct mt_context *ctx, const void *self)
{
    (void)self;
    struct mt_sampler sampler;
    enum mt_status status = mt_sampler_create(ctx, VOCABULARY, &sampler);
    mt_sampler_destroy(&sampler);
    return status;
}

static void test_memory(void **state)
{
    (void)state;
    assert_every_allocation_may_fail(create_only, NULL, 1);
}

#define DRAWING(test) cmocka_unit_test_setup_teardown(test, open_drawing, close_drawing)

int main(void)
{
    const struct CMUnitTest tests[] = {
        DRAWING(test_shares),   DRAWING(test_determined),      DRAWING(test_penalty),
        DRAWING(test_refusals), cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
