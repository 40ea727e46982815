/* Taking records in. What a record holds is brought to the host once; sums are made there, in double. */
#include "analysis/collector/collector.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "analysis/collector/collector_sums.h"
#include "objective/loads.h"
#include "tensor/dtype.h"

#define MOST_LAYERS  65536
#define MOST_EXPERTS 65535 // choices are kept in 16 bits

// ------------------------------------------------------------------ groups of tokens

static enum mt_status take_arrays(struct mt_collector *collector)
{
    struct mt_context *ctx = collector->ctx;
    size_t layers = (size_t)collector->options.layers;
    size_t n = (size_t)collector->options.experts;
    size_t groups = (size_t)collector->options.groups;
    void *memory[4] = {NULL};
    enum mt_status status = mt_allocate_array(ctx, layers * MT_LAYER_ARRAYS * n, sizeof(double), &memory[0]);
    if (status == MT_OK)
        status = mt_allocate_array(ctx, layers * MT_LAYER_SUMS * n, sizeof(struct mt_any_order), &memory[1]);
    if (status == MT_OK && groups > 0)
        status = mt_allocate_array(ctx, layers * groups, sizeof(int64_t), &memory[2]);
    if (status == MT_OK && groups > 0)
        status = mt_allocate_array(ctx, layers * n * groups, sizeof(uint32_t), &memory[3]);
    collector->numbers = memory[0];
    collector->sums = memory[1];
    collector->group_tokens = memory[2];
    collector->group_loads = memory[3];
    return status;
}

static void free_arrays(struct mt_collector *collector)
{
    struct mt_context *ctx = collector->ctx;
    size_t layers = (size_t)collector->options.layers;
    size_t n = (size_t)collector->options.experts;
    size_t groups = (size_t)collector->options.groups;
    mt_release(ctx, collector->numbers, layers * MT_LAYER_ARRAYS * n * sizeof(double));
    mt_release(ctx, collector->sums, layers * MT_LAYER_SUMS * n * sizeof(struct mt_any_order));
    mt_release(ctx, collector->group_tokens, layers * groups * sizeof(int64_t));
    mt_release(ctx, collector->group_loads, layers * groups * n * sizeof(uint32_t));
}

void mt_collector_name(struct mt_collector *collector, const struct mt_token_names *names)
{
    collector->named = names != NULL;
    collector->names = names != NULL ? *names : (struct mt_token_names){0};
}

static void count_group(struct mt_collector *collector, struct mt_layer_sums *layer, int64_t token,
                        const int32_t *expert)
{
    int64_t group = collector->names.group[token];
    uint32_t *load = layer->group_load + group * collector->options.experts;
    for (int s = 0; s < collector->options.slots; s++) {
        if (expert[s] >= 0) load[expert[s]]++;
    }
    layer->group_tokens[group]++;
}

void mt_collector_batches(const struct mt_collector *collector, const struct mt_layer_sums *layer,
                          double *work, struct mt_batch_sums *sums)
{
    const struct mt_collector_options *options = &collector->options;
    size_t n = (size_t)options->experts;
    int64_t tokens = 0;
    *sums = (struct mt_batch_sums){.batches = layer->batch.batches,
                                   .violation = layer->batch.violation,
                                   .violation_code = layer->batch.violation_code};
    memset(work, 0, n * sizeof *work);
    for (int64_t g = 0; g < options->groups; g++) {
        const uint32_t *load = layer->group_load + (size_t)g * n;
        if (layer->group_tokens[g] == 0) continue;
        for (size_t j = 0; j < n; j++) work[j] += (double)load[j];
        tokens += layer->group_tokens[g];
        if (tokens < options->batch_tokens) continue;
        struct mt_load_figures figures;
        mt_load_judge(work, options->experts, &figures);
        sums->batches++;
        sums->violation += figures.max_violation;
        sums->violation_code += figures.max_violation_code;
        memset(work, 0, n * sizeof *work);
        tokens = 0;
    }
}

// ------------------------------------------------------------------ creation

static enum mt_status check_options(struct mt_context *ctx, const struct mt_collector_options *options)
{
    if (options->layers < 1 || options->layers > MOST_LAYERS || options->experts < 1 ||
        options->experts > MOST_EXPERTS || options->slots < 1 || options->slots > options->experts) {
        return mt_fail(ctx, MT_ERR_USAGE, "invalid collector: %d layers, %d of %d experts per token",
                       options->layers, options->slots, options->experts);
    }
    if (options->width < 0 || options->width > INT32_MAX || options->inputs < 0 || options->outputs < 0 ||
        options->inputs > INT32_MAX || options->outputs > INT32_MAX || options->choices < 0 ||
        options->choices > INT64_MAX / 65536 || options->batch_tokens < 0 || options->groups < 0 ||
        options->groups > INT32_MAX) {
        return mt_fail(ctx, MT_ERR_USAGE,
                       "invalid collector: it keeps %" PRId64 " inputs and the outputs of %" PRId64
                       " tokens of width %" PRId64,
                       options->inputs, options->outputs, options->width);
    }
    return MT_OK;
}

int64_t mt_collector_output_width(const struct mt_collector_options *options)
{
    if (options->outputs == 0) return 0;
    return options->slots * (options->grams ? options->slots : options->width);
}

static enum mt_status open_layer(struct mt_collector *collector, int index)
{
    const struct mt_collector_options *options = &collector->options;
    struct mt_layer_sums *layer = &collector->layer[index];
    size_t n = (size_t)options->experts;
    size_t groups = (size_t)options->groups;
    double *numbers = collector->numbers + (size_t)index * MT_LAYER_ARRAYS * n;
    struct mt_any_order *sums = collector->sums + (size_t)index * MT_LAYER_SUMS * n;
    layer->number = options->number != NULL ? options->number[index] : index;
    layer->load = numbers;
    layer->first = numbers + n;
    layer->batch.load = numbers + 2 * n;
    layer->variance.score = sums;
    layer->variance.share = sums + n;
    layer->variance.weight = sums + 2 * n;
    layer->variance.weight_square = sums + 3 * n;
    layer->score = sums + 4 * n;
    if (groups > 0) {
        layer->group_tokens = collector->group_tokens + (size_t)index * groups;
        layer->group_load = collector->group_loads + (size_t)index * groups * n;
    }
    enum mt_status status = MT_OK;
    if (options->width > 0 && options->inputs > 0) {
        status =
            mt_sample_open(collector->ctx, options->inputs, options->width, options->slots, &layer->inputs);
    }
    int64_t output_width = mt_collector_output_width(options);
    if (status == MT_OK && output_width > 0) {
        status =
            mt_sample_open(collector->ctx, options->outputs, output_width, options->slots, &layer->outputs);
    }
    if (status != MT_OK || options->choices == 0) return status;
    void *choices = NULL;
    status = mt_allocate_array(collector->ctx, (size_t)options->choices,
                               (size_t)options->slots * sizeof(uint16_t), &choices);
    layer->choices = choices;
    return status;
}

enum mt_status mt_collector_create(struct mt_device *device, const struct mt_collector_options *options,
                                   struct mt_collector **collector)
{
    struct mt_context *ctx = mt_device_context(device);
    void *memory = NULL;
    void *layers = NULL;
    *collector = NULL;
    enum mt_status status = check_options(ctx, options);
    if (status == MT_OK) status = mt_allocate_array(ctx, 1, sizeof **collector, &memory);
    if (status != MT_OK) return status;
    struct mt_collector *made = memory;
    size_t count = (size_t)options->layers;
    *made = (struct mt_collector){.device = device, .ctx = ctx, .options = *options};
    status = mt_allocate_array(ctx, count, sizeof *made->layer, &layers);
    made->layer = layers;
    if (status == MT_OK) status = take_arrays(made);
    for (int i = 0; status == MT_OK && i < options->layers; i++) status = open_layer(made, i);
    made->options.number = NULL; // the caller's; copied layer by layer
    if (status != MT_OK) {
        mt_collector_destroy(made);
        return mt_fail_within(ctx, status, "what the collector of routing figures keeps");
    }
    *collector = made;
    return MT_OK;
}

void mt_collector_destroy(struct mt_collector *collector)
{
    if (collector == NULL) return;
    struct mt_context *ctx = collector->ctx;
    const struct mt_collector_options *options = &collector->options;
    size_t layers = (size_t)options->layers;
    for (size_t i = 0; collector->layer != NULL && i < layers; i++) {
        struct mt_layer_sums *layer = &collector->layer[i];
        mt_sample_close(&layer->inputs);
        mt_sample_close(&layer->outputs);
        mt_release(ctx, layer->choices, (size_t)options->choices * (size_t)options->slots * sizeof(uint16_t));
    }
    mt_release(ctx, collector->layer, layers * sizeof *collector->layer);
    free_arrays(collector);
    mt_release(ctx, collector->scratch, collector->scratch_bytes);
    mt_score_room_free(collector);
    mt_release(ctx, collector, sizeof *collector);
}

// ------------------------------------------------------------------ a record on the host

struct host_record {
    int64_t tokens;
    int32_t *mask;        // [N]; NULL: all count
    int32_t *expert;      // [N,k]
    int32_t *chosen;      // [N,k]
    int32_t *row_of_slot; // [N,k]; NULL: no outputs are kept
    float *probs;         // [N,n]
    float *weight;        // [N,k]
    float *gram;          // [N,k,k]; NULL: there is none
    struct mt_score_facts scores;
    void *raw;     // numbers of another type on their way
    float *vector; // [d]
};

/* The next bytes of the scratch; with base NULL they are only counted. */
static void *carve(unsigned char *base, size_t *used, size_t count, size_t size)
{
    void *memory = base != NULL ? base + *used : NULL;
    *used += (count * size + 63) / 64 * 64;
    return memory;
}

static size_t lay_out(const struct mt_collector *collector, const struct mt_routing *record,
                      unsigned char *base, struct host_record *host)
{
    size_t tokens = (size_t)record->tokens;
    size_t n = (size_t)collector->options.experts;
    size_t k = (size_t)collector->options.slots;
    size_t width = (size_t)collector->options.width;
    size_t largest = n > k * k ? n : k * k;
    size_t used = 0;
    *host = (struct host_record){.tokens = record->tokens};
    if (mt_tensor_present(&record->mask)) host->mask = carve(base, &used, tokens, sizeof(int32_t));
    host->expert = carve(base, &used, tokens * k, sizeof(int32_t));
    host->chosen = carve(base, &used, tokens * k, sizeof(int32_t));
    host->row_of_slot = carve(base, &used, tokens * k, sizeof(int32_t));
    host->probs = carve(base, &used, tokens * n, sizeof(float));
    host->weight = carve(base, &used, tokens * k, sizeof(float));
    if (mt_tensor_present(&record->gram)) host->gram = carve(base, &used, tokens * k * k, sizeof(float));
    host->raw = carve(base, &used, tokens * largest > width ? tokens * largest : width, sizeof(double));
    host->vector = carve(base, &used, width, sizeof(float));
    return used;
}

static enum mt_status make_room(struct mt_collector *collector, const struct mt_routing *record,
                                struct host_record *host)
{
    size_t bytes = lay_out(collector, record, NULL, host);
    if (bytes > collector->scratch_bytes) {
        mt_release(collector->ctx, collector->scratch, collector->scratch_bytes);
        collector->scratch = NULL;
        collector->scratch_bytes = 0;
        enum mt_status status = mt_allocate(collector->ctx, bytes, &collector->scratch);
        if (status != MT_OK) return status;
        collector->scratch_bytes = bytes;
    }
    (void)lay_out(collector, record, collector->scratch, host);
    return MT_OK;
}

static enum mt_status fetch(struct mt_collector *collector, const struct mt_tensor *tensor, void *target)
{
    if (!mt_tensor_is_contiguous(tensor))
        return mt_fail(collector->ctx, MT_ERR_SHAPE, "a routing record's tensor has gaps");
    return mt_device_download(collector->device, target, tensor->data,
                              (size_t)mt_tensor_count(tensor) * mt_dtype_bytes(tensor->dtype));
}

/* The same as f32, whatever the type; `raw` has room for it. */
static enum mt_status fetch_floats(struct mt_collector *collector, const struct mt_tensor *tensor, void *raw,
                                   float *target)
{
    if (tensor->dtype == MT_F32) return fetch(collector, tensor, target);
    enum mt_status status = fetch(collector, tensor, raw);
    if (status != MT_OK) return status;
    int64_t count = mt_tensor_count(tensor);
    for (int64_t i = 0; i < count; i++) target[i] = (float)mt_load(tensor->dtype, raw, i);
    return MT_OK;
}

static enum mt_status fetch_record(struct mt_collector *collector, const struct mt_routing *record,
                                   bool outputs, struct host_record *host)
{
    enum mt_status status = make_room(collector, record, host);
    if (status == MT_OK && host->mask != NULL) status = fetch(collector, &record->mask, host->mask);
    if (status == MT_OK) status = fetch(collector, &record->expert, host->expert);
    if (status == MT_OK) status = fetch(collector, &record->chosen, host->chosen);
    if (status == MT_OK && outputs) status = fetch(collector, &record->row_of_slot, host->row_of_slot);
    if (status == MT_OK) status = fetch_floats(collector, &record->probs, host->raw, host->probs);
    if (status == MT_OK) status = fetch_floats(collector, &record->weight, host->raw, host->weight);
    if (status == MT_OK && host->gram != NULL)
        status = fetch_floats(collector, &record->gram, host->raw, host->gram);
    return status;
}

static enum mt_status check_record(const struct mt_collector *collector, int moe_layer,
                                   const struct mt_routing *record, const struct mt_tensor *input)
{
    const struct mt_collector_options *options = &collector->options;
    if (moe_layer < 0 || moe_layer >= options->layers || record->experts != options->experts ||
        record->slots != options->slots || record->tokens < 0) {
        return mt_fail(collector->ctx, MT_ERR_SHAPE,
                       "the record of layer %d has %d of %d experts per token, but the collector expects %d "
                       "layers with %d of %d",
                       moe_layer, record->slots, record->experts, options->layers, options->slots,
                       options->experts);
    }
    if (input != NULL && options->width > 0 &&
        (input->rank != 2 || input->dim[0] != record->tokens || input->dim[1] != options->width)) {
        return mt_fail(collector->ctx, MT_ERR_SHAPE,
                       "the input of layer %d is not [%" PRId64 ", %" PRId64 "]", moe_layer, record->tokens,
                       options->width);
    }
    if (collector->named && collector->names.tokens != record->tokens) {
        return mt_fail(collector->ctx, MT_ERR_SHAPE,
                       "the record has %" PRId64 " tokens, but %" PRId64 " have names", record->tokens,
                       collector->names.tokens);
    }
    return MT_OK;
}

static enum mt_status check_experts(const struct mt_collector *collector, const struct host_record *host)
{
    int64_t slots = host->tokens * collector->options.slots;
    for (int64_t i = 0; i < slots; i++) {
        int32_t expert = host->expert[i];
        int32_t chosen = host->chosen[i];
        if (expert >= -1 && expert < collector->options.experts && chosen >= 0 &&
            chosen < collector->options.experts)
            continue;
        return mt_fail(collector->ctx, MT_ERR_SHAPE,
                       "a routing record names expert %" PRId32 ", but there are only %d",
                       expert < -1 || expert >= collector->options.experts ? expert : chosen,
                       collector->options.experts);
    }
    return MT_OK;
}

// ------------------------------------------------------------------ one token

double mt_cosine_of_gram(const double *gram, int slots)
{
    double sum = 0.0;
    for (int a = 0; a < slots; a++) {
        for (int b = 0; b < a; b++) {
            double lengths = gram[a * slots + a] * gram[b * slots + b];
            if (lengths > 0.0) sum += fmin(1.0, fabs(gram[a * slots + b]) / sqrt(lengths));
        }
    }
    return 2.0 * sum / ((double)slots * (slots - 1));
}

static bool all_served(const int32_t *expert, int slots)
{
    for (int s = 0; s < slots; s++) {
        if (expert[s] < 0) return false;
    }
    return true;
}

static void add_cosine(struct mt_layer_sums *layer, const float *gram, int slots, double *work)
{
    for (int i = 0; i < slots * slots; i++) work[i] = (double)gram[i];
    double cosine = mt_cosine_of_gram(work, slots);
    layer->cosine.tokens++;
    mt_any_order_add(&layer->cosine.sum, cosine);
    mt_any_order_add(&layer->cosine.squares, cosine * cosine);
}

/* The number of a token of the record at hand among all. */
static int64_t number_of(const struct mt_collector *collector, const struct mt_layer_sums *layer,
                         int64_t token)
{
    return collector->named ? collector->names.number[token] : layer->tokens;
}

static void keep_choices(const struct mt_collector *collector, struct mt_layer_sums *layer, int64_t number,
                         const int32_t *chosen)
{
    int k = collector->options.slots;
    if (number >= collector->options.choices) return;
    uint16_t *choices = layer->choices + number * k;
    for (int s = 0; s < k; s++) choices[s] = (uint16_t)chosen[s];
    if (layer->choice_count <= number) layer->choice_count = number + 1;
}

/* Whether the record's Gram matrices are those of all tokens, and not only of those that are kept. */
static bool compares_all(const struct mt_collector *collector, const struct host_record *host)
{
    return host->gram != NULL && !collector->options.grams && collector->options.slots > 1;
}

static void add_sums(struct mt_collector *collector, struct mt_layer_sums *layer,
                     const struct host_record *host, int64_t token)
{
    int n = collector->options.experts;
    int k = collector->options.slots;
    const int32_t *expert = host->expert + token * k;
    const int32_t *chosen = host->chosen + token * k;
    bool grouped = collector->named && collector->options.groups > 0;
    for (int s = 0; s < k; s++) {
        if (expert[s] < 0) continue;
        layer->load[expert[s]] += 1.0;
        if (!grouped) layer->batch.load[expert[s]] += 1.0;
    }
    if (grouped) count_group(collector, layer, token, expert);
    if (!grouped) layer->batch.tokens++;
    layer->first[chosen[0]] += 1.0;
    mt_variance_add(&layer->variance, n, host->probs + token * n, k, expert, host->weight + token * k);
    if (compares_all(collector, host) && all_served(expert, k))
        add_cosine(layer, host->gram + token * k * k, k, host->raw);
    if (collector->options.scores != 0)
        mt_scores_add(&collector->options, layer, &host->scores, token, expert, host->weight + token * k);
    keep_choices(collector, layer, number_of(collector, layer, token), chosen);
}

/* One row of a device's matrix, as f32. */
static enum mt_status fetch_row(struct mt_collector *collector, const struct mt_tensor *matrix, int64_t row,
                                void *raw, float *target)
{
    struct mt_tensor one = mt_tensor_rows(matrix, row, 1);
    return fetch_floats(collector, &one, raw, target);
}

/* Whether the record has what is kept of outputs. */
static bool has_outputs(const struct mt_collector *collector, const struct mt_layer_sums *layer,
                        const struct mt_routing *record)
{
    const struct mt_tensor *source = collector->options.grams ? &record->gram : &record->rows;
    return layer->outputs.ctx != NULL && mt_tensor_present(source);
}

static enum mt_status keep_vectors(struct mt_collector *collector, struct mt_layer_sums *layer,
                                   const struct mt_routing *record, const struct mt_tensor *input,
                                   const struct host_record *host, int64_t token)
{
    int k = collector->options.slots;
    int64_t width = collector->options.width;
    size_t experts_bytes = (size_t)k * sizeof(int32_t);
    uint64_t number = mt_sample_number(collector->options.seed, collector->options.stream,
                                       number_of(collector, layer, token));
    int64_t place = input != NULL && layer->inputs.ctx != NULL ? mt_sample_place(&layer->inputs, number) : -1;
    if (place >= 0) {
        memcpy(layer->inputs.experts + place * k, host->chosen + token * k, experts_bytes);
        enum mt_status status =
            fetch_row(collector, input, token, host->raw, layer->inputs.vectors + place * width);
        if (status != MT_OK) return status;
    }
    bool outputs = has_outputs(collector, layer, record) && all_served(host->expert + token * k, k);
    place = outputs ? mt_sample_place(&layer->outputs, number) : -1;
    if (place < 0) return MT_OK;
    memcpy(layer->outputs.experts + place * k, host->expert + token * k, experts_bytes);
    if (collector->options.grams) {
        size_t matrix = (size_t)k * (size_t)k; // elements
        memcpy(layer->outputs.vectors + (size_t)place * matrix, host->gram + (size_t)token * matrix,
               matrix * sizeof(float));
        return MT_OK;
    }
    for (int s = 0; s < k; s++) {
        float *target = layer->outputs.vectors + (place * k + s) * width;
        enum mt_status status =
            fetch_row(collector, &record->rows, host->row_of_slot[token * k + s], host->raw, target);
        if (status != MT_OK) return status;
    }
    return MT_OK;
}

// ------------------------------------------------------------------ a batch

/* Judges the batch of MaxVio_batch if it is whole. */
static void end_batch(struct mt_collector *collector, struct mt_layer_sums *layer)
{
    struct mt_batch_loads *batch = &layer->batch;
    struct mt_load_figures figures;
    if (batch->tokens == 0 || batch->tokens < collector->options.batch_tokens) return;
    mt_load_judge(batch->load, collector->options.experts, &figures);
    batch->violation += figures.max_violation;
    batch->violation_code += figures.max_violation_code;
    batch->batches++;
    batch->tokens = 0;
    memset(batch->load, 0, (size_t)collector->options.experts * sizeof *batch->load);
}

static bool counts(const struct mt_collector *collector, const struct host_record *host, int64_t token)
{
    const int32_t *named = collector->named ? collector->names.mask : NULL;
    return (host->mask == NULL || host->mask[token] != 0) && (named == NULL || named[token] != 0);
}

/* Takes a record that is on the host, but for rows and input. */
static enum mt_status take(struct mt_collector *collector, struct mt_layer_sums *layer,
                           const struct mt_routing *record, const struct mt_tensor *input,
                           const struct host_record *host)
{
    bool vectors = has_outputs(collector, layer, record) || (input != NULL && layer->inputs.ctx != NULL);
    enum mt_status status = check_experts(collector, host);
    for (int64_t token = 0; status == MT_OK && token < host->tokens; token++) {
        if (!counts(collector, host, token)) continue;
        if (vectors) status = keep_vectors(collector, layer, record, input, host, token);
        add_sums(collector, layer, host, token);
        layer->tokens++;
    }
    end_batch(collector, layer);
    return status;
}

enum mt_status mt_collector_add(struct mt_collector *collector, int moe_layer,
                                const struct mt_routing *record, const struct mt_tensor *input)
{
    struct host_record host;
    enum mt_status status = check_record(collector, moe_layer, record, input);
    if (status != MT_OK || record->tokens == 0) return status;
    struct mt_layer_sums *layer = &collector->layer[moe_layer];
    bool rows = !collector->options.grams && has_outputs(collector, layer, record);
    status = fetch_record(collector, record, rows, &host);
    if (status == MT_OK) status = mt_scores_fetch(collector, record, &host.scores);
    return status == MT_OK ? take(collector, layer, record, input, &host) : status;
}

enum mt_status mt_collector_add_host(struct mt_collector *collector, int moe_layer,
                                     const struct mt_routing *record)
{
    enum mt_status status = check_record(collector, moe_layer, record, NULL);
    if (status != MT_OK || record->tokens == 0) return status;
    if (!collector->options.grams || record->probs.dtype != MT_F32)
        return mt_fail(collector->ctx, MT_ERR_USAGE,
                       "a record on the host must have Gram matrices and be all f32");
    struct host_record host = {.tokens = record->tokens,
                               .mask = record->mask.data,
                               .expert = record->expert.data,
                               .chosen = record->chosen.data,
                               .probs = record->probs.data,
                               .weight = record->weight.data,
                               .gram = record->gram.data,
                               .scores.grams = record->gram.data};
    return take(collector, &collector->layer[moe_layer], record, NULL, &host);
}

// ------------------------------------------------------------------ merging

static void merge_cosine(struct mt_cosine_sums *sums, const struct mt_cosine_sums *other)
{
    sums->tokens += other->tokens;
    mt_any_order_merge(&sums->sum, &other->sum);
    mt_any_order_merge(&sums->squares, &other->squares);
}

void mt_output_sums_merge(struct mt_output_sums *sums, const struct mt_output_sums *other)
{
    merge_cosine(&sums->cosine, &other->cosine);
    mt_any_order_merge(&sums->lengths, &other->lengths);
    sums->outputs += other->outputs;
}

static void merge_layer(const struct mt_collector_options *options, struct mt_layer_sums *layer,
                        const struct mt_layer_sums *other, const struct mt_batch_sums *batches)
{
    layer->tokens += other->tokens;
    for (int j = 0; j < options->experts; j++) {
        layer->load[j] += other->load[j];
        layer->first[j] += other->first[j];
    }
    mt_variance_merge(&layer->variance, options->experts, &other->variance);
    for (int i = 0; i < MT_EXPERT_SCORES; i++) layer->scored[i] += other->scored[i];
    for (int i = 0; i < MT_EXPERT_SCORES * options->experts; i++)
        mt_any_order_merge(&layer->score[i], &other->score[i]);
    layer->batch.batches += batches->batches;
    layer->batch.violation += batches->violation;
    layer->batch.violation_code += batches->violation_code;
    merge_cosine(&layer->cosine, &other->cosine);
    mt_output_sums_merge(&layer->earlier, &other->earlier);
    if (layer->inputs.ctx != NULL && other->inputs.ctx != NULL)
        mt_sample_merge(&layer->inputs, &other->inputs);
    if (layer->outputs.ctx != NULL && other->outputs.ctx != NULL)
        mt_sample_merge(&layer->outputs, &other->outputs);
    int64_t room = options->choices - layer->choice_count;
    int64_t taken = other->choice_count < room ? other->choice_count : room;
    if (taken <= 0) return;
    memcpy(layer->choices + layer->choice_count * options->slots, other->choices,
           (size_t)(taken * options->slots) * sizeof *layer->choices);
    layer->choice_count += taken;
}

enum mt_status mt_collector_merge(struct mt_collector *collector, const struct mt_collector *other)
{
    const struct mt_collector_options *a = &collector->options;
    const struct mt_collector_options *b = &other->options;
    if (a->layers != b->layers || a->experts != b->experts || a->slots != b->slots || a->width != b->width ||
        a->grams != b->grams) {
        return mt_fail(collector->ctx, MT_ERR_SHAPE,
                       "cannot merge two collectors: one has %d layers with %d of %d experts, the other %d "
                       "with %d of %d",
                       a->layers, a->slots, a->experts, b->layers, b->slots, b->experts);
    }
    void *work = NULL;
    size_t n = (size_t)a->experts;
    enum mt_status status = mt_allocate_array(collector->ctx, n, sizeof(double), &work);
    for (int i = 0; status == MT_OK && i < a->layers; i++) {
        struct mt_batch_sums batches;
        mt_collector_batches(other, &other->layer[i], work, &batches);
        merge_layer(a, &collector->layer[i], &other->layer[i], &batches);
    }
    mt_release(collector->ctx, work, n * sizeof(double));
    return status;
}

// ------------------------------------------------------------------ what was kept

static void show(const struct mt_vector_sample *sample, struct mt_kept_vectors *kept)
{
    *kept = (struct mt_kept_vectors){.count = sample->count,
                                     .width = sample->width,
                                     .vectors = sample->vectors,
                                     .experts = sample->experts};
}

void mt_collector_inputs(struct mt_collector *collector, int moe_layer, struct mt_kept_vectors *kept)
{
    show(&collector->layer[moe_layer].inputs, kept);
}

const uint16_t *mt_collector_choices(const struct mt_collector *collector, int moe_layer, int64_t *count)
{
    *count = collector->layer[moe_layer].choice_count;
    return collector->layer[moe_layer].choices;
}
