/*
 * What the routers and experts of a model do with data: every domain goes through the model, and through a
 * base to compare with, while collectors watch. `metier analyze`; docs/analysis.md has the formulas.
 *
 *     mt_analysis_open       domains from files
 *     mt_analysis_run        data through the models; the first rank has the figures
 *     mt_analysis_put_json   analysis.json; mt_analysis_write_experts: the experts data goes to
 *     mt_analysis_close
 */
#ifndef MT_ANALYSIS_RUN_H
#define MT_ANALYSIS_RUN_H

#include <stdio.h>

#include "analysis/collector/collector.h"
#include "analysis/drift.h"
#include "analysis/expert_cache.h"
#include "arch/quantise.h"
#include "base/arena.h"
#include "base/progress.h"
#include "formats/text/json_text.h"
#include "objective/loads.h"
#include "train/settings/settings.h"

#define MT_ANALYSIS_FILES  16 // at the most, and so many domains
#define MT_ANALYSIS_CACHES 16 // sizes of caches at the most

/* What is asked for; everything is borrowed. */
struct mt_analysis_settings {
    const char *model;
    const char *adapter;  // NULL: none
    const char *base;     // NULL: the model without its adapter, if it has one
    const char *quantise; // as mt_quantise_parse reads it; NULL: as the adapter was trained
    const char *against; // likewise: the base is the model itself, adapter included, read so; NULL: it is not
    const char *const *data; // [data_count]: FILE, whose name is its domain's, or FILE=DOMAIN
    size_t data_count;
    const char *template_name;
    const char *templates;        // the folder of those that come along
    struct mt_comm *expert_ranks; // the ranks that share the experts; NULL: none do
    int64_t threads;              // of the geometry; 0: as many as there are
    int64_t tokens;               // of a domain at the most, but for the rest of a sequence
    int64_t length;               // of a sequence at the most
    int64_t sample;               // inputs kept, and expert outputs, per layer and domain
    int64_t queries;              // of overlap and silhouette; 0: all
    int64_t neighbours;           // of the overlap
    int64_t seed;
    bool only_scores;  // nothing but loads and scores is wanted: no base, no look at weights or vectors
    unsigned scores;   // of experts, a set of MT_SCORE_BIT: what the collectors of the model add up
    const char *keep;  // experts of a layer that rule `best` keeps, as mt_experts_keep_parse reads it; NULL:
                       // nobody asks
    const char *cache; // sizes of caches of experts whose misses are counted: "8,16"; NULL: none
    FILE *terminal;    // progress; NULL: none
};

/* Files of one name. */
struct mt_analysis_domain {
    const char *name;
    struct mt_train_source sources[MT_ANALYSIS_FILES];
    size_t source_count;
};

/* What is known of the model, or of the base. The entry after the last domain is all of them together. */
struct mt_analysis_side {
    struct mt_collector *collector[MT_ANALYSIS_FILES + 1];
    struct mt_figures figures[MT_ANALYSIS_FILES + 1];
    float *router; // [layers][n,d], in the arena: the routers' weights, where drift is wanted
    struct mt_coupling_figures *coupling; // [layers], in the arena; NULL of the base
};

struct mt_analysis {
    struct mt_context *ctx;                      // borrowed
    const struct mt_analysis_settings *settings; // borrowed
    struct mt_comm *comm;     // borrowed: the ranks that share the batches; the first of them has the figures
    struct mt_device *device; // borrowed
    struct mt_arena arena;    // names, paths
    struct mt_analysis_domain domain[MT_ANALYSIS_FILES];
    int domains;
    // The models have the same shape.
    int groups;                 // of experts, that limit a token's choice; 1: none do
    int layers, experts, slots; // MoE layers
    int64_t width;
    int keep;                         // experts, by settings->keep
    int capacity[MT_ANALYSIS_CACHES]; // by settings->cache
    int caches;
    struct mt_cache_misses *misses; // [domains+1][caches][layers], in the arena, on the first rank
    int64_t *number;                // [layers], in the arena: their numbers in the model
    bool with_base;
    struct mt_quantise_options quantise; // of the model, and of a base that is not read otherwise
    struct mt_quantise_options against;  // of the base, where settings->against says how it is read
    struct mt_analysis_side model, base;
    // While it runs:
    struct mt_progress progress;
    int64_t tokens_done;  // of all models and domains before the one at hand
    int64_t passes_left;  // domains through models, after the one at hand
    int64_t *token_names; // [2,batch tokens], in the arena: numbers and groups of the tokens at hand
};

/* Finds the domains in settings->data. Closed whatever the outcome. */
enum mt_status mt_analysis_open(struct mt_context *ctx, const struct mt_analysis_settings *settings,
                                struct mt_analysis **analysis);
void mt_analysis_close(struct mt_analysis *analysis); // NULL is allowed

/*
 * Runs every domain through the model, then through the base, and computes the figures. Device and ranks stay
 * the caller's and outlive the analysis. Agreed on.
 */
enum mt_status mt_analysis_run(struct mt_analysis *analysis, struct mt_device *device, struct mt_comm *comm);

/* The drift from the base of one layer in a domain, or in all (domain = domains). */
void mt_analysis_drift(const struct mt_analysis *analysis, int domain, int layer,
                       struct mt_drift_figures *drift);

/* Its mean over layers; tokens as of one. */
void mt_analysis_mean_drift(const struct mt_analysis *analysis, int domain, struct mt_drift_figures *mean);

/* Misses per token of one cache (0 .. caches-1) in one layer, and the mean over layers. */
struct mt_analysis_misses {
    int64_t tokens;
    double first; // an expert's first use: misses of every policy, counted in each of
    double misses[MT_CACHE_POLICIES];
};
void mt_analysis_cache(const struct mt_analysis *analysis, int domain, int cache, int layer,
                       struct mt_analysis_misses *misses);
void mt_analysis_mean_cache(const struct mt_analysis *analysis, int domain, int cache,
                            struct mt_analysis_misses *mean);

/* Within an analysis: reads settings->cache, replays the caches, puts ", "cache": ..." where there are any.
 */
enum mt_status mt_analysis_read_caches(struct mt_analysis *analysis);
enum mt_status mt_analysis_replay_caches(struct mt_analysis *analysis);
void mt_analysis_put_caches(const struct mt_analysis *analysis, struct mt_json_text *text);

/* The loads of every domain in a layer, into load[domains][n]. */
void mt_analysis_domain_loads(const struct mt_analysis *analysis, int layer, double *load);

/* How far domains differ in whom they employ (analysis/affinity.h), mean over layers. */
enum mt_status mt_analysis_mean_serving(const struct mt_analysis *analysis, struct mt_serving *mean);

/* analysis.json, as docs/analysis.md describes it. */
enum mt_status mt_analysis_put_json(const struct mt_analysis *analysis, struct mt_json_text *text);

/* How experts are chosen for a task: in every layer the highest by a score, until a threshold is reached, or
 * as many as settings->keep says. */
struct mt_expert_rule {
    const char *name;
    const char *reached; // by the chosen together, after the threshold in percent; NULL: settings->keep says
    double threshold;    // of those who proposed the rule
    bool by_weight;      // the score is the mean weight after top-k, else the load
    bool counts;         // the threshold is a share of the experts, else of the score
};

/* NULL: there is none of that name. */
const struct mt_expert_rule *mt_expert_rule_named(const char *name);

struct mt_expert_choice {
    const struct mt_expert_rule *rule;
    double threshold;           // but with rule `best`,
    enum mt_expert_score score; // which has this
    // What came of it:
    int64_t chosen;            // of all layers together
    double share, least_share; // of the data's slots that the chosen serve: all layers, and where it is least
};

/* Writes the chosen routed experts of all domains together (model/chosen_experts.h). Refused: data that
 * routes nothing, scores that are not finite. */
enum mt_status mt_analysis_write_experts(const struct mt_analysis *analysis, struct mt_expert_choice *choice,
                                         const char *path);

#endif
