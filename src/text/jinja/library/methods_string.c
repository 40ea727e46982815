/* Methods of text, as Python's str has them. */
#include "formats/text/utf8.h"
#include "text/jinja/library/library.h"

// What a function is told of which method it is: the sides it works on, whether it must find something.
enum { LEFT = 1, RIGHT = 2, MUST_FIND = 4 };

static bool on_side(const struct jinja_call *call, int side)
{
    return (call->function->variant & side) != 0;
}

// ------------------------------------------------------------------ strip, replace, cases

static struct mt_value strip(const struct jinja_call *call)
{
    bool given = mt_jinja_given(call->bound[0]);
    struct mt_marked characters = given ? mt_jinja_text_argument(call, 0) : marked_of("");
    mt_jinja_spend(call->run, call->subject.string.bytes / 64 * (1 + characters.bytes));
    if (mt_jinja_failed(call->run)) return mt_jinja_none();
    return marked_value(mt_jinja_strip(call->subject.string, given ? &characters : NULL, on_side(call, LEFT),
                                       on_side(call, RIGHT)));
}

static struct mt_value replace(const struct jinja_call *call)
{
    struct mt_marked old = mt_jinja_text_argument(call, 0);
    struct mt_marked with = mt_jinja_text_argument(call, 1);
    int64_t most = mt_jinja_integer_argument(call, 2, -1);
    return marked_value(mt_jinja_replace(call->run, call->subject.string, old, with, most));
}

static struct mt_value change_case(const struct jinja_call *call)
{
    enum jinja_case first = (enum jinja_case)call->function->variant;
    enum jinja_case rest = first == JINJA_TITLE ? JINJA_LOWER : first;
    return marked_value(mt_jinja_change_case(call->run, call->subject.string, first, rest));
}

static struct mt_value title(const struct jinja_call *call)
{
    return marked_value(mt_jinja_title_case(call->run, call->subject.string));
}

static bool has_affix(struct mt_marked text, struct mt_marked affix, bool left)
{
    return left ? marked_begins(text, affix) : marked_ends(text, affix);
}

static struct mt_value remove_affix(const struct jinja_call *call)
{
    struct mt_marked text = call->subject.string;
    struct mt_marked affix = mt_jinja_text_argument(call, 0);
    bool left = on_side(call, LEFT);
    if (!has_affix(text, affix, left)) return marked_value(text);
    return marked_value(left ? marked_part(text, affix.bytes, text.bytes)
                             : marked_part(text, 0, text.bytes - affix.bytes));
}

// ------------------------------------------------------------------ split and join

/* Where the word at the left or right end of a text ends on its other side. */
static size_t word_edge(struct mt_marked text, bool right)
{
    const uint8_t *bytes = (const uint8_t *)text.text;
    size_t length = 0;
    size_t at = right ? text.bytes : 0;
    while (!right && at < text.bytes && !mt_jinja_is_space(mt_utf8_decode(bytes + at, &length))) at += length;
    while (right && at > 0) {
        size_t previous = mt_utf8_previous(bytes, at);
        if (mt_jinja_is_space(mt_utf8_decode(bytes + previous, &length))) break;
        at = previous;
    }
    return at;
}

/* Runs of white space separate; `most` splits, from the left or from the right. */
static void split_spaces(struct jinja_run *run, struct mt_marked text, int64_t most, bool right,
                         struct jinja_list *list)
{
    text = mt_jinja_strip(text, NULL, !right || most < 0, right || most < 0);
    while (!mt_jinja_failed(run)) {
        text = mt_jinja_strip(text, NULL, !right, right);
        if (text.bytes == 0) return;
        if (most == 0) break;
        size_t at = word_edge(text, right);
        struct mt_marked before = marked_part(text, 0, at);
        struct mt_marked behind = marked_part(text, at, text.bytes);
        mt_jinja_list_add(run, list, marked_value(right ? behind : before));
        text = right ? before : behind;
        most -= most > 0;
    }
    mt_jinja_list_add(run, list, marked_value(text)); // what is left keeps the white space on its far side
}

/* The first place of `needle`, or from the right the last one; SIZE_MAX: there is none. */
static size_t find_from(struct mt_marked text, struct mt_marked needle, bool right)
{
    if (!right) return mt_jinja_find_text(text, needle, 0);
    if (needle.bytes > text.bytes) return SIZE_MAX;
    for (size_t at = text.bytes - needle.bytes + 1; at > 0; at--) {
        if (needle.bytes == 0 || memcmp(text.text + at - 1, needle.text, needle.bytes) == 0) return at - 1;
    }
    return SIZE_MAX;
}

static void split_text(struct jinja_run *run, struct mt_marked text, struct mt_marked separator, int64_t most,
                       bool right, struct jinja_list *list)
{
    mt_jinja_spend(run, text.bytes / 16);
    while (most != 0 && !mt_jinja_failed(run)) {
        size_t found = find_from(text, separator, right);
        if (found == SIZE_MAX) break;
        struct mt_marked before = marked_part(text, 0, found);
        struct mt_marked behind = marked_part(text, found + separator.bytes, text.bytes);
        mt_jinja_list_add(run, list, marked_value(right ? behind : before));
        text = right ? before : behind;
        most -= most > 0;
    }
    mt_jinja_list_add(run, list, marked_value(text));
}

static struct mt_value split(const struct jinja_call *call)
{
    struct jinja_run *run = call->run;
    bool right = on_side(call, RIGHT);
    int64_t most = mt_jinja_integer_argument(call, 1, -1);
    struct jinja_list *list = mt_jinja_list_new(run, 0);
    if (!mt_jinja_given(call->bound[0])) {
        split_spaces(run, call->subject.string, most, right, list);
    } else {
        struct mt_marked separator = mt_jinja_text_argument(call, 0);
        if (separator.bytes == 0) return mt_jinja_fail(run, MT_ERR_FORMAT, "empty separator");
        split_text(run, call->subject.string, separator, most, right, list);
    }
    for (size_t i = 0; right && i < list->count / 2; i++) { // found from the end
        struct mt_value swapped = list->items[i];
        list->items[i] = list->items[list->count - 1 - i];
        list->items[list->count - 1 - i] = swapped;
    }
    return mt_jinja_object(JINJA_LIST, list);
}

static struct mt_value splitlines(const struct jinja_call *call)
{
    bool keep = mt_jinja_truth_argument(call, 0);
    return mt_jinja_object(JINJA_LIST, mt_jinja_split_lines(call->run, call->subject.string, keep));
}

static struct mt_value partition(const struct jinja_call *call)
{
    bool right = on_side(call, RIGHT);
    struct mt_marked text = call->subject.string;
    struct mt_marked separator = mt_jinja_text_argument(call, 0);
    if (separator.bytes == 0) return mt_jinja_fail(call->run, MT_ERR_FORMAT, "empty separator");
    mt_jinja_spend(call->run, text.bytes / 64);
    size_t found = find_from(text, separator, right);
    const struct mt_value empty = marked_value(marked_of(""));
    struct mt_value parts[3] = {right ? empty : marked_value(text), empty,
                                right ? marked_value(text) : empty};
    if (found != SIZE_MAX) {
        parts[0] = marked_value(marked_part(text, 0, found));
        parts[1] = marked_value(separator);
        parts[2] = marked_value(marked_part(text, found + separator.bytes, text.bytes));
    }
    return mt_jinja_tuple(call->run, parts, 3);
}

static struct mt_value join(const struct jinja_call *call)
{
    struct jinja_builder out = {.run = call->run};
    const struct jinja_list *list = mt_jinja_walk(call->run, call->bound[0]);
    for (size_t i = 0; i < list->count && !mt_jinja_failed(call->run); i++) {
        if (list->items[i].kind != JINJA_STRING)
            return mt_jinja_fail(call->run, MT_ERR_FORMAT,
                                 "sequence item %zu: expected str instance, %s found", i,
                                 mt_jinja_type_name(list->items[i]));
        if (i > 0) mt_jinja_put(&out, call->subject.string);
        mt_jinja_put(&out, list->items[i].string);
    }
    return mt_jinja_built_value(&out);
}

// ------------------------------------------------------------------ find

/* The part of the subject that start and end, in characters, choose. */
struct stretch {
    struct mt_marked text;
    int64_t start; // characters before it
    bool possible; // start is not behind the text
};

static struct stretch choose(const struct jinja_call *call)
{
    struct mt_marked text = call->subject.string;
    int64_t count = (int64_t)mt_jinja_characters(text);
    int64_t place[2] = {0, count};
    for (int i = 0; i < 2; i++) {
        place[i] = mt_jinja_integer_argument(call, i + 1, place[i]);
        if (place[i] < 0) place[i] = place[i] < -count ? 0 : place[i] + count;
    }
    if (place[1] > count) place[1] = count;
    struct stretch stretch = {.start = place[0]};
    stretch.possible = place[0] <= place[1] && !mt_jinja_failed(call->run);
    if (!stretch.possible) return stretch;
    mt_jinja_spend(call->run, text.bytes / 16);
    size_t from = mt_jinja_character_at(text, (size_t)place[0]);
    struct mt_marked rest = marked_part(text, from, text.bytes);
    stretch.text = marked_part(rest, 0, mt_jinja_character_at(rest, (size_t)(place[1] - place[0])));
    return stretch;
}

static struct mt_value find(const struct jinja_call *call)
{
    struct mt_marked needle = mt_jinja_text_argument(call, 0);
    struct stretch stretch = choose(call);
    size_t found = stretch.possible ? find_from(stretch.text, needle, on_side(call, RIGHT)) : SIZE_MAX;
    if (found == SIZE_MAX && on_side(call, MUST_FIND))
        return mt_jinja_fail(call->run, MT_ERR_FORMAT, "substring not found");
    if (found == SIZE_MAX) return mt_jinja_integer(-1);
    return mt_jinja_integer(stretch.start +
                            (int64_t)mt_jinja_characters(marked_part(stretch.text, 0, found)));
}

static struct mt_value count(const struct jinja_call *call)
{
    struct mt_marked needle = mt_jinja_text_argument(call, 0);
    struct stretch stretch = choose(call);
    int64_t found = 0;
    if (!stretch.possible) return mt_jinja_integer(0);
    if (needle.bytes == 0) return mt_jinja_integer((int64_t)mt_jinja_characters(stretch.text) + 1);
    for (size_t at = mt_jinja_find_text(stretch.text, needle, 0); at != SIZE_MAX; found++)
        at = mt_jinja_find_text(stretch.text, needle, at + needle.bytes);
    return mt_jinja_integer(found);
}

static struct mt_value starts_or_ends(const struct jinja_call *call)
{
    struct stretch stretch = choose(call);
    bool several = call->bound[0].kind == JINJA_TUPLE;
    const struct jinja_list *list = several ? call->bound[0].object : NULL;
    const struct mt_value *affixes = several ? list->items : call->bound;
    bool holds = false;
    for (size_t i = 0; !holds && i < (several ? list->count : 1) && !mt_jinja_failed(call->run); i++) {
        struct mt_marked affix = mt_jinja_need_text(call->run, call->function->name, affixes[i]);
        holds = stretch.possible && has_affix(stretch.text, affix, on_side(call, LEFT));
    }
    return mt_jinja_bool(holds);
}

// ------------------------------------------------------------------ is...

enum { ALPHA, DIGIT, DECIMAL, NUMERIC, ALNUM, SPACE };

static bool is_alnum(uint32_t character)
{
    return mt_jinja_is_letter(character) || mt_jinja_is_numeric(character);
}

/* Whether there are characters and all are of a kind. */
static struct mt_value all_are(const struct jinja_call *call)
{
    static bool (*const kinds[])(uint32_t character) = {
        [ALPHA] = mt_jinja_is_letter,    [DIGIT] = mt_jinja_is_digit, [DECIMAL] = mt_jinja_is_decimal,
        [NUMERIC] = mt_jinja_is_numeric, [ALNUM] = is_alnum,          [SPACE] = mt_jinja_is_space,
    };
    struct mt_marked text = call->subject.string;
    bool holds = text.bytes > 0;
    mt_jinja_spend(call->run, text.bytes / 4);
    for (size_t at = 0; holds && at < text.bytes;) {
        size_t length = 0;
        holds = kinds[call->function->variant](mt_utf8_decode((const uint8_t *)text.text + at, &length));
        at += length;
    }
    return mt_jinja_bool(holds);
}

static struct mt_value is_cased_as(const struct jinja_call *call)
{
    enum jinja_case wanted = (enum jinja_case)call->function->variant;
    return mt_jinja_bool(mt_jinja_has_case(call->run, call->subject.string, wanted));
}

static struct mt_value format(const struct jinja_call *call)
{
    return mt_jinja_format_braces(call->run, call->subject.string, call->arguments);
}

const struct jinja_function mt_jinja_string_methods[] = {
    {"strip", strip, .parameters = {"chars"}, .variant = LEFT | RIGHT},
    {"lstrip", strip, .parameters = {"chars"}, .variant = LEFT},
    {"rstrip", strip, .parameters = {"chars"}, .variant = RIGHT},
    {"split", split, .parameters = {"sep", "maxsplit"}, .variant = LEFT},
    {"rsplit", split, .parameters = {"sep", "maxsplit"}, .variant = RIGHT},
    {"splitlines", splitlines, .parameters = {"keepends"}},
    {"partition", partition, .parameters = {"sep"}, .required = 1, .variant = LEFT},
    {"rpartition", partition, .parameters = {"sep"}, .required = 1, .variant = RIGHT},
    {"join", join, .parameters = {"iterable"}, .required = 1},
    {"replace", replace, .parameters = {"old", "new", "count"}, .required = 2},
    {"removeprefix", remove_affix, .parameters = {"affix"}, .required = 1, .variant = LEFT},
    {"removesuffix", remove_affix, .parameters = {"affix"}, .required = 1, .variant = RIGHT},
    {"upper", change_case, .variant = JINJA_UPPER},
    {"lower", change_case, .variant = JINJA_LOWER},
    {"capitalize", change_case, .variant = JINJA_TITLE},
    {.name = "title", .call = title},
    {"startswith", starts_or_ends, .parameters = {"affix", "start", "end"}, .required = 1, .variant = LEFT},
    {"endswith", starts_or_ends, .parameters = {"affix", "start", "end"}, .required = 1, .variant = RIGHT},
    {"find", find, .parameters = {"sub", "start", "end"}, .required = 1, .variant = LEFT},
    {"rfind", find, .parameters = {"sub", "start", "end"}, .required = 1, .variant = RIGHT},
    {"index", find, .parameters = {"sub", "start", "end"}, .required = 1, .variant = LEFT | MUST_FIND},
    {"rindex", find, .parameters = {"sub", "start", "end"}, .required = 1, .variant = RIGHT | MUST_FIND},
    {"count", count, .parameters = {"sub", "start", "end"}, .required = 1},
    {"format", format, .required = JINJA_OWN_ARGUMENTS},
    {"isalpha", all_are, .variant = ALPHA},
    {"isdigit", all_are, .variant = DIGIT},
    {"isdecimal", all_are, .variant = DECIMAL},
    {"isnumeric", all_are, .variant = NUMERIC},
    {"isalnum", all_are, .variant = ALNUM},
    {"isspace", all_are, .variant = SPACE},
    {"islower", is_cased_as, .variant = JINJA_LOWER},
    {"isupper", is_cased_as, .variant = JINJA_UPPER},
    {.name = "casefold"},
    {.name = "center"},
    {.name = "encode"},
    {.name = "expandtabs"},
    {.name = "format_map"},
    {.name = "isascii"},
    {.name = "isidentifier"},
    {.name = "isprintable"},
    {.name = "istitle"},
    {.name = "ljust"},
    {.name = "maketrans"},
    {.name = "rjust"},
    {.name = "swapcase"},
    {.name = "translate"},
    {.name = "zfill"},
    {0},
};
