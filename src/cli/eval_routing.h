/* metier eval: which experts each task uses, from the same run that answers it. */
#ifndef MT_CLI_EVAL_ROUTING_H
#define MT_CLI_EVAL_ROUTING_H

#include "eval/runner.h"
#include "infer/routing_watch.h"

struct eval_routing {
    struct mt_context *ctx; // borrowed
    struct mt_comm *comm;   // borrowed
    const char *out;        // borrowed; gets routing_TASK.json
    struct mt_routing_watch *watch;
};

/* Begins to watch on all ranks; the caller closes, before the session. */
enum mt_status eval_routing_open(struct mt_session *session, struct mt_comm *comm, const char *out,
                                 struct eval_routing *routing);
void eval_routing_close(struct eval_routing *routing); // a zeroed struct is allowed

/* What the runner tells of tasks, as long as the struct stays where it is. */
struct mt_task_watcher eval_routing_watcher(struct eval_routing *routing);

#endif
