/* metrics.jsonl of a run (docs/logs.md), line by line. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/files/file.h"
#include "formats/text/lists.h"
#include "report/run.h"

#define KEY_BYTES 64
#define LARGEST   1e300

static const struct mt_json_limits line_limits = {
    .max_bytes = (size_t)64 << 20, .max_values = (size_t)1 << 22, .max_depth = 8};

static const char *const step_keys[MT_RUN_TERM] = {
    [MT_RUN_STEP] = "step",
    [MT_RUN_LOSS] = "loss",
    [MT_RUN_TASK] = "task",
    [MT_RUN_GRADIENT_NORM] = "gradient_norm",
    [MT_RUN_LEARNING_RATE] = "learning_rate",
    [MT_RUN_MAX_VIOLATION] = "max_violation",
    [MT_RUN_MAX_VIOLATION_RUNNING] = "max_violation_running",
    [MT_RUN_LOAD_ENTROPY] = "load_entropy",
    [MT_RUN_EFFECTIVE_EXPERTS] = "effective_experts",
    [MT_RUN_EFFECTIVE_SCORES] = "effective_scores",
    [MT_RUN_EXPERTS_90] = "experts_90",
    [MT_RUN_JACCARD_90] = "jaccard_90",
    [MT_RUN_SLOTS] = "slots",
    [MT_RUN_SECONDS] = "seconds",
    [MT_RUN_TOKENS_PER_SECOND] = "tokens_per_second",
};

static const char *const layer_keys[MT_RUN_LAYER_TERM] = {
    [MT_RUN_LAYER_ENTROPY] = "load_entropy",
    [MT_RUN_LAYER_MAX_VIOLATION] = "max_violation",
    [MT_RUN_LAYER_VARIANCE_TOPK] = "variance_expert_topk",
    [MT_RUN_LAYER_VARIANCE_FULL] = "variance_expert_full",
    [MT_RUN_LAYER_VARIANCE_TOKEN] = "variance_token",
};

/* A line of the file, parsed. */
struct line {
    struct mt_json json;
    struct mt_json_node root;
    const char *kind;
    char where[512];
};

static enum mt_status parse_line(struct mt_run *run, const char *path, size_t number, const char *text,
                                 size_t bytes, struct line *line)
{
    line->json = (struct mt_json){0};
    (void)snprintf(line->where, sizeof line->where, "%.480s:%zu", path, number);
    enum mt_status status = mt_json_parse(run->ctx, line->where, text, bytes, &line_limits, &line->json);
    if (status != MT_OK) return status;
    line->root = mt_json_root(&line->json);
    status = mt_json_expect_object(&line->root);
    return status == MT_OK ? mt_json_get_string(&line->root, "kind", &line->kind) : status;
}

/* A number that may be absent or null: NaN. */
static enum mt_status optional(const struct mt_json_node *object, const char *key, double *value)
{
    *value = (double)NAN;
    return mt_json_optional_real(object, key, -LARGEST, LARGEST, value);
}

/* Room for `extra` more doubles after `count`. */
static enum mt_status reserve(struct mt_run *run, double **numbers, size_t *capacity, size_t count,
                              size_t extra)
{
    enum mt_status status = MT_OK;
    *numbers = mt_list_reserve(run->ctx, *numbers, capacity, sizeof(double), count + extra, &status);
    return status;
}

// ------------------------------------------------------------------ layers

/* The first step with layers says how many there are, and of how many experts. */
static enum mt_status make_layers(struct mt_run *run, const struct mt_json_node *layers)
{
    struct mt_json_node numbers;
    struct mt_json_node loads;
    struct mt_run_metrics *log = &run->log;
    bool loaded = false;
    enum mt_status status = mt_json_get_array(layers, "layer", &numbers);
    if (status == MT_OK) status = mt_json_optional_array(layers, "load", &loads, &loaded);
    if (status != MT_OK) return status;
    size_t count = mt_json_count(&numbers);
    if (count > MT_RUN_MOST_LAYERS)
        return mt_json_fail(&numbers, "has %zu layers, at most %d are read", count, MT_RUN_MOST_LAYERS);
    if (count == 0) return MT_OK;
    log->layer = mt_arena_array(&run->arena, count, sizeof *log->layer, &status);
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        struct mt_json_node number = mt_json_element(&numbers, i);
        status = mt_json_as_integer(&number, 0, 1000000, &log->layer[i].number);
    }
    if (status == MT_OK && loaded && mt_json_count(&loads) == count) {
        struct mt_json_node first = mt_json_element(&loads, 0);
        log->experts = mt_json_count(&first);
        if (log->experts > MT_RUN_MOST_EXPERTS)
            return mt_json_fail(&first, "has %zu experts, at most %d are read", log->experts,
                                MT_RUN_MOST_EXPERTS);
        log->load = mt_arena_array(&run->arena, count * log->experts + 1, sizeof(double), &status);
    }
    if (status == MT_OK) log->layers = count;
    return status;
}

/* Element l of an array with one number per layer; NaN where there is none. */
static enum mt_status layer_number(const struct mt_json_node *layers, const char *key, size_t l,
                                   double *value)
{
    struct mt_json_node array;
    bool present = false;
    *value = (double)NAN;
    enum mt_status status = mt_json_optional_array(layers, key, &array, &present);
    if (status != MT_OK || !present || l >= mt_json_count(&array)) return status;
    struct mt_json_node element = mt_json_element(&array, l);
    if (mt_json_kind(&element) == MT_JSON_NULL) return MT_OK;
    return mt_json_as_real(&element, -LARGEST, LARGEST, value);
}

static void add_late(struct mt_run_layer *layer, int value, double number)
{
    if (isnan(number)) return;
    layer->sum[value] += number;
    layer->count[value]++;
}

static enum mt_status add_loads(struct mt_run *run, const struct mt_json_node *layers)
{
    struct mt_run_metrics *log = &run->log;
    struct mt_json_node loads;
    bool present = false;
    enum mt_status status = mt_json_optional_array(layers, "load", &loads, &present);
    for (size_t l = 0; status == MT_OK && present && l < log->layers && l < mt_json_count(&loads); l++) {
        struct mt_json_node row = mt_json_element(&loads, l);
        for (size_t j = 0; status == MT_OK && j < log->experts && j < mt_json_count(&row); j++) {
            struct mt_json_node cell = mt_json_element(&row, j);
            double slots = 0;
            if (mt_json_kind(&cell) != MT_JSON_NULL) status = mt_json_as_real(&cell, 0, LARGEST, &slots);
            log->load[l * log->experts + j] += slots;
        }
    }
    return status;
}

/* Everything a step says about its layers; `row` is the step's, for the norms of gradients. */
static enum mt_status read_layers(struct mt_run *run, const struct mt_json_node *layers, bool late,
                                  double *row)
{
    struct mt_run_metrics *log = &run->log;
    enum mt_status status = MT_OK;
    double number = 0;
    for (size_t l = 0; l < log->layers && status == MT_OK; l++) {
        for (int i = 0; i < MT_RUN_LAYER_TERM && status == MT_OK; i++) {
            status = layer_number(layers, layer_keys[i], l, &number);
            if (i == MT_RUN_LAYER_MAX_VIOLATION) log->violation[log->steps * log->layers + l] = number;
            if (late) add_late(&log->layer[l], i, number);
        }
        for (int term = 0; term < MT_TERM_COUNT && status == MT_OK; term++) {
            char key[KEY_BYTES];
            (void)snprintf(key, sizeof key, "term_%s", mt_term_name((enum mt_term)term));
            status = layer_number(layers, key, l, &number);
            if (late) add_late(&log->layer[l], MT_RUN_LAYER_TERM + term, number);
            (void)snprintf(key, sizeof key, "gradient_%s", mt_term_name((enum mt_term)term));
            if (status == MT_OK) status = layer_number(layers, key, l, &number);
            if (late) add_late(&log->layer[l], MT_RUN_LAYER_GRADIENT + term, number);
            double *norm = &row[MT_RUN_GRADIENT + term];
            if (!isnan(number)) *norm = isnan(*norm) ? fabs(number) : hypot(*norm, number);
        }
    }
    if (status == MT_OK && late && log->load != NULL) status = add_loads(run, layers);
    return status;
}

// ------------------------------------------------------------------ lines

static enum mt_status read_step(struct mt_run *run, const struct mt_json_node *root)
{
    struct mt_run_metrics *log = &run->log;
    struct mt_json_node layers;
    bool present = false;
    double row[MT_RUN_VALUES];
    enum mt_status status = MT_OK;
    for (int i = 0; i < MT_RUN_TERM && status == MT_OK; i++) status = optional(root, step_keys[i], &row[i]);
    for (int term = 0; term < MT_TERM_COUNT && status == MT_OK; term++) {
        char key[KEY_BYTES];
        (void)snprintf(key, sizeof key, "term_%s", mt_term_name((enum mt_term)term));
        status = optional(root, key, &row[MT_RUN_TERM + term]);
        (void)snprintf(key, sizeof key, "weighted_%s", mt_term_name((enum mt_term)term));
        if (status == MT_OK) status = optional(root, key, &row[MT_RUN_WEIGHTED + term]);
        row[MT_RUN_GRADIENT + term] = (double)NAN;
    }
    if (status == MT_OK) status = mt_json_optional_object(root, "layers", &layers, &present);
    if (status == MT_OK && present && log->layers == 0 && log->steps == 0) status = make_layers(run, &layers);
    if (status == MT_OK)
        status =
            reserve(run, &log->violation, &log->violation_capacity, log->steps * log->layers, log->layers);
    for (size_t l = 0; l < log->layers && status == MT_OK; l++)
        log->violation[log->steps * log->layers + l] = (double)NAN;
    if (status == MT_OK && present && log->layers > 0)
        status = read_layers(run, &layers, row[MT_RUN_STEP] > log->late, row);
    if (status == MT_OK)
        status =
            reserve(run, &log->numbers, &log->number_capacity, log->steps * MT_RUN_VALUES, MT_RUN_VALUES);
    if (status != MT_OK) return status;
    memcpy(log->numbers + log->steps * MT_RUN_VALUES, row, sizeof row);
    log->steps++;
    return MT_OK;
}

static enum mt_status read_evaluation(struct mt_run *run, const struct mt_json_node *root)
{
    struct mt_run_metrics *log = &run->log;
    enum mt_status status =
        reserve(run, &log->evaluation, &log->evaluation_capacity, 3 * log->evaluations, 3);
    if (status != MT_OK) return status;
    double *row = log->evaluation + 3 * log->evaluations;
    status = optional(root, "step", &row[0]);
    if (status == MT_OK) status = optional(root, "loss", &row[1]);
    if (status == MT_OK) status = optional(root, "perplexity", &row[2]);
    if (status == MT_OK) log->evaluations++;
    return status;
}

static enum mt_status read_event(struct mt_run *run, const struct mt_json_node *root)
{
    const char *event = "";
    const char *text = "";
    enum mt_status status = mt_json_optional_string(root, "event", &event);
    if (status == MT_OK) status = mt_json_optional_string(root, "text", &text);
    if (status != MT_OK) return status;
    if (strcmp(event, "data") == 0)
        return mt_arena_copy_text(&run->arena, text, strlen(text), &run->log.note);
    if (strcmp(event, "warning") != 0 && strcmp(event, "failed") != 0) return MT_OK;
    run->log.warnings++;
    return mt_arena_copy_text(&run->arena, text, strlen(text), &run->log.warning);
}

static enum mt_status read_line(struct mt_run *run, const struct mt_json_node *root, const char *kind)
{
    if (strcmp(kind, "step") == 0) return read_step(run, root);
    if (strcmp(kind, "evaluation") == 0) return read_evaluation(run, root);
    if (strcmp(kind, "event") == 0) return read_event(run, root);
    return MT_OK;
}

/* Where the last tenth begins: found by reading from the end until there is a step. */
static enum mt_status find_late(struct mt_run *run, const char *path, const char *text, size_t bytes)
{
    double step = 0;
    bool found = false;
    enum mt_status status = MT_OK;
    size_t end = bytes;
    while (end > 0 && !found && status == MT_OK) {
        struct line line;
        size_t start = end - 1; // at the line's newline
        while (start > 0 && text[start - 1] != '\n') start--;
        status = parse_line(run, path, 0, text + start, end - 1 - start, &line);
        if (status == MT_OK && strcmp(line.kind, "step") == 0) {
            found = true;
            status = optional(&line.root, "step", &step);
        }
        mt_json_free(&line.json);
        end = start;
    }
    run->log.late = step - fmax(1, floor(step / 10));
    return status;
}

enum mt_status mt_run_read_log(struct mt_run *run, const char *path)
{
    struct mt_file_mapping mapping = {0};
    size_t at = 0;
    size_t number = 1;
    enum mt_status status = mt_file_map(run->ctx, path, &mapping);
    if (status != MT_OK) return status;
    const char *text = mapping.data;
    size_t bytes = mapping.bytes;
    // A run that is being written may end in half a line; after a power failure there may be zeros.
    const char *torn = bytes > 0 ? memchr(text, '\0', bytes) : NULL;
    if (torn != NULL) bytes = (size_t)(torn - text);
    while (bytes > 0 && text[bytes - 1] != '\n') bytes--;
    status = find_late(run, path, text, bytes);
    while (status == MT_OK && at < bytes) {
        struct line line;
        const char *end = memchr(text + at, '\n', bytes - at);
        size_t length = (size_t)(end - text) - at;
        status = parse_line(run, path, number++, text + at, length, &line);
        if (status == MT_OK) status = read_line(run, &line.root, line.kind);
        mt_json_free(&line.json);
        at += length + 1;
    }
    mt_file_unmap(&mapping);
    run->has_log = status == MT_OK && run->log.steps > 0;
    return status;
}
