/*
 * Problems of a file through a model: which it would answer exactly, and how likely the right answers are.
 *
 * A problem counts as solved when each token of its answer, the end included, is the most likely one after
 * those before it: that is when greedy generation writes exactly the answer.
 */
#ifndef MT_COMPARE_ANSWERS_H
#define MT_COMPARE_ANSWERS_H

#include "analysis/collector/collector.h"
#include "compare/cell.h"
#include "metier/buffer.h"
#include "model/model.h"
#include "train/settings/settings.h"

#define MT_ANSWERING_SEED 1 // the same tokens are looked at in every cell

/* What a pass over problems needs; device memory for the logits of a batch. */
struct mt_answering {
    const struct mt_cell_job *job;
    const struct mt_train_settings *training; // those the model was trained with
    struct mt_model *model;
    struct mt_device *device;
    bool exact; // `most` of mt_answering_run is kept to the row; set by the caller
    int64_t batch_tokens;
    struct mt_buffer logits;  // f32 [batch_tokens,V], on the device
    struct mt_buffer highest; // i32 [batch_tokens], on the device: the most likely token
    int32_t *host;            // [batch_tokens]: the same
};

struct mt_answers {
    int64_t problems, solved, labels;
    double loss; // sum over labels
};

/* Everything is borrowed; closed whatever the outcome. */
enum mt_status mt_answering_open(const struct mt_cell_job *job, const struct mt_train_settings *training,
                                 struct mt_model *model, struct mt_answering *answering);
void mt_answering_close(struct mt_answering *answering); // a zeroed struct is allowed

/* Every problem of a file once, or batches until there are so many (0: all), with `exact` the first so many
 * in the order they are drawn, however training batches. NULL: no collector watches. */
enum mt_status mt_answering_run(struct mt_answering *answering, const char *path, int64_t most,
                                struct mt_collector *collector, struct mt_answers *answers);

/* Share of problems solved, mean loss; NaN of none. */
double mt_answers_accuracy(const struct mt_answers *answers);
double mt_answers_loss(const struct mt_answers *answers);

#endif
