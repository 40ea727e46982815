/* One field of a formatted text: how wide, where, and in which form. */
#ifndef MT_TEXT_JINJA_FORMAT_H
#define MT_TEXT_JINJA_FORMAT_H

#include "text/jinja/run.h"

#define JINJA_FIELD_MOST 10000 // width and precision

struct jinja_field {
    struct mt_marked fill; // empty: a blank
    char align;            // '<', '>', '^', '=' (blanks behind the sign); 0: as the value likes it
    char sign;             // '+', ' ' or 0
    bool alternate;        // "#"
    bool zero;             // padded with zeros behind the sign
    bool grouped;          // ","
    size_t width;
    int precision; // -1: none
    char type;     // 0: none
};

/* Text in a field; precision is the number of characters kept. */
void mt_jinja_put_text_field(struct jinja_builder *out, const struct jinja_field *field,
                             struct mt_marked text);

/* A number in a field. Fails with a sentence where the type is none of a number's. */
void mt_jinja_put_integer_field(struct jinja_builder *out, const struct jinja_field *field, int64_t integer);
void mt_jinja_put_real_field(struct jinja_builder *out, const struct jinja_field *field, double real);

#endif
