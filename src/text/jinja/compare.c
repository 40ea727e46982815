/* Truth, equality, order, membership and sorting, as in Python. */
#include <math.h>

#include "text/jinja/run.h"

static bool equal_at(struct jinja_run *run, struct mt_value a, struct mt_value b, int depth);

bool mt_jinja_is_number(struct mt_value value)
{
    return value.kind == JINJA_BOOL || value.kind == JINJA_INTEGER || value.kind == JINJA_REAL;
}

bool mt_jinja_as_integer(struct mt_value value, int64_t *integer)
{
    if (value.kind == JINJA_BOOL)
        *integer = value.truth;
    else if (value.kind == JINJA_INTEGER)
        *integer = value.integer;
    else
        return false;
    return true;
}

double mt_jinja_as_real(struct mt_value number)
{
    int64_t integer = 0;
    return mt_jinja_as_integer(number, &integer) ? (double)integer : number.real;
}

bool mt_jinja_truth(struct jinja_run *run, struct mt_value value)
{
    int64_t length = 0;
    switch (value.kind) {
    case JINJA_UNDEFINED:
    case JINJA_ABSENT:
    case JINJA_NONE: return false;
    case JINJA_BOOL: return value.truth;
    case JINJA_INTEGER: return value.integer != 0;
    case JINJA_REAL: return value.real != 0;
    case JINJA_STRING: return value.string.bytes != 0;
    default: return !mt_jinja_length(run, value, &length) || length != 0;
    }
}

/* Numbers: 1 == 1.0 == True; whole numbers are compared as such, a real with an integer exactly. */
static int order_numbers(struct mt_value a, struct mt_value b)
{
    int64_t left = 0;
    int64_t right = 0;
    bool whole_left = mt_jinja_as_integer(a, &left);
    bool whole_right = mt_jinja_as_integer(b, &right);
    if (whole_left && whole_right) return left < right ? -1 : left > right;
    double x = mt_jinja_as_real(a);
    double y = mt_jinja_as_real(b);
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

static bool equal_lists(struct jinja_run *run, const struct jinja_list *a, const struct jinja_list *b,
                        int depth)
{
    bool equal = a->count == b->count;
    for (size_t i = 0; a != b && equal && i < a->count; i++)
        equal = equal_at(run, a->items[i], b->items[i], depth + 1);
    return equal;
}

static struct mt_value *find_at(struct jinja_run *run, const struct jinja_dict *dict, struct mt_value key,
                                int depth)
{
    mt_jinja_spend(run, 1 + dict->count / 8);
    for (size_t i = 0; i < dict->count && !mt_jinja_failed(run); i++) {
        bool equal = false;
        const struct mt_value *candidate = &dict->pairs[i].key;
        if (candidate->kind == JINJA_STRING && key.kind == JINJA_STRING)
            equal = marked_equal(candidate->string, key.string);
        else if (candidate->kind != JINJA_STRING && key.kind != JINJA_STRING)
            equal = equal_at(run, *candidate, key, depth + 1);
        if (equal) return &dict->pairs[i].value;
    }
    return NULL;
}

struct mt_value *mt_jinja_dict_find(struct jinja_run *run, const struct jinja_dict *dict, struct mt_value key)
{
    return find_at(run, dict, key, 0);
}

static bool equal_dicts(struct jinja_run *run, const struct jinja_dict *a, const struct jinja_dict *b,
                        int depth)
{
    bool equal = a->count == b->count;
    for (size_t i = 0; a != b && equal && i < a->count; i++) {
        const struct mt_value *other = find_at(run, b, a->pairs[i].key, depth);
        equal = other != NULL && equal_at(run, a->pairs[i].value, *other, depth + 1);
    }
    return equal;
}

static bool equal_ranges(const struct jinja_range *a, const struct jinja_range *b)
{
    size_t count = mt_jinja_range_count(a);
    if (count != mt_jinja_range_count(b)) return false;
    if (count == 0) return true;
    return a->start == b->start && (count == 1 || a->step == b->step);
}

static bool equal_at(struct jinja_run *run, struct mt_value a, struct mt_value b, int depth)
{
    if (!mt_jinja_check_depth(run, depth)) return false;
    if (mt_jinja_is_number(a) && mt_jinja_is_number(b)) return order_numbers(a, b) == 0;
    if (a.kind != b.kind) return false;
    switch (a.kind) {
    case JINJA_UNDEFINED: return true;
    case JINJA_STRING: mt_jinja_spend(run, a.string.bytes / 64); return marked_equal(a.string, b.string);
    case JINJA_LIST:
    case JINJA_TUPLE: return equal_lists(run, a.object, b.object, depth);
    case JINJA_DICT: return equal_dicts(run, a.object, b.object, depth);
    case JINJA_RANGE: return equal_ranges(a.object, b.object);
    default: return mt_jinja_same(a, b);
    }
}

bool mt_jinja_equal(struct jinja_run *run, struct mt_value a, struct mt_value b)
{
    return equal_at(run, a, b, 0);
}

bool mt_jinja_same(struct mt_value a, struct mt_value b)
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

static int order_at(struct jinja_run *run, struct mt_value a, struct mt_value b, const char *symbol,
                    int depth);

/* The first items that differ decide, then the length. */
static int order_lists(struct jinja_run *run, const struct jinja_list *a, const struct jinja_list *b,
                       const char *symbol, int depth)
{
    size_t shorter = a->count < b->count ? a->count : b->count;
    for (size_t i = 0; i < shorter && !mt_jinja_failed(run); i++) {
        if (!equal_at(run, a->items[i], b->items[i], depth + 1))
            return order_at(run, a->items[i], b->items[i], symbol, depth + 1);
    }
    return a->count < b->count ? -1 : a->count > b->count;
}

static int order_at(struct jinja_run *run, struct mt_value a, struct mt_value b, const char *symbol,
                    int depth)
{
    if (!mt_jinja_check_depth(run, depth)) return 0;
    if (mt_jinja_is_number(a) && mt_jinja_is_number(b)) return order_numbers(a, b);
    if (a.kind == JINJA_STRING && b.kind == JINJA_STRING) {
        int found = marked_order(a.string, b.string);
        mt_jinja_spend(run, a.string.bytes / 64);
        return found < 0 ? -1 : found > 0;
    }
    if (a.kind == JINJA_UNDEFINED || b.kind == JINJA_UNDEFINED)
        (void)mt_jinja_fail_undefined(run, a.kind == JINJA_UNDEFINED ? a : b);
    else if (a.kind == b.kind && (a.kind == JINJA_LIST || a.kind == JINJA_TUPLE))
        return order_lists(run, a.object, b.object, symbol, depth);
    else
        (void)mt_jinja_fail(run, MT_ERR_FORMAT, "'%s' not supported between instances of '%s' and '%s'",
                            symbol, mt_jinja_type_name(a), mt_jinja_type_name(b));
    return 0;
}

int mt_jinja_order(struct jinja_run *run, struct mt_value a, struct mt_value b, const char *symbol)
{
    return order_at(run, a, b, symbol, 0);
}

bool mt_jinja_check_key(struct jinja_run *run, struct mt_value key)
{
    if (key.kind == JINJA_LIST || key.kind == JINJA_DICT)
        (void)mt_jinja_fail(run, MT_ERR_FORMAT, "unhashable type: '%s'", mt_jinja_type_name(key));
    if (key.kind == JINJA_TUPLE) {
        const struct jinja_list *list = key.object;
        bool hashable = mt_jinja_enter_run(run);
        for (size_t i = 0; hashable && i < list->count; i++)
            hashable = mt_jinja_check_key(run, list->items[i]);
        mt_jinja_leave_run(run);
    }
    return !mt_jinja_failed(run);
}

// ------------------------------------------------------------------ operators

static bool contains(struct jinja_run *run, struct mt_value container, struct mt_value item)
{
    int64_t integer = 0;
    if (container.kind == JINJA_STRING) {
        if (item.kind != JINJA_STRING) {
            (void)mt_jinja_fail(run, MT_ERR_FORMAT, "'in <string>' requires string as left operand, not %s",
                                mt_jinja_type_name(item));
            return false;
        }
        mt_jinja_spend(run, container.string.bytes / 64);
        return mt_jinja_find_text(container.string, item.string, 0) != SIZE_MAX;
    }
    if (container.kind == JINJA_DICT)
        return mt_jinja_check_key(run, item) && mt_jinja_dict_find(run, container.object, item) != NULL;
    if (container.kind == JINJA_RANGE && mt_jinja_as_integer(item, &integer)) {
        const struct jinja_range *range = container.object;
        bool inside = range->step > 0 ? integer >= range->start && integer < range->stop
                                      : integer <= range->start && integer > range->stop;
        return inside && (integer - range->start) % range->step == 0;
    }
    if (!mt_jinja_can_walk(container))
        (void)mt_jinja_fail(run, MT_ERR_FORMAT, "argument of type '%s' is not iterable",
                            mt_jinja_type_name(container));
    const struct jinja_list *list = mt_jinja_walk(run, container);
    for (size_t i = 0; i < list->count && !mt_jinja_failed(run); i++) {
        if (mt_jinja_equal(run, list->items[i], item)) return true;
    }
    return false;
}

bool mt_jinja_compare(struct jinja_run *run, struct mt_value a, struct mt_marked symbol, struct mt_value b)
{
    if (marked_is(symbol, "==")) return mt_jinja_equal(run, a, b);
    if (marked_is(symbol, "!=")) return !mt_jinja_equal(run, a, b);
    if (marked_is(symbol, "in")) return contains(run, b, a);
    if (marked_is(symbol, "not in")) return !contains(run, b, a);
    int order = mt_jinja_order(run, a, b, symbol.text);
    int wanted = symbol.text[0] == '<' ? -1 : 1;
    return order == wanted || (symbol.bytes == 2 && order == 0);
}

// ------------------------------------------------------------------ a stable merge sort

struct sorter {
    struct jinja_run *run;
    struct jinja_pair *pairs;
    struct jinja_pair *scratch;
    bool reverse;
};

/* Whether the pair at `right` comes before the one at `left`, which stands before it now. */
static bool overtakes(const struct sorter *s, size_t left, size_t right)
{
    const struct mt_value *low = &s->pairs[s->reverse ? left : right].key;
    const struct mt_value *high = &s->pairs[s->reverse ? right : left].key;
    return mt_jinja_order(s->run, *low, *high, "<") == -1;
}

static void sort_between(const struct sorter *s, size_t start, size_t end)
{
    if (end - start < 2 || mt_jinja_failed(s->run)) return;
    size_t middle = start + (end - start) / 2;
    sort_between(s, start, middle);
    sort_between(s, middle, end);
    size_t left = start;
    size_t right = middle;
    for (size_t out = start; out < end; out++) {
        bool take_right = left == middle || (right < end && overtakes(s, left, right));
        s->scratch[out] = take_right ? s->pairs[right++] : s->pairs[left++];
    }
    memcpy(s->pairs + start, s->scratch + start, (end - start) * sizeof *s->pairs);
}

const struct jinja_pair *mt_jinja_sort(struct jinja_run *run, const struct jinja_pair *pairs, size_t count,
                                       bool reverse)
{
    struct jinja_pair *memory = count > 0 ? mt_jinja_allocate(run, 2 * count * sizeof *pairs) : NULL;
    if (memory == NULL) return pairs;
    struct sorter s = {run, memory, memory + count, reverse};
    memcpy(s.pairs, pairs, count * sizeof *pairs);
    sort_between(&s, 0, count);
    return s.pairs;
}
