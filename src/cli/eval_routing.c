/* A file of routing figures per task. */
#include "cli/eval_routing.h"

#include <stdio.h>

#include "base/file.h"
#include "formats/json_text.h"

#define PATH_BYTES 4096

enum mt_status eval_routing_open(struct mt_session *session, struct mt_comm *comm, const char *out,
                                 struct eval_routing *routing)
{
    *routing = (struct eval_routing){.ctx = session->ctx, .comm = comm, .out = out};
    return mt_routing_watch_create(session, &routing->watch);
}

void eval_routing_close(struct eval_routing *routing)
{
    mt_routing_watch_destroy(routing->watch);
    *routing = (struct eval_routing){0};
}

static enum mt_status task_began(void *self, const struct mt_task *task, size_t samples)
{
    (void)task;
    struct eval_routing *routing = self;
    return mt_routing_watch_begin(routing->watch, samples);
}

static enum mt_status write_figures(const struct eval_routing *routing, const struct mt_task_result *result,
                                    const struct mt_figures *figures)
{
    char path[PATH_BYTES];
    struct mt_json_text text;
    int length = snprintf(path, sizeof path, "%s/routing_%s.json", routing->out, result->task->name);
    if (length < 0 || (size_t)length >= sizeof path)
        return mt_fail(routing->ctx, MT_ERR_USAGE, "the path of the results is too long");
    mt_json_text_init(&text, routing->ctx);
    enum mt_status status = mt_json_text_format(&text, "{\"task\": ");
    if (status == MT_OK) status = mt_json_text_string(&text, result->task->name);
    if (status == MT_OK)
        status = mt_json_text_format(&text, ", \"samples\": %zu, \"of\": %zu, \"figures\": ",
                                     result->done - result->kept, result->done);
    if (status == MT_OK) status = mt_figures_put_json(figures, &text);
    if (status == MT_OK) status = mt_json_text_format(&text, "}\n");
    if (status == MT_OK) status = mt_file_write_all(routing->ctx, path, text.bytes, text.length);
    mt_json_text_free(&text);
    return status;
}

/* A task of which nothing was asked now leaves the file of an earlier run alone. */
static enum mt_status task_ended(void *self, struct mt_task_result *result)
{
    const struct eval_routing *routing = self;
    struct mt_figures figures = {0};
    if (result->done == result->kept) return MT_OK;
    enum mt_status status = mt_routing_watch_figures(routing->watch, routing->comm, &figures);
    if (status != MT_OK) return status;
    if (mt_comm_rank(routing->comm) == 0) {
        status = write_figures(routing, result, &figures);
        result->max_vio = figures.mean.max_violation;
    }
    mt_figures_free(&figures);
    return mt_comm_agree(routing->comm, routing->ctx, status);
}

struct mt_task_watcher eval_routing_watcher(struct eval_routing *routing)
{
    return (struct mt_task_watcher){.self = routing, .began = task_began, .ended = task_ended};
}
