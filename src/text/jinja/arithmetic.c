/* Operators of arithmetic, on numbers, text and lists, as in Python. Integers have 64 bits; more is refused.
 */
#include <math.h>
#include <stdlib.h>

#include "text/jinja/run.h"

static enum mt_status too_large(struct jinja_run *run)
{
    return jinja_fail(run, MT_ERR_UNSUPPORTED, "an integer does not fit 64 bits");
}

static enum mt_status division_by_zero(struct jinja_run *run)
{
    return jinja_fail(run, MT_ERR_FORMAT, "division by zero");
}

static enum mt_status integer_power(struct jinja_run *run, int64_t base, int64_t exponent,
                                    struct mt_value *result)
{
    int64_t power = 1;
    if (exponent < 0) {
        if (base == 0) return division_by_zero(run);
        *result = mt_jinja_real(pow((double)base, (double)exponent));
        return MT_OK;
    }
    // By squaring: the base itself may overflow only once it is no longer needed.
    for (bool needed = true; needed;) {
        if ((exponent & 1) != 0 && __builtin_mul_overflow(power, base, &power)) return too_large(run);
        exponent >>= 1;
        needed = exponent > 0;
        if (needed && __builtin_mul_overflow(base, base, &base)) return too_large(run);
    }
    *result = mt_jinja_integer(power);
    return MT_OK;
}

static enum mt_status integers(struct jinja_run *run, int64_t a, struct mt_marked symbol, int64_t b,
                               struct mt_value *result)
{
    int64_t value = 0;
    bool overflow = false;
    if (marked_is(symbol, "+"))
        overflow = __builtin_add_overflow(a, b, &value);
    else if (marked_is(symbol, "-"))
        overflow = __builtin_sub_overflow(a, b, &value);
    else if (marked_is(symbol, "*"))
        overflow = __builtin_mul_overflow(a, b, &value);
    else if (marked_is(symbol, "**"))
        return integer_power(run, a, b, result);
    else if (b == 0)
        return division_by_zero(run);
    else if (marked_is(symbol, "/")) {
        *result = mt_jinja_real((double)a / (double)b);
        return MT_OK;
    } else if (b == -1) { // INT64_MIN has no opposite
        bool rest = marked_is(symbol, "%");
        overflow = !rest && __builtin_sub_overflow((int64_t)0, a, &value);
    } else {
        int64_t quotient = a / b;
        int64_t rest = a % b;
        if (rest != 0 && (rest < 0) != (b < 0)) { // towards minus infinity
            quotient--;
            rest += b;
        }
        value = marked_is(symbol, "//") ? quotient : rest;
    }
    if (overflow) return too_large(run);
    *result = mt_jinja_integer(value);
    return MT_OK;
}

/* Floor division and remainder of reals, the remainder having the sign of the divisor. */
static struct mt_value real_division(double a, double b, bool quotient)
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
    if (!quotient) return mt_jinja_real(rest);
    if (division == 0) return mt_jinja_real(copysign(0, a / b));
    double floored = floor(division);
    return mt_jinja_real(division - floored > 0.5 ? floored + 1 : floored);
}

static enum mt_status reals(struct jinja_run *run, double a, struct mt_marked symbol, double b,
                            struct mt_value *result)
{
    if (marked_is(symbol, "+"))
        *result = mt_jinja_real(a + b);
    else if (marked_is(symbol, "-"))
        *result = mt_jinja_real(a - b);
    else if (marked_is(symbol, "*"))
        *result = mt_jinja_real(a * b);
    else if (marked_is(symbol, "**")) {
        if (a < 0 && isfinite(a) && isfinite(b) && floor(b) != b)
            return jinja_fail(run, MT_ERR_UNSUPPORTED, "complex numbers are not known here");
        if (a == 0 && b < 0) return division_by_zero(run);
        double power = pow(a, b);
        if (isinf(power) && isfinite(a) && isfinite(b))
            return jinja_fail(run, MT_ERR_FORMAT, "numerical result out of range");
        *result = mt_jinja_real(power);
    } else if (b == 0)
        return division_by_zero(run);
    else if (marked_is(symbol, "/"))
        *result = mt_jinja_real(a / b);
    else
        *result = real_division(a, b, marked_is(symbol, "//"));
    return MT_OK;
}

static enum mt_status repeat(struct jinja_run *run, struct mt_value value, int64_t times,
                             struct mt_value *result)
{
    struct jinja_builder builder = {0};
    struct jinja_list *made = NULL;
    enum mt_status status = MT_OK;
    size_t count = times > 0 ? (size_t)times : 0;
    if (value.kind == JINJA_STRING) {
        if (value.string.bytes == 0)
            count = 0;
        else if (count > run->memory_left / value.string.bytes)
            return jinja_fail(run, MT_ERR_UNSUPPORTED, "the template takes too much memory");
        status = jinja_spend(run, count / 16);
        for (size_t i = 0; status == MT_OK && i < count; i++) status = jinja_put(run, &builder, value.string);
        *result = value.safe ? jinja_safe(jinja_built(&builder)) : marked_value(jinja_built(&builder));
        return status;
    }
    const struct jinja_list *list = value.object;
    if (list->count == 0)
        count = 0;
    else if (count > run->memory_left / sizeof(struct mt_value) / list->count)
        return jinja_fail(run, MT_ERR_UNSUPPORTED, "the template takes too much memory");
    status = jinja_list_new(run, count * list->count, &made);
    for (size_t i = 0; status == MT_OK && i < count; i++) {
        for (size_t j = 0; status == MT_OK && j < list->count; j++)
            status = jinja_list_add(run, made, list->items[j]);
    }
    *result = jinja_object(value.kind, made);
    return status;
}

static enum mt_status join(struct jinja_run *run, struct mt_value a, struct mt_value b,
                           struct mt_value *result)
{
    struct jinja_builder builder = {0};
    struct jinja_list *made = NULL;
    enum mt_status status = MT_OK;
    if (a.kind == JINJA_STRING) {
        bool safe = a.safe || b.safe;
        if (safe) status = jinja_escape(run, a, &a);
        if (status == MT_OK && safe) status = jinja_escape(run, b, &b);
        if (status == MT_OK) status = jinja_put(run, &builder, a.string);
        if (status == MT_OK) status = jinja_put(run, &builder, b.string);
        *result = safe ? jinja_safe(jinja_built(&builder)) : marked_value(jinja_built(&builder));
        return status;
    }
    const struct jinja_list *parts[] = {a.object, b.object};
    status = jinja_list_new(run, parts[0]->count + parts[1]->count, &made);
    for (int part = 0; part < 2; part++) {
        for (size_t i = 0; status == MT_OK && i < parts[part]->count; i++)
            status = jinja_list_add(run, made, parts[part]->items[i]);
    }
    *result = jinja_object(a.kind, made);
    return status;
}

static bool is_sequence(struct mt_value value)
{
    return value.kind == JINJA_STRING || value.kind == JINJA_LIST || value.kind == JINJA_TUPLE;
}

enum mt_status jinja_binary(struct jinja_run *run, struct mt_value a, struct mt_marked symbol,
                            struct mt_value b, struct mt_value *result)
{
    int64_t left = 0;
    int64_t right = 0;
    bool whole_left = jinja_as_integer(a, &left);
    bool whole_right = jinja_as_integer(b, &right);
    if (marked_is(symbol, "%") && a.kind == JINJA_STRING && a.safe)
        return jinja_fail(run, MT_ERR_UNSUPPORTED, "%% of safe text is not known here");
    if (marked_is(symbol, "%") && a.kind == JINJA_STRING)
        return jinja_format_percent(run, a.string, b, result);
    if (a.kind == JINJA_UNDEFINED) return jinja_fail_undefined(run, a);
    if (b.kind == JINJA_UNDEFINED) return jinja_fail_undefined(run, b);
    if (whole_left && whole_right) return integers(run, left, symbol, right, result);
    if (jinja_is_number(a) && jinja_is_number(b))
        return reals(run, jinja_as_real(a), symbol, jinja_as_real(b), result);
    if (marked_is(symbol, "+") && a.kind == b.kind && is_sequence(a)) return join(run, a, b, result);
    if (marked_is(symbol, "*") && is_sequence(a) && whole_right) return repeat(run, a, right, result);
    if (marked_is(symbol, "*") && is_sequence(b) && whole_left) return repeat(run, b, left, result);
    if (marked_is(symbol, "+") && a.kind == JINJA_STRING)
        return jinja_fail(run, MT_ERR_FORMAT, "can only concatenate str (not \"%s\") to str",
                          jinja_type_name(b));
    return jinja_fail(run, MT_ERR_FORMAT, "unsupported operand types for %.*s: '%s' and '%s'",
                      (int)symbol.bytes, symbol.text, jinja_type_name(a), jinja_type_name(b));
}

enum mt_status jinja_unary(struct jinja_run *run, struct mt_marked symbol, struct mt_value a,
                           struct mt_value *result)
{
    int64_t integer = 0;
    bool minus = marked_is(symbol, "-");
    if (a.kind == JINJA_UNDEFINED) return jinja_fail_undefined(run, a);
    if (jinja_as_integer(a, &integer)) {
        if (minus && integer == INT64_MIN) return too_large(run);
        *result = mt_jinja_integer(minus ? -integer : integer);
        return MT_OK;
    }
    if (a.kind == JINJA_REAL) {
        *result = mt_jinja_real(minus ? -a.real : a.real);
        return MT_OK;
    }
    return jinja_fail(run, MT_ERR_FORMAT, "bad operand type for unary %.*s: '%s'", (int)symbol.bytes,
                      symbol.text, jinja_type_name(a));
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

enum mt_status jinja_read_integer(struct jinja_run *run, struct mt_marked text, int base, bool *valid,
                                  int64_t *integer)
{
    text = jinja_strip(text, NULL, true, true);
    bool negative = text.bytes > 0 && text.text[0] == '-';
    size_t at = negative || (text.bytes > 0 && text.text[0] == '+') ? 1 : 0;
    size_t start = skip_prefix(text, at, &base);
    bool separated = start == at; // "_" may stand behind a prefix, not before the first digit
    int64_t value = 0;
    *valid = start < text.bytes;
    for (at = start; *valid && at < text.bytes; at++) {
        int digit = digit_value(text.text[at]);
        if (text.text[at] == '_') {
            *valid = !separated && at + 1 < text.bytes;
            separated = true;
            continue;
        }
        separated = false;
        *valid = digit < base;
        if (!*valid) break;
        if (__builtin_mul_overflow(value, base, &value)) return too_large(run);
        if (__builtin_add_overflow(value, negative ? -digit : digit, &value)) return too_large(run);
    }
    *integer = value;
    return MT_OK;
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

bool jinja_read_real(struct mt_marked text, double *real)
{
    char copy[512];
    size_t bytes = 0;
    text = jinja_strip(text, NULL, true, true);
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
