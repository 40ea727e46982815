/* A file of routing figures per task, and the sums they come from. */
#include "infer/task_routing.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files/file.h"
#include "formats/text/json_text.h"

#define PATH_BYTES   4096
#define SAVE_SECONDS 5.0
#define STATE_PART   "state-" // and the rank
#define MOST_BYTES   ((size_t)1 << 30)

enum mt_status mt_task_routing_open(struct mt_session *session, struct mt_comm *comm, const char *out,
                                    struct mt_task_routing *routing)
{
    *routing = (struct mt_task_routing){
        .ctx = session->ctx, .comm = comm, .out = out, .sums = {.ctx = session->ctx}};
    return mt_routing_watch_create(session, &routing->watch);
}

void mt_task_routing_close(struct mt_task_routing *routing)
{
    mt_routing_watch_destroy(routing->watch);
    mt_byte_list_free(&routing->sums);
    *routing = (struct mt_task_routing){0};
}

static enum mt_status path_of(const struct mt_task_routing *routing, const char *kind, char path[PATH_BYTES])
{
    int length = snprintf(path, PATH_BYTES, "%s/routing_%s.%s", routing->out, routing->task->name, kind);
    if (length >= 0 && length < PATH_BYTES) return MT_OK;
    return mt_fail(routing->ctx, MT_ERR_USAGE, "the path of the results is too long");
}

// ------------------------------------------------------------------ the sums on disk

/* A rank's own file of sums: the first's is the task's. */
static enum mt_status state_path(const struct mt_task_routing *routing, char path[PATH_BYTES])
{
    int rank = mt_comm_rank(routing->comm);
    if (rank == 0) return path_of(routing, "state", path);
    char kind[32];
    (void)snprintf(kind, sizeof kind, STATE_PART "%d", rank);
    return path_of(routing, kind, path);
}

/*
 * The state: how many samples, the sums, a checksum of both. One that is damaged, of another model, or of
 * more samples than were kept is as good as none.
 */
static void take_state(struct mt_task_routing *routing, const unsigned char *data, size_t bytes, size_t kept)
{
    uint64_t covered = 0;
    if (bytes < sizeof covered + MT_DIGEST_DIGITS) return;
    size_t whole = bytes - MT_DIGEST_DIGITS;
    struct mt_digest_text digest = mt_digest_of(data, whole);
    memcpy(&covered, data, sizeof covered);
    if (memcmp(digest.digits, data + whole, MT_DIGEST_DIGITS) != 0 || covered > kept - routing->covered)
        return;
    if (mt_collector_unpack(mt_routing_watch_collector(routing->watch), data + sizeof covered,
                            whole - sizeof covered))
        routing->covered += (size_t)covered;
}

static enum mt_status load(struct mt_task_routing *routing, const char *path, size_t kept)
{
    void *data = NULL;
    size_t bytes = 0;
    if (access(path, F_OK) != 0) return MT_OK;
    enum mt_status status = mt_file_read_all(routing->ctx, path, MOST_BYTES, &data, &bytes);
    if (status != MT_OK) return status;
    take_state(routing, data, bytes, kept);
    mt_release(routing->ctx, data, bytes);
    return MT_OK;
}

/* The sums as they were at the last rest, with what the outputs kept by now amount to. */
static enum mt_status save(struct mt_task_routing *routing)
{
    char path[PATH_BYTES];
    size_t before = routing->sums.count;
    enum mt_status status = state_path(routing, path);
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

/* Packs what was counted so far, of `covered` samples. */
static enum mt_status pack(struct mt_task_routing *routing)
{
    uint64_t covered = routing->covered;
    routing->sums.count = 0;
    routing->unsaved = true;
    enum mt_status status = mt_routing_watch_settle(routing->watch);
    if (status == MT_OK) status = mt_byte_list_append(&routing->sums, &covered, sizeof covered);
    if (status != MT_OK) return status;
    return mt_collector_pack_sums(mt_routing_watch_collector(routing->watch), &routing->sums);
}

/* True for "routing_TASK.state-RANK": what a rank of an earlier job left. */
static bool is_part(const struct mt_task_routing *routing, const char *file)
{
    char start[PATH_BYTES];
    int length = snprintf(start, sizeof start, "routing_%s." STATE_PART, routing->task->name);
    if (length < 0 || (size_t)length >= sizeof start || strncmp(file, start, (size_t)length) != 0)
        return false;
    const char *digits = file + length;
    return digits[0] != '\0' && digits[strspn(digits, "0123456789")] == '\0';
}

/*
 * Takes the parts of an earlier job's ranks in, with kept > 0, and away. They go before the whole is written:
 * what a kill in between loses is missing, which the figures say; twice in it would be wrong.
 */
static enum mt_status collect_parts(struct mt_task_routing *routing, size_t kept)
{
    char path[PATH_BYTES];
    bool any = false;
    enum mt_status status = MT_OK;
    DIR *directory = opendir(routing->out);
    if (directory == NULL)
        return mt_fail(routing->ctx, MT_ERR_IO, "%s: cannot read it: %s", routing->out, strerror(errno));
    for (struct dirent *entry = readdir(directory); entry != NULL && status == MT_OK;
         entry = readdir(directory)) {
        if (!is_part(routing, entry->d_name)) continue;
        int length = snprintf(path, sizeof path, "%s/%s", routing->out, entry->d_name);
        if (length < 0 || (size_t)length >= sizeof path) continue;
        if (kept > 0) status = load(routing, path, kept);
        if (status == MT_OK && unlink(path) != 0)
            status = mt_fail(routing->ctx, MT_ERR_IO, "%s: cannot remove it: %s", path, strerror(errno));
        any = true;
    }
    (void)closedir(directory);
    if (status == MT_OK && any && kept > 0) status = pack(routing);
    if (status == MT_OK && any && kept > 0) status = save(routing);
    return status;
}

// ------------------------------------------------------------------ what the runner tells

/* The first rank goes on from what earlier ones counted; the others begin with nothing. */
static enum mt_status task_began(void *self, const struct mt_task *task, size_t samples, size_t kept)
{
    struct mt_task_routing *routing = self;
    char path[PATH_BYTES];
    routing->task = task;
    routing->covered = 0;
    routing->unsaved = false;
    routing->saved = mt_clock_seconds();
    enum mt_status status = mt_routing_watch_begin(routing->watch, samples);
    if (status != MT_OK || mt_comm_rank(routing->comm) != 0) return status;
    status = state_path(routing, path);
    if (status == MT_OK && kept > 0) status = load(routing, path, kept);
    return status == MT_OK ? collect_parts(routing, kept) : status;
}

static enum mt_status task_rested(void *self, size_t asked)
{
    struct mt_task_routing *routing = self;
    routing->covered += asked;
    enum mt_status status = pack(routing);
    if (status != MT_OK || mt_clock_seconds() - routing->saved < SAVE_SECONDS) return status;
    return save(routing);
}

static enum mt_status write_figures(const struct mt_task_routing *routing,
                                    const struct mt_task_result *result, const struct mt_figures *figures)
{
    char path[PATH_BYTES];
    struct mt_json_text text;
    enum mt_status status = path_of(routing, "json", path);
    if (status != MT_OK) return status;
    mt_json_text_init(&text, routing->ctx);
    mt_json_text_format(&text, "{\"task\": ");
    mt_json_text_string(&text, result->task->name);
    mt_json_text_format(&text, ", \"samples\": %zu, \"of\": %zu, \"figures\": ", routing->covered,
                        result->done);
    mt_figures_put_json(figures, &text);
    mt_json_text_format(&text, "}\n");
    return mt_json_text_save(&text, path);
}

/* A whole task: the first rank has all sums by now, and writes them and the figures; parts go. */
static enum mt_status finish_task(struct mt_task_routing *routing, struct mt_task_result *result,
                                  const struct mt_figures *figures)
{
    char path[PATH_BYTES];
    enum mt_status status = state_path(routing, path);
    if (status != MT_OK) return status;
    if (mt_comm_rank(routing->comm) != 0) {
        if (unlink(path) == 0 || errno == ENOENT) return MT_OK;
        return mt_fail(routing->ctx, MT_ERR_IO, "%s: cannot remove it: %s", path, strerror(errno));
    }
    result->max_vio = figures->mean.max_violation;
    status = write_figures(routing, result, figures);
    if (status == MT_OK && mt_comm_size(routing->comm) > 1) status = pack(routing);
    return status == MT_OK && routing->unsaved ? save(routing) : status;
}

/* After a stop the sums hold parts of samples that will be asked again: only those of the last rest are kept.
 */
static enum mt_status task_ended(void *self, struct mt_task_result *result)
{
    struct mt_task_routing *routing = self;
    struct mt_figures figures = {0};
    int64_t covered = (int64_t)routing->covered;
    mt_comm_sum_i64(routing->comm, &covered, 1);
    if (result->stopped) {
        enum mt_status saved = routing->unsaved ? save(routing) : MT_OK;
        return mt_comm_agree(routing->comm, routing->ctx, saved);
    }
    if (covered == 0) return MT_OK;
    enum mt_status status = mt_routing_watch_figures(routing->watch, routing->comm, &figures);
    if (status != MT_OK) return status;
    if (mt_comm_rank(routing->comm) == 0) routing->covered = (size_t)covered;
    status = finish_task(routing, result, &figures);
    mt_figures_free(&figures);
    return mt_comm_agree(routing->comm, routing->ctx, status);
}

struct mt_task_watcher mt_task_routing_watcher(struct mt_task_routing *routing)
{
    return (struct mt_task_watcher){
        .self = routing, .began = task_began, .rested = task_rested, .ended = task_ended};
}
