/* The filter tojson: json.dumps(value, ensure_ascii, indent, separators, sort_keys). */
#include <math.h>
#include <stdio.h>

#include "formats/text/utf8.h"
#include "text/jinja/library/library.h"

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

static void write_value(struct writer *w, struct mt_value value, int depth);

static void put_character(struct writer *w, uint32_t c, uint16_t mark)
{
    static const char letters[] = "\"\\\n\r\t\b\f";
    static const char *const escapes[] = {"\\\"", "\\\\", "\\n", "\\r", "\\t", "\\b", "\\f"};
    char escaped[16];
    const char *found = c != 0 && c < 0x80 ? strchr(letters, (int)c) : NULL;
    if (found == NULL && c >= 0x20 && (c < 0x7F || !w->ascii)) {
        mt_jinja_put_character(&w->out, c, mark);
        return;
    }
    if (c >= 0x10000) {
        uint32_t offset = c - 0x10000;
        (void)snprintf(escaped, sizeof escaped, "\\u%04x\\u%04x", 0xD800 + (offset >> 10),
                       0xDC00 + (offset & 0x3FF));
    } else {
        (void)snprintf(escaped, sizeof escaped, "\\u%04x", c);
    }
    mt_jinja_put_ascii(&w->out, found != NULL ? escapes[found - letters] : escaped, mark);
}

static void write_string(struct writer *w, struct mt_marked text)
{
    mt_jinja_put_text(&w->out, "\"");
    mt_jinja_spend(w->run, text.bytes / 16);
    for (size_t at = 0; at < text.bytes && !mt_jinja_failed(w->run);) {
        size_t length = 0;
        uint32_t c = mt_utf8_decode((const uint8_t *)text.text + at, &length);
        put_character(w, c, mt_jinja_mark_at(text, at));
        at += length;
    }
    mt_jinja_put_text(&w->out, "\"");
}

/* The line break before an item or a closing bracket. */
static void new_line(struct writer *w, int depth)
{
    if (!w->lines) return;
    mt_jinja_put_text(&w->out, "\n");
    mt_jinja_put_repeated(&w->out, w->indent, (size_t)depth);
}

/* Keys are strings in JSON; numbers, truth and none become some. */
static void write_key(struct writer *w, struct mt_value key)
{
    if (key.kind == JINJA_STRING) {
        write_string(w, key.string);
        return;
    }
    if (!mt_jinja_is_number(key) && key.kind != JINJA_NONE)
        (void)mt_jinja_fail(w->run, MT_ERR_FORMAT, "keys must be str, int, float, bool or None, not %s",
                            mt_jinja_type_name(key));
    mt_jinja_put_text(&w->out, "\"");
    write_value(w, key, 0);
    mt_jinja_put_text(&w->out, "\"");
}

/* Items in brackets: those of a list, or with keys those of a dictionary. */
static void write_items(struct writer *w, const struct mt_value *items, const struct jinja_pair *pairs,
                        size_t count, int depth)
{
    mt_jinja_put_text(&w->out, pairs != NULL ? "{" : "[");
    for (size_t i = 0; i < count && !mt_jinja_failed(w->run); i++) {
        if (i > 0) mt_jinja_put(&w->out, w->item);
        new_line(w, depth + 1);
        if (pairs != NULL) {
            write_key(w, pairs[i].key);
            mt_jinja_put(&w->out, w->key);
            write_value(w, pairs[i].value, depth + 1);
        } else if (items != NULL) {
            write_value(w, items[i], depth + 1);
        }
    }
    new_line(w, depth);
    mt_jinja_put_text(&w->out, pairs != NULL ? "}" : "]");
}

static void write_value(struct writer *w, struct mt_value value, int depth)
{
    const struct jinja_list *list = value.object;
    const struct jinja_dict *dict = value.object;
    if (!mt_jinja_check_depth(w->run, depth)) return;
    switch (value.kind) {
    case JINJA_NONE: mt_jinja_put_text(&w->out, "null"); return;
    case JINJA_BOOL: mt_jinja_put_text(&w->out, value.truth ? "true" : "false"); return;
    case JINJA_INTEGER: mt_jinja_write_integer(&w->out, value.integer); return;
    case JINJA_REAL:
        if (isfinite(value.real))
            mt_jinja_write_real(&w->out, value.real);
        else
            mt_jinja_put_text(&w->out, isnan(value.real) ? "NaN" : value.real < 0 ? "-Infinity" : "Infinity");
        return;
    case JINJA_STRING: write_string(w, value.string); return;
    case JINJA_LIST:
    case JINJA_TUPLE:
        if (list->count == 0)
            mt_jinja_put_text(&w->out, "[]");
        else
            write_items(w, list->items, NULL, list->count, depth);
        return;
    case JINJA_DICT:
        if (dict->count == 0)
            mt_jinja_put_text(&w->out, "{}");
        else
            write_items(w, NULL,
                        w->sort ? mt_jinja_sort(w->run, dict->pairs, dict->count, false) : dict->pairs,
                        dict->count, depth);
        return;
    default:
        (void)mt_jinja_fail(w->run, MT_ERR_FORMAT, "Object of type %s is not JSON serializable",
                            mt_jinja_type_name(value));
    }
}

struct mt_value mt_jinja_tojson(const struct jinja_call *call)
{
    struct jinja_run *run = call->run;
    struct jinja_builder blanks = {.run = run};
    struct mt_value indent = call->bound[1]; // none, a number of blanks, or the text of one level
    struct writer w = {.run = run, .out = {.run = run}, .ascii = mt_jinja_truth_argument(call, 0)};
    w.lines = mt_jinja_given(indent);
    w.indent = marked_of("");
    if (indent.kind == JINJA_STRING) {
        w.indent = indent.string;
    } else if (w.lines) {
        int64_t count = mt_jinja_integer_argument(call, 1, 0);
        mt_jinja_put_repeated(&blanks, marked_of(" "), count > 0 ? (size_t)count : 0);
        w.indent = mt_jinja_built(&blanks);
    }
    w.item = marked_of(w.lines ? "," : ", ");
    w.key = marked_of(": ");
    if (mt_jinja_given(call->bound[2])) {
        const struct jinja_list *separators = mt_jinja_walk(run, call->bound[2]);
        if (separators->count != 2)
            return mt_jinja_fail(run, MT_ERR_FORMAT, "tojson: separators are two texts");
        w.item = mt_jinja_need_text(run, "tojson", separators->items[0]);
        w.key = mt_jinja_need_text(run, "tojson", separators->items[1]);
    }
    w.sort = mt_jinja_truth_argument(call, 3);
    write_value(&w, call->subject, 0);
    return mt_jinja_built_value(&w.out);
}
