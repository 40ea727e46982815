/* Where the program's own files are: told by the environment, or beside the program. */
#ifndef MT_CLI_SHARE_H
#define MT_CLI_SHARE_H

#include "base/arena.h"
#include "report/page.h"

/*
 * The folder `part` of the program's files: below $METIER_SHARE, or share/metier beside the program's bin (a
 * build folder links that to the source tree's share), whichever has it first. The text lives in the arena.
 * Where there is none, it is refused with the places looked at, for `what` that was looked for.
 */
enum mt_status cli_find_share(struct mt_arena *arena, const char *part, const char *what,
                              const char **folder);

/* The names of a folder's .yaml files, in order; [*count], in the arena. */
enum mt_status cli_list_yaml(struct mt_arena *arena, const char *folder, const char *const **names,
                             size_t *count);

/* Writes a page as HTML with the parts that come along. charts: Chart.js; NULL: where Debian puts it. Where
 * that is missing, a warning says so. */
enum mt_status cli_save_html(const struct mt_page *page, const char *charts, const char *path, size_t *bytes);

/* Warns of what cli_save_html will not find. */
void cli_check_html(struct mt_arena *arena, const char *charts);

/*
 * The folder of the chat templates. `name` is what is looked for in there: where no folder is found, it must
 * be a file itself; NULL: nothing yet. The text lives in the arena; NULL: only files.
 */
enum mt_status cli_find_templates(struct mt_arena *arena, const char *name, const char **folder);

#endif
