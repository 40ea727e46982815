/* The folders of checkpoints: names, the order of steps, which of them stay. */
#ifndef MT_TRAIN_STATE_FOLDERS_H
#define MT_TRAIN_STATE_FOLDERS_H

#include <stdbool.h>
#include <stdint.h>

#include "metier/context.h"

#define MT_STATE_NAME_BYTES 32

/* "step-00000200" */
void mt_state_folder_name(uint64_t step, char name[MT_STATE_NAME_BYTES]);

/*
 * The largest step below `below` that has a folder; other names, links and files are passed over. *found is
 * false when there is none, or no such folder at all.
 */
enum mt_status mt_state_step_below(struct mt_context *ctx, const char *folder, uint64_t below, bool *found,
                                   uint64_t *step);

/* Renames the checkpoints of steps above `step` to step-NNNNNNNN.superseded. */
enum mt_status mt_state_set_aside(struct mt_context *ctx, const char *folder, uint64_t step);

#endif
