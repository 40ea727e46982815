/*
 * mt_objective_evaluate: raw f32 arrays against the same evaluation in double, scratch, sequences, refusals.
 * Tests src/objective/evaluate.c.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "objective/evaluation.h"
#include "support/alone.h"
#include "support/cmocka_all.h"
#include "support/failing_allocator.h"

#define TOKENS  300 // more than are combined at a time
#define EXPERTS 16
#define WIDTH   20
#define SLOTS   6 // at the most

struct arrays {
    float logits[TOKENS * EXPERTS];
    float outputs[TOKENS * SLOTS * WIDTH];
    float router_weight[EXPERTS * WIDTH];
    float bias[EXPERTS];
    int32_t mask[TOKENS];
    int32_t sequence[TOKENS];
    struct mt_objective_arrays given;
};

struct answers {
    double load[EXPERTS];
    float dlogits[TOKENS * EXPERTS];
    float doutputs[TOKENS * SLOTS * WIDTH];
    float drouter_weight[EXPERTS * WIDTH];
    int32_t expert[TOKENS * SLOTS];
    float slot_weight[TOKENS * SLOTS];
    struct mt_objective_results results;
};

static struct arrays *draw(uint64_t seed)
{
    struct arrays *a = calloc(1, sizeof *a);
    assert_non_null(a);
    for (uint64_t i = 0; i < TOKENS * EXPERTS; i++) a->logits[i] = 1.5f * mt_rng_normal(seed, 1, i);
    for (uint64_t i = 0; i < TOKENS * SLOTS * WIDTH; i++) a->outputs[i] = mt_rng_normal(seed, 2, i);
    for (uint64_t i = 0; i < EXPERTS * WIDTH; i++) a->router_weight[i] = 0.2f * mt_rng_normal(seed, 3, i);
    for (uint64_t i = 0; i < EXPERTS; i++) a->bias[i] = 0.05f * mt_rng_normal(seed, 4, i);
    for (int i = 0; i < TOKENS; i++) {
        a->mask[i] = i % 9 != 4;
        a->sequence[i] = 7000 - 13 * (i / 50);
    }
    a->given = (struct mt_objective_arrays){
        .tokens = TOKENS,
        .experts = EXPERTS,
        .width = WIDTH,
        .logits = a->logits,
        .expert_outputs = a->outputs,
        .mask = a->mask,
        .sequence = a->sequence,
        .router_weight = a->router_weight,
    };
    return a;
}

static struct answers *answer_sheet(void)
{
    struct answers *s = malloc(sizeof *s);
    assert_non_null(s);
    memset(s, 0xA5, sizeof *s); // whatever is not written will not pass for an answer
    s->results = (struct mt_objective_results){
        .load = s->load,
        .dlogits = s->dlogits,
        .dexpert_outputs = s->doutputs,
        .drouter_weight = s->drouter_weight,
        .expert = s->expert,
        .slot_weight = s->slot_weight,
    };
    return s;
}

struct place {
    struct mt_context ctx;
    struct mt_device *device;
};

static void open_place(struct place *place, const char *device, int threads)
{
    mt_context_init(&place->ctx, NULL);
    assert_int_equal(mt_device_create(&place->ctx, device, threads, &place->device), MT_OK);
}

static void close_place(struct place *place)
{
    mt_device_destroy(place->device);
    assert_int_equal(place->ctx.live_bytes, 0);
}

static struct mt_objective_config configured(const char *method)
{
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct mt_objective_config config;
    if (mt_objective_config_method(&ctx, method, &config) != MT_OK) fail_msg("%s", ctx.message);
    return config;
}

static void evaluate(struct place *place, const struct mt_objective_config *config,
                     const struct mt_router_config *router, const struct arrays *a, struct answers *s)
{
    enum mt_status status =
        mt_objective_evaluate(place->device, config, router, &a->given, &s->results, NULL, 0);
    if (status != MT_OK) fail_msg("%s: %s", config->method, place->ctx.message);
}

// ------------------------------------------------------------------ against double

struct exact {
    double logits[TOKENS * EXPERTS], dlogits[TOKENS * EXPERTS];
    double outputs[TOKENS * SLOTS * WIDTH], doutputs[TOKENS * SLOTS * WIDTH];
    double router_weight[EXPERTS * WIDTH], drouter_weight[EXPERTS * WIDTH];
    double bias[EXPERTS];
    int32_t segment[TOKENS];
    double total;
    struct mt_layer_report report;
};

static void widen(const float *from, double *to, size_t count)
{
    for (size_t i = 0; i < count; i++) to[i] = (double)from[i];
}

/* The same on ref in double. */
static void solve_exactly(const struct mt_objective_config *config, const struct mt_router_config *router,
                          const struct arrays *a, struct exact *x)
{
    struct place place;
    open_place(&place, "ref", 1);
    int64_t rows = TOKENS * router->slots;
    widen(a->logits, x->logits, TOKENS * EXPERTS);
    widen(a->outputs, x->outputs, (size_t)rows * WIDTH);
    widen(a->router_weight, x->router_weight, EXPERTS * WIDTH);
    widen(a->bias, x->bias, EXPERTS);
    for (int i = 0; i < TOKENS; i++) x->segment[i] = 5 - i / 50; // in the order of ids, which fall
    struct mt_evaluation_sizes sizes = {
        .tokens = TOKENS, .experts = EXPERTS, .width = WIDTH, .segments = 6, .dtype = MT_F64};
    struct mt_evaluation_inputs inputs = {
        .logits = mt_tensor_2d(x->logits, MT_F64, TOKENS, EXPERTS),
        .expert_outputs = mt_tensor_2d(x->outputs, MT_F64, rows, WIDTH),
        .mask = mt_tensor_1d((void *)a->mask, MT_I32, TOKENS),
        .segment = mt_tensor_1d(x->segment, MT_I32, TOKENS),
        .segments = 6,
        .router_weight = mt_tensor_2d(x->router_weight, MT_F64, EXPERTS, WIDTH),
    };
    if (a->given.router_bias != NULL) inputs.bias = mt_tensor_1d(x->bias, MT_F64, EXPERTS);
    struct mt_evaluation_gradients gradients = {
        .dlogits = mt_tensor_2d(x->dlogits, MT_F64, TOKENS, EXPERTS),
        .dexpert_outputs = mt_tensor_2d(x->doutputs, MT_F64, rows, WIDTH),
        .drouter_weight = mt_tensor_2d(x->drouter_weight, MT_F64, EXPERTS, WIDTH),
    };
    size_t bytes = mt_evaluation_bytes(config, router, &sizes);
    void *memory = NULL;
    struct mt_evaluation evaluation;
    assert_int_equal(mt_allocate(&place.ctx, bytes, &memory), MT_OK);
    assert_int_equal(mt_evaluation_place(place.device, config, router, &sizes, memory, &evaluation), MT_OK);
    if (mt_evaluation_forward(&evaluation, &inputs, &x->total) != MT_OK) fail_msg("%s", place.ctx.message);
    assert_int_equal(mt_evaluation_backward(&evaluation, &inputs, &gradients), MT_OK);
    x->report = *mt_objective_layer(evaluation.objective, 0);
    mt_release(&place.ctx, memory, bytes);
    close_place(&place);
}

/* Each within `tolerance` of the largest. */
static void agree(const char *what, const float *found, const double *expected, size_t count,
                  double tolerance)
{
    double largest = 0.0;
    for (size_t i = 0; i < count; i++) largest = fmax(largest, fabs(expected[i]));
    for (size_t i = 0; i < count; i++) {
        double error = fabs((double)found[i] - expected[i]);
        if (!(error <= tolerance * largest)) {
            fail_msg("%s, element %zu: %.9g, expected %.9g, largest %.9g", what, i, (double)found[i],
                     expected[i], largest);
        }
    }
}

static void single_precision_is_close(void **state)
{
    (void)state;
    static const struct mt_router_config routers[] = {
        {.kind = MT_ROUTER_SOFTMAX, .slots = 6},
        {.kind = MT_ROUTER_SIGMOID, .slots = 4, .normalise = true, .epsilon = 1e-20f, .scale = 2.5f},
        {.kind = MT_ROUTER_SOFTMAX, .slots = 3, .group_rule = MT_GROUP_MAX, .groups = 4, .groups_kept = 2},
        {.kind = MT_ROUTER_SPARSEMIXER, .slots = 2, .jitter = 0.1f},
    };
    struct exact *x = calloc(1, sizeof *x);
    struct answers *s = answer_sheet();
    struct arrays *a = draw(5);
    static const char *const devices[] = {"cpu", "ref"};
    for (int c = 0; mt_method_listed(c / 8) != NULL; c++) {
        struct place place;
        const struct mt_router_config *router = &routers[c / 2 % 4];
        struct mt_objective_config config = configured(mt_method_listed(c / 8)->name);
        bool pooled = router->kind != MT_ROUTER_SPARSEMIXER && router->group_rule == MT_GROUP_NONE;
        if (!is_alone(&config) || (config.pool && !pooled)) continue;
        // Drawn choices may differ by one rounding: here only what is decided is compared.
        if (router->kind == MT_ROUTER_SPARSEMIXER) config.capacity_factor = config.drop_threshold = 0.0;
        open_place(&place, devices[c % 2], 2);
        a->given.router_bias = router->kind == MT_ROUTER_SIGMOID ? a->bias : NULL;
        evaluate(&place, &config, router, a, s);
        solve_exactly(&config, router, a, x);
        const struct mt_objective_results *r = &s->results;
        assert_true(fabs(r->total - x->total) <= 1e-5 * fabs(x->total));
        for (int t = 0; t < MT_TERM_COUNT; t++) {
            assert_true(fabs(r->loss[t] - x->report.loss[t]) <= 1e-5 * fabs(x->report.loss[t]));
            assert_true(fabs(r->weight[t] - x->report.weight[t]) <= 1e-5 * x->report.weight[t]);
            assert_true(isnan(r->report.gradient[t]));
        }
        assert_null(r->report.load);
        agree("dlogits", s->dlogits, x->dlogits, TOKENS * EXPERTS, 1e-5);
        agree("doutputs", s->doutputs, x->doutputs, (size_t)TOKENS * (size_t)router->slots * WIDTH, 1e-5);
        agree("drouter_weight", s->drouter_weight, x->drouter_weight, EXPERTS * WIDTH, 1e-5);
        close_place(&place);
    }
    free(x);
    free(s);
    free(a);
}

// ------------------------------------------------------------------ scratch and threads

static bool same_bytes(const void *a, const void *b, size_t bytes)
{
    return memcmp(a, b, bytes) == 0;
}

static bool same_answers(const struct answers *a, const struct answers *b)
{
    return same_bytes(a->load, b->load, sizeof a->load) &&
           same_bytes(a->dlogits, b->dlogits, sizeof a->dlogits) &&
           same_bytes(a->doutputs, b->doutputs, sizeof a->doutputs) &&
           same_bytes(a->drouter_weight, b->drouter_weight, sizeof a->drouter_weight) &&
           same_bytes(a->expert, b->expert, sizeof a->expert) &&
           same_bytes(a->slot_weight, b->slot_weight, sizeof a->slot_weight) &&
           same_bytes(a->results.loss, b->results.loss, sizeof a->results.loss) &&
           same_bytes(&a->results.total, &b->results.total, sizeof a->results.total);
}

static void scratch_is_all_it_needs(void **state)
{
    (void)state;
    const struct mt_router_config router = {.slots = SLOTS};
    struct arrays *a = draw(6);
    for (int m = 0; mt_method_listed(m) != NULL; m++) {
        struct mt_objective_config config = configured(mt_method_listed(m)->name);
        if (!is_alone(&config)) continue;
        struct answers *own = answer_sheet();
        struct answers *lent = answer_sheet();
        struct place place;
        open_place(&place, "cpu", 2);
        evaluate(&place, &config, &router, a, own); // the device's scratch grows here
        size_t bytes = mt_objective_evaluate_bytes(&config, &router, &a->given);
        unsigned char *block = malloc(bytes + 1);
        assert_non_null(block);
        memset(block, 0xC3, bytes + 1);
        mt_context_forbid_allocation(&place.ctx, "evaluation");
        enum mt_status status = mt_objective_evaluate(place.device, &config, &router, &a->given,
                                                      &lent->results, block + 1, bytes);
        mt_context_forbid_allocation(&place.ctx, NULL);
        if (status != MT_OK) fail_msg("%s", place.ctx.message);
        assert_true(same_answers(own, lent));
        status = mt_objective_evaluate(place.device, &config, &router, &a->given, &lent->results, block,
                                       bytes - 1);
        assert_int_equal(status, MT_ERR_USAGE);
        assert_non_null(strstr(place.ctx.message, "bytes of scratch"));
        free(block);
        free(own);
        free(lent);
        close_place(&place);
    }
    free(a);
}

static void same_bits_for_any_thread_count(void **state)
{
    (void)state;
    const struct mt_router_config router = {.kind = MT_ROUTER_SIGMOID, .slots = SLOTS, .normalise = true};
    struct arrays *a = draw(7);
    a->given.router_bias = a->bias;
    for (int m = 0; mt_method_listed(m) != NULL; m++) {
        struct mt_objective_config config = configured(mt_method_listed(m)->name);
        if (!is_alone(&config)) continue;
        struct answers *sheets[3];
        for (int t = 0; t < 3; t++) {
            struct place place;
            sheets[t] = answer_sheet();
            open_place(&place, "cpu", 1 << t);
            evaluate(&place, &config, &router, a, sheets[t]);
            close_place(&place);
        }
        assert_true(same_answers(sheets[0], sheets[1]));
        assert_true(same_answers(sheets[0], sheets[2]));
        for (int t = 0; t < 3; t++) free(sheets[t]);
    }
    free(a);
}

struct failing_case {
    const struct mt_objective_config *config;
    const struct arrays *arrays;
    struct answers *answers;
};

static enum mt_status evaluate_once(struct mt_context *ctx, const void *self)
{
    const struct failing_case *c = self;
    const struct mt_router_config router = {.slots = SLOTS};
    struct mt_device *device = NULL;
    enum mt_status status = mt_device_create(ctx, "cpu", 2, &device);
    if (status != MT_OK) return status;
    status =
        mt_objective_evaluate(device, c->config, &router, &c->arrays->given, &c->answers->results, NULL, 0);
    mt_device_destroy(device);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    struct arrays *a = draw(8);
    struct answers *s = answer_sheet();
    static const char *const methods[] = {"paper", "paper-code", "ernie", "st-moe"};
    for (int m = 0; m < 4; m++) {
        struct mt_objective_config config = configured(methods[m]);
        struct failing_case c = {.config = &config, .arrays = a, .answers = s};
        struct failing_report found = fail_each_allocation(evaluate_once, &c);
        if (!found.ok) fail_msg("%s: %s", methods[m], found.problem);
    }
    free(a);
    free(s);
}

// ------------------------------------------------------------------ arrays

/* Sequences may be scattered, with any ids: only which tokens belong together counts. */
static void any_sequence_ids(void **state)
{
    (void)state;
    const struct mt_router_config router = {.slots = 4};
    struct mt_objective_config config = configured("paper-code");
    config.exclude_first = true;
    struct arrays *a = draw(9);
    struct answers *first = answer_sheet();
    struct answers *second = answer_sheet();
    struct place place;
    open_place(&place, "ref", 1);
    static const int32_t ids[] = {-5, 2147483647, 0, -2147483647 - 1, 17};
    for (int i = 0; i < TOKENS; i++) a->sequence[i] = i * 7 % 5;
    evaluate(&place, &config, &router, a, first);
    for (int i = 0; i < TOKENS; i++) a->sequence[i] = ids[i * 7 % 5];
    evaluate(&place, &config, &router, a, second);
    assert_true(fabs(first->results.total - second->results.total) < 1e-12);
    assert_memory_equal(first->dlogits, second->dlogits, sizeof first->dlogits);
    assert_memory_equal(first->doutputs, second->doutputs, sizeof first->doutputs);
    close_place(&place);
    free(a);
    free(first);
    free(second);
}

static void unwanted_results_are_left_out(void **state)
{
    (void)state;
    const struct mt_router_config router = {.slots = 4};
    struct arrays *a = draw(10);
    struct answers *all = answer_sheet();
    struct place place;
    open_place(&place, "cpu", 1);
    for (int m = 0; mt_method_listed(m) != NULL; m++) {
        struct mt_objective_config config = configured(mt_method_listed(m)->name);
        if (!is_alone(&config)) continue;
        config.coefficient[MT_TERM_SIMBAL] = 1e-3;
        evaluate(&place, &config, &router, a, all);
        struct mt_objective_results none = {0};
        assert_int_equal(mt_objective_evaluate(place.device, &config, &router, &a->given, &none, NULL, 0),
                         MT_OK);
        assert_true(none.total == all->results.total);
        static float drouter_weight[EXPERTS * WIDTH];
        struct mt_objective_results one = {.drouter_weight = drouter_weight};
        assert_int_equal(mt_objective_evaluate(place.device, &config, &router, &a->given, &one, NULL, 0),
                         MT_OK);
        assert_memory_equal(drouter_weight, all->drouter_weight, sizeof drouter_weight);
        static float dlogits[TOKENS * EXPERTS];
        struct mt_objective_results other = {.dlogits = dlogits};
        assert_int_equal(mt_objective_evaluate(place.device, &config, &router, &a->given, &other, NULL, 0),
                         MT_OK);
        assert_memory_equal(dlogits, all->dlogits, sizeof dlogits);
    }
    close_place(&place);
    free(a);
    free(all);
}

static void warnings_are_handed_over(void **state)
{
    (void)state;
    const struct mt_router_config router = {.slots = 1};
    struct arrays *a = draw(12);
    struct place place;
    open_place(&place, "cpu", 1);
    char text[512] = "something old";
    struct mt_objective_results results = {.warnings = text, .warnings_bytes = sizeof text};
    struct mt_objective_config config = configured("paper");
    assert_int_equal(mt_objective_evaluate(place.device, &config, &router, &a->given, &results, NULL, 0),
                     MT_OK);
    assert_non_null(strstr(text, "each token has one expert: L_o is 0"));
    config = configured("aux");
    assert_int_equal(mt_objective_evaluate(place.device, &config, &router, &a->given, &results, NULL, 0),
                     MT_OK);
    assert_string_equal(text, "");
    close_place(&place);
    free(a);
}

/* What a single layer's arrays cannot say is refused by name. */
static void terms_that_look_further(void **state)
{
    (void)state;
    static const struct {
        const char *method, *words;
    } cases[] = {
        {"erc",
         "term erc needs the experts' weights, which a single layer does not have: train a model with it, "
         "or set lambda_erc=0"},
        {"intra-cross", "term sp needs the experts' activations"},
    };
    const struct mt_router_config router = {.slots = 2};
    struct arrays *a = draw(13);
    struct place place;
    open_place(&place, "cpu", 1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mt_objective_config config = configured(cases[i].method);
        struct mt_objective_results results = {0};
        assert_int_equal(mt_objective_evaluate_bytes(&config, &router, &a->given), 0);
        assert_int_equal(mt_objective_evaluate(place.device, &config, &router, &a->given, &results, NULL, 0),
                         MT_ERR_UNSUPPORTED);
        assert_non_null(strstr(place.ctx.message, cases[i].words));
    }
    close_place(&place);
    free(a);
}

static void no_tokens(void **state)
{
    (void)state;
    const struct mt_router_config router = {.slots = 2};
    struct place place;
    open_place(&place, "cpu", 2);
    struct mt_objective_arrays nothing = {.experts = 4};
    double load[4] = {1.0, 1.0, 1.0, 1.0};
    struct mt_objective_results results = {.load = load};
    struct mt_objective_config config = configured("aux");
    enum mt_status status =
        mt_objective_evaluate(place.device, &config, &router, &nothing, &results, NULL, 0);
    if (status != MT_OK) fail_msg("%s", place.ctx.message);
    assert_true(results.total == 0.0);
    for (int j = 0; j < 4; j++) assert_true(load[j] == 0.0);
    close_place(&place);
}

static void refused_arrays(void **state)
{
    (void)state;
    struct arrays *a = draw(11);
    struct answers *s = answer_sheet();
    struct place place;
    open_place(&place, "cpu", 1);
    struct mt_objective_arrays given[7];
    for (int i = 0; i < 7; i++) given[i] = a->given;
    given[0].logits = NULL;
    given[1].expert_outputs = NULL;
    given[2].router_weight = NULL;
    given[3].width = 0;
    given[4].tokens = -1;
    given[5].experts = 0;
    given[6].experts = 3;
    static const char *const words[] = {"logits are missing",
                                        "expert_outputs is missing",
                                        "router_weight is missing",
                                        "width is 0",
                                        "-1 tokens",
                                        "0 experts",
                                        "slots is 4"};
    struct mt_objective_config config = configured("paper");
    struct mt_router_config router = {.slots = 4};
    for (int i = 0; i < 7; i++) {
        enum mt_status status =
            mt_objective_evaluate(place.device, &config, &router, &given[i], &s->results, NULL, 0);
        if (status != MT_ERR_USAGE || strstr(place.ctx.message, words[i]) == NULL) {
            fail_msg("'%s', expected '%s'", place.ctx.message, words[i]);
        }
    }
    // Terms that need what is not there, nobody wanting its gradient.
    struct mt_objective_results bare = {0};
    given[1].router_weight = NULL;
    assert_int_equal(mt_objective_evaluate(place.device, &config, &router, &given[1], &bare, NULL, 0),
                     MT_ERR_USAGE);
    assert_non_null(strstr(place.ctx.message, "L_o needs the expert outputs"));
    config = configured("simbal");
    assert_int_equal(mt_objective_evaluate(place.device, &config, &router, &given[2], &bare, NULL, 0),
                     MT_ERR_USAGE);
    assert_non_null(strstr(place.ctx.message, "the router's weight"));
    config = configured("paper-code");
    assert_int_equal(mt_objective_evaluate(place.device, &config, &router, &given[2], &bare, NULL, 0),
                     MT_ERR_USAGE);
    assert_non_null(strstr(place.ctx.message, "scale=once-pow10"));
    router.groups = 5;
    assert_int_equal(mt_objective_evaluate_bytes(&config, &router, &a->given), 0);
    assert_int_equal(mt_objective_evaluate(place.device, &config, &router, &a->given, &bare, NULL, 0),
                     MT_ERR_USAGE);
    assert_non_null(strstr(place.ctx.message, "groups"));
    close_place(&place);
    free(a);
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(single_precision_is_close),
        cmocka_unit_test(scratch_is_all_it_needs),
        cmocka_unit_test(same_bits_for_any_thread_count),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(any_sequence_ids),
        cmocka_unit_test(unwanted_results_are_left_out),
        cmocka_unit_test(warnings_are_handed_over),
        cmocka_unit_test(terms_that_look_further),
        cmocka_unit_test(no_tokens),
        cmocka_unit_test(refused_arrays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
