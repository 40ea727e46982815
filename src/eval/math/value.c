/* Values at points: arithmetic that bounds its errors, functions, trees. */
#include "eval/math/value.h"

#define SNAP_BITS    16  // what is nearer to a whole number than the error and these is one
#define MOST_REPEATS 256 // the largest power made by multiplying
#define NOTHING      (INT64_MIN / 4)

static int64_t rational_size(const struct mt_rational *x)
{
    if (mt_rational_sign(x) == 0) return NOTHING;
    return (int64_t)mpz_sizeinbase(mpq_numref(&x->value), 2) -
           (int64_t)mpz_sizeinbase(mpq_denref(&x->value), 2) + 1;
}

int64_t mt_value_size(const struct mt_value *z)
{
    int64_t re = rational_size(&z->re);
    int64_t im = rational_size(&z->im);
    return re > im ? re : im;
}

bool mt_value_is_zero(const struct mt_value *z)
{
    return mt_rational_sign(&z->re) == 0 && mt_rational_sign(&z->im) == 0;
}

static bool is_real(const struct mt_value *z)
{
    return mt_rational_sign(&z->im) == 0;
}

static struct mt_value exactly(struct mt_numbers *numbers, int64_t over, int64_t under)
{
    struct mt_value result = {.error = MT_VALUE_EXACT};
    result.re = mt_rational_make(numbers, over, under);
    result.im = mt_rational_make(numbers, 0, 1);
    return result;
}

static struct mt_value imaginary(struct mt_numbers *numbers)
{
    struct mt_value result = exactly(numbers, 0, 1);
    result.im = mt_rational_make(numbers, 1, 1);
    return result;
}

/* The whole number at or below x 2^shift, or the nearest. */
static struct mt_rational whole_part(struct mt_numbers *numbers, struct mt_rational x, bool nearest)
{
    mpz_t whole;
    if (nearest) x = mt_rational_add(numbers, x, mt_rational_make(numbers, 1, 2));
    mpz_init(whole);
    mpz_fdiv_q(whole, mpq_numref(&x.value), mpq_denref(&x.value));
    struct mt_rational result = mt_rational_from(numbers, whole);
    mpz_clear(whole);
    return result;
}

/* Cuts what is below the error off. */
static struct mt_rational cut(struct mt_numbers *numbers, struct mt_rational x, int64_t error)
{
    struct mt_rational two = mt_rational_make(numbers, 2, 1);
    if (rational_size(&x) < error + SNAP_BITS) return mt_rational_make(numbers, 0, 1);
    struct mt_rational scaled = mt_rational_multiply(numbers, x, mt_rational_power(numbers, two, 64 - error));
    scaled = whole_part(numbers, scaled, true);
    return mt_rational_multiply(numbers, scaled, mt_rational_power(numbers, two, error - 64));
}

/* Every result that is not exact goes through here: what is not close fails, what is whole becomes exact. */
static struct mt_value settled(struct mt_numbers *numbers, struct mt_value z)
{
    if (z.error == MT_VALUE_EXACT) return z;
    if (z.error > MT_VALUE_LOOSE) numbers->failed = true;
    if (numbers->failed) return z;
    z.re = cut(numbers, z.re, z.error);
    z.im = cut(numbers, z.im, z.error);
    if (numbers->failed || !is_real(&z)) return z;
    struct mt_rational whole = whole_part(numbers, z.re, true);
    struct mt_rational minus = mt_rational_multiply(numbers, whole, mt_rational_make(numbers, -1, 1));
    struct mt_rational rest = mt_rational_add(numbers, z.re, minus);
    if (rational_size(&rest) >= z.error + SNAP_BITS) return z;
    return (struct mt_value){.re = whole, .im = z.im, .error = MT_VALUE_EXACT};
}

static struct mt_value add(struct mt_numbers *numbers, const struct mt_value *a, const struct mt_value *b)
{
    struct mt_value sum = {.error = a->error > b->error ? a->error : b->error};
    sum.re = mt_rational_add(numbers, a->re, b->re);
    sum.im = mt_rational_add(numbers, a->im, b->im);
    return settled(numbers, sum);
}

struct mt_value mt_value_multiply(struct mt_numbers *numbers, const struct mt_value *a,
                                  const struct mt_value *b)
{
    struct mt_value product = {.error = MT_VALUE_EXACT};
    struct mt_rational minus = mt_rational_multiply(numbers, a->im, mt_rational_make(numbers, -1, 1));
    struct mt_rational re = mt_rational_multiply(numbers, a->re, b->re);
    struct mt_rational im = mt_rational_multiply(numbers, a->re, b->im);
    product.re = mt_rational_add(numbers, re, mt_rational_multiply(numbers, minus, b->im));
    product.im = mt_rational_add(numbers, im, mt_rational_multiply(numbers, a->im, b->re));
    for (int turn = 0; turn < 2; turn++) { // each one's error times the other's size
        const struct mt_value *one = turn == 0 ? a : b;
        const struct mt_value *other = turn == 0 ? b : a;
        if (one->error == MT_VALUE_EXACT || mt_value_is_zero(other)) continue;
        int64_t error = one->error + mt_value_size(other);
        if (error > product.error) product.error = error;
    }
    return settled(numbers, product);
}

static struct mt_value scaled(struct mt_numbers *numbers, const struct mt_value *z, int64_t over,
                              int64_t under)
{
    struct mt_value factor = exactly(numbers, over, under);
    return mt_value_multiply(numbers, z, &factor);
}

struct mt_value mt_value_subtract(struct mt_numbers *numbers, const struct mt_value *a,
                                  const struct mt_value *b)
{
    struct mt_value minus = scaled(numbers, b, -1, 1);
    return add(numbers, a, &minus);
}

static struct mt_value divide(struct mt_numbers *numbers, const struct mt_value *a, const struct mt_value *b)
{
    struct mt_value inverse = *b;
    int64_t size = mt_value_size(b);
    struct mt_rational re = mt_rational_multiply(numbers, b->re, b->re);
    struct mt_rational im = mt_rational_multiply(numbers, b->im, b->im);
    struct mt_rational length = mt_rational_add(numbers, re, im);
    struct mt_rational minus = mt_rational_multiply(numbers, length, mt_rational_make(numbers, -1, 1));
    inverse.re = mt_rational_divide(numbers, b->re, length);
    inverse.im = mt_rational_divide(numbers, b->im, minus);
    if (b->error != MT_VALUE_EXACT) inverse.error = b->error - 2 * (size - 2);
    inverse = settled(numbers, inverse);
    return mt_value_multiply(numbers, a, &inverse);
}

bool mt_value_same(struct mt_numbers *numbers, const struct mt_value *a, const struct mt_value *b)
{
    struct mt_value rest = mt_value_subtract(numbers, a, b);
    if (numbers->failed || mt_value_is_zero(&rest)) return !numbers->failed;
    return rest.error != MT_VALUE_EXACT && mt_value_size(&rest) < rest.error + MT_VALUE_MARGIN;
}

// ------------------------------------------------------------------ powers

static bool is_negative(const struct mt_value *z)
{
    return is_real(z) && mt_rational_sign(&z->re) < 0;
}

static bool is_small(const struct mt_value *z, int64_t *count)
{
    return z->error == MT_VALUE_EXACT && is_real(z) && mt_rational_small(&z->re, count);
}

static struct mt_value by_logarithm(struct mt_numbers *numbers, const struct mt_value *base,
                                    const struct mt_value *exponent)
{
    struct mt_value log = mt_value_log(numbers, base);
    struct mt_value product = mt_value_multiply(numbers, &log, exponent);
    return settled(numbers, mt_value_exp(numbers, &product));
}

/* Whole powers exactly. The real root of a negative number where the degree is odd, as answers mean it. */
static struct mt_value power(struct mt_math_point *point, const struct mt_value *base,
                             const struct mt_value *exponent)
{
    struct mt_numbers *numbers = &point->numbers;
    struct mt_value result = exactly(numbers, 1, 1);
    int64_t count = 0;
    if (numbers->failed) return result;
    bool small = is_small(exponent, &count);
    if (small && base->error == MT_VALUE_EXACT && is_real(base)) {
        result.re = mt_rational_power(numbers, base->re, count);
        return result;
    }
    if (small && count >= -MOST_REPEATS && count <= MOST_REPEATS) {
        for (int64_t i = count < 0 ? -count : count; i > 0; i--)
            result = mt_value_multiply(numbers, &result, base);
        struct mt_value one = exactly(numbers, 1, 1);
        return count < 0 ? divide(numbers, &one, &result) : result;
    }
    if (mt_value_is_zero(base)) {
        if (!is_real(exponent) || mt_rational_sign(&exponent->re) <= 0) numbers->failed = true;
        return *base;
    }
    if (!is_negative(base)) return by_logarithm(numbers, base, exponent);
    bool fraction = exponent->error == MT_VALUE_EXACT && is_real(exponent);
    bool odd = fraction && mpz_odd_p(mpq_denref(&exponent->re.value)) != 0;
    if (!odd && point->real) numbers->failed = true;
    if (!odd) return by_logarithm(numbers, base, exponent);
    struct mt_value positive = scaled(numbers, base, -1, 1);
    result = by_logarithm(numbers, &positive, exponent);
    return mpz_odd_p(mpq_numref(&exponent->re.value)) != 0 ? scaled(numbers, &result, -1, 1) : result;
}

static struct mt_value root(struct mt_math_point *point, const struct mt_value *z, int64_t degree)
{
    struct mt_value exponent = exactly(&point->numbers, 1, degree);
    return power(point, z, &exponent);
}

static struct mt_value logarithm(struct mt_math_point *point, const struct mt_value *z)
{
    if (point->real && is_negative(z)) point->numbers.failed = true;
    return settled(&point->numbers, mt_value_log(&point->numbers, z));
}

// ------------------------------------------------------------------ functions

/* (e^z + s e^-z)/2: cosh for s = 1, sinh for -1. */
static struct mt_value hyperbolic(struct mt_numbers *numbers, const struct mt_value *z, int64_t sign)
{
    struct mt_value minus = scaled(numbers, z, -1, 1);
    struct mt_value up = mt_value_exp(numbers, z);
    struct mt_value down = mt_value_exp(numbers, &minus);
    down = scaled(numbers, &down, sign, 1);
    struct mt_value sum = add(numbers, &up, &down);
    return scaled(numbers, &sum, 1, 2);
}

/* cos z = cosh iz, sin z = sinh(iz)/i. */
static struct mt_value circular(struct mt_numbers *numbers, const struct mt_value *z, int64_t sign)
{
    struct mt_value i = imaginary(numbers);
    struct mt_value turned = mt_value_multiply(numbers, z, &i);
    struct mt_value result = hyperbolic(numbers, &turned, sign);
    return sign > 0 ? result : divide(numbers, &result, &i);
}

/* -i log(w) for the three inverses: w = iz + sqrt(1 - z^2) of the sine, sqrt((1 + iz)/(1 - iz)) of the
 * tangent. */
static struct mt_value inverse(struct mt_math_point *point, const struct mt_value *z, enum mt_math_call call)
{
    struct mt_math_point whole_plane = *point;
    struct mt_numbers *numbers = &whole_plane.numbers;
    whole_plane.real = false;
    struct mt_value one = exactly(numbers, 1, 1);
    struct mt_value i = imaginary(numbers);
    struct mt_value turned = mt_value_multiply(numbers, z, &i);
    struct mt_value square = mt_value_multiply(numbers, &turned, &turned);
    struct mt_value result = add(numbers, &one, &square);
    if (call == MT_CALL_ARCTAN) {
        struct mt_value up = add(numbers, &one, &turned);
        struct mt_value down = mt_value_subtract(numbers, &one, &turned);
        result = divide(numbers, &up, &down);
        result = root(&whole_plane, &result, 2);
    } else {
        result = root(&whole_plane, &result, 2);
        result = add(numbers, &turned, &result);
    }
    result = logarithm(&whole_plane, &result);
    result = divide(numbers, &result, &i);
    if (call == MT_CALL_ARCCOS) {
        struct mt_value minus = scaled(numbers, &one, -1, 1);
        struct mt_value right = logarithm(&whole_plane, &minus); // πi
        right = divide(numbers, &right, &i);
        right = scaled(numbers, &right, 1, 2);
        result = mt_value_subtract(numbers, &right, &result);
    }
    point->numbers = whole_plane.numbers;
    return result;
}

static struct mt_value absolute(struct mt_math_point *point, const struct mt_value *z)
{
    struct mt_numbers *numbers = &point->numbers;
    struct mt_value turned = *z;
    if (is_real(z)) return is_negative(z) ? scaled(numbers, z, -1, 1) : *z;
    turned.im = mt_rational_multiply(numbers, z->im, mt_rational_make(numbers, -1, 1));
    turned = mt_value_multiply(numbers, z, &turned);
    return root(point, &turned, 2);
}

/* The whole number below, or above. */
static struct mt_value rounded(struct mt_numbers *numbers, const struct mt_value *z, int64_t sign)
{
    struct mt_value result = scaled(numbers, z, sign, 1);
    if (!is_real(z)) numbers->failed = true;
    result.error = MT_VALUE_EXACT;
    result.re = whole_part(numbers, result.re, false);
    return scaled(numbers, &result, sign, 1);
}

static struct mt_value called(struct mt_math_point *point, enum mt_math_call call, const struct mt_value *z,
                              const struct mt_value *second)
{
    struct mt_numbers *numbers = &point->numbers;
    struct mt_value one = exactly(numbers, 1, 1);
    struct mt_value base = exactly(numbers, 2, 1);
    struct mt_value sine;
    struct mt_value cosine;
    switch (call) {
    case MT_CALL_SQRT:
        base = divide(numbers, &one, second != NULL ? second : &base);
        return power(point, z, &base);
    case MT_CALL_LOG:
        if (second != NULL) base = logarithm(point, second);
        sine = logarithm(point, z);
        return second != NULL ? divide(numbers, &sine, &base) : sine;
    case MT_CALL_ABS: return absolute(point, z);
    case MT_CALL_EXP: return settled(numbers, mt_value_exp(numbers, z));
    case MT_CALL_FLOOR:
    case MT_CALL_CEIL: return rounded(numbers, z, call == MT_CALL_FLOOR ? 1 : -1);
    case MT_CALL_ARCSIN:
    case MT_CALL_ARCCOS:
    case MT_CALL_ARCTAN: return inverse(point, z, call);
    case MT_CALL_SIN: return circular(numbers, z, -1);
    case MT_CALL_COS: return circular(numbers, z, 1);
    case MT_CALL_SINH: return hyperbolic(numbers, z, -1);
    case MT_CALL_COSH: return hyperbolic(numbers, z, 1);
    default: break;
    }
    bool turns = call != MT_CALL_TANH;
    sine = turns ? circular(numbers, z, -1) : hyperbolic(numbers, z, -1);
    cosine = turns ? circular(numbers, z, 1) : hyperbolic(numbers, z, 1);
    if (call == MT_CALL_COT) return divide(numbers, &cosine, &sine);
    if (call == MT_CALL_SEC || call == MT_CALL_CSC)
        return divide(numbers, &one, call == MT_CALL_SEC ? &cosine : &sine);
    return divide(numbers, &sine, &cosine);
}

// ------------------------------------------------------------------ trees

static struct mt_value symbol_value(struct mt_math_point *point, int64_t symbol)
{
    struct mt_numbers *numbers = &point->numbers;
    struct mt_value one = exactly(numbers, 1, 1);
    if (symbol == MT_SYMBOL_I) return imaginary(numbers);
    if (symbol == MT_SYMBOL_E) return mt_value_exp(numbers, &one);
    if (symbol == MT_SYMBOL_PI) {
        struct mt_value i = imaginary(numbers);
        one = scaled(numbers, &one, -1, 1);
        one = mt_value_log(numbers, &one);
        return settled(numbers, divide(numbers, &one, &i));
    }
    int64_t own = 1 + (symbol * 37 + (int64_t)point->index * 1009) % 101;
    // Odd and even: (-1)^n is not 1. Fractions, negative ones too, or |x| would be x and sin πx 0.
    if (point->index < 3) return exactly(numbers, 7 + 2 * (own % 9) + point->index % 2, 1);
    bool negative = point->index == 3 || (point->index == 4 && own % 2 == 1);
    return exactly(numbers, negative ? -7 * own - 3 : 7 * own + 3, 77);
}

/* n!, and n over k. */
static struct mt_value counted(struct mt_numbers *numbers, const struct mt_value *n, const struct mt_value *k)
{
    struct mt_value result = exactly(numbers, 0, 1);
    int64_t top = 0;
    int64_t bottom = 0;
    if (!is_small(n, &top) || top < 0) numbers->failed = true;
    if (k != NULL && (!is_small(k, &bottom) || bottom < 0)) numbers->failed = true;
    if (!numbers->failed)
        result.re =
            k != NULL ? mt_rational_choose(numbers, top, bottom) : mt_rational_factorial(numbers, top);
    return result;
}

/* Takes another child in. */
static struct mt_value joined(struct mt_math_point *point, const struct mt_math_node *node,
                              const struct mt_value *x, const struct mt_value *y)
{
    struct mt_numbers *numbers = &point->numbers;
    switch (node->kind) {
    case MT_MATH_SUM: return add(numbers, x, y);
    case MT_MATH_PRODUCT: return mt_value_multiply(numbers, x, y);
    case MT_MATH_QUOTIENT: return divide(numbers, x, y);
    case MT_MATH_POWER: return power(point, x, y);
    case MT_MATH_CHOOSE: return counted(numbers, x, y);
    case MT_MATH_CALL: return called(point, node->call, x, y);
    default: numbers->failed = true; return *x;
    }
}

static struct mt_value single(struct mt_math_point *point, const struct mt_math_node *node,
                              const struct mt_value *x)
{
    struct mt_numbers *numbers = &point->numbers;
    struct mt_value pi;
    switch (node->kind) {
    case MT_MATH_SUM:
    case MT_MATH_PRODUCT:
    case MT_MATH_UNIT:
    case MT_MATH_GROUP: return *x;
    case MT_MATH_NEGATIVE: return scaled(numbers, x, -1, 1);
    case MT_MATH_EITHER: return scaled(numbers, x, node->flag ? -point->sign : point->sign, 1);
    case MT_MATH_PERCENT: return scaled(numbers, x, 1, 100);
    case MT_MATH_DEGREE:
        pi = symbol_value(point, MT_SYMBOL_PI);
        pi = scaled(numbers, &pi, 1, 180);
        return mt_value_multiply(numbers, x, &pi);
    case MT_MATH_FACTORIAL: return counted(numbers, x, NULL);
    case MT_MATH_CALL: return called(point, node->call, x, NULL);
    default: numbers->failed = true; return *x;
    }
}

bool mt_math_varies(const struct mt_math_node *node)
{
    bool found = node->kind == MT_MATH_SYMBOL && node->symbol != MT_SYMBOL_E && node->symbol != MT_SYMBOL_I &&
                 node->symbol != MT_SYMBOL_PI;
    for (const struct mt_math_node *child = node->first; child != NULL && !found; child = child->next)
        found = mt_math_varies(child);
    return found;
}

/* The depth of the tree is the parser's limit. */
bool mt_math_value_at(struct mt_math_point *point, const struct mt_math_node *node, struct mt_value *value)
{
    struct mt_numbers *numbers = &point->numbers;
    struct mt_value next;
    if (node == NULL) numbers->failed = true;
    if (numbers->failed) return false;
    if (node->kind == MT_MATH_NUMBER) {
        *value = exactly(numbers, 0, 1);
        value->re = node->number;
    } else if (node->kind == MT_MATH_SYMBOL) {
        *value = symbol_value(point, node->symbol);
    } else {
        if (!mt_math_value_at(point, node->first, value)) return false;
        const struct mt_math_node *child = node->first->next;
        if (child == NULL) *value = single(point, node, value);
        for (; child != NULL; child = child->next) {
            if (!mt_math_value_at(point, child, &next)) return false;
            *value = joined(point, node, value, &next);
        }
    }
    return !numbers->failed;
}

bool mt_math_number(struct mt_arena *arena, enum mt_status *status, const struct mt_math_node *node,
                    double *number)
{
    struct mt_math_point point = {.numbers = {.arena = arena}, .sign = 1};
    struct mt_value value;
    bool known = mt_math_value_at(&point, node, &value);
    if (known) *number = mt_rational_double(&value.re);
    if (point.numbers.status != MT_OK) *status = point.numbers.status;
    return known;
}
