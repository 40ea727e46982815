/*
 * metier eval: which experts each task uses, from the same run that answers it. The sums are kept beside the
 * samples (routing_TASK.state), every few seconds and after a stop, so that a run that goes on has the
 * figures of all of it; only samples of a batch that was cut short are missing, and the file says of how many
 * samples its figures are. Other ranks than the first keep theirs in routing_TASK.state-RANK, which the first
 * takes in when the task ends, or when the next job begins.
 */
#ifndef MT_INFER_TASK_ROUTING_H
#define MT_INFER_TASK_ROUTING_H

#include "eval/run/summary.h"
#include "formats/text/lists.h"
#include "infer/routing_watch.h"

struct mt_task_routing {
    struct mt_context *ctx; // borrowed
    struct mt_comm *comm;   // borrowed
    const char *out;        // borrowed; gets routing_TASK.json and routing_TASK.state
    struct mt_routing_watch *watch;
    const struct mt_task *task; // in hand
    size_t covered;             // samples of it that the sums are of, of earlier runs, too
    struct mt_byte_list sums;   // as they were when nothing was open: what the state is written from
    bool unsaved;               // the state is older
    double saved;               // clock
};

/* Begins to watch on all ranks; the caller closes, before the session. */
enum mt_status mt_task_routing_open(struct mt_session *session, struct mt_comm *comm, const char *out,
                                    struct mt_task_routing *routing);
void mt_task_routing_close(struct mt_task_routing *routing); // a zeroed struct is allowed

/* What the runner tells of tasks, as long as the struct stays where it is. */
struct mt_task_watcher mt_task_routing_watcher(struct mt_task_routing *routing);

#endif
