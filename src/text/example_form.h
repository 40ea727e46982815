/* Forms: from the fields of a row to the turns of a conversation, or a text. */
#ifndef MT_TEXT_EXAMPLE_FORM_H
#define MT_TEXT_EXAMPLE_FORM_H

#include "text/example.h"

/* Fills `conversation`, or *text where the row is a text (else NULL). */
enum mt_status mt_form_read(const struct mt_example_source *source, const struct mt_row *row,
                            struct mt_conversation *conversation, const struct mt_row_field **text);

#endif
