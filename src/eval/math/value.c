/* Values in double. */
#include "eval/math/value.h"

#include <math.h>

#define CLOSE       1e-9
#define MOST_TURNED 1e6 // radians behind which a double no longer says where on the circle it is

/* Negative ones, too, or |x| would be x. */
double complex mt_math_symbol_value(int64_t symbol, int point)
{
    static const double bases[MT_MATH_POINTS] = {0.7310, 1.9270, -0.6130, 3.4410, -2.2870, 7.1930, 19.370};
    if (symbol == MT_SYMBOL_PI) return acos(-1.0);
    if (symbol == MT_SYMBOL_E) return exp(1.0);
    if (symbol == MT_SYMBOL_I) return I;
    double shift = fmod((double)symbol * 0.6180339887498949, 1.0);
    return bases[point] * (1.0 + 0.37 * shift);
}

static bool is_negative(double complex x)
{
    return cimag(x) == 0 && creal(x) < 0;
}

/* A logarithm or a root of a negative number, the logarithm's base included. */
static bool leaves_reals(const struct mt_math_node *node, double complex x, double complex y)
{
    if (node->kind == MT_MATH_POWER) return is_negative(x) && (cimag(y) != 0 || creal(y) != floor(creal(y)));
    if (node->kind != MT_MATH_CALL) return false;
    bool odd = node->count == 2 && fmod(creal(y), 2.0) == 1.0;
    return is_negative(x) && (node->call == MT_CALL_LOG || (node->call == MT_CALL_SQRT && !odd));
}

static bool call_value(const struct mt_math_node *node, double complex x, bool two, double complex second,
                       double complex *value)
{
    bool turns = node->call >= MT_CALL_SIN && node->call <= MT_CALL_CSC;
    if (turns && fabs(creal(x)) > MOST_TURNED) return false;
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
    case MT_CALL_SINH: *value = csinh(x); return true;
    case MT_CALL_COSH: *value = ccosh(x); return true;
    case MT_CALL_TANH: *value = ctanh(x); return true;
    case MT_CALL_FLOOR: *value = floor(creal(x)); return cimag(x) == 0;
    case MT_CALL_CEIL: *value = ceil(creal(x)); return cimag(x) == 0;
    }
    return false;
}

/* n over k for any two numbers. */
static double complex chosen(double complex n, double complex k)
{
    return tgamma(creal(n) + 1.0) / (tgamma(creal(k) + 1.0) * tgamma(creal(n - k) + 1.0));
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
    case MT_MATH_CHOOSE: *value = chosen(x, y); return two && cimag(x) == 0 && cimag(y) == 0;
    case MT_MATH_PERCENT: *value = x / 100.0; return true;
    case MT_MATH_DEGREE: *value = x * acos(-1.0) / 180.0; return true;
    case MT_MATH_UNIT: *value = x; return true;
    case MT_MATH_GROUP: *value = x; return node->count == 1;
    default: return false;
    }
}

static bool value_at(const struct mt_math_node *node, int point, int sign, bool real, double complex *value)
{
    double complex x = 0;
    double complex y = 0;
    if (node == NULL) return false;
    if (node->kind == MT_MATH_NUMBER) {
        *value = mt_rational_double(&node->number);
        return isfinite(creal(*value));
    }
    if (node->kind == MT_MATH_SYMBOL) {
        *value = mt_math_symbol_value(node->symbol, point);
        return true;
    }
    if (node->count < 1 || node->count > 2) return false;
    bool two = node->count == 2;
    if (!value_at(node->first, point, sign, real, &x)) return false;
    if (two && !value_at(node->first->next, point, sign, real, &y)) return false;
    if (real && leaves_reals(node, x, y)) return false;
    if (!combine(node, sign, x, two, y, value)) return false;
    return isfinite(creal(*value)) && isfinite(cimag(*value));
}

bool mt_math_value_at(const struct mt_math_node *node, int point, int sign, double complex *value)
{
    return value_at(node, point, sign, false, value);
}

bool mt_math_real_at(const struct mt_math_node *node, int point, int sign, double complex *value)
{
    return value_at(node, point, sign, true, value);
}

bool mt_math_is_close(double complex a, double complex b, double size)
{
    return cabs(a - b) <= CLOSE * fmax(size, 1e-300);
}
