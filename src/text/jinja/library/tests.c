/* Tests: what may follow "is". Each gives a bool. */
#include "text/jinja/library/library.h"

static enum mt_status no_arguments(struct jinja_run *run, const struct jinja_arguments *arguments)
{
    if (arguments->count == 0 && arguments->keyword_count == 0) return MT_OK;
    return jinja_fail(run, MT_ERR_FORMAT, "this test takes no argument");
}

static enum mt_status one_argument(struct jinja_run *run, const struct jinja_arguments *arguments)
{
    if (arguments->count == 1 && arguments->keyword_count == 0) return MT_OK;
    return jinja_fail(run, MT_ERR_FORMAT, "this test takes one argument");
}

static enum mt_status answer(struct jinja_run *run, const struct jinja_arguments *arguments, bool holds,
                             struct mt_value *result)
{
    *result = mt_jinja_bool(holds);
    return no_arguments(run, arguments);
}

static enum mt_status is_defined(struct jinja_run *run, struct mt_value subject,
                                 const struct jinja_arguments *arguments, struct mt_value *result)
{
    return answer(run, arguments, subject.kind != JINJA_UNDEFINED, result);
}

static enum mt_status is_undefined(struct jinja_run *run, struct mt_value subject,
                                   const struct jinja_arguments *arguments, struct mt_value *result)
{
    return answer(run, arguments, subject.kind == JINJA_UNDEFINED, result);
}

static enum mt_status is_none(struct jinja_run *run, struct mt_value subject,
                              const struct jinja_arguments *arguments, struct mt_value *result)
{
    return answer(run, arguments, subject.kind == JINJA_NONE, result);
}

static enum mt_status is_boolean(struct jinja_run *run, struct mt_value subject,
                                 const struct jinja_arguments *arguments, struct mt_value *result)
{
    return answer(run, arguments, subject.kind == JINJA_BOOL, result);
}

static enum mt_status is_true(struct jinja_run *run, struct mt_value subject,
                              const struct jinja_arguments *arguments, struct mt_value *result)
{
    return answer(run, arguments, subject.kind == JINJA_BOOL && subject.truth, result);
}

static enum mt_status is_false(struct jinja_run *run, struct mt_value subject,
                               const struct jinja_arguments *arguments, struct mt_value *result)
{
    return answer(run, arguments, subject.kind == JINJA_BOOL && !subject.truth, result);
}

static enum mt_status is_integer(struct jinja_run *run, struct mt_value subject,
                                 const struct jinja_arguments *arguments, struct mt_value *result)
{
    return answer(run, arguments, subject.kind == JINJA_INTEGER, result);
}

static enum mt_status is_float(struct jinja_run *run, struct mt_value subject,
                               const struct jinja_arguments *arguments, struct mt_value *result)
{
    return answer(run, arguments, subject.kind == JINJA_REAL, result);
}

static enum mt_status is_number(struct jinja_run *run, struct mt_value subject,
                                const struct jinja_arguments *arguments, struct mt_value *result)
{
    return answer(run, arguments, jinja_is_number(subject), result);
}

static enum mt_status is_string(struct jinja_run *run, struct mt_value subject,
                                const struct jinja_arguments *arguments, struct mt_value *result)
{
    return answer(run, arguments, subject.kind == JINJA_STRING, result);
}

static enum mt_status is_mapping(struct jinja_run *run, struct mt_value subject,
                                 const struct jinja_arguments *arguments, struct mt_value *result)
{
    return answer(run, arguments, subject.kind == JINJA_DICT, result);
}

static enum mt_status is_iterable(struct jinja_run *run, struct mt_value subject,
                                  const struct jinja_arguments *arguments, struct mt_value *result)
{
    return answer(run, arguments, jinja_can_walk(subject) || subject.kind == JINJA_LOOP, result);
}

/* Python: has a length and takes an index. */
static enum mt_status is_sequence(struct jinja_run *run, struct mt_value subject,
                                  const struct jinja_arguments *arguments, struct mt_value *result)
{
    int kind = subject.kind;
    bool sequence = kind == JINJA_STRING || kind == JINJA_LIST || kind == JINJA_TUPLE || kind == JINJA_DICT ||
                    kind == JINJA_RANGE || kind == JINJA_UNDEFINED;
    return answer(run, arguments, sequence, result);
}

static enum mt_status is_callable(struct jinja_run *run, struct mt_value subject,
                                  const struct jinja_arguments *arguments, struct mt_value *result)
{
    int kind = subject.kind;
    bool callable = kind == JINJA_MACRO || kind == JINJA_FUNCTION || kind == JINJA_METHOD ||
                    kind == JINJA_LOOP || kind == JINJA_JOINER || kind == JINJA_UNDEFINED;
    return answer(run, arguments, callable, result);
}

static enum mt_status is_escaped(struct jinja_run *run, struct mt_value subject,
                                 const struct jinja_arguments *arguments, struct mt_value *result)
{
    return answer(run, arguments, subject.kind == JINJA_STRING && subject.safe, result);
}

static enum mt_status is_divisible(struct jinja_run *run, struct mt_value subject,
                                   const struct jinja_arguments *arguments, struct mt_value *result)
{
    struct mt_value rest;
    bool holds = false;
    enum mt_status status = one_argument(run, arguments);
    if (status == MT_OK) status = jinja_binary(run, subject, marked_of("%"), arguments->items[0], &rest);
    if (status == MT_OK) status = jinja_equal(run, rest, mt_jinja_integer(0), &holds);
    *result = mt_jinja_bool(holds);
    return status;
}

static enum mt_status has_parity(struct jinja_run *run, struct mt_value subject,
                                 const struct jinja_arguments *arguments, int64_t parity,
                                 struct mt_value *result)
{
    struct mt_value rest;
    bool holds = false;
    enum mt_status status = no_arguments(run, arguments);
    if (status == MT_OK) status = jinja_binary(run, subject, marked_of("%"), mt_jinja_integer(2), &rest);
    if (status == MT_OK) status = jinja_equal(run, rest, mt_jinja_integer(parity), &holds);
    *result = mt_jinja_bool(holds);
    return status;
}

static enum mt_status is_odd(struct jinja_run *run, struct mt_value subject,
                             const struct jinja_arguments *arguments, struct mt_value *result)
{
    return has_parity(run, subject, arguments, 1, result);
}

static enum mt_status is_even(struct jinja_run *run, struct mt_value subject,
                              const struct jinja_arguments *arguments, struct mt_value *result)
{
    return has_parity(run, subject, arguments, 0, result);
}

static enum mt_status is_same(struct jinja_run *run, struct mt_value subject,
                              const struct jinja_arguments *arguments, struct mt_value *result)
{
    enum mt_status status = one_argument(run, arguments);
    *result = mt_jinja_bool(status == MT_OK && jinja_same(subject, arguments->items[0]));
    return status;
}

static enum mt_status has_case(struct jinja_run *run, struct mt_value subject,
                               const struct jinja_arguments *arguments, const char *method,
                               struct mt_value *result)
{
    struct mt_marked text = {0};
    enum mt_status status = no_arguments(run, arguments);
    if (status == MT_OK) status = jinja_to_text(run, subject, &text);
    if (status != MT_OK) return status;
    const struct jinja_function *entry = jinja_find_method(JINJA_STRING, marked_of(method));
    return entry->call(run, marked_value(text), arguments, result);
}

static enum mt_status is_lower(struct jinja_run *run, struct mt_value subject,
                               const struct jinja_arguments *arguments, struct mt_value *result)
{
    return has_case(run, subject, arguments, "islower", result);
}

static enum mt_status is_upper(struct jinja_run *run, struct mt_value subject,
                               const struct jinja_arguments *arguments, struct mt_value *result)
{
    return has_case(run, subject, arguments, "isupper", result);
}

static enum mt_status is_filter(struct jinja_run *run, struct mt_value subject,
                                const struct jinja_arguments *arguments, struct mt_value *result)
{
    bool known = subject.kind == JINJA_STRING && jinja_find_filter(subject.string) != NULL;
    enum mt_status status = jinja_check_key(run, subject);
    return status != MT_OK ? status : answer(run, arguments, known, result);
}

static enum mt_status is_test(struct jinja_run *run, struct mt_value subject,
                              const struct jinja_arguments *arguments, struct mt_value *result)
{
    bool known = subject.kind == JINJA_STRING && jinja_find_test(subject.string) != NULL;
    enum mt_status status = jinja_check_key(run, subject);
    return status != MT_OK ? status : answer(run, arguments, known, result);
}

static enum mt_status compare(struct jinja_run *run, struct mt_value subject, const char *symbol,
                              const struct jinja_arguments *arguments, struct mt_value *result)
{
    bool holds = false;
    enum mt_status status = one_argument(run, arguments);
    if (status == MT_OK) status = jinja_compare(run, subject, marked_of(symbol), arguments->items[0], &holds);
    *result = mt_jinja_bool(holds);
    return status;
}

static enum mt_status is_equal(struct jinja_run *run, struct mt_value subject,
                               const struct jinja_arguments *arguments, struct mt_value *result)
{
    return compare(run, subject, "==", arguments, result);
}

static enum mt_status is_unequal(struct jinja_run *run, struct mt_value subject,
                                 const struct jinja_arguments *arguments, struct mt_value *result)
{
    return compare(run, subject, "!=", arguments, result);
}

static enum mt_status is_less(struct jinja_run *run, struct mt_value subject,
                              const struct jinja_arguments *arguments, struct mt_value *result)
{
    return compare(run, subject, "<", arguments, result);
}

static enum mt_status is_at_most(struct jinja_run *run, struct mt_value subject,
                                 const struct jinja_arguments *arguments, struct mt_value *result)
{
    return compare(run, subject, "<=", arguments, result);
}

static enum mt_status is_greater(struct jinja_run *run, struct mt_value subject,
                                 const struct jinja_arguments *arguments, struct mt_value *result)
{
    return compare(run, subject, ">", arguments, result);
}

static enum mt_status is_at_least(struct jinja_run *run, struct mt_value subject,
                                  const struct jinja_arguments *arguments, struct mt_value *result)
{
    return compare(run, subject, ">=", arguments, result);
}

static enum mt_status is_in(struct jinja_run *run, struct mt_value subject,
                            const struct jinja_arguments *arguments, struct mt_value *result)
{
    return compare(run, subject, "in", arguments, result);
}

static const struct jinja_function entries[] = {
    {"defined", is_defined},
    {"undefined", is_undefined},
    {"none", is_none},
    {"boolean", is_boolean},
    {"true", is_true},
    {"false", is_false},
    {"integer", is_integer},
    {"float", is_float},
    {"number", is_number},
    {"string", is_string},
    {"mapping", is_mapping},
    {"iterable", is_iterable},
    {"sequence", is_sequence},
    {"callable", is_callable},
    {"escaped", is_escaped},
    {"odd", is_odd},
    {"even", is_even},
    {"divisibleby", is_divisible},
    {"sameas", is_same},
    {"lower", is_lower},
    {"upper", is_upper},
    {"filter", is_filter},
    {"test", is_test},
    {"in", is_in},
    {"==", is_equal},
    {"eq", is_equal},
    {"equalto", is_equal},
    {"!=", is_unequal},
    {"ne", is_unequal},
    {"<", is_less},
    {"lt", is_less},
    {"lessthan", is_less},
    {"<=", is_at_most},
    {"le", is_at_most},
    {">", is_greater},
    {"gt", is_greater},
    {"greaterthan", is_greater},
    {">=", is_at_least},
    {"ge", is_at_least},
};
const struct jinja_table jinja_tests = {entries, sizeof entries / sizeof entries[0]};
