/* metier objective: runs the objective on a record, and says what its numbers do not. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/amount.h"
#include "cli/objective/objective.h"
#include "metier/device.h"

static enum mt_status allocate_floats(struct objective_answer *answer, size_t count, float **target)
{
    void *block = NULL;
    enum mt_status status = mt_allocate_array(answer->ctx, count, sizeof(float), &block);
    if (status == MT_OK) *target = block;
    return status;
}

static enum mt_status allocate_results(const struct objective_question *question,
                                       const struct mt_objective_arrays *arrays,
                                       struct objective_answer *answer)
{
    struct mt_objective_results *results = &answer->results;
    size_t tokens = (size_t)arrays->tokens;
    size_t experts = (size_t)arrays->experts;
    size_t slots = (size_t)question->router.slots;
    size_t width = (size_t)arrays->width;
    void *block = NULL;
    enum mt_status status = mt_allocate_array(answer->ctx, experts, sizeof(double), &block);
    results->load = block;
    if (status == MT_OK) status = allocate_floats(answer, tokens * experts, &results->dlogits);
    if (status == MT_OK) status = allocate_floats(answer, tokens * slots, &results->slot_weight);
    if (status == MT_OK && arrays->expert_outputs != NULL) {
        status = allocate_floats(answer, tokens * slots * width, &results->dexpert_outputs);
    }
    if (status == MT_OK && arrays->router_weight != NULL) {
        status = allocate_floats(answer, experts * width, &results->drouter_weight);
    }
    if (status == MT_OK && mt_selection_has_bias(&question->config)) {
        status = allocate_floats(answer, experts, &answer->bias);
        size_t count = mt_selection_memory(&question->config, arrays->experts);
        void *memory = NULL;
        if (status == MT_OK) status = mt_allocate_array(answer->ctx, count, sizeof(double), &memory);
        answer->memory = memory;
        count = mt_selection_measures(&question->config, arrays->experts);
        memory = NULL;
        if (status == MT_OK) status = mt_allocate_array(answer->ctx, count, sizeof(double), &memory);
        results->measured = memory;
    }
    if (status != MT_OK) return status;
    block = NULL;
    status = mt_allocate_array(answer->ctx, tokens * slots, sizeof(int32_t), &block);
    results->expert = block;
    return status;
}

static void add_note(struct objective_answer *answer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void add_note(struct objective_answer *answer, const char *format, ...)
{
    size_t used = strlen(answer->notes);
    va_list args;
    va_start(args, format);
    if (used > 0 && used + 2 < sizeof answer->notes) answer->notes[used++] = '\n';
    (void)vsnprintf(answer->notes + used, sizeof answer->notes - used, format, args);
    va_end(args);
}

/* What the numbers do not say by themselves. */
static void make_notes(const struct objective_question *question, const struct objective_record *record,
                       struct objective_answer *answer)
{
    const struct mt_objective_config *config = &question->config;
    if (!mt_objective_has_terms(config))
        add_note(answer, "method %s has no loss term: every gradient is 0", config->method);
    if ((mt_objective_needs(config) & MT_NEEDS_SEQUENCES) != 0 && record->sequence == NULL) {
        add_note(answer, "there is no tensor sequence: all tokens count as one sequence");
    }
    if (config->brake != MT_BRAKE_NONE && mt_objective_key_idle(config, "brake") == NULL) {
        add_note(answer, "the brake acts on later steps; this is the first");
    }
    if (config->jitter != 0.0) {
        add_note(answer, "jitter acts on the router's input; the logits are given, so it does nothing here");
    }
    if (mt_selection_drops(config) && question->router.kind == MT_ROUTER_SPARSEMIXER) {
        add_note(answer,
                 "SparseMixer samples where a method drops slots: expert_outputs must be those of experts");
    }
    if (answer->bias != NULL) {
        add_note(answer, "the bias rule is no loss: router_bias is the bias after this step");
    }
    if (answer->dropped > 0) {
        uint64_t slots = (uint64_t)(record->counted * question->router.slots);
        add_note(answer, "%" PRId64 " of %s dropped (experts -1): no expert serves them", answer->dropped,
                 mt_counted(slots, "slot is", "slots are").text);
    }
    char unused[512];
    cli_objective_record_unused(record, unused, sizeof unused);
    if (unused[0] != '\0') add_note(answer, "not looked at in the record: %s", unused);
}

static int64_t count_dropped(const struct objective_question *question, const struct objective_record *record,
                             const struct mt_objective_results *results)
{
    int64_t dropped = 0;
    int64_t slots = question->router.slots;
    for (int64_t i = 0; i < record->arrays.tokens; i++) {
        if (record->mask != NULL && record->mask[i] == 0) continue;
        for (int64_t s = 0; s < slots; s++) dropped += results->expert[i * slots + s] < 0;
    }
    return dropped;
}

static void move_bias(const struct objective_question *question, const struct mt_objective_arrays *arrays,
                      struct objective_answer *answer)
{
    if (answer->bias == NULL) return;
    if (arrays->router_bias != NULL) {
        memcpy(answer->bias, arrays->router_bias, (size_t)arrays->experts * sizeof(float));
    }
    mt_selection_move(&question->config, &(struct mt_selection_step){.load = answer->results.load,
                                                                     .measured = answer->results.measured,
                                                                     .experts = arrays->experts,
                                                                     .memory = answer->memory,
                                                                     .bias = answer->bias});
}

/* The length of an array seen as one vector. */
static double norm(const float *array, size_t count)
{
    double squares = 0.0;
    for (size_t i = 0; i < count; i++) squares += (double)array[i] * (double)array[i];
    return sqrt(squares);
}

/*
 * What each term alone does to the array it acts on: the objective again, with that term as the only one and
 * its weight as it was. The results' arrays are used for it, so it comes before the real evaluation.
 */
static enum mt_status measure_gradients(struct mt_device *device, const struct objective_question *question,
                                        const struct objective_record *record,
                                        struct objective_answer *answer, const double weight[MT_TERM_COUNT],
                                        double gradient[MT_TERM_COUNT])
{
    const struct mt_objective_arrays *arrays = &record->arrays;
    size_t tokens = (size_t)arrays->tokens;
    size_t experts = (size_t)arrays->experts;
    size_t slots = (size_t)question->router.slots;
    size_t width = (size_t)arrays->width;
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        gradient[term] = 0.0;
        if (!mt_term_is_on(&question->config, (enum mt_term)term) || weight[term] == 0.0) continue;
        struct mt_objective_config alone = question->config;
        memset(alone.coefficient, 0, sizeof alone.coefficient);
        alone.coefficient[term] = weight[term];
        alone.scale = MT_SCALE_NONE;
        struct mt_objective_results *results = &answer->results;
        enum mt_status status =
            mt_objective_evaluate(device, &alone, &question->router, arrays, results, NULL, 0);
        if (status != MT_OK) return status;
        const char *where = cli_objective_gradient_of((enum mt_term)term);
        if (strcmp(where, "logits") == 0) gradient[term] = norm(results->dlogits, tokens * experts);
        if (strcmp(where, "expert_outputs") == 0 && results->dexpert_outputs != NULL) {
            gradient[term] = norm(results->dexpert_outputs, tokens * slots * width);
        }
        if (strcmp(where, "router_weight") == 0 && results->drouter_weight != NULL) {
            gradient[term] = norm(results->drouter_weight, experts * width);
        }
    }
    return MT_OK;
}

/* Weights first, then each term by itself, then all together, which is the answer. */
static enum mt_status evaluate(struct mt_device *device, const struct objective_question *question,
                               const struct objective_record *record, struct objective_answer *answer)
{
    struct mt_objective_results *results = &answer->results;
    results->warnings = answer->warnings;
    results->warnings_bytes = sizeof answer->warnings;
    double weight[MT_TERM_COUNT];
    double gradient[MT_TERM_COUNT];
    enum mt_status status = mt_objective_evaluate(device, &question->config, &question->router,
                                                  &record->arrays, results, NULL, 0);
    if (status != MT_OK) return status;
    memcpy(weight, results->weight, sizeof weight);
    status = measure_gradients(device, question, record, answer, weight, gradient);
    if (status != MT_OK) return status;
    status = mt_objective_evaluate(device, &question->config, &question->router, &record->arrays, results,
                                   NULL, 0);
    memcpy(results->report.gradient, gradient, sizeof gradient);
    return status;
}

enum mt_status cli_objective_compute(struct mt_context *ctx, const struct objective_question *question,
                                     const struct objective_record *record, struct objective_answer *answer)
{
    struct mt_device *device = NULL;
    enum mt_status status = mt_router_config_check(ctx, &question->router, record->arrays.experts);
    if (status == MT_OK) status = mt_device_create(ctx, question->device_name, question->threads, &device);
    if (status != MT_OK) return status;
    (void)snprintf(answer->device, sizeof answer->device, "%s", mt_device_description(device));
    status = allocate_results(question, &record->arrays, answer);
    if (status == MT_OK) {
        status = evaluate(device, question, record, answer);
        if (status != MT_OK) (void)mt_fail_within(ctx, status, "%s", record->path);
    }
    mt_device_destroy(device);
    if (status != MT_OK) return status;
    move_bias(question, &record->arrays, answer);
    answer->dropped = count_dropped(question, record, &answer->results);
    make_notes(question, record, answer);
    return MT_OK;
}

void cli_objective_answer_free(const struct objective_question *question,
                               const struct objective_record *record, struct objective_answer *answer)
{
    const struct mt_objective_arrays *arrays = &record->arrays;
    struct mt_objective_results *results = &answer->results;
    size_t tokens = (size_t)arrays->tokens;
    size_t experts = (size_t)arrays->experts;
    size_t slots = (size_t)question->router.slots;
    size_t width = (size_t)arrays->width;
    mt_release(answer->ctx, results->load, experts * sizeof(double));
    mt_release(answer->ctx, results->dlogits, tokens * experts * sizeof(float));
    mt_release(answer->ctx, results->slot_weight, tokens * slots * sizeof(float));
    mt_release(answer->ctx, results->dexpert_outputs, tokens * slots * width * sizeof(float));
    mt_release(answer->ctx, results->drouter_weight, experts * width * sizeof(float));
    mt_release(answer->ctx, results->expert, tokens * slots * sizeof(int32_t));
    mt_release(answer->ctx, answer->bias, experts * sizeof(float));
    mt_release(answer->ctx, results->measured,
               mt_selection_measures(&question->config, arrays->experts) * sizeof(double));
    mt_release(answer->ctx, answer->memory,
               mt_selection_memory(&question->config, arrays->experts) * sizeof(double));
}
