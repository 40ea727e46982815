/*
 * Held-out problems asked with fewer experts: the best by a score, fewer a token, none of the routed ones.
 * Scores of all kinds come from one pass over a domain's training data, and serve every amount that is kept.
 */
#include <math.h>
#include <string.h>

#include "compare/asking/answers.h"
#include "compare/asking/asked_file.h"
#include "compare/asking/probes.h"
#include "model/collect.h"
#include "model/kept.h"
#include "model/prune.h"

#define ARENA_BLOCK_BYTES 4096
#define MOST_CHOICES      65536 // tokens of a domain whose experts go through a cache

struct asker {
    const struct mt_cell_job *job;
    const struct mt_cell *cell;
    const size_t *own; // [owns]: the domains it was trained on
    size_t owns;
    struct mt_answering answering;
    struct mt_arena arena;
    struct mt_collector_options options;
    struct mt_figures of[MT_COMPARE_MOST_DOMAINS]; // of a domain's training data, as far as it is needed
    struct mt_figures of_mix;
    bool *kept;         // [owns,MoE layers,n], of the asking at hand
    bool *taken;        // [MoE layers,n]: what is not kept for the domain at hand
    const bool **flags; // [layers]: NULL, or a layer's part of `taken`
};

// ------------------------------------------------------------------ what experts are worth

/* Adds rows of a domain's training data to a collector. */
static enum mt_status watch_rows(struct asker *a, size_t domain, int64_t rows, struct mt_collector *collector)
{
    const struct mt_compare_settings *settings = a->job->settings;
    struct mt_answers answers = {0};
    const char *path = NULL;
    enum mt_status status = mt_cell_train_data(a->job, domain, a->cell->seed, &path);
    if (status == MT_OK) status = mt_answering_run(&a->answering, path, rows, collector, &answers);
    if (status == MT_OK && answers.problems < rows && a->cell->start) // once, not for every cell
        mt_log_warning(a->job->log, "%s: prune asks for %lld training rows, and the domain %s has %lld",
                       settings->file, (long long)rows, settings->domain[domain].name,
                       (long long)answers.problems);
    return status;
}

/* Scores by rows of one domain, or of all of them. */
static enum mt_status score_experts(struct asker *a, size_t domain, struct mt_figures *figures)
{
    const struct mt_compare_settings *settings = a->job->settings;
    struct mt_collector *collector = NULL;
    enum mt_status status = mt_collector_create(a->answering.device, &a->options, &collector);
    if (status == MT_OK && figures != &a->of_mix)
        status = watch_rows(a, domain, settings->pruning.rows, collector);
    for (size_t d = 0; d < settings->domains && status == MT_OK && figures == &a->of_mix; d++) {
        if (mt_compare_has_rows(&settings->domain[d]))
            status = watch_rows(a, d, settings->pruning.mix_rows, collector);
    }
    if (status == MT_OK) status = mt_collector_finish(collector, NULL, figures);
    mt_collector_destroy(collector);
    return status;
}

/* The domain with training data that comes after this one, in a circle. */
static size_t domain_after(const struct mt_compare_settings *settings, size_t domain)
{
    size_t next = domain;
    do {
        next = (next + 1) % settings->domains;
    } while (!mt_compare_has_rows(&settings->domain[next]));
    return next;
}

static bool is_asked(const struct mt_compare_settings *settings, enum mt_compare_by by)
{
    return mt_compare_by_place(settings, by) < settings->pruning.bys;
}

/* All scores that any asking needs. Loads of a domain's own are looked at whoever chooses. */
static enum mt_status score_all(struct asker *a)
{
    const struct mt_compare_settings *settings = a->job->settings;
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < 2 * a->owns && status == MT_OK; i++) {
        size_t domain = a->own[i / 2];
        if (i % 2 == 1 && !is_asked(settings, MT_COMPARE_BY_OTHER)) continue;
        if (i % 2 == 1) domain = domain_after(settings, domain);
        if (a->of[domain].ctx == NULL) status = score_experts(a, domain, &a->of[domain]);
    }
    if (status == MT_OK && is_asked(settings, MT_COMPARE_BY_MIX)) status = score_experts(a, 0, &a->of_mix);
    return status;
}

// ------------------------------------------------------------------ which stay

static bool *kept_of(const struct asker *a, size_t place, int layer)
{
    size_t n = (size_t)a->options.experts;
    return a->kept + (place * (size_t)a->options.layers + (size_t)layer) * n;
}

/* Fails where a score is not a number: the first experts would stay, whatever they are worth. */
static enum mt_status choose(struct asker *a, const struct mt_compare_asking *asking, int keep)
{
    const struct mt_model_desc *desc = mt_model_description(a->answering.model);
    int groups = desc->router.groups > 1 ? desc->router.groups : 1;
    const struct mt_compare_settings *settings = a->job->settings;
    for (size_t i = 0; i < a->owns; i++) {
        const struct mt_figures *figures = &a->of[a->own[i]];
        if (asking->by == MT_COMPARE_BY_MIX) figures = &a->of_mix;
        if (asking->by == MT_COMPARE_BY_OTHER) figures = &a->of[domain_after(settings, a->own[i])];
        for (int l = 0; l < a->options.layers; l++) {
            const double *score = figures->layer[l].score[asking->score];
            for (int j = 0; j < a->options.experts; j++) {
                if (!isfinite(score[j]))
                    return mt_fail(a->job->ctx, MT_ERR_NUMERIC,
                                   "prune: layer %lld: the score of expert %d is not a number",
                                   (long long)figures->layer[l].number, j);
            }
            mt_experts_keep_best(score, a->options.experts, groups, keep, kept_of(a, i, l));
        }
    }
    return MT_OK;
}

/* Share of a domain's slots that the experts kept for it serve, mean over layers. */
static double served(const struct asker *a, size_t place)
{
    double shares = 0.0;
    for (int l = 0; l < a->options.layers; l++) {
        const double *load = a->of[a->own[place]].layer[l].load;
        const bool *kept = kept_of(a, place, l);
        double all = 0.0, of_kept = 0.0;
        for (int j = 0; j < a->options.experts; j++) {
            all += load[j];
            of_kept += kept[j] ? load[j] : 0.0;
        }
        shares += of_kept / all;
    }
    return shares / a->options.layers;
}

static double jaccard_of(const bool *one, const bool *other, int experts)
{
    int both = 0, any = 0;
    for (int j = 0; j < experts; j++) {
        both += one[j] && other[j] ? 1 : 0;
        any += one[j] || other[j] ? 1 : 0;
    }
    return (double)both / (double)any;
}

/* How far the domains' experts are the same. */
static void compare_kept(const struct asker *a, struct mt_cell_asked *asked)
{
    double together = 0.0, jaccard = 0.0;
    size_t pairs = 0;
    for (int l = 0; l < a->options.layers; l++) {
        for (int j = 0; j < a->options.experts; j++) {
            bool any = false;
            for (size_t i = 0; i < a->owns; i++) any = any || kept_of(a, i, l)[j];
            together += any ? 1.0 : 0.0;
        }
        for (size_t i = 0; i < a->owns; i++) {
            for (size_t k = 0; k < i; k++) {
                jaccard += jaccard_of(kept_of(a, i, l), kept_of(a, k, l), a->options.experts);
                pairs++;
            }
        }
    }
    asked->together = together / a->options.layers;
    asked->jaccard = pairs > 0 ? jaccard / (double)pairs : (double)NAN;
}

// ------------------------------------------------------------------ asking

static enum mt_status ask(struct asker *a, size_t domain, struct mt_cell_answer *answer)
{
    struct mt_answers answers = {0};
    const char *path = NULL;
    enum mt_status status = mt_cell_test_data(a->job, domain, &path);
    if (status == MT_OK) status = mt_answering_run(&a->answering, path, 0, NULL, &answers);
    answer->accuracy = mt_answers_accuracy(&answers);
    answer->loss = mt_answers_loss(&answers);
    return status;
}

/* Misses of all rooms, of the experts that held-out problems of a domain choose as they come: means over
 * layers. `first`: the place of the first room among the askings. */
static enum mt_status count_misses(struct asker *a, size_t domain, size_t first, struct mt_cell_asked *asked)
{
    const struct mt_compare_probes *rooms = &a->job->settings->cache;
    struct mt_collector_options options = a->options;
    struct mt_collector *collector = NULL;
    struct mt_answers answers;
    const char *path = NULL;
    options.choices = MOST_CHOICES;
    options.scores = 0;
    enum mt_status status = mt_cell_test_data(a->job, domain, &path);
    if (status == MT_OK) status = mt_collector_create(a->answering.device, &options, &collector);
    if (status == MT_OK) status = mt_answering_run(&a->answering, path, 0, collector, &answers);
    for (size_t i = 0; i < rooms->count && status == MT_OK; i++) {
        double sum[MT_CACHE_POLICIES] = {0};
        for (int l = 0; l < options.layers && status == MT_OK; l++) {
            struct mt_cache_misses misses;
            int64_t tokens = 0;
            const uint16_t *choices = mt_collector_choices(collector, l, &tokens);
            status = mt_expert_cache(a->job->ctx, choices, tokens, options.slots, options.experts,
                                     (int)rooms->value[i], &misses);
            for (int p = 0; p < MT_CACHE_POLICIES && status == MT_OK; p++)
                sum[p] += mt_cache_miss_rate(&misses, (enum mt_cache_policy)p) / options.layers;
        }
        memcpy(asked[first + i].domain[domain].misses, sum, sizeof sum);
    }
    mt_collector_destroy(collector);
    return status;
}

static enum mt_status ask_caches(struct asker *a, size_t first, struct mt_cell_asked *asked)
{
    const struct mt_compare_probes *rooms = &a->job->settings->cache;
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < a->owns && rooms->count > 0 && status == MT_OK; i++)
        status = count_misses(a, a->own[i], first, asked);
    for (size_t i = 0; i < rooms->count; i++) {
        struct mt_cell_asked *one = &asked[first + i];
        one->experts = (double)rooms->value[i];
        for (int p = 0; p < MT_CACHE_POLICIES; p++) {
            double sum = 0.0;
            for (size_t d = 0; d < a->owns; d++) sum += one->domain[a->own[d]].misses[p];
            one->mean.misses[p] = sum / (double)a->owns;
        }
    }
    return status;
}

/* One domain, with the experts kept for it. */
static enum mt_status ask_kept(struct asker *a, size_t place, struct mt_cell_answer *answer)
{
    struct mt_pruning pruning;
    size_t n = (size_t)a->options.experts;
    for (int l = 0; l < a->options.layers; l++) {
        bool *taken = a->taken + (size_t)l * n;
        for (size_t j = 0; j < n; j++) taken[j] = !kept_of(a, place, l)[j];
        a->flags[a->options.number[l]] = taken;
    }
    enum mt_status status = mt_pruning_begin(a->answering.model, a->flags, &pruning);
    if (status == MT_OK) status = ask(a, a->own[place], answer);
    enum mt_status ended = mt_pruning_end(&pruning);
    answer->served = served(a, place);
    return status == MT_OK ? ended : status;
}

static enum mt_status ask_domains(struct asker *a, bool kept, struct mt_cell_asked *asked)
{
    struct mt_cell_answer sum = {0};
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < a->owns && status == MT_OK; i++) {
        struct mt_cell_answer *answer = &asked->domain[a->own[i]];
        status = kept ? ask_kept(a, i, answer) : ask(a, a->own[i], answer);
        sum.accuracy += answer->accuracy;
        sum.loss += answer->loss;
        sum.served += answer->served;
    }
    double count = (double)a->owns;
    asked->mean.accuracy = sum.accuracy / count;
    asked->mean.loss = sum.loss / count;
    asked->mean.served = sum.served / count;
    return status;
}

static enum mt_status ask_one(struct asker *a, const struct mt_compare_asking *asking,
                              struct mt_cell_asked *asked)
{
    struct mt_model *model = a->answering.model;
    enum mt_status status = MT_OK;
    int keep = 0;
    switch (asking->kind) {
    case MT_ASK_KEPT:
        status =
            mt_experts_keep_parse(a->job->ctx, "prune.keep", a->job->settings->pruning.keep[asking->keep],
                                  a->options.experts, a->options.slots, &keep);
        if (status == MT_OK) status = mt_kept_check(a->job->ctx, mt_model_description(model), keep);
        if (status == MT_OK) status = choose(a, asking, keep);
        if (status != MT_OK) return status;
        compare_kept(a, asked);
        asked->experts = keep;
        return ask_domains(a, true, asked);
    case MT_ASK_SLOTS:
        status = mt_model_set_slots(model, (int)asking->slots);
        if (status == MT_OK) status = ask_domains(a, false, asked);
        asked->experts = (double)asking->slots;
        enum mt_status back = mt_model_set_slots(model, 0);
        return status == MT_OK ? back : status;
    default:
        mt_model_silence(model, true);
        status = ask_domains(a, false, asked);
        asked->experts = 0.0;
        mt_model_silence(model, false);
        return status;
    }
}

static enum mt_status prepare(struct asker *a)
{
    const struct mt_compare_pruning *pruning = &a->job->settings->pruning;
    const struct mt_model_desc *desc = mt_model_description(a->answering.model);
    size_t layers = (size_t)desc->layers;
    size_t n = (size_t)desc->experts;
    enum mt_status status = MT_OK;
    int64_t *number = mt_arena_array(&a->arena, layers, sizeof *number, &status);
    a->flags = mt_arena_array(&a->arena, layers, sizeof *a->flags, &status);
    a->taken = mt_arena_array(&a->arena, layers * n, sizeof *a->taken, &status);
    a->kept = mt_arena_array(&a->arena, a->owns * layers * n, sizeof *a->kept, &status);
    if (status != MT_OK) return status;
    if (!mt_collector_options_of(desc, number, &a->options))
        return mt_fail(a->job->ctx, MT_ERR_USAGE, "%s: no layer has experts", a->answering.training->model);
    a->options.width = 0;
    for (size_t i = 0; i < pruning->scores; i++) a->options.scores |= MT_SCORE_BIT(pruning->score[i]);
    a->answering.exact = true;
    return pruning->keeps > 0 ? score_all(a) : MT_OK;
}

enum mt_status mt_cell_ask_fewer(const struct mt_cell_job *job, const struct mt_cell *cell,
                                 const struct mt_train_settings *training, struct mt_model *model,
                                 struct mt_cell_result *result)
{
    struct asker a = {.job = job, .cell = cell};
    size_t count = mt_compare_askings(job->settings);
    if (count == 0) return MT_OK;
    a.own = mt_compare_parts(job->settings, cell->domain, &a.owns);
    mt_arena_init(&a.arena, job->ctx, ARENA_BLOCK_BYTES);
    enum mt_status status = mt_cell_asked_make(job, &result->asked);
    if (status == MT_OK) status = mt_answering_open(job, training, model, &a.answering);
    if (status == MT_OK) status = prepare(&a);
    size_t answered = count - job->settings->cache.count;
    for (size_t i = 0; i < answered && status == MT_OK; i++) {
        struct mt_compare_asking asking = mt_compare_asking(job->settings, i);
        status = ask_one(&a, &asking, &result->asked[i]);
    }
    if (status == MT_OK) status = ask_caches(&a, answered, result->asked);
    for (size_t d = 0; d < MT_COMPARE_MOST_DOMAINS; d++) mt_figures_free(&a.of[d]);
    mt_figures_free(&a.of_mix);
    mt_answering_close(&a.answering);
    mt_arena_free(&a.arena);
    return status;
}
