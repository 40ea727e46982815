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
    bool groups = a->kind == MT_MATH_GROUP && b->kind == MT_MATH_GROUP;
    bool unordered = mt_math_is_unordered(a) || mt_math_is_unordered(b);
    if (a->kind == MT_MATH_RELATION || b->kind == MT_MATH_RELATION) {
        bool list = mt_math_is_bare(a) || mt_math_is_bare(b);
        return list ? mt_math_same_unordered(all, a, b) : mt_math_same_with_relation(all, a, b);
    }
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
