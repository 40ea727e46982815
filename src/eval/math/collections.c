/* Sets, lists, tuples, intervals, and the values of named variables. */
#include <string.h>

#include "eval/math/compare.h"

#define MOST_ELEMENTS 64

static bool has_either(const struct mt_math_node *node)
{
    if (node == NULL) return false;
    if (node->kind == MT_MATH_EITHER) return true;
    for (const struct mt_math_node *child = node->first; child != NULL; child = child->next) {
        if (has_either(child)) return true;
    }
    return false;
}

/* An element: a tree and what ± means in it. */
struct element {
    const struct mt_math_node *node;
    int sign;
};

struct elements {
    struct element each[MOST_ELEMENTS];
    int count; // -1: too many
};

static void add_element(struct elements *list, const struct mt_math_node *node, int sign)
{
    if (list->count < 0 || list->count == MOST_ELEMENTS) {
        list->count = -1;
    } else {
        list->each[list->count++] = (struct element){.node = node, .sign = sign};
    }
}

static bool is_spread(const struct mt_math_node *node)
{
    return node->kind == MT_MATH_UNION ||
           (node->kind == MT_MATH_GROUP && (mt_math_is_bare(node) || node->open == '{'));
}

/* Of a set, a union, a bare list, or one value: its elements, ± counted twice. `values`: of equations the
 * last side. */
static struct elements elements_of(const struct mt_math_node *node, bool values)
{
    struct elements list = {.count = 0};
    if (values && node->kind == MT_MATH_RELATION && is_spread(node->last)) node = node->last; // S = {1, 2}
    bool spread = is_spread(node);
    const struct mt_math_node *child = spread ? node->first : node;
    for (; child != NULL; child = spread ? child->next : NULL) {
        const struct mt_math_node *value = values && child->kind == MT_MATH_RELATION ? child->last : child;
        add_element(&list, value, 1);
        if (value->kind != MT_MATH_GROUP && has_either(value)) add_element(&list, value, -1);
    }
    return list;
}

/* ± gets its sign: a sum of one thing is that. */
static void set_sign(struct mt_math_node *node, int sign)
{
    if (node->kind == MT_MATH_EITHER) node->kind = node->flag == (sign > 0) ? MT_MATH_NEGATIVE : MT_MATH_SUM;
    for (struct mt_math_node *child = node->first; child != NULL; child = child->next) set_sign(child, sign);
}

/* Equations, of which one has ± and means one of its two. */
static bool same_equations(struct mt_math_comparison *all, const struct element *a, const struct element *b)
{
    struct mt_math_node *one = mt_math_copied(all, a->node);
    struct mt_math_node *other = mt_math_copied(all, b->node);
    if (one == NULL || other == NULL) return false;
    set_sign(one, a->sign);
    set_sign(other, b->sign);
    return mt_math_same_answer(all, one, other);
}

static bool same_element(struct mt_math_comparison *all, const struct element *a, const struct element *b)
{
    if (a->node->kind == MT_MATH_RELATION && b->node->kind == MT_MATH_RELATION &&
        has_either(a->node) != has_either(b->node))
        return same_equations(all, a, b);
    if (a->node->kind == MT_MATH_GROUP || b->node->kind == MT_MATH_GROUP ||
        a->node->kind == MT_MATH_RELATION || b->node->kind == MT_MATH_RELATION) {
        return mt_math_same_answer(all, a->node, b->node);
    }
    return mt_math_same_single(all, a->node, b->node, a->sign, b->sign);
}

/* Every element has one on the other side; `own`: one that is no other's. The first that fits is taken. */
static bool each_found(struct mt_math_comparison *all, const struct elements *one,
                       const struct elements *other, bool own)
{
    bool used[MOST_ELEMENTS] = {false};
    for (int i = 0; i < one->count; i++) {
        int j = 0;
        while (j < other->count && (used[j] || !same_element(all, &one->each[i], &other->each[j]))) j++;
        if (j == other->count) return false;
        used[j] = own;
    }
    return true;
}

static bool same_elements(struct mt_math_comparison *all, const struct mt_math_node *a,
                          const struct mt_math_node *b, bool values)
{
    struct elements one = elements_of(a, values);
    struct elements other = elements_of(b, values);
    if (one.count < 0 || other.count < 0) return false;
    // What is in a set twice is there once; and one answer may be given in two forms, "7/2 or 3.5".
    bool sets = a->open == '{' || b->open == '{' || one.count == 1 || other.count == 1;
    if (sets) return each_found(all, &one, &other, false) && each_found(all, &other, &one, false);
    return one.count == other.count && each_found(all, &one, &other, true);
}

bool mt_math_same_unordered(struct mt_math_comparison *all, const struct mt_math_node *a,
                            const struct mt_math_node *b)
{
    return same_elements(all, a, b, false);
}

bool mt_math_same_ordered(struct mt_math_comparison *all, const struct mt_math_node *a,
                          const struct mt_math_node *b)
{
    // Round and square brackets tell intervals apart; around three things and more they tell nothing.
    bool bare = mt_math_is_bare(a) || mt_math_is_bare(b);
    if (a->count != b->count || (a->open == ':') != (b->open == ':')) return false;
    if (a->count == 2 && bare && (a->open == '[' || b->open == '[' || a->close == ']' || b->close == ']'))
        return false;
    if (a->count == 2 && !bare && (a->open != b->open || a->close != b->close)) return false;
    return mt_math_same_children(all, a, b);
}

bool mt_math_is_unordered(const struct mt_math_node *node)
{
    return is_spread(node) || (node->kind != MT_MATH_GROUP && has_either(node));
}

// ------------------------------------------------------------------ named values

/* Variables and their values, by the variables' order. */
struct named_values {
    int64_t symbols[MOST_ELEMENTS];
    const struct mt_math_node *values[MOST_ELEMENTS];
    int count;
    int64_t letter;  // of the first
    bool one_letter; // the names are x, x or x_1, x_2: values of one thing
};

static bool add_named(struct named_values *list, const struct mt_math_node *name,
                      const struct mt_math_node *value)
{
    if (name->kind != MT_MATH_SYMBOL || list->count == MOST_ELEMENTS) return false;
    int at = list->count++;
    for (; at > 0 && list->symbols[at - 1] > name->symbol; at--) {
        list->symbols[at] = list->symbols[at - 1];
        list->values[at] = list->values[at - 1];
    }
    list->symbols[at] = name->symbol;
    list->values[at] = value;
    if (list->count == 1) list->letter = name->symbol % 1000;
    list->one_letter = list->one_letter && list->letter == name->symbol % 1000;
    return true;
}

static bool is_equation(const struct mt_math_node *node)
{
    if (node->kind != MT_MATH_RELATION) return false;
    for (int i = 0; i + 1 < node->count; i++) {
        if (node->relations[i] != '=') return false;
    }
    return true;
}

/* "a=1, b=2", "(a,b)=(1,2)" and "x=1, 2"; a single "x=±3" counts as well. False: something else. */
static bool read_named(const struct mt_math_node *node, struct named_values *list)
{
    *list = (struct named_values){.one_letter = true};
    if (is_equation(node)) {
        bool symbols = node->count > 2; // x = y = 1 names both
        for (const struct mt_math_node *name = node->first; name != node->last; name = name->next)
            symbols = symbols && name->kind == MT_MATH_SYMBOL;
        for (const struct mt_math_node *name = node->first; symbols && name != node->last;
             name = name->next) {
            if (!add_named(list, name, node->last)) return false;
        }
        if (symbols) return true;
        if (node->first->kind == MT_MATH_SYMBOL) return add_named(list, node->first, node->last);
        if (node->first->kind != MT_MATH_GROUP || node->last->kind != MT_MATH_GROUP ||
            node->first->count != node->last->count || node->count != 2)
            return false;
        const struct mt_math_node *value = node->last->first;
        for (const struct mt_math_node *name = node->first->first; name != NULL; name = name->next) {
            if (!add_named(list, name, value)) return false;
            value = value->next;
        }
        return true;
    }
    if (!mt_math_is_bare(node)) return false;
    const struct mt_math_node *name = node->first->first; // of "x = 2, -2" for both
    for (const struct mt_math_node *child = node->first; child != NULL; child = child->next) {
        bool equation = is_equation(child);
        if (equation) name = child->first;
        if ((!equation && (child->kind == MT_MATH_RELATION || !is_equation(node->first))) ||
            !add_named(list, name, equation ? child->last : child))
            return false;
    }
    return list->count > 0;
}

/* Distinct names: the values in their order against those of a tuple or a list. */
static bool same_as_tuple(struct mt_math_comparison *all, const struct named_values *named,
                          const struct mt_math_node *tuple)
{
    if (tuple->kind != MT_MATH_GROUP || tuple->open == '{' || tuple->count != named->count) return false;
    const struct mt_math_node *child = tuple->first;
    for (int i = 0; i < named->count; i++) {
        if (!mt_math_same_answer(all, named->values[i], child)) return false;
        child = child->next;
    }
    return true;
}

static bool same_named(struct mt_math_comparison *all, const struct named_values *a,
                       const struct named_values *b)
{
    if (a->count != b->count) return false;
    for (int i = 0; i < a->count; i++) {
        if (a->symbols[i] != b->symbols[i] || !mt_math_same_answer(all, a->values[i], b->values[i]))
            return false;
    }
    return true;
}

bool mt_math_compare_named(struct mt_math_comparison *all, const struct mt_math_node *a,
                           const struct mt_math_node *b, bool *same)
{
    struct named_values one;
    struct named_values other;
    bool first = read_named(a, &one);
    bool second = read_named(b, &other);
    if (!first && !second) return false;
    // "x=1 or y=2" does not say both.
    bool choice_a = first && a->flag && !one.one_letter;
    bool choice_b = second && b->flag && !other.one_letter;
    if (choice_a || choice_b) {
        *same = choice_a && choice_b && same_named(all, &one, &other);
        return true;
    }
    if (first && second) {
        bool letters = one.one_letter && other.one_letter && one.symbols[0] % 1000 == other.symbols[0] % 1000;
        if (one.count == 1 && other.count == 1 && !has_either(a) && !has_either(b)) return false;
        *same = letters ? same_elements(all, a, b, true) : same_named(all, &one, &other);
        return true;
    }
    const struct named_values *named = first ? &one : &other;
    const struct mt_math_node *values = first ? a : b;
    const struct mt_math_node *plain = first ? b : a;
    bool several = named->count > 1 || has_either(values) || mt_math_is_unordered(plain);
    if (!several || plain->kind == MT_MATH_RELATION) return false;
    if (values->kind == MT_MATH_RELATION && values->count > 2 && plain->kind != MT_MATH_GROUP)
        return false; // S = n = 5
    *same = named->one_letter ? same_elements(all, values, plain, true) : same_as_tuple(all, named, plain);
    return true;
}
