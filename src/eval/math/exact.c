/* The exact form of a tree. */
#include "eval/math/exact.h"

#define MOST_FACTORIAL 30

static struct mt_exact_form form_of_children(struct mt_exact *exact, const struct mt_math_node *node)
{
    struct mt_exact_form form = mt_exact_of(exact, node->first);
    const struct mt_math_node *child = node->first != NULL ? node->first->next : NULL;
    for (; child != NULL && !exact->failed; child = child->next) {
        struct mt_exact_form next = mt_exact_of(exact, child);
        if (exact->failed) return form;
        form = node->kind == MT_MATH_SUM ? mt_exact_add(exact, form, next)
                                         : mt_exact_multiply(exact, form, next);
    }
    return form;
}

static struct mt_exact_form scaled(struct mt_exact *exact, const struct mt_math_node *child, int64_t over,
                                   int64_t under)
{
    struct mt_rational scale = mt_rational_whole(over);
    if (!mt_rational_make(over, under, &scale)) exact->failed = true;
    struct mt_exact_form form = mt_exact_of(exact, child);
    if (exact->failed) return form;
    return mt_exact_multiply(exact, form, mt_exact_rational(exact, scale));
}

/* n! and C(n, k) of whole numbers. */
static struct mt_exact_form counted(struct mt_exact *exact, const struct mt_math_node *node)
{
    struct mt_rational n = mt_rational_whole(0);
    struct mt_rational k = mt_rational_whole(0);
    struct mt_exact_form form = mt_exact_of(exact, node->first);
    bool whole = !exact->failed && mt_exact_is_rational(form, &n) && mt_rational_is_whole(n) && n.over >= 0;
    bool choose = node->kind == MT_MATH_CHOOSE;
    if (whole && choose) {
        struct mt_exact_form second = mt_exact_of(exact, node->first->next);
        whole = !exact->failed && mt_exact_is_rational(second, &k) && mt_rational_is_whole(k) && k.over >= 0;
    }
    int64_t most = choose ? 1000 : MOST_FACTORIAL;
    if (!whole || n.over > most || k.over > n.over) {
        exact->failed = true;
        return form;
    }
    struct mt_rational result = mt_rational_whole(1);
    int64_t steps = (int64_t)(choose ? k.over : n.over);
    for (int64_t i = 1; i <= steps; i++) {
        struct mt_rational factor;
        int64_t over = choose ? (int64_t)n.over - steps + i : i;
        bool fits = mt_rational_make(over, choose ? i : 1, &factor);
        if (!fits || !mt_rational_multiply(result, factor, &result)) exact->failed = true;
    }
    return mt_exact_rational(exact, result);
}

static struct mt_exact_form called(struct mt_exact *exact, const struct mt_math_node *node)
{
    struct mt_exact_form form = mt_exact_of(exact, node->first);
    struct mt_rational value = mt_rational_whole(2);
    if (exact->failed) return form;
    if (node->call == MT_CALL_SQRT) {
        struct mt_rational power;
        if (node->count == 2 && !mt_exact_is_rational(mt_exact_of(exact, node->first->next), &value)) {
            exact->failed = true;
        }
        if (exact->failed || !mt_rational_divide(mt_rational_whole(1), value, &power)) {
            exact->failed = true;
            return form;
        }
        return mt_exact_power(exact, form, power);
    }
    if (node->call == MT_CALL_ABS && mt_exact_is_rational(form, &value)) {
        if (value.over < 0) value.over = -value.over;
        return mt_exact_rational(exact, value);
    }
    exact->failed = true;
    return form;
}

static struct mt_exact_form raised(struct mt_exact *exact, const struct mt_math_node *node)
{
    struct mt_rational power;
    struct mt_exact_form base = mt_exact_of(exact, node->first);
    struct mt_exact_form exponent = mt_exact_of(exact, node->first->next);
    if (exact->failed || !mt_exact_is_rational(exponent, &power)) {
        exact->failed = true;
        return base;
    }
    return mt_exact_power(exact, base, power);
}

static struct mt_exact_form in_degrees(struct mt_exact *exact, const struct mt_math_node *node)
{
    struct mt_exact_form form = scaled(exact, node->first, 1, 180);
    if (exact->failed) return form;
    return mt_exact_multiply(exact, form, mt_exact_symbol(exact, MT_SYMBOL_PI));
}

/* The depth of the tree is the parser's limit. */
struct mt_exact_form mt_exact_of(struct mt_exact *exact, const struct mt_math_node *node)
{
    struct mt_exact_form nothing = {0};
    if (node == NULL) exact->failed = true;
    if (exact->failed) return nothing;
    switch (node->kind) {
    case MT_MATH_NUMBER:
        if (node->flag) return mt_exact_rational(exact, node->number);
        break;
    case MT_MATH_SYMBOL: return mt_exact_symbol(exact, node->symbol);
    case MT_MATH_SUM:
    case MT_MATH_PRODUCT: return form_of_children(exact, node);
    case MT_MATH_NEGATIVE: return scaled(exact, node->first, -1, 1);
    case MT_MATH_EITHER: return scaled(exact, node->first, node->flag ? -exact->sign : exact->sign, 1);
    case MT_MATH_QUOTIENT: {
        struct mt_exact_form over = mt_exact_of(exact, node->first);
        struct mt_exact_form under = mt_exact_of(exact, node->first->next);
        if (exact->failed) return nothing;
        return mt_exact_divide(exact, over, under);
    }
    case MT_MATH_POWER: return raised(exact, node);
    case MT_MATH_CALL: return called(exact, node);
    case MT_MATH_FACTORIAL:
    case MT_MATH_CHOOSE: return counted(exact, node);
    case MT_MATH_PERCENT: return scaled(exact, node->first, 1, 100);
    case MT_MATH_DEGREE: return in_degrees(exact, node);
    case MT_MATH_UNIT: return mt_exact_of(exact, node->first);
    case MT_MATH_GROUP:
        if (node->count == 1) return mt_exact_of(exact, node->first); // brackets around one thing
        break;
    default: break;
    }
    exact->failed = true;
    return nothing;
}
