/*
 * The router ops: routing worked out by hand for each rule, ties, NaN, and the argument checks. Tests
 * src/ops.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "metier/ops.h"

struct fixture {
    struct mt_context ctx;
    struct mt_device *device[2]; // ref, cpu
};

static int setup(void **state)
{
    static struct fixture f;
    mt_context_init(&f.ctx, NULL);
    if (mt_device_create(&f.ctx, "ref", 1, &f.device[0]) != MT_OK) return -1;
    if (mt_device_create(&f.ctx, "cpu", 2, &f.device[1]) != MT_OK) return -1;
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    mt_device_destroy(f->device[0]);
    mt_device_destroy(f->device[1]);
    return f->ctx.live_bytes == 0 ? 0 : -1;
}

static struct mt_tensor floats(float *data, int64_t rows, int64_t columns)
{
    return mt_tensor_2d(data, MT_F32, rows, columns);
}

static struct mt_tensor ints(int32_t *data, int64_t rows, int64_t columns)
{
    return mt_tensor_2d(data, MT_I32, rows, columns);
}

static void assert_near(double got, double expected, double tolerance)
{
    if (!(fabs(got - expected) <= tolerance)) fail_msg("%.9g, expected %.9g", got, expected);
}

static void assert_ints(const int32_t *got, const int32_t *expected, int count)
{
    for (int i = 0; i < count; i++) assert_int_equal(got[i], expected[i]);
}

// ------------------------------------------------------------------ router_score

static void test_softmax_and_sigmoid(void **state)
{
    struct fixture *f = *state;
    float logits[] = {0.0f, logf(2.0f), logf(5.0f), 1000.0f, 1000.0f, -1000.0f};
    for (int d = 0; d < 2; d++) {
        float p[6];
        assert_int_equal(mt_router_score_forward(f->device[d],
                                                 &(struct mt_router_score_forward_args){
                                                     .logits = floats(logits, 2, 3),
                                                     .probs = floats(p, 2, 3),
                                                     .kind = MT_SCORE_SOFTMAX,
                                                 }),
                         MT_OK);
        const float expected[] = {0.125f, 0.25f, 0.625f, 0.5f, 0.5f, 0.0f};
        for (int i = 0; i < 6; i++) assert_near(p[i], expected[i], 1e-6);
        assert_int_equal(mt_router_score_forward(f->device[d],
                                                 &(struct mt_router_score_forward_args){
                                                     .logits = floats(logits, 2, 3),
                                                     .probs = floats(p, 2, 3),
                                                     .kind = MT_SCORE_SIGMOID,
                                                 }),
                         MT_OK);
        const float squashed[] = {0.5f, 2.0f / 3.0f, 5.0f / 6.0f, 1.0f, 1.0f, 0.0f};
        for (int i = 0; i < 6; i++) assert_near(p[i], squashed[i], 1e-6);
    }
}

static void test_softmax_of_nan_is_nan_in_its_row_only(void **state)
{
    struct fixture *f = *state;
    float logits[] = {0.0f, NAN, 1.0f, 1.0f};
    for (int d = 0; d < 2; d++) {
        float p[4];
        assert_int_equal(
            mt_router_score_forward(f->device[d],
                                    &(struct mt_router_score_forward_args){.logits = floats(logits, 2, 2),
                                                                           .probs = floats(p, 2, 2)}),
            MT_OK);
        assert_true(isnan(p[0]) && isnan(p[1]));
        assert_near(p[2], 0.5f, 1e-6);
    }
}

// ------------------------------------------------------------------ topk

static void pick(struct mt_device *device, float *probs, int n, float *bias, enum mt_group_rule rule,
                 int groups, int kept, int32_t *expert, int k)
{
    struct mt_topk_args args = {.probs = floats(probs, 1, n),
                                .expert = ints(expert, 1, k),
                                .group_rule = rule,
                                .groups = groups,
                                .groups_kept = kept};
    if (bias != NULL) args.bias = mt_tensor_1d(bias, MT_F32, n);
    assert_int_equal(mt_topk(device, &args), MT_OK);
}

static void test_topk_falls_and_breaks_ties_by_index(void **state)
{
    struct fixture *f = *state;
    float probs[] = {0.1f, 0.3f, 0.2f, 0.3f, 0.0f, -0.0f};
    for (int d = 0; d < 2; d++) {
        int32_t expert[6];
        pick(f->device[d], probs, 6, NULL, MT_GROUP_NONE, 0, 0, expert, 6);
        assert_ints(expert, (const int32_t[]){1, 3, 2, 0, 4, 5}, 6);
    }
}

static void test_topk_puts_nan_last(void **state)
{
    struct fixture *f = *state;
    float some[] = {NAN, -INFINITY, 0.5f, NAN, INFINITY};
    float all[] = {NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
    for (int d = 0; d < 2; d++) {
        int32_t expert[5];
        pick(f->device[d], some, 5, NULL, MT_GROUP_NONE, 0, 0, expert, 5);
        assert_ints(expert, (const int32_t[]){4, 2, 1, 0, 3}, 5);
        pick(f->device[d], all, 8, NULL, MT_GROUP_NONE, 0, 0, expert, 3);
        assert_ints(expert, (const int32_t[]){0, 1, 2}, 3);
        pick(f->device[d], all, 8, NULL, MT_GROUP_MAX, 4, 2, expert, 3);
        assert_ints(expert, (const int32_t[]){0, 1, 2}, 3);
        pick(f->device[d], all, 8, NULL, MT_GROUP_TOP2_SUM, 4, 2, expert, 3);
        assert_ints(expert, (const int32_t[]){0, 1, 2}, 3);
    }
}

/* DeepSeek-V2: a group scores its best expert. Groups {0,1} .9, {2,3} .6, {4,5} .8, {6,7} .7; two stay. */
static void test_topk_group_max(void **state)
{
    struct fixture *f = *state;
    float probs[] = {0.9f, 0.1f, 0.6f, 0.6f, 0.8f, 0.2f, 0.7f, 0.7f};
    float low[] = {-0.9f, -0.1f, -0.6f, -0.6f, 0.8f, 0.2f, -0.7f, -0.7f};
    for (int d = 0; d < 2; d++) {
        int32_t expert[6];
        pick(f->device[d], probs, 8, NULL, MT_GROUP_MAX, 4, 2, expert, 6);
        // The four eligible first; then the masked ones, all at 0, lowest index first.
        assert_ints(expert, (const int32_t[]){0, 4, 5, 1, 2, 3}, 6);
        // The mask's 0 beats an eligible score below 0: groups 2 and 0 stay, expert 1 (-0.1) comes late.
        pick(f->device[d], low, 8, NULL, MT_GROUP_MAX, 4, 2, expert, 6);
        assert_ints(expert, (const int32_t[]){4, 5, 2, 3, 6, 7}, 6);
    }
}

/* DeepSeek-V3: a group scores the sum of its two best of score + bias; the others are out of reach. */
static void test_topk_group_top2_sum_with_bias(void **state)
{
    struct fixture *f = *state;
    float probs[] = {0.9f, 0.1f, 0.0f, 0.5f, 0.5f, 0.4f, 0.2f, 0.3f, 0.3f};
    float bias[] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.6f, 0.0f, 0.0f};
    for (int d = 0; d < 2; d++) {
        int32_t expert[6];
        // Sums: .9+.1 = 1.0, .5+.5 = 1.0, .8+.3 = 1.1; the tie goes to the first group.
        pick(f->device[d], probs, 9, bias, MT_GROUP_TOP2_SUM, 3, 2, expert, 6);
        assert_ints(expert, (const int32_t[]){0, 6, 7, 8, 1, 2}, 6);
        // Without the bias the last group falls out, although its experts beat 0.1 and 0.0.
        pick(f->device[d], probs, 9, NULL, MT_GROUP_TOP2_SUM, 3, 2, expert, 6);
        assert_ints(expert, (const int32_t[]){0, 3, 4, 5, 1, 2}, 6);
    }
}

/* Scores that differ only past f32's precision once the bias is added are ties on every device. */
static void test_topk_rounds_the_biased_score(void **state)
{
    struct fixture *f = *state;
    float probs[] = {1e-9f, 2e-9f, 3e-9f, 0.0f};
    float bias[] = {1.0f, 1.0f, 1.0f, 0.0f};
    for (int d = 0; d < 2; d++) {
        int32_t expert[3];
        pick(f->device[d], probs, 4, bias, MT_GROUP_NONE, 0, 0, expert, 3);
        assert_ints(expert, (const int32_t[]){0, 1, 2}, 3);
    }
}

// ------------------------------------------------------------------ topk_weights

/* Moonlight end to end: sigmoid, biased choice, unbiased weights normalised and times 2.446. */
static void test_deepseek_v3_worked_example(void **state)
{
    struct fixture *f = *state;
    float logits[] = {0.0f, logf(3.0f), logf(4.0f), -logf(4.0f)}; // scores .5, .75, .8, .2
    float bias[] = {0.0f, 0.0f, -1.0f, 1.0f};                     // choice .5, .75, -.2, 1.2
    for (int d = 0; d < 2; d++) {
        float probs[4];
        int32_t expert[2];
        float weight[2];
        assert_int_equal(
            mt_router_score_forward(f->device[d],
                                    &(struct mt_router_score_forward_args){.logits = floats(logits, 1, 4),
                                                                           .probs = floats(probs, 1, 4),
                                                                           .kind = MT_SCORE_SIGMOID}),
            MT_OK);
        pick(f->device[d], probs, 4, bias, MT_GROUP_TOP2_SUM, 1, 1, expert, 2);
        assert_ints(expert, (const int32_t[]){3, 1}, 2);
        assert_int_equal(mt_topk_weights_forward(f->device[d],
                                                 &(struct mt_topk_weights_forward_args){
                                                     .probs = floats(probs, 1, 4),
                                                     .expert = ints(expert, 1, 2),
                                                     .weight = floats(weight, 1, 2),
                                                     .normalise = true,
                                                     .epsilon = 1e-20f,
                                                     .scale = 2.446f,
                                                 }),
                         MT_OK);
        assert_near(weight[0], 2.446f * 0.2f / 0.95f, 1e-6);
        assert_near(weight[1], 2.446f * 0.75f / 0.95f, 1e-6);
    }
}

static void test_weights_of_missing_slots(void **state)
{
    struct fixture *f = *state;
    float probs[] = {0.25f, 0.25f, 0.5f, 0.1f, 0.2f, 0.7f};
    int32_t expert[] = {2, -1, 0, -1, -1, -1};
    float dweight[] = {1.0f, 99.0f, 0.0f, 99.0f, 99.0f, 99.0f};
    for (int d = 0; d < 2; d++) {
        float weight[6];
        float dprobs[6];
        assert_int_equal(mt_topk_weights_forward(f->device[d],
                                                 &(struct mt_topk_weights_forward_args){
                                                     .probs = floats(probs, 2, 3),
                                                     .expert = ints(expert, 2, 3),
                                                     .weight = floats(weight, 2, 3),
                                                     .normalise = true,
                                                     .scale = 1.0f,
                                                 }),
                         MT_OK);
        const float expected[] = {2.0f / 3.0f, 0.0f, 1.0f / 3.0f, 0.0f, 0.0f, 0.0f};
        for (int i = 0; i < 6; i++) assert_near(weight[i], expected[i], 1e-6);
        assert_int_equal(mt_topk_weights_backward(f->device[d],
                                                  &(struct mt_topk_weights_backward_args){
                                                      .probs = floats(probs, 2, 3),
                                                      .expert = ints(expert, 2, 3),
                                                      .dweight = floats(dweight, 2, 3),
                                                      .dprobs = floats(dprobs, 2, 3),
                                                      .normalise = true,
                                                      .scale = 1.0f,
                                                  }),
                         MT_OK);
        // S = 3/4: dp of the chosen = g/S - Σ g p / S².
        const float slope[] = {-8.0f / 9.0f, 0.0f, 4.0f / 3.0f - 8.0f / 9.0f, 0.0f, 0.0f, 0.0f};
        for (int i = 0; i < 6; i++) assert_near(dprobs[i], slope[i], 1e-6);
    }
}

// ------------------------------------------------------------------ sparsemixer

static void mix(struct mt_device *device, float *logits, int64_t tokens, int64_t n, float jitter,
                bool training, int32_t *expert, float *weight)
{
    assert_int_equal(mt_sparsemixer_forward(device,
                                            &(struct mt_sparsemixer_forward_args){
                                                .logits = floats(logits, tokens, n),
                                                .expert = ints(expert, tokens, 2),
                                                .weight = floats(weight, tokens, 2),
                                                .jitter = jitter,
                                                .training = training,
                                                .seed = 7,
                                                .stream = 8,
                                            }),
                     MT_OK);
}

static void test_sparsemixer_evaluation(void **state)
{
    struct fixture *f = *state;
    // Far apart: each slot is alone within its 2 %, so both weigh 1. Then two and three within 2 %.
    float logits[] = {1.0f, 5.0f, 3.0f, -2.0f, 10.0f, 9.9f, 1.0f, 9.85f};
    for (int d = 0; d < 2; d++) {
        int32_t expert[4];
        float weight[4];
        mix(f->device[d], logits, 2, 4, 0.01f, false, expert, weight);
        assert_ints(expert, (const int32_t[]){1, 2, 0, 1}, 4);
        assert_near(weight[0], 1.0f, 0.0f);
        assert_near(weight[1], 1.0f, 0.0f);
        assert_near(weight[2], 1.0 / (1.0 + exp(-0.1) + exp(-0.15)), 1e-6);
        assert_near(weight[3], 1.0 / (1.0 + exp(-0.05)), 1e-6);
    }
}

/* max(|z|, m) and not |m|: with a negative maximum the size is the expert's own. */
static void test_sparsemixer_negative_logits(void **state)
{
    struct fixture *f = *state;
    float logits[] = {-1.0f, -1.5f, -4.0f}; // (m - z)/|z|: 0, 1/3, 3/4
    for (int d = 0; d < 2; d++) {
        int32_t expert[2];
        float weight[2];
        mix(f->device[d], logits, 1, 3, 0.2f, false, expert, weight);
        assert_ints(expert, (const int32_t[]){0, 1}, 2);
        assert_near(weight[0], 1.0 / (1.0 + exp(-0.5)), 1e-6);
        assert_near(weight[1], 1.0f, 0.0f); // -4 against -1.5: 0.625 > 0.4
    }
}

/* Every draw replayed from the generator, the way ops.h numbers the elements. */
static void test_sparsemixer_training_draws(void **state)
{
    struct fixture *f = *state;
    enum { TOKENS = 64, EXPERTS = 5 };
    float logits[TOKENS * EXPERTS];
    for (int i = 0; i < TOKENS * EXPERTS; i++) logits[i] = 1.0f + 0.5f * mt_rng_normal(1, 1, (uint64_t)i);
    int off_argmax = 0;
    for (int d = 0; d < 2; d++) {
        int32_t expert[TOKENS * 2];
        float weight[TOKENS * 2];
        mix(f->device[d], logits, TOKENS, EXPERTS, 10.0f, true, expert, weight); // everybody competes
        for (int i = 0; i < TOKENS; i++) {
            const float *z = logits + i * EXPERTS;
            uint64_t first = (uint64_t)i * 2 * (EXPERTS + 1);
            double sum = 0.0;
            int best = 0;
            int argmax = 0;
            double best_noisy = -INFINITY;
            for (int j = 0; j < EXPERTS; j++) {
                uint32_t word = mt_rng_u32(7, 8, first + (uint64_t)j);
                double noisy = (double)z[j] - log(-log((double)mt_rng_unit_open(word)));
                if (noisy > best_noisy) best = j;
                if (noisy > best_noisy) best_noisy = noisy;
                if (z[j] > z[argmax]) argmax = j;
                sum += exp((double)z[j]);
            }
            double factor = 1.0;
            if (best != argmax && mt_rng_uniform(7, 8, first + EXPERTS) <= 0.75f) {
                factor = 1.0 / 3.0;
            }
            off_argmax += best != argmax;
            assert_int_equal(expert[i * 2], best);
            assert_int_not_equal(expert[i * 2 + 1], best);
            assert_near(weight[i * 2], factor * exp((double)z[best]) / sum, 1e-6);
        }
    }
    assert_true(off_argmax > TOKENS / 4); // the sampling really samples
}

static void test_sparsemixer_survives_nan(void **state)
{
    struct fixture *f = *state;
    float logits[] = {NAN, NAN, NAN, NAN, 1.0f, 0.0f};
    for (int d = 0; d < 2; d++) {
        for (int training = 0; training < 2; training++) {
            int32_t expert[4];
            float weight[4];
            mix(f->device[d], logits, 2, 3, 0.01f, training != 0, expert, weight);
            assert_ints(expert, (const int32_t[]){0, 1, 1}, 3);
            assert_true(isnan(weight[0]) && isnan(weight[1]) && isnan(weight[2]));
        }
    }
}

// ------------------------------------------------------------------ argument checks

static void assert_refused(struct fixture *f, enum mt_status got, enum mt_status expected, const char *field)
{
    assert_int_equal(got, expected);
    if (strstr(f->ctx.message, field) == NULL) fail_msg("'%s' does not name %s", f->ctx.message, field);
}

static void test_score_refuses(void **state)
{
    struct fixture *f = *state;
    struct mt_device *device = f->device[1];
    float a[6] = {0};
    int32_t wrong[6] = {0};
    struct mt_router_score_forward_args args = {.logits = floats(a, 2, 3), .probs = floats(a, 2, 3)};
    assert_int_equal(mt_router_score_forward(device, &args), MT_OK);
    args.probs = floats(a, 3, 2);
    assert_refused(f, mt_router_score_forward(device, &args), MT_ERR_SHAPE, "probs");
    args.probs = floats(a, 2, 3);
    args.logits = ints(wrong, 2, 3);
    assert_refused(f, mt_router_score_forward(device, &args), MT_ERR_DTYPE, "logits");
    args.logits = floats(a, 2, 3);
    args.kind = (enum mt_score_kind)7;
    assert_refused(f, mt_router_score_forward(device, &args), MT_ERR_USAGE, "kind");
    struct mt_router_score_backward_args back = {.probs = floats(a, 2, 3), .dlogits = floats(a, 2, 3)};
    assert_refused(f, mt_router_score_backward(device, &back), MT_ERR_USAGE, "dprobs");
}

static void test_topk_refuses(void **state)
{
    struct fixture *f = *state;
    struct mt_device *device = f->device[1];
    float probs[8] = {0};
    float bias[8] = {0};
    int32_t expert[9] = {0};
    const struct mt_topk_args good = {.probs = floats(probs, 1, 8),
                                      .bias = mt_tensor_1d(bias, MT_F32, 8),
                                      .expert = ints(expert, 1, 3),
                                      .group_rule = MT_GROUP_TOP2_SUM,
                                      .groups = 4,
                                      .groups_kept = 2};
    assert_int_equal(mt_topk(device, &good), MT_OK);
    struct mt_topk_args args = good;
    args.expert = ints(expert, 1, 9);
    assert_refused(f, mt_topk(device, &args), MT_ERR_USAGE, "expert");
    args = good;
    args.bias = mt_tensor_1d(bias, MT_F32, 7);
    assert_refused(f, mt_topk(device, &args), MT_ERR_SHAPE, "bias");
    args = good;
    args.groups = 3;
    assert_refused(f, mt_topk(device, &args), MT_ERR_USAGE, "groups");
    args.groups = 8; // groups of one have no two best
    assert_refused(f, mt_topk(device, &args), MT_ERR_USAGE, "groups");
    args = good;
    args.groups_kept = 5;
    assert_refused(f, mt_topk(device, &args), MT_ERR_USAGE, "groups_kept");
    args.groups_kept = 0;
    assert_refused(f, mt_topk(device, &args), MT_ERR_USAGE, "groups_kept");
    args = good;
    args.group_rule = MT_GROUP_NONE;
    assert_refused(f, mt_topk(device, &args), MT_ERR_USAGE, "groups");
    args.group_rule = (enum mt_group_rule)9;
    assert_refused(f, mt_topk(device, &args), MT_ERR_USAGE, "group_rule");
}

static void test_weights_refuse(void **state)
{
    struct fixture *f = *state;
    struct mt_device *device = f->device[1];
    float probs[8] = {0};
    float weight[3] = {0};
    int32_t expert[3] = {0, 7, -1};
    const struct mt_topk_weights_forward_args good = {.probs = floats(probs, 1, 8),
                                                      .expert = ints(expert, 1, 3),
                                                      .weight = floats(weight, 1, 3),
                                                      .scale = 1.0f};
    assert_int_equal(mt_topk_weights_forward(device, &good), MT_OK);
    struct mt_topk_weights_forward_args args = good;
    args.scale = 0.0f;
    assert_refused(f, mt_topk_weights_forward(device, &args), MT_ERR_USAGE, "scale");
    args = good;
    args.epsilon = -1.0f;
    assert_refused(f, mt_topk_weights_forward(device, &args), MT_ERR_USAGE, "epsilon");
    args = good;
    args.weight = floats(weight, 1, 2);
    assert_refused(f, mt_topk_weights_forward(device, &args), MT_ERR_SHAPE, "weight");
    expert[1] = 8;
    assert_refused(f, mt_topk_weights_forward(device, &good), MT_ERR_USAGE, "expert");
    struct mt_topk_weights_backward_args back = {.probs = floats(probs, 1, 8),
                                                 .expert = ints(expert, 1, 3),
                                                 .dweight = floats(weight, 1, 3),
                                                 .dprobs = floats(probs, 1, 8),
                                                 .scale = 1.0f};
    assert_refused(f, mt_topk_weights_backward(device, &back), MT_ERR_USAGE, "expert");
}

static void test_sparsemixer_refuses(void **state)
{
    struct fixture *f = *state;
    struct mt_device *device = f->device[1];
    float logits[4] = {0};
    float weight[2] = {0};
    int32_t expert[3] = {0, 1, 2};
    const struct mt_sparsemixer_forward_args good = {
        .logits = floats(logits, 1, 4), .expert = ints(expert, 1, 2), .weight = floats(weight, 1, 2)};
    assert_int_equal(mt_sparsemixer_forward(device, &good), MT_OK);
    struct mt_sparsemixer_forward_args args = good;
    args.expert = ints(expert, 1, 3);
    assert_refused(f, mt_sparsemixer_forward(device, &args), MT_ERR_SHAPE, "expert");
    args = good;
    args.logits = floats(logits, 1, 1);
    assert_refused(f, mt_sparsemixer_forward(device, &args), MT_ERR_USAGE, "logits");
    args = good;
    args.jitter = -0.1f;
    assert_refused(f, mt_sparsemixer_forward(device, &args), MT_ERR_USAGE, "jitter");
    expert[0] = -1;
    struct mt_sparsemixer_backward_args back = {.logits = floats(logits, 1, 4),
                                                .expert = ints(expert, 1, 2),
                                                .dweight = floats(weight, 1, 2),
                                                .dlogits = floats(logits, 1, 4)};
    assert_refused(f, mt_sparsemixer_backward(device, &back), MT_ERR_USAGE, "expert");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_softmax_and_sigmoid),
        cmocka_unit_test(test_softmax_of_nan_is_nan_in_its_row_only),
        cmocka_unit_test(test_topk_falls_and_breaks_ties_by_index),
        cmocka_unit_test(test_topk_puts_nan_last),
        cmocka_unit_test(test_topk_group_max),
        cmocka_unit_test(test_topk_group_top2_sum_with_bias),
        cmocka_unit_test(test_topk_rounds_the_biased_score),
        cmocka_unit_test(test_deepseek_v3_worked_example),
        cmocka_unit_test(test_weights_of_missing_slots),
        cmocka_unit_test(test_sparsemixer_evaluation),
        cmocka_unit_test(test_sparsemixer_negative_logits),
        cmocka_unit_test(test_sparsemixer_training_draws),
        cmocka_unit_test(test_sparsemixer_survives_nan),
        cmocka_unit_test(test_score_refuses),
        cmocka_unit_test(test_topk_refuses),
        cmocka_unit_test(test_weights_refuse),
        cmocka_unit_test(test_sparsemixer_refuses),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
