/* The objective's keys as rows of struct mt_objective_config, for whoever has them among other keys. */
#ifndef MT_OBJECTIVE_OPTIONS_H
#define MT_OBJECTIVE_OPTIONS_H

#include "formats/keys/keys.h"

/* The last has no name. */
extern const struct mt_key_row mt_objective_rows[];

/* The name of a method as mt_method_listed counts them; NULL past the last. */
const char *mt_method_name(int index);

#endif
