/*
 * Losses, weights, gradients and routing against what PyTorch said in double precision: the golden files of
 * tests/objective/golden, made by tests/parity/objective_golden.py, which describes them.
 * Tests src/objective/terms.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/safetensors/safetensors.h"
#include "metier/objective.h"
#include "support/cmocka_all.h"

#define TOLERANCE 1e-5

static const char *const names[] = {
    "aux.softmax",
    "pool.softmax",
    "pool.sigmoid-bias-norm",
    "aux.softmax-norm",
    "aux.softmax-groups",
    "aux.sigmoid",
    "aux.sigmoid-bias-norm",
    "aux.sigmoid-groups",
    "aux.sparsemixer",
    "ortho.softmax",
    "ortho.sparsemixer",
    "variance.softmax",
    "variance.softmax-norm",
    "variance.softmax-groups",
    "variance.sigmoid",
    "variance.sigmoid-bias-norm",
    "variance.sigmoid-groups",
    "variance.sparsemixer",
    "zloss.softmax",
    "router_rows.softmax",
    "scale.softmax-norm",
    "scale.sigmoid-bias-norm",
    "drops.softmax-norm",
    "drops.sigmoid-groups",
    "method.softmax",
    "method.softmax-groups",
    "method.sigmoid-bias-norm",
    "method.sparsemixer",
};

#define NAME_COUNT (sizeof names / sizeof names[0])

struct golden {
    const char *name;
    struct mt_context ctx;
    struct mt_device *device;
    struct mt_safetensors file;
    struct mt_router_config router;
    struct mt_objective_arrays arrays;
    struct mt_objective_results results;
    int cases;
    int failures;
};

// ------------------------------------------------------------------ reading

static const char *metadata(const struct golden *g, const char *key)
{
    for (size_t i = 0; i < g->file.metadata_count; i++) {
        if (strcmp(g->file.metadata[i].key, key) == 0) return g->file.metadata[i].value;
    }
    return NULL;
}

/* An aligned copy of a tensor's data, NULL when there is no such tensor; the caller frees. */
static void *copy_of(const struct golden *g, const char *name, enum mt_safetensors_dtype dtype)
{
    const struct mt_safetensors_tensor *tensor = mt_safetensors_find(&g->file, name);
    if (tensor == NULL) return NULL;
    assert_int_equal(tensor->dtype, dtype);
    void *copy = malloc(tensor->bytes);
    assert_non_null(copy);
    memcpy(copy, tensor->data, tensor->bytes);
    return copy;
}

/* The value of "key=" in a line of key=value words. */
static const char *word_after(const char *text, const char *key)
{
    const char *found = strstr(text, key);
    assert_non_null(found);
    return found + strlen(key);
}

static void read_router(struct golden *g)
{
    const char *text = metadata(g, "router");
    assert_non_null(text);
    const char *kind = word_after(text, "kind=");
    const char *rule = word_after(text, "group_rule=");
    g->router = (struct mt_router_config){
        .kind = MT_ROUTER_SOFTMAX,
        .slots = (int)strtol(word_after(text, "slots="), NULL, 10),
        .normalise = strtol(word_after(text, "normalise="), NULL, 10) != 0,
        .scale = strtof(word_after(text, " scale="), NULL),
        .groups = (int)strtol(word_after(text, "groups="), NULL, 10),
        .groups_kept = (int)strtol(word_after(text, "groups_kept="), NULL, 10),
        .jitter = strtof(word_after(text, "jitter="), NULL),
    };
    if (strncmp(kind, "sigmoid", strlen("sigmoid")) == 0) g->router.kind = MT_ROUTER_SIGMOID;
    if (strncmp(kind, "sparsemixer", strlen("sparsemixer")) == 0) g->router.kind = MT_ROUTER_SPARSEMIXER;
    if (g->router.groups > 0) {
        bool by_best = strncmp(rule, "max", strlen("max")) == 0;
        g->router.group_rule = by_best ? MT_GROUP_MAX : MT_GROUP_TOP2_SUM;
    }
}

static void read_arrays(struct golden *g)
{
    const struct mt_safetensors_tensor *logits = mt_safetensors_find(&g->file, "logits");
    const struct mt_safetensors_tensor *outputs = mt_safetensors_find(&g->file, "expert_outputs");
    assert_non_null(logits);
    assert_non_null(outputs);
    assert_int_equal(outputs->dim[1], g->router.slots);
    g->arrays = (struct mt_objective_arrays){
        .tokens = logits->dim[0],
        .experts = (int)logits->dim[1],
        .width = outputs->dim[2],
        .logits = copy_of(g, "logits", MT_SAFETENSORS_F32),
        .expert_outputs = copy_of(g, "expert_outputs", MT_SAFETENSORS_F32),
        .mask = copy_of(g, "mask", MT_SAFETENSORS_I32),
        .sequence = copy_of(g, "sequence", MT_SAFETENSORS_I32),
        .router_weight = copy_of(g, "router_weight", MT_SAFETENSORS_F32),
        .router_bias = copy_of(g, "router_bias", MT_SAFETENSORS_F32),
    };
}

static void *zeros(size_t count, size_t size)
{
    void *block = calloc(count, size);
    assert_non_null(block);
    return block;
}

static void allocate_results(struct golden *g)
{
    size_t tokens = (size_t)g->arrays.tokens;
    size_t experts = (size_t)g->arrays.experts;
    size_t slots = (size_t)g->router.slots;
    size_t width = (size_t)g->arrays.width;
    g->results = (struct mt_objective_results){
        .load = zeros(experts, sizeof(double)),
        .dlogits = zeros(tokens * experts, sizeof(float)),
        .dexpert_outputs = zeros(tokens * slots * width, sizeof(float)),
        .drouter_weight = zeros(experts * width, sizeof(float)),
        .expert = zeros(tokens * slots, sizeof(int32_t)),
        .slot_weight = zeros(tokens * slots, sizeof(float)),
    };
}

static void golden_open(struct golden *g, const char *name, const char *device)
{
    char path[1024];
    const char *folder = getenv("METIER_GOLDEN_OBJECTIVE");
    *g = (struct golden){.name = name};
    assert_non_null(folder);
    (void)snprintf(path, sizeof path, "%s/%s.safetensors", folder, name);
    mt_context_init(&g->ctx, NULL);
    if (mt_safetensors_open(&g->ctx, path, &g->file) != MT_OK) fail_msg("%s", g->ctx.message);
    assert_int_equal(mt_device_create(&g->ctx, device, 2, &g->device), MT_OK);
    read_router(g);
    read_arrays(g);
    allocate_results(g);
}

static void golden_close(struct golden *g)
{
    const struct mt_objective_arrays *a = &g->arrays;
    const void *inputs[] = {a->logits,   a->expert_outputs, a->mask,
                            a->sequence, a->router_weight,  a->router_bias};
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) free((void *)inputs[i]);
    const struct mt_objective_results *r = &g->results;
    void *outputs[] = {r->load, r->dlogits, r->dexpert_outputs, r->drouter_weight, r->expert, r->slot_weight};
    for (size_t i = 0; i < sizeof outputs / sizeof outputs[0]; i++) free(outputs[i]);
    mt_device_destroy(g->device);
    mt_safetensors_close(&g->file);
    assert_int_equal(g->ctx.live_bytes, 0);
}

/* "method=NAME key=value ...": a configuration. */
static void read_config(struct golden *g, const char *text, struct mt_objective_config *config)
{
    char line[512];
    char *rest = NULL;
    assert_true(strlen(text) < sizeof line);
    (void)snprintf(line, sizeof line, "%s", text);
    enum mt_status status = MT_ERR_FORMAT;
    for (char *word = strtok_r(line, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(word, '=');
        assert_non_null(value);
        *value++ = '\0';
        status = strcmp(word, "method") == 0 ? mt_objective_config_method(&g->ctx, value, config)
                                             : mt_objective_config_set(&g->ctx, config, word, value);
        if (status != MT_OK) fail_msg("%s: %s: %s", g->name, text, g->ctx.message);
    }
}

// ------------------------------------------------------------------ comparing

static void complain(struct golden *g, const char *settings, const char *what, double error)
{
    print_error("%s on %s, %s: %s is off by %.1e\n", g->name, mt_device_name(g->device), settings, what,
                error);
    g->failures++;
}

/* `size` is what an error is relative to. */
static void compare_value(struct golden *g, const char *settings, const char *what, double got, double wanted,
                          double size)
{
    double error = fabs(got - wanted) / (size + 1e-30);
    if (got == wanted || error <= TOLERANCE) return;
    complain(g, settings, what, error);
}

static void compare_values(struct golden *g, int number, const char *settings)
{
    char name[64];
    (void)snprintf(name, sizeof name, "%d.values", number);
    double *wanted = copy_of(g, name, MT_SAFETENSORS_F64);
    assert_non_null(wanted);
    // A file may be older than the last terms, which are off then.
    int known = (int)(mt_safetensors_find(&g->file, name)->bytes / sizeof(double) - 1) / 2;
    assert_true(known > 0 && known <= MT_TERM_COUNT);
    double pushes = 0.0; // in the total they may cancel
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        double loss = term < known ? wanted[term] : 0.0;
        double weight = term < known ? wanted[known + term] : 0.0;
        pushes += fabs(weight * loss);
        (void)snprintf(name, sizeof name, "loss.%s", mt_term_name((enum mt_term)term));
        if (weight != 0.0) compare_value(g, settings, name, g->results.loss[term], loss, fabs(loss));
        (void)snprintf(name, sizeof name, "weight.%s", mt_term_name((enum mt_term)term));
        compare_value(g, settings, name, g->results.weight[term], weight, fabs(weight));
    }
    compare_value(g, settings, "total", g->results.total, wanted[2 * known], pushes);
    free(wanted);
}

/* The largest difference over the root mean square of what is wanted; no tensor means zeros, exactly. */
static void compare_gradient(struct golden *g, int number, const char *settings, const char *which,
                             const float *got, size_t count)
{
    char name[64];
    (void)snprintf(name, sizeof name, "%d.grad.%s", number, which);
    float *wanted = copy_of(g, name, MT_SAFETENSORS_F32);
    double squares = 0.0;
    double largest = 0.0;
    for (size_t i = 0; i < count; i++) {
        double value = wanted == NULL ? 0.0 : (double)wanted[i];
        double difference = fabs((double)got[i] - value);
        squares += value * value;
        if (!(difference <= largest)) largest = difference;
    }
    if (!(largest <= TOLERANCE * sqrt(squares / (double)count))) {
        complain(g, settings, name, wanted == NULL ? largest : largest / sqrt(squares / (double)count));
    }
    free(wanted);
}

/* Experts and weights of the tokens that are not padding. */
static void compare_routing(struct golden *g, int number, const char *settings)
{
    char name[64];
    int slots = g->router.slots;
    (void)snprintf(name, sizeof name, "%d.experts", number);
    int32_t *expert = copy_of(g, name, MT_SAFETENSORS_I32);
    if (expert == NULL) expert = copy_of(g, "experts", MT_SAFETENSORS_I32);
    (void)snprintf(name, sizeof name, "%d.weights", number);
    float *weight = copy_of(g, name, MT_SAFETENSORS_F32);
    if (weight == NULL) weight = copy_of(g, "weights", MT_SAFETENSORS_F32);
    assert_non_null(expert);
    assert_non_null(weight);
    for (int64_t i = 0; i < g->arrays.tokens * slots; i++) {
        if (g->arrays.mask[i / slots] == 0) continue;
        if (g->results.expert[i] != expert[i]) complain(g, settings, "an expert", 1.0);
        double wanted = (double)weight[i];
        compare_value(g, settings, "a weight", (double)g->results.slot_weight[i], wanted, wanted);
    }
    free(expert);
    free(weight);
}

static void compare_case(struct golden *g, int number, const char *settings)
{
    struct mt_objective_config config;
    const struct mt_objective_arrays *a = &g->arrays;
    struct mt_objective_results *r = &g->results;
    read_config(g, settings, &config);
    enum mt_status status = mt_objective_evaluate(g->device, &config, &g->router, a, r, NULL, 0);
    if (status != MT_OK) fail_msg("%s, %s: %s", g->name, settings, g->ctx.message);
    size_t tokens = (size_t)a->tokens;
    compare_values(g, number, settings);
    compare_gradient(g, number, settings, "logits", r->dlogits, tokens * (size_t)a->experts);
    compare_gradient(g, number, settings, "expert_outputs", r->dexpert_outputs,
                     tokens * (size_t)g->router.slots * (size_t)a->width);
    compare_gradient(g, number, settings, "router_weight", r->drouter_weight,
                     (size_t)a->experts * (size_t)a->width);
    compare_routing(g, number, settings);
}

static void compare_file(const char *name, const char *device)
{
    struct golden g;
    golden_open(&g, name, device);
    for (;; g.cases++) {
        char key[16];
        (void)snprintf(key, sizeof key, "%d", g.cases);
        const char *settings = metadata(&g, key);
        if (settings == NULL) break;
        compare_case(&g, g.cases, settings);
    }
    int cases = g.cases;
    int failures = g.failures;
    golden_close(&g);
    assert_true(cases > 0);
    assert_int_equal(failures, 0);
}

static void golden(void **state)
{
    compare_file(*state, "ref");
    compare_file(*state, "cpu");
}

int main(void)
{
    struct CMUnitTest tests[NAME_COUNT];
    for (size_t i = 0; i < NAME_COUNT; i++) {
        tests[i] =
            (struct CMUnitTest){.name = names[i], .test_func = golden, .initial_state = (void *)names[i]};
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
