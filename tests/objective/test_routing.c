/* Routing records from logits: configurations that cannot be, choices and weights by hand, dropping, masks,
 * bias. */
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "metier/objective.h"
#include "support/cmocka_all.h"

#define TOKENS  40
#define EXPERTS 8
#define SLOTS   3

struct routed {
    struct mt_context ctx;
    struct mt_device *device;
    float logits[TOKENS * EXPERTS];
    float probs[TOKENS * EXPERTS];
    float bias[EXPERTS];
    int32_t mask[TOKENS];
    int32_t greedy[TOKENS * SLOTS];
    int32_t chosen[TOKENS * SLOTS];
    int32_t expert[TOKENS * SLOTS];
    float weight[TOKENS * SLOTS];
    struct mt_routing record;
};

static void open_routed(struct routed *r, const char *device, int slots)
{
    memset(r, 0, sizeof *r);
    mt_context_init(&r->ctx, NULL);
    assert_int_equal(mt_device_create(&r->ctx, device, 2, &r->device), MT_OK);
    for (int i = 0; i < TOKENS * EXPERTS; i++) r->logits[i] = 2.0f * mt_rng_normal(3, 1, (uint64_t)i);
    for (int i = 0; i < TOKENS; i++) {
        r->logits[i * EXPERTS] += 2.0f; // a favourite, so that capacities bite
        r->mask[i] = i % 5 != 0;
    }
    r->record = (struct mt_routing){
        .tokens = TOKENS,
        .experts = EXPERTS,
        .slots = slots,
        .segments = 1,
        .logits = mt_tensor_2d(r->logits, MT_F32, TOKENS, EXPERTS),
        .probs = mt_tensor_2d(r->probs, MT_F32, TOKENS, EXPERTS),
        .greedy = mt_tensor_2d(r->greedy, MT_I32, TOKENS, slots),
        .chosen = mt_tensor_2d(r->chosen, MT_I32, TOKENS, slots),
        .expert = mt_tensor_2d(r->expert, MT_I32, TOKENS, slots),
        .weight = mt_tensor_2d(r->weight, MT_F32, TOKENS, slots),
    };
}

static void close_routed(struct routed *r)
{
    mt_device_destroy(r->device);
    assert_int_equal(r->ctx.live_bytes, 0);
}

static void route(struct routed *r, const struct mt_router_config *router,
                  const struct mt_router_policy *policy)
{
    if (mt_routing_forward(r->device, router, policy, &r->record) != MT_OK) fail_msg("%s", r->ctx.message);
}

static void refused(const struct mt_context *ctx, enum mt_status status, const char *words)
{
    if (status != MT_ERR_USAGE || strstr(ctx->message, words) == NULL) {
        fail_msg("status '%s', message '%s'; expected '%s'", mt_status_text(status), ctx->message, words);
    }
}

static const struct mt_objective_config dropping = {.drop_threshold = 0.2};
static const struct mt_objective_config limited = {.capacity_factor = 1.0, .capacity_minimum = 4};

// ------------------------------------------------------------------ configurations

static void impossible_routers(void **state)
{
    (void)state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    static const struct {
        struct mt_router_config router;
        const char *words;
    } cases[] = {
        {{.slots = 0}, "a token has 0 of"},
        {{.slots = 9}, "a token has 9 of 8 experts"},
        {{.slots = 2, .epsilon = -1.0f}, "epsilon"},
        {{.slots = 2, .scale = -1.0f}, "scale"},
        {{.slots = 2, .groups = 2}, "no rule"},
        {{.slots = 2, .group_rule = MT_GROUP_MAX, .groups = 3, .groups_kept = 1}, "do not divide"},
        {{.slots = 2, .group_rule = MT_GROUP_MAX, .groups = 4, .groups_kept = 5},
         "groups_kept is 5, expected 1 to 4"},
        {{.slots = 2, .group_rule = MT_GROUP_MAX, .groups = 4, .groups_kept = 0},
         "groups_kept is 0, expected 1 to 4"},
        {{.slots = 2, .group_rule = MT_GROUP_TOP2_SUM, .groups = 8, .groups_kept = 3}, "needs its best two"},
        {{.slots = 3, .group_rule = MT_GROUP_MAX, .groups = 4, .groups_kept = 1}, "hold only 2"},
        {{.slots = 2, .group_rule = (enum mt_group_rule)9}, "group rule 9"},
        {{.kind = MT_ROUTER_SPARSEMIXER, .slots = 3}, "SparseMixer chooses 2"},
        {{.kind = MT_ROUTER_SPARSEMIXER, .slots = 2, .normalise = true}, "SparseMixer has its own"},
        {{.kind = MT_ROUTER_SPARSEMIXER, .slots = 2, .jitter = -0.1f}, "jitter"},
        {{.kind = (enum mt_router_kind)5, .slots = 2}, "kind 5"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        refused(&ctx, mt_router_config_check(&ctx, &cases[i].router, 8), cases[i].words);
    }
    struct mt_router_config fine = {
        .slots = 2, .group_rule = MT_GROUP_TOP2_SUM, .groups = 4, .groups_kept = 1};
    assert_int_equal(mt_router_config_check(&ctx, &fine, 8), MT_OK);
}

static void what_is_plain(void **state)
{
    (void)state;
    struct mt_router_config softmax = {.slots = 2};
    struct mt_router_config grouped = {.slots = 2, .group_rule = MT_GROUP_MAX, .groups = 2, .groups_kept = 1};
    struct mt_router_config mixer = {.kind = MT_ROUTER_SPARSEMIXER, .slots = 2};
    struct mt_router_policy none = {0};
    struct mt_router_policy drops = {.training = true, .method = &dropping};
    struct mt_router_policy limits = {.training = true, .method = &limited};
    struct mt_router_policy idle = {.method = &limited}; // not training
    assert_true(mt_routing_is_plain(&softmax, &none, false));
    assert_true(mt_routing_is_plain(&softmax, &idle, false));
    assert_false(mt_routing_is_plain(&softmax, &none, true));
    assert_false(mt_routing_is_plain(&grouped, &none, false));
    assert_false(mt_routing_is_plain(&mixer, &none, false));
    assert_false(mt_routing_is_plain(&softmax, &drops, false));
    assert_false(mt_routing_is_plain(&softmax, &limits, false));
    assert_false(mt_routing_is_plain(&softmax, &(struct mt_router_policy){.given = true}, false));
}

static void shared_memory_where_choices_differ(void **state)
{
    (void)state;
    struct routed r;
    open_routed(&r, "ref", SLOTS);
    struct mt_router_config router = {.slots = SLOTS};
    struct mt_router_policy policy = {.training = true, .method = &dropping};
    r.record.expert = r.record.chosen;
    refused(&r.ctx, mt_routing_forward(r.device, &router, &policy, &r.record), "share memory");
    r.record.greedy = r.record.chosen;
    route(&r, &router, &(struct mt_router_policy){0});
    close_routed(&r);
    open_routed(&r, "ref", 2);
    r.record.bias = mt_tensor_1d(r.bias, MT_F32, EXPERTS);
    router = (struct mt_router_config){.kind = MT_ROUTER_SPARSEMIXER, .slots = 2, .jitter = 0.1f};
    refused(&r.ctx, mt_routing_forward(r.device, &router, &(struct mt_router_policy){0}, &r.record),
            "no selection bias");
    close_routed(&r);
}

// ------------------------------------------------------------------ choices

/* Expert j of token i stands at place s of the falling order of `score`. */
static int place_of(const float *score, const float *bias, int j)
{
    int before = 0;
    for (int m = 0; m < EXPERTS; m++) {
        float own = score[j] + bias[j];
        float other = score[m] + bias[m];
        before += other > own || (other == own && m < j);
    }
    return before;
}

static void choices_and_weights(void **state)
{
    (void)state;
    static const char *const devices[] = {"ref", "cpu"};
    for (int d = 0; d < 2; d++) {
        struct routed r;
        open_routed(&r, devices[d], SLOTS);
        for (int j = 0; j < EXPERTS; j++) r.bias[j] = 0.3f * mt_rng_normal(8, 2, (uint64_t)j);
        r.record.bias = mt_tensor_1d(r.bias, MT_F32, EXPERTS);
        struct mt_router_config router = {
            .kind = MT_ROUTER_SIGMOID, .slots = SLOTS, .normalise = true, .scale = 2.5f};
        route(&r, &router, &(struct mt_router_policy){0});
        const float zero[EXPERTS] = {0};
        for (int i = 0; i < TOKENS; i++) {
            const float *probs = r.probs + i * EXPERTS;
            double sum = 0.0;
            for (int s = 0; s < SLOTS; s++) {
                assert_int_equal(place_of(probs, r.bias, r.chosen[i * SLOTS + s]), s);
                assert_int_equal(place_of(probs, zero, r.greedy[i * SLOTS + s]), s);
                assert_int_equal(r.expert[i * SLOTS + s], r.chosen[i * SLOTS + s]);
                sum += (double)probs[r.chosen[i * SLOTS + s]];
            }
            for (int s = 0; s < SLOTS; s++) {
                double weight = 2.5 * (double)probs[r.chosen[i * SLOTS + s]] / sum;
                assert_true(fabs((double)r.weight[i * SLOTS + s] - weight) < 1e-6);
            }
        }
        close_routed(&r);
    }
}

// ------------------------------------------------------------------ dropping

static void capacity_is_kept(void **state)
{
    (void)state;
    static const double factors[] = {0.1, 0.5, 1.0, 1.25, 3.0, 1e30};
    static const char *const devices[] = {"ref", "cpu"};
    for (int c = 0; c < 12; c++) {
        struct routed r;
        open_routed(&r, devices[c % 2], SLOTS);
        r.record.mask = mt_tensor_1d(r.mask, MT_I32, TOKENS);
        struct mt_router_config router = {.slots = SLOTS};
        struct mt_objective_config method = limited;
        method.capacity_factor = factors[c / 2];
        struct mt_router_policy policy = {.training = true, .method = &method};
        route(&r, &router, &policy);
        double fair = ceil(factors[c / 2] * SLOTS * TOKENS / EXPERTS);
        int capacity = fair < 4.0 ? 4 : fair > 1e6 ? 1000000 : (int)fair;
        int load[EXPERTS] = {0};
        int asked[EXPERTS] = {0};
        for (int i = 0; i < TOKENS * SLOTS; i++) {
            bool served = r.expert[i] >= 0;
            if (served) assert_int_equal(r.expert[i], r.chosen[i]);
            if (r.mask[i / SLOTS] == 0) assert_false(served);
            if (served) load[r.expert[i]]++;
            if (r.mask[i / SLOTS] != 0) asked[r.chosen[i]]++;
        }
        for (int j = 0; j < EXPERTS; j++) {
            // Served up to the limit, and nobody is turned away below it.
            assert_int_equal(load[j], asked[j] < capacity ? asked[j] : capacity);
        }
        close_routed(&r);
    }
}

static void first_choices_are_never_dropped_at_random(void **state)
{
    (void)state;
    struct routed r;
    open_routed(&r, "cpu", SLOTS);
    struct mt_router_config router = {.slots = SLOTS};
    const struct mt_objective_config method = {.drop_threshold = 0.5};
    int dropped = 0;
    int kept = 0;
    for (uint64_t stream = 0; stream < 20; stream++) {
        struct mt_router_policy policy = {.training = true, .method = &method, .stream = stream};
        route(&r, &router, &policy);
        for (int i = 0; i < TOKENS; i++) {
            assert_int_equal(r.expert[i * SLOTS], r.chosen[i * SLOTS]);
            double sum = 0.0;
            for (int s = 0; s < SLOTS; s++) sum += (double)r.weight[i * SLOTS + s];
            for (int s = 1; s < SLOTS; s++) {
                bool sure = (double)r.weight[i * SLOTS + s] / sum >= 0.5;
                bool served = r.expert[i * SLOTS + s] >= 0;
                if (sure) assert_true(served);
                dropped += !served;
                kept += served;
            }
        }
    }
    assert_true(dropped > 300);
    assert_true(kept > 300);
    // Without training nothing is dropped.
    route(&r, &router, &(struct mt_router_policy){.method = &limited});
    assert_memory_equal(r.expert, r.chosen, sizeof r.expert);
    close_routed(&r);
}

// ------------------------------------------------------------------ masks and bias

static void first_tokens_are_left_out(void **state)
{
    (void)state;
    const int32_t mask[] = {0, 1, 1, 1, 0, 1, 1, 1, 1};
    const int32_t segment[] = {0, 0, 0, 1, 2, 2, 2, 0, 1};
    int32_t found[9];
    mt_routing_ortho_mask(mask, segment, 9, found);
    assert_memory_equal(found, ((const int32_t[]){0, 0, 1, 0, 0, 0, 1, 1, 1}), sizeof found);
    mt_routing_ortho_mask(NULL, segment, 9, found);
    assert_memory_equal(found, ((const int32_t[]){0, 1, 1, 0, 0, 1, 1, 1, 1}), sizeof found);
    mt_routing_ortho_mask(mask, NULL, 9, found);
    assert_memory_equal(found, ((const int32_t[]){0, 0, 1, 1, 0, 1, 1, 1, 1}), sizeof found);
    mt_routing_ortho_mask(NULL, NULL, 9, found);
    assert_memory_equal(found, ((const int32_t[]){0, 1, 1, 1, 1, 1, 1, 1, 1}), sizeof found);
}

static void bias_rules(void **state)
{
    (void)state;
    const double load[] = {10.0, 2.0, 4.0, 0.0}; // mean 4
    const float start[] = {0.5f, -0.25f, 1.0f, 0.0f};
    float bias[4];
    memcpy(bias, start, sizeof bias);
    mt_bias_update(MT_BIAS_SIGN, 0.25, load, 4, bias);
    assert_memory_equal(bias, ((const float[]){0.25f, 0.0f, 1.0f, 0.25f}), sizeof bias);
    memcpy(bias, start, sizeof bias);
    mt_bias_update(MT_BIAS_PROPORTIONAL, 0.5, load, 4, bias); // errors -1.5, 0.5, 0, 1 of the mean
    assert_memory_equal(bias, ((const float[]){-0.25f, 0.0f, 1.0f, 0.5f}), sizeof bias);
    memcpy(bias, start, sizeof bias);
    mt_bias_update(MT_BIAS_NONE, 0.5, load, 4, bias);
    assert_memory_equal(bias, start, sizeof bias);
    mt_bias_update(MT_BIAS_SIGN, 0.5, (const double[]){0.0, 0.0, 0.0, 0.0}, 4, bias);
    assert_memory_equal(bias, start, sizeof bias);
}

/* An expert at the mean stays where it is, whatever the number of experts: no rounding may push it. */
static void the_mean_moves_nothing(void **state)
{
    (void)state;
    enum { MOST = 300 };
    static const enum mt_bias_rule rules[] = {MT_BIAS_SIGN, MT_BIAS_PROPORTIONAL, MT_BIAS_SMEBU};
    for (size_t r = 0; r < sizeof rules / sizeof rules[0]; r++) {
        const struct mt_objective_config config = {
            .bias_rule = rules[r], .bias_rate = 1.0, .bias_momentum = 0.5, .bias_clamp = 2.0};
        for (int n = 3; n <= MOST; n++) {
            double load[MOST];
            double memory[MOST] = {0};
            float bias[MOST] = {0};
            for (int j = 0; j < n; j++) load[j] = 1000.0 * n + 7.0;
            mt_selection_move(&config, &(struct mt_selection_step){
                                           .experts = n, .load = load, .memory = memory, .bias = bias});
            for (int j = 0; j < n; j++) assert_true(bias[j] == 0.0f && memory[j] == 0.0);
            load[0] -= 1.0;
            load[n - 1] += 1.0;
            mt_selection_move(&config, &(struct mt_selection_step){
                                           .experts = n, .load = load, .memory = memory, .bias = bias});
            assert_true(bias[0] > 0.0f && bias[n - 1] < 0.0f);
            for (int j = 1; j < n - 1 && rules[r] != MT_BIAS_SMEBU; j++) assert_true(bias[j] == 0.0f);
        }
    }
}

/* Two steps; the numbers are NumPy's. */
static void smebu_remembers(void **state)
{
    (void)state;
    const struct mt_objective_config config = {
        .bias_rule = MT_BIAS_SMEBU, .bias_rate = 0.25, .bias_momentum = 0.5, .bias_clamp = 2.0};
    static const double loads[3][4] = {{10.0, 2.0, 4.0, 0.0}, {3.0, 5.0, 4.0, 4.0}, {0.0}};
    static const double moved[2][4] = {{-0.14721206, 0.07236905, -0.02283022, 0.09767323},
                                       {-0.01584139, -0.02158012, -0.01141511, 0.04883661}};
    static const double ends[2][4] = {{0.35278794, -0.17763095, 0.97716978, 0.09767323},
                                      {0.33694655, -0.19921107, 0.96575467, 0.14650984}};
    float bias[4] = {0.5f, -0.25f, 1.0f, 0.0f};
    double memory[4] = {0};
    struct mt_selection_step step = {.experts = 4, .memory = memory, .bias = bias};
    assert_int_equal(mt_selection_memory(&config, 4), 4);
    for (int s = 0; s < 2; s++) {
        step.load = loads[s];
        mt_selection_move(&config, &step);
        for (int j = 0; j < 4; j++) {
            assert_float_equal(memory[j], moved[s][j], 1e-8);
            assert_float_equal(bias[j], ends[s][j], 1e-7);
        }
    }
    step.load = loads[2]; // nothing was served: nothing moves, momentum neither
    mt_selection_move(&config, &step);
    assert_float_equal(memory[3], moved[1][3], 1e-8);
    mt_selection_after_step(&config, loads[0], 4, bias); // without a memory it cannot
    assert_float_equal(bias[0], ends[1][0], 1e-7);
}

/*
 * By hand, k = 1, n = 2, N = 4: the second scores are the thresholds, 1, 3, 2, 1; the margins of expert 0 are
 * 7, 3, 4, 0 and those of expert 1 are 0, 0, 0, 4. The third largest of each is 3 and 0, so expert 0, which
 * has three tokens, is held back by 3 until it has two. The masked token would have changed both.
 */
static void quantile_by_hand(void **state)
{
    (void)state;
    static const char *const devices[] = {"ref", "cpu"};
    for (int d = 0; d < 2; d++) {
        struct mt_context ctx;
        struct mt_device *device = NULL;
        mt_context_init(&ctx, NULL);
        assert_int_equal(mt_device_create(&ctx, devices[d], 1, &device), MT_OK);
        float probs[5][2] = {{8.0f, 1.0f}, {6.0f, 3.0f}, {6.0f, 2.0f}, {1.0f, 5.0f}, {99.0f, 0.0f}};
        int32_t mask[5] = {1, 1, 1, 1, 0};
        float work[10];
        double measured[3];
        float bias[2] = {0.0f, 0.0f};
        const struct mt_objective_config config = {.bias_rule = MT_BIAS_QUANTILE};
        const struct mt_routing record = {.tokens = 5,
                                          .experts = 2,
                                          .slots = 1,
                                          .probs = mt_tensor_2d(probs, MT_F32, 5, 2),
                                          .mask = mt_tensor_1d(mask, MT_I32, 5)};
        const struct mt_selection_numbers numbers = {.numbers = measured,
                                                     .work = mt_tensor_2d(work, MT_F32, 2, 5)};
        assert_int_equal(mt_selection_measures(&config, 2), 3);
        assert_int_equal(mt_selection_measure(device, &config, &record, &numbers), MT_OK);
        assert_memory_equal(measured, ((const double[]){12.0, 0.0, 4.0}), sizeof measured);
        mt_selection_move(&config,
                          &(struct mt_selection_step){.measured = measured, .experts = 2, .bias = bias});
        assert_memory_equal(bias, ((const float[]){-1.5f, 1.5f}), sizeof bias);
        mt_device_destroy(device);
    }
}

/* Without a rate, loads even out within a few steps. */
static void quantile_balances(void **state)
{
    (void)state;
    struct routed r;
    open_routed(&r, "cpu", SLOTS);
    r.record.bias = mt_tensor_1d(r.bias, MT_F32, EXPERTS);
    struct mt_router_config router = {.kind = MT_ROUTER_SOFTMAX, .slots = SLOTS};
    const struct mt_objective_config config = {.bias_rule = MT_BIAS_QUANTILE};
    float work[TOKENS * EXPERTS];
    double measured[EXPERTS + 1];
    const struct mt_selection_numbers numbers = {.numbers = measured,
                                                 .work = mt_tensor_2d(work, MT_F32, EXPERTS, TOKENS)};
    double violation[11];
    for (int step = 0; step < 11; step++) {
        route(&r, &router, &(struct mt_router_policy){0});
        double load[EXPERTS] = {0};
        for (int i = 0; i < TOKENS * SLOTS; i++) load[r.expert[i]] += 1.0;
        double largest = 0.0;
        for (int j = 0; j < EXPERTS; j++) largest = fmax(largest, load[j]);
        violation[step] = largest / ((double)TOKENS * SLOTS / EXPERTS) - 1.0;
        assert_int_equal(mt_selection_measure(r.device, &config, &r.record, &numbers), MT_OK);
        mt_selection_move(
            &config, &(struct mt_selection_step){.measured = measured, .experts = EXPERTS, .bias = r.bias});
    }
    assert_true(violation[0] > 0.8);
    assert_true(violation[10] < 0.2);
    close_routed(&r);
}

/* What is asked of the list is what its rules are. */
static void rules_of_methods(void **state)
{
    (void)state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    const struct mt_objective_config none = {0};
    const struct mt_objective_config balanced = {.bias_rule = MT_BIAS_SIGN, .bias_rate = 0.25};
    const struct mt_router_config softmax = {.slots = 2};
    const struct mt_router_config mixer = {.kind = MT_ROUTER_SPARSEMIXER, .slots = 2};
    assert_false(mt_selection_is_on(&none) || mt_selection_has_bias(&none) || mt_selection_drops(&none));
    assert_true(mt_selection_is_on(&balanced) && mt_selection_has_bias(&balanced));
    assert_false(mt_selection_drops(&balanced));
    assert_true(mt_selection_is_on(&dropping) && mt_selection_drops(&dropping));
    assert_true(mt_selection_drops(&limited) && !mt_selection_has_bias(&limited));
    assert_int_equal(mt_selection_check(&ctx, &balanced, &softmax), MT_OK);
    assert_int_equal(mt_selection_check(&ctx, &limited, &mixer), MT_OK);
    assert_int_equal(mt_selection_check(&ctx, &balanced, &mixer), MT_ERR_UNSUPPORTED);
    assert_non_null(strstr(ctx.message, "SparseMixer"));
    const struct mt_objective_config quantile = {.bias_rule = MT_BIAS_QUANTILE};
    const struct mt_router_config grouped = {
        .slots = 2, .group_rule = MT_GROUP_MAX, .groups = 4, .groups_kept = 2};
    assert_int_equal(mt_selection_check(&ctx, &quantile, &softmax), MT_OK);
    assert_int_equal(mt_selection_check(&ctx, &quantile, &mixer), MT_ERR_UNSUPPORTED);
    assert_int_equal(mt_selection_check(&ctx, &quantile, &grouped), MT_ERR_UNSUPPORTED);
    assert_non_null(strstr(ctx.message, "groups of experts"));
    const struct mt_objective_config pooled = {.pool = true};
    assert_true(mt_selection_is_on(&pooled) && mt_selection_pools(&pooled) && !mt_selection_drops(&pooled));
    assert_false(mt_selection_pools(&none) || mt_selection_pools(&limited) || mt_selection_pools(NULL));
    assert_int_equal(mt_selection_check(&ctx, &pooled, &softmax), MT_OK);
    assert_int_equal(mt_selection_check(&ctx, &pooled, &mixer), MT_ERR_UNSUPPORTED);
    assert_non_null(strstr(ctx.message, "SparseMixer"));
    assert_int_equal(mt_selection_check(&ctx, &pooled, &grouped), MT_ERR_UNSUPPORTED);
    assert_non_null(strstr(ctx.message, "groups of experts"));
    float bias[2] = {0};
    mt_selection_after_step(&limited, (const double[]){3.0, 1.0}, 2, bias);
    assert_memory_equal(bias, ((const float[]){0.0f, 0.0f}), sizeof bias);
    mt_selection_after_step(&balanced, (const double[]){3.0, 1.0}, 2, bias);
    assert_memory_equal(bias, ((const float[]){-0.25f, 0.25f}), sizeof bias);
}

/* Given experts take the place of the choice: weights are of the scores as they are; -1: the router's own. */
static void choices_are_given(void **state)
{
    (void)state;
    struct routed r;
    int32_t own[TOKENS * SLOTS];
    int32_t given[TOKENS * SLOTS];
    float agreed[TOKENS * 2];
    const struct mt_router_config router = {.slots = SLOTS, .normalise = true};
    const char *const devices[] = {"ref", "cpu"};
    for (int d = 0; d < 2; d++) {
        open_routed(&r, devices[d], SLOTS);
        route(&r, &router, &(struct mt_router_policy){0});
        memcpy(own, r.chosen, sizeof own);
        for (int i = 0; i < TOKENS * SLOTS; i++) {
            int slot = i % SLOTS;
            given[i] = i / SLOTS % 4 == 0 ? -1 : (own[i - slot] + 2 * slot) % EXPERTS;
        }
        r.record.given = mt_tensor_2d(given, MT_I32, TOKENS, SLOTS);
        r.record.agreed = mt_tensor_2d(agreed, MT_F32, TOKENS, 2);
        route(&r, &router, &(struct mt_router_policy){.given = true});
        assert_memory_equal(r.greedy, own, sizeof own);
        assert_memory_equal(r.expert, r.chosen, sizeof own);
        for (int i = 0; i < TOKENS; i++) {
            const int32_t *expected = i % 4 == 0 ? own + i * SLOTS : given + i * SLOTS;
            double sum = 0.0;
            float same = 0.0f;
            assert_memory_equal(r.chosen + i * SLOTS, expected, SLOTS * sizeof *expected);
            for (int s = 0; s < SLOTS; s++) {
                sum += exp((double)r.logits[i * EXPERTS + expected[s]]);
                for (int m = 0; m < SLOTS; m++) same += expected[s] == own[i * SLOTS + m] ? 1.0f : 0.0f;
            }
            for (int s = 0; s < SLOTS; s++) {
                double weight = exp((double)r.logits[i * EXPERTS + expected[s]]) / sum; // as R3 writes it
                assert_true(fabs((double)r.weight[i * SLOTS + s] - weight) < 1e-6);
            }
            assert_true(agreed[2 * i] == (i % 4 == 0 ? 0.0f : same));
            assert_true(agreed[2 * i + 1] == (i % 4 == 0 ? 0.0f : (float)SLOTS));
        }
        r.record.expert = r.record.chosen;
        refused(&r.ctx, mt_routing_forward(r.device, &router, &(struct mt_router_policy){0}, &r.record),
                "share memory");
        given[SLOTS] = EXPERTS;
        r.record.expert = mt_tensor_2d(r.expert, MT_I32, TOKENS, SLOTS);
        refused(&r.ctx, mt_routing_forward(r.device, &router, &(struct mt_router_policy){0}, &r.record),
                "given holds 8");
        close_routed(&r);
    }
    const struct mt_router_config mixer = {.kind = MT_ROUTER_SPARSEMIXER, .slots = 2};
    open_routed(&r, "ref", 2);
    r.record.given = mt_tensor_2d(given, MT_I32, TOKENS, 2);
    refused(&r.ctx, mt_routing_forward(r.device, &mixer, &(struct mt_router_policy){0}, &r.record),
            "SparseMixer cannot use given choices");
    close_routed(&r);
}

// ------------------------------------------------------------------ pools

enum { SEQUENCES = 5 };

struct pooled {
    struct routed r;
    int32_t segment[TOKENS];
    int32_t pool[SEQUENCES * EXPERTS];
    double sums[SEQUENCES * (EXPERTS + 1)];
    double mean[SEQUENCES * EXPERTS]; // of what the router chooses by, found here
};

/* Eight tokens a sequence, some of them masked. */
static void open_pooled(struct pooled *p, const char *device, bool biased)
{
    open_routed(&p->r, device, SLOTS);
    struct mt_routing *record = &p->r.record;
    for (int i = 0; i < TOKENS; i++) p->segment[i] = i / (TOKENS / SEQUENCES);
    for (int j = 0; j < EXPERTS && biased; j++) p->r.bias[j] = 0.7f * mt_rng_normal(5, 2, (uint64_t)j);
    record->segments = SEQUENCES;
    record->mask = mt_tensor_1d(p->r.mask, MT_I32, TOKENS);
    record->segment = mt_tensor_1d(p->segment, MT_I32, TOKENS);
    record->pool = mt_tensor_2d(p->pool, MT_I32, SEQUENCES, EXPERTS);
    record->pool_sums = mt_tensor_1d(p->sums, MT_F64, SEQUENCES * (EXPERTS + 1));
    if (biased) record->bias = mt_tensor_1d(p->r.bias, MT_F32, EXPERTS);
}

static void find_means(struct pooled *p, enum mt_router_kind kind)
{
    memset(p->mean, 0, sizeof p->mean);
    for (int i = 0; i < TOKENS; i++) {
        const float *z = p->r.logits + (ptrdiff_t)i * EXPERTS;
        double total = 0.0;
        double counted = 0.0;
        for (int j = 0; j < EXPERTS; j++) total += exp((double)z[j]);
        for (int m = 0; m < TOKENS; m++) counted += p->segment[m] == p->segment[i] && p->r.mask[m] != 0;
        for (int j = 0; j < EXPERTS && p->r.mask[i] != 0; j++) {
            double score =
                kind == MT_ROUTER_SIGMOID ? 1.0 / (1.0 + exp(-(double)z[j])) : exp((double)z[j]) / total;
            p->mean[p->segment[i] * EXPERTS + j] += score / counted;
        }
    }
    for (int b = 0; b < SEQUENCES; b++) {
        for (int j = 0; j < EXPERTS; j++) p->mean[b * EXPERTS + j] += (double)p->r.bias[j];
    }
}

/* Every expert inside a pool has a mean above every one outside. Returns how many are inside. */
static int check_pool(const struct pooled *p, int b)
{
    int inside = 0;
    double least = INFINITY;
    double most = -INFINITY;
    for (int j = 0; j < EXPERTS; j++) {
        double mean = p->mean[b * EXPERTS + j];
        bool in = p->pool[b * EXPERTS + j] != 0;
        inside += in;
        if (in) least = fmin(least, mean);
        if (!in) most = fmax(most, mean);
    }
    assert_true(least > most);
    assert_in_range(inside, SLOTS, EXPERTS);
    return inside;
}

/* The choice is the k best inside, scores outside are 0, and softmax scores inside add up to 1. */
static void check_pooled_token(const struct pooled *p, enum mt_router_kind kind, int i)
{
    const int32_t *pool = p->pool + (ptrdiff_t)p->segment[i] * EXPERTS;
    double total = 0.0;
    for (int j = 0; j < EXPERTS; j++) {
        double score = (double)p->r.probs[i * EXPERTS + j];
        if (pool[j] == 0) assert_true(score == 0.0);
        if (pool[j] != 0) assert_true(score > 0.0);
        total += score;
    }
    if (kind == MT_ROUTER_SOFTMAX) assert_true(fabs(total - 1.0) < 1e-6);
    double last = INFINITY;
    for (int s = 0; s < SLOTS; s++) {
        int32_t e = p->r.chosen[i * SLOTS + s];
        assert_true(pool[e] != 0);
        assert_true(p->r.weight[i * SLOTS + s] == p->r.probs[i * EXPERTS + e]);
        double score = (double)(p->r.probs[i * EXPERTS + e] + p->r.bias[e]);
        assert_true(score <= last);
        last = score;
    }
    for (int j = 0; j < EXPERTS; j++) {
        bool chosen = false;
        for (int s = 0; s < SLOTS; s++) chosen = chosen || p->r.chosen[i * SLOTS + s] == j;
        if (pool[j] != 0 && !chosen)
            assert_true((double)(p->r.probs[i * EXPERTS + j] + p->r.bias[j]) <= last);
    }
}

static void pools_of_sequences(void **state)
{
    (void)state;
    static struct pooled p;
    static const struct mt_objective_config method = {.pool = true, .seed = 3};
    int met[EXPERTS + 1] = {0};
    for (int c = 0; c < 400; c++) {
        struct mt_router_config router = {.kind = c % 2 ? MT_ROUTER_SIGMOID : MT_ROUTER_SOFTMAX,
                                          .slots = SLOTS};
        open_pooled(&p, c % 3 == 0 ? "ref" : "cpu", c % 4 >= 2);
        find_means(&p, router.kind);
        struct mt_router_policy policy = mt_objective_policy(&method, true, 0);
        policy.sequence_stream = (uint64_t)c;
        route(&p.r, &router, &policy);
        for (int b = 0; b < SEQUENCES; b++) met[check_pool(&p, b)]++;
        for (int i = 0; i < TOKENS; i++) check_pooled_token(&p, router.kind, i);
        close_routed(&p.r);
    }
    // 2000 draws of 6 sizes, 333 of each, give or take 5 standard deviations of 17.
    for (int d = SLOTS; d <= EXPERTS; d++) assert_in_range(met[d], 250, 416);
}

/* Pools go by a sequence's number in the step, wherever it lies; without training there are none. */
static void pools_do_not_depend_on_the_batch(void **state)
{
    (void)state;
    static struct pooled p;
    int32_t whole[SEQUENCES * EXPERTS];
    static const struct mt_objective_config method = {.pool = true, .seed = 9};
    const struct mt_router_config router = {.slots = SLOTS};
    struct mt_router_policy policy = mt_objective_policy(&method, true, 0);
    policy.sequence_stream = 77;
    policy.first_sequence = 2;
    open_pooled(&p, "cpu", false);
    route(&p.r, &router, &policy);
    memcpy(whole, p.pool, sizeof whole);
    close_routed(&p.r);
    for (int b = 0; b < SEQUENCES; b++) {
        open_pooled(&p, "cpu", false);
        for (int i = 0; i < TOKENS; i++) p.r.mask[i] = p.r.mask[i] != 0 && i / (TOKENS / SEQUENCES) == b;
        for (int i = 0; i < TOKENS; i++) p.segment[i] = p.segment[i] == b ? 0 : 1;
        policy.first_sequence = 2 + (uint64_t)b;
        route(&p.r, &router, &policy);
        assert_memory_equal(p.pool, whole + (ptrdiff_t)b * EXPERTS, EXPERTS * sizeof *whole);
        close_routed(&p.r);
    }
    open_pooled(&p, "cpu", false);
    policy.training = false;
    route(&p.r, &router, &policy);
    for (int i = 0; i < TOKENS * EXPERTS; i++) assert_true(p.r.probs[i] > 0.0f);
    policy.training = true;
    p.r.record.pool = (struct mt_tensor){0};
    refused(&p.r.ctx, mt_routing_forward(p.r.device, &router, &policy, &p.r.record), "give the record pool");
    close_routed(&p.r);
}

/* Loss-free balancing does what it is for: loads even out. */
static void bias_balances(void **state)
{
    (void)state;
    struct routed r;
    open_routed(&r, "cpu", SLOTS);
    r.record.bias = mt_tensor_1d(r.bias, MT_F32, EXPERTS);
    struct mt_router_config router = {.kind = MT_ROUTER_SIGMOID, .slots = SLOTS};
    double first = 0.0;
    double last = 0.0;
    for (int step = 0; step < 400; step++) {
        route(&r, &router, &(struct mt_router_policy){0});
        double load[EXPERTS] = {0};
        for (int i = 0; i < TOKENS * SLOTS; i++) load[r.expert[i]] += 1.0;
        double largest = 0.0;
        for (int j = 0; j < EXPERTS; j++) largest = fmax(largest, load[j]);
        last = largest / ((double)TOKENS * SLOTS / EXPERTS) - 1.0;
        assert_true(last <= (double)EXPERTS / SLOTS - 1.0 + 1e-12);
        if (step == 0) first = last;
        mt_bias_update(MT_BIAS_PROPORTIONAL, 1e-2, load, EXPERTS, r.bias);
    }
    assert_true(first > 0.8);
    assert_true(last < 0.2);
    close_routed(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(impossible_routers),
        cmocka_unit_test(what_is_plain),
        cmocka_unit_test(shared_memory_where_choices_differ),
        cmocka_unit_test(choices_and_weights),
        cmocka_unit_test(capacity_is_kept),
        cmocka_unit_test(first_choices_are_never_dropped_at_random),
        cmocka_unit_test(first_tokens_are_left_out),
        cmocka_unit_test(bias_rules),
        cmocka_unit_test(the_mean_moves_nothing),
        cmocka_unit_test(smebu_remembers),
        cmocka_unit_test(quantile_by_hand),
        cmocka_unit_test(quantile_balances),
        cmocka_unit_test(rules_of_methods),
        cmocka_unit_test(choices_are_given),
        cmocka_unit_test(bias_balances),
        cmocka_unit_test(pools_of_sequences),
        cmocka_unit_test(pools_do_not_depend_on_the_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
