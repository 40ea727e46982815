/* Which comparison two trees need. */
#include "eval/math/compare.h"

#define MOST_DEPTH 100

static bool same_groups(struct mt_math_comparison *all, const struct mt_math_node *a,
                        const struct mt_math_node *b)
{
    bool set = a->open == '{' || b->open == '{';
    if (set && (mt_math_is_bare(a) || mt_math_is_bare(b))) return mt_math_same_unordered(all, a, b);
    return !set && mt_math_same_ordered(all, a, b);
}

/* Of i, j and k one is 1 and the others are 0. */
static void set_units(struct mt_math_comparison *all, struct mt_math_node *node, int64_t unit)
{
    if (node->kind == MT_MATH_SYMBOL && node->symbol >= 'i' && node->symbol <= 'k') {
        node->kind = MT_MATH_NUMBER;
        node->number = mt_rational_make(&all->exact.numbers, node->symbol == unit ? 1 : 0, 1);
    }
    for (struct mt_math_node *child = node->first; child != NULL; child = child->next)
        set_units(all, child, unit);
}

/* A column or a tuple against 3i - 2j + k. */
static bool same_vector(struct mt_math_comparison *all, const struct mt_math_node *tuple,
                        const struct mt_math_node *sum)
{
    int64_t unit = 'i';
    bool units =
        mt_math_has_symbol(sum, 'j') || (mt_math_has_symbol(sum, 'i') && mt_math_has_symbol(sum, 'k'));
    if (tuple->kind != MT_MATH_GROUP || tuple->open != '(' || tuple->close != ')') return false;
    if (tuple->count < 2 || tuple->count > 3 || sum->kind != MT_MATH_SUM || !units) return false;
    if (tuple->count == 2 && mt_math_has_symbol(sum, 'k')) return false;
    for (const struct mt_math_node *child = tuple->first; child != NULL; child = child->next) {
        struct mt_math_node *part = mt_math_copied(all, sum);
        if (part == NULL || !mt_math_begin_exact(all)) return false;
        set_units(all, part, unit++);
        if (!mt_math_same_answer(all, part, child)) return false;
    }
    return true;
}

static bool same_by_kind(struct mt_math_comparison *all, const struct mt_math_node *a,
                         const struct mt_math_node *b)
{
    bool same = false;
    bool groups = a->kind == MT_MATH_GROUP && b->kind == MT_MATH_GROUP;
    bool unordered = mt_math_is_unordered(a) || mt_math_is_unordered(b);
    if (!groups && (same_vector(all, a, b) || same_vector(all, b, a))) return true;
    if (a->kind == MT_MATH_RELATION || b->kind == MT_MATH_RELATION) {
        bool list = mt_math_is_bare(a) || mt_math_is_bare(b);
        if (!list) return mt_math_same_with_relation(all, a, b);
        return (mt_math_compare_sets(all, a, b, &same) && same) || mt_math_same_unordered(all, a, b);
    }
    if (mt_math_is_bare(a) != mt_math_is_bare(b) && mt_math_compare_sets(all, a, b, &same) && same)
        return true;
    if (groups && !(mt_math_is_unordered(a) && mt_math_is_unordered(b))) return same_groups(all, a, b);
    return unordered ? mt_math_same_unordered(all, a, b) : mt_math_same_single(all, a, b, 1, 1);
}

bool mt_math_same_answer(struct mt_math_comparison *all, const struct mt_math_node *a,
                         const struct mt_math_node *b)
{
    bool same = false;
    if (a == NULL || b == NULL || mt_math_is_broken(all) || all->depth > MOST_DEPTH) return false;
    all->depth++;
    if (!mt_math_compare_named(all, a, b, &same)) same = same_by_kind(all, a, b);
    all->depth--;
    return same;
}

struct mt_math_node *mt_math_copied(struct mt_math_comparison *all, const struct mt_math_node *node)
{
    struct mt_numbers *numbers = &all->exact.numbers;
    struct mt_math_node *copy = mt_arena_array(numbers->arena, 1, sizeof *copy, &numbers->status);
    if (copy == NULL) return NULL;
    *copy = *node;
    copy->first = copy->last = copy->next = NULL;
    for (const struct mt_math_node *child = node->first; child != NULL; child = child->next) {
        struct mt_math_node *part = mt_math_copied(all, child);
        if (part == NULL) return NULL;
        if (copy->last != NULL) copy->last->next = part;
        if (copy->first == NULL) copy->first = part;
        copy->last = part;
    }
    return copy;
}

static void rename_in(struct mt_math_node *node, int64_t from, int64_t to)
{
    if (node->kind == MT_MATH_SYMBOL && node->symbol == from) node->symbol = to;
    for (struct mt_math_node *child = node->first; child != NULL; child = child->next)
        rename_in(child, from, to);
}

struct mt_math_node *mt_math_renamed(struct mt_math_comparison *all, const struct mt_math_node *node,
                                     int64_t from, int64_t to)
{
    struct mt_math_node *copy = mt_math_copied(all, node);
    if (copy != NULL) rename_in(copy, from, to);
    return copy;
}

bool mt_math_has_symbol(const struct mt_math_node *node, int64_t symbol)
{
    bool found = node->kind == MT_MATH_SYMBOL && node->symbol == symbol;
    for (const struct mt_math_node *child = node->first; child != NULL && !found; child = child->next)
        found = mt_math_has_symbol(child, symbol);
    return found;
}
