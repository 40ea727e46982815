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

static struct mt_value next_value(struct percent *p)
{
    bool tuple = p->values.kind == JINJA_TUPLE;
    const struct jinja_list *list = tuple ? p->values.object : NULL;
    size_t count = tuple ? list->count : 1;
    if (p->used >= count)
        return mt_jinja_fail(p->run, MT_ERR_FORMAT, "not enough arguments for format string");
    size_t place = p->used++;
    return tuple ? list->items[place] : p->values;
}

/* A number of digits, or "*" for the next value. */
static int64_t read_size(struct percent *p)
{
    int64_t size = 0;
    if (current(p) == '*') {
        p->at++;
        if (!mt_jinja_as_integer(next_value(p), &size))
            (void)mt_jinja_fail(p->run, MT_ERR_FORMAT, "* wants int");
    }
    for (; current(p) >= '0' && current(p) <= '9' && size <= JINJA_FIELD_MOST; p->at++)
        size = size * 10 + (current(p) - '0');
    if (size > JINJA_FIELD_MOST || size < -JINJA_FIELD_MOST)
        (void)mt_jinja_fail(p->run, MT_ERR_UNSUPPORTED, "a field is wider than %d", JINJA_FIELD_MOST);
    return mt_jinja_failed(p->run) ? 0 : size;
}

static void read_percent_field(struct percent *p, struct jinja_field *field)
{
    for (; current(p) != '\0' && strchr("-+ #0", current(p)) != NULL; p->at++) {
        if (current(p) == '-') field->align = '<';
        if (current(p) == '+') field->sign = '+';
        if (current(p) == ' ' && field->sign != '+') field->sign = ' ';
        if (current(p) == '#') field->alternate = true;
        if (current(p) == '0') field->zero = true;
    }
    int64_t size = read_size(p);
    if (size < 0) field->align = '<';
    field->width = (size_t)(size < 0 ? -size : size);
    if (current(p) == '.') {
        p->at++;
        size = read_size(p);
        field->precision = size > 0 ? (int)size : 0;
    }
    while (current(p) == 'l' || current(p) == 'h' || current(p) == 'L') p->at++;
    if (field->align == '<') field->zero = false;
}

static void number_needed(struct percent *p, char type, struct mt_value value)
{
    if (value.kind == JINJA_UNDEFINED)
        (void)mt_jinja_fail_undefined(p->run, value);
    else
        (void)mt_jinja_fail(p->run, MT_ERR_FORMAT, "%%%c format: a number is required, not %s", type,
                            mt_jinja_type_name(value));
}

static void put_percent_integer(struct percent *p, struct jinja_field *field, struct mt_value value)
{
    int64_t integer = 0;
    char type = field->type;
    bool decimal = type == 'd' || type == 'i' || type == 'u';
    if (!mt_jinja_as_integer(value, &integer)) {
        if (value.kind != JINJA_REAL || !decimal)
            number_needed(p, type, value);
        else if (!(value.real < JINJA_TWO_63 && value.real >= -JINJA_TWO_63))
            (void)mt_jinja_fail_integer(p->run);
        if (mt_jinja_failed(p->run)) return;
        integer = (int64_t)value.real;
    }
    if (decimal) field->type = 'd';
    mt_jinja_put_integer_field(&p->out, field, integer);
}

static void put_percent_character(struct percent *p, const struct jinja_field *field, struct mt_value value)
{
    struct jinja_builder character = {.run = p->run};
    int64_t code = 0;
    if (value.kind == JINJA_STRING && mt_jinja_characters(value.string) == 1) {
        mt_jinja_put(&character, value.string);
    } else {
        bool valid = mt_jinja_as_integer(value, &code) && code >= 0 && code < 0x110000 &&
                     (code < 0xD800 || code > 0xDFFF);
        if (valid)
            mt_jinja_put_character(&character, (uint32_t)code, 0);
        else
            (void)mt_jinja_fail(p->run, MT_ERR_FORMAT, "%%c requires int or char");
    }
    mt_jinja_put_text_field(&p->out, field, mt_jinja_built(&character));
}

static void put_percent_value(struct percent *p, struct jinja_field *field, struct mt_value value)
{
    struct jinja_builder text = {.run = p->run};
    if (strchr("diuxXo", field->type) != NULL) {
        put_percent_integer(p, field, value);
        return;
    }
    if (strchr("eEfFgG", field->type) != NULL) {
        if (mt_jinja_is_number(value))
            mt_jinja_put_real_field(&p->out, field, mt_jinja_as_real(value));
        else
            number_needed(p, field->type, value);
        return;
    }
    field->zero = false; // for numbers alone
    if (field->align == 0) field->align = '>';
    if (field->type == 'c') {
        put_percent_character(p, field, value);
        return;
    }
    if (field->type == 's')
        mt_jinja_write(&text, value);
    else if (field->type == 'r')
        mt_jinja_write_repr(&text, value);
    else if (field->type == 'a')
        (void)mt_jinja_fail(p->run, MT_ERR_UNSUPPORTED, "%%a is not known here");
    else
        (void)mt_jinja_fail(p->run, MT_ERR_FORMAT, "unsupported format character at index %zu", p->at);
    mt_jinja_put_text_field(&p->out, field, mt_jinja_built(&text));
}

/* "(key)": the value of a mapping. */
static struct mt_value read_key(struct percent *p)
{
    size_t start = ++p->at;
    int open = 1;
    for (; p->at < p->format.bytes; p->at++) {
        open += (current(p) == '(') - (current(p) == ')');
        if (open == 0) break;
    }
    if (open != 0) return mt_jinja_fail(p->run, MT_ERR_FORMAT, "incomplete format key");
    if (p->values.kind != JINJA_DICT)
        return mt_jinja_fail(p->run, MT_ERR_FORMAT, "format requires a mapping");
    struct mt_value key = marked_value(marked_part(p->format, start, p->at));
    p->at++;
    const struct mt_value *found = mt_jinja_dict_find(p->run, p->values.object, key);
    if (found != NULL) return *found;
    return mt_jinja_fail(p->run, MT_ERR_FORMAT, "the format asks for the key '%.*s'",
                         marked_width(key.string), key.string.text);
}

static void put_percent_field(struct percent *p)
{
    struct jinja_field field = {.precision = -1};
    struct mt_value value = {.kind = JINJA_ABSENT};
    p->at++;
    if (current(p) == '(') value = read_key(p);
    read_percent_field(p, &field);
    if (p->at >= p->format.bytes) (void)mt_jinja_fail(p->run, MT_ERR_FORMAT, "incomplete format");
    if (mt_jinja_failed(p->run)) return;
    field.type = current(p);
    if (field.type == '%') {
        p->at++;
        mt_jinja_put_text(&p->out, "%");
        return;
    }
    if (value.kind == JINJA_ABSENT) value = next_value(p);
    if (!mt_jinja_failed(p->run)) put_percent_value(p, &field, value);
    p->at += mt_utf8_length((uint8_t)field.type);
}

struct mt_value mt_jinja_format_percent(struct jinja_run *run, struct mt_marked format, struct mt_value value)
{
    struct percent p = {.run = run, .format = format, .values = value, .out = {.run = run}};
    while (p.at < format.bytes && !mt_jinja_failed(run)) {
        size_t end = mt_jinja_find_text(format, marked_of("%"), p.at);
        if (end == SIZE_MAX) end = format.bytes;
        mt_jinja_put(&p.out, marked_part(format, p.at, end));
        p.at = end;
        if (end < format.bytes) put_percent_field(&p);
    }
    const struct jinja_list *list = value.kind == JINJA_TUPLE ? value.object : NULL;
    // Python takes what can be indexed for a mapping, which need not be used up.
    bool mapping = value.kind == JINJA_DICT || value.kind == JINJA_LIST || value.kind == JINJA_UNDEFINED ||
                   value.kind == JINJA_RANGE;
    if (list != NULL ? p.used < list->count : p.used == 0 && !mapping)
        return mt_jinja_fail(run, MT_ERR_FORMAT, "not all arguments converted during string formatting");
    return mt_jinja_built_value(&p.out);
}

// ------------------------------------------------------------------ str.format

struct braces {
    struct jinja_run *run;
    const struct jinja_arguments *arguments;
    size_t used; // of "{}"
    bool numbered;
    struct jinja_builder out;
};

static struct mt_value named_argument(struct braces *b, struct mt_marked name)
{
    bool automatic = name.bytes == 0;
    bool number = !automatic && name.text[0] >= '0' && name.text[0] <= '9';
    int64_t place = 0;
    if (number) number = mt_jinja_read_integer(b->run, name, 10, &place);
    if (automatic ? b->numbered : number && b->used != 0)
        return mt_jinja_fail(b->run, MT_ERR_FORMAT, "format: fields with and without numbers");
    if (automatic) place = (int64_t)b->used++;
    b->numbered = b->numbered || number;
    if (automatic || number) {
        if ((uint64_t)place < b->arguments->count) return b->arguments->items[place];
        return mt_jinja_fail(b->run, MT_ERR_FORMAT, "format: there is no argument %lld", (long long)place);
    }
    for (size_t i = 0; i < b->arguments->keyword_count; i++) {
        if (marked_equal(b->arguments->keywords[i].name, name)) return b->arguments->keywords[i].value;
    }
    return mt_jinja_fail(b->run, MT_ERR_FORMAT, "format: there is no argument '%.*s'", marked_width(name),
                         name.text);
}

/* Steps over one of `characters`, which it returns; 0: none of them is there. */
static char skip_one(struct mt_marked spec, size_t *at, const char *characters)
{
    bool there = *at < spec.bytes && spec.text[*at] != '\0' && strchr(characters, spec.text[*at]) != NULL;
    return there ? spec.text[(*at)++] : '\0';
}

/* Digits; numbers beyond JINJA_FIELD_MOST are some number beyond it. */
static int read_digits(struct mt_marked spec, size_t *at)
{
    int number = 0;
    for (; *at < spec.bytes && spec.text[*at] >= '0' && spec.text[*at] <= '9'; (*at)++) {
        if (number <= JINJA_FIELD_MOST) number = number * 10 + (spec.text[*at] - '0');
    }
    return number;
}

/* "[[fill]align][sign][#][0][width][,][.precision][type]". */
static void read_spec(struct jinja_run *run, struct mt_marked spec, struct jinja_field *field)
{
    size_t at = spec.bytes > 0 ? mt_utf8_length((uint8_t)spec.text[0]) : 0;
    size_t first = at;
    field->align = skip_one(spec, &at, "<>=^");
    if (field->align != '\0') {
        field->fill = marked_part(spec, 0, first);
    } else {
        at = 0;
        field->align = skip_one(spec, &at, "<>=^");
    }
    field->sign = skip_one(spec, &at, "+- ");
    field->alternate = skip_one(spec, &at, "#") != '\0';
    field->zero = skip_one(spec, &at, "0") != '\0';
    field->width = (size_t)read_digits(spec, &at);
    field->grouped = skip_one(spec, &at, ",") != '\0';
    if (skip_one(spec, &at, ".") != '\0') field->precision = read_digits(spec, &at);
    if (at < spec.bytes) field->type = spec.text[at++];
    bool wide = field->width > JINJA_FIELD_MOST || field->precision > JINJA_FIELD_MOST;
    if (wide || at < spec.bytes || (field->grouped && field->zero) || field->type == 'n' ||
        field->type == '_')
        (void)mt_jinja_fail(run, MT_ERR_UNSUPPORTED, "the format '%.*s' is not known here",
                            marked_width(spec), spec.text);
}

static void put_with_spec(struct braces *b, struct mt_value value, struct mt_marked spec)
{
    struct jinja_field field = {.precision = -1};
    int64_t integer = 0;
    if (spec.bytes == 0) {
        mt_jinja_write(&b->out, value);
        return;
    }
    read_spec(b->run, spec, &field);
    if (mt_jinja_failed(b->run)) return;
    if (value.kind == JINJA_STRING) {
        if ((field.type != 0 && field.type != 's') || field.align == '=' || field.sign != 0 ||
            field.alternate || field.grouped)
            (void)mt_jinja_fail(b->run, MT_ERR_FORMAT, "the format '%.*s' is not for text",
                                marked_width(spec), spec.text);
        mt_jinja_put_text_field(&b->out, &field, value.string);
    } else if (value.kind == JINJA_REAL) {
        mt_jinja_put_real_field(&b->out, &field, value.real);
    } else if (mt_jinja_as_integer(value, &integer)) {
        bool plain = field.type == 0 || strchr("dbxXo", field.type) != NULL;
        if (plain && field.precision >= 0)
            (void)mt_jinja_fail(b->run, MT_ERR_FORMAT, "Precision not allowed in integer format specifier");
        mt_jinja_put_integer_field(&b->out, &field, integer);
    } else {
        (void)mt_jinja_fail(b->run, MT_ERR_FORMAT, "unsupported format string passed to %s.__format__",
                            mt_jinja_type_name(value));
    }
}

/* ".name" and "[key]" behind the name of an argument. */
static struct mt_value follow(struct braces *b, struct mt_marked path, struct mt_value value)
{
    size_t at = 0;
    while (at < path.bytes && !mt_jinja_failed(b->run)) {
        bool index = path.text[at] == '[';
        size_t start = ++at;
        while (at < path.bytes &&
               (index ? path.text[at] != ']' : path.text[at] != '.' && path.text[at] != '['))
            at++;
        if (at == start || (index && at == path.bytes))
            return mt_jinja_fail(b->run, MT_ERR_FORMAT, "format: an empty attribute or an open bracket");
        struct mt_marked step = marked_part(path, start, at);
        int64_t place = 0;
        bool number = index && step.text[0] >= '0' && step.text[0] <= '9' &&
                      mt_jinja_read_integer(b->run, step, 10, &place);
        if (index)
            value = mt_jinja_item(b->run, value, number ? mt_jinja_integer(place) : marked_value(step));
        else
            value = mt_jinja_attribute(b->run, value, step);
        at += index;
    }
    return value;
}

/* What stands between "{" and "}". */
static void put_brace_field(struct braces *b, struct mt_marked text)
{
    struct jinja_builder converted = {.run = b->run};
    size_t colon = mt_jinja_find_text(text, marked_of(":"), 0);
    struct mt_marked spec = marked_of("");
    if (colon != SIZE_MAX) {
        spec = marked_part(text, colon + 1, text.bytes);
        text = marked_part(text, 0, colon);
    }
    size_t mark = mt_jinja_find_text(text, marked_of("!"), 0);
    char conversion = mark != SIZE_MAX && mark + 2 == text.bytes ? text.text[mark + 1] : '\0';
    if (mark != SIZE_MAX && conversion != 's' && conversion != 'r')
        (void)mt_jinja_fail(b->run, MT_ERR_UNSUPPORTED,
                            "format: only the conversions !s and !r are known here");
    if (mark != SIZE_MAX) text = marked_part(text, 0, mark);
    size_t end = 0;
    while (end < text.bytes && text.text[end] != '.' && text.text[end] != '[') end++;
    struct mt_value value = named_argument(b, marked_part(text, 0, end));
    value = follow(b, marked_part(text, end, text.bytes), value);
    if (conversion == 'r') mt_jinja_write_repr(&converted, value);
    if (conversion == 's') mt_jinja_write(&converted, value);
    if (conversion != '\0') value = mt_jinja_built_value(&converted);
    put_with_spec(b, value, spec);
}

struct mt_value mt_jinja_format_braces(struct jinja_run *run, struct mt_marked format,
                                       const struct jinja_arguments *arguments)
{
    struct braces b = {.run = run, .arguments = arguments, .out = {.run = run}};
    for (size_t at = 0; at < format.bytes && !mt_jinja_failed(run);) {
        char c = format.text[at];
        bool twice = at + 1 < format.bytes && format.text[at + 1] == c;
        if ((c != '{' && c != '}') || twice) {
            mt_jinja_put(&b.out, marked_part(format, at, at + 1));
            at += (c == '{' || c == '}') ? 2 : 1;
            continue;
        }
        if (c == '}') return mt_jinja_fail(run, MT_ERR_FORMAT, "Single '}' encountered in format string");
        size_t end = mt_jinja_find_text(format, marked_of("}"), at);
        if (end == SIZE_MAX) return mt_jinja_fail(run, MT_ERR_FORMAT, "expected '}' before end of string");
        struct mt_marked field = marked_part(format, at + 1, end);
        if (memchr(field.text, '{', field.bytes) != NULL)
            return mt_jinja_fail(run, MT_ERR_UNSUPPORTED, "format: fields inside fields are not known here");
        put_brace_field(&b, field);
        at = end + 1;
    }
    return mt_jinja_built_value(&b.out);
}
