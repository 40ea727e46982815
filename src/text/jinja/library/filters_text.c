/* Filters that give text. What is not text is written as text first, as jinja2 does. */
#include "formats/text/utf8.h"
#include "text/jinja/library/library.h"

static struct mt_marked subject_text(const struct jinja_call *call)
{
    return mt_jinja_to_text(call->run, call->subject);
}

static struct mt_value change_case(const struct jinja_call *call)
{
    enum jinja_case first = (enum jinja_case)call->function->variant;
    enum jinja_case rest = first == JINJA_TITLE ? JINJA_LOWER : first;
    struct mt_marked text = subject_text(call);
    return mt_jinja_safe_like(call->subject, mt_jinja_change_case(call->run, text, first, rest));
}

/* Whether a character separates words for the filter title. */
static bool separates(uint32_t c)
{
    return c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || mt_jinja_is_space(c);
}

/* Words and what lies between them: the first character of each in upper case, the rest in lower. */
static struct mt_value title(const struct jinja_call *call)
{
    struct mt_marked text = subject_text(call);
    struct jinja_builder out = {.run = call->run};
    for (size_t start = 0, end = 0; start < text.bytes && !mt_jinja_failed(call->run); start = end) {
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
        mt_jinja_put(
            &out, mt_jinja_change_case(call->run, marked_part(text, start, first), JINJA_UPPER, JINJA_UPPER));
        mt_jinja_put(
            &out, mt_jinja_change_case(call->run, marked_part(text, first, end), JINJA_LOWER, JINJA_LOWER));
    }
    return mt_jinja_built_value(&out);
}

static struct mt_value trim(const struct jinja_call *call)
{
    struct mt_marked text = subject_text(call);
    bool given = mt_jinja_given(call->bound[0]);
    struct mt_marked characters = given ? mt_jinja_text_argument(call, 0) : marked_of("");
    mt_jinja_spend(call->run, text.bytes / 64 * (1 + characters.bytes));
    if (mt_jinja_failed(call->run)) return mt_jinja_none();
    return mt_jinja_safe_like(call->subject, mt_jinja_strip(text, given ? &characters : NULL, true, true));
}

static struct mt_value replace(const struct jinja_call *call)
{
    struct mt_marked text = subject_text(call);
    struct mt_marked old = mt_jinja_to_text(call->run, call->bound[0]);
    struct mt_marked with = mt_jinja_to_text(call->run, call->bound[1]);
    int64_t most = mt_jinja_integer_argument(call, 2, -1);
    return marked_value(mt_jinja_replace(call->run, text, old, with, most));
}

static struct mt_value string(const struct jinja_call *call)
{
    return mt_jinja_safe_like(call->subject, subject_text(call));
}

static struct mt_value safe(const struct jinja_call *call)
{
    return mt_jinja_safe(subject_text(call));
}

static struct mt_value escape(const struct jinja_call *call)
{
    return mt_jinja_escape(call->run, call->subject);
}

static struct mt_value forceescape(const struct jinja_call *call)
{
    return mt_jinja_escape(call->run, marked_value(subject_text(call)));
}

static struct mt_value indent(const struct jinja_call *call)
{
    struct jinja_run *run = call->run;
    struct jinja_builder out = {.run = run};
    struct jinja_builder blanks = {.run = run};
    struct jinja_builder ended = {.run = run};
    struct mt_marked text = mt_jinja_need_text(run, "indent", call->subject);
    if (call->bound[0].kind == JINJA_NONE)
        return mt_jinja_fail(run, MT_ERR_FORMAT, "indent: the width is none");
    if (call->bound[0].kind == JINJA_STRING) {
        mt_jinja_put(&blanks, call->bound[0].string);
    } else {
        int64_t width = mt_jinja_integer_argument(call, 0, 4);
        mt_jinja_put_repeated(&blanks, marked_of(" "), width > 0 ? (size_t)width : 0);
    }
    bool first = mt_jinja_truth_argument(call, 1);
    bool blank = mt_jinja_truth_argument(call, 2);
    // jinja2 adds a newline and splits: a text that ends in one has an empty last line.
    mt_jinja_put(&ended, text);
    mt_jinja_put_text(&ended, "\n");
    const struct jinja_list *lines = mt_jinja_split_lines(run, mt_jinja_built(&ended), false);
    for (size_t i = 0; i < lines->count && !mt_jinja_failed(run); i++) {
        struct mt_marked line = lines->items[i].string;
        bool indented = i == 0 ? first : blank || line.bytes > 0;
        if (i > 0) mt_jinja_put_text(&out, "\n");
        if (indented) mt_jinja_put(&out, mt_jinja_built(&blanks));
        mt_jinja_put(&out, line);
    }
    return mt_jinja_safe_like(call->subject, mt_jinja_built(&out));
}

static struct mt_value join(const struct jinja_call *call)
{
    const struct mt_value nothing = {.kind = JINJA_ABSENT};
    struct jinja_run *run = call->run;
    struct jinja_builder out = {.run = run};
    bool given = call->bound[0].kind != JINJA_ABSENT;
    struct mt_marked between = given ? mt_jinja_to_text(run, call->bound[0]) : marked_of("");
    const struct jinja_list *list = mt_jinja_walk(run, call->subject);
    for (size_t i = 0; i < list->count && !mt_jinja_failed(run); i++) {
        struct mt_value item = mt_jinja_path(run, list->items[i], call->bound[1], nothing);
        if (i > 0) mt_jinja_put(&out, between);
        mt_jinja_write(&out, item);
    }
    return mt_jinja_built_value(&out);
}

static struct mt_value format(const struct jinja_call *call)
{
    struct jinja_run *run = call->run;
    const struct jinja_arguments *arguments = call->arguments;
    struct mt_marked text = subject_text(call);
    if (call->subject.kind == JINJA_STRING && call->subject.safe)
        return mt_jinja_fail(run, MT_ERR_UNSUPPORTED, "format of safe text is not known here");
    if (arguments->count != 0 && arguments->keyword_count != 0)
        return mt_jinja_fail(run, MT_ERR_FORMAT, "format takes arguments by place or by name, not both");
    struct mt_value values = mt_jinja_none();
    if (arguments->keyword_count != 0) {
        struct jinja_dict *dict = mt_jinja_dict_new(run);
        mt_jinja_dict_put_keywords(run, dict, arguments);
        values = mt_jinja_object(JINJA_DICT, dict);
    } else {
        values = mt_jinja_tuple(run, arguments->items, arguments->count);
    }
    return mt_jinja_failed(run) ? mt_jinja_none() : mt_jinja_format_percent(run, text, values);
}

static struct mt_value truncate_text(const struct jinja_call *call)
{
    struct jinja_run *run = call->run;
    struct jinja_builder out = {.run = run};
    if (call->subject.kind != JINJA_STRING || call->subject.safe)
        return mt_jinja_fail(run, MT_ERR_UNSUPPORTED, "truncate of what is not plain text is not known here");
    struct mt_marked text = call->subject.string;
    int64_t length = mt_jinja_integer_argument(call, 0, 255);
    bool cut = mt_jinja_truth_argument(call, 1);
    bool absent = call->bound[2].kind == JINJA_ABSENT;
    struct mt_marked end = absent ? marked_of("...") : mt_jinja_text_argument(call, 2);
    int64_t leeway = mt_jinja_integer_argument(call, 3, 5);
    int64_t ending = (int64_t)mt_jinja_characters(end);
    if (length < ending || leeway < 0)
        return mt_jinja_fail(run, MT_ERR_FORMAT, "truncate: the length is less than that of the end");
    if ((int64_t)mt_jinja_characters(text) - leeway <= length) return marked_value(text);
    text = marked_part(text, 0, mt_jinja_character_at(text, (size_t)(length - ending)));
    for (size_t at = text.bytes; !cut && at > 0; at--) { // without the last, cut word
        if (text.text[at - 1] != ' ') continue;
        text = marked_part(text, 0, at - 1);
        break;
    }
    mt_jinja_put(&out, text);
    mt_jinja_put(&out, end);
    return mt_jinja_built_value(&out);
}

static struct mt_value wordcount(const struct jinja_call *call)
{
    struct mt_marked text = subject_text(call);
    int64_t count = 0;
    bool inside = false;
    mt_jinja_spend(call->run, text.bytes / 4);
    for (size_t at = 0; at < text.bytes;) {
        size_t length = 0;
        uint32_t c = mt_utf8_decode((const uint8_t *)text.text + at, &length);
        bool word = c == '_' || mt_jinja_is_letter(c) || mt_jinja_is_numeric(c);
        count += word && !inside;
        inside = word;
        at += length;
    }
    return mt_jinja_integer(count);
}

const struct jinja_function mt_jinja_text_filters[] = {
    {"upper", change_case, .variant = JINJA_UPPER},
    {"lower", change_case, .variant = JINJA_LOWER},
    {"capitalize", change_case, .variant = JINJA_TITLE},
    {.name = "title", .call = title},
    {"trim", trim, .parameters = {"chars"}},
    {"replace", replace, .parameters = {"old", "new", "count"}, .required = 2},
    {.name = "string", .call = string},
    {.name = "safe", .call = safe},
    {.name = "escape", .call = escape},
    {.name = "e", .call = escape},
    {.name = "forceescape", .call = forceescape},
    {"indent", indent, .parameters = {"width", "first", "blank"}},
    {"join", join, .parameters = {"d", "attribute"}},
    {"format", format, .required = JINJA_OWN_ARGUMENTS},
    {"truncate", truncate_text, .parameters = {"length", "killwords", "end", "leeway"}},
    {.name = "wordcount", .call = wordcount},
    {"tojson", mt_jinja_tojson, .parameters = {"ensure_ascii", "indent", "separators", "sort_keys"}},
    {.name = "center"},
    {.name = "filesizeformat"},
    {.name = "pprint"},
    {.name = "striptags"},
    {.name = "urlencode"},
    {.name = "urlize"},
    {.name = "wordwrap"},
    {.name = "xmlattr"},
    {0},
};
