/* One member of a JSON object, found in the text. */
#include "eval/run/json_member.h"

#include <stdbool.h>

struct scan {
    const char *text;
    size_t bytes;
    size_t at;
};

static void skip_space(struct scan *scan)
{
    while (scan->at < scan->bytes && strchr(" \t\r\n", scan->text[scan->at]) != NULL) scan->at++;
}

/* Past a string that begins here. */
static void skip_string(struct scan *scan)
{
    scan->at++;
    while (scan->at < scan->bytes && scan->text[scan->at] != '"')
        scan->at += scan->text[scan->at] == '\\' ? 2 : 1;
    if (scan->at < scan->bytes) scan->at++;
}

/* Past a value: to the comma or brace after it. */
static void skip_value(struct scan *scan)
{
    int depth = 0;
    while (scan->at < scan->bytes) {
        char byte = scan->text[scan->at];
        if (byte == '"') {
            skip_string(scan);
            continue;
        }
        if (depth == 0 && (byte == ',' || byte == '}')) return;
        depth += byte == '{' || byte == '[' ? 1 : 0;
        depth -= byte == '}' || byte == ']' ? 1 : 0;
        scan->at++;
    }
}

/* Where the value of a member begins and ends; false: the object has none, *end is where its brace is. */
static bool find(struct scan *scan, const char *name, size_t *begin, size_t *end, bool *empty)
{
    *empty = true;
    skip_space(scan);
    scan->at++; // the brace
    skip_space(scan);
    while (scan->at < scan->bytes && scan->text[scan->at] == '"') {
        size_t key = scan->at + 1;
        *empty = false;
        skip_string(scan);
        size_t length = scan->at - key - 1;
        skip_space(scan);
        scan->at++; // the colon
        skip_space(scan);
        *begin = scan->at;
        skip_value(scan);
        *end = scan->at;
        if (length == strlen(name) && memcmp(scan->text + key, name, length) == 0) return true;
        if (scan->at < scan->bytes && scan->text[scan->at] == ',') scan->at++;
        skip_space(scan);
    }
    *end = scan->at;
    return false;
}

enum mt_status mt_json_member_set(const char *text, size_t bytes, const char *name,
                                  const struct mt_byte_list *value, struct mt_byte_list *out)
{
    struct scan scan = {.text = text, .bytes = bytes};
    size_t begin = 0;
    size_t end = 0;
    bool empty = false;
    bool found = find(&scan, name, &begin, &end, &empty);
    // White space before what follows stays before it.
    size_t stop = end;
    while (stop > 0 && strchr(" \t\r\n", text[stop - 1]) != NULL) stop--;
    enum mt_status status = mt_byte_list_append(out, text, found ? begin : stop);
    if (!found) {
        if (status == MT_OK) status = mt_byte_list_append_text(out, empty ? "\n  \"" : ",\n  \"");
        if (status == MT_OK) status = mt_byte_list_append_text(out, name);
        if (status == MT_OK) status = mt_byte_list_append_text(out, "\": ");
    }
    if (status == MT_OK) status = mt_byte_list_append(out, value->data, value->count);
    if (status == MT_OK && empty) status = mt_byte_list_append_text(out, "\n");
    return status == MT_OK ? mt_byte_list_append(out, text + stop, bytes - stop) : status;
}
