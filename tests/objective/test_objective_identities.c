/*
 * What must hold whatever the numbers: values known beforehand, symmetries, and the fused path (Gram matrices
 * and couplings through combine) against the definition of L_o on the rows themselves.
 * Tests src/objective/terms.
 */
#include <math.h>
#include <string.h>

#include "support/alone.h"
#include "support/cmocka_all.h"
#include "support/objective_problem.h"

static void near(double found, double expected, double tolerance)
{
    if (!(fabs(found - expected) <= tolerance)) fail_msg("%.15g, expected %.15g", found, expected);
}

static const struct mt_layer_report *report_of(const struct problem *p)
{
    return mt_objective_layer(p->evaluation.objective, 0);
}

/* A problem with one method, opened, evaluated, and its gradients taken. */
static void solve(struct problem *p, const char *method, const char *settings, uint64_t seed)
{
    problem_configure(p, method, settings);
    problem_open(p, seed);
    problem_begin(p);
    (void)problem_forward(p);
    problem_backward(p);
}

// ------------------------------------------------------------------ L_o

static void orthogonal_rows_cost_nothing(void **state)
{
    (void)state;
    static const char *const settings[] = {"beta=1 scale=none form=pairwise", "beta=1 scale=none form=span",
                                           "beta=1 scale=none form=cosine"};
    for (int f = 0; f < 3; f++) {
        struct problem p = {.router = {.slots = 4}, .tokens = 5, .experts = 8, .width = 9, .masked = true};
        problem_configure(&p, "none", settings[f]);
        problem_open(&p, 1);
        memset(p.x.outputs, 0, sizeof p.x.outputs);
        for (int64_t i = 0; i < p.tokens * 4; i++) p.x.outputs[i * 9 + (i * 2) % 8] = 1.0 + (double)i;
        problem_begin(&p);
        near(problem_forward(&p), 0.0, 1e-15);
        problem_backward(&p);
        for (int64_t i = 0; i < p.tokens * 4 * 9; i++) near(p.dx.outputs[i], 0.0, 1e-13);
        problem_close(&p);
    }
}

static void cosine_knows_no_scale(void **state)
{
    (void)state;
    struct problem p = {.router = {.slots = 3}, .tokens = 6, .experts = 8, .width = 5};
    solve(&p, "none", "beta=1 scale=none form=cosine", 2);
    double before = report_of(&p)->loss[MT_TERM_O];
    // Euler: the gradient stands at right angles to the row itself.
    for (int row = 0; row < 18; row++) {
        double along = 0.0;
        for (int i = 0; i < 5; i++) along += p.dx.outputs[row * 5 + i] * p.x.outputs[row * 5 + i];
        near(along, 0.0, 1e-11);
    }
    for (int row = 0; row < 18; row++) {
        for (int i = 0; i < 5; i++) p.x.outputs[row * 5 + i] *= (row % 2 == 0 ? -1.0 : 1.0) * (0.5 + row);
    }
    near(problem_forward(&p), before, 1e-11);
    problem_close(&p);
}

static void one_expert_has_nothing_to_compare(void **state)
{
    (void)state;
    struct problem p = {.router = {.slots = 1}, .tokens = 6, .experts = 4, .width = 3};
    solve(&p, "none", "beta=1 form=cosine scale=once", 3);
    assert_true(report_of(&p)->loss[MT_TERM_O] == 0.0);
    assert_true(report_of(&p)->weight[MT_TERM_O] == 1.0);
    for (int i = 0; i < 18; i++) assert_true(p.dx.outputs[i] == 0.0);
    char text[512];
    mt_objective_warnings(p.evaluation.objective, &(struct mt_task_norms){0}, text, sizeof text);
    assert_non_null(strstr(text, "each token has one expert: L_o is 0"));
    assert_non_null(strstr(text, "term o could not be scaled"));
    problem_close(&p);
}

// ------------------------------------------------------------------ the plain path

static double dot(const double *a, const double *b, int64_t width)
{
    double sum = 0.0;
    for (int64_t i = 0; i < width; i++) sum += a[i] * b[i];
    return sum;
}

static double pairwise(const double *const *row, int count, int64_t width, double epsilon)
{
    double total = 0.0;
    for (int a = 0; a < count; a++) {
        for (int b = 0; b < count; b++) {
            if (a == b) continue;
            double factor = dot(row[a], row[b], width) / (dot(row[b], row[b], width) + epsilon);
            double squares = 0.0; // of the projection, element by element
            for (int64_t i = 0; i < width; i++) squares += factor * row[b][i] * factor * row[b][i];
            total += squares;
        }
    }
    return total;
}

static double span(const double *const *row, int count, int64_t width, double epsilon)
{
    double total = 0.0;
    for (int own = 0; own < count; own++) {
        double basis[PROBLEM_MOST_SLOTS][PROBLEM_MOST_WIDTH];
        int found = 0;
        for (int j = 0; j < count; j++) {
            if (j == own) continue;
            double *u = basis[found];
            memcpy(u, row[j], (size_t)width * sizeof *u);
            for (int r = 0; r < found; r++) {
                double share = dot(basis[r], u, width);
                for (int64_t i = 0; i < width; i++) u[i] -= share * basis[r][i];
            }
            double length = sqrt(dot(u, u, width)) + epsilon;
            for (int64_t i = 0; i < width; i++) u[i] /= length;
            double along = dot(u, row[own], width);
            total += along * along * dot(u, u, width);
            found++;
        }
    }
    return total / count;
}

static double cosine(const double *const *row, int count, int64_t width, double epsilon)
{
    double total = 0.0;
    for (int a = 0; a < count; a++) {
        for (int b = 0; b < count; b++) {
            if (a == b) continue;
            double product = dot(row[a], row[b], width);
            total += product * product / (dot(row[a], row[a], width) + epsilon) /
                     (dot(row[b], row[b], width) + epsilon);
        }
    }
    return total / (count * (count - 1));
}

/* Rows that count, in the order in which groups of k neighbours form. */
static int list_rows(const struct problem *p, const double **rows, bool by_expert)
{
    int slots = p->router.slots;
    const int32_t *chosen = p->evaluation.record.chosen.data;
    int count = 0;
    for (int e = 0; e < (by_expert ? p->experts : 1); e++) {
        for (int64_t pair = 0; pair < p->tokens * slots; pair++) {
            if (p->masked && p->mask[pair / slots] == 0) continue;
            if (by_expert && chosen[pair] != e) continue;
            rows[count++] = p->x.outputs + pair * p->width;
        }
    }
    return count;
}

static double plain_loss(const struct problem *p)
{
    const double *rows[PROBLEM_MOST_TOKENS * PROBLEM_MOST_SLOTS];
    int slots = p->router.slots;
    int groups = list_rows(p, rows, p->config.grouping == MT_GROUPING_EXPERT_CONCAT) / slots;
    double total = 0.0;
    for (int g = 0; g < groups; g++) {
        const double *const *row = rows + g * slots;
        if (p->config.form == MT_ORTHO_PAIRWISE) total += pairwise(row, slots, p->width, (double)1e-8f);
        if (p->config.form == MT_ORTHO_SPAN) total += span(row, slots, p->width, (double)1e-6f);
        if (p->config.form == MT_ORTHO_COSINE) total += cosine(row, slots, p->width, (double)1e-12f);
    }
    return total / groups;
}

/* Value and gradient from the rows directly, the gradient by differences of that very sum. */
static void fused_is_plain(void **state)
{
    (void)state;
    static const char *const settings[] = {
        "beta=1 scale=none form=pairwise",
        "beta=1 scale=none form=span",
        "beta=1 scale=none form=cosine",
        "beta=1 scale=none form=pairwise grouping=expert-concat",
        "beta=1 scale=none form=span grouping=expert-concat",
        "beta=1 scale=none form=cosine grouping=expert-concat",
    };
    for (int c = 0; c < 12; c++) {
        struct problem p = {.router = {.slots = 2 + c % 3},
                            .tokens = 7,
                            .experts = 6,
                            .width = 6,
                            .masked = c >= 6,
                            .sequenced = c % 2 == 0};
        solve(&p, "none", settings[c % 6], 40 + (uint64_t)c);
        near(report_of(&p)->loss[MT_TERM_O], plain_loss(&p), 1e-12);
        for (int64_t i = 0; i < p.tokens * p.router.slots * p.width; i++) {
            static const double factors[] = {1.0, -8.0, 8.0, -1.0};
            static const double steps[] = {-2e-3, -1e-3, 1e-3, 2e-3};
            double here = p.x.outputs[i];
            double slope = 0.0;
            for (int s = 0; s < 4; s++) {
                p.x.outputs[i] = here + steps[s];
                slope += factors[s] * plain_loss(&p) / 12e-3;
            }
            p.x.outputs[i] = here;
            near(p.dx.outputs[i], slope, 2e-7 * fmax(1.0, fabs(slope)));
        }
        problem_close(&p);
    }
}

/* gradient=paper: (1/N) Σ_b <x_a,x_b> / (<x_b,x_b> + ε) x_b, nothing else. */
static void printed_gradient(void **state)
{
    (void)state;
    struct problem p = {.router = {.slots = 3}, .tokens = 5, .experts = 6, .width = 4};
    solve(&p, "none", "beta=2 scale=none gradient=paper eps=0.5", 12);
    for (int a = 0; a < 15; a++) {
        const double *own = p.x.outputs + a * 4;
        for (int i = 0; i < 4; i++) {
            double expected = 0.0;
            for (int b = a / 3 * 3; b < a / 3 * 3 + 3; b++) {
                const double *other = p.x.outputs + b * 4;
                if (b == a) continue;
                expected += 2.0 / 5.0 * dot(own, other, 4) / (dot(other, other, 4) + 0.5) * other[i];
            }
            near(p.dx.outputs[a * 4 + i], expected, 1e-7);
        }
    }
    problem_close(&p);
}

// ------------------------------------------------------------------ L_aux and loads

/* Token i's logits are token 0's, shifted by i experts: every expert gets the same from all tokens together.
 */
static void make_balanced(struct problem *p)
{
    for (int64_t i = 1; i < p->tokens; i++) {
        for (int j = 0; j < p->experts; j++) {
            p->x.logits[i * p->experts + (j + i) % p->experts] = p->x.logits[j];
        }
    }
}

static void balance_has_its_value(void **state)
{
    (void)state;
    static const struct {
        const char *settings;
        bool counts_slots; // balanced value k instead of 1
    } forms[] = {
        {"alpha=1 aux=batch", false}, {"alpha=1 aux=sequence", false}, {"alpha=1 aux=switch", false},
        {"alpha=1 aux=hf", true},     {"alpha=1 aux=ernie", true},
    };
    static const enum mt_router_kind kinds[] = {MT_ROUTER_SOFTMAX, MT_ROUTER_SIGMOID};
    for (int c = 0; c < 10; c++) {
        struct problem p = {
            .router = {.kind = kinds[c % 2], .slots = 3}, .tokens = 8, .experts = 8, .width = 2};
        problem_configure(&p, "none", forms[c / 2].settings);
        problem_open(&p, 20 + (uint64_t)c);
        make_balanced(&p);
        problem_begin(&p);
        near(problem_forward(&p), forms[c / 2].counts_slots ? 3.0 : 1.0, 1e-12);
        const struct mt_layer_report *report = report_of(&p);
        near(report->max_violation, 0.0, 1e-12);
        near(report->max_violation_code, 0.0, 1e-12);
        near(report->load_entropy, log(8.0), 1e-12);
        for (int j = 0; j < 8; j++) assert_true(report->load[j] == 3.0);
        problem_close(&p);
    }
}

/* The equation as printed: Σ_j (c_j/N) Σ_i s_ij is k/n · N · Σ_s s at balance. */
static void literal_balance(void **state)
{
    (void)state;
    struct problem p = {
        .router = {.slots = 2, .normalise = true, .scale = 1.5f}, .tokens = 8, .experts = 8, .width = 2};
    problem_configure(&p, "none", "alpha=1 aux=literal");
    problem_open(&p, 7);
    make_balanced(&p);
    problem_begin(&p);
    near(problem_forward(&p), 2.0 / 8.0 * 8.0 * 1.5, 1e-12);
    problem_close(&p);
}

static void violation_is_bounded(void **state)
{
    (void)state;
    for (int c = 0; c < 24; c++) {
        int slots = 1 + c % 4;
        struct problem p = {
            .router = {.slots = slots}, .tokens = 16, .experts = 6, .width = 1, .masked = c % 2 == 0};
        problem_configure(&p, "aux", "");
        problem_open(&p, (uint64_t)c);
        bool worst = c >= 12; // all tokens alike
        for (int64_t i = p.experts; i < p.tokens * p.experts && worst; i++) {
            p.x.logits[i] = p.x.logits[i % p.experts];
        }
        problem_begin(&p);
        (void)problem_forward(&p);
        double bound = 6.0 / slots - 1.0;
        assert_true(report_of(&p)->max_violation <= bound + 1e-12);
        assert_true(report_of(&p)->max_violation <= report_of(&p)->max_violation_code);
        if (worst) near(report_of(&p)->max_violation, bound, 1e-12);
        problem_close(&p);
    }
}

// ------------------------------------------------------------------ masks

/* The same problem without its masked tokens. */
static void compact(const struct problem *full, struct problem *packed)
{
    int64_t kept = 0;
    int64_t wide = full->router.slots * full->width;
    for (int64_t i = 0; i < full->tokens; i++) {
        if (full->mask[i] == 0) continue;
        memcpy(packed->x.logits + kept * full->experts, full->x.logits + i * full->experts,
               (size_t)full->experts * sizeof(double));
        memcpy(packed->x.outputs + kept * wide, full->x.outputs + i * wide, (size_t)wide * sizeof(double));
        packed->segment[kept] = full->segment[i];
        kept++;
    }
    assert_int_equal(kept, packed->tokens);
}

/* Gradients agree where tokens are kept, and are zero elsewhere. */
static void compare_rows(const struct problem *full, const double *gradient, const double *packed,
                         int64_t width)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < full->tokens; i++) {
        bool counts = full->mask[i] != 0;
        for (int64_t j = 0; j < width; j++) {
            double expected = counts ? packed[kept * width + j] : 0.0;
            double found = gradient[i * width + j];
            if (!counts) assert_true(found == 0.0);
            near(found, expected, 1e-14 + 1e-12 * fabs(expected));
        }
        kept += counts;
    }
}

static void masked_tokens_change_nothing(void **state)
{
    (void)state;
    static const struct mt_router_config routers[] = {
        {.kind = MT_ROUTER_SOFTMAX, .slots = 3, .normalise = true},
        {.kind = MT_ROUTER_SIGMOID, .slots = 2, .scale = 2.0f},
        {.kind = MT_ROUTER_SPARSEMIXER, .slots = 2, .jitter = 0.2f},
    };
    // Without drops: those are drawn by a token's place, and capacities count padding.
    const char *settings = "capacity=0 drop_threshold=0";
    for (int m = 0; mt_method_listed(m) != NULL; m++) {
        for (int r = 0; r < 3 && is_alone(&mt_method_listed(m)->config); r++) {
            if (routers[r].kind == MT_ROUTER_SPARSEMIXER && mt_method_listed(m)->config.pool) continue;
            struct problem full = {.router = routers[r],
                                   .tokens = 11,
                                   .experts = 8,
                                   .width = 5,
                                   .masked = true,
                                   .sequenced = true};
            struct problem packed = full;
            solve(&full, mt_method_listed(m)->name, settings, 60 + (uint64_t)m);
            packed.tokens = 8; // every fourth of 11 is masked, the first of those is token 2
            packed.masked = false;
            problem_configure(&packed, mt_method_listed(m)->name, settings);
            problem_open(&packed, 1);
            compact(&full, &packed);
            memcpy(packed.x.router_weight, full.x.router_weight, sizeof full.x.router_weight);
            problem_begin(&packed);
            near(problem_forward(&packed), problem_forward(&full), 1e-12);
            problem_backward(&packed);
            for (int t = 0; t < MT_TERM_COUNT; t++) {
                near(report_of(&full)->loss[t], report_of(&packed)->loss[t], 1e-12);
            }
            compare_rows(&full, full.dx.logits, packed.dx.logits, full.experts);
            compare_rows(&full, full.dx.outputs, packed.dx.outputs, full.router.slots * full.width);
            problem_close(&full);
            problem_close(&packed);
        }
    }
}

static void nothing_but_padding(void **state)
{
    (void)state;
    for (int m = 0; mt_method_listed(m) != NULL; m++) {
        if (!is_alone(&mt_method_listed(m)->config)) continue;
        struct problem p = {
            .router = {.slots = 2}, .tokens = 5, .experts = 4, .width = 3, .masked = true, .sequenced = true};
        problem_configure(&p, mt_method_listed(m)->name, "lambda_orth=0 lambda_simbal=0");
        problem_open(&p, 5);
        memset(p.mask, 0, sizeof p.mask);
        problem_begin(&p);
        assert_true(problem_forward(&p) == 0.0);
        problem_backward(&p);
        for (int i = 0; i < 20; i++) assert_true(p.dx.logits[i] == 0.0);
        for (int i = 0; i < 30; i++) assert_true(p.dx.outputs[i] == 0.0);
        assert_true(report_of(&p)->load_entropy == 0.0);
        problem_close(&p);
    }
}

// ------------------------------------------------------------------ pooled layers

/* Two layers of a routing problem as one record each, in double. */
struct layer {
    double logits[12 * 4], probs[12 * 4], weight[12 * 2], dlogits[12 * 4], dprobs[12 * 4], dweight[12 * 2];
    int32_t chosen[12 * 2];
};

static struct mt_routing record_of(struct layer *l, int64_t tokens)
{
    struct mt_tensor choices = mt_tensor_2d(l->chosen, MT_I32, tokens, 2);
    return (struct mt_routing){
        .tokens = tokens,
        .experts = 4,
        .slots = 2,
        .segments = 1,
        .logits = mt_tensor_2d(l->logits, MT_F64, tokens, 4),
        .probs = mt_tensor_2d(l->probs, MT_F64, tokens, 4),
        .greedy = choices,
        .chosen = choices,
        .expert = choices,
        .weight = mt_tensor_2d(l->weight, MT_F64, tokens, 2),
    };
}

/* Runs a step over `layers` layers of `tokens` tokens each; returns the total. */
static double run_pooled(struct layer *layers, int count, int64_t tokens)
{
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct mt_device *device = NULL;
    struct mt_objective *objective = NULL;
    struct mt_objective_config config;
    assert_int_equal(mt_device_create(&ctx, "ref", 1, &device), MT_OK);
    assert_int_equal(mt_objective_config_method(&ctx, "aux", &config), MT_OK);
    config.aux = MT_AUX_HF;
    struct mt_objective_shape shape = {
        .layers = count, .tokens = tokens, .experts = 4, .slots = 2, .segments = 1, .router = {.slots = 2}};
    assert_int_equal(mt_objective_create_typed(device, &config, &shape, MT_F64, &objective), MT_OK);
    double total = 0.0;
    for (int l = 0; l < count; l++) {
        struct mt_routing record = record_of(&layers[l], tokens);
        assert_int_equal(mt_routing_forward(device, &shape.router, &(struct mt_router_policy){0}, &record),
                         MT_OK);
        assert_int_equal(mt_objective_forward(objective, l, &record), MT_OK);
    }
    const struct mt_objective_step step = {.progress = 1.0, .loss_scale = 1.0};
    assert_int_equal(mt_objective_finish(objective, &step, &total), MT_OK);
    for (int l = count - 1; l >= 0; l--) {
        struct mt_routing record = record_of(&layers[l], tokens);
        struct mt_routing_gradient gradient = {
            .dlogits = mt_tensor_2d(layers[l].dlogits, MT_F64, tokens, 4),
            .dprobs = mt_tensor_2d(layers[l].dprobs, MT_F64, tokens, 4),
            .dweight = mt_tensor_2d(layers[l].dweight, MT_F64, tokens, 2),
        };
        const struct mt_objective_backward_options options = {0};
        assert_int_equal(mt_objective_backward(objective, l, &record, &gradient, NULL, &options), MT_OK);
        assert_int_equal(mt_routing_backward(device, &shape.router, &record, &gradient), MT_OK);
    }
    mt_objective_destroy(objective);
    mt_device_destroy(device);
    assert_int_equal(ctx.live_bytes, 0);
    return total;
}

static void pooled_layers_are_one(void **state)
{
    (void)state;
    struct problem p = {.router = {.slots = 2}, .tokens = 12, .experts = 4, .width = 1};
    problem_configure(&p, "none", "");
    problem_open(&p, 77);
    static struct layer two[2];
    static struct layer one;
    memset(two, 0, sizeof two);
    memset(&one, 0, sizeof one);
    memcpy(one.logits, p.x.logits, sizeof one.logits);
    memcpy(two[0].logits, p.x.logits, sizeof one.logits / 2);
    memcpy(two[1].logits, p.x.logits + 24, sizeof one.logits / 2);
    problem_close(&p);
    near(run_pooled(two, 2, 6), run_pooled(&one, 1, 12), 1e-16);
    for (int i = 0; i < 48; i++) near(two[i / 24].dlogits[i % 24], one.dlogits[i], 1e-17);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orthogonal_rows_cost_nothing),
        cmocka_unit_test(cosine_knows_no_scale),
        cmocka_unit_test(one_expert_has_nothing_to_compare),
        cmocka_unit_test(fused_is_plain),
        cmocka_unit_test(printed_gradient),
        cmocka_unit_test(balance_has_its_value),
        cmocka_unit_test(literal_balance),
        cmocka_unit_test(violation_is_bounded),
        cmocka_unit_test(masked_tokens_change_nothing),
        cmocka_unit_test(nothing_but_padding),
        cmocka_unit_test(pooled_layers_are_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
