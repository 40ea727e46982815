/*
 * Answers made elsewhere, out of a JSONL file: {"task": "gsm8k", "id": "0", "answer": "..."}, or "answers":
 * [...] where a task asks for several. `id` is what the task's file names a row by, else the row's number
 * from 0; numbers may be numbers. "finish_reason": "length" says that an answer was cut off. A file for one
 * task may leave `task` out.
 */
#ifndef MT_EVAL_RECORDED_H
#define MT_EVAL_RECORDED_H

#include "eval/answerer.h"
#include "eval/tasks/task.h"

struct mt_recorded; // opaque

/* Opens and indexes a file; the caller closes. */
enum mt_status mt_recorded_open(struct mt_context *ctx, const char *path, struct mt_recorded **recorded);
void mt_recorded_close(struct mt_recorded *recorded); // NULL is allowed

/* An answerer over it, valid until it is closed. A question the file has no answer to is a failure. */
struct mt_answerer mt_recorded_answerer(struct mt_recorded *recorded);

#define MT_RECORDED_NAMED 5

/*
 * How many answers match no question of the tasks, whose data lies in the folder; tasks without data are left
 * out. Appends the names of the first MT_RECORDED_NAMED to `names`, as "task gsm8k, id 7; ...".
 */
enum mt_status mt_recorded_unmatched(struct mt_recorded *recorded, const struct mt_task_list *list,
                                     const char *data, struct mt_byte_list *names, size_t *count);

#endif
