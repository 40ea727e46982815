/* A trainer taken apart: what its files share. */
#ifndef MT_TRAIN_TRAINER_INTERNAL_H
#define MT_TRAIN_TRAINER_INTERNAL_H

#include "base/interrupt.h"
#include "formats/fingerprint.h"
#include "ops/limit.h"
#include "train/data/choices.h"
#include "train/fit.h"
#include "train/gradient_sum.h"
#include "train/log/runlog.h"
#include "train/log/timeline_file.h"
#include "train/opening.h"
#include "train/optimizer.h"
#include "train/schedule.h"
#include "train/state/run_folder.h"
#include "train/trainer.h"
#include "train/watch.h"

/* What a run may hold, and what was chosen so that it does. */
struct mt_trainer_memory {
    bool tokens_open; // batch.tokens is auto, and no run has chosen before
    struct mt_memory_bound bound;
    struct mt_fit fit;
    char spread[MT_SPREAD_BYTES]; // why so many ranks share the experts; "": they were given
    size_t mapped;                // bytes of weights that lie in files
};

struct mt_trainer {
    struct mt_context *ctx; // borrowed
    struct mt_trainer_options options;
    struct mt_train_settings resolved;        // the options' settings, with the device and the sizes chosen
    const struct mt_train_settings *settings; // &resolved
    struct mt_arena arena;
    const char *form_text; // what is trained on, as text_form.json has it; in the arena
    const char *settings_text;
    struct mt_run_folder folder;
    struct mt_fingerprint inputs; // of the rank that writes, until they are noted
    struct mt_hf_config config;
    struct mt_model_desc desc;
    struct mt_corpus corpus;
    struct mt_choices choices; // zeroed: routers choose
    struct mt_run_length length;
    uint64_t evaluate_every; // steps; 0: never
    struct mt_adapter adapter;
    struct mt_train_selection selection;
    struct mt_interrupt interrupt;
    struct mt_device *device;
    struct mt_trainer_memory memory;
    struct mt_model *model;
    struct mt_optimizer optimizer;
    struct mt_schedule schedule;
    struct mt_watch *watch;
    struct mt_run_log *run_log;
    struct mt_layer_paths *paths; // [moe_layers], in the arena
    int moe_layers;
    float *bias; // [n], in the arena: a router's bias on its way

    struct mt_comm *comm;                 // borrowed, or own_comm
    struct mt_comm *expert_comm;          // owned: the ranks that share the experts; NULL: none do
    struct mt_comm *copies_comm;          // owned: the ranks that hold the same experts; NULL: all do
    struct mt_comm *own_comm;             // NULL: the caller has given one
    struct mt_device *sender;             // owned: the stream that cards send on; NULL: they do not
    char no_cards[256];                   // why not, where it was left to us
    int threads;                          // of the device; 0: as many as the machine has
    bool automatic_device;                // nobody named one
    struct mt_rank_loss *losses;          // [ranks], in the arena: of a round
    struct mt_gradient_sum *gradient_sum; // of nothing where nobody else has any
    struct mt_timeline *timeline;         // owned; NULL: nobody asked for one
    struct mt_span *backward;             // of the layer at hand, in the timeline
    uint64_t sent_before[MT_COMM_KINDS];  // bytes this rank had sent when the run was opened
    bool sends;                           // this backward is the step's last

    struct mt_run_numbers numbers;
    struct mt_run_tensors tensors;
    uint64_t saved_step;          // of the newest checkpoint; 0: none
    bool finished_before;         // and everything is written: the rest is not open
    double started;               // clock, so that numbers.seconds + now - started is what the run took
    double step_began;            // clock
    struct mt_step_record record; // of the step at hand
};

// ------------------------------------------------------------------ train/step.c

/* Prepares the next step's data and takes it: forward, backward, optimizer; fills trainer->record. */
enum mt_status mt_trainer_step(struct mt_trainer *trainer);

/* The mean loss of the held-out data. */
enum mt_status mt_trainer_evaluate(struct mt_trainer *trainer, struct mt_evaluation_record *record);

// ------------------------------------------------------------------ trainer_faults.c

/* Says what is not finite: the term of a layer, or the first layer whose output is not. */
enum mt_status mt_trainer_fail_loss(struct mt_trainer *trainer, const struct mt_model_loss *loss);

/* Names the parameter whose gradient is not finite. */
enum mt_status mt_trainer_fail_gradient(struct mt_trainer *trainer, double norm);

/* Refuses to save values that are not finite. */
enum mt_status mt_trainer_check_values(struct mt_trainer *trainer);

// ------------------------------------------------------------------ trainer_memory.c

/*
 * Chooses parallel.experts, recompute and batch.tokens where they are left to us, so that the run fits its
 * limit, which the device then keeps. A limit that somebody has named and nothing fits is refused; what is
 * free is not: the run is tried, but not where no number of ranks that share the experts fits. With plan_only
 * nothing is refused.
 */
enum mt_status mt_trainer_fit(struct mt_trainer *trainer);
const struct mt_fit_try *mt_trainer_chosen(const struct mt_trainer *trainer);

/* Bytes that were held at the most of the memory that is computed in, mapped weights among them. */
size_t mt_trainer_peak(const struct mt_trainer *trainer);

/* Adds to MT_ERR_MEMORY what is held, what is free, and what to change; other failures stay as they are. */
enum mt_status mt_trainer_fail_memory(const struct mt_trainer *trainer, enum mt_status status);

// ------------------------------------------------------------------ trainer.c

/* What the model is opened with, in these sizes. The device is open. */
enum mt_status mt_trainer_model_options(struct mt_trainer *trainer, const struct mt_fit_sizes *sizes,
                                        struct mt_model_options *options);

// ------------------------------------------------------------------ loop.c

#define MT_CHECKPOINT_TEXT_BYTES 512

/* What the log says of a checkpoint of this step. */
void mt_trainer_checkpoint_text(const struct mt_trainer *trainer, char text[MT_CHECKPOINT_TEXT_BYTES]);

/* True when all that a finished run writes is there. */
bool mt_trainer_has_results(const struct mt_trainer *trainer, const struct mt_run_numbers *numbers);

/* The file of the result that holds routers' biases no other program reads; NULL: there are none. */
const char *mt_trainer_bias_file(const struct mt_trainer *trainer);

// ------------------------------------------------------------------ train/card.c

/*
 * What the card of the result says of how it was trained (model/files/card.h), in the arena: method, targets,
 * data by name, length, loss on held-out data, and the settings to train it again. `best`: the parameters are
 * those of the best evaluation. Nothing in it depends on where or how fast a run went.
 */
enum mt_status mt_trainer_card(const struct mt_trainer *trainer, bool best, struct mt_arena *arena,
                               const char **text);

// ------------------------------------------------------------------ trainer_ranks.c

/*
 * One run on many ranks. The micro-batches of a step are taken in rounds, one for each rank at a time, in the
 * order one rank alone would take them; every rank prepares all data and keeps all that is trained but for
 * the routed experts of other ranks, where these are spread. What several ranks keep stays the same on them,
 * bit by bit; one of them moves it. Rank 0 writes, but for checkpoints, of which each writes its part.
 */

/* What one rank found out in a round. */
struct mt_rank_loss {
    double task;   // L_h of its micro-batch
    double terms;  // of the objective
    double labels; // its micro-batch has
    double tokens;
    double failed; // 1: a number is none
};

/* A round, as this rank sees it. */
struct mt_round {
    size_t first, count; // micro-batches of all ranks
    int64_t tokens;      // of all of them
    bool idle;           // none is left for this rank
    bool last;           // of the step
};

/* The group of ranks, the threads of each, the memory rounds need. */
enum mt_status mt_trainer_open_ranks(struct mt_trainer *trainer);

/* The groups of ranks that share the experts, once it is known how many do. */
enum mt_status mt_trainer_split_experts(struct mt_trainer *trainer);

/* Who adds up what. */
struct mt_gradient_groups mt_trainer_groups(const struct mt_trainer *trainer);

/* What needs the model and the optimizer to be open: sums of gradients, statistics of all ranks. */
enum mt_status mt_trainer_join_ranks(struct mt_trainer *trainer);
void mt_trainer_close_ranks(struct mt_trainer *trainer);

/* Whether rows of spread experts are sent from the device's own memory; refuses what was asked for and cannot
 * be. */
enum mt_status mt_trainer_find_transfer(struct mt_trainer *trainer, bool *direct);

/* trainer_cards.c: once the device is open, on every rank; and what the log says of it. */
enum mt_status mt_trainer_open_cards(struct mt_trainer *trainer);
enum mt_status mt_trainer_tell_cards(struct mt_trainer *trainer);

/* Bytes this rank has sent since the run was opened. */
uint64_t mt_trainer_sent(const struct mt_trainer *trainer);

/* True on the rank that writes files and talks. */
bool mt_trainer_writes(const struct mt_trainer *trainer);

/* Something that needs what all ranks keep, done by the rank that writes. */
typedef enum mt_status mt_trainer_writer(struct mt_trainer *trainer, const void *self);

/* Runs it there, while the ranks with other experts hand their part over; all ranks call this. */
enum mt_status mt_trainer_write(struct mt_trainer *trainer, mt_trainer_writer *writer, const void *self);

/* How many rounds a step has. */
size_t mt_trainer_rounds(const struct mt_trainer *trainer, const struct mt_step *step);

/* The micro-batch this rank takes in a round; an idle rank gets one token that counts for nothing. */
struct mt_round mt_trainer_round(const struct mt_trainer *trainer, const struct mt_batches *batches,
                                 const struct mt_step *step, size_t index, struct mt_batch *batch);

/* False when the micro-batch need not be run: an idle rank nobody waits for. */
bool mt_trainer_takes_part(const struct mt_trainer *trainer, const struct mt_round *round);

/*
 * Everybody's losses of a round, in trainer->losses[ranks]. `status` is this rank's own judgement of its
 * loss: if a rank has found a fault, all return it.
 */
enum mt_status mt_trainer_share_losses(struct mt_trainer *trainer, const struct mt_rank_loss *own,
                                       enum mt_status status);

/* A failure others cannot know of while they wait for this rank: ends the job, alone returns the status. */
enum mt_status mt_trainer_fail_alone(struct mt_trainer *trainer, enum mt_status status);

/* With local statistics, after a round: scales and brakes become the mean of the ranks that took part. */
void mt_trainer_share_state(struct mt_trainer *trainer, const struct mt_round *round);

/* The step's loads, variances and norms, of all ranks. */
enum mt_status mt_trainer_share_watch(struct mt_trainer *trainer);

/* With a timeline: it begins with the first step, and is written after the last. Collective. */
void mt_trainer_begin_timeline(struct mt_trainer *trainer);
enum mt_status mt_trainer_end_timeline(struct mt_trainer *trainer, struct mt_timeline_summary *summary);

/* Into the log: how many ranks there were, what this one sent, how long it waited for gradients. */
enum mt_status mt_trainer_tell_ranks(struct mt_trainer *trainer);

#endif
