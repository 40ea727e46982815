/* Methods of lists, dictionaries, loops, cyclers and numbers. None changes what it is called on. */
#include <math.h>

#include "text/jinja/library/library.h"

// ------------------------------------------------------------------ lists and tuples

static struct mt_value list_count(const struct jinja_call *call)
{
    const struct jinja_list *list = call->subject.object;
    int64_t count = 0;
    for (size_t i = 0; i < list->count && !mt_jinja_failed(call->run); i++)
        count += mt_jinja_equal(call->run, list->items[i], call->bound[0]);
    return mt_jinja_integer(count);
}

static struct mt_value list_index(const struct jinja_call *call)
{
    const struct jinja_list *list = call->subject.object;
    int64_t count = (int64_t)list->count;
    int64_t place[2] = {0, count};
    for (int i = 0; i < 2; i++) {
        place[i] = mt_jinja_integer_argument(call, i + 1, place[i]);
        if (place[i] < 0) place[i] = place[i] < -count ? 0 : place[i] + count;
    }
    for (int64_t i = place[0]; i < place[1] && i < count && !mt_jinja_failed(call->run); i++) {
        if (mt_jinja_equal(call->run, list->items[i], call->bound[0])) return mt_jinja_integer(i);
    }
    return mt_jinja_fail(call->run, MT_ERR_FORMAT, "the value is not in the list");
}

static struct mt_value copy(const struct jinja_call *call)
{
    return call->subject; // nothing changes lists and dictionaries, so one is as good as two
}

const struct jinja_function mt_jinja_list_methods[] = {
    {"count", list_count, .parameters = {"value"}, .required = 1},
    {"index", list_index, .parameters = {"value", "start", "stop"}, .required = 1},
    {.name = "copy", .call = copy},
    {0},
};

// ------------------------------------------------------------------ dictionaries

enum { KEYS, VALUES, ITEMS };

static struct mt_value dict_view(const struct jinja_call *call)
{
    static const char *const names[] = {
        [KEYS] = "dict_keys", [VALUES] = "dict_values", [ITEMS] = "dict_items"};
    int kind = call->function->variant;
    const struct jinja_dict *dict = call->subject.object;
    struct jinja_view view = {.name = names[kind]};
    for (size_t i = 0; i < dict->count && !mt_jinja_failed(call->run); i++) {
        const struct mt_value pair[2] = {dict->pairs[i].key, dict->pairs[i].value};
        struct mt_value item = kind == ITEMS ? mt_jinja_tuple(call->run, pair, 2) : pair[kind];
        mt_jinja_list_add(call->run, &view.list, item);
    }
    return mt_jinja_kept(call->run, JINJA_VIEW, &view, sizeof view);
}

static struct mt_value dict_get(const struct jinja_call *call)
{
    if (call->arguments->keyword_count != 0)
        return mt_jinja_fail(call->run, MT_ERR_FORMAT, "get takes no keyword arguments");
    if (!mt_jinja_check_key(call->run, call->bound[0])) return mt_jinja_none();
    const struct mt_value *found = mt_jinja_dict_find(call->run, call->subject.object, call->bound[0]);
    if (found != NULL) return *found;
    return call->bound[1].kind != JINJA_ABSENT ? call->bound[1] : mt_jinja_none();
}

const struct jinja_function mt_jinja_dict_methods[] = {
    {"get", dict_get, .parameters = {"key", "default"}, .required = 1},
    {"keys", dict_view, .variant = KEYS},
    {"values", dict_view, .variant = VALUES},
    {"items", dict_view, .variant = ITEMS},
    {.name = "copy", .call = copy},
    {.name = "fromkeys"},
    {0},
};

// ------------------------------------------------------------------ loops and cyclers

static struct mt_value loop_cycle(const struct jinja_call *call)
{
    const struct jinja_loop *loop = call->subject.object;
    if (call->arguments->count == 0 || call->arguments->keyword_count != 0)
        return mt_jinja_fail(call->run, MT_ERR_FORMAT, "no items for cycling given");
    return call->arguments->items[loop->index % call->arguments->count];
}

static struct mt_value loop_changed(const struct jinja_call *call)
{
    struct jinja_loop *loop = call->subject.object;
    struct mt_value now = mt_jinja_tuple(call->run, call->arguments->items, call->arguments->count);
    bool equal = loop->has_changed && mt_jinja_equal(call->run, loop->changed, now);
    loop->has_changed = true;
    loop->changed = now;
    return mt_jinja_bool(!equal);
}

const struct jinja_function mt_jinja_loop_methods[] = {
    {"cycle", loop_cycle, .required = JINJA_OWN_ARGUMENTS},
    {"changed", loop_changed, .required = JINJA_OWN_ARGUMENTS},
    {0},
};

static struct mt_value cycler_next(const struct jinja_call *call)
{
    struct jinja_cycler *cycler = call->subject.object;
    struct mt_value current = cycler->items.items[cycler->position];
    cycler->position = (cycler->position + 1) % cycler->items.count;
    return current;
}

static struct mt_value cycler_reset(const struct jinja_call *call)
{
    ((struct jinja_cycler *)call->subject.object)->position = 0;
    return mt_jinja_none();
}

const struct jinja_function mt_jinja_cycler_methods[] = {
    {.name = "next", .call = cycler_next},
    {.name = "reset", .call = cycler_reset},
    {0},
};

// ------------------------------------------------------------------ numbers

static struct mt_value is_integer(const struct jinja_call *call)
{
    if (call->subject.kind != JINJA_REAL) // Python 3.12 has it, 3.11 has not
        return mt_jinja_fail(call->run, MT_ERR_UNSUPPORTED, "is_integer of an integer is not known here");
    return mt_jinja_bool(floor(call->subject.real) == call->subject.real);
}

const struct jinja_function mt_jinja_number_methods[] = {
    {.name = "is_integer", .call = is_integer},
    {.name = "bit_length"},
    {.name = "bit_count"},
    {.name = "to_bytes"},
    {.name = "from_bytes"},
    {.name = "conjugate"},
    {.name = "as_integer_ratio"},
    {.name = "hex"},
    {0},
};
