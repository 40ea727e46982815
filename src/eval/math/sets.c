/* The sets of numbers that inequalities describe. */
#include "eval/math/compare.h"
#include "eval/math/nodes.h"

/* What is being made, and of which variable. */
struct making {
    struct mt_math_parser parser; // without a text
    int64_t symbol;
};

/* A node over one or two copies. */
static struct mt_math_node *made(struct making *all, enum mt_math_kind kind, const struct mt_math_node *one,
                                 const struct mt_math_node *other)
{
    struct mt_math_node *first = mt_node_copy(&all->parser, one);
    struct mt_math_node *node = mt_node_wrap(&all->parser, kind, first);
    if (other != NULL) mt_node_adopt(node, mt_node_copy(&all->parser, other));
    return all->parser.failed ? NULL : node;
}

static const struct mt_math_node infinity = {.kind = MT_MATH_INFINITY};

/* From low to high, NULL: without end; the ends belong to it or not. */
static struct mt_math_node *interval(struct making *all, const struct mt_math_node *low, bool with_low,
                                     const struct mt_math_node *high, bool with_high)
{
    if (low == NULL) low = made(all, MT_MATH_NEGATIVE, &infinity, NULL);
    if (low == NULL) return NULL;
    struct mt_math_node *group = made(all, MT_MATH_GROUP, low, high != NULL ? high : &infinity);
    if (group == NULL) return NULL;
    group->open = with_low ? '[' : '(';
    group->close = with_high ? ']' : ')';
    return group;
}

static bool is_less(char relation)
{
    return relation == '<' || relation == 'l';
}

static bool is_more(char relation)
{
    return relation == '>' || relation == 'g';
}

static bool with_end(char relation)
{
    return relation == 'l' || relation == 'g';
}

/* x R bound: an interval, or for ≠ two. */
static struct mt_math_node *half_line(struct making *all, char relation, const struct mt_math_node *bound)
{
    if (is_less(relation)) return interval(all, NULL, false, bound, with_end(relation));
    if (is_more(relation)) return interval(all, bound, with_end(relation), NULL, false);
    if (relation != 'n') return NULL;
    struct mt_math_node *below = interval(all, NULL, false, bound, false);
    struct mt_math_node *above = interval(all, bound, false, NULL, false);
    return below != NULL && above != NULL ? made(all, MT_MATH_UNION, below, above) : NULL;
}

/* |x| R bound. */
static struct mt_math_node *around_zero(struct making *all, char relation, const struct mt_math_node *bound)
{
    const struct mt_math_node *minus = made(all, MT_MATH_NEGATIVE, bound, NULL);
    bool with = with_end(relation);
    if (minus == NULL) return NULL;
    if (is_less(relation)) return interval(all, minus, with, bound, with);
    if (!is_more(relation)) return NULL;
    struct mt_math_node *below = interval(all, NULL, false, minus, with);
    struct mt_math_node *above = interval(all, bound, with, NULL, false);
    return below != NULL && above != NULL ? made(all, MT_MATH_UNION, below, above) : NULL;
}

/* Of one chain: x > 3, 1 < x <= 2, |x| < 5, x ≠ 0. */
static struct mt_math_node *chain_set(struct making *all, const struct mt_math_node *chain)
{
    const struct mt_math_node *a = chain->first;
    const struct mt_math_node *b = a->next;
    const struct mt_math_node *c = b->next;
    char first = chain->relations[0];
    char second = chain->relations[1];
    if (chain->count == 3) {
        bool up = is_less(first) && is_less(second);
        bool down = is_more(first) && is_more(second);
        if (b->kind != MT_MATH_SYMBOL || (!up && !down)) return NULL;
        all->symbol = b->symbol;
        return up ? interval(all, a, with_end(first), c, with_end(second))
                  : interval(all, c, with_end(second), a, with_end(first));
    }
    if (chain->count != 2) return NULL;
    bool left = a->kind == MT_MATH_SYMBOL;
    bool right = b->kind == MT_MATH_SYMBOL;
    if (left != right) {
        all->symbol = (left ? a : b)->symbol;
        return half_line(all, left ? first : mt_math_mirrored(first), left ? b : a);
    }
    bool size = a->kind == MT_MATH_CALL && a->call == MT_CALL_ABS && a->first->kind == MT_MATH_SYMBOL;
    if (!size) return NULL;
    all->symbol = a->first->symbol;
    return around_zero(all, first, b);
}

/* "x > 1 and x < 3" is what both hold; where nothing is, "x < 1 and x > 3" means either. */
static struct mt_math_node *joined(struct making *all, const struct mt_math_node *one,
                                   const struct mt_math_node *other)
{
    struct mt_numbers *numbers = &all->parser.numbers;
    double low = 0;
    double high = 0;
    bool intervals = one->kind == MT_MATH_GROUP && other->kind == MT_MATH_GROUP;
    if (intervals && one->last->kind != MT_MATH_INFINITY) {
        const struct mt_math_node *kept = one;
        one = other;
        other = kept;
    }
    if (intervals && one->last->kind == MT_MATH_INFINITY &&
        mt_math_number(numbers->arena, &numbers->status, one->first, &low) &&
        mt_math_number(numbers->arena, &numbers->status, other->last, &high) && low < high &&
        !mt_math_number(numbers->arena, &numbers->status, other->first, &high))
        return interval(all, one->first, one->open == '[', other->last, other->close == ']');
    return made(all, MT_MATH_UNION, one, other);
}

static struct mt_math_node *made_set(struct making *all, const struct mt_math_node *node)
{
    if (node->kind == MT_MATH_RELATION) return chain_set(all, node);
    if (!mt_math_is_bare(node) || node->count != 2 || node->first->kind != MT_MATH_RELATION ||
        node->last->kind != MT_MATH_RELATION)
        return NULL;
    struct mt_math_node *one = chain_set(all, node->first);
    int64_t symbol = all->symbol;
    struct mt_math_node *other = one != NULL ? chain_set(all, node->last) : NULL;
    return other != NULL && symbol == all->symbol ? joined(all, one, other) : NULL;
}

bool mt_math_compare_sets(struct mt_math_comparison *all, const struct mt_math_node *a,
                          const struct mt_math_node *b, bool *same)
{
    struct mt_numbers *numbers = &all->point.numbers;
    struct making one = {.parser.numbers.arena = numbers->arena};
    struct making other = one;
    const struct mt_math_node *left = made_set(&one, a);
    const struct mt_math_node *right = made_set(&other, b);
    if (one.parser.numbers.status != MT_OK) numbers->status = one.parser.numbers.status;
    if (other.parser.numbers.status != MT_OK) numbers->status = other.parser.numbers.status;
    if (left == NULL && right == NULL) return false;
    bool relations = a->kind == MT_MATH_RELATION && b->kind == MT_MATH_RELATION;
    if (relations && (left == NULL || right == NULL)) return false;
    // "2, 5" are two numbers, not what lies between.
    bool list = (left == NULL && mt_math_is_bare(a)) || (right == NULL && mt_math_is_bare(b));
    bool other_name = left != NULL && right != NULL && one.symbol != other.symbol;
    *same =
        !other_name && !list && mt_math_same_answer(all, left != NULL ? left : a, right != NULL ? right : b);
    return true;
}
