/*
 * Everything a training run is told: one YAML file, then key=value words of the command line over it. A table
 * (settings_keys.c) holds every key's name, type, default, range and one line of help; reading, refusing,
 * printing, the docs' table and the help all come from it.
 *
 * Nested keys have dotted names ("lora.rank"); the file may nest them or write them dotted.
 */
#ifndef MT_TRAIN_SETTINGS_H
#define MT_TRAIN_SETTINGS_H

#include "base/arena.h"
#include "formats/keys/keys.h"
#include "metier/objective.h"
#include "model/adapters/adapter.h"
#include "model/planner.h"
#include "train/data/batches.h"

#define MT_TRAIN_DEFAULT_METHOD "none" // docs/lab/results.md says why

enum mt_train_kind { MT_TRAIN_LORA, MT_TRAIN_FULL };
enum mt_statistics_scope { MT_STATISTICS_GLOBAL, MT_STATISTICS_LOCAL };
enum mt_gpu_transport { MT_TRANSPORT_AUTO, MT_TRANSPORT_HOST, MT_TRANSPORT_NCCL };
enum mt_row_transfer { MT_TRANSFER_AUTO, MT_TRANSFER_STAGED, MT_TRANSFER_DIRECT };
/* What activations are kept in; AUTO: what the device computes fastest on. */
enum mt_train_activations { MT_ACTIVATIONS_AUTO, MT_ACTIVATIONS_F32, MT_ACTIVATIONS_BF16 };
/* The words of the key; whoever opens a model has chosen by then. */
enum mt_train_recompute {
    MT_TRAIN_RECOMPUTE_AUTO,
    MT_TRAIN_RECOMPUTE_NONE,
    MT_TRAIN_RECOMPUTE_MOE,
    MT_TRAIN_RECOMPUTE_FULL
};
enum mt_schedule_kind { MT_SCHEDULE_COSINE, MT_SCHEDULE_LINEAR, MT_SCHEDULE_CONSTANT };

/* A file of examples. */
struct mt_train_source {
    const char *path;
    enum mt_dataset_format format; // MT_DATASET_BY_NAME: what the name ends in
    enum mt_text_rows text_rows;
    const char *columns; // of CSV and TSV without a header line; NULL: the first line names them
    enum mt_example_form form;
    const char *fields; // "instruction=question,output=answer"; NULL: as the form calls them
    double weight;      // 1
    uint64_t limit;     // rows used at most, chosen by the seed; 0: all
};

/* All texts live in the arena the settings were read with. The key of a field is at its right. */
struct mt_train_settings {
    const char *model;             // model: folder with config.json, weights, tokenizer
    const char *tokenizer;         // tokenizer: another folder or tokenizer file; NULL: the model's
    const char *out;               // out: folder of the run
    enum mt_train_kind train;      // train
    const char *const *targets;    // targets: parts or globs, NULL-terminated, at least one
    const char *const *freeze;     // freeze: NULL-terminated, may be empty; never NULL
    const char *experts;           // experts: a JSON file {"LAYER": [expert, ...], ...}; NULL: all
    const char *adapter;           // adapter: where LoRA starts; NULL: from nothing
    int64_t lora_rank;             // lora.rank
    double lora_alpha;             // lora.alpha
    double lora_dropout;           // lora.dropout
    enum mt_adapter_layout layout; // lora.layout

    struct mt_objective_config objective; // method, objective.*
    bool method_given;                    // derived: method is no default
    bool task_only; // derived: no term, no bias rule, no drops, no jitter: L is L_h alone

    const struct mt_train_source *sources; // data.sources, or data.path for one; at least one
    size_t source_count;
    const char *template_name;     // data.template: "model", a name of share/templates or a file
    const char *template_options;  // data.template_options: "name=value,..."; NULL: none
    const char *template_date;     // data.template_date: YYYY-MM-DD
    int64_t max_length;            // data.max_length
    enum mt_batch_layout batching; // data.layout
    int64_t window;                // data.window; 0: the layout's own
    bool stop_at_bad_row;          // data.bad_rows
    bool record_rows;              // data.record_rows
    const char *choices;           // data.choices: a file of choices (train/data/choices.h); NULL: none

    const struct mt_train_source *held_out; // evaluation.sources: files never trained on
    size_t held_out_count;
    double split;              // evaluation.split: share of every source held out
    int64_t evaluate_every;    // evaluation.every: steps; 0: once per epoch when anything is held out
    int64_t evaluate_examples; // evaluation.examples: at most; 0: all
    int64_t patience;          // evaluation.patience: evaluations without gain before stopping; 0: never

    int64_t examples; // batch.examples: of one optimizer step
    int64_t tokens;   // batch.tokens: of one micro-batch at most; 0: auto, until a run is opened
    double epochs;    // epochs: may be a fraction
    int64_t steps;    // steps: exactly so many; 0: as epochs say

    double learning_rate;           // optimizer.lr
    double beta1, beta2, epsilon;   // optimizer.beta1, beta2, epsilon
    double weight_decay;            // optimizer.weight_decay
    double clip;                    // optimizer.clip: the gradient's norm at most; 0: any
    enum mt_schedule_kind schedule; // optimizer.schedule
    double warmup;                  // optimizer.warmup: steps when >= 1, share of all steps when < 1
    double final_rate;              // optimizer.final: share of lr at the end

    int64_t checkpoint_every; // checkpoint.every: steps; 0: only at the end
    int64_t checkpoint_keep;  // checkpoint.keep
    bool resume;              // checkpoint.resume

    int64_t log_every;     // log.every: steps between records
    int64_t measure_every; // log.measure_every: steps between gradient norms of each term; 0: never
    bool tensorboard;      // log.tensorboard

    const char *device;                // device; "auto" until a run is opened
    int64_t threads;                   // threads; 0: as many as the machine has
    const char *memory_limit;          // memory.limit: a text of ops/limit.h
    enum mt_train_recompute recompute; // recompute; auto until a run is opened
    int64_t expert_ranks;            // parallel.experts: ranks that share the experts; 0: auto, until opened
    double expert_room;              // parallel.room
    enum mt_gpu_transport transport; // parallel.transport
    enum mt_row_transfer transfer;   // parallel.transfer
    enum mt_statistics_scope statistics;   // parallel.statistics
    enum mt_train_activations activations; // activations
    int quantise_format;                   // quantize.format: 0 none, else one more than its number
    bool quantise_nested;                  // quantize.double
    const char *const *quantise_parts;     // quantize.parts
    bool quantise_cache;                   // quantize.cache
    bool noise;    // noise; false: dropout, jitter, sampling and drops are off in training too
    uint64_t seed; // seed; also objective.seed, unless that is given
};

/*
 * Reads a file, or `text` where it is not NULL, and the words over it; `path` stands in messages. Unknown
 * keys, wrong types, doubled keys and impossible values or combinations are refused as "FILE:LINE: ..."
 * (words: "lora.rnak=3: ...") with the nearest valid key. All strings live in the arena. Relative paths stay
 * as written (relative to the working directory).
 */
enum mt_status mt_train_settings_read(struct mt_context *ctx, const char *path, const char *text,
                                      size_t bytes, const char *const *words, size_t word_count,
                                      struct mt_arena *arena, struct mt_train_settings *settings);

/* The same of a run's own record: keys that change nothing, which older versions took, are as if not there.
 */
enum mt_status mt_train_settings_read_saved(struct mt_context *ctx, const char *saved, struct mt_arena *arena,
                                            struct mt_train_settings *settings);

/* What of the model is quantised. */
enum mt_status mt_train_quantise(struct mt_context *ctx, const struct mt_train_settings *settings,
                                 struct mt_quantise_options *options);

/* The resolved settings as YAML that reads back to the same; NUL-terminated, in the arena. */
enum mt_status mt_train_settings_text(struct mt_context *ctx, const struct mt_train_settings *settings,
                                      struct mt_arena *arena, const char **text);

/*
 * The keys that decide the result and are not as they would be anyway, as YAML: a line each, files and
 * folders by their names alone. NUL-terminated, in the arena. docs/adapters.md: what a card shows.
 */
enum mt_status mt_train_settings_brief(struct mt_context *ctx, const struct mt_train_settings *settings,
                                       struct mt_arena *arena, const char **text);

/* The tokens that batch.tokens: auto begins with: those of the table, or an example's where that is longer.
 */
int64_t mt_train_auto_tokens(const struct mt_train_settings *settings);

/*
 * Refuses (MT_ERR_USAGE, naming the key, both values and the cure) when a run that began under `saved` (a
 * text of the above) cannot go on under `settings` with the same result. Keys that may differ are marked so
 * in the table: out, log.*, checkpoint.*, evaluation.every, device, threads, recompute, ... What
 * is left to us (auto), the device, batch.tokens, recompute and parallel.experts, and a method that is not
 * named become what the run began with; the text lives in the arena.
 */
enum mt_status mt_train_settings_continue(struct mt_context *ctx, const char *saved, struct mt_arena *arena,
                                          struct mt_train_settings *settings);

/*
 * Why a key that hangs on the method ("objective.jitter", "log.measure_every") changes nothing under it, in
 * words that end a sentence; NULL: it does, or it is another key.
 */
const char *mt_train_key_idle(const struct mt_objective_config *config, bool noise, const char *name);

/* Every key of a run, those of its sources and of the objective among them. */
extern const struct mt_keys mt_train_keys;

#endif
