/* YAML from outside: libyaml's events into a tree, bounded. */
#include "formats/text/yaml.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "base/files/file.h"
#include "formats/text/printable.h"

#define MOST_LEVELS 64 // of any limits: what the parser's own stack holds

const struct mt_yaml_limits mt_yaml_file_limits = {
    .max_bytes = (size_t)1 << 20,
    .max_nodes = 10000,
    .max_depth = 16,
};

/* A list or map that is still open. */
struct level {
    struct mt_yaml_node *node;
    struct mt_yaml_node *last; // child
    const char *key;           // of a map: waiting for its value; NULL: the next scalar is a key
    int key_line;
};

struct reader {
    struct mt_context *ctx;
    const char *file; // NULL: messages without a place
    const struct mt_yaml_limits *limits;
    struct mt_arena *arena;
    struct level levels[MOST_LEVELS];
    int depth; // levels in use
    size_t nodes;
    struct mt_yaml_node *root; // NULL until there is one
    int documents;
};

// ------------------------------------------------------------------ messages

static int line_of(const yaml_mark_t *mark)
{
    return mark->line < 1000000000 ? (int)mark->line + 1 : 1000000000;
}

__attribute__((format(printf, 3, 4))) static enum mt_status refuse(const struct reader *reader, int line,
                                                                   const char *format, ...)
{
    char what[512];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    if (reader->file == NULL) return mt_fail(reader->ctx, MT_ERR_FORMAT, "%s", what);
    return mt_fail(reader->ctx, MT_ERR_FORMAT, "%s:%d: %s", reader->file, line, what);
}

/* What libyaml found wrong. A reader's error (bytes that are no UTF-8) comes with an offset, not a line. */
static enum mt_status refuse_syntax(const struct reader *reader, const yaml_parser_t *parser,
                                    const char *text, size_t bytes)
{
    if (parser->error == YAML_MEMORY_ERROR) {
        return mt_fail(reader->ctx, MT_ERR_MEMORY, "out of memory while reading YAML of %zu bytes", bytes);
    }
    int line = line_of(&parser->problem_mark);
    if (parser->error == YAML_READER_ERROR) {
        line = 1;
        for (size_t i = 0; i < bytes && i < parser->problem_offset; i++) line += text[i] == '\n';
    }
    const char *problem = parser->problem != NULL ? parser->problem : "syntax error";
    return refuse(reader, line, "not valid YAML: %s%s%s", parser->context != NULL ? parser->context : "",
                  parser->context != NULL ? ", " : "", problem);
}

// ------------------------------------------------------------------ the tree

static enum mt_status check_double(const struct reader *reader, const struct level *map, const char *key,
                                   int line)
{
    for (const struct mt_yaml_node *child = map->node->first; child != NULL; child = child->next) {
        if (strcmp(child->key, key) != 0) continue;
        if (reader->file == NULL) return refuse(reader, line, "'%s' is given twice", mt_printable(key).text);
        return refuse(reader, line, "'%s' is given twice, first in line %d", mt_printable(key).text,
                      child->line);
    }
    return MT_OK;
}

/* Appends a node to the innermost open list or map, or makes it the root. */
static enum mt_status add_node(struct reader *reader, enum mt_yaml_kind kind, int line,
                               struct mt_yaml_node **added)
{
    if (++reader->nodes > reader->limits->max_nodes) {
        return refuse(reader, line, "more than %zu values", reader->limits->max_nodes);
    }
    enum mt_status status = MT_OK;
    struct mt_yaml_node *node = mt_arena_array(reader->arena, 1, sizeof *node, &status);
    if (status != MT_OK) return status;
    node->kind = kind;
    node->line = line;
    *added = node;
    if (reader->depth == 0) {
        reader->root = node;
        return MT_OK;
    }
    struct level *level = &reader->levels[reader->depth - 1];
    if (level->node->kind == MT_YAML_MAP) {
        node->key = level->key;
        node->line = level->key_line;
        level->key = NULL;
    }
    if (level->last == NULL) level->node->first = node;
    if (level->last != NULL) level->last->next = node;
    level->last = node;
    level->node->count++;
    return MT_OK;
}

/* The map that waits for a key, or NULL. */
static struct level *map_without_key(struct reader *reader)
{
    if (reader->depth == 0) return NULL;
    struct level *level = &reader->levels[reader->depth - 1];
    return level->node->kind == MT_YAML_MAP && level->key == NULL ? level : NULL;
}

static enum mt_status copy_scalar(struct reader *reader, const yaml_event_t *event, const char **text)
{
    const char *value = (const char *)event->data.scalar.value;
    size_t length = event->data.scalar.length;
    if (memchr(value, '\0', length) != NULL) {
        return refuse(reader, line_of(&event->start_mark), "a text holds a zero byte");
    }
    return mt_arena_copy_text(reader->arena, value, length, text);
}

static enum mt_status add_scalar(struct reader *reader, const yaml_event_t *event)
{
    int line = line_of(&event->start_mark);
    const char *text = NULL;
    struct mt_yaml_node *node = NULL;
    enum mt_status status = copy_scalar(reader, event, &text);
    if (status != MT_OK) return status;
    struct level *map = map_without_key(reader);
    if (map != NULL) {
        map->key = text;
        map->key_line = line;
        return check_double(reader, map, text, line);
    }
    status = add_node(reader, MT_YAML_SCALAR, line, &node);
    if (status != MT_OK) return status;
    node->text = text;
    node->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    return MT_OK;
}

static enum mt_status open_level(struct reader *reader, const yaml_event_t *event, enum mt_yaml_kind kind)
{
    int line = line_of(&event->start_mark);
    struct mt_yaml_node *node = NULL;
    if (map_without_key(reader) != NULL) {
        return refuse(reader, line, "a key is a %s; keys are plain words",
                      kind == MT_YAML_MAP ? "map" : "list");
    }
    if (reader->depth == reader->limits->max_depth || reader->depth == MOST_LEVELS) {
        return refuse(reader, line, "lists and maps nested more than %d levels deep", reader->depth);
    }
    enum mt_status status = add_node(reader, kind, line, &node);
    if (status != MT_OK) return status;
    reader->levels[reader->depth++] = (struct level){.node = node};
    return MT_OK;
}

// ------------------------------------------------------------------ events

static enum mt_status refuse_extras(const struct reader *reader, const yaml_event_t *event,
                                    const yaml_char_t *anchor, const yaml_char_t *tag)
{
    int line = line_of(&event->start_mark);
    if (anchor != NULL) {
        return refuse(reader, line, "an anchor ('&%s'): anchors and aliases are not supported, write it out",
                      mt_printable((const char *)anchor).text);
    }
    if (tag != NULL) {
        return refuse(reader, line, "a tag ('%s'): tags are not supported, leave it out",
                      mt_printable((const char *)tag).text);
    }
    return MT_OK;
}

static enum mt_status take_event(struct reader *reader, const yaml_event_t *event)
{
    int line = line_of(&event->start_mark);
    enum mt_status status = MT_OK;
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (reader->documents++ > 0) return refuse(reader, line, "a second document begins, expected one");
        return MT_OK;
    case YAML_ALIAS_EVENT:
        return refuse(reader, line,
                      "an alias ('*%s'): quote a text that begins with '*'; aliases are not "
                      "supported",
                      mt_printable((const char *)event->data.alias.anchor).text);
    case YAML_SCALAR_EVENT:
        status = refuse_extras(reader, event, event->data.scalar.anchor, event->data.scalar.tag);
        return status == MT_OK ? add_scalar(reader, event) : status;
    case YAML_SEQUENCE_START_EVENT:
        status =
            refuse_extras(reader, event, event->data.sequence_start.anchor, event->data.sequence_start.tag);
        return status == MT_OK ? open_level(reader, event, MT_YAML_LIST) : status;
    case YAML_MAPPING_START_EVENT:
        status =
            refuse_extras(reader, event, event->data.mapping_start.anchor, event->data.mapping_start.tag);
        return status == MT_OK ? open_level(reader, event, MT_YAML_MAP) : status;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT: reader->depth--; return MT_OK;
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_STREAM_END_EVENT:
    case YAML_DOCUMENT_END_EVENT: break;
    }
    return MT_OK;
}

static enum mt_status take_events(struct reader *reader, yaml_parser_t *parser, const char *text,
                                  size_t bytes)
{
    for (bool ended = false; !ended;) {
        yaml_event_t event;
        if (yaml_parser_parse(parser, &event) == 0) return refuse_syntax(reader, parser, text, bytes);
        enum mt_status status = take_event(reader, &event);
        ended = event.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
        if (status != MT_OK) return status;
    }
    return MT_OK;
}

enum mt_status mt_yaml_parse(struct mt_context *ctx, const char *file, const char *text, size_t bytes,
                             const struct mt_yaml_limits *limits, struct mt_arena *arena,
                             struct mt_yaml_node **root)
{
    struct reader reader = {.ctx = ctx, .file = file, .limits = limits, .arena = arena};
    yaml_parser_t parser;
    *root = NULL;
    if (bytes > limits->max_bytes) {
        return refuse(&reader, 1, "YAML of %zu bytes, the limit is %zu", bytes, limits->max_bytes);
    }
    if (yaml_parser_initialize(&parser) == 0) {
        return mt_fail(ctx, MT_ERR_MEMORY, "out of memory while reading YAML of %zu bytes", bytes);
    }
    // Said here, because libyaml would otherwise take some texts for UTF-16.
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, bytes);
    enum mt_status status = take_events(&reader, &parser, text, bytes);
    yaml_parser_delete(&parser);
    struct mt_yaml_node *empty = NULL;
    if (status == MT_OK && reader.root == NULL) status = add_node(&reader, MT_YAML_MAP, 1, &empty);
    if (status == MT_OK) *root = reader.root;
    return status;
}

enum mt_status mt_yaml_read(struct mt_context *ctx, const char *path, const struct mt_yaml_limits *limits,
                            struct mt_arena *arena, struct mt_yaml_node **root)
{
    void *text = NULL;
    size_t bytes = 0;
    *root = NULL;
    enum mt_status status = mt_file_read_all(ctx, path, limits->max_bytes, &text, &bytes);
    if (status != MT_OK) return status;
    status = mt_yaml_parse(ctx, path, text, bytes, limits, arena, root);
    mt_release(ctx, text, bytes);
    return status;
}

// ------------------------------------------------------------------ nodes

bool mt_yaml_is_nothing(const struct mt_yaml_node *node)
{
    if (node->kind != MT_YAML_SCALAR || node->quoted) return false;
    return node->text[0] == '\0' || strcmp(node->text, "~") == 0 || strcmp(node->text, "null") == 0;
}

const char *mt_yaml_kind_text(const struct mt_yaml_node *node)
{
    if (node->kind == MT_YAML_LIST) return "a list";
    if (node->kind == MT_YAML_MAP) return "a map";
    return mt_yaml_is_nothing(node) ? "nothing" : "a text";
}
