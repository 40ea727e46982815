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

static bool same_by_kind(struct mt_math_comparison *all, const struct mt_math_node *a,
                         const struct mt_math_node *b)
{
    bool same = false;
    bool groups = a->kind == MT_MATH_GROUP && b->kind == MT_MATH_GROUP;
    bool unordered = mt_math_is_unordered(a) || mt_math_is_unordered(b);
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

struct mt_math_node *mt_math_renamed(struct mt_math_comparison *all, const struct mt_math_node *node,
                                     int64_t from, int64_t to)
{
    struct mt_numbers *numbers = &all->exact.numbers;
    struct mt_math_node *copy = mt_arena_array(numbers->arena, 1, sizeof *copy, &numbers->status);
    if (copy == NULL) return NULL;
    *copy = *node;
    copy->first = copy->last = copy->next = NULL;
    if (copy->kind == MT_MATH_SYMBOL && copy->symbol == from) copy->symbol = to;
    for (const struct mt_math_node *child = node->first; child != NULL; child = child->next) {
        struct mt_math_node *part = mt_math_renamed(all, child, from, to);
        if (part == NULL) return NULL;
        if (copy->last != NULL) copy->last->next = part;
        if (copy->first == NULL) copy->first = part;
        copy->last = part;
    }
    return copy;
}
