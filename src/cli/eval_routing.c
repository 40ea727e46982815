/* A file of routing figures per task, and the sums they come from. */
#include "cli/eval_routing.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "formats/json_text.h"

#define PATH_BYTES   4096
#define SAVE_SECONDS 5.0
#define MOST_BYTES   ((size_t)1 << 30)

enum mt_status eval_routing_open(struct mt_session *session, const char *out, struct eval_routing *routing)
{
    *routing = (struct eval_routing){.ctx = session->ctx, .out = out, .sums = {.ctx = session->ctx}};
    return mt_routing_watch_create(session, &routing->watch);
}

void eval_routing_close(struct eval_routing *routing)
{
    mt_routing_watch_destroy(routing->watch);
    mt_byte_list_free(&routing->sums);
    *routing = (struct eval_routing){0};
}

static enum mt_status path_of(const struct eval_routing *routing, const char *kind, char path[PATH_BYTES])
{
    int length = snprintf(path, PATH_BYTES, "%s/routing_%s.%s", routing->out, routing->task->name, kind);
    if (length >= 0 && length < PATH_BYTES) return MT_OK;
    return mt_fail(routing->ctx, MT_ERR_USAGE, "the path of the results is too long");
}

// ------------------------------------------------------------------ the sums on disk

/*
 * The state: how many samples, the sums, a checksum of both. One that is damaged, of another model, or of
 * more samples than were kept is as good as none.
 */
static void take_state(struct eval_routing *routing, const unsigned char *data, size_t bytes, size_t kept)
{
    uint64_t covered = 0;
    if (bytes < sizeof covered + MT_DIGEST_DIGITS) return;
    size_t whole = bytes - MT_DIGEST_DIGITS;
    struct mt_digest_text digest = mt_digest_of(data, whole);
    memcpy(&covered, data, sizeof covered);
    if (memcmp(digest.digits, data + whole, MT_DIGEST_DIGITS) != 0 || covered > kept) return;
    if (mt_collector_unpack(mt_routing_watch_collector(routing->watch), data + sizeof covered,
                            whole - sizeof covered))
        routing->covered = (size_t)covered;
}

static enum mt_status load(struct eval_routing *routing, size_t kept)
{
    char path[PATH_BYTES];
    void *data = NULL;
    size_t bytes = 0;
    enum mt_status status = path_of(routing, "state", path);
    if (status != MT_OK || kept == 0 || access(path, F_OK) != 0) return status;
    status = mt_file_read_all(routing->ctx, path, MOST_BYTES, &data, &bytes);
    if (status != MT_OK) return status;
    take_state(routing, data, bytes, kept);
    mt_release(routing->ctx, data, bytes);
    return MT_OK;
}

/* The sums as they were at the last rest, with what the outputs kept by now amount to. */
static enum mt_status save(struct eval_routing *routing)
{
    char path[PATH_BYTES];
    size_t before = routing->sums.count;
    enum mt_status status = path_of(routing, "state", path);
    if (status == MT_OK)
        status = mt_collector_pack_outputs(mt_routing_watch_collector(routing->watch), &routing->sums);
    if (status == MT_OK) {
        struct mt_digest_text digest = mt_digest_of(routing->sums.data, routing->sums.count);
        status = mt_byte_list_append(&routing->sums, digest.digits, MT_DIGEST_DIGITS);
    }
    if (status == MT_OK)
        status = mt_file_write_all(routing->ctx, path, routing->sums.data, routing->sums.count);
    routing->sums.count = before;
    routing->unsaved = false;
    routing->saved = mt_clock_seconds();
    return status;
}

// ------------------------------------------------------------------ what the runner tells

static enum mt_status task_began(void *self, const struct mt_task *task, size_t kept)
{
    struct eval_routing *routing = self;
    routing->task = task;
    routing->covered = 0;
    routing->unsaved = false;
    routing->saved = mt_clock_seconds();
    enum mt_status status = mt_routing_watch_begin(routing->watch);
    return status == MT_OK ? load(routing, kept) : status;
}

static enum mt_status task_rested(void *self, size_t asked)
{
    struct eval_routing *routing = self;
    routing->covered += asked;
    routing->unsaved = true;
    routing->sums.count = 0;
    uint64_t covered = routing->covered;
    enum mt_status status = mt_byte_list_append(&routing->sums, &covered, sizeof covered);
    if (status == MT_OK)
        status = mt_collector_pack_sums(mt_routing_watch_collector(routing->watch), &routing->sums);
    if (status != MT_OK || mt_clock_seconds() - routing->saved < SAVE_SECONDS) return status;
    return save(routing);
}

static enum mt_status write_figures(const struct eval_routing *routing, const struct mt_task_result *result,
                                    const struct mt_figures *figures)
{
    char path[PATH_BYTES];
    struct mt_json_text text;
    mt_json_text_init(&text, routing->ctx);
    enum mt_status status = path_of(routing, "json", path);
    if (status == MT_OK) status = mt_json_text_format(&text, "{\"task\": ");
    if (status == MT_OK) status = mt_json_text_string(&text, result->task->name);
    if (status == MT_OK)
        status = mt_json_text_format(
            &text, ", \"samples\": %zu, \"of\": %zu, \"figures\": ", routing->covered, result->done);
    if (status == MT_OK) status = mt_figures_put_json(figures, &text);
    if (status == MT_OK) status = mt_json_text_format(&text, "}\n");
    if (status == MT_OK) status = mt_file_write_all(routing->ctx, path, text.bytes, text.length);
    mt_json_text_free(&text);
    return status;
}

/* After a stop the sums hold parts of samples that will be asked again: only those of the last rest are kept.
 */
static enum mt_status task_ended(void *self, struct mt_task_result *result)
{
    struct eval_routing *routing = self;
    struct mt_figures figures = {0};
    enum mt_status status = routing->unsaved ? save(routing) : MT_OK;
    if (status != MT_OK || result->stopped || routing->covered == 0) return status;
    status = mt_routing_watch_figures(routing->watch, &figures);
    if (status == MT_OK) status = write_figures(routing, result, &figures);
    if (status == MT_OK) result->max_vio = figures.mean.max_violation;
    mt_figures_free(&figures);
    return status;
}

struct mt_task_watcher eval_routing_watcher(struct eval_routing *routing)
{
    return (struct mt_task_watcher){
        .self = routing, .began = task_began, .rested = task_rested, .ended = task_ended};
}
