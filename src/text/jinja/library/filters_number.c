/* Filters on numbers, and those that choose a value: default, attr. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "text/jinja/library/library.h"

static enum mt_status default_value(struct jinja_run *run, struct mt_value subject,
                                    const struct jinja_arguments *arguments, struct mt_value *result)
{
    static const char *const names[] = {"default_value", "boolean"};
    struct mt_value bound[2];
    bool boolean = false;
    bool truth = true;
    enum mt_status status = jinja_bind(run, "default", arguments, names, 2, 0, bound);
    if (status == MT_OK) status = jinja_bound_truth(run, bound[1], false, &boolean);
    if (status == MT_OK && boolean) status = jinja_truth(run, subject, &truth);
    struct mt_value fallback = bound[0].kind != JINJA_ABSENT ? bound[0] : marked_value(marked_of(""));
    *result = subject.kind == JINJA_UNDEFINED || !truth ? fallback : subject;
    return status;
}

static enum mt_status attr(struct jinja_run *run, struct mt_value subject,
                           const struct jinja_arguments *arguments, struct mt_value *result)
{
    static const char *const names[] = {"name"};
    struct mt_value bound;
    struct mt_marked name = {0};
    enum mt_status status = jinja_bind(run, "attr", arguments, names, 1, 1, &bound);
    if (status == MT_OK) status = jinja_bound_string(run, "attr", bound, &name);
    if (status != MT_OK) return status;
    // Attributes alone, no keys: of a dictionary only its methods.
    if (subject.kind != JINJA_DICT) return jinja_attribute(run, subject, name, result);
    if (jinja_find_method(JINJA_DICT, name) != NULL) return jinja_attribute(run, subject, name, result);
    *result = jinja_undefined(name);
    return MT_OK;
}

static enum mt_status absolute(struct jinja_run *run, struct mt_value subject,
                               const struct jinja_arguments *arguments, struct mt_value *result)
{
    int64_t integer = 0;
    enum mt_status status = jinja_bind(run, "abs", arguments, NULL, 0, 0, NULL);
    if (status != MT_OK) return status;
    if (jinja_as_integer(subject, &integer)) {
        if (integer < 0) return jinja_unary(run, marked_of("-"), subject, result);
        *result = mt_jinja_integer(integer);
        return MT_OK;
    }
    if (subject.kind != JINJA_REAL)
        return jinja_fail(run, MT_ERR_FORMAT, "bad operand type for abs(): '%s'", jinja_type_name(subject));
    *result = mt_jinja_real(fabs(subject.real));
    return MT_OK;
}

/* int(float), where that fits; *valid false for nan and inf. */
static enum mt_status whole_part(struct jinja_run *run, double real, bool *valid, int64_t *integer)
{
    *valid = isfinite(real);
    if (!*valid) return MT_OK;
    if (real >= JINJA_TWO_63 || real < -JINJA_TWO_63)
        return jinja_fail(run, MT_ERR_UNSUPPORTED, "an integer does not fit 64 bits");
    *integer = (int64_t)real;
    return MT_OK;
}

static enum mt_status to_integer(struct jinja_run *run, struct mt_value subject,
                                 const struct jinja_arguments *arguments, struct mt_value *result)
{
    static const char *const names[] = {"default", "base"};
    struct mt_value bound[2];
    int64_t integer = 0;
    int64_t base = 10;
    double real = 0;
    bool valid = false;
    enum mt_status status = jinja_bind(run, "int", arguments, names, 2, 0, bound);
    if (status == MT_OK) status = jinja_bound_integer(run, "int", bound[1], 10, &base);
    if (status == MT_OK && subject.kind == JINJA_UNDEFINED) return jinja_fail_undefined(run, subject);
    if (status == MT_OK && subject.kind == JINJA_STRING) {
        bool known = base == 0 || (base >= 2 && base <= 36);
        if (known) status = jinja_read_integer(run, subject.string, (int)base, &valid, &integer);
        if (status == MT_OK && !valid && jinja_read_real(subject.string, &real))
            status = whole_part(run, real, &valid, &integer);
    } else if (status == MT_OK && subject.kind == JINJA_REAL) {
        if (isinf(subject.real))
            return jinja_fail(run, MT_ERR_FORMAT, "cannot convert float infinity to integer");
        status = whole_part(run, subject.real, &valid, &integer);
    } else if (status == MT_OK) {
        valid = jinja_as_integer(subject, &integer);
    }
    struct mt_value fallback = bound[0].kind != JINJA_ABSENT ? bound[0] : mt_jinja_integer(0);
    *result = valid ? mt_jinja_integer(integer) : fallback;
    return status;
}

static enum mt_status to_real(struct jinja_run *run, struct mt_value subject,
                              const struct jinja_arguments *arguments, struct mt_value *result)
{
    static const char *const names[] = {"default"};
    struct mt_value bound;
    double real = 0;
    bool valid = jinja_is_number(subject);
    enum mt_status status = jinja_bind(run, "float", arguments, names, 1, 0, &bound);
    if (status == MT_OK && subject.kind == JINJA_UNDEFINED) return jinja_fail_undefined(run, subject);
    if (valid) real = jinja_as_real(subject);
    if (subject.kind == JINJA_STRING) valid = jinja_read_real(subject.string, &real);
    struct mt_value fallback = bound.kind != JINJA_ABSENT ? bound : mt_jinja_real(0);
    *result = valid ? mt_jinja_real(real) : fallback;
    return status;
}

/* Python's round(): the decimal nearest to the number as it is, ties to even. */
static double round_real(double real, int64_t digits)
{
    char text[400];
    if (!isfinite(real) || digits > 300) return real;
    if (digits >= 0) {
        (void)snprintf(text, sizeof text, "%.*f", digits < 40 ? (int)digits : 40, real);
        return strtod(text, NULL);
    }
    if (digits < -308) return copysign(0, real);
    double scale = pow(10, (double)-digits);
    return nearbyint(real / scale) * scale;
}

/* An integer rounded to a power of ten, ties to even. */
static enum mt_status round_integer(struct jinja_run *run, int64_t integer, int64_t digits, int64_t *rounded)
{
    int64_t scale = 1;
    *rounded = integer;
    if (digits >= 0) return MT_OK;
    if (digits < -18) {
        *rounded = 0;
        return digits < -19 ? MT_OK
                            : jinja_fail(run, MT_ERR_UNSUPPORTED, "rounding that far is not known here");
    }
    for (int64_t i = 0; i > digits; i--) scale *= 10;
    int64_t rest = integer % scale;
    if (rest < 0) rest += scale;
    int64_t low = 0;
    if (__builtin_sub_overflow(integer, rest, &low))
        return jinja_fail(run, MT_ERR_UNSUPPORTED, "an integer does not fit 64 bits");
    bool up = rest > scale / 2 || (rest == scale / 2 && low / scale % 2 != 0);
    if (__builtin_add_overflow(low, up ? scale : 0, rounded))
        return jinja_fail(run, MT_ERR_UNSUPPORTED, "an integer does not fit 64 bits");
    return MT_OK;
}

static enum mt_status round_number(struct jinja_run *run, struct mt_value subject,
                                   const struct jinja_arguments *arguments, struct mt_value *result)
{
    static const char *const names[] = {"precision", "method"};
    struct mt_value bound[2];
    struct mt_marked method = marked_of("common");
    int64_t precision = 0;
    int64_t integer = 0;
    enum mt_status status = jinja_bind(run, "round", arguments, names, 2, 0, bound);
    if (status == MT_OK) status = jinja_bound_integer(run, "round", bound[0], 0, &precision);
    if (status == MT_OK && bound[1].kind != JINJA_ABSENT)
        status = jinja_bound_string(run, "round", bound[1], &method);
    if (status != MT_OK) return status;
    if (!jinja_is_number(subject))
        return jinja_fail(run, MT_ERR_FORMAT, "type %s cannot be rounded", jinja_type_name(subject));
    if (marked_is(method, "common")) {
        if (jinja_as_integer(subject, &integer)) {
            status = round_integer(run, integer, precision, &integer);
            *result = mt_jinja_integer(integer);
        } else {
            *result = mt_jinja_real(round_real(subject.real, precision));
        }
        return status;
    }
    if (!marked_is(method, "ceil") && !marked_is(method, "floor"))
        return jinja_fail(run, MT_ERR_FORMAT, "method must be common, ceil or floor");
    double scale = pow(10, (double)precision);
    double scaled = jinja_as_real(subject) * scale;
    if (!isfinite(scaled)) return jinja_fail(run, MT_ERR_FORMAT, "cannot convert this number to integer");
    *result = mt_jinja_real((marked_is(method, "ceil") ? ceil(scaled) : floor(scaled)) / scale);
    return MT_OK;
}

static enum mt_status sum(struct jinja_run *run, struct mt_value subject,
                          const struct jinja_arguments *arguments, struct mt_value *result)
{
    static const char *const names[] = {"attribute", "start"};
    struct mt_value bound[2];
    struct jinja_list *list = NULL;
    enum mt_status status = jinja_bind(run, "sum", arguments, names, 2, 0, bound);
    if (status == MT_OK) status = jinja_walk(run, subject, &list);
    *result = bound[1].kind != JINJA_ABSENT ? bound[1] : mt_jinja_integer(0);
    if (status == MT_OK && result->kind == JINJA_STRING)
        return jinja_fail(run, MT_ERR_FORMAT, "sum() can't sum strings");
    for (size_t i = 0; status == MT_OK && i < list->count; i++) {
        struct mt_value item;
        struct mt_value before = *result;
        status = jinja_path(run, list->items[i], bound[0], &item);
        if (status == MT_OK) status = jinja_binary(run, before, marked_of("+"), item, result);
    }
    return status;
}

static const struct jinja_function entries[] = {
    {"default", default_value}, {"d", default_value}, {"attr", attr},          {"abs", absolute},
    {"int", to_integer},        {"float", to_real},   {"round", round_number}, {"sum", sum},
};
const struct jinja_table jinja_number_filters = {entries, sizeof entries / sizeof entries[0]};
