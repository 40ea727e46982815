/* Spans of time. */
#include "base/timeline.h"

#include <math.h>
#include <stdlib.h>

#include "base/clock.h"

enum mt_status mt_timeline_create(struct mt_context *ctx, size_t capacity, struct mt_timeline **timeline)
{
    void *memory = NULL;
    void *spans = NULL;
    *timeline = NULL;
    enum mt_status status = mt_allocate_array(ctx, 1, sizeof **timeline, &memory);
    if (status != MT_OK) return status;
    status = mt_allocate_array(ctx, capacity, sizeof(struct mt_span), &spans);
    if (status != MT_OK) {
        mt_release(ctx, memory, sizeof **timeline);
        return status;
    }
    *timeline = memory;
    **timeline = (struct mt_timeline){.ctx = ctx, .spans = spans, .capacity = capacity};
    mt_timeline_begin(*timeline);
    return MT_OK;
}

void mt_timeline_free(struct mt_timeline *timeline)
{
    if (timeline == NULL) return;
    struct mt_context *ctx = timeline->ctx;
    mt_release(ctx, timeline->spans, timeline->capacity * sizeof *timeline->spans);
    mt_release(ctx, timeline, sizeof *timeline);
}

void mt_timeline_begin(struct mt_timeline *timeline)
{
    if (timeline == NULL) return;
    timeline->count = 0;
    timeline->lost = 0;
    timeline->origin = mt_clock_seconds();
}

double mt_timeline_now(const struct mt_timeline *timeline)
{
    return timeline != NULL ? mt_clock_seconds() - timeline->origin : 0.0;
}

struct mt_span *mt_timeline_reserve(struct mt_timeline *timeline, enum mt_span_kind kind, int32_t number)
{
    if (timeline == NULL) return NULL;
    if (timeline->count == timeline->capacity) {
        timeline->lost++;
        return NULL;
    }
    struct mt_span *span = &timeline->spans[timeline->count++];
    *span = (struct mt_span){
        .begin = -timeline->origin, .end = -timeline->origin, .kind = (int32_t)kind, .number = number};
    return span;
}

void mt_timeline_add(struct mt_timeline *timeline, enum mt_span_kind kind, int32_t number, double begin)
{
    struct mt_span *span = mt_timeline_reserve(timeline, kind, number);
    if (span == NULL) return;
    span->begin = begin;
    span->end = mt_timeline_now(timeline);
}

const char *mt_span_name(int32_t kind)
{
    static const char *const names[MT_SPAN_KINDS] = {
#define MT_SPAN_NAME(name, text) text,
        MT_SPAN_LIST(MT_SPAN_NAME)
#undef MT_SPAN_NAME
    };
    return kind >= 0 && kind < MT_SPAN_KINDS ? names[kind] : "unknown";
}

/* By beginning; of two that begin together the longer one, which the other is part of, first. */
static int compare_spans(const void *left, const void *right)
{
    const struct mt_span *a = left;
    const struct mt_span *b = right;
    if (a->begin < b->begin || a->begin > b->begin) return a->begin < b->begin ? -1 : 1;
    if (a->end < b->end || a->end > b->end) return a->end > b->end ? -1 : 1;
    return (a->kind > b->kind) - (a->kind < b->kind);
}

/* Rows under way, two transfers at a time perhaps; an exchange with a number is the wait for one of them. */
static void add_rows(const struct mt_span *spans, size_t count, struct mt_overlap *overlap)
{
    double covered = 0.0;
    for (size_t i = 0; i < count; i++) {
        const struct mt_span *span = &spans[i];
        if (span->kind == MT_SPAN_EXCHANGE && span->number >= 0)
            overlap->rows_waited += span->end - span->begin;
        if (span->kind != MT_SPAN_ROWS) continue;
        overlap->rows_under_way += fmax(0.0, span->end - fmax(span->begin, covered));
        covered = fmax(covered, span->end);
    }
}

struct mt_overlap mt_timeline_overlap(struct mt_span *spans, size_t count)
{
    struct mt_overlap overlap = {0};
    double covered = 0.0; // up to here sums are counted
    size_t next = 0;
    if (count > 0) qsort(spans, count, sizeof *spans, compare_spans);
    for (size_t i = 0; i < count; i++) {
        const struct mt_span *wait = &spans[i];
        double latest = wait->begin;
        if (wait->kind != MT_SPAN_WAIT) continue;
        // Every sum ends within the wait of its step.
        for (; next < count && spans[next].begin < wait->end; next++) {
            const struct mt_span *sum = &spans[next];
            if (sum->kind != MT_SPAN_SUM) continue;
            double from = fmax(sum->begin, covered);
            overlap.under_way += fmax(0.0, sum->end - from);
            covered = fmax(covered, sum->end);
            latest = fmax(latest, sum->end);
        }
        overlap.waited += fmin(latest, wait->end) - wait->begin;
    }
    add_rows(spans, count, &overlap);
    return overlap;
}
