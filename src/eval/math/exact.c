/*
 * Exact forms: arithmetic of terms, of polynomials and of fractions of these, and the form of a tree.
 */
#include "eval/math/exact.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "eval/math/value.h"

#define MOST_TERMS     200
#define MOST_PRIME     10000 // trial division goes this far
#define MOST_ROOT_BITS 1024  // of a number that is divided by all of these
#define MOST_POWER     1000000
#define MOST_DEGREE    1000 // of a root
#define TERM_WORK      32   // of copying a term, in limbs
#define ROOT_KEY       ((int64_t)1 << 60)
#define ATOM_KEY       (-((int64_t)1 << 60))

static const struct mt_polynomial zero = {0};
static const struct mt_exact_form nothing = {0};

static struct mt_exact_form not_exact(struct mt_exact *exact)
{
    exact->numbers.failed = true;
    return nothing;
}

static bool has_failed(const struct mt_exact *exact)
{
    return exact->numbers.failed;
}

static struct mt_rational whole(struct mt_exact *exact, int64_t value)
{
    return mt_rational_make(&exact->numbers, value, 1);
}

// ------------------------------------------------------------------ terms

/* Order by factors; 0: like terms. */
static int compare_terms(const struct mt_exact_term *a, const struct mt_exact_term *b)
{
    for (int i = 0; i < a->count && i < b->count; i++) {
        const struct mt_exact_factor *x = &a->factors[i];
        const struct mt_exact_factor *y = &b->factors[i];
        if (x->key != y->key) return x->key < y->key ? -1 : 1;
        int64_t left = x->power.over * y->power.under;
        int64_t right = y->power.over * x->power.under;
        if (left != right) return left < right ? -1 : 1;
    }
    return a->count - b->count;
}

static int64_t greatest_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a < 0 ? -a : a;
}

/* False: out of bounds. */
static bool make_power(int64_t over, int64_t under, struct mt_exact_power *power)
{
    int64_t divisor = greatest_divisor(over, under);
    *power = (struct mt_exact_power){.over = over / divisor, .under = under / divisor};
    return power->over <= MOST_POWER && power->over >= -MOST_POWER && power->under <= MOST_DEGREE;
}

static bool add_powers(struct mt_exact_power a, struct mt_exact_power b, struct mt_exact_power *sum)
{
    return make_power(a.over * b.under + b.over * a.under, a.under * b.under, sum);
}

/* Whole powers of a number belong to the scale, and i has only two. What is left of the power is put back. */
static bool settle(struct mt_exact *exact, struct mt_exact_term *term, int64_t key,
                   struct mt_exact_power *power)
{
    if (key > 0) {
        int64_t count = power->over / power->under - (power->over % power->under < 0 ? 1 : 0);
        struct mt_rational base = key >= ROOT_KEY ? exact->roots[key - ROOT_KEY] : whole(exact, key);
        struct mt_rational part = mt_rational_power(&exact->numbers, base, count);
        term->scale = mt_rational_multiply(&exact->numbers, term->scale, part);
        power->over -= count * power->under;
    } else if (key == -MT_SYMBOL_I) {
        if (power->under != 1) return false;
        int64_t turns = ((power->over % 4) + 4) % 4;
        if (turns >= 2) term->scale = mt_rational_multiply(&exact->numbers, term->scale, whole(exact, -1));
        power->over = turns % 2;
    }
    return !has_failed(exact);
}

/* Multiplies a term by key^power. False: too much for a term. */
static bool multiply_factor(struct mt_exact *exact, struct mt_exact_term *term, int64_t key,
                            struct mt_exact_power power)
{
    int at = 0;
    while (at < term->count && term->factors[at].key < key) at++;
    bool present = at < term->count && term->factors[at].key == key;
    if (present && !add_powers(term->factors[at].power, power, &power)) return false;
    if (!settle(exact, term, key, &power)) return false;
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

static bool multiply_terms(struct mt_exact *exact, const struct mt_exact_term *a,
                           const struct mt_exact_term *b, struct mt_exact_term *result)
{
    *result = *a;
    result->scale = mt_rational_multiply(&exact->numbers, a->scale, b->scale);
    for (int i = 0; i < b->count; i++) {
        if (!multiply_factor(exact, result, b->factors[i].key, b->factors[i].power)) return false;
    }
    return !has_failed(exact);
}

/* The term to a power: each of its factors, and the scale where the power is whole. */
static bool raise_term(struct mt_exact *exact, const struct mt_exact_term *base, int64_t count,
                       struct mt_exact_term *result)
{
    *result = (struct mt_exact_term){.scale = mt_rational_power(&exact->numbers, base->scale, count)};
    for (int i = 0; i < base->count && !has_failed(exact); i++) {
        struct mt_exact_power power;
        if (llabs(count) > MOST_POWER ||
            !make_power(base->factors[i].power.over * count, base->factors[i].power.under, &power))
            return false;
        if (!multiply_factor(exact, result, base->factors[i].key, power)) return false;
    }
    return !has_failed(exact);
}

// ------------------------------------------------------------------ polynomials

static struct mt_exact_term *allocate_terms(struct mt_exact *exact, int count)
{
    if (count > MOST_TERMS) exact->numbers.failed = true;
    if (!mt_numbers_spend(&exact->numbers, (int64_t)count * TERM_WORK)) return NULL;
    struct mt_exact_term *terms = mt_arena_array(exact->numbers.arena, (size_t)(count > 0 ? count : 1),
                                                 sizeof *terms, &exact->numbers.status);
    if (terms == NULL) exact->numbers.failed = true;
    return terms;
}

static struct mt_polynomial single(struct mt_exact *exact, const struct mt_exact_term *term)
{
    struct mt_exact_term *terms = allocate_terms(exact, 1);
    if (terms == NULL || mt_rational_sign(&term->scale) == 0) return zero;
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
        terms[count].scale = mt_rational_add(&exact->numbers, a.terms[i].scale, b.terms[j].scale);
        count += mt_rational_sign(&terms[count].scale) != 0 ? 1 : 0;
        i++;
        j++;
    }
    return (struct mt_polynomial){.terms = terms, .count = count};
}

static struct mt_polynomial multiply(struct mt_exact *exact, struct mt_polynomial a, struct mt_polynomial b)
{
    struct mt_polynomial sum = zero;
    for (int i = 0; i < a.count && !has_failed(exact); i++) {
        for (int j = 0; j < b.count && !has_failed(exact); j++) {
            struct mt_exact_term term;
            if (!multiply_terms(exact, &a.terms[i], &b.terms[j], &term)) {
                exact->numbers.failed = true;
                return zero;
            }
            sum = add(exact, sum, single(exact, &term));
        }
    }
    return sum;
}

static bool same_terms(struct mt_polynomial a, struct mt_polynomial b)
{
    if (a.count != b.count) return false;
    for (int i = 0; i < a.count; i++) {
        if (compare_terms(&a.terms[i], &b.terms[i]) != 0) return false;
        if (!mt_rational_equal(&a.terms[i].scale, &b.terms[i].scale)) return false;
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
    struct mt_exact_term one = {.scale = whole(exact, 1)};
    struct mt_exact_form form = {.over = single(exact, term)};
    form.under = single(exact, &one);
    return form;
}

static struct mt_exact_form form_rational(struct mt_exact *exact, struct mt_rational value)
{
    struct mt_exact_term term = {.scale = value};
    return over_one(exact, &term);
}

static struct mt_exact_form form_key(struct mt_exact *exact, int64_t key)
{
    struct mt_exact_term term = {.scale = whole(exact, 1)};
    if (!multiply_factor(exact, &term, key, (struct mt_exact_power){1, 1})) return not_exact(exact);
    return over_one(exact, &term);
}

static struct mt_exact_form form_symbol(struct mt_exact *exact, int64_t symbol)
{
    bool constant = symbol == MT_SYMBOL_E || symbol == MT_SYMBOL_I || symbol == MT_SYMBOL_PI;
    if (exact->point == 0 || constant) return form_key(exact, -symbol);
    int64_t value = 2 + (symbol * 37 + exact->point * 1009) % 101;
    return form_rational(exact, mt_rational_make(&exact->numbers, value, 7));
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
    b.over = scaled(exact, b.over, whole(exact, -1));
    return form_add(exact, a, b);
}

/* A denominator of one term moves into the numerator, so that most forms have none. */
static struct mt_exact_form reduced(struct mt_exact *exact, struct mt_exact_form form)
{
    struct mt_exact_term inverse;
    if (has_failed(exact) || form.under.count == 0) return not_exact(exact);
    if (form.under.count != 1) return form;
    if (!raise_term(exact, &form.under.terms[0], -1, &inverse)) return not_exact(exact);
    struct mt_exact_form one = form_rational(exact, whole(exact, 1));
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

static bool form_is_rational(struct mt_exact *exact, struct mt_exact_form form, struct mt_rational *value)
{
    if (has_failed(exact) || form.under.count != 1 || form.under.terms[0].count != 0) return false;
    if (form.over.count == 0) {
        *value = whole(exact, 0);
        return true;
    }
    if (form.over.count != 1 || form.over.terms[0].count != 0) return false;
    *value = mt_rational_divide(&exact->numbers, form.over.terms[0].scale, form.under.terms[0].scale);
    return !has_failed(exact);
}

static bool form_is_small(struct mt_exact *exact, struct mt_exact_form form, int64_t *value)
{
    struct mt_rational number;
    return form_is_rational(exact, form, &number) && mt_rational_small(&number, value);
}

// ------------------------------------------------------------------ roots

/* Multiplies by number^power, for a number without small divisors that is no power itself. */
static bool multiply_large_root(struct mt_exact *exact, struct mt_exact_term *term, mpz_srcptr number,
                                struct mt_exact_power power)
{
    mpz_t divisor;
    int at = 0;
    bool apart = true;
    mpz_init(divisor);
    while (at < exact->root_count && apart && mpz_cmp(mpq_numref(&exact->roots[at].value), number) != 0) {
        mpz_gcd(divisor, mpq_numref(&exact->roots[at].value), number);
        apart = mpz_cmp_ui(divisor, 1) == 0;
        at++;
    }
    mpz_clear(divisor);
    if (!apart || at == MT_EXACT_ROOTS) return false;
    if (at == exact->root_count) {
        exact->roots[at] = mt_rational_from(&exact->numbers, number);
        exact->root_count++;
    }
    return !has_failed(exact) && multiply_factor(exact, term, ROOT_KEY + at, power);
}

/* `number` is used up. */
static bool divide_root(struct mt_exact *exact, struct mt_exact_term *term, mpz_ptr number,
                        struct mt_exact_power power)
{
    for (unsigned long prime = 2; prime < MOST_PRIME && mpz_cmp_ui(number, 1) != 0; prime++) {
        while (mpz_divisible_ui_p(number, prime) != 0) {
            if (!multiply_factor(exact, term, (int64_t)prime, power)) return false;
            mpz_divexact_ui(number, number, prime);
        }
    }
    for (unsigned long degree = 2; degree < 80 && mpz_perfect_power_p(number) != 0; degree++) {
        mpz_t base;
        mpz_init(base);
        while (mpz_cmp_ui(number, 1) > 0 && mpz_root(base, number, degree) != 0) {
            mpz_set(number, base);
            power.over *= (int64_t)degree;
        }
        mpz_clear(base);
        if (mpz_cmp_ui(number, 1) == 0) break;
    }
    if (mpz_cmp_ui(number, 1) == 0) return true;
    return make_power(power.over, power.under, &power) && multiply_large_root(exact, term, number, power);
}

/* Multiplies `term` by number^power for a whole number that is not 0, its sign aside, prime by prime. */
static bool multiply_root(struct mt_exact *exact, struct mt_exact_term *term, mpz_srcptr number,
                          struct mt_exact_power power)
{
    mpz_t rest;
    if (mpz_sizeinbase(number, 2) > MOST_ROOT_BITS) return false;
    if (!mt_numbers_spend(&exact->numbers, MOST_PRIME)) return false;
    mpz_init(rest);
    mpz_abs(rest, number);
    bool done = divide_root(exact, term, rest, power);
    mpz_clear(rest);
    return done;
}

/* rational^(a/b): roots of the primes; an even root of a negative number is i times the positive one's. */
static bool rational_root(struct mt_exact *exact, struct mt_rational value, struct mt_exact_power power,
                          struct mt_exact_form *root)
{
    struct mt_exact_term term = {.scale = whole(exact, 1)};
    const struct mt_exact_power minus = {-power.over, power.under};
    int sign = mt_rational_sign(&value);
    if (sign == 0) {
        *root = form_rational(exact, value);
        return power.over > 0;
    }
    if (sign < 0) {
        // The real root where the degree is odd, as answers mean it; the square root is i's.
        bool odd = power.under % 2 == 1;
        if (!odd && power.under != 2) return false;
        if (odd && power.over % 2 != 0) term.scale = whole(exact, -1);
        if (!odd && !multiply_factor(exact, &term, -MT_SYMBOL_I, (struct mt_exact_power){power.over, 1}))
            return false;
    }
    if (!multiply_root(exact, &term, mpq_numref(&value.value), power) ||
        !multiply_root(exact, &term, mpq_denref(&value.value), minus))
        return false;
    *root = over_one(exact, &term);
    return true;
}

static struct mt_exact_form whole_power(struct mt_exact *exact, struct mt_exact_form base, int64_t exponent)
{
    struct mt_exact_form result = form_rational(exact, whole(exact, 1));
    struct mt_exact_term term;
    if (exponent == 0) return result;
    if (base.over.count == 1 && base.under.count == 1 && base.under.terms[0].count == 0) {
        if (!raise_term(exact, &base.over.terms[0], exponent, &term)) return not_exact(exact);
        return over_one(exact, &term);
    }
    int64_t count = exponent < 0 ? -exponent : exponent;
    if (count > MOST_POWER) return not_exact(exact);
    for (int64_t left = count; left > 0 && !has_failed(exact); left /= 2) {
        if (left % 2 == 1) result = form_multiply(exact, result, base);
        if (left > 1) base = form_multiply(exact, base, base);
    }
    struct mt_exact_form one = form_rational(exact, whole(exact, 1));
    return exponent < 0 ? form_divide(exact, one, result) : result;
}

/* base^power; false: it has no such form, though it may have a value. */
static bool form_power(struct mt_exact *exact, struct mt_exact_form base, struct mt_rational power,
                       struct mt_exact_form *result)
{
    struct mt_rational value;
    struct mt_exact_power fraction;
    int64_t count = 0;
    if (mt_rational_small(&power, &count)) {
        *result = whole_power(exact, base, count);
        return true;
    }
    bool small =
        mpz_fits_sint_p(mpq_numref(&power.value)) != 0 && mpz_fits_sint_p(mpq_denref(&power.value)) != 0;
    if (!small ||
        !make_power(mpz_get_si(mpq_numref(&power.value)), mpz_get_si(mpq_denref(&power.value)), &fraction))
        return false;
    if (form_is_rational(exact, base, &value)) return rational_root(exact, value, fraction, result);
    bool one_term = base.over.count == 1 && base.under.count == 1 && base.under.terms[0].count == 0;
    if (!one_term || base.over.terms[0].count != 1) return false;
    const struct mt_exact_term *only = &base.over.terms[0];
    const struct mt_exact_factor *factor = &only->factors[0];
    struct mt_rational one = whole(exact, 1);
    // (x^2)^(1/2) is |x|, but the root of x is a power of x.
    bool plain = mt_rational_equal(&only->scale, &one) && factor->power.over == 1 &&
                 factor->power.under == 1 && factor->key != -MT_SYMBOL_I && factor->key < 0;
    if (!plain) return false;
    struct mt_exact_term term = {.scale = one};
    if (!multiply_factor(exact, &term, factor->key, fraction)) return false;
    *result = over_one(exact, &term);
    return true;
}

// ------------------------------------------------------------------ atoms

bool mt_math_same_tree(const struct mt_math_node *a, const struct mt_math_node *b)
{
    if (a == NULL || b == NULL) return a == b;
    bool text = a->text == b->text || (a->text != NULL && b->text != NULL && strcmp(a->text, b->text) == 0);
    if (!text || a->kind != b->kind || a->flag != b->flag || a->symbol != b->symbol || a->call != b->call ||
        a->open != b->open || a->close != b->close || a->count != b->count ||
        memcmp(a->relations, b->relations, sizeof a->relations) != 0)
        return false;
    if (a->kind == MT_MATH_NUMBER && !mt_rational_equal(&a->number, &b->number)) return false;
    const struct mt_math_node *other = b->first;
    for (const struct mt_math_node *child = a->first; child != NULL; child = child->next) {
        if (!mt_math_same_tree(child, other)) return false;
        other = other->next;
    }
    return true;
}

bool mt_math_has_size(const struct mt_math_node *node)
{
    bool found = node->kind == MT_MATH_CALL && node->call == MT_CALL_ABS;
    for (const struct mt_math_node *child = node->first; child != NULL && !found; child = child->next)
        found = mt_math_has_size(child);
    return found;
}

static struct mt_exact_form form_atom(struct mt_exact *exact, const struct mt_math_node *node)
{
    int at = 0;
    if (has_failed(exact) || exact->point != 0) return not_exact(exact); // its value is of other points
    while (at < exact->atom_count &&
           (exact->atom_signs[at] != exact->sign || !mt_math_same_tree(exact->atoms[at], node)))
        at++;
    if (at == MT_EXACT_ATOMS) return not_exact(exact);
    if (at == exact->atom_count) {
        exact->atoms[at] = node;
        exact->atom_signs[at] = exact->sign;
        exact->atom_count++;
    }
    return form_key(exact, ATOM_KEY - at);
}

static bool key_value(const struct mt_exact *exact, int64_t key, int point, bool real, double complex *value)
{
    if (key <= ATOM_KEY) {
        const struct mt_math_node *atom = exact->atoms[ATOM_KEY - key];
        int sign = exact->atom_signs[ATOM_KEY - key];
        return real ? mt_math_real_at(atom, point, sign, value) : mt_math_value_at(atom, point, sign, value);
    }
    if (key >= ROOT_KEY) {
        *value = mt_rational_double(&exact->roots[key - ROOT_KEY]);
    } else {
        *value = key > 0 ? (double complex)(double)key : mt_math_symbol_value(-key, point);
    }
    return true;
}

/* The value of a polynomial at a point, and the size of its largest term. False: it has none. */
static bool sum_value(const struct mt_exact *exact, struct mt_polynomial sum, int point, bool real,
                      double complex *total, double *largest)
{
    *total = 0;
    *largest = 0;
    for (int i = 0; i < sum.count; i++) {
        double complex term = mt_rational_double(&sum.terms[i].scale);
        for (int j = 0; j < sum.terms[i].count; j++) {
            const struct mt_exact_factor *factor = &sum.terms[i].factors[j];
            double complex base = 0;
            if (!key_value(exact, factor->key, point, real, &base)) return false;
            if (real && factor->power.under > 1 && cimag(base) == 0 && creal(base) < 0) return false;
            term *= cpow(base, (double)factor->power.over / (double)factor->power.under);
        }
        *total += term;
        *largest = fmax(*largest, cabs(term));
    }
    return isfinite(*largest);
}

/* A polynomial is 0 at the points where it has a value, as far as double can tell. */
static enum mt_exact_verdict near_zero_at(const struct mt_exact *exact, struct mt_polynomial sum, bool real)
{
    int compared = 0;
    for (int point = 0; point < MT_MATH_POINTS; point++) {
        double complex total = 0;
        double largest = 0;
        if (!sum_value(exact, sum, point, real, &total, &largest)) continue;
        if (!mt_math_is_close(total, 0, largest)) return MT_EXACT_UNEQUAL;
        compared++;
    }
    return compared >= 2 ? MT_EXACT_CLOSE : MT_EXACT_UNKNOWN;
}

/* ln(xy) is ln x + ln y where these are real, and that decides where there are such points; but ln|x| is not
 * ln x. */
static enum mt_exact_verdict near_zero(const struct mt_exact *exact, struct mt_polynomial sum)
{
    bool sizes = false;
    for (int i = 0; i < exact->atom_count; i++) sizes = sizes || mt_math_has_size(exact->atoms[i]);
    enum mt_exact_verdict verdict = sizes ? MT_EXACT_UNKNOWN : near_zero_at(exact, sum, true);
    return verdict == MT_EXACT_UNKNOWN ? near_zero_at(exact, sum, false) : verdict;
}

// ------------------------------------------------------------------ comparing

enum mt_exact_verdict mt_exact_compare(struct mt_exact *exact, struct mt_exact_form a, struct mt_exact_form b)
{
    bool atoms = false;
    if (has_failed(exact)) return MT_EXACT_UNKNOWN;
    struct mt_polynomial left = multiply(exact, a.over, b.under);
    struct mt_polynomial right = multiply(exact, b.over, a.under);
    struct mt_polynomial rest = add(exact, left, scaled(exact, right, whole(exact, -1)));
    if (has_failed(exact)) return MT_EXACT_UNKNOWN;
    if (rest.count == 0) return MT_EXACT_EQUAL;
    for (int i = 0; i < rest.count; i++) {
        for (int j = 0; j < rest.terms[i].count; j++) atoms |= rest.terms[i].factors[j].key <= ATOM_KEY;
    }
    return atoms ? near_zero(exact, rest) : MT_EXACT_UNEQUAL;
}

bool mt_exact_same_zeros(struct mt_exact *exact, struct mt_exact_form a, struct mt_exact_form b)
{
    if (has_failed(exact) || a.over.count != b.over.count) return false;
    if (a.over.count == 0) return true;
    bool constant = a.over.count == 1 && a.over.terms[0].count == 0; // no equation for anything
    if (constant) return same_terms(a.over, b.over);
    struct mt_polynomial left = scaled(exact, a.over, b.over.terms[0].scale);
    struct mt_polynomial right = scaled(exact, b.over, a.over.terms[0].scale);
    return !has_failed(exact) && same_terms(left, right);
}

// ------------------------------------------------------------------ trees

static struct mt_exact_form form_of_children(struct mt_exact *exact, const struct mt_math_node *node)
{
    struct mt_exact_form form = mt_exact_of(exact, node->first);
    const struct mt_math_node *child = node->first != NULL ? node->first->next : NULL;
    for (; child != NULL && !has_failed(exact); child = child->next) {
        struct mt_exact_form next = mt_exact_of(exact, child);
        if (has_failed(exact)) return form;
        form = node->kind == MT_MATH_SUM ? form_add(exact, form, next) : form_multiply(exact, form, next);
    }
    return form;
}

static struct mt_exact_form scaled_child(struct mt_exact *exact, const struct mt_math_node *child,
                                         int64_t over, int64_t under)
{
    struct mt_rational scale = mt_rational_make(&exact->numbers, over, under);
    struct mt_exact_form form = mt_exact_of(exact, child);
    if (has_failed(exact)) return form;
    return form_multiply(exact, form, form_rational(exact, scale));
}

/* C(n, k): of whole numbers a number, of a small k a polynomial in n. */
static struct mt_exact_form chosen(struct mt_exact *exact, const struct mt_math_node *node)
{
    int64_t n = 0;
    int64_t k = 0;
    struct mt_exact_form top = mt_exact_of(exact, node->first);
    struct mt_exact_form bottom = mt_exact_of(exact, node->first->next);
    if (!form_is_small(exact, bottom, &k) || k < 0) return form_atom(exact, node);
    if (form_is_small(exact, top, &n) && n >= 0)
        return form_rational(exact, mt_rational_choose(&exact->numbers, n, k));
    if (k > 20) return form_atom(exact, node);
    struct mt_exact_form result = form_rational(exact, whole(exact, 1));
    for (int64_t i = 0; i < k && !has_failed(exact); i++) {
        struct mt_exact_form next = form_rational(exact, whole(exact, i));
        next = mt_exact_subtract(exact, top, next);
        next = form_multiply(exact, next, form_rational(exact, mt_rational_make(&exact->numbers, 1, i + 1)));
        result = form_multiply(exact, result, next);
    }
    return result;
}

static struct mt_exact_form factorial(struct mt_exact *exact, const struct mt_math_node *node)
{
    int64_t n = 0;
    struct mt_exact_form form = mt_exact_of(exact, node->first);
    if (!form_is_small(exact, form, &n) || n < 0) return form_atom(exact, node);
    return form_rational(exact, mt_rational_factorial(&exact->numbers, n));
}

/* The whole number below, or above. */
static struct mt_exact_form rounded(struct mt_exact *exact, struct mt_rational value, bool up)
{
    mpz_t result;
    mpz_init(result);
    if (up) mpz_cdiv_q(result, mpq_numref(&value.value), mpq_denref(&value.value));
    if (!up) mpz_fdiv_q(result, mpq_numref(&value.value), mpq_denref(&value.value));
    struct mt_exact_form form = form_rational(exact, mt_rational_from(&exact->numbers, result));
    mpz_clear(result);
    return form;
}

static struct mt_exact_form called(struct mt_exact *exact, const struct mt_math_node *node)
{
    struct mt_rational value;
    struct mt_exact_form result;
    struct mt_exact_form form = mt_exact_of(exact, node->first);
    struct mt_exact_form second = nothing;
    if (node->count == 2) second = mt_exact_of(exact, node->first->next);
    if (has_failed(exact)) return nothing;
    if (node->call == MT_CALL_SQRT) {
        struct mt_rational degree = whole(exact, 2);
        if (node->count == 2 && !form_is_rational(exact, second, &degree)) return form_atom(exact, node);
        struct mt_rational power = mt_rational_divide(&exact->numbers, whole(exact, 1), degree);
        return !has_failed(exact) && form_power(exact, form, power, &result) ? result
                                                                             : form_atom(exact, node);
    }
    if (!form_is_rational(exact, form, &value)) return form_atom(exact, node);
    if (node->call == MT_CALL_ABS)
        return mt_rational_sign(&value) < 0 ? scaled_child(exact, node->first, -1, 1) : form;
    if (node->call == MT_CALL_FLOOR || node->call == MT_CALL_CEIL)
        return rounded(exact, value, node->call == MT_CALL_CEIL);
    if (node->call == MT_CALL_EXP && form_power(exact, form_symbol(exact, MT_SYMBOL_E), value, &result))
        return result;
    return form_atom(exact, node);
}

static struct mt_exact_form raised(struct mt_exact *exact, const struct mt_math_node *node)
{
    struct mt_rational power;
    struct mt_exact_form result;
    struct mt_exact_form base = mt_exact_of(exact, node->first);
    struct mt_exact_form exponent = mt_exact_of(exact, node->first->next);
    if (has_failed(exact)) return nothing;
    if (form_is_rational(exact, exponent, &power) && form_power(exact, base, power, &result)) return result;
    return form_atom(exact, node);
}

/* The depth of the tree is the parser's limit. */
struct mt_exact_form mt_exact_of(struct mt_exact *exact, const struct mt_math_node *node)
{
    if (node == NULL) exact->numbers.failed = true;
    if (has_failed(exact)) return nothing;
    switch (node->kind) {
    case MT_MATH_NUMBER: return form_rational(exact, node->number);
    case MT_MATH_SYMBOL: return form_symbol(exact, node->symbol);
    case MT_MATH_SUM:
    case MT_MATH_PRODUCT: return form_of_children(exact, node);
    case MT_MATH_NEGATIVE: return scaled_child(exact, node->first, -1, 1);
    case MT_MATH_EITHER: return scaled_child(exact, node->first, node->flag ? -exact->sign : exact->sign, 1);
    case MT_MATH_QUOTIENT: {
        struct mt_exact_form over = mt_exact_of(exact, node->first);
        struct mt_exact_form under = mt_exact_of(exact, node->first->next);
        return has_failed(exact) ? nothing : form_divide(exact, over, under);
    }
    case MT_MATH_POWER: return raised(exact, node);
    case MT_MATH_CALL: return called(exact, node);
    case MT_MATH_FACTORIAL: return factorial(exact, node);
    case MT_MATH_CHOOSE: return chosen(exact, node);
    case MT_MATH_PERCENT: return scaled_child(exact, node->first, 1, 100);
    case MT_MATH_DEGREE: {
        struct mt_exact_form form = scaled_child(exact, node->first, 1, 180);
        return has_failed(exact) ? nothing : form_multiply(exact, form, form_symbol(exact, MT_SYMBOL_PI));
    }
    case MT_MATH_UNIT: return mt_exact_of(exact, node->first);
    case MT_MATH_GROUP:
        if (node->count == 1) return mt_exact_of(exact, node->first); // brackets around one thing
        break;
    default: break;
    }
    return not_exact(exact);
}
