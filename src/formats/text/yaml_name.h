/*
 * Tasks and recipes by name: gsm8k is gsm8k.yaml of a folder; what has a slash or ends in .yaml is a path.
 */
#ifndef MT_FORMATS_YAML_NAME_H
#define MT_FORMATS_YAML_NAME_H

#include <stdbool.h>

#include "metier/context.h"

#define MT_YAML_PATH_BYTES 4096

bool mt_yaml_is_path(const char *name);

/* The file that a name means, to `path`; false: there is none. */
bool mt_yaml_find(const char *folder, const char *name, char path[MT_YAML_PATH_BYTES]);

/* Refuses a name that no file has, a `what`, with the nearest one that is there. */
enum mt_status mt_yaml_refuse(struct mt_context *ctx, const char *what, const char *folder, const char *name);

/* Where the name begins in a path; its length, without .yaml, to *length. */
const char *mt_yaml_name(const char *path, size_t *length);

#endif
