/* One pass over held-out problems: accuracy, loss, routing, geometry. */
#include "compare/measure.h"

#include <math.h>
#include <stdio.h>

#include "analysis/affinity.h"
#include "analysis/drift.h"
#include "analysis/pca.h"
#include "analysis/run/weights.h"
#include "compare/asking/answers.h"
#include "model/adapters/adapter.h"
#include "model/collect.h"
#include "train/data/corpus.h"

#define BATCH_TOKENS  2048  // of MaxVio over batches: about what a training step has
#define PATH_TOKENS   65536 // that are followed through the layers
#define PATH_BYTES    4096
#define SHOWN_EXPERTS 6 // of the picture of tokens

struct measuring {
    const struct mt_cell_job *job;
    const struct mt_cell *cell;
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

static enum mt_status make_collector(struct measuring *m, size_t domain)
{
    int64_t sample = m->job->settings->sample;
    struct mt_collector_options options = m->options;
    if (domain == m->cell->domain) options.choices = PATH_TOKENS;
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
    const char *path = NULL;
    struct mt_answers answers = {0};
    enum mt_status status = mt_cell_data(m->job, &m->job->settings->domain[domain], true, &path);
    if (status == MT_OK) status = make_collector(m, domain);
    if (status == MT_OK) status = mt_answering_run(&m->answering, path, 0, m->collector[domain], &answers);
    if (status != MT_OK) return status;
    result->accuracy[domain] = mt_answers_accuracy(&answers);
    result->loss[domain] = mt_answers_loss(&answers);
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
    enum mt_status status = MT_OK;
    result->share = mt_arena_array(m->job->arena, domains * experts, sizeof *result->share, &status);
    if (status != MT_OK) return status;
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

/* What the weights of routers and experts say, put beside the domain's own figures. */
static enum mt_status look_at_weights(struct measuring *m)
{
    void *memory = NULL;
    enum mt_status status = mt_arena_allocate(
        m->job->arena, (size_t)m->options.layers * sizeof(struct mt_coupling_figures), &memory);
    if (status == MT_OK) status = mt_model_coupling(m->model, memory);
    if (status == MT_OK) mt_figures_take_coupling(&m->figures[m->cell->domain], memory);
    return status;
}

static enum mt_status take_figures(struct measuring *m, struct mt_cell_result *result)
{
    const struct mt_compare_settings *settings = m->job->settings;
    const struct mt_geometry_options geometry = {
        .neighbours = (int)settings->neighbours, .seed = MT_ANSWERING_SEED, .threads = (int)m->job->threads};
    enum mt_status status = MT_OK;
    for (size_t d = 0; d < settings->domains && status == MT_OK; d++)
        status =
            mt_collector_finish(m->collector[d], d == m->cell->domain ? &geometry : NULL, &m->figures[d]);
    if (status == MT_OK) status = look_at_weights(m);
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
        status = mt_pca_find(m->job->ctx, kept.vectors, kept.count, kept.width, 2, MT_ANSWERING_SEED, &pca);
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
    bool quantised = m->training->quantise_format != 0 && m->training->train == MT_TRAIN_LORA;
    result->figure[MT_COMPARE_SAME_EXPERTS] = result->figure[MT_COMPARE_SAME_SLOTS] = (double)NAN;
    if (!m->job->settings->agreement || !quantised) return MT_OK;
    stored.choices_only = true;
    stored.model = NULL;
    stored.collector[own] = NULL;
    stored.answering = (struct mt_answering){0};
    enum mt_status status = open_stored(m, &stored.model);
    if (status == MT_OK) status = mt_answering_open(m->job, m->training, stored.model, &stored.answering);
    if (status == MT_OK) status = run_domain(&stored, own, &unread);
    if (status == MT_OK) compare_choices(m, &stored, result->figure);
    mt_answering_close(&stored.answering);
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
    m->options.seed = MT_ANSWERING_SEED;
    return mt_answering_open(m->job, m->training, m->model, &m->answering);
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
    mt_answering_close(&m.answering);
    return status;
}
