/*
 * The parts of a comparison of two answers:
 *
 *     math/answer_math.c    texts: equal as they stand, a choice's letter before an answer, words; and
 *                           which of the following two trees are
 *     math/collections.c    sets, lists, tuples, intervals, the values of named variables
 *     math/relations.c      equations and inequalities
 *     math/sets.c           the sets that inequalities describe
 *     math/single.c         single values, with what stands around them
 */
#ifndef MT_EVAL_MATH_COMPARE_H
#define MT_EVAL_MATH_COMPARE_H

#include "eval/math/answer_math.h"
#include "eval/math/value.h"

struct mt_math_comparison {
    struct mt_context *ctx;
    struct mt_math_point point; // with the arena, and the status
    int64_t spent;              // work of all values so far
    int depth;
};

static inline bool mt_math_is_broken(const struct mt_math_comparison *all)
{
    return all->point.numbers.status != MT_OK;
}

bool mt_math_same_answer(struct mt_math_comparison *all, const struct mt_math_node *a,
                         const struct mt_math_node *b);

/* Child by child; both have as many. */
bool mt_math_same_children(struct mt_math_comparison *all, const struct mt_math_node *a,
                           const struct mt_math_node *b);

/* Two texts by their letters. */
bool mt_math_same_letters(struct mt_math_comparison *all, const char *a, size_t a_bytes, const char *b,
                          size_t b_bytes);

/* Makes ready for another value; false: there was too much work already. */
bool mt_math_begin(struct mt_math_comparison *all);

/* True when both are the same tree, node by node. */
bool mt_math_same_tree(const struct mt_math_node *a, const struct mt_math_node *b);

/* Single values; ± means the signs. */
bool mt_math_same_single(struct mt_math_comparison *all, const struct mt_math_node *a,
                         const struct mt_math_node *b, int a_sign, int b_sign);

/* A list without brackets. */
static inline bool mt_math_is_bare(const struct mt_math_node *node)
{
    return node->kind == MT_MATH_GROUP && node->open == '\0';
}

/* A list, a set, a union, or a value with ±. */
bool mt_math_is_unordered(const struct mt_math_node *node);

bool mt_math_same_unordered(struct mt_math_comparison *all, const struct mt_math_node *a,
                            const struct mt_math_node *b);
bool mt_math_same_ordered(struct mt_math_comparison *all, const struct mt_math_node *a,
                          const struct mt_math_node *b);

/*
 * Answers of which one at least gives names to several values, or several values to a name: a=1, b=2 and
 * x=3 or x=-3. False, and *same is not set: neither does.
 */
bool mt_math_compare_named(struct mt_math_comparison *all, const struct mt_math_node *a,
                           const struct mt_math_node *b, bool *same);

/* Answers of which one at least is made of inequalities in one variable: as the sets they describe. False,
 * and *same is not set: neither is, or not that simple. */
bool mt_math_compare_sets(struct mt_math_comparison *all, const struct mt_math_node *a,
                          const struct mt_math_node *b, bool *same);

/* Two answers of which one at least is a relation. */
bool mt_math_same_with_relation(struct mt_math_comparison *all, const struct mt_math_node *a,
                                const struct mt_math_node *b);

/* A copy, and one with a variable under another name; NULL for want of memory. */
struct mt_math_node *mt_math_copied(struct mt_math_comparison *all, const struct mt_math_node *node);
struct mt_math_node *mt_math_renamed(struct mt_math_comparison *all, const struct mt_math_node *node,
                                     int64_t from, int64_t to);

bool mt_math_has_symbol(const struct mt_math_node *node, int64_t symbol);

/* x, f(2), a+b, \text{Area}: what an answer may be given a name by. */
bool mt_math_is_name(const struct mt_math_node *node);

/* A relation read from the other side: '<' for '>', 'l' (at most) for 'g' (at least); others stay. */
char mt_math_mirrored(char relation);

#endif
