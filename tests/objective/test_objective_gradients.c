/*
 * Every term, option and kind of router against finite differences in double: the gradient of the whole
 * evaluation in logits, expert outputs and router weight. Counts, selections and dynamic weights are
 * constants of the gradient: differences are taken of Σ weight · loss with the weights of the base point, and
 * a selection that moves within a step is a broken test. Tests src/objective/terms.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "support/alone.h"
#include "support/cmocka_all.h"
#include "support/objective_problem.h"

#define STEP      1e-3 // of the five-point rule: its error is of the order of STEP to the fourth
#define TOLERANCE 1e-6
#define ROUNDING  4e-12 // of a difference, as a share of the value: some 2^-52 of it over STEP
#define FLOOR     1e-2  // elements below this share of the largest are judged as if they were that large

static double worst_error;
static char worst_case[256];
static int gradients_checked;

struct router_case {
    const char *name;
    struct mt_router_config router;
    bool biased;
};

static const struct router_case routers[] = {
    {"softmax k=2", {.kind = MT_ROUTER_SOFTMAX, .slots = 2}, false},
    {"softmax k=3 normalised", {.kind = MT_ROUTER_SOFTMAX, .slots = 3, .normalise = true}, false},
    {"softmax k=6 scaled", {.kind = MT_ROUTER_SOFTMAX, .slots = 6, .scale = 1.5f}, false},
    {"softmax k=1", {.kind = MT_ROUTER_SOFTMAX, .slots = 1}, false},
    {"sigmoid k=1", {.kind = MT_ROUTER_SIGMOID, .slots = 1, .scale = 2.5f}, true},
    {"sigmoid+bias k=6 normalised scaled",
     {.kind = MT_ROUTER_SIGMOID, .slots = 6, .normalise = true, .epsilon = 1e-20f, .scale = 2.446f},
     true},
    {"sigmoid+groups top2_sum k=3",
     {.kind = MT_ROUTER_SIGMOID,
      .slots = 3,
      .normalise = true,
      .epsilon = 1e-20f,
      .scale = 2.446f,
      .group_rule = MT_GROUP_TOP2_SUM,
      .groups = 4,
      .groups_kept = 2},
     true},
    {"sigmoid k=2", {.kind = MT_ROUTER_SIGMOID, .slots = 2}, false},
    {"softmax+groups max k=3",
     {.kind = MT_ROUTER_SOFTMAX,
      .slots = 3,
      .scale = 16.0f,
      .group_rule = MT_GROUP_MAX,
      .groups = 4,
      .groups_kept = 2},
     false},
    {"SparseMixer", {.kind = MT_ROUTER_SPARSEMIXER, .slots = 2, .jitter = 0.35f}, false},
};

#define ROUTER_COUNT (sizeof routers / sizeof routers[0])

/* Σ weight · loss with given weights. */
static double fixed_total(struct problem *p, const double *weight)
{
    (void)problem_forward(p);
    const struct mt_layer_report *report = mt_objective_layer(p->evaluation.objective, 0);
    double total = 0.0;
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        if (weight[term] != 0.0) total += weight[term] * report->loss[term];
    }
    return total;
}

/* The selections of a forward, to be compared. */
struct selections {
    int32_t chosen[PROBLEM_MOST_TOKENS * PROBLEM_MOST_SLOTS];
    int32_t greedy[PROBLEM_MOST_TOKENS * PROBLEM_MOST_SLOTS];
    int32_t expert[PROBLEM_MOST_TOKENS * PROBLEM_MOST_SLOTS];
};

static void take_selections(const struct problem *p, struct selections *selections)
{
    size_t bytes = (size_t)(p->tokens * p->router.slots) * sizeof(int32_t);
    memset(selections, 0, sizeof *selections);
    memcpy(selections->chosen, p->evaluation.record.chosen.data, bytes);
    memcpy(selections->greedy, p->evaluation.record.greedy.data, bytes);
    memcpy(selections->expert, p->evaluation.record.expert.data, bytes);
}

/* The five-point difference along one coordinate. */
static double difference(struct problem *p, double *coordinate, const double *weight,
                         const struct selections *base)
{
    static const double steps[] = {-2.0, -1.0, 1.0, 2.0};
    static const double factors[] = {1.0 / 12.0, -8.0 / 12.0, 8.0 / 12.0, -1.0 / 12.0};
    double here = *coordinate;
    double sum = 0.0;
    for (int i = 0; i < 4; i++) {
        *coordinate = here + steps[i] * STEP;
        sum += factors[i] * fixed_total(p, weight);
        struct selections moved;
        take_selections(p, &moved);
        if (memcmp(&moved, base, sizeof moved) != 0) fail_msg("a selection moved within a step");
    }
    *coordinate = here;
    return sum / STEP;
}

/* Every element, or only every sixth where no term looks and all that is to be seen is zeros. */
static void compare(struct problem *p, double *x, const double *dx, int64_t count, bool looked_at,
                    const double *weight, const struct selections *base, const char *label)
{
    double largest = 0.0;
    double noise = ROUNDING * fabs(fixed_total(p, weight));
    for (int64_t i = 0; i < count; i++) largest = fmax(largest, fabs(dx[i]));
    for (int64_t i = 0; i < count; i += looked_at ? 1 : 6) {
        double expected = difference(p, x + i, weight, base);
        double distance = fmax(0.0, fabs(expected - dx[i]) - noise);
        double error = distance == 0.0 ? 0.0 : distance / fmax(fabs(dx[i]), FLOOR * largest);
        if (!(error <= TOLERANCE)) {
            fail_msg("%s, element %lld: gradient %.12g, difference %.12g, error %.3g", label, (long long)i,
                     dx[i], expected, error);
        }
        gradients_checked++;
        if (error <= worst_error) continue;
        worst_error = error;
        (void)snprintf(worst_case, sizeof worst_case, "%s", label);
    }
}

/* One method with settings, on one router. */
static void check_case(const struct router_case *router, const char *method, const char *settings,
                       bool masked, bool sequenced, uint64_t seed)
{
    struct problem p = {
        .router = router->router,
        .tokens = 7,
        .experts = 8,
        .width = 7, // no less than k: rows in a narrower space are dependent, where span has no gradient
        .masked = masked,
        .sequenced = sequenced,
        .biased = router->biased,
    };
    problem_configure(&p, method, settings);
    problem_open(&p, seed);
    problem_begin(&p);
    char label[256];
    (void)snprintf(label, sizeof label, "%s, %s %s%s%s", router->name, method, settings,
                   masked ? ", masked" : "", sequenced ? ", sequences" : "");
    double total = problem_forward(&p);
    problem_backward(&p);
    double weight[MT_TERM_COUNT];
    memcpy(weight, mt_objective_layer(p.evaluation.objective, 0)->weight, sizeof weight);
    struct selections base;
    take_selections(&p, &base);
    double again = fixed_total(&p, weight);
    if (!(fabs(total - again) <= 1e-13 * fabs(total))) fail_msg("%s: total %g, sum %g", label, total, again);
    const double *strength = p.config.coefficient;
    bool logits = strength[MT_TERM_AUX] + strength[MT_TERM_V] + strength[MT_TERM_Z] > 0.0;
    bool rows = strength[MT_TERM_ROUTER_ORTH] + strength[MT_TERM_SIMBAL] > 0.0;
    int64_t outputs = p.tokens * p.router.slots * p.width;
    compare(&p, p.x.logits, p.dx.logits, p.tokens * p.experts, logits, weight, &base, label);
    compare(&p, p.x.outputs, p.dx.outputs, outputs, strength[MT_TERM_O] > 0.0, weight, &base, label);
    compare(&p, p.x.router_weight, p.dx.router_weight, p.experts * p.width, rows, weight, &base, label);
    problem_close(&p);
}

/* One method on every kind of router, with and without mask and sequences. */
static void check_everywhere(const char *method, const char *settings)
{
    for (size_t r = 0; r < ROUTER_COUNT; r++) {
        check_case(&routers[r], method, settings, false, false, 11 + r);
        check_case(&routers[r], method, settings, true, true, 31 + r);
    }
}

static void aux_in_every_form(void **state)
{
    (void)state;
    static const char *const forms[] = {"batch", "sequence", "switch", "hf", "ernie", "literal"};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        char settings[64];
        (void)snprintf(settings, sizeof settings, "alpha=1 aux=%s", forms[i]);
        check_everywhere("none", settings);
    }
}

static void ortho_of_tokens(void **state)
{
    (void)state;
    check_everywhere("none", "beta=1 form=pairwise scale=none");
    check_everywhere("none", "beta=1 form=span scale=none");
    check_everywhere("none", "beta=1 form=cosine scale=none");
    check_everywhere("none", "beta=1 form=pairwise scale=none reduce=sum eps=0.3");
    check_everywhere("none", "beta=1 form=span scale=none exclude_first=true eps=0.1");
    check_everywhere("none", "beta=1 form=cosine scale=none exclude_first=true reduce=sum eps=0.2");
}

static void ortho_behind_a_gate(void **state)
{
    (void)state;
    static const char *const forms[] = {"pairwise", "span", "cosine"};
    for (size_t i = 0; i < 3; i++) {
        char settings[64];
        (void)snprintf(settings, sizeof settings, "beta=1 form=%s scale=none tau_gate=0.1", forms[i]);
        check_case(&routers[2], "none", settings, true, false, 5); // six slots, some of them light
        check_case(&routers[1], "none", settings, false, true, 6);
    }
}

static void ortho_of_expert_order(void **state)
{
    (void)state;
    check_everywhere("none", "beta=1 grouping=expert-concat form=pairwise scale=none");
    check_everywhere("none", "beta=1 grouping=expert-concat form=span scale=none exclude_first=true");
    check_everywhere("none", "beta=1 grouping=expert-concat form=cosine scale=none reduce=sum");
}

static void variance_on_every_axis(void **state)
{
    (void)state;
    check_everywhere("none", "gamma=1 axis=expert scores=topk scale=none");
    check_everywhere("none", "gamma=1 axis=expert scores=full scale=none");
    check_everywhere("none", "gamma=1 axis=token scores=topk scale=none");
    check_everywhere("none", "gamma=1 axis=token scores=full scale=none");
}

static void router_terms(void **state)
{
    (void)state;
    check_everywhere("none", "zeta=1");
    check_everywhere("none", "lambda_orth=1");
    check_everywhere("none", "lambda_orth=1 orth_groups=4");
    check_everywhere("none", "lambda_simbal=1");
}

static void whole_methods(void **state)
{
    (void)state;
    for (int i = 0; mt_method_listed(i) != NULL; i++) {
        const struct mt_method *method = mt_method_listed(i);
        if (!is_alone(&method->config) || method->config.pool) continue; // test_term_needs, pools
        check_everywhere(method->name, "");
    }
}

/* Scores within a pool: of every size, of several sequences, with terms that see scores, weights and logits.
 */
static void pools(void **state)
{
    (void)state;
    static const char *const settings[] = {
        "",
        "aux=sequence zeta=1 seed=1",
        "alpha=0 gamma=1 scale=none scores=full seed=2",
        "alpha=0 gamma=1 scale=none axis=token seed=3",
        "aux=literal capacity=0.8 seed=4",
    };
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        for (size_t r = 0; r < ROUTER_COUNT; r++) {
            const struct mt_router_config *router = &routers[r].router;
            if (router->kind == MT_ROUTER_SPARSEMIXER || router->group_rule != MT_GROUP_NONE) continue;
            check_case(&routers[r], "pool", settings[i], r % 2 == 0, true, 71 + r);
            check_case(&routers[r], "pool", settings[i], r % 2 == 1, false, 91 + r);
        }
    }
}

static void every_scale_and_brake(void **state)
{
    (void)state;
    check_everywhere("paper", "scale=running");
    check_everywhere("paper", "scale=none");
    check_everywhere("paper", "scale=once-pow10");
    check_everywhere("paper", "alpha=0");
    check_everywhere("metier", "scale=running brake=decay");
}

static void dropped_slots(void **state)
{
    (void)state;
    static const char *const settings[] = {
        "drop_threshold=1 capacity=0.7",
        "drop_threshold=0.9 form=span scores=topk axis=token",
        "capacity=0.5 grouping=expert-concat form=cosine",
        "capacity=0.8 aux=literal form=cosine",
    };
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        for (size_t r = 0; r + 1 < ROUTER_COUNT; r++) { // SparseMixer samples when slots are dropped
            check_case(&routers[r], "paper", settings[i], r % 2 == 0, r % 3 == 0, 51 + r);
        }
    }
}

static int report_worst(void **state)
{
    (void)state;
    print_message("%d gradients; worst error %.3g: %s\n", gradients_checked, worst_error, worst_case);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(aux_in_every_form),      cmocka_unit_test(ortho_of_tokens),
        cmocka_unit_test(ortho_behind_a_gate),    cmocka_unit_test(ortho_of_expert_order),
        cmocka_unit_test(variance_on_every_axis), cmocka_unit_test(router_terms),
        cmocka_unit_test(whole_methods),          cmocka_unit_test(every_scale_and_brake),
        cmocka_unit_test(dropped_slots),          cmocka_unit_test(pools),
    };
    return cmocka_run_group_tests(tests, NULL, report_worst);
}
