/*
 * metier/layers.h against mt_objective_evaluate: the same values and gradients, of every method, on the cpu
 * and on a device whose memory the host cannot read. Somebody else's choice and weights give the same as our
 * own, all layers at once the same as one stage after the other, and a step goes on where another one's state
 * is written into it. Tests src/objective/layers.c.
 */
#include <stdlib.h>
#include <string.h>

#include "metier/buffer.h"
#include "metier/layers.h"
#include "support/alone.h"
#include "support/cmocka_all.h"

#define TOKENS    37 // N
#define EXPERTS   8  // n
#define SLOTS     3  // k
#define WIDTH     12 // d
#define SEGMENTS  3
#define PAIRS     (TOKENS * SLOTS)
#define MOST      32 // arrays
#define TOLERANCE 2e-6

struct numbers {
    float logits[TOKENS * EXPERTS], outputs[PAIRS * WIDTH], router_weight[EXPERTS * WIDTH],
        zeros[TOKENS * WIDTH];
    int32_t mask[TOKENS], ortho_mask[TOKENS], segment[TOKENS], row_of_slot[PAIRS];
};

/* One device, one objective on it, and the arrays that were made there. */
struct bench {
    struct mt_context ctx;
    struct mt_device *device;
    struct mt_layers *layers;
    struct mt_layer_arrays arrays;
    struct mt_buffer buffer[MOST];
    int buffers;
};

static void expect_ok(const struct bench *bench, enum mt_status status)
{
    if (status != MT_OK) fail_msg("%s", bench->ctx.message);
}

static float next_number(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) * 0x1p-23f - 1.0f;
}

static void fill(struct numbers *n)
{
    uint32_t state = 7;
    memset(n, 0, sizeof *n);
    for (int i = 0; i < TOKENS * EXPERTS; i++) n->logits[i] = 2.0f * next_number(&state);
    for (int i = 0; i < PAIRS * WIDTH; i++) n->outputs[i] = next_number(&state);
    for (int i = 0; i < EXPERTS * WIDTH; i++) n->router_weight[i] = next_number(&state);
    for (int i = 0; i < TOKENS; i++) {
        n->mask[i] = i < TOKENS - 4;
        n->segment[i] = i * SEGMENTS / TOKENS;
    }
    for (int i = 0; i < PAIRS; i++) n->row_of_slot[i] = i;
    mt_routing_ortho_mask(n->mask, n->segment, TOKENS, n->ortho_mask);
}

/* An array on the device; NULL: undefined content. */
static void *array(struct bench *bench, const void *content, size_t bytes)
{
    struct mt_buffer *buffer = &bench->buffer[bench->buffers++];
    assert_true(bench->buffers <= MOST);
    expect_ok(bench, mt_device_buffer_create(bench->device, bytes, buffer));
    if (content != NULL) expect_ok(bench, mt_device_upload(bench->device, buffer->data, content, bytes));
    return buffer->data;
}

#define FLOATS(count) array(bench, NULL, sizeof(float) * (size_t)(count))
#define INTS(count)   array(bench, NULL, sizeof(int32_t) * (size_t)(count))

static void open_bench(struct bench *bench, const char *device, const char *method,
                       enum mt_layers_given given, const struct numbers *n)
{
    memset(bench, 0, sizeof *bench);
    mt_context_init(&bench->ctx, NULL);
    expect_ok(bench, mt_device_create(&bench->ctx, device, 1, &bench->device));
    struct mt_layers_options options = {.method = method, .given = given};
    options.shape = (struct mt_objective_shape){.layers = 1,
                                                .tokens = TOKENS,
                                                .experts = EXPERTS,
                                                .slots = SLOTS,
                                                .segments = SEGMENTS,
                                                .width = WIDTH,
                                                .router = {.slots = SLOTS, .normalise = true}};
    expect_ok(bench, mt_layers_create(bench->device, &options, &bench->layers));
    struct mt_layer_arrays *a = &bench->arrays;
    *a = (struct mt_layer_arrays){
        .tokens = TOKENS, .segments = SEGMENTS, .unmasked = TOKENS - 4, .dtype = MT_F32};
    a->logits = array(bench, n->logits, sizeof n->logits);
    a->mask = array(bench, n->mask, sizeof n->mask);
    a->ortho_mask = array(bench, n->ortho_mask, sizeof n->ortho_mask);
    a->segment = array(bench, n->segment, sizeof n->segment);
    a->router_weight = array(bench, n->router_weight, sizeof n->router_weight);
    a->outputs = array(bench, n->outputs, sizeof n->outputs);
    a->row_of_slot = array(bench, n->row_of_slot, sizeof n->row_of_slot);
    a->dy = array(bench, n->zeros, sizeof n->zeros);
    a->probs = FLOATS(TOKENS * EXPERTS);
    a->greedy = INTS(PAIRS);
    a->chosen = INTS(PAIRS);
    a->expert = INTS(PAIRS);
    a->weight = FLOATS(PAIRS);
    a->offsets = INTS(EXPERTS + 1);
    a->sorted_row = INTS(PAIRS);
    a->slot_of_row = INTS(PAIRS);
    a->y = FLOATS(TOKENS * WIDTH);
    a->gram = FLOATS(PAIRS * SLOTS);
    a->coupling = FLOATS(PAIRS * SLOTS);
    a->doutputs = FLOATS(PAIRS * WIDTH);
    a->doutputs_terms = FLOATS(PAIRS * WIDTH);
    a->dweight = FLOATS(PAIRS);
    a->dweight_terms = FLOATS(PAIRS);
    a->dprobs = FLOATS(TOKENS * EXPERTS);
    a->dlogits = FLOATS(TOKENS * EXPERTS);
    a->drouter_weight = FLOATS(EXPERTS * WIDTH);
}

static void close_bench(struct bench *bench)
{
    mt_layers_destroy(bench->layers);
    for (int i = 0; i < bench->buffers; i++) mt_buffer_release(&bench->buffer[i]);
    mt_device_destroy(bench->device);
    assert_int_equal(bench->ctx.live_bytes, 0);
}

static const struct mt_objective_step once = {.progress = 1.0, .loss_scale = 1.0};

/* Dropped slots have no row, which the caller would see to. */
static void route(struct bench *bench)
{
    int32_t expert[PAIRS];
    int32_t row[PAIRS];
    expect_ok(bench, mt_layers_route(bench->layers, 0, &bench->arrays));
    expect_ok(bench, mt_device_download(bench->device, expert, bench->arrays.expert, sizeof expert));
    for (int i = 0; i < PAIRS; i++) row[i] = expert[i] < 0 ? -1 : i;
    expect_ok(bench, mt_device_upload(bench->device, (void *)bench->arrays.row_of_slot, row, sizeof row));
}

/* A whole step; returns the total. */
static double step(struct bench *bench)
{
    double total = 0.0;
    route(bench);
    expect_ok(bench, mt_layers_forward(bench->layers, 0, &bench->arrays, true));
    expect_ok(bench, mt_objective_finish(mt_layers_objective(bench->layers), &once, &total));
    expect_ok(bench, mt_layers_coupling(bench->layers, 0, &bench->arrays));
    expect_ok(bench, mt_layers_backward(bench->layers, 0, &bench->arrays));
    return total;
}

static void expect_near(const struct bench *bench, const char *method, const char *what, const float *wanted,
                        const void *found, int count)
{
    float *got = malloc(sizeof(float) * (size_t)count);
    double squares = 0.0;
    assert_non_null(got);
    expect_ok(bench, mt_device_download(bench->device, got, found, sizeof(float) * (size_t)count));
    for (int i = 0; i < count; i++) squares += (double)wanted[i] * (double)wanted[i];
    double limit = TOLERANCE * (1.0 + squares);
    for (int i = 0; i < count; i++) {
        double error = (double)got[i] - (double)wanted[i];
        if (!(error < limit && error > -limit))
            fail_msg("%s: %s[%d] is %g, expected %g", method, what, i, (double)got[i], (double)wanted[i]);
    }
    free(got);
}

struct wanted {
    double total;
    float dlogits[TOKENS * EXPERTS], doutputs[PAIRS * WIDTH], drouter_weight[EXPERTS * WIDTH];
};

static void evaluate(const struct numbers *n, const char *method, struct wanted *wanted)
{
    struct mt_context ctx;
    struct mt_device *device = NULL;
    struct mt_objective_config config;
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_device_create(&ctx, "cpu", 1, &device), MT_OK);
    assert_int_equal(mt_objective_config_method(&ctx, method, &config), MT_OK);
    const struct mt_router_config router = {.slots = SLOTS, .normalise = true};
    const struct mt_objective_arrays arrays = {.tokens = TOKENS,
                                               .experts = EXPERTS,
                                               .width = WIDTH,
                                               .logits = n->logits,
                                               .expert_outputs = n->outputs,
                                               .mask = n->mask,
                                               .sequence = n->segment,
                                               .router_weight = n->router_weight};
    struct mt_objective_results results = {.dlogits = wanted->dlogits,
                                           .dexpert_outputs = wanted->doutputs,
                                           .drouter_weight = wanted->drouter_weight};
    if (mt_objective_evaluate(device, &config, &router, &arrays, &results, NULL, 0) != MT_OK)
        fail_msg("%s: %s", method, ctx.message);
    wanted->total = results.total;
    mt_device_destroy(device);
}

static void compare(const struct bench *bench, const char *method, const struct wanted *wanted, double total)
{
    const struct mt_layer_arrays *a = &bench->arrays;
    int needs = mt_objective_needs(mt_layers_config(bench->layers));
    assert_true(total - wanted->total < 1e-12 && wanted->total - total < 1e-12);
    expect_near(bench, method, "dlogits", wanted->dlogits, a->dlogits, TOKENS * EXPERTS);
    expect_near(bench, method, "drouter_weight", wanted->drouter_weight, a->drouter_weight, EXPERTS * WIDTH);
    const void *rows = (needs & MT_NEEDS_ROWS) != 0 ? a->doutputs_terms : a->doutputs;
    bool drops = mt_selection_drops(mt_layers_config(bench->layers)); // rows of no slot are untouched
    if (!drops) expect_near(bench, method, "doutputs", wanted->doutputs, rows, PAIRS * WIDTH);
}

static void test_every_method(void **state)
{
    (void)state;
    static struct numbers n;
    static struct wanted wanted;
    fill(&n);
    for (int i = 0; mt_method_listed(i) != NULL; i++) {
        const char *method = mt_method_listed(i)->name;
        if (!is_alone(&mt_method_listed(i)->config)) continue;
        static const char *const devices[] = {"cpu", "fenced"};
        if (mt_method_listed(i)->config.dense_router) continue; // needs the outputs of all experts
        if (mt_method_listed(i)->config.pool) continue;         // refused, see below
        evaluate(&n, method, &wanted);
        for (size_t d = 0; d < sizeof devices / sizeof devices[0]; d++) {
            struct bench bench;
            open_bench(&bench, devices[d], method, MT_GIVEN_LOGITS, &n);
            double total = step(&bench);
            compare(&bench, method, &wanted, total);
            // The same choice, made elsewhere.
            struct bench given;
            int32_t chosen[PAIRS];
            open_bench(&given, devices[d], method, MT_GIVEN_CHOICE, &n);
            expect_ok(&bench, mt_device_download(bench.device, chosen, bench.arrays.chosen, sizeof chosen));
            expect_ok(&given, mt_device_upload(given.device, given.arrays.chosen, chosen, sizeof chosen));
            total = step(&given);
            compare(&given, method, &wanted, total);
            close_bench(&given);
            close_bench(&bench);
        }
    }
}

/* Multiplies what is wanted with a factor. */
static void scale(struct wanted *wanted, float factor)
{
    for (int i = 0; i < TOKENS * EXPERTS; i++) wanted->dlogits[i] *= factor;
    for (int i = 0; i < PAIRS * WIDTH; i++) wanted->doutputs[i] *= factor;
    for (int i = 0; i < EXPERTS * WIDTH; i++) wanted->drouter_weight[i] *= factor;
}

/* mt_layers_step and mt_layers_chain. What is chained becomes the arrays of the bench. */
static double step_and_chain(struct bench *bench, const float *factor)
{
    struct mt_layer_arrays *a = &bench->arrays;
    struct mt_layer_chain chain = {.doutputs = a->doutputs};
    chain.factor = array(bench, factor, sizeof *factor);
    chain.dlogits = FLOATS(TOKENS * EXPERTS);
    chain.drouter_weight = FLOATS(EXPERTS * WIDTH);
    int needs = mt_objective_needs(mt_layers_config(bench->layers));
    float *total = FLOATS(1);
    float found = 0.0f;
    bool waited = false;
    a->dy = NULL;
    a->doutputs = NULL;
    a->dweight = NULL;
    if ((needs & MT_NEEDS_ROWS) == 0) a->doutputs_terms = NULL;
    route(bench);
    const struct mt_layer_arrays *const layers[] = {a};
    expect_ok(bench, mt_layers_step(bench->layers, layers, &once, total, &waited));
    expect_ok(bench, mt_device_download(bench->device, &found, total, sizeof found));
    for (int twice = 0; twice < 2; twice++) // it leaves the arrays as they are
        expect_ok(bench, mt_layers_chain(bench->layers, a, &chain));
    a->dlogits = chain.dlogits;
    a->doutputs = a->doutputs_terms = chain.doutputs;
    a->drouter_weight = chain.drouter_weight;
    return (double)found;
}

/* The framework's router has chosen already: no layer can be told to choose from a pool. */
static void test_no_pools(void **state)
{
    (void)state;
    struct bench bench = {0};
    mt_context_init(&bench.ctx, NULL);
    expect_ok(&bench, mt_device_create(&bench.ctx, "cpu", 1, &bench.device));
    struct mt_layers_options options = {.method = "pool", .given = MT_GIVEN_CHOICE};
    options.shape = (struct mt_objective_shape){.layers = 1,
                                                .tokens = TOKENS,
                                                .experts = EXPERTS,
                                                .slots = SLOTS,
                                                .segments = SEGMENTS,
                                                .width = WIDTH};
    options.shape.router.slots = SLOTS;
    assert_int_equal(mt_layers_create(bench.device, &options, &bench.layers), MT_ERR_UNSUPPORTED);
    assert_non_null(strstr(bench.ctx.message, "the experts a router may choose from"));
    mt_device_destroy(bench.device);
    assert_int_equal(bench.ctx.live_bytes, 0);
}

static void test_all_at_once(void **state)
{
    (void)state;
    static struct numbers n;
    static struct wanted wanted;
    const float factor = -2.0f;
    fill(&n);
    for (int i = 0; mt_method_listed(i) != NULL; i++) {
        const char *method = mt_method_listed(i)->name;
        static const char *const devices[] = {"cpu", "fenced"};
        const struct mt_objective_config *config = &mt_method_listed(i)->config;
        if (!is_alone(config) || config->dense_router || config->pool) continue;
        evaluate(&n, method, &wanted);
        scale(&wanted, factor);
        for (size_t d = 0; d < sizeof devices / sizeof devices[0]; d++) {
            struct bench bench;
            open_bench(&bench, devices[d], method, MT_GIVEN_LOGITS, &n);
            double total = step_and_chain(&bench, &factor);
            assert_true(total == (double)(float)wanted.total);
            compare(&bench, method, &wanted, wanted.total);
            close_bench(&bench);
        }
    }
}

/* With weights given, what the terms say of them comes back, and is no part of dlogits. */
static void test_given_weights(void **state)
{
    (void)state;
    static struct numbers n;
    struct bench own;
    struct bench given;
    int32_t chosen[PAIRS];
    float weight[PAIRS];
    float said[PAIRS];
    fill(&n);
    open_bench(&own, "cpu", "paper", MT_GIVEN_LOGITS, &n);
    open_bench(&given, "cpu", "paper", MT_GIVEN_WEIGHTS, &n);
    double total = step(&own);
    expect_ok(&own, mt_device_download(own.device, chosen, own.arrays.chosen, sizeof chosen));
    expect_ok(&own, mt_device_download(own.device, weight, own.arrays.weight, sizeof weight));
    expect_ok(&given, mt_device_upload(given.device, given.arrays.chosen, chosen, sizeof chosen));
    expect_ok(&given, mt_device_upload(given.device, given.arrays.weight, weight, sizeof weight));
    assert_true(step(&given) == total);
    expect_ok(&given, mt_device_download(given.device, said, given.arrays.dweight_terms, sizeof said));
    double size = 0.0;
    for (int i = 0; i < PAIRS; i++) size += (double)said[i] * (double)said[i];
    assert_true(size > 0.0);
    close_bench(&own);
    close_bench(&given);
}

static void test_refusals(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_device *device = NULL;
    struct mt_layers *layers = NULL;
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_device_create_on(&ctx, "cpu", &(struct mt_device_place){0}, &device),
                     MT_ERR_UNSUPPORTED);
    assert_string_equal(ctx.message, "device 'cpu' has no streams");
    assert_null(device);
    assert_int_equal(mt_device_create(&ctx, "cpu", 1, &device), MT_OK);
    assert_int_equal(mt_device_enter(device), MT_OK);
    const char *settings[] = {"bete", "1", NULL};
    struct mt_layers_options options = {.method = "paper", .settings = settings};
    options.shape = (struct mt_objective_shape){
        .layers = 1, .tokens = 4, .experts = 4, .slots = 2, .segments = 1, .router = {.slots = 2}};
    assert_int_equal(mt_layers_create(device, &options, &layers), MT_ERR_USAGE);
    assert_non_null(strstr(ctx.message, "beta"));
    settings[0] = "beta";
    settings[1] = NULL;
    assert_int_equal(mt_layers_create(device, &options, &layers), MT_ERR_USAGE);
    settings[1] = "0.5";
    assert_int_equal(mt_layers_create(device, &options, &layers), MT_OK);
    const struct mt_layer_arrays arrays = {.tokens = 5};
    assert_int_equal(mt_layers_route(layers, 0, &arrays), MT_ERR_SHAPE);
    const struct mt_layer_arrays halves = {.tokens = 4, .dtype = MT_F16};
    assert_int_equal(mt_layers_forward(layers, 0, &halves, true), MT_ERR_USAGE);
    mt_layers_destroy(layers);
    mt_device_destroy(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_method), cmocka_unit_test(test_no_pools),
        cmocka_unit_test(test_all_at_once),  cmocka_unit_test(test_given_weights),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
