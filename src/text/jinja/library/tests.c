/* Tests: what may follow "is". */
#include "text/jinja/library/library.h"

#define KIND(kind) (1u << JINJA_##kind)
#define NUMBERS    (KIND(BOOL) | KIND(INTEGER) | KIND(REAL))
// Python: has a length and takes an index.
#define SEQUENCES (KIND(STRING) | KIND(LIST) | KIND(TUPLE) | KIND(DICT) | KIND(RANGE) | KIND(UNDEFINED))
#define ITERABLES (SEQUENCES | KIND(VIEW) | KIND(ITERATOR) | KIND(LOOP))
#define CALLABLES (KIND(MACRO) | KIND(FUNCTION) | KIND(METHOD) | KIND(LOOP) | KIND(JOINER) | KIND(UNDEFINED))

struct test {
    const char *name;
    unsigned kinds;     // of values it holds for; 0: something else decides
    const char *symbol; // of the comparison with the argument it is; NULL: none
    bool (*holds)(struct jinja_run *run, struct mt_value subject, struct mt_value argument);
    bool argument; // it takes one
};

static bool is_true(struct jinja_run *run, struct mt_value subject, struct mt_value argument)
{
    (void)run;
    (void)argument;
    return subject.kind == JINJA_BOOL && subject.truth;
}

static bool is_false(struct jinja_run *run, struct mt_value subject, struct mt_value argument)
{
    (void)run;
    (void)argument;
    return subject.kind == JINJA_BOOL && !subject.truth;
}

static bool is_escaped(struct jinja_run *run, struct mt_value subject, struct mt_value argument)
{
    (void)run;
    (void)argument;
    return subject.kind == JINJA_STRING && subject.safe;
}

/* Whether dividing leaves this rest. */
static bool leaves(struct jinja_run *run, struct mt_value subject, struct mt_value divisor, int64_t rest)
{
    struct mt_value left = mt_jinja_binary(run, subject, marked_of("%"), divisor);
    return mt_jinja_equal(run, left, mt_jinja_integer(rest));
}

static bool is_divisible(struct jinja_run *run, struct mt_value subject, struct mt_value argument)
{
    return leaves(run, subject, argument, 0);
}

static bool is_odd(struct jinja_run *run, struct mt_value subject, struct mt_value argument)
{
    (void)argument;
    return leaves(run, subject, mt_jinja_integer(2), 1);
}

static bool is_even(struct jinja_run *run, struct mt_value subject, struct mt_value argument)
{
    (void)argument;
    return leaves(run, subject, mt_jinja_integer(2), 0);
}

static bool is_same(struct jinja_run *run, struct mt_value subject, struct mt_value argument)
{
    (void)run;
    return mt_jinja_same(subject, argument);
}

static bool is_lower(struct jinja_run *run, struct mt_value subject, struct mt_value argument)
{
    (void)argument;
    return mt_jinja_has_case(run, mt_jinja_to_text(run, subject), JINJA_LOWER);
}

static bool is_upper(struct jinja_run *run, struct mt_value subject, struct mt_value argument)
{
    (void)argument;
    return mt_jinja_has_case(run, mt_jinja_to_text(run, subject), JINJA_UPPER);
}

static bool is_filter(struct jinja_run *run, struct mt_value subject, struct mt_value argument)
{
    (void)argument;
    return mt_jinja_check_key(run, subject) && subject.kind == JINJA_STRING &&
           mt_jinja_find_filter(subject.string) != NULL;
}

static bool is_test(struct jinja_run *run, struct mt_value subject, struct mt_value argument)
{
    (void)argument;
    return mt_jinja_check_key(run, subject) && subject.kind == JINJA_STRING &&
           mt_jinja_has_test(subject.string);
}

static const struct test tests[] = {
    {"defined", .kinds = ~KIND(UNDEFINED)},
    {"undefined", .kinds = KIND(UNDEFINED)},
    {"none", .kinds = KIND(NONE)},
    {"boolean", .kinds = KIND(BOOL)},
    {"integer", .kinds = KIND(INTEGER)},
    {"float", .kinds = KIND(REAL)},
    {"number", .kinds = NUMBERS},
    {"string", .kinds = KIND(STRING)},
    {"mapping", .kinds = KIND(DICT)},
    {"iterable", .kinds = ITERABLES},
    {"sequence", .kinds = SEQUENCES},
    {"callable", .kinds = CALLABLES},
    {"true", .holds = is_true},
    {"false", .holds = is_false},
    {"escaped", .holds = is_escaped},
    {"odd", .holds = is_odd},
    {"even", .holds = is_even},
    {"divisibleby", .holds = is_divisible, .argument = true},
    {"sameas", .holds = is_same, .argument = true},
    {"lower", .holds = is_lower},
    {"upper", .holds = is_upper},
    {"filter", .holds = is_filter},
    {"test", .holds = is_test},
    {"in", .symbol = "in", .argument = true},
    {"==", .symbol = "==", .argument = true},
    {"eq", .symbol = "==", .argument = true},
    {"equalto", .symbol = "==", .argument = true},
    {"!=", .symbol = "!=", .argument = true},
    {"ne", .symbol = "!=", .argument = true},
    {"<", .symbol = "<", .argument = true},
    {"lt", .symbol = "<", .argument = true},
    {"lessthan", .symbol = "<", .argument = true},
    {"<=", .symbol = "<=", .argument = true},
    {"le", .symbol = "<=", .argument = true},
    {">", .symbol = ">", .argument = true},
    {"gt", .symbol = ">", .argument = true},
    {"greaterthan", .symbol = ">", .argument = true},
    {">=", .symbol = ">=", .argument = true},
    {"ge", .symbol = ">=", .argument = true},
};

static const struct test *find(struct mt_marked name)
{
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
        if (marked_is(name, tests[i].name)) return &tests[i];
    }
    return NULL;
}

bool mt_jinja_has_test(struct mt_marked name)
{
    return find(name) != NULL;
}

bool mt_jinja_call_test(struct jinja_run *run, struct mt_marked name, struct mt_value subject,
                        const struct jinja_arguments *arguments)
{
    const struct test *test = find(name);
    if (test == NULL)
        (void)mt_jinja_fail(run, MT_ERR_UNSUPPORTED,
                            "the template uses the test '%.*s', which metier does not know",
                            marked_width(name), name.text);
    else if (arguments->count != (test->argument ? 1 : 0) || arguments->keyword_count != 0)
        (void)mt_jinja_fail(run, MT_ERR_FORMAT, "this test takes %s argument", test->argument ? "one" : "no");
    if (mt_jinja_failed(run)) return false;
    struct mt_value argument = test->argument ? arguments->items[0] : mt_jinja_none();
    if (test->symbol != NULL) return mt_jinja_compare(run, subject, marked_of(test->symbol), argument);
    if (test->holds != NULL) return test->holds(run, subject, argument);
    return (1u << subject.kind & test->kinds) != 0;
}
