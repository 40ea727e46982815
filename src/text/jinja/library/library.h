/* What templates can call, by kind. An entry without a function is known to Python or jinja2 and refused
 * here. */
#ifndef MT_TEXT_JINJA_LIBRARY_H
#define MT_TEXT_JINJA_LIBRARY_H

#include "text/jinja/run.h"

struct jinja_table {
    const struct jinja_function *entries;
    size_t count;
};

extern const struct jinja_table jinja_globals;
extern const struct jinja_table jinja_tests;
extern const struct jinja_table jinja_text_filters;
extern const struct jinja_table jinja_list_filters;
extern const struct jinja_table jinja_number_filters;
extern const struct jinja_table jinja_string_methods;
extern const struct jinja_table jinja_list_methods;
extern const struct jinja_table jinja_dict_methods;
extern const struct jinja_table jinja_loop_methods;
extern const struct jinja_table jinja_cycler_methods;
extern const struct jinja_table jinja_number_methods;

#endif
