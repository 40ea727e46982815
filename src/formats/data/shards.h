/* Paths with a * in the file's name, which stands for any characters: the shards of a data set. */
#ifndef MT_FORMATS_SHARDS_H
#define MT_FORMATS_SHARDS_H

#include <stdbool.h>
#include <stddef.h>

#include "metier/context.h"

/* The files a path with a * stands for, in order. */
struct mt_shards {
    char **paths; // [count], owned
    size_t count;
    size_t capacity;
};

/* True when the file's name in a path has a *, and no file is called so. */
bool mt_shards_named(const char *path);

/* Finds them; a path without a * stands for itself. A shard that is missing is refused by name. Whatever the
 * outcome, the caller frees. */
enum mt_status mt_shards_find(struct mt_context *ctx, const char *path, struct mt_shards *shards);
void mt_shards_free(struct mt_context *ctx, struct mt_shards *shards);

#endif
