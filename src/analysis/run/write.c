/* analysis.json, as docs/analysis.md describes it. */
#include <inttypes.h>
#include <math.h>

#include "analysis/affinity.h"
#include "analysis/pca.h"
#include "analysis/run/run.h"

#define PCA_EXPERTS    6    // the most active ones
#define PCA_POINTS     1200 // of a layer at the most, the domains' shares alike
#define PCA_AXES       2
#define PICTURE_DIGITS 6

// ------------------------------------------------------------------ the head

static void put_name(struct mt_json_text *text, const char *key, const char *value)
{
    mt_json_text_format(text, ",\n \"%s\": ", key);
    if (value != NULL)
        mt_json_text_string(text, value);
    else
        mt_json_text_format(text, "null");
}

static void put_settings(const struct mt_analysis *run, struct mt_json_text *text)
{
    const struct mt_analysis_settings *settings = run->settings;
    const char *base = settings->base;
    if (base == NULL && run->with_base) base = settings->model;
    mt_json_text_format(text, "{\"format\": \"metier-analysis-1\"");
    put_name(text, "model", settings->model);
    put_name(text, "adapter", settings->adapter);
    put_name(text, "base", base);
    if (settings->against != NULL) {
        char how[MT_QUANTISE_TEXT_BYTES];
        put_name(text, "quantize", mt_quantise_text(&run->quantise, how));
        put_name(text, "against", mt_quantise_text(&run->against, how));
    }
    mt_json_text_format(text,
                        ",\n \"tokens\": %" PRId64 ", \"length\": %" PRId64 ", \"seed\": %" PRId64
                        ", \"neighbours\": %" PRId64 ", \"sample\": %" PRId64 ", \"queries\": %" PRId64
                        ",\n \"experts\": %d, \"slots\": %d",
                        settings->tokens, settings->length, settings->seed, settings->neighbours,
                        settings->sample, settings->queries, run->experts, run->slots);
}

static void put_lists(const struct mt_analysis *run, struct mt_json_text *text)
{
    mt_json_text_format(text, ",\n \"layers\": [");
    for (int i = 0; i < run->layers; i++)
        mt_json_text_format(text, "%s%" PRId64, i > 0 ? ", " : "", run->number[i]);
    mt_json_text_format(text, "],\n \"domains\": [");
    for (int i = 0; i < run->domains; i++) {
        if (i > 0) mt_json_text_format(text, ", ");
        mt_json_text_string(text, run->domain[i].name);
    }
    mt_json_text_format(text, "]");
}

static void put_figures(const struct mt_analysis *run, struct mt_json_text *text)
{
    mt_json_text_format(text, ",\n \"formulas\": ");
    mt_figures_put_formulas(text);
    mt_json_text_format(text, ",\n \"overall\": ");
    mt_figures_put_json(&run->model.figures[run->domains], text);
    mt_json_text_format(text, ",\n \"by_domain\": {");
    for (int i = 0; i < run->domains; i++) {
        if (i > 0) mt_json_text_format(text, ",");
        mt_json_text_format(text, "\n ");
        mt_json_text_string(text, run->domain[i].name);
        mt_json_text_format(text, ": ");
        mt_figures_put_json(&run->model.figures[i], text);
    }
    mt_json_text_format(text, "}");
}

// ------------------------------------------------------------------ affinity

static void put_matrix(struct mt_json_text *text, const char *name, const double *matrix, int rows,
                       int columns)
{
    mt_json_text_format(text, ", \"%s\": [", name);
    for (int i = 0; i < rows; i++) {
        if (i > 0) mt_json_text_format(text, ",\n   ");
        mt_json_text_numbers(text, matrix + (size_t)i * (size_t)columns, columns);
    }
    mt_json_text_format(text, "]");
}

/* numbers: [3][domains][n] to work with; so is member, [domains][n]. */
static void put_layer_affinity(const struct mt_analysis *run, int layer, double *numbers, bool *member,
                               struct mt_json_text *text)
{
    size_t n = (size_t)run->experts;
    double *share = numbers + (size_t)run->domains * n;
    double *preference = share + (size_t)run->domains * n;
    mt_analysis_domain_loads(run, layer, numbers);
    struct mt_serving serving = mt_serving(numbers, run->domains, run->experts, member);
    double information = mt_affinity(numbers, run->domains, run->experts, share, preference);
    mt_json_text_format(text, "%s\n  {\"layer\": %" PRId64 ", \"information\": ", layer > 0 ? "," : "",
                        run->number[layer]);
    mt_json_text_number(text, information);
    mt_json_text_format(text, ", \"jaccard_90\": ");
    mt_json_text_number(text, serving.jaccard);
    mt_json_text_format(text, ", \"together_90\": ");
    mt_json_text_number(text, serving.together);
    put_matrix(text, "share", share, run->domains, run->experts);
    put_matrix(text, "preference", preference, run->domains, run->experts);
    mt_json_text_format(text, "}");
}

static void put_affinity(const struct mt_analysis *run, struct mt_json_text *text)
{
    void *memory = NULL;
    void *member = NULL;
    size_t cells = (size_t)run->domains * (size_t)run->experts;
    if (text->status == MT_OK) text->status = mt_allocate_array(run->ctx, 3 * cells, sizeof(double), &memory);
    if (text->status == MT_OK) text->status = mt_allocate_array(run->ctx, cells, sizeof(bool), &member);
    mt_json_text_format(text, ",\n \"affinity\": [");
    for (int i = 0; text->status == MT_OK && i < run->layers; i++)
        put_layer_affinity(run, i, memory, member, text);
    mt_json_text_format(text, "]");
    mt_release(run->ctx, memory, 3 * cells * sizeof(double));
    mt_release(run->ctx, member, cells * sizeof(bool));
}

// ------------------------------------------------------------------ drift

static void put_drift_figures(const struct mt_drift_figures *drift, struct mt_json_text *text)
{
    mt_json_text_format(text, "\"load_shift\": ");
    mt_json_text_number(text, drift->load_shift);
    mt_json_text_format(text, ", \"sets_changed\": ");
    mt_json_text_number(text, drift->sets_changed);
    mt_json_text_format(text, ", \"slots_changed\": ");
    mt_json_text_number(text, drift->slots_changed);
    mt_json_text_format(text, ", \"router_change\": ");
    mt_json_text_number(text, drift->router_change);
}

static void put_domain_drift(const struct mt_analysis *run, int domain, struct mt_json_text *text)
{
    struct mt_drift_figures mean;
    mt_analysis_mean_drift(run, domain, &mean);
    mt_json_text_format(text, "{\"mean\": {");
    put_drift_figures(&mean, text);
    mt_json_text_format(text, "}, \"layers\": [");
    for (int i = 0; i < run->layers; i++) {
        struct mt_drift_figures drift;
        mt_analysis_drift(run, domain, i, &drift);
        mt_json_text_format(text, "%s\n  {\"layer\": %" PRId64 ", \"tokens\": %" PRId64 ", ",
                            i > 0 ? "," : "", run->number[i], drift.tokens);
        put_drift_figures(&drift, text);
        mt_json_text_format(text, "}");
    }
    mt_json_text_format(text, "]}");
}

static void put_drift(const struct mt_analysis *run, struct mt_json_text *text)
{
    if (!run->with_base) {
        mt_json_text_format(text, ",\n \"drift\": null");
        return;
    }
    mt_json_text_format(text, ",\n \"drift\": {\"overall\": ");
    put_domain_drift(run, run->domains, text);
    mt_json_text_format(text, ",\n \"by_domain\": {");
    for (int i = 0; i < run->domains; i++) {
        if (i > 0) mt_json_text_format(text, ",\n ");
        mt_json_text_string(text, run->domain[i].name);
        mt_json_text_format(text, ": ");
        put_domain_drift(run, i, text);
    }
    mt_json_text_format(text, "}}");
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
static void find_active(const struct mt_analysis *run, int layer, struct picture *picture)
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

static void gather(const struct mt_analysis *run, int layer, struct picture *picture)
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

static void put_points(const struct picture *picture, const struct mt_pca *pca, struct mt_json_text *text)
{
    mt_json_text_format(text, ",\n   \"points\": [");
    for (int64_t i = 0; i < picture->count; i++) {
        const double *place = pca->points + i * pca->components;
        mt_json_text_format(text, i > 0 ? ", [" : "[");
        mt_json_text_rounded(text, place[0], PICTURE_DIGITS);
        mt_json_text_format(text, ", ");
        mt_json_text_rounded(text, pca->components > 1 ? place[1] : 0.0, PICTURE_DIGITS);
        mt_json_text_format(text, ", %d, %d]", picture->labels[2 * i], picture->labels[2 * i + 1]);
    }
    mt_json_text_format(text, "]}");
}

static void put_layer_pca(const struct mt_analysis *run, int layer, struct picture *picture, bool first,
                          struct mt_json_text *text)
{
    struct mt_pca pca;
    if (text->status == MT_OK)
        text->status = mt_pca_find(run->ctx, picture->vectors, picture->count, run->width, PCA_AXES,
                                   (uint64_t)run->settings->seed, &pca);
    if (text->status != MT_OK) return;
    mt_json_text_format(text, "%s\n  {\"layer\": %" PRId64 ", \"experts\": [", first ? "" : ",",
                        run->number[layer]);
    for (int i = 0; i < picture->experts; i++)
        mt_json_text_format(text, "%s%d", i > 0 ? ", " : "", picture->expert[i]);
    mt_json_text_format(text, "], \"variance\": ");
    mt_json_text_numbers(text, pca.variance, pca.components);
    mt_json_text_format(text, ", \"total_variance\": ");
    mt_json_text_number(text, pca.total_variance);
    mt_json_text_format(text, ", \"residual\": ");
    mt_json_text_number(text, pca.residual);
    put_points(picture, &pca, text);
    mt_pca_free(&pca);
}

static void put_pca(const struct mt_analysis *run, struct mt_json_text *text)
{
    struct picture picture = {0};
    size_t row = (size_t)run->width * sizeof(float);
    void *vectors = NULL;
    void *labels = NULL;
    bool first = true;
    if (text->status == MT_OK) text->status = mt_allocate_array(run->ctx, PCA_POINTS, row, &vectors);
    if (text->status == MT_OK)
        text->status = mt_allocate_array(run->ctx, PCA_POINTS, 2 * sizeof(int32_t), &labels);
    mt_json_text_format(text, ",\n \"pca\": [");
    picture.vectors = vectors;
    picture.labels = labels;
    for (int i = 0; text->status == MT_OK && i < run->layers; i++) {
        find_active(run, i, &picture);
        gather(run, i, &picture);
        if (picture.count < 2) continue; // nothing to see
        put_layer_pca(run, i, &picture, first, text);
        first = false;
    }
    mt_json_text_format(text, "]");
    mt_release(run->ctx, vectors, PCA_POINTS * row);
    mt_release(run->ctx, labels, PCA_POINTS * 2 * sizeof(int32_t));
}

enum mt_status mt_analysis_put_json(const struct mt_analysis *run, struct mt_json_text *text)
{
    put_settings(run, text);
    put_lists(run, text);
    put_figures(run, text);
    put_affinity(run, text);
    put_drift(run, text);
    mt_analysis_put_caches(run, text);
    put_pca(run, text);
    return mt_json_text_format(text, "}\n");
}
