/*
 * What the routers did in one optimizer step: loads, entropy, MaxVio (of the step, and running over all
 * steps), three routing variances, concentration, and the objective's terms, over all micro-batches and for
 * every MoE layer.
 *
 *     mt_watch_begin(watch)                        a step begins
 *     for each micro-batch, after its backward:
 *         mt_watch_model(watch, model, &look)      or mt_watch_records
 *     mt_watch_end(watch)                          once; the running loads take the step in
 *     mt_watch_fill(watch, &record)                every step: rules of selection read these loads
 *
 * Loads of micro-batches are added; moments are added and weighted by unmasked tokens, so that the result is
 * that of one large batch. With an objective the loads are those it has counted already, and a step that is
 * not looked at in detail costs a few additions. Nothing is allocated after creation.
 */
#ifndef MT_TRAIN_WATCH_H
#define MT_TRAIN_WATCH_H

#include "model/model.h"
#include "train/log/record.h"

struct mt_watch; // opaque

struct mt_watch_options {
    const int64_t *layers; // [layer_count]: numbers of the MoE layers, as the checkpoint has them; copied
    size_t layer_count;
    int experts;                                 // n
    int slots;                                   // k
    int64_t tokens;                              // N of a micro-batch at the most
    int sources;                                 // of the data, told apart; 0 or 1: they are not
    const struct mt_objective_config *objective; // which terms are on; NULL: none; read once
};

/* The caller destroys; the device outlives it. */
enum mt_status mt_watch_create(struct mt_device *device, const struct mt_watch_options *options,
                               struct mt_watch **watch);

/* Likewise for the MoE layers of a model; a model without any is watched in vain, but may be. */
enum mt_status mt_watch_create_for_model(struct mt_device *device, struct mt_model *model, int64_t tokens,
                                         int sources, const struct mt_objective_config *objective,
                                         struct mt_watch **watch);
void mt_watch_destroy(struct mt_watch *watch); // NULL is allowed

struct mt_watch_look {
    bool variances; // and concentration: at steps that will be logged, or judged (train/concentration.h)
    const int32_t *source; // [N]: which of the sources each token is from; NULL: nobody tells
    double share; // of this micro-batch in the step's mean of terms; 0: its unmasked tokens. Only the ratio
                  // of the shares within a step counts
};

void mt_watch_begin(struct mt_watch *watch);

/* records[layer_count]; objective: what these very records were given to; NULL: none. */
enum mt_status mt_watch_records(struct mt_watch *watch, const struct mt_routing *const *records,
                                const struct mt_objective *objective, const struct mt_watch_look *look);
enum mt_status mt_watch_model(struct mt_watch *watch, struct mt_model *model,
                              const struct mt_watch_look *look);

/*
 * Before the end, where a step is spread over several processes: adds up what each of them saw. `shared`: the
 * objective's reports were those of all processes already, and only the `first` process's count.
 */
enum mt_status mt_watch_share(struct mt_watch *watch, const struct mt_objective_reduction *reduction,
                              bool shared, bool first);

void mt_watch_end(struct mt_watch *watch);

/*
 * term, weighted, max_violation, max_violation_running, load_entropy, the three of concentration, agreement,
 * layers, layer_count, experts and slots. What it points to is the watch's own, until the next
 * mt_watch_begin.
 */
void mt_watch_fill(struct mt_watch *watch, struct mt_step_record *record);

/* Loads of all steps so far, [layer_count,n]: what a checkpoint saves and puts back. */
double *mt_watch_running(struct mt_watch *watch, size_t *count);

#endif
