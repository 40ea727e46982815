/*
 * JSON from outside. jansson parses; this layer bounds what it is given (bytes, nesting, number of
 * values), refuses duplicate keys, and reads typed values so that every failure names the file and the
 * path of the key: "config.json: rope_scaling.factor is a string, expected a number".
 *
 * A node is a place in a document: it borrows the document and its parent node, so a parent must outlive
 * its children. Nodes are made on the caller's stack and need no freeing.
 *
 * jansson allocates with malloc, not through the context; running out of memory there is MT_ERR_MEMORY
 * all the same.
 */
#ifndef MT_FORMATS_JSON_H
#define MT_FORMATS_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "metier/context.h"

struct json_t;

struct mt_json_limits {
    size_t max_bytes;
    size_t max_values;     // keys, values and containers; bounds the memory of the parsed form
    int max_depth;         // nested arrays and objects
    bool integers_as_real; // whole numbers may exceed 64 bits (tokenizer_config.json's model_max_length)
};

/* For configuration files: 64 MB, four million values, depth 64. */
extern const struct mt_json_limits mt_json_file_limits;

/* A parsed document. Owns its values; `file` is borrowed and must outlive it. */
struct mt_json {
    struct mt_context *ctx;
    const char *file; // the name used in messages
    struct json_t *root;
};

enum mt_json_kind {
    MT_JSON_NULL,
    MT_JSON_BOOL,
    MT_JSON_INTEGER,
    MT_JSON_REAL,
    MT_JSON_STRING,
    MT_JSON_ARRAY,
    MT_JSON_OBJECT,
};

struct mt_json_node {
    struct mt_context *ctx;
    const char *file;
    const struct mt_json_node *parent; // NULL for the root
    const char *key;                   // in a parent object; NULL for an element of an array
    size_t index;                      // in a parent array
    const struct json_t *value;
};

/* Parses text; `file` only names it in messages. The caller frees with mt_json_free. */
enum mt_status mt_json_parse(struct mt_context *ctx, const char *file, const void *text, size_t bytes,
                             const struct mt_json_limits *limits, struct mt_json *json);

/* Reads and parses a file; `path` is borrowed until mt_json_free. */
enum mt_status mt_json_read(struct mt_context *ctx, const char *path, const struct mt_json_limits *limits,
                            struct mt_json *json);

/* Frees the document; a zeroed one is allowed. */
void mt_json_free(struct mt_json *json);

struct mt_json_node mt_json_root(const struct mt_json *json);
enum mt_json_kind mt_json_kind(const struct mt_json_node *node);

/* Members of an object, or elements of an array; 0 for everything else. */
size_t mt_json_count(const struct mt_json_node *node);

/* Element `index` of an array; index < mt_json_count. */
struct mt_json_node mt_json_element(const struct mt_json_node *array, size_t index);

/* False when the object has no such key; a null value is there. */
bool mt_json_member(const struct mt_json_node *object, const char *key, struct mt_json_node *child);

/* True when the key is there and its value is not null. */
bool mt_json_has(const struct mt_json_node *object, const char *key);

/*
 * Walks an object in the order of the file: start with *position = NULL; false at the end. The key is
 * child->key.
 */
bool mt_json_next(const struct mt_json_node *object, void **position, struct mt_json_node *child);

/* Records "FILE: PATH MESSAGE" ("config.json: n_group is 0, ...") as MT_ERR_FORMAT. */
enum mt_status mt_json_fail(const struct mt_json_node *node, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// ------------------------------------------------------------------ the value of a node

enum mt_status mt_json_as_string(const struct mt_json_node *node, const char **text);
enum mt_status mt_json_as_integer(const struct mt_json_node *node, int64_t min, int64_t max, int64_t *value);
enum mt_status mt_json_as_real(const struct mt_json_node *node, double min, double max, double *value);
enum mt_status mt_json_as_bool(const struct mt_json_node *node, bool *value);
enum mt_status mt_json_expect_array(const struct mt_json_node *node);
enum mt_status mt_json_expect_object(const struct mt_json_node *node);

// ------------------------------------------------------------------ a required member of an object

enum mt_status mt_json_get_string(const struct mt_json_node *object, const char *key, const char **text);
enum mt_status mt_json_get_integer(const struct mt_json_node *object, const char *key, int64_t min,
                                   int64_t max, int64_t *value);
enum mt_status mt_json_get_real(const struct mt_json_node *object, const char *key, double min, double max,
                                double *value);
enum mt_status mt_json_get_bool(const struct mt_json_node *object, const char *key, bool *value);
enum mt_status mt_json_get_array(const struct mt_json_node *object, const char *key,
                                 struct mt_json_node *child);
enum mt_status mt_json_get_object(const struct mt_json_node *object, const char *key,
                                  struct mt_json_node *child);

// ------------------------------------- an optional member: absent or null leaves the default in place

enum mt_status mt_json_optional_string(const struct mt_json_node *object, const char *key, const char **text);
enum mt_status mt_json_optional_integer(const struct mt_json_node *object, const char *key, int64_t min,
                                        int64_t max, int64_t *value);
enum mt_status mt_json_optional_real(const struct mt_json_node *object, const char *key, double min,
                                     double max, double *value);
enum mt_status mt_json_optional_bool(const struct mt_json_node *object, const char *key, bool *value);

/* *present tells whether child was filled. */
enum mt_status mt_json_optional_array(const struct mt_json_node *object, const char *key,
                                      struct mt_json_node *child, bool *present);
enum mt_status mt_json_optional_object(const struct mt_json_node *object, const char *key,
                                       struct mt_json_node *child, bool *present);

#endif
