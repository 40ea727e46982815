/* Filters on lists and dictionaries. Those that are generators in jinja2 give iterators, walked once. */
#include "text/jinja/library/library.h"

/* One step of a path: a number where it is one. */
static enum mt_status path_step(struct jinja_run *run, struct mt_value value, struct mt_marked step,
                                struct mt_value *result)
{
    bool number = step.bytes > 0;
    int64_t index = 0;
    for (size_t i = 0; i < step.bytes; i++) number = number && step.text[i] >= '0' && step.text[i] <= '9';
    if (!number) return jinja_item(run, value, marked_value(step), result);
    enum mt_status status = jinja_read_integer(run, step, 10, &number, &index);
    return status == MT_OK ? jinja_item(run, value, mt_jinja_integer(index), result) : status;
}

enum mt_status jinja_path(struct jinja_run *run, struct mt_value value, struct mt_value path,
                          struct mt_value *result)
{
    struct mt_value nothing = {.kind = JINJA_ABSENT};
    return jinja_path_or(run, value, path, nothing, result);
}

enum mt_status jinja_path_or(struct jinja_run *run, struct mt_value value, struct mt_value path,
                             struct mt_value fallback, struct mt_value *result)
{
    enum mt_status status = MT_OK;
    *result = value;
    if (!jinja_given(path)) return MT_OK;
    if (path.kind != JINJA_STRING) {
        status = jinja_item(run, value, path, result);
        if (status == MT_OK && result->kind == JINJA_UNDEFINED && jinja_given(fallback)) *result = fallback;
        return status;
    }
    for (size_t start = 0; status == MT_OK && start <= path.string.bytes;) {
        size_t end = jinja_find_text(path.string, marked_of("."), start);
        if (end == SIZE_MAX) end = path.string.bytes;
        status = path_step(run, *result, marked_part(path.string, start, end), result);
        if (status == MT_OK && result->kind == JINJA_UNDEFINED && jinja_given(fallback)) *result = fallback;
        start = end + 1;
    }
    return status;
}

static enum mt_status give_list(enum mt_status status, struct jinja_list *list, struct mt_value *result)
{
    *result = jinja_object(JINJA_LIST, list);
    return status;
}

static enum mt_status give_iterator(struct jinja_run *run, enum mt_status status,
                                    const struct jinja_list *list, struct mt_value *result)
{
    return jinja_iterator_new(run, status, list, result);
}

// ------------------------------------------------------------------ length, first, last, list

static enum mt_status length(struct jinja_run *run, struct mt_value subject,
                             const struct jinja_arguments *arguments, struct mt_value *result)
{
    bool has = false;
    int64_t count = 0;
    enum mt_status status = jinja_bind(run, "length", arguments, NULL, 0, 0, NULL);
    if (status == MT_OK) status = jinja_length(run, subject, &has, &count);
    if (status == MT_OK && !has)
        return jinja_fail(run, MT_ERR_FORMAT, "object of type '%s' has no len()", jinja_type_name(subject));
    *result = mt_jinja_integer(count);
    return status;
}

static enum mt_status first(struct jinja_run *run, struct mt_value subject,
                            const struct jinja_arguments *arguments, struct mt_value *result)
{
    struct jinja_list *list = NULL;
    enum mt_status status = jinja_bind(run, "first", arguments, NULL, 0, 0, NULL);
    *result = jinja_undefined(marked_of("first of nothing"));
    if (status == MT_OK && subject.kind == JINJA_ITERATOR) {
        struct jinja_iterator *iterator = subject.object; // takes one and leaves the rest
        if (iterator->next < iterator->list.count)
            *result = iterator->list.items[iterator->next++];
        else if (iterator->failure != MT_OK)
            return mt_fail(run->ctx, iterator->failure, "%s", iterator->message);
        return MT_OK;
    }
    if (status == MT_OK) status = jinja_walk(run, subject, &list);
    if (status == MT_OK && list->count > 0) *result = list->items[0];
    return status;
}

static enum mt_status last(struct jinja_run *run, struct mt_value subject,
                           const struct jinja_arguments *arguments, struct mt_value *result)
{
    struct jinja_list *list = NULL;
    enum mt_status status = jinja_bind(run, "last", arguments, NULL, 0, 0, NULL);
    *result = jinja_undefined(marked_of("last of nothing"));
    if (status == MT_OK && subject.kind == JINJA_ITERATOR)
        return jinja_fail(run, MT_ERR_FORMAT, "'generator' object is not reversible");
    if (status == MT_OK) status = jinja_walk(run, subject, &list);
    if (status == MT_OK && list->count > 0) *result = list->items[list->count - 1];
    return status;
}

static enum mt_status copy_list(struct jinja_run *run, struct mt_value subject, struct jinja_list **copy)
{
    struct jinja_list *list = NULL;
    enum mt_status status = jinja_walk(run, subject, &list);
    if (status == MT_OK) status = jinja_list_new(run, list->count, copy);
    for (size_t i = 0; status == MT_OK && i < list->count; i++)
        status = jinja_list_add(run, *copy, list->items[i]);
    return status;
}

static enum mt_status list(struct jinja_run *run, struct mt_value subject,
                           const struct jinja_arguments *arguments, struct mt_value *result)
{
    struct jinja_list *copy = NULL;
    enum mt_status status = jinja_bind(run, "list", arguments, NULL, 0, 0, NULL);
    if (status == MT_OK) status = copy_list(run, subject, &copy);
    return give_list(status, copy, result);
}

static enum mt_status reverse(struct jinja_run *run, struct mt_value subject,
                              const struct jinja_arguments *arguments, struct mt_value *result)
{
    struct jinja_list *copy = NULL;
    struct jinja_builder builder = {0};
    enum mt_status status = jinja_bind(run, "reverse", arguments, NULL, 0, 0, NULL);
    if (status == MT_OK) status = copy_list(run, subject, &copy);
    if (status != MT_OK) return status;
    for (size_t i = 0; i < copy->count / 2; i++) {
        struct mt_value swapped = copy->items[i];
        copy->items[i] = copy->items[copy->count - 1 - i];
        copy->items[copy->count - 1 - i] = swapped;
    }
    if (subject.kind != JINJA_STRING) {
        // Of a generator jinja2 makes a list, of everything else an iterator.
        if (subject.kind == JINJA_ITERATOR) return give_list(status, copy, result);
        return give_iterator(run, status, copy, result);
    }
    for (size_t i = 0; status == MT_OK && i < copy->count; i++)
        status = jinja_put(run, &builder, copy->items[i].string);
    *result = marked_value(jinja_built(&builder));
    return status;
}

static enum mt_status items(struct jinja_run *run, struct mt_value subject,
                            const struct jinja_arguments *arguments, struct mt_value *result)
{
    struct jinja_list *made = NULL;
    enum mt_status status = jinja_bind(run, "items", arguments, NULL, 0, 0, NULL);
    if (status == MT_OK && subject.kind != JINJA_DICT && subject.kind != JINJA_UNDEFINED)
        status = jinja_fail(run, MT_ERR_FORMAT, "Can only get item pairs from a mapping.");
    if (status == MT_OK) status = jinja_list_new(run, 0, &made);
    const struct jinja_dict *dict = subject.kind == JINJA_DICT ? subject.object : NULL;
    for (size_t i = 0; status == MT_OK && dict != NULL && i < dict->count; i++) {
        struct mt_value pair;
        status = jinja_pair_tuple(run, dict->pairs[i].key, dict->pairs[i].value, &pair);
        if (status == MT_OK) status = jinja_list_add(run, made, pair);
    }
    return give_iterator(run, status, made, result);
}

// ------------------------------------------------------------------ map, select

/* What map, select and the like walk: nothing where the value is false, even if it cannot be walked. */
static enum mt_status walk_if_true(struct jinja_run *run, struct mt_value value, struct jinja_list **list)
{
    bool truth = false;
    enum mt_status status = jinja_truth(run, value, &truth);
    if (status != MT_OK) return status;
    return truth ? jinja_walk(run, value, list) : jinja_list_new(run, 0, list);
}

/* The arguments from `from` on. */
static struct jinja_arguments rest_of(const struct jinja_arguments *arguments, size_t from)
{
    struct jinja_arguments rest = *arguments;
    if (from > 0) rest.items += from; // without arguments there are no items to point into
    rest.count -= from;
    return rest;
}

static enum mt_status map_attribute(struct jinja_run *run, const struct jinja_list *source,
                                    const struct jinja_arguments *arguments, struct jinja_list *made)
{
    static const char *const names[] = {"attribute", "default"};
    struct mt_value bound[2];
    enum mt_status status = jinja_bind(run, "map", arguments, names, 2, 1, bound);
    for (size_t i = 0; status == MT_OK && i < source->count; i++) {
        struct mt_value item;
        status = jinja_path_or(run, source->items[i], bound[0], bound[1], &item);
        if (status == MT_OK) status = jinja_list_add(run, made, item);
    }
    return status;
}

static enum mt_status map(struct jinja_run *run, struct mt_value subject,
                          const struct jinja_arguments *arguments, struct mt_value *result)
{
    struct jinja_list *source = NULL;
    struct jinja_list *made = NULL;
    struct mt_marked name = {0};
    enum mt_status status = walk_if_true(run, subject, &source);
    if (status == MT_OK) status = jinja_list_new(run, source->count, &made);
    bool by_attribute = arguments->count == 0 && arguments->keyword_count > 0;
    if (status == MT_OK && source->count == 0) return give_iterator(run, status, made, result);
    if (status == MT_OK && by_attribute) {
        status = map_attribute(run, source, arguments, made);
        return give_iterator(run, status, made, result);
    }
    if (status == MT_OK && arguments->count == 0)
        status = jinja_fail(run, MT_ERR_FORMAT, "map requires a filter argument");
    if (status == MT_OK) status = jinja_bound_string(run, "map", arguments->items[0], &name);
    if (status != MT_OK) return give_iterator(run, status, made, result);
    struct jinja_arguments rest = rest_of(arguments, 1);
    for (size_t i = 0; status == MT_OK && i < source->count; i++) {
        struct mt_value item;
        status = jinja_call_filter(run, name, source->items[i], &rest, &item);
        if (status == MT_OK) status = jinja_list_add(run, made, item);
    }
    return give_iterator(run, status, made, result);
}

/* select, reject, selectattr, rejectattr: items of which a test, or their truth, is `wanted`. */
static enum mt_status choose(struct jinja_run *run, struct mt_value subject,
                             const struct jinja_arguments *arguments, bool attribute, bool wanted,
                             struct mt_value *result)
{
    struct jinja_list *source = NULL;
    struct jinja_list *made = NULL;
    struct mt_marked name = {0};
    size_t offset = attribute ? 1 : 0;
    enum mt_status status = walk_if_true(run, subject, &source);
    if (status == MT_OK) status = jinja_list_new(run, 0, &made);
    if (status == MT_OK && source->count == 0) return give_iterator(run, status, made, result);
    if (status == MT_OK && arguments->count < offset)
        status = jinja_fail(run, MT_ERR_FORMAT, "Missing parameter for attribute name");
    bool tested = arguments->count > offset;
    if (status == MT_OK && tested)
        status = jinja_bound_string(run, "select", arguments->items[offset], &name);
    if (status != MT_OK) return give_iterator(run, status, made, result);
    struct jinja_arguments rest = rest_of(arguments, tested ? offset + 1 : offset);
    for (size_t i = 0; status == MT_OK && i < source->count; i++) {
        struct mt_value item = source->items[i];
        bool holds = false;
        if (attribute) status = jinja_path(run, item, arguments->items[0], &item);
        if (status == MT_OK && tested)
            status = jinja_call_test(run, name, item, &rest, &holds);
        else if (status == MT_OK)
            status = jinja_truth(run, item, &holds);
        if (status == MT_OK && holds == wanted) status = jinja_list_add(run, made, source->items[i]);
    }
    return give_iterator(run, status, made, result);
}

static enum mt_status select_items(struct jinja_run *run, struct mt_value subject,
                                   const struct jinja_arguments *arguments, struct mt_value *result)
{
    return choose(run, subject, arguments, false, true, result);
}

static enum mt_status reject(struct jinja_run *run, struct mt_value subject,
                             const struct jinja_arguments *arguments, struct mt_value *result)
{
    return choose(run, subject, arguments, false, false, result);
}

static enum mt_status selectattr(struct jinja_run *run, struct mt_value subject,
                                 const struct jinja_arguments *arguments, struct mt_value *result)
{
    return choose(run, subject, arguments, true, true, result);
}

static enum mt_status rejectattr(struct jinja_run *run, struct mt_value subject,
                                 const struct jinja_arguments *arguments, struct mt_value *result)
{
    return choose(run, subject, arguments, true, false, result);
}

// ------------------------------------------------------------------ by keys

/* A key for sorting and grouping: text in lower case unless case counts. */
static enum mt_status fold(struct jinja_run *run, bool case_sensitive, struct mt_value *key)
{
    if (case_sensitive || key->kind != JINJA_STRING) return MT_OK;
    return jinja_change_case(run, key->string, JINJA_LOWER, JINJA_LOWER, &key->string);
}

/* The key of an item: of one path, or of several with commas between them a list. */
static enum mt_status sort_key(struct jinja_run *run, struct mt_value item, struct mt_value path,
                               bool case_sensitive, struct mt_value *key)
{
    struct jinja_list *parts = NULL;
    enum mt_status status = jinja_list_new(run, 1, &parts);
    size_t bytes = path.kind == JINJA_STRING ? path.string.bytes : 0;
    for (size_t start = 0; status == MT_OK && start <= bytes;) {
        struct mt_value part = path;
        size_t end = bytes;
        if (path.kind == JINJA_STRING) {
            end = jinja_find_text(path.string, marked_of(","), start);
            if (end == SIZE_MAX) end = bytes;
            part = marked_value(marked_part(path.string, start, end));
        }
        struct mt_value value;
        status = jinja_path(run, item, part, &value);
        if (status == MT_OK) status = fold(run, case_sensitive, &value);
        if (status == MT_OK) status = jinja_list_add(run, parts, value);
        start = end + 1;
    }
    *key = jinja_object(JINJA_LIST, parts);
    return status;
}

static enum mt_status sort(struct jinja_run *run, struct mt_value subject,
                           const struct jinja_arguments *arguments, struct mt_value *result)
{
    static const char *const names[] = {"reverse", "case_sensitive", "attribute"};
    struct mt_value bound[3];
    struct jinja_list *source = NULL;
    struct jinja_list *made = NULL;
    const struct jinja_pair *sorted = NULL;
    void *memory = NULL;
    bool backwards = false;
    bool cased = false;
    enum mt_status status = jinja_bind(run, "sort", arguments, names, 3, 0, bound);
    if (status == MT_OK) status = jinja_bound_truth(run, bound[0], false, &backwards);
    if (status == MT_OK) status = jinja_bound_truth(run, bound[1], false, &cased);
    if (status == MT_OK) status = jinja_walk(run, subject, &source);
    if (status == MT_OK) status = jinja_allocate(run, source->count * sizeof *sorted, &memory);
    struct jinja_pair *pairs = memory;
    for (size_t i = 0; status == MT_OK && i < source->count; i++) {
        pairs[i].value = source->items[i];
        status = sort_key(run, source->items[i], bound[2], cased, &pairs[i].key);
    }
    if (status == MT_OK) status = jinja_sort(run, pairs, source->count, backwards, &sorted);
    if (status == MT_OK) status = jinja_list_new(run, source->count, &made);
    for (size_t i = 0; status == MT_OK && i < source->count; i++)
        status = jinja_list_add(run, made, sorted[i].value);
    return give_list(status, made, result);
}

static enum mt_status dictsort(struct jinja_run *run, struct mt_value subject,
                               const struct jinja_arguments *arguments, struct mt_value *result)
{
    static const char *const names[] = {"case_sensitive", "by", "reverse"};
    struct mt_value bound[3];
    struct jinja_list *made = NULL;
    const struct jinja_pair *sorted = NULL;
    void *memory = NULL;
    bool backwards = false;
    bool cased = false;
    enum mt_status status = jinja_bind(run, "dictsort", arguments, names, 3, 0, bound);
    if (status == MT_OK) status = jinja_bound_truth(run, bound[0], false, &cased);
    if (status == MT_OK) status = jinja_bound_truth(run, bound[2], false, &backwards);
    if (status != MT_OK) return status;
    bool by_value = bound[1].kind == JINJA_STRING && marked_is(bound[1].string, "value");
    bool by_key =
        bound[1].kind == JINJA_ABSENT || (bound[1].kind == JINJA_STRING && marked_is(bound[1].string, "key"));
    if (!by_value && !by_key)
        return jinja_fail(run, MT_ERR_FORMAT, "You can only sort by either \"key\" or \"value\"");
    if (subject.kind == JINJA_UNDEFINED) return jinja_fail_undefined(run, subject);
    if (subject.kind != JINJA_DICT) return jinja_fail(run, MT_ERR_FORMAT, "dictsort needs a dictionary");
    const struct jinja_dict *dict = subject.object;
    status = jinja_allocate(run, dict->count * sizeof *sorted, &memory);
    struct jinja_pair *pairs = memory;
    for (size_t i = 0; status == MT_OK && i < dict->count; i++) {
        pairs[i].key = by_value ? dict->pairs[i].value : dict->pairs[i].key;
        status = fold(run, cased, &pairs[i].key);
        if (status == MT_OK)
            status = jinja_pair_tuple(run, dict->pairs[i].key, dict->pairs[i].value, &pairs[i].value);
    }
    if (status == MT_OK) status = jinja_sort(run, pairs, dict->count, backwards, &sorted);
    if (status == MT_OK) status = jinja_list_new(run, dict->count, &made);
    for (size_t i = 0; status == MT_OK && i < dict->count; i++)
        status = jinja_list_add(run, made, sorted[i].value);
    return give_list(status, made, result);
}

static enum mt_status unique(struct jinja_run *run, struct mt_value subject,
                             const struct jinja_arguments *arguments, struct mt_value *result)
{
    static const char *const names[] = {"case_sensitive", "attribute"};
    struct mt_value bound[2];
    struct jinja_list *source = NULL;
    struct jinja_list *made = NULL;
    struct jinja_dict *seen = NULL;
    bool cased = false;
    enum mt_status status = jinja_bind(run, "unique", arguments, names, 2, 0, bound);
    if (status == MT_OK) status = jinja_bound_truth(run, bound[0], false, &cased);
    if (status == MT_OK) status = jinja_walk(run, subject, &source);
    if (status == MT_OK) status = jinja_list_new(run, 0, &made);
    if (status == MT_OK) status = jinja_dict_new(run, &seen);
    for (size_t i = 0; status == MT_OK && i < source->count; i++) {
        struct mt_value key;
        status = jinja_path(run, source->items[i], bound[1], &key);
        if (status == MT_OK) status = fold(run, cased, &key);
        size_t before = status == MT_OK ? seen->count : 0;
        if (status == MT_OK) status = jinja_dict_put(run, seen, key, mt_jinja_none());
        if (status == MT_OK && seen->count > before) status = jinja_list_add(run, made, source->items[i]);
    }
    return give_iterator(run, status, made, result);
}

/* min and max: the first of the smallest or largest. */
static enum mt_status extreme(struct jinja_run *run, const char *what, struct mt_value subject,
                              const struct jinja_arguments *arguments, int wanted, struct mt_value *result)
{
    static const char *const names[] = {"case_sensitive", "attribute"};
    struct mt_value bound[2];
    struct mt_value best;
    struct jinja_list *source = NULL;
    bool cased = false;
    enum mt_status status = jinja_bind(run, what, arguments, names, 2, 0, bound);
    if (status == MT_OK) status = jinja_bound_truth(run, bound[0], false, &cased);
    if (status == MT_OK) status = jinja_walk(run, subject, &source);
    *result = jinja_undefined(marked_of("extreme of nothing"));
    for (size_t i = 0; status == MT_OK && i < source->count; i++) {
        struct mt_value key;
        int order = wanted;
        status = jinja_path(run, source->items[i], bound[1], &key);
        if (status == MT_OK) status = fold(run, cased, &key);
        if (status == MT_OK && i > 0) status = jinja_order(run, key, best, wanted < 0 ? "<" : ">", &order);
        if (status != MT_OK || order != wanted) continue;
        best = key;
        *result = source->items[i];
    }
    return status;
}

static enum mt_status min(struct jinja_run *run, struct mt_value subject,
                          const struct jinja_arguments *arguments, struct mt_value *result)
{
    return extreme(run, "min", subject, arguments, -1, result);
}

static enum mt_status max(struct jinja_run *run, struct mt_value subject,
                          const struct jinja_arguments *arguments, struct mt_value *result)
{
    return extreme(run, "max", subject, arguments, 1, result);
}

// ------------------------------------------------------------------ batches

static enum mt_status batch(struct jinja_run *run, struct mt_value subject,
                            const struct jinja_arguments *arguments, struct mt_value *result)
{
    static const char *const names[] = {"linecount", "fill_with"};
    struct mt_value bound[2];
    struct jinja_list *source = NULL;
    struct jinja_list *made = NULL;
    struct jinja_list *line = NULL;
    int64_t size = 0;
    enum mt_status status = jinja_bind(run, "batch", arguments, names, 2, 1, bound);
    if (status == MT_OK) status = jinja_bound_integer(run, "batch", bound[0], 0, &size);
    if (status == MT_OK) status = jinja_walk(run, subject, &source);
    if (status == MT_OK) status = jinja_list_new(run, 0, &made);
    for (size_t i = 0; status == MT_OK && i < source->count; i++) {
        if (line == NULL || (int64_t)line->count == size) {
            status = jinja_list_new(run, 0, &line);
            if (status == MT_OK) status = jinja_list_add(run, made, jinja_object(JINJA_LIST, line));
        }
        if (status == MT_OK) status = jinja_list_add(run, line, source->items[i]);
    }
    while (status == MT_OK && line != NULL && jinja_given(bound[1]) && (int64_t)line->count < size)
        status = jinja_list_add(run, line, bound[1]);
    return give_iterator(run, status, made, result);
}

static const struct jinja_function entries[] = {
    {"length", length},
    {"count", length},
    {"first", first},
    {"last", last},
    {"list", list},
    {"reverse", reverse},
    {"items", items},
    {"map", map},
    {"select", select_items},
    {"reject", reject},
    {"selectattr", selectattr},
    {"rejectattr", rejectattr},
    {"sort", sort},
    {"dictsort", dictsort},
    {"unique", unique},
    {"min", min},
    {"max", max},
    {"batch", batch},
    {"groupby", NULL},
    {"slice", NULL},
    {"random", NULL},
};
const struct jinja_table jinja_list_filters = {entries, sizeof entries / sizeof entries[0]};
