/* JSON from outside: bounded parsing, typed access with the key path in every message. */
#include "formats/text/json.h"

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/files/file.h"
#include "formats/text/printable.h"

#define PATH_BYTES 256

const struct mt_json_limits mt_json_file_limits = {
    .max_bytes = (size_t)64 << 20,
    .max_values = 4000000,
    .max_depth = 64,
};

// ------------------------------------------------------------------ parsing

/*
 * Counts nesting and values before jansson sees the text: it recurses per level and allocates per value.
 * Malformed text may be miscounted, and is then refused by the parser.
 */
static enum mt_status check_limits(struct mt_context *ctx, const char *file, const char *text, size_t bytes,
                                   const struct mt_json_limits *limits)
{
    int depth = 0;
    size_t values = 1;
    bool in_string = false;
    for (size_t i = 0; i < bytes; i++) {
        char byte = text[i];
        if (in_string) {
            if (byte == '\\') i++;
            if (byte == '"') in_string = false;
            continue;
        }
        if (byte == '"') in_string = true;
        if (byte == '[' || byte == '{') depth++;
        if ((byte == ']' || byte == '}') && depth > 0) depth--;
        values += byte == ',' || byte == ':' || byte == '[' || byte == '{';
        if (depth > limits->max_depth) {
            return mt_fail(ctx, MT_ERR_FORMAT, "%s: JSON nested more than %d levels deep (at byte %zu)", file,
                           limits->max_depth, i);
        }
    }
    if (values > limits->max_values) {
        return mt_fail(ctx, MT_ERR_FORMAT, "%s: JSON of %zu values, the limit is %zu", file, values,
                       limits->max_values);
    }
    return MT_OK;
}

enum mt_status mt_json_parse(struct mt_context *ctx, const char *file, const void *text, size_t bytes,
                             const struct mt_json_limits *limits, struct mt_json *json)
{
    *json = (struct mt_json){.ctx = ctx, .file = file};
    if (bytes > limits->max_bytes) {
        return mt_fail(ctx, MT_ERR_FORMAT, "%s: JSON of %zu bytes, the limit is %zu", file, bytes,
                       limits->max_bytes);
    }
    if (bytes == 0) return mt_fail(ctx, MT_ERR_FORMAT, "%s: empty, expected JSON", file);
    enum mt_status status = check_limits(ctx, file, text, bytes, limits);
    if (status != MT_OK) return status;
    json_error_t error;
    size_t flags = JSON_REJECT_DUPLICATES | (limits->integers_as_real ? JSON_DECODE_INT_AS_REAL : 0);
    json->root = json_loadb(text, bytes, flags, &error);
    if (json->root != NULL) return MT_OK;
    if (json_error_code(&error) == json_error_out_of_memory) {
        return mt_fail(ctx, MT_ERR_MEMORY, "%s: out of memory while reading JSON of %zu bytes", file, bytes);
    }
    return mt_fail(ctx, MT_ERR_FORMAT, "%s: not valid JSON at line %d, column %d: %s", file, error.line,
                   error.column, mt_printable(error.text).text);
}

enum mt_status mt_json_read(struct mt_context *ctx, const char *path, const struct mt_json_limits *limits,
                            struct mt_json *json)
{
    *json = (struct mt_json){0};
    void *text = NULL;
    size_t bytes = 0;
    enum mt_status status = mt_file_read_all(ctx, path, limits->max_bytes, &text, &bytes);
    if (status != MT_OK) return status;
    status = mt_json_parse(ctx, path, text, bytes, limits, json);
    mt_release(ctx, text, bytes);
    return status;
}

void mt_json_free(struct mt_json *json)
{
    json_decref(json->root);
    *json = (struct mt_json){0};
}

// ------------------------------------------------------------------ places

struct mt_json_node mt_json_root(const struct mt_json *json)
{
    return (struct mt_json_node){.ctx = json->ctx, .file = json->file, .value = json->root};
}

enum mt_json_kind mt_json_kind(const struct mt_json_node *node)
{
    switch (json_typeof(node->value)) {
    case JSON_OBJECT: return MT_JSON_OBJECT;
    case JSON_ARRAY: return MT_JSON_ARRAY;
    case JSON_STRING: return MT_JSON_STRING;
    case JSON_INTEGER: return MT_JSON_INTEGER;
    case JSON_REAL: return MT_JSON_REAL;
    case JSON_TRUE:
    case JSON_FALSE: return MT_JSON_BOOL;
    case JSON_NULL: break;
    }
    return MT_JSON_NULL;
}

size_t mt_json_count(const struct mt_json_node *node)
{
    if (json_is_object(node->value)) return json_object_size(node->value);
    return json_array_size(node->value);
}

static struct mt_json_node child_of(const struct mt_json_node *parent, const char *key, size_t index,
                                    const json_t *value)
{
    return (struct mt_json_node){
        .ctx = parent->ctx,
        .file = parent->file,
        .parent = parent,
        .key = key,
        .index = index,
        .value = value,
    };
}

struct mt_json_node mt_json_element(const struct mt_json_node *array, size_t index)
{
    return child_of(array, NULL, index, json_array_get(array->value, index));
}

bool mt_json_member(const struct mt_json_node *object, const char *key, struct mt_json_node *child)
{
    *child = child_of(object, key, 0, json_object_get(object->value, key));
    return child->value != NULL;
}

bool mt_json_has(const struct mt_json_node *object, const char *key)
{
    const json_t *value = json_object_get(object->value, key);
    return value != NULL && !json_is_null(value);
}

bool mt_json_next(const struct mt_json_node *object, void **position, struct mt_json_node *child)
{
    // jansson's iterators want a mutable object, though reading changes nothing.
    json_t *value = (json_t *)object->value;
    *position = *position == NULL ? json_object_iter(value) : json_object_iter_next(value, *position);
    if (*position == NULL) return false;
    *child = child_of(object, json_object_iter_key(*position), 0, json_object_iter_value(*position));
    return true;
}

// ------------------------------------------------------------------ messages

/* Appends the path of a node, root first. Recursion is as deep as the document, which is bounded. */
static void append_path(const struct mt_json_node *node, char *path, size_t path_bytes)
{
    if (node->parent == NULL) return;
    append_path(node->parent, path, path_bytes);
    size_t used = strlen(path);
    if (node->key == NULL) {
        (void)snprintf(path + used, path_bytes - used, "[%zu]", node->index);
    } else {
        (void)snprintf(path + used, path_bytes - used, "%s%s", used > 0 ? "." : "",
                       mt_printable(node->key).text);
    }
}

enum mt_status mt_json_fail(const struct mt_json_node *node, const char *format, ...)
{
    char path[PATH_BYTES] = "";
    append_path(node, path, sizeof path);
    char sentence[MT_MESSAGE_BYTES];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    return mt_fail(node->ctx, MT_ERR_FORMAT, "%s: %s %s", node->file, path[0] != '\0' ? path : "the document",
                   sentence);
}

static const char *kind_text(enum mt_json_kind kind)
{
    static const char *const texts[] = {
        [MT_JSON_NULL] = "null",
        [MT_JSON_BOOL] = "true or false",
        [MT_JSON_INTEGER] = "a whole number",
        [MT_JSON_REAL] = "a number",
        [MT_JSON_STRING] = "a string",
        [MT_JSON_ARRAY] = "an array",
        [MT_JSON_OBJECT] = "an object",
    };
    return texts[kind];
}

static enum mt_status wrong_kind(const struct mt_json_node *node, enum mt_json_kind expected)
{
    enum mt_json_kind found = mt_json_kind(node);
    if (found == MT_JSON_STRING) {
        return mt_json_fail(node, "is the string \"%s\", expected %s",
                            mt_printable(json_string_value(node->value)).text, kind_text(expected));
    }
    if (found == MT_JSON_REAL) {
        return mt_json_fail(node, "is %g, expected %s", json_real_value(node->value), kind_text(expected));
    }
    return mt_json_fail(node, "is %s, expected %s", kind_text(found), kind_text(expected));
}

// ------------------------------------------------------------------ values

enum mt_status mt_json_as_string(const struct mt_json_node *node, const char **text)
{
    if (mt_json_kind(node) != MT_JSON_STRING) return wrong_kind(node, MT_JSON_STRING);
    *text = json_string_value(node->value);
    return MT_OK;
}

enum mt_status mt_json_as_integer(const struct mt_json_node *node, int64_t min, int64_t max, int64_t *value)
{
    if (mt_json_kind(node) != MT_JSON_INTEGER) return wrong_kind(node, MT_JSON_INTEGER);
    int64_t found = (int64_t)json_integer_value(node->value);
    if (found < min || found > max) {
        return mt_json_fail(node, "is %lld, expected %lld to %lld", (long long)found, (long long)min,
                            (long long)max);
    }
    *value = found;
    return MT_OK;
}

enum mt_status mt_json_as_real(const struct mt_json_node *node, double min, double max, double *value)
{
    enum mt_json_kind kind = mt_json_kind(node);
    if (kind != MT_JSON_INTEGER && kind != MT_JSON_REAL) return wrong_kind(node, MT_JSON_REAL);
    double found = json_number_value(node->value);
    // jansson refuses NaN and overflow by itself; the comparison is written so that NaN fails it too.
    if (!(isfinite(found) && found >= min && found <= max)) {
        return mt_json_fail(node, "is %g, expected %g to %g", found, min, max);
    }
    *value = found;
    return MT_OK;
}

enum mt_status mt_json_as_bool(const struct mt_json_node *node, bool *value)
{
    if (mt_json_kind(node) != MT_JSON_BOOL) return wrong_kind(node, MT_JSON_BOOL);
    *value = json_is_true(node->value);
    return MT_OK;
}

enum mt_status mt_json_expect_array(const struct mt_json_node *node)
{
    return mt_json_kind(node) == MT_JSON_ARRAY ? MT_OK : wrong_kind(node, MT_JSON_ARRAY);
}

enum mt_status mt_json_expect_object(const struct mt_json_node *node)
{
    return mt_json_kind(node) == MT_JSON_OBJECT ? MT_OK : wrong_kind(node, MT_JSON_OBJECT);
}

// ------------------------------------------------------------------ required members

static enum mt_status required(const struct mt_json_node *object, const char *key, struct mt_json_node *child)
{
    if (mt_json_member(object, key, child)) return MT_OK;
    return mt_json_fail(child, "is missing");
}

enum mt_status mt_json_get_string(const struct mt_json_node *object, const char *key, const char **text)
{
    struct mt_json_node child;
    enum mt_status status = required(object, key, &child);
    return status == MT_OK ? mt_json_as_string(&child, text) : status;
}

enum mt_status mt_json_get_integer(const struct mt_json_node *object, const char *key, int64_t min,
                                   int64_t max, int64_t *value)
{
    struct mt_json_node child;
    enum mt_status status = required(object, key, &child);
    return status == MT_OK ? mt_json_as_integer(&child, min, max, value) : status;
}

enum mt_status mt_json_get_real(const struct mt_json_node *object, const char *key, double min, double max,
                                double *value)
{
    struct mt_json_node child;
    enum mt_status status = required(object, key, &child);
    return status == MT_OK ? mt_json_as_real(&child, min, max, value) : status;
}

enum mt_status mt_json_get_bool(const struct mt_json_node *object, const char *key, bool *value)
{
    struct mt_json_node child;
    enum mt_status status = required(object, key, &child);
    return status == MT_OK ? mt_json_as_bool(&child, value) : status;
}

enum mt_status mt_json_get_array(const struct mt_json_node *object, const char *key,
                                 struct mt_json_node *child)
{
    enum mt_status status = required(object, key, child);
    return status == MT_OK ? mt_json_expect_array(child) : status;
}

enum mt_status mt_json_get_object(const struct mt_json_node *object, const char *key,
                                  struct mt_json_node *child)
{
    enum mt_status status = required(object, key, child);
    return status == MT_OK ? mt_json_expect_object(child) : status;
}

// ------------------------------------------------------------------ optional members

enum mt_status mt_json_optional_string(const struct mt_json_node *object, const char *key, const char **text)
{
    return mt_json_has(object, key) ? mt_json_get_string(object, key, text) : MT_OK;
}

enum mt_status mt_json_optional_integer(const struct mt_json_node *object, const char *key, int64_t min,
                                        int64_t max, int64_t *value)
{
    return mt_json_has(object, key) ? mt_json_get_integer(object, key, min, max, value) : MT_OK;
}

enum mt_status mt_json_optional_real(const struct mt_json_node *object, const char *key, double min,
                                     double max, double *value)
{
    return mt_json_has(object, key) ? mt_json_get_real(object, key, min, max, value) : MT_OK;
}

enum mt_status mt_json_optional_bool(const struct mt_json_node *object, const char *key, bool *value)
{
    return mt_json_has(object, key) ? mt_json_get_bool(object, key, value) : MT_OK;
}

enum mt_status mt_json_optional_array(const struct mt_json_node *object, const char *key,
                                      struct mt_json_node *child, bool *present)
{
    *present = mt_json_has(object, key);
    return *present ? mt_json_get_array(object, key, child) : MT_OK;
}

enum mt_status mt_json_optional_object(const struct mt_json_node *object, const char *key,
                                       struct mt_json_node *child, bool *present)
{
    *present = mt_json_has(object, key);
    return *present ? mt_json_get_object(object, key, child) : MT_OK;
}
