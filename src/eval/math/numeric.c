/* Values of trees in complex double. */
#include "eval/math/numeric.h"

#include <math.h>

#define CLOSE 1e-9

/* Where a variable is evaluated: negative ones, too, or |x| would be x. */
static double complex symbol_value(int symbol, int point, bool *varies)
{
    static const double bases[MT_NUMERIC_POINTS] = {0.7310, 1.9270, -0.6130, 3.4410, -2.2870};
    if (symbol == MT_SYMBOL_PI) return acos(-1.0);
    if (symbol == MT_SYMBOL_E) return exp(1.0);
    if (symbol == MT_SYMBOL_I) return I;
    *varies = true;
    double shift = fmod(symbol * 0.6180339887498949, 1.0);
    return bases[point] * (1.0 + 0.37 * shift);
}

static bool call_value(const struct mt_math_node *node, double complex x, bool two, double complex second,
                       double complex *value)
{
    switch (node->call) {
    case MT_CALL_SQRT:
        *value = csqrt(x);
        if (two && cimag(x) == 0 && creal(x) < 0 && fmod(creal(second), 2.0) == 1.0) {
            *value = -pow(-creal(x), 1.0 / creal(second)); // the real root
        } else if (two) {
            *value = cpow(x, 1.0 / second);
        }
        return true;
    case MT_CALL_ABS: *value = cabs(x); return true;
    case MT_CALL_SIN: *value = csin(x); return true;
    case MT_CALL_COS: *value = ccos(x); return true;
    case MT_CALL_TAN: *value = ctan(x); return true;
    case MT_CALL_COT: *value = 1.0 / ctan(x); return true;
    case MT_CALL_SEC: *value = 1.0 / ccos(x); return true;
    case MT_CALL_CSC: *value = 1.0 / csin(x); return true;
    case MT_CALL_ARCSIN: *value = casin(x); return true;
    case MT_CALL_ARCCOS: *value = cacos(x); return true;
    case MT_CALL_ARCTAN: *value = catan(x); return true;
    case MT_CALL_LOG: *value = two ? clog(x) / clog(second) : clog(x); return true;
    case MT_CALL_EXP: *value = cexp(x); return true;
    case MT_CALL_FLOOR: *value = floor(creal(x)); return cimag(x) == 0;
    case MT_CALL_CEIL: *value = ceil(creal(x)); return cimag(x) == 0;
    }
    return false;
}

/* Combines the values of one or two children. */
static bool combine(const struct mt_math_node *node, int sign, double complex x, bool two, double complex y,
                    double complex *value)
{
    switch (node->kind) {
    case MT_MATH_SUM: *value = x + y; return true;
    case MT_MATH_PRODUCT: *value = x * y; return true;
    case MT_MATH_QUOTIENT: *value = x / y; return true;
    case MT_MATH_POWER: *value = x == 0 && creal(y) > 0 ? 0 : cpow(x, y); return true;
    case MT_MATH_NEGATIVE: *value = -x; return true;
    case MT_MATH_EITHER: *value = (node->flag ? -sign : sign) * x; return true;
    case MT_MATH_CALL: return call_value(node, x, two, y, value);
    case MT_MATH_FACTORIAL: *value = tgamma(creal(x) + 1.0); return cimag(x) == 0;
    case MT_MATH_PERCENT: *value = x / 100.0; return true;
    case MT_MATH_DEGREE: *value = x * acos(-1.0) / 180.0; return true;
    case MT_MATH_UNIT: *value = x; return true;
    case MT_MATH_GROUP: *value = x; return node->count == 1;
    default: return false;
    }
}

bool mt_numeric_of(const struct mt_math_node *node, int point, int sign, bool *varies, double complex *value)
{
    double complex x = 0;
    double complex y = 0;
    if (node == NULL) return false;
    if (node->kind == MT_MATH_NUMBER) {
        *value = node->value;
        return isfinite(node->value);
    }
    if (node->kind == MT_MATH_SYMBOL) {
        *value = symbol_value(node->symbol, point, varies);
        return true;
    }
    if (node->count < 1 || node->count > 2) return false;
    bool two = node->count == 2;
    if (!mt_numeric_of(node->first, point, sign, varies, &x)) return false;
    if (two && !mt_numeric_of(node->first->next, point, sign, varies, &y)) return false;
    if (!combine(node, sign, x, two, y, value)) return false;
    return isfinite(creal(*value)) && isfinite(cimag(*value));
}

bool mt_numeric_close(double complex a, double complex b)
{
    double size = fmax(fmax(cabs(a), cabs(b)), 1e-6);
    return cabs(a - b) <= CLOSE * size;
}
