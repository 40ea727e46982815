/* A task with its data open: samples by number, each with prompt, right answer and choices. */
#ifndef MT_EVAL_TASK_DATA_H
#define MT_EVAL_TASK_DATA_H

#include "base/log.h"
#include "eval/tasks/dropped_rows.h"
#include "eval/tasks/sample.h"

struct mt_task_data; // opaque

/* True when a file of the task's data is there; and the part of the list that begins with the first that is,
 * or NULL. */
bool mt_task_data_exists(const struct mt_task *task, const char *folder);
const char *const *mt_task_data_found(const struct mt_task *task, const char *folder);

/*
 * Opens the file or shards, `folder`/data or with .gz, reads every row and draws the examples. Rows that lack
 * a field, a choice or a right answer are dropped; where no other is left, the message says why. The task is
 * borrowed. The caller closes.
 */
enum mt_status mt_task_data_open(struct mt_context *ctx, const struct mt_task *task, const char *folder,
                                 struct mt_task_data **data);

/* The same for somebody who looks at every row: those that make no sense, or have no right answer, are
 * samples, too, and reading one of the former fails (MT_ERR_FORMAT). */
enum mt_status mt_task_data_open_all(struct mt_context *ctx, const struct mt_task *task, const char *folder,
                                     struct mt_task_data **data);

void mt_task_data_close(struct mt_task_data *data); // NULL is allowed

size_t mt_task_data_count(const struct mt_task_data *data);

/* The row of the file that a sample is, from 0; and a checksum of the file's text. */
uint64_t mt_task_data_row(const struct mt_task_data *data, size_t index);
struct mt_digest_text mt_task_data_sum(const struct mt_task_data *data);

/* Rows that cannot be asked or judged: they are no samples. Or those that cannot be looked at for examples.
 */
const struct mt_dropped_rows *mt_task_data_dropped(const struct mt_task_data *data, bool examples);

/* Warns of them, unless the task leaves rows without an answer out on purpose and there are no others. */
enum mt_status mt_task_data_warn(const struct mt_task_data *data, const struct mt_log *log);

const char *mt_task_data_path(const struct mt_task_data *data); // of the file

/* Makes sample `index`; what it holds lasts until the next call. */
enum mt_status mt_task_data_sample(const struct mt_task_data *data, size_t index,
                                   struct mt_task_sample *sample);

/* False where there is no right answer that an answer could be held against. */
bool mt_sample_answered(const struct mt_task *task, const struct mt_task_sample *sample);

#endif
