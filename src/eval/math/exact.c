/*
 * Exact forms: arithmetic of terms, of polynomials and of fractions of these, and the form of a tree.
 */
#include "eval/math/exact.h"

#include <string.h>

#define MOST_TERMS     200
#define MOST_WORK      40000
#define MOST_PRIME     100000 // trial division goes this far
#define MOST_FACTORIAL 30

static const struct mt_polynomial zero = {0};

static struct mt_exact_form not_exact(struct mt_exact *exact)
{
    exact->failed = true;
    return (struct mt_exact_form){.over = zero, .under = zero};
}

// ------------------------------------------------------------------ terms

/* Order by factors; 0: like terms. */
static int compare_terms(const struct mt_exact_term *a, const struct mt_exact_term *b)
{
    for (int i = 0; i < a->count && i < b->count; i++) {
        const struct mt_exact_factor *x = &a->factors[i];
        const struct mt_exact_factor *y = &b->factors[i];
        if (x->key != y->key) return x->key < y->key ? -1 : 1;
        if (x->power.over * y->power.under == y->power.over * x->power.under) continue;
        return x->power.over * y->power.under < y->power.over * x->power.under ? -1 : 1;
    }
    return a->count - b->count;
}

/* Multiplies a term by key^power, keeping roots of primes below 1 and i below 2. */
static bool multiply_factor(struct mt_exact_term *term, int64_t key, struct mt_rational power)
{
    int at = 0;
    while (at < term->count && term->factors[at].key < key) at++;
    bool present = at < term->count && term->factors[at].key == key;
    if (present && !mt_rational_add(term->factors[at].power, power, &power)) return false;
    if (power.over > 100000 || power.over < -100000 || power.under > 1000) return false;
    if (key > 0) {
        // Whole powers of a prime belong to the scale.
        __int128 whole = power.over / power.under - (power.over % power.under < 0 ? 1 : 0);
        struct mt_rational part;
        if (!mt_rational_power(mt_rational_whole(key), (int)whole, &part)) return false;
        if (!mt_rational_multiply(term->scale, part, &term->scale)) return false;
        power.over -= whole * power.under;
    } else if (key == -MT_SYMBOL_I) {
        if (!mt_rational_is_whole(power)) return false;
        int turns = (int)(((power.over % 4) + 4) % 4);
        if (turns >= 2) term->scale.over = -term->scale.over;
        power.over = turns % 2;
    }
    int after = term->count - at - (present ? 1 : 0);
    struct mt_exact_factor *here = &term->factors[at];
    if (power.over == 0) {
        if (present) memmove(here, here + 1, (size_t)after * sizeof *here);
        term->count -= present ? 1 : 0;
        return true;
    }
    if (!present) {
        if (term->count == MT_EXACT_FACTORS) return false;
        memmove(here + 1, here, (size_t)after * sizeof *here);
        term->count++;
    }
    *here = (struct mt_exact_factor){.key = key, .power = power};
    return true;
}

static bool multiply_terms(const struct mt_exact_term *a, const struct mt_exact_term *b,
                           struct mt_exact_term *result)
{
    *result = *a;
    if (!mt_rational_multiply(a->scale, b->scale, &result->scale)) return false;
    for (int i = 0; i < b->count; i++) {
        if (!multiply_factor(result, b->factors[i].key, b->factors[i].power)) return false;
    }
    return true;
}

// ------------------------------------------------------------------ polynomials

static struct mt_exact_term *allocate_terms(struct mt_exact *exact, int count)
{
    void *memory = NULL;
    if (exact->failed) return NULL;
    if (count > MOST_TERMS) {
        exact->failed = true;
        return NULL;
    }
    enum mt_status status = mt_arena_allocate(
        exact->arena, (size_t)(count > 0 ? count : 1) * sizeof(struct mt_exact_term), &memory);
    if (status == MT_OK) return memory;
    exact->status = status;
    exact->failed = true;
    return NULL;
}

static struct mt_polynomial single(struct mt_exact *exact, const struct mt_exact_term *term)
{
    struct mt_exact_term *terms = allocate_terms(exact, 1);
    if (terms == NULL || mt_rational_sign(term->scale) == 0) return zero;
    terms[0] = *term;
    return (struct mt_polynomial){.terms = terms, .count = 1};
}

static struct mt_polynomial add(struct mt_exact *exact, struct mt_polynomial a, struct mt_polynomial b)
{
    struct mt_exact_term *terms = allocate_terms(exact, a.count + b.count);
    if (terms == NULL) return zero;
    int i = 0;
    int j = 0;
    int count = 0;
    while (i < a.count || j < b.count) {
        int order = i == a.count ? 1 : (j == b.count ? -1 : compare_terms(&a.terms[i], &b.terms[j]));
        if (order != 0) {
            terms[count++] = order < 0 ? a.terms[i] : b.terms[j];
            i += order < 0 ? 1 : 0;
            j += order < 0 ? 0 : 1;
            continue;
        }
        terms[count] = a.terms[i];
        if (!mt_rational_add(a.terms[i].scale, b.terms[j].scale, &terms[count].scale)) exact->failed = true;
        count += mt_rational_sign(terms[count].scale) != 0 ? 1 : 0;
        i++;
        j++;
    }
    return (struct mt_polynomial){.terms = terms, .count = count};
}

static struct mt_polynomial multiply(struct mt_exact *exact, struct mt_polynomial a, struct mt_polynomial b)
{
    struct mt_polynomial sum = zero;
    for (int i = 0; i < a.count && !exact->failed; i++) {
        for (int j = 0; j < b.count && !exact->failed; j++) {
            struct mt_exact_term term;
            exact->work++;
            if (exact->work > MOST_WORK || !multiply_terms(&a.terms[i], &b.terms[j], &term)) {
                exact->failed = true;
                return zero;
            }
            sum = add(exact, sum, single(exact, &term));
            exact->work += sum.count;
        }
    }
    return sum;
}

static bool same_terms(struct mt_polynomial a, struct mt_polynomial b)
{
    if (a.count != b.count) return false;
    for (int i = 0; i < a.count; i++) {
        if (compare_terms(&a.terms[i], &b.terms[i]) != 0) return false;
        if (!mt_rational_equal(a.terms[i].scale, b.terms[i].scale)) return false;
    }
    return true;
}

static struct mt_polynomial scaled(struct mt_exact *exact, struct mt_polynomial a, struct mt_rational scale)
{
    struct mt_exact_term term = {.scale = scale};
    return multiply(exact, a, single(exact, &term));
}

// ------------------------------------------------------------------ fractions

/* A term over 1. */
static struct mt_exact_form over_one(struct mt_exact *exact, const struct mt_exact_term *term)
{
    struct mt_exact_term one = {.scale = mt_rational_whole(1)};
    struct mt_exact_form form = {.over = single(exact, term)};
    form.under = single(exact, &one);
    return form;
}

static struct mt_exact_form form_rational(struct mt_exact *exact, struct mt_rational value)
{
    struct mt_exact_term term = {.scale = value};
    return over_one(exact, &term);
}

static struct mt_exact_form form_symbol(struct mt_exact *exact, int symbol)
{
    struct mt_exact_term term = {.scale = mt_rational_whole(1)};
    if (!multiply_factor(&term, -symbol, mt_rational_whole(1))) return not_exact(exact);
    return over_one(exact, &term);
}

static struct mt_exact_form form_add(struct mt_exact *exact, struct mt_exact_form a, struct mt_exact_form b)
{
    if (same_terms(a.under, b.under)) {
        return (struct mt_exact_form){.over = add(exact, a.over, b.over), .under = a.under};
    }
    struct mt_polynomial left = multiply(exact, a.over, b.under);
    struct mt_polynomial right = multiply(exact, b.over, a.under);
    struct mt_exact_form form = {.over = add(exact, left, right)};
    form.under = multiply(exact, a.under, b.under);
    return form;
}

struct mt_exact_form mt_exact_subtract(struct mt_exact *exact, struct mt_exact_form a, struct mt_exact_form b)
{
    b.over = scaled(exact, b.over, mt_rational_whole(-1));
    return form_add(exact, a, b);
}

/* A denominator of one term moves into the numerator, so that most forms have none. */
static struct mt_exact_form reduced(struct mt_exact *exact, struct mt_exact_form form)
{
    if (exact->failed || form.under.count == 0) return not_exact(exact);
    if (form.under.count != 1) return form;
    const struct mt_exact_term *under = &form.under.terms[0];
    struct mt_exact_term inverse = {0};
    if (!mt_rational_divide(mt_rational_whole(1), under->scale, &inverse.scale)) return not_exact(exact);
    for (int i = 0; i < under->count; i++) {
        struct mt_rational power = under->factors[i].power;
        power.over = -power.over;
        if (!multiply_factor(&inverse, under->factors[i].key, power)) return not_exact(exact);
    }
    struct mt_exact_form one = form_rational(exact, mt_rational_whole(1));
    return (struct mt_exact_form){.over = multiply(exact, form.over, single(exact, &inverse)),
                                  .under = one.under};
}

static struct mt_exact_form form_multiply(struct mt_exact *exact, struct mt_exact_form a,
                                          struct mt_exact_form b)
{
    struct mt_exact_form form = {.over = multiply(exact, a.over, b.over)};
    form.under = multiply(exact, a.under, b.under);
    return reduced(exact, form);
}

static struct mt_exact_form form_divide(struct mt_exact *exact, struct mt_exact_form a,
                                        struct mt_exact_form b)
{
    struct mt_exact_form form = {.over = multiply(exact, a.over, b.under)};
    form.under = multiply(exact, a.under, b.over);
    return reduced(exact, form);
}

static bool form_is_rational(struct mt_exact_form form, struct mt_rational *value)
{
    *value = mt_rational_whole(0);
    if (form.under.count != 1 || form.under.terms[0].count != 0) return false;
    if (form.over.count == 0) return true;
    if (form.over.count != 1 || form.over.terms[0].count != 0) return false;
    return mt_rational_divide(form.over.terms[0].scale, form.under.terms[0].scale, value);
}

/* Multiplies `term` by number^power for a whole number > 0, prime by prime. */
static bool multiply_root(struct mt_exact_term *term, __int128 number, struct mt_rational power)
{
    for (int64_t prime = 2; prime < MOST_PRIME && (__int128)prime * prime <= number; prime++) {
        while (number % prime == 0) {
            if (!multiply_factor(term, prime, power)) return false;
            number /= prime;
        }
    }
    if (number == 1) return true;
    if (number >= (__int128)MOST_PRIME * MOST_PRIME) return false; // may not be a prime
    return multiply_factor(term, (int64_t)number, power);
}

/* rational^(a/b): roots of the primes; an even root of a negative number is i times the positive one's. */
static struct mt_exact_form rational_root(struct mt_exact *exact, struct mt_rational value,
                                          struct mt_rational power)
{
    struct mt_exact_term term = {.scale = mt_rational_whole(1)};
    struct mt_rational minus = power;
    minus.over = -minus.over;
    if (mt_rational_sign(value) == 0 && mt_rational_sign(power) > 0) {
        return form_rational(exact, value);
    }
    if (mt_rational_sign(value) == 0) return not_exact(exact);
    if (value.over < 0) {
        // The real root where the degree is odd, as answers mean it; the square root is i's.
        bool odd = power.under % 2 == 1;
        if (!odd && power.under != 2) return not_exact(exact);
        if (odd && power.over % 2 != 0) term.scale = mt_rational_whole(-1);
        if (!odd && !multiply_factor(&term, -MT_SYMBOL_I, mt_rational_whole((int64_t)power.over))) {
            return not_exact(exact);
        }
        value.over = -value.over;
    }
    if (!multiply_root(&term, value.over, power) || !multiply_root(&term, value.under, minus)) {
        return not_exact(exact);
    }
    struct mt_exact_form one = form_rational(exact, mt_rational_whole(1));
    return (struct mt_exact_form){.over = single(exact, &term), .under = one.under};
}

static struct mt_exact_form form_power(struct mt_exact *exact, struct mt_exact_form base,
                                       struct mt_rational power)
{
    struct mt_rational value;
    if (power.over > 1000 || power.over < -1000 || power.under > 100) return not_exact(exact);
    if (mt_rational_is_whole(power)) {
        int count = (int)(power.over < 0 ? -power.over : power.over);
        struct mt_exact_form result = form_rational(exact, mt_rational_whole(1));
        for (int i = 0; i < count && !exact->failed; i++) result = form_multiply(exact, result, base);
        struct mt_exact_form one = form_rational(exact, mt_rational_whole(1));
        return power.over < 0 ? form_divide(exact, one, result) : result;
    }
    if (form_is_rational(base, &value)) return rational_root(exact, value, power);
    bool one_term = base.over.count == 1 && base.under.count == 1 && base.under.terms[0].count == 0;
    if (!one_term || base.over.terms[0].count != 1) return not_exact(exact);
    const struct mt_exact_factor *factor = &base.over.terms[0].factors[0];
    bool plain = mt_rational_equal(base.over.terms[0].scale, mt_rational_whole(1)) &&
                 mt_rational_equal(factor->power, mt_rational_whole(1)) && factor->key != -MT_SYMBOL_I;
    if (!plain || factor->key > 0) return not_exact(exact);
    struct mt_exact_term term = {.scale = mt_rational_whole(1)};
    if (!multiply_factor(&term, factor->key, power)) return not_exact(exact);
    return (struct mt_exact_form){.over = single(exact, &term), .under = base.under};
}

// ------------------------------------------------------------------ comparing

bool mt_exact_equal(struct mt_exact *exact, struct mt_exact_form a, struct mt_exact_form b)
{
    struct mt_polynomial left = multiply(exact, a.over, b.under);
    struct mt_polynomial right = multiply(exact, b.over, a.under);
    return !exact->failed && same_terms(left, right);
}

bool mt_exact_same_zeros(struct mt_exact *exact, struct mt_exact_form a, struct mt_exact_form b)
{
    if (exact->failed || a.over.count != b.over.count) return false;
    if (a.over.count == 0) return true;
    struct mt_polynomial left = scaled(exact, a.over, b.over.terms[0].scale);
    struct mt_polynomial right = scaled(exact, b.over, a.over.terms[0].scale);
    return !exact->failed && same_terms(left, right);
}

// ------------------------------------------------------------------ trees

static struct mt_exact_form form_of_children(struct mt_exact *exact, const struct mt_math_node *node)
{
    struct mt_exact_form form = mt_exact_of(exact, node->first);
    const struct mt_math_node *child = node->first != NULL ? node->first->next : NULL;
    for (; child != NULL && !exact->failed; child = child->next) {
        struct mt_exact_form next = mt_exact_of(exact, child);
        if (exact->failed) return form;
        form = node->kind == MT_MATH_SUM ? form_add(exact, form, next) : form_multiply(exact, form, next);
    }
    return form;
}

static struct mt_exact_form scaled_child(struct mt_exact *exact, const struct mt_math_node *child,
                                         int64_t over, int64_t under)
{
    struct mt_rational scale = mt_rational_whole(over);
    if (!mt_rational_make(over, under, &scale)) exact->failed = true;
    struct mt_exact_form form = mt_exact_of(exact, child);
    if (exact->failed) return form;
    return form_multiply(exact, form, form_rational(exact, scale));
}

/* n! and C(n, k) of whole numbers. */
static struct mt_exact_form counted(struct mt_exact *exact, const struct mt_math_node *node)
{
    struct mt_rational n = mt_rational_whole(0);
    struct mt_rational k = mt_rational_whole(0);
    struct mt_exact_form form = mt_exact_of(exact, node->first);
    bool whole = !exact->failed && form_is_rational(form, &n) && mt_rational_is_whole(n) && n.over >= 0;
    bool choose = node->kind == MT_MATH_CHOOSE;
    if (whole && choose) {
        struct mt_exact_form second = mt_exact_of(exact, node->first->next);
        whole = !exact->failed && form_is_rational(second, &k) && mt_rational_is_whole(k) && k.over >= 0;
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
    return form_rational(exact, result);
}

static struct mt_exact_form called(struct mt_exact *exact, const struct mt_math_node *node)
{
    struct mt_exact_form form = mt_exact_of(exact, node->first);
    struct mt_rational value = mt_rational_whole(2);
    if (exact->failed) return form;
    if (node->call == MT_CALL_SQRT) {
        struct mt_rational power;
        if (node->count == 2 && !form_is_rational(mt_exact_of(exact, node->first->next), &value)) {
            exact->failed = true;
        }
        if (exact->failed || !mt_rational_divide(mt_rational_whole(1), value, &power)) {
            exact->failed = true;
            return form;
        }
        return form_power(exact, form, power);
    }
    if (node->call == MT_CALL_ABS && form_is_rational(form, &value)) {
        if (value.over < 0) value.over = -value.over;
        return form_rational(exact, value);
    }
    exact->failed = true;
    return form;
}

static struct mt_exact_form raised(struct mt_exact *exact, const struct mt_math_node *node)
{
    struct mt_rational power;
    struct mt_exact_form base = mt_exact_of(exact, node->first);
    struct mt_exact_form exponent = mt_exact_of(exact, node->first->next);
    if (exact->failed || !form_is_rational(exponent, &power)) {
        exact->failed = true;
        return base;
    }
    return form_power(exact, base, power);
}

static struct mt_exact_form in_degrees(struct mt_exact *exact, const struct mt_math_node *node)
{
    struct mt_exact_form form = scaled_child(exact, node->first, 1, 180);
    if (exact->failed) return form;
    return form_multiply(exact, form, form_symbol(exact, MT_SYMBOL_PI));
}

/* The depth of the tree is the parser's limit. */
struct mt_exact_form mt_exact_of(struct mt_exact *exact, const struct mt_math_node *node)
{
    struct mt_exact_form nothing = {0};
    if (node == NULL) exact->failed = true;
    if (exact->failed) return nothing;
    switch (node->kind) {
    case MT_MATH_NUMBER:
        if (node->flag) return form_rational(exact, node->number);
        break;
    case MT_MATH_SYMBOL: return form_symbol(exact, node->symbol);
    case MT_MATH_SUM:
    case MT_MATH_PRODUCT: return form_of_children(exact, node);
    case MT_MATH_NEGATIVE: return scaled_child(exact, node->first, -1, 1);
    case MT_MATH_EITHER: return scaled_child(exact, node->first, node->flag ? -exact->sign : exact->sign, 1);
    case MT_MATH_QUOTIENT: {
        struct mt_exact_form over = mt_exact_of(exact, node->first);
        struct mt_exact_form under = mt_exact_of(exact, node->first->next);
        if (exact->failed) return nothing;
        return form_divide(exact, over, under);
    }
    case MT_MATH_POWER: return raised(exact, node);
    case MT_MATH_CALL: return called(exact, node);
    case MT_MATH_FACTORIAL:
    case MT_MATH_CHOOSE: return counted(exact, node);
    case MT_MATH_PERCENT: return scaled_child(exact, node->first, 1, 100);
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
