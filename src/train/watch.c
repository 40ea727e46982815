/*
 * What the routers did in one optimizer step.
 *
 * The device makes sums (column_stats, slot_stats in double) of every layer of a micro-batch, one download
 * brings them here, and plain additions make the step's. With Σs and Σs² over the N unmasked tokens i of all
 * micro-batches:
 *
 *     variance_expert   1/n Σ_j [ Σ_i s_ij² / N - (Σ_i s_ij / N)² ]                 s: weights, or scores P
 *     variance_token    1/N Σ_i [ Σ_j P_ij² - (Σ_j P_ij)² / n ] / (n-1)
 *     effective_experts 1 / [ 1/N Σ_i Σ_j w_ij² ]    w_ij = s_ij / Σ_m s_im, before slots are dropped
 *     effective_scores  1 / [ 1/N Σ_i Σ_j p_ij² ]    p_ij = P_ij / Σ_m P_im
 *
 * The model's are means over layers; the two effective numbers are the inverse of the mean of what is in
 * brackets, so that layers that use one expert are not hidden behind others.
 */
#include "train/watch.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "metier/buffer.h"
#include "objective/loads.h"

/* Where a layer's numbers lie, as made by the device and as added up: [stride] doubles. */
struct numbers {
    size_t load;        // [n]
    size_t topk_sum;    // [n]
    size_t topk_square; // [n]
    size_t full_sum;    // [n]
    size_t full_square; // [n]
    size_t row_squares; // [1]
    size_t shares;      // [k] Σ_i w_ij² by slot, w a token's weights over their sum
    size_t scores;      // [n] Σ_i p_ij², p a token's scores over their sum
    size_t by_source;   // [sources,n] loads of each source
    size_t agreed;      // [2] given slots that the router chose itself, given slots
    size_t rows;        // [1] unmasked tokens
    size_t sent;        // [1] rows that went to another rank; made on the host
    size_t measured;    // [mt_selection_measures]: of the objective's reports
    size_t stride;
};

/* A term of a layer, added up over micro-batches with their shares. */
struct term_sums {
    double loss, weight, weighted;
    double gradient;         // Σ share · norm
    double gradient_squares; // Σ (share · norm)²
    bool measured;           // in every micro-batch
};

#define SOURCES_MOST 64 // more are not told apart
#define TERM_NUMBERS 5  // of a term_sums

struct mt_watch {
    struct mt_device *device; // borrowed
    struct mt_context *ctx;   // borrowed
    size_t layers;
    int experts, slots;
    int64_t tokens;         // N of a micro-batch at the most
    bool on[MT_TERM_COUNT]; // by their coefficients
    struct numbers at;
    struct mt_buffer device_numbers; // [layers,stride]
    int sources;                     // told apart; 0: none
    struct mt_buffer token_sources;  // i32 [tokens], on the device; empty without sources
    void *segment;                   // what the micro-batch says of its tokens: these, or NULL
    bool *member;                    // [sources,n], to work with
    double *by_product;              // [n], on the device: sums nobody asks for
    double *fetched;                 // [layers,stride]: of one micro-batch
    double *step;                    // [layers,stride]: of the step
    double *running;                 // [layers,n]: loads of all steps
    struct term_sums *terms;         // [layers,MT_TERM_COUNT]
    double *shared; // [layers,MT_TERM_COUNT,TERM_NUMBERS] and the two sums below, to be shared
    struct mt_layer_record *records; // [layers]
    const struct mt_routing **views; // [layers], for mt_watch_model
    size_t micro_batches;            // of the step, so far
    size_t varied;                   // among them those looked at for variances
    double shares;                   // Σ of the step
    double unmasked;                 // tokens of the step
    bool spread;                     // experts are: rows are sent
    size_t bytes;                    // of the block this struct begins
};

// ------------------------------------------------------------------ creation

static struct numbers place_numbers(int experts, int slots, int sources, size_t measured)
{
    size_t n = (size_t)experts;
    size_t k = (size_t)slots;
    size_t first = 5 * n + 1; // behind row_squares
    size_t agreed = first + k + n + (size_t)sources * n;
    return (struct numbers){.load = 0,
                            .topk_sum = n,
                            .topk_square = 2 * n,
                            .full_sum = 3 * n,
                            .full_square = 4 * n,
                            .row_squares = 5 * n,
                            .shares = first,
                            .scores = first + k,
                            .by_source = first + k + n,
                            .agreed = agreed,
                            .rows = agreed + 2,
                            .sent = agreed + 3,
                            .measured = agreed + 4,
                            .stride = agreed + 4 + measured};
}

static enum mt_status check_options(struct mt_context *ctx, const struct mt_watch_options *options)
{
    if (options->layer_count > 65536 || options->experts < 1 || options->experts > 65536 ||
        options->slots < 1 || options->slots > options->experts || options->tokens < 1 ||
        options->tokens > INT32_MAX) {
        return mt_fail(ctx, MT_ERR_USAGE,
                       "watching %zu layers with %d of %d experts per token and %" PRId64
                       " tokens: impossible",
                       options->layer_count, options->slots, options->experts, options->tokens);
    }
    return MT_OK;
}

/* The next bytes of the block; with base NULL they are only counted. */
static void *take(unsigned char *base, size_t *used, size_t count, size_t size)
{
    void *memory = base != NULL ? base + *used : NULL;
    *used += (count * size + 63) / 64 * 64;
    return memory;
}

/* Lays the watch out behind itself; returns the bytes it takes. */
static size_t lay_out(struct mt_watch *watch, unsigned char *base, size_t layers, int experts, int sources,
                      size_t stride)
{
    struct mt_watch counted = {0};
    struct mt_watch *w = watch != NULL ? watch : &counted;
    size_t used = 0;
    (void)take(base, &used, 1, sizeof *w);
    w->fetched = take(base, &used, layers * stride, sizeof *w->fetched);
    w->step = take(base, &used, layers * stride, sizeof *w->step);
    w->running = take(base, &used, layers * (size_t)experts, sizeof *w->running);
    w->terms = take(base, &used, layers * MT_TERM_COUNT, sizeof *w->terms);
    w->shared = take(base, &used, layers * MT_TERM_COUNT * TERM_NUMBERS + 2, sizeof *w->shared);
    w->records = take(base, &used, layers, sizeof *w->records);
    w->views = take(base, &used, layers, sizeof(void *));
    w->member = take(base, &used, (size_t)sources * (size_t)experts, sizeof *w->member);
    return used;
}

static enum mt_status run_ops(struct mt_watch *watch, size_t layer, const struct mt_routing *record,
                              bool loads, bool variances);

/* Runs the ops without computing, so that the device's scratch is as large as it has to be. */
static enum mt_status plan_scratch(struct mt_watch *watch)
{
    size_t n = (size_t)watch->experts;
    size_t tokens = (size_t)watch->tokens;
    size_t bytes = tokens * (n < 2 ? 2 : n) * sizeof(float);
    void *zeros = NULL;
    // Checks read index tensors on the host, even while planning: zeros are legal in all of them.
    enum mt_status status = mt_allocate_array(watch->ctx, 1, bytes, &zeros);
    if (status != MT_OK) return status;
    struct mt_routing record = {
        .tokens = watch->tokens,
        .experts = watch->experts,
        .slots = watch->slots,
        .mask = mt_tensor_1d(zeros, MT_I32, watch->tokens),
        .probs = mt_tensor_2d(zeros, MT_F32, watch->tokens, watch->experts),
        .expert = mt_tensor_2d(zeros, MT_I32, watch->tokens, watch->slots),
        .weight = mt_tensor_2d(zeros, MT_F32, watch->tokens, watch->slots),
        .agreed = mt_tensor_2d(zeros, MT_F32, watch->tokens, 2),
    };
    watch->segment = watch->sources > 0 ? zeros : NULL;
    mt_device_set_planning(watch->device, true);
    status = run_ops(watch, 0, &record, true, true);
    mt_device_set_planning(watch->device, false);
    watch->segment = NULL;
    mt_release(watch->ctx, zeros, bytes);
    return status;
}

enum mt_status mt_watch_create(struct mt_device *device, const struct mt_watch_options *options,
                               struct mt_watch **watch)
{
    struct mt_context *ctx = mt_device_context(device);
    *watch = NULL;
    enum mt_status status = check_options(ctx, options);
    if (status != MT_OK) return status;
    size_t measured =
        options->objective != NULL ? mt_selection_measures(options->objective, options->experts) : 0;
    int sources = options->sources > 1 && options->sources <= SOURCES_MOST ? options->sources : 0;
    struct numbers at = place_numbers(options->experts, options->slots, sources, measured);
    size_t bytes = lay_out(NULL, NULL, options->layer_count, options->experts, sources, at.stride);
    void *memory = NULL;
    status = mt_allocate_array(ctx, 1, bytes, &memory);
    if (status != MT_OK) return status;
    struct mt_watch *made = memory;
    *made = (struct mt_watch){.device = device,
                              .ctx = ctx,
                              .layers = options->layer_count,
                              .experts = options->experts,
                              .slots = options->slots,
                              .tokens = options->tokens,
                              .sources = sources,
                              .at = at,
                              .bytes = bytes};
    (void)lay_out(made, memory, made->layers, made->experts, sources, at.stride);
    for (size_t l = 0; l < made->layers; l++) made->records[l].layer = options->layers[l];
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        made->on[term] = options->objective != NULL && mt_term_is_on(options->objective, (enum mt_term)term);
    }
    size_t numbers = made->layers * made->at.stride;
    status = mt_device_buffer_create(device, (numbers + (size_t)made->experts) * sizeof(double),
                                     &made->device_numbers);
    if (status == MT_OK && sources > 0)
        status =
            mt_device_buffer_create(device, (size_t)made->tokens * sizeof(int32_t), &made->token_sources);
    if (status == MT_OK && made->layers > 0) {
        double *data = made->device_numbers.data;
        made->by_product = data + numbers;
        status = plan_scratch(made);
    }
    if (status != MT_OK) {
        mt_watch_destroy(made);
        return status;
    }
    mt_watch_begin(made);
    *watch = made;
    return MT_OK;
}

enum mt_status mt_watch_create_for_model(struct mt_device *device, struct mt_model *model, int64_t tokens,
                                         int sources, const struct mt_objective_config *objective,
                                         struct mt_watch **watch)
{
    struct mt_context *ctx = mt_device_context(device);
    const struct mt_model_desc *desc = mt_model_description(model);
    size_t bytes = (size_t)desc->layers * sizeof(int64_t);
    void *memory = NULL;
    *watch = NULL;
    enum mt_status status = mt_allocate(ctx, bytes, &memory);
    if (status != MT_OK) return status;
    int64_t *layers = memory;
    size_t count = (size_t)mt_model_moe_layers(desc, layers);
    bool any = count > 0;
    status = mt_watch_create(device,
                             &(struct mt_watch_options){.layers = layers,
                                                        .layer_count = count,
                                                        .experts = any ? desc->experts : 1,
                                                        .slots = any ? desc->router.slots : 1,
                                                        .tokens = tokens,
                                                        .sources = sources,
                                                        .objective = objective},
                             watch);
    mt_release(ctx, memory, bytes);
    return status;
}

void mt_watch_destroy(struct mt_watch *watch)
{
    if (watch == NULL) return;
    mt_buffer_release(&watch->device_numbers);
    mt_buffer_release(&watch->token_sources);
    mt_release(watch->ctx, watch, watch->bytes);
}

double *mt_watch_running(struct mt_watch *watch, size_t *count)
{
    *count = watch->layers * (size_t)watch->experts;
    return watch->running;
}

// ------------------------------------------------------------------ a micro-batch

void mt_watch_begin(struct mt_watch *watch)
{
    memset(watch->step, 0, watch->layers * watch->at.stride * sizeof *watch->step);
    memset(watch->terms, 0, watch->layers * MT_TERM_COUNT * sizeof *watch->terms);
    watch->micro_batches = 0;
    watch->varied = 0;
    watch->shares = 0.0;
    watch->unmasked = 0.0;
}

static struct mt_tensor row_of(double *numbers, size_t place, int experts)
{
    return mt_tensor_2d(numbers + place, MT_F64, 1, experts);
}

/* squares[columns] = Σ_i (x_ij / Σ_m x_im)²: how much of a token's whole each column has, squared. */
static enum mt_status square_shares(struct mt_watch *watch, const struct mt_tensor *x,
                                    const struct mt_tensor *mask, double *squares)
{
    int columns = (int)x->dim[1];
    return mt_column_stats_forward(watch->device, &(struct mt_column_stats_forward_args){
                                                      .x = *x,
                                                      .mask = *mask,
                                                      .sum = row_of(watch->by_product, 0, columns),
                                                      .squares = row_of(squares, 0, columns),
                                                      .normalise_rows = true,
                                                  });
}

/* Loads of each source by itself. */
static enum mt_status count_sources(struct mt_watch *watch, const struct mt_routing *record, double *numbers)
{
    return mt_slot_stats_forward(
        watch->device,
        &(struct mt_slot_stats_forward_args){
            .expert = record->expert,
            .mask = record->mask,
            .segment = mt_tensor_1d(watch->segment, MT_I32, record->tokens),
            .count = mt_tensor_2d(numbers + watch->at.by_source, MT_F64, watch->sources, watch->experts),
        });
}

/* Sums of one layer, on the device. Counting tokens goes with the first layer: the mask is that of all. */
static enum mt_status run_ops(struct mt_watch *watch, size_t layer, const struct mt_routing *record,
                              bool loads, bool variances)
{
    const struct numbers *at = &watch->at;
    int n = watch->experts;
    double *numbers = (double *)watch->device_numbers.data + layer * at->stride;
    enum mt_status status = MT_OK;
    if (loads || variances) {
        struct mt_slot_stats_forward_args args = {
            .expert = record->expert, .mask = record->mask, .count = row_of(numbers, at->load, n)};
        if (variances) {
            args.weight = record->weight;
            args.sum = row_of(numbers, at->topk_sum, n);
            args.squares = row_of(numbers, at->topk_square, n);
        }
        status = mt_slot_stats_forward(watch->device, &args);
    }
    if (status == MT_OK && variances) {
        status = mt_column_stats_forward(
            watch->device, &(struct mt_column_stats_forward_args){
                               .x = record->probs,
                               .mask = record->mask,
                               .sum = row_of(numbers, at->full_sum, n),
                               .squares = row_of(numbers, at->full_square, n),
                               .row_squares = mt_tensor_1d(numbers + at->row_squares, MT_F64, 1),
                           });
    }
    if (status == MT_OK && variances)
        status = square_shares(watch, &record->weight, &record->mask, numbers + at->shares);
    if (status == MT_OK && variances)
        status = square_shares(watch, &record->probs, &record->mask, numbers + at->scores);
    if (status == MT_OK && variances && watch->segment != NULL)
        status = count_sources(watch, record, numbers);
    if (status == MT_OK && variances && mt_tensor_present(&record->agreed)) {
        status = mt_column_stats_forward(
            watch->device, &(struct mt_column_stats_forward_args){.x = record->agreed,
                                                                  .mask = record->mask,
                                                                  .sum = row_of(numbers, at->agreed, 2)});
    }
    if (status == MT_OK && layer == 0 && mt_tensor_present(&record->mask)) {
        status =
            mt_column_stats_forward(watch->device, &(struct mt_column_stats_forward_args){
                                                       .x = record->weight,
                                                       .mask = record->mask,
                                                       .sum = row_of(watch->by_product, 0, watch->slots),
                                                       .rows = mt_tensor_1d(numbers + at->rows, MT_F64, 1),
                                                   });
    }
    return status;
}

static enum mt_status check_record(const struct mt_watch *watch, size_t layer,
                                   const struct mt_routing *record)
{
    if (record == NULL) {
        return mt_fail(watch->ctx, MT_ERR_USAGE, "watching layer %" PRId64 ": it has no routing record",
                       watch->records[layer].layer);
    }
    if (record->experts != watch->experts || record->slots != watch->slots ||
        record->tokens > watch->tokens) {
        return mt_fail(watch->ctx, MT_ERR_SHAPE,
                       "watching layer %" PRId64 ": %d of %d experts per token and %" PRId64
                       " tokens, expected %d of %d and at most %" PRId64,
                       watch->records[layer].layer, record->slots, record->experts, record->tokens,
                       watch->slots, watch->experts, watch->tokens);
    }
    return MT_OK;
}

/* What the device found of a layer joins the step. Loads of an objective are added in its stead. */
static void add_numbers(struct mt_watch *watch, size_t layer, const double *load, bool variances, bool given)
{
    const double *fetched = watch->fetched + layer * watch->at.stride;
    double *step = watch->step + layer * watch->at.stride;
    if (load == NULL) load = fetched + watch->at.load;
    for (int j = 0; j < watch->experts; j++) step[watch->at.load + (size_t)j] += load[j];
    if (!variances) return;
    size_t end = watch->segment != NULL ? watch->at.agreed : watch->at.by_source;
    for (size_t i = watch->at.topk_sum; i < end; i++) step[i] += fetched[i];
    for (size_t i = watch->at.agreed; given && i < watch->at.rows; i++) step[i] += fetched[i];
}

static void add_terms(struct mt_watch *watch, size_t layer, const struct mt_layer_report *report,
                      double share)
{
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        if (!watch->on[term]) continue;
        struct term_sums *sums = &watch->terms[layer * MT_TERM_COUNT + (size_t)term];
        double norm = share * report->gradient[term];
        bool measured = !isnan(report->gradient[term]);
        sums->loss += share * report->loss[term];
        sums->weight += share * report->weight[term];
        sums->weighted += share * report->weight[term] * report->loss[term];
        sums->measured = measured && (watch->micro_batches == 0 || sums->measured);
        if (!measured) continue;
        sums->gradient += norm;
        sums->gradient_squares += norm * norm;
    }
}

enum mt_status mt_watch_records(struct mt_watch *watch, const struct mt_routing *const *records,
                                const struct mt_objective *objective, const struct mt_watch_look *look)
{
    if (watch->layers == 0) return MT_OK;
    bool loads = objective == NULL;
    enum mt_status status = MT_OK;
    bool sourced = look->variances && look->source != NULL && watch->sources > 0;
    watch->segment = sourced ? watch->token_sources.data : NULL;
    if (sourced && records[0] != NULL && records[0]->tokens <= watch->tokens)
        status = mt_device_upload(watch->device, watch->segment, look->source,
                                  (size_t)records[0]->tokens * sizeof(int32_t));
    for (size_t l = 0; l < watch->layers && status == MT_OK; l++) {
        status = check_record(watch, l, records[l]);
        if (status == MT_OK) status = run_ops(watch, l, records[l], loads, look->variances);
    }
    if (status != MT_OK) return status;
    bool masked = mt_tensor_present(&records[0]->mask);
    if (loads || look->variances || masked) {
        size_t layers = loads || look->variances ? watch->layers : 1; // the first counts the tokens
        status = mt_device_download(watch->device, watch->fetched, watch->device_numbers.data,
                                    layers * watch->at.stride * sizeof(double));
        if (status != MT_OK) return status;
    }
    double tokens = masked ? watch->fetched[watch->at.rows] : (double)records[0]->tokens;
    double share = look->share > 0.0 ? look->share : tokens;
    for (size_t l = 0; l < watch->layers; l++) {
        const struct mt_layer_report *report = loads ? NULL : mt_objective_layer(objective, (int)l);
        bool given = mt_tensor_present(&records[l]->agreed);
        add_numbers(watch, l, report != NULL ? report->load : NULL, look->variances, given);
        if (report == NULL) continue;
        add_terms(watch, l, report, share);
        double *step = watch->step + l * watch->at.stride;
        for (size_t i = watch->at.measured; i < watch->at.stride; i++)
            step[i] += report->measured[i - watch->at.measured];
    }
    watch->micro_batches++;
    if (look->variances) watch->varied++;
    watch->shares += share;
    watch->unmasked += tokens;
    return MT_OK;
}

enum mt_status mt_watch_model(struct mt_watch *watch, struct mt_model *model,
                              const struct mt_watch_look *look)
{
    const int64_t *sent = mt_model_rows_sent(model);
    watch->spread = sent != NULL;
    for (size_t l = 0; l < watch->layers; l++) {
        watch->views[l] = mt_model_routing(model, watch->records[l].layer);
        if (watch->spread) watch->step[l * watch->at.stride + watch->at.sent] += (double)sent[l];
    }
    return mt_watch_records(watch, watch->views, mt_model_objective(model), look);
}

/* The numbers of all terms, and the sums of the step, to `shared` or back. */
static size_t pack_terms(struct mt_watch *watch, bool back)
{
    size_t count = 0;
    for (size_t i = 0; i < watch->layers * MT_TERM_COUNT; i++) {
        struct term_sums *sums = &watch->terms[i];
        double *const numbers[TERM_NUMBERS] = {&sums->loss, &sums->weight, &sums->weighted, &sums->gradient,
                                               &sums->gradient_squares};
        for (int k = 0; k < TERM_NUMBERS; k++) {
            if (back) *numbers[k] = watch->shared[count];
            if (!back) watch->shared[count] = *numbers[k];
            count++;
        }
    }
    double *const sums[2] = {&watch->shares, &watch->unmasked};
    for (int k = 0; k < 2; k++) {
        if (back) *sums[k] = watch->shared[count];
        if (!back) watch->shared[count] = *sums[k];
        count++;
    }
    return count;
}

/* Takes out of the step what another process brings: all that came from the objective's reports. */
static void forget_reports(struct mt_watch *watch)
{
    for (size_t l = 0; l < watch->layers; l++) {
        double *step = watch->step + l * watch->at.stride;
        memset(step + watch->at.load, 0, (size_t)watch->experts * sizeof *step);
        memset(step + watch->at.measured, 0, (watch->at.stride - watch->at.measured) * sizeof *step);
    }
    for (size_t i = 0; i < watch->layers * MT_TERM_COUNT; i++) {
        watch->terms[i].loss = 0.0;
        watch->terms[i].weight = 0.0;
        watch->terms[i].weighted = 0.0;
    }
    watch->shares = 0.0;
}

enum mt_status mt_watch_share(struct mt_watch *watch, const struct mt_objective_reduction *reduction,
                              bool shared, bool first)
{
    bool measured = false;
    for (size_t i = 0; i < watch->layers * MT_TERM_COUNT; i++)
        measured = measured || watch->terms[i].measured;
    // Loads and terms are known everywhere, and nothing else was looked at.
    if (watch->layers == 0 || (shared && watch->varied == 0 && !measured)) return MT_OK;
    if (shared && !first) forget_reports(watch);
    enum mt_status status = reduction->sum(reduction->self, watch->step, watch->layers * watch->at.stride);
    if (status != MT_OK) return status;
    status = reduction->sum(reduction->self, watch->shared, pack_terms(watch, false));
    if (status == MT_OK) (void)pack_terms(watch, true);
    return status;
}

void mt_watch_end(struct mt_watch *watch)
{
    size_t n = (size_t)watch->experts;
    for (size_t l = 0; l < watch->layers; l++) {
        const double *load = watch->step + l * watch->at.stride + watch->at.load;
        for (size_t j = 0; j < n; j++) watch->running[l * n + j] += load[j];
    }
}

// ------------------------------------------------------------------ the record

/* Of each expert over tokens, mean over experts. */
static double variance_over_tokens(const double *sum, const double *squares, int experts, double tokens)
{
    double variance = 0.0;
    for (int j = 0; j < experts; j++) {
        double mean = sum[j] / tokens;
        variance += (squares[j] / tokens - mean * mean) / experts;
    }
    return variance > 0.0 ? variance : 0.0; // rounding may leave a zero below zero
}

static double variance_within_tokens(const double *squares, double row_squares, int experts, double tokens)
{
    double total = 0.0;
    if (experts < 2) return 0.0;
    for (int j = 0; j < experts; j++) total += squares[j];
    double variance = (total - row_squares / experts) / (tokens * (experts - 1));
    return variance > 0.0 ? variance : 0.0;
}

/* From the sum over tokens of each one's Σ of squared shares: the inverse of its mean. */
static double effective(const double *squares, int columns, double tokens)
{
    double total = 0.0;
    for (int j = 0; j < columns; j++) total += squares[j];
    return tokens / total;
}

static void fill_concentration(const struct mt_watch *watch, size_t layer, struct mt_layer_record *record)
{
    const struct numbers *at = &watch->at;
    const double *step = watch->step + layer * at->stride;
    double tokens = watch->unmasked;
    record->effective_experts = NAN;
    record->effective_scores = NAN;
    record->experts_90 = NAN;
    record->jaccard_90 = NAN;
    record->together_90 = NAN;
    if (watch->varied != watch->micro_batches || !(tokens > 0.0)) return;
    record->effective_experts = effective(step + at->shares, watch->slots, tokens);
    record->effective_scores = effective(step + at->scores, watch->experts, tokens);
    int serving = mt_load_serving(step + at->load, watch->experts, MT_SERVING_SHARE, NULL);
    record->experts_90 = (double)serving / watch->experts;
    if (watch->sources == 0) return;
    struct mt_serving sources =
        mt_serving(step + at->by_source, watch->sources, watch->experts, watch->member);
    record->jaccard_90 = sources.jaccard;
    record->together_90 = sources.together;
}

static void fill_variances(const struct mt_watch *watch, size_t layer, struct mt_layer_record *record)
{
    const struct numbers *at = &watch->at;
    const double *step = watch->step + layer * at->stride;
    double tokens = watch->unmasked;
    record->variance_expert_topk = NAN;
    record->variance_expert_full = NAN;
    record->variance_token = NAN;
    record->agreement = NAN;
    // A part of the step would pass for the whole.
    if (watch->varied != watch->micro_batches || !(tokens > 0.0)) return;
    record->variance_expert_topk =
        variance_over_tokens(step + at->topk_sum, step + at->topk_square, watch->experts, tokens);
    record->variance_expert_full =
        variance_over_tokens(step + at->full_sum, step + at->full_square, watch->experts, tokens);
    record->variance_token =
        variance_within_tokens(step + at->full_square, step[at->row_squares], watch->experts, tokens);
    if (step[at->agreed + 1] > 0.0) record->agreement = step[at->agreed] / step[at->agreed + 1];
}

static void fill_terms(const struct mt_watch *watch, size_t layer, struct mt_layer_record *record)
{
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        const struct term_sums *sums = &watch->terms[layer * MT_TERM_COUNT + (size_t)term];
        bool known = watch->on[term] && watch->shares > 0.0;
        // Gradients in weights add up in one place; those in logits and outputs lie side by side.
        enum mt_term_path path = mt_term_info((enum mt_term)term)->path;
        bool one_place = path == MT_PATH_ROUTER_WEIGHT || path == MT_PATH_GATES;
        double norm = one_place ? sums->gradient : sqrt(sums->gradient_squares);
        record->loss[term] = known ? sums->loss / watch->shares : NAN;
        record->weight[term] = known ? sums->weight / watch->shares : NAN;
        record->gradient[term] = known && sums->measured ? norm / watch->shares : NAN;
    }
}

static void fill_layer(struct mt_watch *watch, size_t layer)
{
    struct mt_layer_record *record = &watch->records[layer];
    struct mt_load_figures step;
    struct mt_load_figures running;
    record->load = watch->step + layer * watch->at.stride + watch->at.load;
    record->measured = watch->step + layer * watch->at.stride + watch->at.measured;
    mt_load_judge(record->load, watch->experts, &step);
    mt_load_judge(watch->running + layer * (size_t)watch->experts, watch->experts, &running);
    record->max_violation = step.max_violation;
    record->load_entropy = step.entropy;
    record->max_violation_running = running.max_violation;
    record->rows_sent = watch->spread ? watch->step[layer * watch->at.stride + watch->at.sent] : NAN;
    fill_variances(watch, layer, record);
    fill_concentration(watch, layer, record);
    fill_terms(watch, layer, record);
}

void mt_watch_fill(struct mt_watch *watch, struct mt_step_record *record)
{
    double layers = (double)watch->layers;
    double start = watch->layers > 0 ? 0.0 : NAN;
    record->max_violation = start;
    record->max_violation_running = start;
    record->load_entropy = start;
    record->effective_experts = start;
    record->effective_scores = start;
    record->experts_90 = start;
    record->jaccard_90 = start;
    record->together_90 = start;
    record->agreement = start;
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        bool known = watch->on[term] && watch->layers > 0 && watch->shares > 0.0;
        record->term[term] = known ? 0.0 : NAN;
        record->weighted[term] = known ? 0.0 : NAN;
    }
    for (size_t l = 0; l < watch->layers; l++) {
        const struct mt_layer_record *layer = &watch->records[l];
        fill_layer(watch, l);
        record->max_violation += layer->max_violation / layers;
        record->max_violation_running += layer->max_violation_running / layers;
        record->load_entropy += layer->load_entropy / layers;
        record->effective_experts += 1.0 / layer->effective_experts / layers;
        record->effective_scores += 1.0 / layer->effective_scores / layers;
        record->experts_90 += layer->experts_90 / layers;
        record->jaccard_90 += layer->jaccard_90 / layers;
        record->together_90 += layer->together_90 / layers;
        record->agreement += layer->agreement / layers;
        for (int term = 0; term < MT_TERM_COUNT; term++) {
            record->term[term] += layer->loss[term] / layers;
            record->weighted[term] += watch->terms[l * MT_TERM_COUNT + (size_t)term].weighted / watch->shares;
        }
    }
    record->effective_experts = 1.0 / record->effective_experts;
    record->effective_scores = 1.0 / record->effective_scores;
    record->layers = watch->layers > 0 ? watch->records : NULL;
    record->layer_count = watch->layers;
    record->experts = watch->experts;
    record->slots = watch->slots;
}
