/* analysis.json, as docs/analysis.md describes it. */
#include <inttypes.h>
#include <math.h>

#include "analysis/affinity.h"
#include "analysis/numbers_json.h"
#include "analysis/pca.h"
#include "cli/analyze/analyze.h"

#define PCA_EXPERTS    6    // the most active ones
#define PCA_POINTS     1200 // of a layer at the most, the domains' shares alike
#define PCA_AXES       2
#define PICTURE_DIGITS 6

// ------------------------------------------------------------------ the head

static enum mt_status put_name(struct mt_json_text *text, const char *key, const char *value)
{
    enum mt_status status = mt_json_text_format(text, ",\n \"%s\": ", key);
    if (status != MT_OK) return status;
    return value != NULL ? mt_json_text_string(text, value) : mt_json_text_format(text, "null");
}

static enum mt_status put_settings(const struct analyze *run, struct mt_json_text *text)
{
    const struct analyze_settings *settings = run->settings;
    const char *base = settings->base;
    if (base == NULL && run->with_base) base = settings->model;
    enum mt_status status = mt_json_text_format(text, "{\"format\": \"metier-analysis-1\"");
    if (status == MT_OK) status = put_name(text, "model", settings->model);
    if (status == MT_OK) status = put_name(text, "adapter", settings->adapter);
    if (status == MT_OK) status = put_name(text, "base", base);
    if (status != MT_OK) return status;
    return mt_json_text_format(text,
                               ",\n \"tokens\": %" PRId64 ", \"length\": %" PRId64 ", \"seed\": %" PRId64
                               ", \"neighbours\": %" PRId64 ", \"sample\": %" PRId64 ", \"queries\": %" PRId64
                               ",\n \"experts\": %d, \"slots\": %d",
                               settings->tokens, settings->length, settings->seed, settings->neighbours,
                               settings->sample, settings->queries, run->experts, run->slots);
}

static enum mt_status put_lists(const struct analyze *run, struct mt_json_text *text)
{
    enum mt_status status = mt_json_text_format(text, ",\n \"layers\": [");
    for (int i = 0; status == MT_OK && i < run->layers; i++)
        status = mt_json_text_format(text, "%s%" PRId64, i > 0 ? ", " : "", run->number[i]);
    if (status == MT_OK) status = mt_json_text_format(text, "],\n \"domains\": [");
    for (int i = 0; status == MT_OK && i < run->domains; i++) {
        if (i > 0) status = mt_json_text_format(text, ", ");
        if (status == MT_OK) status = mt_json_text_string(text, run->domain[i].name);
    }
    return status == MT_OK ? mt_json_text_format(text, "]") : status;
}

static enum mt_status put_figures(const struct analyze *run, struct mt_json_text *text)
{
    enum mt_status status = mt_json_text_format(text, ",\n \"formulas\": ");
    if (status == MT_OK) status = mt_figures_put_formulas(text);
    if (status == MT_OK) status = mt_json_text_format(text, ",\n \"overall\": ");
    if (status == MT_OK) status = mt_figures_put_json(&run->model.figures[run->domains], text);
    if (status == MT_OK) status = mt_json_text_format(text, ",\n \"by_domain\": {");
    for (int i = 0; status == MT_OK && i < run->domains; i++) {
        if (i > 0) status = mt_json_text_format(text, ",");
        if (status == MT_OK) status = mt_json_text_format(text, "\n ");
        if (status == MT_OK) status = mt_json_text_string(text, run->domain[i].name);
        if (status == MT_OK) status = mt_json_text_format(text, ": ");
        if (status == MT_OK) status = mt_figures_put_json(&run->model.figures[i], text);
    }
    return status == MT_OK ? mt_json_text_format(text, "}") : status;
}

// ------------------------------------------------------------------ affinity

static enum mt_status put_matrix(struct mt_json_text *text, const char *name, const double *matrix, int rows,
                                 int columns)
{
    enum mt_status status = mt_json_text_format(text, ", \"%s\": [", name);
    for (int i = 0; status == MT_OK && i < rows; i++) {
        if (i > 0) status = mt_json_text_format(text, ",\n   ");
        if (status == MT_OK) status = mt_put_numbers(text, matrix + (size_t)i * (size_t)columns, columns);
    }
    return status == MT_OK ? mt_json_text_format(text, "]") : status;
}

/* numbers: [3][domains][n] to work with. */
static enum mt_status put_layer_affinity(const struct analyze *run, int layer, double *numbers,
                                         struct mt_json_text *text)
{
    size_t n = (size_t)run->experts;
    double *share = numbers + (size_t)run->domains * n;
    double *preference = share + (size_t)run->domains * n;
    for (size_t d = 0; d < (size_t)run->domains; d++) {
        const double *load = run->model.figures[d].layer[layer].load;
        for (size_t j = 0; j < n; j++) numbers[d * n + j] = load[j];
    }
    double information = mt_affinity(numbers, run->domains, run->experts, share, preference);
    enum mt_status status = mt_json_text_format(
        text, "%s\n  {\"layer\": %" PRId64 ", \"information\": ", layer > 0 ? "," : "", run->number[layer]);
    if (status == MT_OK) status = mt_put_number(text, information);
    if (status == MT_OK) status = put_matrix(text, "share", share, run->domains, run->experts);
    if (status == MT_OK) status = put_matrix(text, "preference", preference, run->domains, run->experts);
    return status == MT_OK ? mt_json_text_format(text, "}") : status;
}

static enum mt_status put_affinity(const struct analyze *run, struct mt_json_text *text)
{
    void *memory = NULL;
    size_t count = 3 * (size_t)run->domains * (size_t)run->experts;
    enum mt_status status = mt_allocate_array(run->ctx, count, sizeof(double), &memory);
    if (status == MT_OK) status = mt_json_text_format(text, ",\n \"affinity\": [");
    for (int i = 0; status == MT_OK && i < run->layers; i++)
        status = put_layer_affinity(run, i, memory, text);
    if (status == MT_OK) status = mt_json_text_format(text, "]");
    mt_release(run->ctx, memory, count * sizeof(double));
    return status;
}

// ------------------------------------------------------------------ drift

static enum mt_status put_drift_figures(const struct mt_drift_figures *drift, struct mt_json_text *text)
{
    enum mt_status status = mt_json_text_format(text, "\"load_shift\": ");
    if (status == MT_OK) status = mt_put_number(text, drift->load_shift);
    if (status == MT_OK) status = mt_json_text_format(text, ", \"sets_changed\": ");
    if (status == MT_OK) status = mt_put_number(text, drift->sets_changed);
    if (status == MT_OK) status = mt_json_text_format(text, ", \"slots_changed\": ");
    if (status == MT_OK) status = mt_put_number(text, drift->slots_changed);
    if (status == MT_OK) status = mt_json_text_format(text, ", \"router_change\": ");
    return status == MT_OK ? mt_put_number(text, drift->router_change) : status;
}

static enum mt_status put_domain_drift(const struct analyze *run, int domain, struct mt_json_text *text)
{
    struct mt_drift_figures mean;
    analyze_mean_drift(run, domain, &mean);
    enum mt_status status = mt_json_text_format(text, "{\"mean\": {");
    if (status == MT_OK) status = put_drift_figures(&mean, text);
    if (status == MT_OK) status = mt_json_text_format(text, "}, \"layers\": [");
    for (int i = 0; status == MT_OK && i < run->layers; i++) {
        struct mt_drift_figures drift;
        analyze_drift(run, domain, i, &drift);
        status = mt_json_text_format(text, "%s\n  {\"layer\": %" PRId64 ", \"tokens\": %" PRId64 ", ",
                                     i > 0 ? "," : "", run->number[i], drift.tokens);
        if (status == MT_OK) status = put_drift_figures(&drift, text);
        if (status == MT_OK) status = mt_json_text_format(text, "}");
    }
    return status == MT_OK ? mt_json_text_format(text, "]}") : status;
}

static enum mt_status put_drift(const struct analyze *run, struct mt_json_text *text)
{
    if (!run->with_base) return mt_json_text_format(text, ",\n \"drift\": null");
    enum mt_status status = mt_json_text_format(text, ",\n \"drift\": {\"overall\": ");
    if (status == MT_OK) status = put_domain_drift(run, run->domains, text);
    if (status == MT_OK) status = mt_json_text_format(text, ",\n \"by_domain\": {");
    for (int i = 0; status == MT_OK && i < run->domains; i++) {
        if (i > 0) status = mt_json_text_format(text, ",\n ");
        if (status == MT_OK) status = mt_json_text_string(text, run->domain[i].name);
        if (status == MT_OK) status = mt_json_text_format(text, ": ");
        if (status == MT_OK) status = put_domain_drift(run, i, text);
    }
    return status == MT_OK ? mt_json_text_format(text, "}}") : status;
}

// ------------------------------------------------------------------ PCA

/* Points of one layer. */
struct picture {
    int expert[PCA_EXPERTS]; // the most active, falling
    int experts;
    int64_t count;
    float *vectors;  // [PCA_POINTS,d]
    int32_t *labels; // [PCA_POINTS][2]: expert, domain
};

/* The experts that are the first choice of most tokens. */
static void find_active(const struct analyze *run, int layer, struct picture *picture)
{
    const double *first = run->model.figures[run->domains].layer[layer].first;
    picture->experts = 0;
    while (picture->experts < PCA_EXPERTS && picture->experts < run->experts) {
        int best = -1;
        for (int j = 0; j < run->experts; j++) {
            bool taken = false;
            for (int i = 0; i < picture->experts; i++) taken = taken || picture->expert[i] == j;
            if (!taken && first[j] > 0.0 && (best < 0 || first[j] > first[best])) best = j;
        }
        if (best < 0) return;
        picture->expert[picture->experts++] = best;
    }
}

static bool is_active(const struct picture *picture, int32_t expert)
{
    for (int i = 0; i < picture->experts; i++) {
        if (picture->expert[i] == expert) return true;
    }
    return false;
}

static void gather(const struct analyze *run, int layer, struct picture *picture)
{
    picture->count = 0;
    for (int d = 0; d < run->domains; d++) {
        struct mt_kept_vectors kept;
        int64_t most = (int64_t)PCA_POINTS * (d + 1) / run->domains;
        mt_collector_inputs(run->model.collector[d], layer, &kept);
        for (int64_t i = 0; i < kept.count && picture->count < most; i++) {
            int32_t expert = kept.experts[i * run->slots];
            if (!is_active(picture, expert)) continue;
            for (int64_t c = 0; c < run->width; c++)
                picture->vectors[picture->count * run->width + c] = kept.vectors[i * run->width + c];
            picture->labels[2 * picture->count] = expert;
            picture->labels[2 * picture->count + 1] = d;
            picture->count++;
        }
    }
}

static enum mt_status put_points(const struct picture *picture, const struct mt_pca *pca,
                                 struct mt_json_text *text)
{
    enum mt_status status = mt_json_text_format(text, ",\n   \"points\": [");
    for (int64_t i = 0; status == MT_OK && i < picture->count; i++) {
        const double *place = pca->points + i * pca->components;
        status = mt_json_text_format(text, i > 0 ? ", [" : "[");
        if (status == MT_OK) status = mt_put_rounded(text, place[0], PICTURE_DIGITS);
        if (status == MT_OK) status = mt_json_text_format(text, ", ");
        if (status == MT_OK)
            status = mt_put_rounded(text, pca->components > 1 ? place[1] : 0.0, PICTURE_DIGITS);
        if (status == MT_OK)
            status =
                mt_json_text_format(text, ", %d, %d]", picture->labels[2 * i], picture->labels[2 * i + 1]);
    }
    return status == MT_OK ? mt_json_text_format(text, "]}") : status;
}

static enum mt_status put_layer_pca(const struct analyze *run, int layer, struct picture *picture, bool first,
                                    struct mt_json_text *text)
{
    struct mt_pca pca;
    enum mt_status status = mt_pca_find(run->ctx, picture->vectors, picture->count, run->width, PCA_AXES,
                                        (uint64_t)run->settings->seed, &pca);
    if (status != MT_OK) return status;
    status = mt_json_text_format(text, "%s\n  {\"layer\": %" PRId64 ", \"experts\": [", first ? "" : ",",
                                 run->number[layer]);
    for (int i = 0; status == MT_OK && i < picture->experts; i++)
        status = mt_json_text_format(text, "%s%d", i > 0 ? ", " : "", picture->expert[i]);
    if (status == MT_OK) status = mt_json_text_format(text, "], \"variance\": ");
    if (status == MT_OK) status = mt_put_numbers(text, pca.variance, pca.components);
    if (status == MT_OK) status = mt_json_text_format(text, ", \"total_variance\": ");
    if (status == MT_OK) status = mt_put_number(text, pca.total_variance);
    if (status == MT_OK) status = mt_json_text_format(text, ", \"residual\": ");
    if (status == MT_OK) status = mt_put_number(text, pca.residual);
    if (status == MT_OK) status = put_points(picture, &pca, text);
    mt_pca_free(&pca);
    return status;
}

static enum mt_status put_pca(const struct analyze *run, struct mt_json_text *text)
{
    struct picture picture = {0};
    size_t row = (size_t)run->width * sizeof(float);
    void *vectors = NULL;
    void *labels = NULL;
    bool first = true;
    enum mt_status status = mt_allocate_array(run->ctx, PCA_POINTS, row, &vectors);
    if (status == MT_OK) status = mt_allocate_array(run->ctx, PCA_POINTS, 2 * sizeof(int32_t), &labels);
    if (status == MT_OK) status = mt_json_text_format(text, ",\n \"pca\": [");
    picture.vectors = vectors;
    picture.labels = labels;
    for (int i = 0; status == MT_OK && i < run->layers; i++) {
        find_active(run, i, &picture);
        gather(run, i, &picture);
        if (picture.count < 2) continue; // nothing to see
        status = put_layer_pca(run, i, &picture, first, text);
        first = false;
    }
    if (status == MT_OK) status = mt_json_text_format(text, "]");
    mt_release(run->ctx, vectors, PCA_POINTS * row);
    mt_release(run->ctx, labels, PCA_POINTS * 2 * sizeof(int32_t));
    return status;
}

enum mt_status analyze_write(struct analyze *run, struct mt_json_text *text)
{
    enum mt_status status = put_settings(run, text);
    if (status == MT_OK) status = put_lists(run, text);
    if (status == MT_OK) status = put_figures(run, text);
    if (status == MT_OK) status = put_affinity(run, text);
    if (status == MT_OK) status = put_drift(run, text);
    if (status == MT_OK) status = put_pca(run, text);
    return status == MT_OK ? mt_json_text_format(text, "}\n") : status;
}
