/*
 * What the folder of a run holds, as far as a report shows it: the settings and the log of `metier train`,
 * the results of `metier eval`, the figures of `metier analyze`. Any of them may be missing. Everything is
 * read as files from outside: checked, bounded, refused with a sentence that names the file.
 */
#ifndef MT_REPORT_RUN_H
#define MT_REPORT_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "formats/text/json.h"
#include "metier/objective.h"

/* Numbers of a logged step; three of them for every term. */
enum mt_run_value {
    MT_RUN_STEP,
    MT_RUN_LOSS,
    MT_RUN_TASK,
    MT_RUN_GRADIENT_NORM,
    MT_RUN_LEARNING_RATE,
    MT_RUN_MAX_VIOLATION,
    MT_RUN_MAX_VIOLATION_RUNNING,
    MT_RUN_LOAD_ENTROPY,
    MT_RUN_EFFECTIVE_EXPERTS,
    MT_RUN_EFFECTIVE_SCORES,
    MT_RUN_EXPERTS_90,
    MT_RUN_JACCARD_90,
    MT_RUN_SLOTS, // k
    MT_RUN_SECONDS,
    MT_RUN_TOKENS_PER_SECOND,
    MT_RUN_TERM,                                       // [MT_TERM_COUNT]: mean over layers
    MT_RUN_WEIGHTED = MT_RUN_TERM + MT_TERM_COUNT,     // what it adds to L
    MT_RUN_GRADIENT = MT_RUN_WEIGHTED + MT_TERM_COUNT, // its gradient's norm, all layers together
    MT_RUN_VALUES = MT_RUN_GRADIENT + MT_TERM_COUNT,
};

/* Numbers of a layer, as means over the last tenth of the steps. */
enum mt_run_layer_value {
    MT_RUN_LAYER_ENTROPY,
    MT_RUN_LAYER_MAX_VIOLATION,
    MT_RUN_LAYER_VARIANCE_TOPK,
    MT_RUN_LAYER_VARIANCE_FULL,
    MT_RUN_LAYER_VARIANCE_TOKEN,
    MT_RUN_LAYER_TERM,
    MT_RUN_LAYER_GRADIENT = MT_RUN_LAYER_TERM + MT_TERM_COUNT,
    MT_RUN_LAYER_VALUES = MT_RUN_LAYER_GRADIENT + MT_TERM_COUNT,
};

#define MT_RUN_MOST_LAYERS  4096
#define MT_RUN_MOST_EXPERTS 65536

struct mt_run_layer {
    int64_t number; // in the checkpoint
    double sum[MT_RUN_LAYER_VALUES];
    double count[MT_RUN_LAYER_VALUES];
};

/* metrics.jsonl */
struct mt_run_metrics {
    size_t steps;
    double *numbers; // [steps, MT_RUN_VALUES], owned; NaN: not known
    size_t number_capacity;
    size_t layers;
    size_t experts;
    double *violation; // [steps, layers], owned: MaxVio of each layer
    size_t violation_capacity;
    struct mt_run_layer *layer; // [layers], in the arena
    double *load; // [layers, experts], in the arena: slots served in the last tenth of the steps
    double late;  // the last tenth begins after this step
    size_t evaluations;
    double *evaluation; // [evaluations, 3], owned: step, loss, perplexity
    size_t evaluation_capacity;
    size_t warnings;     // events that ask for somebody to act: warnings, and what ended the run
    const char *warning; // the text of the last one, in the arena; NULL: none
    const char *note;    // what became of the rows, where all were learned from; in the arena; NULL: nothing
};

struct mt_run_setting {
    const char *key; // "lora.rank"
    const char *value;
    struct mt_run_setting *next;
};

/* A metric of a task in results.json. */
struct mt_run_result {
    const char *task;
    const char *metric;
    double value, error, low, high; // NaN: not known
    double samples;
    const char *form, *why; // of its texts; NULL: not known
    const char *warning;    // that they had another form than the run was trained in; NULL: none
    const char *trouble;    // "3 answers cut at the limit of tokens, 1 row left out"; NULL: none
    struct mt_run_result *next;
};

/* routing_TASK.json of a task: what the routers did while it was evaluated. */
struct mt_run_routing {
    const char *task;
    const char *path; // both in the arena
    struct mt_json json;
    struct mt_run_routing *next;
};

struct mt_run {
    struct mt_context *ctx; // borrowed
    struct mt_arena arena;
    const char *path; // without a slash at its end
    const char *name; // its last part; the caller may set another
    bool has_log;
    struct mt_run_metrics log;
    struct mt_run_setting *settings; // NULL: no config.yaml
    struct mt_run_result *results;   // NULL: no results.json
    struct mt_run_routing *routing;  // NULL: no such file
    struct mt_json analysis;         // root NULL: no analysis.json
    const char *analysis_path;
};

/* Reads a folder; one that holds none of the files is refused. The caller frees, also after a failure. */
enum mt_status mt_run_read(struct mt_context *ctx, const char *path, struct mt_run *run);
void mt_run_free(struct mt_run *run); // a zeroed run is allowed

/* A number of the log; NaN past its end. */
double mt_run_at(const struct mt_run *run, size_t step, int value);

/* A number at the first step that has it; NaN: none has. */
double mt_run_first(const struct mt_run *run, int value);

/* The mean of a number over the last tenth of the steps, NaN when it is not known. */
double mt_run_late_mean(const struct mt_run *run, int value);

/* The mean of a layer's number over the last tenth of the steps. */
double mt_run_layer_mean(const struct mt_run *run, size_t layer, int value);

/* The time from the start divided by the steps; NaN without a log. */
double mt_run_seconds_per_step(const struct mt_run *run);

/* A setting by its key; NULL: not there. */
const char *mt_run_setting(const struct mt_run *run, const char *key);

// Parts of mt_run_read, each with a file of its own.
enum mt_status mt_run_read_log(struct mt_run *run, const char *path); // run_log.c

#endif
