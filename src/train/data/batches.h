/*
 * Batches of examples out of a mixture of files, in an order that depends on the seed alone.
 *
 * An epoch draws from every source, weight · rows times in all, each row as often as any other (weight 1:
 * once; 0.5: half of the rows, another half each epoch); the draws of all sources are shuffled together.
 * Draws are taken window by window; the examples of a window are arranged into steps:
 *
 *     in order   a step is the next `examples` examples; the window is one step
 *     buckets    the window's examples are sorted by length, cut into steps, and the steps shuffled
 *     packed     examples are put, first fit, into steps of at most `tokens` tokens and `examples` examples
 *
 * A step's examples are handed out in micro-batches of at most `tokens` tokens. Sequences lie end to end and
 * keep apart through their offsets: no padding, no attention across.
 *
 * The position (epoch, first draw of the window, step within it) is all the state there is: put back, the
 * same steps follow, whatever ran before.
 */
#ifndef MT_TRAIN_BATCHES_H
#define MT_TRAIN_BATCHES_H

#include "base/log.h"
#include "model/model.h"
#include "text/example.h"
#include "train/data/row_faults.h"

struct mt_batch_source {
    const struct mt_dataset *dataset; // borrowed
    struct mt_example_source example; // texts borrowed
    double weight;                    // 0 counts as 1
    // A part of the rows, in an order shuffled once by the seed: for the first 6000 of them, or for a
    // held-out split and its rest. Count 0: all from `first` on.
    uint64_t first;
    uint64_t count;
    size_t order; // among the run's sources: whose bad rows are told of first
};

enum mt_batch_layout { MT_LAYOUT_IN_ORDER, MT_LAYOUT_BUCKETS, MT_LAYOUT_PACKED, MT_LAYOUTS };

struct mt_batch_options {
    const struct mt_batch_source *sources; // copied
    size_t source_count;
    struct mt_example_options example;
    enum mt_batch_layout layout;
    int64_t examples; // of a step; packed: at most, 0: any number
    int64_t tokens;   // of a micro-batch at most; at least example.max_length, which must be set
    int64_t window;   // steps (buckets) or examples (packed) looked at together; 0: 16 and 256
    uint64_t seed;
    bool in_file_order;           // no shuffling: for evaluation
    bool stop_at_bad_row;         // else it is logged and skipped, as it is by a survey
    const struct mt_log *log;     // borrowed; where bad rows are told of, once for each kind. NULL: nowhere
    struct mt_row_faults *faults; // borrowed; counts them, for whoever tells of them. NULL: they are not
};

struct mt_batch_position {
    uint64_t epoch;
    uint64_t index; // of the window's first draw
    uint64_t step;  // of the window, to come next
};

/* What became of the draws so far; also of a whole epoch, see mt_batches_survey. */
struct mt_batch_counts {
    uint64_t draws;
    uint64_t examples;
    uint64_t bad_rows;
    uint64_t without_answer; // skipped: no answer token, or none within max_length
    uint64_t truncated;
    uint64_t tokens;
    uint64_t answer_tokens;
    uint64_t lost_tokens; // cut off at max_length
    uint64_t lost_answer;
    uint64_t steps;
};

struct mt_step {
    uint64_t epoch;
    size_t micro_batches;
    int64_t examples;
    int64_t tokens;
    int64_t answer_tokens; // of all micro-batches: what the mean of the loss is over
};

struct mt_batches; // opaque

/* The caller frees; datasets, tokenizer and template outlive it. */
enum mt_status mt_batches_create(struct mt_context *ctx, const struct mt_batch_options *options,
                                 struct mt_batches **batches);
void mt_batches_free(struct mt_batches *batches); // NULL is allowed

/*
 * From now on a step's micro-batches are for so many ranks, which take one each in a round: there are as many
 * rounds as before, but micro-batches as even as the order of the examples allows. 1: as full as can be.
 */
void mt_batches_share(struct mt_batches *batches, size_t ranks);

/* From the next step on micro-batches have at most so many tokens, no fewer than an example may have. */
void mt_batches_cut(struct mt_batches *batches, int64_t tokens);

/* Draws an epoch has. */
uint64_t mt_batches_draws(const struct mt_batches *batches);

/* Prepares the next step; epochs follow one another without end. An epoch without an example is an error. */
enum mt_status mt_batches_next(struct mt_batches *batches, struct mt_step *step);

/* Sets sequences, their number in the step, tokens, ids, offsets and labels of a micro-batch of the step;
 * borrowed until the next. */
void mt_batches_micro(const struct mt_batches *batches, size_t index, struct mt_batch *batch);

/* How many sources there are, and which of them each token of a micro-batch of the step is from: [tokens]. */
size_t mt_batches_sources(const struct mt_batches *batches);
const int32_t *mt_batches_micro_sources(const struct mt_batches *batches, size_t index);

/* Where the next step begins; a position put back leads to the same steps. The counts of then may come along.
 */
struct mt_batch_position mt_batches_position(const struct mt_batches *batches);
enum mt_status mt_batches_seek(struct mt_batches *batches, struct mt_batch_position position,
                               const struct mt_batch_counts *counts);

struct mt_batch_counts mt_batches_counts(const struct mt_batches *batches);

/*
 * Marks the rows that were drawn so far, of source after source: drawn[source][row]. Of the window at hand
 * all of them count, whatever steps are left of it.
 */
enum mt_status mt_batches_mark_drawn(struct mt_batches *batches, unsigned char *const *drawn);

/* Goes through an epoch without training on it: how many steps it has and what is lost. Then as before. */
enum mt_status mt_batches_survey(struct mt_batches *batches, uint64_t epoch, struct mt_batch_counts *counts);

#endif
