/* Exact fractions: GMP computes into its own memory, the result is copied into the arena. */
#include "eval/math/rational.h"

#include <math.h>
#include <string.h>

#define MOST_WORK ((int64_t)1 << 22)

static const mp_limb_t one_limb = 1;

static struct mt_rational zero(void)
{
    struct mt_rational value;
    (void)mpz_roinit_n(mpq_numref(&value.value), &one_limb, 0);
    (void)mpz_roinit_n(mpq_denref(&value.value), &one_limb, 1);
    return value;
}

static struct mt_rational fail(struct mt_numbers *numbers)
{
    numbers->failed = true;
    return zero();
}

bool mt_numbers_spend(struct mt_numbers *numbers, int64_t work)
{
    numbers->work += work;
    if (numbers->work > MOST_WORK) numbers->failed = true;
    return !numbers->failed;
}

static bool too_large(mpz_srcptr number)
{
    return mpz_sizeinbase(number, 2) > MT_RATIONAL_BITS;
}

static void keep_whole(struct mt_numbers *numbers, mpz_srcptr number, mpz_ptr kept)
{
    size_t limbs = mpz_size(number);
    mp_limb_t *copy = mt_arena_array(numbers->arena, limbs, sizeof(mp_limb_t), &numbers->status);
    if (copy == NULL) {
        numbers->failed = true;
        return;
    }
    memcpy(copy, mpz_limbs_read(number), limbs * sizeof(mp_limb_t));
    (void)mpz_roinit_n(kept, copy, mpz_sgn(number) * (mp_size_t)limbs);
}

/* Copies a result into the arena. The greatest common divisor it took is about quadratic in the limbs. */
static struct mt_rational keep(struct mt_numbers *numbers, mpq_srcptr result)
{
    struct mt_rational value = zero();
    int64_t limbs = (int64_t)(mpz_size(mpq_numref(result)) + mpz_size(mpq_denref(result)));
    if (too_large(mpq_numref(result)) || too_large(mpq_denref(result))) return fail(numbers);
    if (!mt_numbers_spend(numbers, limbs + limbs * limbs / 8)) return value;
    if (mpq_sgn(result) != 0) keep_whole(numbers, mpq_numref(result), mpq_numref(&value.value));
    bool fraction = mpz_cmp_ui(mpq_denref(result), 1) != 0;
    if (fraction && !numbers->failed) keep_whole(numbers, mpq_denref(result), mpq_denref(&value.value));
    return numbers->failed ? zero() : value;
}

struct mt_rational mt_rational_make(struct mt_numbers *numbers, int64_t over, int64_t under)
{
    mpq_t result;
    if (numbers->failed || under == 0) return fail(numbers);
    mpq_init(result);
    mpz_set_si(mpq_numref(result), (long)over);
    mpz_set_si(mpq_denref(result), (long)under);
    mpq_canonicalize(result);
    struct mt_rational value = keep(numbers, result);
    mpq_clear(result);
    return value;
}

struct mt_rational mt_rational_from(struct mt_numbers *numbers, mpz_srcptr whole)
{
    mpq_t result;
    if (numbers->failed) return zero();
    mpq_init(result);
    mpq_set_z(result, whole);
    struct mt_rational value = keep(numbers, result);
    mpq_clear(result);
    return value;
}

struct mt_rational mt_rational_read(struct mt_numbers *numbers, const char *digits, int64_t shift)
{
    mpz_t whole;
    // Four bits hold more than a digit: no number is made that is too large to be kept.
    if (numbers->failed || strlen(digits) > MT_RATIONAL_BITS / 4) return fail(numbers);
    if (mpz_init_set_str(whole, digits, 10) != 0) numbers->failed = true;
    struct mt_rational value = mt_rational_from(numbers, whole);
    mpz_clear(whole);
    if (shift == 0) return value;
    struct mt_rational scale = mt_rational_power(numbers, mt_rational_make(numbers, 10, 1), shift);
    return mt_rational_multiply(numbers, value, scale);
}

static struct mt_rational combine(struct mt_numbers *numbers, const struct mt_rational *a,
                                  const struct mt_rational *b,
                                  void (*operation)(mpq_ptr, mpq_srcptr, mpq_srcptr))
{
    mpq_t result;
    if (numbers->failed) return zero();
    mpq_init(result);
    operation(result, &a->value, &b->value);
    struct mt_rational value = keep(numbers, result);
    mpq_clear(result);
    return value;
}

struct mt_rational mt_rational_add(struct mt_numbers *numbers, struct mt_rational a, struct mt_rational b)
{
    return combine(numbers, &a, &b, mpq_add);
}

struct mt_rational mt_rational_multiply(struct mt_numbers *numbers, struct mt_rational a,
                                        struct mt_rational b)
{
    return combine(numbers, &a, &b, mpq_mul);
}

struct mt_rational mt_rational_divide(struct mt_numbers *numbers, struct mt_rational a, struct mt_rational b)
{
    if (mpq_sgn(&b.value) == 0) return fail(numbers);
    return combine(numbers, &a, &b, mpq_div);
}

struct mt_rational mt_rational_power(struct mt_numbers *numbers, struct mt_rational base, int64_t exponent)
{
    mpq_t result;
    uint64_t count = exponent < 0 ? 0 - (uint64_t)exponent : (uint64_t)exponent;
    size_t over = mpz_sizeinbase(mpq_numref(&base.value), 2);
    size_t under = mpz_sizeinbase(mpq_denref(&base.value), 2);
    bool unit = over == 1 && under == 1; // 0, 1 and -1 stay small
    if (numbers->failed || (exponent < 0 && mpq_sgn(&base.value) == 0)) return fail(numbers);
    // A number of n bits is at least 2^(n-1): larger powers than these are too large for certain.
    if (!unit && count > MT_RATIONAL_BITS) return fail(numbers);
    if (!unit && (over - 1 > MT_RATIONAL_BITS / (count + 1) || under - 1 > MT_RATIONAL_BITS / (count + 1)))
        return fail(numbers);
    if (unit) count %= 2;
    if (mpq_sgn(&base.value) == 0 && exponent > 0) return base;
    mpq_init(result);
    mpz_pow_ui(mpq_numref(result), mpq_numref(&base.value), (unsigned long)count);
    mpz_pow_ui(mpq_denref(result), mpq_denref(&base.value), (unsigned long)count);
    if (exponent < 0) mpq_inv(result, result);
    struct mt_rational value = keep(numbers, result);
    mpq_clear(result);
    return value;
}

struct mt_rational mt_rational_factorial(struct mt_numbers *numbers, int64_t n)
{
    mpz_t result;
    if (n < 0 || n > 4000) return fail(numbers); // 4000! has more bits than are kept
    mpz_init(result);
    mpz_fac_ui(result, (unsigned long)n);
    struct mt_rational value = mt_rational_from(numbers, result);
    mpz_clear(result);
    return value;
}

struct mt_rational mt_rational_choose(struct mt_numbers *numbers, int64_t n, int64_t k)
{
    mpz_t result;
    if (n > INT32_MAX) return fail(numbers);
    if (k > n) return zero();
    if (k > n - k) k = n - k;
    if (k > MT_RATIONAL_BITS) return fail(numbers); // C(n, k) >= 2^k where 2k <= n
    int64_t bits = 0;                               // of n/k: C(n, k) >= (n/k)^k
    while (k > 0 && (n / k) >> (bits + 1) > 0) bits++;
    if (k * bits > MT_RATIONAL_BITS) return fail(numbers);
    mpz_init(result);
    mpz_bin_uiui(result, (unsigned long)n, (unsigned long)k);
    struct mt_rational value = mt_rational_from(numbers, result);
    mpz_clear(result);
    return value;
}

bool mt_rational_equal(const struct mt_rational *a, const struct mt_rational *b)
{
    return mpq_equal(&a->value, &b->value) != 0;
}

int mt_rational_sign(const struct mt_rational *a)
{
    return mpq_sgn(&a->value);
}

bool mt_rational_small(const struct mt_rational *a, int64_t *value)
{
    bool small = mpz_cmp_ui(mpq_denref(&a->value), 1) == 0 && mpz_fits_slong_p(mpq_numref(&a->value)) != 0;
    *value = small ? (int64_t)mpz_get_si(mpq_numref(&a->value)) : 0;
    return small;
}

double mt_rational_double(const struct mt_rational *a)
{
    double value = mpq_get_d(&a->value);
    return isfinite(value) ? value : INFINITY;
}
