/*
 * What a program did to the files below a folder, read from its log (log.h), and the folder's tree at any
 * time.
 *
 * Files and folders are nodes, numbered in the order in which they were made; the folder itself is node 0.
 * The folder is empty when the log begins. A test's program: what cannot be read or allocated ends it.
 */
#ifndef CRASH_HISTORY_H
#define CRASH_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crash/log.h"

#define CRASH_NONE ((size_t)-1)

struct crash_op {
    enum crash_kind kind;
    size_t node;      // written to, synced; of names: made, moved or removed
    size_t other;     // of a rename: what it replaced; of an exchange: the other one; else CRASH_NONE
    size_t folder[2]; // of names: where they are; CRASH_NONE: there is no such name
    const char *name[2];
    uint64_t offset;
    uint64_t bytes;
    const unsigned char *data; // into the log
};

struct crash_node {
    uint64_t inode;
    bool folder;
    size_t *op; // that write to, truncate or sync it, in order
    size_t ops;
};

struct crash_history {
    unsigned char *log; // all of it
    char **text;        // the paths, which names point into
    size_t texts;
    struct crash_op *op;
    size_t ops;
    struct crash_node *node;
    size_t nodes;
};

struct crash_entry {
    size_t folder;
    const char *name;
    size_t node;
};

struct crash_tree {
    struct crash_entry *entry;
    size_t entries;
};

/* Memory that grows; ends the program where there is none. */
void *crash_grow(void *memory, size_t count, size_t size);

/* Ends the program with a sentence. */
void crash_die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

struct crash_history crash_history_read(const char *path);

void crash_history_free(struct crash_history *history);

/* True for an operation that changes names. */
bool crash_op_names(const struct crash_op *op);

/* Does to the tree what the operation did; those that change no names do nothing. */
void crash_tree_apply(struct crash_tree *tree, const struct crash_op *op);

/* The node at a path, which is relative to the folder; CRASH_NONE if there is none. */
size_t crash_tree_at(const struct crash_tree *tree, const char *path);

void crash_tree_free(struct crash_tree *tree);

#endif
