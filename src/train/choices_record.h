/*
 * Recording choices: the experts that a model as it is chooses for everything a run would train on, as a file
 * that data.choices reads. The run's settings say what that is: data, template, lengths, order, steps.
 */
#ifndef MT_TRAIN_CHOICES_RECORD_H
#define MT_TRAIN_CHOICES_RECORD_H

#include "train/data/choices.h"
#include "train/trainer.h"

struct mt_choices_recorded {
    size_t sequences;
    int64_t tokens;
    struct mt_choice_shape shape;
};

/* Of the options settings, templates, log and terminal count. One process. The file appears when complete. */
enum mt_status mt_choices_record(struct mt_context *ctx, const struct mt_trainer_options *options,
                                 const char *path, struct mt_choices_recorded *recorded);

#endif
