/* Equations and inequalities. */
#include "eval/math/compare.h"

/* An interval made of inequalities. Its ends are copies, whose children are borrowed. */
struct interval {
    struct mt_math_node group, low, high, infinity;
    int64_t symbol; // what lies in it
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
        made->symbol = (left ? a : b)->symbol;
        made->low = below ? minus : *(left ? b : a);
        made->high = below ? *(left ? b : a) : made->infinity;
        if (below) low = '\0';
        if (!below) high = '\0';
    } else {
        bool up = is_less(first) && is_less(second);
        bool down = is_more(first) && is_more(second);
        if (b->kind != MT_MATH_SYMBOL || (!up && !down)) return false;
        made->symbol = b->symbol;
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
    return exact->numbers.failed ? left : mt_exact_subtract(exact, left, right);
}

static bool same_equation(struct mt_math_comparison *all, const struct mt_math_node *a,
                          const struct mt_math_node *b)
{
    struct mt_exact *exact = &all->exact;
    if (!mt_math_begin_exact(all)) return false;
    exact->point = 0;
    exact->sign = 1;
    struct mt_exact_form left = difference(exact, a);
    struct mt_exact_form right = difference(exact, b);
    return !exact->numbers.failed && mt_exact_same_zeros(exact, left, right);
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

/* y = 2x and f(x) = 2x name the same thing. */
static bool are_graphs(const struct mt_math_node *a, const struct mt_math_node *b)
{
    bool y = a->kind == MT_MATH_SYMBOL && a->symbol == 'y';
    return y && b->kind == MT_MATH_PRODUCT && b->count == 2 && b->first->kind == MT_MATH_SYMBOL &&
           b->last->kind == MT_MATH_SYMBOL && b->last->symbol == 'x';
}

static bool same_relation(struct mt_math_comparison *all, const struct mt_math_node *a,
                          const struct mt_math_node *b)
{
    bool equations = a->count == 2 && b->count == 2 && a->relations[0] == '=' && b->relations[0] == '=';
    if (equations && same_equation(all, a, b)) return true;
    if (equations && (are_graphs(a->first, b->first) || are_graphs(b->first, a->first)))
        return mt_math_same_answer(all, a->last, b->last);
    if (a->count != b->count || mt_math_is_broken(all)) return false;
    bool straight = true;
    const struct mt_math_node *other = b->first;
    int i = 0;
    for (const struct mt_math_node *child = a->first; child != NULL && straight; child = child->next) {
        straight = mt_math_same_answer(all, child, other);
        straight = straight && (i + 1 >= a->count || a->relations[i] == b->relations[i]);
        other = other->next;
        i++;
    }
    if (straight || a->count != 2) return straight;
    return a->relations[0] == mirrored(b->relations[0]) &&
           mt_math_same_answer(all, a->first, b->first->next) &&
           mt_math_same_answer(all, a->first->next, b->first);
}

// ------------------------------------------------------------------ names

/* What a sum's terms hold. */
struct sum_parts {
    int symbols;
    bool numbers; // coefficients or powers
    bool plane;   // x, y or z, of which equations are written
};

/* A term with a symbol in it. */
static bool read_term(const struct mt_math_node *node, struct sum_parts *parts)
{
    bool any = false;
    switch (node->kind) {
    case MT_MATH_SYMBOL:
        parts->symbols++;
        parts->plane = parts->plane || (node->symbol >= 'x' && node->symbol <= 'z');
        return true;
    case MT_MATH_NUMBER: parts->numbers = true; return false;
    case MT_MATH_POWER:
    case MT_MATH_QUOTIENT: parts->numbers = true; return read_term(node->first, parts);
    case MT_MATH_NEGATIVE: return read_term(node->first, parts);
    case MT_MATH_PRODUCT:
        for (const struct mt_math_node *child = node->first; child != NULL; child = child->next)
            any = read_term(child, parts) || any;
        return any;
    default: return mt_math_is_name(node);
    }
}

static bool read_sum(const struct mt_math_node *node, struct sum_parts *parts)
{
    if (node->kind != MT_MATH_SUM) return read_term(node, parts);
    for (const struct mt_math_node *child = node->first; child != NULL; child = child->next) {
        if (!read_sum(child, parts)) return false;
    }
    return true;
}

/*
 * A function of something, f(2) or P(A), a length AB, a quotient of names, a sine. A sum, m+n or 2a+3b, is
 * the question's own name for the answer; of x and y it may be the equation of a line, so that there only x+y
 * is.
 */
bool mt_math_is_name(const struct mt_math_node *node)
{
    struct sum_parts parts = {0};
    switch (node->kind) {
    case MT_MATH_SYMBOL:
    case MT_MATH_TEXT: return true;
    case MT_MATH_PRODUCT:
        if (node->first->kind == MT_MATH_SYMBOL && node->count == 2) return true;
        break;
    case MT_MATH_GROUP:
    case MT_MATH_QUOTIENT: break;
    case MT_MATH_CALL:
        if (node->call == MT_CALL_SQRT || node->call == MT_CALL_LOG || node->call == MT_CALL_EXP)
            return false;
        if (node->call == MT_CALL_ABS && node->first->kind == MT_MATH_SYMBOL) return false; // |x| = 5 is ±5
        break;
    case MT_MATH_SUM: return read_sum(node, &parts) && parts.symbols >= 2 && !(parts.numbers && parts.plane);
    default: return false;
    }
    for (const struct mt_math_node *child = node->first; child != NULL; child = child->next) {
        if (!mt_math_is_name(child)) return false;
    }
    return node->count > 0;
}

/* "x = 3" said where the other side says 3; "20 - 12 = 8" for 8; "x = 1/3 ≈ 0.33" for either. */
static bool same_as_value(struct mt_math_comparison *all, const struct mt_math_node *equation,
                          const struct mt_math_node *other)
{
    bool named = mt_math_is_name(equation->first);
    bool about = false;
    for (int i = 0; i + 1 < equation->count; i++) {
        if (equation->relations[i] != '=' && equation->relations[i] != 'a') return false;
        about = about || equation->relations[i] == 'a';
    }
    const struct mt_math_node *side = named ? equation->first->next : equation->first;
    for (; about && side != NULL; side = side->next) {
        if (mt_math_same_answer(all, side, other)) return true;
    }
    if (about) return false;
    // Without a name both sides must be the value, or it is an equation for something.
    if (!named && !mt_math_same_answer(all, equation->first, other)) return false;
    return mt_math_same_answer(all, equation->last, other);
}

bool mt_math_same_with_relation(struct mt_math_comparison *all, const struct mt_math_node *a,
                                const struct mt_math_node *b)
{
    struct interval one;
    struct interval two;
    bool both = a->kind == MT_MATH_RELATION && b->kind == MT_MATH_RELATION;
    if (both) {
        if (same_relation(all, a, b)) return true;
        return make_interval(a, &one) && make_interval(b, &two) && one.symbol == two.symbol &&
               mt_math_same_answer(all, &one.group, &two.group);
    }
    const struct mt_math_node *relation = a->kind == MT_MATH_RELATION ? a : b;
    const struct mt_math_node *other = relation == a ? b : a;
    if (same_as_value(all, relation, other)) return true;
    return make_interval(relation, &one) && mt_math_same_answer(all, &one.group, other);
}
