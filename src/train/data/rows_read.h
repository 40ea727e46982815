/* The rows a run has read, by hashes: what its model's folder says of them (formats/data/row_hashes.h). */
#ifndef MT_TRAIN_ROWS_READ_H
#define MT_TRAIN_ROWS_READ_H

#include "formats/data/row_hashes.h"
#include "train/data/corpus.h"

/* Adds the rows of the corpus that were drawn so far; those that make no sense taught nothing. */
enum mt_status mt_rows_read_add(struct mt_corpus *corpus, const struct mt_train_settings *settings,
                                struct mt_row_hashes *rows);

#endif
