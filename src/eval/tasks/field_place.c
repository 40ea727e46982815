/* Finding places in rows, and what is there. */
#include "eval/tasks/field_place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/exact.h"
#include "formats/text/printable.h"

#define MOST_PATH  256
#define MOST_NAMED 24 // names of a row that a message lists
#define DIGITS     "0123456789"

static bool is_whole(const char *text, size_t bytes)
{
    return bytes > 0 && bytes < 10 && strspn(text, DIGITS) >= bytes;
}

/* The item of a list that a part of a path names; false: it names none. */
static bool take_item(const struct mt_json_node *list, const char *part, size_t bytes,
                      struct mt_json_node *item)
{
    if (!is_whole(part, bytes)) return false;
    size_t index = (size_t)strtoul(part, NULL, 10);
    if (index >= mt_json_count(list)) return false;
    *item = mt_json_element(list, index);
    return true;
}

/*
 * Follows a path from a node. It ends where the path does, or before a list of which each item has the rest:
 * *rest is what is left. False: there is no such place.
 */
static bool follow(struct mt_json_node *node, const char *path, const char **rest)
{
    char part[MOST_PATH];
    while (*path != '\0') {
        size_t bytes = strcspn(path, ".");
        struct mt_json_node next;
        bool list = mt_json_kind(node) == MT_JSON_ARRAY;
        if (list && !is_whole(path, bytes)) break;
        if (list && !take_item(node, path, bytes, &next)) return false;
        if (!list) {
            if (mt_json_kind(node) != MT_JSON_OBJECT || bytes >= sizeof part) return false;
            memcpy(part, path, bytes);
            part[bytes] = '\0';
            if (!mt_json_member(node, part, &next)) return false;
        }
        next.parent = NULL;
        next.key = NULL;
        *node = next;
        path += bytes + (path[bytes] == '.' ? 1 : 0);
    }
    *rest = path;
    return true;
}

static struct mt_field_place place_of_node(struct mt_json_node node, const char *rest)
{
    struct mt_field_place place = {.kind = MT_PLACE_TEXT, .is_json = true, .node = node, .rest = rest};
    if (mt_json_kind(&node) == MT_JSON_ARRAY) place.kind = MT_PLACE_LIST;
    if (mt_json_kind(&node) == MT_JSON_OBJECT) place.kind = MT_PLACE_OBJECT;
    // A list none of whose items has the rest is no such place.
    if (*rest == '\0' || mt_json_count(&node) == 0) return place;
    struct mt_json_node first = mt_json_element(&node, 0);
    const char *left = NULL;
    if (!follow(&first, rest, &left) || *left != '\0') place.kind = MT_PLACE_NONE;
    return place;
}

struct mt_field_place mt_field_place(const struct mt_row *row, const char *path)
{
    char head[MOST_PATH];
    struct mt_field_place none = {.kind = MT_PLACE_NONE};
    size_t length = strlen(path);
    if (length >= sizeof head) return none;
    memcpy(head, path, length + 1);
    const struct mt_row_field *field = mt_row_field(row, head);
    if (field != NULL && field->kind == MT_FIELD_TEXT)
        return (struct mt_field_place){.kind = MT_PLACE_TEXT,
                                       .text = {.text = field->text, .bytes = field->bytes}};
    for (const char *rest = ""; rest != NULL;) { // the longest head that is a field
        struct mt_json_node node;
        if (mt_row_field(row, head) != NULL && mt_row_value(row, head, &node)) {
            node.parent = NULL;
            return follow(&node, rest, &rest) ? place_of_node(node, rest) : none;
        }
        char *dot = strrchr(head, '.');
        if (dot == NULL) return none;
        *dot = '\0';
        rest = path + (dot - head) + 1;
    }
    return none;
}

size_t mt_field_place_count(const struct mt_field_place *place)
{
    bool holds = place->kind == MT_PLACE_LIST || place->kind == MT_PLACE_OBJECT;
    return holds ? mt_json_count(&place->node) : 0;
}

// ------------------------------------------------------------------ texts

/* A text, a number or a truth value; null is an empty text. */
static enum mt_status append_node(const struct mt_json_node *node, struct mt_byte_list *out, bool *is_text)
{
    char digits[MT_EXACT_BYTES];
    const char *text = "";
    int64_t whole = 0;
    double real = 0.0;
    bool truth = false;
    enum mt_status status = MT_OK;
    *is_text = true;
    switch (mt_json_kind(node)) {
    case MT_JSON_STRING: status = mt_json_as_string(node, &text); break;
    case MT_JSON_INTEGER:
        status = mt_json_as_integer(node, INT64_MIN, INT64_MAX, &whole);
        (void)snprintf(digits, sizeof digits, "%lld", (long long)whole);
        text = digits;
        break;
    case MT_JSON_REAL:
        status = mt_json_as_real(node, -1e308, 1e308, &real);
        (void)mt_exact_text(real, digits);
        text = digits;
        break;
    case MT_JSON_BOOL:
        status = mt_json_as_bool(node, &truth);
        text = truth ? "true" : "false";
        break;
    case MT_JSON_NULL: break;
    default: *is_text = false;
    }
    return status == MT_OK && *is_text ? mt_byte_list_append_text(out, text) : status;
}

enum mt_status mt_field_place_append(const struct mt_field_place *place, struct mt_byte_list *out,
                                     bool *is_text)
{
    *is_text = place->kind == MT_PLACE_TEXT;
    if (!*is_text) return MT_OK;
    if (place->is_json) return append_node(&place->node, out, is_text);
    return mt_byte_list_append(out, place->text.text, place->text.bytes);
}

enum mt_status mt_field_place_append_item(const struct mt_field_place *place, size_t index,
                                          struct mt_byte_list *out, bool *is_text, const char **key)
{
    *is_text = false;
    *key = NULL;
    if (index >= mt_field_place_count(place)) return MT_OK;
    if (place->kind == MT_PLACE_OBJECT) {
        void *position = NULL;
        struct mt_json_node member;
        for (size_t i = 0; mt_json_next(&place->node, &position, &member); i++) {
            if (i < index) continue;
            *key = member.key;
            return append_node(&member, out, is_text);
        }
        return MT_OK;
    }
    struct mt_json_node item = mt_json_element(&place->node, index);
    const char *left = NULL;
    if (!follow(&item, place->rest, &left) || *left != '\0') return MT_OK;
    return append_node(&item, out, is_text);
}

// ------------------------------------------------------------------ names

struct names {
    struct mt_byte_list *out;
    size_t count;
};

static enum mt_status add_name(struct names *names, const char *head, const char *tail)
{
    enum mt_status status = MT_OK;
    names->count++;
    if (names->count > MOST_NAMED) return MT_OK;
    if (names->count > 1) status = mt_byte_list_append_text(names->out, ", ");
    if (status == MT_OK) status = mt_byte_list_append_text(names->out, mt_printable(head).text);
    if (status != MT_OK || tail == NULL) return status;
    status = mt_byte_list_append_text(names->out, ".");
    return status == MT_OK ? mt_byte_list_append_text(names->out, mt_printable(tail).text) : status;
}

/* A field, or the members of the object that it is or that its first item is. */
static enum mt_status add_field(struct names *names, const struct mt_row *row, const char *name)
{
    struct mt_field_place place = mt_field_place(row, name);
    struct mt_json_node object = place.node;
    if (place.kind == MT_PLACE_LIST && mt_json_count(&place.node) > 0)
        object = mt_json_element(&place.node, 0);
    bool nested = (place.kind == MT_PLACE_LIST || place.kind == MT_PLACE_OBJECT) &&
                  mt_json_kind(&object) == MT_JSON_OBJECT && mt_json_count(&object) > 0;
    if (!nested) return add_name(names, name, NULL);
    enum mt_status status = MT_OK;
    void *position = NULL;
    struct mt_json_node member;
    while (status == MT_OK && mt_json_next(&object, &position, &member))
        status = add_name(names, name, member.key);
    return status;
}

enum mt_status mt_row_append_names(const struct mt_row *row, struct mt_byte_list *out)
{
    struct names names = {.out = out};
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < row->field_count && status == MT_OK; i++)
        status = add_field(&names, row, row->fields[i].name);
    return status == MT_OK && names.count > MOST_NAMED ? mt_byte_list_append_text(out, ", ...") : status;
}
