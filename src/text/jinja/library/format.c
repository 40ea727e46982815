/* Formatted text: Python's "text" % values, and "text".format(values). */
#include "text/jinja/library/format.h"

#include "formats/text/utf8.h"

// ------------------------------------------------------------------ %

struct percent {
    struct jinja_run *run;
    struct mt_marked format;
    size_t at;
    struct mt_value values; // a tuple, a mapping, or a single value
    size_t used;            // of the tuple
    struct jinja_builder out;
};

static char current(const struct percent *p)
{
    return p->at < p->format.bytes ? p->format.text[p->at] : '\0';
}

static enum mt_status next_value(struct percent *p, struct mt_value *value)
{
    bool tuple = p->values.kind == JINJA_TUPLE;
    const struct jinja_list *list = tuple ? p->values.object : NULL;
    size_t count = tuple ? list->count : 1;
    if (p->used >= count) return jinja_fail(p->run, MT_ERR_FORMAT, "not enough arguments for format string");
    *value = tuple ? list->items[p->used] : p->values;
    p->used++;
    return MT_OK;
}

/* A number of digits, or "*" for the next value. */
static enum mt_status read_size(struct percent *p, int64_t *size)
{
    struct mt_value value;
    enum mt_status status = MT_OK;
    *size = 0;
    if (current(p) == '*') {
        p->at++;
        status = next_value(p, &value);
        if (status == MT_OK && !jinja_as_integer(value, size))
            return jinja_fail(p->run, MT_ERR_FORMAT, "* wants int");
    }
    for (; current(p) >= '0' && current(p) <= '9' && *size <= JINJA_FIELD_MOST; p->at++)
        *size = *size * 10 + (current(p) - '0');
    if (status == MT_OK && (*size > JINJA_FIELD_MOST || *size < -JINJA_FIELD_MOST))
        return jinja_fail(p->run, MT_ERR_UNSUPPORTED, "a field is wider than %d", JINJA_FIELD_MOST);
    return status;
}

static enum mt_status read_percent_field(struct percent *p, struct jinja_field *field)
{
    int64_t size = 0;
    for (;; p->at++) {
        if (current(p) == '-')
            field->align = '<';
        else if (current(p) == '+')
            field->sign = '+';
        else if (current(p) == ' ')
            field->sign = field->sign == '+' ? '+' : ' ';
        else if (current(p) == '#')
            field->alternate = true;
        else if (current(p) == '0')
            field->zero = true;
        else
            break;
    }
    enum mt_status status = read_size(p, &size);
    if (status != MT_OK) return status;
    if (size < 0) field->align = '<';
    field->width = (size_t)(size < 0 ? -size : size);
    if (current(p) == '.') {
        p->at++;
        status = read_size(p, &size);
        field->precision = size > 0 ? (int)size : 0;
    }
    while (current(p) == 'l' || current(p) == 'h' || current(p) == 'L') p->at++;
    if (field->align == '<') field->zero = false;
    return status;
}

static enum mt_status number_needed(struct percent *p, char type, struct mt_value value)
{
    if (value.kind == JINJA_UNDEFINED) return jinja_fail_undefined(p->run, value);
    return jinja_fail(p->run, MT_ERR_FORMAT, "%%%c format: a number is required, not %s", type,
                      jinja_type_name(value));
}

static enum mt_status put_percent_integer(struct percent *p, struct jinja_field *field, struct mt_value value)
{
    int64_t integer = 0;
    char type = field->type;
    bool decimal = type == 'd' || type == 'i' || type == 'u';
    if (!jinja_as_integer(value, &integer)) {
        if (value.kind != JINJA_REAL || !decimal) return number_needed(p, type, value);
        if (!(value.real < JINJA_TWO_63 && value.real >= -JINJA_TWO_63))
            return jinja_fail(p->run, MT_ERR_UNSUPPORTED, "an integer does not fit 64 bits");
        integer = (int64_t)value.real;
    }
    if (decimal) field->type = 'd';
    return jinja_put_integer_field(p->run, &p->out, field, integer);
}

static enum mt_status put_percent_character(struct percent *p, const struct jinja_field *field,
                                            struct mt_value value)
{
    struct jinja_builder character = {0};
    int64_t code = 0;
    enum mt_status status = MT_OK;
    if (value.kind == JINJA_STRING && jinja_characters(value.string) == 1) {
        status = jinja_put(p->run, &character, value.string);
    } else {
        bool valid = jinja_as_integer(value, &code) && code >= 0 && code < 0x110000 &&
                     (code < 0xD800 || code > 0xDFFF);
        if (!valid) return jinja_fail(p->run, MT_ERR_FORMAT, "%%c requires int or char");
        status = jinja_put_character(p->run, &character, (uint32_t)code, 0);
    }
    return status == MT_OK ? jinja_put_text_field(p->run, &p->out, field, jinja_built(&character)) : status;
}

static enum mt_status put_percent_value(struct percent *p, struct jinja_field *field, struct mt_value value)
{
    struct mt_marked text = {0};
    struct jinja_builder quoted = {0};
    enum mt_status status = MT_OK;
    switch (field->type) {
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o': return put_percent_integer(p, field, value);
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
        if (!jinja_is_number(value)) return number_needed(p, field->type, value);
        return jinja_put_real_field(p->run, &p->out, field, jinja_as_real(value));
    default: break;
    }
    field->zero = false; // for numbers alone
    if (field->align == 0) field->align = '>';
    if (field->type == 'c') return put_percent_character(p, field, value);
    if (field->type == 's')
        status = jinja_to_text(p->run, value, &text);
    else if (field->type == 'r') {
        status = jinja_write_repr(p->run, &quoted, value);
        text = jinja_built(&quoted);
    } else if (field->type == 'a') {
        return jinja_fail(p->run, MT_ERR_UNSUPPORTED, "%%a is not known here");
    } else {
        return jinja_fail(p->run, MT_ERR_FORMAT, "unsupported format character at index %zu", p->at);
    }
    return status == MT_OK ? jinja_put_text_field(p->run, &p->out, field, text) : status;
}

/* "(key)": the value of a mapping. */
static enum mt_status read_key(struct percent *p, struct mt_value *value)
{
    struct mt_value *found = NULL;
    size_t start = ++p->at;
    int open = 1;
    for (; p->at < p->format.bytes; p->at++) {
        open += (current(p) == '(') - (current(p) == ')');
        if (open == 0) break;
    }
    if (open != 0) return jinja_fail(p->run, MT_ERR_FORMAT, "incomplete format key");
    if (p->values.kind != JINJA_DICT) return jinja_fail(p->run, MT_ERR_FORMAT, "format requires a mapping");
    struct mt_value key = marked_value(marked_part(p->format, start, p->at));
    p->at++;
    enum mt_status status = jinja_dict_find(p->run, p->values.object, key, &found);
    if (status == MT_OK && found == NULL)
        return jinja_fail(p->run, MT_ERR_FORMAT, "the format asks for the key '%.*s'",
                          marked_width(key.string), key.string.text);
    if (status == MT_OK) *value = *found;
    return status;
}

static enum mt_status put_percent_field(struct percent *p)
{
    struct jinja_field field = {.precision = -1};
    struct mt_value value = {.kind = JINJA_ABSENT};
    enum mt_status status = MT_OK;
    p->at++;
    if (current(p) == '(') status = read_key(p, &value);
    if (status == MT_OK) status = read_percent_field(p, &field);
    if (status != MT_OK) return status;
    if (p->at >= p->format.bytes) return jinja_fail(p->run, MT_ERR_FORMAT, "incomplete format");
    field.type = current(p);
    if (field.type == '%') {
        p->at++;
        return jinja_put_text(p->run, &p->out, "%");
    }
    if (value.kind == JINJA_ABSENT) status = next_value(p, &value);
    if (status == MT_OK) status = put_percent_value(p, &field, value);
    p->at += mt_utf8_length((uint8_t)field.type);
    return status;
}

enum mt_status jinja_format_percent(struct jinja_run *run, struct mt_marked format, struct mt_value value,
                                    struct mt_value *result)
{
    struct percent p = {.run = run, .format = format, .values = value};
    enum mt_status status = MT_OK;
    while (status == MT_OK && p.at < format.bytes) {
        size_t end = jinja_find_text(format, marked_of("%"), p.at);
        if (end == SIZE_MAX) end = format.bytes;
        status = jinja_put(run, &p.out, marked_part(format, p.at, end));
        p.at = end;
        if (status == MT_OK && end < format.bytes) status = put_percent_field(&p);
    }
    if (status != MT_OK) return status;
    const struct jinja_list *list = value.kind == JINJA_TUPLE ? value.object : NULL;
    // Python takes what can be indexed for a mapping, which need not be used up.
    bool mapping = value.kind == JINJA_DICT || value.kind == JINJA_LIST || value.kind == JINJA_UNDEFINED ||
                   value.kind == JINJA_RANGE;
    if (list != NULL ? p.used < list->count : p.used == 0 && !mapping)
        return jinja_fail(run, MT_ERR_FORMAT, "not all arguments converted during string formatting");
    *result = marked_value(jinja_built(&p.out));
    return MT_OK;
}

// ------------------------------------------------------------------ str.format

struct braces {
    struct jinja_run *run;
    const struct jinja_arguments *arguments;
    size_t used; // of "{}"
    bool numbered;
    struct jinja_builder out;
};

static enum mt_status named_argument(struct braces *b, struct mt_marked name, struct mt_value *value)
{
    bool valid = false;
    int64_t place = 0;
    if (name.bytes == 0) {
        if (b->numbered) return jinja_fail(b->run, MT_ERR_FORMAT, "format: fields with and without numbers");
        place = (int64_t)b->used++;
        valid = true;
    } else if (name.text[0] >= '0' && name.text[0] <= '9') {
        enum mt_status status = jinja_read_integer(b->run, name, 10, &valid, &place);
        if (status != MT_OK) return status;
        if (b->used != 0) return jinja_fail(b->run, MT_ERR_FORMAT, "format: fields with and without numbers");
        b->numbered = true;
    }
    if (valid) {
        if ((uint64_t)place >= b->arguments->count)
            return jinja_fail(b->run, MT_ERR_FORMAT, "format: there is no argument %lld", (long long)place);
        *value = b->arguments->items[place];
        return MT_OK;
    }
    for (size_t i = 0; i < b->arguments->keyword_count; i++) {
        if (!marked_equal(b->arguments->keywords[i].name, name)) continue;
        *value = b->arguments->keywords[i].value;
        return MT_OK;
    }
    return jinja_fail(b->run, MT_ERR_FORMAT, "format: there is no argument '%.*s'", marked_width(name),
                      name.text);
}

/* "[[fill]align][sign][#][0][width][,][.precision][type]". */
static enum mt_status read_spec(struct braces *b, struct mt_marked spec, struct jinja_field *field)
{
    size_t at = 0;
    size_t first = spec.bytes > 0 ? mt_utf8_length((uint8_t)spec.text[0]) : 0;
    if (first < spec.bytes && strchr("<>=^", spec.text[first]) != NULL) {
        field->fill = marked_part(spec, 0, first);
        field->align = spec.text[first];
        at = first + 1;
    } else if (spec.bytes > 0 && strchr("<>=^", spec.text[0]) != NULL) {
        field->align = spec.text[at++];
    }
    if (at < spec.bytes && strchr("+- ", spec.text[at]) != NULL) field->sign = spec.text[at++];
    if (at < spec.bytes && spec.text[at] == '#') field->alternate = spec.text[at++] == '#';
    if (at < spec.bytes && spec.text[at] == '0') field->zero = spec.text[at++] == '0';
    for (; at < spec.bytes && spec.text[at] >= '0' && spec.text[at] <= '9'; at++) {
        if (field->width <= JINJA_FIELD_MOST)
            field->width = field->width * 10 + (size_t)(spec.text[at] - '0');
    }
    if (at < spec.bytes && spec.text[at] == ',') field->grouped = spec.text[at++] == ',';
    if (at < spec.bytes && spec.text[at] == '.') {
        field->precision = 0;
        for (at++; at < spec.bytes && spec.text[at] >= '0' && spec.text[at] <= '9'; at++) {
            if (field->precision <= JINJA_FIELD_MOST)
                field->precision = field->precision * 10 + (spec.text[at] - '0');
        }
    }
    if (at < spec.bytes) field->type = spec.text[at++];
    bool wide = field->width > JINJA_FIELD_MOST || field->precision > JINJA_FIELD_MOST;
    if (wide || at < spec.bytes || (field->grouped && field->zero) || field->type == 'n' ||
        field->type == '_') {
        return jinja_fail(b->run, MT_ERR_UNSUPPORTED, "the format '%.*s' is not known here",
                          marked_width(spec), spec.text);
    }
    return MT_OK;
}

static enum mt_status put_with_spec(struct braces *b, struct mt_value value, struct mt_marked spec)
{
    struct jinja_field field = {.precision = -1};
    int64_t integer = 0;
    if (spec.bytes == 0) return jinja_write(b->run, &b->out, value);
    enum mt_status status = read_spec(b, spec, &field);
    if (status != MT_OK) return status;
    if (value.kind == JINJA_STRING) {
        if ((field.type != 0 && field.type != 's') || field.align == '=' || field.sign != 0 ||
            field.alternate || field.grouped)
            return jinja_fail(b->run, MT_ERR_FORMAT, "the format '%.*s' is none of text", marked_width(spec),
                              spec.text);
        return jinja_put_text_field(b->run, &b->out, &field, value.string);
    }
    if (value.kind == JINJA_REAL) return jinja_put_real_field(b->run, &b->out, &field, value.real);
    if (jinja_as_integer(value, &integer)) {
        bool plain = field.type == 0 || strchr("dbxXo", field.type) != NULL;
        if (plain && field.precision >= 0)
            return jinja_fail(b->run, MT_ERR_FORMAT, "Precision not allowed in integer format specifier");
        return jinja_put_integer_field(b->run, &b->out, &field, integer);
    }
    return jinja_fail(b->run, MT_ERR_FORMAT, "unsupported format string passed to %s.__format__",
                      jinja_type_name(value));
}

/* ".name" and "[key]" behind the name of an argument. */
static enum mt_status follow(struct braces *b, struct mt_marked path, struct mt_value *value)
{
    enum mt_status status = MT_OK;
    size_t at = 0;
    while (status == MT_OK && at < path.bytes) {
        bool index = path.text[at] == '[';
        size_t start = ++at;
        while (at < path.bytes &&
               (index ? path.text[at] != ']' : path.text[at] != '.' && path.text[at] != '['))
            at++;
        if (at == start || (index && at == path.bytes))
            return jinja_fail(b->run, MT_ERR_FORMAT, "format: an empty attribute or an open bracket");
        struct mt_marked step = marked_part(path, start, at);
        struct mt_value subject = *value;
        bool number = step.text[0] >= '0' && step.text[0] <= '9';
        int64_t place = 0;
        bool valid = false;
        if (index && number) status = jinja_read_integer(b->run, step, 10, &valid, &place);
        if (status == MT_OK && index)
            status = jinja_item(b->run, subject, valid ? mt_jinja_integer(place) : marked_value(step), value);
        else if (status == MT_OK)
            status = jinja_attribute(b->run, subject, step, value);
        at += index;
    }
    return status;
}

/* What stands between "{" and "}". */
static enum mt_status put_brace_field(struct braces *b, struct mt_marked text)
{
    struct jinja_builder quoted = {0};
    struct mt_value value = {0};
    size_t colon = jinja_find_text(text, marked_of(":"), 0);
    struct mt_marked spec = marked_of("");
    if (colon != SIZE_MAX) {
        spec = marked_part(text, colon + 1, text.bytes);
        text = marked_part(text, 0, colon);
    }
    size_t mark = jinja_find_text(text, marked_of("!"), 0);
    char conversion = mark != SIZE_MAX && mark + 2 == text.bytes ? text.text[mark + 1] : '\0';
    if (mark != SIZE_MAX && conversion != 's' && conversion != 'r')
        return jinja_fail(b->run, MT_ERR_UNSUPPORTED,
                          "format: only the conversions !s and !r are known here");
    if (mark != SIZE_MAX) text = marked_part(text, 0, mark);
    size_t end = 0;
    while (end < text.bytes && text.text[end] != '.' && text.text[end] != '[') end++;
    enum mt_status status = named_argument(b, marked_part(text, 0, end), &value);
    if (status == MT_OK) status = follow(b, marked_part(text, end, text.bytes), &value);
    if (status == MT_OK && conversion == 'r') {
        status = jinja_write_repr(b->run, &quoted, value);
        value = marked_value(jinja_built(&quoted));
    } else if (status == MT_OK && conversion == 's') {
        struct mt_marked written = {0};
        status = jinja_to_text(b->run, value, &written);
        value = marked_value(written);
    }
    return status == MT_OK ? put_with_spec(b, value, spec) : status;
}

enum mt_status jinja_format_braces(struct jinja_run *run, struct mt_marked format,
                                   const struct jinja_arguments *arguments, struct mt_value *result)
{
    struct braces b = {.run = run, .arguments = arguments};
    enum mt_status status = MT_OK;
    for (size_t at = 0; status == MT_OK && at < format.bytes;) {
        char c = format.text[at];
        bool twice = at + 1 < format.bytes && format.text[at + 1] == c;
        if ((c != '{' && c != '}') || twice) {
            status = jinja_put(run, &b.out, marked_part(format, at, at + 1));
            at += (c == '{' || c == '}') ? 2 : 1;
            continue;
        }
        if (c == '}') return jinja_fail(run, MT_ERR_FORMAT, "Single '}' encountered in format string");
        size_t end = jinja_find_text(format, marked_of("}"), at);
        if (end == SIZE_MAX) return jinja_fail(run, MT_ERR_FORMAT, "expected '}' before end of string");
        struct mt_marked field = marked_part(format, at + 1, end);
        if (memchr(field.text, '{', field.bytes) != NULL)
            return jinja_fail(run, MT_ERR_UNSUPPORTED, "format: fields inside fields are not known here");
        status = put_brace_field(&b, field);
        at = end + 1;
    }
    *result = marked_value(jinja_built(&b.out));
    return status;
}
