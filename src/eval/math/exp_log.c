/* e^z as (1 + z/2^s + ...)^(2^s), and the logarithm of w by Newton's method: z + 2 (w - e^z)/(w + e^z). */
#include <math.h>

#include "eval/math/value.h"

#define FLOAT_BITS (MT_VALUE_BITS + 128)
#define SMALL_BITS 24 // the series begins below 2^-this
#define MOST_SIZE  40 // of an exponent, in bits
#define TERMS      (FLOAT_BITS / SMALL_BITS + 1)
#define STEPS      4 // each has three times as many digits right
#define EXP_WORK   4096

struct floats {
    mpf_t re, im;
};

static void floats_init(struct floats *z)
{
    mpf_init2(z->re, FLOAT_BITS);
    mpf_init2(z->im, FLOAT_BITS);
}

static void floats_clear(struct floats *z)
{
    mpf_clear(z->re);
    mpf_clear(z->im);
}

/* a = a b; all are different. */
static void multiply(struct floats *a, const struct floats *b, struct floats *kept)
{
    mpf_mul(kept->re, a->im, b->im);
    mpf_mul(kept->im, a->im, b->re);
    mpf_mul(a->im, a->re, b->im);
    mpf_add(a->im, a->im, kept->im);
    mpf_mul(a->re, a->re, b->re);
    mpf_sub(a->re, a->re, kept->re);
}

static int64_t float_size(const struct floats *z)
{
    long re = 0;
    long im = 0;
    if (mpf_sgn(z->re) != 0) (void)mpf_get_d_2exp(&re, z->re);
    if (mpf_sgn(z->im) != 0) (void)mpf_get_d_2exp(&im, z->im);
    if (mpf_sgn(z->re) == 0 || mpf_sgn(z->im) == 0) return mpf_sgn(z->re) == 0 ? im : re;
    return re > im ? re : im;
}

/* e^z for |z| < 2^MOST_SIZE. */
static void exponential(const struct floats *z, struct floats *result)
{
    struct floats term;
    struct floats small;
    struct floats kept;
    int64_t size = float_size(z);
    unsigned long halvings = size + SMALL_BITS > 0 ? (unsigned long)(size + SMALL_BITS) : 0;
    floats_init(&term);
    floats_init(&small);
    floats_init(&kept);
    mpf_div_2exp(small.re, z->re, halvings);
    mpf_div_2exp(small.im, z->im, halvings);
    mpf_set_ui(term.re, 1);
    mpf_set_ui(result->re, 1);
    mpf_set_ui(result->im, 0);
    for (unsigned long i = 1; i <= TERMS; i++) {
        multiply(&term, &small, &kept);
        mpf_div_ui(term.re, term.re, i);
        mpf_div_ui(term.im, term.im, i);
        mpf_add(result->re, result->re, term.re);
        mpf_add(result->im, result->im, term.im);
    }
    for (unsigned long i = 0; i < halvings; i++) {
        mpf_set(small.re, result->re);
        mpf_set(small.im, result->im);
        multiply(result, &small, &kept);
    }
    floats_clear(&term);
    floats_clear(&small);
    floats_clear(&kept);
}

/* w/v, v is overwritten. */
static void divide(struct floats *w, struct floats *v, struct floats *kept)
{
    mpf_t size;
    mpf_init2(size, FLOAT_BITS);
    mpf_mul(size, v->re, v->re);
    mpf_mul(kept->re, v->im, v->im);
    mpf_add(size, size, kept->re);
    mpf_neg(v->im, v->im);
    multiply(w, v, kept);
    mpf_div(w->re, w->re, size);
    mpf_div(w->im, w->im, size);
    mpf_clear(size);
}

static void logarithm(const struct floats *w, struct floats *result)
{
    struct floats sum;
    struct floats rest;
    struct floats kept;
    long size = (long)float_size(w);
    floats_init(&sum);
    floats_init(&rest);
    floats_init(&kept);
    for (int i = 0; i < 2; i++) { // scaled, so that a double holds it
        mpf_srcptr part = i == 0 ? w->re : w->im;
        if (size > 0) mpf_div_2exp(i == 0 ? rest.re : rest.im, part, (unsigned long)size);
        if (size <= 0) mpf_mul_2exp(i == 0 ? rest.re : rest.im, part, (unsigned long)-size);
    }
    double re = mpf_get_d(rest.re);
    double im = mpf_get_d(rest.im);
    mpf_set_d(result->re, log(hypot(re, im)) + (double)size * log(2.0));
    mpf_set_d(result->im, atan2(im, re));
    for (int i = 0; i < STEPS; i++) {
        exponential(result, &sum);
        mpf_sub(rest.re, w->re, sum.re);
        mpf_sub(rest.im, w->im, sum.im);
        mpf_add(sum.re, w->re, sum.re);
        mpf_add(sum.im, w->im, sum.im);
        divide(&rest, &sum, &kept);
        mpf_mul_2exp(rest.re, rest.re, 1);
        mpf_mul_2exp(rest.im, rest.im, 1);
        mpf_add(result->re, result->re, rest.re);
        mpf_add(result->im, result->im, rest.im);
    }
    floats_clear(&sum);
    floats_clear(&rest);
    floats_clear(&kept);
}

/* A part of a result, to the bits that count. */
static struct mt_rational kept_part(struct mt_numbers *numbers, mpf_ptr part, int64_t error)
{
    mpz_t whole;
    int64_t shift = 64 - error;
    if (shift > 0) mpf_mul_2exp(part, part, (unsigned long)shift);
    if (shift <= 0) mpf_div_2exp(part, part, (unsigned long)-shift);
    mpz_init(whole);
    mpz_set_f(whole, part);
    struct mt_rational value = mt_rational_from(numbers, whole);
    mpz_clear(whole);
    struct mt_rational two = mt_rational_make(numbers, 2, 1);
    struct mt_rational scale = mt_rational_power(numbers, two, -shift);
    return mt_rational_multiply(numbers, value, scale);
}

static struct mt_value transcendental(struct mt_numbers *numbers, const struct mt_value *z, bool is_log)
{
    struct mt_value value = *z;
    struct floats from;
    struct floats to;
    int64_t size = mt_value_size(z);
    int64_t off = is_log && z->error != MT_VALUE_EXACT ? z->error - (size - 2) : z->error; // relative
    bool zero = mt_rational_sign(&z->re) == 0 && mt_rational_sign(&z->im) == 0;
    if (zero ? is_log : !is_log && size > MOST_SIZE) numbers->failed = true;
    if (!mt_numbers_spend(numbers, is_log ? STEPS * EXP_WORK : EXP_WORK)) return value;
    floats_init(&from);
    floats_init(&to);
    mpf_set_q(from.re, &z->re.value);
    mpf_set_q(from.im, &z->im.value);
    if (is_log) logarithm(&from, &to);
    if (!is_log) exponential(&from, &to);
    size = float_size(&to);
    if (off < -MT_VALUE_BITS) off = -MT_VALUE_BITS;
    value.error = off + (!is_log || size > 0 ? size : 0);
    if (value.error > MT_VALUE_LOOSE) numbers->failed = true;
    if (!numbers->failed) value.re = kept_part(numbers, to.re, value.error);
    if (!numbers->failed) value.im = kept_part(numbers, to.im, value.error);
    floats_clear(&from);
    floats_clear(&to);
    return value;
}

struct mt_value mt_value_exp(struct mt_numbers *numbers, const struct mt_value *z)
{
    return transcendental(numbers, z, false);
}

struct mt_value mt_value_log(struct mt_numbers *numbers, const struct mt_value *z)
{
    return transcendental(numbers, z, true);
}
