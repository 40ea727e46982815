/* Equations and inequalities. */
#include <string.h>

#include "eval/math/compare.h"

/* a = b as a - b. */
static bool difference(struct mt_math_comparison *all, const struct mt_math_node *equation,
                       struct mt_value *value)
{
    struct mt_value right;
    if (!mt_math_begin(all) || !mt_math_value_at(&all->point, equation->first, value) ||
        !mt_math_value_at(&all->point, equation->first->next, &right))
        return false;
    *value = mt_value_subtract(&all->point.numbers, value, &right);
    return !all->point.numbers.failed;
}

static bool has_unit(const struct mt_math_node *node)
{
    bool found = node->kind == MT_MATH_UNIT;
    for (const struct mt_math_node *child = node->first; child != NULL && !found; child = child->next)
        found = has_unit(child);
    return found;
}

/* The sides' differences are a multiple of each other: at all points by the same number, or both are 0 there.
 * Those that are the same number everywhere are no equation for anything. Where both have units, x = 5 km,
 * their sides are compared. */
static bool same_equation(struct mt_math_comparison *all, const struct mt_math_node *a,
                          const struct mt_math_node *b)
{
    struct mt_math_point *point = &all->point;
    struct mt_numbers *numbers = &point->numbers;
    bool constant = true;
    int compared = 0;
    int multiples = 0;
    struct mt_value first_a;
    struct mt_value first_b;
    if (has_unit(a) && has_unit(b)) return false;
    point->sign = 1;
    point->real = false;
    for (point->index = 0; point->index < MT_MATH_POINTS; point->index++) {
        struct mt_value one;
        struct mt_value other;
        if (!difference(all, a, &one) || !difference(all, b, &other)) continue;
        if (mt_value_is_zero(&one) != mt_value_is_zero(&other)) return false;
        compared++;
        if (mt_value_is_zero(&one)) continue;
        if (multiples++ == 0) {
            first_a = one;
            first_b = other;
        }
        constant = constant && mt_value_same(numbers, &one, &first_a);
        one = mt_value_multiply(numbers, &one, &first_b);
        other = mt_value_multiply(numbers, &other, &first_a);
        if (!mt_value_same(numbers, &one, &other)) return false;
    }
    if (constant && multiples > 0 && !mt_value_same(numbers, &first_a, &first_b)) return false;
    return compared > 2 && multiples != 1;
}

char mt_math_mirrored(char relation)
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

/* f(x) */
static bool is_application(const struct mt_math_node *node)
{
    return node->kind == MT_MATH_PRODUCT && node->count == 2 && node->first->kind == MT_MATH_SYMBOL &&
           node->last->kind == MT_MATH_SYMBOL;
}

static bool is_chain(const struct mt_math_node *node)
{
    for (int i = 0; i + 1 < node->count; i++) {
        if (node->relations[i] != '=') return false;
    }
    return node->count > 2;
}

/* A chain of equations as its ends; what is no chain stays. */
static const struct mt_math_node *shortened(const struct mt_math_node *node, struct mt_math_node made[2])
{
    if (!is_chain(node)) return node;
    made[1] = *node->first;
    made[1].next = node->last;
    made[0] = *node;
    made[0].first = &made[1];
    made[0].count = 2;
    return &made[0];
}

static bool same_relation(struct mt_math_comparison *all, const struct mt_math_node *a,
                          const struct mt_math_node *b)
{
    bool equations = a->count == 2 && b->count == 2 && a->relations[0] == '=' && b->relations[0] == '=';
    if (equations && same_equation(all, a, b)) return true;
    if (equations && (are_graphs(a->first, b->first) || are_graphs(b->first, a->first)))
        return mt_math_same_answer(all, a->last, b->last);
    if (is_chain(a) != is_chain(b)) { // y = 2·3x = 6x: the first side and the last
        struct mt_math_node ends[2];
        const struct mt_math_node *left = shortened(a, ends); // only one of the two is a chain
        const struct mt_math_node *right = shortened(b, ends);
        return same_relation(all, left, right);
    }
    if (equations && is_application(a->first) && is_application(b->first) &&
        a->first->first->symbol == b->first->first->symbol) {
        struct mt_math_node *renamed =
            mt_math_renamed(all, b->last, b->first->last->symbol, a->first->last->symbol);
        return renamed != NULL && mt_math_same_answer(all, a->last, renamed);
    }
    if (a->count != b->count || mt_math_is_broken(all)) return false;
    size_t signs = a->count > 0 ? (size_t)a->count - 1 : 0;
    bool straight = memcmp(a->relations, b->relations, signs) == 0 && mt_math_same_children(all, a, b);
    if (straight || a->count != 2) return straight;
    return a->relations[0] == mt_math_mirrored(b->relations[0]) &&
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
        if (node->first->kind == MT_MATH_POWER && node->first->first->kind == MT_MATH_SYMBOL &&
            node->first->last->kind == MT_MATH_NEGATIVE)
            return true; // f^{-1}(x)
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

/* A^{-1} = and A^T = a matrix, A \cup B = a set: names, though not by themselves. */
static bool names_group(const struct mt_math_node *equation)
{
    const struct mt_math_node *first = equation->first;
    if (equation->last->kind != MT_MATH_GROUP) return false;
    if (first->kind == MT_MATH_UNION)
        return first->first->kind == MT_MATH_SYMBOL && first->last->kind == MT_MATH_SYMBOL;
    return first->kind == MT_MATH_POWER && first->first->kind == MT_MATH_SYMBOL &&
           first->last->kind != MT_MATH_NUMBER && equation->last->open == '(';
}

/* "x = 3" said where the other side says 3; "20 - 12 = 8" for 8; "x = 1/3 ≈ 0.33" for either. */
static bool same_as_value(struct mt_math_comparison *all, const struct mt_math_node *equation,
                          const struct mt_math_node *other)
{
    bool named = mt_math_is_name(equation->first) || names_group(equation);
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
    bool same = false;
    bool both = a->kind == MT_MATH_RELATION && b->kind == MT_MATH_RELATION;
    if (both && mt_math_is_unordered(a) != mt_math_is_unordered(b)) // f(x) = ±x are two
        return mt_math_same_unordered(all, a, b);
    if (both && same_relation(all, a, b)) return true;
    const struct mt_math_node *relation = a->kind == MT_MATH_RELATION ? a : b;
    if (!both && same_as_value(all, relation, relation == a ? b : a)) return true;
    return mt_math_compare_sets(all, a, b, &same) && same;
}
