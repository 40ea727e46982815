/* Attributes, items, slices, lengths, and walking through values. */
#include "formats/text/utf8.h"
#include "text/jinja/run.h"

size_t jinja_characters(struct mt_marked text)
{
    size_t count = 0;
    for (size_t i = 0; i < text.bytes; i++) count += ((unsigned char)text.text[i] & 0xC0) != 0x80;
    return count;
}

size_t jinja_character_at(struct mt_marked text, size_t index)
{
    size_t at = 0;
    while (at < text.bytes && index > 0) {
        at += mt_utf8_length((uint8_t)text.text[at]);
        index--;
    }
    return at;
}

size_t jinja_range_count(const struct jinja_range *range)
{
    // The bounds fit 2^53 (functions.c), so the difference fits.
    int64_t span = range->step > 0 ? range->stop - range->start : range->start - range->stop;
    int64_t step = range->step > 0 ? range->step : -range->step;
    return span <= 0 ? 0 : (size_t)((span - 1) / step + 1);
}

enum mt_status jinja_length(struct jinja_run *run, struct mt_value value, bool *has, int64_t *length)
{
    *has = true;
    switch (value.kind) {
    case JINJA_UNDEFINED: *length = 0; return MT_OK;
    case JINJA_STRING:
        *length = (int64_t)jinja_characters(value.string);
        return jinja_spend(run, value.string.bytes / 64);
    case JINJA_LIST:
    case JINJA_TUPLE: *length = (int64_t)((const struct jinja_list *)value.object)->count; return MT_OK;
    case JINJA_DICT: *length = (int64_t)((const struct jinja_dict *)value.object)->count; return MT_OK;
    case JINJA_VIEW: *length = (int64_t)((const struct jinja_view *)value.object)->list.count; return MT_OK;
    case JINJA_RANGE: *length = (int64_t)jinja_range_count(value.object); return MT_OK;
    case JINJA_LOOP: *length = (int64_t)((const struct jinja_loop *)value.object)->items.count; return MT_OK;
    default: *has = false; return MT_OK;
    }
}

// ------------------------------------------------------------------ walking

bool jinja_can_walk(struct mt_value value)
{
    switch (value.kind) {
    case JINJA_UNDEFINED:
    case JINJA_STRING:
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_DICT:
    case JINJA_VIEW:
    case JINJA_RANGE:
    case JINJA_ITERATOR: return true;
    default: return false;
    }
}

static enum mt_status walk_string(struct jinja_run *run, struct mt_marked text, struct jinja_list *list)
{
    enum mt_status status = MT_OK;
    for (size_t at = 0; status == MT_OK && at < text.bytes;) {
        size_t next = at + mt_utf8_length((uint8_t)text.text[at]);
        status = jinja_list_add(run, list, marked_value(marked_part(text, at, next)));
        at = next;
    }
    return status;
}

static enum mt_status walk_iterator(struct jinja_run *run, struct jinja_iterator *iterator,
                                    struct jinja_list *list)
{
    enum mt_status status = MT_OK;
    for (; status == MT_OK && iterator->next < iterator->list.count; iterator->next++)
        status = jinja_list_add(run, list, iterator->list.items[iterator->next]);
    if (status == MT_OK && iterator->failure != MT_OK)
        return mt_fail(run->ctx, iterator->failure, "%s", iterator->message);
    return status;
}

static enum mt_status walk_range(struct jinja_run *run, const struct jinja_range *range,
                                 struct jinja_list *list)
{
    enum mt_status status = MT_OK;
    size_t count = jinja_range_count(range);
    for (size_t i = 0; status == MT_OK && i < count; i++)
        status = jinja_list_add(run, list, mt_jinja_integer(range->start + (int64_t)i * range->step));
    return status;
}

enum mt_status jinja_walk(struct jinja_run *run, struct mt_value value, struct jinja_list **list)
{
    *list = NULL;
    if (value.kind == JINJA_LIST || value.kind == JINJA_TUPLE) {
        *list = value.object;
        return MT_OK;
    }
    if (value.kind == JINJA_VIEW) {
        *list = &((struct jinja_view *)value.object)->list;
        return MT_OK;
    }
    if (!jinja_can_walk(value))
        return jinja_fail(run, MT_ERR_FORMAT, "'%s' object is not iterable", jinja_type_name(value));
    enum mt_status status = jinja_list_new(run, 0, list);
    if (status != MT_OK || value.kind == JINJA_UNDEFINED) return status;
    if (value.kind == JINJA_STRING) return walk_string(run, value.string, *list);
    if (value.kind == JINJA_ITERATOR) return walk_iterator(run, value.object, *list);
    if (value.kind == JINJA_RANGE) return walk_range(run, value.object, *list);
    const struct jinja_dict *dict = value.object;
    for (size_t i = 0; status == MT_OK && i < dict->count; i++)
        status = jinja_list_add(run, *list, dict->pairs[i].key);
    return status;
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

/* value[index]; *found: false where Python raises TypeError or LookupError. */
static enum mt_status subscript(struct jinja_run *run, struct mt_value value, struct mt_value index,
                                bool *found, struct mt_value *result)
{
    int64_t number = 0;
    size_t place = 0;
    *found = false;
    if (value.kind == JINJA_DICT) {
        struct mt_value *item = NULL;
        if (index.kind == JINJA_LIST || index.kind == JINJA_DICT) return MT_OK;
        enum mt_status status = jinja_dict_find(run, value.object, index, &item);
        *found = item != NULL;
        if (*found) *result = *item;
        return status;
    }
    if (!jinja_as_integer(index, &number)) return MT_OK;
    if (value.kind == JINJA_LIST || value.kind == JINJA_TUPLE) {
        const struct jinja_list *list = value.object;
        *found = place_of(number, list->count, &place);
        if (*found) *result = list->items[place];
    } else if (value.kind == JINJA_RANGE) {
        const struct jinja_range *range = value.object;
        *found = place_of(number, jinja_range_count(range), &place);
        if (*found) *result = mt_jinja_integer(range->start + (int64_t)place * range->step);
    } else if (value.kind == JINJA_STRING) {
        *found = place_of(number, jinja_characters(value.string), &place);
        if (!*found) return MT_OK;
        size_t start = jinja_character_at(value.string, place);
        size_t end = start + mt_utf8_length((uint8_t)value.string.text[start]);
        *result = marked_value(marked_part(value.string, start, end));
        result->safe = value.safe;
        return jinja_spend(run, value.string.bytes / 64);
    }
    return MT_OK;
}

/* Where a slice of `count` things starts and stops, as Python's slice.indices. */
static enum mt_status slice_bounds(struct jinja_run *run, const struct mt_value bounds[3], size_t count,
                                   struct jinja_range *range)
{
    int64_t given[3] = {0, 0, 1};
    bool there[3] = {false, false, false};
    int64_t length = (int64_t)count;
    for (int i = 0; i < 3; i++) {
        if (bounds[i].kind == JINJA_ABSENT || bounds[i].kind == JINJA_NONE) continue;
        there[i] = true;
        if (!jinja_as_integer(bounds[i], &given[i]))
            return jinja_fail(run, MT_ERR_FORMAT, "slice indices must be integers or None");
    }
    int64_t step = given[2];
    if (step == 0) return jinja_fail(run, MT_ERR_FORMAT, "slice step cannot be zero");
    if (step > length) step = length + 1; // further is as far, and cannot overflow
    if (step < -length) step = -length - 1;
    int64_t low = step < 0 ? -1 : 0;
    int64_t high = step < 0 ? length - 1 : length;
    for (int i = 0; i < 2; i++) {
        if (!there[i])
            given[i] = (step < 0) == (i == 0) ? high : low;
        else if (given[i] < 0)
            given[i] = given[i] < -length ? low : given[i] + length;
        if (given[i] < low) given[i] = low;
        if (given[i] > high) given[i] = high;
    }
    *range = (struct jinja_range){given[0], given[1], step};
    return MT_OK;
}

static enum mt_status slice_string(struct jinja_run *run, struct mt_marked text,
                                   const struct mt_value bounds[3], struct mt_value *result)
{
    struct jinja_range range;
    struct jinja_builder builder = {0};
    enum mt_status status = slice_bounds(run, bounds, jinja_characters(text), &range);
    if (status == MT_OK) status = jinja_spend(run, text.bytes / 32);
    if (status != MT_OK) return status;
    size_t count = jinja_range_count(&range);
    if (range.step == 1) {
        size_t start = jinja_character_at(text, (size_t)range.start);
        struct mt_marked rest = marked_part(text, start, text.bytes);
        *result = marked_value(marked_part(rest, 0, jinja_character_at(rest, count)));
        return MT_OK;
    }
    struct jinja_list *characters = NULL;
    status = jinja_walk(run, marked_value(text), &characters);
    for (size_t i = 0; status == MT_OK && i < count; i++) {
        size_t place = (size_t)(range.start + (int64_t)i * range.step);
        status = jinja_put(run, &builder, characters->items[place].string);
    }
    *result = marked_value(jinja_built(&builder));
    return status;
}

static enum mt_status slice_list(struct jinja_run *run, struct mt_value value,
                                 const struct mt_value bounds[3], struct mt_value *result)
{
    const struct jinja_list *list = value.object;
    struct jinja_list *made = NULL;
    struct jinja_range range;
    enum mt_status status = slice_bounds(run, bounds, list->count, &range);
    if (status != MT_OK) return status;
    size_t count = jinja_range_count(&range);
    status = jinja_list_new(run, count, &made);
    for (size_t i = 0; status == MT_OK && i < count; i++)
        status = jinja_list_add(run, made, list->items[range.start + (int64_t)i * range.step]);
    *result = jinja_object(value.kind, made);
    return status;
}

enum mt_status jinja_slice(struct jinja_run *run, struct mt_value value, const struct mt_value bounds[3],
                           struct mt_value *result)
{
    if (value.kind == JINJA_UNDEFINED) return jinja_fail_undefined(run, value);
    if (value.kind == JINJA_STRING) {
        enum mt_status status = slice_string(run, value.string, bounds, result);
        result->safe = value.safe;
        return status;
    }
    if (value.kind == JINJA_LIST || value.kind == JINJA_TUPLE) return slice_list(run, value, bounds, result);
    if (value.kind == JINJA_RANGE) {
        const struct jinja_range *range = value.object;
        struct jinja_range part;
        void *memory = NULL;
        enum mt_status status = slice_bounds(run, bounds, jinja_range_count(range), &part);
        if (status == MT_OK) status = jinja_allocate(run, sizeof part, &memory);
        if (status != MT_OK) return status;
        *(struct jinja_range *)memory =
            (struct jinja_range){range->start + part.start * range->step,
                                 range->start + part.stop * range->step, range->step * part.step};
        *result = jinja_object(JINJA_RANGE, memory);
        return MT_OK;
    }
    return jinja_fail(run, MT_ERR_FORMAT, "'%s' object cannot be sliced", jinja_type_name(value));
}

// ------------------------------------------------------------------ attributes

static enum mt_status loop_attribute(const struct jinja_loop *loop, struct mt_marked name, bool *found,
                                     struct mt_value *result)
{
    int64_t index = (int64_t)loop->index;
    int64_t count = (int64_t)loop->items.count;
    *found = true;
    if (marked_is(name, "index"))
        *result = mt_jinja_integer(index + 1);
    else if (marked_is(name, "index0"))
        *result = mt_jinja_integer(index);
    else if (marked_is(name, "first"))
        *result = mt_jinja_bool(index == 0);
    else if (marked_is(name, "last"))
        *result = mt_jinja_bool(index + 1 == count);
    else if (marked_is(name, "length"))
        *result = mt_jinja_integer(count);
    else if (marked_is(name, "revindex"))
        *result = mt_jinja_integer(count - index);
    else if (marked_is(name, "revindex0"))
        *result = mt_jinja_integer(count - index - 1);
    else if (marked_is(name, "depth"))
        *result = mt_jinja_integer(loop->depth + 1);
    else if (marked_is(name, "depth0"))
        *result = mt_jinja_integer(loop->depth);
    else if (marked_is(name, "previtem")) {
        *result = index > 0 ? loop->items.items[index - 1] : jinja_undefined(marked_of("loop.previtem"));
    } else if (marked_is(name, "nextitem")) {
        *result =
            index + 1 < count ? loop->items.items[index + 1] : jinja_undefined(marked_of("loop.nextitem"));
    } else {
        *found = false;
    }
    return MT_OK;
}

static enum mt_status macro_attribute(struct jinja_run *run, const struct jinja_macro *macro,
                                      struct mt_marked name, bool *found, struct mt_value *result)
{
    struct jinja_list *names = NULL;
    *found = true;
    if (marked_is(name, "name")) {
        bool named = macro->node->kind == JINJA_MACRO_DEF;
        *result = named ? marked_value(macro->node->text) : mt_jinja_none();
        return MT_OK;
    }
    if (marked_is(name, "arguments")) {
        enum mt_status status = jinja_list_new(run, macro->node->count, &names);
        for (size_t i = 0; status == MT_OK && i < macro->node->count; i++)
            status = jinja_list_add(run, names, marked_value(macro->node->items[i]->text));
        *result = jinja_object(JINJA_TUPLE, names);
        return status;
    }
    if (marked_is(name, "catch_kwargs"))
        *result = mt_jinja_bool(macro->node->wants_kwargs);
    else if (marked_is(name, "catch_varargs"))
        *result = mt_jinja_bool(macro->node->wants_varargs);
    else if (marked_is(name, "caller"))
        *result = mt_jinja_bool(macro->node->wants_caller);
    else
        *found = false;
    return MT_OK;
}

/* What a template may not change: to jinja2's sandbox these methods are undefined. */
static bool is_forbidden(struct mt_value value, struct mt_marked name)
{
    static const char *const of_lists[] = {"append", "clear", "pop",    "reverse",
                                           "insert", "sort",  "extend", "remove"};
    static const char *const of_dicts[] = {"clear", "pop", "popitem", "setdefault", "update"};
    bool list = value.kind == JINJA_LIST;
    if (!list && value.kind != JINJA_DICT) return false;
    size_t count = list ? sizeof of_lists / sizeof of_lists[0] : sizeof of_dicts / sizeof of_dicts[0];
    for (size_t i = 0; i < count; i++) {
        if (marked_is(name, list ? of_lists[i] : of_dicts[i])) return true;
    }
    return false;
}

/* getattr(value, name), without the keys of dictionaries. */
static enum mt_status own_attribute(struct jinja_run *run, struct mt_value value, struct mt_marked name,
                                    bool *found, struct mt_value *result)
{
    *found = false;
    if (name.bytes > 0 && name.text[0] == '_' && value.kind != JINJA_DICT) {
        *found = value.kind != JINJA_NAMESPACE; // private: undefined, whatever it is
        *result = jinja_undefined(name);
        return MT_OK;
    }
    if (is_forbidden(value, name)) {
        *found = true;
        *result = jinja_undefined(name);
        return MT_OK;
    }
    if (value.kind == JINJA_NAMESPACE) {
        struct mt_value *member = NULL;
        enum mt_status status = jinja_dict_find(run, value.object, marked_value(name), &member);
        *found = member != NULL;
        if (*found) *result = *member;
        return status;
    }
    enum mt_status status = MT_OK;
    if (value.kind == JINJA_LOOP) status = loop_attribute(value.object, name, found, result);
    if (value.kind == JINJA_MACRO) status = macro_attribute(run, value.object, name, found, result);
    if (value.kind == JINJA_CYCLER && marked_is(name, "current")) {
        const struct jinja_cycler *cycler = value.object;
        *found = true;
        *result = cycler->items.items[cycler->position];
    }
    const struct jinja_function *method = *found ? NULL : jinja_find_method(value.kind, name);
    if (status != MT_OK || method == NULL) return status;
    void *memory = NULL;
    status = jinja_allocate(run, sizeof(struct jinja_method), &memory);
    if (status != MT_OK) return status;
    *(struct jinja_method *)memory = (struct jinja_method){value, method};
    *result = jinja_object(JINJA_METHOD, memory);
    *found = true;
    return MT_OK;
}

enum mt_status jinja_attribute(struct jinja_run *run, struct mt_value value, struct mt_marked name,
                               struct mt_value *result)
{
    bool found = false;
    if (value.kind == JINJA_UNDEFINED) return jinja_fail_undefined(run, value);
    enum mt_status status = own_attribute(run, value, name, &found, result);
    if (status == MT_OK && !found) status = subscript(run, value, marked_value(name), &found, result);
    if (status == MT_OK && !found) *result = jinja_undefined(name);
    return status;
}

enum mt_status jinja_item(struct jinja_run *run, struct mt_value value, struct mt_value index,
                          struct mt_value *result)
{
    bool found = false;
    if (value.kind == JINJA_UNDEFINED) return jinja_fail_undefined(run, value);
    enum mt_status status = subscript(run, value, index, &found, result);
    if (status == MT_OK && !found && index.kind == JINJA_STRING)
        status = own_attribute(run, value, index.string, &found, result);
    if (status != MT_OK || found) return status;
    struct mt_marked name = marked_of("item");
    if (index.kind == JINJA_STRING || jinja_is_number(index)) status = jinja_to_text(run, index, &name);
    *result = jinja_undefined(name);
    return status;
}
