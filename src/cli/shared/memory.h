/* What a run would need, as a dry run shows it. */
#ifndef MT_CLI_MEMORY_H
#define MT_CLI_MEMORY_H

#include "train/trainer.h"

/* Prints the memory of the device and of the host, which may be one, beside what is free there. */
void cli_print_memory(const struct mt_run_memory *memory);

/* What was tried to fit the limit, the fastest first, and what would be gained with more; nothing without. */
enum mt_status cli_print_fit(struct mt_context *ctx, const struct mt_train_settings *settings,
                             const struct mt_fit *fit, const struct mt_memory_bound *bound);

#endif
