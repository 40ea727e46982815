/* Reading a log; the tree of names. */
#include "crash/history.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *crash_grow(void *memory, size_t count, size_t size)
{
    void *grown = realloc(memory, count * size + 1);
    if (grown == NULL) crash_die("out of memory");
    return grown;
}

void crash_die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)fputs("crash_replay: ", stderr);
    (void)vfprintf(stderr, format, arguments);
    (void)fputc('\n', stderr);
    va_end(arguments);
    exit(2);
}

// ------------------------------------------------------------------ the tree

static size_t find(const struct crash_tree *tree, size_t folder, const char *name)
{
    for (size_t i = 0; i < tree->entries; i++) {
        if (tree->entry[i].folder == folder && strcmp(tree->entry[i].name, name) == 0) return i;
    }
    return CRASH_NONE;
}

static void add(struct crash_tree *tree, size_t folder, const char *name, size_t node)
{
    tree->entry = crash_grow(tree->entry, tree->entries + 1, sizeof *tree->entry);
    tree->entry[tree->entries++] = (struct crash_entry){folder, name, node};
}

static void drop(struct crash_tree *tree, size_t folder, const char *name)
{
    size_t at = find(tree, folder, name);
    if (at != CRASH_NONE) tree->entry[at] = tree->entry[--tree->entries];
}

bool crash_op_names(const struct crash_op *op)
{
    return op->folder[0] != CRASH_NONE;
}

void crash_tree_apply(struct crash_tree *tree, const struct crash_op *op)
{
    switch (op->kind) {
    case CRASH_CREATE:
    case CRASH_MKDIR: add(tree, op->folder[0], op->name[0], op->node); break;
    case CRASH_UNLINK:
    case CRASH_RMDIR: drop(tree, op->folder[0], op->name[0]); break;
    case CRASH_RENAME:
        drop(tree, op->folder[0], op->name[0]);
        drop(tree, op->folder[1], op->name[1]);
        add(tree, op->folder[1], op->name[1], op->node);
        break;
    case CRASH_EXCHANGE:
        drop(tree, op->folder[0], op->name[0]);
        drop(tree, op->folder[1], op->name[1]);
        add(tree, op->folder[0], op->name[0], op->other);
        add(tree, op->folder[1], op->name[1], op->node);
        break;
    default: break;
    }
}

size_t crash_tree_at(const struct crash_tree *tree, const char *path)
{
    char name[256];
    size_t node = 0;
    while (*path != '\0' && node != CRASH_NONE) {
        size_t length = strcspn(path, "/");
        if (length >= sizeof name) crash_die("a name is too long");
        memcpy(name, path, length);
        name[length] = '\0';
        path += length + (path[length] == '/' ? 1 : 0);
        size_t at = find(tree, node, name);
        node = at != CRASH_NONE ? tree->entry[at].node : CRASH_NONE;
    }
    return node;
}

void crash_tree_free(struct crash_tree *tree)
{
    free(tree->entry);
    *tree = (struct crash_tree){0};
}

// ------------------------------------------------------------------ the log

static unsigned char *read_all(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) crash_die("%s: cannot be read", path);
    long size = ftell(file);
    if (size < 0 || fseek(file, 0, SEEK_SET) != 0) crash_die("%s: cannot be read", path);
    unsigned char *log = crash_grow(NULL, (size_t)size, 1);
    if (fread(log, 1, (size_t)size, file) != (size_t)size) crash_die("%s: cannot be read", path);
    (void)fclose(file);
    *bytes = (size_t)size;
    return log;
}

static size_t add_node(struct crash_history *history, uint64_t inode, bool folder)
{
    history->node = crash_grow(history->node, history->nodes + 1, sizeof *history->node);
    history->node[history->nodes] = (struct crash_node){.inode = inode, .folder = folder};
    return history->nodes++;
}

/* The last one made with that number. The folder itself was not made, and its number is only seen in syncs.
 */
static size_t node_of(const struct crash_history *history, const struct crash_header *header)
{
    for (size_t i = history->nodes; i-- > 1;) {
        if (history->node[i].inode == header->inode) return i;
    }
    if (header->kind != CRASH_SYNC) crash_die("a file is written to that the log does not make");
    return 0;
}

/* The folder of a path, and its last part, which points into it. */
static size_t split(const struct crash_tree *tree, const char *path, const char **name)
{
    char folder[4096] = "";
    const char *slash = strrchr(path, '/');
    if (slash != NULL) (void)snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
    *name = slash != NULL ? slash + 1 : path;
    size_t node = crash_tree_at(tree, folder);
    if (node == CRASH_NONE) crash_die("%s: its folder is not in the log", path);
    return node;
}

static void note(struct crash_history *history, size_t node)
{
    struct crash_node *noted = &history->node[node];
    noted->op = crash_grow(noted->op, noted->ops + 1, sizeof *noted->op);
    noted->op[noted->ops++] = history->ops;
}

/* A copy that goes with the history. */
static const char *text_of(struct crash_history *history, const unsigned char *bytes, size_t length)
{
    char *text = crash_grow(NULL, length + 1, 1);
    memcpy(text, bytes, length);
    text[length] = '\0';
    history->text = crash_grow(history->text, history->texts + 1, sizeof *history->text);
    history->text[history->texts++] = text;
    return text;
}

static void read_names(struct crash_history *history, const struct crash_tree *tree,
                       const struct crash_header *header, const unsigned char *at, struct crash_op *op)
{
    const char *path = text_of(history, at, header->path_bytes);
    const char *other = text_of(history, at + header->path_bytes, header->other_bytes);
    bool two = header->kind == CRASH_RENAME || header->kind == CRASH_EXCHANGE;
    bool made = header->kind == CRASH_CREATE || header->kind == CRASH_MKDIR;
    op->folder[0] = split(tree, path, &op->name[0]);
    if (two) op->folder[1] = split(tree, other, &op->name[1]);
    op->node =
        made ? add_node(history, header->inode, header->kind == CRASH_MKDIR) : crash_tree_at(tree, path);
    if (two) op->other = crash_tree_at(tree, other);
    if (op->node == CRASH_NONE) crash_die("%s: is not in the log", path);
}

/* One record; `at` is behind its header. */
static void read_record(struct crash_history *history, struct crash_tree *tree,
                        const struct crash_header *header, const unsigned char *at)
{
    struct crash_op op = {.kind = header->kind,
                          .node = CRASH_NONE,
                          .other = CRASH_NONE,
                          .folder = {CRASH_NONE, CRASH_NONE},
                          .offset = header->offset,
                          .bytes = header->data_bytes,
                          .data = at + header->path_bytes + header->other_bytes};
    switch (op.kind) {
    case CRASH_WRITE:
    case CRASH_TRUNCATE:
    case CRASH_SYNC:
        op.node = node_of(history, header);
        note(history, op.node);
        break;
    case CRASH_SYNC_ALL:
        for (size_t i = 0; i < history->nodes; i++) note(history, i);
        break;
    case CRASH_MARK: break;
    case CRASH_UNKNOWN:
        crash_die("the log has a call that is not modelled: %.*s", (int)header->path_bytes, at);
    default: read_names(history, tree, header, at, &op); break;
    }
    crash_tree_apply(tree, &op);
    history->op = crash_grow(history->op, history->ops + 1, sizeof *history->op);
    history->op[history->ops++] = op;
}

struct crash_history crash_history_read(const char *path)
{
    struct crash_history history = {0};
    struct crash_tree tree = {0};
    size_t bytes = 0;
    size_t at = 0;
    history.log = read_all(path, &bytes);
    (void)add_node(&history, 0, true);
    while (at < bytes) {
        struct crash_header header;
        if (bytes - at < sizeof header) crash_die("%s: ends in a record", path);
        memcpy(&header, history.log + at, sizeof header);
        at += sizeof header;
        uint64_t length = header.path_bytes + header.other_bytes + header.data_bytes;
        if (header.kind == 0 || header.kind >= CRASH_KINDS || length > bytes - at)
            crash_die("%s: is not a log", path);
        read_record(&history, &tree, &header, history.log + at);
        at += (size_t)length;
    }
    crash_tree_free(&tree);
    return history;
}

void crash_history_free(struct crash_history *history)
{
    for (size_t i = 0; i < history->texts; i++) free(history->text[i]);
    for (size_t i = 0; i < history->nodes; i++) free(history->node[i].op);
    free(history->text);
    free(history->node);
    free(history->op);
    free(history->log);
    *history = (struct crash_history){0};
}
