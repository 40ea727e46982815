/* Filters that give text. What is not text is written as text first, as jinja2 does. */
#include "formats/text/utf8.h"
#include "text/jinja/library/library.h"

/* The subject as text, and its arguments by name. */
static enum mt_status prepare(struct jinja_run *run, const char *what, struct mt_value subject,
                              const struct jinja_arguments *arguments, const char *const *names, size_t count,
                              size_t required, struct mt_value *bound, struct mt_marked *text)
{
    enum mt_status status = jinja_bind(run, what, arguments, names, count, required, bound);
    return status == MT_OK ? jinja_to_text(run, subject, text) : status;
}

static enum mt_status give(enum mt_status status, struct mt_marked text, struct mt_value *result)
{
    *result = marked_value(text);
    return status;
}

/* Text that stays as safe as the subject was. */
static enum mt_status give_like(enum mt_status status, struct mt_value subject, struct mt_marked text,
                                struct mt_value *result)
{
    bool safe = subject.kind == JINJA_STRING && subject.safe;
    *result = safe ? jinja_safe(text) : marked_value(text);
    return status;
}

static enum mt_status change(struct jinja_run *run, const char *what, struct mt_value subject,
                             const struct jinja_arguments *arguments, enum jinja_case first,
                             enum jinja_case rest, struct mt_value *result)
{
    struct mt_marked text = {0};
    struct mt_marked made = {0};
    enum mt_status status = prepare(run, what, subject, arguments, NULL, 0, 0, NULL, &text);
    if (status == MT_OK) status = jinja_change_case(run, text, first, rest, &made);
    return give_like(status, subject, made, result);
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

/* Whether a character separates words for the filter title. */
static bool separates(uint32_t c)
{
    return c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || jinja_is_space(c);
}

/* Words and what lies between them: the first character of each in upper case, the rest in lower. */
static enum mt_status title(struct jinja_run *run, struct mt_value subject,
                            const struct jinja_arguments *arguments, struct mt_value *result)
{
    struct mt_marked text = {0};
    struct jinja_builder builder = {0};
    enum mt_status status = prepare(run, "title", subject, arguments, NULL, 0, 0, NULL, &text);
    for (size_t start = 0, end = 0; status == MT_OK && start < text.bytes; start = end) {
        struct mt_marked made = {0};
        bool between = false;
        for (end = start; end < text.bytes;) {
            size_t length = 0;
            bool separator = separates(mt_utf8_decode((const uint8_t *)text.text + end, &length));
            if (end == start) between = separator;
            if (separator != between) break;
            end += length;
        }
        // item[0].upper() + item[1:].lower(): two texts, so that the first does not end a word of the second
        size_t first = start + mt_utf8_length((uint8_t)text.text[start]);
        status = jinja_change_case(run, marked_part(text, start, first), JINJA_UPPER, JINJA_UPPER, &made);
        if (status == MT_OK) status = jinja_put(run, &builder, made);
        if (status == MT_OK)
            status = jinja_change_case(run, marked_part(text, first, end), JINJA_LOWER, JINJA_LOWER, &made);
        if (status == MT_OK) status = jinja_put(run, &builder, made);
    }
    return give(status, jinja_built(&builder), result);
}

static enum mt_status trim(struct jinja_run *run, struct mt_value subject,
                           const struct jinja_arguments *arguments, struct mt_value *result)
{
    static const char *const names[] = {"chars"};
    struct mt_value bound;
    struct mt_marked text = {0};
    struct mt_marked characters = {0};
    enum mt_status status = prepare(run, "trim", subject, arguments, names, 1, 0, &bound, &text);
    if (status == MT_OK && jinja_given(bound)) status = jinja_bound_string(run, "trim", bound, &characters);
    if (status == MT_OK) status = jinja_spend(run, text.bytes / 64 * (1 + characters.bytes));
    if (status != MT_OK) return status;
    text = jinja_strip(text, jinja_given(bound) ? &characters : NULL, true, true);
    return give_like(MT_OK, subject, text, result);
}

static enum mt_status replace(struct jinja_run *run, struct mt_value subject,
                              const struct jinja_arguments *arguments, struct mt_value *result)
{
    static const char *const names[] = {"old", "new", "count"};
    struct mt_value bound[3];
    struct mt_marked text = {0};
    struct mt_marked old = {0};
    struct mt_marked with = {0};
    int64_t most = -1;
    enum mt_status status = prepare(run, "replace", subject, arguments, names, 3, 2, bound, &text);
    if (status == MT_OK) status = jinja_to_text(run, bound[0], &old);
    if (status == MT_OK) status = jinja_to_text(run, bound[1], &with);
    if (status == MT_OK) status = jinja_bound_integer(run, "replace", bound[2], -1, &most);
    if (status == MT_OK) status = jinja_replace(run, text, old, with, most, &text);
    return give(status, text, result);
}

static enum mt_status string(struct jinja_run *run, struct mt_value subject,
                             const struct jinja_arguments *arguments, struct mt_value *result)
{
    struct mt_marked text = {0};
    enum mt_status status = prepare(run, "string", subject, arguments, NULL, 0, 0, NULL, &text);
    return give_like(status, subject, text, result);
}

static enum mt_status safe(struct jinja_run *run, struct mt_value subject,
                           const struct jinja_arguments *arguments, struct mt_value *result)
{
    struct mt_marked text = {0};
    enum mt_status status = prepare(run, "safe", subject, arguments, NULL, 0, 0, NULL, &text);
    *result = jinja_safe(text);
    return status;
}

static enum mt_status escape(struct jinja_run *run, struct mt_value subject,
                             const struct jinja_arguments *arguments, struct mt_value *result)
{
    enum mt_status status = jinja_bind(run, "escape", arguments, NULL, 0, 0, NULL);
    return status == MT_OK ? jinja_escape(run, subject, result) : status;
}

static enum mt_status forceescape(struct jinja_run *run, struct mt_value subject,
                                  const struct jinja_arguments *arguments, struct mt_value *result)
{
    struct mt_marked text = {0};
    enum mt_status status = prepare(run, "forceescape", subject, arguments, NULL, 0, 0, NULL, &text);
    return status == MT_OK ? jinja_escape(run, marked_value(text), result) : status;
}

static enum mt_status put_indented(struct jinja_run *run, struct jinja_builder *builder,
                                   const struct jinja_list *lines, struct mt_marked indent, bool first,
                                   bool blank)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; status == MT_OK && i < lines->count; i++) {
        struct mt_marked line = lines->items[i].string;
        bool indented = i == 0 ? first : blank || line.bytes > 0;
        if (i > 0) status = jinja_put_text(run, builder, "\n");
        if (status == MT_OK && indented) status = jinja_put(run, builder, indent);
        if (status == MT_OK) status = jinja_put(run, builder, line);
    }
    return status;
}

static enum mt_status indent(struct jinja_run *run, struct mt_value subject,
                             const struct jinja_arguments *arguments, struct mt_value *result)
{
    static const char *const names[] = {"width", "first", "blank"};
    struct mt_value bound[3];
    struct jinja_builder builder = {0};
    struct jinja_builder blanks = {0};
    struct jinja_list *lines = NULL;
    struct mt_marked text = {0};
    int64_t width = 4;
    bool first = false;
    bool blank = false;
    enum mt_status status = jinja_bind(run, "indent", arguments, names, 3, 0, bound);
    if (status == MT_OK) status = jinja_bound_string(run, "indent", subject, &text);
    if (status == MT_OK && bound[0].kind == JINJA_STRING)
        status = jinja_put(run, &blanks, bound[0].string);
    else if (status == MT_OK && bound[0].kind == JINJA_NONE)
        return jinja_fail(run, MT_ERR_FORMAT, "indent: the width is none");
    else if (status == MT_OK) {
        status = jinja_bound_integer(run, "indent", bound[0], 4, &width);
        if (status == MT_OK) status = jinja_put_repeated(run, &blanks, " ", width > 0 ? (size_t)width : 0);
    }
    if (status == MT_OK) status = jinja_bound_truth(run, bound[1], false, &first);
    if (status == MT_OK) status = jinja_bound_truth(run, bound[2], false, &blank);
    if (status == MT_OK) status = jinja_list_new(run, 0, &lines);
    // jinja2 adds a newline and splits: a text that ends in one has an empty last line.
    struct jinja_builder ended = {0};
    if (status == MT_OK) status = jinja_put(run, &ended, text);
    if (status == MT_OK) status = jinja_put_text(run, &ended, "\n");
    if (status == MT_OK) status = jinja_split_lines(run, jinja_built(&ended), false, lines);
    if (status == MT_OK) status = put_indented(run, &builder, lines, jinja_built(&blanks), first, blank);
    return give_like(status, subject, jinja_built(&builder), result);
}

static enum mt_status join(struct jinja_run *run, struct mt_value subject,
                           const struct jinja_arguments *arguments, struct mt_value *result)
{
    static const char *const names[] = {"d", "attribute"};
    struct mt_value bound[2];
    struct mt_marked between = {0};
    struct jinja_list *list = NULL;
    struct jinja_builder builder = {0};
    enum mt_status status = jinja_bind(run, "join", arguments, names, 2, 0, bound);
    if (status == MT_OK && bound[0].kind != JINJA_ABSENT) status = jinja_to_text(run, bound[0], &between);
    if (status == MT_OK) status = jinja_walk(run, subject, &list);
    for (size_t i = 0; status == MT_OK && i < list->count; i++) {
        struct mt_value item = list->items[i];
        if (jinja_given(bound[1])) status = jinja_path(run, item, bound[1], &item);
        if (status == MT_OK && i > 0) status = jinja_put(run, &builder, between);
        if (status == MT_OK) status = jinja_write(run, &builder, item);
    }
    return give(status, jinja_built(&builder), result);
}

static enum mt_status format(struct jinja_run *run, struct mt_value subject,
                             const struct jinja_arguments *arguments, struct mt_value *result)
{
    struct mt_marked text = {0};
    struct jinja_list *list = NULL;
    struct jinja_dict *dict = NULL;
    enum mt_status status = jinja_to_text(run, subject, &text);
    if (subject.kind == JINJA_STRING && subject.safe)
        return jinja_fail(run, MT_ERR_UNSUPPORTED, "format of safe text is not known here");
    if (status == MT_OK && arguments->count != 0 && arguments->keyword_count != 0)
        return jinja_fail(run, MT_ERR_FORMAT, "format takes arguments by place or by name, not both");
    if (status == MT_OK && arguments->keyword_count != 0) {
        status = jinja_dict_new(run, &dict);
        for (size_t i = 0; status == MT_OK && i < arguments->keyword_count; i++)
            status = jinja_dict_put(run, dict, marked_value(arguments->keywords[i].name),
                                    arguments->keywords[i].value);
        return status == MT_OK ? jinja_format_percent(run, text, jinja_object(JINJA_DICT, dict), result)
                               : status;
    }
    if (status == MT_OK) status = jinja_list_new(run, arguments->count, &list);
    for (size_t i = 0; status == MT_OK && i < arguments->count; i++)
        status = jinja_list_add(run, list, arguments->items[i]);
    return status == MT_OK ? jinja_format_percent(run, text, jinja_object(JINJA_TUPLE, list), result)
                           : status;
}

static enum mt_status truncate_text(struct jinja_run *run, struct mt_value subject,
                                    const struct jinja_arguments *arguments, struct mt_value *result)
{
    static const char *const names[] = {"length", "killwords", "end", "leeway"};
    struct mt_value bound[4];
    struct mt_marked text = {0};
    struct mt_marked end = marked_of("...");
    struct jinja_builder builder = {0};
    int64_t length = 255;
    int64_t leeway = 5;
    bool cut = false;
    enum mt_status status = jinja_bind(run, "truncate", arguments, names, 4, 0, bound);
    if (subject.kind != JINJA_STRING || subject.safe)
        return jinja_fail(run, MT_ERR_UNSUPPORTED, "truncate of what is not plain text is not known here");
    if (status == MT_OK) status = jinja_bound_string(run, "truncate", subject, &text);
    if (status == MT_OK) status = jinja_bound_integer(run, "truncate", bound[0], 255, &length);
    if (status == MT_OK) status = jinja_bound_truth(run, bound[1], false, &cut);
    if (status == MT_OK && bound[2].kind != JINJA_ABSENT)
        status = jinja_bound_string(run, "truncate", bound[2], &end);
    if (status == MT_OK) status = jinja_bound_integer(run, "truncate", bound[3], 5, &leeway);
    if (status != MT_OK) return status;
    int64_t ending = (int64_t)jinja_characters(end);
    if (length < ending || leeway < 0)
        return jinja_fail(run, MT_ERR_FORMAT, "truncate: the length is less than that of the end");
    if ((int64_t)jinja_characters(text) - leeway <= length) return give(MT_OK, text, result);
    text = marked_part(text, 0, jinja_character_at(text, (size_t)(length - ending)));
    for (size_t at = text.bytes; !cut && at > 0; at--) { // without the last, cut word
        if (text.text[at - 1] != ' ') continue;
        text = marked_part(text, 0, at - 1);
        break;
    }
    status = jinja_put(run, &builder, text);
    if (status == MT_OK) status = jinja_put(run, &builder, end);
    return give(status, jinja_built(&builder), result);
}

static enum mt_status wordcount(struct jinja_run *run, struct mt_value subject,
                                const struct jinja_arguments *arguments, struct mt_value *result)
{
    struct mt_marked text = {0};
    int64_t count = 0;
    bool inside = false;
    enum mt_status status = prepare(run, "wordcount", subject, arguments, NULL, 0, 0, NULL, &text);
    if (status == MT_OK) status = jinja_spend(run, text.bytes / 4);
    for (size_t at = 0; status == MT_OK && at < text.bytes;) {
        size_t length = 0;
        uint32_t c = mt_utf8_decode((const uint8_t *)text.text + at, &length);
        bool word = c == '_' || jinja_is_letter(c) || jinja_is_numeric(c);
        count += word && !inside;
        inside = word;
        at += length;
    }
    *result = mt_jinja_integer(count);
    return status;
}

static const struct jinja_function entries[] = {
    {"upper", upper},
    {"lower", lower},
    {"capitalize", capitalize},
    {"title", title},
    {"trim", trim},
    {"replace", replace},
    {"string", string},
    {"safe", safe},
    {"escape", escape},
    {"e", escape},
    {"forceescape", forceescape},
    {"indent", indent},
    {"join", join},
    {"format", format},
    {"truncate", truncate_text},
    {"wordcount", wordcount},
    {"tojson", jinja_filter_tojson},
    {"center", NULL},
    {"filesizeformat", NULL},
    {"pprint", NULL},
    {"striptags", NULL},
    {"urlencode", NULL},
    {"urlize", NULL},
    {"wordwrap", NULL},
    {"xmlattr", NULL},
};
const struct jinja_table jinja_text_filters = {entries, sizeof entries / sizeof entries[0]};
