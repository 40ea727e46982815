/* Where the program's own files are: told by the environment, beside the program, or in its source tree. */
#ifndef MT_CLI_SHARE_H
#define MT_CLI_SHARE_H

#include "base/arena.h"

/*
 * The folder `part` of the program's files: below $METIER_SHARE, share/metier beside the program's bin, or
 * the source tree's share, whichever has it first. The text lives in the arena; NULL: nowhere.
 */
enum mt_status cli_find_share(struct mt_arena *arena, const char *part, const char **folder);

/* Refuses with the places looked at, for `what` that was looked for. */
enum mt_status cli_share_missing(struct mt_context *ctx, const char *what);

#endif
