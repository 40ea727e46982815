/* metier train taken apart: finding what comes along, the dry run, the list of keys. */
#ifndef MT_CLI_TRAIN_H
#define MT_CLI_TRAIN_H

#include "train/trainer.h"

/*
 * The folder of the chat templates: $METIER_SHARE, share/metier beside the program's bin, or the source
 * tree's share, whichever is there first; "/templates" added. `name` is what is looked for in there: where no
 * folder is found, it must be a file itself. The text lives in the arena; NULL: only files.
 */
enum mt_status train_find_templates(struct mt_context *ctx, struct mt_arena *arena, const char *name,
                                    const char **folder);

/* Prints what the run would be. */
enum mt_status train_print_outline(struct mt_context *ctx, const struct mt_train_settings *settings,
                                   const struct mt_run_outline *outline);

/* Prints the first example with its trained tokens marked. */
enum mt_status train_print_example(struct mt_context *ctx, const struct mt_corpus *corpus);

/* Prints every key with its values, default and meaning. */
enum mt_status train_print_keys(struct mt_context *ctx);

#endif
