/* metier adapter --check: what an adapter is, what is wrong with it, who leaves out what; and --repair. */
#ifndef MT_CLI_ADAPTER_CHECK_H
#define MT_CLI_ADAPTER_CHECK_H

#include <stdbool.h>

#include "metier/context.h"

struct cli_adapter_check {
    const char *directory, *model;
    const char *out; // where to write it mended; NULL: it is only looked at
};

/* Prints; *sound: nothing is wrong, or it was mended. */
enum mt_status cli_adapter_check(struct mt_context *ctx, const struct cli_adapter_check *check, bool *sound);

#endif
