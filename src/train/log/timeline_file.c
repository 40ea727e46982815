/* Writing timelines: rank 0 asks one rank after the other for its spans and writes them out. */
#include "train/log/timeline_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/files/file.h"

#define LINE_BYTES   256
#define MICROSECONDS 1e6

struct collector {
    struct mt_comm *comm; // borrowed
    struct mt_context *ctx;
    struct mt_span *spans; // owned; [capacity]: of the rank at hand
    size_t capacity;
    struct mt_file_writer file; // rank 0's
    bool begun;                 // a line is in the file
};

static enum mt_status put_line(struct collector *collector, const char *line)
{
    char whole[LINE_BYTES + 4];
    int length = snprintf(whole, sizeof whole, "%s%s", collector->begun ? ",\n" : "[\n", line);
    collector->begun = true;
    return mt_file_writer_write(&collector->file, whole, (size_t)length);
}

/* Sums, values and rows have two ends that may lie anywhere among the other spans; what is done in order, one
 * line. */
static enum mt_status put_span(struct collector *collector, int rank, const struct mt_span *span)
{
    char line[LINE_BYTES];
    char name[64];
    const char *text = mt_span_name(span->kind);
    (void)snprintf(name, sizeof name, span->number >= 0 ? "%s %" PRId32 : "%s", text, span->number);
    double begin = span->begin * MICROSECONDS;
    double end = span->end * MICROSECONDS;
    if (span->kind != MT_SPAN_SUM && span->kind != MT_SPAN_VALUES && span->kind != MT_SPAN_ROWS) {
        (void)snprintf(line, sizeof line,
                       "{\"name\":\"%s\",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":%d,\"tid\":0,\"ts\":%.3f,"
                       "\"dur\":%.3f}",
                       name, text, rank, begin, end - begin);
        return put_line(collector, line);
    }
    enum mt_status status = MT_OK;
    for (int k = 0; status == MT_OK && k < 2; k++) {
        (void)snprintf(line, sizeof line,
                       "{\"name\":\"%s\",\"cat\":\"%s\",\"ph\":\"%c\",\"id\":%" PRId32
                       ",\"pid\":%d,\"tid\":0,\"ts\":%.3f}",
                       name, text, k == 0 ? 'b' : 'e', span->number, rank, k == 0 ? begin : end);
        status = put_line(collector, line);
    }
    return status;
}

static enum mt_status put_rank(struct collector *collector, int rank, size_t count)
{
    char line[LINE_BYTES];
    (void)snprintf(line, sizeof line,
                   "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"name\":\"rank %d\"}}",
                   rank, rank);
    enum mt_status status = put_line(collector, line);
    for (size_t i = 0; status == MT_OK && i < count; i++)
        status = put_span(collector, rank, &collector->spans[i]);
    return status;
}

/* What a rank has noted. */
struct counts {
    uint64_t spans, lost;
};

static enum mt_status open_collector(struct collector *collector, size_t capacity, const char *path)
{
    void *memory = NULL;
    if (mt_comm_rank(collector->comm) != 0) return MT_OK;
    enum mt_status status = mt_allocate_array(collector->ctx, capacity, sizeof *collector->spans, &memory);
    if (status != MT_OK) return status;
    collector->spans = memory;
    collector->capacity = capacity;
    return mt_file_writer_open(collector->ctx, path, &collector->file);
}

static void close_collector(struct collector *collector)
{
    mt_file_writer_abandon(&collector->file);
    mt_release(collector->ctx, collector->spans, collector->capacity * sizeof *collector->spans);
}

enum mt_status mt_timeline_write(struct mt_comm *comm, const struct mt_timeline *timeline, const char *path,
                                 struct mt_timeline_summary *summary)
{
    struct mt_context *ctx = timeline->ctx;
    struct collector collector = {.comm = comm, .ctx = ctx};
    bool writes = mt_comm_rank(comm) == 0;
    *summary = (struct mt_timeline_summary){0};
    enum mt_status status = open_collector(&collector, timeline->capacity, path);
    status = mt_comm_agree(comm, ctx, status);
    bool together = status == MT_OK;
    for (int rank = 0; together && rank < mt_comm_size(comm); rank++) {
        struct counts counts = {.spans = timeline->count, .lost = timeline->lost};
        mt_comm_broadcast(comm, &counts, sizeof counts, rank);
        mt_comm_hand_over(comm, rank, timeline->spans, collector.spans,
                          (size_t)counts.spans * sizeof *collector.spans);
        // After a failure the others' spans still come, and are dropped.
        if (!writes || status != MT_OK) continue;
        struct mt_overlap overlap = mt_timeline_overlap(collector.spans, (size_t)counts.spans);
        summary->overlap.under_way += overlap.under_way;
        summary->overlap.waited += overlap.waited;
        summary->overlap.rows_under_way += overlap.rows_under_way;
        summary->overlap.rows_waited += overlap.rows_waited;
        summary->spans += counts.spans;
        summary->lost += counts.lost;
        status = put_rank(&collector, rank, (size_t)counts.spans);
    }
    if (status == MT_OK && writes) status = mt_file_writer_write(&collector.file, "\n]\n", 3);
    if (status == MT_OK && writes) status = mt_file_writer_commit(&collector.file);
    close_collector(&collector);
    return mt_comm_agree(comm, ctx, status);
}
