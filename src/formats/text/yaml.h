/*
 * YAML from outside, as far as a configuration needs it: maps, lists and scalars of one document. libyaml
 * parses; this layer bounds what it is given (bytes, nesting, number of nodes) and refuses what makes a
 * configuration mean more than it shows: anchors and aliases, tags, a second document, a key given twice.
 * Every failure is "FILE:LINE: what is wrong".
 *
 * A document becomes a tree in the caller's arena. Scalars stay text: whoever reads a value knows what it
 * should be. libyaml allocates with malloc, not through the context; running out of memory there is
 * MT_ERR_MEMORY all the same.
 */
#ifndef MT_FORMATS_YAML_H
#define MT_FORMATS_YAML_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"

struct mt_yaml_limits {
    size_t max_bytes;
    size_t max_nodes; // scalars, lists and maps; keys are not counted apart from their values
    int max_depth;    // nested lists and maps
};

/* For configuration files: 1 MiB, 10000 nodes, depth 16. */
extern const struct mt_yaml_limits mt_yaml_file_limits;

enum mt_yaml_kind {
    MT_YAML_SCALAR,
    MT_YAML_LIST,
    MT_YAML_MAP,
};

/* A place in a document. Members of a map are its children, each with its key. */
struct mt_yaml_node {
    enum mt_yaml_kind kind;
    const char *key;            // of a member of a map; NULL: the root, or an element of a list
    int line;                   // of the key where there is one, else where the value begins; from 1
    const char *text;           // of a scalar; NUL-terminated, with no NUL inside
    bool quoted;                // a scalar in quotes, or a block of text: never a number, a flag or nothing
    struct mt_yaml_node *first; // child; NULL: none
    struct mt_yaml_node *next;  // sibling; NULL: the last
    size_t count;               // of children
};

/*
 * Parses text; `file` names it in messages, NULL: they name no place, the caller adds one. A text without
 * a document is an empty map. The tree lives in the arena.
 */
enum mt_status mt_yaml_parse(struct mt_context *ctx, const char *file, const char *text, size_t bytes,
                             const struct mt_yaml_limits *limits, struct mt_arena *arena,
                             struct mt_yaml_node **root);

/* Reads and parses a file. */
enum mt_status mt_yaml_read(struct mt_context *ctx, const char *path, const struct mt_yaml_limits *limits,
                            struct mt_arena *arena, struct mt_yaml_node **root);

/* A scalar that says nothing: empty, "~" or "null", without quotes. */
bool mt_yaml_is_nothing(const struct mt_yaml_node *node);

/* "a text", "a list", "a map", "nothing": for messages. */
const char *mt_yaml_kind_text(const struct mt_yaml_node *node);

#endif
