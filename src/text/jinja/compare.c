/* Truth, equality, order and membership, as in Python. */
#include <math.h>

#include "text/jinja/run.h"

static enum mt_status equal_at(struct jinja_run *run, struct mt_value a, struct mt_value b, int depth,
                               bool *equal);

bool jinja_is_number(struct mt_value value)
{
    return value.kind == JINJA_BOOL || value.kind == JINJA_INTEGER || value.kind == JINJA_REAL;
}

bool jinja_as_integer(struct mt_value value, int64_t *integer)
{
    if (value.kind == JINJA_BOOL)
        *integer = value.truth;
    else if (value.kind == JINJA_INTEGER)
        *integer = value.integer;
    else
        return false;
    return true;
}

double jinja_as_real(struct mt_value number)
{
    int64_t integer = 0;
    return jinja_as_integer(number, &integer) ? (double)integer : number.real;
}

enum mt_status jinja_truth(struct jinja_run *run, struct mt_value value, bool *truth)
{
    bool has = false;
    int64_t length = 0;
    switch (value.kind) {
    case JINJA_UNDEFINED:
    case JINJA_ABSENT:
    case JINJA_NONE: *truth = false; return MT_OK;
    case JINJA_BOOL: *truth = value.truth; return MT_OK;
    case JINJA_INTEGER: *truth = value.integer != 0; return MT_OK;
    case JINJA_REAL: *truth = value.real != 0; return MT_OK;
    case JINJA_STRING: *truth = value.string.bytes != 0; return MT_OK;
    default: break;
    }
    enum mt_status status = jinja_length(run, value, &has, &length);
    *truth = !has || length != 0;
    return status;
}

/* Numbers: 1 == 1.0 == True; whole numbers are compared as such, a real with an integer exactly. */
static int order_numbers(struct mt_value a, struct mt_value b)
{
    int64_t left = 0;
    int64_t right = 0;
    bool whole_left = jinja_as_integer(a, &left);
    bool whole_right = jinja_as_integer(b, &right);
    if (whole_left && whole_right) return left < right ? -1 : left > right;
    double x = jinja_as_real(a);
    double y = jinja_as_real(b);
    if (isnan(x) || isnan(y)) return 2;
    if (x != y) return x < y ? -1 : 1;
    if (whole_left == whole_right) return 0;
    // The integer may have been rounded to equal the real; a real of 2^63 is beyond all integers.
    double real = whole_left ? y : x;
    int64_t integer = whole_left ? left : right;
    if (real >= JINJA_TWO_63) return whole_left ? -1 : 1;
    int64_t exact = (int64_t)real;
    if (exact == integer) return 0;
    return (integer < exact) == whole_left ? -1 : 1;
}

static enum mt_status equal_lists(struct jinja_run *run, const struct jinja_list *a,
                                  const struct jinja_list *b, int depth, bool *equal)
{
    enum mt_status status = MT_OK;
    *equal = a->count == b->count;
    if (a == b) return MT_OK;
    for (size_t i = 0; status == MT_OK && *equal && i < a->count; i++)
        status = equal_at(run, a->items[i], b->items[i], depth + 1, equal);
    return status;
}

static enum mt_status find_at(struct jinja_run *run, const struct jinja_dict *dict, struct mt_value key,
                              int depth, struct mt_value **value)
{
    *value = NULL;
    enum mt_status status = jinja_spend(run, 1 + dict->count / 8);
    for (size_t i = 0; status == MT_OK && i < dict->count; i++) {
        bool equal = false;
        const struct mt_value *candidate = &dict->pairs[i].key;
        if (candidate->kind == JINJA_STRING && key.kind == JINJA_STRING)
            equal = marked_equal(candidate->string, key.string);
        else if (candidate->kind != JINJA_STRING && key.kind != JINJA_STRING)
            status = equal_at(run, *candidate, key, depth + 1, &equal);
        if (equal) {
            *value = &dict->pairs[i].value;
            return status;
        }
    }
    return status;
}

enum mt_status jinja_dict_find(struct jinja_run *run, const struct jinja_dict *dict, struct mt_value key,
                               struct mt_value **value)
{
    return find_at(run, dict, key, 0, value);
}

struct mt_value *jinja_dict_named(const struct jinja_dict *dict, const char *key)
{
    for (size_t i = 0; i < dict->count; i++) {
        const struct mt_value *candidate = &dict->pairs[i].key;
        if (candidate->kind == JINJA_STRING && marked_is(candidate->string, key))
            return &dict->pairs[i].value;
    }
    return NULL;
}

static enum mt_status equal_dicts(struct jinja_run *run, const struct jinja_dict *a,
                                  const struct jinja_dict *b, int depth, bool *equal)
{
    enum mt_status status = MT_OK;
    *equal = a->count == b->count;
    if (a == b) return MT_OK;
    for (size_t i = 0; status == MT_OK && *equal && i < a->count; i++) {
        struct mt_value *other = NULL;
        status = find_at(run, b, a->pairs[i].key, depth, &other);
        if (status == MT_OK && other == NULL)
            *equal = false;
        else if (status == MT_OK)
            status = equal_at(run, a->pairs[i].value, *other, depth + 1, equal);
    }
    return status;
}

static bool equal_ranges(const struct jinja_range *a, const struct jinja_range *b)
{
    size_t count = jinja_range_count(a);
    if (count != jinja_range_count(b)) return false;
    if (count == 0) return true;
    return a->start == b->start && (count == 1 || a->step == b->step);
}

static enum mt_status equal_at(struct jinja_run *run, struct mt_value a, struct mt_value b, int depth,
                               bool *equal)
{
    enum mt_status status = jinja_spend(run, 1);
    *equal = false;
    if (status != MT_OK) return status;
    if (depth > JINJA_VALUE_DEPTH)
        return jinja_fail(run, MT_ERR_UNSUPPORTED, "values are nested deeper than %d", JINJA_VALUE_DEPTH);
    if (jinja_is_number(a) && jinja_is_number(b)) {
        *equal = order_numbers(a, b) == 0;
        return MT_OK;
    }
    if (a.kind != b.kind) return MT_OK;
    switch (a.kind) {
    case JINJA_UNDEFINED:
    case JINJA_NONE: *equal = true; return MT_OK;
    case JINJA_STRING:
        *equal = marked_equal(a.string, b.string);
        return jinja_spend(run, a.string.bytes / 64);
    case JINJA_LIST:
    case JINJA_TUPLE: return equal_lists(run, a.object, b.object, depth, equal);
    case JINJA_DICT: return equal_dicts(run, a.object, b.object, depth, equal);
    case JINJA_RANGE: *equal = equal_ranges(a.object, b.object); return MT_OK;
    default: *equal = jinja_same(a, b); return MT_OK;
    }
}

enum mt_status jinja_equal(struct jinja_run *run, struct mt_value a, struct mt_value b, bool *equal)
{
    return equal_at(run, a, b, 0, equal);
}

bool jinja_same(struct mt_value a, struct mt_value b)
{
    if (a.kind != b.kind) return false;
    switch (a.kind) {
    case JINJA_UNDEFINED: return false; // each is one of its own
    case JINJA_NONE: return true;
    case JINJA_BOOL: return a.truth == b.truth;
    case JINJA_INTEGER: return a.integer == b.integer;
    case JINJA_REAL: return a.real == b.real;
    case JINJA_STRING: return marked_equal(a.string, b.string);
    default: return a.object == b.object;
    }
}

static enum mt_status order_at(struct jinja_run *run, struct mt_value a, struct mt_value b,
                               const char *symbol, int depth, int *order);

/* The first items that differ decide, then the length. */
static enum mt_status order_lists(struct jinja_run *run, const struct jinja_list *a,
                                  const struct jinja_list *b, const char *symbol, int depth, int *order)
{
    size_t shorter = a->count < b->count ? a->count : b->count;
    for (size_t i = 0; i < shorter; i++) {
        bool equal = false;
        enum mt_status status = equal_at(run, a->items[i], b->items[i], depth + 1, &equal);
        if (status != MT_OK) return status;
        if (!equal) return order_at(run, a->items[i], b->items[i], symbol, depth + 1, order);
    }
    *order = a->count < b->count ? -1 : a->count > b->count;
    return MT_OK;
}

static enum mt_status order_at(struct jinja_run *run, struct mt_value a, struct mt_value b,
                               const char *symbol, int depth, int *order)
{
    enum mt_status status = jinja_spend(run, 1);
    *order = 0;
    if (status != MT_OK) return status;
    if (depth > JINJA_VALUE_DEPTH)
        return jinja_fail(run, MT_ERR_UNSUPPORTED, "values are nested deeper than %d", JINJA_VALUE_DEPTH);
    if (a.kind == JINJA_UNDEFINED) return jinja_fail_undefined(run, a);
    if (b.kind == JINJA_UNDEFINED) return jinja_fail_undefined(run, b);
    if (jinja_is_number(a) && jinja_is_number(b)) {
        *order = order_numbers(a, b);
        return MT_OK;
    }
    if (a.kind == JINJA_STRING && b.kind == JINJA_STRING) {
        int found = marked_order(a.string, b.string);
        *order = found < 0 ? -1 : found > 0;
        return jinja_spend(run, a.string.bytes / 64);
    }
    if (a.kind == b.kind && (a.kind == JINJA_LIST || a.kind == JINJA_TUPLE))
        return order_lists(run, a.object, b.object, symbol, depth, order);
    return jinja_fail(run, MT_ERR_FORMAT, "'%s' not supported between instances of '%s' and '%s'", symbol,
                      jinja_type_name(a), jinja_type_name(b));
}

enum mt_status jinja_order(struct jinja_run *run, struct mt_value a, struct mt_value b, const char *symbol,
                           int *order)
{
    return order_at(run, a, b, symbol, 0, order);
}

enum mt_status jinja_check_key(struct jinja_run *run, struct mt_value key)
{
    enum mt_status status = MT_OK;
    if (key.kind == JINJA_LIST || key.kind == JINJA_DICT)
        return jinja_fail(run, MT_ERR_FORMAT, "unhashable type: '%s'", jinja_type_name(key));
    if (key.kind != JINJA_TUPLE) return MT_OK;
    const struct jinja_list *list = key.object;
    status = jinja_enter_run(run);
    for (size_t i = 0; status == MT_OK && i < list->count; i++) status = jinja_check_key(run, list->items[i]);
    jinja_leave_run(run);
    return status;
}

static enum mt_status contains_item(struct jinja_run *run, struct mt_value container, struct mt_value item,
                                    bool *contains)
{
    struct jinja_list *list = NULL;
    enum mt_status status = jinja_walk(run, container, &list);
    for (size_t i = 0; status == MT_OK && i < list->count && !*contains; i++)
        status = jinja_equal(run, list->items[i], item, contains);
    return status;
}

enum mt_status jinja_contains(struct jinja_run *run, struct mt_value container, struct mt_value item,
                              bool *contains)
{
    struct mt_value *found = NULL;
    enum mt_status status = MT_OK;
    *contains = false;
    if (container.kind == JINJA_STRING) {
        if (item.kind != JINJA_STRING)
            return jinja_fail(run, MT_ERR_FORMAT, "'in <string>' requires string as left operand, not %s",
                              jinja_type_name(item));
        *contains = jinja_find_text(container.string, item.string, 0) != SIZE_MAX;
        return jinja_spend(run, container.string.bytes / 64);
    }
    if (container.kind == JINJA_DICT) {
        status = jinja_check_key(run, item);
        if (status == MT_OK) status = jinja_dict_find(run, container.object, item, &found);
        *contains = found != NULL;
        return status;
    }
    if (container.kind == JINJA_RANGE && jinja_is_number(item)) {
        const struct jinja_range *range = container.object;
        int64_t integer = 0;
        if (!jinja_as_integer(item, &integer)) return contains_item(run, container, item, contains);
        bool inside = range->step > 0 ? integer >= range->start && integer < range->stop
                                      : integer <= range->start && integer > range->stop;
        *contains = inside && (integer - range->start) % range->step == 0;
        return MT_OK;
    }
    if (!jinja_can_walk(container)) {
        return jinja_fail(run, MT_ERR_FORMAT, "argument of type '%s' is not iterable",
                          jinja_type_name(container));
    }
    return contains_item(run, container, item, contains);
}

enum mt_status jinja_compare(struct jinja_run *run, struct mt_value a, struct mt_marked symbol,
                             struct mt_value b, bool *holds)
{
    int order = 0;
    bool negated = marked_is(symbol, "!=") || marked_is(symbol, "not in");
    enum mt_status status = MT_OK;
    if (marked_is(symbol, "==") || marked_is(symbol, "!=")) {
        status = jinja_equal(run, a, b, holds);
        *holds = *holds != negated;
        return status;
    }
    if (marked_is(symbol, "in") || marked_is(symbol, "not in")) {
        status = jinja_contains(run, b, a, holds);
        *holds = *holds != negated;
        return status;
    }
    status = jinja_order(run, a, b, symbol.text, &order);
    if (marked_is(symbol, "<"))
        *holds = order == -1;
    else if (marked_is(symbol, "<="))
        *holds = order == -1 || order == 0;
    else if (marked_is(symbol, ">"))
        *holds = order == 1;
    else
        *holds = order == 1 || order == 0;
    return status;
}
