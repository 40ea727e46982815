/* A run's records as lines of JSON and as TensorBoard's scalars: which keys and tags there are. */
#ifndef MT_TRAIN_RUNLOG_RECORDS_H
#define MT_TRAIN_RUNLOG_RECORDS_H

#include "train/log/json_line.h"
#include "train/log/record.h"
#include "train/log/tensorboard.h"

#define MT_EVENT_TEXT_MOST 2048 // bytes

/* Bytes the longest line can have, newline included, and scalars the largest record. */
size_t mt_records_line_bytes(size_t layers, int experts);
size_t mt_records_scalars(size_t layers);

/* One line each, newline included. */
void mt_records_step_line(struct mt_json_line *text, const struct mt_step_record *record);
void mt_records_evaluation_line(struct mt_json_line *text, const struct mt_evaluation_record *record);
void mt_records_event_line(struct mt_json_line *text, uint64_t step, const char *kind, const char *event);

void mt_records_step_scalars(struct mt_tensorboard *board, const struct mt_step_record *record);
void mt_records_evaluation_scalars(struct mt_tensorboard *board, const struct mt_evaluation_record *record);

#endif
