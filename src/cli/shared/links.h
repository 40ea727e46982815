/* The table of links between cards: share/plan/links.yaml, or a file of the user's. */
#ifndef MT_CLI_LINKS_H
#define MT_CLI_LINKS_H

#include "base/arena.h"
#include "train/scaling.h"

struct cli_link {
    const char *name;
    double gigabytes, microseconds;
    const char *source; // of the numbers
};

struct cli_links {
    const char *file;
    struct cli_link *list; // in the order of the file
    size_t count;
};

/* Reads a table; file NULL: the program's own. Everything lives in the arena. A row that is no link is
 * refused. */
enum mt_status cli_links_read(struct mt_context *ctx, struct mt_arena *arena, const char *file,
                              struct cli_links *links);

/* The link of that name; refused with the names there are. `option` named it. */
enum mt_status cli_links_find(struct mt_context *ctx, const struct cli_links *links, const char *option,
                              const char *name, struct mt_wire *wire);

/* A line for each link, as if all messages of the layout's step went over it: bytes, seconds, where from. */
enum mt_status cli_links_print(struct mt_context *ctx, const struct cli_links *links,
                               const struct mt_hf_config *config, const struct mt_layout *layout);

#endif
