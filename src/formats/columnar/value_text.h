/* A value as text; for row_text.c, which has mt_row_text_value's description. */
#ifndef MT_FORMATS_VALUE_TEXT_H
#define MT_FORMATS_VALUE_TEXT_H

#include "formats/columnar/row_text.h"

/* Appends a text of JSON. */
enum mt_status mt_row_text_quoted(struct mt_row_text *out, const char *text, size_t bytes);

#endif
