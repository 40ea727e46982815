/* Removes a folder and everything below it. */
#ifndef MT_COMPARE_REMOVE_TREE_H
#define MT_COMPARE_REMOVE_TREE_H

#include "metier/context.h"

/* Links are removed, not followed; other file systems are left alone. */
enum mt_status mt_remove_tree(struct mt_context *ctx, const char *path);

#endif
