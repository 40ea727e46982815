/* Comparing mathematical answers: collections and relations first, single values exactly or by numbers. */
#include "eval/math/answer_math.h"

#include <ctype.h>
#include <string.h>

#include "eval/math/exact.h"
#include "eval/math/numeric.h"

#define ARENA_BYTES   65536
#define MOST_ELEMENTS 64

struct comparison {
    struct mt_context *ctx;
    struct mt_arena *arena;
    enum mt_status status;
    enum mt_math_verdict verdict; // the weakest used
    int depth;
};

static bool same_answer(struct comparison *all, const struct mt_math_node *a, const struct mt_math_node *b);

static void weaken(struct comparison *all, enum mt_math_verdict verdict)
{
    if (verdict < all->verdict) all->verdict = verdict;
}

static bool same_letters(struct comparison *all, const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    struct mt_byte_list one = {.ctx = all->ctx};
    struct mt_byte_list other = {.ctx = all->ctx};
    enum mt_status status = mt_math_fold(a, a_bytes, &one);
    if (status == MT_OK) status = mt_math_fold(b, b_bytes, &other);
    if (status != MT_OK) all->status = status;
    bool same = status == MT_OK && one.count > 0 && one.count == other.count &&
                memcmp(one.data, other.data, one.count) == 0;
    mt_byte_list_free(&one);
    mt_byte_list_free(&other);
    weaken(all, MT_MATH_BY_LETTERS);
    return same;
}

// ------------------------------------------------------------------ single values

/* Values at points: all must agree, and there must be a value at two of them at least. */
static bool same_numbers(struct comparison *all, const struct mt_math_node *a, const struct mt_math_node *b,
                         int a_sign, int b_sign)
{
    int compared = 0;
    bool varies = false;
    for (int point = 0; point < MT_NUMERIC_POINTS; point++) {
        double complex one = 0;
        double complex other = 0;
        bool first = mt_numeric_of(a, point, a_sign, &varies, &one);
        bool second = mt_numeric_of(b, point, b_sign, &varies, &other);
        if (first != second) return false;
        if (!first) continue;
        if (!mt_numeric_close(one, other)) return false;
        compared++;
    }
    weaken(all, MT_MATH_BY_NUMBER);
    return compared >= 2;
}

static bool same_value(struct comparison *all, const struct mt_math_node *a, const struct mt_math_node *b,
                       int a_sign, int b_sign)
{
    struct mt_exact one = {.arena = all->arena, .sign = a_sign};
    struct mt_exact other = {.arena = all->arena, .sign = b_sign};
    struct mt_exact_form left = mt_exact_of(&one, a);
    struct mt_exact_form right = mt_exact_of(&other, b);
    if (one.status != MT_OK) all->status = one.status;
    if (other.status != MT_OK) all->status = other.status;
    if (all->status != MT_OK) return false;
    if (!one.failed && !other.failed) {
        bool equal = mt_exact_equal(&one, left, right);
        if (one.status != MT_OK) all->status = one.status;
        if (!one.failed) return equal;
    }
    return all->status == MT_OK && same_numbers(all, a, b, a_sign, b_sign);
}

/* What stands around a value without being part of it. */
struct peeled {
    const struct mt_math_node *value;
    const char *unit; // NULL: none
    bool percent;
    bool degree;
    bool negative; // -(5 cm) is (-5) cm; the sign is put back by comparing -1 times
};

static struct peeled peel(const struct mt_math_node *node)
{
    struct peeled result = {.value = node};
    bool more = node != NULL;
    while (more) {
        const struct mt_math_node *value = result.value;
        more = value->count == 1 && value->first != NULL;
        if (value->kind == MT_MATH_UNIT) {
            if (strcmp(value->text, "percent") == 0) {
                result.percent = true;
            } else if (strncmp(value->text, "degree", 6) == 0) {
                result.degree = true;
            } else {
                result.unit = value->text;
            }
        } else if (value->kind == MT_MATH_PERCENT) {
            result.percent = true;
        } else if (value->kind == MT_MATH_DEGREE) {
            result.degree = true;
        } else if (value->kind == MT_MATH_NEGATIVE &&
                   (value->first->kind == MT_MATH_UNIT || value->first->kind == MT_MATH_PERCENT ||
                    value->first->kind == MT_MATH_DEGREE)) {
            result.negative = !result.negative;
        } else {
            more = false;
        }
        if (more) result.value = value->first;
    }
    return result;
}

/* Puts a sign back that was peeled off; the node is the caller's. */
static const struct mt_math_node *signed_value(const struct peeled *peeled, struct mt_math_node *node)
{
    if (!peeled->negative) return peeled->value;
    // Reading never changes a tree: a new root over the old one only borrows it.
    struct mt_math_node *child = (struct mt_math_node *)peeled->value;
    *node = (struct mt_math_node){.kind = MT_MATH_NEGATIVE, .first = child, .last = child, .count = 1};
    return node;
}

/* "cm" and "cm.", "hour" and "hours", "km/h": letters alone, without a plural s. */
static bool same_unit(const char *a, const char *b)
{
    while (*a != '\0' || *b != '\0') {
        bool skip_a = *a != '\0' && !isalnum((unsigned char)*a) && *a != '/';
        bool skip_b = *b != '\0' && !isalnum((unsigned char)*b) && *b != '/';
        bool plural_a = *a == 's' && !isalpha((unsigned char)a[1]);
        bool plural_b = *b == 's' && !isalpha((unsigned char)b[1]);
        if (skip_a || (plural_a && !plural_b)) {
            a++;
        } else if (skip_b || (plural_b && !plural_a)) {
            b++;
        } else if (tolower((unsigned char)*a) != tolower((unsigned char)*b)) {
            return false;
        } else {
            a++;
            b++;
        }
    }
    return true;
}

static bool same_single(struct comparison *all, const struct mt_math_node *a, const struct mt_math_node *b,
                        int a_sign, int b_sign)
{
    struct peeled one = peel(a);
    struct peeled other = peel(b);
    struct mt_math_node a_negative;
    struct mt_math_node b_negative;
    if (one.unit != NULL && other.unit != NULL && !same_unit(one.unit, other.unit)) return false;
    const struct mt_math_node *left = signed_value(&one, &a_negative);
    const struct mt_math_node *right = signed_value(&other, &b_negative);
    if (left->kind == MT_MATH_TEXT && right->kind == MT_MATH_TEXT) {
        return same_letters(all, left->text, strlen(left->text), right->text, strlen(right->text));
    }
    if (left->kind == MT_MATH_INFINITY || right->kind == MT_MATH_INFINITY) return left->kind == right->kind;
    if (left->kind == MT_MATH_NEGATIVE && right->kind == MT_MATH_NEGATIVE &&
        (left->first->kind == MT_MATH_INFINITY || right->first->kind == MT_MATH_INFINITY)) {
        return left->first->kind == right->first->kind;
    }
    if (same_value(all, left, right, a_sign, b_sign)) return true;
    // 50% is 50 to some and 0.5 to others, 180° may be π: where only one side has the sign, both will do.
    bool sign_differs = one.percent != other.percent || one.degree != other.degree;
    return all->status == MT_OK && sign_differs && same_value(all, a, b, a_sign, b_sign);
}

static bool has_either(const struct mt_math_node *node)
{
    if (node == NULL) return false;
    if (node->kind == MT_MATH_EITHER) return true;
    for (const struct mt_math_node *child = node->first; child != NULL; child = child->next) {
        if (has_either(child)) return true;
    }
    return false;
}

// ------------------------------------------------------------------ collections

/* An element: a tree and what ± means in it. */
struct element {
    const struct mt_math_node *node;
    int sign;
};

struct elements {
    struct element each[MOST_ELEMENTS];
    int count; // -1: too many
};

static bool is_bare(const struct mt_math_node *node)
{
    return node->kind == MT_MATH_GROUP && node->open == '\0';
}

static void add_element(struct elements *list, const struct mt_math_node *node, int sign)
{
    if (list->count < 0 || list->count == MOST_ELEMENTS) {
        list->count = -1;
    } else {
        list->each[list->count++] = (struct element){.node = node, .sign = sign};
    }
}

static void gather(struct elements *list, const struct mt_math_node *node, bool spread)
{
    const struct mt_math_node *child = node->first;
    if (!spread) child = node;
    for (; child != NULL; child = spread ? child->next : NULL) {
        bool either = child->kind != MT_MATH_GROUP && has_either(child);
        add_element(list, child, 1);
        if (either) add_element(list, child, -1);
    }
}

/* Of a set, a union, a bare list, or one value: its elements, ± counted twice. */
static struct elements elements_of(const struct mt_math_node *node)
{
    struct elements list = {.count = 0};
    bool spread =
        node->kind == MT_MATH_UNION || (node->kind == MT_MATH_GROUP && (is_bare(node) || node->open == '{'));
    gather(&list, node, spread);
    return list;
}

static bool same_element(struct comparison *all, const struct element *a, const struct element *b)
{
    if (a->node->kind == MT_MATH_GROUP || b->node->kind == MT_MATH_GROUP ||
        a->node->kind == MT_MATH_RELATION || b->node->kind == MT_MATH_RELATION) {
        return same_answer(all, a->node, b->node);
    }
    return same_single(all, a->node, b->node, a->sign, b->sign);
}

/* Every element has a partner of its own on the other side; the first that fits is taken. */
static bool same_unordered(struct comparison *all, const struct mt_math_node *a, const struct mt_math_node *b)
{
    struct elements one = elements_of(a);
    struct elements other = elements_of(b);
    bool used[MOST_ELEMENTS] = {false};
    if (one.count < 0 || one.count != other.count) return false;
    for (int i = 0; i < one.count; i++) {
        int j = 0;
        while (j < other.count && (used[j] || !same_element(all, &one.each[i], &other.each[j]))) j++;
        if (j == other.count) return false;
        used[j] = true;
    }
    return true;
}

static bool same_ordered(struct comparison *all, const struct mt_math_node *a, const struct mt_math_node *b)
{
    // Round and square brackets tell intervals apart; around three things and more they tell nothing.
    bool bare = is_bare(a) || is_bare(b);
    if (a->count != b->count) return false;
    if (a->count == 2 && !bare && (a->open != b->open || a->close != b->close)) return false;
    const struct mt_math_node *other = b->first;
    for (const struct mt_math_node *child = a->first; child != NULL; child = child->next) {
        if (!same_answer(all, child, other)) return false;
        other = other->next;
    }
    return true;
}

static bool is_unordered(const struct mt_math_node *node)
{
    return node->kind == MT_MATH_UNION ||
           (node->kind == MT_MATH_GROUP && (is_bare(node) || node->open == '{')) || has_either(node);
}

// ------------------------------------------------------------------ relations

static struct mt_math_node *new_node(struct comparison *all, enum mt_math_kind kind)
{
    void *memory = NULL;
    enum mt_status status = mt_arena_allocate(all->arena, sizeof(struct mt_math_node), &memory);
    if (status != MT_OK) {
        all->status = status;
        return NULL;
    }
    struct mt_math_node *node = memory;
    node->kind = kind;
    return node;
}

static void adopt(struct mt_math_node *parent, const struct mt_math_node *child)
{
    struct mt_math_node *last = parent->last;
    struct mt_math_node *mine = (struct mt_math_node *)child;
    if (last != NULL) last->next = mine;
    if (parent->first == NULL) parent->first = mine;
    parent->last = mine;
    parent->count++;
}

static const struct mt_math_node *copied(struct comparison *all, const struct mt_math_node *node)
{
    struct mt_math_node *copy = new_node(all, node->kind);
    if (copy == NULL) return NULL;
    *copy = *node;
    copy->next = NULL;
    return copy;
}

static const struct mt_math_node *infinity(struct comparison *all, bool negative)
{
    struct mt_math_node *node = new_node(all, MT_MATH_INFINITY);
    if (node == NULL || !negative) return node;
    struct mt_math_node *minus = new_node(all, MT_MATH_NEGATIVE);
    if (minus != NULL) adopt(minus, node);
    return minus;
}

/* An interval from inequalities in one symbol: x > 3, 1 < x <= 2. NULL: they are none. */
static const struct mt_math_node *interval_of(struct comparison *all, const struct mt_math_node *chain)
{
    const struct mt_math_node *a = chain->first;
    const struct mt_math_node *b = a->next;
    const struct mt_math_node *c = b->next;
    char first = chain->relations[0];
    if (strchr("<>lg", first) == NULL || chain->count > 3) return NULL;
    const struct mt_math_node *low = NULL;
    const struct mt_math_node *high = NULL;
    bool low_closed = false;
    bool high_closed = false;
    if (c == NULL) {
        bool left = a->kind == MT_MATH_SYMBOL;
        if (left == (b->kind == MT_MATH_SYMBOL)) return NULL;
        bool below = left == (first == '<' || first == 'l'); // the symbol is the smaller one
        bool closed = first == 'l' || first == 'g';
        const struct mt_math_node *bound = copied(all, left ? b : a);
        low = below ? infinity(all, true) : bound;
        high = below ? bound : infinity(all, false);
        low_closed = !below && closed;
        high_closed = below && closed;
    } else {
        char second = chain->relations[1];
        bool up = (first == '<' || first == 'l') && (second == '<' || second == 'l');
        bool down = (first == '>' || first == 'g') && (second == '>' || second == 'g');
        if (b->kind != MT_MATH_SYMBOL || (!up && !down)) return NULL;
        low = copied(all, up ? a : c);
        high = copied(all, up ? c : a);
        low_closed = (up ? first : second) == 'l' || (up ? first : second) == 'g';
        high_closed = (up ? second : first) == 'l' || (up ? second : first) == 'g';
    }
    struct mt_math_node *group = new_node(all, MT_MATH_GROUP);
    if (group == NULL || low == NULL || high == NULL) return NULL;
    group->open = low_closed ? '[' : '(';
    group->close = high_closed ? ']' : ')';
    adopt(group, low);
    adopt(group, high);
    return group;
}

/* a = b as a - b. */
static struct mt_exact_form difference(struct mt_exact *exact, const struct mt_math_node *equation)
{
    struct mt_exact_form left = mt_exact_of(exact, equation->first);
    struct mt_exact_form right = mt_exact_of(exact, equation->first->next);
    return mt_exact_subtract(exact, left, right);
}

static bool same_equation(struct comparison *all, const struct mt_math_node *a, const struct mt_math_node *b)
{
    struct mt_exact exact = {.arena = all->arena, .sign = 1};
    struct mt_exact_form left = difference(&exact, a);
    struct mt_exact_form right = difference(&exact, b);
    bool same = !exact.failed && mt_exact_same_zeros(&exact, left, right);
    if (exact.status != MT_OK) all->status = exact.status;
    return same;
}

static char mirrored(char relation)
{
    switch (relation) {
    case '<': return '>';
    case '>': return '<';
    case 'l': return 'g';
    case 'g': return 'l';
    default: return relation;
    }
}

static bool same_relation(struct comparison *all, const struct mt_math_node *a, const struct mt_math_node *b)
{
    bool equations = a->count == 2 && b->count == 2 && a->relations[0] == '=' && b->relations[0] == '=';
    if (equations && same_equation(all, a, b)) return true;
    if (a->count != b->count || all->status != MT_OK) return false;
    bool straight = true;
    const struct mt_math_node *other = b->first;
    int i = 0;
    for (const struct mt_math_node *child = a->first; child != NULL && straight; child = child->next) {
        straight = same_answer(all, child, other);
        straight = straight && (i + 1 >= a->count || a->relations[i] == b->relations[i]);
        other = other->next;
        i++;
    }
    if (straight || a->count != 2) return straight;
    return a->relations[0] == mirrored(b->relations[0]) && same_answer(all, a->first, b->first->next) &&
           same_answer(all, a->first->next, b->first);
}

/* x, f(x), \text{Area}: what an answer may be given a name by. */
static bool is_name(const struct mt_math_node *node)
{
    if (node->kind == MT_MATH_SYMBOL || node->kind == MT_MATH_TEXT) return true;
    if (node->kind != MT_MATH_PRODUCT && node->kind != MT_MATH_GROUP) return false;
    for (const struct mt_math_node *child = node->first; child != NULL; child = child->next) {
        if (!is_name(child)) return false;
    }
    return node->count > 0;
}

/* "x = 3" said where the other side says 3: the last side counts. */
static const struct mt_math_node *value_of_equation(const struct mt_math_node *node)
{
    if (!is_name(node->first)) return NULL;
    for (int i = 0; i + 1 < node->count; i++) {
        if (node->relations[i] != '=') return NULL;
    }
    return node->last;
}

static bool same_with_relation(struct comparison *all, const struct mt_math_node *a,
                               const struct mt_math_node *b)
{
    bool both = a->kind == MT_MATH_RELATION && b->kind == MT_MATH_RELATION;
    if (both && same_relation(all, a, b)) return true;
    const struct mt_math_node *relation = a->kind == MT_MATH_RELATION ? a : b;
    const struct mt_math_node *other = relation == a ? b : a;
    if (both) {
        const struct mt_math_node *one = interval_of(all, a);
        const struct mt_math_node *two = interval_of(all, b);
        return one != NULL && two != NULL && same_answer(all, one, two);
    }
    const struct mt_math_node *value = value_of_equation(relation);
    if (value != NULL) return same_answer(all, value, other);
    const struct mt_math_node *interval = interval_of(all, relation);
    return interval != NULL && same_answer(all, interval, other);
}

// ------------------------------------------------------------------ answers

static bool same_answer(struct comparison *all, const struct mt_math_node *a, const struct mt_math_node *b)
{
    if (a == NULL || b == NULL || all->status != MT_OK || all->depth > 100) return false;
    all->depth++;
    bool same = false;
    bool groups = a->kind == MT_MATH_GROUP && b->kind == MT_MATH_GROUP;
    if (a->kind == MT_MATH_RELATION || b->kind == MT_MATH_RELATION) {
        bool list = is_bare(a) || is_bare(b);
        same = list ? same_unordered(all, a, b) : same_with_relation(all, a, b);
    } else if (groups && !(is_unordered(a) && is_unordered(b))) {
        bool set = a->open == '{' || b->open == '{';
        same =
            set && (is_bare(a) || is_bare(b)) ? same_unordered(all, a, b) : !set && same_ordered(all, a, b);
    } else if (is_unordered(a) || is_unordered(b)) {
        same = same_unordered(all, a, b);
    } else {
        same = same_single(all, a, b, 1, 1);
    }
    all->depth--;
    return same;
}

enum mt_status mt_math_compare(struct mt_context *ctx, const char *one, size_t one_bytes, const char *other,
                               size_t other_bytes, bool *equal, enum mt_math_verdict *verdict)
{
    struct mt_arena arena;
    struct comparison all = {.ctx = ctx, .arena = &arena, .verdict = MT_MATH_EXACTLY};
    struct mt_math_node *left = NULL;
    struct mt_math_node *right = NULL;
    mt_arena_init(&arena, ctx, ARENA_BYTES);
    *equal = false;
    all.status = mt_math_parse(&arena, one, one_bytes, &left);
    if (all.status == MT_OK) all.status = mt_math_parse(&arena, other, other_bytes, &right);
    if (all.status == MT_OK && left != NULL && right != NULL) {
        *equal = same_answer(&all, left, right);
    }
    bool letters = left == NULL || right == NULL || left->kind == MT_MATH_TEXT || right->kind == MT_MATH_TEXT;
    if (all.status == MT_OK && !*equal && letters) {
        *equal = same_letters(&all, one, one_bytes, other, other_bytes);
    }
    mt_arena_free(&arena);
    if (verdict != NULL) *verdict = all.verdict;
    return all.status;
}
