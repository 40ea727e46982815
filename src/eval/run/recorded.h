/*
 * Answers made elsewhere, out of a JSONL file: {"task": "gsm8k", "id": "0", "answer": "..."}, or "answers":
 * [...] where a task asks for several. `id` is what the task's file names a row by, else the row's number
 * from 0; numbers may be numbers. A file for one task may leave `task` out.
 */
#ifndef MT_EVAL_RECORDED_H
#define MT_EVAL_RECORDED_H

#include "eval/answerer.h"

struct mt_recorded; // opaque

/* Opens and indexes a file; the caller closes. */
enum mt_status mt_recorded_open(struct mt_context *ctx, const char *path, struct mt_recorded **recorded);
void mt_recorded_close(struct mt_recorded *recorded); // NULL is allowed

/* An answerer over it, valid until it is closed. A question the file has no answer to is a failure. */
struct mt_answerer mt_recorded_answerer(struct mt_recorded *recorded);

#endif
