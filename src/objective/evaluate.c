/* mt_objective_evaluate: one layer on raw arrays. Checks the arrays, numbers the sequences, copies the
 * results. */
#include <inttypes.h>
#include <string.h>

#include "base/given.h"
#include "objective/evaluation.h"

#define ALIGNMENT 64

/* Runs of equal ids: at least as many as there are sequences. */
static int64_t sequence_runs(const struct mt_objective_arrays *arrays)
{
    if (arrays->sequence == NULL || arrays->tokens < 1) return 1;
    int64_t runs = 1;
    for (int64_t i = 1; i < arrays->tokens; i++) runs += arrays->sequence[i] != arrays->sequence[i - 1];
    return runs;
}

static struct mt_evaluation_sizes sizes_of(const struct mt_objective_arrays *arrays)
{
    return (struct mt_evaluation_sizes){
        .tokens = arrays->tokens,
        .experts = arrays->experts,
        .width = arrays->width,
        .segments = (int)sequence_runs(arrays),
        .dtype = MT_F32,
    };
}

/* What this file keeps beside the evaluation. */
struct workspace {
    int32_t *ids;     // [N]: the sequences' ids, rising
    int32_t *segment; // [N]
    float *dlogits;   // [N,n], where the caller wants none
    void *evaluation;
};

static struct workspace lay_out(const struct mt_objective_arrays *arrays, size_t evaluation_bytes,
                                struct mt_carver *carver)
{
    size_t tokens = (size_t)arrays->tokens;
    struct workspace own;
    own.ids = mt_carve(carver, tokens * sizeof(int32_t));
    own.segment = mt_carve(carver, tokens * sizeof(int32_t));
    own.dlogits = mt_carve(carver, tokens * (size_t)arrays->experts * sizeof(float));
    own.evaluation = mt_carve(carver, evaluation_bytes);
    return own;
}

size_t mt_objective_evaluate_bytes(const struct mt_objective_config *config,
                                   const struct mt_router_config *router,
                                   const struct mt_objective_arrays *arrays)
{
    if (config == NULL || router == NULL || arrays == NULL) return 0;
    struct mt_evaluation_sizes sizes = sizes_of(arrays);
    size_t bytes = mt_evaluation_bytes(config, router, &sizes);
    if (bytes == 0) return 0; // refused by evaluate, with a sentence
    struct mt_carver carver = {0};
    (void)lay_out(arrays, bytes, &carver);
    return carver.used + ALIGNMENT; // the caller's memory may begin anywhere
}

// ------------------------------------------------------------------ sequences

static void sift_down(int32_t *heap, int64_t root, int64_t count)
{
    for (int64_t child = 2 * root + 1; child < count; child = 2 * root + 1) {
        if (child + 1 < count && heap[child + 1] > heap[child]) child++;
        if (heap[root] >= heap[child]) return;
        int32_t larger = heap[child];
        heap[child] = heap[root];
        heap[root] = larger;
        root = child;
    }
}

/* Heap sort: the C library's sort may allocate. */
static void sort_ids(int32_t *ids, int64_t count)
{
    for (int64_t root = count / 2 - 1; root >= 0; root--) sift_down(ids, root, count);
    for (int64_t last = count - 1; last > 0; last--) {
        int32_t largest = ids[0];
        ids[0] = ids[last];
        ids[last] = largest;
        sift_down(ids, 0, last);
    }
}

static int32_t place_of_id(const int32_t *ids, int64_t count, int32_t id)
{
    int64_t low = 0;
    int64_t high = count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (ids[middle] < id) low = middle + 1;
        if (ids[middle] >= id) high = middle;
    }
    return (int32_t)low;
}

/* Any ids to segments 0, 1, ... in rising order of id; returns how many there are. */
static int number_sequences(const int32_t *sequence, int64_t tokens, const struct workspace *work)
{
    int64_t runs = 0;
    for (int64_t i = 0; i < tokens; i++) {
        if (i == 0 || sequence[i] != sequence[i - 1]) work->ids[runs++] = sequence[i];
    }
    sort_ids(work->ids, runs);
    int64_t count = 0;
    for (int64_t i = 0; i < runs; i++) {
        if (i == 0 || work->ids[i] != work->ids[i - 1]) work->ids[count++] = work->ids[i];
    }
    for (int64_t i = 0; i < tokens; i++) {
        bool same = i > 0 && sequence[i] == sequence[i - 1];
        work->segment[i] = same ? work->segment[i - 1] : place_of_id(work->ids, count, sequence[i]);
    }
    return (int)count;
}

// ------------------------------------------------------------------ evaluate

static enum mt_status check_arrays(struct mt_device *device, const struct mt_objective_arrays *arrays,
                                   const struct mt_objective_results *results)
{
    struct mt_context *ctx = mt_device_context(device);
    enum mt_status status = mt_given(NULL, "mt_objective_evaluate", "device", device);
    if (status == MT_OK) status = mt_given(ctx, "mt_objective_evaluate", "arrays", arrays);
    if (status == MT_OK) status = mt_given(ctx, "mt_objective_evaluate", "results", results);
    if (status != MT_OK) return status;
    if (!mt_device_on_host(device)) {
        return mt_fail(ctx, MT_ERR_UNSUPPORTED, "evaluate needs host memory, which device %s does not use",
                       mt_device_name(device));
    }
    if (arrays->tokens < 0 || arrays->experts < 1 || arrays->width < 0) {
        return mt_fail(ctx, MT_ERR_USAGE, "evaluate: %" PRId64 " tokens, %d experts, width %" PRId64,
                       arrays->tokens, arrays->experts, arrays->width);
    }
    if (arrays->logits == NULL && arrays->tokens > 0) {
        return mt_fail(ctx, MT_ERR_USAGE, "evaluate: logits are missing");
    }
    bool wide = arrays->expert_outputs != NULL || arrays->router_weight != NULL;
    if (wide && arrays->width == 0) {
        return mt_fail(ctx, MT_ERR_USAGE, "evaluate: the width is 0, but there are arrays of that width");
    }
    if (results->dexpert_outputs != NULL && arrays->expert_outputs == NULL) {
        return mt_fail(ctx, MT_ERR_USAGE, "evaluate: dexpert_outputs is wanted, expert_outputs is missing");
    }
    if (results->drouter_weight != NULL && arrays->router_weight == NULL) {
        return mt_fail(ctx, MT_ERR_USAGE, "evaluate: drouter_weight is wanted, router_weight is missing");
    }
    return MT_OK;
}

/* A view of an array that is only read, whatever its type says; absent for NULL. */
static struct mt_tensor view_2d(const void *data, int64_t rows, int64_t columns)
{
    return data != NULL ? mt_tensor_2d((void *)data, MT_F32, rows, columns) : (struct mt_tensor){0};
}

static struct mt_evaluation_inputs inputs_of(const struct mt_objective_arrays *arrays, int slots,
                                             const struct workspace *work)
{
    int64_t tokens = arrays->tokens;
    struct mt_evaluation_inputs inputs = {
        .logits = mt_tensor_2d((void *)arrays->logits, MT_F32, tokens, arrays->experts),
        .expert_outputs = view_2d(arrays->expert_outputs, tokens * slots, arrays->width),
        .segments = 1,
        .router_weight = view_2d(arrays->router_weight, arrays->experts, arrays->width),
    };
    if (arrays->mask != NULL) inputs.mask = mt_tensor_1d((void *)arrays->mask, MT_I32, tokens);
    if (arrays->router_bias != NULL) {
        inputs.bias = mt_tensor_1d((void *)arrays->router_bias, MT_F32, arrays->experts);
    }
    if (arrays->sequence != NULL && tokens > 0) {
        inputs.segments = number_sequences(arrays->sequence, tokens, work);
        inputs.segment = mt_tensor_1d(work->segment, MT_I32, tokens);
    }
    return inputs;
}

static void copy_results(const struct mt_evaluation *evaluation, struct mt_objective_results *results)
{
    const struct mt_layer_report *report = mt_objective_layer(evaluation->objective, 0);
    results->report = *report;
    results->report.load = NULL;
    results->report.measured = NULL;
    memcpy(results->loss, report->loss, sizeof results->loss);
    memcpy(results->weight, report->weight, sizeof results->weight);
    size_t experts = (size_t)evaluation->record.experts;
    size_t pairs = (size_t)(evaluation->record.tokens * evaluation->record.slots);
    if (results->warnings != NULL) {
        mt_objective_warnings(evaluation->objective, &(struct mt_task_norms){0}, results->warnings,
                              results->warnings_bytes);
    }
    if (results->load != NULL) memcpy(results->load, report->load, experts * sizeof(double));
    if (results->measured != NULL) {
        size_t count = mt_selection_measures(&evaluation->objective->config, (int)experts);
        memcpy(results->measured, report->measured, count * sizeof(double));
    }
    if (pairs == 0) return;
    if (results->expert != NULL)
        memcpy(results->expert, evaluation->record.expert.data, pairs * sizeof(int32_t));
    if (results->slot_weight != NULL) {
        memcpy(results->slot_weight, evaluation->record.weight.data, pairs * sizeof(float));
    }
}

static enum mt_status evaluate_in(struct mt_device *device, const struct mt_objective_config *config,
                                  const struct mt_router_config *router,
                                  const struct mt_objective_arrays *arrays,
                                  struct mt_objective_results *results, void *scratch)
{
    struct mt_evaluation_sizes sizes = sizes_of(arrays);
    size_t misfit = (size_t)((uintptr_t)scratch % ALIGNMENT);
    struct mt_carver carver = {.memory = (unsigned char *)scratch + (misfit == 0 ? 0 : ALIGNMENT - misfit)};
    struct workspace work = lay_out(arrays, mt_evaluation_bytes(config, router, &sizes), &carver);
    struct mt_evaluation evaluation;
    enum mt_status status = mt_evaluation_place(device, config, router, &sizes, work.evaluation, &evaluation);
    if (status != MT_OK) return status;
    struct mt_evaluation_inputs inputs = inputs_of(arrays, router->slots, &work);
    status = mt_evaluation_forward(&evaluation, &inputs, &results->total);
    if (status != MT_OK) return status;
    copy_results(&evaluation, results);
    if (results->dlogits == NULL && results->dexpert_outputs == NULL && results->drouter_weight == NULL) {
        return MT_OK;
    }
    float *dlogits = results->dlogits != NULL ? results->dlogits : work.dlogits;
    struct mt_evaluation_gradients gradients = {
        .dlogits = mt_tensor_2d(dlogits, MT_F32, arrays->tokens, arrays->experts),
        .dexpert_outputs = view_2d(results->dexpert_outputs, arrays->tokens * router->slots, arrays->width),
        .drouter_weight = view_2d(results->drouter_weight, arrays->experts, arrays->width),
    };
    return mt_evaluation_backward(&evaluation, &inputs, &gradients);
}

enum mt_status mt_objective_evaluate(struct mt_device *device, const struct mt_objective_config *config,
                                     const struct mt_router_config *router,
                                     const struct mt_objective_arrays *arrays,
                                     struct mt_objective_results *results, void *scratch,
                                     size_t scratch_bytes)
{
    struct mt_context *ctx = mt_device_context(device);
    enum mt_status status = check_arrays(device, arrays, results);
    if (status == MT_OK) status = mt_given(ctx, "mt_objective_evaluate", "config", config);
    if (status == MT_OK) status = mt_given(ctx, "mt_objective_evaluate", "router", router);
    if (status != MT_OK) return status;
    size_t needed = mt_objective_evaluate_bytes(config, router, arrays);
    if (needed == 0) {
        // Something cannot be: place() says what, before it touches any memory.
        struct mt_evaluation_sizes sizes = sizes_of(arrays);
        struct mt_evaluation evaluation;
        return mt_evaluation_place(device, config, router, &sizes, NULL, &evaluation);
    }
    if (scratch != NULL && scratch_bytes < needed) {
        return mt_fail(ctx, MT_ERR_USAGE, "evaluate: %zu bytes of scratch, %zu are needed", scratch_bytes,
                       needed);
    }
    if (scratch != NULL) return evaluate_in(device, config, router, arrays, results, scratch);
    void *own = NULL;
    status = mt_allocate(ctx, needed, &own);
    if (status != MT_OK) return mt_fail_within(ctx, status, "evaluate");
    status = evaluate_in(device, config, router, arrays, results, own);
    mt_release(ctx, own, needed);
    return status;
}
