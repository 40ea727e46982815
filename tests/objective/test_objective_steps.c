/* Whole steps over several layers: scales, brake, state, norms, memory, and the same bits for any thread
 * count. Tests src/objective/objective.c.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "support/failing_allocator.h"
#include "support/objective_run.h"

struct bench {
    struct mt_context ctx;
    struct mt_device *device;
    struct objective_run *run;
};

static void open_bench(struct bench *bench, const char *device, int threads, const char *method)
{
    mt_context_init(&bench->ctx, NULL);
    assert_int_equal(mt_device_create(&bench->ctx, device, threads, &bench->device), MT_OK);
    bench->run = calloc(1, sizeof *bench->run);
    assert_non_null(bench->run);
    bench->run->device = bench->device;
    bench->run->router = (struct mt_router_config){.slots = RUN_SLOTS};
    if (mt_objective_config_method(&bench->ctx, method, &bench->run->config) != MT_OK) {
        fail_msg("%s", bench->ctx.message);
    }
    objective_run_draw(bench->run, 1);
}

static void set(struct bench *bench, const char *key, const char *value)
{
    if (mt_objective_config_set(&bench->ctx, &bench->run->config, key, value) != MT_OK) {
        fail_msg("%s", bench->ctx.message);
    }
}

static void create(struct bench *bench)
{
    struct mt_objective_shape shape = objective_run_shape(bench->run);
    enum mt_status status =
        mt_objective_create(bench->device, &bench->run->config, &shape, &bench->run->objective);
    if (status != MT_OK) fail_msg("%s", bench->ctx.message);
}

static void close_bench(struct bench *bench)
{
    mt_objective_destroy(bench->run->objective);
    free(bench->run);
    mt_device_destroy(bench->device);
    assert_int_equal(bench->ctx.live_bytes, 0);
}

static double forward(struct bench *bench)
{
    double total = NAN;
    if (objective_run_forward(bench->run, &total) != MT_OK) fail_msg("%s", bench->ctx.message);
    return total;
}

static void backward(struct bench *bench)
{
    if (objective_run_backward(bench->run) != MT_OK) fail_msg("%s", bench->ctx.message);
}

static const struct mt_layer_report *report(const struct bench *bench, int layer)
{
    return mt_objective_layer(bench->run->objective, layer);
}

static void near(double found, double expected, double tolerance)
{
    if (!(fabs(found - expected) <= tolerance)) fail_msg("%.15g, expected %.15g", found, expected);
}

/* Sharper logits: every score's variance grows. */
static void sharpen(struct bench *bench, float factor)
{
    for (int l = 0; l < RUN_LAYERS; l++) {
        for (int i = 0; i < RUN_TOKENS * RUN_EXPERTS; i++) bench->run->layer[l].logits[i] *= factor;
    }
}

// ------------------------------------------------------------------ scales

static void once_starts_where_it_should(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, "cpu", 2, "paper");
    set(&bench, "beta", "3e-3");
    create(&bench);
    double total = forward(&bench);
    double sum = 0.0;
    double aux_mean = 0.0;
    double variance_mean = 0.0;
    for (int l = 0; l < RUN_LAYERS; l++) {
        const struct mt_layer_report *r = report(&bench, l);
        // Per layer: β·L_aux, exactly.
        near(r->weight[MT_TERM_O] * r->loss[MT_TERM_O], 3e-3 * r->loss[MT_TERM_AUX], 1e-15);
        for (int t = 0; t < MT_TERM_COUNT; t++) sum += r->weight[t] * r->loss[t];
        aux_mean += r->loss[MT_TERM_AUX];
        variance_mean -= r->loss[MT_TERM_V];
        assert_true(r->loss[MT_TERM_V] < 0.0);
    }
    near(total, sum, 1e-15);
    near(report(&bench, 0)->weight[MT_TERM_V], 1e-3 * aux_mean / variance_mean, 1e-15);
    assert_true(report(&bench, 0)->weight[MT_TERM_V] == report(&bench, 2)->weight[MT_TERM_V]);
    double kept[RUN_LAYERS];
    for (int l = 0; l < RUN_LAYERS; l++) kept[l] = report(&bench, l)->weight[MT_TERM_O];
    objective_run_draw(bench.run, 2);
    (void)forward(&bench);
    for (int l = 0; l < RUN_LAYERS; l++) assert_true(report(&bench, l)->weight[MT_TERM_O] == kept[l]);
    close_bench(&bench);
}

static void cosine_has_one_scale(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, "cpu", 2, "metier");
    set(&bench, "alpha", "0"); // the batch form still says where to start
    create(&bench);
    (void)forward(&bench);
    double aux = 0.0;
    double ortho = 0.0;
    for (int l = 0; l < RUN_LAYERS; l++) {
        aux += report(&bench, l)->loss[MT_TERM_AUX];
        ortho += report(&bench, l)->loss[MT_TERM_O];
        assert_true(report(&bench, l)->weight[MT_TERM_AUX] == 0.0);
    }
    assert_true(aux > 0.5 * RUN_LAYERS);
    for (int l = 0; l < RUN_LAYERS; l++) {
        near(report(&bench, l)->weight[MT_TERM_O], 1e-2 * aux / ortho, 1e-15);
    }
    close_bench(&bench);
}

static void running_follows_both_means(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, "cpu", 2, "paper");
    set(&bench, "scale", "running");
    set(&bench, "running_decay", "0.75");
    create(&bench);
    double aux[RUN_LAYERS] = {0};
    double ortho[RUN_LAYERS] = {0};
    for (uint64_t seed = 1; seed < 5; seed++) {
        objective_run_draw(bench.run, seed);
        (void)forward(&bench);
        for (int l = 0; l < RUN_LAYERS; l++) {
            const struct mt_layer_report *r = report(&bench, l);
            bool first = seed == 1;
            aux[l] = first ? r->loss[MT_TERM_AUX] : 0.75 * aux[l] + 0.25 * r->loss[MT_TERM_AUX];
            ortho[l] = first ? r->loss[MT_TERM_O] : 0.75 * ortho[l] + 0.25 * r->loss[MT_TERM_O];
            near(r->weight[MT_TERM_O], 1e-3 * aux[l] / ortho[l], 1e-12);
        }
    }
    close_bench(&bench);
}

/*
 * The rule by hand: the router's rows are unit vectors, two of which lean on each other, so the projection of
 * each of the first three rows on the span of the others is known.
 */
static void powers_of_ten_by_hand(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, "cpu", 2, "paper-code");
    set(&bench, "beta", "2e-4");
    create(&bench);
    float *rows = bench.run->layer[0].router_weight;
    memset(rows, 0, sizeof bench.run->layer[0].router_weight);
    for (int j = 0; j < RUN_EXPERTS; j++) rows[j * RUN_WIDTH + j] = 1.0f;
    rows[0 * RUN_WIDTH + 1] =
        0.5f; // row 0 has 0.25 of its square along row 1; of row 1, 0.2 lies along row 0
    (void)forward(&bench);
    double projection = (0.25 + 0.25 / 1.25 + 0.0) / 3.0;
    double ortho = pow(10.0, rint(log10(2e-4 / projection)));
    double variance = -report(&bench, 0)->loss[MT_TERM_V];
    double v = pow(10.0, rint(log10(1e-3 / variance)));
    near(ortho, 1e-3, 1e-18);
    for (int l = 0; l < RUN_LAYERS; l++) {
        near(report(&bench, l)->weight[MT_TERM_O], ortho, 1e-18);
        near(report(&bench, l)->weight[MT_TERM_V], v, 1e-15 * v);
        assert_true(report(&bench, l)->weight[MT_TERM_AUX] == 1e-3);
    }
    // The variance itself: per token over all probabilities, divided by n-1, mean over unmasked tokens.
    double expected = 0.0;
    double tokens = 0.0;
    for (int i = 0; i < RUN_TOKENS; i++) {
        if (bench.run->mask[i] == 0) continue;
        const float *p = bench.run->layer[0].probs + i * RUN_EXPERTS;
        double row = 0.0;
        for (int j = 0; j < RUN_EXPERTS; j++)
            row += pow((double)p[j] - 1.0 / RUN_EXPERTS, 2.0) / (RUN_EXPERTS - 1);
        expected += row;
        tokens += 1.0;
    }
    near(variance, expected / tokens, 1e-8);
    char text[1024];
    mt_objective_warnings(bench.run->objective, &(struct mt_task_norms){0}, text, sizeof text);
    assert_non_null(strstr(text, "scale=once-pow10"));
    close_bench(&bench);
}

static void what_cannot_be_scaled_keeps_its_coefficient(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, "cpu", 2, "paper");
    for (int l = 0; l < RUN_LAYERS; l++) memset(bench.run->layer[l].rows, 0, sizeof bench.run->layer[l].rows);
    create(&bench);
    (void)forward(&bench);
    backward(&bench);
    assert_true(report(&bench, 1)->loss[MT_TERM_O] == 0.0);
    assert_true(report(&bench, 1)->weight[MT_TERM_O] == 1e-3);
    char text[1024];
    mt_objective_warnings(bench.run->objective, &(struct mt_task_norms){0}, text, sizeof text);
    assert_non_null(strstr(text, "term o could not be scaled"));
    assert_null(strstr(text, "term v could not be scaled"));
    char little[8];
    mt_objective_warnings(bench.run->objective, &(struct mt_task_norms){0}, little, sizeof little);
    assert_int_equal(strlen(little), 7);
    close_bench(&bench);
}

// ------------------------------------------------------------------ brake, state

static void brake_stops(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, "cpu", 2, "metier");
    set(&bench, "brake_target", "1.5");
    set(&bench, "running_decay", "0.5");
    create(&bench);
    double start[RUN_LAYERS] = {0};
    double mean[RUN_LAYERS] = {0};
    double weight = 0.0;
    int stopped = 0;
    for (int step = 0; step < 12; step++) {
        (void)forward(&bench);
        backward(&bench);
        for (int l = 0; l < RUN_LAYERS; l++) {
            const struct mt_layer_report *r = report(&bench, l);
            double variance = -r->loss[MT_TERM_V];
            if (step == 0) start[l] = variance;
            mean[l] = step == 0 ? variance : 0.5 * mean[l] + 0.5 * variance;
            if (step == 0) weight = r->weight[MT_TERM_V];
            bool reached = mean[l] >= 1.5 * start[l];
            assert_true(r->weight[MT_TERM_V] == (reached ? 0.0 : weight));
            stopped += reached;
        }
        sharpen(&bench, step < 6 ? 1.2f : 0.8f); // past the target, and back
    }
    assert_true(stopped > 3);
    assert_true(report(&bench, 0)->weight[MT_TERM_V] > 0.0); // it pushes again
    close_bench(&bench);
}

static void brake_follows_the_learning_rate(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, "cpu", 2, "paper");
    set(&bench, "brake", "decay");
    create(&bench);
    (void)forward(&bench);
    double weight = report(&bench, 0)->weight[MT_TERM_V];
    bench.run->step.progress = 0.25;
    (void)forward(&bench);
    assert_true(report(&bench, 0)->weight[MT_TERM_V] == 0.25 * weight);
    bench.run->step.progress = 0.0;
    (void)forward(&bench);
    assert_true(report(&bench, 0)->weight[MT_TERM_V] == 0.0);
    close_bench(&bench);
}

static void continues_after_a_restart(void **state)
{
    (void)state;
    static const char *const scales[] = {"once", "running", "once-pow10", "none"};
    for (int c = 0; c < 4; c++) {
        struct bench first;
        struct bench second;
        open_bench(&first, "cpu", 2, "metier");
        open_bench(&second, "cpu", 1, "metier");
        set(&first, "scale", scales[c]);
        set(&second, "scale", scales[c]);
        create(&first);
        create(&second);
        for (uint64_t step = 0; step < 3; step++) {
            objective_run_draw(first.run, 10 + step);
            (void)forward(&first);
        }
        size_t count = 0;
        size_t same = 0;
        const double *saved = mt_objective_state(first.run->objective, &count);
        double *restored = mt_objective_state(second.run->objective, &same);
        assert_int_equal(count, same);
        memcpy(restored, saved, count * sizeof *saved);
        for (uint64_t step = 3; step < 6; step++) {
            objective_run_draw(first.run, 10 + step);
            objective_run_draw(second.run, 10 + step);
            double a = forward(&first);
            double b = forward(&second);
            assert_memory_equal(&a, &b, sizeof a);
            for (int l = 0; l < RUN_LAYERS; l++) {
                assert_memory_equal(report(&first, l)->weight, report(&second, l)->weight,
                                    sizeof report(&first, l)->weight);
            }
        }
        assert_memory_equal(saved, restored, count * sizeof *saved);
        close_bench(&first);
        close_bench(&second);
    }
}

// ------------------------------------------------------------------ gradients

static bool same_bytes(const void *a, const void *b, size_t bytes)
{
    return memcmp(a, b, bytes) == 0;
}

/* Everything backward wrote. */
static bool same_gradients(const struct run_layer *a, const struct run_layer *b)
{
    return same_bytes(a->drows, b->drows, sizeof a->drows) &&
           same_bytes(a->dlogits, b->dlogits, sizeof a->dlogits) &&
           same_bytes(a->coupling, b->coupling, sizeof a->coupling) &&
           same_bytes(a->drouter_weight, b->drouter_weight, sizeof a->drouter_weight) &&
           same_bytes(a->dinner, b->dinner, sizeof a->dinner) &&
           same_bytes(a->proxy_coupling, b->proxy_coupling, sizeof a->proxy_coupling);
}

static double norm(const float *values, size_t count)
{
    double squares = 0.0;
    for (size_t i = 0; i < count; i++) squares += (double)values[i] * (double)values[i];
    return sqrt(squares);
}

static void same_bits_for_any_thread_count(void **state)
{
    (void)state;
    for (int m = 0; mt_method_listed(m) != NULL; m++) {
        struct bench bench[3];
        double total[3];
        for (int t = 0; t < 3; t++) {
            open_bench(&bench[t], "cpu", 1 << t, mt_method_listed(m)->name);
            create(&bench[t]);
            bench[t].run->measure = t == 2; // looking must not change anything either
            total[t] = forward(&bench[t]);
            backward(&bench[t]);
        }
        for (int t = 1; t < 3; t++) {
            assert_memory_equal(&total[0], &total[t], sizeof total[0]);
            for (int l = 0; l < RUN_LAYERS; l++) {
                assert_true(same_gradients(&bench[0].run->layer[l], &bench[t].run->layer[l]));
            }
        }
        for (int t = 0; t < 3; t++) close_bench(&bench[t]);
    }
}

/* Of what arrives at the responses, whose squared lengths are given. */
static double proxy_norm(const struct run_layer *layer)
{
    double squares = 0.0;
    for (int i = 0; i < RUN_EXPERTS * RUN_EXPERTS; i++) {
        double coupling = (double)layer->proxy_coupling[i];
        squares += coupling * coupling * (double)layer->proxy_squares[i];
    }
    return sqrt(squares);
}

/* One term at a time: its measured norm is that of what arrived. */
static void norms_are_those_of_the_gradients(void **state)
{
    (void)state;
    static const struct {
        enum mt_term term;
        const char *key, *more, *value;
    } cases[] = {
        {MT_TERM_AUX, "alpha", "aux", "batch"},
        {MT_TERM_AUX, "alpha", "aux", "sequence"},
        {MT_TERM_AUX, "alpha", "aux", "literal"},
        {MT_TERM_V, "gamma", "scores", "full"},
        {MT_TERM_V, "gamma", "scores", "topk"},
        {MT_TERM_Z, "zeta", "scale", "none"},
        {MT_TERM_O, "beta", "form", "pairwise"},
        {MT_TERM_O, "beta", "form", "cosine"},
        {MT_TERM_O, "beta", "gradient", "paper"},
        {MT_TERM_O, "beta", "grouping", "expert-concat"},
        {MT_TERM_ROUTER_ORTH, "lambda_orth", "orth_groups", "2"},
        {MT_TERM_SIMBAL, "lambda_simbal", "scale", "none"},
        {MT_TERM_ERC, "lambda_erc", "erc_alpha", "0.9"},
        {MT_TERM_SP, "lambda_sp", "sp", "cosine"},
        {MT_TERM_SP, "lambda_sp", "sp", "squared"},
        {MT_TERM_CP, "lambda_cp", "scale", "none"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct bench bench;
        open_bench(&bench, "cpu", 2, "none");
        set(&bench, cases[c].key, "0.5");
        set(&bench, cases[c].more, cases[c].value);
        create(&bench);
        bench.run->measure = true;
        bench.run->step.loss_scale = 0.25;
        (void)forward(&bench);
        assert_true(isnan(report(&bench, 0)->gradient[cases[c].term]));
        backward(&bench);
        for (int l = 0; l < RUN_LAYERS; l++) {
            const struct run_layer *layer = &bench.run->layer[l];
            double expected = norm(layer->dlogits, RUN_TOKENS * RUN_EXPERTS);
            if (cases[c].term == MT_TERM_O) expected = norm(layer->drows, RUN_ROWS * RUN_WIDTH);
            if (cases[c].term == MT_TERM_ROUTER_ORTH || cases[c].term == MT_TERM_SIMBAL) {
                expected = norm(layer->drouter_weight, RUN_EXPERTS * RUN_WIDTH);
            }
            if (cases[c].term == MT_TERM_ERC) expected = proxy_norm(layer);
            if (cases[c].term == MT_TERM_SP) expected = norm(layer->dinner, RUN_ROWS * RUN_WIDTH);
            expected *= 4.0; // norms are reported without the loss scale
            assert_true(expected > 0.0);
            near(report(&bench, l)->gradient[cases[c].term] / expected, 1.0, 1e-5);
            for (int t = 0; t < MT_TERM_COUNT; t++) {
                if (t != (int)cases[c].term) assert_true(report(&bench, l)->gradient[t] == 0.0);
            }
        }
        close_bench(&bench);
    }
}

static void loss_scale_multiplies_gradients_only(void **state)
{
    (void)state;
    for (int m = 0; mt_method_listed(m) != NULL; m++) {
        struct bench whole;
        struct bench half;
        open_bench(&whole, "cpu", 2, mt_method_listed(m)->name);
        open_bench(&half, "cpu", 2, mt_method_listed(m)->name);
        create(&whole);
        create(&half);
        half.run->step.loss_scale = 0.5;
        double a = forward(&whole);
        double b = forward(&half);
        assert_memory_equal(&a, &b, sizeof a);
        backward(&whole);
        backward(&half);
        for (int l = 0; l < RUN_LAYERS; l++) { // halving is exact in binary
            float *scaled[] = {half.run->layer[l].dlogits,  half.run->layer[l].drows,
                               half.run->layer[l].coupling, half.run->layer[l].drouter_weight,
                               half.run->layer[l].dinner,   half.run->layer[l].proxy_coupling};
            const size_t count[] = {RUN_TOKENS * RUN_EXPERTS, RUN_ROWS * RUN_WIDTH,
                                    RUN_ROWS * RUN_SLOTS,     RUN_EXPERTS * RUN_WIDTH,
                                    RUN_ROWS * RUN_WIDTH,     RUN_EXPERTS * RUN_EXPERTS};
            for (int i = 0; i < 6; i++) {
                for (size_t j = 0; j < count[i]; j++) scaled[i][j] *= 2.0f;
            }
            assert_true(same_gradients(&whole.run->layer[l], &half.run->layer[l]));
        }
        close_bench(&whole);
        close_bench(&half);
    }
}

// ------------------------------------------------------------------ memory

/* A planned step sizes the device's scratch; then nothing allocates, and the plan has decided nothing. */
static void nothing_is_allocated_after_create(void **state)
{
    (void)state;
    for (int m = 0; mt_method_listed(m) != NULL; m++) {
        struct bench planned;
        struct bench plain;
        open_bench(&planned, "cpu", 2, mt_method_listed(m)->name);
        open_bench(&plain, "cpu", 2, mt_method_listed(m)->name);
        create(&planned);
        create(&plain);
        planned.run->measure = true;
        mt_device_set_planning(planned.device, true);
        (void)forward(&planned);
        backward(&planned);
        mt_device_set_planning(planned.device, false);
        // Terms with weight 0 in the plan may need more in the step: a batch without decisions has all of
        // them on.
        mt_context_forbid_allocation(&planned.ctx, "step");
        for (uint64_t step = 0; step < 3; step++) {
            objective_run_draw(planned.run, step);
            objective_run_draw(plain.run, step);
            double a = forward(&planned);
            double b = forward(&plain);
            assert_memory_equal(&a, &b, sizeof a);
            backward(&planned);
        }
        mt_context_forbid_allocation(&planned.ctx, NULL);
        close_bench(&planned);
        close_bench(&plain);
    }
}

struct failing_case {
    struct objective_run *run;
    const char *device;
};

static enum mt_status whole_life(struct mt_context *ctx, const void *self)
{
    const struct failing_case *c = self;
    struct mt_device *device = NULL;
    enum mt_status status = mt_device_create(ctx, c->device, 2, &device);
    if (status != MT_OK) return status;
    c->run->device = device;
    struct mt_objective_shape shape = objective_run_shape(c->run);
    status = mt_objective_create(device, &c->run->config, &shape, &c->run->objective);
    double total = 0.0;
    if (status == MT_OK) status = objective_run_forward(c->run, &total);
    if (status == MT_OK) status = objective_run_backward(c->run);
    mt_objective_destroy(c->run->objective);
    c->run->objective = NULL;
    mt_device_destroy(device);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    for (int m = 0; mt_method_listed(m) != NULL; m++) {
        struct bench bench;
        open_bench(&bench, "cpu", 2, mt_method_listed(m)->name);
        bench.run->measure = true;
        struct failing_case c = {.run = bench.run, .device = "cpu"};
        struct failing_report found = fail_each_allocation(whole_life, &c);
        if (!found.ok) fail_msg("%s: %s", mt_method_listed(m)->name, found.problem);
        assert_true(found.allocations >= 3);
        close_bench(&bench);
    }
}

// ------------------------------------------------------------------ refusals

static void refused(const struct bench *bench, enum mt_status status, enum mt_status expected,
                    const char *words)
{
    if (status != expected || strstr(bench->ctx.message, words) == NULL) {
        fail_msg("status '%s', message '%s'; expected '%s' and '%s'", mt_status_text(status),
                 bench->ctx.message, mt_status_text(expected), words);
    }
}

static void refused_shapes(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, "cpu", 1, "paper-code");
    const struct mt_objective_shape good = objective_run_shape(bench.run);
    struct mt_objective_shape shape[9];
    for (int i = 0; i < 9; i++) shape[i] = good;
    shape[0].layers = 0;
    shape[1].experts = 0;
    shape[2].slots = RUN_EXPERTS + 1;
    shape[3].tokens = -1;
    shape[4].segments = 0;
    shape[5].width = -1;
    shape[6].width = 0;
    shape[7].router.slots = 2;
    shape[8].router.groups = 3;
    static const char *const words[] = {"layers", "experts", "slots", "tokens", "segments",
                                        "width",  "width",   "slots", "groups"};
    for (int i = 0; i < 9; i++) {
        struct mt_objective *objective = NULL;
        enum mt_status status = mt_objective_create(bench.device, &bench.run->config, &shape[i], &objective);
        refused(&bench, status, MT_ERR_USAGE, words[i]);
        assert_null(objective);
    }
    set(&bench, "lambda_orth", "1");
    set(&bench, "orth_groups", "3");
    struct mt_objective *objective = NULL;
    refused(&bench, mt_objective_create(bench.device, &bench.run->config, &good, &objective), MT_ERR_USAGE,
            "orth_groups is 3, which does not divide 8 experts");
    close_bench(&bench);
}

static void refused_records(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, "cpu", 1, "metier");
    set(&bench, "lambda_simbal", "1");
    create(&bench);
    (void)forward(&bench);
    struct mt_objective *objective = bench.run->objective;
    const struct mt_routing good = objective_run_record(bench.run, 0);
    struct mt_routing record = good;
    refused(&bench, mt_objective_forward(objective, RUN_LAYERS, &record), MT_ERR_USAGE, "no layer 3");
    record.gram = (struct mt_tensor){0};
    refused(&bench, mt_objective_forward(objective, 0, &record), MT_ERR_USAGE, "gram");
    record = good;
    record.ortho_mask = (struct mt_tensor){0};
    refused(&bench, mt_objective_forward(objective, 0, &record), MT_ERR_USAGE, "ortho_mask");
    record = good;
    record.router_weight = (struct mt_tensor){0};
    refused(&bench, mt_objective_forward(objective, 0, &record), MT_ERR_USAGE, "router's weight");
    record = good;
    record.tokens = RUN_TOKENS + 1;
    refused(&bench, mt_objective_forward(objective, 0, &record), MT_ERR_SHAPE, "38 tokens");
    record = good;
    record.experts = 4;
    refused(&bench, mt_objective_forward(objective, 0, &record), MT_ERR_SHAPE, "3 of 4 experts");
    record = good;
    record.segments = 5;
    refused(&bench, mt_objective_forward(objective, 0, &record), MT_ERR_SHAPE, "5 segments");
    record = good;
    record.segment = (struct mt_tensor){0};
    refused(&bench, mt_objective_forward(objective, 0, &record), MT_ERR_SHAPE, "4 segments, expected 1 to 1");
    double total = 0.0;
    struct mt_objective_step step = {.progress = 1.0, .loss_scale = 0.0};
    refused(&bench, mt_objective_finish(objective, &step, &total), MT_ERR_USAGE, "loss_scale is 0");
    step = (struct mt_objective_step){.progress = NAN, .loss_scale = 1.0};
    refused(&bench, mt_objective_finish(objective, &step, &total), MT_ERR_USAGE, "progress");
    close_bench(&bench);
}

static void refused_stages(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, "cpu", 1, "paper-code");
    create(&bench);
    struct mt_objective *objective = bench.run->objective;
    double total = 0.0;
    refused(&bench, mt_objective_finish(objective, &bench.run->step, &total), MT_ERR_USAGE, "layer 0");
    struct mt_routing record = objective_run_record(bench.run, 0);
    record.router_weight = (struct mt_tensor){0};
    refused(&bench, mt_objective_forward(objective, 0, &record), MT_ERR_USAGE, "scale=once-pow10");
    record = objective_run_record(bench.run, 0);
    record.rows = (struct mt_tensor){0};
    refused(&bench, mt_objective_forward(objective, 0, &record), MT_ERR_USAGE, "rows");
    (void)forward(&bench);
    record = objective_run_record(bench.run, 0);
    struct mt_routing_gradient gradient = {0};
    const struct mt_objective_backward_options options = {0};
    refused(&bench, mt_objective_backward(objective, 0, &record, &gradient, NULL, &options), MT_ERR_USAGE,
            "drows");
    assert_null(mt_objective_layer(objective, -1));
    assert_null(mt_objective_layer(objective, RUN_LAYERS));
    close_bench(&bench);
}

static void warnings_where_damage_began(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, "cpu", 1, "paper");
    set(&bench, "reduce", "sum");
    create(&bench);
    bench.run->measure = true;
    (void)forward(&bench);
    backward(&bench);
    char text[2048];
    double ortho = 0.0;
    double v_norm = 0.0;
    double o_norm = 0.0;
    for (int l = 0; l < RUN_LAYERS; l++) {
        ortho += report(&bench, l)->weight[MT_TERM_O] * report(&bench, l)->loss[MT_TERM_O];
        v_norm += report(&bench, l)->gradient[MT_TERM_V] / RUN_LAYERS;
        o_norm += report(&bench, l)->gradient[MT_TERM_O] / RUN_LAYERS;
    }
    struct mt_task_norms task = {
        .loss = ortho * 10.1, .router_gradient = v_norm * 10.1, .experts_gradient = o_norm * 2.01};
    mt_objective_warnings(bench.run->objective, &task, text, sizeof text);
    assert_non_null(strstr(text, "reduce=sum"));
    assert_null(strstr(text, "lower"));
    task = (struct mt_task_norms){
        .loss = ortho * 9.9, .router_gradient = v_norm * 9.9, .experts_gradient = o_norm * 1.99};
    mt_objective_warnings(bench.run->objective, &task, text, sizeof text);
    assert_non_null(strstr(text, "L_o starts at 10.1 % of the task's loss"));
    assert_non_null(strstr(text, "L_v's gradient on the router is 10.1 %"));
    assert_non_null(strstr(text, "L_o's gradient on the experts is 50.3 %"));
    close_bench(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(once_starts_where_it_should),
        cmocka_unit_test(cosine_has_one_scale),
        cmocka_unit_test(running_follows_both_means),
        cmocka_unit_test(powers_of_ten_by_hand),
        cmocka_unit_test(what_cannot_be_scaled_keeps_its_coefficient),
        cmocka_unit_test(brake_stops),
        cmocka_unit_test(brake_follows_the_learning_rate),
        cmocka_unit_test(continues_after_a_restart),
        cmocka_unit_test(same_bits_for_any_thread_count),
        cmocka_unit_test(norms_are_those_of_the_gradients),
        cmocka_unit_test(loss_scale_multiplies_gradients_only),
        cmocka_unit_test(nothing_is_allocated_after_create),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(refused_shapes),
        cmocka_unit_test(refused_records),
        cmocka_unit_test(refused_stages),
        cmocka_unit_test(warnings_where_damage_began),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
