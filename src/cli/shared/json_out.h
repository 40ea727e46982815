/* What --json prints. */
#ifndef MT_CLI_JSON_OUT_H
#define MT_CLI_JSON_OUT_H

#include <jansson.h>

#include "metier/context.h"

/* A new value, the caller's: null for what is not finite, which JSON has no number for. */
json_t *cli_json_number(double value);

/*
 * Prints a value on standard output and gives it up. NULL is what json_pack makes when any piece of it is
 * NULL, be it for memory or for a text that is not UTF-8: refused, about `name`.
 */
enum mt_status cli_print_json(struct mt_context *ctx, json_t *value, const char *name);

#endif
