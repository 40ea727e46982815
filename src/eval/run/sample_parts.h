/*
 * Samples among ranks. They are shared out by the largest first, each to the rank that has least to do.
 *
 * The file of a task's samples, and the parts of it that several ranks write: OUT/samples_TASK.jsonl and
 * OUT/part_RANK_TASK.jsonl. Parts are brought into the file when a task ends, or when the next run finds
 * those of one that was killed; the file then has its lines in the order of the samples, whoever wrote them.
 */
#ifndef MT_EVAL_SAMPLE_PARTS_H
#define MT_EVAL_SAMPLE_PARTS_H

#include <stdint.h>

#include "metier/context.h"

#define MT_SAMPLE_PATH_BYTES 4096

/*
 * Work of known sizes cut into shares of nearly the same size, by the sizes alone: owner[i] becomes the
 * share, 0 ... shares-1, of piece i; pieces of size 0 are nobody's (-1).
 */
enum mt_status mt_shares_make(struct mt_context *ctx, const uint64_t *sizes, size_t count, int shares,
                              int32_t *owner);

/* OUT/samples_TASK.jsonl for part 0, else OUT/part_PART_TASK.jsonl. */
enum mt_status mt_sample_part_path(struct mt_context *ctx, const char *out, const char *task, int part,
                                   char path[MT_SAMPLE_PATH_BYTES]);

/*
 * Brings all parts into the file and sorts it by doc_id, unless there is nothing to do. Nobody has any of
 * them open. Lines of one sample stay in their order, the same line twice becomes one, a torn last line is
 * left out; a damaged one is refused before anything is moved. The new file is on the disk before the parts
 * go.
 */
enum mt_status mt_sample_parts_collect(struct mt_context *ctx, const char *out, const char *task);

#endif
