/* Comparing mathematical answers: collections and relations first, single values exactly or by numbers. */
#include "eval/math/answer_math.h"

#include <complex.h>
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "eval/math/exact.h"

#define ARENA_BYTES   65536
#define MOST_ELEMENTS 64
#define CLOSE         1e-9
#define POINTS        5 // at which values without an exact form are compared

struct math_comparison {
    struct mt_context *ctx;
    struct mt_arena *arena;
    enum mt_status status;
    enum mt_math_verdict verdict; // the weakest used
    int depth;
};

static bool same_answer(struct math_comparison *all, const struct mt_math_node *a,
                        const struct mt_math_node *b);

static void weaken(struct math_comparison *all, enum mt_math_verdict verdict)
{
    if (verdict < all->verdict) all->verdict = verdict;
}

static bool same_letters(struct math_comparison *all, const char *a, size_t a_bytes, const char *b,
                         size_t b_bytes)
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

// ------------------------------------------------------------------ values in double

/* Where a variable is evaluated: negative ones, too, or |x| would be x. */
static double complex symbol_value(int symbol, int point)
{
    static const double bases[POINTS] = {0.7310, 1.9270, -0.6130, 3.4410, -2.2870};
    if (symbol == MT_SYMBOL_PI) return acos(-1.0);
    if (symbol == MT_SYMBOL_E) return exp(1.0);
    if (symbol == MT_SYMBOL_I) return I;
    double shift = fmod(symbol * 0.6180339887498949, 1.0);
    return bases[point] * (1.0 + 0.37 * shift);
}

static bool call_value(const struct mt_math_node *node, double complex x, bool two, double complex second,
                       double complex *value)
{
    switch (node->call) {
    case MT_CALL_SQRT:
        *value = csqrt(x);
        if (two && cimag(x) == 0 && creal(x) < 0 && fmod(creal(second), 2.0) == 1.0) {
            *value = -pow(-creal(x), 1.0 / creal(second)); // the real root
        } else if (two) {
            *value = cpow(x, 1.0 / second);
        }
        return true;
    case MT_CALL_ABS: *value = cabs(x); return true;
    case MT_CALL_SIN: *value = csin(x); return true;
    case MT_CALL_COS: *value = ccos(x); return true;
    case MT_CALL_TAN: *value = ctan(x); return true;
    case MT_CALL_COT: *value = 1.0 / ctan(x); return true;
    case MT_CALL_SEC: *value = 1.0 / ccos(x); return true;
    case MT_CALL_CSC: *value = 1.0 / csin(x); return true;
    case MT_CALL_ARCSIN: *value = casin(x); return true;
    case MT_CALL_ARCCOS: *value = cacos(x); return true;
    case MT_CALL_ARCTAN: *value = catan(x); return true;
    case MT_CALL_LOG: *value = two ? clog(x) / clog(second) : clog(x); return true;
    case MT_CALL_EXP: *value = cexp(x); return true;
    case MT_CALL_FLOOR: *value = floor(creal(x)); return cimag(x) == 0;
    case MT_CALL_CEIL: *value = ceil(creal(x)); return cimag(x) == 0;
    }
    return false;
}

/* Combines the values of one or two children. */
static bool combine(const struct mt_math_node *node, int sign, double complex x, bool two, double complex y,
                    double complex *value)
{
    switch (node->kind) {
    case MT_MATH_SUM: *value = x + y; return true;
    case MT_MATH_PRODUCT: *value = x * y; return true;
    case MT_MATH_QUOTIENT: *value = x / y; return true;
    case MT_MATH_POWER: *value = x == 0 && creal(y) > 0 ? 0 : cpow(x, y); return true;
    case MT_MATH_NEGATIVE: *value = -x; return true;
    case MT_MATH_EITHER: *value = (node->flag ? -sign : sign) * x; return true;
    case MT_MATH_CALL: return call_value(node, x, two, y, value);
    case MT_MATH_FACTORIAL: *value = tgamma(creal(x) + 1.0); return cimag(x) == 0;
    case MT_MATH_PERCENT: *value = x / 100.0; return true;
    case MT_MATH_DEGREE: *value = x * acos(-1.0) / 180.0; return true;
    case MT_MATH_UNIT: *value = x; return true;
    case MT_MATH_GROUP: *value = x; return node->count == 1;
    default: return false;
    }
}

/*
 * The value with every variable set to a number of its own, different for each `point`; ± means `sign`.
 * False: the tree has no value (a list, words), or none at this point.
 */
static bool value_at(const struct mt_math_node *node, int point, int sign, double complex *value)
{
    double complex x = 0;
    double complex y = 0;
    if (node == NULL) return false;
    if (node->kind == MT_MATH_NUMBER) {
        *value = node->value;
        return isfinite(node->value);
    }
    if (node->kind == MT_MATH_SYMBOL) {
        *value = symbol_value(node->symbol, point);
        return true;
    }
    if (node->count < 1 || node->count > 2) return false;
    bool two = node->count == 2;
    if (!value_at(node->first, point, sign, &x)) return false;
    if (two && !value_at(node->first->next, point, sign, &y)) return false;
    if (!combine(node, sign, x, two, y, value)) return false;
    return isfinite(creal(*value)) && isfinite(cimag(*value));
}

/* Equal as far as double can tell. */
static bool are_close(double complex a, double complex b)
{
    double size = fmax(fmax(cabs(a), cabs(b)), 1e-6);
    return cabs(a - b) <= CLOSE * size;
}

// ------------------------------------------------------------------ single values

/* Values at points: all must agree, and there must be a value at two of them at least. */
static bool same_numbers(struct math_comparison *all, const struct mt_math_node *a,
                         const struct mt_math_node *b, int a_sign, int b_sign)
{
    int compared = 0;
    for (int point = 0; point < POINTS; point++) {
        double complex one = 0;
        double complex other = 0;
        bool first = value_at(a, point, a_sign, &one);
        bool second = value_at(b, point, b_sign, &other);
        if (first != second) return false;
        if (!first) continue;
        if (!are_close(one, other)) return false;
        compared++;
    }
    weaken(all, MT_MATH_BY_NUMBER);
    return compared >= 2;
}

static bool same_value(struct math_comparison *all, const struct mt_math_node *a,
                       const struct mt_math_node *b, int a_sign, int b_sign)
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

static bool same_single(struct math_comparison *all, const struct mt_math_node *a,
                        const struct mt_math_node *b, int a_sign, int b_sign)
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

static bool same_element(struct math_comparison *all, const struct element *a, const struct element *b)
{
    if (a->node->kind == MT_MATH_GROUP || b->node->kind == MT_MATH_GROUP ||
        a->node->kind == MT_MATH_RELATION || b->node->kind == MT_MATH_RELATION) {
        return same_answer(all, a->node, b->node);
    }
    return same_single(all, a->node, b->node, a->sign, b->sign);
}

/* Every element has a partner of its own on the other side; the first that fits is taken. */
static bool same_unordered(struct math_comparison *all, const struct mt_math_node *a,
                           const struct mt_math_node *b)
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

static bool same_ordered(struct math_comparison *all, const struct mt_math_node *a,
                         const struct mt_math_node *b)
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

/* An interval made of inequalities. Its ends are copies, whose children are borrowed. */
struct interval {
    struct mt_math_node group, low, high, infinity;
};

static bool is_less(char relation)
{
    return relation == '<' || relation == 'l';
}

static bool is_more(char relation)
{
    return relation == '>' || relation == 'g';
}

/* From inequalities in one symbol: x > 3, 1 < x <= 2. False: they are none. */
static bool make_interval(const struct mt_math_node *chain, struct interval *made)
{
    const struct mt_math_node *a = chain->first;
    const struct mt_math_node *b = a->next;
    const struct mt_math_node *c = b->next;
    char first = chain->relations[0];
    char second = chain->relations[1];
    char low = first; // the relations at the two ends
    char high = first;
    if ((!is_less(first) && !is_more(first)) || chain->count > 3) return false;
    *made = (struct interval){.infinity = {.kind = MT_MATH_INFINITY}};
    if (c == NULL) {
        bool left = a->kind == MT_MATH_SYMBOL;
        if (left == (b->kind == MT_MATH_SYMBOL)) return false;
        bool below = left == is_less(first); // the symbol is the smaller one
        const struct mt_math_node minus = {
            .kind = MT_MATH_NEGATIVE, .first = &made->infinity, .last = &made->infinity, .count = 1};
        made->low = below ? minus : *(left ? b : a);
        made->high = below ? *(left ? b : a) : made->infinity;
        if (below) low = '\0';
        if (!below) high = '\0';
    } else {
        bool up = is_less(first) && is_less(second);
        bool down = is_more(first) && is_more(second);
        if (b->kind != MT_MATH_SYMBOL || (!up && !down)) return false;
        made->low = *(up ? a : c);
        made->high = *(up ? c : a);
        low = up ? first : second;
        high = up ? second : first;
    }
    made->low.next = &made->high;
    made->high.next = NULL;
    made->group = (struct mt_math_node){.kind = MT_MATH_GROUP,
                                        .open = low == 'l' || low == 'g' ? '[' : '(',
                                        .close = high == 'l' || high == 'g' ? ']' : ')',
                                        .first = &made->low,
                                        .last = &made->high,
                                        .count = 2};
    return true;
}

/* a = b as a - b. */
static struct mt_exact_form difference(struct mt_exact *exact, const struct mt_math_node *equation)
{
    struct mt_exact_form left = mt_exact_of(exact, equation->first);
    struct mt_exact_form right = mt_exact_of(exact, equation->first->next);
    return mt_exact_subtract(exact, left, right);
}

static bool same_equation(struct math_comparison *all, const struct mt_math_node *a,
                          const struct mt_math_node *b)
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

static bool same_relation(struct math_comparison *all, const struct mt_math_node *a,
                          const struct mt_math_node *b)
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

static bool same_with_relation(struct math_comparison *all, const struct mt_math_node *a,
                               const struct mt_math_node *b)
{
    bool both = a->kind == MT_MATH_RELATION && b->kind == MT_MATH_RELATION;
    if (both && same_relation(all, a, b)) return true;
    const struct mt_math_node *relation = a->kind == MT_MATH_RELATION ? a : b;
    const struct mt_math_node *other = relation == a ? b : a;
    struct interval one;
    struct interval two;
    if (both)
        return make_interval(a, &one) && make_interval(b, &two) && same_answer(all, &one.group, &two.group);
    const struct mt_math_node *value = value_of_equation(relation);
    if (value != NULL) return same_answer(all, value, other);
    return make_interval(relation, &one) && same_answer(all, &one.group, other);
}

// ------------------------------------------------------------------ answers

static bool same_answer(struct math_comparison *all, const struct mt_math_node *a,
                        const struct mt_math_node *b)
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
    struct math_comparison all = {.ctx = ctx, .arena = &arena, .verdict = MT_MATH_EXACTLY};
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
