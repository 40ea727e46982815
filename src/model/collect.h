/*
 * A model watched by a collector (analysis/collector/collector.h): whatever runs the model, `metier analyze`,
 * an evaluation or a comparison, gets its routing figures through here.
 */
#ifndef MT_MODEL_COLLECT_H
#define MT_MODEL_COLLECT_H

#include "analysis/collector/collector.h"
#include "metier/buffer.h"
#include "model/model.h"

/*
 * Fills what options say of the model itself: layers, number, experts, slots, width. `number` has room for
 * desc->layers entries and is borrowed. False: no layer has experts.
 */
bool mt_collector_options_of(const struct mt_model_desc *desc, int64_t *number,
                             struct mt_collector_options *options);

/* From now on the collector gets every MoE layer of every forward; NULL ends it. Both stay the caller's. */
void mt_model_collect(struct mt_model *model, struct mt_collector *collector);

// ------------------------------------------------------------------ while many passes follow each other

enum mt_last_pass {
    MT_PASS_COUNTED, // or there was none
    MT_PASS_ON_DEVICE,
    MT_PASS_ON_HOST,
};

/*
 * The same without stopping the device in each pass, where the model keeps its records: those of a pass are
 * brought to the host when the next one begins, and counted while the device computes that one. Elsewhere a
 * pass is counted while it runs. The caller fills in the first part of the struct, with a collector of
 * options.grams = mt_model_keeps_records(model), and zeroes the rest.
 */
struct mt_collection {
    struct mt_model *model;         // borrowed
    struct mt_collector *collector; // borrowed; may be exchanged after mt_collection_settle or _forget
    void *self;                     // handed to:
    // Calls mt_collector_name for the so many tokens of the pass at hand. NULL: they count as they come.
    enum mt_status (*name)(void *self, int64_t tokens);

    enum mt_last_pass last;           // where its records are
    int64_t tokens;                   // it had
    struct mt_buffer floats, indices; // of all layers' records, on the host
    struct mt_routing *record;        // [layers]: what lies there; tensors may have more rows than tokens
    int layers;                       // with experts; 0: passes are counted while they run
};

/* From now on every forward is counted. The struct stays where it is; the caller ends, also after a failure.
 */
enum mt_status mt_collection_begin(struct mt_collection *collection);

/* Counts what is not yet counted; what the collector has is then of all passes. */
enum mt_status mt_collection_settle(struct mt_collection *collection);

/* What is not yet counted never will be. */
void mt_collection_forget(struct mt_collection *collection);

/* The model is observed no more; what was not settled is forgotten. A zeroed struct is allowed. */
void mt_collection_end(struct mt_collection *collection);

#endif
