/* A value as text, in a row of JSON. */
#ifndef MT_FORMATS_VALUE_TEXT_H
#define MT_FORMATS_VALUE_TEXT_H

#include "formats/columnar/row_text.h"

/* Appends a value; as_key: of a map, where it must be a text. */
enum mt_status mt_row_text_value(struct mt_row_text *out, const struct mt_value_type *type,
                                 const struct mt_value *value, bool as_key);

#endif
