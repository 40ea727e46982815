/*
 * Every architecture against what transformers said (deepseek: a PyTorch model of our own): logits, hidden
 * states, routing, loss and gradients, in full, with LoRA, and with methods of the objective. The files of
 * tests/model/golden are made by tests/parity/model_golden.py, which describes them.
 * Tests src/model/transformer.c.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/safetensors/safetensors.h"
#include "model/model.h"
#include "support/cmocka_all.h"

#define TOLERANCE   1e-4
#define MOST_TOKENS 64
#define MOST_NAMES  256

static const char *const models[] = {
    "deepseek",  "deepseek_v2",   "deepseek_v2-lite", "deepseek_v3", "mixtral", "phimoe",       "olmoe",
    "qwen3_moe", "glm4_moe_lite", "qwen2_moe",        "glm4_moe",    "dots1",   "ernie4_5_moe", "gpt_oss",
};

#define MODEL_COUNT (sizeof models / sizeof models[0])

static const char *const cases[] = {"full", "lora", "metier", "ernie", "paper-code", "erc", "intra-cross"};

#define CASE_COUNT (sizeof cases / sizeof cases[0])

struct golden {
    const char *model, *label;
    struct mt_context ctx;
    struct mt_device *device;
    struct mt_safetensors file;
    struct mt_model *opened;
    struct mt_objective_config method;
    char *module[MOST_NAMES + 1]; // what LoRA is on; owned, ends with NULL
    int32_t ids[MOST_TOKENS], labels[MOST_TOKENS], offsets[MOST_TOKENS + 1];
    struct mt_batch batch;
    double gradient_floor; // a gradient's norm counts as no smaller
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

static void golden_path(const struct golden *g, const char *file, char *path, size_t bytes)
{
    const char *folder = getenv("METIER_GOLDEN_MODELS");
    assert_non_null(folder);
    int length = snprintf(path, bytes, "%s/%s%s%s", folder, g->model, file[0] != '\0' ? "/" : "", file);
    assert_true(length > 0 && (size_t)length < bytes);
}

/* An aligned copy of a tensor's data; the caller frees. */
static void *copy_of(const struct mt_safetensors_tensor *tensor, enum mt_safetensors_dtype dtype)
{
    assert_non_null(tensor);
    assert_int_equal(tensor->dtype, dtype);
    void *copy = malloc(tensor->bytes > 0 ? tensor->bytes : 1);
    assert_non_null(copy);
    memcpy(copy, tensor->data, tensor->bytes);
    return copy;
}

static void read_batch(struct golden *g)
{
    const struct mt_safetensors_tensor *lengths = mt_safetensors_find(&g->file, "lengths");
    const struct mt_safetensors_tensor *ids = mt_safetensors_find(&g->file, "ids");
    int32_t *length = copy_of(lengths, MT_SAFETENSORS_I32);
    int32_t *id = copy_of(ids, MT_SAFETENSORS_I32);
    int32_t token = 0;
    assert_true(ids->dim[0] <= MOST_TOKENS);
    for (int64_t b = 0; b < lengths->dim[0]; b++) {
        for (int32_t i = 0; i < length[b]; i++, token++) {
            g->ids[token] = id[token];
            g->labels[token] = i + 1 < length[b] ? id[token + 1] : -1;
        }
        g->offsets[b + 1] = token;
    }
    assert_int_equal(token, ids->dim[0]);
    g->batch = (struct mt_batch){.tokens = token,
                                 .sequences = lengths->dim[0],
                                 .ids = g->ids,
                                 .offsets = g->offsets,
                                 .labels = g->labels,
                                 .progress = 1.0};
    free(length);
    free(id);
}

/* "method=NAME key=value ...": a configuration. */
static void read_method(struct golden *g, const char *text)
{
    char line[256];
    char *rest = NULL;
    assert_true(strlen(text) < sizeof line);
    (void)snprintf(line, sizeof line, "%s", text);
    for (char *word = strtok_r(line, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(word, '=');
        assert_non_null(value);
        *value++ = '\0';
        enum mt_status status = strcmp(word, "method") == 0
                                    ? mt_objective_config_method(&g->ctx, value, &g->method)
                                    : mt_objective_config_set(&g->ctx, &g->method, word, value);
        if (status != MT_OK) fail_msg("%s", g->ctx.message);
    }
}

/* The modules of "param.base_model.model.MODULE.lora_A.weight"; returns LoRA's rank. */
static int read_modules(struct golden *g)
{
    static const char prefix[] = "param.base_model.model.";
    static const char suffix[] = ".lora_A.weight";
    int count = 0;
    int rank = 0;
    for (size_t i = 0; i < g->file.tensor_count; i++) {
        const struct mt_safetensors_tensor *tensor = &g->file.tensors[i];
        size_t length = strlen(tensor->name);
        if (strncmp(tensor->name, prefix, strlen(prefix)) != 0) continue;
        if (strcmp(tensor->name + length - strlen(suffix), suffix) != 0) continue;
        assert_true(count < MOST_NAMES);
        g->module[count] = strndup(tensor->name + strlen(prefix), length - strlen(prefix) - strlen(suffix));
        assert_non_null(g->module[count++]);
        rank = (int)tensor->dim[0];
    }
    return rank;
}

static void golden_open(struct golden *g, const char *device)
{
    static const char *const everything[] = {"*", NULL};
    char path[1024];
    char file[64];
    mt_context_init(&g->ctx, NULL);
    (void)snprintf(file, sizeof file, "%s.safetensors", g->label);
    golden_path(g, file, path, sizeof path);
    if (mt_safetensors_open(&g->ctx, path, &g->file) != MT_OK) fail_msg("%s", g->ctx.message);
    read_batch(g);
    struct mt_model_options options = {.tokens = g->batch.tokens,
                                       .sequences = g->batch.sequences,
                                       .positions = g->batch.tokens,
                                       .backward = true};
    if (strcmp(metadata(g, "train"), "lora") == 0) {
        options.selection.lora_rank = read_modules(g);
        options.selection.lora_alpha = strtod(metadata(g, "alpha"), NULL);
        options.selection.lora = (const char *const *)g->module;
    } else {
        options.selection.full = everything;
    }
    const char *method = metadata(g, "method");
    if (method != NULL) {
        read_method(g, method);
        options.objective = &g->method;
    }
    golden_path(g, "", path, sizeof path);
    assert_int_equal(mt_device_create(&g->ctx, device, 2, &g->device), MT_OK);
    if (mt_model_open(g->device, path, &options, &g->opened) != MT_OK) fail_msg("%s", g->ctx.message);
}

static void golden_close(struct golden *g)
{
    mt_model_close(g->opened);
    mt_device_destroy(g->device);
    mt_safetensors_close(&g->file);
    for (int i = 0; g->module[i] != NULL; i++) free(g->module[i]);
    assert_int_equal(g->ctx.live_bytes, 0);
}

// ------------------------------------------------------------------ comparing

static void report(struct golden *g, const char *what, double error)
{
    if (error <= TOLERANCE) return;
    print_message("%s, %s: %s is off by %.2e\n", g->model, g->label, what, error);
    g->failures++;
}

static double norm_of(const float *values, int64_t count)
{
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++) sum += (double)values[i] * (double)values[i];
    return sqrt(sum);
}

static int64_t count_of(const struct mt_safetensors_tensor *tensor)
{
    return (int64_t)(tensor->bytes / sizeof(float));
}

/* The largest difference over the root mean square of what is wanted. */
static void expect_values(struct golden *g, const char *name, const float *got, int64_t count)
{
    const struct mt_safetensors_tensor *tensor = mt_safetensors_find(&g->file, name);
    float *want = copy_of(tensor, MT_SAFETENSORS_F32);
    double largest = 0.0;
    assert_int_equal(count_of(tensor), count);
    for (int64_t i = 0; i < count; i++) {
        double difference = fabs((double)got[i] - (double)want[i]);
        if (!(difference <= largest)) largest = difference;
    }
    report(g, name, largest / (norm_of(want, count) / sqrt((double)count)));
    free(want);
}

static void check_logits(struct golden *g)
{
    int64_t vocabulary = mt_model_description(g->opened)->vocabulary;
    int64_t count = g->batch.tokens * vocabulary;
    float *values = malloc((size_t)count * sizeof *values);
    assert_non_null(values);
    struct mt_tensor logits = mt_tensor_2d(values, MT_F32, g->batch.tokens, vocabulary);
    assert_int_equal(mt_model_logits(g->opened, &logits), MT_OK);
    expect_values(g, "logits", values, count);
    free(values);
}

/* Weights at their experts' places, so that the order of slots does not matter. */
static void check_routing(struct golden *g, const char *name, const struct mt_routing *routing)
{
    int64_t count = routing->tokens * routing->experts;
    float *dense = calloc((size_t)count, sizeof *dense);
    const int32_t *expert = routing->expert.data;
    const float *weight = routing->weight.data;
    assert_non_null(dense);
    for (int64_t slot = 0; slot < routing->tokens * routing->slots; slot++)
        dense[slot / routing->slots * routing->experts + expert[slot]] = weight[slot];
    expect_values(g, name, dense, count);
    free(dense);
}

static void check_layers(struct golden *g)
{
    const struct mt_model_desc *desc = mt_model_description(g->opened);
    for (int64_t layer = 0; layer < desc->layers; layer++) {
        char name[32];
        const struct mt_tensor *hidden = mt_model_hidden(g->opened, layer);
        const struct mt_routing *routing = mt_model_routing(g->opened, layer);
        (void)snprintf(name, sizeof name, "hidden.%d", (int)layer);
        expect_values(g, name, hidden->data, mt_tensor_count(hidden));
        (void)snprintf(name, sizeof name, "routing.%d", (int)layer);
        assert_true((routing != NULL) == (mt_safetensors_find(&g->file, name) != NULL));
        if (routing != NULL) check_routing(g, name, routing);
    }
}

static const struct mt_param *find_param(const struct golden *g, const char *name)
{
    const struct mt_params *params = mt_model_params(g->opened);
    for (size_t i = 0; i < params->trained_count; i++) {
        if (strcmp(params->trained[i].name, name) == 0) return &params->trained[i];
    }
    fail_msg("%s, %s: nothing called %s learns", g->model, g->label, name);
    return NULL;
}

static void set_pairs(struct golden *g)
{
    for (size_t i = 0; i < g->file.tensor_count; i++) {
        const struct mt_safetensors_tensor *tensor = &g->file.tensors[i];
        if (strncmp(tensor->name, "param.", strlen("param.")) != 0) continue;
        const struct mt_param *param = find_param(g, tensor->name + strlen("param."));
        assert_int_equal(count_of(tensor), mt_tensor_count(&param->value));
        memcpy(param->value.data, tensor->data, tensor->bytes);
    }
}

/* The norm of the difference over the norm of what is wanted. */
static void expect_gradient(struct golden *g, const struct mt_safetensors_tensor *tensor)
{
    const struct mt_param *param = find_param(g, tensor->name + strlen("grad."));
    const float *got = param->grad.data;
    float *want = copy_of(tensor, MT_SAFETENSORS_F32);
    int64_t count = count_of(tensor);
    double size = fmax(norm_of(want, count), g->gradient_floor);
    assert_int_equal(count, mt_tensor_count(&param->grad));
    for (int64_t i = 0; i < count; i++) want[i] -= got[i];
    report(g, tensor->name, norm_of(want, count) / size);
    free(want);
}

static void check_gradients(struct golden *g)
{
    double sum = 0.0;
    int count = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < g->file.tensor_count; i++) {
            const struct mt_safetensors_tensor *tensor = &g->file.tensors[i];
            if (strncmp(tensor->name, "grad.", strlen("grad.")) != 0) continue;
            if (pass == 1) {
                expect_gradient(g, tensor);
                continue;
            }
            float *want = copy_of(tensor, MT_SAFETENSORS_F32);
            double norm = norm_of(want, count_of(tensor));
            sum += norm * norm;
            count++;
            free(want);
        }
        // Far below the usual gradient there is only rounding.
        g->gradient_floor = 1e-4 * sqrt(sum / count);
    }
    assert_true(count > 3);
}

static void check_case(struct golden *g, const char *device)
{
    struct mt_model_loss loss;
    golden_open(g, device);
    set_pairs(g);
    if (mt_model_forward(g->opened, &g->batch, &loss) != MT_OK) fail_msg("%s", g->ctx.message);
    check_logits(g);
    if (strcmp(g->label, "full") == 0) check_layers(g);
    double *want = copy_of(mt_safetensors_find(&g->file, "loss"), MT_SAFETENSORS_F64);
    report(g, "loss", fabs(loss.task + loss.terms - *want) / fabs(*want));
    free(want);
    if (mt_model_backward(g->opened) != MT_OK) fail_msg("%s", g->ctx.message);
    check_gradients(g);
    golden_close(g);
}

static void check_model(void **state)
{
    const size_t *number = *state;
    const char *model = models[*number];
    int failures = 0;
    for (size_t i = 0; i < CASE_COUNT; i++) {
        struct golden on_cpu = {.model = model, .label = cases[i]};
        struct golden on_ref = {.model = model, .label = cases[i]};
        check_case(&on_cpu, "cpu");
        check_case(&on_ref, "ref");
        failures += on_cpu.failures + on_ref.failures;
    }
    assert_int_equal(failures, 0);
}

int main(void)
{
    struct CMUnitTest tests[MODEL_COUNT];
    size_t number[MODEL_COUNT];
    for (size_t i = 0; i < MODEL_COUNT; i++) {
        number[i] = i;
        tests[i] =
            (struct CMUnitTest){.name = models[i], .test_func = check_model, .initial_state = &number[i]};
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
