/* metier train taken apart: the dry run, the list of keys. */
#ifndef MT_CLI_TRAIN_H
#define MT_CLI_TRAIN_H

#include "train/trainer.h"

/* Prints what the run would be. */
enum mt_status cli_train_print_outline(struct mt_context *ctx, const struct mt_run_outline *outline);

/* Prints every key with its values, default and meaning. */
enum mt_status cli_train_print_keys(struct mt_context *ctx);

#endif
