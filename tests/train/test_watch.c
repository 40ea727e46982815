/* Watching the routers, against plain loops in double over the tokens of all micro-batches together. */
#include "train/watch.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "objective/loads.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"
#include "support/model_runs.h"
#include "support/objective_run.h"
#include "support/small_models.h"

enum { LAYERS = 2, EXPERTS = 7, SLOTS = 3, MOST = 40, MICRO_BATCHES = 3 };

static const int64_t layer_numbers[LAYERS] = {1, 4};
static const int64_t sizes[MICRO_BATCHES] = {17, 5, 40};

struct layer_arrays {
    float probs[MOST * EXPERTS];
    float weight[MOST * SLOTS];
    int32_t expert[MOST * SLOTS];
};

struct micro_batch {
    int64_t tokens;
    bool masked;
    int32_t mask[MOST];
    struct layer_arrays layer[LAYERS];
    struct mt_routing record[LAYERS];
    const struct mt_routing *records[LAYERS];
};

enum routing_kind { DRAWN, ONE_EXPERT, ALL_MASKED };

/* Scores that sum to about 1, k different experts a token, some slots dropped, some tokens masked. */
static void draw(struct micro_batch *micro, int64_t tokens, uint64_t seed, enum routing_kind kind,
                 bool masked)
{
    memset(micro, 0, sizeof *micro);
    micro->tokens = tokens;
    micro->masked = masked;
    for (int64_t i = 0; i < tokens; i++) micro->mask[i] = kind == ALL_MASKED ? 0 : i % 5 != 2;
    for (int l = 0; l < LAYERS; l++) {
        struct layer_arrays *layer = &micro->layer[l];
        uint64_t stream = 10 * (uint64_t)l;
        for (int64_t i = 0; i < tokens * EXPERTS; i++) {
            layer->probs[i] = (1.0f + 0.3f * mt_rng_normal(seed, stream, (uint64_t)i)) / EXPERTS;
        }
        for (int64_t i = 0; i < tokens; i++) {
            int first = (int)(fabsf(mt_rng_normal(seed, stream + 1, (uint64_t)i)) * 3.0f) % EXPERTS;
            for (int s = 0; s < SLOTS; s++) {
                int64_t slot = i * SLOTS + s;
                layer->expert[slot] = (first + 2 * s) % EXPERTS;
                if (s > 0 && (i + s) % 4 == 0) layer->expert[slot] = -1;
                if (kind == ONE_EXPERT) layer->expert[slot] = s == 0 ? 3 : -1;
                layer->weight[slot] = fabsf(mt_rng_normal(seed, stream + 2, (uint64_t)slot));
            }
        }
        micro->record[l] = (struct mt_routing){
            .tokens = tokens,
            .experts = EXPERTS,
            .slots = SLOTS,
            .segments = 1,
            .probs = mt_tensor_2d(layer->probs, MT_F32, tokens, EXPERTS),
            .weight = mt_tensor_2d(layer->weight, MT_F32, tokens, SLOTS),
            .expert = mt_tensor_2d(layer->expert, MT_I32, tokens, SLOTS),
        };
        if (masked) micro->record[l].mask = mt_tensor_1d(micro->mask, MT_I32, tokens);
        micro->records[l] = &micro->record[l];
    }
}

// ------------------------------------------------------------------ what it should be

/* Scores of every token that counts, all micro-batches in a row. */
struct plain {
    int tokens;
    double topk[MICRO_BATCHES * MOST][EXPERTS];
    double full[MICRO_BATCHES * MOST][EXPERTS];
    double load[EXPERTS];
};

static void gather(const struct micro_batch *micro, size_t count, int layer, struct plain *plain)
{
    memset(plain, 0, sizeof *plain);
    for (size_t m = 0; m < count; m++) {
        const struct layer_arrays *arrays = &micro[m].layer[layer];
        for (int64_t i = 0; i < micro[m].tokens; i++) {
            if (micro[m].masked && micro[m].mask[i] == 0) continue;
            for (int j = 0; j < EXPERTS; j++) {
                plain->full[plain->tokens][j] = (double)arrays->probs[i * EXPERTS + j];
            }
            for (int s = 0; s < SLOTS; s++) {
                int32_t expert = arrays->expert[i * SLOTS + s];
                if (expert < 0) continue;
                plain->topk[plain->tokens][expert] = (double)arrays->weight[i * SLOTS + s];
                plain->load[expert] += 1.0;
            }
            plain->tokens++;
        }
    }
}

static double over_tokens(const struct plain *plain, bool full)
{
    double total = 0.0;
    for (int j = 0; j < EXPERTS; j++) {
        double mean = 0.0;
        double squares = 0.0;
        for (int i = 0; i < plain->tokens; i++) {
            mean += (full ? plain->full : plain->topk)[i][j] / plain->tokens;
        }
        for (int i = 0; i < plain->tokens; i++) {
            double away = (full ? plain->full : plain->topk)[i][j] - mean;
            squares += away * away;
        }
        total += squares / plain->tokens / EXPERTS;
    }
    return total;
}

static double within_tokens(const struct plain *plain)
{
    double total = 0.0;
    for (int i = 0; i < plain->tokens; i++) {
        double mean = 0.0;
        for (int j = 0; j < EXPERTS; j++) mean += plain->full[i][j] / EXPERTS;
        for (int j = 0; j < EXPERTS; j++) {
            double away = plain->full[i][j] - mean;
            total += away * away / (EXPERTS - 1);
        }
    }
    return total / plain->tokens;
}

/* 1 / mean over tokens of Σ (x / Σ x)²: of the weights, dropped slots among them, or of the scores. */
static double effective(const struct micro_batch *micro, size_t count, int layer, bool scores)
{
    double sum = 0.0;
    int tokens = 0;
    int columns = scores ? EXPERTS : SLOTS;
    for (size_t m = 0; m < count; m++) {
        const struct layer_arrays *arrays = &micro[m].layer[layer];
        const float *rows = scores ? arrays->probs : arrays->weight;
        for (int64_t i = 0; i < micro[m].tokens; i++) {
            double whole = 0.0;
            double squares = 0.0;
            if (micro[m].masked && micro[m].mask[i] == 0) continue;
            for (int j = 0; j < columns; j++) whole += (double)rows[i * columns + j];
            for (int j = 0; j < columns; j++) squares += pow((double)rows[i * columns + j] / whole, 2.0);
            sum += squares;
            tokens++;
        }
    }
    return tokens / sum;
}

static double violation(const double *load)
{
    double mean = 0.0;
    double worst = -INFINITY;
    for (int j = 0; j < EXPERTS; j++) mean += load[j] / EXPERTS;
    for (int j = 0; j < EXPERTS; j++) worst = fmax(worst, (load[j] - mean) / mean);
    return worst;
}

static double entropy(const double *load)
{
    double total = 0.0;
    double sum = 0.0;
    for (int j = 0; j < EXPERTS; j++) total += load[j];
    for (int j = 0; j < EXPERTS; j++) {
        if (load[j] > 0.0) sum -= load[j] / total * log(load[j] / total);
    }
    return sum;
}

/* Experts, the busiest first, until nine tenths of the load are theirs. */
static double serving(const double *load)
{
    double left[EXPERTS];
    double total = 0.0;
    double served = 0.0;
    double count = 0.0;
    for (int j = 0; j < EXPERTS; j++) {
        left[j] = load[j];
        total += load[j];
    }
    while (10.0 * served < 9.0 * total) {
        int best = 0;
        for (int j = 1; j < EXPERTS; j++) best = left[j] > left[best] ? j : best;
        served += left[best];
        left[best] = -1.0;
        count += 1.0;
    }
    return count;
}

static void near(double value, double expected)
{
    if (fabs(value - expected) > 1e-9 * (1e-3 + fabs(expected))) {
        fail_msg("%.17g where %.17g was expected", value, expected);
    }
}

// ------------------------------------------------------------------ tests

struct bench {
    struct mt_context ctx;
    struct mt_device *device;
    struct mt_watch *watch;
};

static const struct mt_watch_options plain_options = {
    .layers = layer_numbers, .layer_count = LAYERS, .experts = EXPERTS, .slots = SLOTS, .tokens = MOST};

static void set_up(struct bench *b, const char *device)
{
    mt_context_init(&b->ctx, NULL);
    assert_int_equal(mt_device_create(&b->ctx, device, 2, &b->device), MT_OK);
    if (mt_watch_create(b->device, &plain_options, &b->watch) != MT_OK) fail_msg("%s", b->ctx.message);
}

static void tear_down(struct bench *b)
{
    mt_watch_destroy(b->watch);
    mt_device_destroy(b->device);
    assert_int_equal(b->ctx.live_bytes, 0);
}

static void step(struct bench *b, const struct micro_batch *micro, size_t count, bool variances)
{
    const struct mt_watch_look look = {.variances = variances};
    mt_watch_begin(b->watch);
    for (size_t m = 0; m < count; m++) {
        if (mt_watch_records(b->watch, micro[m].records, NULL, &look) != MT_OK)
            fail_msg("%s", b->ctx.message);
    }
    mt_watch_end(b->watch);
}

/* A record of the step just made, against the plain loops; running: loads of all steps. */
static void compare(struct bench *b, const struct micro_batch *micro, size_t count,
                    const double running[LAYERS][EXPERTS])
{
    static struct plain plain;
    struct mt_step_record record = {.step = 1};
    double mean[6] = {0.0};
    mt_watch_fill(b->watch, &record);
    assert_int_equal(record.layer_count, LAYERS);
    assert_int_equal(record.experts, EXPERTS);
    for (int l = 0; l < LAYERS; l++) {
        const struct mt_layer_record *layer = &record.layers[l];
        gather(micro, count, l, &plain);
        assert_int_equal(layer->layer, layer_numbers[l]);
        for (int j = 0; j < EXPERTS; j++) assert_true(layer->load[j] == plain.load[j]);
        near(layer->max_violation, violation(plain.load));
        near(layer->load_entropy, entropy(plain.load));
        near(layer->max_violation_running, violation(running[l]));
        near(layer->variance_expert_topk, over_tokens(&plain, false));
        near(layer->variance_expert_full, over_tokens(&plain, true));
        near(layer->variance_token, within_tokens(&plain));
        near(layer->effective_experts, effective(micro, count, l, false));
        near(layer->effective_scores, effective(micro, count, l, true));
        near(layer->experts_90, serving(plain.load) / EXPERTS);
        assert_true(layer->effective_experts >= 1.0 && layer->effective_experts <= SLOTS);
        mean[3] += 1.0 / layer->effective_experts / LAYERS;
        mean[4] += 1.0 / layer->effective_scores / LAYERS;
        mean[5] += layer->experts_90 / LAYERS;
        mean[0] += layer->max_violation / LAYERS;
        mean[1] += layer->max_violation_running / LAYERS;
        mean[2] += layer->load_entropy / LAYERS;
        for (int term = 0; term < MT_TERM_COUNT; term++) {
            assert_true(isnan(layer->loss[term]) && isnan(layer->weight[term]) &&
                        isnan(layer->gradient[term]) && isnan(record.term[term]) &&
                        isnan(record.weighted[term]));
        }
    }
    near(record.max_violation, mean[0]);
    near(record.max_violation_running, mean[1]);
    near(record.load_entropy, mean[2]);
    near(record.effective_experts, 1.0 / mean[3]);
    near(record.effective_scores, 1.0 / mean[4]);
    near(record.experts_90, mean[5]);
    assert_int_equal(record.slots, SLOTS);
    assert_true(isnan(record.jaccard_90) && isnan(record.together_90));        // one source
    assert_true(isnan(record.agreement) && isnan(record.layers[0].agreement)); // no choices were given
}

static void add_running(const struct micro_batch *micro, size_t count, double running[LAYERS][EXPERTS])
{
    static struct plain plain;
    for (int l = 0; l < LAYERS; l++) {
        gather(micro, count, l, &plain);
        for (int j = 0; j < EXPERTS; j++) running[l][j] += plain.load[j];
    }
}

static void unequal_micro_batches(void **state)
{
    (void)state;
    static const char *const devices[] = {"ref", "cpu"};
    static const enum routing_kind kinds[] = {DRAWN, ONE_EXPERT};
    static struct micro_batch micro[MICRO_BATCHES];
    for (size_t d = 0; d < 2; d++) {
        struct bench b;
        double running[LAYERS][EXPERTS] = {{0.0}};
        set_up(&b, devices[d]);
        mt_context_forbid_allocation(&b.ctx, "a step");
        for (uint64_t s = 0; s < 4; s++) {
            for (size_t m = 0; m < MICRO_BATCHES; m++) {
                draw(&micro[m], sizes[m], 100 * s + m, kinds[s % 2], (s + m) % 2 == 0);
            }
            step(&b, micro, MICRO_BATCHES, true);
            add_running(micro, MICRO_BATCHES, running);
            compare(&b, micro, MICRO_BATCHES, running);
        }
        mt_context_forbid_allocation(&b.ctx, NULL);
        tear_down(&b);
    }
}

static void one_expert_takes_everything(void **state)
{
    (void)state;
    static struct micro_batch micro[1];
    struct bench b;
    struct mt_step_record record = {.step = 1};
    set_up(&b, "cpu");
    draw(micro, 20, 7, ONE_EXPERT, true);
    step(&b, micro, 1, false);
    mt_watch_fill(b.watch, &record);
    assert_true(record.max_violation == EXPERTS - 1.0);
    assert_true(record.load_entropy == 0.0);
    assert_true(record.layers[0].load[3] == 16.0); // of 20 tokens 4 are masked
    // Not looked at: not known.
    assert_true(isnan(record.layers[0].variance_expert_topk));
    assert_true(isnan(record.layers[0].variance_token));
    assert_true(isnan(record.effective_experts) && isnan(record.effective_scores) &&
                isnan(record.experts_90));
    tear_down(&b);
}

static void nothing_to_count(void **state)
{
    (void)state;
    static struct micro_batch micro[2];
    struct bench b;
    struct mt_step_record record = {.step = 1};
    set_up(&b, "cpu");
    draw(&micro[0], 9, 1, ALL_MASKED, true);
    step(&b, micro, 1, true);
    mt_watch_fill(b.watch, &record);
    assert_true(record.max_violation == 0.0 && record.load_entropy == 0.0);
    assert_true(isnan(record.layers[1].variance_expert_full));
    // Beside others it changes nothing.
    double running[LAYERS][EXPERTS] = {{0.0}};
    draw(&micro[1], 30, 2, DRAWN, true);
    step(&b, micro, 2, true);
    add_running(&micro[1], 1, running);
    compare(&b, &micro[1], 1, running);
    tear_down(&b);
}

/* Given slots that agree, over given slots: of all micro-batches, masked tokens and idle passes left out. */
static void agreement_of_given_choices(void **state)
{
    (void)state;
    static struct micro_batch micro[3];
    static float agreed[2][LAYERS][MOST * 2];
    struct bench b;
    struct mt_step_record record = {.step = 1};
    double sums[LAYERS][2] = {{0.0}};
    set_up(&b, "cpu");
    for (size_t m = 0; m < 3; m++) draw(&micro[m], sizes[m], m, DRAWN, m == 0);
    for (size_t m = 0; m < 2; m++) { // the third brings none
        for (int l = 0; l < LAYERS; l++) {
            for (int64_t i = 0; i < micro[m].tokens; i++) {
                agreed[m][l][2 * i] = (float)((i + l) % (SLOTS + 1));
                agreed[m][l][2 * i + 1] = SLOTS;
                if (micro[m].masked && micro[m].mask[i] == 0) continue;
                sums[l][0] += (double)agreed[m][l][2 * i];
                sums[l][1] += SLOTS;
            }
            micro[m].record[l].agreed = mt_tensor_2d(agreed[m][l], MT_F32, micro[m].tokens, 2);
        }
    }
    step(&b, micro, 3, true);
    mt_watch_fill(b.watch, &record);
    for (int l = 0; l < LAYERS; l++) near(record.layers[l].agreement, sums[l][0] / sums[l][1]);
    near(record.agreement, (sums[0][0] / sums[0][1] + sums[1][0] / sums[1][1]) / LAYERS);
    tear_down(&b);
}

/* Loads of sources, told apart over micro-batches; tokens of an idle pass are from nowhere. */
static void sources_are_told_apart(void **state)
{
    (void)state;
    enum { SOURCES = 3 };
    static struct micro_batch micro[3];
    static int32_t source[2][MOST];
    struct bench b;
    struct mt_watch_options options = plain_options;
    struct mt_step_record record = {.step = 1};
    double load[LAYERS][SOURCES * EXPERTS] = {{0.0}};
    double jaccard = 0.0;
    double together = 0.0;
    bool member[SOURCES * EXPERTS];
    set_up(&b, "cpu");
    mt_watch_destroy(b.watch);
    options.sources = SOURCES;
    assert_int_equal(mt_watch_create(b.device, &options, &b.watch), MT_OK);
    mt_watch_begin(b.watch);
    for (size_t m = 0; m < 3; m++) {
        draw(&micro[m], sizes[m], m, m < 2 ? DRAWN : ALL_MASKED, m != 1);
        for (int64_t i = 0; m < 2 && i < micro[m].tokens; i++) {
            source[m][i] = (int32_t)((i / 3 + (int64_t)m) % SOURCES);
            for (int s = 0; s < LAYERS * SLOTS; s++) {
                int32_t expert = micro[m].layer[s / SLOTS].expert[i * SLOTS + s % SLOTS];
                bool counts = expert >= 0 && (!micro[m].masked || micro[m].mask[i] != 0);
                if (counts) load[s / SLOTS][source[m][i] * EXPERTS + expert] += 1.0;
            }
        }
        const struct mt_watch_look look = {.variances = true, .source = m < 2 ? source[m] : NULL};
        assert_int_equal(mt_watch_records(b.watch, micro[m].records, NULL, &look), MT_OK);
    }
    mt_watch_end(b.watch);
    mt_watch_fill(b.watch, &record);
    for (int l = 0; l < LAYERS; l++) {
        struct mt_serving wanted = mt_serving(load[l], SOURCES, EXPERTS, member);
        near(record.layers[l].jaccard_90, wanted.jaccard);
        near(record.layers[l].together_90, wanted.together);
        jaccard += wanted.jaccard / LAYERS;
        together += wanted.together / LAYERS;
    }
    near(record.jaccard_90, jaccard);
    near(record.together_90, together);
    tear_down(&b);
}

/* A watch whose running loads were put back goes on as the one they were taken from. */
static void running_loads_survive(void **state)
{
    (void)state;
    static struct micro_batch micro[2];
    struct bench whole;
    struct bench resumed;
    size_t count = 0;
    size_t count_again = 0;
    set_up(&whole, "cpu");
    set_up(&resumed, "cpu");
    draw(&micro[0], 33, 1, DRAWN, false);
    draw(&micro[1], 21, 2, ONE_EXPERT, false);
    step(&whole, &micro[0], 1, false);
    const double *saved = mt_watch_running(whole.watch, &count);
    double *target = mt_watch_running(resumed.watch, &count_again);
    assert_int_equal(count, LAYERS * EXPERTS);
    assert_int_equal(count_again, count);
    memcpy(target, saved, count * sizeof *saved);
    step(&whole, &micro[1], 1, false);
    step(&resumed, &micro[1], 1, false);
    struct mt_step_record a = {.step = 2};
    struct mt_step_record c = {.step = 2};
    mt_watch_fill(whole.watch, &a);
    mt_watch_fill(resumed.watch, &c);
    assert_true(a.max_violation_running == c.max_violation_running);
    assert_true(a.max_violation_running < a.max_violation);
    tear_down(&whole);
    tear_down(&resumed);
}

static void refuses_other_records(void **state)
{
    (void)state;
    static struct micro_batch micro;
    struct bench b;
    const struct mt_watch_look look = {0};
    set_up(&b, "cpu");
    draw(&micro, 10, 1, DRAWN, false);
    micro.record[1].experts = EXPERTS + 1;
    assert_int_equal(mt_watch_records(b.watch, micro.records, NULL, &look), MT_ERR_SHAPE);
    assert_non_null(strstr(b.ctx.message, "layer 4"));
    micro.records[0] = NULL;
    assert_int_equal(mt_watch_records(b.watch, micro.records, NULL, &look), MT_ERR_USAGE);
    struct mt_watch_options options = plain_options;
    options.slots = EXPERTS + 1;
    struct mt_watch *watch = NULL;
    assert_int_equal(mt_watch_create(b.device, &options, &watch), MT_ERR_USAGE);
    assert_null(watch);
    tear_down(&b);
}

// ------------------------------------------------------------------ with an objective

struct expected_term {
    double loss, weight, weighted, norm, squares;
};

/* The objective's own reports, added up by hand. */
struct term_bench {
    struct mt_context ctx;
    struct objective_run run;
    struct mt_watch *watch;
    struct expected_term expected[RUN_LAYERS][MT_TERM_COUNT];
    double load[RUN_LAYERS][RUN_EXPERTS];
    double shares;
};

static void term_bench_open(struct term_bench *b)
{
    static const int64_t numbers[RUN_LAYERS] = {0, 1, 2};
    struct objective_run *run = &b->run;
    memset(b, 0, sizeof *b);
    mt_context_init(&b->ctx, NULL);
    run->measure = true;
    run->router = (struct mt_router_config){.kind = MT_ROUTER_SOFTMAX, .slots = RUN_SLOTS};
    assert_int_equal(mt_device_create(&b->ctx, "cpu", 2, &run->device), MT_OK);
    assert_int_equal(mt_objective_config_method(&b->ctx, "paper", &run->config), MT_OK);
    assert_int_equal(mt_objective_config_set(&b->ctx, &run->config, "lambda_orth", "0.01"), MT_OK);
    struct mt_objective_shape shape = objective_run_shape(run);
    assert_int_equal(mt_objective_create(run->device, &run->config, &shape, &run->objective), MT_OK);
    const struct mt_watch_options options = {.layers = numbers,
                                             .layer_count = RUN_LAYERS,
                                             .experts = RUN_EXPERTS,
                                             .slots = RUN_SLOTS,
                                             .tokens = RUN_TOKENS,
                                             .objective = &run->config};
    assert_int_equal(mt_watch_create(run->device, &options, &b->watch), MT_OK);
}

static void term_bench_close(struct term_bench *b)
{
    mt_watch_destroy(b->watch);
    mt_objective_destroy(b->run.objective);
    mt_device_destroy(b->run.device);
    assert_int_equal(b->ctx.live_bytes, 0);
}

/* Forward and backward of a micro-batch; its number of unmasked tokens. */
static double run_objective(struct term_bench *b, uint64_t number)
{
    double total = 0.0;
    double unmasked = 0.0;
    objective_run_draw(&b->run, number + 1);
    for (int i = 0; i < RUN_TOKENS; i++) {
        b->run.mask[i] = number == 0 ? i < 20 : i % 7 != 3;
        unmasked += b->run.mask[i];
    }
    mt_routing_ortho_mask(b->run.mask, b->run.segment, RUN_TOKENS, b->run.ortho_mask);
    assert_int_equal(objective_run_forward(&b->run, &total), MT_OK);
    assert_int_equal(objective_run_backward(&b->run), MT_OK);
    return unmasked;
}

static void expect_terms(struct term_bench *b, double share)
{
    b->shares += share;
    for (int l = 0; l < RUN_LAYERS; l++) {
        const struct mt_layer_report *report = mt_objective_layer(b->run.objective, l);
        for (int j = 0; j < RUN_EXPERTS; j++) b->load[l][j] += report->load[j];
        for (int term = 0; term < MT_TERM_COUNT; term++) {
            struct expected_term *e = &b->expected[l][term];
            double norm = share * report->gradient[term];
            e->loss += share * report->loss[term];
            e->weight += share * report->weight[term];
            e->weighted += share * report->weight[term] * report->loss[term];
            e->norm += norm;
            e->squares += norm * norm;
        }
    }
}

static void compare_term(const struct term_bench *b, const struct mt_step_record *result, int term)
{
    bool on = term == MT_TERM_AUX || term == MT_TERM_O || term == MT_TERM_V || term == MT_TERM_ROUTER_ORTH;
    double mean = 0.0;
    double weighted = 0.0;
    assert_int_equal(isnan(result->term[term]), !on);
    for (int l = 0; l < RUN_LAYERS; l++) {
        const struct expected_term *e = &b->expected[l][term];
        const struct mt_layer_record *layer = &result->layers[l];
        assert_int_equal(isnan(layer->loss[term]), !on);
        if (!on) continue;
        // In the router's weight gradients add up; elsewhere they lie side by side.
        double norm = term == MT_TERM_ROUTER_ORTH ? e->norm : sqrt(e->squares);
        near(layer->loss[term], e->loss / b->shares);
        near(layer->weight[term], e->weight / b->shares);
        near(layer->gradient[term], norm / b->shares);
        assert_true(layer->gradient[term] > 0.0);
        mean += e->loss / b->shares / RUN_LAYERS;
        weighted += e->weighted / b->shares;
    }
    if (!on) return;
    near(result->term[term], mean);
    near(result->weighted[term], weighted);
}

/* Two micro-batches through the objective; share 0: by their tokens. */
static void check_terms(double first_share, double second_share)
{
    static struct term_bench b;
    const double share[2] = {first_share, second_share};
    term_bench_open(&b);
    mt_watch_begin(b.watch);
    for (uint64_t m = 0; m < 2; m++) {
        struct mt_routing record[RUN_LAYERS];
        const struct mt_routing *records[RUN_LAYERS];
        const struct mt_watch_look look = {.variances = true, .share = share[m]};
        double unmasked = run_objective(&b, m);
        expect_terms(&b, share[m] > 0.0 ? share[m] : unmasked);
        for (int l = 0; l < RUN_LAYERS; l++) {
            record[l] = objective_run_record(&b.run, l);
            records[l] = &record[l];
        }
        mt_context_forbid_allocation(&b.ctx, "a step");
        assert_int_equal(mt_watch_records(b.watch, records, b.run.objective, &look), MT_OK);
        mt_context_forbid_allocation(&b.ctx, NULL);
    }
    mt_watch_end(b.watch);
    struct mt_step_record result = {.step = 1};
    mt_watch_fill(b.watch, &result);
    for (int term = 0; term < MT_TERM_COUNT; term++) compare_term(&b, &result, term);
    for (int l = 0; l < RUN_LAYERS; l++) {
        for (int j = 0; j < RUN_EXPERTS; j++) assert_true(result.layers[l].load[j] == b.load[l][j]);
        assert_true(result.layers[l].variance_token > 0.0);
    }
    term_bench_close(&b);
}

static void terms_by_tokens_and_by_shares(void **state)
{
    (void)state;
    check_terms(0.0, 0.0);
    check_terms(0.25, 0.75);
}

// ------------------------------------------------------------------ on a model

/* One step of two micro-batches, with and without an objective; the loads must be those of the records. */
static void watch_model(const struct workplace *place, const struct mt_objective_config *config,
                        enum mt_recompute recompute, double loads[2][MODEL_RUN_TOKENS])
{
    static const char *const everything[] = {"*", NULL};
    struct mt_model_options options = {
        .backward = true, .recompute = recompute, .objective = config, .selection = {.full = everything}};
    struct model_run run;
    struct mt_watch *watch = NULL;
    struct model_batch batch;
    const struct mt_watch_look look = {.variances = true};
    assert_int_equal(model_run_open(&run, place, "cpu", 2, &options), 0);
    const struct mt_model_desc *desc = mt_model_description(run.model);
    assert_int_equal(mt_watch_create_for_model(run.device, run.model, MODEL_RUN_TOKENS, 1, config, &watch),
                     MT_OK);
    mt_watch_begin(watch);
    for (uint64_t m = 0; m < 2; m++) {
        double loss = 0.0;
        model_batch_fill(&batch, m == 0 ? (const int[]){9, 6, 0} : (const int[]){5, 0}, desc->vocabulary, m);
        batch.batch.measure = true;
        assert_int_equal(model_run_step(&run, &batch.batch, &loss), 0);
        mt_context_forbid_allocation(&run.ctx, "a step");
        if (mt_watch_model(watch, run.model, &look) != MT_OK) fail_msg("%s", run.ctx.message);
        mt_context_forbid_allocation(&run.ctx, NULL);
    }
    mt_watch_end(watch);
    struct mt_step_record record = {.step = 1};
    mt_watch_fill(watch, &record);
    assert_int_equal(record.layer_count, 2); // the first of three is dense
    for (int l = 0; l < 2; l++) {
        double total = 0.0;
        assert_int_equal(record.layers[l].layer, l + 1);
        for (int j = 0; j < record.experts; j++) {
            loads[l][j] = record.layers[l].load[j];
            total += loads[l][j];
        }
        assert_true(total == 20.0 * desc->router.slots);
        assert_true(record.layers[l].variance_expert_topk > 0.0 && record.layers[l].variance_token > 0.0);
        assert_int_equal(isnan(record.layers[l].gradient[MT_TERM_O]), config == NULL);
    }
    assert_int_equal(isnan(record.term[MT_TERM_O]), config == NULL);
    mt_watch_destroy(watch);
    model_run_close(&run);
}

static void a_model_with_a_dense_layer(void **state)
{
    struct mt_context ctx;
    struct mt_objective_config config;
    double loads[3][2][MODEL_RUN_TOKENS] = {{{0.0}}};
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_objective_config_method(&ctx, "paper", &config), MT_OK);
    assert_int_equal(small_model_make(*state, small_model_config(&mt_arch_deepseek), MT_HF_FLOAT32, 11), 0);
    watch_model(*state, &config, MT_RECOMPUTE_NONE, loads[0]);
    watch_model(*state, &config, MT_RECOMPUTE_FULL, loads[1]);
    watch_model(*state, NULL, MT_RECOMPUTE_MOE, loads[2]); // counted from the records
    assert_memory_equal(loads[0], loads[1], sizeof loads[0]);
    assert_memory_equal(loads[0], loads[2], sizeof loads[0]);
}

static enum mt_status create_and_look(struct mt_context *ctx, const void *self)
{
    static struct micro_batch micro;
    struct mt_device *device = NULL;
    struct mt_watch *watch = NULL;
    const struct mt_watch_look look = {.variances = true};
    draw(&micro, 12, 3, DRAWN, true);
    enum mt_status status = mt_device_create(ctx, "cpu", 2, &device);
    if (status == MT_OK) status = mt_watch_create(device, self, &watch);
    if (status == MT_OK) status = mt_watch_records(watch, micro.records, NULL, &look);
    mt_watch_destroy(watch);
    mt_device_destroy(device);
    return status;
}

static void failing_allocations(void **state)
{
    (void)state;
    assert_every_allocation_may_fail(create_and_look, &plain_options, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unequal_micro_batches),
        cmocka_unit_test(one_expert_takes_everything),
        cmocka_unit_test(nothing_to_count),
        cmocka_unit_test(agreement_of_given_choices),
        cmocka_unit_test(sources_are_told_apart),
        cmocka_unit_test(running_loads_survive),
        cmocka_unit_test(refuses_other_records),
        cmocka_unit_test(terms_by_tokens_and_by_shares),
        cmocka_unit_test_setup_teardown(a_model_with_a_dense_layer, workplace_open, workplace_close),
        cmocka_unit_test(failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
