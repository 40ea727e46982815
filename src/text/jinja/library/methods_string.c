/* Methods of text, as Python's str has them. */
#include "formats/text/utf8.h"
#include "text/jinja/library/library.h"

static enum mt_status give(enum mt_status status, struct mt_marked text, struct mt_value *result)
{
    *result = marked_value(text);
    return status;
}

// ------------------------------------------------------------------ strip, replace, cases

static enum mt_status strip_sides(struct jinja_run *run, struct mt_value subject,
                                  const struct jinja_arguments *arguments, bool left, bool right,
                                  struct mt_value *result)
{
    static const char *const names[] = {"chars"};
    struct mt_value bound;
    struct mt_marked characters = {0};
    enum mt_status status = jinja_bind(run, "strip", arguments, names, 1, 0, &bound);
    if (status == MT_OK && jinja_given(bound)) status = jinja_bound_string(run, "strip", bound, &characters);
    if (status == MT_OK) status = jinja_spend(run, subject.string.bytes / 64 * (1 + characters.bytes));
    if (status != MT_OK) return status;
    return give(MT_OK, jinja_strip(subject.string, jinja_given(bound) ? &characters : NULL, left, right),
                result);
}

static enum mt_status strip(struct jinja_run *run, struct mt_value subject,
                            const struct jinja_arguments *arguments, struct mt_value *result)
{
    return strip_sides(run, subject, arguments, true, true, result);
}

static enum mt_status lstrip(struct jinja_run *run, struct mt_value subject,
                             const struct jinja_arguments *arguments, struct mt_value *result)
{
    return strip_sides(run, subject, arguments, true, false, result);
}

static enum mt_status rstrip(struct jinja_run *run, struct mt_value subject,
                             const struct jinja_arguments *arguments, struct mt_value *result)
{
    return strip_sides(run, subject, arguments, false, true, result);
}

static enum mt_status replace(struct jinja_run *run, struct mt_value subject,
                              const struct jinja_arguments *arguments, struct mt_value *result)
{
    static const char *const names[] = {"old", "new", "count"};
    struct mt_value bound[3];
    struct mt_marked old = {0};
    struct mt_marked with = {0};
    struct mt_marked made = {0};
    int64_t most = -1;
    enum mt_status status = jinja_bind(run, "replace", arguments, names, 3, 2, bound);
    if (status == MT_OK) status = jinja_bound_string(run, "replace", bound[0], &old);
    if (status == MT_OK) status = jinja_bound_string(run, "replace", bound[1], &with);
    if (status == MT_OK) status = jinja_bound_integer(run, "replace", bound[2], -1, &most);
    if (status == MT_OK) status = jinja_replace(run, subject.string, old, with, most, &made);
    return give(status, made, result);
}

static enum mt_status change(struct jinja_run *run, const char *what, struct mt_value subject,
                             const struct jinja_arguments *arguments, enum jinja_case first,
                             enum jinja_case rest, struct mt_value *result)
{
    struct mt_marked made = {0};
    enum mt_status status = jinja_bind(run, what, arguments, NULL, 0, 0, NULL);
    if (status == MT_OK) status = jinja_change_case(run, subject.string, first, rest, &made);
    return give(status, made, result);
}

static enum mt_status upper(struct jinja_run *run, struct mt_value subject,
                            const struct jinja_arguments *arguments, struct mt_value *result)
{
    return change(run, "upper", subject, arguments, JINJA_UPPER, JINJA_UPPER, result);
}

static enum mt_status lower(struct jinja_run *run, struct mt_value subject,
                            const struct jinja_arguments *arguments, struct mt_value *result)
{
    return change(run, "lower", subject, arguments, JINJA_LOWER, JINJA_LOWER, result);
}

static enum mt_status capitalize(struct jinja_run *run, struct mt_value subject,
                                 const struct jinja_arguments *arguments, struct mt_value *result)
{
    return change(run, "capitalize", subject, arguments, JINJA_TITLE, JINJA_LOWER, result);
}

static enum mt_status title(struct jinja_run *run, struct mt_value subject,
                            const struct jinja_arguments *arguments, struct mt_value *result)
{
    struct mt_marked made = {0};
    enum mt_status status = jinja_bind(run, "title", arguments, NULL, 0, 0, NULL);
    if (status == MT_OK) status = jinja_title_case(run, subject.string, &made);
    return give(status, made, result);
}

static enum mt_status remove_affix(struct jinja_run *run, struct mt_value subject,
                                   const struct jinja_arguments *arguments, bool prefix,
                                   struct mt_value *result)
{
    static const char *const names[] = {"affix"};
    struct mt_value bound;
    struct mt_marked affix = {0};
    struct mt_marked text = subject.string;
    enum mt_status status = jinja_bind(run, "removeprefix", arguments, names, 1, 1, &bound);
    if (status == MT_OK) status = jinja_bound_string(run, "removeprefix", bound, &affix);
    if (status != MT_OK) return status;
    if (prefix && marked_begins(text, affix)) text = marked_part(text, affix.bytes, text.bytes);
    if (!prefix && marked_ends(text, affix)) text = marked_part(text, 0, text.bytes - affix.bytes);
    return give(MT_OK, text, result);
}

static enum mt_status removeprefix(struct jinja_run *run, struct mt_value subject,
                                   const struct jinja_arguments *arguments, struct mt_value *result)
{
    return remove_affix(run, subject, arguments, true, result);
}

static enum mt_status removesuffix(struct jinja_run *run, struct mt_value subject,
                                   const struct jinja_arguments *arguments, struct mt_value *result)
{
    return remove_affix(run, subject, arguments, false, result);
}

// ------------------------------------------------------------------ split and join

/* Runs of white space separate; `most` splits, from the left or from the right. */
static enum mt_status split_spaces(struct jinja_run *run, struct mt_marked text, int64_t most, bool right,
                                   struct jinja_list *list)
{
    enum mt_status status = MT_OK;
    const uint8_t *bytes = (const uint8_t *)text.text;
    size_t length = 0;
    text = jinja_strip(text, NULL, !right || most < 0, right || most < 0);
    while (status == MT_OK) {
        text = jinja_strip(text, NULL, !right, right);
        bytes = (const uint8_t *)text.text;
        if (text.bytes == 0) return MT_OK;
        if (most == 0) break;
        size_t at = right ? text.bytes : 0;
        if (right) {
            while (at > 0) {
                size_t previous = mt_utf8_previous(bytes, at);
                if (jinja_is_space(mt_utf8_decode(bytes + previous, &length))) break;
                at = previous;
            }
            status = jinja_list_add(run, list, marked_value(marked_part(text, at, text.bytes)));
            text = marked_part(text, 0, at);
        } else {
            while (at < text.bytes && !jinja_is_space(mt_utf8_decode(bytes + at, &length))) at += length;
            status = jinja_list_add(run, list, marked_value(marked_part(text, 0, at)));
            text = marked_part(text, at, text.bytes);
        }
        most -= most > 0;
    }
    if (status == MT_OK) {
        // What is left keeps the white space on its far side.
        status = jinja_list_add(run, list, marked_value(text));
    }
    return status;
}

/* The last place of `needle` that ends at or before `end`, or SIZE_MAX. */
static size_t find_last(struct mt_marked text, struct mt_marked needle, size_t end)
{
    if (needle.bytes > end) return SIZE_MAX;
    for (size_t at = end - needle.bytes + 1; at > 0; at--) {
        if (needle.bytes == 0 || memcmp(text.text + at - 1, needle.text, needle.bytes) == 0) return at - 1;
    }
    return SIZE_MAX;
}

static enum mt_status split_text(struct jinja_run *run, struct mt_marked text, struct mt_marked separator,
                                 int64_t most, bool right, struct jinja_list *list)
{
    enum mt_status status = jinja_spend(run, text.bytes / 16);
    while (status == MT_OK && most != 0) {
        size_t found = right ? find_last(text, separator, text.bytes) : jinja_find_text(text, separator, 0);
        if (found == SIZE_MAX) break;
        size_t behind = found + separator.bytes;
        struct mt_marked part = right ? marked_part(text, behind, text.bytes) : marked_part(text, 0, found);
        status = jinja_list_add(run, list, marked_value(part));
        text = right ? marked_part(text, 0, found) : marked_part(text, behind, text.bytes);
        most -= most > 0;
    }
    return status == MT_OK ? jinja_list_add(run, list, marked_value(text)) : status;
}

static enum mt_status split_side(struct jinja_run *run, struct mt_value subject,
                                 const struct jinja_arguments *arguments, bool right, struct mt_value *result)
{
    static const char *const names[] = {"sep", "maxsplit"};
    struct mt_value bound[2];
    struct mt_marked separator = {0};
    struct jinja_list *list = NULL;
    int64_t most = -1;
    enum mt_status status = jinja_bind(run, "split", arguments, names, 2, 0, bound);
    if (status == MT_OK) status = jinja_bound_integer(run, "split", bound[1], -1, &most);
    if (status == MT_OK) status = jinja_list_new(run, 0, &list);
    if (status == MT_OK && !jinja_given(bound[0])) {
        status = split_spaces(run, subject.string, most, right, list);
    } else if (status == MT_OK) {
        status = jinja_bound_string(run, "split", bound[0], &separator);
        if (status == MT_OK && separator.bytes == 0) return jinja_fail(run, MT_ERR_FORMAT, "empty separator");
        if (status == MT_OK) status = split_text(run, subject.string, separator, most, right, list);
    }
    for (size_t i = 0; status == MT_OK && right && i < list->count / 2; i++) { // found from the end
        struct mt_value swapped = list->items[i];
        list->items[i] = list->items[list->count - 1 - i];
        list->items[list->count - 1 - i] = swapped;
    }
    *result = jinja_object(JINJA_LIST, list);
    return status;
}

static enum mt_status split(struct jinja_run *run, struct mt_value subject,
                            const struct jinja_arguments *arguments, struct mt_value *result)
{
    return split_side(run, subject, arguments, false, result);
}

static enum mt_status rsplit(struct jinja_run *run, struct mt_value subject,
                             const struct jinja_arguments *arguments, struct mt_value *result)
{
    return split_side(run, subject, arguments, true, result);
}

static enum mt_status splitlines(struct jinja_run *run, struct mt_value subject,
                                 const struct jinja_arguments *arguments, struct mt_value *result)
{
    static const char *const names[] = {"keepends"};
    struct mt_value bound;
    struct jinja_list *list = NULL;
    bool keep = false;
    enum mt_status status = jinja_bind(run, "splitlines", arguments, names, 1, 0, &bound);
    if (status == MT_OK) status = jinja_bound_truth(run, bound, false, &keep);
    if (status == MT_OK) status = jinja_list_new(run, 0, &list);
    if (status == MT_OK) status = jinja_split_lines(run, subject.string, keep, list);
    *result = jinja_object(JINJA_LIST, list);
    return status;
}

static enum mt_status partition_side(struct jinja_run *run, struct mt_value subject,
                                     const struct jinja_arguments *arguments, bool right,
                                     struct mt_value *result)
{
    static const char *const names[] = {"sep"};
    struct mt_value bound;
    struct mt_marked sep = {0};
    struct mt_marked text = subject.string;
    struct jinja_list *list = NULL;
    enum mt_status status = jinja_bind(run, "partition", arguments, names, 1, 1, &bound);
    if (status == MT_OK) status = jinja_bound_string(run, "partition", bound, &sep);
    if (status == MT_OK && sep.bytes == 0) return jinja_fail(run, MT_ERR_FORMAT, "empty separator");
    if (status == MT_OK) status = jinja_list_new(run, 3, &list);
    if (status == MT_OK) status = jinja_spend(run, text.bytes / 64);
    if (status != MT_OK) return status;
    size_t found = right ? find_last(text, sep, text.bytes) : jinja_find_text(text, sep, 0);
    struct mt_marked empty = marked_of("");
    struct mt_marked parts[3] = {right ? empty : text, empty, right ? text : empty};
    if (found != SIZE_MAX) {
        parts[0] = marked_part(text, 0, found);
        parts[1] = sep;
        parts[2] = marked_part(text, found + sep.bytes, text.bytes);
    }
    for (int i = 0; status == MT_OK && i < 3; i++) status = jinja_list_add(run, list, marked_value(parts[i]));
    *result = jinja_object(JINJA_TUPLE, list);
    return status;
}

static enum mt_status partition(struct jinja_run *run, struct mt_value subject,
                                const struct jinja_arguments *arguments, struct mt_value *result)
{
    return partition_side(run, subject, arguments, false, result);
}

static enum mt_status rpartition(struct jinja_run *run, struct mt_value subject,
                                 const struct jinja_arguments *arguments, struct mt_value *result)
{
    return partition_side(run, subject, arguments, true, result);
}

static enum mt_status join(struct jinja_run *run, struct mt_value subject,
                           const struct jinja_arguments *arguments, struct mt_value *result)
{
    static const char *const names[] = {"iterable"};
    struct mt_value bound;
    struct jinja_list *list = NULL;
    struct jinja_builder builder = {0};
    enum mt_status status = jinja_bind(run, "join", arguments, names, 1, 1, &bound);
    if (status == MT_OK) status = jinja_walk(run, bound, &list);
    for (size_t i = 0; status == MT_OK && i < list->count; i++) {
        if (list->items[i].kind != JINJA_STRING)
            return jinja_fail(run, MT_ERR_FORMAT, "sequence item %zu: expected str instance, %s found", i,
                              jinja_type_name(list->items[i]));
        if (i > 0) status = jinja_put(run, &builder, subject.string);
        if (status == MT_OK) status = jinja_put(run, &builder, list->items[i].string);
    }
    return give(status, jinja_built(&builder), result);
}

// ------------------------------------------------------------------ find

/* The part that start and end, in characters, choose. */
struct stretch {
    struct mt_marked text;
    int64_t start; // characters before it
    bool possible; // start is not behind the text
};

static enum mt_status choose(struct jinja_run *run, const char *what, struct mt_marked text,
                             const struct mt_value bounds[2], struct stretch *stretch)
{
    int64_t count = (int64_t)jinja_characters(text);
    int64_t place[2] = {0, count};
    for (int i = 0; i < 2; i++) {
        enum mt_status status = jinja_bound_integer(run, what, bounds[i], place[i], &place[i]);
        if (status != MT_OK) return status;
        if (place[i] < 0) place[i] = place[i] < -count ? 0 : place[i] + count;
        if (i == 1 && place[i] > count) place[i] = count;
    }
    stretch->possible = place[0] <= place[1] && place[0] <= count;
    stretch->start = place[0];
    if (!stretch->possible) return MT_OK;
    size_t from = jinja_character_at(text, (size_t)place[0]);
    struct mt_marked rest = marked_part(text, from, text.bytes);
    stretch->text = marked_part(rest, 0, jinja_character_at(rest, (size_t)(place[1] - place[0])));
    return jinja_spend(run, text.bytes / 16);
}

static enum mt_status search(struct jinja_run *run, const char *what, struct mt_value subject,
                             const struct jinja_arguments *arguments, bool right, bool must,
                             struct mt_value *result)
{
    static const char *const names[] = {"sub", "start", "end"};
    struct mt_value bound[3];
    struct mt_marked needle = {0};
    struct stretch stretch = {0};
    int64_t place = -1;
    enum mt_status status = jinja_bind(run, what, arguments, names, 3, 1, bound);
    if (status == MT_OK) status = jinja_bound_string(run, what, bound[0], &needle);
    if (status == MT_OK) status = choose(run, what, subject.string, bound + 1, &stretch);
    if (status == MT_OK && stretch.possible) {
        size_t found = right ? find_last(stretch.text, needle, stretch.text.bytes)
                             : jinja_find_text(stretch.text, needle, 0);
        if (found != SIZE_MAX)
            place = stretch.start + (int64_t)jinja_characters(marked_part(stretch.text, 0, found));
    }
    if (status == MT_OK && must && place < 0) return jinja_fail(run, MT_ERR_FORMAT, "substring not found");
    *result = mt_jinja_integer(place);
    return status;
}

static enum mt_status find(struct jinja_run *run, struct mt_value subject,
                           const struct jinja_arguments *arguments, struct mt_value *result)
{
    return search(run, "find", subject, arguments, false, false, result);
}

static enum mt_status rfind(struct jinja_run *run, struct mt_value subject,
                            const struct jinja_arguments *arguments, struct mt_value *result)
{
    return search(run, "rfind", subject, arguments, true, false, result);
}

static enum mt_status index_of(struct jinja_run *run, struct mt_value subject,
                               const struct jinja_arguments *arguments, struct mt_value *result)
{
    return search(run, "index", subject, arguments, false, true, result);
}

static enum mt_status rindex_of(struct jinja_run *run, struct mt_value subject,
                                const struct jinja_arguments *arguments, struct mt_value *result)
{
    return search(run, "rindex", subject, arguments, true, true, result);
}

static enum mt_status count(struct jinja_run *run, struct mt_value subject,
                            const struct jinja_arguments *arguments, struct mt_value *result)
{
    static const char *const names[] = {"sub", "start", "end"};
    struct mt_value bound[3];
    struct mt_marked needle = {0};
    struct stretch stretch = {0};
    int64_t found = 0;
    enum mt_status status = jinja_bind(run, "count", arguments, names, 3, 1, bound);
    if (status == MT_OK) status = jinja_bound_string(run, "count", bound[0], &needle);
    if (status == MT_OK) status = choose(run, "count", subject.string, bound + 1, &stretch);
    if (status != MT_OK) return status;
    if (stretch.possible && needle.bytes == 0) found = (int64_t)jinja_characters(stretch.text) + 1;
    for (size_t at = 0; stretch.possible && needle.bytes != 0;) {
        at = jinja_find_text(stretch.text, needle, at);
        if (at == SIZE_MAX) break;
        at += needle.bytes;
        found++;
    }
    *result = mt_jinja_integer(found);
    return MT_OK;
}

static enum mt_status has_affix(struct jinja_run *run, const char *what, struct mt_value subject,
                                const struct jinja_arguments *arguments, bool prefix, struct mt_value *result)
{
    static const char *const names[] = {"affix", "start", "end"};
    struct mt_value bound[3];
    struct stretch stretch = {0};
    bool holds = false;
    enum mt_status status = jinja_bind(run, what, arguments, names, 3, 1, bound);
    if (status == MT_OK) status = choose(run, what, subject.string, bound + 1, &stretch);
    if (status != MT_OK) return status;
    bool several = bound[0].kind == JINJA_TUPLE;
    const struct jinja_list *list = several ? bound[0].object : NULL;
    size_t affixes = several ? list->count : 1;
    for (size_t i = 0; status == MT_OK && !holds && i < affixes; i++) {
        struct mt_marked affix = {0};
        status = jinja_bound_string(run, what, several ? list->items[i] : bound[0], &affix);
        if (status == MT_OK && stretch.possible)
            holds = prefix ? marked_begins(stretch.text, affix) : marked_ends(stretch.text, affix);
    }
    *result = mt_jinja_bool(holds);
    return status;
}

static enum mt_status startswith(struct jinja_run *run, struct mt_value subject,
                                 const struct jinja_arguments *arguments, struct mt_value *result)
{
    return has_affix(run, "startswith", subject, arguments, true, result);
}

static enum mt_status endswith(struct jinja_run *run, struct mt_value subject,
                               const struct jinja_arguments *arguments, struct mt_value *result)
{
    return has_affix(run, "endswith", subject, arguments, false, result);
}

// ------------------------------------------------------------------ is...

typedef bool (*character_fn)(uint32_t character);

/* Whether there are characters and all are of a kind. */
static enum mt_status all_are(struct jinja_run *run, struct mt_value subject,
                              const struct jinja_arguments *arguments, character_fn kind, character_fn other,
                              struct mt_value *result)
{
    struct mt_marked text = subject.string;
    bool holds = text.bytes > 0;
    enum mt_status status = jinja_bind(run, "this method", arguments, NULL, 0, 0, NULL);
    if (status == MT_OK) status = jinja_spend(run, text.bytes / 4);
    for (size_t at = 0; status == MT_OK && holds && at < text.bytes;) {
        size_t length = 0;
        uint32_t c = mt_utf8_decode((const uint8_t *)text.text + at, &length);
        holds = kind(c) || (other != NULL && other(c));
        at += length;
    }
    *result = mt_jinja_bool(holds);
    return status;
}

static enum mt_status isalpha_of(struct jinja_run *run, struct mt_value subject,
                                 const struct jinja_arguments *arguments, struct mt_value *result)
{
    return all_are(run, subject, arguments, jinja_is_letter, NULL, result);
}

static enum mt_status isdigit_of(struct jinja_run *run, struct mt_value subject,
                                 const struct jinja_arguments *arguments, struct mt_value *result)
{
    return all_are(run, subject, arguments, jinja_is_digit, NULL, result);
}

static enum mt_status isdecimal_of(struct jinja_run *run, struct mt_value subject,
                                   const struct jinja_arguments *arguments, struct mt_value *result)
{
    return all_are(run, subject, arguments, jinja_is_decimal, NULL, result);
}

static enum mt_status isnumeric_of(struct jinja_run *run, struct mt_value subject,
                                   const struct jinja_arguments *arguments, struct mt_value *result)
{
    return all_are(run, subject, arguments, jinja_is_numeric, NULL, result);
}

static enum mt_status isalnum_of(struct jinja_run *run, struct mt_value subject,
                                 const struct jinja_arguments *arguments, struct mt_value *result)
{
    return all_are(run, subject, arguments, jinja_is_letter, jinja_is_numeric, result);
}

static enum mt_status isspace_of(struct jinja_run *run, struct mt_value subject,
                                 const struct jinja_arguments *arguments, struct mt_value *result)
{
    return all_are(run, subject, arguments, jinja_is_space, NULL, result);
}

/* Whether there is a cased character and none of another case. */
static enum mt_status one_case(struct jinja_run *run, struct mt_value subject,
                               const struct jinja_arguments *arguments, character_fn wanted,
                               struct mt_value *result)
{
    struct mt_marked text = subject.string;
    bool any = false;
    bool other = false;
    enum mt_status status = jinja_bind(run, "this method", arguments, NULL, 0, 0, NULL);
    if (status == MT_OK) status = jinja_spend(run, text.bytes / 4);
    for (size_t at = 0; status == MT_OK && !other && at < text.bytes;) {
        size_t length = 0;
        uint32_t c = mt_utf8_decode((const uint8_t *)text.text + at, &length);
        any = any || wanted(c);
        other = !wanted(c) && jinja_is_cased(c);
        at += length;
    }
    *result = mt_jinja_bool(any && !other);
    return status;
}

static enum mt_status islower_of(struct jinja_run *run, struct mt_value subject,
                                 const struct jinja_arguments *arguments, struct mt_value *result)
{
    return one_case(run, subject, arguments, jinja_is_lower, result);
}

static enum mt_status isupper_of(struct jinja_run *run, struct mt_value subject,
                                 const struct jinja_arguments *arguments, struct mt_value *result)
{
    return one_case(run, subject, arguments, jinja_is_upper, result);
}

static enum mt_status format(struct jinja_run *run, struct mt_value subject,
                             const struct jinja_arguments *arguments, struct mt_value *result)
{
    return jinja_format_braces(run, subject.string, arguments, result);
}

static const struct jinja_function entries[] = {
    {"strip", strip},
    {"lstrip", lstrip},
    {"rstrip", rstrip},
    {"split", split},
    {"rsplit", rsplit},
    {"splitlines", splitlines},
    {"partition", partition},
    {"rpartition", rpartition},
    {"join", join},
    {"replace", replace},
    {"removeprefix", removeprefix},
    {"removesuffix", removesuffix},
    {"upper", upper},
    {"lower", lower},
    {"title", title},
    {"capitalize", capitalize},
    {"startswith", startswith},
    {"endswith", endswith},
    {"find", find},
    {"rfind", rfind},
    {"index", index_of},
    {"rindex", rindex_of},
    {"count", count},
    {"format", format},
    {"isalpha", isalpha_of},
    {"isdigit", isdigit_of},
    {"isdecimal", isdecimal_of},
    {"isnumeric", isnumeric_of},
    {"isalnum", isalnum_of},
    {"isspace", isspace_of},
    {"islower", islower_of},
    {"isupper", isupper_of},
    {"casefold", NULL},
    {"center", NULL},
    {"encode", NULL},
    {"expandtabs", NULL},
    {"format_map", NULL},
    {"isascii", NULL},
    {"isidentifier", NULL},
    {"isprintable", NULL},
    {"istitle", NULL},
    {"ljust", NULL},
    {"maketrans", NULL},
    {"rjust", NULL},
    {"swapcase", NULL},
    {"translate", NULL},
    {"zfill", NULL},
};
const struct jinja_table jinja_string_methods = {entries, sizeof entries / sizeof entries[0]};
