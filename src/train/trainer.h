/*
 * A training run from settings to a trained adapter or model: `metier train`.
 *
 *     mt_trainer_open    settings -> tokenizer, data, model, optimizer; the newest checkpoint, if any
 *     mt_trainer_run     steps, records, evaluations, checkpoints; at the end what was trained
 *     mt_trainer_close
 *
 * A run that is interrupted, by whatever means, and opened again goes on where its last checkpoint is, and
 * ends with the same bytes as one that was not. On many ranks all calls are made by all of them, and either
 * all succeed or all fail. docs/training.md describes what is written where.
 */
#ifndef MT_TRAIN_TRAINER_H
#define MT_TRAIN_TRAINER_H

#include "base/log.h"
#include "comm/comm.h"
#include "ops/limit.h"
#include "train/data/corpus.h"
#include "train/fit.h"
#include "train/scaling.h"
#include "train/state/state.h"

struct mt_trainer; // opaque

struct mt_trainer_options {
    const struct mt_train_settings *settings; // copied; what they point to is borrowed until closed
    const char *templates;                    // folder of the chat templates that come along; borrowed
    const struct mt_log *log;                 // warnings and notes; borrowed; NULL: silent
    FILE *terminal;                           // progress; borrowed; NULL: none
    bool plan_only;                           // for mt_trainer_outline: nothing on disk is touched
    bool signals;                             // SIGINT, SIGTERM, SIGHUP end the run after the step at hand
    struct mt_comm *comm;                     // all ranks of the run; borrowed; NULL: this process alone
    const char *timeline;                     // file for what all ranks did when; borrowed; NULL: none
    uint64_t stop_after;                      // this step the run is left, as by a signal; 0: never
    void (*stepped)(void *self, uint64_t step, uint64_t steps); // after every step; NULL: nobody counts
    void *self;                                                 // handed to it
};

/* The caller closes. A run that has finished already is opened just far enough to say so. */
enum mt_status mt_trainer_open(struct mt_context *ctx, const struct mt_trainer_options *options,
                               struct mt_trainer **trainer);
void mt_trainer_close(struct mt_trainer *trainer); // NULL is allowed

enum mt_run_end {
    MT_RUN_FINISHED,        // all steps done, or stopped early
    MT_RUN_FINISHED_BEFORE, // there was nothing left to do
    MT_RUN_INTERRUPTED,     // by a signal or stop_after; a checkpoint was written
};

struct mt_run_outcome {
    enum mt_run_end end;
    int signal;         // that ended it; 0: none
    uint64_t step;      // steps done
    uint64_t best_step; // 0: no evaluation
    double best_loss;
    struct mt_overlap overlap; // by the timeline of all ranks; zeros without one
    uint64_t lost_spans;       // for which the timeline had no room
    uint64_t sent_bytes;       // by this rank, since the run was opened; 0: alone
    const char *result;        // folder of what was trained; lives with the trainer
    const char *best;          // of the best checkpoint; NULL: none
    size_t peak_bytes;         // of the memory that was computed in, at the most
    size_t limit_bytes;        // of the same; 0: none was known
    const char *bias_file;     // in these folders: routers' biases, which no other program reads; NULL: none
};

/*
 * Runs to the end. A loss, term or gradient that is not a number is MT_ERR_NUMERIC, with the step and what
 * was wrong where; the last checkpoint stays.
 */
enum mt_status mt_trainer_run(struct mt_trainer *trainer, struct mt_run_outcome *outcome);

/* What a run would be, for --dry-run. Everything is borrowed from the trainer. */
struct mt_run_outline {
    const char *settings_text;
    const struct mt_train_settings *settings; // with what was chosen
    const struct mt_fit *fit;                 // what was tried, for how much memory
    struct mt_memory_bound bound;             // that it had to fit
    const char *spread;                       // why so many ranks share the experts; "": they were given
    const struct mt_model_desc *desc;
    const struct mt_params *params;
    struct mt_run_length length;
    struct mt_layout layout;         // of a step, as ranks send it: the tokens of the mean step
    struct mt_batch_counts held_out; // zero without
    const struct mt_corpus *corpus;
    struct mt_model_bytes model;
    size_t moments;                     // bytes of the optimizer's
    const struct mt_layer_paths *paths; // [moe_layers]
    int moe_layers;
    uint64_t steps_done;      // by a run in the folder
    const char *bias_file;    // that will hold routers' biases, which no other program reads; NULL: none
    struct mt_device *device; // with plan_only it is dry (metier/device.h), and says what it would hold
    size_t host_bytes;        // held by this process beside the device's buffers
};

/* The memory a run would take, and what there is: of a dry device, by value. */
struct mt_run_memory {
    const char *device;         // its name, which outlives it
    bool on_host;               // it computes in the host's memory
    struct mt_memory_room room; // where it computes; free is what there would be without its own
    struct mt_model_bytes model;
    size_t moments;
    size_t buffers; // all of the device's: the model's, moments, and statistics
    size_t held;    // by this process beside them
    size_t all;     // in the memory it computes in: on the host with what is mapped and held
    enum mt_train_recompute recompute;
    int64_t tokens; // of a micro-batch
};
void mt_run_memory(const struct mt_run_outline *outline, struct mt_run_memory *memory);

/* After an outline: the sentence that a run would end with at once, because it does not fit its limit. */
enum mt_status mt_trainer_check_fit(const struct mt_trainer *trainer);

void mt_trainer_outline(const struct mt_trainer *trainer, struct mt_run_outline *outline);

/* The model at work, for tests and measurements. */
struct mt_model *mt_trainer_model(struct mt_trainer *trainer);

#endif
