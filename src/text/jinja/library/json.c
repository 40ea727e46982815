/* The filter tojson: json.dumps(value, ensure_ascii, indent, separators, sort_keys). */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "formats/text/utf8.h"
#include "text/jinja/run.h"

struct writer {
    struct jinja_run *run;
    struct jinja_builder out;
    bool ascii;
    bool sort;
    bool lines;              // one item a line
    struct mt_marked indent; // of one level
    struct mt_marked item;   // between items
    struct mt_marked key;    // between a key and its value
};

static enum mt_status write_value(struct writer *w, struct mt_value value, int depth);

static enum mt_status put_ascii(struct writer *w, const char *text, uint16_t mark)
{
    enum mt_status status = MT_OK;
    for (; status == MT_OK && *text != '\0'; text++)
        status = jinja_put_character(w->run, &w->out, (unsigned char)*text, mark);
    return status;
}

static enum mt_status put_character(struct writer *w, uint32_t c, uint16_t mark)
{
    static const char letters[] = "\"\\\n\r\t\b\f";
    static const char *const escapes[] = {"\\\"", "\\\\", "\\n", "\\r", "\\t", "\\b", "\\f"};
    char escaped[16];
    const char *found = c != 0 && c < 0x80 ? strchr(letters, (int)c) : NULL;
    if (found != NULL) return put_ascii(w, escapes[found - letters], mark);
    if (c >= 0x20 && (c < 0x7F || !w->ascii)) return jinja_put_character(w->run, &w->out, c, mark);
    if (c >= 0x10000) {
        uint32_t offset = c - 0x10000;
        (void)snprintf(escaped, sizeof escaped, "\\u%04x\\u%04x", 0xD800 + (offset >> 10),
                       0xDC00 + (offset & 0x3FF));
    } else {
        (void)snprintf(escaped, sizeof escaped, "\\u%04x", c);
    }
    return put_ascii(w, escaped, mark);
}

static enum mt_status write_string(struct writer *w, struct mt_marked text)
{
    enum mt_status status = jinja_put_text(w->run, &w->out, "\"");
    if (status == MT_OK) status = jinja_spend(w->run, text.bytes / 16);
    for (size_t at = 0; status == MT_OK && at < text.bytes;) {
        size_t length = 0;
        uint32_t c = mt_utf8_decode((const uint8_t *)text.text + at, &length);
        status = put_character(w, c, jinja_mark_at(text, at));
        at += length;
    }
    return status == MT_OK ? jinja_put_text(w->run, &w->out, "\"") : status;
}

static enum mt_status write_real(struct writer *w, double real)
{
    if (isnan(real)) return jinja_put_text(w->run, &w->out, "NaN");
    if (isinf(real)) return jinja_put_text(w->run, &w->out, real < 0 ? "-Infinity" : "Infinity");
    return jinja_write_real(w->run, &w->out, real);
}

/* The line break before an item or a closing bracket. */
static enum mt_status new_line(struct writer *w, int depth)
{
    enum mt_status status = w->lines ? jinja_put_text(w->run, &w->out, "\n") : MT_OK;
    for (int i = 0; status == MT_OK && w->lines && i < depth; i++)
        status = jinja_put(w->run, &w->out, w->indent);
    return status;
}

static enum mt_status write_list(struct writer *w, const struct jinja_list *list, int depth)
{
    if (list->count == 0) return jinja_put_text(w->run, &w->out, "[]");
    enum mt_status status = jinja_put_text(w->run, &w->out, "[");
    for (size_t i = 0; status == MT_OK && i < list->count; i++) {
        if (i > 0) status = jinja_put(w->run, &w->out, w->item);
        if (status == MT_OK) status = new_line(w, depth + 1);
        if (status == MT_OK) status = write_value(w, list->items[i], depth + 1);
    }
    if (status == MT_OK) status = new_line(w, depth);
    return status == MT_OK ? jinja_put_text(w->run, &w->out, "]") : status;
}

/* Keys are strings in JSON; numbers, truth and none become some. */
static enum mt_status write_key(struct writer *w, struct mt_value key)
{
    if (key.kind == JINJA_STRING) return write_string(w, key.string);
    if (!jinja_is_number(key) && key.kind != JINJA_NONE) {
        return jinja_fail(w->run, MT_ERR_FORMAT, "keys must be str, int, float, bool or None, not %s",
                          jinja_type_name(key));
    }
    enum mt_status status = jinja_put_text(w->run, &w->out, "\"");
    if (status == MT_OK) status = write_value(w, key, 0);
    return status == MT_OK ? jinja_put_text(w->run, &w->out, "\"") : status;
}

static enum mt_status write_dict(struct writer *w, const struct jinja_dict *dict, int depth)
{
    const struct jinja_pair *pairs = dict->pairs;
    if (dict->count == 0) return jinja_put_text(w->run, &w->out, "{}");
    enum mt_status status = w->sort ? jinja_sort(w->run, dict->pairs, dict->count, false, &pairs) : MT_OK;
    if (status == MT_OK) status = jinja_put_text(w->run, &w->out, "{");
    for (size_t i = 0; status == MT_OK && i < dict->count; i++) {
        if (i > 0) status = jinja_put(w->run, &w->out, w->item);
        if (status == MT_OK) status = new_line(w, depth + 1);
        if (status == MT_OK) status = write_key(w, pairs[i].key);
        if (status == MT_OK) status = jinja_put(w->run, &w->out, w->key);
        if (status == MT_OK) status = write_value(w, pairs[i].value, depth + 1);
    }
    if (status == MT_OK) status = new_line(w, depth);
    return status == MT_OK ? jinja_put_text(w->run, &w->out, "}") : status;
}

static enum mt_status write_value(struct writer *w, struct mt_value value, int depth)
{
    char text[32];
    enum mt_status status = jinja_spend(w->run, 1);
    if (status != MT_OK) return status;
    if (depth > JINJA_VALUE_DEPTH)
        return jinja_fail(w->run, MT_ERR_UNSUPPORTED, "values are nested deeper than %d", JINJA_VALUE_DEPTH);
    switch (value.kind) {
    case JINJA_NONE: return jinja_put_text(w->run, &w->out, "null");
    case JINJA_BOOL: return jinja_put_text(w->run, &w->out, value.truth ? "true" : "false");
    case JINJA_INTEGER:
        (void)snprintf(text, sizeof text, "%" PRId64, value.integer);
        return jinja_put_text(w->run, &w->out, text);
    case JINJA_REAL: return write_real(w, value.real);
    case JINJA_STRING: return write_string(w, value.string);
    case JINJA_LIST:
    case JINJA_TUPLE: return write_list(w, value.object, depth);
    case JINJA_DICT: return write_dict(w, value.object, depth);
    default:
        return jinja_fail(w->run, MT_ERR_FORMAT, "Object of type %s is not JSON serializable",
                          jinja_type_name(value));
    }
}

/* indent: none, a number of blanks, or the text of one level. */
static enum mt_status read_indent(struct writer *w, struct mt_value value)
{
    struct jinja_builder blanks = {0};
    int64_t count = 0;
    w->lines = jinja_given(value);
    if (!w->lines) return MT_OK;
    if (value.kind == JINJA_STRING) {
        w->indent = value.string;
        return MT_OK;
    }
    enum mt_status status = jinja_bound_integer(w->run, "tojson", value, 0, &count);
    if (status == MT_OK) status = jinja_put_repeated(w->run, &blanks, " ", count > 0 ? (size_t)count : 0);
    w->indent = jinja_built(&blanks);
    return status;
}

static enum mt_status read_separators(struct writer *w, struct mt_value value)
{
    struct jinja_list *list = NULL;
    w->item = marked_of(w->lines ? "," : ", ");
    w->key = marked_of(": ");
    if (!jinja_given(value)) return MT_OK;
    enum mt_status status = jinja_walk(w->run, value, &list);
    if (status != MT_OK) return status;
    if (list->count != 2) return jinja_fail(w->run, MT_ERR_FORMAT, "tojson: separators are two texts");
    status = jinja_bound_string(w->run, "tojson", list->items[0], &w->item);
    return status == MT_OK ? jinja_bound_string(w->run, "tojson", list->items[1], &w->key) : status;
}

enum mt_status jinja_filter_tojson(struct jinja_run *run, struct mt_value subject,
                                   const struct jinja_arguments *arguments, struct mt_value *result)
{
    static const char *const names[] = {"ensure_ascii", "indent", "separators", "sort_keys"};
    struct mt_value bound[4];
    struct writer w = {.run = run};
    enum mt_status status = jinja_bind(run, "tojson", arguments, names, 4, 0, bound);
    if (status == MT_OK) status = jinja_bound_truth(run, bound[0], false, &w.ascii);
    if (status == MT_OK) status = read_indent(&w, bound[1]);
    if (status == MT_OK) status = read_separators(&w, bound[2]);
    if (status == MT_OK) status = jinja_bound_truth(run, bound[3], false, &w.sort);
    if (status == MT_OK) status = write_value(&w, subject, 0);
    *result = marked_value(jinja_built(&w.out));
    return status;
}
