/* Making the nodes of a tree. They are NULL once memory is out or there are too many: then the parser failed.
 */
#ifndef MT_EVAL_MATH_NODES_H
#define MT_EVAL_MATH_NODES_H

#include "eval/math/lex.h"

struct mt_math_node *mt_node_new(struct mt_math_parser *parser, enum mt_math_kind kind);

/* Appends a child; either may be NULL. */
void mt_node_adopt(struct mt_math_node *parent, struct mt_math_node *child);

/* The text is no mathematics: returns NULL. */
struct mt_math_node *mt_node_fail(struct mt_math_parser *parser);

/* A node over one child, and over two. */
struct mt_math_node *mt_node_wrap(struct mt_math_parser *parser, enum mt_math_kind kind,
                                  struct mt_math_node *child);
struct mt_math_node *mt_node_pair(struct mt_math_parser *parser, enum mt_math_kind kind,
                                  struct mt_math_node *one, struct mt_math_node *other);

/* A node with a text of its own, over a child if there is one. */
struct mt_math_node *mt_node_named(struct mt_math_parser *parser, enum mt_math_kind kind, const char *text,
                                   size_t bytes, struct mt_math_node *child);

/* A copy without what is next to it, over the same children. */
struct mt_math_node *mt_node_copy(struct mt_math_parser *parser, const struct mt_math_node *node);

/* A variable gets another name in a tree. */
void mt_node_rename(struct mt_math_node *node, int64_t from, int64_t to);

/* Words: those that mean a set or a number as that. */
struct mt_math_node *mt_node_meant(struct mt_math_parser *parser, const char *text, size_t bytes);

/* An interval without some of its numbers, or without another: the intervals between. Fails for others. */
struct mt_math_node *mt_node_without(struct mt_math_parser *parser, const struct mt_math_node *from,
                                     const struct mt_math_node *set);

#endif
