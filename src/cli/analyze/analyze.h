/* metier analyze taken apart: running data through a model, the file it writes, the tables it prints. */
#ifndef MT_CLI_ANALYZE_H
#define MT_CLI_ANALYZE_H

#include "analysis/collector/collector.h"
#include "analysis/drift.h"
#include "base/arena.h"
#include "base/progress.h"
#include "cli/cli.h"
#include "comm/comm.h"
#include "train/settings/settings.h"

/* What the user asks for. */
struct analyze_settings {
    const char *model;
    const char *adapter; // NULL: none
    const char *base;    // NULL: the model without its adapter, if it has one
    struct cli_list data;
    const char *out; // NULL: nowhere
    const char *template_name;
    const char *device;
    int64_t threads;
    int64_t tokens;     // of a domain at the most, but for the rest of a batch
    int64_t length;     // of a sequence at the most
    int64_t sample;     // inputs kept, and expert outputs, per layer and domain
    int64_t queries;    // of overlap and silhouette; 0: all
    int64_t neighbours; // of the overlap
    int64_t seed;
    const char *experts; // file for the experts that serve `share` of the slots; NULL: none
    double share;
    bool layers, json;
};

/* Files of one name. */
struct analyze_domain {
    const char *name;
    struct mt_train_source sources[CLI_LIST_MOST];
    size_t source_count;
};

/* What is known of the model, or of the base. The entry after the last domain is all of them together. */
struct analyze_side {
    struct mt_collector *collector[CLI_LIST_MOST + 1];
    struct mt_figures figures[CLI_LIST_MOST + 1];
    float *router; // [layers][n,d], in the arena: the routers' weights, where drift is wanted
};

/* Everything a run of the verb holds. */
struct analyze {
    struct mt_context *ctx; // borrowed
    const struct analyze_settings *settings;
    struct mt_arena arena; // names, paths
    struct mt_comm *comm;  // the ranks that share the batches; the first of them has the figures
    struct mt_device *device;
    const char *templates; // where those lie that come along
    struct analyze_domain domain[CLI_LIST_MOST];
    int domains;
    struct mt_progress progress;
    int64_t tokens_done;  // of all models and domains before the one at hand
    int64_t passes_left;  // domains through models, after the one at hand
    int64_t *token_names; // [2,batch tokens], in the arena: numbers and groups of the tokens at hand
    // The models have the same shape.
    int layers, experts, slots; // MoE layers
    int64_t width;
    int64_t *number; // [layers], in the arena: their numbers in the model
    bool with_base;
    struct analyze_side model, base;
};

/* Finds the domains in settings.data. */
enum mt_status analyze_find_domains(struct analyze *run);

/* Runs every domain through the model, then through the base, and computes the figures. Agreed on. */
enum mt_status analyze_run(struct analyze *run);
void analyze_side_free(struct analyze_side *side);

/* The drift from the base of one layer in a domain, or in all (domain = domains). */
void analyze_drift(const struct analyze *run, int domain, int layer, struct mt_drift_figures *drift);

/* Its mean over layers; tokens as of one. */
void analyze_mean_drift(const struct analyze *run, int domain, struct mt_drift_figures *mean);

/* Writes analysis.json into a text that the caller frees. */
enum mt_status analyze_write(struct analyze *run, struct mt_json_text *text);

/* Writes settings->experts, and says so. */
enum mt_status analyze_write_experts(const struct analyze *run);

/* Prints the tables. */
enum mt_status analyze_print(const struct analyze *run);

#endif
