/* Filters on lists and dictionaries. Those that are generators in jinja2 give iterators, walked once. */
#include "text/jinja/library/library.h"

static const struct mt_value nothing = {.kind = JINJA_ABSENT};

// ------------------------------------------------------------------ length, first, last, list

static struct mt_value length(const struct jinja_call *call)
{
    int64_t count = 0;
    if (!mt_jinja_length(call->run, call->subject, &count))
        return mt_jinja_fail(call->run, MT_ERR_FORMAT, "object of type '%s' has no len()",
                             mt_jinja_type_name(call->subject));
    return mt_jinja_integer(count);
}

static struct mt_value first(const struct jinja_call *call)
{
    if (call->subject.kind == JINJA_ITERATOR) {
        struct jinja_iterator *iterator = call->subject.object; // takes one and leaves the rest
        if (iterator->next < iterator->list.count) return iterator->list.items[iterator->next++];
        if (iterator->failure != MT_OK) return mt_jinja_iterator_failure(call->run, iterator);
        return mt_jinja_undefined(marked_of("first of nothing"));
    }
    const struct jinja_list *list = mt_jinja_walk(call->run, call->subject);
    return list->count > 0 ? list->items[0] : mt_jinja_undefined(marked_of("first of nothing"));
}

static struct mt_value last(const struct jinja_call *call)
{
    if (call->subject.kind == JINJA_ITERATOR)
        return mt_jinja_fail(call->run, MT_ERR_FORMAT, "'generator' object is not reversible");
    const struct jinja_list *list = mt_jinja_walk(call->run, call->subject);
    return list->count > 0 ? list->items[list->count - 1] : mt_jinja_undefined(marked_of("last of nothing"));
}

static struct mt_value list(const struct jinja_call *call)
{
    const struct jinja_list *source = mt_jinja_walk(call->run, call->subject);
    struct jinja_list *copy = mt_jinja_list_new(call->run, source->count);
    mt_jinja_list_add_all(call->run, copy, source->items, source->count);
    return mt_jinja_object(JINJA_LIST, copy);
}

static struct mt_value reverse(const struct jinja_call *call)
{
    struct jinja_builder out = {.run = call->run};
    const struct jinja_list *source = mt_jinja_walk(call->run, call->subject);
    struct jinja_list *made = mt_jinja_list_new(call->run, source->count);
    for (size_t i = source->count; i > 0 && !mt_jinja_failed(call->run); i--)
        mt_jinja_list_add(call->run, made, source->items[i - 1]);
    if (mt_jinja_failed(call->run)) return mt_jinja_none();
    // Of a generator jinja2 makes a list, of everything else but text an iterator.
    if (call->subject.kind == JINJA_ITERATOR) return mt_jinja_object(JINJA_LIST, made);
    if (call->subject.kind != JINJA_STRING) return mt_jinja_iterator_new(call->run, made);
    for (size_t i = 0; i < made->count; i++) mt_jinja_put(&out, made->items[i].string);
    return mt_jinja_built_value(&out);
}

static struct mt_value pair_of(struct jinja_run *run, const struct jinja_pair *pair)
{
    const struct mt_value both[2] = {pair->key, pair->value};
    return mt_jinja_tuple(run, both, 2);
}

static struct mt_value items(const struct jinja_call *call)
{
    bool mapping = call->subject.kind == JINJA_DICT;
    if (!mapping && call->subject.kind != JINJA_UNDEFINED)
        return mt_jinja_fail(call->run, MT_ERR_FORMAT, "Can only get item pairs from a mapping.");
    struct jinja_list *made = mt_jinja_list_new(call->run, 0);
    const struct jinja_dict *dict = mapping ? call->subject.object : &call->run->no_dict;
    for (size_t i = 0; i < dict->count && !mt_jinja_failed(call->run); i++) {
        struct mt_value pair = pair_of(call->run, &dict->pairs[i]);
        mt_jinja_list_add(call->run, made, pair);
    }
    return mt_jinja_object(JINJA_LIST, made);
}

// ------------------------------------------------------------------ map, select

/* What map, select and the like walk: nothing where the value is false, even if it cannot be walked. */
static struct jinja_list *walk_if_true(const struct jinja_call *call)
{
    return mt_jinja_truth(call->run, call->subject) ? mt_jinja_walk(call->run, call->subject)
                                                    : &call->run->no_list;
}

/* The arguments from `from` on. */
static struct jinja_arguments rest_of(const struct jinja_arguments *arguments, size_t from)
{
    struct jinja_arguments rest = *arguments;
    if (from > 0) rest.items += from; // without arguments there are no items to point into
    rest.count -= from;
    return rest;
}

/* map(attribute=..., default=...). */
static struct mt_value map_attribute(const struct jinja_call *call)
{
    const struct jinja_list *source = mt_jinja_walk(call->run, call->subject);
    struct jinja_list *made = mt_jinja_list_new(call->run, source->count);
    for (size_t i = 0; i < source->count && !mt_jinja_failed(call->run); i++) {
        struct mt_value item = mt_jinja_path(call->run, source->items[i], call->bound[0], call->bound[1]);
        mt_jinja_list_add(call->run, made, item);
    }
    return mt_jinja_object(JINJA_LIST, made);
}

static const struct jinja_function by_attribute = {"map", map_attribute,
                                                   .parameters = {"attribute", "default"}, .required = 1};

static struct mt_value map(const struct jinja_call *call)
{
    struct jinja_run *run = call->run;
    struct jinja_list *source = walk_if_true(call);
    struct jinja_list *made = mt_jinja_list_new(run, source->count);
    if (source->count == 0) return mt_jinja_object(JINJA_LIST, made);
    if (call->arguments->count == 0 && call->arguments->keyword_count > 0)
        return mt_jinja_call_function(run, "filter", &by_attribute, mt_jinja_object(JINJA_LIST, source),
                                      call->arguments);
    if (call->arguments->count == 0)
        return mt_jinja_fail(run, MT_ERR_FORMAT, "map requires a filter argument");
    struct mt_marked name = mt_jinja_need_text(run, "map", call->arguments->items[0]);
    struct jinja_arguments rest = rest_of(call->arguments, 1);
    for (size_t i = 0; i < source->count && !mt_jinja_failed(run); i++) {
        struct mt_value item = mt_jinja_call_filter(run, name, source->items[i], &rest);
        mt_jinja_list_add(run, made, item);
    }
    return mt_jinja_object(JINJA_LIST, made);
}

enum { REJECT = 0, SELECT = 1, BY_ATTRIBUTE = 2 };

/* select, reject, selectattr, rejectattr: items of which a test, or their truth, is wanted. */
static struct mt_value choose(const struct jinja_call *call)
{
    struct jinja_run *run = call->run;
    const struct jinja_arguments *arguments = call->arguments;
    bool attribute = (call->function->variant & BY_ATTRIBUTE) != 0;
    bool wanted = (call->function->variant & SELECT) != 0;
    size_t offset = attribute ? 1 : 0;
    struct mt_marked name = marked_of("");
    struct jinja_list *source = walk_if_true(call);
    struct jinja_list *made = mt_jinja_list_new(run, 0);
    if (source->count == 0) return mt_jinja_object(JINJA_LIST, made);
    if (arguments->count < offset)
        return mt_jinja_fail(run, MT_ERR_FORMAT, "Missing parameter for attribute name");
    bool tested = arguments->count > offset;
    if (tested) name = mt_jinja_need_text(run, "select", arguments->items[offset]);
    struct jinja_arguments rest = rest_of(arguments, tested ? offset + 1 : offset);
    for (size_t i = 0; i < source->count && !mt_jinja_failed(run); i++) {
        struct mt_value item = source->items[i];
        if (attribute) item = mt_jinja_path(run, item, arguments->items[0], nothing);
        if (mt_jinja_failed(run)) break;
        bool holds = tested ? mt_jinja_call_test(run, name, item, &rest) : mt_jinja_truth(run, item);
        if (holds == wanted) mt_jinja_list_add(run, made, source->items[i]);
    }
    return mt_jinja_object(JINJA_LIST, made);
}

// ------------------------------------------------------------------ by keys

/* The value at a path as a key for sorting and grouping: text in lower case unless case counts. */
static struct mt_value key_of(struct jinja_run *run, struct mt_value item, struct mt_value path,
                              bool case_sensitive)
{
    struct mt_value key = mt_jinja_path(run, item, path, nothing);
    if (!case_sensitive && key.kind == JINJA_STRING)
        key.string = mt_jinja_change_case(run, key.string, JINJA_LOWER, JINJA_LOWER);
    return key;
}

/* The key of an item: of one path, or of several with commas between them a list. */
static struct mt_value sort_key(struct jinja_run *run, struct mt_value item, struct mt_value path,
                                bool case_sensitive)
{
    struct jinja_list *parts = mt_jinja_list_new(run, 1);
    bool text = path.kind == JINJA_STRING;
    size_t bytes = text ? path.string.bytes : 0;
    for (size_t start = 0, end = 0; start <= bytes && !mt_jinja_failed(run); start = end + 1) {
        end = text ? mt_jinja_find_text(path.string, marked_of(","), start) : bytes;
        if (end == SIZE_MAX) end = bytes;
        struct mt_value part = text ? marked_value(marked_part(path.string, start, end)) : path;
        struct mt_value value = key_of(run, item, part, case_sensitive);
        mt_jinja_list_add(run, parts, value);
    }
    return mt_jinja_object(JINJA_LIST, parts);
}

/* The values of pairs, in the order of their keys. */
static struct mt_value sorted_values(struct jinja_run *run, const struct jinja_pair *pairs, size_t count,
                                     bool backwards)
{
    if (mt_jinja_failed(run)) return mt_jinja_none();
    const struct jinja_pair *sorted = mt_jinja_sort(run, pairs, count, backwards);
    struct jinja_list *made = mt_jinja_list_new(run, count);
    for (size_t i = 0; i < count; i++) mt_jinja_list_add(run, made, sorted[i].value);
    return mt_jinja_object(JINJA_LIST, made);
}

static struct mt_value sort(const struct jinja_call *call)
{
    struct jinja_run *run = call->run;
    bool backwards = mt_jinja_truth_argument(call, 0);
    bool cased = mt_jinja_truth_argument(call, 1);
    const struct jinja_list *source = mt_jinja_walk(run, call->subject);
    struct jinja_pair *pairs = mt_jinja_allocate(run, source->count * sizeof *pairs);
    for (size_t i = 0; i < source->count && !mt_jinja_failed(run); i++) {
        pairs[i].value = source->items[i];
        pairs[i].key = sort_key(run, source->items[i], call->bound[2], cased);
    }
    return sorted_values(run, pairs, source->count, backwards);
}

static struct mt_value dictsort(const struct jinja_call *call)
{
    struct jinja_run *run = call->run;
    bool cased = mt_jinja_truth_argument(call, 0);
    bool backwards = mt_jinja_truth_argument(call, 2);
    struct mt_value by = call->bound[1];
    bool by_value = by.kind == JINJA_STRING && marked_is(by.string, "value");
    bool by_key = by.kind == JINJA_ABSENT || (by.kind == JINJA_STRING && marked_is(by.string, "key"));
    if (!by_value && !by_key)
        return mt_jinja_fail(run, MT_ERR_FORMAT, "You can only sort by either \"key\" or \"value\"");
    if (call->subject.kind == JINJA_UNDEFINED) return mt_jinja_fail_undefined(run, call->subject);
    if (call->subject.kind != JINJA_DICT)
        return mt_jinja_fail(run, MT_ERR_FORMAT, "dictsort needs a dictionary");
    const struct jinja_dict *dict = call->subject.object;
    struct jinja_pair *pairs = mt_jinja_allocate(run, dict->count * sizeof *pairs);
    for (size_t i = 0; i < dict->count && !mt_jinja_failed(run); i++) {
        pairs[i].key = key_of(run, by_value ? dict->pairs[i].value : dict->pairs[i].key, nothing, cased);
        pairs[i].value = pair_of(run, &dict->pairs[i]);
    }
    return sorted_values(run, pairs, dict->count, backwards);
}

static struct mt_value unique(const struct jinja_call *call)
{
    struct jinja_run *run = call->run;
    bool cased = mt_jinja_truth_argument(call, 0);
    const struct jinja_list *source = mt_jinja_walk(run, call->subject);
    struct jinja_list *made = mt_jinja_list_new(run, 0);
    struct jinja_dict *known = mt_jinja_dict_new(run);
    for (size_t i = 0; i < source->count && !mt_jinja_failed(run); i++) {
        size_t before = known->count;
        struct mt_value key = key_of(run, source->items[i], call->bound[1], cased);
        mt_jinja_dict_put(run, known, key, mt_jinja_none());
        if (known->count > before) mt_jinja_list_add(run, made, source->items[i]);
    }
    return mt_jinja_object(JINJA_LIST, made);
}

/* min and max: the first of the smallest or largest. */
static struct mt_value extreme(const struct jinja_call *call)
{
    struct jinja_run *run = call->run;
    int wanted = call->function->variant;
    bool cased = mt_jinja_truth_argument(call, 0);
    const struct jinja_list *source = mt_jinja_walk(run, call->subject);
    struct mt_value best = nothing;
    struct mt_value result = mt_jinja_undefined(marked_of("extreme of nothing"));
    for (size_t i = 0; i < source->count && !mt_jinja_failed(run); i++) {
        struct mt_value key = key_of(run, source->items[i], call->bound[1], cased);
        int order = i > 0 ? mt_jinja_order(run, key, best, wanted < 0 ? "<" : ">") : wanted;
        if (order != wanted) continue;
        best = key;
        result = source->items[i];
    }
    return result;
}

// ------------------------------------------------------------------ batches

static struct mt_value batch(const struct jinja_call *call)
{
    struct jinja_run *run = call->run;
    int64_t size = mt_jinja_integer_argument(call, 0, 0);
    const struct jinja_list *source = mt_jinja_walk(run, call->subject);
    struct jinja_list *made = mt_jinja_list_new(run, 0);
    struct jinja_list *line = NULL;
    for (size_t i = 0; i < source->count && !mt_jinja_failed(run); i++) {
        if (line == NULL || (int64_t)line->count == size) {
            line = mt_jinja_list_new(run, 0);
            mt_jinja_list_add(run, made, mt_jinja_object(JINJA_LIST, line));
        }
        mt_jinja_list_add(run, line, source->items[i]);
    }
    bool filled = line != NULL && mt_jinja_given(call->bound[1]);
    while (filled && (int64_t)line->count < size && !mt_jinja_failed(run))
        mt_jinja_list_add(run, line, call->bound[1]);
    return mt_jinja_object(JINJA_LIST, made);
}

const struct jinja_function mt_jinja_list_filters[] = {
    {.name = "length", .call = length},
    {.name = "count", .call = length},
    {.name = "first", .call = first},
    {.name = "last", .call = last},
    {.name = "list", .call = list},
    {.name = "reverse", .call = reverse},
    {"items", items, .generates = true},
    {"map", map, .required = JINJA_OWN_ARGUMENTS, .generates = true},
    {"select", choose, .required = JINJA_OWN_ARGUMENTS, .variant = SELECT, .generates = true},
    {"reject", choose, .required = JINJA_OWN_ARGUMENTS, .variant = REJECT, .generates = true},
    {"selectattr", choose, .required = JINJA_OWN_ARGUMENTS, .variant = SELECT | BY_ATTRIBUTE,
     .generates = true},
    {"rejectattr", choose, .required = JINJA_OWN_ARGUMENTS, .variant = REJECT | BY_ATTRIBUTE,
     .generates = true},
    {"sort", sort, .parameters = {"reverse", "case_sensitive", "attribute"}},
    {"dictsort", dictsort, .parameters = {"case_sensitive", "by", "reverse"}},
    {"unique", unique, .parameters = {"case_sensitive", "attribute"}, .generates = true},
    {"min", extreme, .parameters = {"case_sensitive", "attribute"}, .variant = -1},
    {"max", extreme, .parameters = {"case_sensitive", "attribute"}, .variant = 1},
    {"batch", batch, .parameters = {"linecount", "fill_with"}, .required = 1, .generates = true},
    {.name = "groupby"},
    {.name = "slice"},
    {.name = "random"},
    {0},
};
