/* One pass over held-out problems: accuracy, loss, routing, geometry. */
#include "compare/measure.h"

#include <math.h>
#include <stdlib.h>

#include "analysis/affinity.h"
#include "analysis/drift.h"
#include "analysis/pca.h"
#include "metier/buffer.h"
#include "model/adapters/adapter.h"
#include "model/collect.h"
#include "train/data/corpus.h"

#define LOGIT_NUMBERS ((int64_t)1 << 24) // computed at once, unless one sequence has more
#define BATCH_TOKENS  2048               // of MaxVio over batches: about what a training step has
#define SHOWN_EXPERTS 6                  // of the picture of tokens
#define SAMPLING_SEED 1                  // the same tokens are looked at in every cell
#define MOST_CHOICES  ((int64_t)1 << 18) // tokens whose experts are compared with those of weights as stored
#define PATH_BYTES    4096

struct measuring {
    const struct mt_cell_job *job;
    const struct mt_cell *cell;
    const struct mt_train_settings *training;
    struct mt_model *model;
    struct mt_device *device;
    struct mt_collector_options options; // but for vectors and stream
    bool choices_only;                   // no vectors are kept
    int64_t batch_tokens;
    struct mt_buffer logits; // f32 [batch_tokens,V], on the device
    float *host;             // f32 [batch_tokens,V]: the logits, downloaded
    size_t host_bytes;
    struct mt_collector *collector[MT_COMPARE_MOST_DOMAINS];
    struct mt_figures figures[MT_COMPARE_MOST_DOMAINS];
};

// ------------------------------------------------------------------ answers

/* The first of the largest. */
static int32_t most_likely(const float *logits, int64_t vocabulary)
{
    int64_t best = 0;
    for (int64_t i = 1; i < vocabulary; i++) {
        if (logits[i] > logits[best]) best = i;
    }
    return (int32_t)best;
}

/* Sequences of the batch whose every label is the most likely token. */
static int64_t count_solved(const struct mt_batch *batch, const float *logits, int64_t vocabulary)
{
    int64_t solved = 0;
    for (int64_t b = 0; b < batch->sequences; b++) {
        bool right = true;
        for (int64_t t = batch->offsets[b]; t < batch->offsets[b + 1] && right; t++) {
            if (batch->labels[t] < 0) continue;
            right = most_likely(logits + t * vocabulary, vocabulary) == batch->labels[t];
        }
        solved += right ? 1 : 0;
    }
    return solved;
}

struct answers {
    int64_t problems, solved, labels;
    double loss; // sum over labels
};

static enum mt_status run_batch(struct measuring *m, struct mt_batch *batch, struct answers *answers)
{
    struct mt_model_loss loss;
    int64_t vocabulary = mt_model_description(m->model)->vocabulary;
    batch->progress = 1.0;
    batch->loss_only = true;
    enum mt_status status = mt_model_forward(m->model, batch, &loss);
    if (status != MT_OK) return status;
    struct mt_tensor logits = mt_tensor_2d(m->logits.data, MT_F32, batch->tokens, vocabulary);
    status = mt_model_logits(m->model, &logits);
    if (status == MT_OK)
        status = mt_device_download(m->device, m->host, logits.data,
                                    (size_t)(batch->tokens * vocabulary) * sizeof(float));
    if (status != MT_OK) return status;
    answers->problems += batch->sequences;
    answers->solved += count_solved(batch, m->host, vocabulary);
    answers->labels += loss.labels;
    answers->loss += loss.task * (double)loss.labels;
    return MT_OK;
}

/* Every problem of the file once. */
static enum mt_status run_batches(struct measuring *m, struct mt_batches *batches, struct answers *answers)
{
    while (true) {
        struct mt_step step;
        enum mt_status status = mt_batches_next(batches, &step);
        if (status != MT_OK || step.epoch > 0) return status;
        for (size_t i = 0; i < step.micro_batches && status == MT_OK; i++) {
            struct mt_batch batch = {0};
            mt_batches_micro(batches, i, &batch);
            status = run_batch(m, &batch, answers);
        }
        if (status != MT_OK) return status;
    }
}

static enum mt_status make_collector(struct measuring *m, size_t domain)
{
    int64_t sample = m->job->settings->sample;
    struct mt_collector_options options = m->options;
    if (domain != m->cell->domain) options.choices = 0;
    if (domain == m->cell->domain && !m->choices_only) {
        options.inputs = sample;
        options.outputs = (sample + options.slots - 1) / options.slots;
    } else {
        options.width = 0;
    }
    options.stream = domain;
    return mt_collector_create(m->device, &options, &m->collector[domain]);
}

static enum mt_status run_domain(struct measuring *m, size_t domain, struct mt_cell_result *result)
{
    const struct mt_cell_job *job = m->job;
    struct mt_corpus corpus = {0};
    struct answers answers = {0};
    struct mt_train_source source = {.weight = 1.0};
    enum mt_status status = mt_cell_data(job, &job->settings->domain[domain], true, &source.path);
    if (status == MT_OK) status = make_collector(m, domain);
    if (status != MT_OK) return status;
    const struct mt_train_settings reading = {.model = m->training->model,
                                              .tokenizer = m->training->tokenizer,
                                              .sources = &source,
                                              .source_count = 1,
                                              .template_name = m->training->template_name,
                                              .template_options = m->training->template_options,
                                              .template_date = m->training->template_date,
                                              .max_length = m->training->max_length,
                                              .batching = MT_LAYOUT_PACKED,
                                              .examples = m->training->examples,
                                              .tokens = m->batch_tokens,
                                              .seed = SAMPLING_SEED};
    status = mt_corpus_open(job->ctx, &reading, mt_model_description(m->model)->config, job->templates,
                            job->log, &corpus);
    if (status == MT_OK) {
        mt_model_collect(m->model, m->collector[domain]);
        status = run_batches(m, corpus.training, &answers);
        mt_model_collect(m->model, NULL);
    }
    mt_corpus_close(&corpus);
    if (status != MT_OK) return status;
    result->accuracy[domain] =
        answers.problems > 0 ? (double)answers.solved / (double)answers.problems : (double)NAN;
    result->loss[domain] = answers.labels > 0 ? answers.loss / (double)answers.labels : (double)NAN;
    return MT_OK;
}

// ------------------------------------------------------------------ figures

/* What the expert tells about the domain, mean over layers. NaN with one domain. */
static enum mt_status measure_information(struct measuring *m, double *information)
{
    size_t domains = m->job->settings->domains;
    size_t one = (size_t)m->options.experts;
    void *memory = NULL;
    *information = (double)NAN;
    if (domains < 2) return MT_OK;
    enum mt_status status = mt_allocate_array(m->job->ctx, 3 * domains * one, sizeof(double), &memory);
    if (status != MT_OK) return status;
    double *load = memory;
    double sum = 0.0;
    for (int layer = 0; layer < m->options.layers; layer++) {
        for (size_t d = 0; d < domains; d++) {
            for (size_t j = 0; j < one; j++) load[d * one + j] = m->figures[d].layer[layer].load[j];
        }
        sum += mt_affinity(load, (int)domains, m->options.experts, load + domains * one,
                           load + 2 * domains * one);
    }
    *information = sum / m->options.layers;
    mt_release(m->job->ctx, memory, 3 * domains * one * sizeof(double));
    return MT_OK;
}

/* Which experts serve which domain, in the last MoE layer. */
static enum mt_status take_shares(struct measuring *m, struct mt_cell_result *result)
{
    size_t domains = m->job->settings->domains;
    size_t experts = (size_t)m->options.experts;
    void *memory = NULL;
    enum mt_status status =
        mt_arena_allocate(m->job->arena, domains * experts * sizeof *result->share, &memory);
    if (status != MT_OK) return status;
    result->share = memory;
    result->experts = experts;
    for (size_t d = 0; d < domains; d++) {
        const double *load = m->figures[d].layer[m->options.layers - 1].load;
        double sum = 0.0;
        for (size_t j = 0; j < experts; j++) sum += load[j];
        for (size_t j = 0; j < experts; j++) result->share[d * experts + j] = load[j] / sum;
    }
    return MT_OK;
}

static double mean_of_others(const struct measuring *m, const double *value)
{
    size_t domains = m->job->settings->domains;
    double sum = 0.0;
    for (size_t d = 0; d < domains; d++) sum += d == m->cell->domain ? 0.0 : value[d];
    return domains > 1 ? sum / (double)(domains - 1) : (double)NAN;
}

static enum mt_status take_figures(struct measuring *m, struct mt_cell_result *result)
{
    const struct mt_compare_settings *settings = m->job->settings;
    const struct mt_geometry_options geometry = {
        .neighbours = (int)settings->neighbours, .seed = SAMPLING_SEED, .threads = (int)m->job->threads};
    enum mt_status status = MT_OK;
    for (size_t d = 0; d < settings->domains && status == MT_OK; d++)
        status =
            mt_collector_finish(m->collector[d], d == m->cell->domain ? &geometry : NULL, &m->figures[d]);
    if (status != MT_OK) return status;
    const struct mt_layer_figures *own = &m->figures[m->cell->domain].mean;
    double *figure = result->figure;
    figure[MT_COMPARE_ACCURACY] = result->accuracy[m->cell->domain];
    figure[MT_COMPARE_ACCURACY_OTHERS] = mean_of_others(m, result->accuracy);
    figure[MT_COMPARE_LOSS] = result->loss[m->cell->domain];
    figure[MT_COMPARE_LOSS_OTHERS] = mean_of_others(m, result->loss);
    figure[MT_COMPARE_MAXVIO] = own->max_violation;
    figure[MT_COMPARE_MAXVIO_BATCH] = own->max_violation_batch;
    figure[MT_COMPARE_ENTROPY] = own->entropy;
    figure[MT_COMPARE_OVERLAP] = own->input.overlap;
    figure[MT_COMPARE_SILHOUETTE] = own->input.silhouette;
    figure[MT_COMPARE_OVERLAP_OUT] = own->output_unit.overlap;
    figure[MT_COMPARE_SILHOUETTE_OUT] = own->output_unit.silhouette;
    figure[MT_COMPARE_RV_TOKEN] = own->rv_token;
    figure[MT_COMPARE_RV_EXPERT] = own->rv_expert;
    figure[MT_COMPARE_ABS_COS] = own->abs_cos;
    status = take_shares(m, result);
    return status == MT_OK ? measure_information(m, &figure[MT_COMPARE_INFORMATION]) : status;
}

// ------------------------------------------------------------------ the picture of tokens

/* Whether an expert is one of the SHOWN_EXPERTS that are the first choice of most. */
static bool is_active(const double *first, int experts, int expert)
{
    int before = 0;
    for (int j = 0; j < experts; j++) {
        if (first[j] > first[expert] || (j < expert && first[j] == first[expert])) before++;
    }
    return before < SHOWN_EXPERTS;
}

/* Tokens of the most active experts in the last MoE layer, along two principal components. */
static enum mt_status draw_tokens(struct measuring *m, struct mt_cell_result *result)
{
    struct mt_kept_vectors kept;
    struct mt_pca pca = {0};
    void *memory = NULL;
    int layer = m->options.layers - 1;
    const struct mt_layer_figures *figures = &m->figures[m->cell->domain].layer[layer];
    int slots = m->figures[m->cell->domain].slots;
    mt_collector_inputs(m->collector[m->cell->domain], layer, &kept);
    if (kept.count < 3) return MT_OK;
    enum mt_status status =
        mt_arena_allocate(m->job->arena, MT_COMPARE_MOST_POINTS * sizeof(struct mt_cell_point), &memory);
    if (status == MT_OK)
        status = mt_pca_find(m->job->ctx, kept.vectors, kept.count, kept.width, 2, SAMPLING_SEED, &pca);
    if (status != MT_OK) return status;
    result->point = memory;
    result->point_layer = figures->number;
    for (int64_t i = 0; i < kept.count && pca.components == 2; i++) {
        int expert = kept.experts[i * slots];
        bool shown = expert >= 0 && is_active(figures->first, m->options.experts, expert);
        if (!shown || result->points == MT_COMPARE_MOST_POINTS) continue;
        result->point[result->points++] =
            (struct mt_cell_point){.x = pca.points[2 * i], .y = pca.points[2 * i + 1], .expert = expert};
    }
    mt_pca_free(&pca);
    return MT_OK;
}

// ------------------------------------------------------------------ beside weights as stored

/* The model as it was trained, but for its codes: the run's adapter on weights as they are stored. */
static enum mt_status open_stored(const struct measuring *m, struct mt_model **model)
{
    const struct mt_train_settings *training = m->training;
    struct mt_adapter adapter = {0};
    char path[PATH_BYTES];
    struct mt_model_options options = {.tokens = m->batch_tokens,
                                       .sequences = mt_corpus_most_sequences(training, m->batch_tokens),
                                       .positions = training->max_length,
                                       .activations = mt_model_activations(m->model)};
    (void)snprintf(path, sizeof path, "%s/adapter", training->out);
    enum mt_status status = mt_adapter_open_for(m->job->ctx, path, training->model, &adapter);
    if (status == MT_OK) {
        mt_adapter_select(&adapter, &options.selection);
        options.selection.quantise = (struct mt_quantise_options){0};
        status = mt_model_open(m->device, training->model, &options, model);
    }
    if (status == MT_OK) status = mt_adapter_apply(&adapter, mt_model_params(*model));
    mt_adapter_close(&adapter);
    return status;
}

/* Means over layers of how many tokens, and slots, have the same experts. */
static void compare_choices(const struct measuring *m, const struct measuring *stored, double *figure)
{
    size_t own = m->cell->domain;
    double sets = 0.0;
    double slots = 0.0;
    for (int layer = 0; layer < m->options.layers; layer++) {
        struct mt_drift_figures drift;
        int64_t count = 0;
        const uint16_t *now = mt_collector_choices(m->collector[own], layer, &count);
        const uint16_t *then = mt_collector_choices(stored->collector[own], layer, &count);
        mt_drift_choices(now, then, count, m->options.slots, &drift);
        sets += drift.sets_changed;
        slots += drift.slots_changed;
    }
    figure[MT_COMPARE_SAME_EXPERTS] = 1.0 - sets / m->options.layers;
    figure[MT_COMPARE_SAME_SLOTS] = 1.0 - slots / m->options.layers;
}

static enum mt_status measure_agreement(const struct measuring *m, struct mt_cell_result *result)
{
    size_t own = m->cell->domain;
    struct mt_cell_result unread;
    struct measuring stored = *m;
    result->figure[MT_COMPARE_SAME_EXPERTS] = result->figure[MT_COMPARE_SAME_SLOTS] = (double)NAN;
    if (m->options.choices == 0) return MT_OK;
    stored.choices_only = true;
    stored.model = NULL;
    stored.collector[own] = NULL;
    enum mt_status status = open_stored(m, &stored.model);
    if (status == MT_OK) status = run_domain(&stored, own, &unread);
    if (status == MT_OK) compare_choices(m, &stored, result->figure);
    mt_collector_destroy(stored.collector[own]);
    mt_model_close(stored.model);
    return status;
}

// ------------------------------------------------------------------ all of it

static enum mt_status prepare(struct measuring *m)
{
    const struct mt_model_desc *desc = mt_model_description(m->model);
    void *memory = NULL;
    m->device = mt_model_device(m->model);
    enum mt_status status = mt_arena_allocate(m->job->arena, (size_t)desc->layers * sizeof(int64_t), &memory);
    if (status != MT_OK) return status;
    if (!mt_collector_options_of(desc, memory, &m->options))
        return mt_fail(m->job->ctx, MT_ERR_USAGE, "%s: no layer has experts", m->training->model);
    m->options.batch_tokens = BATCH_TOKENS;
    m->options.seed = SAMPLING_SEED;
    bool quantised = m->training->quantise_format != 0 && m->training->train == MT_TRAIN_LORA;
    m->options.choices = m->job->settings->agreement && quantised ? MOST_CHOICES : 0;
    m->batch_tokens = LOGIT_NUMBERS / desc->vocabulary;
    if (m->batch_tokens < m->training->max_length) m->batch_tokens = m->training->max_length;
    if (m->batch_tokens > m->training->tokens) m->batch_tokens = m->training->tokens;
    m->host_bytes = (size_t)(m->batch_tokens * desc->vocabulary) * sizeof(float);
    memory = NULL;
    status = mt_allocate_array(m->job->ctx, 1, m->host_bytes, &memory);
    m->host = memory;
    return status == MT_OK ? mt_device_buffer_create(m->device, m->host_bytes, &m->logits) : status;
}

enum mt_status mt_cell_measure(const struct mt_cell_job *job, const struct mt_cell *cell,
                               const struct mt_train_settings *training, struct mt_model *model,
                               struct mt_cell_result *result)
{
    struct measuring m = {.job = job, .cell = cell, .training = training, .model = model};
    enum mt_status status = prepare(&m);
    for (size_t d = 0; d < job->settings->domains && status == MT_OK; d++) status = run_domain(&m, d, result);
    if (status == MT_OK) status = take_figures(&m, result);
    if (status == MT_OK) status = draw_tokens(&m, result);
    if (status == MT_OK) status = measure_agreement(&m, result);
    for (size_t d = 0; d < job->settings->domains; d++) {
        mt_figures_free(&m.figures[d]);
        mt_collector_destroy(m.collector[d]);
    }
    mt_buffer_release(&m.logits);
    mt_release(job->ctx, m.host, m.host_bytes);
    return status;
}
