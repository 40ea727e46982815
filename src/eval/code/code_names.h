/*
 * Names in Python, read word by word without a parser: good enough to see which of two blocks of code needs
 * the other. Strings, comments and attributes are passed over.
 */
#ifndef MT_EVAL_CODE_NAMES_H
#define MT_EVAL_CODE_NAMES_H

#include "eval/text.h"

enum mt_name_role {
    MT_NAME_DEFINED = 1,  // at the top level, by def or class, or as a lambda
    MT_NAME_IMPORTED = 2, // at the top level or not
    MT_NAME_ASSIGNED = 4, // at the top level
    MT_NAME_LOCAL = 8,    // a parameter, of a loop, assigned below the top level
    MT_NAME_USED = 16,    // anything else
    MT_NAME_BOUND = MT_NAME_DEFINED | MT_NAME_IMPORTED | MT_NAME_ASSIGNED | MT_NAME_LOCAL
};

struct mt_name_set {
    struct mt_context *ctx; // borrowed
    struct mt_text *each;   // point into what was read
    size_t count, capacity;
};

/* Appends the names of those roles. Lines indented by at most `top` are the top level. */
enum mt_status mt_names_collect(struct mt_name_set *set, struct mt_text python, size_t top, unsigned roles);

enum mt_status mt_names_add(struct mt_name_set *set, struct mt_text name);
void mt_names_sort(struct mt_name_set *set);
bool mt_names_have(const struct mt_name_set *set, struct mt_text name); // which is sorted
void mt_names_free(struct mt_name_set *set);

/* True when a line, without its indentation, begins as a definition or an import does. */
bool mt_python_begins(struct mt_text line);

/* True when it looks like a statement of a program, and not like a sentence. */
bool mt_python_looks(struct mt_text line);

#endif
