/* Built-in problems as rows of a file: {"prompt": ..., "completion": ..., "domain": ..., "task": ..., "id":
 * ...} */
#ifndef MT_SYNTH_ROWS_H
#define MT_SYNTH_ROWS_H

#include "base/files/file.h"
#include "synth/synth.h"

/* Writes `count` items, the sources taking turns. */
enum mt_status mt_synth_write_rows(struct mt_context *ctx, struct mt_synth *const *sources,
                                   size_t source_count, int64_t count, struct mt_file_writer *writer);

#endif
