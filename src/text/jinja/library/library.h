/* What templates can call, by kind: rows, behind the last of which the name is NULL. */
#ifndef MT_TEXT_JINJA_LIBRARY_H
#define MT_TEXT_JINJA_LIBRARY_H

#include "text/jinja/run.h"

extern const struct jinja_function mt_jinja_globals[];
extern const struct jinja_function mt_jinja_text_filters[];
extern const struct jinja_function mt_jinja_list_filters[];
extern const struct jinja_function mt_jinja_number_filters[];
extern const struct jinja_function mt_jinja_string_methods[];
extern const struct jinja_function mt_jinja_list_methods[];
extern const struct jinja_function mt_jinja_dict_methods[];
extern const struct jinja_function mt_jinja_loop_methods[];
extern const struct jinja_function mt_jinja_cycler_methods[];
extern const struct jinja_function mt_jinja_number_methods[];

/* The filter tojson. */
struct mt_value mt_jinja_tojson(const struct jinja_call *call);

#endif
