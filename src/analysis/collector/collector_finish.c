/* From sums and kept vectors to figures. */
#include <math.h>

#include "analysis/collector/collector_sums.h"
#include "objective/loads.h"

#define FIGURE_ARRAYS (4 + MT_EXPERT_SCORES) // load, first, mean_score, mean_weight; scores

// ------------------------------------------------------------------ one layer's sums

static void fill_arrays(const struct mt_layer_sums *sums, int experts, double *numbers,
                        struct mt_layer_figures *figures)
{
    size_t n = (size_t)experts;
    double tokens = sums->tokens > 0 ? (double)sums->tokens : NAN;
    for (size_t j = 0; j < n; j++) {
        numbers[j] = sums->load[j];
        numbers[n + j] = sums->first[j];
        numbers[2 * n + j] = mt_any_order_value(&sums->variance.score[j]) / tokens;
        numbers[3 * n + j] = mt_any_order_value(&sums->variance.weight[j]) / tokens;
    }
    figures->load = numbers;
    figures->first = numbers + n;
    figures->mean_score = numbers + 2 * n;
    figures->mean_weight = numbers + 3 * n;
}

static void fill_loads(const struct mt_layer_sums *sums, const struct mt_batch_sums *batch, int experts,
                       struct mt_layer_figures *figures)
{
    struct mt_load_figures load;
    struct mt_variance_figures variance = mt_variance_finish(&sums->variance, experts);
    mt_load_judge(sums->load, experts, &load);
    bool any = sums->tokens > 0;
    figures->number = sums->number;
    figures->tokens = sums->tokens;
    figures->max_violation = any ? load.max_violation : NAN;
    figures->max_violation_code = any ? load.max_violation_code : NAN;
    figures->entropy = any ? load.entropy : NAN;
    figures->gini = any ? mt_load_gini(sums->load, experts) : NAN;
    figures->load_min = any ? load.min : NAN;
    figures->load_max = any ? load.max_violation + 1.0 : NAN;
    figures->effective_experts = variance.effective_experts;
    figures->effective_scores = variance.effective_scores;
    figures->experts_90 =
        any ? (double)mt_load_serving(sums->load, experts, MT_SERVING_SHARE, NULL) / experts : NAN;
    figures->rv_token = variance.token;
    figures->rv_expert = variance.expert;
    figures->rv_appendix = variance.appendix;
    // Where no batch became whole, what there is of one is all there is to say.
    figures->batches = batch->batches > 0 ? batch->batches : (any ? 1 : 0);
    figures->max_violation_batch =
        batch->batches > 0 ? batch->violation / (double)batch->batches : figures->max_violation;
    figures->max_violation_batch_code =
        batch->batches > 0 ? batch->violation_code / (double)batch->batches : figures->max_violation_code;
}

// ------------------------------------------------------------------ expert outputs

static void gram_of(const float *vectors, int slots, int64_t width, double *gram)
{
    for (int a = 0; a < slots; a++) {
        for (int b = 0; b <= a; b++) {
            double sum = 0.0;
            for (int64_t c = 0; c < width; c++)
                sum += (double)vectors[a * width + c] * (double)vectors[b * width + c];
            gram[a * slots + b] = sum;
            gram[b * slots + a] = sum;
        }
    }
}

/* |cos| and lengths of the kept outputs, added. */
static void look_at_outputs(const struct mt_collector_options *options,
                            const struct mt_vector_sample *outputs, double *gram, struct mt_output_sums *sums)
{
    int slots = outputs->slots;
    for (int64_t i = 0; i < outputs->count; i++) {
        const float *kept = outputs->vectors + i * outputs->width;
        if (options->grams) {
            for (int j = 0; j < slots * slots; j++) gram[j] = (double)kept[j];
        } else {
            gram_of(kept, slots, options->width, gram);
        }
        for (int s = 0; s < slots; s++) mt_any_order_add(&sums->lengths, sqrt(gram[s * slots + s]));
        sums->outputs += slots;
        if (slots < 2) continue;
        double mean = mt_cosine_of_gram(gram, slots);
        sums->cosine.tokens++;
        mt_any_order_add(&sums->cosine.sum, mean);
        mt_any_order_add(&sums->cosine.squares, mean * mean);
    }
}

enum mt_status mt_output_sums_of(struct mt_collector *collector, const struct mt_layer_sums *layer,
                                 struct mt_output_sums *sums)
{
    void *gram = NULL;
    size_t count = (size_t)collector->options.slots * (size_t)collector->options.slots;
    *sums = layer->earlier;
    if (layer->outputs.count == 0) return MT_OK;
    enum mt_status status = mt_allocate_array(collector->ctx, count, sizeof(double), &gram);
    if (status != MT_OK) return status;
    look_at_outputs(&collector->options, &layer->outputs, gram, sums);
    mt_release(collector->ctx, gram, count * sizeof(double));
    return MT_OK;
}

static void fill_cosine(const struct mt_cosine_sums *cosine, int64_t all, struct mt_layer_figures *figures)
{
    figures->abs_cos_tokens = cosine->tokens;
    figures->abs_cos = NAN;
    figures->abs_cos_error = NAN;
    if (cosine->tokens == 0) return;
    double count = (double)cosine->tokens;
    double mean = mt_any_order_value(&cosine->sum) / count;
    double squares = mt_any_order_value(&cosine->squares);
    figures->abs_cos = mean;
    figures->abs_cos_error = 0.0;
    if (cosine->tokens >= all) return;
    double variance = count > 1.0 ? fmax(0.0, squares - count * mean * mean) / (count - 1.0) : NAN;
    figures->abs_cos_error = sqrt(variance / count * (1.0 - count / (double)all));
}

static enum mt_status fill_outputs(struct mt_collector *collector, const struct mt_layer_sums *sums,
                                   struct mt_layer_figures *figures)
{
    struct mt_output_sums kept;
    fill_cosine(&sums->cosine, sums->tokens, figures);
    enum mt_status status = mt_output_sums_of(collector, sums, &kept);
    figures->output_norm = NAN;
    if (status != MT_OK || kept.outputs == 0) return status;
    figures->output_norm = mt_any_order_value(&kept.lengths) / (double)kept.outputs;
    if (sums->cosine.tokens < kept.cosine.tokens) fill_cosine(&kept.cosine, sums->tokens, figures);
    return MT_OK;
}

// ------------------------------------------------------------------ how vectors lie

static const struct mt_geometry_figures no_geometry = {
    .overlap = NAN, .overlap_error = NAN, .silhouette = NAN, .silhouette_error = NAN};

static enum mt_status look_at_inputs(struct mt_collector *collector, const struct mt_vector_sample *inputs,
                                     const struct mt_geometry_options *options,
                                     struct mt_geometry_figures *figures)
{
    struct mt_geometry_options chosen = *options;
    size_t count = (size_t)inputs->count;
    void *memory = NULL;
    *figures = no_geometry;
    if (count == 0) return MT_OK;
    enum mt_status status = mt_allocate_array(collector->ctx, count, sizeof(int32_t), &memory);
    if (status != MT_OK) return status;
    int32_t *labels = memory;
    for (size_t i = 0; i < count; i++) labels[i] = inputs->experts[i * (size_t)inputs->slots];
    chosen.distance = MT_DISTANCE_EUCLIDEAN;
    status = mt_geometry(
        collector->device,
        &(struct mt_points){
            .count = inputs->count, .width = inputs->width, .data = inputs->vectors, .labels = labels},
        &chosen, figures);
    mt_release(collector->ctx, memory, count * sizeof(int32_t));
    return status;
}

static enum mt_status fill_geometry(struct mt_collector *collector, const struct mt_layer_sums *sums,
                                    const struct mt_geometry_options *options,
                                    struct mt_layer_figures *figures)
{
    figures->input = no_geometry;
    figures->output = no_geometry;
    figures->output_unit = no_geometry;
    if (options == NULL) return MT_OK;
    enum mt_status status = look_at_inputs(collector, &sums->inputs, options, &figures->input);
    if (status != MT_OK || sums->outputs.count == 0 || collector->options.grams) return status;
    struct mt_points points = {.count = sums->outputs.count * collector->options.slots,
                               .width = collector->options.width,
                               .data = sums->outputs.vectors,
                               .labels = sums->outputs.experts};
    struct mt_geometry_options chosen = *options;
    chosen.distance = MT_DISTANCE_EUCLIDEAN;
    status = mt_geometry(collector->device, &points, &chosen, &figures->output);
    if (status != MT_OK) return status;
    chosen.distance = MT_DISTANCE_COSINE;
    return mt_geometry(collector->device, &points, &chosen, &figures->output_unit);
}

// ------------------------------------------------------------------ all layers

static enum mt_status fill_paths(const struct mt_collector *collector, int index,
                                 struct mt_layer_figures *figures)
{
    const struct mt_layer_sums *here = &collector->layer[index];
    const struct mt_layer_sums *before = index > 0 ? here - 1 : here;
    int64_t tokens = index > 0 ? here->choice_count : 0;
    if (before->choice_count < tokens) tokens = before->choice_count;
    return mt_paths(collector->ctx, before->choices, here->choices, tokens, collector->options.slots,
                    collector->options.experts, &figures->path);
}

static enum mt_status finish_layer(struct mt_collector *collector, int index,
                                   const struct mt_geometry_options *geometry, double *numbers,
                                   struct mt_layer_figures *figures)
{
    struct mt_layer_sums *sums = &collector->layer[index];
    struct mt_batch_sums batch;
    mt_collector_batches(collector, sums, numbers, &batch);
    fill_arrays(sums, collector->options.experts, numbers, figures);
    mt_scores_fill(&collector->options, sums, numbers + 4 * (size_t)collector->options.experts, figures);
    fill_loads(sums, &batch, collector->options.experts, figures);
    // Vectors came in some order; figures are of the set.
    enum mt_status status = mt_sample_sort(&sums->inputs);
    if (status == MT_OK) status = mt_sample_sort(&sums->outputs);
    if (status == MT_OK) status = fill_outputs(collector, sums, figures);
    if (status == MT_OK) status = fill_geometry(collector, sums, geometry, figures);
    if (status == MT_OK) status = fill_paths(collector, index, figures);
    figures->coupling = (struct mt_coupling_figures){NAN, NAN, NAN, NAN};
    if (status == MT_OK) return MT_OK;
    return mt_fail_within(collector->ctx, status, "layer %lld", (long long)sums->number);
}

enum mt_status mt_collector_finish(struct mt_collector *collector, const struct mt_geometry_options *geometry,
                                   struct mt_figures *figures)
{
    struct mt_context *ctx = collector->ctx;
    size_t layers = (size_t)collector->options.layers;
    size_t n = (size_t)collector->options.experts;
    void *memory = NULL;
    void *numbers = NULL;
    *figures = (struct mt_figures){.ctx = ctx,
                                   .layers = collector->options.layers,
                                   .experts = collector->options.experts,
                                   .slots = collector->options.slots};
    enum mt_status status = mt_allocate_array(ctx, layers, sizeof *figures->layer, &memory);
    figures->layer = memory;
    if (status == MT_OK)
        status = mt_allocate_array(ctx, layers * FIGURE_ARRAYS * n, sizeof(double), &numbers);
    figures->numbers = numbers;
    for (size_t i = 0; status == MT_OK && i < layers; i++) {
        status = finish_layer(collector, (int)i, geometry, figures->numbers + i * FIGURE_ARRAYS * n,
                              &figures->layer[i]);
    }
    if (status == MT_OK)
        mt_figures_mean(figures);
    else
        mt_figures_free(figures);
    return status;
}

void mt_figures_free(struct mt_figures *figures)
{
    if (figures->ctx == NULL) return;
    size_t layers = (size_t)figures->layers;
    size_t n = (size_t)figures->experts;
    mt_release(figures->ctx, figures->layer, layers * sizeof *figures->layer);
    mt_release(figures->ctx, figures->numbers, layers * FIGURE_ARRAYS * n * sizeof(double));
    *figures = (struct mt_figures){0};
}
