/* Finding filters, functions and methods by name. */
#include "text/jinja/library/library.h"

static const struct jinja_function *find(const struct jinja_function *row, struct mt_marked name)
{
    while (row->name != NULL && !marked_is(name, row->name)) row++;
    return row->name != NULL ? row : NULL;
}

const struct jinja_function *mt_jinja_find_filter(struct mt_marked name)
{
    const struct jinja_function *found = find(mt_jinja_text_filters, name);
    if (found == NULL) found = find(mt_jinja_list_filters, name);
    return found != NULL ? found : find(mt_jinja_number_filters, name);
}

const struct jinja_function *mt_jinja_find_global(struct mt_marked name)
{
    return find(mt_jinja_globals, name);
}

const struct jinja_function *mt_jinja_find_method(int kind, struct mt_marked name)
{
    switch (kind) {
    case JINJA_STRING: return find(mt_jinja_string_methods, name);
    case JINJA_LIST:
    case JINJA_TUPLE: return find(mt_jinja_list_methods, name);
    case JINJA_DICT: return find(mt_jinja_dict_methods, name);
    case JINJA_LOOP: return find(mt_jinja_loop_methods, name);
    case JINJA_CYCLER: return find(mt_jinja_cycler_methods, name);
    case JINJA_BOOL:
    case JINJA_INTEGER:
    case JINJA_REAL: return find(mt_jinja_number_methods, name);
    default: return NULL;
    }
}

bool mt_jinja_has_filter(struct mt_marked name)
{
    const struct jinja_function *found = mt_jinja_find_filter(name);
    return found != NULL && found->call != NULL;
}
