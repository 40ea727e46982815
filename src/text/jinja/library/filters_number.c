/* Filters on numbers, and those that choose a value: default, attr. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "text/jinja/library/library.h"

static struct mt_value default_value(const struct jinja_call *call)
{
    bool boolean = mt_jinja_truth_argument(call, 1);
    bool kept =
        call->subject.kind != JINJA_UNDEFINED && (!boolean || mt_jinja_truth(call->run, call->subject));
    if (kept) return call->subject;
    return call->bound[0].kind != JINJA_ABSENT ? call->bound[0] : marked_value(marked_of(""));
}

/* Attributes alone, no keys: of a dictionary only its methods. */
static struct mt_value attr(const struct jinja_call *call)
{
    struct mt_marked name = mt_jinja_text_argument(call, 0);
    if (call->subject.kind == JINJA_DICT && mt_jinja_find_method(JINJA_DICT, name) == NULL)
        return mt_jinja_undefined(name);
    return mt_jinja_failed(call->run) ? mt_jinja_none() : mt_jinja_attribute(call->run, call->subject, name);
}

static struct mt_value absolute(const struct jinja_call *call)
{
    int64_t integer = 0;
    if (call->subject.kind == JINJA_REAL) return mt_jinja_real(fabs(call->subject.real));
    if (!mt_jinja_as_integer(call->subject, &integer))
        return mt_jinja_fail(call->run, MT_ERR_FORMAT, "bad operand type for abs(): '%s'",
                             mt_jinja_type_name(call->subject));
    return mt_jinja_unary(call->run, marked_of(integer < 0 ? "-" : "+"), call->subject);
}

/* int(float), where that fits; false for nan and inf. */
static bool whole_part(struct jinja_run *run, double real, int64_t *integer)
{
    if (!isfinite(real)) return false;
    if (real >= JINJA_TWO_63 || real < -JINJA_TWO_63)
        (void)mt_jinja_fail_integer(run);
    else
        *integer = (int64_t)real;
    return true;
}

static struct mt_value to_integer(const struct jinja_call *call)
{
    struct jinja_run *run = call->run;
    struct mt_value subject = call->subject;
    int64_t integer = 0;
    int64_t base = mt_jinja_integer_argument(call, 1, 10);
    double real = 0;
    bool valid = false;
    if (subject.kind == JINJA_UNDEFINED) return mt_jinja_fail_undefined(run, subject);
    if (subject.kind == JINJA_STRING) {
        bool known = base == 0 || (base >= 2 && base <= 36);
        valid = known && mt_jinja_read_integer(run, subject.string, (int)base, &integer);
        if (!valid && mt_jinja_read_real(subject.string, &real)) valid = whole_part(run, real, &integer);
    } else if (subject.kind == JINJA_REAL) {
        if (isinf(subject.real))
            return mt_jinja_fail(run, MT_ERR_FORMAT, "cannot convert float infinity to integer");
        valid = whole_part(run, subject.real, &integer);
    } else {
        valid = mt_jinja_as_integer(subject, &integer);
    }
    if (valid) return mt_jinja_integer(integer);
    return call->bound[0].kind != JINJA_ABSENT ? call->bound[0] : mt_jinja_integer(0);
}

static struct mt_value to_real(const struct jinja_call *call)
{
    struct mt_value subject = call->subject;
    double real = 0;
    if (subject.kind == JINJA_UNDEFINED) return mt_jinja_fail_undefined(call->run, subject);
    if (mt_jinja_is_number(subject)) return mt_jinja_real(mt_jinja_as_real(subject));
    if (subject.kind == JINJA_STRING && mt_jinja_read_real(subject.string, &real)) return mt_jinja_real(real);
    return call->bound[0].kind != JINJA_ABSENT ? call->bound[0] : mt_jinja_real(0);
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
static struct mt_value round_integer(struct jinja_run *run, int64_t integer, int64_t digits)
{
    int64_t scale = 1;
    int64_t low = 0;
    if (digits >= 0) return mt_jinja_integer(integer);
    if (digits < -19) return mt_jinja_integer(0);
    if (digits < -18) return mt_jinja_fail(run, MT_ERR_UNSUPPORTED, "rounding that far is not known here");
    for (int64_t i = 0; i > digits; i--) scale *= 10;
    int64_t rest = integer % scale;
    if (rest < 0) rest += scale;
    if (__builtin_sub_overflow(integer, rest, &low)) return mt_jinja_fail_integer(run);
    bool up = rest > scale / 2 || (rest == scale / 2 && low / scale % 2 != 0);
    if (__builtin_add_overflow(low, up ? scale : 0, &low)) return mt_jinja_fail_integer(run);
    return mt_jinja_integer(low);
}

static struct mt_value round_number(const struct jinja_call *call)
{
    struct jinja_run *run = call->run;
    int64_t integer = 0;
    int64_t precision = mt_jinja_integer_argument(call, 0, 0);
    bool absent = call->bound[1].kind == JINJA_ABSENT;
    struct mt_marked method = absent ? marked_of("common") : mt_jinja_text_argument(call, 1);
    if (!mt_jinja_is_number(call->subject))
        return mt_jinja_fail(run, MT_ERR_FORMAT, "type %s cannot be rounded",
                             mt_jinja_type_name(call->subject));
    if (marked_is(method, "common")) {
        if (mt_jinja_as_integer(call->subject, &integer)) return round_integer(run, integer, precision);
        return mt_jinja_real(round_real(call->subject.real, precision));
    }
    bool up = marked_is(method, "ceil");
    if (!up && !marked_is(method, "floor"))
        return mt_jinja_fail(run, MT_ERR_FORMAT, "method must be common, ceil or floor");
    double scale = pow(10, (double)precision);
    double scaled = mt_jinja_as_real(call->subject) * scale;
    if (!isfinite(scaled)) return mt_jinja_fail(run, MT_ERR_FORMAT, "cannot convert this number to integer");
    return mt_jinja_real((up ? ceil(scaled) : floor(scaled)) / scale);
}

static struct mt_value sum(const struct jinja_call *call)
{
    const struct mt_value nothing = {.kind = JINJA_ABSENT};
    const struct jinja_list *list = mt_jinja_walk(call->run, call->subject);
    struct mt_value result = call->bound[1].kind != JINJA_ABSENT ? call->bound[1] : mt_jinja_integer(0);
    if (result.kind == JINJA_STRING)
        return mt_jinja_fail(call->run, MT_ERR_FORMAT, "sum() can't sum strings");
    for (size_t i = 0; i < list->count && !mt_jinja_failed(call->run); i++) {
        struct mt_value item = mt_jinja_path(call->run, list->items[i], call->bound[0], nothing);
        if (!mt_jinja_failed(call->run)) result = mt_jinja_binary(call->run, result, marked_of("+"), item);
    }
    return result;
}

const struct jinja_function mt_jinja_number_filters[] = {
    {"default", default_value, .parameters = {"default_value", "boolean"}},
    {"d", default_value, .parameters = {"default_value", "boolean"}},
    {"attr", attr, .parameters = {"name"}, .required = 1},
    {.name = "abs", .call = absolute},
    {"int", to_integer, .parameters = {"default", "base"}},
    {"float", to_real, .parameters = {"default"}},
    {"round", round_number, .parameters = {"precision", "method"}},
    {"sum", sum, .parameters = {"attribute", "start"}},
    {0},
};
