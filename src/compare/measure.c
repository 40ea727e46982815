/* One pass over held-out problems: accuracy, loss, routing, geometry. */
#include "compare/measure.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/affinity.h"
#include "analysis/drift.h"
#include "analysis/pca.h"
#include "analysis/run/weights.h"
#include "compare/asking/answers.h"
#include "model/adapters/adapter.h"
#include "model/collect.h"
#include "objective/loads.h"
#include "train/data/corpus.h"

#define BATCH_TOKENS  2048  // of MaxVio over batches: about what a training step has
#define PATH_TOKENS   65536 // that are followed through the layers
#define PATH_BYTES    4096
#define SHOWN_EXPERTS 6 // of the picture of tokens

struct measuring {
    const struct mt_cell_job *job;
    const struct mt_cell *cell;
    const size_t *own; // [owns]: the domains the cell was trained on
    size_t owns;
    const struct mt_train_settings *training;
    struct mt_model *model;
    struct mt_device *device;
    struct mt_collector_options options; // but for vectors and stream
    bool choices_only;                   // no vectors are kept
    struct mt_answering answering;
    struct mt_collector *collector[MT_COMPARE_MOST_DOMAINS];
    struct mt_figures figures[MT_COMPARE_MOST_DOMAINS];
};

// ------------------------------------------------------------------ domains

static bool is_own(const struct measuring *m, size_t domain)
{
    return mt_compare_is_part(m->job->settings, m->cell->domain, domain);
}

/* A mix has nothing of its own to run. */
static bool is_mix(const struct measuring *m, size_t domain)
{
    return m->job->settings->domain[domain].mix;
}

static enum mt_status make_collector(struct measuring *m, size_t domain)
{
    int64_t sample = m->job->settings->sample;
    struct mt_collector_options options = m->options;
    bool own = is_own(m, domain);
    if (own) options.choices = PATH_TOKENS;
    if (own && !m->choices_only) {
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
    const char *path = NULL;
    struct mt_answers answers = {0};
    enum mt_status status = mt_cell_test_data(m->job, domain, &path);
    if (status == MT_OK) status = make_collector(m, domain);
    if (status == MT_OK) status = mt_answering_run(&m->answering, path, 0, m->collector[domain], &answers);
    if (status != MT_OK) return status;
    result->accuracy[domain] = mt_answers_accuracy(&answers);
    result->loss[domain] = mt_answers_loss(&answers);
    return MT_OK;
}

// ------------------------------------------------------------------ figures

/* Adds to `sum` what share of a domain's slots every expert of a layer serves. */
static void add_shares(const struct measuring *m, size_t domain, int layer, double *sum)
{
    const double *load = m->figures[domain].layer[layer].load;
    double all = 0.0;
    for (int j = 0; j < m->options.experts; j++) all += load[j];
    for (int j = 0; j < m->options.experts; j++) sum[j] += load[j] / all;
}

/* What the expert tells about the domain, mean over layers. NaN with one domain. */
static enum mt_status measure_information(struct measuring *m, double *information)
{
    size_t domains = m->job->settings->domains;
    size_t one = (size_t)m->options.experts;
    void *memory = NULL;
    *information = (double)NAN;
    enum mt_status status = mt_allocate_array(m->job->ctx, 3 * domains * one, sizeof(double), &memory);
    if (status != MT_OK) return status;
    double *load = memory;
    double sum = 0.0;
    size_t count = 0;
    for (int layer = 0; layer < m->options.layers; layer++) {
        count = 0;
        for (size_t d = 0; d < domains; d++) {
            if (is_mix(m, d)) continue;
            for (size_t j = 0; j < one; j++) load[count * one + j] = m->figures[d].layer[layer].load[j];
            count++;
        }
        sum +=
            mt_affinity(load, (int)count, m->options.experts, load + domains * one, load + 2 * domains * one);
    }
    if (count > 1) *information = sum / m->options.layers;
    mt_release(m->job->ctx, memory, 3 * domains * one * sizeof(double));
    return MT_OK;
}

/* How even the loads are over all that was trained on together, each domain with the same share. */
static enum mt_status measure_mix(const struct measuring *m, double *figure)
{
    size_t bytes = (size_t)m->options.experts * sizeof(double);
    void *memory = NULL;
    struct mt_load_figures mean = {0};
    enum mt_status status = mt_allocate_array(m->job->ctx, bytes / sizeof(double), sizeof(double), &memory);
    if (status != MT_OK) return status;
    double *load = memory;
    for (int layer = 0; layer < m->options.layers; layer++) {
        struct mt_load_figures one;
        memset(load, 0, bytes);
        for (size_t i = 0; i < m->owns; i++) add_shares(m, m->own[i], layer, load);
        mt_load_judge(load, m->options.experts, &one);
        mean.max_violation += one.max_violation / m->options.layers;
        mean.entropy += one.entropy / m->options.layers;
        mean.min += one.min / m->options.layers;
    }
    figure[MT_COMPARE_MAXVIO_MIX] = mean.max_violation;
    figure[MT_COMPARE_ENTROPY_MIX] = mean.entropy;
    figure[MT_COMPARE_LOAD_MIN_MIX] = mean.min;
    mt_release(m->job->ctx, memory, bytes);
    return MT_OK;
}

/* Which experts serve which domain, in the last MoE layer; of a mix the mean over its parts. */
static enum mt_status take_shares(struct measuring *m, struct mt_cell_result *result)
{
    size_t domains = m->job->settings->domains;
    size_t experts = (size_t)m->options.experts;
    enum mt_status status = MT_OK;
    result->share = mt_arena_array(m->job->arena, domains * experts, sizeof *result->share, &status);
    if (status != MT_OK) return status;
    result->experts = experts;
    for (size_t d = 0; d < domains; d++) {
        double *share = result->share + d * experts;
        size_t count = 0;
        const size_t *parts = mt_compare_parts(m->job->settings, d, &count);
        for (size_t i = 0; i < count; i++) add_shares(m, parts[i], m->options.layers - 1, share);
        for (size_t j = 0; j < experts; j++) share[j] /= (double)count;
    }
    return MT_OK;
}

static double mean_of_others(const struct measuring *m, const double *value)
{
    double sum = 0.0;
    size_t count = 0;
    for (size_t d = 0; d < m->job->settings->domains; d++) {
        if (is_own(m, d) || is_mix(m, d)) continue;
        sum += value[d];
        count++;
    }
    return count > 0 ? sum / (double)count : (double)NAN;
}

/* What the weights of routers and experts say, put beside the figures of the domains trained on. */
static enum mt_status look_at_weights(struct measuring *m)
{
    void *memory = NULL;
    enum mt_status status = mt_arena_allocate(
        m->job->arena, (size_t)m->options.layers * sizeof(struct mt_coupling_figures), &memory);
    if (status == MT_OK) status = mt_model_coupling(m->model, memory);
    for (size_t i = 0; i < m->owns && status == MT_OK; i++)
        mt_figures_take_coupling(&m->figures[m->own[i]], memory);
    return status;
}

/* The figures of one domain the cell was trained on. */
static void take_domain(const struct measuring *m, size_t domain, struct mt_cell_result *result)
{
    const struct mt_layer_figures *own = &m->figures[domain].mean;
    double *figure = result->by_domain[domain];
    figure[MT_COMPARE_ACCURACY] = result->accuracy[domain];
    figure[MT_COMPARE_LOSS] = result->loss[domain];
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
    figure[MT_COMPARE_GINI] = own->gini;
    figure[MT_COMPARE_EFFECTIVE] = own->effective_experts;
    figure[MT_COMPARE_EXPERTS_90] = own->experts_90;
    figure[MT_COMPARE_LOAD_MIN] = own->load_min;
    figure[MT_COMPARE_LOAD_MAX] = own->load_max;
    figure[MT_COMPARE_PATH_ENTROPY] = own->path.entropy;
    figure[MT_COMPARE_PATH_INFORMATION] = own->path.information;
    figure[MT_COMPARE_ROUTER_COS] = own->coupling.row_cos;
    figure[MT_COMPARE_ROUTER_ABS_COS] = own->coupling.row_abs_cos;
    figure[MT_COMPARE_ERC_DIAGONAL] = own->coupling.diagonal;
    figure[MT_COMPARE_ERC_DOMINANCE] = own->coupling.dominance;
}

/* The means over the domains trained on, of every figure that is one domain's. */
static void take_means(const struct measuring *m, struct mt_cell_result *result)
{
    for (int i = 0; i < MT_COMPARE_FIGURES; i++) {
        if (!mt_compare_is_of_domain((enum mt_compare_figure)i)) continue;
        double sum = 0.0;
        for (size_t k = 0; k < m->owns; k++) sum += result->by_domain[m->own[k]][i];
        result->figure[i] = sum / (double)m->owns;
    }
    // Of every mix, whether this cell was trained on it or not.
    for (size_t d = 0; d < m->job->settings->domains; d++) {
        size_t count = 0;
        const size_t *parts = mt_compare_parts(m->job->settings, d, &count);
        if (!is_mix(m, d)) continue;
        result->accuracy[d] = result->loss[d] = 0.0;
        for (size_t k = 0; k < count; k++) {
            result->accuracy[d] += result->accuracy[parts[k]] / (double)count;
            result->loss[d] += result->loss[parts[k]] / (double)count;
        }
    }
}

static enum mt_status take_figures(struct measuring *m, struct mt_cell_result *result)
{
    const struct mt_compare_settings *settings = m->job->settings;
    const struct mt_geometry_options geometry = {
        .neighbours = (int)settings->neighbours, .seed = MT_ANSWERING_SEED, .threads = (int)m->job->threads};
    enum mt_status status = MT_OK;
    for (size_t d = 0; d < settings->domains && status == MT_OK; d++) {
        if (is_mix(m, d)) continue;
        status = mt_collector_finish(m->collector[d], is_own(m, d) ? &geometry : NULL, &m->figures[d]);
    }
    if (status == MT_OK) status = look_at_weights(m);
    if (status != MT_OK) return status;
    for (size_t i = 0; i < m->owns; i++) take_domain(m, m->own[i], result);
    result->figure[MT_COMPARE_ACCURACY_OTHERS] = mean_of_others(m, result->accuracy);
    result->figure[MT_COMPARE_LOSS_OTHERS] = mean_of_others(m, result->loss);
    status = take_shares(m, result);
    if (status == MT_OK) status = measure_mix(m, result->figure);
    return status == MT_OK ? measure_information(m, &result->figure[MT_COMPARE_INFORMATION]) : status;
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

/* The kept inputs of a layer of all domains trained on, in turns. */
struct tokens {
    int64_t count, width;
    float *vectors; // [count,width], owned
    int *expert;    // [count], owned: the first choice
};

static enum mt_status gather_tokens(const struct measuring *m, int layer, struct tokens *tokens)
{
    struct mt_kept_vectors kept[MT_COMPARE_MOST_DOMAINS] = {{0}};
    int64_t most = 0;
    int64_t count = 0;
    void *vectors = NULL;
    void *expert = NULL;
    for (size_t i = 0; i < m->owns; i++) {
        mt_collector_inputs(m->collector[m->own[i]], layer, &kept[i]);
        if (kept[i].count > most) most = kept[i].count;
        count += kept[i].count;
    }
    tokens->count = count;
    tokens->width = kept[0].width;
    size_t width = (size_t)kept[0].width;
    enum mt_status status =
        mt_allocate_array(m->job->ctx, (size_t)count * width, sizeof *tokens->vectors, &vectors);
    if (status == MT_OK)
        status = mt_allocate_array(m->job->ctx, (size_t)count, sizeof *tokens->expert, &expert);
    tokens->vectors = vectors;
    tokens->expert = expert;
    size_t filled = 0;
    for (int64_t t = 0; t < most && status == MT_OK; t++) {
        for (size_t i = 0; i < m->owns; i++) {
            if (t >= kept[i].count) continue;
            memcpy(tokens->vectors + filled * width, kept[i].vectors + (size_t)t * width,
                   width * sizeof *tokens->vectors);
            tokens->expert[filled++] = kept[i].experts[t * m->figures[m->own[i]].slots];
        }
    }
    return status;
}

/* Puts those of the most active experts on the plane. */
static enum mt_status place_tokens(const struct measuring *m, const struct tokens *tokens,
                                   struct mt_cell_result *result)
{
    struct mt_pca pca = {0};
    void *first = NULL;
    enum mt_status status = MT_OK;
    int layer = m->options.layers - 1;
    size_t experts = (size_t)m->options.experts;
    result->point =
        mt_arena_array(m->job->arena, MT_COMPARE_MOST_POINTS, sizeof(struct mt_cell_point), &status);
    if (status == MT_OK) status = mt_allocate_array(m->job->ctx, experts, sizeof(double), &first);
    if (status == MT_OK)
        status = mt_pca_find(m->job->ctx, tokens->vectors, tokens->count, tokens->width, 2, MT_ANSWERING_SEED,
                             &pca);
    if (status == MT_OK) {
        double *chosen = first;
        result->point_layer = m->figures[m->own[0]].layer[layer].number;
        for (size_t i = 0; i < m->owns * experts; i++)
            chosen[i % experts] += m->figures[m->own[i / experts]].layer[layer].first[i % experts];
        for (int64_t i = 0; i < tokens->count && pca.components == 2; i++) {
            int expert = tokens->expert[i];
            bool shown = expert >= 0 && is_active(chosen, m->options.experts, expert);
            if (!shown || result->points == MT_COMPARE_MOST_POINTS) continue;
            result->point[result->points++] =
                (struct mt_cell_point){.x = pca.points[2 * i], .y = pca.points[2 * i + 1], .expert = expert};
        }
    }
    mt_pca_free(&pca);
    mt_release(m->job->ctx, first, experts * sizeof(double));
    return status;
}

/* Tokens of the most active experts in the last MoE layer, along two principal components. */
static enum mt_status draw_tokens(struct measuring *m, struct mt_cell_result *result)
{
    struct tokens tokens = {0};
    enum mt_status status = gather_tokens(m, m->options.layers - 1, &tokens);
    if (status == MT_OK && tokens.count >= 3) status = place_tokens(m, &tokens, result);
    mt_release(m->job->ctx, tokens.vectors, (size_t)(tokens.count * tokens.width) * sizeof *tokens.vectors);
    mt_release(m->job->ctx, tokens.expert, (size_t)tokens.count * sizeof *tokens.expert);
    return status;
}

// ------------------------------------------------------------------ beside weights as stored

/* The model as it was trained, but for its codes: the run's adapter on weights as they are stored. */
static enum mt_status open_stored(const struct measuring *m, struct mt_model **model)
{
    const struct mt_train_settings *training = m->training;
    int64_t tokens = m->answering.batch_tokens;
    struct mt_adapter adapter = {0};
    char path[PATH_BYTES];
    struct mt_model_options options = {.tokens = tokens,
                                       .sequences = mt_corpus_most_sequences(training, tokens),
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
static void compare_choices(const struct measuring *m, const struct measuring *stored, size_t domain,
                            double *figure)
{
    double sets = 0.0;
    double slots = 0.0;
    for (int layer = 0; layer < m->options.layers; layer++) {
        struct mt_drift_figures drift;
        int64_t count = 0;
        const uint16_t *now = mt_collector_choices(m->collector[domain], layer, &count);
        const uint16_t *then = mt_collector_choices(stored->collector[domain], layer, &count);
        mt_drift_choices(now, then, count, m->options.slots, &drift);
        sets += drift.sets_changed;
        slots += drift.slots_changed;
    }
    figure[MT_COMPARE_SAME_EXPERTS] = 1.0 - sets / m->options.layers;
    figure[MT_COMPARE_SAME_SLOTS] = 1.0 - slots / m->options.layers;
}

static enum mt_status measure_agreement(const struct measuring *m, struct mt_cell_result *result)
{
    struct mt_cell_result unread;
    struct measuring stored = *m;
    bool quantised = m->training->quantise_format != 0 && m->training->train == MT_TRAIN_LORA;
    if (!m->job->settings->agreement || !quantised || m->cell->start) return MT_OK; // no adapter is there yet
    stored.choices_only = true;
    stored.model = NULL;
    for (size_t i = 0; i < m->owns; i++) stored.collector[m->own[i]] = NULL;
    stored.answering = (struct mt_answering){0};
    enum mt_status status = open_stored(m, &stored.model);
    if (status == MT_OK) status = mt_answering_open(m->job, m->training, stored.model, &stored.answering);
    for (size_t i = 0; i < m->owns && status == MT_OK; i++) {
        status = run_domain(&stored, m->own[i], &unread);
        if (status == MT_OK) compare_choices(m, &stored, m->own[i], result->by_domain[m->own[i]]);
    }
    mt_answering_close(&stored.answering);
    for (size_t i = 0; i < m->owns; i++) mt_collector_destroy(stored.collector[m->own[i]]);
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
    m->options.seed = MT_ANSWERING_SEED;
    return mt_answering_open(m->job, m->training, m->model, &m->answering);
}

enum mt_status mt_cell_measure(const struct mt_cell_job *job, const struct mt_cell *cell,
                               const struct mt_train_settings *training, struct mt_model *model,
                               struct mt_cell_result *result)
{
    struct measuring m = {.job = job, .cell = cell, .training = training, .model = model};
    m.own = mt_compare_parts(job->settings, cell->domain, &m.owns);
    for (size_t i = 0; i < (size_t)MT_COMPARE_MOST_DOMAINS * MT_COMPARE_FIGURES; i++)
        result->by_domain[i / MT_COMPARE_FIGURES][i % MT_COMPARE_FIGURES] = (double)NAN;
    enum mt_status status = prepare(&m);
    for (size_t d = 0; d < job->settings->domains && status == MT_OK; d++)
        status = is_mix(&m, d) ? MT_OK : run_domain(&m, d, result);
    if (status == MT_OK) status = take_figures(&m, result);
    if (status == MT_OK) status = draw_tokens(&m, result);
    if (status == MT_OK) status = measure_agreement(&m, result);
    if (status == MT_OK) take_means(&m, result);
    for (size_t d = 0; d < job->settings->domains; d++) {
        mt_figures_free(&m.figures[d]);
        mt_collector_destroy(m.collector[d]);
    }
    mt_answering_close(&m.answering);
    return status;
}
