/* Methods of lists, dictionaries, loops, cyclers and numbers. None changes what it is called on. */
#include <math.h>

#include "text/jinja/library/library.h"

// ------------------------------------------------------------------ lists and tuples

static enum mt_status list_count(struct jinja_run *run, struct mt_value subject,
                                 const struct jinja_arguments *arguments, struct mt_value *result)
{
    static const char *const names[] = {"value"};
    const struct jinja_list *list = subject.object;
    struct mt_value wanted;
    int64_t count = 0;
    enum mt_status status = jinja_bind(run, "count", arguments, names, 1, 1, &wanted);
    for (size_t i = 0; status == MT_OK && i < list->count; i++) {
        bool equal = false;
        status = jinja_equal(run, list->items[i], wanted, &equal);
        count += equal;
    }
    *result = mt_jinja_integer(count);
    return status;
}

static enum mt_status list_index(struct jinja_run *run, struct mt_value subject,
                                 const struct jinja_arguments *arguments, struct mt_value *result)
{
    static const char *const names[] = {"value", "start", "stop"};
    const struct jinja_list *list = subject.object;
    struct mt_value bound[3];
    int64_t place[2] = {0, (int64_t)list->count};
    enum mt_status status = jinja_bind(run, "index", arguments, names, 3, 1, bound);
    for (int i = 0; status == MT_OK && i < 2; i++) {
        status = jinja_bound_integer(run, "index", bound[i + 1], place[i], &place[i]);
        if (place[i] < 0) place[i] = place[i] < -(int64_t)list->count ? 0 : place[i] + (int64_t)list->count;
    }
    for (int64_t i = place[0]; status == MT_OK && i < place[1] && i < (int64_t)list->count; i++) {
        bool equal = false;
        status = jinja_equal(run, list->items[i], bound[0], &equal);
        *result = mt_jinja_integer(i);
        if (status == MT_OK && equal) return MT_OK;
    }
    return status == MT_OK ? jinja_fail(run, MT_ERR_FORMAT, "the value is not in the list") : status;
}

static enum mt_status list_copy(struct jinja_run *run, struct mt_value subject,
                                const struct jinja_arguments *arguments, struct mt_value *result)
{
    *result = subject; // nothing changes lists, so one is as good as two
    return jinja_bind(run, "copy", arguments, NULL, 0, 0, NULL);
}

static const struct jinja_function list_entries[] = {
    {"count", list_count},
    {"index", list_index},
    {"copy", list_copy},
};
const struct jinja_table jinja_list_methods = {list_entries, sizeof list_entries / sizeof list_entries[0]};

// ------------------------------------------------------------------ dictionaries

static enum mt_status dict_view(struct jinja_run *run, struct mt_value subject,
                                const struct jinja_arguments *arguments, const char *what, const char *name,
                                struct mt_value *result)
{
    const struct jinja_dict *dict = subject.object;
    void *memory = NULL;
    enum mt_status status = jinja_bind(run, what, arguments, NULL, 0, 0, NULL);
    if (status == MT_OK) status = jinja_allocate(run, sizeof(struct jinja_view), &memory);
    if (status != MT_OK) return status;
    struct jinja_view *view = memory;
    view->name = name;
    for (size_t i = 0; status == MT_OK && i < dict->count; i++) {
        struct mt_value item = dict->pairs[i].key;
        if (what[0] == 'v') item = dict->pairs[i].value;
        if (what[0] == 'i') status = jinja_pair_tuple(run, dict->pairs[i].key, dict->pairs[i].value, &item);
        if (status == MT_OK) status = jinja_list_add(run, &view->list, item);
    }
    *result = jinja_object(JINJA_VIEW, view);
    return status;
}

static enum mt_status dict_keys(struct jinja_run *run, struct mt_value subject,
                                const struct jinja_arguments *arguments, struct mt_value *result)
{
    return dict_view(run, subject, arguments, "keys", "dict_keys", result);
}

static enum mt_status dict_values(struct jinja_run *run, struct mt_value subject,
                                  const struct jinja_arguments *arguments, struct mt_value *result)
{
    return dict_view(run, subject, arguments, "values", "dict_values", result);
}

static enum mt_status dict_items(struct jinja_run *run, struct mt_value subject,
                                 const struct jinja_arguments *arguments, struct mt_value *result)
{
    return dict_view(run, subject, arguments, "items", "dict_items", result);
}

static enum mt_status dict_get(struct jinja_run *run, struct mt_value subject,
                               const struct jinja_arguments *arguments, struct mt_value *result)
{
    static const char *const names[] = {"key", "default"};
    struct mt_value bound[2];
    struct mt_value *found = NULL;
    enum mt_status status = jinja_bind(run, "get", arguments, names, 2, 1, bound);
    if (status == MT_OK && arguments->keyword_count != 0)
        return jinja_fail(run, MT_ERR_FORMAT, "get takes no keyword arguments");
    if (status == MT_OK) status = jinja_check_key(run, bound[0]);
    if (status == MT_OK) status = jinja_dict_find(run, subject.object, bound[0], &found);
    if (status != MT_OK) return status;
    if (found != NULL)
        *result = *found;
    else
        *result = bound[1].kind != JINJA_ABSENT ? bound[1] : mt_jinja_none();
    return MT_OK;
}

static const struct jinja_function dict_entries[] = {
    {"get", dict_get},     {"keys", dict_keys}, {"values", dict_values},
    {"items", dict_items}, {"copy", list_copy}, {"fromkeys", NULL},
};
const struct jinja_table jinja_dict_methods = {dict_entries, sizeof dict_entries / sizeof dict_entries[0]};

// ------------------------------------------------------------------ loops and cyclers

static enum mt_status loop_cycle(struct jinja_run *run, struct mt_value subject,
                                 const struct jinja_arguments *arguments, struct mt_value *result)
{
    const struct jinja_loop *loop = subject.object;
    if (arguments->count == 0 || arguments->keyword_count != 0)
        return jinja_fail(run, MT_ERR_FORMAT, "no items for cycling given");
    *result = arguments->items[loop->index % arguments->count];
    return MT_OK;
}

static enum mt_status loop_changed(struct jinja_run *run, struct mt_value subject,
                                   const struct jinja_arguments *arguments, struct mt_value *result)
{
    struct jinja_loop *loop = subject.object;
    struct jinja_list *list = NULL;
    bool equal = false;
    enum mt_status status = jinja_list_new(run, arguments->count, &list);
    for (size_t i = 0; status == MT_OK && i < arguments->count; i++)
        status = jinja_list_add(run, list, arguments->items[i]);
    struct mt_value now = jinja_object(JINJA_TUPLE, list);
    if (status == MT_OK && loop->has_changed) status = jinja_equal(run, loop->changed, now, &equal);
    loop->has_changed = true;
    loop->changed = now;
    *result = mt_jinja_bool(!equal);
    return status;
}

static const struct jinja_function loop_entries[] = {{"cycle", loop_cycle}, {"changed", loop_changed}};
const struct jinja_table jinja_loop_methods = {loop_entries, sizeof loop_entries / sizeof loop_entries[0]};

static enum mt_status cycler_next(struct jinja_run *run, struct mt_value subject,
                                  const struct jinja_arguments *arguments, struct mt_value *result)
{
    struct jinja_cycler *cycler = subject.object;
    *result = cycler->items.items[cycler->position];
    cycler->position = (cycler->position + 1) % cycler->items.count;
    return jinja_bind(run, "next", arguments, NULL, 0, 0, NULL);
}

static enum mt_status cycler_reset(struct jinja_run *run, struct mt_value subject,
                                   const struct jinja_arguments *arguments, struct mt_value *result)
{
    struct jinja_cycler *cycler = subject.object;
    cycler->position = 0;
    *result = mt_jinja_none();
    return jinja_bind(run, "reset", arguments, NULL, 0, 0, NULL);
}

static const struct jinja_function cycler_entries[] = {{"next", cycler_next}, {"reset", cycler_reset}};
const struct jinja_table jinja_cycler_methods = {cycler_entries,
                                                 sizeof cycler_entries / sizeof cycler_entries[0]};

// ------------------------------------------------------------------ numbers

static enum mt_status is_integer(struct jinja_run *run, struct mt_value subject,
                                 const struct jinja_arguments *arguments, struct mt_value *result)
{
    if (subject.kind != JINJA_REAL) // Python 3.12 has it, 3.11 has not
        return jinja_fail(run, MT_ERR_UNSUPPORTED, "is_integer of an integer is not known here");
    *result = mt_jinja_bool(floor(subject.real) == subject.real);
    return jinja_bind(run, "is_integer", arguments, NULL, 0, 0, NULL);
}

static const struct jinja_function number_entries[] = {
    {"is_integer", is_integer}, {"bit_length", NULL}, {"bit_count", NULL},        {"to_bytes", NULL},
    {"from_bytes", NULL},       {"conjugate", NULL},  {"as_integer_ratio", NULL}, {"hex", NULL},
};
const struct jinja_table jinja_number_methods = {number_entries,
                                                 sizeof number_entries / sizeof number_entries[0]};
