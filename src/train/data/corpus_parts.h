/* Opening a corpus, taken apart. */
#ifndef MT_TRAIN_CORPUS_PARTS_H
#define MT_TRAIN_CORPUS_PARTS_H

#include "train/data/corpus.h"

/* How the rows of dataset `index` are read. */
struct mt_batch_source mt_corpus_source(const struct mt_corpus *corpus,
                                        const struct mt_train_settings *settings, size_t index);
struct mt_example_options mt_corpus_example_options(const struct mt_corpus *corpus,
                                                    const struct mt_train_settings *settings);

/*
 * Looks at each source until a row can be used; a source without one is refused. Keeps the first example, and
 * warns of what it shows about the template.
 */
enum mt_status mt_corpus_look(struct mt_corpus *corpus, const struct mt_train_settings *settings);

#endif
