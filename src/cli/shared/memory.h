/* What a run would need, as a dry run shows it. */
#ifndef MT_CLI_MEMORY_H
#define MT_CLI_MEMORY_H

#include "train/trainer.h"

/* Prints the memory of the device and of the host, which may be one, beside what is free there. */
void cli_print_memory(const struct mt_run_memory *memory);

#endif
