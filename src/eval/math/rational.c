/* Exact fractions in 128-bit integers, every product checked before it is made. */
#include "eval/math/rational.h"

static const __int128 most = (__int128)1 << 120;

static __int128 magnitude(__int128 a)
{
    return a < 0 ? -a : a;
}

/* Division is slower than a builtin, and links with every compiler's runtime library. */
static bool multiply(__int128 a, __int128 b, __int128 *result)
{
    if (a != 0 && magnitude(b) > most / magnitude(a)) return false;
    *result = a * b;
    return true;
}

static __int128 greatest_divisor(__int128 a, __int128 b)
{
    while (b != 0) {
        __int128 rest = a % b;
        a = b;
        b = rest;
    }
    return magnitude(a);
}

struct mt_rational mt_rational_whole(int64_t value)
{
    return (struct mt_rational){.over = value, .under = 1};
}

bool mt_rational_make(__int128 over, __int128 under, struct mt_rational *result)
{
    if (under == 0 || magnitude(over) > most || magnitude(under) > most) return false;
    __int128 divisor = greatest_divisor(over, under);
    if (under < 0) divisor = -divisor;
    *result = (struct mt_rational){.over = over / divisor, .under = under / divisor};
    return true;
}

bool mt_rational_add(struct mt_rational a, struct mt_rational b, struct mt_rational *result)
{
    __int128 left = 0;
    __int128 right = 0;
    __int128 under = 0;
    if (!multiply(a.over, b.under, &left) || !multiply(b.over, a.under, &right)) return false;
    if (!multiply(a.under, b.under, &under)) return false;
    return mt_rational_make(left + right, under, result);
}

bool mt_rational_multiply(struct mt_rational a, struct mt_rational b, struct mt_rational *result)
{
    // Cancelling crosswise first keeps the products as small as the result.
    __int128 first = greatest_divisor(a.over, b.under);
    __int128 second = greatest_divisor(b.over, a.under);
    if (first == 0) first = 1;
    if (second == 0) second = 1;
    __int128 over = 0;
    __int128 under = 0;
    if (!multiply(a.over / first, b.over / second, &over)) return false;
    if (!multiply(a.under / second, b.under / first, &under)) return false;
    return mt_rational_make(over, under, result);
}

bool mt_rational_divide(struct mt_rational a, struct mt_rational b, struct mt_rational *result)
{
    struct mt_rational inverse;
    return mt_rational_make(b.under, b.over, &inverse) && mt_rational_multiply(a, inverse, result);
}

bool mt_rational_power(struct mt_rational base, int exponent, struct mt_rational *result)
{
    struct mt_rational power = mt_rational_whole(1);
    int count = exponent < 0 ? -exponent : exponent;
    if (count > 10000) return false;
    for (int i = 0; i < count; i++) {
        if (!mt_rational_multiply(power, base, &power)) return false;
    }
    if (exponent < 0) return mt_rational_divide(mt_rational_whole(1), power, result);
    *result = power;
    return true;
}

bool mt_rational_equal(struct mt_rational a, struct mt_rational b)
{
    return a.over == b.over && a.under == b.under;
}

bool mt_rational_is_whole(struct mt_rational a)
{
    return a.under == 1;
}

int mt_rational_sign(struct mt_rational a)
{
    return a.over > 0 ? 1 : (a.over < 0 ? -1 : 0);
}
