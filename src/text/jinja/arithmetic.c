/* Operators of arithmetic, on numbers, text and lists, as in Python. Integers have 64 bits; more is refused.
 */
#include <math.h>
#include <stdlib.h>

#include "text/jinja/run.h"

static struct mt_value division_by_zero(struct jinja_run *run)
{
    return mt_jinja_fail(run, MT_ERR_FORMAT, "division by zero");
}

static struct mt_value integer_power(struct jinja_run *run, int64_t base, int64_t exponent)
{
    int64_t power = 1;
    if (exponent < 0)
        return base == 0 ? division_by_zero(run) : mt_jinja_real(pow((double)base, (double)exponent));
    // By squaring: the base itself may overflow only once it is no longer needed.
    for (bool needed = true; needed;) {
        if ((exponent & 1) != 0 && __builtin_mul_overflow(power, base, &power))
            return mt_jinja_fail_integer(run);
        exponent >>= 1;
        needed = exponent > 0;
        if (needed && __builtin_mul_overflow(base, base, &base)) return mt_jinja_fail_integer(run);
    }
    return mt_jinja_integer(power);
}

static struct mt_value integers(struct jinja_run *run, int64_t a, struct mt_marked symbol, int64_t b)
{
    int64_t value = 0;
    bool overflow = false;
    if (marked_is(symbol, "**")) return integer_power(run, a, b);
    if (marked_is(symbol, "+"))
        overflow = __builtin_add_overflow(a, b, &value);
    else if (marked_is(symbol, "-"))
        overflow = __builtin_sub_overflow(a, b, &value);
    else if (marked_is(symbol, "*"))
        overflow = __builtin_mul_overflow(a, b, &value);
    else if (b == 0)
        return division_by_zero(run);
    else if (marked_is(symbol, "/"))
        return mt_jinja_real((double)a / (double)b);
    else if (b == -1) // INT64_MIN has no opposite
        overflow = !marked_is(symbol, "%") && __builtin_sub_overflow((int64_t)0, a, &value);
    else {
        int64_t quotient = a / b;
        int64_t rest = a % b;
        if (rest != 0 && (rest < 0) != (b < 0)) { // towards minus infinity
            quotient--;
            rest += b;
        }
        value = marked_is(symbol, "//") ? quotient : rest;
    }
    return overflow ? mt_jinja_fail_integer(run) : mt_jinja_integer(value);
}

/* Floor division and remainder of reals, the remainder having the sign of the divisor. */
static double real_division(double a, double b, bool quotient)
{
    double rest = fmod(a, b);
    double division = (a - rest) / b;
    if (rest != 0) {
        if ((b < 0) != (rest < 0)) {
            rest += b;
            division -= 1;
        }
    } else {
        rest = copysign(0, b);
    }
    if (!quotient) return rest;
    if (division == 0) return copysign(0, a / b);
    double floored = floor(division);
    return division - floored > 0.5 ? floored + 1 : floored;
}

static struct mt_value reals(struct jinja_run *run, double a, struct mt_marked symbol, double b)
{
    if (marked_is(symbol, "+")) return mt_jinja_real(a + b);
    if (marked_is(symbol, "-")) return mt_jinja_real(a - b);
    if (marked_is(symbol, "*")) return mt_jinja_real(a * b);
    if (marked_is(symbol, "**")) {
        if (a < 0 && isfinite(a) && isfinite(b) && floor(b) != b)
            return mt_jinja_fail(run, MT_ERR_UNSUPPORTED, "complex numbers are not known here");
        if (a == 0 && b < 0) return division_by_zero(run);
        double power = pow(a, b);
        if (isinf(power) && isfinite(a) && isfinite(b))
            return mt_jinja_fail(run, MT_ERR_FORMAT, "numerical result out of range");
        return mt_jinja_real(power);
    }
    if (b == 0) return division_by_zero(run);
    if (marked_is(symbol, "/")) return mt_jinja_real(a / b);
    return mt_jinja_real(real_division(a, b, marked_is(symbol, "//")));
}

static struct mt_value repeat(struct jinja_run *run, struct mt_value value, int64_t times)
{
    size_t count = times > 0 ? (size_t)times : 0;
    if (value.kind == JINJA_STRING) {
        struct jinja_builder out = {.run = run};
        mt_jinja_spend(run, value.string.bytes != 0 ? count / 16 : 0);
        mt_jinja_put_repeated(&out, value.string, count);
        return mt_jinja_safe_like(value, mt_jinja_built(&out));
    }
    const struct jinja_list *list = value.object;
    if (list->count == 0) count = 0;
    if (count > 0 && count > run->memory_left / sizeof(struct mt_value) / list->count)
        return mt_jinja_fail_memory(run);
    struct jinja_list *made = mt_jinja_list_new(run, count * list->count);
    for (size_t i = 0; i < count && !mt_jinja_failed(run); i++)
        mt_jinja_list_add_all(run, made, list->items, list->count);
    return mt_jinja_object(value.kind, made);
}

static struct mt_value join(struct jinja_run *run, struct mt_value a, struct mt_value b)
{
    if (a.kind == JINJA_STRING) {
        struct jinja_builder out = {.run = run};
        bool safe = a.safe || b.safe;
        mt_jinja_put(&out, safe ? mt_jinja_escape(run, a).string : a.string);
        mt_jinja_put(&out, safe ? mt_jinja_escape(run, b).string : b.string);
        return safe ? mt_jinja_safe(mt_jinja_built(&out)) : mt_jinja_built_value(&out);
    }
    const struct jinja_list *first = a.object;
    const struct jinja_list *second = b.object;
    struct jinja_list *made = mt_jinja_list_new(run, first->count + second->count);
    mt_jinja_list_add_all(run, made, first->items, first->count);
    mt_jinja_list_add_all(run, made, second->items, second->count);
    return mt_jinja_object(a.kind, made);
}

static bool is_sequence(struct mt_value value)
{
    return value.kind == JINJA_STRING || value.kind == JINJA_LIST || value.kind == JINJA_TUPLE;
}

struct mt_value mt_jinja_binary(struct jinja_run *run, struct mt_value a, struct mt_marked symbol,
                                struct mt_value b)
{
    int64_t left = 0;
    int64_t right = 0;
    bool whole_left = mt_jinja_as_integer(a, &left);
    bool whole_right = mt_jinja_as_integer(b, &right);
    bool plus = marked_is(symbol, "+");
    bool times = marked_is(symbol, "*");
    if (marked_is(symbol, "%") && a.kind == JINJA_STRING) {
        if (a.safe) return mt_jinja_fail(run, MT_ERR_UNSUPPORTED, "%% of safe text is not known here");
        return mt_jinja_format_percent(run, a.string, b);
    }
    if (a.kind == JINJA_UNDEFINED) return mt_jinja_fail_undefined(run, a);
    if (b.kind == JINJA_UNDEFINED) return mt_jinja_fail_undefined(run, b);
    if (whole_left && whole_right) return integers(run, left, symbol, right);
    if (mt_jinja_is_number(a) && mt_jinja_is_number(b))
        return reals(run, mt_jinja_as_real(a), symbol, mt_jinja_as_real(b));
    if (plus && a.kind == b.kind && is_sequence(a)) return join(run, a, b);
    if (times && is_sequence(a) && whole_right) return repeat(run, a, right);
    if (times && is_sequence(b) && whole_left) return repeat(run, b, left);
    if (plus && a.kind == JINJA_STRING)
        return mt_jinja_fail(run, MT_ERR_FORMAT, "can only concatenate str (not \"%s\") to str",
                             mt_jinja_type_name(b));
    return mt_jinja_fail(run, MT_ERR_FORMAT, "unsupported operand types for %.*s: '%s' and '%s'",
                         (int)symbol.bytes, symbol.text, mt_jinja_type_name(a), mt_jinja_type_name(b));
}

struct mt_value mt_jinja_unary(struct jinja_run *run, struct mt_marked symbol, struct mt_value a)
{
    int64_t integer = 0;
    bool minus = marked_is(symbol, "-");
    if (a.kind == JINJA_UNDEFINED) return mt_jinja_fail_undefined(run, a);
    if (a.kind == JINJA_REAL) return mt_jinja_real(minus ? -a.real : a.real);
    if (!mt_jinja_as_integer(a, &integer))
        return mt_jinja_fail(run, MT_ERR_FORMAT, "bad operand type for unary %.*s: '%s'", (int)symbol.bytes,
                             symbol.text, mt_jinja_type_name(a));
    if (minus && integer == INT64_MIN) return mt_jinja_fail_integer(run);
    return mt_jinja_integer(minus ? -integer : integer);
}

// ------------------------------------------------------------------ numbers in text

static int digit_value(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'z') return c - 'a' + 10;
    if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
    return 99;
}

/* Skips "0x" and the like where the base has one; base 0 is found from it. */
static size_t skip_prefix(struct mt_marked text, size_t at, int *base)
{
    bool prefixed = at + 1 < text.bytes && text.text[at] == '0';
    char letter = prefixed ? (char)(text.text[at + 1] | 0x20) : '\0';
    int named = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    if (named != 0 && (*base == named || *base == 0)) {
        *base = named;
        return at + 2;
    }
    if (*base == 0) *base = 10;
    return at;
}

bool mt_jinja_read_integer(struct jinja_run *run, struct mt_marked text, int base, int64_t *integer)
{
    text = mt_jinja_strip(text, NULL, true, true);
    bool negative = text.bytes > 0 && text.text[0] == '-';
    size_t at = negative || (text.bytes > 0 && text.text[0] == '+') ? 1 : 0;
    size_t start = skip_prefix(text, at, &base);
    bool separated = start == at; // "_" may stand behind a prefix, not before the first digit
    bool valid = start < text.bytes;
    int64_t value = 0;
    for (at = start; valid && at < text.bytes; at++) {
        int digit = digit_value(text.text[at]);
        if (text.text[at] == '_') {
            valid = !separated && at + 1 < text.bytes;
            separated = true;
            continue;
        }
        separated = false;
        valid = digit < base;
        if (valid && (__builtin_mul_overflow(value, base, &value) ||
                      __builtin_add_overflow(value, negative ? -digit : digit, &value))) {
            (void)mt_jinja_fail_integer(run);
            return false;
        }
    }
    *integer = value;
    return valid;
}

/* Whether the text is a decimal number as Python's float() takes it, but for "_". */
static bool is_decimal(const char *text)
{
    const char *at = text + (*text == '-' || *text == '+' ? 1 : 0);
    size_t digits = strspn(at, "0123456789");
    at += digits;
    if (*at == '.') {
        size_t more = strspn(at + 1, "0123456789");
        digits += more;
        at += 1 + more;
    }
    if (digits == 0) return false;
    if (*at != 'e' && *at != 'E') return *at == '\0';
    at += at[1] == '-' || at[1] == '+' ? 2 : 1;
    digits = strspn(at, "0123456789");
    return digits > 0 && at[digits] == '\0';
}

static bool is_word(const char *text, const char *word)
{
    size_t length = strlen(word);
    for (size_t i = 0; i < length; i++) {
        if ((text[i] | 0x20) != word[i]) return false;
    }
    return text[length] == '\0';
}

bool mt_jinja_read_real(struct mt_marked text, double *real)
{
    char copy[512];
    size_t bytes = 0;
    text = mt_jinja_strip(text, NULL, true, true);
    for (size_t i = 0; i < text.bytes; i++) {
        bool between = i > 0 && i + 1 < text.bytes && digit_value(text.text[i - 1]) < 10 &&
                       digit_value(text.text[i + 1]) < 10;
        if (text.text[i] == '_' && between) continue;
        if (bytes + 1 == sizeof copy || text.text[i] == '\0') return false;
        copy[bytes++] = text.text[i];
    }
    copy[bytes] = '\0';
    const char *word = copy + (copy[0] == '-' || copy[0] == '+' ? 1 : 0);
    double sign = copy[0] == '-' ? -1.0 : 1.0;
    if (is_word(word, "inf") || is_word(word, "infinity"))
        *real = sign * INFINITY;
    else if (is_word(word, "nan"))
        *real = NAN;
    else if (is_decimal(copy))
        *real = strtod(copy, NULL);
    else
        return false;
    return true;
}
