/* Values as text: Python's str() and repr(). */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "formats/text/utf8.h"
#include "text/jinja/run.h"

static void write_at(struct jinja_builder *out, struct mt_value value, int depth);

const char *mt_jinja_type_name(struct mt_value value)
{
    static const char *const names[] = {
        [JINJA_ABSENT] = "nothing",     [JINJA_UNDEFINED] = "Undefined", [JINJA_NONE] = "NoneType",
        [JINJA_BOOL] = "bool",          [JINJA_INTEGER] = "int",         [JINJA_REAL] = "float",
        [JINJA_STRING] = "str",         [JINJA_LIST] = "list",           [JINJA_TUPLE] = "tuple",
        [JINJA_DICT] = "dict",          [JINJA_VIEW] = "dict view",      [JINJA_RANGE] = "range",
        [JINJA_ITERATOR] = "generator", [JINJA_NAMESPACE] = "Namespace", [JINJA_LOOP] = "LoopContext",
        [JINJA_MACRO] = "Macro",        [JINJA_FUNCTION] = "function",   [JINJA_METHOD] = "method",
        [JINJA_CYCLER] = "Cycler",      [JINJA_JOINER] = "Joiner",
    };
    return names[value.kind];
}

void mt_jinja_write_integer(struct jinja_builder *builder, int64_t integer)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%" PRId64, integer);
    mt_jinja_put_text(builder, text);
}

/*
 * The shortest decimal that reads back as the same number, written as Python does: 1e+16 and 1e-05 with an
 * exponent, everything between without.
 */
void mt_jinja_write_real(struct jinja_builder *builder, double real)
{
    char shortest[40];
    char text[64];
    if (isnan(real) || isinf(real)) {
        mt_jinja_put_text(builder, isnan(real) ? "nan" : real < 0 ? "-inf" : "inf");
        return;
    }
    for (int precision = 0; precision < 17; precision++) {
        (void)snprintf(shortest, sizeof shortest, "%.*e", precision, real);
        if (strtod(shortest, NULL) == real) break;
    }
    int exponent = (int)strtol(strchr(shortest, 'e') + 1, NULL, 10);
    int digits = 0; // behind the first
    const char *point = strchr(shortest, '.');
    if (point != NULL) digits = (int)(strchr(shortest, 'e') - point) - 1;
    if (exponent < -4 || exponent >= 16) {
        (void)snprintf(text, sizeof text, "%.*e", digits, real);
    } else {
        int decimals = digits - exponent;
        (void)snprintf(text, sizeof text, "%.*f", decimals > 1 ? decimals : 1, real);
    }
    mt_jinja_put_text(builder, text);
}

/* Which quote repr takes: the single one, unless the text has it and no double one. */
static char quote_of(struct mt_marked text)
{
    bool single = memchr(text.text, '\'', text.bytes) != NULL;
    bool dual = memchr(text.text, '"', text.bytes) != NULL;
    return single && !dual ? '"' : '\'';
}

static void put_escaped(struct jinja_builder *out, uint32_t c, char quote, uint16_t mark)
{
    static const char letters[] = "\n\r\t\\";
    static const char *const escapes[] = {"\\n", "\\r", "\\t", "\\\\"};
    char escaped[12];
    const char *simple = c != 0 && c < 0x80 ? strchr(letters, (int)c) : NULL;
    if (simple != NULL) {
        mt_jinja_put_ascii(out, escapes[simple - letters], mark);
        return;
    }
    if (c != (unsigned char)quote && mt_jinja_is_printable(c)) {
        mt_jinja_put_character(out, c, mark);
        return;
    }
    if (c == (unsigned char)quote)
        (void)snprintf(escaped, sizeof escaped, "\\%c", quote);
    else
        (void)snprintf(escaped, sizeof escaped,
                       c < 0x100     ? "\\x%02x"
                       : c < 0x10000 ? "\\u%04x"
                                     : "\\U%08x",
                       c);
    mt_jinja_put_ascii(out, escaped, mark);
}

static void write_quoted(struct jinja_builder *out, struct mt_marked text)
{
    char quote[2] = {text.bytes != 0 ? quote_of(text) : '\'', '\0'};
    mt_jinja_put_text(out, quote);
    mt_jinja_spend(out->run, text.bytes / 16);
    for (size_t at = 0; at < text.bytes && !mt_jinja_failed(out->run);) {
        size_t length = 0;
        uint32_t c = mt_utf8_decode((const uint8_t *)text.text + at, &length);
        put_escaped(out, c, quote[0], mt_jinja_mark_at(text, at));
        at += length;
    }
    mt_jinja_put_text(out, quote);
}

static void write_between(struct jinja_builder *out, const char *before, const struct jinja_list *list,
                          const char *after, int depth)
{
    mt_jinja_put_text(out, before);
    for (size_t i = 0; i < list->count && !mt_jinja_failed(out->run); i++) {
        if (i > 0) mt_jinja_put_text(out, ", ");
        write_at(out, list->items[i], depth + 1);
    }
    mt_jinja_put_text(out, after);
}

static void write_dict(struct jinja_builder *out, const struct jinja_dict *dict, int depth)
{
    mt_jinja_put_text(out, "{");
    for (size_t i = 0; i < dict->count && !mt_jinja_failed(out->run); i++) {
        if (i > 0) mt_jinja_put_text(out, ", ");
        write_at(out, dict->pairs[i].key, depth + 1);
        mt_jinja_put_text(out, ": ");
        write_at(out, dict->pairs[i].value, depth + 1);
    }
    mt_jinja_put_text(out, "}");
}

static void write_range(struct jinja_builder *out, const struct jinja_range *range)
{
    char text[96];
    int used = snprintf(text, sizeof text, "range(%" PRId64 ", %" PRId64, range->start, range->stop);
    if (range->step != 1) (void)snprintf(text + used, sizeof text - (size_t)used, ", %" PRId64, range->step);
    mt_jinja_put_text(out, text);
    mt_jinja_put_text(out, ")");
}

/* Objects whose repr Python makes of their parts; of others it writes an address, which nobody wants. */
static void write_object(struct jinja_builder *out, struct mt_value value, int depth)
{
    char text[64];
    const struct jinja_list *list = value.object;
    const struct jinja_view *view = value.object;
    const struct jinja_loop *loop = value.object;
    switch (value.kind) {
    case JINJA_LIST: write_between(out, "[", list, "]", depth); return;
    case JINJA_TUPLE: write_between(out, "(", list, list->count == 1 ? ",)" : ")", depth); return;
    case JINJA_DICT: write_dict(out, value.object, depth); return;
    case JINJA_RANGE: write_range(out, value.object); return;
    case JINJA_VIEW:
        mt_jinja_put_text(out, view->name);
        write_between(out, "([", &view->list, "])", depth);
        return;
    case JINJA_NAMESPACE:
        mt_jinja_put_text(out, "<Namespace ");
        write_dict(out, value.object, depth);
        mt_jinja_put_text(out, ">");
        return;
    case JINJA_LOOP:
        (void)snprintf(text, sizeof text, "<LoopContext %zu/%zu>", loop->index + 1, loop->items.count);
        mt_jinja_put_text(out, text);
        return;
    default:
        (void)mt_jinja_fail(out->run, MT_ERR_UNSUPPORTED, "a %s has no text; metier does not write one",
                            mt_jinja_type_name(value));
    }
}

/* repr(), `depth` containers deep. */
static void write_at(struct jinja_builder *out, struct mt_value value, int depth)
{
    if (!mt_jinja_check_depth(out->run, depth)) return;
    switch (value.kind) {
    case JINJA_UNDEFINED: mt_jinja_put_text(out, "Undefined"); return;
    case JINJA_NONE: mt_jinja_put_text(out, "None"); return;
    case JINJA_BOOL: mt_jinja_put_text(out, value.truth ? "True" : "False"); return;
    case JINJA_INTEGER: mt_jinja_write_integer(out, value.integer); return;
    case JINJA_REAL: mt_jinja_write_real(out, value.real); return;
    case JINJA_STRING:
        if (value.safe) mt_jinja_put_text(out, "Markup(");
        write_quoted(out, value.string);
        if (value.safe) mt_jinja_put_text(out, ")");
        return;
    default: write_object(out, value, depth);
    }
}

void mt_jinja_write_repr(struct jinja_builder *builder, struct mt_value value)
{
    write_at(builder, value, 0);
}

void mt_jinja_write(struct jinja_builder *builder, struct mt_value value)
{
    if (value.kind == JINJA_STRING)
        mt_jinja_put(builder, value.string);
    else if (value.kind != JINJA_UNDEFINED)
        write_at(builder, value, 0);
}

struct mt_marked mt_jinja_to_text(struct jinja_run *run, struct mt_value value)
{
    struct jinja_builder out = {.run = run};
    if (value.kind == JINJA_STRING) return value.string;
    mt_jinja_write(&out, value);
    return mt_jinja_built(&out);
}
