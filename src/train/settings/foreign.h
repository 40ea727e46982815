/* Keys of other trainers that are no key here under any name, and what to do instead. */
#ifndef MT_TRAIN_FOREIGN_H
#define MT_TRAIN_FOREIGN_H

#include "formats/keys/keys.h"

/* Ends with a row without names. Names that are one of our keys under another name stand in `.also` of its
 * row. */
extern const struct mt_key_foreign mt_train_foreign[];

#endif
