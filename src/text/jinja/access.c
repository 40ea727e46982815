/* Attributes, items, slices, lengths, paths, and walking through values. */
#include "formats/text/utf8.h"
#include "text/jinja/run.h"

size_t mt_jinja_range_count(const struct jinja_range *range)
{
    // The bounds fit 2^53 (functions.c), so the difference fits.
    int64_t span = range->step > 0 ? range->stop - range->start : range->start - range->stop;
    int64_t step = range->step > 0 ? range->step : -range->step;
    return span <= 0 ? 0 : (size_t)((span - 1) / step + 1);
}

bool mt_jinja_length(struct jinja_run *run, struct mt_value value, int64_t *length)
{
    *length = 0;
    switch (value.kind) {
    case JINJA_UNDEFINED: return true;
    case JINJA_STRING:
        mt_jinja_spend(run, value.string.bytes / 64);
        *length = (int64_t)mt_jinja_characters(value.string);
        return true;
    case JINJA_LIST:
    case JINJA_TUPLE: *length = (int64_t)((const struct jinja_list *)value.object)->count; return true;
    case JINJA_DICT: *length = (int64_t)((const struct jinja_dict *)value.object)->count; return true;
    case JINJA_VIEW: *length = (int64_t)((const struct jinja_view *)value.object)->list.count; return true;
    case JINJA_RANGE: *length = (int64_t)mt_jinja_range_count(value.object); return true;
    case JINJA_LOOP: *length = (int64_t)((const struct jinja_loop *)value.object)->items.count; return true;
    default: return false;
    }
}

// ------------------------------------------------------------------ walking

bool mt_jinja_can_walk(struct mt_value value)
{
    return (1u << value.kind &
            (1u << JINJA_UNDEFINED | 1u << JINJA_STRING | 1u << JINJA_LIST | 1u << JINJA_TUPLE |
             1u << JINJA_DICT | 1u << JINJA_VIEW | 1u << JINJA_RANGE | 1u << JINJA_ITERATOR)) != 0;
}

struct mt_value mt_jinja_iterator_failure(struct jinja_run *run, const struct jinja_iterator *iterator)
{
    if (!mt_jinja_failed(run) && iterator->failure != MT_OK)
        run->status = mt_fail(run->ctx, iterator->failure, "%s", iterator->message);
    return mt_jinja_none();
}

static void walk_string(struct jinja_run *run, struct mt_marked text, struct jinja_list *list)
{
    for (size_t at = 0, next = 0; at < text.bytes && !mt_jinja_failed(run); at = next) {
        next = at + mt_utf8_length((uint8_t)text.text[at]);
        mt_jinja_list_add(run, list, marked_value(marked_part(text, at, next)));
    }
}

static void walk_iterator(struct jinja_run *run, struct jinja_iterator *iterator, struct jinja_list *list)
{
    for (; iterator->next < iterator->list.count && !mt_jinja_failed(run); iterator->next++)
        mt_jinja_list_add(run, list, iterator->list.items[iterator->next]);
    (void)mt_jinja_iterator_failure(run, iterator);
}

static void walk_range(struct jinja_run *run, const struct jinja_range *range, struct jinja_list *list)
{
    size_t count = mt_jinja_range_count(range);
    for (size_t i = 0; i < count && !mt_jinja_failed(run); i++)
        mt_jinja_list_add(run, list, mt_jinja_integer(range->start + (int64_t)i * range->step));
}

struct jinja_list *mt_jinja_walk(struct jinja_run *run, struct mt_value value)
{
    if (mt_jinja_failed(run)) return &run->no_list;
    if (value.kind == JINJA_LIST || value.kind == JINJA_TUPLE) return value.object;
    if (value.kind == JINJA_VIEW) return &((struct jinja_view *)value.object)->list;
    if (!mt_jinja_can_walk(value))
        (void)mt_jinja_fail(run, MT_ERR_FORMAT, "'%s' object is not iterable", mt_jinja_type_name(value));
    struct jinja_list *list = mt_jinja_list_new(run, 0);
    if (mt_jinja_failed(run)) return list;
    if (value.kind == JINJA_STRING) walk_string(run, value.string, list);
    if (value.kind == JINJA_ITERATOR) walk_iterator(run, value.object, list);
    if (value.kind == JINJA_RANGE) walk_range(run, value.object, list);
    const struct jinja_dict *dict = value.kind == JINJA_DICT ? value.object : &run->no_dict;
    for (size_t i = 0; i < dict->count; i++) mt_jinja_list_add(run, list, dict->pairs[i].key);
    return list;
}

// ------------------------------------------------------------------ items and slices

/* The place of an index in `count` things, negative ones from the end; false: outside. */
static bool place_of(int64_t index, size_t count, size_t *place)
{
    if (index < 0) index += (int64_t)count;
    if (index < 0 || (uint64_t)index >= count) return false;
    *place = (size_t)index;
    return true;
}

/* value[index]; false where Python raises TypeError or LookupError. */
static bool subscript(struct jinja_run *run, struct mt_value value, struct mt_value index,
                      struct mt_value *result)
{
    int64_t number = 0;
    size_t place = 0;
    if (value.kind == JINJA_DICT) {
        if (index.kind == JINJA_LIST || index.kind == JINJA_DICT) return false;
        const struct mt_value *item = mt_jinja_dict_find(run, value.object, index);
        if (item != NULL) *result = *item;
        return item != NULL;
    }
    if (!mt_jinja_as_integer(index, &number)) return false;
    if (value.kind == JINJA_LIST || value.kind == JINJA_TUPLE) {
        const struct jinja_list *list = value.object;
        if (!place_of(number, list->count, &place)) return false;
        *result = list->items[place];
        return true;
    }
    if (value.kind == JINJA_RANGE) {
        const struct jinja_range *range = value.object;
        if (!place_of(number, mt_jinja_range_count(range), &place)) return false;
        *result = mt_jinja_integer(range->start + (int64_t)place * range->step);
        return true;
    }
    if (value.kind != JINJA_STRING || !place_of(number, mt_jinja_characters(value.string), &place))
        return false;
    mt_jinja_spend(run, value.string.bytes / 64);
    size_t start = mt_jinja_character_at(value.string, place);
    size_t end = start + mt_utf8_length((uint8_t)value.string.text[start]);
    *result = mt_jinja_safe_like(value, marked_part(value.string, start, end));
    return true;
}

/* Where a slice of `count` things starts and stops, as Python's slice.indices; after a failure nowhere. */
static struct jinja_range slice_bounds(struct jinja_run *run, const struct mt_value bounds[3], size_t count)
{
    static const struct jinja_range nothing = {0, 0, 1};
    int64_t given[3] = {0, 0, 1};
    int64_t length = (int64_t)count;
    for (int i = 0; i < 3; i++) {
        if (mt_jinja_given(bounds[i]) && !mt_jinja_as_integer(bounds[i], &given[i]))
            (void)mt_jinja_fail(run, MT_ERR_FORMAT, "slice indices must be integers or None");
    }
    int64_t step = given[2];
    if (step == 0) (void)mt_jinja_fail(run, MT_ERR_FORMAT, "slice step cannot be zero");
    if (mt_jinja_failed(run)) return nothing;
    if (step > length) step = length + 1; // further is as far, and cannot overflow
    if (step < -length) step = -length - 1;
    int64_t low = step < 0 ? -1 : 0;
    int64_t high = step < 0 ? length - 1 : length;
    for (int i = 0; i < 2; i++) {
        if (!mt_jinja_given(bounds[i]))
            given[i] = (step < 0) == (i == 0) ? high : low;
        else if (given[i] < 0)
            given[i] = given[i] < -length ? low : given[i] + length;
        if (given[i] < low) given[i] = low;
        if (given[i] > high) given[i] = high;
    }
    return (struct jinja_range){given[0], given[1], step};
}

static struct mt_value slice_string(struct jinja_run *run, struct mt_value value,
                                    const struct mt_value bounds[3])
{
    struct jinja_builder out = {.run = run};
    struct mt_marked text = value.string;
    struct jinja_range range = slice_bounds(run, bounds, mt_jinja_characters(text));
    mt_jinja_spend(run, text.bytes / 32);
    size_t count = mt_jinja_range_count(&range);
    if (range.step == 1) {
        size_t start = mt_jinja_character_at(text, (size_t)range.start);
        struct mt_marked rest = marked_part(text, start, text.bytes);
        return mt_jinja_safe_like(value, marked_part(rest, 0, mt_jinja_character_at(rest, count)));
    }
    const struct jinja_list *characters = mt_jinja_walk(run, marked_value(text));
    for (size_t i = 0; i < count && !mt_jinja_failed(run); i++)
        mt_jinja_put(&out, characters->items[range.start + (int64_t)i * range.step].string);
    return mt_jinja_safe_like(value, mt_jinja_built(&out));
}

struct mt_value mt_jinja_slice(struct jinja_run *run, struct mt_value value, const struct mt_value bounds[3])
{
    if (value.kind == JINJA_UNDEFINED) return mt_jinja_fail_undefined(run, value);
    if (value.kind == JINJA_STRING) return slice_string(run, value, bounds);
    if (value.kind == JINJA_LIST || value.kind == JINJA_TUPLE) {
        const struct jinja_list *list = value.object;
        struct jinja_range part = slice_bounds(run, bounds, list->count);
        size_t count = mt_jinja_range_count(&part);
        struct jinja_list *made = mt_jinja_list_new(run, count);
        for (size_t i = 0; i < count && !mt_jinja_failed(run); i++)
            mt_jinja_list_add(run, made, list->items[part.start + (int64_t)i * part.step]);
        return mt_jinja_object(value.kind, made);
    }
    if (value.kind == JINJA_RANGE) {
        const struct jinja_range *range = value.object;
        struct jinja_range part = slice_bounds(run, bounds, mt_jinja_range_count(range));
        struct jinja_range made = {range->start + part.start * range->step,
                                   range->start + part.stop * range->step, range->step * part.step};
        return mt_jinja_kept(run, JINJA_RANGE, &made, sizeof made);
    }
    return mt_jinja_fail(run, MT_ERR_FORMAT, "'%s' object cannot be sliced", mt_jinja_type_name(value));
}

// ------------------------------------------------------------------ attributes

/* The neighbour of the loop's item at a place, which may be outside. */
static struct mt_value loop_item(const struct jinja_loop *loop, int64_t place, const char *name)
{
    bool there = place >= 0 && place < (int64_t)loop->items.count;
    return there ? loop->items.items[place] : mt_jinja_undefined(marked_of(name));
}

static bool loop_attribute(const struct jinja_loop *loop, struct mt_marked name, struct mt_value *result)
{
    int64_t index = (int64_t)loop->index;
    int64_t count = (int64_t)loop->items.count;
    const struct {
        const char *name;
        struct mt_value value;
    } attributes[] = {
        {"index", mt_jinja_integer(index + 1)},
        {"index0", mt_jinja_integer(index)},
        {"first", mt_jinja_bool(index == 0)},
        {"last", mt_jinja_bool(index + 1 == count)},
        {"length", mt_jinja_integer(count)},
        {"revindex", mt_jinja_integer(count - index)},
        {"revindex0", mt_jinja_integer(count - index - 1)},
        {"depth", mt_jinja_integer(loop->depth + 1)},
        {"depth0", mt_jinja_integer(loop->depth)},
        {"previtem", loop_item(loop, index - 1, "loop.previtem")},
        {"nextitem", loop_item(loop, index + 1, "loop.nextitem")},
    };
    for (size_t i = 0; i < sizeof attributes / sizeof attributes[0]; i++) {
        if (!marked_is(name, attributes[i].name)) continue;
        *result = attributes[i].value;
        return true;
    }
    return false;
}

static bool macro_attribute(struct jinja_run *run, const struct jinja_node *macro, struct mt_marked name,
                            struct mt_value *result)
{
    if (marked_is(name, "name")) {
        *result = macro->kind == JINJA_MACRO_DEF ? marked_value(macro->text) : mt_jinja_none();
    } else if (marked_is(name, "arguments")) {
        struct jinja_list *names = mt_jinja_list_new(run, macro->count);
        for (size_t i = 0; i < macro->count; i++)
            mt_jinja_list_add(run, names, marked_value(macro->items[i]->text));
        *result = mt_jinja_object(JINJA_TUPLE, names);
    } else if (marked_is(name, "catch_kwargs")) {
        *result = mt_jinja_bool(macro->wants_kwargs);
    } else if (marked_is(name, "catch_varargs")) {
        *result = mt_jinja_bool(macro->wants_varargs);
    } else if (marked_is(name, "caller")) {
        *result = mt_jinja_bool(macro->wants_caller);
    } else {
        return false;
    }
    return true;
}

/* What a template may not change: to jinja2's sandbox these methods are undefined. */
static bool is_forbidden(struct mt_value value, struct mt_marked name)
{
    static const char *const of_lists[] = {"append", "clear",  "pop",    "reverse", "insert",
                                           "sort",   "extend", "remove", NULL};
    static const char *const of_dicts[] = {"clear", "pop", "popitem", "setdefault", "update", NULL};
    if (value.kind != JINJA_LIST && value.kind != JINJA_DICT) return false;
    const char *const *names = value.kind == JINJA_LIST ? of_lists : of_dicts;
    while (*names != NULL && !marked_is(name, *names)) names++;
    return *names != NULL;
}

/* getattr(value, name), without the keys of dictionaries; false: it has none of that name. */
static bool own_attribute(struct jinja_run *run, struct mt_value value, struct mt_marked name,
                          struct mt_value *result)
{
    bool private = name.bytes > 0 && name.text[0] == '_' && value.kind != JINJA_DICT;
    *result = mt_jinja_undefined(name);
    if (private) return value.kind != JINJA_NAMESPACE; // undefined, whatever it is
    if (is_forbidden(value, name)) return true;
    if (value.kind == JINJA_NAMESPACE) {
        const struct mt_value *member = mt_jinja_dict_find(run, value.object, marked_value(name));
        if (member != NULL) *result = *member;
        return member != NULL;
    }
    if (value.kind == JINJA_LOOP && loop_attribute(value.object, name, result)) return true;
    if (value.kind == JINJA_MACRO)
        return macro_attribute(run, ((const struct jinja_macro *)value.object)->node, name, result);
    if (value.kind == JINJA_CYCLER && marked_is(name, "current")) {
        const struct jinja_cycler *cycler = value.object;
        *result = cycler->items.items[cycler->position];
        return true;
    }
    const struct jinja_method method = {value, mt_jinja_find_method(value.kind, name)};
    if (method.function == NULL) return false;
    *result = mt_jinja_kept(run, JINJA_METHOD, &method, sizeof method);
    return true;
}

struct mt_value mt_jinja_attribute(struct jinja_run *run, struct mt_value value, struct mt_marked name)
{
    struct mt_value result = mt_jinja_none();
    if (value.kind == JINJA_UNDEFINED) return mt_jinja_fail_undefined(run, value);
    if (own_attribute(run, value, name, &result)) return result;
    if (subscript(run, value, marked_value(name), &result)) return result;
    return mt_jinja_undefined(name);
}

struct mt_value mt_jinja_item(struct jinja_run *run, struct mt_value value, struct mt_value index)
{
    struct mt_value result = mt_jinja_none();
    if (value.kind == JINJA_UNDEFINED) return mt_jinja_fail_undefined(run, value);
    if (subscript(run, value, index, &result)) return result;
    if (index.kind == JINJA_STRING && own_attribute(run, value, index.string, &result)) return result;
    bool named = index.kind == JINJA_STRING || mt_jinja_is_number(index);
    return mt_jinja_undefined(named ? mt_jinja_to_text(run, index) : marked_of("item"));
}

/* One step of a path: a number where it is one. */
static struct mt_value path_step(struct jinja_run *run, struct mt_value value, struct mt_marked step)
{
    bool number = step.bytes > 0;
    int64_t index = 0;
    for (size_t i = 0; i < step.bytes; i++) number = number && step.text[i] >= '0' && step.text[i] <= '9';
    if (number) (void)mt_jinja_read_integer(run, step, 10, &index);
    return mt_jinja_item(run, value, number ? mt_jinja_integer(index) : marked_value(step));
}

struct mt_value mt_jinja_path(struct jinja_run *run, struct mt_value value, struct mt_value path,
                              struct mt_value fallback)
{
    bool text = path.kind == JINJA_STRING;
    size_t bytes = text ? path.string.bytes : 0;
    if (!mt_jinja_given(path)) return value;
    for (size_t start = 0, end = 0; start <= bytes && !mt_jinja_failed(run); start = end + 1) {
        end = text ? mt_jinja_find_text(path.string, marked_of("."), start) : bytes;
        if (end == SIZE_MAX) end = bytes;
        value = text ? path_step(run, value, marked_part(path.string, start, end))
                     : mt_jinja_item(run, value, path);
        if (value.kind == JINJA_UNDEFINED && mt_jinja_given(fallback)) value = fallback;
    }
    return value;
}
