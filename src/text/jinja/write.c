/* Values as text: Python's str() and repr(). */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "formats/text/utf8.h"
#include "text/jinja/run.h"

static enum mt_status write_at(struct jinja_run *run, struct jinja_builder *out, struct mt_value value,
                               int depth);

const char *jinja_type_name(struct mt_value value)
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

/*
 * The shortest decimal that reads back as the same number, written as Python does: 1e+16 and 1e-05 with an
 * exponent, everything between without.
 */
enum mt_status jinja_write_real(struct jinja_run *run, struct jinja_builder *builder, double real)
{
    char shortest[40];
    char text[64];
    if (isnan(real)) return jinja_put_text(run, builder, "nan");
    if (isinf(real)) return jinja_put_text(run, builder, real < 0 ? "-inf" : "inf");
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
    return jinja_put_text(run, builder, text);
}

/* Which quote repr takes: the single one, unless the text has it and no double one. */
static char quote_of(struct mt_marked text)
{
    bool single = memchr(text.text, '\'', text.bytes) != NULL;
    bool dual = memchr(text.text, '"', text.bytes) != NULL;
    return single && !dual ? '"' : '\'';
}

static enum mt_status put_escaped(struct jinja_run *run, struct jinja_builder *out, uint32_t c, char quote,
                                  uint16_t mark)
{
    char escaped[12];
    const char *simple = c == '\n'   ? "\\n"
                         : c == '\r' ? "\\r"
                         : c == '\t' ? "\\t"
                         : c == '\\' ? "\\\\"
                                     : NULL;
    if (simple == NULL && c != (unsigned char)quote && jinja_is_printable(c))
        return jinja_put_character(run, out, c, mark);
    if (simple != NULL)
        (void)snprintf(escaped, sizeof escaped, "%s", simple);
    else if (c == (unsigned char)quote)
        (void)snprintf(escaped, sizeof escaped, "\\%c", quote);
    else if (c < 0x100)
        (void)snprintf(escaped, sizeof escaped, "\\x%02x", c);
    else if (c < 0x10000)
        (void)snprintf(escaped, sizeof escaped, "\\u%04x", c);
    else
        (void)snprintf(escaped, sizeof escaped, "\\U%08x", c);
    enum mt_status status = MT_OK;
    for (const char *at = escaped; status == MT_OK && *at != '\0'; at++)
        status = jinja_put_character(run, out, (unsigned char)*at, mark);
    return status;
}

static enum mt_status write_quoted(struct jinja_run *run, struct jinja_builder *out, struct mt_marked text)
{
    char quote[2] = {text.bytes != 0 ? quote_of(text) : '\'', '\0'};
    enum mt_status status = jinja_put_text(run, out, quote);
    if (status == MT_OK) status = jinja_spend(run, text.bytes / 16);
    for (size_t at = 0; status == MT_OK && at < text.bytes;) {
        size_t length = 0;
        uint32_t c = mt_utf8_decode((const uint8_t *)text.text + at, &length);
        status = put_escaped(run, out, c, quote[0], jinja_mark_at(text, at));
        at += length;
    }
    return status == MT_OK ? jinja_put_text(run, out, quote) : status;
}

static enum mt_status write_items(struct jinja_run *run, struct jinja_builder *out,
                                  const struct jinja_list *list, int depth)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; status == MT_OK && i < list->count; i++) {
        if (i > 0) status = jinja_put_text(run, out, ", ");
        if (status == MT_OK) status = write_at(run, out, list->items[i], depth + 1);
    }
    return status;
}

static enum mt_status write_between(struct jinja_run *run, struct jinja_builder *out, const char *before,
                                    const struct jinja_list *list, const char *after, int depth)
{
    enum mt_status status = jinja_put_text(run, out, before);
    if (status == MT_OK) status = write_items(run, out, list, depth);
    return status == MT_OK ? jinja_put_text(run, out, after) : status;
}

static enum mt_status write_dict(struct jinja_run *run, struct jinja_builder *out,
                                 const struct jinja_dict *dict, int depth)
{
    enum mt_status status = jinja_put_text(run, out, "{");
    for (size_t i = 0; status == MT_OK && i < dict->count; i++) {
        if (i > 0) status = jinja_put_text(run, out, ", ");
        if (status == MT_OK) status = write_at(run, out, dict->pairs[i].key, depth + 1);
        if (status == MT_OK) status = jinja_put_text(run, out, ": ");
        if (status == MT_OK) status = write_at(run, out, dict->pairs[i].value, depth + 1);
    }
    return status == MT_OK ? jinja_put_text(run, out, "}") : status;
}

static enum mt_status write_range(struct jinja_run *run, struct jinja_builder *out,
                                  const struct jinja_range *range)
{
    char text[96];
    if (range->step == 1)
        (void)snprintf(text, sizeof text, "range(%" PRId64 ", %" PRId64 ")", range->start, range->stop);
    else
        (void)snprintf(text, sizeof text, "range(%" PRId64 ", %" PRId64 ", %" PRId64 ")", range->start,
                       range->stop, range->step);
    return jinja_put_text(run, out, text);
}

/* Objects whose repr Python makes of their parts; of others it writes an address, which nobody wants. */
static enum mt_status write_object(struct jinja_run *run, struct jinja_builder *out, struct mt_value value,
                                   int depth)
{
    char text[64];
    enum mt_status status = MT_OK;
    switch (value.kind) {
    case JINJA_LIST: return write_between(run, out, "[", value.object, "]", depth);
    case JINJA_TUPLE: {
        const struct jinja_list *list = value.object;
        return write_between(run, out, "(", list, list->count == 1 ? ",)" : ")", depth);
    }
    case JINJA_DICT: return write_dict(run, out, value.object, depth);
    case JINJA_RANGE: return write_range(run, out, value.object);
    case JINJA_VIEW: {
        const struct jinja_view *view = value.object;
        status = jinja_put_text(run, out, view->name);
        return status == MT_OK ? write_between(run, out, "([", &view->list, "])", depth) : status;
    }
    case JINJA_NAMESPACE:
        status = jinja_put_text(run, out, "<Namespace ");
        if (status == MT_OK) status = write_dict(run, out, value.object, depth);
        return status == MT_OK ? jinja_put_text(run, out, ">") : status;
    case JINJA_LOOP: {
        const struct jinja_loop *loop = value.object;
        (void)snprintf(text, sizeof text, "<LoopContext %zu/%zu>", loop->index + 1, loop->items.count);
        return jinja_put_text(run, out, text);
    }
    default:
        return jinja_fail(run, MT_ERR_UNSUPPORTED, "a %s has no text; metier does not write one",
                          jinja_type_name(value));
    }
}

/* repr(), `depth` containers deep. */
static enum mt_status write_at(struct jinja_run *run, struct jinja_builder *out, struct mt_value value,
                               int depth)
{
    char text[32];
    enum mt_status status = jinja_spend(run, 1);
    if (status != MT_OK) return status;
    if (depth > JINJA_VALUE_DEPTH)
        return jinja_fail(run, MT_ERR_UNSUPPORTED, "values are nested deeper than %d", JINJA_VALUE_DEPTH);
    switch (value.kind) {
    case JINJA_UNDEFINED: return jinja_put_text(run, out, "Undefined");
    case JINJA_NONE: return jinja_put_text(run, out, "None");
    case JINJA_BOOL: return jinja_put_text(run, out, value.truth ? "True" : "False");
    case JINJA_INTEGER:
        (void)snprintf(text, sizeof text, "%" PRId64, value.integer);
        return jinja_put_text(run, out, text);
    case JINJA_REAL: return jinja_write_real(run, out, value.real);
    case JINJA_STRING:
        if (!value.safe) return write_quoted(run, out, value.string);
        status = jinja_put_text(run, out, "Markup(");
        if (status == MT_OK) status = write_quoted(run, out, value.string);
        return status == MT_OK ? jinja_put_text(run, out, ")") : status;
    default: return write_object(run, out, value, depth);
    }
}

enum mt_status jinja_write_repr(struct jinja_run *run, struct jinja_builder *builder, struct mt_value value)
{
    return write_at(run, builder, value, 0);
}

enum mt_status jinja_write(struct jinja_run *run, struct jinja_builder *builder, struct mt_value value)
{
    if (value.kind == JINJA_STRING) return jinja_put(run, builder, value.string);
    if (value.kind == JINJA_UNDEFINED) return MT_OK;
    return write_at(run, builder, value, 0);
}

enum mt_status jinja_to_text(struct jinja_run *run, struct mt_value value, struct mt_marked *text)
{
    struct jinja_builder builder = {0};
    if (value.kind == JINJA_STRING) {
        *text = value.string;
        return MT_OK;
    }
    enum mt_status status = jinja_write(run, &builder, value);
    *text = jinja_built(&builder);
    return status;
}
